"""Averages of models, and models truncated to a number of trees.

The mean of models that differ only in their seed ranks better than each single model (Breiman 1996,
bagging). The mean of tree ensembles is an ensemble of all their trees, which is stored in an
ordinary model file. Early rounds contribute most, so an average is truncated by limiting the number
of rounds in each of its models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from boostrank.core.errors import ParameterError
from boostrank.engines import get_backend
from boostrank.engines.base import Backend
from boostrank.model.ranking_model import RankingModel, as_model


def average(models: Sequence[Any], weights: Sequence[float] | None = None) -> RankingModel:
    """Return a model whose scores are the weighted sum of several models' scores, up to rounding of
    the leaves.

    Args:
        models: models from the same engine, with the same features, or their paths, boosters or
            fitted rankers. Each contributes its best rounds.
        weights: positive weight for each model; None for the mean. XGBoost's base score, a
            constant, is not scaled.

    Returns:
        A model without history, which predicts with all its trees. Its `info` is the first model's
        `info`, with the rounds and parameters of all models in `averaged`.

    Raises:
        ParameterError: if there are no models, models are incompatible, or weights are invalid.
        ModelError: if trees cannot be added (LightGBM's random forests, linear
            models).

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> other = boostrank.train({**params, "seed": 7, "bagging_fraction": 0.5}, data, 3)
        >>> boostrank.average([model, other]).num_trees()
        6
    """
    if not models:
        raise ParameterError("there are no models to average")
    models = list(map(as_model, models))
    if weights is not None and not (
        len(weights) == len(models) and all(0.0 < weight < math.inf for weight in weights)
    ):
        raise ParameterError(
            f"weights must have a finite number above 0 for each of {len(models)} models"
        )
    first_model = models[0]
    for model in models[1:]:
        if model.backend != first_model.backend:
            raise ParameterError(
                f"a model of {model.backend} cannot be averaged with one of {first_model.backend}"
            )
        if model.column_names != first_model.column_names:
            raise ParameterError("the models have different features, or the same in another order")
        if model.categories != first_model.categories:
            raise ParameterError("the models encode categories differently")
    engine = get_backend(first_model.backend)
    parsed = [engine.format.parse(model.to_bytes()) for model in models]
    shares = [1.0 / len(models)] * len(models) if weights is None else weights
    booster = engine.load(engine.format.merge(parsed, shares)).finished({})
    origins: list[dict[str, Any]] = []
    for i, model in enumerate(models):
        origin = {
            "rounds": model.best_iteration,
            "params": dict(model.info.parameters or {}),
            "objective": model.info.objective,
            "training": model.info.training,
            "starts": model._booster.start_trees > 0,
        }
        if weights is not None:
            origin["weight"] = float(weights[i])
        if model.info.averaged is not None:
            origin["averaged"] = model.info.averaged
        origins.append(origin)
    # They describe only the first model.
    info = structs.replace(first_model.info, price=None, folds=None, calibration=None)
    return RankingModel(booster, info=info | {"averaged": origins})


def cap_trees(models: Sequence[RankingModel], trees: int | None) -> list[RankingModel]:
    """Truncate all models to the same number of rounds: the largest with at most `trees` trees in
    total, if there is a limit.
    """
    if trees is None:
        return [*models]
    counts = [model.tree_counts for model in models]
    start = max(count.start for count in counts)  # an average has one start
    best_rounds = [model.best_iteration for model in models]

    def trees_after(rounds: int) -> int:
        pairs = zip(counts, best_rounds, strict=True)
        return start + sum(
            count.each_round * min(rounds, best_round) for count, best_round in pairs
        )

    if trees_after(1) > trees:
        raise _too_few(trees, trees_after(1), start)
    rounds = next(n for n in range(max(best_rounds), 0, -1) if trees_after(n) <= trees)
    capped_models = []
    for model in models:
        if model.best_iteration > rounds:
            summary = model.summary and replace(model.summary, best_round=rounds)
            model = model.altered(best_rounds=rounds, summary=summary)
        capped_models.append(model)
    return capped_models


def count_trees(model: RankingModel) -> int:
    """Return the number of trees up to the best round, with those of a linear start."""
    return model.tree_counts.after(model.best_iteration)


def with_price(model: RankingModel, trees: int) -> RankingModel:
    """Record the number of a model's trees and the limit on it, and return the model."""
    model.info |= {"price": {"trees": count_trees(model), "max_trees": trees}}
    return model


def check_limit(trees: int, engine: Backend, start: int = 0) -> None:
    """Raise an error if the engine grows no trees, or a start of `start` trees leaves none for a
    round.
    """
    if not engine.grows_trees:
        raise ParameterError(
            f"max_trees does not apply: models with backend={engine.name!r} have no trees"
        )
    if trees <= start:
        raise _too_few(trees, start + 1, start)


def _too_few(trees: int, fewest_trees: int, start: int) -> ParameterError:
    message = f"max_trees={trees} is too low: the model has at least {fewest_trees} trees"
    if start:
        message += f", including {start} of the linear start (one per feature);"
        message += " start='none' omits it"
    return ParameterError(message)
