"""Feature numbers, values and scores as text (compiled)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.libsvm.decimal import BLANK, COLON, DOT, EXACT_POWERS, MINUS, NEWLINE, high_product
from boostrank.data.libsvm.parser import B1, N1, S1, Int32Array
from boostrank.kernels.runtime.intrinsics import Bytes, bits_of, pointer_to
from boostrank.kernels.runtime.jit import F1, I1, INT, entry_point, inline

MAX_CELL = 32  # " 2147483646:-0.000123456789" and some
# Outside, 10^k or the digits are not exact in float64: Python writes those. Float32 numbers are on the same side of a
# power of 2 whether they are compared in float32 or in float64.
SMALLEST, LARGEST = 2.0**-39, 2.0**49
_FLOAT32_DIGITS = 9  # always enough to tell float32 numbers apart
_SMALLEST_PLAIN = 1e-4  # smaller numbers get an exponent

MAX_SCORE = 26  # "-0.00012345678901234567\n", "-2.2250738585072014e-308\n"
_SCORE_DIGITS = 17  # always enough to tell float64 numbers apart
_FEW_SCORES = 200_000  # Python writes them sooner than the compiler is done
_FROM, _TO = 1e-4, 1e14  # outside: an exponent, or no digit behind the point
_MAGNITUDES = np.array([10.0**i for i in range(-4, 15)])  # none is below its power of ten
_FIVES = np.array([5**i for i in range(21)], np.uint64)
_HIDDEN, _FRACTION = np.uint64(1 << 52), np.uint64((1 << 52) - 1)
_V1, _V2, _V10, _V64 = np.uint64(1), np.uint64(2), np.uint64(10), np.uint64(64)


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


def score_text(scores: Float64Array) -> bytes:
    """Each score on a line, as Python's `repr` has it: the shortest text that reads back as the same number."""
    scores = np.ascontiguousarray(scores, np.float64)
    if scores.size <= _FEW_SCORES and not format_scores.at_hand:
        return "".join([f"{score!r}\n" for score in scores.tolist()]).encode()
    size = np.abs(scores)
    special = ~((size >= _FROM) & (size < _TO))
    texts = [f"{score!r}\n".encode() for score in scores[special].tolist()]
    out = np.empty(MAX_SCORE * scores.size, np.uint8)
    packed = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    return out[: format_scores(scores, special.view(np.uint8), packed, out)].tobytes()


@entry_point(INT(F1, B1, types.Array(types.uint8, 1, "C", readonly=True), B1))
def format_scores(scores: Float64Array, special: Bytes, texts: Bytes, out_: Bytes) -> int:
    """Write a score a line; returns the length of the text.

    Args:
        scores: of those that are not special, _FROM <= |score| < _TO.
        special, texts: which are special, and their lines, packed.
        out: room for all of it. Out.
    """
    out, at, copied = pointer_to(out_), 0, 0
    for i in range(scores.size):
        if special[i]:
            while True:
                out[at] = texts[copied]
                at, copied = at + 1, copied + 1
                if out[at - 1] == NEWLINE:
                    break
            continue
        if scores[i] < 0.0:
            out[at] = MINUS
            at += 1
        at = _write_score(out, at, abs(scores[i]))
        out[at] = NEWLINE
        at += 1
    return at


@inline
def _write_score(out: Bytes, at: int, size: Any) -> int:
    """Write a float64 number; returns the place behind it.

    The number is m 2^e. With `point` decimals it has _SCORE_DIGITS digits, exactly whole + rest / 2^shift of them, from
    m 5^point by a shift; what reads back as the number is nearer to that than 5^point / 2 at this scale. (Below a power
    of two numbers lie closer. Of the sixty between _FROM and _TO none is written otherwise for that: a test has all.)
    """
    magnitude = 0
    while size >= _MAGNITUDES[magnitude + 1]:
        magnitude += 1
    point = _SCORE_DIGITS + 3 - magnitude
    bits, five = np.uint64(bits_of(size)), _FIVES[point]
    shift = np.uint64(1075 - point) - (bits >> np.uint64(52))
    high, low = high_product((bits & _FRACTION) | _HIDDEN, five)
    whole, rest = (high << (_V64 - shift)) | (low >> shift), low & ((_V1 << shift) - _V1)
    unit, digits = np.uint64(100), whole
    for fewer in range(2, -1, -1):  # 15 digits, 16 or 17; of what is shorter they end with zeros
        digits = whole // unit
        over, gap = ((whole - digits * unit) << shift) + rest, unit << shift
        if _V2 * over > gap or (_V2 * over == gap and digits & _V1 == _V1):  # half way: to even
            digits, over = digits + _V1, gap - over
        if _V2 * over < five:
            point -= fewer
            break
        unit //= _V10
    while point > 1 and digits % _V10 == 0:
        digits //= _V10
        point -= 1
    return _write_digits(out, at, np.int64(digits), point)
