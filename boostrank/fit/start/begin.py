"""Create or load the linear start of a training."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from boostrank.core.errors import DataError, DataWarning, ParameterError, did_you_mean, warn_user
from boostrank.core.gains import Gain
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import whole_of
from boostrank.engines.base import Backend, Booster
from boostrank.engines.model_format import LinearStart
from boostrank.engines.params import Limits
from boostrank.fit.params import AUTO_START, LINEAR_START, TrainingParameters, is_auto, say_left_out
from boostrank.model.ranking_model import RankingModel

if TYPE_CHECKING:
    from boostrank.fit.start.cross_fit import CrossFitted

    Fitted = Callable[[RankingDataset, Gain, int, Limits], CrossFitted]


def say_without_start(engine: Backend, booster: Booster, params: Mapping[str, Any]) -> None:
    """Warn if the objective is `auto` and the continued booster has no linear start."""
    if engine.starts_linear and is_auto(params, engine.name) and not booster.start_trees:
        warn_user("auto continues a model without a linear start, and adds none", DataWarning)


def same_order(model: RankingModel, data: RankingDataset) -> None:
    """Refuse data whose features differ from the model's in name or order.

    Raises:
        DataError: they differ.
    """
    if model.check_features(data).feature_names != data.feature_names:
        raise DataError("the training data have the model's features in another order: reorder them")


def limits_of(engine: Backend, params: dict[str, Any], names: Sequence[str], train_set: RankingDataset) -> Limits:
    """Return the constraints on a model, from the parameters and the categorical features.

    Raises:
        ParameterError: unknown features, or a direction for a categorical one.
    """
    limits = engine.params.limits(params, names)
    turned = next((i for i in train_set.categorical if limits.direction[i]), None)
    if turned is not None:
        raise ParameterError(f"monotone_constraints: {names[turned]!r} is categorical, and has no direction")
    return replace(limits, unused=tuple(sorted({*limits.unused, *train_set.categorical})))


@dataclass(frozen=True, eq=False)
class Beginning:
    """Start of a training.

    Args:
        booster: booster without rounds that scores like the linear ranker.
        scores: float64[N], initial scores of the training rows, if not the booster's.
    """

    booster: Booster
    start: LinearStart
    scores: Float64Array | None
    description: dict[str, Any]

    def scores_of(self, sets: Sequence[RankingDataset], threads: int) -> list[Float64Array | None]:
        """Return the initial scores of the training set and others; None if the engine can compute them."""
        from boostrank.fit.start import cross_fit

        known = [self.scores, *[None] * (len(sets) - 1)]
        return [
            cross_fit.scores_of(self.start, data, threads)
            if scores is None and whole_of(data.features) is not None
            else scores
            for data, scores in zip(sets, known, strict=True)
        ]


def beginning(
    start: Any,
    engine: Backend,
    train_set: RankingDataset,
    given: TrainingParameters,
    *,
    is_auto: bool = False,
    fitted: Fitted | None = None,
    source: RankingDataset | None = None,
) -> Beginning | None:
    """Create the linear start for the engine; None without a start.

    Args:
        start: "linear", a `RankingModel` or its path, "none", None; or "auto": "linear" if `is_auto` and the engine
            supports it.
        is_auto: "auto" means "linear".
        fitted: fits the "linear" start; None for `cross_fit.cross_fitted`.
        source: the training set without its columns within queries, if it has any.

    Raises:
        ParameterError: not a linear model, or one that trees cannot start from.
        DataError: a model with other features.
    """
    if start in (None, "none") or (start == AUTO_START and not (is_auto and engine.starts_linear)):
        return None
    if start == AUTO_START:
        try:
            return _linear(engine, train_set, given, fitted)
        except ParameterError as error:  # such trees do not support a start
            warn_user(str(error), DataWarning)
            return None
    if start == LINEAR_START:
        return _linear(engine, train_set, given, fitted)
    _check_startable(engine, given)
    return _of_model(start, engine, train_set, given, source)


def _check_startable(engine: Backend, given: TrainingParameters) -> None:
    """Refuse parameters of trees that do not support a linear start."""
    reason = engine.params.unstartable(given.engine)
    if reason:
        raise ParameterError(f"no linear start with these parameters: {reason}; start='none' omits it")


def _linear(engine: Backend, train_set: RankingDataset, given: TrainingParameters, fitted: Fitted | None) -> Beginning:
    """Fit a linear ranker to the training set."""
    from boostrank.fit.start import cross_fit  # deferred: scipy.optimize takes 0.2 s to import

    _check_startable(engine, given)
    if given.objective is not None and train_set.document_weights is not None:
        given.objective.check_gain_weights("the linear start", "start='none' omits it")
    limits = limits_of(engine, given.engine, train_set.feature_names, train_set)
    say_left_out(train_set, "the linear start")
    made = (fitted or cross_fit.cross_fitted)(train_set, given.gain, resolve_threads(given.threads), limits)
    return Beginning(engine.begin_with(made.start), made.start, made.scores, made.description)


def _of_model(
    start: Any, engine: Backend, rows: RankingDataset, given: TrainingParameters, source: RankingDataset | None
) -> Beginning:
    """Start from an existing linear model."""
    from boostrank.fit.start import cross_fit

    if isinstance(start, str) and not os.path.exists(start) and os.path.basename(start) == start:
        raise ParameterError(
            f"start={start!r} is not a file or keyword.{did_you_mean(start, (LINEAR_START, AUTO_START, 'none'))}"
        )
    ranker = RankingModel.load(start) if isinstance(start, str | os.PathLike) else start
    linear = ranker.linear_start() if isinstance(ranker, RankingModel) else None
    if linear is None:
        raise ParameterError(
            f"start must be {LINEAR_START!r}, or a linear model or its path; use init_model to continue trees"
        )
    same_order(ranker, rows if source is None else source)
    if ranker.within_query is not None and ranker.column_names != rows.feature_names:
        raise ParameterError(f"start: the linear model has {ranker.within_query.words()}, but the training does not")
    if len(linear.feature_names) < rows.n_features:  # the model ignores the columns within queries
        linear = replace(linear, feature_names=rows.feature_names)
    limits = limits_of(engine, given.engine, linear.feature_names, rows)
    without = [linear.feature_names[i] for i in linear.curves if i in limits.unused]
    if without:
        message = f"the start ignores {', '.join(map(repr, without))}: trees cannot use them with these parameters"
        warn_user(message, DataWarning)
    linear = cross_fit.in_steps_of(linear, rows, resolve_threads(given.threads), limits)
    kept = ("objective", "parameters", "training", "data")
    description = {key: ranker.info[key] for key in kept if key in ranker.info}
    return Beginning(engine.begin_with(linear), linear, None, description)
