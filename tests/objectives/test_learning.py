"""Trees grown with each objective rank the training queries better, on both engines."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

from boostrank.objective.description import Objective
from boostrank.objectives import OBJECTIVES, _template

SPECS = [*OBJECTIVES, _template.SPEC]
ROUNDS, SIZE, QUERIES = 25, 20, 60


def queries():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(SIZE * QUERIES, 6)).astype(np.float32)
    signal = features[:, 0] + np.abs(features[:, 1]) + 0.5 * rng.normal(size=len(features))
    labels = np.clip(np.floor(1.2 * signal), 0, 4)
    return features, labels, np.full(QUERIES, SIZE)


def mean_ndcg(labels, scores):
    gains = (np.exp2(labels) - 1).reshape(QUERIES, SIZE)
    discounts = 1 / np.log2(2 + np.arange(SIZE))
    order = np.argsort(-scores.reshape(QUERIES, SIZE), axis=1, kind="stable")
    ideal = np.sort(gains, axis=1)[:, ::-1] @ discounts
    return float(np.mean(np.take_along_axis(gains, order, axis=1) @ discounts / ideal))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_training_improves_ndcg(spec, engine):
    features, labels, sizes = queries()
    options = {"warm_rounds": 5} if spec.name == "smooth-ndcg" else {}
    if any(p.name == "relevant_from" for p in spec.params):
        options["relevant_from"] = 3  # what a binary objective must find for the NDCG of grades
    objective = Objective(spec, total_rounds=ROUNDS, **options)
    if engine == "lightgbm":
        parameters = {
            "objective": objective,
            "num_leaves": 7,
            "learning_rate": 0.2,
            "verbosity": -1,
            "metric": "None",
            "num_threads": 1,
        }
        scores = lgb.train(parameters, lgb.Dataset(features, labels, group=sizes), ROUNDS).predict(
            features
        )
    else:
        matrix = xgb.DMatrix(features, labels, group=sizes)
        parameters = {"base_score": 0, "max_depth": 3, "eta": 0.2, "nthread": 1}
        scores = xgb.train(parameters, matrix, ROUNDS, obj=objective).predict(matrix)
    assert mean_ndcg(labels, np.zeros(len(labels))) < 0.7
    assert mean_ndcg(labels, scores) > 0.9


@pytest.mark.parametrize("norm", [True, False])
def test_our_lambdarank_grows_the_trees_of_lightgbms(norm):
    features, labels, sizes = queries()
    shared = {
        "num_leaves": 7,
        "learning_rate": 0.1,
        "verbosity": -1,
        "metric": "None",
        "num_threads": 1,
    }
    data = lgb.Dataset(features, labels, group=sizes, free_raw_data=False)
    theirs = lgb.train(
        shared
        | {"objective": "lambdarank", "lambdarank_norm": norm, "lambdarank_truncation_level": 10},
        data,
        5,
    )
    ours = Objective(
        "lambdarank", norm_distance=norm, norm_query=norm, truncation_level=10, hessian_scale="raw"
    )
    mine = lgb.train(shared | {"objective": ours}, data, 5)
    # LightGBM reads its sigmoid from a table and sums in float32.
    assert mine.predict(features) == pytest.approx(theirs.predict(features), abs=2e-4)
