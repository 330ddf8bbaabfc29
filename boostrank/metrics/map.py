"""Average precision; its mean over queries is MAP.

    AP@k = (1/R) sum_{r <= k} relevant_r P@r,     R = number of relevant documents

R may be min(R, k) instead, see `Conventions.ap_divisor`. Mean over tied orders: McSherry and Najork
2008, section 3.2.
"""

from __future__ import annotations

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import MetricSpec, metric_kernel, reciprocal_ranks, relevance, totals


@metric_kernel
def kernel(
    grades: Float64Array, ends: Int64Array, worth: Float64Array, scratch: Float64Array
) -> None:
    """Write the expected precision at each relevant rank to `worth`, float64[depth].

    The value is the mean over the orders of tied documents; see `kernels.metric`.
    """
    hits, pos = 0.0, 0
    while pos < grades.shape[0]:
        end = ends[pos]
        n, r = end - pos, 0.0
        for i in range(pos, end):
            r += grades[i]
        for i in range(pos, min(end, worth.shape[0])):
            # The document is relevant with probability r/n. Given that, each of the i - pos
            # documents before it in the run is relevant with probability (r - 1) / (n - 1).
            relevant_before = (i - pos) * (r - 1.0) / (n - 1) if n > 1 else 0.0
            worth[i] = r / n * (hits + relevant_before + 1.0)
        hits += r
        pos = end


def divisors(
    grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions
) -> Float64Array:
    """Return the divisor of each query, which is R, float64[Q, 1], or min(R, k), float64[Q, p]."""
    relevant = totals(grades, ptr)[:, None]
    return np.minimum(relevant, cutoffs) if conventions.ap_divisor == "reachable" else relevant


SPEC = MetricSpec(
    name="map",
    kernel=kernel,
    grades=relevance,
    weights=reciprocal_ranks,
    divisors=divisors,
    aliases=("ap", "average_precision", "mean_average_precision"),
    ratio=True,
)
