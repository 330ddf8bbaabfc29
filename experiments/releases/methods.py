"""Methods with published parameters, one line each, and the numbers that were published.

Where parameters come from:

* "LightGBM's page": docs/Experiments.rst of lightgbm-org/LightGBM, and lightgbm/lightgbm.conf and
  xgboost/*.conf, *.sh of guolinke/boosting_tree_benchmarks, which it cites.
* "ltr-baseline": lgrz/ltr-baseline, */lgbm.sh. Its `early_stopping_round` is the number of trees,
  so nothing stops.
* "CatBoost's benchmark": catboost/benchmarks, ranking/Readme.md: the best of its grid, on the test
  queries, of at most 8,000 rounds. Here the validation queries choose the round. Istella is not in
  it and gets MSLR's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.model.averaging import count_trees
from experiments.defaults.tools import Tool
from experiments.releases.layouts import Data

PATIENCE = 50
"""Rounds without gain on the validation queries after which a method that looks at them stops."""
Predict = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Args:
        name: distinct.
        library: lightgbm, xgboost, catboost or boostrank.
        params: in that library's words.
        rounds: of boosting, at most; None leaves them to the library.
        stops: whether validation queries choose the round. Otherwise they are not used, as where it
            was published.
        quality: preset of boostrank.
    """

    name: str
    library: str
    params: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = 500
    stops: bool = False
    quality: str = "plain"


REFERENCE = "LightGBM, LightGBM's page"
_RANK = {"objective": "lambdarank"}
_PAGE = {
    "num_leaves": 255,
    "learning_rate": 0.1,
    "min_data_in_leaf": 0,
    "min_sum_hessian_in_leaf": 100.0,
}
_XGBOOST = {
    "objective": "rank:ndcg",
    "eta": 0.1,
    "tree_method": "hist",
    "grow_policy": "lossguide",
    "max_depth": 0,
    "max_leaves": 255,
    "max_bin": 255,
    "min_child_weight": 100,
    "lambda": 0,
}
_BASELINE = {"num_leaves": 63, "learning_rate": 0.05}
# Learning rate, bins and depth in the benchmark; its LightGBM has 2^depth leaves.
_GRID = {
    "mslr": {"LightGBM": (0.03, 254, 8), "QueryRMSE": (0.03, 128, 10), "YetiRank": (0.07, 64, 10)},
    "yahoo": {
        "LightGBM": (0.03, 128, 8),
        "QueryRMSE": (0.03, 254, 10),
        "YetiRank": (0.15, 254, 10),
    },
}
OBJECTIVES = ("lambdarank", "auto", "reg-shf-sdcg", "query-rmse", "yetirank")


def methods(recipe: str) -> list[Method]:
    """The methods of a recipe; the first is what others are compared with."""
    grid = _GRID.get(recipe, _GRID["mslr"])
    rate, bins, depth = grid["LightGBM"]
    benchmark = _RANK | {"learning_rate": rate, "max_bin": bins, "num_leaves": 2**depth}
    catboost = {
        loss: {"loss_function": loss, "learning_rate": rate, "max_bin": bins, "depth": depth}
        for loss, (rate, bins, depth) in grid.items()
        if loss != "LightGBM"
    }
    return [
        Method(REFERENCE, "lightgbm", _RANK | _PAGE),
        Method("LightGBM, defaults", "lightgbm", _RANK, rounds=100),
        Method("LightGBM, ltr-baseline", "lightgbm", _RANK | _BASELINE, rounds=1000),
        Method("LightGBM, CatBoost's benchmark", "lightgbm", benchmark, rounds=8000, stops=True),
        Method("XGBoost, LightGBM's page", "xgboost", _XGBOOST),
        *(
            Method(f"CatBoost {k}, CatBoost's benchmark", "catboost", v, 8000, True)
            for k, v in catboost.items()
        ),
        Method("boostrank", "boostrank", rounds=None, stops=True, quality="good"),
        *(
            Method(f"boostrank {k}, LightGBM's page", "boostrank", {"objective": k} | _PAGE)
            for k in OBJECTIVES
        ),
    ]


def fit(method: Method, train: Data, valid: Data | None, threads: int) -> tuple[Predict, int]:
    """Train; return what scores rows, and the number of trees. `valid` is there if the method stops
    by it.
    """
    return _FIT[method.library](method, train, valid, threads)


def _lightgbm(method: Method, train: Data, valid: Any, threads: int) -> tuple[Predict, int]:
    import lightgbm as lgb

    params = {
        **method.params,
        "num_threads": threads,
        "seed": 0,
        "verbosity": -1,
        "metric": "ndcg",
        "eval_at": [10],
    }
    data = lgb.Dataset(train.features, train.labels, group=train.queries.sizes, params=params)
    watched = {}
    if method.stops:
        reference = lgb.Dataset(
            valid.features, valid.labels, group=valid.queries.sizes, params=params, reference=data
        )
        watched = {
            "valid_sets": [reference],
            "callbacks": [lgb.early_stopping(PATIENCE, verbose=False)],
        }
    booster = lgb.train(params, data, method.rounds, **watched)
    rounds = booster.best_iteration if method.stops else booster.num_trees()
    return lambda rows: booster.predict(rows, num_iteration=rounds, num_threads=threads), rounds


def _xgboost(method: Method, train: Data, valid: Any, threads: int) -> tuple[Predict, int]:
    import xgboost as xgb

    data = xgb.DMatrix(train.features, train.labels, group=train.queries.sizes, nthread=threads)
    booster = xgb.train(
        {**method.params, "nthread": threads, "seed": 0, "verbosity": 0}, data, method.rounds
    )
    return lambda rows: booster.inplace_predict(
        rows, predict_type="margin"
    ), booster.num_boosted_rounds()


def _catboost(method: Method, train: Data, valid: Any, threads: int) -> tuple[Predict, int]:
    fitted = Tool(method.name, "catboost", {**method.params, "iterations": method.rounds}).fit(
        train, valid, 0, threads
    )
    return fitted.predict, fitted.trees


def _boostrank(method: Method, train: Data, valid: Any, threads: int) -> tuple[Predict, int]:
    params = {**method.params, "num_threads": threads, "seed": 0, "verbosity": -1, "eval_at": 10}
    watched = [valid] if method.stops else None
    model = boostrank.train(
        params, train, method.rounds, valid_sets=watched, quality=method.quality
    )
    return lambda rows: model.predict(rows, threads=threads), count_trees(model)


_FIT: dict[str, Callable[[Method, Data, Any, int], tuple[Predict, int]]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "boostrank": _boostrank,
}


class Published(NamedTuple):
    """Numbers of others, in the conventions that come nearest to theirs."""

    source: str
    folds: str
    conventions: str
    values: Mapping[str, float]


def _baseline(
    folds: str, lightgbm: tuple[float, ...], xgboost: tuple[float, ...]
) -> list[Published]:
    names = ("ndcg@5", "ndcg@10", "err@20")
    return [
        Published(
            "LightGBM, ltr-baseline", folds, "default", dict(zip(names, lightgbm, strict=True))
        ),
        Published(
            "XGBoost multi:softprob, ltr-baseline",
            folds,
            "default",
            dict(zip(names, xgboost, strict=True)),
        ),
    ]


def _page(lightgbm: tuple[float, ...], xgboost: tuple[float, ...]) -> list[Published]:
    names = ("ndcg@1", "ndcg@5", "ndcg@10")
    return [
        Published(
            "LightGBM, LightGBM's page", "1", "lightgbm", dict(zip(names, lightgbm, strict=True))
        ),
        Published(
            "XGBoost, LightGBM's page", "1", "lightgbm", dict(zip(names, xgboost, strict=True))
        ),
    ]


def _benchmark(*values: float) -> list[Published]:
    names = ("LightGBM", "XGBoost rank:ndcg", "CatBoost QueryRMSE", "CatBoost YetiRank")
    return [
        Published(f"{name}, CatBoost's benchmark", "1", "lightgbm", {"ndcg@10": value})
        for name, value in zip(names, values, strict=True)
    ]


PUBLISHED: dict[str, list[Published]] = {
    "web10k": [
        *_baseline("1 to 5", (0.4724, 0.4913, 0.3815), (0.4694, 0.4893, 0.3784)),
        *_benchmark(0.5060907, 0.504549, 0.50998, 0.507434),
    ],
    "web30k": [
        *_baseline("1 to 5", (0.4865, 0.5046, 0.3959), (0.4847, 0.5034, 0.3914)),
        *_page((0.517767, 0.504648, 0.524252), (0.485115, 0.476375, 0.496553)),
    ],
    "set1": [
        *_baseline("1", (0.7425, 0.7845, 0.4799), (0.7439, 0.7858, 0.4783)),
        *_page((0.732981, 0.75352, 0.793498), (0.720049, 0.740899, 0.782957)),
        *_benchmark(0.801347, 0.800048, 0.802229, 0.802972),
    ],
    "set2": _baseline("1", (0.7389, 0.7735, 0.4677), (0.7381, 0.7746, 0.4651)),
    "istella": _baseline("1", (0.6684, 0.7165, 0.7635), (0.6468, 0.7015, 0.7422)),
    "istella-s": _baseline("1", (0.7000, 0.7614, 0.7572), (0.6798, 0.7490, 0.7379)),
}
"""Release -> published numbers: docs/Experiments.rst, README.md and ranking/Readme.md of the
repositories above.
"""
