"""Faults 31 to 41: feature numbers, their base, the width, and the layout."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from boostrank.core.errors import DataWarning, ParameterError
from boostrank.data import dataset
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.files import blocks as _blocks
from tests.data.conftest import Read, dense, refused, same_bits, same_data

ONE_BASED = "1 qid:1 1:1 3:3\n0 qid:1 2:2\n"
ZERO_BASED = "1 qid:1 0:1 2:3\n0 qid:1 1:2\n"


def test_fault_031_a_file_is_zero_based_when_feature_0_occurs_anywhere(read: Read) -> None:
    one_based, zero_based = read(ONE_BASED), read(ZERO_BASED)
    assert (one_based.provenance.index_base, zero_based.provenance.index_base) == (1, 0)
    assert same_bits(dense(one_based), dense(zero_based))
    assert one_based.feature_names == ("f1", "f2", "f3")
    assert zero_based.feature_names == ("f0", "f1", "f2")
    late = "1 qid:1 1:1\n" * 5000 + "1 qid:1 0:7\n"
    assert read(late, chunk_bytes=1000, threads=2).feature_names == ("f0", "f1")


def test_fault_031_the_base_can_be_said(read: Read) -> None:
    data = read(ONE_BASED, zero_based=True)
    assert data.feature_names == ("f0", "f1", "f2", "f3")
    assert not dense(data)[:, 0].any()
    assert same_data(data, read(ONE_BASED, zero_based="true"))
    with refused("feature 0", "--zero-based true", line=3, column=13):
        read(ONE_BASED + "1 qid:2 1:1   0:5\n".replace("   ", " "), zero_based=False)
    with pytest.raises(ParameterError, match="zero_based"):
        read(ONE_BASED, zero_based="yes")


def test_fault_031_the_base_of_the_training_data_is_kept(read: Read) -> None:
    train = read(ZERO_BASED)
    test = read("1 qid:9 1:5\n", like=train)
    assert test.provenance.index_base == 0
    assert dense(test).tolist() == [[0, 5, 0]]
    assert test.feature_names == train.feature_names
    remembered = FeatureSpace(0, 3, train.feature_names)
    assert same_data(read("1 qid:9 1:5\n", like=remembered), test)


def test_fault_032_a_zero_based_file_after_one_based_training_data_is_refused(read: Read) -> None:
    with refused("feature 0", "training data count from 1", "--zero-based true", line=2, column=9):
        read("1 qid:8 1:1\n1 qid:9 0:1 1:2\n", like=read(ONE_BASED))


def test_fault_032_a_file_that_looks_one_based_after_zero_based_training_data_is_refused(
    read: Read,
) -> None:
    train = read(ZERO_BASED)
    with refused("seems to be 1-based", "--zero-based true", line=2):
        read("1 qid:8 1:1\n1 qid:9 3:1\n", like=train)
    with pytest.warns(DataWarning, match="1 values .*outside"):
        assert dense(read("1 qid:9 2:1 3:1\n", like=train, zero_based=True)).tolist() == [[0, 0, 1]]


def test_fault_032_saying_another_base_than_the_training_data_is_a_contradiction(
    read: Read,
) -> None:
    with pytest.raises(ParameterError, match="contradicts the training data"):
        read(ONE_BASED, like=read(ONE_BASED), zero_based=True)
    with pytest.raises(ParameterError, match="contradicts the training data"):
        read(ONE_BASED, like=FeatureSpace(0, 3), zero_based=False)


def test_fault_032_training_data_from_arrays_counts_from_1_unless_told_or_0_occurs(
    read: Read,
) -> None:
    train = RankingDataset.from_arrays(
        np.eye(3), [1, 0, 0], group=[3], feature_names=["a", "b", "c"]
    )
    data = read("1 qid:1 3:5\n", like=train)
    assert dense(data).tolist() == [[0, 0, 5]]
    assert data.feature_names == ("a", "b", "c")
    assert dense(read("1 qid:1 0:5\n", like=train, zero_based=True)).tolist() == [[5, 0, 0]]
    assert dense(read("1 qid:1 0:5\n", like=train)).tolist() == [[5, 0, 0]]
    with refused("feature 0", "--zero-based true", line=66):  # the first rows decide
        read("1 qid:1 1:5\n" * 65 + "1 qid:1 0:5\n", like=train)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("-1:5", "'-1:5' is not of the form number:value"),
        ("16777217:5", "'16777217' is above 16,777,216; raise --max-feature"),
        ("2147483648:5", "is above"),
        ("4294967298:5", "is above"),
        ("18446744073709551618:5", "is above"),
        ("9" * 40 + ":5", "is above"),
    ],
)
def test_fault_033_feature_numbers_out_of_range_are_refused(
    read: Read, token: str, words: str
) -> None:
    with refused(words, line=2, column=13):
        read(f"1 qid:1 1:1\n1 qid:1 1:1 {token}\n")


def test_fault_033_the_largest_feature_number_can_be_changed(read: Read) -> None:
    with refused("value 'x'", line=2):  # so line 1 was fine
        read("1 qid:1 2147483646:5\n1 qid:1 1:x\n", max_feature=2**31 - 2)
    assert read("1 qid:1 10:1\n", max_feature=10).n_features == 10
    with refused("above 10"):
        read("1 qid:1 11:1\n", max_feature=10)
    with pytest.raises(ParameterError, match="max_feature"):
        read(ONE_BASED, max_feature=2**31)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("1 qid:1 1:1 7:1 7:2", 17),
        ("1 qid:1 7:1 1:1 7:1", 17),
        ("1 qid:1 7:1 1:1 7:1 2:1", 17),
        ("1 qid:1 3:1 07:1 7:0 1:1", 18),
        ("1 qid:1 7:1 9:1 7:2", 17),
    ],
)
def test_fault_034_a_feature_twice_in_a_row_is_refused(read: Read, row: str, column: int) -> None:
    with refused("feature 7 occurs twice", line=2, column=column):
        read(f"1 qid:1 1:1\n{row} # 7:3\n")


def test_fault_035_descending_numbers_are_sorted_with_a_word_or_refused(read: Read) -> None:
    text = "1 qid:1 1:1 2:2 3:3\n0 qid:1 3:3 2:nan 1:1e-320\n1 qid:1 2:2 1:1\n"
    with pytest.warns(DataWarning, match="2 rows .*unsorted .*line 2"):
        data = read(text)
    assert same_bits(dense(data), np.array([[1, 2, 3], [1e-320, np.nan, 3], [1, 2, 0]], np.float32))
    with refused("--strict", "feature 2", line=2, column=13):
        read(text, strict=True)


def test_fault_035_a_long_shuffled_row_is_sorted(read: Read) -> None:
    order = np.random.default_rng(0).permutation(np.arange(1, 5001))
    row = " ".join(f"{i}:{i * 0.5}" for i in order)
    with pytest.warns(DataWarning, match="unsorted"):
        data = read(f"1 qid:1 {row}\n", layout="csr")
    assert data.features.has_sorted_indices
    assert np.array_equal(dense(data)[0], np.arange(1, 5001, dtype=np.float32) / 2)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("5", "'5' is not of the form number:value"),
        (":5", "':5' is not of the form number:value"),
        ("5:", "value '' of feature 5"),
        ("5: 0.5", "value '' of feature 5"),
        ("5:\t7", "value '' of feature 5"),
        ("x:1", "'x:1' is not of the form number:value"),
        ("1.0:3", "'1.0:3' is not of the form number:value"),
        ("+5:1", "'+5:1' is not of the form number:value"),
        ("5 :1", "'5' is not of the form number:value"),
        ("5:1:2", "value '1:2' of feature 5"),
        ("5:#", "value '' of feature 5"),
        ("sid:3", "'sid:3' is not of the form number:value"),
    ],
)
def test_fault_036_a_malformed_pair_is_refused(read: Read, token: str, words: str) -> None:
    with refused(words, line=2, column=13):
        read(f"1 qid:1 1:1\n1 qid:1 1:1 {token} 9:1\n")


def test_fault_037_a_row_may_have_no_features(read: Read) -> None:
    data = read("1 qid:1\n0 qid:1 2:1\n2 qid:2 # nothing\n")
    assert dense(data).tolist() == [[0, 0], [0, 1], [0, 0]]
    assert read("1 qid:1\n").n_features == 0


def test_fault_038_unknown_features_are_ignored_with_a_word_and_fewer_are_padded(
    read: Read,
) -> None:
    train = read(ONE_BASED)
    with pytest.warns(
        DataWarning,
        match="3 values .*number: 9, line 2",
    ):
        wide = read("1 qid:7 2:2 4:nan\n1 qid:7 1:1 8:8 9:9\n", like=train)
    assert dense(wide).tolist() == [[0, 2, 0], [1, 0, 0]]
    narrow = read("1 qid:7 1:1\n", like=train)
    assert narrow.n_features == 3
    with refused("feature 9 occurs twice"):
        read("1 qid:7 9:1 9:2\n", like=train)


def test_fault_038_a_width_can_be_demanded(read: Read) -> None:
    assert read(ONE_BASED, n_features=5).n_features == 5
    assert read(ZERO_BASED, n_features=3).n_features == 3
    with refused("feature 3 is beyond n_features=2", line=1):
        read(ONE_BASED, n_features=2)
    with pytest.raises(ParameterError, match="n_features and like"):
        read(ONE_BASED, n_features=3, like=read(ONE_BASED))
    with pytest.raises(ParameterError, match="n_features"):
        read(ONE_BASED, n_features=0)


def test_fault_039_offsets_are_64_bit_when_32_do_not_hold_them(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = read(ONE_BASED, layout="csr")
    assert narrow.features.indptr.dtype == np.int32
    monkeypatch.setattr(_blocks, "INT32_MAX", 2)
    wide = read(ONE_BASED, layout="csr", chunk_bytes=4)
    assert wide.features.indptr.dtype == np.int64
    assert wide.features.indices.dtype == np.int64
    assert same_data(wide, narrow)
    assert wide.fingerprint == narrow.fingerprint


def test_fault_040_constant_and_missing_columns_are_kept(read: Read) -> None:
    with pytest.warns(DataWarning, match="2 missing values: 2 in f2"):
        data = read("1 qid:1 1:7 2:nan 3:1\n0 qid:1 1:7 2:nan 3:2\n")
    assert same_bits(dense(data), np.array([[7, np.nan, 1], [7, np.nan, 2]], np.float32))


def test_fault_041_density_decides_the_layout(read: Read) -> None:
    assert not read(
        "1 qid:1 1:0 2:0\n1 qid:1 4:1 3:0\n".replace("4:1 3:0", "3:0 4:1")
    ).is_sparse  # 4 of 8 are present
    assert read("1 qid:1 1:0 2:0\n1 qid:1 4:1\n").is_sparse  # 3 of 8
    assert not read("1 qid:1 1:0 2:0\n1 qid:1 4:1\n", layout="dense").is_sparse
    with pytest.raises(ParameterError, match="layout"):
        read(ONE_BASED, layout="sparse")
    with pytest.warns(
        DataWarning, match="2 values .* ignored"
    ):  # 3 of 8, whatever there is beyond them
        assert read("1 qid:1 1:0 2:0 5:1\n1 qid:1 4:1 5:1\n", like=FeatureSpace(1, 4)).is_sparse


@pytest.mark.parametrize("chunk_bytes", [10, 300, 1 << 20])
def test_fault_041_both_layouts_hold_the_same_numbers(read: Read, chunk_bytes: int) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for share in np.repeat([0.05, 0.95, 0.5], 40):  # chunks of both kinds in one file
        present = np.flatnonzero(rng.random(30) < share)
        cells = " ".join(f"{i}:{rng.choice(['0', '-0', 'nan', '1.5', '-2e-3'])}" for i in present)
        rows.append(f"1 qid:1 {cells}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        full = read("".join(rows), layout="dense", chunk_bytes=chunk_bytes)
        thin = read("".join(rows), layout="csr", chunk_bytes=chunk_bytes)
    assert same_bits(dense(full), dense(thin))
    assert thin.features.has_sorted_indices
    stored = thin.features.data
    # What is not named is zero: zeros need no name.
    assert not np.any((stored == 0) & ~np.signbit(stored))


def test_names_that_number_the_features_are_not_looked_up_for_twins(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a row with feature 16,777,216 that would take longer than all else, and again for every
    part of the data.
    """
    looked_up: list[object] = []
    monkeypatch.setattr(
        dataset, "set", lambda names: looked_up.append(names) or set(names), raising=False
    )
    data = read("1 qid:1 1:1 9:2\n0 qid:2 3:1\n")
    assert data.take([1]).feature_names == tuple(f"f{i}" for i in range(1, 10))
    assert not looked_up
    replace(data, feature_names=tuple("abcdefghi"))
    assert looked_up
