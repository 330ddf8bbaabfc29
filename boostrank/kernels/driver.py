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
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.jit import (
    F1,
    F2,
    FLOAT,
    I1,
    INT,
    S1,
    CompiledFunction,
    entry_point,
    inline,
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

_U1 = types.uint8[::1]
# Arrays of the driver per document: gradient and Hessian, and with noise the scores and the sums
# of both; the order and what the sort needs.
_NUMBERS, _POSITIONS = 5, 2

Reals = npt.NDArray[Any]


class QueryData(NamedTuple):
    """The arrays of Q queries with N documents, in the form that compiled code takes.

    Args:
        scores, gains: float64[N].
        ptr, weights: int64[Q+1], float64[Q].
        doc_const, query_const: float64[N, d], float64[Q, c], see `kernels.objective`.
    """

    scores: Float64Array
    gains: Float64Array
    ptr: Int64Array
    weights: Float64Array
    doc_const: Float64Array
    query_const: Float64Array


class WorkArrays(NamedTuple):
    """The arrays that a thread overwrites: the driver's own two, then the kernel's scratch."""

    numbers: Float64Array
    positions: Int64Array
    scratch: Float64Array
    int_scratch: Int64Array


class Outputs(NamedTuple):
    """The arrays that a pass writes: derivatives, float[N], and, [Q], each query's loss, sums of
    Hessian and |gradient| and state, all with the query weights.
    """

    grad: Reals
    hess: Reals
    loss: Float64Array
    hess_sum: Float64Array
    magnitude: Float64Array
    state: npt.NDArray[np.uint8]


class Buffers(Outputs):
    """The outputs of a pass, allocated once per data set, in the form that compiled code takes.

    Attributes:
        work: arrays of each thread that has run.
    """

    work: list[WorkArrays]

    @classmethod
    def allocate(
        cls, documents: int, queries: int, dtype: type[np.floating[Any]] = np.float32
    ) -> Buffers:
        """Allocate outputs for N documents in Q queries, float32 for an engine or float64 for a
        part of a mixture.
        """
        grad, hess = np.zeros(documents, dtype), np.zeros(documents, dtype)
        loss, hess_sum, magnitude = np.zeros((3, queries))
        buffers = cls(grad, hess, loss, hess_sum, magnitude, np.zeros(queries, np.uint8))
        buffers.work = []
        return buffers

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
    data: QueryData,
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
        out: outputs, which are overwritten.
        composition: options applied to the kernel.
        slot, slot_values: index in `params` of a parameter with a value per query, and int64[Q] of
            these values.
        ordered, scratch_per_document: see `ObjectiveSpec`; the latter must not change for one
            `out`.
    """
    # Size the work arrays by the longest query, and choose the compiled variant.
    longest = int(np.diff(data.ptr).max(initial=0))
    gradients = gradients_to(out.grad.dtype == np.float32, composition.is_plain)
    applied = None if composition.is_plain else composition
    values_by_query = np.zeros(0, np.int64) if slot_values is None else slot_values

    def run_task(task: tuple[int, int]) -> None:
        # Take the work arrays of a task that has ended, or create them.
        try:
            work = out.work.pop()
        except IndexError:
            scratch_size = scratch_per_document * longest
            work = WorkArrays(
                np.empty(_NUMBERS * longest),
                np.empty(_POSITIONS * longest, np.int64),
                np.empty(scratch_size),
                np.empty(scratch_size, np.int64),
            )
        gradients(
            kernel.compiled,
            compiled_sort.compiled,
            *task,
            data,
            # Copy the parameters, as the slot is overwritten for each query.
            params.copy(),
            applied,
            slot,
            values_by_query,
            ordered,
            out,
            work,
        )
        out.work.append(work)

    run_parallel(run_task, query_blocks(data.ptr, _DOCUMENTS_A_TASK), threads)


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
    (first, second), (first_factor, second_factor) = parts, factors

    def mix_task(task: tuple[int, int]) -> None:
        mix_documents(*task, ptr, first_factor, first, second_factor, second, out)

    run_parallel(mix_task, query_blocks(ptr, _DOCUMENTS_A_TASK), threads)
    out.loss[:] = first_factor * first.loss + second_factor * second.loss


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
        sums = np.array([out.hess_sum[live].sum(), sizes[live].sum(), loss, dead])
        curvature, documents, loss, dead = all_reduce(sums).tolist()
        if unit_hessian:
            # Without noticeable curvature: plain gradient steps.
            curved = curvature > documents * _NO_CURVATURE
            scale, floor = (documents / curvature, HESSIAN_FLOOR) if curved else (1.0, 1.0)
        lowest_hessian = np.repeat(np.where(live, floor, 0.0).astype(np.float32), sizes)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(out.grad, np.float32(scale), out=out.grad)
            np.multiply(out.hess, np.float32(scale), out=out.hess)
        floored = int(np.count_nonzero(out.hess < lowest_hessian))
        np.maximum(out.hess, lowest_hessian, out=out.hess)
        # Finite before, but too far above the average document.
        broken = np.flatnonzero(~(np.isfinite(out.grad) & np.isfinite(out.hess)))
        out.state[np.searchsorted(ptr, broken, side="right") - 1] = BROKEN
    return PassStats(loss, int(dead), out.broken_query, floored, scale)


@inline_sums
def _probe(values: Float64Array) -> float:
    """Return 0 if all values are finite and else NaN, as 0 * x."""
    probe = 0.0
    for i in range(values.shape[0]):
        probe += 0.0 * values[i]
    return probe


@inline_sums
def _judge(grad: Reals, hess: Reals, probe: float) -> tuple[float, float, int]:
    """Return a query's sums of Hessian and |gradient|, and its state after rounding to float32."""
    hess_sum, magnitude = 0.0, 0.0
    for i in range(grad.shape[0]):
        g32, h32 = np.float32(grad[i]), np.float32(hess[i])
        hess_sum += hess[i]
        magnitude += abs(grad[i])
        # As in `_probe`; a negative curvature breaks the query too.
        probe += 0.0 * g32 + 0.0 * h32
        probe += np.nan if h32 < 0.0 else 0.0
    if probe != 0.0:
        return hess_sum, magnitude, BROKEN
    return hess_sum, magnitude, DEAD if magnitude == 0.0 else LIVE


def _gradients(
    kernel, sort, start, stop, data, params, composition, slot, slot_values, ordered, out, work
):
    """Write the outputs of the queries from `start` to `stop`."""
    scores, ptr, numbers, positions = data.scores, data.ptr, work.numbers, work.positions
    noisy = False
    if composition is not None:  # for type None this branch is not compiled
        noisy = composition.noise != NO_NOISE and composition.temperature > 0.0
    for q in range(start, stop):
        a, b = ptr[q], ptr[q + 1]
        n = b - a
        s, order, spare = scores[a:b], positions[:n], positions[n : 2 * n]
        grad, hess = numbers[:n], numbers[n : 2 * n]
        if _probe(s) != 0.0:
            out.state[q] = BROKEN
            continue
        if slot >= 0:
            params[slot] = slot_values[q]
        loss = 0.0
        # Average the kernel over noisy scores, or call it once on the scores.
        if composition is not None and noisy:
            noisy_scores = numbers[2 * n : 3 * n]
            mean_grad, mean_hess = numbers[3 * n : 4 * n], numbers[4 * n : 5 * n]
            mean_grad[:] = 0.0
            mean_hess[:] = 0.0
            share = 1.0 / composition.draws
            for draw in range(composition.draws):
                add_noise(composition, q, draw, s, noisy_scores)
                if ordered:
                    sort(noisy_scores, order, spare)
                loss += share * _call(
                    kernel, data, q, noisy_scores, order, params, grad, hess, work
                )
                for i in range(n):
                    mean_grad[i] += share * grad[i]
                    mean_hess[i] += share * hess[i]
            grad, hess = mean_grad, mean_hess
        if not noisy:
            if ordered:
                sort(s, order, spare)
            loss = _call(kernel, data, q, s, order, params, grad, hess, work)
        # Options applied after the kernel, then the query weight.
        if composition is not None:
            change_gradient(composition, s, grad, hess)
        weight = data.weights[q]
        out.loss[q] = weight * loss
        for i in range(n):
            out.grad[a + i], out.hess[a + i] = weight * grad[i], weight * hess[i]
        out.hess_sum[q], out.magnitude[q], out.state[q] = _judge(
            out.grad[a:b], out.hess[a:b], 0.0 * loss
        )


@inline
def _call(
    kernel: Callable[..., float],
    data: QueryData,
    q: int,
    scores: Float64Array,
    order: Int64Array,
    params: Float64Array,
    grad: Float64Array,
    hess: Float64Array,
    work: WorkArrays,
) -> float:
    """Call the kernel for query q at some scores, and return its loss."""
    a, b = data.ptr[q], data.ptr[q + 1]
    return kernel(
        scores,
        data.gains[a:b],
        order,
        data.doc_const[a:b],
        data.query_const[q],
        params,
        grad,
        hess,
        work.scratch,
        work.int_scratch,
    )


def _outputs_of(real: types.Type) -> types.Type:
    return types.NamedTuple((real, real, F1, F1, F1, _U1), Buffers)


@cache
def gradients_to(single: bool, is_plain: bool) -> CompiledFunction[..., None]:
    """Return `_gradients` compiled for one output type, with or without options that are applied to
    the kernel.
    """
    real = S1 if single else F1
    composition = types.none if is_plain else COMPOSITION
    # The types are in the order of the arguments; options that do not apply have none.
    signature = types.void(
        types.FunctionType(KERNEL_SIGNATURE),
        SORT,
        INT,
        INT,
        types.NamedTuple((F1, F1, I1, F1, F2, F2), QueryData),
        F1,
        composition,
        INT,
        I1,
        types.boolean,
        _outputs_of(real),
        types.NamedTuple((F1, I1, F1, I1), WorkArrays),
    )
    return CompiledFunction(_gradients, signature)


@entry_point(
    types.void(INT, INT, I1, FLOAT, _outputs_of(F1), FLOAT, _outputs_of(F1), _outputs_of(S1))
)
def mix_documents(start, stop, ptr, first_factor, first, second_factor, second, out):
    """Write the weighted sum of two parts for the documents of the queries from `start` to
    `stop`.
    """
    for q in range(start, stop):
        for i in range(ptr[q], ptr[q + 1]):
            out.grad[i] = first_factor * first.grad[i] + second_factor * second.grad[i]
            out.hess[i] = first_factor * first.hess[i] + second_factor * second.hess[i]
        rows = slice(ptr[q], ptr[q + 1])
        out.hess_sum[q], out.magnitude[q], out.state[q] = _judge(
            out.grad[rows], out.hess[rows], 0.0
        )
