"""`boostrank train --checkpoint-every N`, stopped or killed, and the same command with `--resume`."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import (
    COMMAND,
    FEW,
    invoke,
    read_folder,
    refuse,
    stop_in_round,
    succeed,
    train_eight_rounds,
)

backends = pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])


@pytest.mark.parametrize(
    ("backend", "route"),
    [("lightgbm", "memory"), ("lightgbm", "bins"), ("xgboost", "memory"), ("xgboost", "external")],
)
def test_fault_075_a_stopped_training_goes_on_to_the_same_files(
    backend: str, route: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in folders:
        folder.mkdir()
    route_options = "--backend", backend, "--route", route, "--cache", "none"
    succeed(*train_eight_rounds(data, whole / "m", *route_options))
    with monkeypatch.context() as patch:
        stop_in_round(patch, 4)
        stopped = invoke(
            *train_eight_rounds(data, parts / "m", *route_options, "--checkpoint-every", 3)
        )
    assert stopped.exit_code == 130
    assert "--resume continues from" in stopped.stderr
    assert sorted(read_folder(parts)) == ["m", "m.checkpoint", "m.meta.json"]
    (parts / ".m.meta.json.0123456789ab.tmp").write_bytes(
        b"what a process killed while it wrote leaves"
    )
    resumed = succeed(
        *train_eight_rounds(data, parts / "m", *route_options, "--checkpoint-every", 3, "--resume")
    )
    assert "resumed after round 5" in resumed.stderr
    assert read_folder(parts) == read_folder(whole)


@pytest.fixture
def stopped(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model and the checkpoint of a training that was stopped."""
    with monkeypatch.context() as patch:
        stop_in_round(patch, 2)
        assert (
            invoke(
                *train_eight_rounds(data, tmp_path / "m", "--checkpoint", tmp_path / "c")
            ).exit_code
            == 130
        )
    return tmp_path


def test_fault_076_other_parameters_are_refused_before_anything_is_written(
    data: Path, stopped: Path
) -> None:
    before = read_folder(stopped)
    words = "--checkpoint", stopped / "c", "--resume", "--learning-rate", 0.3
    result = refuse(*train_eight_rounds(data, stopped / "m", *words))
    assert "learning_rate unset then" in result.stderr
    assert read_folder(stopped) == before


def test_a_checkpoint_is_not_overwritten_by_a_training_from_the_start(
    data: Path, stopped: Path
) -> None:
    result = refuse(*train_eight_rounds(data, stopped / "m", "--checkpoint", stopped / "c"))
    assert "an unfinished training" in result.stderr


@pytest.mark.parametrize("name", ["m", "./m", "m.meta.json"])
def test_the_checkpoint_is_not_the_model(name: str, data: Path, tmp_path: Path) -> None:
    result = refuse(*train_eight_rounds(data, tmp_path / "m", "--checkpoint", f"{tmp_path}/{name}"))
    assert "written twice" in result.stderr or "different files" in result.stderr


def test_fault_078_a_second_ctrl_c_while_the_checkpoint_is_written_leaves_the_old_files(
    data: Path, tmp_path: Path
) -> None:
    # The third sync is of the second checkpoint: there Ctrl-C is pressed twice.
    script = (
        "import os, signal, sys, time\n"
        "from boostrank.cli import main\n"
        "real = os.fsync\n"
        "def slow(descriptor):\n"
        "    global count; count += 1\n"
        "    if count > 2:\n"
        "        for pause in (0.5, 60):\n"
        "            os.kill(os.getpid(), signal.SIGINT); time.sleep(pause)\n"
        "    real(descriptor)\n"
        "count, os.fsync = 0, slow\n"
        "main(sys.argv[1:])\n"
    )
    words = [
        str(word) for word in train_eight_rounds(data, tmp_path / "m", "--checkpoint-every", 2)
    ]
    run = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60
    )
    # The process leaves at once, and the first checkpoint can be resumed from.
    assert run.returncode == 130
    assert "stopped at once" in run.stderr
    assert not (tmp_path / "m").exists()
    resumed = invoke(*words, "--resume")
    assert "resumed after round 2" in resumed.stderr
    assert sorted(read_folder(tmp_path)) == [
        "m",
        "m.meta.json",
    ], "what the first process left is gone as well"


@pytest.mark.parametrize("option", ["-m", "--checkpoint"])
def test_fault_081_a_path_that_cannot_be_written_ends_before_the_data_are_read(
    option: str, data: Path, tmp_path: Path
) -> None:
    where = {"-m": tmp_path / "m", option: tmp_path / "missing" / "file"}
    result = refuse("train", data / "train.txt", *(word for pair in where.items() for word in pair))
    assert "file: cannot be written" in result.stderr
    assert "rows" not in result.stderr


def test_fault_074_the_source_of_the_data_and_another_process_change_no_byte(
    data: Path, tmp_path: Path
) -> None:
    """The file in this process; packed, and as standard input, in others."""
    text = (data / "train.txt").read_bytes()
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(text))
    options = [*FEW, "--seed", 3, "--param", "feature_fraction=0.5"]
    succeed("train", data / "train.txt", "-m", tmp_path / "here", *options)
    for name, source in (("packed", tmp_path / "train.txt.gz"), ("piped", "-")):
        words = [str(word) for word in ("train", source, "-m", tmp_path / name, *options)]
        subprocess.run([*COMMAND, *words], input=text, check=True, capture_output=True)
        assert (tmp_path / name).read_bytes() == (tmp_path / "here").read_bytes()


@backends
def test_fault_073_any_number_of_threads_gives_the_same_bytes(
    backend: str, data: Path, tmp_path: Path
) -> None:
    models = []
    for threads in (1, 2, 7):
        model = tmp_path / str(threads)
        words = "--quality", "plain", "--rounds", 6, "--threads", threads, "--backend", backend
        succeed("train", data / "train.txt", "-m", model, *words)
        models.append(model.read_bytes())
    assert models[0] == models[1] == models[2]


def test_fault_079_a_reader_that_has_enough_ends_the_command_quietly() -> None:
    process = subprocess.Popen(
        [*COMMAND, "objectives"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0


def test_fault_083_results_and_log_are_apart_and_json_is_one_valid_line(
    data: Path, tmp_path: Path
) -> None:
    result = succeed(*train_eight_rounds(data, tmp_path / "m", "--json"))
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["rounds"] == 8
    assert "round 8/8" in result.stderr
    refuse("train", data / "train.txt")
    refuse("train", tmp_path / "missing", "-m", tmp_path / "m")


@pytest.mark.parametrize("full", [False, True])
def test_fault_062_without_a_place_for_compiled_code_it_is_compiled_in_memory(
    tmp_path: Path, full: bool
) -> None:
    # A file where the folder should be: what a read-only home amounts to, also for root. Or a full
    # disk: a limit.
    if not full:
        (tmp_path / "home").write_text("")
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    limited = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (4096, 4096)); " if full else ""
    script = (
        f"{limited}from boostrank.kernels.metric import cumulated;"
        " cumulated.compiled; cumulated.compiled"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0
    assert run.stderr.count("RuntimeWarning") == 1
    assert "every process compiles" in run.stderr
