"""Recall: the share of the relevant documents that are among the first k.

    R@k = (sum_{r <= k} relevant_r) / R,     R = number of relevant documents

Mean over tied orders: McSherry and Najork 2008, section 3.1.
"""

from __future__ import annotations

from boostrank.core.conventions import Conventions
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import MetricSpec, cumulated, equal_weights, relevance, totals


def relevant(
    grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions
) -> Float64Array:
    """Return the number of relevant documents, R, float64[Q, 1]."""
    return totals(grades, ptr)[:, None]


SPEC = MetricSpec(
    name="recall",
    kernel=cumulated,
    grades=relevance,
    weights=equal_weights,
    divisors=relevant,
    ratio=True,
    aliases=("r", "recall_at"),
)
