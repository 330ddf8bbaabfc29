"""Trackers: a run repeats its training, estimators are logged, and the served model takes what
`predict` takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank import BoostRanker, Objective, RankingDataset, RankingModel
from boostrank.core.errors import ParameterError, TrainingWarning
from boostrank.metrics import Conventions
from boostrank.model.query_columns import WithinQuery
from boostrank.tracking import JsonLines, MLflow, log_model, logged_arguments, mlflow_metrics

LABELS = np.random.default_rng(1).integers(0, 3, 120)
QUERIES = np.repeat(np.arange(12), 10)
VALUES = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": VALUES.normal(size=120),
        "b": pd.array(VALUES.integers(0, 5, 120), "Int16"),
        "c": pd.Categorical(VALUES.choice(["x", "y"], 120)),
    }
)
DATA = RankingDataset.from_frame(FRAME.assign(label=LABELS, qid=QUERIES))
HELD_OUT = DATA.take(np.arange(4))
SMALL = {"n_estimators": 3, "min_child_samples": 2, "n_jobs": 1}
NULL = FRAME[:3].assign(b=pd.array([None, 1, 2], "Int16"), c=pd.Categorical(["x", None, "y"]))


class Refused(Exception):
    pass


class Run:
    """What the callback uses of MLflow, kept in memory: `mlflow` itself need not be installed."""

    MlflowException = Refused

    def __init__(self) -> None:
        self.params: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.steps: list[int] = []
        self.artifacts = SimpleNamespace(
            load_dict=lambda uri: json.loads(self.files[uri.rpartition("/")[2]])
        )
        self.files: dict[str, str] = {}

    def log_params(self, params: dict[str, str]) -> None:
        if any(self.params.get(name, value) != value for name, value in params.items()):
            raise Refused("Changing param values is not allowed")
        self.params |= params

    def set_tag(self, name: str, value: str) -> None:
        self.tags[name] = value

    def log_dict(self, values: dict[str, Any], name: str) -> None:
        self.files[name] = json.dumps(values)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.steps.append(step)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run()
    monkeypatch.setitem(sys.modules, "mlflow", run)  # type: ignore[arg-type]
    return run


def trained(params: Any, **more: Any) -> Callable[[Any], RankingModel]:
    return lambda callback: boostrank.train(params, DATA, callbacks=[callback], **more)


def fitted(callback: Any) -> RankingModel:
    ranker = BoostRanker("shf-sdcg", sigma=0.7, learning_rate=0.2, random_state=3, **SMALL)
    return ranker.fit(FRAME, LABELS, qid=QUERIES, callbacks=[callback]).model_


TRAININGS: dict[str, Callable[[Any], RankingModel]] = {
    "ranker": fitted,
    "defaults": trained(None, num_boost_round=3),
    "text": trained(
        {"objective": "mix(shf-sdcg, regression)", "sigma": "geometric(4, 0.5)"}, num_boost_round=3
    ),
    "objects": trained(
        {"objective": Objective("shf-sdcg", sigma=0.3), "min_data_in_leaf": 2},
        num_boost_round=3,
        within_query=WithinQuery("rank", of="a"),
        conventions=Conventions(empty="zero"),
    ),
    "engine": trained(
        {"objective": "xgboost:rank:ndcg", "max_depth": 2}, num_boost_round=3, backend="xgboost"
    ),
    "folds": trained({"seed": 4, "eval_at": [5]}, num_boost_round=3, quality="good", folds=2),
    "stopped": trained(
        {"objective": "lambdarank", "early_stopping_round": 1}, valid_sets=[HELD_OUT]
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_first_use_python_05_a_run_is_repeated_from_its_arguments(name: str, run: Run) -> None:
    first = TRAININGS[name](MLflow())
    sets = {"valid_sets": [HELD_OUT]} if name == "stopped" else {}
    again = boostrank.train(train_set=DATA, **logged_arguments("run"), **sets)
    assert again.to_bytes() == first.to_bytes()
    assert dict(again.info) == dict(first.info)
    assert run.tags["boostrank.data"] == DATA.fingerprint
    versions = json.loads(run.files["boostrank.json"])["versions"]
    assert versions["boostrank"] == boostrank.__version__


def test_first_use_python_05_parameters_name_the_objective_and_the_rounds(run: Run) -> None:
    fitted(MLflow())
    expected = {
        "objective": "shf-sdcg",
        "sigma": "0.7",
        "n_estimators": "3",
        "learning_rate": "0.2",
    }
    expected |= {
        "random_state": "3",
        "quality": "plain",
        "backend": "lightgbm",
        "min_child_samples": "2",
    }
    assert expected.items() <= run.params.items()
    assert boostrank.train(run.params, DATA).to_bytes() == fitted(JsonLines("/dev/null")).to_bytes()
    assert run.steps == [1, 2, 3]


def test_first_use_python_05_a_run_says_defaults_and_keeps_the_first_parameters(run: Run) -> None:
    trained({})(MLflow())
    assert {
        "objective": "auto",
        "num_boost_round": "100",
        "seed": "0",
    }.items() <= run.params.items()
    with pytest.warns(TrainingWarning, match="start a run for each"):
        trained({}, num_boost_round=2)(MLflow())


def test_first_use_python_05_an_own_objective_must_be_passed_again(run: Run) -> None:
    def squares(scores: Any, data: Any) -> Any:
        return scores - data.get_label(), np.ones_like(scores)

    trained({"objective": squares}, num_boost_round=2)(MLflow())
    with pytest.raises(ParameterError, match="squares"):
        boostrank.train(train_set=DATA, **logged_arguments("run"))


def test_first_use_python_05_other_trackers_get_the_same_arguments(tmp_path: Path) -> None:
    fitted(JsonLines(tmp_path / "log.jsonl"))
    begin = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["params"]
    assert {
        "objective": "shf-sdcg",
        "sigma": 0.7,
        "n_estimators": 3,
        "quality": "plain",
    }.items() <= begin.items()


# With MLflow itself, where it is installed.


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    mlflow = pytest.importorskip("mlflow", reason="tracking with MLflow")
    folder = tmp_path_factory.mktemp("runs")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("tests", artifact_location=str(folder))
    )
    yield mlflow
    mlflow.set_experiment(experiment_id="0")  # the default, which other stores have too


@pytest.fixture(scope="module")
def ranker() -> BoostRanker:
    return BoostRanker(**SMALL).fit(FRAME, LABELS, qid=QUERIES)


@pytest.fixture(scope="module")
def logged(mlflow: Any, ranker: BoostRanker) -> str:
    with mlflow.start_run():
        return str(log_model(ranker).model_uri)


def test_first_use_python_05_mlflow_repeats_a_run(mlflow: Any) -> None:
    with mlflow.start_run() as run:
        first = fitted(MLflow())
    again = boostrank.train(train_set=DATA, **logged_arguments(run.info.run_id))
    assert again.to_bytes() == first.to_bytes()
    assert mlflow.get_run(run.info.run_id).data.params["sigma"] == "0.7"


def test_first_use_python_05_a_logged_estimator_takes_what_predict_takes(
    mlflow: Any, ranker: BoostRanker, logged: str
) -> None:
    served = mlflow.pyfunc.load_model(logged)
    row = {"a": 0.5, "b": None, "c": "x"}
    for frame in (FRAME, NULL, NULL[["c", "a", "b"]], pd.DataFrame([row])):
        np.testing.assert_array_equal(served.predict(frame), ranker.predict(frame))
    for rows in (row, [row], {name: [value] for name, value in row.items()}):
        np.testing.assert_array_equal(served.predict(rows), ranker.predict(pd.DataFrame([row])))
    with pytest.raises(mlflow.MlflowException, match=r"missing inputs \['c'\]"):
        served.predict(NULL[["a", "b"]])
    with pytest.raises(ParameterError, match="fitted"):
        log_model(BoostRanker())


def test_first_use_python_05_a_model_of_arrays_takes_integers_with_nulls(mlflow: Any) -> None:
    rows = FRAME[["a", "b"]].to_numpy(float)
    model = BoostRanker(**SMALL).fit(rows, LABELS, qid=QUERIES)
    with mlflow.start_run():
        served = mlflow.pyfunc.load_model(log_model(model).model_uri)
    frame = pd.DataFrame({0: [0.5, 1.0], 1: pd.array([None, 2], "Int16")})
    expected = model.predict(np.array([[0.5, np.nan], [1.0, 2.0]]))
    for rows_of_kind in (
        frame,
        frame.rename(columns={0: "f1", 1: "f2"}),
        [[0.5, None], [1.0, 2.0]],
    ):
        np.testing.assert_array_equal(served.predict(rows_of_kind), expected)


def test_first_use_python_05_requests_of_a_server_are_scored(
    mlflow: Any, ranker: BoostRanker, logged: str
) -> None:
    server = pytest.importorskip("mlflow.pyfunc.scoring_server", reason="the server of MLflow")
    served = mlflow.pyfunc.load_model(logged)
    row = {"a": 0.5, "b": None, "c": "x"}
    split = {"columns": list(row), "data": [list(row.values())]}
    for body in (
        {"dataframe_records": [row]},
        {"dataframe_split": split},
        {"inputs": [row]},
        {"instances": [row]},
    ):
        answer = server.invocations(
            json.dumps(body), "application/json", served, served.metadata.get_input_schema()
        ).response
        assert json.loads(answer)["predictions"] == list(ranker.predict(pd.DataFrame([row])))


def test_first_use_python_05_models_are_evaluated_by_query(
    mlflow: Any, ranker: BoostRanker, logged: str
) -> None:
    scores = ranker.predict(FRAME)
    expected = boostrank.metrics.evaluate(["ndcg@3,10", "map"], LABELS, scores, QUERIES)
    whole = FRAME.assign(label=LABELS, session=[f"q{i}" for i in QUERIES], score=scores)
    metrics = mlflow_metrics("ndcg@3,10", "map", group="session")
    with mlflow.start_run():
        results = [
            mlflow.models.evaluate(logged, whole, targets="label", extra_metrics=metrics),
            mlflow.models.evaluate(
                data=whole.sample(frac=1, random_state=1),
                predictions="score",
                targets="label",
                extra_metrics=metrics,
            ),
        ]
    for result in results:
        assert result.metrics == pytest.approx(
            {name.replace("@", "_at_"): result.mean for name, result in expected.items()}, abs=1e-12
        )
    with pytest.raises(ParameterError, match="'query id'"):
        mlflow_metrics("ndcg", group="query id")


def test_first_use_python_07_own_metrics_are_evaluated_by_mlflow(run: Run) -> None:
    def depth_of_best(labels: Any, scores: Any) -> float:
        return float(np.argmax(labels[np.argsort(-scores)]))

    def made(**arguments: Any) -> Any:
        return SimpleNamespace(**arguments)

    run.models = SimpleNamespace(make_metric=made)  # type: ignore[attr-defined]
    lower = boostrank.Metric("depth", function=depth_of_best, higher_is_better=False)
    first, second, third = mlflow_metrics(depth_of_best, lower, "ndcg@5")
    assert (first.greater_is_better, second.greater_is_better) == (True, False)
    assert [metric.name for metric in (first, second, third)] == [
        "depth_of_best",
        "depth",
        "ndcg_at_5",
    ]
    scores = FRAME["a"].to_numpy()
    expected = boostrank.evaluate(scores, DATA, [depth_of_best, "ndcg@5"])
    assert first.eval_fn(scores, LABELS, QUERIES) == expected["depth_of_best"].mean
    assert third.eval_fn(scores, LABELS, QUERIES) == expected["ndcg@5"].mean
