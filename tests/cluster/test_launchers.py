"""Launchers and engines: the same shards give the same model wherever the workers run."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.cluster.channel import Call
from boostrank.cluster.env import _RANKS, EnvWorkers
from boostrank.cluster.local import LocalWorkers
from boostrank.core.errors import InputError, ParameterError, TrainingError, WorkerLost
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.fit.checkpoint import Checkpoint
from tests.cluster.conftest import train

PARAMS = {"num_leaves": 7, "eval_at": [10], "num_threads": 1, "early_stopping_round": 4}
ENGINES = ["xgboost", "lightgbm"]
_JOB = """
import sys, boostrank
shards, valid, out, engine = sys.argv[1:]
params = {"num_leaves": 7, "eval_at": [10], "num_threads": 1, "early_stopping_round": 4}
model = boostrank.cluster.train("env", params, shards, 8, [valid], backend=engine)
model.save(out)
"""
# The command line, which gives workers a second to say what they know once one is lost.
_IMPATIENT = """
from boostrank.__main__ import run
from boostrank.cluster import workers
workers._PARTING_SECONDS = workers._LEAVING_SECONDS = 1.0
run()
"""


@pytest.fixture(scope="module", params=ENGINES)
def trained(request: pytest.FixtureRequest, data: Path) -> tuple[str, boostrank.RankingModel]:
    """Two local processes."""
    pytest.importorskip(request.param)
    return request.param, train(
        "local:2", PARAMS, [data / "s*.txt"], 8, [data / "v?.txt"], backend=request.param
    )


def test_dask_gives_the_same_bytes(cluster: Any, trained: Any, data: Path) -> None:
    engine, expected = trained
    cluster.wait_for_workers(2, timeout=120)
    model = train(cluster, PARAMS, [data / "s*.txt"], 8, [data / "v?.txt"], backend=engine)
    assert model.to_bytes() == expected.to_bytes()


def test_ranks_of_the_environment_give_the_same_bytes_on_every_rank(
    trained: Any, data: Path, tmp_path: Path
) -> None:
    """From Python; on the command line, with the other engine, the first one writes the model."""
    engine, expected = trained
    models = [tmp_path / str(rank) for rank in range(2)]
    if engine == "lightgbm":
        commands = [["-c", _JOB, data / "s*.txt", data / "v?.txt", m, engine] for m in models]
    else:
        del models[1]
        command = ["-m", "boostrank", "train", data / "s*.txt", "--valid", data / "v?.txt"]
        command += ["--cluster", "env", "--backend", engine, "--model", models[0], "--rounds", 8]
        command += ["--early-stopping", 4, "--num-leaves", 7, "--eval-at", 10, "--threads", 1]
        commands = [command, command]
    assert statuses_of_ranks(commands) == [0, 0]
    expected.save(tmp_path / "expected")
    for model in models:
        assert model.read_bytes() == (tmp_path / "expected").read_bytes()


def test_a_bad_shard_ends_all_ranks_of_the_command_line(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    command = ["-m", "boostrank", "train", "--cluster", "env", data / "s*.txt"]
    command += ["--rounds", "2", "--model", tmp_path / "model.json"]
    bad = tmp_path / "bad.txt"
    bad.write_text("1 qid:900 1:oops\n")
    assert statuses_of_ranks([[*command, bad], command]) == [2, 4]


def test_fault_123_a_full_disk_on_one_worker_is_named_with_its_shards_and_folder(
    data: Path, tmp_path: Path
) -> None:
    """Rows on their way to the engine take disk; a limit of bytes a file stands for a full one."""
    pytest.importorskip("resource", reason="there is no limit of bytes a file")
    limited = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (4096, 4096)); "
    command = [
        "boostrank",
        "train",
        "--cluster",
        "env",
        data / "s*.txt",
        "--rounds",
        "9",
        "-m",
        tmp_path / "model",
    ]
    run = (
        f"import sys; sys.argv = {[*map(str, command)]}; from boostrank.__main__ import run; run()"
    )
    with open(tmp_path / "log", "wb") as log:
        assert statuses_of_ranks([["-c", run], ["-c", limited + run]], stderr=log) == [3, 4]
    words = rf"error: worker 127\S+ \(\S+s\d.txt.*\): {re.escape(tempfile.gettempdir())}: "
    assert re.search(words, (tmp_path / "log").read_text())
    assert not (tmp_path / "model").exists()


def statuses_of_ranks(commands: Sequence[Sequence[Any]], **streams: Any) -> list[int]:
    """Exit statuses of ranks that run these commands of Python."""
    return [rank.wait(timeout=400) for rank in ranks_of(commands, **streams)]


def ranks_of(commands: Sequence[Sequence[Any]], **streams: Any) -> list[subprocess.Popen[bytes]]:
    """Processes that run these commands of Python as ranks of a job."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    job = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1"}
    job |= {"BOOSTRANK_KEY": "0123456789abcdef", "BOOSTRANK_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            env=os.environ | job | {"RANK": str(rank)},
            **streams,
        )
        for rank, command in enumerate(commands)
    ]


def test_the_metric_is_that_of_one_process_scoring_everything(trained: Any, data: Path) -> None:
    _, model = trained
    train_set = read_libsvm(data / "train.txt")
    valid = read_libsvm(data / "valid.txt", like=train_set)
    scores = model.predict(valid)
    mean = boostrank.Metric.parse("ndcg@10").evaluate(valid.labels, scores, valid.queries).mean
    history = model.evals_result["valid_0"]["ndcg@10"]
    assert mean == pytest.approx(history[model.best_iteration - 1], abs=1e-9)


def test_lightgbm_on_workers_grows_the_trees_of_one_machine(data: Path) -> None:
    """The bins are those of all rows, so the first splits are the same ones."""
    lightgbm = pytest.importorskip("lightgbm")
    assert lightgbm
    params = {"objective": "shf-sdcg", "num_leaves": 7, "num_threads": 1, "metric": "none"}
    whole = boostrank.read([data / f"s{i}.txt" for i in range(3)])
    alone = boostrank.train(params, whole, 4, backend="lightgbm")
    several = train("local:3", params, [data / "s*.txt"], 4, backend="lightgbm")
    assert splits(several)[:2] == splits(alone)[:2]
    assert np.allclose(several.predict(whole), alone.predict(whole), rtol=1e-4)
    assert all(len(tree) > 6 for tree in splits(alone))


def splits(model: boostrank.RankingModel) -> list[list[Any]]:
    trees = model.booster.dump_model()["tree_info"]
    return [_splits(tree["tree_structure"]) for tree in trees]


def _splits(node: Any) -> list[Any]:
    if "split_feature" not in node:
        return []
    return [
        node["split_feature"],
        node["threshold"],
        *_splits(node["left_child"]),
        *_splits(node["right_child"]),
    ]


@pytest.mark.parametrize(
    ("engine", "how"),
    [("lightgbm", signal.SIGKILL), ("xgboost", signal.SIGSTOP)],
)
def test_a_worker_that_is_killed_or_stopped_ends_the_training(
    engine: str, how: signal.Signals, data: Path, tmp_path: Path
) -> None:
    launcher, path = LocalWorkers(2), tmp_path / "so-far"
    hit: list[float] = []

    def strike(env: Any) -> None:
        if path.exists() and not hit:
            os.kill(launcher._started[1].pid, how)
            hit.append(time.monotonic())

    with pytest.raises(WorkerLost, match="so-far contains"):
        train(
            launcher,
            PARAMS | {"early_stopping_round": 0},
            [data / "s*.txt"],
            100_000,
            backend=engine,
            callbacks=[strike],
            checkpoint=Checkpoint(path, every=1),
            worker_timeout=3,
            start="none",
        )
    assert time.monotonic() - hit[0] < 60
    assert boostrank.RankingModel.load(path).best_iteration > 0
    assert launcher._started == []


def test_a_worker_that_is_lost_before_the_first_checkpoint(data: Path, tmp_path: Path) -> None:
    launcher, hit = LocalWorkers(2), list[int]()

    def strike(env: Any) -> None:
        if not hit:
            hit.append(launcher._started[1].pid)
            os.kill(hit[0], signal.SIGKILL)

    with pytest.raises(WorkerLost, match=r"no checkpoint was written yet \(decrease"):
        train(
            launcher,
            PARAMS | {"early_stopping_round": 0},
            [data / "s0.txt", data / "s1.txt"],
            100_000,
            callbacks=[strike],
            checkpoint=Checkpoint(tmp_path / "so-far", every=99_999),
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("engine", "how"),
    [("xgboost", signal.SIGKILL), ("lightgbm", signal.SIGSTOP)],
)
def test_a_rank_that_is_killed_or_stopped_ends_the_job(
    engine: str, how: signal.Signals, data: Path, tmp_path: Path
) -> None:
    pytest.importorskip(engine)
    model = tmp_path / "model"
    command = ["-c", _IMPATIENT, "train", "--cluster", "env", data / "s*.txt", "-m", model]
    command += ["--rounds", "100000", "--start", "none"]
    command += ["--backend", engine, "--checkpoint-every", "1", "--worker-timeout", "3s"]
    first, second = ranks_of([command, command])
    while not Path(f"{model}.so-far").exists():
        assert first.poll() is None
        time.sleep(0.1)
    os.kill(second.pid, how)
    struck = time.monotonic()
    assert first.wait(timeout=200) == 4
    assert time.monotonic() - struck < 60
    second.kill()
    second.wait()
    assert boostrank.RankingModel.load(f"{model}.so-far").best_iteration > 0


def test_a_launcher_that_fails_ends_the_wait(data: Path) -> None:
    class Toy(LocalWorkers):
        """A sixth launcher is one class."""

        def run(self, call: Call) -> None:
            raise OSError("no such queue")

    started = time.monotonic()
    with pytest.raises(TrainingError, match="no such queue"):
        train(Toy(2), PARAMS, [data / "s0.txt"], 1, [data / "v0.txt"])
    assert time.monotonic() - started < 30


def test_a_client_without_a_name_is_refused(data: Path) -> None:
    launcher = LocalWorkers(1)
    launcher.listen = ("no-such-host.invalid", 0)
    with pytest.raises(InputError, match=r"cannot listen on no-such-host\.invalid:0: "):
        train(launcher, PARAMS, [data / "s0.txt"], 1, [data / "v0.txt"], backend="lightgbm")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "RANK='' .* set RANK"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 is not below WORLD_SIZE=2"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x'"),
        ({"RANK": "0", "WORLD_SIZE": "2", "BOOSTRANK_KEY": "short"}, "BOOSTRANK_KEY"),
        ({"RANK": "0", "WORLD_SIZE": "2", "BOOSTRANK_KEY": "k" * 16}, "MASTER_ADDR"),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK=2 is"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "BOOSTRANK_KEY": "k" * 16}, "MASTER_ADDR"),
        ({"JOB_COMPLETION_INDEX": "0"}, "JOB_PARALLELISM='' .* set RANK"),
    ],
)
def test_what_the_environment_lacks_is_told(
    environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*_RANKS, *_RANKS.values(), "MASTER_ADDR", "BOOSTRANK_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ParameterError, match=words):
        EnvWorkers()
