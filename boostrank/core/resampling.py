"""Confidence intervals and paired comparisons over queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from boostrank.core.errors import DataError
from boostrank.core.types import Float64Array, first_true

RESAMPLES = 2_000
PAIRED_RESAMPLES = 10_000
"""Number of bootstrap resamples for a paired difference, and number of sign flips for its p-value.
"""
# Probability on either side of a 95% interval. The literal 0.025 differs in the last bit and would
# move the ends.
_TAIL = (1.0 - 0.95) / 2.0
# Numbers in one chunk of resamples: a few arrays of 8 MB.
_CHUNK = 1_000_000
# Queries from which the normal interval is used. Its error (0.003 standard errors for a skewness of
# 1) is then below the variation of a bootstrap with 10,000 resamples over seeds (0.03).
_NORMAL_FROM = 20_000


def bootstrap_intervals(
    values: Float64Array, weights: Float64Array, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Float64Array, Float64Array]:
    """Compute the ends, float64[m], of 95% intervals for weighted means by resampling queries with
    replacement.

    The percentile bootstrap is widened for few queries, because the spread of resampled means is
    too small by sqrt((Q - 1) / Q), and Student's distribution has thicker tails than the normal one
    ("expanded percentile", T. Hesterberg, "What teachers should know about the bootstrap", The
    American Statistician 69, 2015). With more than 20,000 queries, use the normal interval, which
    is mean -+ 1.96 standard errors of the weighted mean.

    Args:
        values: float64[Q, m], finite, Q >= 1. All columns share the same resamples. A single query
            has no interval: NaN.
        weights: float64[Q], positive.
    """
    count = values.shape[0]
    if count < 2:  # the variance is unknown
        return np.full((2, values.shape[1]), np.nan)  # type: ignore[return-value]
    if count > _NORMAL_FROM:
        share = weights / weights.sum()
        mean = share @ values
        error = np.sqrt(np.square(share) @ np.square(values - mean))
        width = ndtri(1.0 - _TAIL) * error
        return mean - width, mean + width
    sums = resampled_sums(
        np.column_stack([values * weights[:, None], weights]), resamples=resamples, seed=seed
    )
    return expanded_interval(sums[:, :-1] / sums[:, -1:], count)


def resampled_sums(columns: Float64Array, *, resamples: int, seed: int) -> Float64Array:
    """Return the sums of columns, float64[Q, m], over queries drawn with replacement, as
    float64[resamples, m].
    """
    count = columns.shape[0]
    rng = np.random.default_rng(seed)
    sums = np.empty((resamples, columns.shape[1]))
    # Draw queries, count the draws of each, and turn the counts into sums with one matrix product.
    for start, stop in _chunks(resamples, count):
        rows = stop - start
        draws = rng.integers(0, count, size=(rows, count), dtype=np.int64)
        draws += count * np.arange(rows)[:, None]
        times = np.bincount(draws.ravel(), minlength=rows * count).reshape(rows, count)
        sums[start:stop] = times.astype(np.float64) @ columns
    return sums


def expanded_interval(draws: Float64Array, count: int) -> tuple[Float64Array, Float64Array]:
    """Return the ends of the 95% interval for resampled values along the first axis, widened for
    few queries.
    """
    tail = _TAIL
    if count > 1:
        tail = float(ndtr(np.sqrt(count / (count - 1.0)) * stdtrit(count - 1.0, tail)))
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    return low, high


@dataclass(frozen=True)
class PairedDifference:
    """The difference between two rankers on the same queries.

    Args:
        mean: mean of a - b.
        low, high: ends of the 95% bootstrap interval of the mean.
        p: two-sided p-value for the hypothesis that a and b are exchangeable in every query.
    """

    mean: float
    low: float
    high: float
    p: float
    queries: int


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    resamples: int = PAIRED_RESAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Compute the mean difference over queries between two rankers in a metric, with its interval
    and p-value.

    The p-value is from Fisher's randomisation test. If a and b are exchangeable, every difference
    could also have the opposite sign. All 2^Q sign patterns are enumerated if there are at most
    `resamples`. Otherwise, patterns are sampled and the observed pattern is added (Davison and
    Hinkley 1997, section 4.2.5), so that p is never 0.

    Args:
        a, b: float64[Q], `MetricResult.per_query` for each ranker. NaN means that a query is
            excluded.
        weights: float64[Q], positive query weights; None for equal weights.
        resamples: number of bootstrap resamples and of sign flips.
        seed: random seed for resamples and sign flips.

    Raises:
        DataError: if the lengths differ, a query is excluded from only one result, a weight is not
            positive, or there are no queries.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise DataError(f"values of shape {first.shape} and {second.shape} cannot be paired")
    is_counted = ~np.isnan(first)
    odd = first_true(is_counted != ~np.isnan(second))
    if odd is not None:
        raise DataError(
            f"only one of two results includes the query at position {odd}: use the same"
            " conventions"
        )
    if not is_counted.any():
        raise DataError("there is no query to compare")
    w = np.ones(first.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != first.shape:
        raise DataError(f"there are {first.size} queries, but weights of shape {w.shape}")
    w = w[is_counted]
    if not 0 < w.min() <= w.sum() < np.inf:
        raise DataError("the weights of queries must be positive finite numbers")
    difference = first[is_counted] - second[is_counted]
    low, high = bootstrap_intervals(difference[:, None], w, resamples=resamples, seed=seed)
    share = w / w.sum()
    p = _sign_flip_p(share * difference, resamples, seed)
    return PairedDifference(
        float(share @ difference), float(low[0]), float(high[0]), p, int(difference.size)
    )


def crossed_difference(
    a: Float64Array, b: Float64Array, *, weights: Float64Array | None = None
) -> tuple[PairedDifference, float]:
    """Compute the mean difference between the trainings of two rankers, over queries and the luck
    of training.

    The variance of the mean is the sum of that over queries, of the differences between mean
    trainings, and of those over the trainings of a and of b, s^2 / m. A side of one training is
    taken as it is, and adds nothing. The interval and the p-value are Student's with the degrees of
    freedom of F. E. Satterthwaite, "An approximate distribution of estimates of variance
    components", Biometrics Bulletin 2, 1946. They are slightly too cautious, because the
    interaction of queries and trainings is in both parts (Cameron, Gelbach, Miller 2011, "Robust
    inference with multiway clustering", who subtract it).

    Args:
        a, b: float64[Q, m], finite, with a column per training.
        weights: float64[Q], positive query weights; None for equal weights.

    Returns:
        The difference, and the part of its standard error that the luck of training has.
    """
    count = a.shape[0]
    if count < 2:  # its variance is unknown
        return PairedDifference(float(a.mean() - b.mean()), np.nan, np.nan, 1.0, count), np.nan
    share = np.full(count, 1.0 / count) if weights is None else weights / weights.sum()
    difference = a.mean(axis=1) - b.mean(axis=1)
    mean = float(share @ difference)
    # Collect the variances that can be estimated, and their degrees of freedom.
    parts = [
        (float((share @ side).var(ddof=1)) / side.shape[1], side.shape[1] - 1)
        for side in (a, b)
        if side.shape[1] > 1
    ]
    luck = sum(variance for variance, _ in parts)
    over_queries = float(np.square(share) @ np.square(difference - mean)) * count / (count - 1)
    parts.append((over_queries, count - 1))
    total = sum(variance for variance, _ in parts)
    if not total:
        return PairedDifference(mean, mean, mean, float(mean == 0.0), count), 0.0
    free = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    error = total**0.5
    width = float(stdtrit(free, 1.0 - _TAIL)) * error
    p = 2.0 * float(stdtr(free, -abs(mean) / error))
    return PairedDifference(mean, mean - width, mean + width, p, count), luck**0.5


def _sign_flip_p(parts: Float64Array, resamples: int, seed: int) -> float:
    observed = abs(float(parts.sum()))
    # Tolerance for rounding: the same numbers summed in another order differ in the last bits.
    limit = observed - 1e-12 * float(np.abs(parts).sum())
    exact = 2**parts.size <= resamples
    total = 2**parts.size if exact else resamples
    rng = np.random.default_rng(seed)
    extreme = 0
    for start, stop in _chunks(total, parts.size):
        if exact:
            flips = np.arange(start, stop)[:, None] >> np.arange(parts.size) & 1
        else:
            flips = rng.integers(0, 2, size=(stop - start, parts.size), dtype=np.int8)
        sums = parts.sum() - 2.0 * (flips.astype(np.float64) @ parts)
        extreme += int(np.count_nonzero(np.abs(sums) >= limit))
    return extreme / total if exact else (extreme + 1) / (total + 1)


def _chunks(total: int, width: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK // max(1, width))
    for start in range(0, total, step):
        yield start, min(total, start + step)
