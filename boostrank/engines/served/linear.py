"""Linear models of serving programs, which add up weights times values, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.engines.linear.format import NONE, LinearModel, Scaling
from boostrank.engines.served.trees import normalise
from boostrank.engines.trees import LARGEST_SCORE, refuse


@dataclass(frozen=True, eq=False)
class LinearFile:
    """A linear model, where a missing value counts as 0.

    Args:
        names: names of the features.
        weights: float64[d].
        bias: initial value of every score.
        sums: type in which the program multiplies and adds.
        scale: (shift, divisor) of each feature that the program normalises first, by column.
    """

    names: tuple[str, ...]
    weights: Float64Array
    bias: float
    sums: type[np.floating[Any]]
    scale: Mapping[int, tuple[float, float]]

    def scores(self, rows: Any) -> Float64Array:
        """Return the program's scores of dense rows float32[n, d]."""
        rows = normalise(np.nan_to_num(rows, nan=0.0), self.scale)
        total = np.full(len(rows), self.sums(self.bias))
        for column, weight in enumerate(self.weights.tolist()):
            total += self.sums(weight) * rows[:, column].astype(self.sums)
        return total.astype(np.float64)

    def to_model(self) -> LinearModel:
        """Return the same model in the format of boostrank's linear models."""
        shift, divisor = np.zeros(len(self.names)), np.ones(len(self.names))
        for column, (start, width) in self.scale.items():
            shift[column], divisor[column] = start, width
        path = np.append(self.weights, self.bias).reshape(1, -1)
        return LinearModel(self.names, Scaling(NONE, shift, divisor), 1, path)


def read_weights(
    names: Sequence[str],
    weights: Mapping[str, float],
    *,
    bias: float = 0.0,
    sums: type[np.floating[Any]] = np.float32,
    scale: Mapping[int, tuple[float, float]] | None = None,
) -> LinearFile:
    """Check the weights by name; a feature without a weight has weight 0.

    Raises:
        ModelError: there are no weights, a weight has no feature, or one is not finite.
    """
    unknown = [name for name in weights if name not in names]
    refuse(not weights, "it has no weights")
    refuse(bool(unknown), f"it has a weight for {unknown[:1]}, but no such feature")
    values = np.array([float(weights.get(name, 0.0)) for name in names])
    refuse(~(np.abs(np.append(values, bias)) <= LARGEST_SCORE), "a weight is not finite")
    return LinearFile(tuple(names), values, bias, sums, scale or {})
