"""What is written reads back to the same bits."""

from __future__ import annotations

import gzip
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from boostrank.core.errors import DataError, DataWarning, InputError, TrainingError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.store import stream_files
from boostrank.files.writer import score_text, write_libsvm
from tests.data.conftest import dense, same_bits


def round_trip(
    tmp_path: Path, data: RankingDataset, name: str = "data.txt", **options: Any
) -> RankingDataset:
    write_libsvm(tmp_path / name, data, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read_libsvm(tmp_path / name, inf="keep", keep_names=True)


def assert_same(back: RankingDataset, data: RankingDataset) -> None:
    assert same_bits(dense(back), dense(data))
    assert back.is_sparse == data.is_sparse
    assert np.array_equal(back.labels, data.labels)
    assert back.queries.qid.tolist() == data.queries.qid.tolist()
    assert np.array_equal(back.queries.ptr, data.queries.ptr)


@given(
    bits=hnp.arrays(np.uint32, (6, 4), elements=st.integers(0, 2**32 - 1)), zero_based=st.booleans()
)
def test_every_float32_comes_back(tmp_path: Path, bits: np.ndarray, zero_based: bool) -> None:
    X = bits.view(np.float32)
    data = RankingDataset.from_arrays(X, [0, 1, 2.5, -1, 1e300, 0.1], qid=[3, 3, 3, 1, 1, 2])
    back = round_trip(tmp_path, data, zero_based=zero_based)
    assert_same(back, data)
    assert back.provenance.index_base == (0 if zero_based else 1)


def test_200_000_random_bit_patterns_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2**32, (5000, 40), dtype=np.uint64).astype(np.uint32).view(np.float32)
    data = RankingDataset.from_arrays(X, np.zeros(5000), group=[5000])
    assert same_bits(dense(round_trip(tmp_path, data)), X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_features_that_cannot_be_written_to_are_written_out(tmp_path: Path, kind: Any) -> None:
    features = kind(np.arange(12, dtype=np.float32).reshape(4, 3))
    (features if kind is np.asarray else features.data).flags.writeable = False
    data = RankingDataset(features, np.zeros(4), QueryIndex.from_sizes([4]))
    write_libsvm(tmp_path / "a.txt", data)
    assert (tmp_path / "a.txt").read_text().splitlines()[1] == "0 qid:0 1:3 2:4 3:5"


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e12])
def test_numbers_are_as_short_as_numpys_shortest(tmp_path: Path, scale: float) -> None:
    values = (np.random.default_rng(4).normal(size=2000) * scale).astype(np.float32)
    write_libsvm(
        tmp_path / "data.txt",
        RankingDataset.from_arrays(values[:, None], np.zeros(2000), group=[2000]),
    )
    for line, value in zip((tmp_path / "data.txt").read_text().splitlines(), values, strict=True):
        mantissa = line.split(":")[2].split("e")[0]
        shortest = np.format_float_scientific(value, unique=True, trim="-").split("e")[0]
        assert len(significant(mantissa)) <= len(significant(shortest)), (line, shortest)


def test_powers_of_ten_and_their_neighbours_come_back(tmp_path: Path) -> None:
    powers = np.array([float(f"1e{k}") for k in range(-45, 39)], np.float32)
    edges = np.array(
        [2.0**-39, 2.0**49, 0.5, 9.5, 12345.678, 1234560.0, 2.5e6, 9999999.0, 2.5e-5], np.float32
    )
    up = np.float32(np.inf)
    values = np.concatenate([powers, edges])
    values = np.concatenate([values, np.nextafter(values, up), np.nextafter(values, -up)])
    values = np.concatenate([values, -values])
    data = RankingDataset.from_arrays(values[:, None], np.zeros(values.size), group=[values.size])
    assert_same(round_trip(tmp_path, data), data)


def significant(mantissa: str) -> str:
    return mantissa.replace(".", "").lstrip("-0").rstrip("0")


def test_the_text_is_what_one_would_write_by_hand(tmp_path: Path) -> None:
    X = np.array([[1, 0.5, -0.0], [np.nan, 1e-7, 2.5e20]], np.float32)
    data = RankingDataset.from_arrays(X, [2, 0.25], qid=["a", "b"])
    queries = replace(data.queries, words=np.array(["red shoe", ""], object))
    write_libsvm(tmp_path / "data.txt", replace(data, queries=queries, document_names=["7", ""]))
    assert (tmp_path / "data.txt").read_text() == (
        "# qid:a: red shoe\n2 qid:a 1:1 2:0.5 3:-0 # 7\n0.25 qid:b 1:nan 2:1e-07 3:2.5e+20\n"
    )


@pytest.mark.parametrize("zero_based", [False, True])
def test_a_sparse_matrix_keeps_its_width_and_base(tmp_path: Path, zero_based: bool) -> None:
    X = sparse.csr_matrix(
        (np.array([1.5, -0.0, 3], np.float32), ([0, 2, 2], [3, 5, 4])), shape=(4, 9)
    )
    data = RankingDataset.from_arrays(X, [1, 0, 0, 2], qid=[1, 1, 2, 2])
    back = round_trip(tmp_path, data, zero_based=zero_based)
    assert_same(back, data)
    assert back.provenance.index_base == (0 if zero_based else 1)
    assert back.fingerprint == data.fingerprint
    # Rows on disk give the same text.
    text = (tmp_path / "data.txt").read_bytes()
    write_libsvm(tmp_path / "b.txt", stream_files(tmp_path / "data.txt"), zero_based=zero_based)
    assert (tmp_path / "b.txt").read_bytes() == text


def test_a_query_id_with_a_colon_keeps_its_text(tmp_path: Path) -> None:
    data = RankingDataset.from_arrays(np.eye(2), [1, 0], qid=["a:b", "c"])
    words = np.array(["red: shoe", "hat"], object)
    data = replace(data, queries=replace(data.queries, words=words))
    assert round_trip(tmp_path, data).queries.words.tolist() == ["red: shoe", "hat"]


def test_many_batches_and_names_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from boostrank.files import writer

    batches: list[int] = []
    cells = writer._cells
    monkeypatch.setattr(writer, "_BATCH_CELLS", 50)
    monkeypatch.setattr(
        writer, "_cells", lambda features: batches.append(features.shape[0]) or cells(features)
    )
    rng = np.random.default_rng(0)
    names = [str(i) if i % 3 else "" for i in range(200)]
    thin = sparse.csr_matrix(rng.normal(size=(200, 70)) * (rng.random((200, 70)) < 0.05))
    for X, rows in ((rng.normal(size=(200, 7)), 7), (thin, 1)):
        data = RankingDataset.from_arrays(X, rng.integers(0, 3, 200), qid=np.arange(200) // 9)
        back = round_trip(tmp_path, replace(data, document_names=names))
        assert_same(back, data)
        assert back.document_names is not None
        assert back.document_names.tolist() == names
        again = round_trip(tmp_path, back, "again").document_names
        assert again is not None
        assert again.tolist() == names
        assert max(batches) == rows
        batches.clear()


def test_a_name_in_gz_is_compressed_and_reproducible(tmp_path: Path) -> None:
    data = RankingDataset.from_arrays(np.eye(5), np.arange(5), group=[2, 3])
    assert_same(round_trip(tmp_path, data, "data.txt.gz"), data)
    first = (tmp_path / "data.txt.gz").read_bytes()
    write_libsvm(tmp_path / "again.gz", data)
    assert (tmp_path / "again.gz").read_bytes() == first
    write_libsvm(tmp_path / "plain.txt", data)
    assert gzip.decompress(first) == (tmp_path / "plain.txt").read_bytes()


def test_weights_go_to_a_sidecar(tmp_path: Path) -> None:
    queries = QueryIndex.from_sizes([2, 3], weights=[0.1, 7.0])
    data = RankingDataset(np.eye(5, dtype=np.float32), np.arange(5.0), queries)
    weights = round_trip(tmp_path, data).queries.weights
    assert weights is not None
    assert weights.tolist() == [0.1, 7.0]
    each = replace(data, queries=QueryIndex.from_sizes([2, 3]))
    each = replace(
        each, queries=replace(each.queries, document_weights=np.array([0.0, 0.1, 1, 1, 1]))
    )
    of_documents = round_trip(tmp_path, each).document_weights
    assert of_documents is not None
    assert of_documents.tolist() == [0.0, 0.1, 1, 1, 1]
    for other, words in (
        ({"weights": np.ones(2)}, "not both"),
        ({"document_weights": np.ones(5)}, "query weights"),
    ):
        with pytest.raises(DataError, match=words):
            round_trip(tmp_path, replace(each, queries=replace(each.queries, **other)))


def test_a_sidecar_of_other_data_is_not_adopted(tmp_path: Path) -> None:
    data = RankingDataset.from_arrays(np.eye(2), [0, 1], group=[2])
    for suffix in (".weight", ".query", ".group"):
        stale = tmp_path / f"data.txt{suffix}"
        stale.write_text("1\n1\n")
        with pytest.raises(InputError, match="would be read with"):
            write_libsvm(tmp_path / "data.txt", data)
        stale.unlink()
    assert not (tmp_path / "data.txt").exists()


@pytest.mark.parametrize("name", ["a b", "a#b", "", "a\n", "\u00a0"])
def test_an_id_that_the_format_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        write_libsvm(
            tmp_path / "data.txt", (np.eye(2), [0, 1], np.array(["x", name], dtype=object))
        )


@pytest.mark.parametrize("name", ["b\nc", "b c", " ", "docid=b"])
def test_names_that_the_format_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    data = RankingDataset.from_arrays(np.eye(2), [0, 1], group=[2])
    with pytest.raises(DataError, match="row 1"):
        write_libsvm(tmp_path / "data.txt", replace(data, document_names=["a", name]))
    with pytest.raises(DataError, match=r"2 rows.*document names.*1,"):
        replace(data, document_names=["a"])


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from boostrank.files import writer

    data = RankingDataset.from_arrays(np.eye(2), [0, 1], group=[2])
    path = tmp_path / "data.txt"
    write_libsvm(path, data)
    before = path.read_bytes()

    def full(*_: Any) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "_cells", full)
    with pytest.raises(TrainingError, match="No space left"):
        write_libsvm(path, data)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["data.txt"]
    with pytest.raises(TrainingError, match="does not exist"):
        write_libsvm(tmp_path / "absent" / "data.txt", data)


@pytest.mark.fault(89)
def test_scores_are_written_as_python_writes_them() -> None:
    # Ends of the range, powers and their neighbours, and random numbers of several kinds.
    rng = np.random.default_rng(5)
    powers = np.concatenate([10.0 ** np.arange(-7, 20), 2.0 ** np.arange(-60, 60)])
    odd = [
        0.0,
        -0.0,
        np.nan,
        np.inf,
        -np.inf,
        5e-324,
        600000000000000.25,
        12345678901234.5,
        0.1,
        0.3,
        2 / 3,
    ]
    scores = np.concatenate(
        [
            odd,
            powers,
            np.nextafter(powers, 0),
            np.nextafter(powers, np.inf),
            -powers,
            rng.normal(size=20_000),
            rng.normal(size=5000).astype(np.float32),
            np.round(rng.normal(size=5000), 4),
            rng.integers(2**52, 2**53, 20_000) / 2.0 ** rng.integers(4, 70, 20_000),
            rng.integers(0, 2**63, 5000).view(np.float64),
            rng.integers(-(2**24), 2**24, 5000) / 2.0**20,
        ]
    )
    # As Python writes them; none, and every second one of an array.
    assert score_text(scores) == "".join(f"{score!r}\n" for score in scores.tolist()).encode()
    assert score_text(scores[:0]) == b""
    assert score_text(scores[::2]) == score_text(scores[::2].copy())
