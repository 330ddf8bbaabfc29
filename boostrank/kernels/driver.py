"""Run one query's kernel over all queries: the only place that knows weights, scales, floors, float32 and threads.

Queries are spread over threads and each writes its own slice; sums over queries are taken in query order. So one
thread or many give the same bytes.

The scale of the hessian. Newton leaves are -sum g / sum h, so multiplying both by one constant changes no leaf, but
it decides what `min_sum_hessian_in_leaf`, `min_child_weight` and `lambda_l2` mean. Here both are divided by the mean
curvature of the documents that can learn something, so one unit of hessian is one average document, as in squared
error, for every objective and in every round.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.jit import entry_point, run_parallel
from boostrank.kernels.primitives import sort_descending
from boostrank.kernels.spec import KERNEL_SIGNATURE, Kernel

# A document's hessian after scaling is at least this share of the average one: far below anything that matters to a
# leaf, and enough that no leaf divides a gradient by nothing.
HESSIAN_FLOOR = 1e-6
# Small enough for threads to share the work evenly, large enough to hide what handing it over costs (~50 us).
_DOCUMENTS_A_TASK = 20_000

LIVE, DEAD, BROKEN = 0, 1, 2
"""State of a query after a pass: learning, zero gradient everywhere, not finite or of negative curvature.

A dead query keeps the hessian that its kernel gives: zeros where there is nothing to learn from it, but a regression
that is already right goes on saying so.
"""

_F1 = types.Array(types.float64, 1, "C")
_I1 = types.Array(types.int64, 1, "C")
_F2 = types.Array(types.float64, 2, "C")
_S1 = types.Array(types.float32, 1, "C")
_U1 = types.Array(types.uint8, 1, "C")


@dataclass(frozen=True, eq=False)
class Buffers:
    """What a pass writes, allocated once per data set."""

    grad: Float32Array
    hess: Float32Array
    loss: Float64Array
    hess_sum: Float64Array
    state: np.ndarray[Any, np.dtype[np.uint8]]

    @classmethod
    def allocate(cls, documents: int, queries: int) -> Buffers:
        """For N documents in Q queries."""
        return cls(
            np.zeros(documents, np.float32),
            np.zeros(documents, np.float32),
            np.zeros(queries),
            np.zeros(queries),
            np.zeros(queries, np.uint8),
        )


@dataclass(frozen=True)
class PassStats:
    """What one pass over all queries found.

    Args:
        loss: weighted sum of the kernel's losses.
        dead_queries: queries whose gradient is zero everywhere.
        broken_query: position of the first query with a score, gradient or hessian that is not finite, or a negative
            hessian; -1 without one.
        floored: documents of live queries whose hessian was lifted to the floor.
        scale: what gradient and hessian were multiplied by.
        seconds: wall time.
    """

    loss: float
    dead_queries: int
    broken_query: int
    floored: int
    scale: float
    seconds: float


def run_kernel(
    kernel: Kernel,
    scores: Float64Array,
    gains: Float64Array,
    ptr: Int64Array,
    weights: Float64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    out: Buffers,
    *,
    unit_hessian: bool = True,
    scratch_per_document: int = 8,
    threads: int = 1,
) -> PassStats:
    """Gradient and hessian of every document.

    Args:
        kernel: one query's arithmetic, see `kernels.spec`.
        scores, gains: float64[N].
        ptr: int64[Q+1].
        weights: float64[Q].
        doc_const, query_const: float64[N, d], float64[Q, c].
        params: float64[p].
        out: `grad` and `hess` are overwritten.
        unit_hessian: scale both so that the mean hessian of live documents is one, and lift it to the floor; else both
            are left as the kernel gave them.
        scratch_per_document: see the kernel contract.
        threads: at least 1.
    """
    started = time.perf_counter()
    queries = ptr.size - 1
    longest = int(np.diff(ptr).max()) if queries else 0
    tasks = _split(ptr, threads)

    def first(task: tuple[int, int]) -> None:
        room = scratch_per_document * longest
        _gradients(
            kernel.compiled, task[0], task[1], scores, gains, ptr, weights, doc_const, query_const, params,
            out.grad, out.hess, out.loss, out.hess_sum, out.state,
            np.empty(2 * longest), np.empty(2 * longest, np.int64), np.empty(room), np.empty(room, np.int64),
        )  # fmt: skip

    run_parallel(first, tasks, threads)
    broken = np.flatnonzero(out.state == BROKEN)
    live = out.state == LIVE
    scale, floored = 1.0, 0
    if not broken.size:
        curvature = float(out.hess_sum[live].sum())
        documents = int(np.diff(ptr)[live].sum())
        floor = 0.0
        if unit_hessian:
            # Without any curvature at all: plain gradient steps.
            scale, floor = (documents / curvature, HESSIAN_FLOOR) if curvature > 0 else (1.0, 1.0)
        floored = sum(
            run_parallel(
                lambda task: _finish(task[0], task[1], ptr, out.state, out.grad, out.hess, scale, floor),
                tasks,
                threads,
            )
        )
    return PassStats(
        loss=float(out.loss.sum()),
        dead_queries=int(np.count_nonzero(out.state == DEAD)),
        broken_query=int(broken[0]) if broken.size else -1,
        floored=floored,
        scale=scale,
        seconds=time.perf_counter() - started,
    )


def _split(ptr: Int64Array, threads: int) -> list[tuple[int, int]]:
    """Ranges of queries with about `_DOCUMENTS_A_TASK` documents each."""
    queries = ptr.size - 1
    if threads <= 1 or queries <= 1:
        return [(0, queries)]
    marks = np.arange(_DOCUMENTS_A_TASK, int(ptr[-1]), _DOCUMENTS_A_TASK)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ptr, marks), [queries]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


@entry_point(
    types.void(
        types.FunctionType(KERNEL_SIGNATURE),
        types.int64,
        types.int64,
        _F1,
        _F1,
        _I1,
        _F1,
        _F2,
        _F2,
        _F1,
        _S1,
        _S1,
        _F1,
        _F1,
        _U1,
        _F1,
        _I1,
        _F1,
        _I1,
    )
)
def _gradients(
    kernel: Any,
    start: int,
    stop: int,
    scores: Float64Array,
    gains: Float64Array,
    ptr: Int64Array,
    weights: Float64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    grad: Float32Array,
    hess: Float32Array,
    loss: Float64Array,
    hess_sum: Float64Array,
    state: Any,
    work: Float64Array,
    iwork: Int64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> None:
    for q in range(start, stop):
        a, b = ptr[q], ptr[q + 1]
        n = b - a
        order = iwork[:n]
        g, h = work[:n], work[n : 2 * n]
        # 0 * x is 0 for every finite x and NaN otherwise.
        probe = 0.0
        for i in range(a, b):
            probe += 0.0 * scores[i]
        if probe != 0.0:
            state[q] = BROKEN
            continue
        sort_descending(scores[a:b], order, iwork[n : 2 * n])
        value = kernel(scores[a:b], gains[a:b], order, doc_const[a:b], query_const[q], params, g, h, scratch, iscratch)
        weight = weights[q]
        loss[q] = weight * value
        total, largest, probe = 0.0, 0.0, 0.0 * value
        for i in range(n):
            g32, h32 = np.float32(weight * g[i]), np.float32(weight * h[i])
            grad[a + i], hess[a + i] = g32, h32
            total += h32
            largest = max(largest, abs(g32))
            probe += 0.0 * g32 + 0.0 * h32
            # A negative curvature is as broken as an infinite one.
            if h32 < 0.0:
                probe = np.nan
        hess_sum[q] = total
        if probe != 0.0:
            state[q] = BROKEN
        elif largest == 0.0:
            state[q] = DEAD
        else:
            state[q] = LIVE


@entry_point(types.int64(types.int64, types.int64, _I1, _U1, _S1, _S1, types.float64, types.float64))
def _finish(
    start: int,
    stop: int,
    ptr: Int64Array,
    state: Any,
    grad: Float32Array,
    hess: Float32Array,
    scale: float,
    floor: float,
) -> int:
    floored = 0
    scale32, floor32 = np.float32(scale), np.float32(floor)
    for q in range(start, stop):
        for i in range(ptr[q], ptr[q + 1]):
            grad[i] *= scale32
            h = hess[i] * scale32
            if h < floor32 and state[q] == LIVE:
                h = floor32
                floored += 1
            hess[i] = h
    return floored
