"""The metric kernel that NDCG, DCG, precision and recall share: a weighted sum of grades over the ranking."""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric.contract import metric_kernel


@metric_kernel
def cumulated(
    grades: Float64Array,
    ends: Int64Array,
    weights: Float64Array,
    cutoffs: Int64Array,
    out: Float64Array,
    scratch: Float64Array,
) -> None:
    """sum_{r <= k} grade_r weight_r; see `kernels.metric.contract`.

    The sum is linear in the grades, so its mean over the orders of a run of ties gives every document of the run the
    run's mean grade (McSherry and Najork 2008, section 3.1).
    """
    total, pos, c = 0.0, 0, 0
    while pos < grades.shape[0] and c < cutoffs.shape[0]:
        end = ends[pos]
        mean = grades[pos]
        if end - pos > 1:
            for i in range(pos + 1, end):
                mean += grades[i]
            mean /= end - pos
        for i in range(pos, end):
            total += mean * weights[i]
            if c < cutoffs.shape[0] and i + 1 == cutoffs[c]:
                out[c] = total
                c += 1
        pos = end
    for i in range(c, cutoffs.shape[0]):
        out[i] = total
