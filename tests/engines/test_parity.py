"""Our LambdaRank is LightGBM's: with its rounding switched on, the same trees to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines.lightgbm.adapter import Sampling

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

TREES = {"num_leaves": 31, "verbosity": -1, "metric": "None", "num_threads": 1}
SAME_LAYOUT = {"deterministic": True, "force_col_wise": True}
REAL = [
    "lambdarank-example/train.txt",
    "mslr-sample/train.txt",
    "sparse-long/train.txt",
    "ohsumed/Fold1/train.txt",
]


def scores_of_both(data: RankingDataset, rounds: int, **options: Any) -> tuple[Any, Any]:
    norm = options.pop("lambdarank_norm", True)
    # What is sampled follows from seed and round here, so that training can resume.
    sampling = Sampling(options)

    def seed(env: Any) -> None:
        sampling.seed(env.model, env.iteration)

    seed.before_iteration = True  # type: ignore[attr-defined]
    theirs = lgb.train(
        {**TREES, **SAME_LAYOUT, **options, "objective": "lambdarank", "lambdarank_norm": norm},
        lgb.Dataset(data.features, data.labels, group=data.queries.sizes),
        rounds,
        callbacks=[seed],
    )
    ours = boostrank.train(
        {
            **TREES,
            **options,
            "objective": "lambdarank",
            "norm_distance": norm,
            "norm_query": norm,
            "lightgbm_rounding": True,
            "hessian_scale": "raw",
        },
        data,
        rounds,
    )
    return ours.predict(data), theirs.predict(data.features, raw_score=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lambdarank_norm": False},
        {"sigmoid": 2.0},
        {"lambdarank_truncation_level": 5},
        {"bagging_fraction": 0.7, "bagging_freq": 1, "seed": 3},
        {"feature_fraction": 0.6, "extra_trees": True, "seed": 3},
    ],
    ids=lambda o: ",".join(o) or "defaults",
)
def test_the_same_trees_as_lightgbm_on_generated_data(options: dict[str, Any]) -> None:
    data = make_ranking_data(queries=120, seed=1).dataset
    ours, theirs = scores_of_both(data, 25, **options)
    np.testing.assert_array_equal(ours, theirs)


# Of the file as it is published.
@pytest.mark.filterwarnings("ignore:.*no newline:boostrank.core.errors.DataWarning")
@pytest.mark.parametrize("name", REAL)
def test_the_same_trees_as_lightgbm_on_real_data(name: str, data_root: Path) -> None:
    data = boostrank.read(data_root / name)
    ours, theirs = scores_of_both(data, 25)
    np.testing.assert_array_equal(ours, theirs)


def test_query_weights_count_as_lightgbm_counts_them() -> None:
    data = make_ranking_data(queries=120, seed=2).dataset
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(data.queries))
    weighted = RankingDataset.from_arrays(
        data.features, data.labels, group=data.queries.sizes, weight=weights
    )
    theirs = boostrank.train({**TREES, "objective": "lightgbm:lambdarank"}, weighted, 10)
    ours = boostrank.train({**TREES, "objective": "lambdarank"}, weighted, 10)
    unweighted = boostrank.train({**TREES, "objective": "lambdarank"}, data, 10)
    np.testing.assert_allclose(ours.predict(data), theirs.predict(data), rtol=1e-3, atol=1e-3)
    assert np.abs(unweighted.predict(data) - theirs.predict(data)).max() > 0.01


# Of the file as it is published.
@pytest.mark.filterwarnings("ignore:.*no newline:boostrank.core.errors.DataWarning")
@pytest.mark.parametrize("name", ["generated", *REAL])
def test_the_same_trees_as_xgboost_with_its_steps_halved(
    name: str, request: pytest.FixtureRequest
) -> None:
    # XGBoost doubles the hessian of every pair, which halves its steps, and its pairs need an end
    # in the top 32.
    if name == "generated":
        data = make_ranking_data(queries=120, seed=1).dataset
    else:
        data = boostrank.read(request.getfixturevalue("data_root") / name)
    trees = {"num_leaves": 31, "num_threads": 1, "min_sum_hessian_in_leaf": 0, "lambda_l2": 0}
    theirs = boostrank.train(
        {**trees, "objective": "xgboost:rank:ndcg", "learning_rate": 0.1},
        data,
        25,
        backend="xgboost",
    )
    our_params = {"objective": "lambdarank", "truncation_level": 32, "learning_rate": 0.05}
    ours = boostrank.train({**trees, **our_params}, data, 25, backend="xgboost")
    np.testing.assert_allclose(ours.predict(data), theirs.predict(data), rtol=0, atol=1e-5)
