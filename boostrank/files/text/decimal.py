"""Compiled conversion of decimal digits to the nearest double, with the same results as Python's
`float`.

Numbers are `mantissa * 10^exponent` with at most 19 digits. Small numbers use Clinger's method
(both factors are exact doubles, so one operation rounds once). Others use the method of Eisel and
Lemire, which multiplies by a 128-bit power of five and rounds the product. Subnormal doubles, and
longer numbers that 19 digits do not determine, are "undecided", and the caller uses Python.

Sources: W. Clinger, "How to read floating point numbers accurately", PLDI 1990. D. Lemire, "Number
parsing at a gigabyte per second", Software: Practice and Experience 51(8), 2021; table and tie rule
from section 5. N. Mushtak, D. Lemire, "Fast number parsing without fallback", the same journal
53(7), 2023: 128 bits are enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.kernels.intrinsics import (
    Bytes,
    blanks_at,
    decimal_before,
    leading_zeros,
    trailing_zeros,
)
from boostrank.kernels.jit import inline

Word = np.uint64

NEWLINE, RETURN, BLANK, TAB, HASH, COLON, DOT, PLUS, MINUS = 10, 13, 32, 9, 35, 58, 46, 43, 45
MAX_DIGITS = 19  # every number of 19 digits fits in 64 bits

SMALLEST_POWER, LARGEST_POWER = -342, 308  # below, every 19-digit number rounds to 0; above, to inf

# 10^22 is the largest power of ten that is exact as a double.
EXACT_POWERS = np.array([10.0**i for i in range(23)])

# By sign, and by number of digits after the point plus 1; 0 without a point.
_SIGNED_POWERS = np.array([sign * 10.0 ** max(0, i - 1) for sign in (1.0, -1.0) for i in range(16)])

_MAX_EXACT = np.uint64(1 << 53)
_LOW32 = np.uint64(0xFFFFFFFF)
# 64 - 55: the bits of the product below those that decide rounding.
_UNDECIDED_BITS = np.uint64(0x1FF)
# Far beyond what the digits of a line can offset, and ten times it fits in int64.
_HUGE_EXPONENT = 1 << 40
_U0, _U1, _U3, _U9 = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(9)
_U10, _U32, _U63 = np.uint64(10), np.uint64(32), np.uint64(63)


def _powers_of_five() -> npt.NDArray[np.uint64]:
    """Return 5^q for q from SMALLEST_POWER to LARGEST_POWER, scaled to 128 bits, uint64[651, 2]
    (high, low).
    """
    table = np.empty((LARGEST_POWER - SMALLEST_POWER + 1, 2), np.uint64)
    for q in range(SMALLEST_POWER, LARGEST_POWER + 1):
        power = 5 ** abs(q)
        width = power.bit_length()
        if q >= 0:
            scaled = power << max(0, 128 - width)
        else:
            # Round reciprocals up: a truncated one would fall short of exact quotients.
            scaled = (1 << (width + 127 if q >= -27 else 2 * width + 128)) // power + 1
        scaled >>= max(0, scaled.bit_length() - 128)
        table[q - SMALLEST_POWER] = scaled >> 64, scaled & ((1 << 64) - 1)
    return table


POWERS_OF_FIVE = _powers_of_five()


@inline
def high_product(a: Word, b: Word) -> tuple[Word, Word]:
    """Return the (high, low) 64 bits of a * b."""
    a0, a1 = a & _LOW32, a >> _U32
    b0, b1 = b & _LOW32, b >> _U32
    low, cross, other, high = a0 * b0, a1 * b0, a0 * b1, a1 * b1
    middle = (low >> _U32) + (cross & _LOW32) + (other & _LOW32)
    return high + (cross >> _U32) + (other >> _U32) + (middle >> _U32), a * b


@inline
def nearest_double(mantissa: Word, exponent: Any) -> float:
    """Return the double nearest to mantissa * 10^exponent (ties to even), inf on overflow, NaN if
    undecided.
    """
    if mantissa == _U0 or exponent < SMALLEST_POWER:
        return 0.0
    if exponent > LARGEST_POWER:
        return math.inf
    shift = np.int64(leading_zeros(mantissa))
    word = mantissa << np.uint64(shift)
    row = exponent - SMALLEST_POWER
    high, low = high_product(word, POWERS_OF_FIVE[row, 0])
    if high & _UNDECIDED_BITS == _UNDECIDED_BITS:
        more, _ = high_product(word, POWERS_OF_FIVE[row, 1])
        low = low + more
        if more > low:
            high = high + _U1
    top = high >> _U63
    bits = high >> (top + _U9)
    # floor(q * log2(10)) for every q of the table
    power = ((217706 * exponent) >> 16) + 63 + np.int64(top) - shift + 1023
    if power <= 0:
        return math.nan  # subnormal doubles are rare: leave them to Python
    if (
        low <= _U1
        and exponent >= -4
        and exponent <= 23
        and bits & _U3 == _U1
        and bits << (top + _U9) == high
    ):
        bits = bits ^ _U1  # a tie: round to even
    bits = (bits + (bits & _U1)) >> _U1
    return math.ldexp(np.float64(bits), int(power - 1075))


@inline
def is_digit(byte: int) -> bool:
    """Return whether a byte is one of `0` to `9`."""
    return byte >= 48 and byte <= 57


@inline
def ends_token(text: Bytes, p: int) -> bool:
    """Return whether a token ends before p: at a blank, a comment, or the end of the line."""
    c = text[p]
    return c in (BLANK, NEWLINE, TAB, HASH) or (c == RETURN and text[p + 1] == NEWLINE)


@inline
def _long_number(text: Bytes, start: int) -> float:
    """Return the well-formed unsigned number at `start`, which has more than 19 digits, or NaN if
    undecided.
    """
    mantissa, digits, exponent, has_rest, after_dot = _U0, 0, 0, False, False
    p = start
    while True:
        c = text[p]
        if c == DOT:
            after_dot = True
        elif is_digit(c):
            if digits < MAX_DIGITS:
                mantissa = mantissa * _U10 + np.uint64(c - 48)
                digits += 1 if mantissa > _U0 else 0
                exponent -= 1 if after_dot else 0
            else:
                has_rest = has_rest or c != 48
                exponent += 0 if after_dot else 1
        else:
            break
        p += 1
    exponent += _exponent(text, p)[1]
    value = nearest_double(mantissa, exponent)
    if has_rest and nearest_double(mantissa + _U1, exponent) != value:
        return math.nan
    return value


@inline
def _exponent(text: Bytes, p: int) -> tuple[int, int, bool]:
    """Return (position after, value, whether well formed) of an exponent `e+12` at p, or (p, 0,
    True) without one.
    """
    if text[p] != 101 and text[p] != 69:
        return p, 0, True
    p += 1
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += 1
    first, power = p, 0
    while is_digit(text[p]):
        if power < _HUGE_EXPONENT:
            power = power * 10 + (np.int64(text[p]) - 48)
        p += 1
    return p, -power if negative else power, p > first


@inline
def scan_number(text: Bytes, p: int) -> tuple[int, bool, float]:
    """Return (position after, whether well formed, value) of the decimal number at p; NaN if Python
    must decide.
    """
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += 1
    # Gather the digits in one integer, and the point in the exponent.
    start, mantissa = p, _U0
    while is_digit(text[p]):
        mantissa = mantissa * _U10 + np.uint64(text[p] - 48)
        p += 1
    digits, exponent = p - start, 0
    if text[p] == DOT:
        p += 1
        dot = p
        while is_digit(text[p]):
            mantissa = mantissa * _U10 + np.uint64(text[p] - 48)
            p += 1
        exponent = dot - p
        digits -= exponent
    # Check the form: digits, a complete exponent, and the end of the token.
    good = digits > 0
    if text[p] == 101 or text[p] == 69:
        p, power, well_formed = _exponent(text, p)
        exponent += power
        good = good and well_formed
    if not good or (text[p] != BLANK and not ends_token(text, p)):
        return p, False, 0.0
    # Round once: one exact product or quotient if possible, else the long way.
    if digits > MAX_DIGITS:
        value = _long_number(text, start)
    elif mantissa <= _MAX_EXACT and exponent >= -22 and exponent <= 22:
        value = np.float64(mantissa)
        if exponent < 0:
            value /= EXACT_POWERS[-exponent]
        else:
            value *= EXACT_POWERS[exponent]
    else:
        value = nearest_double(mantissa, exponent)
    return p, True, -value if negative else value


@inline
def scan_short(text: Bytes, p: int) -> tuple[int, bool, float]:
    """Return (position after, whether matched, value) of a decimal number of at most 15 bytes
    before a blank.

    The value equals that of `scan_number`, but this function is faster, because no step depends on
    the number of digits. Other numbers (exponents, plus signs, more digits) do not match. Sixteen
    readable bytes must precede p.
    """
    size: Any = np.int64(trailing_zeros(blanks_at(text, p)))
    negative = 1 if text[p] == MINUS else 0
    if size > 15:
        return p, False, 0.0
    digits, behind = decimal_before(text, p + size, size - negative)
    if behind < -1 or size - negative < (1 if behind < 0 else 2):
        return p, False, 0.0
    return p + size, True, np.float64(digits) / _SIGNED_POWERS[16 * negative + behind + 1]
