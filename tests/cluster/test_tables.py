"""Tables as data: whole queries go to the workers, and every row has the code of its category
there.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.cluster import train
from boostrank.cluster.worker import Worker
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.data.arrays import common_space
from boostrank.data.frames import cut
from boostrank.files.assemble import read_files

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ENGINES = ["xgboost", "lightgbm"]
PARAMS = {
    "objective": "shf-sdcg",
    "num_leaves": 7,
    "eval_at": [10],
    "num_threads": 1,
    "verbosity": -1,
}


@pytest.fixture(scope="module")
def tables(data: Path) -> tuple[Any, Any]:
    """Training and validation rows; the relevance depends on a category as well."""
    frames = []
    for name in ("train", "valid"):
        part = read_files(str(data / f"{name}.txt"))
        frame = pd.DataFrame(
            np.asarray(part.features[0 : part.n_documents]), columns=list(part.feature_names)
        )
        town = np.random.default_rng(0).choice(
            ["Graz", "Linz", "Wels"], len(frame), p=[0.6, 0.3, 0.1]
        )
        frames.append(
            frame.assign(
                town=pd.Categorical(town, ["Wels", "Graz", "Linz"]),
                label=part.labels * (town != "Wels"),
                query=np.repeat(part.queries.qid, part.queries.sizes),
            )
        )
    return frames[0], frames[1]


def test_a_table_is_cut_between_queries(tables: tuple[Any, Any]) -> None:
    parts = cut(tables[0].iloc[::-1], "query", 3)
    assert sum(map(len, parts)) == len(tables[0])
    assert all(0.2 < len(part) / len(tables[0]) < 0.5 for part in parts)
    assert not set(parts[0]["query"]) & set(parts[1]["query"])
    assert sum(part["query"].nunique() for part in parts) == tables[0]["query"].nunique()


@pytest.mark.parametrize(
    ("kind", "engine", "where"), [("pandas", "lightgbm", "dask"), ("arrow", "xgboost", "local:2")]
)
def test_of_a_table_workers_learn_what_a_single_machine_does(
    cluster: Any, tables: tuple[Any, Any], engine: str, kind: str, where: str
) -> None:
    pytest.importorskip(engine)
    rows, valid = tables if kind == "pandas" else map(pa.Table.from_pandas, tables)
    workers = cluster if where == "dask" else where
    model = train(workers, PARAMS, rows, 4, valid, qid="query", backend=engine)
    train_set = boostrank.RankingDataset.from_frame(rows, qid="query")
    alone = boostrank.train(PARAMS, train_set, 4, backend=engine)
    assert model.info["training"]["workers"] == 2
    assert model.categories == alone.categories == train_set.categories
    scores = model.predict(valid)
    assert np.corrcoef(scores, alone.predict(valid))[0, 1] > 0.97
    read = boostrank.RankingDataset.from_frame(valid, qid="query")
    measured = boostrank.Metric.parse("ndcg@10").evaluate(read.labels, scores, read.queries).mean
    assert model.evals_result["valid_0"]["ndcg@10"][-1] == pytest.approx(measured, abs=1e-9)


def test_categories_of_files_have_one_code_on_all_workers(
    cluster: Any, tables: tuple[Any, Any], tmp_path: Path
) -> None:
    """Each file knows other categories, and in another order."""
    pytest.importorskip("xgboost")
    paths = []
    for i, part in enumerate(cut(tables[0], "query", 3)):
        part = part[part["town"] != ["Wels", "Graz", "Linz"][i]]
        paths.append(tmp_path / f"{i}.csv")
        part.assign(town=part["town"].astype(str)).to_csv(paths[-1], index=False)
    options = {"qid": "query", "categorical": ["town"]}
    model = train(cluster, PARAMS, paths, 4, backend="xgboost", **options)
    whole = boostrank.read(paths, **options)
    assert model.categories == whole.categories
    alone = boostrank.train(PARAMS, whole, 4, backend="xgboost")
    assert np.corrcoef(model.predict(whole), alone.predict(whole))[0, 1] > 0.97
    more = train(cluster, PARAMS, paths[::-1], 1, backend="xgboost", init_model=model, **options)
    assert more.categories == model.categories
    assert more.best_iteration == 5


def test_columns_within_queries_are_those_of_a_single_machine(cluster: Any, data: Path) -> None:
    shards = [data / f"s{i}.txt" for i in range(3)]
    options = {"within_query": "rank", "of": ["f1", "f2"]}
    model = train(cluster, PARAMS, shards, 3, [data / "v?.txt"], backend="lightgbm", **options)
    whole = boostrank.read(shards)
    alone = boostrank.train(
        PARAMS | {"of": ["f1", "f2"]}, whole, 3, backend="lightgbm", within_query="rank"
    )
    assert model.columns == alone.columns
    assert np.corrcoef(model.predict(whole), alone.predict(whole))[0, 1] > 0.97
    more = train(cluster, PARAMS, shards, 1, backend="lightgbm", init_model=model)
    assert more.columns == model.columns


def test_fewer_queries_than_workers_train_with_those_that_have_rows(
    cluster: Any, tables: tuple[Any, Any]
) -> None:
    rows = tables[0][tables[0]["query"] == tables[0]["query"].iloc[0]]
    model = train(cluster, PARAMS, rows, 1, tables[1], qid="query", backend="lightgbm")
    assert model.info["training"]["workers"] == 1
    assert len(model.evals_result["valid_0"]["ndcg@10"]) == 1


def test_a_wrong_table_is_refused(cluster: Any, tables: tuple[Any, Any]) -> None:
    rows, _ = tables
    with pytest.raises(DataError, match="table, not int"):
        train(cluster, PARAMS, 5, 1, qid="query")
    with pytest.raises(DataError, match="'query'"):
        train(cluster, PARAMS, rows.rename(columns={"query": "session"}), 1, qid="query")
    with pytest.raises(ParameterError, match="need qid"):
        train(cluster, PARAMS, rows, 1)
    with pytest.raises(DataError, match=r"training partition \d.*'grade'"):
        train(cluster, PARAMS, rows, 1, qid="query", label="grade")
    with pytest.raises(DataError, match=r"training partition \d.*f1\b"):
        train(cluster, PARAMS, rows.assign(f1=1e300), 1, qid="query")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dask_frame_is_trained_on(cluster: Any, tables: tuple[Any, Any], engine: str) -> None:
    frames = pytest.importorskip("dask.dataframe")
    rows, valid = [
        frames.from_pandas(frame.drop(columns="town"), npartitions=5) for frame in tables
    ]
    model = train(cluster, PARAMS, rows, 4, valid, qid="query", backend=engine)
    assert model.info["data"]["queries"] == 140
    assert model.info["training"]["workers"] == 2
    read = boostrank.RankingDataset.from_frame(tables[1].drop(columns="town"), qid="query")
    measured = (
        boostrank.Metric.parse("ndcg@10")
        .evaluate(read.labels, model.predict(read), read.queries)
        .mean
    )
    assert model.evals_result["valid_0"]["ndcg@10"][-1] == pytest.approx(measured, abs=1e-9)
    with pytest.raises(DataError, match="lazy"):
        train("local:2", PARAMS, rows, 1, qid="query")
    with pytest.raises(DataError, match="'session'"):
        train(cluster, PARAMS, rows, 1, qid="session", backend=engine)
    with pytest.raises(ParameterError, match="valid"):
        train(cluster, PARAMS, rows, 1, tables[1], qid="query", backend=engine)


def test_a_table_with_categories_of_its_own_is_converted_once() -> None:
    """Otherwise, its warnings would be given twice."""
    frames = [
        pd.DataFrame(
            {"qid": [1, 1], "label": [0, 1], "views": [2**24 + 1, 3], "town": pd.Categorical(towns)}
        )
        for towns in (["Wels", "Linz"], ["Graz", "Linz"])
    ]
    with pytest.warns(DataWarning):
        spaces = {
            str(i): boostrank.RankingDataset.from_frame(frame).feature_space
            for i, frame in enumerate(frames)
        }
    name, link = "training partition 0", SimpleNamespace(host="127.0.0.1", name="first")
    member = Worker(link, b"key", 1, {name: frames[0]})  # type: ignore[arg-type]
    try:
        tasks = ("read", ([name], {}, False)), ("conform", (common_space(spaces, {}), []))
        results = [member._done(*task) for task in tasks]
        wrong = member._done("no-task", ())
    finally:
        member.mesh.close()
    assert [len(result.warnings) for result in results] == [1, 0]
    shard = member._training[name]
    codes = shard.features[0:2][:, shard.feature_names.index("town")]
    assert [shard.categories["town"].values[int(code)] for code in codes] == ["Wels", "Linz"]
    # A task that a worker does not have is answered with an error.
    assert "no-task" in str(wrong.error)
