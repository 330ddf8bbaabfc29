"""Reciprocal rank of the first relevant document; its mean over queries is MRR.

    RR@k = 1 / (rank of the first relevant document), 0 if that rank is greater than k

Mean over tied orders: McSherry and Najork 2008, section 3.3.
"""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric import MetricSpec, metric_kernel, reciprocal_ranks, relevance


@metric_kernel
def kernel(
    grades: Float64Array, ends: Int64Array, worth: Float64Array, scratch: Float64Array
) -> None:
    """Write the probability that a rank has the first relevant document to `worth`.

    The value is the mean over the orders of tied documents; see `kernels.metric`.
    """
    waiting, pos = 1.0, 0
    worth[:] = 0.0
    while pos < grades.shape[0] and waiting > 0.0:
        end = ends[pos]
        r = 0.0
        for i in range(pos, end):
            r += grades[i]
        for i in range(pos, min(end, worth.shape[0])):
            # With no relevant document so far in the run, the next of `left` is relevant with
            # probability r / left. It reaches 1 before the end of a run with a relevant document.
            left = end - i
            worth[i] = waiting * min(1.0, r / left)
            waiting -= worth[i]
        pos = end


SPEC = MetricSpec(
    name="mrr",
    kernel=kernel,
    grades=relevance,
    weights=reciprocal_ranks,
    aliases=("rr", "reciprocal_rank", "recip_rank"),
)
