"""Ridge regression within queries from sums over folds: a single pass over the rows serves every fold and ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array
from boostrank.fit.start.rows import FOLDS, Part, Rows
from boostrank.kernels.curves import Curves

RIDGES = 10.0 ** np.arange(-3.0, 3.0, 0.5)


def over(values: Float64Array, by: Float64Array) -> Float64Array:
    """Divide, with 0 where `by` is 0."""
    return np.divide(values, by, out=np.zeros(np.shape(values)), where=by > 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sufficient statistics of the regression for each fold, with c scaled functions.

    Args:
        xx, xt, tt: float64[F, c, c], [F, c], [F]: weighted sums of products of functions and targets.
        queries: float64[F], total weight of queries with a target.
        mean, scale: float64[c], mean and deviation of the functions; scale is 0 for constant ones.
    """

    xx: Float64Array
    xt: Float64Array
    tt: Float64Array
    queries: Float64Array
    mean: Float64Array
    scale: Float64Array

    def of(self, outer: npt.NDArray[np.bool_]) -> Sums:
        """Add up groups of `FOLDS` folds: F is a multiple of `FOLDS`, and fold k of each group is added to fold k.

        Args:
            outer: bool[F / FOLDS], groups to include.
        """
        xx, xt, tt, queries = (
            sum((sums[k * FOLDS : (k + 1) * FOLDS] for k in np.flatnonzero(outer)), np.zeros(()))
            for sums in (self.xx, self.xt, self.tt, self.queries)
        )
        return Sums(xx, xt, tt, queries, self.mean, self.scale)


def targets(gains: Float64Array, queries: QueryIndex) -> tuple[Float64Array, Float64Array]:
    """Return standardised gains within queries, float64[n], 0 if constant; and query weights, float64[q], 0 if
    constant.
    """
    target = gains - np.repeat(query_mean(gains, queries), queries.sizes)
    deviation = np.sqrt(query_mean(target * target, queries))
    differs = deviation > 1e-12 * np.maximum.reduceat(gains, queries.ptr[:-1])
    target = over(target, np.repeat(np.where(differs, deviation, 0.0), queries.sizes))
    return target, np.where(differs, queries.each_weight, 0.0)


def query_mean(values: Float64Array, queries: QueryIndex) -> Float64Array:
    """Return the mean over each query, float64[Q, ...]."""
    sizes = queries.sizes.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(np.add.reduceat(values, queries.ptr[:-1], axis=0) / sizes)


def sums_of(rows: Rows, basis: Curves, count: int = FOLDS) -> Sums:
    """Compute the sums of `count` folds over the parts."""
    columns = basis.feature.size

    def products(part: Part, rows_here: Float32Array) -> tuple[list[tuple[int, tuple[Any, ...]]], tuple[Any, ...]]:
        x, sizes = basis.values(rows_here), part.queries.sizes
        moments = len(x), x.sum(axis=0), np.einsum("ij,ij->j", x, x)
        t, weight = targets(rows.gains[part.at], part.queries)
        root = np.repeat(np.sqrt(weight / sizes), sizes)
        # Centre within queries and scale rows by the square root of their weight, so that products are weighted sums.
        x -= np.repeat(query_mean(x, part.queries), sizes, axis=0)
        x *= root[:, np.newaxis]
        t = t * root
        of_row = part.of_row(part.fold)
        of_fold, taught = [], np.bincount(part.fold, weight, count)
        for k in np.unique(part.fold).tolist():
            z, y = x[of_row == k], t[of_row == k]
            of_fold.append((k, (z.T @ z, z.T @ y, y @ y, taught[k])))
        return of_fold, moments

    sums = [np.zeros((count, *shape)) for shape in ((columns, columns), (columns,), (), ())]
    moments = [np.zeros(shape) for shape in ((), columns, columns)]
    for of_fold, more in rows.each(rows.some, products, count * columns**2):
        for k, some in of_fold:
            for total, added in zip(sums, some, strict=True):
                total[k] += added
        for total, added in zip(moments, more, strict=True):
            total += added
    (xx, xt, tt, queries), (documents, first, second) = sums, moments
    mean = first / max(1.0, float(documents))
    # Values are between 0 and 1, so the difference of squares is accurate.
    variance = second / max(1.0, float(documents)) - mean * mean
    scale = np.sqrt(np.where(variance > 1e-9, variance, 0.0))
    inverse = over(np.ones(columns), scale)
    xx *= np.outer(inverse, inverse)
    return Sums(xx, xt * inverse, tt, queries, mean, scale)


def without(sums: Sums, fold: int | None) -> tuple[Float64Array, Float64Array, float]:
    """Return the sums over all folds except one."""
    kept = np.arange(FOLDS) != (-1 if fold is None else fold)
    return sums.xx[kept].sum(axis=0), sums.xt[kept].sum(axis=0), float(sums.queries[kept].sum())


def solved(sums: tuple[Float64Array, Float64Array, float]) -> Float64Array:
    """Return the weights for each ridge, float64[R, d]."""
    xx, xt, queries = sums
    if queries == 0.0:
        return np.zeros((RIDGES.size, xt.size))
    values, vectors = np.linalg.eigh(xx / queries)
    along = vectors.T @ (xt / queries)
    return np.stack([vectors @ (along / (np.maximum(values, 0.0) + ridge)) for ridge in RIDGES])


def best_ridge(sums: Sums, weights: list[Float64Array]) -> int:
    """Return the index of the ridge with the smallest squared error on held-out folds."""
    errors = np.zeros(RIDGES.size)
    for k in range(FOLDS):
        for r, each in enumerate(weights[k]):
            errors[r] += each @ sums.xx[k] @ each - 2.0 * (each @ sums.xt[k]) + sums.tt[k]
    return int(np.argmin(errors))
