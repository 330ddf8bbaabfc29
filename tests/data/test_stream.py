"""Rows on disk are the rows of the file, and what is remembered of a file is never another file's."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, FileFormatError, TrainingError
from boostrank.core.machine import free_memory
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import View
from boostrank.engines.lightgbm.private import StreamedDataset
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.blocks import Block
from boostrank.files.store import stream_files as stream_libsvm
from tests.data.conftest import same_data


def text_of(rows: int, columns: int, *, seed: int = 0, present: float = 1.0) -> str:
    """Integers, zeros, fractions, a missing value now and then; queries of seven rows."""
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        kinds = rng.integers(0, 4, columns)
        values = [
            "0",
            str(rng.integers(0, 99)),
            f"{rng.random():.6f}",
            "nan" if rng.random() < 0.1 else "-0",
        ]
        cells = [
            f"{i + 1}:{values[k]}"
            for i, k in enumerate(kinds)
            if rng.random() < present or row == 0
        ]
        lines.append(f"{rng.integers(0, 5)} qid:{row // 7} {' '.join(cells)}\n")
    return "".join(lines)


@pytest.fixture(params=[1.0, 0.2], ids=["dense", "sparse"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text(text_of(300, 8, present=request.param))
    return path


def in_memory(data: RankingDataset) -> RankingDataset:
    return RankingDataset(
        data.features[0 : data.n_documents],
        data.labels,
        data.queries,
        data.feature_names,
        data.provenance,
    )


@pytest.mark.parametrize("cache", [False, True])
def test_streamed_rows_are_those_of_the_reader(file: Path, cache: bool) -> None:
    plain = read_libsvm(file)
    streamed = stream_libsvm(file, cache=cache, chunk_bytes=3000, threads=2)
    assert same_data(plain, in_memory(streamed))
    assert streamed.fingerprint == plain.fingerprint
    assert streamed.constant_features() == plain.constant_features()
    assert streamed.provenance == plain.provenance


def test_slices_and_picked_rows_are_read_across_blocks(file: Path) -> None:
    plain, streamed = (
        read_libsvm(file),
        stream_libsvm(file, cache=False, chunk_bytes=1000, threads=1),
    )
    assert streamed.features.starts.size > 3
    rows = np.array([299, 0, 17, 17, 120])
    for picked, expected in (
        (streamed.features[100:211], plain.features[100:211]),
        (streamed.features[rows], plain.features[rows]),
        (streamed.features[5:5], plain.features[5:5]),
    ):
        dense = [part.toarray() if plain.is_sparse else part for part in (picked, expected)]
        np.testing.assert_array_equal(dense[0], dense[1])
    nothing = streamed.features[np.zeros(0, np.int64)]
    assert nothing.shape == (0, plain.n_features)
    with pytest.raises(TypeError, match="indexed by start:stop"):
        streamed.features[0:10:2]
    with pytest.raises(IndexError, match=f" {plain.n_documents} rows"):
        streamed.features[np.array([plain.n_documents])]
    taken = streamed.take([2, 0])
    np.testing.assert_array_equal(taken.labels, plain.take([2, 0]).labels)


def test_columns_come_in_the_order_asked_for(file: Path) -> None:
    plain, streamed = read_libsvm(file), stream_libsvm(file, cache=False)
    names = plain.feature_names[::-1]
    from_memory = plain.with_features(names, whose="the model")
    from_disk = streamed.with_features(names, whose="the model")
    assert same_data(from_memory, in_memory(from_disk))


def test_some_of_the_columns_are_read(file: Path) -> None:
    plain, streamed = read_libsvm(file), stream_libsvm(file, cache=None)  # type: ignore[arg-type]
    for names in (["f3", "f1"], ["f8"]):
        some = streamed.only(names)
        assert same_data(plain.only(names), in_memory(some))
        assert same_data(plain.only(names[:1]), in_memory(some.only(names[:1])))


def test_a_full_disk_and_a_file_that_was_cut_off_are_told_with_their_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    streamed = stream_libsvm(file, cache=False, threads=1)
    store = streamed.features.store
    store._file.truncate(8)
    with pytest.raises(TrainingError, match="temporary file of rows"):
        streamed.features[0:10]
    store._file = Full(store._file)
    block = Block(np.zeros(2), np.zeros(0, np.int64))
    block.dense = np.zeros((2, 3), np.float32)
    words = r"not enough space for the rows \(No space left on device, .* larger disk"
    with pytest.raises(TrainingError, match=words):
        store.put(block)


def test_some_rows_stay_on_disk(file: Path) -> None:
    """Some rows, and some of these, are those of the matrix in memory, whichever way they are read."""
    whole, on_disk = boostrank.read(file), boostrank.stream(file, cache=False, chunk_bytes=4_000)
    every = whole.features.toarray() if whole.is_sparse else whole.features
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(rng.random(every.shape[0]) < 0.2)
    order = rng.permutation(every.shape[1])
    for picked, stored_rows in (
        (every[rows], View(on_disk.features, rows)),
        (every[rows[2:]], View(View(on_disk.features, rows), np.arange(2, rows.size))),
        (every[rows][:, order], View(on_disk.features, rows).in_order(order.tolist())),
        (every[:0], View(on_disk.features, rows[:0])),
    ):

        def dense(part: Any) -> Any:
            return part.toarray() if whole.is_sparse else part

        assert stored_rows.shape == picked.shape
        np.testing.assert_array_equal(dense(stored_rows[3:17]), picked[3:17])
        np.testing.assert_array_equal(dense(stored_rows[:]), picked)
        pieces = list(stored_rows.pieces())
        assert [start for start, _ in pieces] == np.cumsum([0, *(p.shape[0] for _, p in pieces)])[
            :-1
        ].tolist()
        np.testing.assert_array_equal(
            np.concatenate([every[:0], *(dense(piece) for _, piece in pieces)]), picked
        )
        if picked.size:
            chosen = rng.integers(0, picked.shape[0], 9)
            np.testing.assert_array_equal(dense(stored_rows[chosen]), picked[chosen])
            kept = rows[rows.size - picked.shape[0] :]
            labels = np.zeros(kept.size)
            memory = RankingDataset(
                whole.features[kept], labels, QueryIndex.from_sizes([kept.size])
            )
            if not np.array_equal(picked, every[kept], equal_nan=True):  # in another order
                memory = memory.with_features(
                    [memory.feature_names[i] for i in order], whose="these"
                )
            stored = RankingDataset(stored_rows, labels, memory.queries, memory.feature_names)
            assert stored.constant_features() == memory.constant_features()
            assert stored.fingerprint == memory.fingerprint


def test_some_rows_of_many_columns_are_read_in_the_pieces_of_the_file(tmp_path: Path) -> None:
    """A piece of as many rows as fit into 16 MiB of dense rows would be of four rows."""
    lines = [f"{i % 2} qid:{i // 10} {i + 1}:1 1000000:1\n" for i in range(2_000)]
    (tmp_path / "wide.txt").write_text("".join(lines))
    data = boostrank.stream(tmp_path / "wide.txt", cache=False)
    view = View(data.features, np.arange(0, data.n_documents, 2))
    (piece,) = [rows for _, rows in view.pieces()]
    assert piece.shape == view.shape


def test_weights_beside_the_file_are_read(file: Path) -> None:
    queries = len(read_libsvm(file).queries)
    for weight in ("2", "3"):
        Path(f"{file}.weight").write_text(f"{weight}\n" * queries)
        for _ in range(2):
            weights = stream_libsvm(file).queries.weights
            assert weights is not None
            assert weights.tolist() == [float(weight)] * queries
    rows = read_libsvm(file).n_documents
    Path(f"{file}.weight").write_text("".join(f"{row}\n" for row in range(rows)))
    for _ in range(2):
        data = stream_libsvm(file)
        assert data.document_weights is not None
        assert data.document_weights.tolist() == list(range(rows))


def test_a_change_of_the_same_size_and_time_is_seen(file: Path) -> None:
    """Case 60: the entry is keyed by the rows, whatever the file system says of the file."""
    before = os.stat(file)
    key = stream_libsvm(file).features.origin.fingerprint
    text = file.read_text()
    assert text[0] != "9"
    for label, is_same in (("9", False), (text[0], True)):
        with file.open("r+") as out:
            out.write(label)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        changed = stream_libsvm(file)
        assert changed.labels[0] == float(label)
        assert (changed.features.origin.fingerprint == key) == is_same


@pytest.mark.parametrize(
    "option",
    [
        {"label_map": "4=7"},
        {"n_features": 20},
        {"inf": "keep"},
        {"layout": "csr"},
        {"missing_tokens": "NA"},
    ],
)
def test_options_that_change_rows_are_another_entry(file: Path, option: dict[str, Any]) -> None:
    """Case 60: the key of the bins has all that rows depend on."""
    first, changed = stream_libsvm(file), stream_libsvm(file, **option)
    expected = [read_libsvm(file).fingerprint, read_libsvm(file, **option).fingerprint]
    assert [data.features.origin.fingerprint for data in (first, changed)] == expected
    assert same_data(read_libsvm(file, **option), in_memory(changed))


def test_options_have_entries_of_their_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings that take turns do not replace each other's bins."""
    pushed = []
    push = StreamedDataset.push

    def pushes(self: StreamedDataset, piece: Any, start: int) -> None:
        pushed.append(start)
        push(self, piece, start)

    monkeypatch.setattr(StreamedDataset, "push", pushes)
    for turn in range(2):
        for option in ({}, {"label_map": "4=3"}, {"n_features": 20}):
            data = stream_libsvm(file, **option)
            boostrank.train({"objective": "lambdarank"}, data, num_boost_round=1)
        assert bool(pushed) == (turn == 0)
        pushed.clear()


def test_a_validation_set_is_remembered_for_its_training_set(file: Path, tmp_path: Path) -> None:
    wider = tmp_path / "wider.txt"
    wider.write_text(text_of(50, 11, seed=1))
    valid = tmp_path / "valid.txt"
    valid.write_text("".join(f"1 qid:{q} 1:{q} 8:1\n" for q in range(100, 120)))
    for train in (file, wider, file):
        like = stream_libsvm(train)
        for feature_source in (like, like.feature_space):
            assert stream_libsvm(valid, like=feature_source).n_features == like.n_features


def test_errors_are_those_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1 qid:1 1:2\n1 qid:1 1:x\n")
    with pytest.raises(FileFormatError) as streamed:
        stream_libsvm(path)
    with pytest.raises(FileFormatError) as plain:
        read_libsvm(path)
    assert str(streamed.value) == str(plain.value)
    path.write_text("1 qid:1 1:2\n1 qid:2 1:1\n0 qid:1 1:5\n")
    with pytest.raises(DataError, match="scattered"):
        stream_libsvm(path, regroup=True)


def test_a_pipe_is_streamed_without_a_cache(file: Path) -> None:
    """Case 74: the same bits by every way of reading."""
    with file.open("rb") as stream:
        data = stream_libsvm(stream)
    assert data.fingerprint == read_libsvm(file).fingerprint
    assert not list(file.parent.glob(".boostrank-cache"))


def test_several_files_are_one_data_set(tmp_path: Path) -> None:
    whole, parts = text_of(140, 5), [tmp_path / "a.txt", tmp_path / "b.txt"]
    lines = whole.splitlines(keepends=True)
    for part, piece in zip(parts, (lines[:70], lines[70:]), strict=True):
        part.write_text("".join(piece))
    (tmp_path / "whole.txt").write_text(whole)
    assert stream_libsvm(parts).fingerprint == read_libsvm(tmp_path / "whole.txt").fingerprint


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the super-user may write anywhere"
)
def test_a_read_only_folder_means_no_cache_and_one_line(file: Path) -> None:
    os.chmod(file.parent, 0o500)
    try:
        cache = stream_libsvm(file).features.origin.cache
        with pytest.warns(DataWarning, match="no cache in"):
            assert not cache.save("bins", {}, lambda _: True)
    finally:
        os.chmod(file.parent, 0o700)


def test_a_cache_that_cannot_be_made_is_said_once(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    data = stream_libsvm(file, cache=tmp_path / "taken")
    assert data.fingerprint == read_libsvm(file).fingerprint
    with pytest.warns(DataWarning, match="no cache in"):
        assert not data.features.origin.cache.save("bins", {}, lambda _: True)
    assert not data.features.origin.cache.save("bins", {}, lambda _: True)


def test_some_memory_is_free() -> None:
    assert free_memory() > 0
