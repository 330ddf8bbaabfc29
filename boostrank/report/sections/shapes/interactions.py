"""Interactions: the share of a ranking that rests on two features together.

Take two documents of a query, and give the first one the value that the second one has of feature i, of feature j, of
both. Where the score is a sum of what each of them says, the two single changes add up to the joint one; the mixed
difference

    D = f(x) - f(x with i) - f(x with j) + f(x with i and j)

is what is left. E[D^2] / 4 is the total interaction index: for independent features, the variance of all parts of the
score that hold both of them (R. Liu, A. B. Owen, "Estimating mean dimensionality of analysis of variance
decompositions", JASA 101, 2006, equation 13; J. Fruth, O. Roustant, S. Kuhnt, "Total interaction index", JSPI 147,
2014). It is 0 where no part does. Here documents of one query are exchanged, so that it is the variance within queries
that is told apart: what orders documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dense import DenseRows
from boostrank.report.scoring import DocumentProgress, Scorer, over_blocks, units_of


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
    scorer: Scorer, rows: DenseRows, names: Sequence[str], columns: Sequence[int], *, seed: int, threads: int,
    progress: DocumentProgress | None = None,
) -> tuple[Interaction, ...]:  # fmt: skip
    """All pairs of some columns, strongest first.

    Args:
        scorer, threads, progress: as for `ale.accumulated_local_effects`.
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
