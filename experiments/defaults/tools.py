"""Tools as people use them: with no options, and with trees that suit; one line each.

Every tool gets the same queries: some to train on and some to validate, by which it stops after
`PATIENCE` rounds without gain, at most `ROUNDS` (NDCG@10 by boostrank's metric, which is the same
for all). What needs no validation queries is given both kinds to train on.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.model.averaging import count_trees
from experiments.peers.engines import METRIC, Stopping

ROUNDS, PATIENCE = 1000, 50
LARGE = 1000
"""Queries from which on a set counts as large for `SUITED`."""

Data = boostrank.RankingDataset
Scores = npt.NDArray[np.float64]
Predict = Callable[[npt.NDArray[np.float32]], Scores]


@dataclass(frozen=True)
class Fitted:
    """What a tool made.

    Args:
        predict: rows -> scores.
        trees: how many it serves.
    """

    predict: Predict
    trees: int


@dataclass(frozen=True)
class Tool:
    """One line of the table.

    Args:
        name: distinct.
        library: boostrank, lightgbm, xgboost or catboost.
        params: in that library's words.
        suited: whether trees that suit the number of queries are given too.
        folds: trained on so many folds of all queries, each stopped on its own, and scores
            averaged; 0: not.
        preset: of boostrank's; given one, it has no other options.
        group: one of `GROUPS`.
    """

    name: str
    library: str
    params: Mapping[str, Any] = field(default_factory=dict)
    suited: bool = False
    folds: int = 0
    preset: str = ""
    group: str = "defaults"

    def fit(self, train: Data, valid: Data, seed: int, threads: int) -> Fitted:
        """Train on queries of one fold."""
        if self.preset:
            return _preset(self.preset, train, valid, seed, threads)
        patience = PATIENCE
        params = dict(self.params)
        if self.suited:
            large = len(train.queries) >= LARGE
            params = suited(self.library, large) | params
            patience = 100
        if not self.folds:
            return _FIT[self.library](params, train, valid, seed, threads, patience)
        whole = joined(train, valid)
        place = np.random.default_rng(seed).permutation(len(whole.queries)) % self.folds
        models = [
            _FIT[self.library](
                params,
                whole.take(np.flatnonzero(place != k)),
                whole.take(np.flatnonzero(place == k)),
                seed + k,
                threads,
                patience,
            )
            for k in range(self.folds)
        ]
        return Fitted(
            lambda rows: np.mean([m.predict(rows) for m in models], axis=0),
            sum(m.trees for m in models),
        )

    @property
    def missing(self) -> bool:
        """Whether its library is not installed."""
        return importlib.util.find_spec(self.library) is None

    @property
    def identity(self) -> dict[str, Any]:
        """What a training depends on beside data, seed and code of boostrank."""
        name = {"xgboost": "xgboost-cpu"}.get(self.library, self.library)
        version = "" if self.library == "boostrank" else importlib.metadata.version(name)
        return {
            "library": self.library,
            "version": version,
            "params": dict(self.params),
            "suited": self.suited,
            "folds": self.folds,
            "rounds": ROUNDS,
            "patience": PATIENCE,
            **({"preset": self.preset} if self.preset else {}),
        }


LAMBDARANK, RANK_NDCG, YETIRANK = (
    {"objective": "lambdarank"},
    {"objective": "rank:ndcg"},
    {"loss_function": "YetiRank"},
)
TOOLS = (
    Tool("boostrank", "boostrank", preset="good"),
    Tool("boostrank quick", "boostrank", preset="quick"),
    Tool("lightgbm", "lightgbm", LAMBDARANK),
    Tool("xgboost", "xgboost", RANK_NDCG),
    Tool("catboost", "catboost", YETIRANK),
    Tool("boostrank, trees that suit", "boostrank", suited=True, group="suited"),
    Tool("lightgbm, trees that suit", "lightgbm", LAMBDARANK, suited=True, group="suited"),
    Tool("xgboost, trees that suit", "xgboost", RANK_NDCG, suited=True, group="suited"),
    Tool("catboost, trees that suit", "catboost", YETIRANK, suited=True, group="suited"),
    Tool("boostrank, 4 folds", "boostrank", folds=4, group="folds"),
    Tool("lightgbm, 4 folds", "lightgbm", LAMBDARANK, folds=4, group="folds"),
    Tool("xgboost, 4 folds", "xgboost", RANK_NDCG, folds=4, group="folds"),
    Tool("catboost, 4 folds", "catboost", YETIRANK, folds=4, group="folds"),
    Tool("boostrank, 4 folds, trees that suit", "boostrank", suited=True, folds=4, group="folds"),
    Tool(
        "lightgbm, 4 folds, trees that suit",
        "lightgbm",
        LAMBDARANK,
        suited=True,
        folds=4,
        group="folds",
    ),
    Tool(
        "xgboost, 4 folds, trees that suit",
        "xgboost",
        RANK_NDCG,
        suited=True,
        folds=4,
        group="folds",
    ),
    Tool(
        "catboost, 4 folds, trees that suit",
        "catboost",
        YETIRANK,
        suited=True,
        folds=4,
        group="folds",
    ),
)
GROUPS = ("defaults", "suited", "folds")


def suited(library: str, large: bool) -> dict[str, Any]:
    """Trees that did well for all libraries alike on other sets: smaller steps, half of the
    features.
    """
    rate, leaves = (0.05, 31) if large else (0.025, 15)
    if library == "xgboost":
        return {
            "eta": rate,
            "max_leaves": leaves,
            "max_depth": 0,
            "grow_policy": "lossguide",
            "colsample_bytree": 0.5,
        }
    if library == "catboost":
        return {"learning_rate": rate, "depth": 5 if large else 4, "rsm": 0.5}
    return {"learning_rate": rate, "num_leaves": leaves, "feature_fraction": 0.5}


def joined(first: Data, second: Data) -> Data:
    """The queries of both."""
    return Data.from_arrays(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.labels, second.labels]),
        group=np.concatenate([first.queries.sizes, second.queries.sizes]),
    )


def _boostrank(
    params: dict[str, Any], train: Data, valid: Data, seed: int, threads: int, patience: int
) -> Fitted:
    own = {
        "num_threads": threads,
        "seed": seed,
        "verbosity": -1,
        "early_stopping_round": patience,
        "eval_at": 10,
    }
    model = boostrank.train(own | params, train, ROUNDS, valid_sets=[valid])
    return _fitted(model, threads)


def _preset(name: str, train: Data, valid: Data, seed: int, threads: int) -> Fitted:
    """What `boostrank train --valid` does with no options but this one."""
    own = {"num_threads": threads, "seed": seed, "verbosity": -1, "eval_at": 10}
    return _fitted(boostrank.train(own, train, valid_sets=[valid], quality=name), threads)


def _fitted(model: boostrank.RankingModel, threads: int) -> Fitted:
    return Fitted(lambda rows: model.predict(rows, threads=threads), count_trees(model))


def _lightgbm(
    params: dict[str, Any], train: Data, valid: Data, seed: int, threads: int, patience: int
) -> Fitted:
    import lightgbm as lgb

    stopping = Stopping(valid, patience)

    def stop(env: Any) -> None:
        if stopping.stalled:
            raise lgb.callback.EarlyStopException(
                stopping.best_round - 1, env.evaluation_result_list
            )

    params = {"num_threads": threads, "seed": seed, "verbosity": -1, "metric": "None", **params}
    data = lgb.Dataset(train.features, train.labels, group=train.queries.sizes, params=params)
    watched = lgb.Dataset(
        valid.features, valid.labels, group=valid.queries.sizes, params=params, reference=data
    )
    booster = lgb.train(
        params,
        data,
        ROUNDS,
        valid_sets=[watched],
        feval=lambda scores, _: (METRIC, stopping.see(scores), True),
        callbacks=[stop],
    )
    rounds = stopping.best_round
    return Fitted(
        lambda rows: booster.predict(rows, num_iteration=rounds, num_threads=threads), rounds
    )


def _xgboost(
    params: dict[str, Any], train: Data, valid: Data, seed: int, threads: int, patience: int
) -> Fitted:
    import xgboost as xgb

    stopping = Stopping(valid, patience)

    class Stop(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return stopping.stalled

    params = {
        "nthread": threads,
        "seed": seed,
        "verbosity": 0,
        "disable_default_eval_metric": True,
        **params,
    }
    data, watched = (
        xgb.DMatrix(one.features, one.labels, group=one.queries.sizes, nthread=threads)
        for one in (train, valid)
    )
    booster = xgb.train(
        params,
        data,
        ROUNDS,
        evals=[(watched, "valid")],
        callbacks=[Stop()],
        verbose_eval=False,
        custom_metric=lambda scores, _: (METRIC, stopping.see(scores)),
    )
    span = (0, stopping.best_round)
    return Fitted(
        lambda rows: booster.inplace_predict(rows, iteration_range=span, predict_type="margin"),
        span[1],
    )


def _catboost(
    params: dict[str, Any], train: Data, valid: Data, seed: int, threads: int, patience: int
) -> Fitted:
    import catboost

    def pool(data: Data) -> Any:
        groups = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
        return catboost.Pool(data.features, data.labels, group_id=groups, thread_count=threads)

    model = catboost.CatBoost(
        {
            "iterations": ROUNDS,
            "thread_count": threads,
            "random_seed": seed,
            "verbose": False,
            "allow_writing_files": False,
            "eval_metric": "NDCG:top=10;type=Exp",
            "od_type": "Iter",
            "od_wait": patience,
            "use_best_model": False,
            **params,
        }
    )
    model.fit(pool(train), eval_set=pool(valid))
    stopping = Stopping(valid, patience)
    stopping.read(model.staged_predict(valid.features, thread_count=threads))
    rounds = stopping.best_round
    return Fitted(lambda rows: model.predict(rows, ntree_end=rounds, thread_count=threads), rounds)


_FIT: dict[str, Callable[..., Fitted]] = {
    "boostrank": _boostrank,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}
