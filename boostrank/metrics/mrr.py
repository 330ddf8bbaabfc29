"""Reciprocal rank of the first relevant document; its mean over queries is MRR.

    RR@k = 1 / (rank of the first relevant document), 0 if it stands below k

Its mean over tied orders: McSherry and Najork 2008, section 3.3.
"""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric.contract import MetricSpec, metric_kernel, no_divisors, reciprocal_ranks, relevance


@metric_kernel
def kernel(
    grades: Float64Array,
    ends: Int64Array,
    weights: Float64Array,
    cutoffs: Int64Array,
    out: Float64Array,
    scratch: Float64Array,
) -> None:
    """One query; see `kernels.metric.contract`."""
    total, waiting, pos, c = 0.0, 1.0, 0, 0
    while pos < grades.shape[0] and c < cutoffs.shape[0] and waiting > 0.0:
        end = ends[pos]
        r = 0.0
        for i in range(pos, end):
            r += grades[i]
        for i in range(pos, end):
            # Nothing relevant so far in the run: the next of its `left` documents is relevant with chance r / left.
            # That chance reaches 1, and nobody is left waiting, before a run with a relevant document ends.
            left = end - i
            hit = waiting * min(1.0, r / left)
            total += hit * weights[i]
            waiting -= hit
            if c < cutoffs.shape[0] and i + 1 == cutoffs[c]:
                out[c] = total
                c += 1
        pos = end
    for i in range(c, cutoffs.shape[0]):
        out[i] = total


SPEC = MetricSpec(
    name="mrr",
    summary="mean reciprocal rank of the first relevant document",
    equation="1 / (rank of the first relevant document), 0 below k",
    kernel=kernel,
    grades=relevance,
    weights=reciprocal_ranks,
    divisors=no_divisors,
    reference="ties: McSherry, Najork 2008",
    aliases=("rr", "reciprocal_rank"),
)
