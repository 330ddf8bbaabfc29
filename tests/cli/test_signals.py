"""Ctrl-C and SIGTERM leave a usable model; a second Ctrl-C leaves at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import boostrank
from tests.cli.conftest import start

WAIT = """
import time
from boostrank.cli.interrupt import graceful_stop
with graceful_stop() as stop:
    print("ready", flush=True)
    while not stop.made:
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep({seconds})
print("finished", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_finishes_the_round_and_writes_the_model(number: signal.Signals, data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    process = start("train", data / "train.txt", "-m", model, "--rounds", 100_000, "--num-leaves", 4, "--threads", 1)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("round 1/"):
        assert process.poll() is None
    process.send_signal(number)
    out, log = process.communicate()
    assert (process.returncode, out) == (130, f"model written to {model}\n")
    assert "stopped after round" in log
    loaded = boostrank.RankingModel.load(model)
    assert 1 <= loaded.best_iteration < 100_000
    assert loaded.info["training"]["rounds"] == 100_000


def test_a_signal_while_files_are_read_leaves_at_once_and_writes_nothing(data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never-written.txt")
    process = start("train", data / "train.txt", "--valid", tmp_path / "never-written.txt", "-m", tmp_path / "m")
    assert process.stderr is not None
    while "rows" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.2)  # now it waits for somebody to write into the pipe
    process.send_signal(signal.SIGINT)
    out, log = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert log.endswith("boostrank: stopped\n")
    assert not (tmp_path / "m").exists()


def waiting(seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT.format(seconds=seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    return process


def test_a_second_ctrl_c_leaves_at_once() -> None:
    process = waiting(60)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, log = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "asked\n")
    assert "nothing was written" in log


def test_a_signal_passed_on_by_a_wrapper_is_one_press() -> None:
    process = waiting(0.2)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "asked\nfinished\n"
    assert process.returncode == 0


def test_sigterm_never_leaves_at_once() -> None:
    process = waiting(1)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == "asked\nfinished\n"
