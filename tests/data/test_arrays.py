"""One door for arrays: what enters is checked before compiled code follows it, and belongs to the
data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import DataError, DataWarning
from boostrank.data.dataset import RankingDataset

ROWS, FEATURES = 12, 3
GROUP = [4, 4, 4]
FORMATS = ["csr", "csc", "bsr", "coo"]


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((ROWS, FEATURES)).astype(np.float32), rng.integers(0, 3, ROWS).astype(
        np.float64
    )


def matrix(kind: str) -> Any:
    return sparse.random(
        ROWS, FEATURES, 0.5, format=kind, dtype=np.float32, random_state=np.random.default_rng(0)
    )


def broken(kind: str, how: str) -> Any:
    """A sparse matrix with an index that leads out of it."""
    sparse_matrix = matrix(kind)
    index = sparse_matrix.row if kind == "coo" else sparse_matrix.indices
    if how == "negative":
        index[0] = -5
    elif how == "beyond":
        index[0] = 10**6
    elif how == "row":
        (sparse_matrix.col if kind == "coo" else sparse_matrix.indptr)[2] = 10**6
    return sparse_matrix


@pytest.mark.parametrize("how", ["negative", "beyond", "row"])
@pytest.mark.parametrize("kind", FORMATS)
def test_fault_100_indices_that_lead_out_of_a_sparse_matrix_are_refused(
    kind: str, how: str
) -> None:
    with pytest.raises(DataError, match="sparse matrix is invalid"):
        RankingDataset.from_arrays(broken(kind, how), numbers()[1], group=GROUP)


def test_fault_100_in_rows_to_score_too() -> None:
    X, y = numbers()
    params = {"objective": "sdcg", "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_threads": 1}
    model = boostrank.train(params, RankingDataset.from_arrays(X, y, group=GROUP), 2)
    with pytest.raises(DataError, match="sparse matrix is invalid"):
        model.predict(broken("csr", "negative"))


@pytest.mark.parametrize("kind", ["dense", "float64", *FORMATS])
def test_fault_101_what_is_done_to_the_arrays_later_leaves_the_data_set_as_it_is(kind: str) -> None:
    X, y = numbers()
    if kind == "dense":
        table = X
    elif kind == "float64":
        table = X.astype(np.float64)
    else:
        table = matrix(kind)
    qid, weight, k = np.repeat([3, 4, 5], 4), np.array([1.0, 2.0, 3.0]), np.array([0, 5, 6])
    data = RankingDataset.from_arrays(table, y, qid=qid, weight=weight, k=k)
    index = data.queries

    def copy_contents() -> list[np.ndarray]:
        rows = data.features.toarray() if sparse.issparse(data.features) else data.features
        return [
            rows.copy(),
            data.labels.copy(),
            index.qid.copy(),
            index.weights.copy(),
            index.k.copy(),
        ]

    before = copy_contents()
    for array in (table.data if sparse.issparse(table) else table, y, qid, weight, k):
        array[...] = 99
    for old, new in zip(before, copy_contents(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_fault_101_memory_that_is_handed_out_is_copied_too() -> None:
    @dataclass
    class Lender:
        values: np.ndarray

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.values

    X, y = numbers()
    labels = y.astype(np.float64)
    column = labels[:, None]
    for lend in (Lender, memoryview, np.ma.masked_array):
        for label_values in (labels, column):
            data = RankingDataset.from_arrays(
                lend(X), lend(label_values), group=GROUP, weight=lend(label_values + 1.0)
            )
            assert not np.shares_memory(data.features, X)
            assert not np.shares_memory(data.labels, labels)
    data = RankingDataset.from_arrays(
        X, labels.tolist(), group=GROUP, weight=(labels + 1.0).tolist()
    )
    np.testing.assert_array_equal(data.labels, labels)


def test_features_are_shared_where_that_is_asked_for() -> None:
    X, y = numbers()
    data = RankingDataset.from_arrays(X, y, group=GROUP, copy=False)
    assert np.shares_memory(data.features, X)


def test_fault_102_what_a_masked_array_hides_is_missing() -> None:
    X, y = numbers()
    for features in (
        np.ma.masked_array(X, X > 0.5),
        np.ma.masked_array((X * 9).astype(np.int64), X > 0.5),
    ):
        np.testing.assert_array_equal(
            np.isnan(RankingDataset.from_arrays(features, y, group=GROUP).features), X > 0.5
        )
    bare = RankingDataset.from_arrays(
        np.ma.masked_array(X), np.ma.masked_array(y), group=np.ma.masked_array(GROUP)
    )
    np.testing.assert_array_equal(bare.features, X)
    for kind, words in (
        ("S3", "features must be numbers"),
        ("M8[s]", "not real numbers"),
        ("c16", "not real numbers"),
    ):
        hidden = np.ma.masked_array(np.zeros(X.shape, kind), X > 0.5)
        with pytest.raises(DataError, match=words):
            RankingDataset.from_arrays(hidden, y, group=GROUP)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("y", "row 1 .*label nan"),
        ("qid", "row 1 has no query id"),
        ("group", "group 1 is masked"),
        ("weight", "query 1: weight nan"),
        ("k", "query 1: k=nan"),
    ],
)
def test_fault_102_nothing_else_may_be_masked(what: str, message: str) -> None:
    X, y = numbers()
    arguments = {"y": y, "group": np.array(GROUP), "weight": np.ones(3), "k": np.ones(3)}
    if what == "qid":
        arguments |= {"qid": np.repeat([1, 2, 3], 4)}
        del arguments["group"]
    arguments[what] = np.ma.masked_array(arguments[what], np.arange(len(arguments[what])) == 1)
    with pytest.raises(DataError, match=message):
        RankingDataset.from_arrays(X, **arguments)


def test_fault_103_sizes_and_weights_that_overflow_are_refused() -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="overflows"):
        RankingDataset.from_arrays(X, y, group=[2**62] * 4 + [ROWS])
    with pytest.raises(DataError, match="divide them"):
        RankingDataset.from_arrays(X, y, group=GROUP, weight=[1e308] * 3)


def test_no_rows_are_nothing_to_learn_from() -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="have no rows"):
        boostrank.train({}, RankingDataset.from_arrays(X[:0], y[:0], group=[]), 2)


def test_names_are_text() -> None:
    X, y = numbers()
    assert RankingDataset.from_arrays(X, y, group=GROUP, feature_names=[1, 2, 3]).feature_names == (
        "1",
        "2",
        "3",
    )


def test_more_columns_than_can_have_names_are_refused() -> None:
    wide = sparse.csr_matrix((4, 2**40), dtype=np.float32)
    with pytest.raises(DataError, match=r"1,099,511,627,776 columns.* 16,777,216"):
        RankingDataset.from_arrays(wide, [0, 1, 0, 1], group=[4])


@pytest.mark.parametrize("kind", FORMATS)
def test_complex_features_are_refused_in_every_form(kind: str) -> None:
    y = numbers()[1]
    with pytest.raises(DataError, match="complex128"):
        RankingDataset.from_arrays(matrix(kind).astype(np.complex128), y, group=GROUP)
    pd = pytest.importorskip("pandas", reason="frames of pandas")
    with pytest.raises(DataError, match=r"'a' .*complex"):
        RankingDataset.from_arrays(pd.DataFrame({"a": np.ones(ROWS) * 1j}), y, group=GROUP)


SECONDS = np.arange(ROWS).astype("m8[s]")


@pytest.mark.parametrize("what", ["y", "weight", "k"])
@pytest.mark.parametrize(
    "values",
    [
        SECONDS,
        SECONDS + np.datetime64(0, "s"),
        list(SECONDS),
        np.fromiter(SECONDS, object, ROWS),
        np.ones(ROWS) * 1j,
        np.ma.masked_array(SECONDS),
    ],
)
def test_times_and_complex_numbers_are_no_labels_and_no_weights(what: str, values: Any) -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="not real numbers"):
        RankingDataset.from_arrays(X, **{"y": y, what: values}, group=GROUP)
    with pytest.raises(DataError, match="not real numbers"):
        boostrank.Metric("ndcg").evaluate(values, y, GROUP)


@pytest.mark.parametrize("what", ["y", "weight"])
@pytest.mark.parametrize(
    "values", [[[1], [2, 3]], [10**400] * ROWS, [np.ones((2, 3)), np.ones((2, 4))]]
)
def test_lists_of_lists_and_numbers_too_large_for_any_are_refused_in_words(
    what: str, values: Any
) -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="must be numbers"):
        RankingDataset.from_arrays(X, **{"y": y, what: values}, group=GROUP)
    with pytest.raises(DataError, match="features must be"):
        RankingDataset.from_arrays([[cell, cell] for cell in values], y, group=GROUP)


@pytest.mark.parametrize("names", [5, "abc", {"a", "b", "c"}])
def test_names_are_a_list(names: Any) -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="has no order"):
        RankingDataset.from_arrays(X, y, group=GROUP, feature_names=names)


@pytest.mark.parametrize("name", ["a\0", "a\ud800"])
def test_names_hold_what_model_files_can(name: str) -> None:
    X, y = numbers()
    with pytest.raises(DataError, match="NUL or half"):
        RankingDataset.from_arrays(X, y, group=GROUP, feature_names=[name, "a", "c"])


class Rows:
    """A data set of dictionaries, such as those of Hugging Face."""

    shape = (6, 3)

    def __len__(self) -> int:
        return len(GROUP)

    def __getitem__(self, row: int) -> dict[str, float]:
        raise AssertionError("the rows are not read")

    def to_pandas(self) -> None:
        """Return a frame."""


def test_data_sets_of_dictionaries_are_refused_with_the_call_that_collects_them() -> None:
    with pytest.raises(DataError, match=r"type Rows.*to_pandas\(\)"):
        RankingDataset.from_arrays(Rows(), numbers()[1], group=GROUP)
    with pytest.raises(DataError, match=r"type Rows.*to_pandas\(\)"):
        boostrank.BoostRanker().fit(Rows(), numbers()[1], group=GROUP)
    with pytest.raises(DataError, match=r"Rows is not a data frame.*to_pandas\(\)"):
        RankingDataset.from_frame(Rows())


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_rounded_integers_are_told_by_column(kind: Any) -> None:
    integers = kind(np.array([[1, 2**24 + 1], [0, 0]]))
    with pytest.warns(DataWarning, match="'f2'") as caught:
        RankingDataset.from_arrays(integers, [0, 1], group=[2])
    assert "'f1'" not in str(caught[0].message)
