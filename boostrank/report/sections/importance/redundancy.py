"""Redundancy of features: those that rank the documents of a query alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array, Int64Array


def within_query_ranks(values: npt.NDArray[np.floating], ptr: Int64Array) -> Float64Array:
    """Ranks within each query, centred and scaled so that every query weighs the same.

    Equal values share their mean rank; what is missing comes below everything, as one value.

    Args:
        values: [N, c], NaN is missing.
        ptr: int64[Q+1].

    Returns:
        float64[N, c]: (rank - mean rank) / n^1.5 in a query of n documents.
    """
    sizes = np.diff(ptr)
    owner = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(owner.size) - np.repeat(ptr[:-1], sizes)
    ranks = np.empty(values.shape)
    for c in range(values.shape[1]):
        column = np.where(np.isnan(values[:, c]), -np.inf, values[:, c])
        order = np.lexsort((column, owner))
        ordered = column[order]
        begins = np.ones(owner.size, dtype=bool)
        begins[1:] = (ordered[1:] != ordered[:-1]) | (owner[1:] != owner[:-1])
        run = np.cumsum(begins) - 1
        ranks[order, c] = (np.bincount(run, place) / np.bincount(run))[run]
    lengths = np.repeat(sizes, sizes).astype(np.float64)
    return np.asarray((ranks - (lengths[:, None] - 1.0) / 2.0) / lengths[:, None] ** 1.5)


def rank_correlation(ranks: Float64Array) -> Float64Array:
    """Spearman's correlation within queries, pooled over them: float64[c, c]; 0 for what is constant.

    Args:
        ranks: of `within_query_ranks`.
    """
    norm = np.sqrt(np.square(ranks).sum(axis=0))
    scaled = ranks / np.where(norm > 0.0, norm, 1.0)
    found = np.clip(scaled.T @ scaled, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def clusters_of(correlation: Float64Array, threshold: float) -> list[list[int]]:
    """Columns that are all correlated with each other by the threshold or more, either sign; of two or more columns.

    Complete linkage: a chain of neighbours whose ends are unlike is no cluster.
    """
    if correlation.shape[0] < 2:
        return []
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = 1.0 - np.abs(correlation)
    tree = linkage(squareform(distance, checks=False), method="complete")
    number = fcluster(tree, 1.0 - threshold + 1e-12, criterion="distance")
    found = [np.flatnonzero(number == n).tolist() for n in np.unique(number)]
    return [members for members in found if len(members) > 1]
