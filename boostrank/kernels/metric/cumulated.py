"""Kernel of NDCG, DCG, precision and recall: a weighted sum of grades over the ranking."""

from __future__ import annotations

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.metric.contract import metric_kernel


@metric_kernel
def cumulated(grades: Float64Array, ends: Int64Array, worth: Float64Array, scratch: Float64Array) -> None:
    """Write the grades; see `kernels.metric.contract`.

    The sum is linear in the grades, so its mean over the orders of a run of ties gives every document of the run the
    run's mean grade (McSherry and Najork 2008, section 3.1).
    """
    pos = 0
    while pos < grades.shape[0]:
        end = ends[pos]
        mean = grades[pos]
        if end - pos > 1:
            for i in range(pos + 1, end):
                mean += grades[i]
            mean /= end - pos
        for i in range(pos, min(end, worth.shape[0])):
            worth[i] = mean
        pos = end
