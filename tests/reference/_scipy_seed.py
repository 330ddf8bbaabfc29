"""Seeds of SciPy's resampling, by the keyword of the installed version."""

from __future__ import annotations

import inspect

import numpy as np
from scipy import stats

# Before SciPy 1.15.
_KEYWORD = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"


def seeded(seed: int) -> dict[str, np.random.Generator]:
    """The keyword argument that seeds `scipy.stats.bootstrap` and `permutation_test`."""
    return {_KEYWORD: np.random.default_rng(seed)}
