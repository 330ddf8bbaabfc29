"""What belongs to a living process is left to it, and what a dead one left behind is not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from boostrank.core import files as locks
from boostrank.core.errors import InputError, TrainingWarning
from boostrank.core.files import (
    check_writable,
    mark_alive,
    remove_if_dead,
    reserved,
    write_atomically,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the locks are POSIX")

HOLD = """
import sys, time
from boostrank.core.files import reserved
with reserved(sys.argv[1]):
    print("ready", flush=True)
    time.sleep(60)
"""
WRITE = """
import sys, time
from boostrank.core.files import replacing
with replacing(sys.argv[1]) as descriptor:
    print("ready", flush=True)
    sys.stdin.readline()
"""
CONTEND = """
import os, sys
from boostrank.core.errors import InputError
from boostrank.core.files import reserved
path, had = sys.argv[1], 0
while had < 100:
    try:
        with reserved(path):
            os.close(os.open(path + ".inside", os.O_CREAT | os.O_EXCL))
            had += 1
            os.unlink(path + ".inside")
    except InputError:
        pass
"""


@contextmanager
def running(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the path in hand."""
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    with running(HOLD, path) as first:
        with (
            pytest.raises(InputError, match=r"model\.txt: another run is writing it"),
            reserved(path),
        ):
            raise AssertionError("never reached")
        with reserved(tmp_path / "other.txt"):
            pass
    assert first.returncode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == [".model.txt.lock"], (
        "what a killed process leaves"
    )
    with reserved(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("model.txt")
    with (
        reserved(tmp_path / "model.txt"),
        pytest.raises(InputError, match="link: another run"),
        reserved(tmp_path / "link"),
    ):
        pass


def test_many_processes_have_it_one_at_a_time(tmp_path: Path) -> None:
    """Its end is the delicate moment: the lock file is removed while others have it open."""
    path = str(tmp_path / "model.txt")
    contenders = [subprocess.Popen([sys.executable, "-c", CONTEND, path]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in contenders] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_leaves_no_room_for_a_lock_is_written_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / ("m" * 251)
    with pytest.warns(TrainingWarning, match="cannot be locked"), reserved(path):
        write_atomically(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, None])
def test_where_files_cannot_be_locked_a_warning_says_so(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        assert number is not None
        raise OSError(number, os.strerror(number))

    if number is None:
        monkeypatch.setattr(locks, "fcntl", None)
    else:
        monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with (
        pytest.warns(TrainingWarning, match=r"model\.txt: .*locked"),
        reserved(tmp_path / "model.txt"),
    ):
        write_atomically(tmp_path / "model.txt", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["model.txt"]


def test_a_lock_file_with_content_is_kept_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".model.txt.lock").write_text("of somebody")
    monkeypatch.setattr(locks, "try_lock", lambda descriptor: None)
    with pytest.warns(TrainingWarning, match="cannot be locked"), reserved(tmp_path / "model.txt"):
        pass
    assert (tmp_path / ".model.txt.lock").read_text() == "of somebody"


def test_a_lock_file_of_another_user_is_locked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def readable_only(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith(".lock") and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *args, **kwargs)

    (tmp_path / ".model.txt.lock").write_text("1 elsewhere\n")
    monkeypatch.setattr(os, "open", readable_only)
    with (
        reserved(tmp_path / "model.txt"),
        pytest.raises(InputError, match=r"model\.txt: another run"),
        reserved(tmp_path / "model.txt"),
    ):
        pass


def test_a_lock_file_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".model.txt.lock").symlink_to("precious")
    with pytest.warns(TrainingWarning, match="cannot be locked"), reserved(tmp_path / "model.txt"):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_file_that_somebody_is_writing_is_kept_and_one_of_a_killed_process_removed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.txt"
    with running(WRITE, path) as writer:
        check_writable(path)
        (left,) = tmp_path.iterdir()
        assert left.suffix == ".tmp"
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        writer.wait(timeout=30)
    assert [p.name for p in tmp_path.iterdir()] == ["model.txt"]
    with running(WRITE, path):
        pass
    assert len(list(tmp_path.iterdir())) == 2
    check_writable(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.txt"]


def test_nothing_is_removed_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    (tmp_path / ".model.txt.0123456789ab.tmp").write_bytes(b"of somebody")
    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    check_writable(tmp_path / "model.txt")
    assert [p.name for p in tmp_path.iterdir()] == [".model.txt.0123456789ab.tmp"]


def test_a_file_that_was_taken_for_dead_while_it_was_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = os.open, []

    def quick(path: Any, *args: Any, **kwargs: Any) -> int:
        descriptor = real(path, *args, **kwargs)
        if str(path).endswith(".tmp") and not removed:
            removed.append(path)
            remove_if_dead(str(path))
        return descriptor

    monkeypatch.setattr(os, "open", quick)
    write_atomically(tmp_path / "model.txt", b"new")
    assert removed
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"new"]


def test_a_folder_is_kept_while_a_process_holds_it_open(tmp_path: Path) -> None:
    folder = tmp_path / "bins"
    folder.mkdir()
    (folder / "page").write_bytes(b"1")
    descriptor = os.open(folder, os.O_RDONLY)
    assert mark_alive(descriptor, str(folder))
    remove_if_dead(str(folder))
    assert folder.exists()
    os.close(descriptor)
    remove_if_dead(str(folder))
    assert not folder.exists()
