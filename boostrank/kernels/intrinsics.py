"""Intrinsics that Numba lacks, for bare pointers, bytes and bits, and sums in the lanes of vector
registers.

`advance` runs several recursions of a sum of exponentials at once. LLVM does not vectorise this:
Numba disables its vectoriser of straight-line code, which slows other kernels down. So the few
instructions are written out. Per document, both directions of a sum with 12 terms take 4.5 ns,
against 14 in scalar code, and two functions of two lists at once, eight such sums, take 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.private import INDEX, Emitter, emitted, vector_of

Bytes = npt.NDArray[np.uint8]

_SIXTEEN = ir.VectorType(ir.IntType(8), 16)


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typing: Any, array: Any) -> Any:
    """Return a pointer to a contiguous array, which is indexed without wrap-around and reference
    counts.

    Passing an array between functions costs two atomic operations, which take three quarters of the
    time of a loop over tokens. The array must outlive its pointer.
    """

    def generate(emit: Emitter) -> Any:
        return emit.array(0).data

    return types.CPointer(array.dtype)(array), emitted(generate)


def _of_number(
    result: Any, argument: Any, build: Callable[[Any, Any], Any], plainly: Callable[..., Any]
) -> Any:
    """Return an intrinsic of one number, `build(builder, number)`, or `plainly` for kernels that
    run uncompiled.
    """

    def typed(typing: Any, number: Any) -> Any:
        def generate(emit: Emitter) -> Any:
            builder, arguments = emit.builder, emit.arguments
            return build(builder, arguments[0])

        return result(argument), emitted(generate)

    return plainly if numba.config.DISABLE_JIT else intrinsic(typed)


_SAFE = ir.IntType(1)(0)  # the number of zeros of 0 is defined, too

bits_of = _of_number(
    types.int64,
    types.float64,
    lambda b, x: b.bitcast(x, ir.IntType(64)),
    lambda x: int(np.float64(x).view(np.int64)),
)
"""Return the bits of a float64 as an int64."""
float_of_bits = _of_number(
    types.float64,
    types.int64,
    lambda b, x: b.bitcast(x, ir.DoubleType()),
    lambda x: float(np.uint64(x % (1 << 64)).view(np.float64)),
)
"""Return the float64 with the bits of an int64."""
leading_zeros = _of_number(
    types.uint64, types.uint64, lambda b, x: b.ctlz(x, _SAFE), lambda x: 64 - int(x).bit_length()
)
"""Return the number of zero bits above the highest one bit of a uint64; 64 for 0."""
trailing_zeros = _of_number(
    types.uint64,
    types.uint64,
    lambda b, x: b.cttz(x, _SAFE),
    lambda x: (int(x) & -int(x)).bit_length() - 1 if x else 64,
)
"""Return the number of zero bits below the lowest one bit of a uint64; 64 for 0."""


@intrinsic  # type: ignore[untyped-decorator]
def word_at(typing: Any, text: Any, position: Any) -> Any:
    """Return the eight bytes at a position in a text as a uint64, with the first lowest (as the
    machine stores it).
    """

    def generate(emit: Emitter) -> Any:
        arguments = emit.arguments
        return emit.unaligned(arguments[0], arguments[1], ir.IntType(64))

    return types.uint64(types.CPointer(types.uint8), types.int64), emitted(generate)


@intrinsic  # type: ignore[untyped-decorator]
def blanks_at(typing: Any, text: Any, position: Any) -> Any:
    """Return a uint64 whose bit i is set if byte i of the sixteen bytes at a position is a
    blank.
    """

    def generate(emit: Emitter) -> Any:
        builder, arguments = emit.builder, emit.arguments
        text_bytes = emit.unaligned(arguments[0], arguments[1], _SIXTEEN)
        return _bits(
            builder, builder.icmp_unsigned("==", text_bytes, ir.Constant(_SIXTEEN, [32] * 16))
        )

    return types.uint64(types.CPointer(types.uint8), types.int64), emitted(generate)


@intrinsic  # type: ignore[untyped-decorator]
def decimal_before(typing: Any, text: Any, end: Any, size: Any) -> Any:
    """Parse the `size` <= 15 bytes before a position in a text, where all sixteen bytes before it
    must be readable.

    Return the digits as an integer, and the number of digits after the point, which is -1 without a
    point and -2 if the bytes are not digits with at most one point. No step depends on the bytes or
    their number.
    """

    def generate(emit: Emitter) -> Any:
        builder, arguments = emit.builder, emit.arguments
        text, end, size = arguments
        places = ir.Constant(_SIXTEEN, list(range(16)))

        def everywhere(number: Any) -> Any:
            return emit.spread(builder.trunc(number, ir.IntType(8)), 16)

        def join_neighbours(parts: Any, bits: int, scale: int) -> Any:
            """Combine two neighbours into one number, the first times `scale` plus the second."""
            kind = ir.VectorType(ir.IntType(bits), 128 // bits)
            whole, half = builder.bitcast(parts, kind), bits // 2
            first = builder.and_(whole, ir.Constant(kind, [(1 << half) - 1] * kind.count))
            second = builder.lshr(whole, ir.Constant(kind, [half] * kind.count))
            return builder.add(builder.mul(first, ir.Constant(kind, [scale] * kind.count)), second)

        # Load sixteen bytes, zero those outside, and find the point.
        word, nothing = ir.IntType(64), ir.Constant(_SIXTEEN, [0] * 16)
        digits_and_point = emit.unaligned(text, builder.sub(end, word(16)), _SIXTEEN)
        digits_and_point = builder.xor(digits_and_point, ir.Constant(_SIXTEEN, [48] * 16))
        inside = builder.icmp_unsigned(">=", places, everywhere(builder.sub(word(16), size)))
        digits_and_point = builder.select(inside, digits_and_point, nothing)
        points = _bits(
            builder,
            builder.icmp_unsigned("==", digits_and_point, ir.Constant(_SIXTEEN, [48 ^ 46] * 16)),
        )
        is_whole = builder.icmp_unsigned("==", points, word(0))
        point = builder.select(is_whole, word(-1), builder.cttz(points, ir.IntType(1)(0)))
        # Shift the digits before the point over it.
        moved = builder.shuffle_vector(
            nothing, digits_and_point, ir.Constant(ir.VectorType(INDEX, 16), [0, *range(16, 31)])
        )
        digits = builder.select(
            builder.icmp_signed("<=", places, everywhere(point)), moved, digits_and_point
        )
        wrong = _bits(builder, builder.icmp_unsigned(">", digits, ir.Constant(_SIXTEEN, [9] * 16)))
        # Join digits pairwise into two numbers of eight digits.
        eights = join_neighbours(
            join_neighbours(join_neighbours(digits, 16, 10), 32, 100), 64, 10_000
        )
        first = builder.extract_element(eights, INDEX(0))
        second = builder.extract_element(eights, INDEX(1))
        number = builder.add(builder.mul(first, word(100_000_000)), second)
        behind = builder.select(is_whole, word(-1), builder.sub(word(15), point))
        behind = builder.select(builder.icmp_unsigned("==", wrong, word(0)), behind, word(-2))
        return emit.tuple_of([number, behind])

    both = types.UniTuple(types.int64, 2)
    return both(types.CPointer(types.uint8), types.int64, types.int64), emitted(generate)


def _bits(builder: Any, places: Any) -> Any:
    """Return sixteen booleans as the bits of one word."""
    return builder.zext(builder.bitcast(places, ir.IntType(16)), ir.IntType(64))


def decimal_before_plainly(text: Bytes, end: int, size: int) -> tuple[int, int]:
    """Compute `decimal_before` in plain Python."""
    whole, point, fraction = bytes(text[end - size : end]).partition(b".")
    digits = whole + fraction
    if digits and not digits.isdigit():
        return 0, -2
    return int(digits or b"0"), len(fraction) if point else -1


if numba.config.DISABLE_JIT:  # plain Python versions, for kernels that run uncompiled
    pointer_to = lambda array: array.reshape(-1)  # noqa: E731
    word_at = lambda text, start: text[start : start + 8].view(np.uint64)[0]  # noqa: E731
    decimal_before = decimal_before_plainly

    def blanks_at(text: Any, start: int) -> int:
        """Return the bits of the blanks among sixteen bytes."""
        return sum(1 << int(i) for i in np.flatnonzero(text[start : start + 16] == 32))


Coefficients = tuple[float, ...]


@intrinsic  # type: ignore[untyped-decorator]
def advance(typing: Any, state: Any, coefficients: Any, steps: Any, weights: Any) -> Any:
    """Advance by one document in each of several lists, E_l <- p^l (E_l + w), and return sum_l c_l
    E_l per function.

    Args:
        state: float64[lists * terms], the E_l in an internal order, which are updated.
        coefficients: one tuple c_1, c_2, ... per function, where all tuples have the same even
            length.
        steps, weights: one p and one w per list.

    Returns:
        The sums of the first function in every list, then those of the second function, and so on.
    """
    lists, functions, terms = len(steps), len(coefficients), len(coefficients[0])
    result = types.UniTuple(types.float64, lists * functions)

    def generate(emit: Emitter) -> Any:
        builder, arguments = emit.builder, emit.arguments
        # One lane per list for odd powers, then one per list for even powers; each advances by the
        # square.
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
        first = emit.vector_at(emit.array(0).data, INDEX(0), 2 * lists)
        # Update the state of each term, and add the term to the sum of each function.
        totals: list[Any] = [ir.Constant(vector, None)] * functions
        for i in range(terms // 2):
            pointer = builder.gep(first, [ir.Constant(ir.IntType(64), i)])
            new = builder.fmul(power, builder.fadd(emit.load(pointer), weight))
            emit.store(new, pointer)
            for f in range(functions):
                factor = in_vector([factors[f][2 * i]] * lists + [factors[f][2 * i + 1]] * lists)
                term = builder.fmul(factor, new, flags=("contract",))
                totals[f] = builder.fadd(totals[f], term, flags=("contract",))
            power = builder.fmul(power, square)
        # Add the odd and the even terms of each list.
        sums = []
        for total in totals:
            parts = [builder.extract_element(total, INDEX(lane)) for lane in range(2 * lists)]
            sums += [builder.fadd(parts[i], parts[lists + i]) for i in range(lists)]
        return emit.tuple_of(sums)

    return result(state, coefficients, steps, weights), emitted(generate)


def advance_plainly(
    state: Any,
    coefficients: tuple[Coefficients, ...],
    steps: tuple[float, ...],
    weights: tuple[float, ...],
) -> tuple[float, ...]:
    """Compute `advance` in plain Python, for tests and for kernels that run uncompiled."""
    lists, terms = len(steps), len(coefficients[0])
    sums = [0.0] * (lists * len(coefficients))
    for term in range(terms):
        for i in range(lists):
            slot = (term // 2) * 2 * lists + (term % 2) * lists + i
            state[slot] = steps[i] ** (term + 1) * (state[slot] + weights[i])
            for f, c in enumerate(coefficients):
                sums[f * lists + i] += c[term] * state[slot]
    return tuple(sums)


if numba.config.DISABLE_JIT:
    advance = advance_plainly


WIDE = 16
"""The length of the vectors in `add_outer` and `inner`."""


@intrinsic  # type: ignore[untyped-decorator]
def add_outer(typing: Any, table: Any, at: Any, stride: Any, factors: Any, row: Any) -> Any:
    """Add factors[k] row[at + a] to table[at + k stride + a] for every k and a < WIDE."""

    def generate(emit: Emitter) -> Any:
        builder, arguments = emit.builder, emit.arguments
        at, stride = arguments[1], arguments[2]
        data = emit.array(0).data
        factor = emit.array(3).data
        first = emit.array(4).data
        count = builder.extract_value(emit.array(3).shape, 0)
        vector = emit.load(emit.vector_at(first, at, WIDE))
        with emit.loop(count.type(0), count) as (k, _):
            pointer = emit.vector_at(data, builder.add(at, builder.mul(k, stride)), WIDE)
            term = builder.fmul(emit.spread(builder.load(builder.gep(factor, [k])), WIDE), vector)
            emit.store(builder.fadd(emit.load(pointer), term), pointer)
        return emit.nothing()

    return types.void(table, types.int64, types.int64, factors, row), emitted(generate)


@intrinsic  # type: ignore[untyped-decorator]
def inner(
    typing: Any, table: Any, at: Any, stride: Any, factors: Any, begin: Any, end: Any, row: Any
) -> Any:
    """Return the sum over begin <= k < end and a < WIDE of factors[k] table[at + k stride + a]
    row[at + a].
    """

    def generate(emit: Emitter) -> Any:
        builder, arguments = emit.builder, emit.arguments
        at, stride, begin, end = arguments[1], arguments[2], arguments[4], arguments[5]
        data = emit.array(0).data
        factor = emit.array(3).data
        first = emit.array(6).data
        total = emit.variable(ir.Constant(vector_of(WIDE), None))
        with emit.loop(begin, end) as (k, _):
            pointer = emit.vector_at(data, builder.add(at, builder.mul(k, stride)), WIDE)
            factor_k = emit.spread(builder.load(builder.gep(factor, [k])), WIDE)
            term = builder.fmul(factor_k, emit.load(pointer))
            builder.store(builder.fadd(builder.load(total), term), total)
        sums = builder.fmul(builder.load(total), emit.load(emit.vector_at(first, at, WIDE)))
        # Add the lanes by halving the vector.
        width = WIDE
        while width > 1:
            width //= 2
            low, high = list(range(width)), list(range(width, 2 * width))
            kind = ir.VectorType(INDEX, width)
            sums = builder.fadd(
                builder.shuffle_vector(sums, sums, ir.Constant(kind, low)),
                builder.shuffle_vector(sums, sums, ir.Constant(kind, high)),
            )
        return builder.extract_element(sums, INDEX(0))

    return (
        types.float64(table, types.int64, types.int64, factors, types.int64, types.int64, row),
        emitted(generate),
    )


if numba.config.DISABLE_JIT:  # plain Python versions, for kernels that run uncompiled

    def add_outer(table: Any, at: int, stride: int, factors: Any, row: Any) -> None:
        for k in range(factors.shape[0]):
            table[at + k * stride : at + k * stride + WIDE] += factors[k] * row[at : at + WIDE]

    def inner(
        table: Any, at: int, stride: int, factors: Any, begin: int, end: int, row: Any
    ) -> float:
        total = 0.0
        for k in range(begin, end):
            total += factors[k] * float(
                table[at + k * stride : at + k * stride + WIDE] @ row[at : at + WIDE]
            )
        return total
