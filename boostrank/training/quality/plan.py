"""Plans of the presets `good` and `best`: what they are going to try, what it takes at most, and what each try gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from boostrank.backends.events import Callback
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.training.callbacks import EarlyStopping
from boostrank.training.model import RankingModel
from boostrank.training.quality.candidates import GOOD, MORE, Candidate

FOLDS, FOLDS_OF_LARGE = 4, 3
FEWEST = 8
"""Queries in which grades differ, with which a choice is tried at all."""
LARGE = 4_000_000
"""Rows x features from which on candidates meet on one fold first: all of it takes about three trainings' time."""
SECONDS = 1800.0
"""Limit of `best`."""


def work_of(quality: str, cells: float) -> float:
    """What a preset takes at most, in trainings on all rows to the same number of rounds.

    Args:
        quality: "good" or "best", this one without its limit of time.
        cells: rows x features.
    """
    race = quality == "good" and cells > LARGE
    if race:
        return (sum(one.large for one in GOOD) + FOLDS_OF_LARGE - 1) * (1.0 - 1.0 / FOLDS_OF_LARGE)
    many = len(GOOD) + (len(MORE) if quality == "best" else 0)
    return many * FOLDS * (1.0 - 1.0 / FOLDS)


class Watch(Protocol):
    """Who wants to see, or to stop, what is tried."""

    def planned(self, plan: Plan) -> None:
        """What will be tried, before it is."""

    def callbacks(self, candidate: Candidate, fold: int, stopper: EarlyStopping) -> Sequence[Callback]:
        """Of one training."""

    def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
        """After each; whether to go on."""

    def tried(self, trial: Trial) -> None:
        """After all trainings of a candidate."""


@dataclass(frozen=True)
class Plan:
    """What a preset is going to do.

    Args:
        preset: its name.
        candidates: in the order of trying.
        folds: how many, and
        queries: that are dealt into them.
        rounds: of each training, at most.
        trees: parameters that stand in for the engine's defaults.
        race: whether the candidates meet on one fold first.
        seconds: after which no training begins; None: any.
    """

    preset: str
    candidates: tuple[Candidate, ...]
    folds: int
    queries: int
    rounds: int
    trees: Mapping[str, Any]
    race: bool
    seconds: float | None

    @property
    def trainings(self) -> int:
        """How many there will be, at most."""
        return len(self.candidates) + self.folds - 1 if self.race else len(self.candidates) * self.folds


@dataclass(eq=False)
class Trial:
    """What a candidate gave.

    Args:
        candidate: which.
        models: fold -> model that left it out.
        scores: float64[N], of held-out rows; NaN of folds that have no model.
        per_query: float64[Q], the headline metric; NaN where it is not counted or there is no model.
        value: its mean.
        deviation: of the scores within queries.
        weight: in the average.
        seconds: that its trainings took.
        difference: `mean`, `low` and `high` of its values less those of the best candidate, where both have some.
    """

    candidate: Candidate
    models: dict[int, RankingModel]
    scores: Float64Array
    per_query: Float64Array
    value: float = 0.0
    deviation: float = 1.0
    weight: float = 0.0
    seconds: float = 0.0
    difference: Mapping[str, float] = field(default_factory=dict)


def unfit(data: RankingDataset) -> str | None:
    """Why a data set cannot be dealt into folds to choose by, after "the data set"; None: it can."""
    if data.on_disk:
        return "lies on disk, where folds cannot be taken of it"
    begins = data.queries.ptr[:-1][data.queries.sizes > 0]
    differ = np.zeros(0, bool)
    if begins.size:
        differ = np.maximum.reduceat(data.labels, begins) > np.minimum.reduceat(data.labels, begins)
    count = int(differ.sum())
    return None if count >= FEWEST else f"has {count} queries whose labels differ, and a choice needs {FEWEST}"
