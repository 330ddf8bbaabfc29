"""Trees on top of a linear start, in one LightGBM file."""

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
from tests.engines.conftest import make_scaled_dataset

pytestmark = pytest.mark.usefixtures("leaves_as_grown")


def count_start_trees(text: str) -> int:
    return len(start_trees(text.encode()))


TREES = {
    "objective": "lambdarank",
    "num_leaves": 5,
    "verbosity": -1,
    "num_threads": 1,
    "eval_at": 10,
}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    return make_scaled_dataset(0, gaps=True), make_scaled_dataset(1, gaps=True)


@pytest.fixture(scope="module")
def boosted(data: Any) -> boostrank.RankingModel:
    return boostrank.train(TREES, data[0], 6, valid_sets=[data[1]], start="linear")


def test_lightgbm_alone_gives_the_same_scores(boosted: Any, data: Any, tmp_path: Path) -> None:
    boosted.save(tmp_path / "m.txt")
    text = (tmp_path / "m.txt").read_text()
    parse_model(text.encode())
    alone = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    rows = np.vstack(
        [data[1].features, np.full((1, 6), np.nan, np.float32), np.zeros((1, 6), np.float32)]
    )
    expected = boosted.predict(rows)
    np.testing.assert_allclose(alone.predict(rows, raw_score=True), expected, rtol=0, atol=1e-9)
    again = boostrank.RankingModel.load(tmp_path / "m.txt")
    assert again.best_iteration == boosted.best_iteration == 6
    np.testing.assert_array_equal(again.predict(rows), expected)
    again.save(tmp_path / "n.txt")
    assert (tmp_path / "n.txt").read_text() == text


@pytest.fixture(scope="module")
def start(boosted: Any) -> Any:
    """The scores of the start, as a function of rows."""
    curves = boosted.trees().forest.start
    return lambda rows: curves.values(rows).sum(axis=1)


def test_the_score_is_that_of_the_steps_and_the_trees(boosted: Any, start: Any, data: Any) -> None:
    text = boosted.booster.model_to_string()
    first = count_start_trees(text)
    assert first == 6
    trees = lgb.Booster(model_str=boosted._booster.native.model_to_string(start_iteration=first))
    rows = data[1].features
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


def test_a_program_that_walks_leaf_values_gives_the_same_scores(boosted: Any, data: Any) -> None:
    rows = np.vstack([data[1].features[:40], np.full((1, 6), np.nan, np.float32)]).astype(
        np.float64
    )
    trees = [tree["tree_structure"] for tree in boosted.booster.dump_model()["tree_info"]]
    scores = [sum(walked(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(scores, boosted.predict(rows), rtol=0, atol=1e-12)


def test_every_node_of_a_start_counts_its_documents(boosted: Any, data: Any) -> None:
    first = count_start_trees(boosted.booster.model_to_string())

    def count(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            assert node["leaf_count"] >= 1
            return int(node["leaf_count"])
        total = count(node["left_child"]) + count(node["right_child"])
        assert node["internal_count"] == total
        return total

    for tree in boosted.booster.dump_model()["tree_info"][:first]:
        assert count(tree["tree_structure"]) - data[0].n_documents in (
            0,
            1,
        )  # a leaf of none counts one


def test_rounds_are_those_of_trees_for_callbacks_schedules_and_stopping(data: Any) -> None:
    train, valid = data
    rounds: list[int] = []
    model = boostrank.train(
        {**TREES, "learning_rate": 0.5},
        train,
        40,
        valid_sets=[valid],
        start="linear",
        callbacks=[lambda env: rounds.append(env.iteration), lgb.early_stopping(4, verbose=False)],
    )
    curve = model.evals_result["valid_0"]["ndcg@10"]
    assert rounds == list(range(len(curve)))
    assert model.best_iteration == int(np.argmax(curve)) + 1
    assert model.best_score["valid_0"]["ndcg@10"] == max(curve)
    ndcg = (
        boostrank.Metric.parse("ndcg@10")
        .evaluate(valid.labels, model.predict(valid), valid.queries)
        .mean
    )
    assert ndcg == pytest.approx(max(curve))
    annealed = boostrank.train({**TREES, "objective": "reg-shf-sdcg"}, train, 4, start="linear")
    assert annealed.info["objective"]["total_rounds"] == 4
    assert annealed.info["training"] == {"rounds": 4, "rounds_before": 0}


def test_contributions_hold_the_linear_part(boosted: Any, data: Any) -> None:
    rows = data[1].features[:30]
    parts = boosted.contributions(rows)
    np.testing.assert_allclose(parts.sum(axis=1), boosted.predict(rows), rtol=0, atol=1e-9)
    assert np.abs(parts[:, 0]).max() > 0.1


def test_a_model_with_a_start_is_continued_and_resumed(
    boosted: Any, data: Any, tmp_path: Path
) -> None:
    train = data[0]
    more = boostrank.train(TREES, train, 3, init_model=boosted)
    assert more.best_iteration == 9
    np.testing.assert_allclose(
        more.predict(train, num_iteration=6), boosted.predict(train), rtol=0, atol=1e-9
    )

    class Stop(Exception):
        pass

    def stop(env: Any) -> None:
        if env.iteration == 3:
            raise Stop

    stop.order = 50  # type: ignore[attr-defined]
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        boostrank.train(
            TREES,
            train,
            6,
            start="linear",
            checkpoint=boostrank.Checkpoint(path, every=2),
            callbacks=[stop],
        )
    resumed = boostrank.train(
        TREES, train, 6, start="linear", checkpoint=boostrank.Checkpoint(path, every=2, resume=True)
    )
    whole = boostrank.train(
        TREES, train, 6, start="linear", checkpoint=boostrank.Checkpoint(tmp_path / "other")
    )
    assert resumed.booster.model_to_string() == whole.booster.model_to_string()


def test_what_lightgbm_itself_grows_is_no_start(data: Any) -> None:
    for least, leaves in ((10_000, 31), (20, 3)):
        params = {
            "linear_tree": True,
            "objective": "l2",
            "verbosity": -1,
            "min_data_in_leaf": least,
            "num_leaves": leaves,
        }
        rows = lgb.Dataset(np.nan_to_num(data[0].features), data[0].labels, params=params)
        assert count_start_trees(lgb.train(params, rows, 2).model_to_string()) == 0


def test_start_linear_trains_one_first(data: Any) -> None:
    train, valid = data
    model = boostrank.train(
        {**TREES, "objective": "approx-ndcg"}, train, 3, valid_sets=[valid], start="linear"
    )
    assert model.info["start"]["model"] == "ridge regression within queries, cross-fitted, in steps"
    assert count_start_trees(model.booster.model_to_string()) == 6  # the sixth is missing in places


def test_what_cannot_begin_is_refused_with_words(data: Any, boosted: Any) -> None:
    train = data[0]
    with pytest.raises(ParameterError, match="not both"):
        boostrank.train(TREES, train, 1, start="linear", init_model=boosted)
    for start in (boosted, "m.json"):
        with pytest.raises(ParameterError, match=r"^start="):
            boostrank.train(TREES, train, 1, start=start)
    with pytest.raises(ParameterError, match="linear grows no trees"):
        boostrank.train({}, train, 1, start="linear", backend="linear")
