"""A file is written whole or not at all, whatever fails on the way."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from boostrank.core import files
from boostrank.core.errors import FileFormatError, InputError, TrainingError
from boostrank.core.files import check_writable, read_text, read_whole, write_atomically
from tests.core.conftest import fail_call

OLD, NEW = b"the old model\n", b"the new model, longer than the old one\n" * 50


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_fault_077_a_failure_of_any_call_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, existing: bool, error: int
) -> None:
    # Let the first call fail, then the second, until the writing succeeds.
    path = tmp_path / "model.txt"
    failures = 0
    while True:
        path.unlink(missing_ok=True)
        if existing:
            path.write_bytes(OLD)
        with pytest.MonkeyPatch.context() as patch:
            calls = fail_call(patch, failures, error)
            try:
                write_atomically(path, NEW)
                break
            except TrainingError as failure:
                words = str(failure)
        assert str(path) in words
        assert os.strerror(error) in words
        assert TrainingError.exit_code == 3
        # Before the file is replaced the old one is whole, after that the new one.
        content = path.read_bytes() if path.exists() else None
        if "replace" in calls[:failures]:
            assert content == NEW
            assert "the new file is in place" in words
        else:
            assert content == (OLD if existing else None)
            assert "untouched" in words
        assert [p.name for p in tmp_path.iterdir()] in ([], ["model.txt"])
        failures += 1
    assert path.read_bytes() == NEW
    assert failures >= 8, "every call was made to fail once"
    assert calls.count("fsync") == 2
    assert (
        calls.index("fsync") < calls.index("replace") < len(calls) - 1 - calls[::-1].index("fsync")
    )


def test_a_failure_is_injected_into_calls_of_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fail_call(monkeypatch, 0)
    os.close(os.open(tmp_path / "finaliser", os.O_CREAT))  # as of another module
    other = threading.Thread(target=write_atomically, args=(tmp_path / "thread", NEW))
    other.start()
    other.join()
    assert (tmp_path / "thread").read_bytes() == NEW
    assert calls == []
    with pytest.raises(TrainingError):
        write_atomically(tmp_path / "model.txt", NEW)


def test_a_write_in_small_parts_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    write_atomically(tmp_path / "model.txt", NEW)
    assert (tmp_path / "model.txt").read_bytes() == NEW


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> int:
        raise KeyboardInterrupt

    (tmp_path / "model.txt").write_bytes(OLD)
    monkeypatch.setattr(os, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "model.txt", NEW)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_a_file_system_that_cannot_sync_folders_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    write_atomically(tmp_path / "model.txt", NEW)
    assert (tmp_path / "model.txt").read_bytes() == NEW


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits are POSIX")
def test_fault_077_a_real_limit_on_file_size_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(OLD)
    script = (
        "import resource, sys\n"
        "from boostrank.core.files import write_atomically\n"
        "from boostrank.core.errors import TrainingError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomically(sys.argv[1], b'x' * 5000)\n"
        "except TrainingError as error:\n"
        "    sys.exit(str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "too large" in run.stderr
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [OLD]


def test_permissions_of_the_old_file_are_kept_and_a_new_one_follows_the_umask(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old.txt"
    old.write_bytes(OLD)
    old.chmod(0o640)
    before = os.umask(0o022)
    try:
        write_atomically(old, NEW)
        write_atomically(tmp_path / "new.txt", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o644


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "model-7.txt", tmp_path / "current.txt"
    target.write_bytes(OLD)
    link.symlink_to(target)
    write_atomically(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW


def test_a_long_name_of_letters_of_several_bytes_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("\u6a21" * 78)
    check_writable(path)
    write_atomically(path, b"x")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"x"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a system without /proc")
def test_a_folder_in_which_nothing_can_be_made_is_not_said_to_be_missing() -> None:
    with pytest.raises(InputError, match=r"no file .* /proc"):
        check_writable("/proc/x")


def test_empty_data_make_an_empty_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "empty", b"")
    assert (tmp_path / "empty").read_bytes() == b""


def test_a_device_or_a_folder_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "not an ordinary file"),
        ("/dev/null", "not an ordinary file"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(TrainingError, match=words):
            write_atomically(path, NEW)
        with pytest.raises(InputError, match=words):
            check_writable(path)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_fault_081_a_path_that_cannot_be_written_is_found_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InputError,
        match=r"missing/model\.txt: .*folder",
    ):
        check_writable(tmp_path / "missing" / "model.txt")
    (tmp_path / "model.txt").write_bytes(OLD)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="read-only"):
        check_writable(tmp_path / "model.txt")


def test_fault_081_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_bytes(OLD)
    check_writable(tmp_path / "model.txt")
    check_writable(tmp_path / "other.txt")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("model.txt", OLD)]


@pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="a system without devices, and pipes with names"
)
def test_fault_122_what_has_no_end_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_OF_A_STREAM", 3 << 20)
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(
            FileFormatError,
            match=f"{device}: .* limit of 3,145,728 bytes",
        ):
            read_whole(device)
    os.mkfifo(tmp_path / "pipe")
    for lines in (500_000, 1_000_000):
        feeder = threading.Thread(
            target=_feed, args=(tmp_path / "pipe", b"1.5\n" * lines), daemon=True
        )
        feeder.start()
        if lines < 1_000_000:
            assert len(read_whole(tmp_path / "pipe")) == 4 * lines
        else:
            with pytest.raises(FileFormatError, match="limit"):
                read_whole(tmp_path / "pipe")
        feeder.join()
    (tmp_path / "file").write_bytes(b"1.5\n" * 1_000_000)
    assert len(read_whole(tmp_path / "file")) == 4_000_000


def _feed(pipe: Path, body: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as file:
        file.write(body)


def test_text_is_utf8_with_any_line_ends(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("\ufeffgrün\r\na\rb\n".encode())
    assert read_text(tmp_path / "file") == "grün\na\nb\n"
    (tmp_path / "file").write_bytes(b"a\xff")
    assert read_text(tmp_path / "file", errors="backslashreplace") == "a\\xff"
    with pytest.raises(FileFormatError, match=r"file: byte 1 .*UTF-8"):
        read_text(tmp_path / "file")
    with pytest.raises(FileFormatError, match="nothing: No such file"):
        read_text(tmp_path / "nothing")
