"""Spark and Ray, where they are installed: `make test-clusters` makes an environment that has them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.cluster import train
from boostrank.core.errors import BoostrankError, ParameterError
from boostrank.data.assemble import read_files

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
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def frame_of(session: Any, paths: list[Path]) -> Any:
    import pandas as pd

    data = read_files(list(map(str, paths)))
    columns = [f"f{i + 1}" for i in range(data.n_features)]
    frame = pd.DataFrame(np.asarray(data.features[0 : data.n_documents]), columns=columns)
    return session.createDataFrame(
        frame.assign(label=data.labels, query=np.repeat(data.queries.qid, data.queries.sizes))
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_spark_frame_is_trained_on_and_scored(session: Any, data: Path, engine: str) -> None:
    from boostrank.cluster import spark

    rows, valid = (frame_of(session, [data / f"{name}.txt"]) for name in ("train", "valid"))
    model = spark.train(PARAMS, rows, 5, valid, label="label", qid="query", workers=2, backend=engine)
    assert model.info["data"]["queries"] == 140
    assert model.info["training"]["workers"] == 2
    scored = spark.predict(model, valid).toPandas()
    expected = model.predict(scored[list(model.feature_names)])
    assert np.array_equal(scored["score"], expected)
    read = read_files(str(data / "valid.txt"))
    alone = model.predict(read.features)
    assert sorted(scored["score"]) == pytest.approx(sorted(alone))


def test_what_is_wrong_with_a_spark_frame_is_told(session: Any, data: Path) -> None:
    from boostrank.cluster import spark

    rows = frame_of(session, [data / "train.txt"])
    with pytest.raises(ParameterError, match="'grade'"):
        spark.train(PARAMS, rows, 2, label="grade", qid="query", workers=2)
    with pytest.raises(BoostrankError, match="training partition"):
        spark.train(PARAMS, rows.withColumn("f1", rows.f1 * float("inf")), 2, label="label", qid="query", workers=2)


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_of_ray_give_the_bytes_of_local_processes(data: Path, engine: str) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: make test-clusters")
    root = str(Path(__file__).parents[2])
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
        ignore_reinit_error=True, runtime_env={"env_vars": {"PYTHONPATH": root}},
    )  # fmt: skip
    found, expected = (
        train(workers, PARAMS, [data / "s?.txt"], 5, [data / "v?.txt"], backend=engine)
        for workers in ("ray:2", "local:2")
    )
    assert found.to_bytes() == expected.to_bytes()
