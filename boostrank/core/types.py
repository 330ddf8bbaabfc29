"""Types that everybody shares: arrays, kinds of hessian, the schedule protocol."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

ParamValues = Mapping[str, Any]
"""Parameters of an objective by name."""
Constants = tuple[Float64Array, Float64Array]
"""What an objective computes once per data set: of each document, float64[N, d], and of each query, float64[Q, c]."""


class HessianKind(enum.Enum):
    """What the second number a kernel returns is; each kind is tested for what it claims."""

    EXACT = "exact diagonal"
    MAJORISER = "majoriser"
    GAUSS_NEWTON = "Gauss-Newton"
    PROXY = "curvature proxy"


@runtime_checkable
class Schedule(Protocol):
    """A parameter that changes with the round: pure and serialisable."""

    def __call__(self, round: int) -> float:
        """Value at a 0-based round; defined for every round >= 0, also past its end."""
        ...

    def over(self, total: int) -> Schedule:
        """The same schedule with its length set to `total` rounds where none was given."""
        ...

    @property
    def needs_total(self) -> bool:
        """Whether `over` must be called before the schedule can be evaluated."""
        ...
