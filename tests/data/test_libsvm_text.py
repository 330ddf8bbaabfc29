"""Faults 1 to 14: lines, blanks, comments, encodings, and what is no text at all."""

from __future__ import annotations

import io
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from boostrank.core.errors import DataWarning
from boostrank.files import chunks as _chunks
from boostrank.files import source as _sources
from boostrank.files.assemble import read_files as read_libsvm
from tests.data.conftest import Read, dense, refused, same_data

PLAIN = "2 qid:1 1:0.5 2:3\n0 qid:1 2:1\n1 qid:2 1:7 2:-1\n"


def test_fault_001_crlf_reads_like_lf(read: Read) -> None:
    assert same_data(read(PLAIN.replace("\n", "\r\n")), read(PLAIN))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("2 qid:1 1:0.5\r1 qid:1 1:1\r", 1, 14),
        ("1 qid:1 1:1\n1 qid:1 1:2\r3 qid:1\n", 2, 12),
        ("1 qid:1 1:1 \r\r\n", 1, 13),
        ("# made by hand\r1 qid:1 1:1\n", 1, 15),
        ("\r\r\n1 qid:1 1:1\n", 1, 1),
    ],
)
def test_fault_002_a_lone_carriage_return_is_refused(
    read: Read, text: str, line: int, column: int
) -> None:
    with refused("carriage return", "tr '\\r' '\\n'", line=line, column=column):
        read(text)


def test_fault_003_a_byte_order_mark_is_skipped_at_the_start(read: Read) -> None:
    assert same_data(read(b"\xef\xbb\xbf" + PLAIN.encode()), read(PLAIN))
    with refused("not a number", line=1, column=1):
        read(b"\xef\xbb\xbfx qid:1 1:1\n")


def test_fault_003_a_byte_order_mark_elsewhere_is_refused(read: Read) -> None:
    with refused("byte order mark", line=2, column=1):
        read(b"1 qid:1 1:1\n\xef\xbb\xbf1 qid:1 1:1\n")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_fault_004_utf16_is_named(read: Read, encoding: str) -> None:
    with refused("UTF-16", "iconv"):
        read(PLAIN.encode(encoding))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (b"1 qid:1 1:1\0\n", 12),
        (b"\0 1 qid:1 1:1\n", 1),
        (b"1 qid:\x001 1:1\n", 7),
        (b"1 qid:1 1:1 # doc\0\n", 18),
        (b"1 qid:1 \x00:1\n", 9),
    ],
)
def test_fault_005_a_nul_byte_is_refused(read: Read, text: bytes, column: int) -> None:
    with refused("NUL byte", line=2, column=column):
        read(b"1 qid:1 1:1\n" + text)


def test_fault_006_tabs_and_runs_of_blanks_separate(read: Read) -> None:
    assert same_data(
        read(" 2\tqid:1   1:0.5\t\t2:3  \n\t0 qid:1 2:1\t\n1 qid:2 1:7 2:-1 \n"), read(PLAIN)
    )


def test_fault_007_blank_lines_are_skipped_and_told_when_there_are_many(read: Read) -> None:
    with pytest.warns(DataWarning, match="2 of 5 lines are blank"):
        sparse = read("\n2 qid:1 1:0.5 2:3\n \t\r\n0 qid:1 2:1\n1 qid:2 1:7 2:-1\n")
    assert same_data(sparse, read(PLAIN))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("1 qid:1 1:1\n" * 200 + "\n")


def test_fault_007_line_numbers_count_blank_and_comment_lines(read: Read) -> None:
    with refused(line=4, column=3):
        read("\n# one\n \n1 1:2\n")


def test_fault_008_comments_are_ignored_whatever_they_hold(read: Read) -> None:
    text = (
        "# 1 qid:7 1:2\n2 qid:1 1:0.5 2:3 # docid = GX1:2 inc=1\n0 qid:1 2:1#7:8\n1 qid:2 1:7 2:-1"
        " #\n  # caf\u00e9 5:5\n"
    )
    assert same_data(read(text), read(PLAIN))


def test_fault_008_comments_name_documents_and_queries_on_request(read: Read) -> None:
    text = (
        "1 qid:1 1:1 # docid = GX1 \n0 qid:1 1:2\n# 3\n0 qid:2 1:2#caf\u00e9\r\n0 qid:2 1:3##\tx\n"
    )
    data = read("# qid:2: red shoe\n" + text, keep_names=True)
    assert data.document_names is not None
    assert data.document_names.tolist() == ["GX1", "", "caf\u00e9", "x"]
    assert [data.queries.describe_query(q) for q in range(2)] == ["1", "2: red shoe"]
    assert data.take([1, 0]).queries.describe_query(0) == "2: red shoe"
    plain = read("# qid:1: red\n1 qid:1 1:1 # x\n")
    assert plain.document_names is None
    assert plain.queries.words is None


def test_fault_009_the_last_line_may_lack_its_newline(read: Read) -> None:
    with pytest.warns(DataWarning, match="last line .*newline"):
        data = read(PLAIN[:-1])
    assert same_data(data, read(PLAIN))


@pytest.mark.parametrize("tail", ["12:", "12:1.", "12:-", "12:1e", "12", "12:1e+", "qid:2"])
def test_fault_010_a_last_line_cut_inside_a_token_is_refused(read: Read, tail: str) -> None:
    with refused("truncated", line=4):
        read(PLAIN + "1 qid:3 1:1 " + tail)


def test_fault_010_a_last_line_cut_behind_a_number_is_told(read: Read) -> None:
    with pytest.warns(DataWarning, match="may be truncated"):
        assert read(PLAIN + "1 qid:3 1:1 2:1").n_documents == 4
    with pytest.warns(DataWarning, match="may be truncated"):
        read(PLAIN + "1 qid:3 1:5. # all of it")


@pytest.mark.parametrize("from_stream", [False, True])
@pytest.mark.parametrize("chunk_bytes", [7, 1000, 1 << 20])
@pytest.mark.parametrize("end", ["\n", ""])
def test_fault_011_an_endless_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_stream: bool, chunk_bytes: int, end: str
) -> None:
    monkeypatch.setattr(_chunks, "MAX_LINE", 1000)
    monkeypatch.setattr(_sources, "MAX_LINE", 1000)
    path = tmp_path / "data.txt"

    def read(length: int) -> int:
        row = "1 qid:1 "
        path.write_text("1 qid:1 1:1\n# two\n" + row + " " * (length - len(row) - len(end)) + end)
        source = io.BytesIO(path.read_bytes()) if from_stream else path
        return read_libsvm(source, chunk_bytes=chunk_bytes).n_documents

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert read(1000) == 2
    with refused("longer than", line=3):
        read(1001)


def test_fault_011_memory_stays_bounded_on_a_file_without_newlines(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(8 << 30)  # sparse on disk
        file.write(b"1 qid:1 1:1")
    with refused("longer than 64 MiB", line=1):
        read_libsvm(path, threads=1)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\r\n", "# no newline"])
def test_fault_012_a_file_without_rows_is_refused(read: Read, text: str) -> None:
    with refused("no rows"):
        read(text)


def test_fault_013_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with refused("folder", "no files"):
        read_libsvm(tmp_path)
    (tmp_path / "folder").mkdir()
    with refused("contains folders", "folder"):
        read_libsvm(tmp_path)
    with refused("No such file"):
        read_libsvm(tmp_path / "absent")


def test_fault_013_a_pipe_is_read_in_one_pass(tmp_path: Path, read: Read) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text(PLAIN))
    writer.start()
    data = read_libsvm(fifo)
    writer.join()
    assert same_data(data, read(PLAIN))
    assert data.provenance.files == (str(fifo),)


def test_fault_013_standard_input_is_a_dash(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text(PLAIN)
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert same_data(read_libsvm("-"), read(PLAIN))


def test_fault_013_a_text_file_object_is_refused() -> None:
    with refused("binary mode"):
        read_libsvm(io.StringIO(PLAIN))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("\u0661 qid:1 1:1", 1),
        ("1 qid:1 \u0661:1", 9),
        ("1 qid:1 1:\uff15", 9),
        ("1 qid:1 1:1\u00a0", 9),
    ],
)
def test_fault_014_digits_outside_ascii_are_refused(read: Read, row: str, column: int) -> None:
    with refused("outside ASCII", line=1, column=column):
        read(row + "\n")


def test_the_first_wrong_line_is_named_whichever_thread_meets_it(read: Read) -> None:
    rows = ["1 qid:1 1:1"] * 3000
    rows[2500] = "1 qid:1 1:x"
    rows[1200] = "1 qid:1 1:y"
    for threads in (1, 2, 4):
        with refused("'y'", line=1201, column=9):
            read("\n".join(rows) + "\n", threads=threads, chunk_bytes=500)


def test_bad_rows_are_skipped_whole_and_counted(read: Read) -> None:
    text = "1 qid:1 1:1 2:2\n1 qid:1 1:9 2:x 3:3\n0 qid:1 2:5\nrubbish\n0 qid:2 1:4\n"
    with pytest.warns(DataWarning, match=r"2 of 5 .*data\.txt:2:13: .*'x'"):
        data = read(text, on_bad_line="skip", max_bad_share=0.5)
    assert dense(data).tolist() == [[1, 2], [0, 5], [4, 0]]
    assert data.labels.tolist() == [1, 0, 0]
    with refused("2 of 5 rows cannot be read", "--max-bad-share", "value 'x'"):
        read(text, on_bad_line="skip")


def test_the_share_of_bad_rows_is_compared_exactly(read: Read) -> None:
    text = "1 qid:1 1:1\n" * 999 + "x\n"
    with pytest.warns(DataWarning, match="1 of 1,000 rows skipped"):
        assert read(text, on_bad_line="skip").n_documents == 999
    with refused("1 of 999"):
        read(text[12:], on_bad_line="skip")


def test_a_skipped_row_leaves_nothing_behind(read: Read) -> None:
    text = "1 qid:1 1:1\n1 qid:8 9:nan 8:inf 7:x\n0 qid:1 1:2\n"
    with pytest.warns(DataWarning) as caught:
        data = read(text, on_bad_line="skip", max_bad_share=1, inf="keep")
    assert len(caught) == 1
    assert "skipped" in str(caught[0].message)
    assert data.n_features == 1
    assert data.queries.qid.tolist() == [1]


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text(PLAIN)
    seen: list[tuple[int, int | None]] = []
    read_libsvm(
        path, chunk_bytes=20, threads=1, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (len(PLAIN), len(PLAIN))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    seen.clear()
    for text in (PLAIN, PLAIN + "0 qid:9 1:1\n" * 9000):  # at once, and in more than one piece
        read_libsvm(
            io.BytesIO(text.encode()), progress=lambda done, total: seen.append((done, total))
        )
        assert seen[-1] == (len(text), None)


def test_features_are_float32_and_contiguous(read: Read) -> None:
    data = read(PLAIN)
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert data.feature_names == ("f1", "f2")


def test_a_damaged_comment_has_its_place_among_rows_without_labels(read: Read) -> None:
    with refused("NUL", line=2, column=4):
        read(b"qid:1 1:1\n# a\0\n", labelled=False)
