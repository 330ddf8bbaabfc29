"""Kill a training at random moments, resume it until it ends, and compare its files with an
uninterrupted one's.

    python -m qa.kill_sweep KILLS [SEED]

Both engines take turns, with sampling on. After each SIGKILL every file there must be whole: the
model loads, the checkpoint parses. One process imports everything and forks each training before
any thread of OpenMP has run, so that kills fall into training and writing, not into imports.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import boostrank
from boostrank.cli import main
from boostrank.core.machine import openmp_environment
from boostrank.engines import parse_model
from boostrank.fit.checkpoint import _read
from boostrank.model.files import read_model_files

ROUNDS = 40
SAMPLING = {
    "lightgbm": ["bagging_fraction=0.6", "bagging_freq=2", "feature_fraction=0.7"],
    "xgboost": ["subsample=0.6", "colsample_bynode=0.7"],
}


def command(folder: Path, backend: str, model: Path) -> list[str]:
    """The training, the same each time."""
    sampling = [word for param in SAMPLING[backend] for word in ("--param", param)]
    return [
        "train",
        str(folder / "train.txt"),
        "--valid",
        str(folder / "valid.txt"),
        "-m",
        str(model),
        "--backend",
        backend,
        "--rounds",
        str(ROUNDS),
        "--num-leaves",
        "7",
        "--threads",
        "1",
        "--quality",
        "plain",
        "--objective",
        "reg-shf-sdcg",
        "--early-stopping",
        "200",
        *sampling,
    ]


def start(arguments: list[str], log: Path) -> int:
    """Run the command line in a forked process; its id."""
    pid = os.fork()
    if pid == 0:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 70
        try:
            main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            os._exit(status)
    return pid


def whole_files(model: Path) -> None:
    """Whatever lies there can be read.

    Raises:
        ModelError: something is torn.
    """
    if model.exists():
        # An engine that loads it here would start threads, which no fork survives.
        parse_model(read_model_files(model)[0])
    checkpoint = Path(f"{model}.checkpoint")
    if checkpoint.exists():
        _read(str(checkpoint))


def contents(model: Path) -> dict[str, bytes]:
    """Name and bytes of everything beside the model."""
    return {path.name: path.read_bytes() for path in model.parent.iterdir()}


def sweep(kills: int, seed: int, folder: Path) -> tuple[int, int]:
    """Kill so many times; the trainings that ended, and those that were resumed from a checkpoint.

    Raises:
        AssertionError: a training failed, or its files differ from an uninterrupted one's.
        ModelError: a file was torn.
    """
    draw = random.Random(seed)
    log = folder / "log"
    main_in_child(["data", "make", str(folder), "--queries", "60", "--mean-length", "12"], log)
    load_kernels(folder)
    expected, lasted = {}, {}
    for backend in SAMPLING:
        (folder / backend).mkdir()
        (folder / backend / "reference").mkdir()
        model = folder / backend / "reference" / "model"
        main_in_child(command(folder, backend, model), log)  # compiles
        model.unlink()
        started = time.monotonic()
        main_in_child(command(folder, backend, model), log)
        expected[backend], lasted[backend] = contents(model), time.monotonic() - started
    done = ended = resumed = 0
    while done < kills:
        backend = ("lightgbm", "xgboost")[ended % 2]
        (folder / backend / "run").mkdir(exist_ok=True)
        model = folder / backend / "run" / "model"
        pid = start([*command(folder, backend, model), "--checkpoint-every", "2", "--resume"], log)
        # Most kills come once checkpoints are being written, the others at any time.
        checkpoint = Path(f"{model}.checkpoint")
        before, deadline = (
            stamp(checkpoint),
            time.monotonic() + draw.uniform(0, 1.1 * lasted[backend]),
        )
        waiting, delay = draw.random() < 0.8, draw.uniform(0, 0.5 * lasted[backend])
        status = None
        while status is None and (waiting or time.monotonic() < deadline):
            time.sleep(0.001)
            if waiting and stamp(checkpoint) != before:
                waiting, deadline = False, time.monotonic() + delay
            finished, code = os.waitpid(pid, os.WNOHANG)
            status = code if finished else None
        if status is None:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            done += 1
            whole_files(model)
            if done % 20 == 0:
                sys.stderr.write(f"{done} kills, {ended} trainings ended, {resumed} resumed\n")
            continue
        assert os.waitstatus_to_exitcode(status) == 0, log.read_text()
        resumed += "resumed after round" in log.read_text()
        left = contents(model)
        assert left == expected[backend], (
            f"{backend}: {sorted(left)} differ from the uninterrupted training's files"
        )
        ended += 1
        for path in model.parent.iterdir():
            path.unlink()
    return ended, resumed


def stamp(path: Path) -> int | None:
    """What changes when the file is replaced."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def load_kernels(folder: Path) -> None:
    """Load what is compiled here, once, so that the trainings need not."""
    data = boostrank.read(folder / "train.txt", threads=1)
    objective = boostrank.Objective("reg-shf-sdcg", threads=1).scale_to(ROUNDS)
    objective.bind(data.labels, data.queries).gradient(np.zeros(data.n_documents), ROUNDS // 2)
    boostrank.Metric.parse("ndcg@10").evaluate(
        data.labels, np.zeros(data.n_documents), data.queries
    )


def main_in_child(arguments: list[str], log: Path) -> None:
    """One command to its end, in a process of its own."""
    _, status = os.waitpid(start(arguments, log), 0)
    assert os.waitstatus_to_exitcode(status) == 0, log.read_text()


if __name__ == "__main__":
    os.environ.update(openmp_environment())
    with contextlib.suppress(ImportError):
        import boostrank.engines.lightgbm.adapter
        import boostrank.engines.xgboost.adapter
        import boostrank.fit.from_data
    with tempfile.TemporaryDirectory() as name:
        kills, seed = int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0])
        ended, resumed = sweep(kills, seed, Path(name))
    summary = (
        f"{kills} kills, {ended} trainings ended, {resumed} of them resumed: every file whole,"
        " every byte the same"
    )
    sys.stdout.write(summary + "\n")
