"""Plans of the presets `good` and `best`: what they are going to try, what it takes at most, and what each try gave."""

from __future__ import annotations

import math
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
FEWEST_TRAININGS = 3
FEWEST = 8
"""Queries in which grades differ, with which a choice is tried at all."""
LARGE = 4_000_000
"""Rows x features up to which `good` may try every candidate on every fold. On more there are fewer trainings, so that
all of it takes about as long, until `FEWEST_TRAININGS` on two thirds of the rows are about three times one on all."""
SECONDS = 1800.0
"""Limit of `best`."""


def trainings_of(quality: str, candidates: int, cells: float) -> int:
    """How many trainings a preset makes at most.

    Args:
        quality: "good" or "best", this one without its limit of time.
        candidates: that it would try.
        cells: rows x features.
    """
    many = candidates * FOLDS
    return many if quality == "best" or cells <= LARGE else min(many, max(FEWEST_TRAININGS, int(many * LARGE / cells)))


def folds_of(quality: str, cells: float) -> int:
    """Parts that the queries are dealt into: three of large data, whose trainings on two thirds take less time."""
    return FOLDS if quality == "best" or cells <= LARGE else FOLDS_OF_LARGE


def work_of(quality: str, cells: float) -> float:
    """What a preset takes at most, in trainings on all rows to the same number of rounds.

    Args:
        quality: "good" or "best", this one without its limit of time.
        cells: rows x features.
    """
    many = len(GOOD) + (len(MORE) if quality == "best" else 0)
    return trainings_of(quality, many, cells) * (1.0 - 1.0 / folds_of(quality, cells))


class Watch(Protocol):
    """Who wants to see, or to stop, what is tried."""

    def planned(self, plan: Plan) -> None:
        """What will be tried, before it is."""

    def callbacks(self, candidate: Candidate, fold: int, stopper: EarlyStopping) -> Sequence[Callback]:
        """Of one training."""

    def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
        """After each; whether to go on."""


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
        trainings: at most.
        seconds: after which no training begins; None: any.
    """

    preset: str
    candidates: tuple[Candidate, ...]
    folds: int
    queries: int
    rounds: int
    trees: Mapping[str, Any]
    trainings: int
    seconds: float | None


@dataclass(eq=False)
class Trial:
    """What a candidate gave.

    Args:
        candidate: which.
        models: fold -> model that left it out.
        scores: float64[N], of held-out rows; NaN of folds that have no model.
        per_query: float64[Q], the headline metric; NaN where it is not counted or there is no model.
        value: its mean; infinite before the first training.
        deviation: of the scores within queries.
        weight: in the average.
        lost: whether another was better beyond noise, so that it was trained no further.
        seconds: that its trainings took.
        difference: `mean`, `low` and `high` of its values less those of the best candidate, where both have some.
    """

    candidate: Candidate
    models: dict[int, RankingModel]
    scores: Float64Array
    per_query: Float64Array
    value: float = math.inf
    deviation: float = 1.0
    weight: float = 0.0
    lost: bool = False
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
