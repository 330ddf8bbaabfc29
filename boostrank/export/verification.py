"""Verification of logged scores: equal, equal in float32, same ranking, or different."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array, takes
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import as_model

EQUAL, FLOAT32, RANKING, DIFFERENT = LEVELS = ("equal", "float32", "ranking", "different")
"""Levels of agreement: equal to the logged digits; up to float32 rounding; same ranking of each query; different."""


@dataclass(frozen=True)
class Verification:
    """Comparison of logged scores with the model's own.

    Args:
        level: one of `LEVELS`.
        different: documents whose scores differ by more than the logged digits and one unit of float32.
        moved: documents whose rank in their query differs.
        largest: largest difference of two scores.
        first: first document that differs: row from 0, query, the model's score, the logged score; None: all are equal.
    """

    documents: int
    queries: int
    level: str
    different: int
    moved: int
    largest: float
    first: tuple[int, str, float, float] | None

    def equal(self, tolerance: str = FLOAT32) -> bool:
        """Return True if the scores agree to this level or better."""
        return LEVELS.index(self.level) <= LEVELS.index(tolerance)


@takes(data=RankingDataset)
def verify(model: Any, data: RankingDataset, logged: npt.ArrayLike, *, precision: npt.ArrayLike = 0.0) -> Verification:
    """Compare scores that another program logged with the model's own.

    Args:
        model: ranker that the other program serves.
        data: N documents, as the program received them.
        logged: float[N], in the order in which the rows were read.
        precision: float[N] or a number: half a unit of the last logged digit.

    Raises:
        DataError: `logged` has another length, or is not finite.
    """
    model, data = as_model(model).over_columns(data)
    given = np.asarray(logged, dtype=np.float64).reshape(-1)
    if given.size != data.n_documents:
        raise DataError(f"{given.size:,} scores for {data.n_documents:,} documents")
    if not bool(np.isfinite(given).all()):
        raise DataError(f"score {int(np.argmin(np.isfinite(given))) + 1} is not a finite number")
    half = data.in_row_order(np.broadcast_to(np.asarray(precision, dtype=np.float64), given.shape))
    given, own = data.in_row_order(given), data.in_row_order(model.predict(data))
    apart = np.abs(given - own)
    differs = apart > half + _unit(own)
    before, after = data.queries.ranks(own), data.queries.ranks(given)

    # A float32 sum of T leaves is off by a few units of the largest score, times sqrt(T).
    trees = 0
    with suppress(ParameterError):  # a linear model
        trees = model.num_trees()
    slack = (4.0 + np.sqrt(trees)) * _unit(np.abs(own).max(initial=0.0))
    if bool((apart <= half + 4.0 * np.spacing(np.abs(own)) * (half > 0.0)).all()):
        level = EQUAL
    elif bool((apart <= half + np.maximum(slack, _unit(own))).all()):
        level = FLOAT32
    else:
        level = RANKING if np.array_equal(before, after) else DIFFERENT

    first = None
    if level != EQUAL and differs.any():
        rows = np.arange(own.size) if data.input_rows is None else data.input_rows
        i = min(np.flatnonzero(differs).tolist(), key=lambda row: int(rows[row]))
        first = int(rows[i]), data.queries.shown(data.queries.of_row(i)), float(own[i]), float(given[i])
    return Verification(
        documents=own.size,
        queries=len(data.queries),
        level=level,
        different=int(differs.sum()),
        moved=int(np.count_nonzero(before != after)),
        largest=float(apart.max(initial=0.0)),
        first=first,
    )


def _unit(numbers: Any) -> Float64Array:
    return np.asarray(np.spacing(np.abs(numbers).astype(np.float32)), dtype=np.float64)
