"""Permutation importance within queries, measured for all features in one pass, and clusters of
redundant features.

Features are shuffled among the documents of each query, with independent draws per query and
feature. Features that are constant within queries are exchanged between queries instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.kernels.forest import Walker, permute_within
from boostrank.kernels.primitives import round_seed
from boostrank.metrics import BoundMetrics
from boostrank.reporting.scoring import Engine, changed_scores
from boostrank.reporting.section import Context


class Unit(NamedTuple):
    """Features that are shuffled together.

    Args:
        columns: positions of the unit's features among the columns of `DenseRows`.
        stream: random stream number, which is fixed for each feature.
        between: whether to exchange values between queries instead of within them.
    """

    name: str
    columns: tuple[int, ...]
    stream: int
    between: bool = False


class Losses(NamedTuple):
    """The loss in the metric for each unit.

    Args:
        base: float64[Q], metric of each query before shuffling, with NaN for excluded queries.
        loss, low, high: float64[U], mean loss over queries and its 95% bootstrap interval.
        p: float64[U], two-sided p-value for a mean loss of zero, from `p_values`.
    """

    base: Float64Array
    loss: Float64Array
    low: Float64Array
    high: Float64Array
    p: Float64Array


def measure_losses(
    context: Context,
    scorer: Engine | Walker,
    rows: DenseRows,
    units: Sequence[Unit],
    *,
    repeats: int,
    step: str,
) -> Losses:
    """Shuffle each unit `repeats` times and measure its loss. Units must not share columns."""
    seed, data, n_queries = context.seed, rows.data, len(rows.data.queries)
    unit_of_column = np.full(rows.columns.size, -1, np.int64)
    for i, unit in enumerate(units):
        unit_of_column[list(unit.columns)] = i
    is_within = np.array([not unit.between for unit in units], np.int64)
    # Query-level features have one value per query.
    first_rows = data.queries.ptr[:-1]
    if is_within.all():
        first_rows = first_rows[:0]
    query_values = rows[first_rows]
    # Measure each block of queries before and after shuffling.
    base, sums = np.empty(n_queries), np.zeros((len(units), n_queries))

    def measure_block(queries: slice, documents: slice, bound: BoundMetrics) -> None:
        (name,) = bound.names
        values, index = rows[documents], bound.queries
        base[queries] = bound.per_query(scorer.scores(values))[name]
        order = np.empty(index.longest, np.int64)
        of_units = unit_of_column, len(units), is_within
        for repeat in range(repeats):
            streams = [repeat * 2**32 + unit.stream for unit in units]
            seeds = np.array([round_seed(seed, stream) for stream in streams])
            shuffled = values.copy()
            permute_within(values, index.ptr, queries.start, *of_units, seeds, order, shuffled)
            # Exchange the values of query-level units between queries.
            for unit, unit_seed in zip(units, seeds, strict=True):
                if unit.between:
                    rng, columns = np.random.default_rng(int(unit_seed)), list(unit.columns)
                    new_values = query_values[rng.permutation(n_queries)[queries]][:, columns]
                    shuffled[:, columns] = np.repeat(new_values, index.sizes, axis=0)
            # Measure the loss of each unit.
            changed = changed_scores(scorer, values, shuffled, unit_of_column, len(units))
            for position, scores in changed:
                sums[position, queries] += base[queries] - bound.per_query(scores)[name]

    threads = 1 if isinstance(scorer, Engine) else None  # the engine has threads of its own
    context.measure_blocks(measure_block, rows, step, threads)
    is_counted = ~np.isnan(base)
    weights = data.queries.each_weight[is_counted]
    mean_losses = np.ascontiguousarray(sums[:, is_counted].T / repeats)
    low, high = bootstrap_intervals(mean_losses, weights, seed=seed)
    loss = (weights / weights.sum()) @ mean_losses
    return Losses(base, loss=loss, low=low, high=high, p=p_values(mean_losses, weights))


def p_values(values: Float64Array, weights: Float64Array) -> Float64Array:
    """Return two-sided p-values for zero weighted means, float64[m]. With equal weights, this is
    Student's t test.

    A heavy query pulls the mean towards its own value, which shrinks its residual. Each residual is
    therefore divided by 1 minus the query's share (HC3 of MacKinnon and White, 1985, times (Q - 1)
    / Q). The degrees of freedom are Kish's effective number of queries minus 1. At the 5% level,
    very unequal weights give up to 5% false positives. Resampling tests cannot resolve p-values
    below 1 / 10,000, which Holm's method needs for a thousand features.

    Args:
        values: float64[Q, m]. The p-value is 1 if only one query has a weight, or if all values are
            0.
        weights: float64[Q], positive.
    """
    n_queries, share = values.shape[0], weights / weights.sum()
    freedom = 1.0 / np.square(share).sum() - 1.0
    if n_queries < 2 or freedom <= 0.0:
        return np.ones(values.shape[1])
    mean = share @ values
    error = np.sqrt(
        np.square(share / (1.0 - share)) @ np.square(values - mean) * (n_queries - 1.0) / n_queries
    )
    t_statistics = np.divide(
        np.abs(mean), error, out=np.where(mean == 0.0, 0.0, np.inf), where=error > 0.0
    )
    return np.asarray(2.0 * stdtr(freedom, -t_statistics))


def centred_ranks(values: Array, ptr: Int64Array) -> Float64Array:
    """Return (rank - mean rank) / n^1.5 in each query of n documents, float64[N, c], which weights
    queries equally.

    Equal values share their mean rank. Missing values rank below all others.
    """
    from scipy.stats import rankdata

    query_values = np.split(np.where(np.isnan(values), -np.inf, values), ptr[1:-1])
    ranks = [
        (rankdata(values_of_query, axis=0) - (len(values_of_query) + 1) / 2.0)
        / max(1, len(values_of_query)) ** 1.5
        for values_of_query in query_values
    ]
    return np.concatenate(ranks)


def rank_correlation(ranks: Float64Array) -> Float64Array:
    """Return Spearman's correlations of `centred_ranks`, pooled, float64[c, c], with 0 for
    constant columns.
    """
    with np.errstate(invalid="ignore"):
        correlation = np.nan_to_num(np.atleast_2d(np.corrcoef(ranks, rowvar=False)))
    np.fill_diagonal(correlation, 1.0)
    return correlation


def clusters_of(correlation: Float64Array, threshold: float) -> list[list[int]]:
    """Return clusters of at least two columns whose pairwise correlations all reach the threshold
    in absolute value.

    Complete linkage prevents chains of columns whose ends are not similar.
    """
    if correlation.shape[0] < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(1.0 - np.abs(correlation), checks=False), method="complete")
    cluster_of_column = fcluster(tree, 1.0 - threshold + 1e-12, criterion="distance")
    clusters = [
        np.flatnonzero(cluster_of_column == cluster).tolist()
        for cluster in np.unique(cluster_of_column)
    ]
    return [members for members in clusters if len(members) > 1]
