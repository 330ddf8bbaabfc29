"""Spark and Ray, where they are installed: `make test-clusters` makes an environment that has them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import DataError, WorkerLost
from boostrank.files.assemble import read_files
from boostrank.fit.checkpoint import Checkpoint
from boostrank.model.ranking_model import RankingModel
from tests.cluster.conftest import train

PARAMS = {"objective": "shf-sdcg", "num_leaves": 7, "eval_at": [10], "num_threads": 1}
ENGINES = ["xgboost", "lightgbm"]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """Spark on this machine, with two cores."""
    pytest.importorskip("pyspark", reason="Spark is not installed: make test-clusters")
    if shutil.which("java") is None:
        pytest.skip("there is no Java: apt-get install openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def frame_of(session: Any, paths: list[Path]) -> Any:
    return session.createDataFrame(pandas_of(paths))


def pandas_of(paths: list[Path]) -> Any:
    import pandas as pd

    data = read_files(list(map(str, paths)))
    columns = [f"f{i + 1}" for i in range(data.n_features)]
    frame = pd.DataFrame(np.asarray(data.features[0 : data.n_documents]), columns=columns)
    return frame.assign(label=data.labels, query=np.repeat(data.queries.qid, data.queries.sizes))


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray on this machine, with two cores."""
    ray_module = pytest.importorskip("ray", reason="Ray is not installed: make test-clusters")
    root = str(Path(__file__).parents[2])
    ray_module.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": root}},
    )
    yield ray_module
    ray_module.shutdown()


def spark_tasks() -> list[int]:
    """Processes in which Spark runs tasks: children of its daemon."""
    daemons = set(processes("pyspark.daemon"))
    return [pid for pid in daemons if parent(pid) in daemons]


def ray_tasks() -> list[int]:
    return processes("ray::")


def processes(words: str) -> list[int]:
    """Processes with these words in their command, of those that descend from this one."""
    process_ids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                elder = int(folder.name) if words in command else 0
                while elder not in (0, os.getpid()):
                    elder = parent(elder)
            except OSError:
                continue
            if elder:
                process_ids.append(int(folder.name))
    return sorted(process_ids)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["spark", "ray"])
def test_tasks_give_the_bytes_of_local_processes(
    request: pytest.FixtureRequest, data: Path, kind: str, engine: str
) -> None:
    request.getfixturevalue({"spark": "session"}.get(kind, kind))
    by_tasks = train(f"{kind}:2", PARAMS, [data / "s?.txt"], 5, [data / "v?.txt"], backend=engine)
    expected = train("local:2", PARAMS, [data / "s?.txt"], 5, [data / "v?.txt"], backend=engine)
    assert by_tasks.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("kind", ["spark", "ray"])
def test_a_task_that_is_killed_or_stopped_ends_the_training(
    request: pytest.FixtureRequest, data: Path, tmp_path: Path, kind: str, how: signal.Signals
) -> None:
    request.getfixturevalue({"spark": "session"}.get(kind, kind))
    tasks: Callable[[], list[int]] = {"spark": spark_tasks, "ray": ray_tasks}[kind]
    path, hit = tmp_path / "so-far", list[float]()

    def strike(env: Any) -> None:
        if path.exists() and not hit:
            os.kill(tasks()[-1], how)
            hit.append(time.monotonic())

    with pytest.raises(WorkerLost, match="so-far contains"):
        train(
            f"{kind}:2",
            PARAMS,
            [data / "s?.txt"],
            100_000,
            backend="lightgbm",
            callbacks=[strike],
            checkpoint=Checkpoint(path, every=1),
            worker_timeout=10,
        )
    assert time.monotonic() - hit[0] < 60
    assert RankingModel.load(path).best_iteration > 0
    assert train(f"{kind}:2", PARAMS, [data / "s?.txt"], 2, backend="lightgbm").best_iteration == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_spark_frame_is_trained_on(session: Any, data: Path, engine: str) -> None:
    rows = frame_of(session, [data / "train.txt"])
    valid = frame_of(session, [data / "valid.txt"])
    model = train("spark:2", PARAMS, rows, 5, valid, qid="query", backend=engine)
    check(model, valid.toPandas(), data)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_ray_dataset_is_trained_on(ray: Any, data: Path, engine: str) -> None:
    rows = ray.data.from_pandas(pandas_of([data / "train.txt"])).repartition(3)
    valid = ray.data.from_pandas(pandas_of([data / "valid.txt"])).repartition(3)
    model = train("ray:2", PARAMS, rows, 5, valid, qid="query", backend=engine)
    check(model, valid.to_pandas(), data)


def check(model: RankingModel, valid: Any, data: Path) -> None:
    """All queries were learnt from, and rows of the cluster have the scores of the file's."""
    assert model.info["data"]["queries"] == 140
    assert model.info["training"]["workers"] == 2
    alone = model.predict(read_files(str(data / "valid.txt")).features)
    assert sorted(model.predict(valid)) == pytest.approx(sorted(alone))


def test_a_wrong_spark_frame_is_refused(session: Any, data: Path) -> None:
    rows = frame_of(session, [data / "train.txt"])
    with pytest.raises(DataError, match=r"training partition \d.*'grade'"):
        train("spark:2", PARAMS, rows, 2, label="grade", qid="query")
    with pytest.raises(DataError, match=r"training partition \d.*f1\b"):
        train("spark:2", PARAMS, rows.withColumn("f1", rows.label * 1e300), 2, qid="query")
