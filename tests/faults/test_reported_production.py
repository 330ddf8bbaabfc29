"""A training job at night: kills, changed data, read-only caches, lost workers, logs, memory
limits, closed pipes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.cluster.local import LocalWorkers
from boostrank.core.errors import InputError, TrainingWarning, WorkerLost
from boostrank.fit.checkpoint import Checkpoint
from boostrank.kernels import jit
from boostrank.tracking import JsonLines
from tests.cli.conftest import invoke, stop_in_round

ROUNDS = 8


def night(folder: Path, name: str, seed: int = 0) -> Path:
    """Write the data of a night, which differ by seed."""
    random = np.random.default_rng(seed)
    rows = [
        f"{i % 3} qid:{i // 8} 1:{random.random():.4f} 2:{i % 3 + random.random():.4f}\n"
        for i in range(160)
    ]
    (folder / name).write_text("".join(rows))
    return folder / name


def job(data: Path, folder: Path, *more: object) -> Any:
    few = (
        "--rounds",
        ROUNDS,
        "--num-leaves",
        4,
        "--threads",
        1,
        "--quality",
        "plain",
        "--objective",
        "regression",
    )
    return invoke("train", data, "-m", folder / "m", *few, "--checkpoint-every", 2, *more)


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the checkpoint of a training that was interrupted after five rounds, and other
    data.
    """
    night(tmp_path, "b.txt", seed=1)
    with monkeypatch.context() as patch:
        stop_in_round(patch, 4)
        assert job(night(tmp_path, "a.txt"), tmp_path, "--log", tmp_path / "log").exit_code == 130
    return tmp_path


def model_of(data: Path, folder: Path) -> bytes:
    """The model of an uninterrupted training."""
    (folder / "whole").mkdir(exist_ok=True)
    assert job(data, folder / "whole").exit_code == 0
    return (folder / "whole" / "m").read_bytes()


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_first_use_cli_01_the_next_night_goes_on_or_starts_over(name: str, killed: Path) -> None:
    done = job(killed / name, killed, "--resume-or-restart")
    assert done.exit_code == 0, done.stderr
    assert ("resumed after round 5" in done.stderr) == (name == "a.txt")
    assert done.stderr.count("train.data") == (name == "b.txt")
    assert (killed / "m").read_bytes() == model_of(killed / name, killed)
    assert not (killed / "m.checkpoint").exists()


def test_first_use_cli_01_resume_alone_refuses_with_what_differs(killed: Path) -> None:
    before = (killed / "m.checkpoint").read_bytes()
    for more, words in ((["--learning-rate", 0.3], "learning_rate"), (["--folds", 2], "folds")):
        refused = job(killed / "a.txt", killed, "--resume", *more)
        assert refused.exit_code == 2, refused.stderr
        assert words in refused.stderr
    refused = job(killed / "b.txt", killed, "--resume")
    assert refused.exit_code == 2
    assert "train.data" in refused.stderr
    assert (killed / "m.checkpoint").read_bytes() == before


def test_first_use_cli_01_another_file_is_no_checkpoint(tmp_path: Path) -> None:
    data = night(tmp_path, "a.txt")
    refused = job(data, tmp_path, "--checkpoint", night(tmp_path, "b.txt"))
    assert (refused.exit_code, "is not a checkpoint" in refused.stderr) == (2, True), refused.stderr
    assert "remove" not in refused.stderr


def test_rounds_given_twice_and_a_config_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbfnum-leaves = 3\n")
    command = "train", night(tmp_path, "a.txt"), "-m", tmp_path / "m", "--threads", 1
    few = "--config", tmp_path / "c.toml", "--quality", "plain", "--rounds", 2
    assert invoke(*command, *few).exit_code == 0
    assert "num_leaves=3\n" in (tmp_path / "m").read_text()
    refused = invoke(*command, *few, "--param", "n_estimators=3")
    assert (refused.exit_code, "n_estimators" in refused.stderr, "--rounds" in refused.stderr) == (
        2,
        True,
        True,
    )


@pytest.mark.parametrize("damage", ["empty", "words", "cut", "newer"])
def test_first_use_cli_01_a_damaged_checkpoint_starts_over(damage: str, killed: Path) -> None:
    path = killed / "m.checkpoint"
    good = path.read_bytes()
    newer = good.replace(b"checkpoint 1", b"checkpoint 9", 1)
    path.write_bytes({"empty": b"", "words": b"my notes", "cut": good[:-9], "newer": newer}[damage])
    assert job(killed / "a.txt", killed, "--resume").exit_code == 2
    (killed / "c.toml").write_text("resume-or-restart = true\n")
    done = job(killed / "a.txt", killed, "--config", killed / "c.toml")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("starts over") == 1
    assert (killed / "m").read_bytes() == model_of(killed / "a.txt", killed)
    if damage == "words":  # a file of somebody's is kept
        assert (killed / "m.checkpoint.old").read_bytes() == b"my notes"


def test_first_use_cli_01_in_python_as_well(tmp_path: Path) -> None:
    params = {"objective": "regression", "num_leaves": 4, "num_threads": 1}
    sets = [boostrank.read(night(tmp_path, name, seed=i)) for i, name in enumerate("ab")]
    path = tmp_path / "c"
    boostrank.train(params, sets[0], 4, checkpoint=boostrank.Checkpoint(path, every=2))
    with pytest.raises(InputError, match=r"train\.data"):
        boostrank.train(params, sets[1], 4, checkpoint=boostrank.Checkpoint(path, resume=True))
    over = boostrank.Checkpoint(path, every=2, resume_or_restart=True)
    with pytest.warns(TrainingWarning, match=r"train\.data"):
        model = boostrank.train(params, sets[1], 4, checkpoint=over)
    assert over.resumed_at is None
    assert model.to_bytes() == boostrank.train(params, sets[1], 4).to_bytes()
    again = boostrank.Checkpoint(path, resume_or_restart=True)
    boostrank.train(params, sets[1], 4, checkpoint=again)
    assert again.resumed_at == 2


def test_first_use_cli_05_a_cache_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def double(x: float) -> float:
        return 2.0 * x

    if jit.numba.config.DISABLE_JIT:
        pytest.skip("nothing is cached here")
    monkeypatch.setattr(
        jit, "find_write_fault", jit.cache(lambda directory: "Read-only file system")
    )
    monkeypatch.setattr(jit, "cache_directory", jit.cache(lambda: str(tmp_path)))
    jit._say_missing.cache_clear()
    doubled = jit.entry_point(jit.FLOAT(jit.FLOAT))(double)
    doubled.is_ours = True
    with pytest.warns(RuntimeWarning, match="Read-only"):
        assert doubled(2.0) == 4.0
    assert not list(tmp_path.rglob("*.nb*"))
    monkeypatch.setattr(jit, "find_write_fault", jit.cache(lambda directory: ""))
    kept = jit.entry_point(jit.FLOAT(jit.FLOAT))(double)
    kept.is_ours = True
    assert kept(2.0) == 4.0
    assert list(tmp_path.rglob("*.nbi"))
    monkeypatch.setattr(
        jit, "find_write_fault", jit.cache(lambda directory: "Read-only file system")
    )
    jit._say_missing.cache_clear()
    loaded = jit.entry_point(jit.FLOAT(jit.FLOAT))(double)
    loaded.is_ours = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded(2.0) == 4.0
    for file in tmp_path.rglob("*.nbi"):  # a power cut
        file.write_bytes(b"")
    damaged = jit.entry_point(jit.FLOAT(jit.FLOAT))(double)
    damaged.is_ours = True
    with pytest.warns(RuntimeWarning, match="Read-only"):
        assert damaged(2.0) == 4.0


def test_first_use_cli_10_a_lost_worker_leaves_the_rounds(tmp_path: Path) -> None:
    shards = [night(tmp_path, "a.txt"), tmp_path / "b.txt"]
    shards[1].write_text(
        "".join(f"{i % 3} qid:{100 + i // 8} 1:{i % 7} 2:{i % 3}\n" for i in range(160))
    )
    params = {"objective": "lambdarank", "num_leaves": 4, "metric": "none"}
    workers, path, killed = LocalWorkers(2, threads=1), tmp_path / "so-far", list[int]()

    def kill(env: Any) -> None:
        if path.exists() and not killed:
            killed.append(workers._started[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(WorkerLost) as caught:
        boostrank.cluster.train(
            workers,
            params,
            [str(shard) for shard in shards],
            100_000,
            callbacks=[kill],
            checkpoint=Checkpoint(path, every=3),
        )
    so_far = boostrank.RankingModel.load(path)
    assert so_far.best_iteration >= 3
    assert f"first {so_far.best_iteration} rounds" in str(caught.value)
    assert np.isfinite(so_far.predict(boostrank.read(shards[0]))).all()


def rounds_of(log: Path) -> list[int]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["round"] for line in lines if "round" in line]


def test_first_use_cli_14_a_log_repeats_no_round_after_a_resume(killed: Path) -> None:
    log = killed / "log"
    lines = log.read_text().splitlines()
    assert rounds_of(log) == [1, 2, 3, 4, 5]
    more = json.dumps(json.loads(lines[-1]) | {"round": 6})
    log.write_text("\n".join([*lines, more[: len(more) // 2]]))  # torn by a power cut
    assert job(killed / "a.txt", killed, "--resume", "--log", log).exit_code == 0
    assert rounds_of(log) == list(range(1, ROUNDS + 1))


@pytest.mark.parametrize("folds", [None, 2])
def test_first_use_cli_14_rounds_between_checkpoint_and_kill_are_logged_once(
    folds: int | None, tmp_path: Path
) -> None:
    data = boostrank.read(night(tmp_path, "a.txt"))
    params = {
        "objective": "regression",
        "num_leaves": 4,
        "num_threads": 1,
        "eval_at": [5],
        "seed": 3,
    }
    calls: list[int] = []

    def dies(env: Any) -> None:
        calls.append(env.iteration)
        if len(calls) == (6 if folds is None else 13):
            raise KeyboardInterrupt

    def train(log: Path, *callbacks: Any, **options: Any) -> None:
        valid = {} if folds else {"valid_sets": [data]}
        boostrank.train(
            params,
            data,
            ROUNDS,
            callbacks=[JsonLines(log), *callbacks],
            folds=folds,
            **valid,
            **options,
        )

    # Killed between two checkpoints, and resumed from the first of them.
    log, checkpoint = tmp_path / "log", boostrank.Checkpoint(tmp_path / "c", every=4)
    with pytest.raises(KeyboardInterrupt):
        train(log, dies, checkpoint=checkpoint)
    train(log, checkpoint=boostrank.Checkpoint(tmp_path / "c", every=4, resume=True))
    train(tmp_path / "whole", checkpoint=None)
    assert rounds_of(log) == rounds_of(tmp_path / "whole")


def test_first_use_cli_15_a_closed_pipe_is_quiet_where_click_replaces_the_stream(
    tmp_path: Path,
) -> None:
    work = (
        "import sys\nfrom boostrank.cli.streams import prepare_streams\nprepare_streams()\nfrom"
        " boostrank.cli.errors import run_reporting_errors\nfrom click.utils import"
        " PacifyFlushWrapper\ndef work():\n    sys.stdout.write('0.5\\n' * 99)\n    sys.stdout ="
        " PacifyFlushWrapper(sys.stdout)\nbefore = sys.stdout\nstatus ="
        " run_reporting_errors(work)\nsys.exit(status if sys.stdout is before else 9)\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", work],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
