"""Result of a parameter search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boostrank.core.resampling import PairedDifference
from boostrank.model.within_query import WithinQuery


@dataclass(frozen=True)
class Trial:
    """A trial of the search.

    Args:
        number: trial number, from 0.
        params: searched parameters.
        value: metric over all held-out queries; NaN if stopped.
        rounds: median best round over folds; 0 if stopped.
        state: "done", "given up", or "failed: why".
    """

    number: int
    params: dict[str, Any]
    value: float
    rounds: int
    state: str


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Result of a parameter search.

    Args:
        metric: metric name, such as "ndcg@10".
        fixed: given parameters.
        best: the best trial; None if none beats the given parameters.
        start: mean metric of the given parameters over a few trainings that differ only in seed and row order.
        luck: its standard deviation over these trainings.
        matters: difference between two single trainings that occurs by luck with a probability of 5%.
        gain: best minus start (the mean of its trainings), by query. It is optimistic, as the best of many trials.
        start_rounds: median best round of the given parameters.
        folds: number of folds of whole queries; 0 with a validation set.
        queries: number of held-out queries included in the metric.
        rounds: maximum rounds of each training.
        within_query: columns within queries of every trial; "auto" is resolved.
    """

    metric: str
    fixed: dict[str, Any]
    best: Trial | None
    start: float
    luck: float
    matters: float
    gain: PairedDifference | None
    start_rounds: int
    trials: tuple[Trial, ...]
    folds: int
    queries: int
    rounds: int
    patience: int
    within_query: WithinQuery | None = None

    @property
    def params(self) -> dict[str, Any]:
        """Arguments for `boostrank.train`: the given parameters and the best ones found."""
        return self.fixed | (self.best.params if self.best else {})

    @property
    def best_rounds(self) -> int:
        """Best number of rounds for `params`."""
        return self.best.rounds if self.best else self.start_rounds
