"""What goes wrong on a cluster is told with its worker and its cause, at once, and leaves the
cluster usable.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import (
    DataError,
    FileFormatError,
    InputError,
    ParameterError,
    TrainingError,
    TrainingWarning,
    WorkerLost,
)
from boostrank.core.files import reserved
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.fit.checkpoint import Checkpoint
from tests.cluster.conftest import PARAMS, ndcg

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'boostrank[dask]'"
)
xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")

from boostrank.cluster import dask as cluster_dask  # noqa: E402
from boostrank.cluster import worker  # noqa: E402
from boostrank.cluster import workers as cluster_workers  # noqa: E402
from boostrank.cluster.channel import Mesh  # noqa: E402
from boostrank.engines.base import LostContact  # noqa: E402
from boostrank.engines.xgboost import workers as xgb_workers  # noqa: E402
from tests.cluster.conftest import train  # noqa: E402


def owner(owner_path: str) -> Any:
    """A module, or a class in one: package.module:Class."""
    from importlib import import_module

    module, _, name = owner_path.partition(":")
    imported = import_module(module)
    return getattr(imported, name) if name else imported


def plant(owner_path: str, name: str, trouble: str) -> None:
    """On a worker: from now on a function does not do what it should."""

    def troubled(*arguments: Any, **options: Any) -> Any:
        if trouble == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "sleeps":
            troubled.healed.wait(60)  # type: ignore[attr-defined]
            troubled.slept = not troubled.healed.is_set()  # type: ignore[attr-defined]
            return real(*arguments, **options)
        raise (
            MemoryError if trouble == "memory" else FileFormatError("planted", file="a.txt", line=3)
        )

    real = getattr(owner(owner_path), name)
    troubled.real, troubled.healed, troubled.slept = real, threading.Event(), False  # type: ignore[attr-defined]
    setattr(owner(owner_path), name, troubled)


def heal(owner_path: str, name: str) -> None:
    """On a worker: undo it."""
    now = getattr(owner(owner_path), name)
    setattr(owner(owner_path), name, getattr(now, "real", now))
    if hasattr(now, "healed"):
        now.healed.set()


def slept(owner_path: str, name: str) -> bool:
    """On a worker: whether a function that sleeps has come to its end."""
    return getattr(getattr(owner(owner_path), name), "slept", False)


@contextlib.contextmanager
def planted(cluster: Any, module: str, name: str, trouble: str, which: Any = max) -> Iterator[None]:
    """Inside, the last of the two workers has trouble with a function: the one that gets the
    smaller shard.
    """
    cluster.wait_for_workers(2)
    cluster.run(plant, module, name, trouble, workers=[which(addresses(cluster))])
    try:
        yield
    finally:
        cluster.wait_for_workers(2)
        cluster.run(heal, module, name)


def patience(seconds: float) -> None:
    """On a worker: how long its unfinished work is waited for when the client leaves."""
    worker._LEAVING_SECONDS = seconds


def addresses(cluster: Any) -> list[str]:
    return sorted(cluster.scheduler_info(n_workers=-1)["workers"])


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers need not long to say what they know."""
    monkeypatch.setattr(cluster_workers, "_PARTING_SECONDS", 0.5)


@pytest.mark.parametrize(
    ("name", "trouble", "kind", "words"),
    [
        ("member", "memory", TrainingError, r"^worker 127\S+ \(\S+s2.txt\): MemoryError\n"),
        ("replace", "memory", TrainingError, r"^worker 127\S+ \(\S+s2.txt\): MemoryError\n"),
        ("replace", "format", DataError, r"^worker 127\S+ \(\S+s2.txt\): a.txt:3: planted$"),
    ],
)
def test_an_error_at_any_stage_is_told_at_once_and_the_workers_are_free(
    name: str, trouble: str, kind: type[Exception], words: str, cluster: Any, data: Path, soon: None
) -> None:
    """Those that wait for the failed one, also where they first meet, must not go on waiting."""
    shards = [data / "s0.txt", data / "s2.txt"]
    with planted(cluster, "boostrank.engines.xgboost.workers", name, trouble):
        started = time.monotonic()
        with pytest.raises(kind, match=words) as caught:
            train(cluster, PARAMS, shards, 2)
        assert time.monotonic() - started < 110  # the meeting's own patience is 120 s
        assert trouble != "memory" or ", in troubled" in caught.value.__notes__[0]
    assert train(cluster, PARAMS, shards, 1).best_iteration == 1


def test_a_worker_that_fails_to_read_ends_the_others_wait(
    cluster: Any, data: Path, soon: None, tmp_path: Path
) -> None:
    (tmp_path / "bad.txt").write_text("1 qid:900 1:oops\n")
    cluster.run(patience, 0.5)
    try:
        with planted(cluster, "boostrank.cluster.worker:Worker", "_read", "sleeps", which=min):
            with pytest.raises(DataError, match=r"bad.txt:1:\d+: .*oops"):
                train(cluster, PARAMS, [data / "s0.txt", tmp_path / "bad.txt"], 2)
            assert not any(cluster.run(slept, "boostrank.cluster.worker:Worker", "_read").values())
    finally:
        cluster.run(patience, worker._LEAVING_SECONDS)


def test_fault_92_a_worker_that_dies_before_all_have_met_lets_the_others_go(
    cluster: Any, data: Path
) -> None:
    shards = [data / "s0.txt", data / "s2.txt"]
    with planted(cluster, "boostrank.engines.xgboost.workers", "member", "dies"):
        started = time.monotonic()
        with pytest.raises(WorkerLost, match="is gone"):
            train(cluster, PARAMS, shards, 2)
        assert time.monotonic() - started < 110
    assert train(cluster, PARAMS, shards, 1).best_iteration == 1


def test_fault_118_a_worker_that_is_stopped_is_named_and_given_up(
    cluster: Any, data: Path, soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first: where the workers meet."""
    monkeypatch.setattr(cluster_dask, "_RESTART_SECONDS", 2.0)
    path, shards = tmp_path / "so-far", [data / "s0.txt", data / "s2.txt"]
    cluster.wait_for_workers(2)
    first, _ = addresses(cluster)
    process = cluster.run(os.getpid, workers=[first])[first]

    def stop(env: Any) -> None:
        if path.exists():
            os.kill(process, signal.SIGSTOP)

    with pytest.raises(WorkerLost, match=r"worker \S+ .* answered .* \d+ seconds.*so-far"):
        train(
            cluster,
            PARAMS,
            shards,
            100_000,
            callbacks=[stop],
            checkpoint=Checkpoint(path, every=1),
            worker_timeout=2,
        )
    # Its nanny has ended it, which ends the sum that the other one waited in. Both may be new.
    cluster.wait_for_workers(2, timeout=120)
    rounds = boostrank.RankingModel.load(path).best_iteration
    assert train(cluster, PARAMS, shards[:1], 1, init_model=path).best_iteration == rounds + 1


def test_the_first_error_is_not_hidden_by_that_of_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, **_: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: Any) -> None:
            raise xgboost.core.XGBoostError("the tracker is gone")

    monkeypatch.setattr(xgb_workers.collective, "CommunicatorContext", Broken)
    with pytest.raises(ValueError, match="mine"), xgb_workers.member(Mesh("127.0.0.1", b"key")):
        raise ValueError("mine")
    with (
        pytest.raises(LostContact, match="the tracker is gone"),
        xgb_workers.member(Mesh("127.0.0.1", b"key")),
    ):
        pass


def test_two_trainings_at_once_take_turns(cluster: Any, data: Path) -> None:
    models: list[Any] = []

    def one() -> None:
        with distributed.Client(cluster.scheduler.address, set_as_default=False) as client:
            models.append(train(client, PARAMS, [data / "s0.txt", data / "s1.txt"], 2))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [model.best_iteration for model in models] == [2, 2]


def test_fault_077_a_full_disk_under_the_checkpoint_does_not_end_the_training(
    cluster: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise TrainingError("so-far: could not be written: No space left on device")

    monkeypatch.setattr(boostrank.RankingModel, "save", full)
    slow = [lambda env: time.sleep(0.1)]
    path = tmp_path / "so-far"
    with pytest.warns(TrainingWarning, match="No space left"):
        model = train(
            cluster,
            PARAMS,
            [data / "s0.txt"],
            12,
            callbacks=slow,
            checkpoint=Checkpoint(path, every=1),
        )
    assert model.best_iteration == 12


def test_a_checkpoint_that_another_training_writes_is_refused(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    with reserved(tmp_path / "c"), pytest.raises(InputError, match=r"c: another run is writing it"):
        train(cluster, PARAMS, [data / "s0.txt"], 2, checkpoint=Checkpoint(tmp_path / "c", every=1))


def test_a_model_that_is_continued_keeps_its_objective(cluster: Any, data: Path) -> None:
    before = train(cluster, {"objective": "approx-ndcg", "num_leaves": 7}, [data / "s0.txt"], 1)
    after = train(cluster, {"num_leaves": 7}, [data / "s0.txt"], 1, init_model=before)
    assert after.info["objective"] == before.info["objective"]
    assert after.best_iteration == 2


def test_weights_of_documents_reach_the_workers_and_the_start(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    """Linear gains times weights are other linear gains: the same model, byte for byte."""
    # Two shards with weights beside them, and two whose labels are multiplied by them.
    random = np.random.default_rng(3)
    weighted = [tmp_path / f"w{i}.txt" for i in range(2)]
    relabelled = [tmp_path / f"r{i}.txt" for i in range(2)]
    for i in range(2):
        lines = (data / f"s{i}.txt").read_text().splitlines()
        weights = random.choice([0.0, 0.5, 3.0], len(lines))
        weighted[i].write_text("\n".join(lines) + "\n")
        Path(f"{weighted[i]}.weight").write_text("\n".join(map(str, weights)) + "\n")
        words = [line.partition(" ") for line in lines]
        texts = [
            f"{float(label) * w} {features}\n"
            for (label, _, features), w in zip(words, weights, strict=True)
        ]
        relabelled[i].write_text("".join(texts))
    # The models are the same; an objective that takes no weights is refused.
    params = {
        "objective": "auto",
        "gain": "linear",
        "num_leaves": 7,
        "metric": "none",
        "num_threads": 1,
    }
    cluster.wait_for_workers(2, timeout=120)  # one worker bins the rows in another way than two
    ours = train(cluster, params, weighted, 2)
    others = train(cluster, params, relabelled, 2)
    assert ours.to_bytes() == others.to_bytes()
    with pytest.raises(DataError, match="xgboost:rank:ndcg"):
        train(cluster, params | {"objective": "xgboost:rank:ndcg"}, weighted, 2)


def test_fault_95_weights_and_several_validation_sets_count_as_on_one_machine(
    cluster: Any, data: Path, tmp_path: Path
) -> None:
    """Weights lie beside some of the shards only; the sets are of different size, cut unevenly."""
    random = np.random.default_rng(3)
    copies = {}
    for name in ("train", "s0", "s1", "s2", "v0", "v1", "valid"):
        copies[name] = tmp_path / f"{name}.txt"
        copies[name].write_bytes((data / f"{name}.txt").read_bytes())
    weights = {"s0": random.uniform(0.2, 5, 80), "v0": random.uniform(0.2, 5, 5)}
    weights["train"] = np.concatenate([weights["s0"], np.ones(60)])
    weights["valid"] = np.concatenate([weights["v0"], np.ones(55)])
    for name, values in weights.items():
        Path(f"{copies[name]}.weight").write_text("\n".join(map(str, values)) + "\n")
    train_set = read_libsvm(copies["train"])
    sets = [read_libsvm(copies[name], like=train_set) for name in ("valid", "v1")]
    whole = [[copies["valid"]], [copies["v1"]]]
    cut = [[copies["v0"], copies["v1"]], [copies["v1"]]]
    # On one worker everything is as on one machine, but for the edges of bins.
    alone = boostrank.train(PARAMS, train_set, 3, sets, backend="xgboost")
    for shards, valid in (([copies["train"]], whole), ([copies[f"s{i}"] for i in range(3)], cut)):
        model = train(cluster, PARAMS, shards, 3, valid, ["all", "some"])
        for name, valid_set in zip(("all", "some"), sets, strict=True):
            assert model.evals_result[name]["ndcg@10"][-1] == pytest.approx(
                ndcg(model, valid_set), abs=1e-9
            )
        exact = len(shards) == 1
        tolerance = 1e-6 if exact else 0.01
        assert ndcg(model, train_set) == pytest.approx(ndcg(alone, train_set), abs=tolerance)
    unweighted = boostrank.Metric.parse("ndcg@10").evaluate(
        sets[0].labels,
        model.predict(sets[0]),
        boostrank.QueryIndex.from_sizes(sets[0].queries.sizes),
    )
    assert abs(unweighted.mean - ndcg(model, sets[0])) > 1e-4, "the weights matter"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"worker_timeout": 0}, "worker_timeout=0 must be above 0 seconds"),
        ({"valid": [["a"], ["b"]], "valid_names": ["one", "one"]}, "valid_names must be distinct"),
        ({"valid": ["a"], "valid_names": ["one", "two"]}, "2 valid_names for 1"),
        ({"checkpoint": "c"}, "Checkpoint.*init_model"),
        ({"folds": 2, "checkpoint": Checkpoint("c")}, "checkpoint"),
        ({"data": []}, "no shards"),
        ({"data": ["a.txt", "./a.txt"]}, r"a\.txt is given twice"),
        ({"params": {"early_stopping_round": 3}}, "early stopping .*validation"),
        ({"params": {"fill": 0}}, "fill"),
    ],
)
def test_wrong_options_are_refused_before_a_worker_hears_of_them(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParameterError, match=words):
        train("local:2", arguments.pop("params", PARAMS), **({"data": ["a.txt"]} | arguments))


def test_an_unknown_keyword_is_refused_at_once_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"'regoup'.*'regroup'"):
        train("local:2", PARAMS, ["a.txt"], regoup=True)
