"""Several recursions of a sum of exponentials at once, in the lanes of vector registers.

LLVM does not vectorise this: Numba disables its vectoriser of straight-line code, which slows other kernels down. So
the few instructions are written out. Measured per document: both directions of a sum with 12 terms take 4.5 ns, against
14 in scalar code; two functions of two lists at once, eight such sums, take 7.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.runtime.private import INDEX, first_of, load, spread, store, vector_at, vector_of

Coefficients = tuple[float, ...]
WIDTH = 8
"""Length of the vector that `add_to_range` changes."""


@intrinsic  # type: ignore[untyped-decorator]
def advance(typing: Any, state: Any, coefficients: Any, steps: Any, weights: Any) -> Any:
    """Advance by one document in each of several lists: E_l <- p^l (E_l + w), and return sum_l c_l E_l per function.

    Args:
        state: float64[lists * terms], the E_l in an internal order; read and written.
        coefficients: one tuple c_1, c_2, ... per function, all of the same even length.
        steps: one p per list.
        weights: one w per list.

    Returns:
        Tuple of the sums of the first function in every list, then those of the second, ...
    """
    lists, functions, terms = len(steps), len(coefficients), len(coefficients[0])
    result = types.UniTuple(types.float64, lists * functions)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # One lane per list for odd powers, then one per list for even powers; each advances by the square.
        vector = vector_of(2 * lists)

        def unpacked(values: Any, count: int) -> list[Any]:
            return [builder.extract_value(values, i) for i in range(count)]

        def in_vector(values: list[Any]) -> Any:
            packed = ir.Constant(vector, ir.Undefined)
            for lane, value in enumerate(values):
                packed = builder.insert_element(packed, value, INDEX(lane))
            return packed

        odd = unpacked(arguments[2], lists)
        even = [builder.fmul(p, p) for p in odd]
        power, square = in_vector(odd + even), in_vector(even + even)
        weight = in_vector(2 * unpacked(arguments[3], lists))
        factors = [unpacked(c, terms) for c in unpacked(arguments[1], functions)]
        first = vector_at(builder, first_of(context, builder, state, arguments[0]), INDEX(0), 2 * lists)
        totals: list[Any] = [ir.Constant(vector, None)] * functions
        for i in range(terms // 2):
            place = builder.gep(first, [ir.Constant(ir.IntType(64), i)])
            new = builder.fmul(power, builder.fadd(load(builder, place), weight))
            store(builder, new, place)
            for f in range(functions):
                factor = in_vector([factors[f][2 * i]] * lists + [factors[f][2 * i + 1]] * lists)
                term = builder.fmul(factor, new, flags=("contract",))
                totals[f] = builder.fadd(totals[f], term, flags=("contract",))
            power = builder.fmul(power, square)
        sums = []
        for total in totals:
            parts = [builder.extract_element(total, INDEX(lane)) for lane in range(2 * lists)]
            sums += [builder.fadd(parts[i], parts[lists + i]) for i in range(lists)]
        return context.make_tuple(builder, signature.return_type, sums)

    return result(state, coefficients, steps, weights), generate


def advance_plainly(
    state: Any, coefficients: tuple[Coefficients, ...], steps: tuple[float, ...], weights: tuple[float, ...]
) -> tuple[float, ...]:
    """`advance` in plain Python: the reference, and its replacement for kernels that run uncompiled."""
    lists, terms = len(steps), len(coefficients[0])
    sums = [0.0] * (lists * len(coefficients))
    for term in range(terms):
        for i in range(lists):
            slot = (term // 2) * 2 * lists + (term % 2) * lists + i
            state[slot] = steps[i] ** (term + 1) * (state[slot] + weights[i])
            for f, c in enumerate(coefficients):
                sums[f * lists + i] += c[term] * state[slot]
    return tuple(sums)


@intrinsic  # type: ignore[untyped-decorator]
def add_to_range(typing: Any, sums: Any, start: Any, stop: Any, weight: Any) -> Any:
    """Add `weight` to sums[start:stop] without a branch.

    Args:
        sums: float64[`WIDTH`].
        start, stop: integers.
        weight: number.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, last, added = (spread(builder, argument, WIDTH) for argument in arguments[1:])
        lane = ir.Constant(ir.VectorType(ir.IntType(64), WIDTH), list(range(WIDTH)))
        inside = builder.and_(builder.icmp_signed(">=", lane, first), builder.icmp_signed("<", lane, last))
        added = builder.select(inside, added, ir.Constant(vector_of(WIDTH), None))
        place = vector_at(builder, first_of(context, builder, sums, arguments[0]), INDEX(0), WIDTH)
        store(builder, builder.fadd(load(builder, place), added), place)
        return context.get_dummy_value()

    return types.void(sums, types.int64, types.int64, types.float64), generate


def add_to_range_plainly(sums: Any, start: int, stop: int, weight: float) -> None:
    """`add_to_range` in plain Python."""
    sums[max(start, 0) : max(stop, 0)] += weight


if numba.config.DISABLE_JIT:
    advance, add_to_range = advance_plainly, add_to_range_plainly
