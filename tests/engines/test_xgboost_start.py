"""Trees on top of a linear start: what only XGBoost's file does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from scipy import sparse

import boostrank
from boostrank.core.errors import ModelError
from boostrank.engines import parse_model
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.fit.start.cross_fit import cross_fitted
from boostrank.fit.start.steps import between
from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.forest import Walker
from tests.engines.conftest import TREES, add_empty_rows
from tests.model.real_models import xgboost_models

pytestmark = pytest.mark.usefixtures("leaves_as_grown")
XGBOOST_ALONE = pytest.mark.parametrize("backend", ["xgboost"], indirect=True)


@XGBOOST_ALONE
def test_the_score_is_that_of_the_start_and_the_trees_which_are_grown_from_it(
    boosted: Any, start_data: Any
) -> None:
    # The file has a tree for each curve of the start, then the rounds.
    cross_fit = cross_fitted(
        start_data[0], boosted.info["objective"]["params"].get("gain", "exponential")
    )
    model = parse_model(boosted.to_bytes())
    assert model.start_trees == len(cross_fit.start.curves) > 3
    assert boosted.booster.num_boosted_rounds() == 6 + model.start_trees
    # The trees alone, added to the curves, give the scores.
    trees = xgb.Booster()
    trees.load_model(bytearray(model.with_trees({}, model.grown_trees)))
    start = (
        Curves.from_pairs(list(cross_fit.start.curves.items()))
        .values(start_data[1].features)
        .sum(axis=1)
    )
    both = start + trees.inplace_predict(start_data[1].features, predict_type="margin")
    np.testing.assert_allclose(boosted.predict(start_data[1]), both, rtol=0, atol=1e-5)

    # The first round sees the cross-fitted scores.
    seen = []

    def watching(scores: Any, matrix: Any) -> Any:
        seen.append(np.array(scores))
        return np.sin(np.arange(scores.size)), np.ones(scores.size)

    boostrank.train(
        {**TREES, "objective": watching}, start_data[0], 1, start="linear", backend="xgboost"
    )
    expected = cross_fitted(start_data[0], "exponential").scores
    np.testing.assert_array_equal(seen[0].ravel(), expected.astype(np.float32))


def test_auto_has_a_start(start_data: Any) -> None:
    assert "start" in boostrank.train({}, start_data[0], 1, backend="xgboost").info
    assert (
        "start" not in boostrank.train({}, start_data[0], 1, backend="xgboost", start="none").info
    )


def walked(node: dict[str, Any], row: np.ndarray) -> np.float32:
    """What a program says that reads a dump."""
    while "leaf" not in node:
        value, children = (
            row[int(node["split"].removeprefix("f")) - 1],
            {c["nodeid"]: c for c in node["children"]},
        )
        below = bool(value < np.float32(node["split_condition"]))
        way = "yes" if below else "no"
        if np.isnan(value):
            way = "missing"
        node = children[node[way]]
    return np.float32(node["leaf"])


@XGBOOST_ALONE
def test_a_program_that_walks_a_dump_gives_the_same_scores(boosted: Any, start_data: Any) -> None:
    rows = add_empty_rows(start_data[1])[-40:]
    trees = [json.loads(tree) for tree in boosted.booster.get_dump(dump_format="json")]
    scores = [sum((walked(tree, row) for tree in trees), np.float32(0)) for row in rows]
    np.testing.assert_allclose(scores, boosted.predict(rows), rtol=0, atol=1e-5)


@XGBOOST_ALONE
def test_the_walker_of_trees_gives_the_same_scores(boosted: Any, start_data: Any) -> None:
    rows = add_empty_rows(start_data[1])
    trees = XGBOOST.trees(parse_model(boosted.to_bytes()), 6)
    assert trees.count == 6
    walker = Walker(trees.forest, np.arange(6))
    np.testing.assert_allclose(walker.scores(rows), boosted.predict(rows), rtol=0, atol=1e-5)


@XGBOOST_ALONE
def test_an_average_of_models_with_one_start_has_it_once(boosted: Any, start_data: Any) -> None:
    train, valid = start_data
    more = boostrank.train(TREES, train, 3, init_model=boosted, backend="xgboost")
    both = boostrank.average([boosted, more])
    mean = (boosted.predict(valid) + more.predict(valid)) / 2
    np.testing.assert_allclose(both.predict(valid), mean, rtol=0, atol=1e-5)
    assert parse_model(both.to_bytes()).start_trees == parse_model(boosted.to_bytes()).start_trees


@XGBOOST_ALONE
def test_a_checkpoint_changes_no_byte_of_a_model_with_a_start(
    boosted: Any, start_data: Any, tmp_path: Path
) -> None:
    train, valid = start_data
    model = boostrank.train(
        TREES,
        train,
        6,
        valid_sets=[valid],
        start="linear",
        backend="xgboost",
        checkpoint=boostrank.Checkpoint(tmp_path / "c"),
    )
    assert model.to_bytes() == boosted.to_bytes()


def test_sparse_rows_give_the_same(start_data: Any) -> None:
    train = start_data[0]
    filled = np.nan_to_num(train.features)
    kinds = [filled, sparse.csr_matrix(filled)]
    of = [
        boostrank.RankingDataset.from_arrays(x, train.labels, group=train.queries.sizes)
        for x in kinds
    ]
    dense = boostrank.train(TREES, of[0], 4, start="linear", backend="xgboost")
    thin = boostrank.train(TREES, of[1], 4, start="linear", backend="xgboost")
    np.testing.assert_allclose(dense.predict(filled), thin.predict(filled), rtol=0, atol=1e-5)


@XGBOOST_ALONE
def test_a_file_that_promises_another_start_than_it_has_is_refused(boosted: Any) -> None:
    body = boosted.to_bytes()
    there = parse_model(body).start_trees
    with pytest.raises(ModelError, match=f"'{there + 1}' trees .*{there}"):
        parse_model(
            body.replace(b'"boostrank_start":"%d"' % there, b'"boostrank_start":"%d"' % (there + 1))
        )


@XGBOOST_ALONE
def test_a_start_whose_trees_are_no_rounds_is_refused(boosted: Any) -> None:
    document = json.loads(boosted.to_bytes())
    forest = document["learner"]["gradient_booster"]["model"]
    forest["iteration_indptr"] = [0, *forest["iteration_indptr"][3:]]
    with pytest.raises(ModelError, match=r"rounds of one tree"):
        parse_model(json.dumps(document).encode())


def test_steps_are_read_as_they_were_written() -> None:
    rng = np.random.default_rng(0)
    model = parse_model(xgboost_models()["rank:ndcg"])
    for size in (0, 1, 2, 7, 254):
        values = np.unique(rng.normal(size=2 * size + 2).astype(np.float32)).astype(np.float64)
        bounds = between(values[: 2 * size : 2], values[1 : 2 * size + 1 : 2])
        levels = rng.normal(size=size + 1).astype(np.float32).astype(np.float64)
        curve = Curve(bounds, levels, 0.25, rng.integers(1, 9, size + 2).astype(np.float64))
        body = model.with_trees({1: curve}, model.forest["trees"])
        again = parse_model(body)
        assert again.start_trees == 1
        (read_curve,) = again.start.values()
        for name in ("bounds", "constant", "documents"):
            np.testing.assert_array_equal(getattr(read_curve, name), getattr(curve, name))
        assert read_curve.missing == 0.25
