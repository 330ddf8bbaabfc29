"""The driver of objectives, which runs a kernel over all queries.

Only this module handles weights, scales, floors, float32, threads, mixtures of two objectives, and
the options that are applied to an objective (`composition`).

Each thread writes the results of its own queries, and sums over queries are taken in query order,
so the result does not depend on the number of threads.

A common factor of gradient and Hessian does not change a Newton leaf, -sum g / sum h, but it
changes the meaning of `min_sum_hessian_in_leaf`, `min_child_weight` and `lambda_l2`. The driver
divides both by the mean curvature of the documents of live queries. One unit of Hessian is then one
average document, as in squared error, for every objective and in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.intrinsics import borrowed
from boostrank.kernels.jit import (
    F1,
    F2,
    I1,
    CompiledFunction,
    entry_point,
    inline_sums,
    query_blocks,
    run_parallel,
)
from boostrank.kernels.objective import KERNEL_SIGNATURE, Kernel
from boostrank.kernels.options import COMPOSITION, NO_NOISE, Composition, add_noise, change_gradient
from boostrank.kernels.primitives import SORT, compiled_sort

# Small enough to balance threads and to react to Ctrl-C between tasks; large enough to hide a start
# of about 50 us.
_DOCUMENTS_A_TASK = 20_000

# Minimum Hessian of a document after scaling, as a share of the average, so that no leaf divides by
# zero.
HESSIAN_FLOOR = 1e-6
# Smaller mean curvatures have lost their digits in float32, and dividing by them could overflow.
_NO_CURVATURE = 1e-30

AllReduce = Callable[[Float64Array], Float64Array]
"""A function that takes the sums of one process and returns those of all processes, each of which
must call it.
"""


def alone(sums: Float64Array) -> Float64Array:
    """Return the sums unchanged, as the `AllReduce` of a single process."""
    return sums


LIVE, DEAD, BROKEN = 0, 1, 2
"""The states of a query after a pass: live, dead (zero gradients) or broken (not finite, or
negative curvature).

A dead query keeps the Hessian of its kernel, so that a regression without errors keeps its weight.
"""

_S1 = types.Array(types.float32, 1, "C")
_U1 = types.Array(types.uint8, 1, "C")


@dataclass(frozen=True, eq=False)
class Buffers:
    """The outputs of a pass, allocated once per data set.

    They are derivatives, float[N], and, [Q], each query's loss, sums of Hessian and |gradient| and
    state, all with the query weights. `scratch` contains the work arrays of kernels for each thread
    that has run.
    """

    grad: np.ndarray[Any, np.dtype[Any]]
    hess: np.ndarray[Any, np.dtype[Any]]
    loss: Float64Array
    hess_sum: Float64Array
    magnitude: Float64Array
    state: np.ndarray[Any, np.dtype[np.uint8]]
    scratch: list[tuple[Float64Array, Int64Array, Float64Array, Int64Array]] = field(
        default_factory=list
    )

    @classmethod
    def allocate(
        cls, documents: int, queries: int, dtype: type[np.floating[Any]] = np.float32
    ) -> Buffers:
        """Allocate outputs for N documents in Q queries, float32 for an engine or float64 for a
        part of a mixture.
        """
        grad, hess = np.zeros(documents, dtype), np.zeros(documents, dtype)
        loss, hess_sum, magnitude = np.zeros((3, queries))
        return cls(grad, hess, loss, hess_sum, magnitude, np.zeros(queries, np.uint8))

    @property
    def broken_query(self) -> int:
        """The index of the first broken query, or -1 if there is none."""
        broken = np.flatnonzero(self.state == BROKEN)
        return int(broken[0]) if broken.size else -1


@dataclass(frozen=True)
class PassStats:
    """The statistics of one pass over all queries.

    Args:
        loss: weighted sum of the kernel's losses over all processes of the training.
        dead_queries: number of queries, over all processes, with zero gradient everywhere.
        broken_query: index of the first query with a score, gradient or Hessian that is not finite,
            or with a negative Hessian; -1 if there is none.
        floored: number of documents of live queries whose Hessian was raised to the floor.
        scale: factor of gradient and Hessian.
    """

    loss: float
    dead_queries: int
    broken_query: int
    floored: int
    scale: float


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
    composition: Composition = Composition(),  # noqa: B008 (immutable)
    slot: int = -1,
    slot_values: Int64Array | None = None,
    ordered: bool = True,
    scratch_per_document: int = 8,
    threads: int = 1,
) -> None:
    """Compute the gradient and Hessian of every document with a kernel, multiplied by the query
    weights.

    Args:
        kernel: see `kernels.objective`, which also explains the constants and parameters.
        scores, gains: float64[N].
        ptr, weights: int64[Q+1], float64[Q].
        out: outputs, which are overwritten.
        composition: options applied to the kernel.
        slot, slot_values: index in `params` of a parameter with a value per query, and int64[Q] of
            these values.
        ordered, scratch_per_document: see `ObjectiveSpec`; the latter must not change for one
            `out`.
    """
    # Size the work arrays by the longest query, and choose the compiled variant.
    queries = ptr.size - 1
    longest = int(np.diff(ptr).max()) if queries else 0
    nothing_over = composition.is_plain
    gradients = gradients_to(out.grad.dtype == np.float32, nothing_over)
    applied = None if nothing_over else composition
    values_by_query = np.zeros(0, np.int64) if slot_values is None else slot_values

    def work(task: tuple[int, int]) -> None:
        # Borrow the work arrays of a task that has ended, or create them.
        room = scratch_per_document * longest
        try:
            arrays = out.scratch.pop()
        except IndexError:
            arrays = (
                np.empty(5 * longest),
                np.empty(2 * longest, np.int64),
                np.empty(room),
                np.empty(room, np.int64),
            )
        gradients(
            kernel.compiled,
            compiled_sort.compiled,
            task[0],
            task[1],
            scores,
            gains,
            ptr,
            weights,
            doc_const,
            query_const,
            # Copy the parameters, as the slot is overwritten for each query.
            params.copy(),
            applied,
            slot,
            values_by_query,
            ordered,
            out.grad,
            out.hess,
            out.loss,
            out.hess_sum,
            out.magnitude,
            out.state,
            *arrays,
        )
        out.scratch.append(arrays)

    run_parallel(work, query_blocks(ptr, _DOCUMENTS_A_TASK), threads)


def mix_gradients(
    parts: Sequence[Buffers],
    factors: Sequence[float],
    ptr: Int64Array,
    out: Buffers,
    *,
    threads: int = 1,
) -> None:
    """Write the losses, gradients and Hessians, sums of factor * part, to `out`, float32; the parts
    are float64.
    """
    (first, second), (a, b) = parts, factors

    def work(task: tuple[int, int]) -> None:
        mix_documents(
            task[0],
            task[1],
            ptr,
            a,
            first.grad,
            first.hess,
            b,
            second.grad,
            second.hess,
            out.grad,
            out.hess,
            out.hess_sum,
            out.magnitude,
            out.state,
        )

    run_parallel(work, query_blocks(ptr, _DOCUMENTS_A_TASK), threads)
    out.loss[:] = a * first.loss + b * second.loss


def finish(
    ptr: Int64Array, out: Buffers, *, unit_hessian: bool = True, all_reduce: AllReduce = alone
) -> PassStats:
    """Scale the gradient and Hessian in `out` for the engine, and return the statistics of the
    pass.

    Args:
        unit_hessian: scale both so that the mean Hessian of live documents is one, and raise the
            Hessian to the floor; otherwise leave both unchanged.
        all_reduce: called once, unless a query is broken.
    """
    live, sizes = out.state == LIVE, np.diff(ptr)
    scale, floor, floored = 1.0, 0.0, 0
    loss, dead = float(out.loss.sum()), int(np.count_nonzero(out.state == DEAD))
    if out.broken_query < 0:
        sums = all_reduce(np.array([out.hess_sum[live].sum(), sizes[live].sum(), loss, dead]))
        curvature, documents, loss, dead = (
            float(sums[0]),
            int(sums[1]),
            float(sums[2]),
            int(sums[3]),
        )
        if unit_hessian:
            # Without noticeable curvature: plain gradient steps.
            curved = curvature > documents * _NO_CURVATURE
            scale, floor = (documents / curvature, HESSIAN_FLOOR) if curved else (1.0, 1.0)
        least = np.repeat(np.where(live, floor, 0.0).astype(np.float32), sizes)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(out.grad, np.float32(scale), out=out.grad)
            np.multiply(out.hess, np.float32(scale), out=out.hess)
        floored = int(np.count_nonzero(out.hess < least))
        np.maximum(out.hess, least, out=out.hess)
        # Finite before, but too far above the average document.
        broken = np.flatnonzero(~(np.isfinite(out.grad) & np.isfinite(out.hess)))
        out.state[np.searchsorted(ptr, broken, side="right") - 1] = BROKEN
    return PassStats(loss, dead, out.broken_query, floored, scale)


@inline_sums
def _probe(values: Float64Array) -> float:
    # 0 * x is 0 for every finite x and NaN otherwise.
    probe = 0.0
    for i in range(values.shape[0]):
        probe += 0.0 * values[i]
    return probe


@inline_sums
def _judge(grad: Any, hess: Any, probe: float) -> tuple[float, float, int]:
    """Return a query's sums of Hessian and |gradient|, and its state after rounding to float32."""
    total, magnitude = 0.0, 0.0
    for i in range(grad.shape[0]):
        g32, h32 = np.float32(grad[i]), np.float32(hess[i])
        total += hess[i]
        magnitude += abs(grad[i])
        # As in `_probe`; a negative curvature breaks the query too.
        probe += 0.0 * g32 + 0.0 * h32
        probe += np.nan if h32 < 0.0 else 0.0
    if probe != 0.0:
        return total, magnitude, BROKEN
    return total, magnitude, DEAD if magnitude == 0.0 else LIVE


def _gradients(
    kernel: Any,
    sort: Any,
    start: int,
    stop: int,
    scores: Float64Array,
    gains: Float64Array,
    ptr: Int64Array,
    weights: Float64Array,
    doc_const: Float64Array,
    query_const: Float64Array,
    params: Float64Array,
    composition: Composition | None,
    slot: int,
    slot_values: Int64Array,
    ordered: bool,
    grad: Any,
    hess: Any,
    loss: Float64Array,
    hess_sum: Float64Array,
    magnitude: Float64Array,
    state: Any,
    work: Float64Array,
    iwork: Int64Array,
    scratch: Float64Array,
    iscratch: Int64Array,
) -> None:
    scores, gains, ptr, weights = (
        borrowed(scores),
        borrowed(gains),
        borrowed(ptr),
        borrowed(weights),
    )
    doc_const, query_const, params = borrowed(doc_const), borrowed(query_const), borrowed(params)
    grad, hess, work, iwork = borrowed(grad), borrowed(hess), borrowed(work), borrowed(iwork)
    scratch, iscratch = borrowed(scratch), borrowed(iscratch)
    noisy = False
    if composition is not None:  # for type None this branch is not compiled
        noisy = composition.noise != NO_NOISE and composition.temperature > 0.0
    for q in range(start, stop):
        a, b = ptr[q], ptr[q + 1]
        n = b - a
        s, order, spare = scores[a:b], iwork[:n], iwork[n : 2 * n]
        g, h = work[:n], work[n : 2 * n]
        if _probe(s) != 0.0:
            state[q] = BROKEN
            continue
        if slot >= 0:
            params[slot] = slot_values[q]
        value = 0.0
        # Average the kernel over noisy scores, or call it once on the scores.
        if composition is not None and noisy:
            drawn, gs, hs = work[2 * n : 3 * n], work[3 * n : 4 * n], work[4 * n : 5 * n]
            gs[:] = 0.0
            hs[:] = 0.0
            share = 1.0 / composition.draws
            for draw in range(composition.draws):
                add_noise(composition, q, draw, s, drawn)
                if ordered:
                    sort(drawn, order, spare)
                value += share * kernel(
                    drawn,
                    gains[a:b],
                    order,
                    doc_const[a:b],
                    query_const[q],
                    params,
                    g,
                    h,
                    scratch,
                    iscratch,
                )
                for i in range(n):
                    gs[i] += share * g[i]
                    hs[i] += share * h[i]
            g, h = gs, hs
        if not noisy:
            if ordered:
                sort(s, order, spare)
            value = kernel(
                s,
                gains[a:b],
                order,
                doc_const[a:b],
                query_const[q],
                params,
                g,
                h,
                scratch,
                iscratch,
            )
        # Options applied after the kernel, then the query weight.
        if composition is not None:
            change_gradient(composition, s, g, h)
        weight = weights[q]
        loss[q] = weight * value
        for i in range(n):
            grad[a + i], hess[a + i] = weight * g[i], weight * h[i]
        hess_sum[q], magnitude[q], state[q] = _judge(grad[a:b], hess[a:b], 0.0 * value)


@cache
def gradients_to(single: bool, is_plain: bool) -> CompiledFunction[..., None]:
    """Return `_gradients` compiled for one output type, with or without options that are applied to
    the kernel.
    """
    real = _S1 if single else F1
    composition = types.none if is_plain else COMPOSITION
    # List the types in the order of the arguments; options that do not apply have none.
    signature = types.void(
        types.FunctionType(KERNEL_SIGNATURE),
        SORT,
        types.int64,
        types.int64,
        F1,
        F1,
        I1,
        F1,
        F2,
        F2,
        F1,
        composition,
        types.int64,
        I1,
        types.boolean,
        real,
        real,
        F1,
        F1,
        F1,
        _U1,
        F1,
        I1,
        F1,
        I1,
    )
    return CompiledFunction(_gradients, signature)


@entry_point(
    types.void(
        types.int64,
        types.int64,
        I1,
        types.float64,
        F1,
        F1,
        types.float64,
        F1,
        F1,
        _S1,
        _S1,
        F1,
        F1,
        _U1,
    )
)
def mix_documents(
    start: int,
    stop: int,
    ptr: Int64Array,
    a: float,
    first_grad: Float64Array,
    first_hess: Float64Array,
    b: float,
    second_grad: Float64Array,
    second_hess: Float64Array,
    grad: Float32Array,
    hess: Float32Array,
    hess_sum: Float64Array,
    magnitude: Float64Array,
    state: Any,
) -> None:
    """Write a * first + b * second for the documents of the queries from `start` to `stop`."""
    for q in range(start, stop):
        for i in range(ptr[q], ptr[q + 1]):
            grad[i] = a * first_grad[i] + b * second_grad[i]
            hess[i] = a * first_hess[i] + b * second_hess[i]
        query_rows = slice(ptr[q], ptr[q + 1])
        hess_sum[q], magnitude[q], state[q] = _judge(grad[query_rows], hess[query_rows], 0.0)
