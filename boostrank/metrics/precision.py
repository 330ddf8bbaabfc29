"""Precision: the share of relevant documents among the first k.

    P@k = (1/k) sum_{r <= k} relevant_r

For lists of n < k documents, and without a cut-off, see `Conventions.short_lists`. Mean over tied
orders: McSherry and Najork 2008, section 3.1.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import WHOLE_LIST, MetricSpec, cumulated, equal_weights, relevance


def depth(
    grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions
) -> Float64Array:
    """Return the divisor, which is k, or the length of the list by convention or without a
    cut-off.
    """
    sizes = np.diff(ptr)[:, None]
    clip = (conventions.short_lists == "clip") | (cutoffs == WHOLE_LIST)
    return np.where(clip, np.minimum(sizes, cutoffs), cutoffs).astype(np.float64)


SPEC = MetricSpec(
    name="precision",
    kernel=cumulated,
    grades=relevance,
    weights=equal_weights,
    divisors=depth,
    aliases=("p", "pre", "precision_at"),
)
