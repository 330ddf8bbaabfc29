"""The scalar functions, the sort and the random numbers that kernels share, defined for every
finite argument.

Ranks are 1-based (`rank`), positions 0-based (`pos`).

Random numbers need no generator with a state: number `index` of `stream` under `seed` is a pure
function of the three, so any order of queries and any number of threads give the same draws. It is
element `index` of the SplitMix64 sequence (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014) that starts at a hash of seed and stream. `round_seed` returns the seed of
a round; the stream is the query; the index counts the documents of one draw after another, by
descending score, so a permutation of the documents permutes the outputs of a kernel.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.intrinsics import bits_of, float_of_bits
from boostrank.kernels.jit import F1, I1, entry_point, inline, inline_sums

LN2 = math.log(2.0)
# ln 2 in two parts; the first has so few bits that k * _LN2_HIGH is exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOG2_E, _SQRT2 = 1.0 / LN2, math.sqrt(2.0)
# Added to a small number it leaves the nearest integer in the last bits.
_TO_INTEGER = 1.5 * 2.0**52
_EXPONENT_ONE = 1023 << 52
_MANTISSA, _BITS_OF_2_52 = (1 << 52) - 1, 1075 << 52
_EXPONENT_OFFSET = 2.0**52 + 1023.0

LARGEST = 1.7976931348623157e308
"""The value that replaces a score difference that overflows."""
LARGEST_LOSS = 1e300
"""The limit of a loss, which keeps sums over queries finite."""

_RUN = 24  # below this, insertion beats merging (measured on lists of 20 to 1,000 documents)
_BINNED = 16  # below this, insertion beats bins
_LARGE = 1e300

SEED = Param(
    "seed",
    0,
    "seed of the noise, which is new every round and does not depend on the number of threads",
    low=0,
    aliases=("random_state", "random_seed"),
)
"""The parameter for the objectives that draw random numbers."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE, _HALF_UP, _THIRD_UP = np.uint64(1), np.uint64(30), np.uint64(27)
_LAST_UP, _KEPT = np.uint64(31), np.uint64(12)
_UNIT = 2.0**-52
_SEED_BITS = 53


@inline
def expit(t: float) -> float:
    """Return 1 / (1 + e^-t) without overflow."""
    if t >= 0.0:
        return 1.0 / (1.0 + math.exp(-t))
    z = math.exp(t)
    return z / (1.0 + z)


@inline
def softplus(t: float) -> float:
    """Return ln(1 + e^t) without overflow."""
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


@inline
def bounded(loss: float) -> float:
    """Clip the loss at `LARGEST_LOSS` on both sides; NaN stays NaN."""
    return min(max(loss, -LARGEST_LOSS), LARGEST_LOSS)


@inline
def origin(scores: Float64Array) -> float:
    """Return the middle one of descending scores, to be subtracted from all, or 0 if differences
    would overflow.
    """
    n = scores.shape[0]
    return scores[n // 2] if scores[0] - scores[n - 1] < math.inf else 0.0


@inline
def fast_exp(t: float) -> float:
    """Return e^t for -700 <= t <= 0 by arithmetic only, so that loops use SIMD, with a relative
    error below 1e-15.

    e^t = 2^k e^f with |f| <= ln 2 / 2: a polynomial in f, with k as exponent bits.
    """
    shifted = t * _LOG2_E + _TO_INTEGER
    k = shifted - _TO_INTEGER
    f = (t - k * _LN2_HIGH) - k * _LN2_LOW
    e = 1.0 / 40320.0 + f * (
        1.0 / 362880.0 + f * (1.0 / 3628800.0 + f * (1.0 / 39916800.0 + f / 479001600.0))
    )
    e = 1.0 / 6.0 + f * (
        1.0 / 24.0 + f * (1.0 / 120.0 + f * (1.0 / 720.0 + f * (1.0 / 5040.0 + f * e)))
    )
    e = 1.0 + f * (1.0 + f * (0.5 + f * e))
    return e * float_of_bits((bits_of(shifted) << 52) + _EXPONENT_ONE)


@inline
def fast_log(x: float) -> float:
    """Return ln x for finite x >= 1 by arithmetic only, so that loops use SIMD, with a relative
    error below 1e-15.

    x = 2^k m with m near 1; ln m = 2 artanh((m - 1) / (m + 1)), a series.
    """
    bits = bits_of(x)
    k = float_of_bits((bits >> 52) | _BITS_OF_2_52) - _EXPONENT_OFFSET
    m = float_of_bits((bits & _MANTISSA) | _EXPONENT_ONE)
    k = k + 1.0 if m > _SQRT2 else k
    m = 0.5 * m if m > _SQRT2 else m
    u = (m - 1.0) / (m + 1.0)
    v = u * u
    series = 1.0 / 13.0 + v * (1.0 / 15.0 + v * (1.0 / 17.0 + v * (1.0 / 19.0 + v / 21.0)))
    series = 1.0 / 3.0 + v * (
        1.0 / 5.0 + v * (1.0 / 7.0 + v * (1.0 / 9.0 + v * (1.0 / 11.0 + v * series)))
    )
    return k * _LN2_HIGH + (k * _LN2_LOW + (2.0 * u + 2.0 * u * v * series))


@inline
def discount(rank: float, blend: float, n: int) -> float:
    """Return the training discount of a 1-based, possibly fractional rank >= 1 in a list of n
    documents.

    (1 - blend) / log2(1 + rank) + blend * (1 - (rank - 1) / n): blend 0 is the log discount of DCG,
    1 the linear one; both are 1 at rank 1. The linear part is not clipped: a smoothed hinge's rank
    can exceed n + 1, where the discount is negative and its slope, which drives training, stays
    -1/n.
    """
    value = 0.0
    if blend < 1.0:
        value += (1.0 - blend) / math.log2(1.0 + rank)
    if blend > 0.0:
        value += blend * (1.0 - (rank - 1.0) / n)
    return value


IDEAL_LOG, IDEAL_LINEAR = 0, 1
"""The columns of query constants with the ideal DCG by the log and by the linear discount."""


@inline
def ideal_dcg(query_const: Float64Array, blend: float) -> float:
    """Return Z for a training discount, given the constants of `shared.default_constants`."""
    return (1.0 - blend) * query_const[IDEAL_LOG] + blend * query_const[IDEAL_LINEAR]


@inline
def gather(values: Float64Array, order: Int64Array, out: Float64Array) -> None:
    """Write values[order[pos]] to out[pos]."""
    for pos in range(order.shape[0]):
        out[pos] = values[order[pos]]


@inline
def scatter(values: Float64Array, order: Int64Array, out: Float64Array) -> None:
    """Write values[pos] to out[order[pos]]."""
    for pos in range(order.shape[0]):
        out[order[pos]] = values[pos]


@inline
def _before(scores: Float64Array, i: int, j: int) -> bool:
    # Strict order: higher score first, then input order, so that the result does not depend on the
    # algorithm. Without branches, which would be unpredictable.
    return (scores[i] > scores[j]) | ((scores[i] == scores[j]) & (i < j))


@inline
def sort_descending(scores: Float64Array, order: Int64Array, spare: Int64Array) -> None:
    """Write the positions of documents by descending score to `order`, where ties keep the input
    order.

    Documents are put into n equal bins of score, which leaves little work for a merge sort: 10 ns
    per document, where merging alone takes 36 in lists of 120 and 68 in lists of 2,000. With far
    outliers, the merge sort does everything, so the cost is always O(n log n). Scores are finite;
    `spare`, int64[n], is overwritten; nothing is allocated.
    """
    n = scores.shape[0]
    low, high = _span(scores)
    bins = (n - 1) / (high - low) if n >= _BINNED else math.inf
    if bins > 0.0 and bins < _LARGE:
        # Counting sort by bin.
        spare[:] = 0
        for i in range(n):
            spare[_bin(high - scores[i], bins, n)] += 1
        bin_start = 0
        for b in range(n):
            size = spare[b]
            spare[b] = bin_start
            bin_start += size
        for i in range(n):
            b = _bin(high - scores[i], bins, n)
            order[spare[b]] = i
            spare[b] += 1
    else:
        for i in range(n):
            order[i] = i
    _mend(scores, order, spare)


SORT = types.FunctionType(types.void(F1, I1, I1))


@entry_point(SORT.signature)
def compiled_sort(scores: Float64Array, order: Int64Array, spare: Int64Array) -> None:
    """Run `sort_descending`, compiled once for all callers, which take it as a function pointer."""
    sort_descending(scores, order, spare)


@inline_sums
def _span(scores: Float64Array) -> tuple[float, float]:
    low, high = math.inf, -math.inf
    for i in range(scores.shape[0]):
        low, high = min(low, scores[i]), max(high, scores[i])
    return low, high


@inline
def _bin(below_highest: float, bins: float, n: int) -> int:
    # Bounded on both sides, so that NaN sorts wrongly but never writes out of range.
    b = int(below_highest * bins)
    return max(0, min(b, n - 1))


@inline
def _mend(scores: Float64Array, order: Int64Array, spare: Int64Array) -> None:
    # Runs sorted by insertion, then merged; only the overlap of two runs is touched.
    n = scores.shape[0]
    for start in range(0, n, _RUN):
        for i in range(start + 1, min(start + _RUN, n)):
            document, j = order[i], i
            while j > start and _before(scores, document, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = document
    width = _RUN
    while width < n:
        for low in range(0, n - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n)
            if _before(scores, order[middle], order[middle - 1]):
                _merge(scores, order, low, middle, high, spare)
        width *= 2


@inline
def _merge(
    scores: Float64Array, order: Int64Array, low: int, middle: int, high: int, spare: Int64Array
) -> None:
    # Merge the sorted order[low:middle] and order[middle:high].
    first, end = order[middle], middle - 1
    while low < end:
        half = (low + end) // 2
        if _before(scores, first, order[half]):
            end = half
        else:
            low = half + 1
    left = middle - low
    for i in range(left):
        spare[i] = order[low + i]
    i, j, out = 0, middle, low
    while i < left and j < high:
        document, other = spare[i], order[j]
        take = _before(scores, other, document)
        order[out] = other if take else document
        out += 1
        j += take
        i += 1 - take
    while i < left:
        order[out] = spare[i]
        out += 1
        i += 1


@inline
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _HALF_UP)) * _FIRST
    z = (z ^ (z >> _THIRD_UP)) * _SECOND
    return z ^ (z >> _LAST_UP)


@inline
def uniform(seed: float, stream: int, index: int) -> float:
    """Return a random number strictly between 0 and 1, symmetric about 1/2, in steps of 2^-52.

    The seed is an integer from 0 to 2^53 (see `round_seed`), exact in a float64; `stream` and
    `index` are at least 0.
    """
    key = _mix(_mix(np.uint64(np.int64(seed)) + _GAMMA) + (np.uint64(stream) + _ONE) * _GAMMA)
    return (float(_mix(key + (np.uint64(index) + _ONE) * _GAMMA) >> _KEPT) + 0.5) * _UNIT


@inline
def gumbel(seed: float, stream: int, index: int) -> float:
    """Return a standard Gumbel number, -ln(-ln u), with mean 0.5772 and variance pi^2 / 6."""
    return -math.log(-math.log(uniform(seed, stream, index)))


@inline
def logistic(seed: float, stream: int, index: int) -> float:
    """Return a standard logistic number, ln(u / (1 - u)), with mean 0 and variance pi^2 / 3."""
    u = uniform(seed, stream, index)
    return math.log(u) - math.log1p(-u)


@inline
def normal(seed: float, stream: int, index: int) -> float:
    """Return a standard normal number (Box and Muller, 1958), from the uniform numbers 2 index and
    2 index + 1.
    """
    u, v = uniform(seed, stream, 2 * index), uniform(seed, stream, 2 * index + 1)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)


def round_seed(seed: int, round: int) -> float:
    """Return the seed of a training round (from 0), whose 53 bits fit into a kernel's float64
    parameters.
    """
    state = (seed * 0x9E3779B97F4A7C15 + round + 1) % 2**64
    for shift, factor in ((30, int(_FIRST)), (27, int(_SECOND))):
        state = (state ^ (state >> shift)) * factor % 2**64
    return float((state ^ (state >> 31)) >> (64 - _SEED_BITS))
