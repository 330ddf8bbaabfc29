"""Create the linear start of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from boostrank.core.errors import DataWarning, ParameterError, warn_user
from boostrank.core.gains import Gain
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import whole_of
from boostrank.engines.base import Backend, Booster
from boostrank.engines.params import Limits
from boostrank.fit.params import AUTO_START, LINEAR_START, TrainingParameters, is_auto, say_left_out

if TYPE_CHECKING:
    from boostrank.fit.start.cross_fit import CrossFitted

    Fitted = Callable[[RankingDataset, Gain, int, Limits], CrossFitted]


def say_without_start(engine: Backend, booster: Booster, params: Mapping[str, Any]) -> None:
    """Warn if the objective is `auto` and the continued booster has no linear start."""
    if engine.starts_linear and is_auto(params, engine.name) and not booster.start_trees:
        warn_user("auto continues a model without a linear start, and adds none", DataWarning)


def limits_of(engine: Backend, params: dict[str, Any], names: Sequence[str], train_set: RankingDataset) -> Limits:
    """Return the constraints on a model, from the parameters and the categorical features."""
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
    """

    booster: Booster
    made: CrossFitted

    def scores_of(self, sets: Sequence[RankingDataset], threads: int) -> list[Float64Array | None]:
        """Return the initial scores of the training set and others; None if the engine can compute them."""
        from boostrank.fit.start import cross_fit

        parts = (whole_of(data.features) is not None for data in sets[1:])
        others = zip(sets[1:], parts, strict=True)
        return [self.made.scores, *(cross_fit.scores_of(self.made.start, d, threads) if p else None for d, p in others)]


def beginning(
    start: Any,
    engine: Backend,
    train_set: RankingDataset,
    given: TrainingParameters,
    *,
    is_auto: bool = False,
    fitted: Fitted | None = None,
) -> Beginning | None:
    """Fit the linear start; None without a start.

    Args:
        start: "linear", "none", None; or "auto": "linear" if `is_auto` and the engine supports it.
        is_auto: "auto" means "linear".
        fitted: fits the start; None for `cross_fit.cross_fitted`.
    """
    from boostrank.fit.start import cross_fit  # deferred: scipy.optimize takes 0.2 s to import

    if start in (None, "none") or (start == AUTO_START and not (is_auto and engine.starts_linear)):
        return None
    if start not in (AUTO_START, LINEAR_START):
        raise ParameterError(f"start={start!r}: expected {LINEAR_START!r}, {AUTO_START!r} or 'none'")
    try:
        reason = engine.params.unstartable(given.engine) if engine.starts_linear else f"{engine.name} grows no trees"
        if reason:
            raise ParameterError(f"no linear start with these parameters: {reason}; start='none' omits it")
        if given.objective is not None and train_set.document_weights is not None:
            given.objective.check_gain_weights("the linear start", "start='none' omits it")
    except ParameterError as error:
        if start == LINEAR_START:
            raise
        warn_user(str(error), DataWarning)
        return None
    limits = limits_of(engine, given.engine, train_set.feature_names, train_set)
    say_left_out(train_set, "the linear start")
    made = (fitted or cross_fit.cross_fitted)(train_set, given.gain, resolve_threads(given.threads), limits)
    return Beginning(engine.begin_with(made.start), made)
