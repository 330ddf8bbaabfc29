"""Linear start: the linear ranker that trees begin with."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

from boostrank.backends.base import Backend
from boostrank.core.errors import DataWarning, ParameterError
from boostrank.core.gains import Gain
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.training.model import RankingModel

LINEAR = "linear"
"""Make one first."""
AUTO_START = "auto"
"""Make one first where the objective is `auto`, and a start can be: see `beginning`."""
_NO_START = (
    "auto begins with a linear start, which is made of a RankingDataset: with the engine's own data set there is none "
    "(start='none' says so)"
)
_NO_STEPS = (
    "the model begins with linear leaves, which hardly any program but LightGBM reads: give the rows as a "
    "RankingDataset for a start in steps, which all of them read"
)
_NO_LIMITS = "a start of linear leaves does not keep what these parameters ask of features"


@dataclass(frozen=True, eq=False)
class Beginning:
    """Where a training begins.

    Args:
        booster: of no rounds, which scores as the linear ranker does.
        scores: float64[N], of the training rows, where they are not the booster's.
        description: what the sidecar says of it.
    """

    booster: Any
    scores: Float64Array | None
    description: dict[str, Any]


def beginning(
    start: Any, engine: Backend, train_set: Any, gain: Gain, params: dict[str, Any], *, is_auto: bool = False,
    threads: int = 1,
) -> Beginning | None:  # fmt: skip
    """The linear ranker that was asked for, as the engine begins with it; None: nothing.

    Args:
        start: "linear", a `RankingModel` or the path of one, "none", None; or "auto": "linear" where the objective is
            `auto`, the engine begins with one then, and rows are a `RankingDataset`.
        engine: that is to go on from it.
        train_set: what it will be trained on.
        gain: of a label.
        params: of the engine.
        is_auto: whether the objective is `auto`.
        threads: at least 1.

    Raises:
        ParameterError: no linear model, or one that trees cannot begin with.
        DataError: made for other features.
    """
    if start is None or start == "none":
        return None
    if start == AUTO_START and not (is_auto and engine.starts_linear):
        return None
    if start == AUTO_START and not isinstance(train_set, RankingDataset):
        warnings.warn(DataWarning(_NO_START), stacklevel=3)
        return None
    from boostrank.training import cross_fit  # imports scipy.optimize, a fifth of a second

    if start == AUTO_START:
        try:
            return beginning(LINEAR, engine, train_set, gain, params, threads=threads)
        except ParameterError as error:  # trees that take none
            warnings.warn(DataWarning(str(error)), stacklevel=3)
            return None
    reason = engine.unstartable(params)
    if reason:
        raise ParameterError(f"no linear start with these parameters: {reason}; start='none' leaves it out")
    if start == LINEAR:
        if not isinstance(train_set, RankingDataset):
            raise ParameterError(f"start='linear' needs a RankingDataset, not {type(train_set).__name__}")
        limits = engine.limits(params, train_set.feature_names)
        made = cross_fit.cross_fitted(train_set, gain, threads, limits)
        return Beginning(engine.begin_with(made.start), made.scores, made.description)
    ranker = RankingModel.load(start) if isinstance(start, str | os.PathLike) else start
    linear = ranker.linear_start() if isinstance(ranker, RankingModel) else None
    if linear is None:
        raise ParameterError(
            f"start must be {LINEAR!r}, or a linear model or its path; trees are continued by init_model"
        )
    limits = engine.limits(params, linear.feature_names)
    if isinstance(train_set, RankingDataset):
        ranker.check_features(train_set)
        gone = [linear.feature_names[i] for i in linear.curves if i in limits.unused]
        if gone:
            message = (
                f"the start goes without {', '.join(map(repr, gone))}: with these parameters trees cannot use them"
            )
            warnings.warn(DataWarning(message), stacklevel=3)
        linear = cross_fit.in_steps_of(linear, train_set, threads, limits)
    elif limits.direction.any() or limits.unused:
        raise ParameterError(f"{_NO_LIMITS}: give the rows as a RankingDataset, or begin without one (start='none')")
    else:
        warnings.warn(DataWarning(_NO_STEPS), stacklevel=3)
    kept = ("objective", "parameters", "training", "data")
    description = {key: ranker.info[key] for key in kept if key in ranker.info}
    return Beginning(engine.begin_with(linear), None, description)
