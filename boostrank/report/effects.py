"""Effects of features on scores: of one feature, accumulated local effects; of two together, their interaction.

Accumulated local effects
    D. W. Apley, J. Zhu, "Visualizing the effects of predictor variables in black box supervised learning models", JRSS
    B 82 (2020), equations 15 and 16. The values of a feature are cut into intervals with about as many documents each.
    The local effect of a document is the change of its score from the lower to the upper end of its interval,
    everything else as it is. The means of these, added up from the left, are the curve. Unlike partial dependence, no
    document gets a value far from its own, which its other features may contradict. All features are done in one pass
    over the trees: see `kernels.trees.walker.Walker.changes`.

Interactions
    Take two documents of a query, and give the first one the value that the second one has of feature i, of feature j,
    of both. Where the score is a sum of what each feature says, the two single changes add up to the joint one; the
    mixed difference

        D = f(x) - f(x with i) - f(x with j) + f(x with i and j)

    is what is left. E[D^2] / 4 is the total interaction index: for independent features, the variance of all parts of
    the score that hold both of them (R. Liu, A. B. Owen, "Estimating mean dimensionality of analysis of variance
    decompositions", JASA 101, 2006, equation 13; J. Fruth, O. Roustant, S. Kuhnt, "Total interaction index", JSPI 147,
    2014). It is 0 where no part does. Documents of one query are exchanged, so that it splits the variance within
    queries, which orders documents.
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
    """The accumulated local effects of one feature.

    Intervals are 95%, pointwise, by bootstrap over queries. Categories stand in the order of their numbers, which
    means nothing: of them, differences between neighbours can be read, and the shape cannot.

    Args:
        feature: its name.
        edges: float64[K+1], ends of the intervals, ascending, values of the data; a single one, or none, where no two
            documents differ.
        effect: float64[K+1], what the score is at each, relative to the mean over documents that have a value, where
            the curve is taken as straight within intervals (as the authors' R package, ALEPlot, has it).
        low, high: float64[K+1], interval of `effect`.
        counts: int64[K], documents in each interval; upper ends belong to it, and so does the lowest value of all.
        missing: documents without a value.
        missing_effect: mean change of the score when a document loses its value: on the scale of `effect`, where a
            missing value stands; NaN where none is missing.
        missing_low, missing_high: interval of that.
        query_level: whether every query has one value: then it orders no documents by itself.
        zeros: documents with exactly 0, which are among `counts`.
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
        """From the lowest to the highest point of the curve, in units of the score."""
        return float(np.ptp(self.effect)) if self.effect.size else 0.0

    @property
    def rising(self) -> float:
        """Share of the way up in all ups and downs: 1 if the score never falls, 0 if it never rises; NaN if flat."""
        steps = np.diff(self.effect)
        total = float(np.abs(steps).sum())
        return float(steps[steps > 0.0].sum()) / total if total > 0.0 else float("nan")

    @property
    def direction(self) -> str:
        """The course of the curve in words; nine tenths of all ups and downs make a direction."""
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
    """The curve of each column.

    Args:
        scorer: of the model.
        rows: what documents to average over.
        names: of the columns.
        bins: intervals at most.
        seed: of the bootstrap.
        threads: of the walk.
        progress: called as the work goes on.
    """
    values = rows[: rows.data.n_documents]
    lost = np.isnan(values)
    edges: list[Float64Array] = []
    # The interval of each value, from 1; 0 where it has none.
    place = np.zeros(values.shape, np.int16)
    for c in range(values.shape[1]):
        ends = _ends(values[~lost[:, c], c].astype(np.float64) + 0.0, bins)
        edges.append(ends)
        if ends.size > 1:
            place[:, c] = np.where(lost[:, c], 0, np.maximum(np.searchsorted(ends, values[:, c].astype(np.float64)), 1))
    gone = np.flatnonzero(lost.any(axis=0) & ~lost.all(axis=0))
    change, to_missing = _walk(scorer, rows, values, edges, place, gone, threads, progress)
    constant = set(rows.constant_within_queries(threads).tolist())
    queries = rows.data.queries
    # How often each query is drawn, float64[RESAMPLES, Q].
    draws = np.random.default_rng(seed).integers(0, max(1, len(queries)), size=(RESAMPLES, len(queries)))
    times = np.array([np.bincount(one, minlength=len(queries)) for one in draws], dtype=np.float64)
    owner = queries.of_rows()
    curves = []
    for c, name in enumerate(names):
        at, intervals = place[:, c].astype(np.int64), max(0, edges[c].size - 1)
        inside = at > 0
        # Sums and counts of each interval in each query; interval 0 holds what has no value.
        key = owner * (intervals + 1) + at
        size = len(queries) * (intervals + 1)
        sums = np.bincount(key, change[:, c], size).reshape(-1, intervals + 1)[:, 1:]
        counts = np.bincount(key, minlength=size).reshape(-1, intervals + 1)[:, 1:].astype(np.float64)
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
    """Return ends of intervals, values that occur: those that fill an interval each, and quantiles of the others."""
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
    """Return local effects, float64[n, c], and by column what the loss of its value does to each document."""
    n, c = values.shape
    change = np.zeros((n, c))
    to_missing = {int(at): np.zeros(n) for at in gone}

    def block(queries: slice, documents: slice) -> None:
        here, at = values[documents], place[documents]
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
    """Sums by counts; where there is nothing to average, something else."""
    return np.asarray(np.where(counts > 0.0, sums / np.maximum(counts, 1.0), instead))


def _accumulated(means: Float64Array, counts: Float64Array) -> Float64Array:
    """Curves from mean local effects, [r, K] -> [r, K+1], centred."""
    curve = np.concatenate([np.zeros((means.shape[0], 1)), np.cumsum(means, axis=1)], axis=1)
    middle = (curve[:, 1:] + curve[:, :-1]) / 2.0
    return np.asarray(curve - (middle * counts).sum(axis=1, keepdims=True) / np.maximum(counts.sum(axis=1), 1)[:, None])


def _missing(
    change: Float64Array | None, lost: npt.NDArray[np.bool_], owner: Int64Array, times: Float64Array
) -> tuple[float, float, float]:
    """Mean over the documents that have a value, and its interval."""
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
    """What two features do together.

    Args:
        first, second: their names.
        size: sqrt(E[D^2] / 4), in units of the score.
        share: E[D^2] / 4 as a share of the variance of the scores within queries; shares of several pairs may add up
            to more than 1, as parts of three features count in three pairs; NaN where all scores are equal.
        error: standard error of `share`, over queries.
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
    """All pairs of some columns, strongest first.

    Args:
        scorer, threads, progress: as for `accumulated_local_effects`.
        rows: what documents to average over; those that are alone in their query are left out.
        names: of the columns of `rows`.
        columns: places of the features among them.
        seed: of the exchange of documents.
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
    """Another document of the same query for each, each one once; itself where it is alone."""
    sizes = queries.sizes
    shift = 1 + (np.random.default_rng(seed).random(len(queries)) * np.maximum(sizes - 1, 1)).astype(np.int64)
    n, first = np.repeat(np.maximum(sizes, 1), sizes), np.repeat(queries.ptr[:-1], sizes)
    return np.asarray(first + (np.arange(queries.n_documents) - first + np.repeat(shift, sizes)) % n, dtype=np.int64)


def _rounds(count: int) -> list[list[tuple[int, int]]]:
    """All pairs in rounds in which nobody comes twice (the circle method of tournaments)."""
    seats = list(range(count)) + [-1] * (count % 2)
    rounds = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        rounds.append([(min(pair), max(pair)) for pair in facing if min(pair) >= 0])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds
