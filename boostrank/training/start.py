"""A linear ranker that trees begin with."""

from __future__ import annotations

import os
from typing import Any

from boostrank.backends import get_backend
from boostrank.backends.base import Backend
from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.training.model import RankingModel

LINEAR = "linear"
"""Train one first."""


def linear_ranker(start: Any, engine: Backend, train_set: Any) -> RankingModel:
    """The linear model that was named, fit for this training set.

    Args:
        start: a `RankingModel` or the path of one.
        engine: that is to go on from it.
        train_set: what it will be trained on.

    Raises:
        ParameterError: no linear model, or one that trees cannot begin with.
        DataError: made for other features.
    """
    if isinstance(start, str | os.PathLike):
        start = RankingModel.load(start)
    if not isinstance(start, RankingModel) or start.backend != LINEAR:
        raise ParameterError(
            f"start must be {LINEAR!r}, or a linear model or its path; trees are continued by init_model"
        )
    if isinstance(train_set, RankingDataset):
        start.check_features(train_set)
    return start


def begin_with(ranker: RankingModel, engine: Backend) -> Any:
    """A booster of no rounds that scores as the ranker does.

    Raises:
        ParameterError: the engine cannot, or trees cannot.
    """
    linear: Any = get_backend(LINEAR)
    return engine.begin_with(linear.linear_start(ranker.booster, ranker.best_iteration))


def told_start(ranker: RankingModel) -> dict[str, Any]:
    """What the sidecar says of it."""
    return {key: ranker.info[key] for key in ("objective", "parameters", "training", "data") if key in ranker.info}
