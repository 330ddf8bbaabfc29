"""Averages of models.

The mean of models that differ only in their seed ranks better than each single model (Breiman 1996,
bagging). The mean of tree ensembles is an ensemble of all their trees, which is stored in an
ordinary model file.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from boostrank.core.errors import ParameterError
from boostrank.engines import get_backend
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
    models = list(map(as_model, models))
    if not models:
        raise ParameterError("there are no models to average")
    shares = [1.0 / len(models)] * len(models)
    if weights is not None:
        shares = []
        with contextlib.suppress(TypeError, ValueError):
            shares = [*map(float, weights)]  # merging writes them as Python's numbers
    if len(shares) != len(models) or not all(0.0 < share < math.inf for share in shares):
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
            origin["weight"] = shares[i]
        if model.info.averaged is not None:
            origin["averaged"] = model.info.averaged
        origins.append(origin)
    # They describe only the first model.
    info = structs.replace(first_model.info, price=None, folds=None, calibration=None)
    return RankingModel(booster, info=info | {"averaged": origins})


def count_trees(model: RankingModel) -> int:
    """Return the number of trees up to the best round, with those of a linear start."""
    return model.tree_counts.after(model.best_iteration)
