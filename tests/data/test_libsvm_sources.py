"""The same bytes give the same data: any chunk size, any number of threads, file, pipe or
compressed.

Faults 54 to 58 on the way.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import FileFormatError
from boostrank.data.feature_space import FeatureSpace
from boostrank.files import chunks as _chunks
from boostrank.files.assemble import pieces_of_files
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.formats.libsvm import LibsvmSource
from boostrank.files.source import Reading
from tests.data.conftest import Read, refused, same_data

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


def make_text(layout: str, rows: int = 60) -> bytes:
    """Rows with everything that a chunk boundary can cut: comments, CRLF, blank lines, long
    numbers, text ids.
    """
    rng = np.random.default_rng(5)
    out = ["\ufeff# head 1:1\r\n# qid:3: red shoe\r\n"]
    for row in range(rows):
        share = 0.9 if layout == "dense" else 0.1
        numbers = np.flatnonzero(rng.random(25) < share)
        values = rng.choice(
            ["0", "1.5", "-0", "nan", "0.3333333333333333333333333333", "7e-320", "12"],
            numbers.size,
        )
        cells = "".join(
            f"{rng.choice([' ', '  ', chr(9)])}{n}:{v}"
            for n, v in zip(numbers, values, strict=True)
        )
        out.append(
            f"{rng.integers(0, 5)}"
            f" qid:{'q' * (row > 40)}{row // 7}{cells}{rng.choice(['', ' # a 1:2', ' '])}"
        )
        out.append(str(rng.choice(["\n", "\r\n", "\n\n"])))
    return "".join(out).encode()


@pytest.fixture(params=["dense", "csr"])
def text(request: pytest.FixtureRequest) -> bytes:
    return make_text(request.param)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 17, 64, 333, 4096, 1 << 24])
def test_chunks_and_threads_change_nothing(
    text: bytes, read: Read, chunk_bytes: int, threads: int
) -> None:
    whole = read(text, threads=1, keep_names=True)
    cut = read(text, threads=threads, chunk_bytes=chunk_bytes, keep_names=True)
    assert same_data(cut, whole)
    assert cut.fingerprint == whole.fingerprint
    stream = read_libsvm(
        io.BytesIO(text), threads=threads, chunk_bytes=chunk_bytes, keep_names=True
    )
    assert same_data(stream, whole)


def test_warnings_do_not_depend_on_chunks(text: bytes, read: Read) -> None:
    def list_warnings(**options: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read(text + b"1 qid:x 5:1 4:1\n1 qid:x 9:nan", **options)
        return [str(w.message) for w in caught]

    assert list_warnings(chunk_bytes=5, threads=2) == list_warnings()
    assert len(list_warnings()) == 4


def test_a_slow_pipe_is_read_to_its_end(text: bytes, read: Read, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def drip() -> None:
        with fifo.open("wb", buffering=0) as file:
            for begin in range(0, len(text), 97):
                file.write(text[begin : begin + 97])

    writer = threading.Thread(target=drip)
    writer.start()
    piped = read_libsvm(fifo, chunk_bytes=200)
    writer.join()
    assert same_data(piped, read(text))


@pytest.mark.parametrize("kind", ["plain", "gz"])
def test_fault_013_a_pipe_that_gives_a_byte_at_a_time_is_recognised(
    text: bytes, read: Read, kind: str
) -> None:
    class Drip(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 1))

    packed = text if kind == "plain" else gzip.compress(text)
    assert same_data(read_libsvm(Drip(packed), threads=1), read(text))


@pytest.mark.parametrize("chunk_bytes", [50, 1 << 20])
def test_fault_054_compression_is_known_by_its_first_bytes(
    text: bytes, read: Read, tmp_path: Path, chunk_bytes: int
) -> None:
    path = tmp_path / "named.txt"
    path.write_bytes(gzip.compress(text))
    seen: list[tuple[int, int | None]] = []
    data = read_libsvm(
        path, chunk_bytes=chunk_bytes, progress=lambda done, total: seen.append((done, total))
    )
    assert same_data(data, read(text))
    assert seen[-1] == (path.stat().st_size,) * 2
    assert same_data(read_libsvm(io.BytesIO(path.read_bytes())), data)


@pytest.mark.parametrize(
    ("magic", "words"), [(b"PK\x03\x04", "unpack"), (b"PAR1", "--format parquet")]
)
def test_fault_054_formats_that_are_not_read_are_named(
    read: Read, magic: bytes, words: str
) -> None:
    with refused(words):
        read(magic + bytes(range(200)))


@pytest.mark.parametrize(
    ("magic", "command"),
    [
        (b"BZh91AY", "bzip2 -dc"),
        (b"\xfd7zXZ\0", "xz -dc"),
        (b"(\xb5/\xfd", "zstd -dc"),
        (b"\x50*M\x18", "zstd -dc"),  # pzstd
    ],
)
def test_fault_054_other_compressions_are_named_with_a_command(
    magic: bytes, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.txt.packed"
    path.write_bytes(magic + bytes(range(200)))
    for source in (path, io.BytesIO(path.read_bytes())):
        with refused(command):
            read_libsvm(source)


def test_fault_055_truncated_compressed_data_is_never_a_short_data_set(text: bytes) -> None:
    packed = gzip.compress(text)
    for end in [*range(7, len(packed), max(1, len(packed) // 60)), len(packed) - 1]:
        with refused("truncated"):
            read_libsvm(io.BytesIO(packed[:end]), threads=1)


def test_fault_055_damaged_compressed_data_is_refused(text: bytes) -> None:
    packed = gzip.compress(text)
    whole = read_libsvm(io.BytesIO(packed))
    # gzip's header has bytes that mean nothing (time, system), which may change unseen
    for at in range(10, len(packed), max(1, len(packed) // 80)):
        broken = bytearray(packed)
        broken[at] ^= 0x10
        try:
            data = read_libsvm(io.BytesIO(broken), threads=1)
        except FileFormatError:
            continue
        else:
            assert same_data(data, whole)


def test_fault_055_a_wrong_checksum_is_refused(text: bytes) -> None:
    packed = bytearray(gzip.compress(text))
    packed[-6] ^= 1
    with refused("gzip data is damaged", "incorrect data check"):
        read_libsvm(io.BytesIO(packed))


@pytest.mark.parametrize("padding", [b"", b"\0" * 8])
def test_fault_056_concatenated_members_are_all_read(
    text: bytes, read: Read, padding: bytes
) -> None:
    pack = gzip.compress
    parts = b"".join(pack(text[begin : begin + 500]) for begin in range(0, len(text), 500)) + pack(
        b""
    )
    assert same_data(read_libsvm(io.BytesIO(parts + padding)), read(text))


def test_fault_054_text_that_is_compressed_twice_is_named(text: bytes, read: Read) -> None:
    with refused("compressed twice"):
        read(gzip.compress(gzip.compress(text)))


def test_fault_056_something_else_behind_a_member_is_refused(text: bytes) -> None:
    with refused("data is damaged"):
        read_libsvm(io.BytesIO(gzip.compress(text) + b"1 qid:99 1:1\n"))
    with refused("truncated"):
        read_libsvm(io.BytesIO(gzip.compress(text) + gzip.compress(text)[:8]))


def test_fault_057_a_bomb_is_unpacked_in_little_memory() -> None:
    packed = gzip.compress(b"1 qid:1 1:1\n" * (3 << 20))
    tracemalloc.start()
    try:
        opened = LibsvmSource([io.BytesIO(packed)], Reading())
        length = sum(text.size for text in opened.first.chunks(1 << 20))
        opened.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert length == 36 << 20
    assert peak < 24 << 20


def test_fault_057_compressed_blanks_without_end_are_refused_at_the_longest_line() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(200)) + packer.flush()
    with refused("longer than 64 MiB", line=1):
        read_libsvm(io.BytesIO(packed), threads=1)


@pytest.mark.parametrize("change", ["grow", "shrink", "touch"])
def test_fault_058_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, text: bytes, change: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(text)

    def progress(done: int, total: int | None) -> None:
        if change == "grow":
            with path.open("ab") as file:
                file.write(b"1 qid:77 1:1\n")
        elif change == "shrink":
            os.truncate(path, len(text) // 2)
        else:
            os.utime(path, ns=(1, 1))

    with refused("while it was read"):
        read_libsvm(path, chunk_bytes=300, threads=1, progress=progress)


def test_fault_058_a_compressed_file_that_changes_is_refused_too(
    tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(text))
    with refused("changed while it was read"):
        read_libsvm(
            path, chunk_bytes=300, threads=1, progress=lambda done, total: os.utime(path, ns=(1, 1))
        )


def test_fault_059_a_file_cut_off_under_the_reader_does_not_kill_the_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(b"1 qid:1 1:1\n" * 300_000)
    script = """
import os, sys
from boostrank.data.feature_space import FeatureSpace
from boostrank.files.assemble import pieces_of_files
from boostrank.files.assemble import read_files as read_libsvm
try:
    read_libsvm(sys.argv[1], chunk_bytes=1 << 16, threads=2, progress=lambda done, total: os.truncate(sys.argv[1], 0))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "while it was read" in done.stdout


def test_a_read_error_of_the_first_bytes_names_the_file(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    (tmp_path / "rows.txt").write_bytes(text)
    monkeypatch.setattr(os, "read", broken)
    with pytest.raises(FileFormatError, match=r"rows\.txt: .*Input/output"):
        boostrank.read(tmp_path / "rows.txt")


def test_a_read_error_is_an_input_error(text: bytes) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if size == 0:
                return b""
            raise OSError(5, "Input/output error")

    with refused("cannot be read: Input/output error"):
        read_libsvm(Broken(text))


def test_files_are_closed_whatever_happens(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "data.txt"
    before = len(os.listdir("/proc/self/fd"))
    for content in (
        text,
        b"x\n",
        gzip.compress(text),
        gzip.compress(text)[:-1],
        b"PK\x03\x04",
        b"",
    ):
        path.write_bytes(content)
        for threads in (1, 2):
            try:
                read_libsvm(path, chunk_bytes=200, threads=threads)
            except ValueError:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_reader_that_stops_early_leaves_no_thread_behind(read: Read, text: bytes) -> None:
    with refused("'x'"):
        read(b"1 qid:1 1:x\n" + text * 50, chunk_bytes=500, threads=3)
    assert not [t for t in threading.enumerate() if t.name.startswith("boostrank-read")]


def test_the_options_that_changed_the_numbers_are_remembered(read: Read) -> None:
    data = read(
        "1 qid:1 1:1\n",
        missing_tokens="NULL",
        inf="keep",
        label_map={1: 2},
        on_bad_line="skip",
        regroup=True,
        threads=2,
        chunk_bytes=9,
        layout="csr",
    )
    assert data.provenance.options == {
        "missing_tokens": ["NULL"],
        "inf": "keep",
        "label_map": {"1": 2.0},
        "on_bad_line": "skip",
        "regroup": True,
        "queries": "qid",
    }
    assert read("1 qid:1 1:1\n").provenance.options == {"queries": "qid"}


def test_the_public_reader_is_the_reader(tmp_path: Path, text: bytes, read: Read) -> None:
    (tmp_path / "other").write_bytes(text)
    assert same_data(boostrank.read(tmp_path / "other", layout="csr"), read(text, layout="csr"))


def test_the_head_may_be_shorter_or_longer_than_a_chunk(
    text: bytes, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(text)
    monkeypatch.setattr(_chunks, "HEAD", 200)
    assert same_data(read(text, chunk_bytes=100), expected)
    assert same_data(read_libsvm(io.BytesIO(text), chunk_bytes=1000), expected)
    assert same_data(read_libsvm(io.BytesIO(gzip.compress(text)), chunk_bytes=100), expected)


def test_a_compressed_file_object_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"1 qid:1 1:1\n" * 1000)[:-20])
    with gzip.open(path) as file, refused("cannot be read"):
        read_libsvm(file)


@pytest.mark.parametrize("before", range(9))
def test_rows_without_labels_are_known_wherever_the_beginning_of_the_file_ends(
    tmp_path: Path, before: int
) -> None:
    row = " ".join(f"{number}:0.5" for number in range(1, 401))
    (tmp_path / "data.txt").write_text(f"#{'x' * before}\n" + f"{row}\n" * 30)
    space = FeatureSpace(1, 400, tuple(f"f{i}" for i in range(1, 401)))
    pieces = pieces_of_files(tmp_path / "data.txt", len, like=space, columns=np.arange(400))
    assert sum(pieces) == 30
