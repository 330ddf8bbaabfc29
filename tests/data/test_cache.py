"""A cache entry is whole and of the right key, or it is as if there were none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from boostrank.files.store import Cache, open_path

KEY = {"files": [["a.txt", 3]], "reader": "one"}


def fill(path: str) -> bool:
    Path(path).write_bytes(bytes(range(256)) * 10_000)
    return True


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    cache = Cache(tmp_path / "cache")
    assert cache.save("entry", KEY, fill)
    return cache


def is_whole(cache: Cache) -> bool:
    entry = cache.load("entry", KEY)
    if entry is None:
        return False
    with entry:
        assert Path(open_path(entry)).read_bytes()[:-32] == bytes(range(256)) * 10_000
    return True


def test_what_was_saved_comes_back(cache: Cache) -> None:
    assert is_whole(cache)


def test_fault_060_another_key_finds_nothing(cache: Cache) -> None:
    """Case 60."""
    assert cache.load("entry", KEY | {"reader": "two"}) is None
    assert cache.load("entry", {}) is None
    assert cache.load("other", KEY) is None


def test_fault_060_any_byte_flipped_in_the_entry_is_noticed(cache: Cache) -> None:
    """Case 60."""
    path = cache.folder / "entry"
    good = path.read_bytes()
    for at in (*range(100), len(good) // 2, *range(len(good) - 100, len(good))):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert cache.load("entry", KEY) is None, at
    path.write_bytes(good)
    assert is_whole(cache)


def test_fault_060_a_file_cut_anywhere_is_noticed(cache: Cache) -> None:
    """Case 82: half-written at a power cut."""
    path = cache.folder / "entry"
    good = path.read_bytes()
    for length in (0, 1, 17, 26, len(good) // 2, len(good) - 32, len(good) - 1):
        path.write_bytes(good[:length])
        assert cache.load("entry", KEY) is None
        path.write_bytes(
            good[:length] + b"\0" * (len(good) - length)
        )  # the length is there, the content is not
        assert cache.load("entry", KEY) is None
    path.write_bytes(good + b"\0")
    assert cache.load("entry", KEY) is None
    path.unlink()
    assert cache.load("entry", KEY) is None


def test_fault_060_foreign_files_are_no_entries(cache: Cache) -> None:
    """Case 60."""
    for foreign in (
        b"",
        b"\x80\x04K\x01.",
        b"boostrank cache 2\n" + b"\0" * 100,
        b"boostrank cache 1\n",
    ):
        (cache.folder / "entry").write_bytes(foreign)
        assert cache.load("entry", KEY) is None


def test_an_open_entry_keeps_its_bytes_when_the_entry_is_replaced(cache: Cache) -> None:
    entry = cache.load("entry", KEY)
    assert entry is not None
    assert cache.save("entry", KEY, lambda path: bool(Path(path).write_bytes(b"other")))
    assert [path.name for path in cache.folder.iterdir()] == ["entry"]
    with entry:
        assert Path(open_path(entry)).read_bytes()[:-32] == bytes(range(256)) * 10_000


def test_an_incomplete_file_is_not_kept(cache: Cache) -> None:
    assert not cache.save("entry", KEY, lambda path: not Path(path).write_bytes(b"half"))
    assert cache.refused is not None
    assert is_whole(cache)
    assert [path.name for path in cache.folder.iterdir()] == ["entry"]


def test_the_file_of_a_killed_run_is_removed_when_it_is_old(cache: Cache) -> None:
    old, new = (cache.folder / f"entry.{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert cache.save("entry", KEY, fill)
    assert sorted(path.name for path in cache.folder.iterdir()) == ["entry", "entry.new.tmp"]


@pytest.mark.skipif(
    not os.path.exists("/proc/self"), reason="a system without a folder that takes no files"
)
def test_no_file_is_written_where_none_can_be_made() -> None:
    """An engine that cannot open its file fails, and takes the training with it."""
    cache = Cache(Path("/proc"))
    assert not cache.save("entry", KEY, lambda _: pytest.fail("it was to be written"))
    assert cache.refused == os.strerror(errno.ENOENT)


_WRITER = """
import sys
from pathlib import Path
from boostrank.files.store import Cache
cache = Cache(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    def fill(path):
        with open(path, "wb") as out:
            for _ in range(10_000):
                out.write(bytes(range(256)))
        return True
    cache.save("entry", {"files": [["a.txt", 3]], "reader": "one"}, fill)
    if len(sys.argv) > 2:
        break
"""


def test_fault_082_a_writer_killed_at_any_moment_leaves_a_whole_entry(cache: Cache) -> None:
    """Cases 60 and 82."""
    for wait in np.linspace(0.001, 0.08, 4):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(cache.folder)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert is_whole(cache)


def test_fault_061_two_writers_at_once_are_both_right(cache: Cache) -> None:
    """Case 61: whatever a reader finds meanwhile is whole; afterwards nothing is left over but what
    is named.
    """
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(cache.folder)], stdout=-1)
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        whole_reads = [is_whole(cache) for _ in range(60)]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert any(whole_reads)
    subprocess.run(
        [sys.executable, "-c", _WRITER, str(cache.folder), "once"],
        check=True,
        stdout=subprocess.PIPE,
    )
    assert is_whole(cache)


def test_entries_of_another_user_are_no_entries(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.geteuid()
    for path in cache.folder.iterdir():
        os.chown(path, me or 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert cache.load("entry", KEY) is None
    assert cache.save("entry", KEY, fill)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_fault_111_a_pipe_under_the_name_of_an_entry_is_not_waited_for(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    os.mkfifo(tmp_path / "entry")
    assert cache.load("entry", KEY) is None
    assert cache.save("entry", KEY, fill)
    assert is_whole(cache)


def test_a_folder_under_the_name_of_an_entry_is_no_entry(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / "entry").mkdir()
    assert cache.load("entry", KEY) is None
    assert not cache.save("entry", KEY, fill)
    assert cache.refused is not None


def test_fault_112_a_checksum_that_fits_the_content_and_another_key_is_as_if_there_were_none(
    cache: Cache,
) -> None:
    content = (cache.folder / "entry").read_bytes()[:-32]
    for text in (b"", b"{}", json.dumps(KEY | {"reader": "two"}, sort_keys=True).encode()):
        checksum = hashlib.blake2b(text + content, digest_size=32).digest()
        (cache.folder / "entry").write_bytes(content + checksum)
        assert cache.load("entry", KEY) is None
