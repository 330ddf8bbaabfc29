"""Contract of a metric: its declaration, and the rules of its kernel.

A kernel handles **one query** of ranked documents; the driver has sorted them and found the ties:

    kernel(grades, ends, worth, scratch)

| argument | type | meaning |
|---|---|---|
| grades | float64[m] | grade of the document at each position (a gain, 0 or 1, or a probability) |
| ends | int64[m] | end (exclusive) of the run of tied documents that contains the position |
| worth | float64[k], k <= m | written: contribution of each position up to the largest cut-off, before its weight |
| scratch | float64[>= m + 1] | contents undefined |

The driver computes the metric at a cut-off: the sum of worth times weight over the positions above it, divided by
`divisors`.

1. A worth is the mean over all orders of the documents inside each run of ties, in closed form. If ties are broken
   (input, pessimistic, ...), each run is one document.
2. m covers the largest cut-off and ends with a whole run; later documents do not matter.
3. The kernel is defined for m = 0, never writes its inputs and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import types

from boostrank.core.conventions import Conventions
from boostrank.core.errors import RowError
from boostrank.core.gains import gains_from_labels
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.runtime.jit import F1, I1, CompiledFunction, entry_point

METRIC_SIGNATURE = types.void(F1, I1, F1, F1)

MetricKernel = CompiledFunction[..., None]

metric_kernel = entry_point(METRIC_SIGNATURE)
"""Decorator of a metric's kernel."""

WHOLE_LIST = np.iinfo(np.int64).max
"""Cut-off beyond every list."""

Grades = Callable[[Float64Array, Conventions], Float64Array]
Weights = Callable[[int, Conventions], Float64Array]
Divisors = Callable[[Float64Array, Int64Array, Int64Array, Conventions], Float64Array]


@dataclass(frozen=True)
class MetricSpec:
    """Declaration of a metric, for tests, documentation and command line.

    Args:
        name: canonical name ("ndcg").
        summary: one sentence for a list.
        equation: the metric at cut-off k in ASCII symbols.
        kernel: see the contract above.
        grades: (labels[N], conventions) -> grade of each document, float64[N], >= 0.
        weights: (n, conventions) -> weight of the ranks 1 to n, float64[n].
        divisors: (grades[N], ptr, cutoffs[p], conventions) -> float64[Q, p].
        reference: source of the definition and of its expectation over ties.
        aliases: alternative names.
        ratio: whether it is 0/0 in a query without a relevant document.
        upper: largest value; None if unbounded.
    """

    name: str
    summary: str
    equation: str
    kernel: MetricKernel
    grades: Grades
    weights: Weights
    divisors: Divisors
    reference: str
    aliases: tuple[str, ...] = ()
    ratio: bool = False
    upper: float | None = 1.0


def gains(labels: Float64Array, conventions: Conventions) -> Float64Array:
    return gains_from_labels(labels, conventions.gain)


def relevance(labels: Float64Array, conventions: Conventions) -> Float64Array:
    """Return 1 for a relevant label, 0 for another.

    Raises:
        RowError: a label is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(labels))
    if bad.size:
        raise RowError(int(bad[0]), f"label {labels[bad[0]]:g} is not a finite number")
    threshold = conventions.relevant_from
    return (labels > 0 if threshold is None else labels >= threshold).astype(np.float64)


def log_discounts(n: int, conventions: Conventions) -> Float64Array:
    """Return 1 / log2(1 + rank), or 1 / log2(max(2, rank)), see `Conventions.discount`."""
    ranks = np.arange(1.0, n + 1.0)
    return 1.0 / np.log2(1.0 + ranks if conventions.discount == "log2(1+r)" else np.maximum(2.0, ranks))


def reciprocal_ranks(n: int, conventions: Conventions) -> Float64Array:
    return 1.0 / np.arange(1.0, n + 1.0)


def equal_weights(n: int, conventions: Conventions) -> Float64Array:
    return np.ones(n)


def no_divisors(grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions) -> Float64Array:
    return np.ones((ptr.size - 1, cutoffs.size))


def totals(grades: Float64Array, ptr: Int64Array) -> Float64Array:
    """Return the sum of each query's grades, float64[Q]; 0 for a query without documents."""
    out = np.zeros(ptr.size - 1)
    filled = ptr[:-1] < ptr[1:]
    if filled.any():
        with np.errstate(over="ignore"):
            out[filled] = np.add.reduceat(grades, ptr[:-1][filled])
    return out
