"""Linear models of serving programs, which add up weights times values, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.engines.linear.format import NONE, LinearModel, Scaling
from boostrank.engines.served.rules import SINGLE, Rules, Scale, check_names
from boostrank.engines.trees import LARGEST_SCORE, refuse

RULES = replace(SINGLE, missing=0.0)
"""The rules of linear models in Solr and the plugins, where missing values are 0."""


@dataclass(frozen=True, eq=False)
class LinearScore:
    """The score bias + sum_j weights_j (x_j - shift_j) / divisor_j.

    Args:
        weights, shift, divisor: float64[d]. Shift 0 and divisor 1 are those of folded weights.
        missing: float64[d], values that replace missing ones.
    """

    weights: Float64Array
    shift: Float64Array
    divisor: Float64Array
    missing: Float64Array
    bias: float = 0.0

    @classmethod
    def of_weights(
        cls, weights: ArrayLike, missing: ArrayLike = 0.0, bias: float = 0.0
    ) -> LinearScore:
        """Return the score of raw features."""
        weights = np.asarray(weights, np.float64)
        zeros = np.zeros(weights.size)
        return cls(weights, zeros, zeros + 1.0, zeros + np.asarray(missing, np.float64), bias)

    @classmethod
    def of_model(cls, model: LinearModel) -> LinearScore:
        """Return the score of a model, with its scaling; features that it ignores weigh 0."""
        scaling, weights = model.scaling, model.weights()
        weighed = np.where(scaling.scale > 0.0, weights[:-1], 0.0)
        divisor = np.where(scaling.scale > 0.0, scaling.scale, 1.0)
        return cls(weighed, scaling.mean, divisor, scaling.mean, float(weights[-1]))

    @property
    def used(self) -> Int64Array:
        """The columns with a weight other than 0."""
        return np.flatnonzero(self.weights)

    def terms(self, names: Sequence[str]) -> dict[str, list[float]]:
        """Return weight, shift and divisor of each column with a weight, by name, of the same
        score without bias, up to rounding: it is in the shift of the column that changes scores
        most.
        """
        shift, column = self.shift.copy(), int(np.argmax(np.abs(self.weights)))
        if self.weights[column] != 0.0:
            shift[column] -= self.bias * self.divisor[column] / self.weights[column]
        columns = np.stack([self.weights, shift, self.divisor], axis=1).tolist()
        return {names[column]: columns[column] for column in self.used.tolist()}

    def folded(self) -> LinearScore:
        """Return the same score without shift and divisor, up to rounding."""
        weights = self.weights / self.divisor
        return self.of_weights(weights, self.missing, self.bias - float(self.shift @ weights))

    def score(self, rows: Array, rules: Rules) -> Array:
        """Return the scores of rows, [n], column by column in the program's types."""
        number_type, total = rules.values, np.full(len(rows), rules.sums(self.bias))
        with np.errstate(all="ignore"):
            for column in self.used:
                values = rows[:, column].astype(number_type)
                missing = self.missing[column] if rules.missing is None else rules.missing
                values = np.where(np.isnan(values), number_type(missing), values)
                shift, divisor = number_type(self.shift[column]), number_type(self.divisor[column])
                scaled = (values - shift) / divisor
                total += (rules.leaves(self.weights[column]) * scaled).astype(rules.sums)
            return total.astype(rules.gives)

    def rounding(self, rows: Array, rules: Rules) -> Float64Array:
        """Return the largest difference of two sums of rows in these types, float64[n]."""
        is_missing = np.isnan(rows)
        filled = np.where(is_missing, self.missing, rows).astype(np.float64)
        factors = np.abs(self.weights / self.divisor)
        magnitudes = np.abs(filled - self.shift) @ factors + abs(self.bias)
        n_roundings = self.weights.size + 8
        single, double = np.finfo(np.float32).eps, np.finfo(np.float64).eps
        if np.float32 in (rules.values, rules.leaves, rules.sums):
            # Rows are exact in float32, so only the constants and the terms are rounded.
            replaced = np.where(is_missing, np.abs(self.missing), 0.0)
            constant_magnitudes = (np.abs(self.shift) + replaced) @ factors
            return np.asarray((0.5 * constant_magnitudes + n_roundings * magnitudes) * single)
        folded_magnitudes = (np.abs(filled) + np.abs(self.shift)) @ factors + abs(self.bias)
        output_rounding = single if rules.gives is np.float32 else 0.0
        return np.asarray(n_roundings * double * folded_magnitudes + output_rounding * magnitudes)


NO_WEIGHTS = LinearScore.of_weights(())
"""The linear score of a model of trees."""


@dataclass(frozen=True, eq=False)
class LinearFile:
    """The linear model of a file, with the names of its features and the program's rules."""

    names: tuple[str, ...]
    score: LinearScore
    rules: Rules

    def scores(self, rows: Any) -> Array:
        """Return the program's scores of dense rows float32[n, d], in its type."""
        return self.score.score(rows, self.rules)

    def to_model(self) -> LinearModel:
        """Return the same model in the format of boostrank's linear models."""
        score = self.score
        path = np.append(score.weights, score.bias).reshape(1, -1)
        return LinearModel(
            self.names, Scaling(NONE, score.shift, score.divisor), rounds=1, path=path
        )


def read_weights(
    names: Sequence[str],
    weights: Mapping[str, float],
    *,
    bias: float = 0.0,
    rules: Rules = RULES,
    scales: Mapping[str, Scale] = MappingProxyType({}),
) -> LinearFile:
    """Check the weights by name; a feature without a weight has weight 0.

    Args:
        scales: scaling of the features that the program normalises.

    Raises:
        ModelError: there are no weights, a weight has no feature, or one is not finite.
    """
    unknown_names = [*weights.keys() - set(names)]
    refuse(not weights, "it has no weights")
    check_names(names)
    refuse(bool(unknown_names), f"it has a weight for {unknown_names[:1]}, but no such feature")
    values = np.array([*map(float, weights.values()), bias])
    refuse(~(np.abs(values) <= LARGEST_SCORE), "a weight is not finite")
    rows = [(weights.get(name, 0.0), *scales.get(name, Scale())) for name in names]
    weight, shift, divisor = np.array(rows, np.float64).T
    score = LinearScore(weight, shift, divisor, np.zeros(len(names)), bias)
    return LinearFile(tuple(names), score, rules)
