"""Scaled features of a linear model: centred, without missing values. Rows stay float32, dense or sparse.

A feature becomes (x - mean) / scale. The products below scale the weights instead of the rows, so a sparse matrix stays
sparse and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.rows import dense_batches
from boostrank.engines.linear.format import STANDARD, Scaling


def measure_scaling(kind: str, features: Features) -> Scaling:
    """Measure the scaling on the training rows."""
    columns = features.shape[1]
    count, total = np.zeros(columns), np.zeros(columns)
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    with np.errstate(invalid="ignore"):  # infinite values raise an error below
        for _, part in blocks(features):
            numbers, named, least, most = _sums(part, np.zeros(columns))
            count, total = count + named, total + numbers
            low, high = np.minimum(low, least), np.maximum(high, most)
    bad = np.flatnonzero((low == -np.inf) | (high == np.inf))
    if bad.size:
        raise DataError(f"feature {bad[0]} (from 0) has infinite values: a linear model cannot use them")
    mean = np.divide(total, count, out=np.zeros(columns), where=count > 0)
    changes = high > low
    if kind != STANDARD:
        return Scaling(kind, mean, changes.astype(np.float64))
    square = np.zeros(columns)
    for _, part in blocks(features):
        square += _sums(part, mean, squares=True)[0]
    deviation = np.sqrt(np.divide(square, count, out=np.zeros(columns), where=count > 0))
    return Scaling(kind, mean, np.where(changes, deviation, 0.0))


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Products with scaled features.

    Args:
        features: float32[N, d], dense or CSR.
        scaling: scaling of the training rows.
    """

    features: Features
    scaling: Scaling

    def scores(self, weights: Float64Array) -> Float64Array:
        """Return the scores float64[N] of the weights float64[d + 1], intercept last."""
        coefficients = self.scaling.coefficients(weights[:-1])
        constant = weights[-1] - float(self.scaling.mean @ coefficients)
        parts = [filled(part, self.scaling.mean) @ coefficients for _, part in blocks(self.features)]
        return np.asarray(np.concatenate([np.zeros(0), *parts]) + constant)

    def pulls(self, gradient: Float64Array) -> Float64Array:
        """Return the derivative by the weights, float64[d + 1], from the derivative by the scores."""
        total = float(gradient.sum())
        sums = np.zeros(self.features.shape[1])
        for start, part in blocks(self.features):
            sums += filled(part, self.scaling.mean).T @ gradient[start : start + part.shape[0]]
        return np.append(self.scaling.coefficients(sums - total * self.scaling.mean), total)

    def curvature(self, hess: Float64Array) -> Float64Array:
        """Return X^T diag(hess) X of dense scaled features and the intercept, float64[d + 1, d + 1]."""
        size = self.features.shape[1] + 1
        out = np.zeros((size, size))
        for start, part in blocks(self.features):
            scaled = np.ones((part.shape[0], size))
            scaled[:, :-1] = self.scaling.coefficients(filled(part, self.scaling.mean) - self.scaling.mean)
            out += scaled.T @ (hess[start : start + part.shape[0], None] * scaled)
        return out

    def parts(self, weights: Float64Array) -> Float64Array:
        """Return the contribution of each feature and the intercept to each score, float64[N, d + 1]."""
        coefficients = self.scaling.coefficients(weights[:-1])
        out = np.empty((self.features.shape[0], weights.size))
        out[:, -1] = weights[-1]
        for start, part in blocks(self.features):
            dense = filled(part.toarray() if sparse.issparse(part) else part, self.scaling.mean)
            out[start : start + part.shape[0], :-1] = (dense - self.scaling.mean) * coefficients
        return out


def blocks(features: Features) -> Iterator[tuple[int, Any]]:
    """Iterate over (first row, rows): equal blocks in memory and on disk; sparse rows at once."""
    if sparse.issparse(features):
        yield 0, features
    else:
        for start, stop in dense_batches(features):
            yield start, features[start:stop]


def filled(part: Any, mean: Float64Array) -> Any:
    """Return rows in float64 with missing values replaced by the mean."""
    if sparse.issparse(part):
        part = sparse.csr_matrix(part, dtype=np.float64)
        missing = np.isnan(part.data)
        if missing.any():
            part = part.copy()
            part.data[missing] = mean[part.indices[missing]]
        return part
    part = part.astype(np.float64)
    missing = np.isnan(part)
    return np.where(missing, mean, part) if missing.any() else part


def _sums(part: Any, centre: Float64Array, *, squares: bool = False) -> tuple[Float64Array, ...]:
    """Return the sum of x - centre or its square, the count, the minimum and the maximum of each column."""
    columns = centre.size
    power = 2 if squares else 1
    if not sparse.issparse(part):
        rows = part.astype(np.float64)
        present = ~np.isnan(rows)
        named = np.count_nonzero(present, axis=0).astype(np.float64)
        total = np.sum((rows - centre) ** power, axis=0, where=present)
        least = np.min(rows, axis=0, where=present, initial=np.inf)
        most = np.max(rows, axis=0, where=present, initial=-np.inf)
        return total, named, least, most
    # Sparse rows: absent entries are zeros, so they add (-centre)^power each.
    data, at = part.data.astype(np.float64), part.indices
    missing = np.isnan(data)
    named = part.shape[0] - np.bincount(at[missing], minlength=columns).astype(np.float64)
    absent = part.shape[0] - np.bincount(at, minlength=columns).astype(np.float64)
    data, at = data[~missing], at[~missing]
    total = np.bincount(at, (data - centre[at]) ** power, columns) + absent * (-centre) ** power
    least, most = (np.where(absent > 0, 0.0, sign * np.inf) for sign in (1, -1))
    np.minimum.at(least, at, data)
    np.maximum.at(most, at, data)
    return total, named, least, most
