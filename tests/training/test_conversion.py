"""A start with linear leaves, as 0.1.0 wrote it, becomes one in steps; the difference is what is said."""

from __future__ import annotations

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.backends import get_backend
from boostrank.core.errors import ModelError, ParameterError
from boostrank.data.libsvm.writer import write_libsvm
from boostrank.formats.base import LinearStart
from boostrank.formats.lightgbm.format import LIGHTGBM
from boostrank.kernels.trees.curves import ZERO, Curve
from boostrank.training.conversion import convert_start
from tests.cli.conftest import invoke

# As 0.1.0 wrote them: level at both ends, zero a piece of its own; and a line, from a linear model.
PIECES = Curve(
    np.array([-1.5, -ZERO, 0.0, ZERO, 0.25, 2.0]), np.array([-3.0, 0.5, 1.0, 1.0, 0.5, 0.25, 4.25]),
    np.array([0.0, 7.0 / 3.0, 0.0, 0.0, -1.0, 2.0, 0.0]), 0.125,
)  # fmt: skip
FEW = Curve(np.array([1.0, 3.0]), np.array([0.0, -1.0, 2.0]), np.array([0.0, 1.0, 0.0]), -0.5)
LINE = Curve.line(0.5, 1.0, 1.25)
NAMES = ("wide", "few", "line")
PARAMS = {"objective": "lambdarank", "num_leaves": 7, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}


def table(rows: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = np.column_stack([rng.normal(size=rows), rng.integers(0, 5, rows), rng.uniform(-2, 2, rows)])
    out[rng.random(rows) < 0.2, 0] = 0.0
    return np.where(rng.random(out.shape) < 0.1, np.nan, out).astype(np.float32)


def ranking(rows: np.ndarray) -> boostrank.RankingDataset:
    labels = np.digitize(np.nan_to_num(rows[:, 0]) + rows[:, 1] % 2, [0.0, 1.0])
    return boostrank.RankingDataset.from_arrays(rows, labels, group=[20] * (len(rows) // 20), feature_names=NAMES)


def old_model(curves: dict[int, Curve], rounds: int = 6) -> boostrank.RankingModel:
    engine = get_backend("lightgbm")
    start = boostrank.RankingModel(engine, engine.begin_with(LinearStart(NAMES, curves)))
    return boostrank.train(PARAMS, ranking(table(600)), rounds, init_model=start) if rounds else start


@pytest.fixture(scope="module")
def old() -> boostrank.RankingModel:
    return old_model({0: PIECES, 1: FEW})


def grown_trees(model: boostrank.RankingModel) -> list[dict[bytes, bytes]]:
    text = LIGHTGBM.parse(model.to_bytes())
    assert not any(tree.linear for tree in text.trees[text.start_trees :])
    return [dict(tree.fields) for tree in text.trees[text.start_trees :]]


def test_no_row_moves_by_more_than_the_bound(old: boostrank.RankingModel) -> None:
    new, found = convert_start(old)
    rows = np.concatenate([table(5000, 2), 100.0 * table(500, 3)])
    rows[:, 1] = np.abs(rows[:, 1])
    rows[:40, 0] = np.repeat([-ZERO, ZERO, 1e-34, -1e-40, 1e-40, np.inf, -np.inf, -0.0], 5)
    moved = np.abs(new.predict(rows) - old.predict(rows))
    assert 0.3 * found.bound < moved.max() <= found.bound + 1e-12
    assert 0.005 < found.bound < 0.03
    assert (found.documents, found.outside) == (None, 0)
    exact = np.isnan(rows).all(axis=1) | (rows[:, 0] == 0.0) & (rows[:, 1] == 0.0)
    assert exact.any()
    np.testing.assert_allclose(moved[exact], 0.0, atol=1e-12)


def test_trees_stay_as_they_are_and_what_reads_them_reads_the_start(
    old: boostrank.RankingModel, tmp_path: Path
) -> None:
    new, found = convert_start(old)
    assert grown_trees(new) == grown_trees(old)
    assert (new.best_iteration, new.feature_names) == (6, NAMES)
    new.save(tmp_path / "new.txt")
    booster, rows = lgb.Booster(model_file=str(tmp_path / "new.txt")), table(200, 4)
    assert not any(tree["tree_structure"].get("leaf_features") for tree in booster.dump_model()["tree_info"])
    np.testing.assert_array_equal(booster.predict(rows, raw_score=True), new.predict(rows))
    parts = booster.predict(rows, pred_contrib=True)
    np.testing.assert_allclose(parts.sum(axis=1), new.predict(rows), atol=1e-9)
    assert boostrank.RankingModel.load(tmp_path / "new.txt").info["conversion"]["steps"] == found.steps


def test_data_place_the_steps_and_count_their_documents(old: boostrank.RankingModel) -> None:
    data = ranking(table(400, 5))
    new, found = convert_start(old, data, steps=40)
    _, without = convert_start(old, steps=40)
    moved = np.abs(new.predict(data) - old.predict(data))
    assert found.largest == moved.max()
    assert found.largest < without.bound
    assert found.documents == 400
    places = [data.queries.ranks(model.predict(data)) for model in (old, new)]
    assert found.moved == np.count_nonzero(places[0] != places[1])
    assert found.ndcg is not None
    few = data.features.copy()
    few[:, 0] = 0.0  # then nothing moves: each of the other feature's values has a step of its own
    np.testing.assert_allclose(new.predict(few), old.predict(few), atol=1e-12)
    trees = [tree["tree_structure"] for tree in new.booster.dump_model()["tree_info"]]
    first = next(tree for tree in trees if tree["split_feature"] == 1)
    assert 400 <= first["internal_count"] < 400 + 40  # a step that no document is in counts one: TreeSHAP divides by it
    assert first["left_child"]["leaf_count"] == np.isnan(data.features[:, 1]).sum()


def test_a_function_without_an_end_is_level_beyond_the_values_of_the_training() -> None:
    old = old_model({2: LINE})
    new, found = convert_start(old)
    inside, outside = table(1000, 6), table(1000, 6)
    inside[:, 2] = np.clip(inside[:, 2], -1.9, 1.9)
    assert found.outside == 1
    assert np.abs(new.predict(inside) - old.predict(inside)).max() <= found.bound
    outside[:, 2] = 50.0
    assert np.abs(new.predict(outside) - old.predict(outside)).max() > 20.0
    alone = old_model({2: LINE}, rounds=0)
    with pytest.raises(ParameterError, match="line counts without an end"):
        convert_start(alone)
    assert convert_start(alone, ranking(table(400)))[1].difference < 0.01


def test_the_command_says_the_difference_and_refuses_more_than_is_allowed(
    old: boostrank.RankingModel, tmp_path: Path
) -> None:
    old.save(tmp_path / "old.txt")
    data = tmp_path / "rows.txt"
    write_libsvm(data, ranking(table(400, 5)))
    arguments = ("convert", tmp_path / "old.txt", "-o", tmp_path / "new.txt")
    refused = invoke(*arguments, "--steps", 8)
    assert refused.exit_code == 2
    assert "nothing is written" in refused.stderr
    assert not (tmp_path / "new.txt").exists()
    assert invoke(*arguments, "--steps", 8, "--allow", 3).exit_code == 0
    result = invoke(*arguments, "--data", data)
    assert result.exit_code == 0, result.stderr
    assert "of 400 documents change their place" in result.stdout
    assert "ndcg@10 " in result.stdout
    again = invoke("convert", tmp_path / "new.txt", "-o", tmp_path / "again.txt")
    assert again.exit_code == 2
    assert "new.txt: no linear leaves to convert: its start is in steps already" in again.stderr
    assert not (tmp_path / "again.txt").exists()
    sidecar = json.loads((tmp_path / "new.txt.meta.json").read_text())
    assert sidecar["conversion"]["documents"] == 400
    assert sidecar["objective"]["name"] == "lambdarank"


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_a_model_without_a_start_is_refused(engine: str) -> None:
    params = {"objective": "lambdarank", "num_leaves": 7, "verbosity": -1}
    model = boostrank.train(params, ranking(table(200)), 2, backend=engine, start="none")
    with pytest.raises(ModelError, match="it has no start"):
        convert_start(model)
