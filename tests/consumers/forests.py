"""Forests at random and documents at their borders, for the twins of the consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

NAMES = ["a", "b", "c"]


def forest(seed: int, trees: int = 8, depth: int = 4) -> list[Any]:
    """Trees of (column, float32 threshold, whether a missing value goes left, left, right), and
    leaves of float32.
    """
    rng = np.random.default_rng(seed)
    thresholds = np.array([-40.0, -1e-6, 0.0, 1e-7, 0.1, 1.0, 17.3, 1e6, -3e38], dtype=np.float32)

    def node(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.15:
            return np.float32(rng.normal())
        left, right = node(depth - 1), node(depth - 1)
        return (
            int(rng.integers(len(NAMES))),
            rng.choice(thresholds),
            bool(rng.random() < 0.5),
            left,
            right,
        )

    return [node(depth) for _ in range(trees)]


def documents(seed: int, trees: Sequence[Any], n: int = 400) -> npt.NDArray[np.float64]:
    """Float64[n, 3]: at, just below and just above thresholds, as float32 and float64; zeros,
    infinities and NaN.
    """
    values: list[float] = [0.0, -0.0, np.inf, -np.inf, np.nan, np.nan, 1e300, 2e-6]

    def collect(node: Any) -> None:
        if isinstance(node, tuple):
            for offset in (0.0, 1e-6):
                at = np.float32(node[1]) + np.float32(offset)
                values.extend(
                    float(np.nextafter(at, np.float32(side))) for side in (-np.inf, np.inf)
                )
                values.extend(
                    [float(at), np.nextafter(float(at), np.inf), np.nextafter(float(at), -np.inf)]
                )
            collect(node[3])
            collect(node[4])

    for tree in trees:
        collect(tree)
    return np.random.default_rng(seed).choice(values, size=(n, len(NAMES)))


def text(number: Any) -> str:
    """The shortest text of a float32."""
    return np.format_float_scientific(np.float32(number), unique=True)
