"""Intrinsics that Numba lacks: bare pointers, several bytes at a time, bits of a float, zeros of a word."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.runtime.private import INDEX, first_of, spread, unaligned, uncounted

Bytes = npt.NDArray[np.uint8]

_SIXTEEN = ir.VectorType(ir.IntType(8), 16)


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typing: Any, array: Any) -> Any:
    """Return a pointer to a contiguous array, for indexing without wrap-around and reference counts.

    Passing an array between functions costs two atomic operations: in a loop over tokens, three quarters of the running
    time. The array must outlive its pointer.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return first_of(context, builder, signature.args[0], arguments[0])

    return types.CPointer(array.dtype)(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing: Any, array: Any) -> Any:
    """Return the array without its reference count, for slicing in loops without two atomic operations per slice.

    The array must outlive it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return uncounted(context, builder, signature.args[0], arguments[0])

    return array(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(typing: Any, word: Any) -> Any:
    """Return the number of zero bits above the highest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(typing: Any, number: Any) -> Any:
    """Return the bits of a float64 as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_of_bits(typing: Any, bits: Any) -> Any:
    """Return the float64 with the bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(typing: Any, word: Any) -> Any:
    """Return the number of zero bits below the lowest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def word_at(typing: Any, text: Any, place: Any) -> Any:
    """Return the eight bytes at a place of a text as a uint64, the first one lowest (as the machine stores it)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return unaligned(builder, arguments[0], arguments[1], ir.IntType(64))

    return types.uint64(types.CPointer(types.uint8), types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def blanks_at(typing: Any, text: Any, place: Any) -> Any:
    """Return the blanks among the sixteen bytes at a place of a text: bit i of the uint64 belongs to byte i."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = unaligned(builder, arguments[0], arguments[1], _SIXTEEN)
        return _bits(builder, builder.icmp_unsigned("==", found, ir.Constant(_SIXTEEN, [32] * 16)))

    return types.uint64(types.CPointer(types.uint8), types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def decimal_before(typing: Any, text: Any, end: Any, size: Any) -> Any:
    """Parse the `size` bytes, at most fifteen, before a place of a text; all sixteen bytes before it must be readable.

    Return the digits as an integer, and the number of digits after the point: -1 without a point, -2 if it is no
    number. The bytes are digits and one point at most. No step depends on their number or values.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        text, end, size = arguments
        places = ir.Constant(_SIXTEEN, list(range(16)))

        def everywhere(number: Any) -> Any:
            return spread(builder, builder.trunc(number, ir.IntType(8)), 16)

        def joined(parts: Any, bits: int, scale: int) -> Any:
            """Combine neighbours into one number: the first times `scale`, plus the second."""
            kind = ir.VectorType(ir.IntType(bits), 128 // bits)
            whole, half = builder.bitcast(parts, kind), bits // 2
            first = builder.and_(whole, ir.Constant(kind, [(1 << half) - 1] * kind.count))
            second = builder.lshr(whole, ir.Constant(kind, [half] * kind.count))
            return builder.add(builder.mul(first, ir.Constant(kind, [scale] * kind.count)), second)

        # Load sixteen bytes, zero those outside, and find the point.
        word, nothing = ir.IntType(64), ir.Constant(_SIXTEEN, [0] * 16)
        found = unaligned(builder, text, builder.sub(end, word(16)), _SIXTEEN)
        found = builder.xor(found, ir.Constant(_SIXTEEN, [48] * 16))
        inside = builder.icmp_unsigned(">=", places, everywhere(builder.sub(word(16), size)))
        found = builder.select(inside, found, nothing)
        points = _bits(builder, builder.icmp_unsigned("==", found, ir.Constant(_SIXTEEN, [48 ^ 46] * 16)))
        is_whole = builder.icmp_unsigned("==", points, word(0))
        point = builder.select(is_whole, word(-1), builder.cttz(points, ir.IntType(1)(0)))
        # Shift the digits before the point over it.
        moved = builder.shuffle_vector(nothing, found, ir.Constant(ir.VectorType(INDEX, 16), [0, *range(16, 31)]))
        digits = builder.select(builder.icmp_signed("<=", places, everywhere(point)), moved, found)
        wrong = _bits(builder, builder.icmp_unsigned(">", digits, ir.Constant(_SIXTEEN, [9] * 16)))
        # Join digits pairwise into two numbers of eight digits.
        eights = joined(joined(joined(digits, 16, 10), 32, 100), 64, 10_000)
        first, second = (builder.extract_element(eights, INDEX(half)) for half in range(2))
        number = builder.add(builder.mul(first, word(100_000_000)), second)
        behind = builder.select(is_whole, word(-1), builder.sub(word(15), point))
        behind = builder.select(builder.icmp_unsigned("==", wrong, word(0)), behind, word(-2))
        return context.make_tuple(builder, signature.return_type, [number, behind])

    both = types.UniTuple(types.int64, 2)
    return both(types.CPointer(types.uint8), types.int64, types.int64), generate


def _bits(builder: Any, places: Any) -> Any:
    """Return sixteen booleans as bits of one word."""
    return builder.zext(builder.bitcast(places, ir.IntType(16)), ir.IntType(64))


def decimal_before_plainly(text: Bytes, end: int, size: int) -> tuple[int, int]:
    """`decimal_before` in plain Python."""
    whole, point, rest = bytes(text[end - size : end]).partition(b".")
    digits = whole + rest
    if digits and not digits.isdigit():
        return 0, -2
    return int(digits or b"0"), len(rest) if point else -1


if numba.config.DISABLE_JIT:  # plain Python versions, for kernels that run uncompiled
    pointer_to = lambda array: array.reshape(-1)  # noqa: E731
    borrowed = lambda array: array  # noqa: E731
    bits_of = lambda number: int(np.float64(number).view(np.int64))  # noqa: E731
    float_of_bits = lambda bits: float(np.uint64(bits % (1 << 64)).view(np.float64))  # noqa: E731
    leading_zeros = lambda word: 64 - int(word).bit_length()  # noqa: E731
    trailing_zeros = lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64  # noqa: E731
    word_at = lambda text, place: text[place : place + 8].view(np.uint64)[0]  # noqa: E731
    blanks_at = lambda text, place: sum((byte == 32) << i for i, byte in enumerate(bytes(text[place : place + 16])))  # noqa: E731
    decimal_before = decimal_before_plainly
