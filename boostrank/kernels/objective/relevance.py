"""Binary relevance of documents, for objectives of binary metrics (AP, precision, MRR)."""

from __future__ import annotations

import numpy as np

from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, Int64Array, ParamValues
from boostrank.kernels.runtime.jit import inline

RELEVANT_FROM = Param(
    "relevant_from", 0.0, "the smallest label that is relevant, as in the metrics; 0 means every label above 0", low=0.0
)
"""Shared by every objective of a binary metric."""


def relevance_constants(labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
    """Return 1 for relevant and 0 for other documents in column 0, and the number of relevant documents per query.

    The number is 0 if all documents are relevant: all orders are equal, and kernels skip the query.
    """
    threshold = values["relevant_from"]
    relevant = labels >= threshold if threshold > 0 else labels > 0
    count = np.diff(np.concatenate([[0], np.cumsum(relevant)])[ptr])
    count[count == np.diff(ptr)] = 0
    return relevant.astype(np.float64)[:, None], count.astype(np.float64)[:, None]


@inline
def relevant_positions(doc_const: Float64Array, order: Int64Array, found: Int64Array) -> int:
    """Write the positions (0-based, by descending score) of the relevant documents, and return their number.

    Args:
        doc_const: float64[n, >= 1], from `relevance_constants`.
        order: int64[n], documents by descending score.
        found: int64[n], written up to the count.
    """
    count = 0
    for pos in range(order.shape[0]):
        if doc_const[order[pos], 0] > 0.0:
            found[count] = pos
            count += 1
    return count
