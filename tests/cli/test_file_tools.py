"""The file tools on the command line: what they print, and how they leave."""

from __future__ import annotations

import gzip
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, invoke, messages, refuse, start, succeed

TEXT = "".join(f"{i % 3} qid:{i // 4} 1:{i}\n" for i in range(400))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT)
    return path


def test_paths_go_to_standard_output_and_what_is_in_them_to_standard_error(
    source: Path, tmp_path: Path
) -> None:
    done = invoke(
        "data", "split", source, "--parts", "train=0.8, test=0.2", "-o", tmp_path / "w.txt"
    )
    assert (done.exit_code, done.stdout) == (
        0,
        f"{tmp_path / 'w-train.txt'}\n{tmp_path / 'w-test.txt'}\n",
    )
    assert (
        f"rows, {100 - len((tmp_path / 'w-test.txt').read_text().splitlines()) // 4} queries: "
        in done.stderr
    )
    done = invoke("data", "shard", source, "--parts", 2, "-o", tmp_path / "w-{}.gz")
    assert messages(done)[0] == f"200 rows, 50 queries: {tmp_path / 'w-000.gz'}"
    done = invoke(
        "data", "sort", tmp_path / "w-*.gz", "-o", tmp_path / "both.txt", "--memory-limit", "1MiB"
    )
    assert messages(done) == [f"400 rows, 100 queries: {tmp_path / 'both.txt'}"]
    assert sorted((tmp_path / "both.txt").read_text().splitlines()) == sorted(TEXT.splitlines())
    succeed("data", "sample", source, "--queries", "30%", "-o", tmp_path / "s.txt")


def test_tools_are_links_of_a_pipe(source: Path) -> None:
    packed = gzip.compress(TEXT.encode())
    for output in ("-", "/dev/stdout"):
        first = [*COMMAND, "data", "sample", "-", "--queries", "7", "-o", output]
        sampled = subprocess.run(first, input=packed, capture_output=True, check=True).stdout
        assert len(sampled.splitlines()) == 28
        assert set(sampled.decode().splitlines()) < set(TEXT.splitlines())


def test_a_reader_that_has_enough_ends_a_tool_quietly(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(f"1 qid:{i} 1:1\n" for i in range(200_000)))
    process = start("data", "sample", tmp_path / "in", "--queries", "100%", "-o", "-")
    assert process.stdout is not None
    assert process.stdout.readline() == "1 qid:0 1:1\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_a_tool_that_is_told_to_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        command = [
            *COMMAND,
            "data",
            "split",
            "-",
            "--parts",
            "a=0.5,b=0.5",
            "-o",
            str(tmp_path / "w.txt"),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(
                b"".join(b"1 qid:%d 1:1 # %s\n" % (i, b"x" * 200) for i in range(50_000))
            )
            process.stdin.flush()
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(number)
            assert process.wait(60) == status
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["data", "split", "--parts", "a=0.5,b"], "is not of the form train=0.8"),
        (["data", "split", "--parts", "a=0.5,a=0.5"], "a=0.5,a=0.5"),
        (["data", "split", "--parts", "a=0.5,b=0.4"], "add up to 0.9, not 1"),
        (["data", "sample"], "--queries"),
        (
            ["data", "sample", "--queries", "1000"],
            "1,000 queries requested, but there are only 100",
        ),
        (["data", "shard", "--parts", "101"], "take fewer shards"),
    ],
)
def test_wrong_options_of_file_tools_are_refused_in_one_line(
    arguments: list[str], words: str, source: Path, tmp_path: Path
) -> None:
    done = refuse(*arguments, source, "-o", tmp_path / "out.txt")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_scattered_file_is_mended_by_the_command_that_the_message_names(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1 qid:1 1:1\n1 qid:2 1:1\n0 qid:1 1:2\n")
    done = refuse("data", "shard", tmp_path / "in", "--parts", 1, "-o", tmp_path / "s")
    assert f"{tmp_path / 'in'}:3: qid 1 " in done.stderr
    succeed("data", "sort", tmp_path / "in", "-o", tmp_path / "grouped")
    succeed("data", "shard", tmp_path / "grouped", "--parts", 1, "-o", tmp_path / "s")
