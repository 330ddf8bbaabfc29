"""The one search space of all methods, and its draws: a prefix of the draws of a larger budget is a
smaller budget.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

LEAVES = (7, 15, 31)


@dataclass(frozen=True)
class Trees:
    """What is tuned, for every method alike; `engines.py` says it in each library's words.

    Args:
        learning_rate: 0.03 to 0.2, on the log scale, as all that follow unless it says otherwise.
        leaves: 7, 15 or 31, at most, a tree.
        min_docs: 5 to 100, documents in a leaf at least.
        l2: 0.001 to 10, added to a leaf's sum of curvatures.
        features: 0.3 to 1, not on the log scale, share of the features that a tree (CatBoost, YDF:
            a split) sees.
        rows: 0.5 to 1, not on the log scale, share of the documents that a tree sees.
    """

    learning_rate: float
    leaves: int
    min_docs: int
    l2: float
    features: float
    rows: float

    def plain(self) -> dict[str, Any]:
        """For keys and files."""
        return asdict(self)


def draws(count: int, seed: int) -> list[Trees]:
    """The first `count` points of a scrambled Sobol sequence, which cover the space better than
    independent draws.
    """
    with warnings.catch_warnings():  # any prefix will do here, a power of two or not
        warnings.simplefilter("ignore", UserWarning)
        points = qmc.Sobol(6, seed=np.random.default_rng(seed)).random(count)
    return [_at(point) for point in points]


def _at(u: Any) -> Trees:
    def log(x: float, low: float, high: float) -> float:
        return float(low * (high / low) ** x)

    return Trees(
        learning_rate=round(log(u[0], 0.03, 0.2), 4),
        leaves=LEAVES[min(int(u[1] * len(LEAVES)), len(LEAVES) - 1)],
        min_docs=round(log(u[2], 5, 100)),
        l2=round(log(u[3], 0.001, 10), 4),
        features=round(float(0.3 + 0.7 * u[4]), 3),
        rows=round(float(0.5 + 0.5 * u[5]), 3),
    )
