"""The contract of a metric, and the driver of metrics, which ranks every query once for all
metrics.

A kernel handles **one query** of ranked documents; the driver has sorted them and found the ties:

    kernel(grades, ends, worth, scratch)

| argument | type | meaning |
|---|---|---|
| grades | float64[m] | grade of the document at each position (a gain, 0 or 1, or a probability) |
| ends | int64[m] | end (exclusive) of the run of tied documents that contains the position |
| worth | float64[k], k <= m | written: contribution of each position before its weight |
| scratch | float64[>= m + 1] | contents undefined |

`worth` covers the positions up to the largest cut-off. The driver computes the metric at a cut-off:
the sum of worth times weight over the positions above it, divided by `divisors`. Threads share
blocks of queries, and nothing is summed over queries, so the result does not depend on the number
of threads.

1. A worth is the mean over all orders of the documents inside each run of ties, in closed form. If
   ties are broken (input, pessimistic, ...), each run consists of one document.
2. m covers the largest cut-off and ends with a whole run; later documents do not matter.
3. The kernel is defined for m = 0, never writes its inputs and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import types

from boostrank.core.conventions import Conventions, gains_from_labels
from boostrank.core.errors import RowError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.jit import (
    F1,
    F2,
    I1,
    INT,
    CompiledFunction,
    entry_point,
    inline,
    query_blocks,
    run_parallel,
)
from boostrank.kernels.primitives import SORT, compiled_sort

METRIC_SIGNATURE = types.void(F1, I1, F1, F1)

MetricKernel = CompiledFunction[..., None]

metric_kernel = entry_point(METRIC_SIGNATURE)
"""The decorator for the kernel of a metric."""

WHOLE_LIST = np.iinfo(np.int64).max
"""A cut-off that is beyond the end of every list."""

Grades = Callable[[Float64Array, Conventions], Float64Array]
Weights = Callable[[int, Conventions], Float64Array]
Divisors = Callable[[Float64Array, Int64Array, Int64Array, Conventions], Float64Array]


def _no_divisors(
    grades: Float64Array, ptr: Int64Array, cutoffs: Int64Array, conventions: Conventions
) -> Float64Array:
    return np.ones((ptr.size - 1, cutoffs.size))


@dataclass(frozen=True)
class MetricSpec:
    """The declaration of a metric.

    Args:
        name: canonical name ("ndcg").
        kernel: see the contract above.
        grades: (labels[N], conventions) -> grade of each document, float64[N], >= 0.
        weights: (n, conventions) -> weight of the ranks 1 to n, float64[n].
        divisors: (grades[N], ptr, cutoffs[p], conventions) -> float64[Q, p], or [Q, 1] if all
            cut-offs have the same; the default is 1.
        aliases: alternative names.
        ratio: whether the metric is 0/0 in a query without a relevant document.
        upper: largest possible value; None if it is unbounded.
    """

    name: str
    kernel: MetricKernel
    grades: Grades
    weights: Weights
    divisors: Divisors = _no_divisors
    aliases: tuple[str, ...] = ()
    ratio: bool = False
    upper: float | None = 1.0


def gains(labels: Float64Array, conventions: Conventions) -> Float64Array:
    """Return the gain of each label, float64[N], by the convention `gain`."""
    return gains_from_labels(labels, conventions.gain)


def relevance(labels: Float64Array, conventions: Conventions) -> Float64Array:
    """Return 1 for a relevant label and 0 for any other label.

    Raises:
        RowError: a label is not finite.
    """
    bad = np.flatnonzero(~np.isfinite(labels))
    if bad.size:
        raise RowError(int(bad[0]), f"label {labels[bad[0]]:g} is not a finite number")
    threshold = conventions.relevant_from
    return (labels > 0 if threshold is None else labels >= threshold).astype(np.float64)


def log_discounts(n: int, conventions: Conventions) -> Float64Array:
    """Return 1 / log2(1 + rank), or 1 / log2(max(2, rank)); see `Conventions.discount`."""
    ranks = np.arange(1.0, n + 1.0)
    if conventions.discount == "log2(1+r)":
        return 1.0 / np.log2(1.0 + ranks)
    return 1.0 / np.log2(np.maximum(2.0, ranks))


def reciprocal_ranks(n: int, conventions: Conventions) -> Float64Array:
    """Return 1 / rank for the ranks 1 to n, float64[n]."""
    return 1.0 / np.arange(1.0, n + 1.0)


def equal_weights(n: int, conventions: Conventions) -> Float64Array:
    """Return a weight of 1 for each of the ranks 1 to n, float64[n]."""
    return np.ones(n)


def totals(grades: Float64Array, ptr: Int64Array) -> Float64Array:
    """Return the sum of each query's grades, float64[Q], which is 0 for a query without
    documents.
    """
    out = np.zeros(ptr.size - 1)
    filled = ptr[:-1] < ptr[1:]
    if filled.any():
        with np.errstate(over="ignore"):
            out[filled] = np.add.reduceat(grades, ptr[:-1][filled])
    return out


@metric_kernel
def cumulated(
    grades: Float64Array, ends: Int64Array, worth: Float64Array, scratch: Float64Array
) -> None:
    """Write the grades, as the kernel of NDCG, DCG, precision and recall.

    The sum is linear in the grades, so in its mean over the orders of a run of ties, every document
    has the mean grade of the run (McSherry and Najork 2008, section 3.1).
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


# A block's ranking stays in a core's cache, and its work outweighs the cost of starting a thread
# (~50 us).
_DOCUMENTS_A_BLOCK = 20_000
_SORTED_WHOLE = 4  # lists of fewer than this many documents for each rank asked for

EXPECTED, INPUT, PESSIMISTIC, OPTIMISTIC = 0, 1, 2, 3
TIES = {
    "expected": EXPECTED,
    "input": INPUT,
    "docno": INPUT,
    "pessimistic": PESSIMISTIC,
    "optimistic": OPTIMISTIC,
}
"""The treatments of documents with equal scores; for docno, the rows are first sorted by name."""


class _Ranking(NamedTuple):
    """The ranked documents of a block of queries, and the ends of their runs of ties."""

    order: Int64Array
    ends: Int64Array


class _Work(NamedTuple):
    """What `_apply` overwrites: the grades and the worth of one ranked list, and the scratch."""

    grades: Float64Array
    worth: Float64Array
    scratch: Float64Array


_RANKING = types.BaseTuple.from_types((I1, I1), _Ranking)


class MetricPass(NamedTuple):
    """One metric over a data set, with the grades of documents, the weights of ranks, and
    increasing cut-offs.
    """

    kernel: MetricKernel
    grades: Float64Array
    weights: Float64Array
    cutoffs: Int64Array


def measure(
    passes: Sequence[MetricPass],
    scores: Float64Array,
    labels: Float64Array,
    ptr: Int64Array,
    *,
    ties: int = EXPECTED,
    threads: int = 1,
) -> list[Float64Array]:
    """Return the values of every pass before they are divided, float64[Q, p].

    Args:
        labels: float64[N], which are used only to break ties.
        ties: treatment of ties, such as `EXPECTED`.
    """
    if not passes:
        return []
    ptr = np.require(ptr, np.int64, ["C", "W"])  # compiled code does not take read-only arrays
    outs = [np.zeros((ptr.size - 1, p.cutoffs.size)) for p in passes]
    depth = max(int(p.cutoffs[-1]) for p in passes)

    def measure_block(span: tuple[int, int]) -> None:
        start, stop = span
        # Rank each query of the block once, then measure every metric on the ranked lists.
        documents, longest = int(ptr[stop] - ptr[start]), int(np.diff(ptr[start : stop + 1]).max())
        ranking = _Ranking(np.empty(documents, np.int64), np.empty(documents, np.int64))
        keys, spare = np.empty(longest), np.empty(2 * longest, np.int64)
        sort = compiled_sort.compiled
        _rank(sort, start, stop, scores, labels, ptr, depth, ties, ranking, keys, spare)
        work = _Work(np.empty(longest), np.empty(longest), np.empty(longest + 1))
        for metric_pass, out in zip(passes, outs, strict=True):
            kernel, grades, weights, cutoffs = metric_pass
            _apply(kernel.compiled, start, stop, ptr, ranking, grades, weights, cutoffs, out, work)

    run_parallel(measure_block, query_blocks(ptr, _DOCUMENTS_A_BLOCK), threads)
    return outs


@inline
def rank_top(sort, scores, depth, order, keys, spare):
    """Write at least the best `depth` >= 1 documents to `order`, with all that are tied with one of
    them, and return their number.

    Args:
        sort: `primitives.compiled_sort`.
        order: int64[n], documents by descending score, with ties in input order.
        keys, spare: float64[n], int64[2n], overwritten.
    """
    n = scores.shape[0]
    if depth > n // _SORTED_WHOLE:
        sort(scores, order, spare[:n])
        return n
    # Deal the documents to `depth` groups, without the last few if they are fewer than groups. At
    # least `depth` scores, the best one of each group, reach the least of these.
    for i in range(depth):
        keys[i] = scores[i]
    for start in range(depth, n - depth + 1, depth):
        for i in range(depth):
            keys[i] = max(keys[i], scores[start + i])
    smallest_key = keys[0]
    for i in range(1, depth):
        smallest_key = min(smallest_key, keys[i])
    # Collect the documents that reach it: write each, and keep it by counting it. Sort them.
    chosen, count = spare[n:], 0
    for i in range(n):
        keys[count], chosen[count] = scores[i], i
        count += scores[i] >= smallest_key
    sort(keys[:count], order[:count], spare[:count])
    for pos in range(count):
        order[pos] = chosen[order[pos]]
    return count


@entry_point(types.void(SORT, INT, INT, F1, F1, I1, INT, INT, _RANKING, F1, I1))
def _rank(sort, start, stop, scores, labels, ptr, depth, ties, ranking, keys, spare):
    """Rank the top of each query, then find the ends of its runs of ties, or break the ties by
    label.
    """
    for q in range(start, stop):
        row, at = ptr[q], ptr[q] - ptr[start]
        n = ptr[q + 1] - row
        s, order = scores[row : row + n], ranking.order[at : at + n]
        run_ends = ranking.ends[at : at + n]
        n_ranked = rank_top(sort, s, depth, order, keys, spare)
        # Find its runs of tied documents, from `pos` to `end`.
        pos = 0
        while pos < n_ranked:
            end = pos + 1
            while end < n_ranked and s[order[end]] == s[order[pos]]:
                end += 1
            if ties == EXPECTED:
                for i in range(pos, end):
                    run_ends[i] = end
            else:
                for i in range(pos, end):
                    run_ends[i] = i + 1
                if ties != INPUT and end - pos > 1:
                    size, run = end - pos, spare[n:]
                    for i in range(size):
                        label = labels[row + order[pos + i]]
                        keys[i] = label if ties == OPTIMISTIC else -label
                        run[i] = order[pos + i]
                    sort(keys[:size], order[pos:end], spare[:size])
                    for i in range(pos, end):
                        order[i] = run[order[i]]
            pos = end


@inline
def weighted_sums(
    worth: Float64Array, weights: Float64Array, cutoffs: Int64Array, out: Float64Array
) -> None:
    """Write the sum of worth times weight up to each cut-off, where a cut-off beyond the list means
    the whole list.
    """
    weighted_sum, next_cutoff = 0.0, 0
    for i in range(worth.shape[0]):
        weighted_sum += worth[i] * weights[i]
        if next_cutoff < cutoffs.shape[0] and i + 1 == cutoffs[next_cutoff]:
            out[next_cutoff] = weighted_sum
            next_cutoff += 1
    out[next_cutoff:] = weighted_sum


@entry_point(
    types.void(
        types.FunctionType(METRIC_SIGNATURE),
        INT,
        INT,
        I1,
        _RANKING,
        F1,
        F1,
        I1,
        F2,
        types.BaseTuple.from_types((F1, F1, F1), _Work),
    )
)
def _apply(kernel, start, stop, ptr, ranking, grades, weights, cutoffs, out, work):
    """Measure the positions of each query up to the largest cut-off, extended to a whole run of
    ties.
    """
    for q in range(start, stop):
        row, at, m = ptr[q], ptr[q] - ptr[start], ptr[q + 1] - ptr[q]
        k = min(m, cutoffs[-1])
        if k < m:
            m = ranking.ends[at + k - 1]
        for pos in range(m):
            work.grades[pos] = grades[row + ranking.order[at + pos]]
        worth = work.worth[:k]
        kernel(work.grades[:m], ranking.ends[at : at + m], worth, work.scratch)
        weighted_sums(worth, weights, cutoffs, out[q])
