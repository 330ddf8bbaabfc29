"""Model averaging: trees side by side, each leaf divided by the number of models.

Trainings that differ by seed alone rank a little differently, and their mean better than one of them (Breiman 1996,
bagging). The mean of scores that are sums of trees is a sum of trees: one ordinary model file, which any program that
reads the engine's files can serve, at the cost of all the trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import structs

from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.engines import get_backend
from boostrank.model.ranking_model import RankingModel


def average(models: Sequence[RankingModel], weights: Sequence[float] | None = None) -> RankingModel:
    """One model whose scores are the weighted sum of the scores of several, up to the rounding of its leaves.

    Args:
        models: of one engine, over the same features; of each the rounds that its prediction uses.
        weights: of each, finite and above 0; None: those of the mean. XGBoost's base score, which is the same for
            all documents, stays as it is.

    Returns:
        A model that predicts with all its trees. `info` is that of the first model, with what the others were made of
        under "averaged": rounds and parameters, seeds among them; it has no history of metrics.

    Raises:
        ParameterError: no models, or some that do not go together; weights that are none.
        ModelError: models whose trees cannot be added up (LightGBM's random forests, XGBoost's dart, linear models).
    """
    if not models:
        raise ParameterError("no models to average")
    odd = next((one for one in models if not isinstance(one, RankingModel)), None)
    if odd is not None:
        raise ParameterError(f"models to average are RankingModels, not {type(odd).__name__}")
    if weights is not None and not (len(weights) == len(models) and all(0.0 < w < math.inf for w in weights)):
        raise ParameterError(f"weights: a finite number above 0 for each of {len(models)} models")
    first = models[0]
    for model in models[1:]:
        if model.backend != first.backend:
            raise ParameterError(f"a model of {model.backend} cannot be averaged with one of {first.backend}")
        if model.column_names != first.column_names:
            raise ParameterError("the models have different features, or the same in another order")
        if model.categories != first.categories:
            raise ParameterError("the models' codes of categories stand for different categories")
    engine = get_backend(first.backend)
    parsed = [engine.format.parse(model.to_bytes()) for model in models]
    merged = engine.format.merge(parsed) if weights is None else engine.format.merge(parsed, weights)
    booster = engine.load(merged).finished({})
    origins: list[dict[str, Any]] = [
        {"rounds": model.best_iteration, "params": dict(model.info.parameters or {})}
        | ({} if weights is None else {"weight": float(weights[i])})
        | ({} if model.info.averaged is None else {"averaged": model.info.averaged})
        for i, model in enumerate(models)
    ]
    info = structs.replace(first.info, price=None, folds=None)  # of the first alone
    return RankingModel(booster, info=info | {"averaged": origins})


def deviation(scores: Float64Array, queries: QueryIndex) -> float:
    """Root mean square of scores, float64[N], about the mean of their query; at least 1e-12."""
    apart = scores - np.repeat(np.add.reduceat(scores, queries.ptr[:-1]) / queries.sizes, queries.sizes)
    return max(1e-12, float(np.sqrt(np.mean(apart * apart))))
