"""Several files are one data set: the same rows as their concatenation, and messages that name the
right file.
"""

from __future__ import annotations

import gzip
import io
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataWarning, FileFormatError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files as read_libsvm
from tests.data.conftest import Read, refused, same_data

PARTS = (
    "1 qid:1 1:1 5:2\n0 qid:1 2:0.5\n2 qid:2 3:1\n",
    "# a comment\n0 qid:b 9:3\n\n1 qid:b 1:7\n",
    "3 qid:4 1:1 2:2 3:3\n0 qid:5 4:1",
)
Shards = Callable[..., list[Path]]


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """`shards(text, ...)`: files a0.txt, a1.txt, ... with these texts."""

    def write(*texts: str) -> list[Path]:
        paths = [tmp_path / f"a{i}.txt" for i in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return write


def quietly(source: object, **options: object) -> RankingDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read_libsvm(source, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("chunk_bytes", [7, 40, 1 << 20])
def test_files_are_read_as_one_text(
    shards: Shards, read: Read, chunk_bytes: int, threads: int
) -> None:
    data = quietly(shards(*PARTS), chunk_bytes=chunk_bytes, threads=threads)
    assert same_data(data, quietly(io.BytesIO("".join(PARTS).encode())))
    assert data.queries.qid.tolist() == ["1", "2", "b", "4", "5"]
    assert data.n_features == 9


def test_a_last_line_without_newline_is_not_glued_to_the_next_file(shards: Shards) -> None:
    paths = shards("1 qid:1 1:1", "\ufeff2 qid:2 1:2", "3 qid:3 1:3")
    with pytest.warns(DataWarning) as caught:
        data = read_libsvm(paths)
    assert data.labels.tolist() == [1, 2, 3]
    assert [str(w.message) for w in caught] == [
        f"{p}: the last line has no newline; the file may be truncated" for p in paths
    ]


def test_sizes_of_a_compressed_file_in_a_folder_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"1 1:1\n0 1:2\n1 1:3\n"))
    (tmp_path / "a.txt.query").write_text("2\n1\n")
    assert quietly(tmp_path).queries.sizes.tolist() == [2, 1]


def test_scattered_queries_of_several_files_have_one_weight_each(shards: Shards) -> None:
    paths = shards("1 qid:1 1:1\n0 qid:2 1:2\n1 qid:1 1:3\n", "1 qid:3 1:1\n")
    for path, weights in zip(paths, ("1\n2\n", "3\n"), strict=True):
        path.with_name(f"{path.name}.weight").write_text(weights)
    weights_of_queries = quietly(paths, regroup=True).queries.weights
    assert weights_of_queries is not None
    assert weights_of_queries.tolist() == [1, 2, 3]


def test_each_file_has_a_weight_for_each_of_its_queries_or_rows(shards: Shards) -> None:
    paths = shards("1 1:1\n0 1:2\n1 1:3\n", "1 1:1\n0 1:2\n1 1:3\n")
    for path, weights in zip(paths, ("1\n2\n3\n", "4\n"), strict=True):
        path.with_name(f"{path.name}.query").write_text("2\n1\n")
        path.with_name(f"{path.name}.weight").write_text(weights)
    with refused("1 weights for 2 queries and 3 rows"):
        quietly(paths)


@pytest.mark.filterwarnings("ignore:.*lines are blank:boostrank.core.errors.DataWarning")
def test_a_pattern_stands_for_the_files_that_match_sorted_without_their_sidecars(
    shards: Shards, tmp_path: Path
) -> None:
    paths = shards(*PARTS)
    (tmp_path / "a0.txt.weight").write_text("1\n2\n")
    (tmp_path / "a1.txt.weight").write_text("3\n")
    (tmp_path / "a2.txt.weight").write_text("1\n1\n")
    data = quietly(tmp_path / "a*")
    assert same_data(data, quietly(paths))
    assert data.queries.weights is not None
    assert data.queries.weights.tolist() == [1, 2, 3, 1, 1]
    assert [f for f in data.provenance.files if f.endswith(".txt")] == [str(p) for p in paths]
    assert same_data(boostrank.read(str(tmp_path / "a[01].txt"), n_features=9), quietly(paths[:2]))


def test_a_name_that_looks_like_a_pattern_is_a_name_when_it_exists(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "a1.txt").write_text("2 qid:1 1:1\n")
    assert read_libsvm(tmp_path / "a[1].txt").labels.tolist() == [1]


def test_files_that_are_missing_or_given_twice_are_refused_before_reading(
    shards: Shards, tmp_path: Path
) -> None:
    paths = shards("1 qid:1 1:x\n", PARTS[1])
    with pytest.raises(FileFormatError, match=r"nothing-.*no file matches"):
        read_libsvm(tmp_path / "nothing-*")
    with pytest.raises(FileFormatError, match=r"gone\.txt: No such"):
        read_libsvm([*paths, tmp_path / "gone.txt"])
    with pytest.raises(ParameterError, match="given twice"):
        read_libsvm([paths[0], tmp_path / "." / "a0.txt"])
    with pytest.raises(ParameterError, match=r"is given twice"):
        read_libsvm(["-", "-"])
    with pytest.raises(ParameterError, match="no file"):
        read_libsvm([])


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_name_the_right_file_and_line(shards: Shards, threads: int) -> None:
    paths = shards(PARTS[0], "# one\n1 qid:8 1:1\n0 qid:8 1:x\n", PARTS[2])
    with refused("'x'", line=3):
        read_libsvm(paths, threads=threads, chunk_bytes=9)
    with pytest.raises(FileFormatError, match=r"a1\.txt:3:9: "):
        read_libsvm(paths, threads=threads, chunk_bytes=9)
    with pytest.raises(FileFormatError, match=r"a1\.txt:3: feature 9 .*n_features=5"):
        quietly(shards(PARTS[0], "# one\n1 qid:8 1:1\n0 qid:8 9:1\n"), n_features=5)
    with pytest.raises(FileFormatError, match=r"a1\.txt:2: .*longer than"):
        read_libsvm(shards(PARTS[0], "1 qid:9 1:1\n" + " " * (65 << 20)), threads=threads)


def test_warnings_name_the_right_file_and_line(shards: Shards) -> None:
    paths = shards(PARTS[0], "", "0 qid:7 1:1\n0 qid:7 3:1 2:1\n")
    with pytest.warns(DataWarning) as caught:
        read_libsvm(paths)
    assert [str(w.message) for w in caught] == [
        f"{paths[1]}: no rows: the file is empty or contains only comments",
        (
            f"{paths[0]} and 2 more files: 1 rows had unsorted feature numbers (first:"
            f" {paths[2]}:2); they were sorted"
        ),
    ]


def test_files_without_any_row_are_no_data(shards: Shards) -> None:
    with refused("no rows"):
        read_libsvm(shards("", "# nothing\n"))


@pytest.mark.parametrize("chunk_bytes", [5, 1 << 20])
def test_fault_042_a_query_that_comes_back_in_a_later_file_is_refused(
    shards: Shards, chunk_bytes: int
) -> None:
    paths = shards("1 qid:1 1:1\n1 qid:2 1:1\n", "1 qid:3 1:1\n0 qid:1 1:5\n")
    with refused("qid 1 reappears", f"first seen on {paths[0]}:1", "--regroup", line=2):
        read_libsvm(paths, chunk_bytes=chunk_bytes)
    data = quietly(paths, chunk_bytes=chunk_bytes, regroup=True)
    assert data.queries.qid.tolist() == [1, 2, 3]
    assert data.features[:, 0].tolist() == [1, 5, 1, 1]


@pytest.mark.parametrize("chunk_bytes", [5, 1 << 20])
def test_fault_042_a_query_cut_between_two_files_is_refused_or_joined(
    shards: Shards, chunk_bytes: int
) -> None:
    paths = shards("1 qid:1 1:1\n1 qid:2 1:1\n", "# x\n1 qid:2 1:3\n0 qid:3 1:5\n")
    with refused(
        "qid 2 continues from the previous file (unless ids restart)",
        f"{paths[0]}:2",
        "--regroup",
        line=2,
    ):
        read_libsvm(paths, chunk_bytes=chunk_bytes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing had to be moved
        data = read_libsvm(paths, regroup=True, chunk_bytes=chunk_bytes)
    assert data.queries.sizes.tolist() == [1, 2, 1]
    assert data.input_rows is None


def test_features_count_from_zero_in_all_files_when_one_has_a_feature_zero(shards: Shards) -> None:
    paths = shards("1 qid:1 1:1\n", "1 qid:2 0:2\n")
    data = read_libsvm(paths, layout="dense", zero_based="true")
    assert data.features.tolist() == [[0, 1], [2, 0]]
    with pytest.warns(DataWarning, match=r"a0\.txt has feature 0.* feature 1,"):
        assert same_data(read_libsvm(paths, layout="dense"), data)
    with pytest.raises(FileFormatError, match=r"a0\.txt has feature 0"):
        read_libsvm(paths, strict=True)


def test_group_sizes_and_weights_lie_beside_each_file(shards: Shards, tmp_path: Path) -> None:
    paths = shards("1 1:1\n1 1:2\n", "0 1:3\n0 1:4\n0 1:5\n")
    (tmp_path / "a0.txt.query").write_text("2\n")
    with pytest.raises(FileFormatError, match=r"a1\.txt: .*query ids"):
        read_libsvm(paths)
    (tmp_path / "a1.txt.query").write_text("1\n2\n")
    assert read_libsvm(paths).queries.sizes.tolist() == [2, 1, 2]
    (tmp_path / "a1.txt.query").write_text("1\n3\n")
    with pytest.raises(FileFormatError, match=r"a1\.txt\.query"):
        read_libsvm(paths)


def test_fault_052_weights_of_one_file_do_not_make_up_for_those_of_another(
    shards: Shards, tmp_path: Path
) -> None:
    paths = shards("1 qid:1 1:1\n1 qid:2 1:2\n", "0 qid:3 1:3\n0 qid:4 1:4\n")
    (tmp_path / "a0.txt.weight").write_text("1\n1\n")
    with pytest.raises(FileFormatError, match=r"a1\.txt: has no weight"):
        read_libsvm(paths)
    (tmp_path / "a0.txt.weight").write_text("1\n")
    (tmp_path / "a1.txt.weight").write_text("1\n2\n3\n")
    with pytest.raises(FileFormatError, match=r"a0\.txt\.weight: 1 weights .*2 queries"):
        read_libsvm(paths)


def test_files_of_every_kind_are_mixed_and_progress_reaches_the_end(
    tmp_path: Path, shards: Shards
) -> None:
    paths = shards(*PARTS)
    paths[1].write_bytes(gzip.compress(PARTS[1].encode()))
    paths[2].write_bytes(gzip.compress(PARTS[2].encode()))
    seen: list[tuple[int, int | None]] = []
    data = quietly(paths, progress=lambda done, total: seen.append((done, total)))
    assert same_data(data, quietly(io.BytesIO("".join(PARTS).encode())))
    assert seen[-1] == (sum(p.stat().st_size for p in paths),) * 2
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(paths[1].read_bytes()))
    writer.start()
    assert same_data(quietly([paths[0], fifo, paths[2]]), data)
    writer.join()


def test_fault_055_one_truncated_file_of_several_is_named(shards: Shards) -> None:
    paths = shards(*PARTS)
    paths[1].write_bytes(gzip.compress(PARTS[1].encode())[:-4])
    with pytest.raises(FileFormatError, match=r"a1\.txt: .*gzip .*truncated"):
        quietly(paths)


def test_fault_058_a_file_that_changes_after_its_turn_began_is_refused(shards: Shards) -> None:
    paths = shards(*PARTS)

    def touch(done: int, total: int | None) -> None:
        os.utime(paths[0], ns=(1, 1))

    with pytest.raises(FileFormatError, match=r"a0\.txt: .*changed"):
        quietly(paths, chunk_bytes=10, threads=1, progress=touch)


def test_bad_rows_are_counted_over_all_files(shards: Shards) -> None:
    paths = shards("1 qid:1 1:1\n1 qid:1 1:x\n", "1 qid:2 1:1\n" * 9)
    with refused("1 of 11 rows cannot be read", "a0.txt:2:"):
        quietly(paths, on_bad_line="skip", max_bad_share=0.05)
    assert np.array_equal(
        quietly(paths, on_bad_line="skip", max_bad_share=0.1).queries.sizes, [1, 9]
    )


def test_many_small_files_do_not_run_out_of_descriptors(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / f"{i:03}.txt").write_text(f"1 qid:{i} 1:{i}\n")
    before = len(os.listdir("/proc/self/fd"))
    most = 0

    def count(done: int, total: int | None) -> None:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))

    data = read_libsvm(tmp_path / "*.txt", progress=count, threads=2)
    assert data.queries.qid.tolist() == list(range(300))
    assert most - before < 12
    assert len(os.listdir("/proc/self/fd")) == before
