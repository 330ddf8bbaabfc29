"""Eight bytes at a time: the decimal digits at a place of a text, without a branch a digit.

Source: D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51(8), 2021, section 4.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from boostrank.kernels.jit import inline

Bytes = npt.NDArray[np.uint8]

NEWLINE, RETURN, BLANK, TAB, HASH, COLON, DOT, PLUS, MINUS = 10, 13, 32, 9, 35, 58, 46, 43, 45
TENS = np.array([10**i for i in range(9)], np.uint64)

_U0, _U8, _U10, _U16, _U32 = (np.uint64(i) for i in (0, 8, 10, 16, 32))
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)
_HIGH_NIBBLES = np.uint64(0xF0F0F0F0F0F0F0F0)
_BYTES = np.uint64(0x000000FF000000FF)
_HUNDREDS = np.uint64(0x000F424000000064)  # 10^6 and 10^2
_ONES = np.uint64(0x0000271000000001)  # 10^4 and 1


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typing: Any, array: Any) -> Any:
    """The first element of a contiguous array, for indexing that neither wraps around nor counts references.

    Handing an array to a function costs two atomic operations, as long as parsing a number takes.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def _load_word(typing: Any, text: Any, place: Any) -> Any:
    """The uint64 of the eight bytes from text[place] on, the first one lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.gep(arguments[0], [arguments[1]])
        word = builder.load(builder.bitcast(first, ir.IntType(64).as_pointer()), align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(text, place), generate


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(typing: Any, word: Any) -> Any:
    """Zero bits below the lowest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(typing: Any, word: Any) -> Any:
    """Zero bits above the highest one bit of a uint64; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@inline
def digits_at(text: Bytes, p: int) -> tuple[Any, Any]:
    """(how many decimal digits stand at p, at most 8; their value). Seven bytes behind p must be readable."""
    word = _load_word(text, p) ^ _ZEROS
    other = (word | (word + _SIXES)) & _HIGH_NIBBLES  # a carry only reaches bytes behind the first non-digit
    count = np.int64(trailing_zeros(other)) >> 3
    if count == 0:
        return 0, _U0
    word <<= np.uint64(64 - 8 * count)  # what is no digit falls out, zeros move in before the digits
    word = word * _U10 + (word >> _U8)
    return count, ((word & _BYTES) * _HUNDREDS + ((word >> _U16) & _BYTES) * _ONES) >> _U32
