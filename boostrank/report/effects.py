"""Effects of features on scores: accumulated local effects of single features, and interactions of pairs.

Accumulated local effects
    D. W. Apley, J. Zhu, "Visualizing the effects of predictor variables in black box supervised learning models", JRSS
    B 82 (2020), equations 15 and 16. The values of a feature are split into intervals of about equal counts. The local
    effect of a document is the change of its score from the lower to the upper end of its interval, all else fixed.
    The curve accumulates the mean local effects from left to right. Unlike partial dependence, it never moves a
    feature far from its own value. One pass over the trees computes all features, see
    `kernels.forest.Walker.changes`.

Interactions
    Take two documents of a query. Give the first one the second one's value of feature i, of feature j, and of both.
    For an additive score, the two single changes add up to the joint change. The mixed difference

        D = f(x) - f(x with i) - f(x with j) + f(x with i and j)

    measures the remainder. E[D^2] / 4 is the total interaction index: for independent features, the variance of all
    components of the score that contain both (R. Liu, A. B. Owen, "Estimating mean dimensionality of analysis of
    variance decompositions", JASA 101, 2006, equation 13; J. Fruth, O. Roustant, S. Kuhnt, "Total interaction index",
    JSPI 147, 2014). Exchanging documents within a query decomposes the variance within queries, which decides ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.report.scoring import DocumentProgress, Scorer, in_batches, over_blocks, units_of

RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class AleCurve:
    """Accumulated local effects of one feature, with pointwise 95% bootstrap intervals over queries.

    Categories are in the arbitrary order of their codes: compare neighbours, but ignore the shape.

    Args:
        edges: float64[K+1], ends of the intervals, ascending, values of the data; one or none for a constant feature.
        effect: float64[K+1], effect at each edge, centred over documents with a value; linear within intervals, as in
            the authors' R package ALEPlot.
        low, high: float64[K+1], interval of `effect`.
        counts: int64[K], documents per interval. Intervals include their upper end; the first includes both.
        missing: documents without a value.
        missing_effect: mean change of the score when the value is removed, on the scale of `effect`; NaN if no value is
            missing.
        missing_low, missing_high: its interval.
        query_level: whether the feature is constant within every query, and so ranks no documents by itself.
        zeros: documents with exactly 0, also included in `counts`.
    """

    feature: str
    edges: Float64Array
    effect: Float64Array
    low: Float64Array
    high: Float64Array
    counts: Int64Array
    missing: int
    missing_effect: float
    missing_low: float
    missing_high: float
    query_level: bool
    zeros: int = 0

    @property
    def swing(self) -> float:
        """Range of the curve, in score units."""
        return float(np.ptp(self.effect)) if self.effect.size else 0.0

    @property
    def rising(self) -> float:
        """Share of upward movement in the total variation, from 0 to 1; NaN if flat."""
        steps = np.diff(self.effect)
        total = float(np.abs(steps).sum())
        return float(steps[steps > 0.0].sum()) / total if total > 0.0 else float("nan")

    @property
    def direction(self) -> str:
        """Direction of the curve in words: rising or falling if 90% of its movement is."""
        if np.isnan(self.rising):
            return "flat"
        return "rises" if self.rising > 0.9 else "falls" if self.rising < 0.1 else "rises and falls"

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value; NaN without values."""
        return (float(self.edges[0]), float(self.edges[-1])) if self.edges.size else (float("nan"), float("nan"))


def accumulated_local_effects(
    scorer: Scorer,
    rows: DenseRows,
    names: tuple[str, ...],
    *,
    bins: int,
    seed: int,
    threads: int,
    progress: DocumentProgress | None = None,
) -> tuple[AleCurve, ...]:
    """Return the accumulated local effects of each column.

    Args:
        bins: maximum number of intervals.
    """
    values = rows[: rows.data.n_documents]
    lost = np.isnan(values)
    edges: list[Float64Array] = []
    # Interval of each value, from 1; 0 for missing values.
    place = np.zeros(values.shape, np.int16)
    for c in range(values.shape[1]):
        ends = _ends(values[~lost[:, c], c].astype(np.float64) + 0.0, bins)
        edges.append(ends)
        if ends.size > 1:
            place[:, c] = np.where(lost[:, c], 0, np.maximum(np.searchsorted(ends, values[:, c].astype(np.float64)), 1))
    # Local effects, and effects of missing values for features that are missing in some rows.
    gone = np.flatnonzero(lost.any(axis=0) & ~lost.all(axis=0))
    change, to_missing = _walk(scorer, rows, values, edges, place, gone, threads, progress)
    constant = set(rows.constant_within_queries(threads).tolist())
    queries = rows.data.queries
    # Number of times each query is drawn, float64[RESAMPLES, Q].
    draws = np.random.default_rng(seed).integers(0, max(1, len(queries)), size=(RESAMPLES, len(queries)))
    times = np.array([np.bincount(one, minlength=len(queries)) for one in draws], dtype=np.float64)
    owner = queries.of_rows()
    curves = []
    for c, name in enumerate(names):
        at, intervals = place[:, c].astype(np.int64), max(0, edges[c].size - 1)
        inside = at > 0
        # Sums and counts per query and interval; interval 0 holds missing values.
        key = owner * (intervals + 1) + at
        size = len(queries) * (intervals + 1)
        sums = np.bincount(key, change[:, c], size).reshape(-1, intervals + 1)[:, 1:]
        counts = np.bincount(key, minlength=size).reshape(-1, intervals + 1)[:, 1:].astype(np.float64)
        # The curve, and its bootstrap interval from the redrawn sums.
        mean = _means(sums.sum(axis=0), counts.sum(axis=0), 0.0)
        effect = _accumulated(mean[None], counts.sum(axis=0)[None])[0]
        again = _accumulated(_means(times @ sums, times @ counts, mean), times @ counts)
        low, high = np.quantile(again, [0.025, 0.975], axis=0)
        loss = _missing(to_missing.get(c), lost[:, c], owner, times)
        held = np.bincount(at[inside], minlength=intervals + 1)[1:]
        missing, zeros = int(lost[:, c].sum()), int((values[:, c] == 0.0).sum())
        of_query = c in constant and intervals > 0
        curves.append(AleCurve(name, edges[c], effect, low, high, held, missing, *loss, of_query, zeros))
    return tuple(curves)


def _ends(present: Float64Array, bins: int) -> Float64Array:
    """Return interval ends: values frequent enough to fill an interval, and quantiles of the others."""
    values, counts = np.unique(present, return_counts=True)
    if values.size <= bins + 1:
        return values
    many = np.zeros(values.size, np.bool_)
    while (more := ~many & (counts * (bins - many.sum()) > counts[~many].sum())).any():
        many |= more
    others = np.repeat(values[~many], counts[~many])
    at = np.rint(np.linspace(0, others.size - 1, bins - many.sum() + 1)).astype(int)
    return np.unique(np.concatenate([values[many], others[at]]))


def _walk(
    scorer: Scorer,
    rows: DenseRows,
    values: Float32Array,
    edges: list[Float64Array],
    place: npt.NDArray[np.int16],
    gone: Int64Array,
    threads: int,
    progress: DocumentProgress | None,
) -> tuple[Float64Array, dict[int, Float64Array]]:
    """Return local effects, float64[n, c], and by column the effect of removing each document's value."""
    n, c = values.shape
    change = np.zeros((n, c))
    to_missing = {int(at): np.zeros(n) for at in gone}

    def block(queries: slice, documents: slice) -> None:
        here, at = values[documents], place[documents]
        # Move each value to the ends of its interval.
        lower, upper = here.copy(), here.copy()
        for j in range(c):
            inside = at[:, j] > 0
            lower[inside, j] = edges[j][at[inside, j] - 1]
            upper[inside, j] = edges[j][at[inside, j]]
        for some in in_batches(np.arange(c), here.shape[0]):
            unit = units_of(some, c)
            change[documents, some] = (
                scorer.changes(here, upper, unit, some.size) - scorer.changes(here, lower, unit, some.size)
            ).T
        if gone.size:
            base = scorer.scores(here)
            nothing = np.full_like(here, np.nan)
            for some in in_batches(gone, here.shape[0]):
                changed = scorer.changes(here, nothing, units_of(some, c), some.size)
                for j, scores in zip(some.tolist(), changed, strict=True):
                    to_missing[j][documents] = scores - base

    over_blocks(block, rows, threads, progress)
    return change, to_missing


def _means(sums: Float64Array, counts: Float64Array, instead: Float64Array | float) -> Float64Array:
    """Return sums / counts, and `instead` where the count is 0."""
    return np.asarray(np.where(counts > 0.0, sums / np.maximum(counts, 1.0), instead))


def _accumulated(means: Float64Array, counts: Float64Array) -> Float64Array:
    """Accumulate mean local effects, [r, K], to centred curves, [r, K+1]."""
    curve = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    middle = (curve[:, 1:] + curve[:, :-1]) / 2.0
    return np.asarray(curve - (middle * counts).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1), 1)[:, None])


def _missing(
    change: Float64Array | None, lost: npt.NDArray[np.bool_], owner: Int64Array, times: Float64Array
) -> tuple[float, float, float]:
    """Return the mean over documents with a value, and its interval."""
    if change is None:
        return float("nan"), float("nan"), float("nan")
    queries = times.shape[1]
    sums = np.bincount(owner[~lost], change[~lost], queries)
    counts = np.bincount(owner[~lost], minlength=queries).astype(np.float64)
    mean = float(sums.sum() / counts.sum())
    low, high = np.quantile(_means(times @ sums, times @ counts, mean), [0.025, 0.975])
    return mean, float(low), float(high)


@dataclass(frozen=True)
class Interaction:
    """Interaction of two features.

    Args:
        size: sqrt(E[D^2] / 4), in score units.
        share: E[D^2] / 4 as a share of the score variance within queries; NaN if all scores are equal. Shares may add
            up to more than 1, because components of three features count in three pairs.
    """

    first: str
    second: str
    size: float
    share: float
    error: float


def interactions(
    scorer: Scorer,
    rows: DenseRows,
    names: Sequence[str],
    columns: Sequence[int],
    *,
    seed: int,
    threads: int,
    progress: DocumentProgress | None = None,
) -> tuple[Interaction, ...]:
    """Return the interactions of all pairs of some columns, strongest first.

    Documents alone in their query are left out.
    """
    queries = rows.data.queries
    donor = _others(queries, seed)
    pairs = list(combinations(range(len(columns)), 2))
    squares, moved = np.zeros((len(pairs), len(queries))), np.zeros(len(queries))
    number = {pair: i for i, pair in enumerate(pairs)}

    def block(some: slice, documents: slice) -> None:
        here, swapped = rows[documents], donor[documents] - documents.start
        other, width, count = here[swapped], here.shape[1], some.stop - some.start
        owner = np.repeat(np.arange(count), queries.sizes[some])

        def summed(values: Float64Array) -> Float64Array:
            return np.bincount(owner, np.square(values), count).astype(np.float64)

        base = scorer.scores(here)
        moved[some] = summed(base - base[swapped])
        single = scorer.changes(here, other, units_of(columns, width), len(columns))
        for together in _rounds(len(columns)):
            unit = np.full(width, -1, np.int64)
            for u, pair in enumerate(together):
                unit[[columns[i] for i in pair]] = u
            both = scorer.changes(here, other, unit, len(together))
            for (i, j), joint in zip(together, both, strict=True):
                squares[number[i, j], some] = summed((base - single[i]) - (single[j] - joint))

    over_blocks(block, rows, threads, progress)
    sizes = np.where(queries.sizes > 1, queries.sizes, 0).astype(np.float64)
    total = max(1.0, sizes.sum())
    variance = moved.sum() / total / 2.0
    found = []
    for (i, j), of_query in zip(pairs, squares / 4.0, strict=True):
        mean = of_query.sum() / total
        error = np.sqrt(np.square(of_query - mean * sizes).sum()) / total
        share, spread = (mean / variance, error / variance) if variance > 0.0 else (np.nan, np.nan)
        found.append(
            Interaction(names[columns[i]], names[columns[j]], float(np.sqrt(mean)), float(share), float(spread))
        )
    return tuple(sorted(found, key=lambda one: -one.size))


def _others(queries: QueryIndex, seed: int) -> Int64Array:
    """Match each document with another one of its query, as a permutation; single documents with themselves."""
    sizes = queries.sizes
    shift = 1 + (np.random.default_rng(seed).random(len(queries)) * np.maximum(sizes - 1, 1)).astype(np.int64)
    n, first = np.repeat(np.maximum(sizes, 1), sizes), np.repeat(queries.ptr[:-1], sizes)
    return np.asarray(first + (np.arange(queries.n_documents) - first + np.repeat(shift, sizes)) % n, dtype=np.int64)


def _rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return all pairs in rounds of disjoint pairs (circle method of round-robin tournaments)."""
    seats = list(range(count)) + [-1] * (count % 2)
    rounds = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        rounds.append([(min(pair), max(pair)) for pair in facing if min(pair) >= 0])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds
