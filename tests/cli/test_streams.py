"""Standard streams that are closed, full or broken; and Ctrl-C before there is work to stop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from boostrank.cli.streams import Messages, Results
from boostrank.core.errors import TrainingError
from tests.cli.conftest import COMMAND

CLOSED = "boostrank: error: standard output: could not be written: it is closed"
FULL = "boostrank: error: standard output: could not be written: No space left on device"
IN_A_PROCESS = "from boostrank.cli.signals import *\nfrom boostrank.cli.streams import *\n"


def shell(redirection: str, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command as `COMMAND redirection` of a shell does."""
    line = ["sh", "-c", f'exec "$@" {redirection}', "sh", *map(str, command)]
    return subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("redirection", "argument", "status", "words"),
    [
        ("<&-", "--version", 0, ""),
        ("2>&-", "--nonsense", 2, ""),
        ("2>/dev/full", "--nonsense", 2, ""),
        (">&-", "--version", 3, CLOSED),
        (">/dev/full", "--version", 3, FULL),
        ("<&- >&- 2>&-", "--version", 3, ""),
    ],
)
def test_fault_116_a_stream_that_is_closed_or_full(
    redirection: str, argument: str, status: int, words: str
) -> None:
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    done = shell(redirection, *COMMAND, argument)
    assert done.returncode == status
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == bool(words)
    assert bool(done.stdout) == (status == 0)


def test_fault_116_a_data_file_is_never_a_standard_stream(tmp_path: Path) -> None:
    work = (
        "prepare_streams()\nnumber = os.open(sys.argv[1], os.O_RDWR)\nprint('words',"
        " file=sys.stderr)\nprint(1)\n"
    )
    work += "try:\n    sys.stdout.flush()\nexcept Exception:\n    os._exit(number)\n"
    (tmp_path / "data.txt").write_text("1 qid:1 1:1\n")
    done = shell("<&- >&- 2>&-", sys.executable, "-c", IN_A_PROCESS + work, tmp_path / "data.txt")
    assert done.returncode > 2
    assert (tmp_path / "data.txt").read_text() == "1 qid:1 1:1\n"


def test_fault_079_help_whose_reader_has_gone_leaves_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("pages", ["", "--json"])
def test_fault_079_a_verdict_is_the_exit_status_where_its_reader_has_gone(
    pages: str, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("".join(f"{i % 3} qid:{i // 6} 1:{i}\n" for i in range(60)))
    (tmp_path / "old").write_text("".join(f"{i % 3}\n" for i in range(60)))
    (tmp_path / "new").write_text("".join(f"{-(i % 3)}\n" for i in range(60)))
    files = [tmp_path / name for name in ("old", "new", "data.txt")]
    reader, writer = os.pipe()
    os.close(reader)
    gate = ["--fail-if", "ndcg@10 < 0", *filter(None, [pages])]
    done = subprocess.run(
        [*COMMAND, "compare", *files, *gate], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.returncode == 1, done.stderr


def test_messages_that_nobody_reads_stop_no_work() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Messages(writer, "wb") as messages:
        assert messages.write(b"round 1/100") == len(b"round 1/100")


def test_results_that_nobody_reads_are_an_error_without_words() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Results(writer, "wb") as results, pytest.raises(BrokenPipeError):
        results.write(b"0.5\n")


def test_results_that_cannot_be_written_name_standard_output(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with (
        Results(os.open(tmp_path / "f", os.O_RDONLY), "wb") as results,
        pytest.raises(TrainingError, match="standard"),
    ):
        results.write(b"0.5\n")


@pytest.mark.parametrize(
    "swallows", ["except BaseException: pass", "except BaseException: raise ImportError"]
)
def test_fault_117_ctrl_c_while_modules_are_imported_leaves_at_once(
    swallows: str, tmp_path: Path
) -> None:
    module = f"import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT); len([])\n{swallows}\n"
    (tmp_path / "interrupted.py").write_text(module)
    work = (
        f"exit_at_interrupted_imports()\nsys.path.insert(0, {str(tmp_path)!r})\nimport"
        " interrupted\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS + work], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "boostrank: stopped\n")
