"""Feature numbers and values as text (compiled)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.blocks import B1, N1, S1, Int32Array
from boostrank.data.text.decimal import BLANK, COLON, DOT, EXACT_POWERS, MINUS, NEWLINE
from boostrank.kernels.runtime.intrinsics import Bytes, pointer_to
from boostrank.kernels.runtime.jit import I1, INT, entry_point, inline

MAX_CELL = 32  # " 2147483646:-0.000123456789" and some
# Outside, 10^k or the digits are not exact in float64: Python writes those. Float32 numbers are on the same side of a
# power of 2 whether they are compared in float32 or in float64.
SMALLEST, LARGEST = 2.0**-39, 2.0**49
_FLOAT32_DIGITS = 9  # always enough to tell float32 numbers apart
_SMALLEST_PLAIN = 1e-4  # smaller numbers get an exponent


@inline
def _write_digits(out: Bytes, at: int, number: Any, point: Any) -> int:
    """Write a whole number with a decimal point before its last `point` digits; returns the place behind it."""
    length, rest = 1, number
    while rest >= 10:
        rest //= 10
        length += 1
    length = max(length, point + 1)
    end = at + length + (1 if point > 0 else 0)
    i = end - 1
    for digit in range(length):
        if digit == point and point > 0:
            out[i] = DOT
            i -= 1
        out[i] = 48 + number % 10
        number //= 10
        i -= 1
    return end


@inline
def _write_value(out: Bytes, at: int, value: Any) -> int:
    """Write the float32 `value` with as few digits as tell it apart; 0 or SMALLEST <= |value| < LARGEST."""
    if math.copysign(1.0, value) < 0.0:
        out[at] = MINUS
        at += 1
    size = abs(value)
    if size == 0.0:
        out[at] = 48
        return at + 1
    if size < 1e6 and size == math.floor(size):
        return _write_digits(out, at, np.int64(size), 0)
    magnitude = np.int64(math.floor(math.log10(size)))
    digits, point = np.int64(0), np.int64(0)
    for length in range(1, _FLOAT32_DIGITS + 1):
        # Both steps round correctly (the factor is exact), and the second is how the reader reads.
        point = length - 1 - magnitude
        if point >= 0:
            digits = np.int64(np.rint(size * EXACT_POWERS[point]))
            back = digits / EXACT_POWERS[point]
        else:
            digits = np.int64(np.rint(size / EXACT_POWERS[-point]))
            back = digits * EXACT_POWERS[-point]
        if np.float32(back) == np.float32(size):
            break
    while digits % 10 == 0 and point > 0:
        digits //= 10
        point -= 1
    while point < 0:
        digits *= 10
        point += 1
    if size >= _SMALLEST_PLAIN:
        return _write_digits(out, at, digits, point)
    at = _write_digits(out, at, digits, 0)
    out[at], out[at + 1] = 101, MINUS  # e-
    return _write_digits(out, at + 2, point, 0)


@entry_point(INT(I1, N1, S1, B1, I1, B1, I1, B1, I1, B1))
def format_rows(
    row_ends: Int64Array, ids_: Int32Array, values_: Float32Array, heads_: Bytes, head_ends: Int64Array, tails_: Bytes,
    tail_ends: Int64Array, special_: Bytes, special_ends: Int64Array, out_: Bytes,
) -> int:  # fmt: skip
    """Write `head number:value ... tail` lines; returns the length of the text.

    Args:
        row_ends: how many cells there are up to the end of each row; ids, values: the cells.
        heads, head_ends, tails, tail_ends: what stands before and behind the cells of each row, packed.
        special, special_ends: texts of the values that are not written here, in order of occurrence, packed.
        out: room for all of it. Out.
    """
    ids, values, out = pointer_to(ids_), pointer_to(values_), pointer_to(out_)
    heads, tails, special = pointer_to(heads_), pointer_to(tails_), pointer_to(special_)
    at, cell, head, tail, copied, which = 0, 0, 0, 0, 0, 0
    for row in range(row_ends.shape[0]):
        while head < head_ends[row]:
            out[at] = heads[head]
            head += 1
            at += 1
        while cell < row_ends[row]:
            out[at] = BLANK
            at = _write_digits(out, at + 1, np.int64(ids[cell]), 0)
            out[at] = COLON
            at += 1
            value = np.float64(values[cell])
            if math.isnan(value):
                out[at], out[at + 1], out[at + 2] = 110, 97, 110
                at += 3
            elif value == 0.0 or (abs(value) >= SMALLEST and abs(value) < LARGEST):
                at = _write_value(out, at, value)
            else:
                while copied < special_ends[which]:
                    out[at] = special[copied]
                    copied += 1
                    at += 1
                which += 1
            cell += 1
        while tail < tail_ends[row]:
            out[at] = tails[tail]
            tail += 1
            at += 1
        out[at] = NEWLINE
        at += 1
    return at
