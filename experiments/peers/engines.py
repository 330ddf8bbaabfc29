"""One training of one method in its own library, stopped by one rule.

The rule: after every round NDCG@10 of the validation queries, by boostrank's metric; the model is
cut after its best round; training ends when PATIENCE rounds brought nothing better, or after
ROUNDS. Libraries that cannot be given a metric with queries (CatBoost, YDF) train all rounds, and
the same rule is then read off their staged predictions.

What differs and cannot be helped:

* CatBoost grows symmetric trees unless told; here it grows leaf by leaf (`grow_policy=Lossguide`)
  like the others. A variant has its own trees, with 2^d leaves, d = log2 of the leaves asked for,
  rounded.
* CatBoost and YDF draw features for each split, the others for each tree.
* XGBoost has no least number of documents in a leaf. `min_child_weight` is that number times the
  mean curvature of a document in its first round (read off the root of a first tree).
* lambda on the leaves adds to sums of curvatures, which no two objectives have on one scale; hence
  its wide range.
* boostrank brings the curvature of its objectives to one unit a document; LightGBM's own are taken
  as they are.
* With `start="linear"` trees begin with the cross-fitted regression of `auto`: boostrank by itself;
  LightGBM by `init_score`, XGBoost by `base_margin`, CatBoost by `baseline`, to which the
  regression is added on prediction.
* `reg-shf-sdcg` and other scheduled objectives spread their schedule over ROUNDS and are stopped
  only once settled.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from boostrank.fit.start.cross_fit import cross_fitted
from boostrank.kernels.curves import Curves
from boostrank.metrics import BoundMetrics
from boostrank.objective.mixture import parse_objective
from experiments.peers.methods import Method
from experiments.peers.space import Trees
from experiments.peers.store import Run, code_digest

ROUNDS, PATIENCE = 300, 30
VERSION = 1  # raise it when what is trained changes: kept runs are then void

CATBOOST_EXTRA = 20  # rounds

METRIC = "ndcg@10"
_START = "boostrank.fit.start.cross_fit"
Scores = npt.NDArray[np.float64]
Data = boostrank.RankingDataset


@dataclass(frozen=True)
class Length:
    """How long to train: the same for all."""

    rounds: int = ROUNDS
    patience: int = PATIENCE


class Stopping:
    """The rule, told one round after the other."""

    def __init__(self, valid: Data, patience: int, metric: str = METRIC) -> None:
        self._metric, self._name = (
            BoundMetrics(metric, valid.labels, valid.queries, threads=1),
            metric,
        )
        self._patience = patience
        self.rounds, self.best_round, self.best = 0, 0, -np.inf

    def see(self, scores: npt.NDArray[Any]) -> float:
        """Take in the scores after one more round, and return their metric."""
        value = self._metric.values(np.asarray(scores, dtype=np.float64).reshape(-1))[self._name]
        self.rounds += 1
        if value > self.best:
            self.best, self.best_round = value, self.rounds
        return value

    @property
    def stalled(self) -> bool:
        """Whether training ends here."""
        return self.rounds - self.best_round >= self._patience

    def read(self, staged: Iterable[npt.NDArray[Any]]) -> None:
        """Take in the rounds of a training that went on to the end, up to where it would have been
        stopped.
        """
        for scores in staged:
            self.see(scores)
            if self.stalled:
                return


def is_missing(method: Method) -> bool:
    """Whether its library is not installed."""
    return importlib.util.find_spec(method.library) is None


def identity(method: Method) -> dict[str, Any]:
    """What a training depends on beside data and trees."""
    if method.library != "boostrank":
        version = importlib.import_module(method.library).__version__
        told = {"library": method.library, "version": version, "params": dict(method.params)}
        return told | {"code": code_digest([_START])} if "start" in method.params else told
    text, apart = str(method.params["objective"]), ("objective", "start")
    objective = parse_objective(text, **{k: v for k, v in method.params.items() if k not in apart})
    modules = [part.spec.kernel.py_func.__module__ for part in objective.parts]
    start = [_START] if "start" in method.params else []
    code = code_digest(["boostrank.kernels.driver", "boostrank.kernels.options", *modules, *start])
    version = importlib.metadata.version("lightgbm")
    said = {
        "library": "boostrank",
        "lightgbm": version,
        "code": code,
        "params": dict(method.params),
    }
    # A name that stands for something else, as `auto` does, may come to stand for another thing.
    return (
        said if "(" in text or text == objective.name else said | {"expanded": objective.to_dict()}
    )


def trained(
    method: Method,
    trees: Trees,
    train: Data,
    valid: Data,
    test: Data,
    seed: int,
    length: Length,
    threads: int = 1,
) -> Run:
    """Train, stop, predict.

    Returns:
        valid: NDCG@10 of the validation queries after the best round; rounds: which that is; test:
        NDCG@10 of every test query, None where it has no relevant document; seconds: of the
        training.
    """
    started = time.perf_counter()
    best, rounds, predict = _ENGINES[method.library](
        method, trees, train, valid, seed, length, threads
    )
    seconds = time.perf_counter() - started
    values = BoundMetrics(METRIC, test.labels, test.queries, threads=1).per_query(
        predict(test.features)
    )[METRIC]
    return {
        "valid": float(best),
        "rounds": int(rounds),
        "seconds": round(seconds, 3),
        "test": [None if np.isnan(v) else round(float(v), 6) for v in values],
    }


Fitted = tuple[float, int, Callable[[npt.NDArray[np.float32]], Scores]]


@dataclass(frozen=True)
class Start:
    """What the trees of another library begin with.

    Args:
        train: float64[N], of the rows trained on; None: nothing.
        of: the scores of any other rows.
    """

    train: Scores | None
    of: Callable[[npt.NDArray[np.float32]], Scores]

    @classmethod
    def taken_from(cls, params: dict[str, Any], train: Data) -> Start:
        """The one that the parameters ask for, which they then hold no longer."""
        if params.pop("start", "none") == "none":
            return cls(None, lambda x: np.zeros(len(x)))
        made = cross_fitted(train, "exponential")
        curves = Curves.from_pairs(list(made.start.curves.items()))
        return cls(made.scores, lambda x: curves.values(x).sum(axis=1))


def _lightgbm_trees(trees: Trees, seed: int, threads: int) -> dict[str, Any]:
    return {
        "learning_rate": trees.learning_rate,
        "num_leaves": trees.leaves,
        "min_data_in_leaf": trees.min_docs,
        "lambda_l2": trees.l2,
        "feature_fraction": trees.features,
        "bagging_fraction": trees.rows,
        "bagging_freq": 1,
        "num_threads": threads,
        "seed": seed,
        "verbosity": -1,
    }


def _boostrank(
    method: Method, trees: Trees, train: Data, valid: Data, seed: int, length: Length, threads: int
) -> Fitted:
    params = {**_lightgbm_trees(trees, seed, threads), **method.params}
    params |= {"eval_at": 10, "early_stopping_round": length.patience}
    start = params.pop("start", "none")
    model = boostrank.train(params, train, length.rounds, valid_sets=[valid], start=start)
    rounds = model.best_iteration
    best = model.evals_result["valid_0"][METRIC][rounds - 1]
    return best, rounds, lambda x: model.predict(x, threads=threads)


def _lightgbm(
    method: Method, trees: Trees, train: Data, valid: Data, seed: int, length: Length, threads: int
) -> Fitted:
    import lightgbm as lgb

    stopping = Stopping(valid, length.patience)

    def stop(env: Any) -> None:
        if stopping.stalled:
            raise lgb.callback.EarlyStopException(
                stopping.best_round - 1, env.evaluation_result_list
            )

    params = {**_lightgbm_trees(trees, seed, threads), **method.params, "metric": "None"}
    start = Start.taken_from(params, train)
    data = lgb.Dataset(
        train.features,
        train.labels,
        group=train.queries.sizes,
        params=params,
        init_score=start.train,
    )
    watched = lgb.Dataset(
        valid.features,
        valid.labels,
        group=valid.queries.sizes,
        params=params,
        reference=data,
        init_score=None if start.train is None else start.of(valid.features),
    )
    booster = lgb.train(
        params,
        data,
        length.rounds,
        valid_sets=[watched],
        feval=lambda scores, _: (METRIC, stopping.see(scores), True),
        callbacks=[stop],
    )
    rounds = stopping.best_round
    return (
        stopping.best,
        rounds,
        lambda x: booster.predict(x, num_iteration=rounds, num_threads=threads) + start.of(x),
    )


def _xgboost(
    method: Method, trees: Trees, train: Data, valid: Data, seed: int, length: Length, threads: int
) -> Fitted:
    import xgboost as xgb

    stopping = Stopping(valid, length.patience)

    class Stop(xgb.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return stopping.stalled

    own = dict(method.params)
    start = Start.taken_from(own, train)

    def matrix(data: Data, begin: Scores | None, ref: Any = None) -> Any:
        return xgb.QuantileDMatrix(
            data.features,
            label=data.labels,
            group=data.queries.sizes,
            base_margin=begin,
            ref=ref,
            nthread=threads,
            max_bin=255,
        )

    params = {
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_bin": 255,
        "max_leaves": trees.leaves,
        "eta": trees.learning_rate,
        "lambda": trees.l2,
        "colsample_bytree": trees.features,
        "subsample": trees.rows,
        "nthread": threads,
        "seed": seed,
        "verbosity": 0,
        "disable_default_eval_metric": True,
        **own,
    }
    data = matrix(train, start.train)
    watched = matrix(valid, None if start.train is None else start.of(valid.features), data)
    root = xgb.train({**params, "min_child_weight": 0, "subsample": 1}, data, 1).get_dump(
        with_stats=True, dump_format="json"
    )
    curvature = float(json.loads(root[0])["cover"]) / train.n_documents
    booster = xgb.train(
        params | {"min_child_weight": trees.min_docs * curvature},
        data,
        length.rounds,
        evals=[(watched, "valid")],
        callbacks=[Stop()],
        verbose_eval=False,
        custom_metric=lambda scores, _: (METRIC, stopping.see(scores)),
    )
    rounds = stopping.best_round
    return (
        stopping.best,
        rounds,
        lambda x: (
            booster.inplace_predict(x, iteration_range=(0, rounds), predict_type="margin")
            + start.of(x)
        ),
    )


def _catboost(
    method: Method, trees: Trees, train: Data, valid: Data, seed: int, length: Length, threads: int
) -> Fitted:
    import catboost

    own = dict(method.params)
    start = Start.taken_from(own, train)

    def pool(data: Data, begin: Scores | None) -> Any:
        groups = np.repeat(np.arange(len(data.queries)), data.queries.sizes)
        return catboost.Pool(
            data.features, data.labels, group_id=groups, baseline=begin, thread_count=threads
        )

    params = {
        "grow_policy": "Lossguide",
        "iterations": length.rounds,
        "learning_rate": trees.learning_rate,
        "l2_leaf_reg": trees.l2,
        "rsm": trees.features,
        "bootstrap_type": "Bernoulli",
        "subsample": trees.rows,
        "thread_count": threads,
        "random_seed": seed,
        "eval_metric": "NDCG:top=10;type=Exp",
        "od_type": "Iter",
        "od_wait": length.patience + CATBOOST_EXTRA,
        "use_best_model": False,
        "verbose": False,
        "allow_writing_files": False,
        **own,
    }
    if params["grow_policy"] == "Lossguide":
        params |= {"max_leaves": trees.leaves, "depth": 16, "min_data_in_leaf": trees.min_docs}
    else:
        params |= {"depth": round(float(np.log2(trees.leaves)))}
    model = catboost.CatBoost(params)
    begin = start.of(valid.features)
    model.fit(
        pool(train, start.train), eval_set=pool(valid, None if start.train is None else begin)
    )
    stopping = Stopping(valid, length.patience)
    stopping.read(
        scores + begin for scores in model.staged_predict(valid.features, thread_count=threads)
    )
    rounds = stopping.best_round
    return (
        stopping.best,
        rounds,
        lambda x: model.predict(x, ntree_end=rounds, thread_count=threads) + start.of(x),
    )


def _ydf(
    method: Method, trees: Trees, train: Data, valid: Data, seed: int, length: Length, threads: int
) -> Fitted:
    import ydf

    def columns(features: npt.NDArray[np.float32]) -> dict[str, Any]:
        return {f"f{i}": features[:, i] for i in range(features.shape[1])}

    def named(groups: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return groups.astype(np.int64).astype("S")

    groups = np.repeat(np.arange(len(train.queries)), train.queries.sizes)
    learner = ydf.GradientBoostedTreesLearner(
        label="label",
        task=ydf.Task.RANKING,
        ranking_group="query",
        num_trees=length.rounds,
        growing_strategy="BEST_FIRST_GLOBAL",
        max_depth=-1,
        max_num_nodes=trees.leaves,
        min_examples=trees.min_docs,
        shrinkage=trees.learning_rate,
        l2_regularization=trees.l2,
        num_candidate_attributes_ratio=trees.features,
        subsample=trees.rows,
        validation_ratio=0.0,
        early_stopping="NONE",
        random_seed=seed,
        num_threads=threads,
        **method.params,
    )
    model = learner.train(
        {**columns(train.features), "query": named(groups), "label": train.labels}, verbose=0
    )

    def staged(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """float64[trees, N], the sum of the trees so far."""
        data = {
            **columns(features),
            "query": named(np.zeros(len(features))),
            "label": np.zeros(len(features)),
        }
        leaves = model.predict_leaves(data)
        values = [_leaf_values(tree.root) for tree in model.iter_trees()]
        return np.cumsum([v[leaves[:, t]] for t, v in enumerate(values)], axis=0)

    stopping = Stopping(valid, length.patience)
    stopping.read(staged(valid.features))
    rounds = stopping.best_round
    return stopping.best, rounds, lambda x: staged(x)[rounds - 1]


def _leaf_values(node: Any) -> Scores:
    """Values of the leaves below a node of YDF, in its own order: depth first, the negative child
    before the other.
    """
    if node.is_leaf:
        return np.array([node.value.value])
    return np.concatenate([_leaf_values(node.neg_child), _leaf_values(node.pos_child)])


_ENGINES: dict[str, Callable[..., Fitted]] = {
    "boostrank": _boostrank,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "ydf": _ydf,
}
