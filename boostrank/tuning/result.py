"""Result of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from boostrank.core.resampling import PairedDifference
from boostrank.model.within_query import WithinQuery


@dataclass(frozen=True)
class Trial:
    """One point of the search.

    Args:
        number: from 0, in the order of the search.
        params: what was searched.
        value: the metric over all queries that were held out; NaN for one that was given up.
        rounds: the median over folds of the best round; 0 for one that was given up.
        state: "done", "given up", or "failed: why".
    """

    number: int
    params: dict[str, Any]
    value: float
    rounds: int
    state: str


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Result of a search.

    Args:
        metric: its name, as "ndcg@10".
        fixed: parameters that were given.
        best: the best trial; None where none is above the parameters as given.
        start: mean of the metric with the parameters as given, over a few trainings that differ by seed and order of
            rows alone.
        luck: its standard deviation over them.
        matters: a difference of two single trainings that such luck brings about once in twenty times.
        gain: best minus start (the mean of its trainings), query by query; it is the best of many, so it flatters.
        start_rounds: the median best round of the parameters as given.
        trials: all of them.
        folds: folds of whole queries; 0 with a validation set.
        queries: that were held out in all, and count.
        rounds: at most, of each training.
        patience: of early stopping.
        within_query: columns within queries of every trial; "auto" is decided.
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
        """What `boostrank.train` takes: the parameters given and those found."""
        return self.fixed | (self.best.params if self.best else {})

    @property
    def best_rounds(self) -> int:
        """Rounds that suited them."""
        return self.best.rounds if self.best else self.start_rounds
