"""Trees on top of a linear start, in one model file of either engine, and what LightGBM does with its
own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.engines import parse_model
from boostrank.engines.lightgbm.model_text import start_trees
from tests.engines.conftest import TREES, add_empty_rows

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

ONLY_LIGHTGBM = pytest.mark.parametrize("backend", ["lightgbm"], indirect=True)
SCORE_TOLERANCE = {"lightgbm": 1e-9, "xgboost": 0.0}
"""Of the engine's own scores: XGBoost's are those of the model to the last bit."""
SUM_TOLERANCE = {"lightgbm": 1e-9, "xgboost": 1e-5}
"""Of contributions that are added up."""
NDCG = boostrank.Metric.parse("ndcg@10")
STOPPING: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "lightgbm": ({}, [lgb.early_stopping(4, verbose=False)]),
    "xgboost": ({"early_stopping_round": 4}, []),
}
"""Early stopping after four rounds, as parameters and as callbacks."""


def count_start_trees(text: str) -> int:
    return len(start_trees(text.encode()))


def measure_ndcg(model: Any, data: Any, **options: Any) -> float:
    return NDCG.evaluate(data.labels, model.predict(data, **options), data.queries).mean


def predict_alone(backend: str, path: Path, rows: np.ndarray) -> np.ndarray:
    """The scores of a model file by the engine itself."""
    if backend == "lightgbm":
        return lgb.Booster(model_file=str(path)).predict(rows, raw_score=True)
    xgb = pytest.importorskip("xgboost")
    return xgb.Booster(model_file=path).inplace_predict(rows, predict_type="margin")


def test_the_engine_alone_gives_the_same_scores(
    backend: str, boosted: Any, start_data: Any, tmp_path: Path
) -> None:
    path = tmp_path / "m.json"
    boosted.save(path)
    parse_model(path.read_bytes())
    rows = add_empty_rows(start_data[1])
    expected = boosted.predict(rows)
    alone = predict_alone(backend, path, rows)
    np.testing.assert_allclose(alone, expected, rtol=0, atol=SCORE_TOLERANCE[backend])
    again = boostrank.RankingModel.load(path)
    assert again.best_iteration == boosted.best_iteration == 6
    assert again.info["start"]["model"].endswith("in steps")
    np.testing.assert_array_equal(again.predict(rows), expected)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_metrics_of_the_training_are_those_of_the_model(
    backend: str, boosted: Any, start_data: Any
) -> None:
    measured = [measure_ndcg(boosted, start_data[1], num_iteration=r) for r in range(1, 7)]
    assert measured == pytest.approx(
        boosted.evals_result["valid_0"]["ndcg@10"], rel=0, abs=SCORE_TOLERANCE[backend]
    )


def test_rounds_are_those_of_trees_for_callbacks_schedules_and_stopping(
    backend: str, start_data: Any, tmp_path: Path
) -> None:
    train, valid = start_data
    rounds: list[int] = []
    params, callbacks = STOPPING[backend]
    model = boostrank.train(
        {**TREES, "learning_rate": 0.5, **params},
        train,
        200,
        valid_sets=[valid],
        start="linear",
        backend=backend,
        callbacks=[lambda env: rounds.append(env.iteration), *callbacks],
    )
    # The start is no round: not for callbacks, nor for stopping.
    curve = model.evals_result["valid_0"]["ndcg@10"]
    assert rounds == list(range(len(curve)))
    assert len(curve) < 200
    assert model.best_iteration == int(np.argmax(curve)) + 1
    assert model.best_score["valid_0"]["ndcg@10"] == max(curve)
    # The best score is that of the saved model.
    model.save(tmp_path / "m.json")
    for saved in (model, boostrank.RankingModel.load(tmp_path / "m.json")):
        assert measure_ndcg(saved, valid) == pytest.approx(
            max(curve), rel=0, abs=SCORE_TOLERANCE[backend]
        )
    # Nor is it one for schedules.
    annealed = boostrank.train(
        {**TREES, "objective": "reg-shf-sdcg"}, train, 4, start="linear", backend=backend
    )
    assert annealed.info["objective"]["total_rounds"] == 4
    assert annealed.info["training"] == {"rounds": 4, "rounds_before": 0}


def test_contributions_hold_the_linear_part(backend: str, boosted: Any, start_data: Any) -> None:
    rows = add_empty_rows(start_data[1])
    parts = boosted.contributions(rows)
    np.testing.assert_allclose(
        parts.sum(axis=1), boosted.predict(rows), rtol=0, atol=SUM_TOLERANCE[backend]
    )
    assert np.abs(parts[:, 0]).max() > 0.1


def test_a_model_with_a_start_is_continued_and_resumed(
    backend: str, boosted: Any, start_data: Any, tmp_path: Path
) -> None:
    train, valid = start_data
    options: dict[str, Any] = {"valid_sets": [valid], "backend": backend}
    more = boostrank.train(TREES, train, 3, init_model=boosted, **options)
    assert more.best_iteration == 9
    np.testing.assert_allclose(
        more.predict(valid, num_iteration=6),
        boosted.predict(valid),
        rtol=0,
        atol=SCORE_TOLERANCE[backend],
    )
    assert more.evals_result["valid_0"]["ndcg@10"][-1] == pytest.approx(
        measure_ndcg(more, valid), rel=0, abs=SCORE_TOLERANCE[backend]
    )

    class Stop(Exception):
        pass

    def stop(env: Any) -> None:
        if env.iteration == 3:
            raise Stop

    stop.order = 50  # type: ignore[attr-defined]
    path = tmp_path / "run.checkpoint"
    options["start"] = "linear"
    with pytest.raises(Stop):
        boostrank.train(
            TREES,
            train,
            6,
            checkpoint=boostrank.Checkpoint(path, every=2),
            callbacks=[stop],
            **options,
        )
    resumed = boostrank.train(
        TREES, train, 6, checkpoint=boostrank.Checkpoint(path, every=2, resume=True), **options
    )
    whole = boostrank.train(
        TREES, train, 6, checkpoint=boostrank.Checkpoint(tmp_path / "other"), **options
    )
    assert resumed.to_bytes() == whole.to_bytes()


@pytest.fixture(scope="module")
def start(boosted: Any) -> Any:
    """The scores of the start, as a function of rows."""
    curves = boosted.trees().forest.start
    return lambda rows: curves.values(rows).sum(axis=1)


@ONLY_LIGHTGBM
def test_the_score_is_that_of_the_steps_and_the_trees(
    boosted: Any, start: Any, start_data: Any
) -> None:
    text = boosted.booster.model_to_string()
    first = count_start_trees(text)
    assert first == 6
    trees = lgb.Booster(model_str=boosted._booster.native.model_to_string(start_iteration=first))
    rows = start_data[1].features
    assert np.isnan(rows).any()
    both = start(rows) + trees.predict(rows, raw_score=True)
    np.testing.assert_allclose(boosted.predict(rows), both, rtol=0, atol=1e-9)
    few = lgb.Booster(
        model_str=boosted._booster.native.model_to_string(start_iteration=first, num_iteration=2)
    )
    two = start(rows) + few.predict(rows, raw_score=True)
    np.testing.assert_allclose(boosted.predict(rows, num_iteration=2), two, rtol=0, atol=1e-9)


def walked(node: dict[str, Any], row: np.ndarray) -> float:
    """What a program says that reads thresholds and leaf values of a dump, and nothing else."""
    while "leaf_value" not in node:
        value = row[node["split_feature"]]
        left = node["default_left"] if np.isnan(value) else value <= node["threshold"]
        node = node["left_child" if left else "right_child"]
    return float(node["leaf_value"])


@ONLY_LIGHTGBM
def test_a_program_that_walks_leaf_values_gives_the_same_scores(
    boosted: Any, start_data: Any
) -> None:
    rows = np.vstack([start_data[1].features[:40], np.full((1, 6), np.nan, np.float32)]).astype(
        np.float64
    )
    trees = [tree["tree_structure"] for tree in boosted.booster.dump_model()["tree_info"]]
    scores = [sum(walked(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(scores, boosted.predict(rows), rtol=0, atol=1e-12)


@ONLY_LIGHTGBM
def test_every_node_of_a_start_counts_its_documents(boosted: Any, start_data: Any) -> None:
    first = count_start_trees(boosted.booster.model_to_string())

    def count(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            assert node["leaf_count"] >= 1
            return int(node["leaf_count"])
        total = count(node["left_child"]) + count(node["right_child"])
        assert node["internal_count"] == total
        return total

    for tree in boosted.booster.dump_model()["tree_info"][:first]:
        assert count(tree["tree_structure"]) - start_data[0].n_documents in (
            0,
            1,
        )  # a leaf of none counts one


def test_start_linear_trains_one_first(start_data: Any) -> None:
    train, valid = start_data
    model = boostrank.train(
        {**TREES, "objective": "approx-ndcg"}, train, 3, valid_sets=[valid], start="linear"
    )
    assert model.info["start"]["model"] == "ridge regression within queries, cross-fitted, in steps"
    assert count_start_trees(model.booster.model_to_string()) == 6  # the sixth is missing in places


@ONLY_LIGHTGBM
def test_other_models_as_a_start_are_refused(start_data: Any, boosted: Any) -> None:
    train = start_data[0]
    with pytest.raises(ParameterError, match="init_model, start"):
        boostrank.train(TREES, train, 1, start="linear", init_model=boosted)
    for start in (boosted, "m.json"):
        with pytest.raises(ParameterError, match=r"^start="):
            boostrank.train(TREES, train, 1, start=start)
    with pytest.raises(ParameterError, match="linear grows no trees"):
        boostrank.train({}, train, 1, start="linear", backend="linear")
