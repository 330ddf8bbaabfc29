"""Scaled features: as a linear model sees them, centred, without gaps. Rows stay as they are, float32, dense or sparse.

A feature becomes (x - mean) / scale, and the products below do that to the weights and not to the rows: a sparse
matrix stays sparse, and nothing is copied. Only scaling by query changes rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.rows import Rows, dense_batches
from boostrank.engines.linear.format import STANDARD, Scaling


def measure_scaling(kind: str, features: Features) -> Scaling:
    """The scaling of features, measured on training rows, which `by_query` has been through if that is asked for.

    Raises:
        DataError: an infinite value.
    """
    columns = features.shape[1]
    count, total = np.zeros(columns), np.zeros(columns)
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    with np.errstate(invalid="ignore"):  # infinite values, which are refused below
        for _, part in blocks(features):
            numbers, named, least, most = _sums(part, np.zeros(columns))
            count, total = count + named, total + numbers
            low, high = np.minimum(low, least), np.maximum(high, most)
    bad = np.flatnonzero((low == -np.inf) | (high == np.inf))
    if bad.size:
        raise DataError(f"feature {bad[0]} (from 0) has infinite values: trees can split those, no weight suits them")
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
        features: float32[N, d], dense or CSR; under query-minmax as `by_query` makes them.
        scaling: of the training rows.
    """

    features: Features
    scaling: Scaling

    def scores(self, weights: Float64Array) -> Float64Array:
        """Float64[N] of float64[d + 1], the intercept last."""
        coefficients = self.scaling.coefficients(weights[:-1])
        constant = weights[-1] - float(self.scaling.mean @ coefficients)
        parts = [filled(part, self.scaling.mean) @ coefficients for _, part in blocks(self.features)]
        return np.asarray(np.concatenate([np.zeros(0), *parts]) + constant)

    def pulls(self, gradient: Float64Array) -> Float64Array:
        """Float64[d + 1], the derivative by the weights of what has the derivatives `gradient` by the scores."""
        total = float(gradient.sum())
        sums = np.zeros(self.features.shape[1])
        for start, part in blocks(self.features):
            sums += filled(part, self.scaling.mean).T @ gradient[start : start + part.shape[0]]
        return np.append(self.scaling.coefficients(sums - total * self.scaling.mean), total)

    def curvature(self, hess: Float64Array) -> Float64Array:
        """Float64[d + 1, d + 1]: X^T diag(hess) X of the scaled features and the intercept; dense features only."""
        size = self.features.shape[1] + 1
        out = np.zeros((size, size))
        for start, part in blocks(self.features):
            scaled = np.ones((part.shape[0], size))
            scaled[:, :-1] = self.scaling.coefficients(filled(part, self.scaling.mean) - self.scaling.mean)
            out += scaled.T @ (hess[start : start + part.shape[0], None] * scaled)
        return out

    def parts(self, weights: Float64Array) -> Float64Array:
        """Float64[N, d + 1]: what each feature, scaled, adds to each score, and the intercept."""
        coefficients = self.scaling.coefficients(weights[:-1])
        out = np.empty((self.features.shape[0], weights.size))
        out[:, -1] = weights[-1]
        for start, part in blocks(self.features):
            dense = filled(part.toarray() if sparse.issparse(part) else part, self.scaling.mean)
            out[start : start + part.shape[0], :-1] = (dense - self.scaling.mean) * coefficients
        return out


def blocks(features: Features) -> Iterator[tuple[int, Any]]:
    """(first row, rows): some at a time, the same ones in memory and on disk; all at once where they are sparse."""
    if sparse.issparse(features):
        yield 0, features
    else:
        for start, stop in dense_batches(features):
            yield start, features[start:stop]


def filled(part: Any, mean: Float64Array) -> Any:
    """Rows in float64, with the mean in place of what is missing."""
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


def by_query(features: Features, queries: QueryIndex) -> Features:
    """Each feature of each query from 0, its least value, to 1, its largest; 0 where all are the same or it is missing.

    Args:
        features: float32[N, d]; what a sparse row does not name is zero.
        queries: of the rows.

    Raises:
        DataError: an infinite value.
    """
    is_sparse = sparse.issparse(features)
    parts = []
    for start, stop in pairwise(queries.ptr.tolist()):
        rows = np.asarray(features[start:stop].toarray() if is_sparse else features[start:stop], dtype=np.float64)
        if np.isinf(rows).any():
            raise DataError(f"a feature of query {queries.qid[queries.of_row(start)]} is infinite: it has no scale")
        present = ~np.isnan(rows)
        low = np.min(rows, axis=0, where=present, initial=np.inf)
        wide = np.max(rows, axis=0, where=present, initial=-np.inf) - low
        scaled = np.divide(
            rows - np.where(wide > 0, low, 0.0), wide, out=np.zeros(rows.shape), where=present & (wide > 0)
        )
        parts.append(sparse.csr_matrix(scaled, dtype=np.float32) if is_sparse else scaled.astype(np.float32))
    if not parts:
        return features
    return sparse.csr_matrix(sparse.vstack(parts)) if is_sparse else np.concatenate(parts)


class RowsByQuery(Rows):
    """What `by_query` makes of rows on disk, some at a time.

    Args:
        features: `boostrank.data.store.StoredFeatures`.
        queries: of the rows.
    """

    def __init__(self, features: Rows, queries: QueryIndex) -> None:
        super().__init__()
        self.features, self.queries = features, queries
        self.shape, self.is_sparse = features.shape, features.is_sparse

    def __getitem__(self, rows: slice) -> Any:
        """float32 rows in memory, dense or CSR; the whole of their queries is read for them."""
        ptr = self.queries.ptr
        first = int(np.searchsorted(ptr, rows.start, side="right")) - 1
        last = int(np.searchsorted(ptr, rows.stop, side="left"))
        begin, end = int(ptr[first]), int(ptr[last])
        some = QueryIndex(ptr[first : last + 1] - begin, self.queries.qid[first:last])
        return by_query(self.features[begin:end], some)[rows.start - begin : rows.stop - begin]


def _sums(part: Any, centre: Float64Array, *, squares: bool = False) -> tuple[Float64Array, ...]:
    """Of each column: the sum of x - centre, or of its square; how many there are; the least and the largest."""
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
