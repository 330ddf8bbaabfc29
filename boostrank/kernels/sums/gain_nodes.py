"""Few gains that represent all gains of a query, for sums of absolute differences by gain."""

from __future__ import annotations

import numpy as np

from boostrank.core.types import Float64Array, Int64Array


def gain_nodes(gains: Float64Array, ptr: Int64Array, most: int) -> tuple[Float64Array, Float64Array]:
    """Express every document's gain as a mixture of two neighbouring nodes of its query.

    Nodes are the distinct gains of the query, or `most` of them, spread evenly over their order including the ends. The
    mixture of |node - c| equals |gain - c| if the gain is a node or c is not between the same two nodes, and is larger
    otherwise, because |x - c| is convex.

    Args:
        gains: float64[N].
        ptr: int64[Q + 1].
        most: maximum number of nodes per query, at least 2.

    Returns:
        float64[N, 2], index of the node at or below the gain and share of the next one; float64[Q, 1 + most], number of
        nodes and the nodes, ascending.
    """
    queries = ptr.size - 1
    query = np.repeat(np.arange(queries), np.diff(ptr))
    # Distinct gains of each query, ascending.
    order = np.lexsort((gains, query))
    sorted_gains, sorted_query = gains[order], query[order]
    is_new = np.ones(gains.size, dtype=bool)
    is_new[1:] = (np.diff(sorted_gains) > 0.0) | (np.diff(sorted_query) > 0)
    values, owner = sorted_gains[is_new], sorted_query[is_new]
    distinct = np.bincount(owner, minlength=queries)
    first, nodes = np.cumsum(distinct) - distinct, np.minimum(distinct, most)
    # Nodes of each query.
    table = np.zeros((queries, 1 + most))
    table[:, 0] = nodes
    for slot in range(most):
        has = nodes > slot
        step = np.maximum(nodes[has] - 1, 1)
        table[has, 1 + slot] = values[first[has] + slot * (distinct[has] - 1) // step]
    # Index and share of each gain.
    place = np.cumsum(is_new) - 1 - first[sorted_query]
    steps, spans = (nodes - 1)[sorted_query], np.maximum(distinct - 1, 1)[sorted_query]
    low = np.maximum((place + 1) * steps - 1, 0) // spans
    below, above = table[sorted_query, 1 + low], table[sorted_query, np.minimum(low + 2, most)]
    mixture = np.zeros((gains.size, 2))
    mixture[order, 0] = low
    between = sorted_gains > below
    mixture[order[between], 1] = ((sorted_gains - below)[between]) / (above - below)[between]
    return mixture, table
