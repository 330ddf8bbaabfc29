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
from tests.cli.conftest import (
    ENDLESS,
    FEW,
    interrupt_saving,
    invoke,
    read_folder,
    sidecar,
    start,
    stop_in_round,
    succeed,
    train_words,
)

WAIT = """
import time
from boostrank.cli.signals import StopRequest, graceful_stop
stop = StopRequest()
with graceful_stop(stop):
    print("ready", flush=True)
    while not stop.pending:
        time.sleep(0.01)
    print("asked", flush=True)
    time.sleep({seconds})
print("finished", flush=True)
"""

IN_COMPILED_CODE = """
import hashlib, signal
from boostrank.cli import signals
signal.signal(signal.SIGINT, lambda *_: None)  # as if it had not been heard, should it come before the call below
signals.exit_at_second_press()
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # minutes in which Python hears of no signal
"""

WITH_A_THREAD_IN_COMPILED_CODE = """
import hashlib, sys, threading
from boostrank.cli import errors
from boostrank.core import machine
errors._PATIENCE, machine.own_process = 0.1, True
threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 2_000_000_000)).start()
def pressed():
    raise KeyboardInterrupt
sys.exit(errors.run_reporting_errors(pressed))
"""


@pytest.mark.parametrize(
    ("number", "options", "names"),
    [
        (signal.SIGINT, (), ["m", "m.meta.json"]),
        (signal.SIGTERM, ("--checkpoint-every", 50_000), ["m", "m.checkpoint", "m.meta.json"]),
    ],
    ids=["SIGINT", "SIGTERM"],
)
def test_fault_078_a_signal_finishes_the_round_and_writes_model_and_checkpoint(
    number: signal.Signals,
    options: tuple[object, ...],
    names: list[str],
    data: Path,
    tmp_path: Path,
) -> None:
    model = tmp_path / "m"
    process = start("train", data / "train.txt", "-m", model, *ENDLESS, *options)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("round 1/"):
        assert process.poll() is None
    process.send_signal(number)
    out, log = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, f"model written to {model}\n")
    assert "stopped after round" in log
    assert sorted(read_folder(tmp_path)) == names
    loaded = boostrank.RankingModel.load(model)
    assert 1 <= loaded.best_iteration < 100_000
    assert loaded.info["training"]["rounds"] == 100_000


@pytest.mark.parametrize(
    "patience", [["--early-stopping", "60"], ["--param", "early_stopping_round=60"]], ids=" ".join
)
def test_a_stop_keeps_the_best_round_so_far_however_early_stopping_was_asked_for(
    patience: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_in_round(monkeypatch, 50)
    result = invoke(
        *train_words(data, tmp_path / "m"),
        "--objective",
        "lambdarank",
        "--quality",
        "plain",
        "--rounds",
        100,
        "--num-leaves",
        7,
        "--threads",
        1,
        *patience,
    )
    assert result.exit_code == 130
    history = sidecar(tmp_path / "m")["evals_result"]["valid"]["ndcg@10"]  # type: ignore[index]
    assert len(history) == 51
    best = boostrank.RankingModel.load(tmp_path / "m").best_iteration
    assert best == history.index(max(history)) + 1 < 51


def test_a_stop_in_the_last_round_is_a_complete_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_in_round(monkeypatch, 3)
    result = succeed("train", data / "train.txt", "-m", tmp_path / "m", *FEW)
    assert "stopped after" not in result.stderr


def test_a_signal_while_the_model_is_written_does_not_make_the_training_incomplete(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_saving(monkeypatch)
    result = succeed("train", data / "train.txt", "-m", tmp_path / "m", *FEW)
    assert "stopped after" not in result.stderr
    assert "writing the model" in result.stderr
    assert boostrank.RankingModel.load(tmp_path / "m").best_iteration == 4


def test_a_signal_while_files_are_read_leaves_at_once_and_writes_nothing(
    data: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "never-written.txt")
    process = start(
        "train", data / "train.txt", "--valid", tmp_path / "never-written.txt", "-m", tmp_path / "m"
    )
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
        [sys.executable, "-c", WAIT.format(seconds=seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    return process


def test_fault_078_a_second_ctrl_c_leaves_at_once() -> None:
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


def test_fault_078_outside_of_training_too_a_second_ctrl_c_leaves_at_once() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", IN_COMPILED_CODE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=60)
    assert (process.returncode, log) == (130, "boostrank: stopped at once\n")


def test_fault_078_leaving_does_not_wait_for_threads_in_compiled_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_A_THREAD_IN_COMPILED_CODE],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, "boostrank: stopped\n")
