"""A data set from arrays and frames: queries kept whole, nothing silently changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 0, 3])


def test_query_ids_and_sizes_say_the_same() -> None:
    by_id = RankingDataset.from_arrays(X, Y, qid=[7, 7, 7, 3, 3, 9])
    by_size = RankingDataset.from_arrays(X, Y, group=[3, 2, 1])
    np.testing.assert_array_equal(by_id.queries.ptr, by_size.queries.ptr)
    assert list(by_id.queries.qid) == [7, 3, 9]
    assert by_id.feature_names == ("f1", "f2")
    assert by_id.features.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either qid .* or group"),
        ({"qid": [1] * 6, "group": [6]}, "either"),
        ({"group": [3, 2]}, "add up to the number|5 rows in the groups"),
        ({"group": [3, 3, 0]}, "size 0"),
        ({"group": [7, -1]}, "size -1"),
        ({"group": [3.5, 2.5]}, "whole numbers"),
        ({"qid": [1, 1, 2, 2, 1, 1]}, "query 1 appears again at row 4"),
        ({"qid": [1, 1, 2.5, 2.5, 3, 3]}, "whole numbers or text"),
        ({"qid": [1, 1, np.nan, 2, 3, 3]}, "row 2 has no query id"),
        ({"group": [3, 3], "weight": [1, 2, 3]}, "per query"),
        (
            {"group": [3, 3], "weight": [1, 1, 2, 1, 1, -1]},
            r"row 5 \(from 0, query 1\): weight -1.0 is not a finite",
        ),
        (
            {"group": [3, 3], "weight": [1, 1, np.nan, 1, 1, 1]},
            r"row 2 \(from 0, query 0\): weight nan",
        ),
        ({"group": [3, 3], "weight": [1.0, 0.0]}, "weight 0.0 is not a positive"),
        (
            {"group": [3, 3], "k": [1, 1, 2, 1, 1, 1]},
            r"row 2 \(from 0, query 0\): .*same cut-off",
        ),
        (
            {"group": [3, 3], "k": np.ma.array(np.ones(6), mask=[0, 0, 0, 0, 1, 0])},
            r"row 4 \(from 0, query 1\): .*missing",
        ),
        ({"group": [3, 3], "k": [1, 2.5]}, "query 1: k=2.5"),
        ({"group": [3, 3], "feature_names": ["a"]}, "2 features but 1 feature names"),
        ({"group": [3, 3], "feature_names": ["a", "a"]}, "distinct"),
        ({"group": [3, 3], "feature_names": "ab"}, "'ab' has no order"),
        ({"group": [3, 3], "feature_names": [None, "a"]}, "text, not None"),
        ({"group": [2**64, 3]}, "group sizes"),
        ({"group": [2**63 - 1, 2**63 - 1, 8]}, "overflows"),
        ({"group": [None, 6]}, "group sizes"),
        ({"group": [3 + 1j, 3 - 1j]}, "whole numbers"),
    ],
)
def test_arrays_that_cannot_be_ranked_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        RankingDataset.from_arrays(X, Y, **options)


def test_names_may_be_numbers_of_columns_and_are_text() -> None:
    assert RankingDataset.from_arrays(
        X, Y, group=[3, 3], feature_names=[1, np.int64(2)]
    ).feature_names == ("1", "2")
    with pytest.raises(DataError, match="must be text, not 1"):
        RankingDataset(X.astype(np.float32), Y, QueryIndex.from_sizes([3, 3]), (1, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (X, [0, 1, np.nan, 0, 0, 1], "row 2 .*label nan"),
        (X, [0, 1], "labels of shape"),
        (X[0], Y, "two-dimensional"),
        (np.full((6, 2), 1e300), Y, "range of float32"),
        (np.array([["a", "b"]] * 6), Y, "must be numbers"),
        (X, np.full(6, 1j), "complex128 are not real numbers"),
    ],
)
def test_values_that_would_change_are_refused(features: Any, labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        RankingDataset.from_arrays(features, labels, group=[3, 3])


def test_sorting_brings_queries_together_and_is_undone_on_the_way_out() -> None:
    ids = ["b", "a", "b", "c", "a", "b"]
    data = RankingDataset.from_arrays(X, Y, qid=ids, sort=True, weight=[2, 1, 2, 3, 1, 2])
    assert list(data.queries.qid) == ["b", "a", "c"]
    np.testing.assert_array_equal(data.labels, [0, 2, 3, 1, 0, 0])
    np.testing.assert_array_equal(data.queries.weights, [2, 1, 3])
    np.testing.assert_array_equal(data.in_input_order(data.labels), Y)
    already = RankingDataset.from_arrays(X, Y, qid=[1, 1, 2, 2, 3, 3], sort=True)
    assert already.input_rows is None


def test_weights_that_differ_within_a_query_are_of_documents_and_stay_with_their_rows() -> None:
    each = [2.0, 1, 0, 3, 4, 5]
    data = RankingDataset.from_arrays(
        X, Y, qid=["b", "a", "b", "c", "a", "b"], sort=True, weight=each
    )
    assert data.queries.weights is None
    assert data.document_weights is not None
    np.testing.assert_array_equal(data.document_weights, [2, 0, 5, 1, 4, 3])
    explicit = RankingDataset.from_arrays(X, Y, group=[3, 2, 1], weight=[1, 2, 3])
    both = replace(explicit.queries, document_weights=np.arange(6.0))
    explicit = replace(explicit, queries=both)
    np.testing.assert_array_equal(explicit.queries.weights, [1, 2, 3])
    np.testing.assert_array_equal(explicit.take([2, 0]).document_weights, [5, 0, 1, 2])
    np.testing.assert_array_equal(
        data.join(explicit).document_weights, [2, 0, 5, 1, 4, 3, *range(6)]
    )
    rng = np.random.default_rng(2)
    for other in (explicit.shuffled(rng), explicit.redrawn(rng), explicit.sample(3, 1)):
        rows = [
            int(np.flatnonzero((X.astype(np.float32) == row).all(axis=1))[0])
            for row in other.features
        ]
        np.testing.assert_array_equal(other.document_weights, rows)


def test_a_frame_gives_names_and_columns() -> None:
    frame = pd.DataFrame(X, columns=["bm25", "clicks"]).assign(
        worth=Y, session=["u", "u", "v", "v", "w", "w"]
    )
    data = RankingDataset.from_frame(frame, label="worth", qid="session")
    assert data.feature_names == ("bm25", "clicks")
    np.testing.assert_array_equal(data.features, X.astype(np.float32))
    with pytest.raises(DataError, match="no label column"):
        RankingDataset.from_frame(frame, qid="session")


def test_sparse_duplicates_are_summed_as_scipy_means_them() -> None:
    matrix = sparse.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 5], [1, 1, 0])), shape=(6, 2))
    data = RankingDataset.from_arrays(matrix, Y, group=[6])
    assert data.is_sparse
    assert data.features[0, 1] == 3.0


def test_take_keeps_queries_whole_and_in_the_order_asked_for() -> None:
    data = RankingDataset.from_arrays(X, Y, group=[3, 2, 1], weight=[1, 2, 3])
    part = data.take([2, 0])
    np.testing.assert_array_equal(part.labels, [3, 0, 1, 2])
    np.testing.assert_array_equal(part.queries.ptr, [0, 1, 4])
    np.testing.assert_array_equal(part.queries.weights, [3, 1])


def test_the_fingerprint_knows_every_number() -> None:
    data = RankingDataset.from_arrays(X, Y, group=[3, 2, 1])
    assert data.fingerprint == RankingDataset.from_arrays(X.copy(), Y, group=[3, 2, 1]).fingerprint
    changed = X.copy()
    changed[5, 1] += 1
    others = [
        RankingDataset.from_arrays(changed, Y, group=[3, 2, 1]),
        RankingDataset.from_arrays(X, Y + 1, group=[3, 2, 1]),
        RankingDataset.from_arrays(X, Y, group=[2, 3, 1]),
        RankingDataset.from_arrays(sparse.csr_matrix(X), Y, group=[3, 2, 1]),
    ]
    assert len({d.fingerprint for d in [data, *others]}) == 5


def test_columns_are_constant_within_queries_of_which_some_are_empty() -> None:
    features = np.array([[1, 0, 5], [1, 0, 5], [2, 0, 6], [2, 1, 6], [np.nan, 3, 7]], np.float32)
    for ptr in ([0, 2, 4, 5], [0, 2, 4, 5, 5, 5], [0, 0, 2, 2, 4, 5], [0, 0, 0, 2, 4, 4, 5, 5]):
        queries = QueryIndex(np.array(ptr), np.arange(len(ptr) - 1))
        rows = DenseRows(RankingDataset(features, np.zeros(5), queries), np.arange(3))
        assert rows.constant_within_queries(threads=1).tolist() == [0, 2]
    # An empty first query does not hide that the last rows differ.
    queries = QueryIndex(np.array([0, 0, 2]), np.arange(2))
    rows = DenseRows(RankingDataset(features[2:4], np.zeros(2), queries), np.arange(2))
    assert rows.constant_within_queries(threads=1).tolist() == [0]


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_fault_040_constant_and_missing_columns_are_named(layout: Any) -> None:
    columns = np.array([[1, 5, np.nan, 0], [2, 5, np.nan, 0], [3, 5, np.nan, 0]], dtype=np.float64)
    data = RankingDataset.from_arrays(layout(columns), [0, 1, 2], group=[3])
    assert data.constant_features() == ("f2", "f3", "f4")


def test_categories_of_columns_that_are_absent_do_not_stop_a_recoding() -> None:
    table = pd.DataFrame({"label": [1, 0], "qid": [1, 1], "colour": ["red", "blue"]})
    data = RankingDataset.from_frame(table, categorical_feature=["colour"])
    other = RankingDataset.from_frame(table[::-1], categorical_feature=["colour"])
    other = replace(other, categories={**other.categories, "size": other.categories["colour"]})
    assert other.like(data).features.tolist() == [[1.0], [0.0]]


def test_queries_are_selected_by_numbers_from_either_end_or_by_a_mask() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=[7, 7, 7, 3, 3, 9])
    for queries in ([1], [-2], [False, True, False], np.array([-2])):
        part = data.take(queries)
        assert part.queries.qid.tolist() == [3]
        np.testing.assert_array_equal(part.features, X[3:5])
    assert len(data.take([]).queries) == 0
    for beyond in ([3], [-4], [True]):
        with pytest.raises(IndexError):
            data.take(beyond)


def test_joined_ids_are_of_one_kind() -> None:
    numbers = RankingDataset.from_arrays(X, Y, qid=[1] * 3 + [2] * 3)
    others = RankingDataset.from_arrays(X, Y, qid=[5] * 3 + [6] * 3)
    texts = RankingDataset.from_arrays(X, Y, qid=["a"] * 3 + ["b"] * 3)
    same_texts = RankingDataset.from_arrays(X, Y, qid=["1"] * 3 + ["c"] * 3)
    assert numbers.join(others).queries.qid.dtype == np.int64
    for joined, qid in (
        (numbers.join(texts), ["1", "2", "a", "b"]),
        (texts.join(numbers), ["a", "b", "1", "2"]),
        (numbers.join(same_texts), [0, 1, 2, 3]),
    ):
        assert joined.queries.qid.tolist() == qid
        assert QueryIndex.from_ids(joined.queries.row_ids()).qid.tolist() == qid


def test_a_score_that_is_no_number_is_named_by_its_row_in_the_input() -> None:
    data = RankingDataset.from_arrays(X, Y, qid=[1, 2] * 3, sort=True)
    scores = np.arange(6.0)
    scores[1] = np.nan
    with pytest.raises(DataError, match=r"row 1 .*query 2"):
        boostrank.evaluate(scores, data)
