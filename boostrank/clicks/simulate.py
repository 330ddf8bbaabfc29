"""Simulation of user clicks on lists of graded documents."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from boostrank.clicks.log import ClickLog
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import BoolArray, Float64Array

NOISE = 0.1
"""Probability of a click on an examined irrelevant document."""
_AT_ONCE = 1 << 20  # scores drawn at once

Draw = Callable[[Float64Array, np.random.Generator], BoolArray]
"""Function that draws the clicks on I lists, bool[I, P], from the probability of a click on each
document if it is examined, float64[I, P]."""


def click_by_position(attraction: Float64Array, rng: np.random.Generator) -> BoolArray:
    """Draw the clicks of users who examine position p with probability 1/p."""
    attracts = rng.random(attraction.shape) < attraction
    positions = np.arange(1, attraction.shape[1] + 1, dtype=np.float64)
    return attracts & (rng.random(attraction.shape) < 1.0 / positions)


def click_probabilities(labels: ArrayLike) -> Float64Array:
    """Return `NOISE` + (1 - `NOISE`) (2^y - 1) / (2^m - 1), float64[N], for labels y above the
    lowest, with maximum m.
    """
    y = np.asarray(labels, np.float64)
    y = y - y.min(initial=np.inf)
    if not 0.0 < y.max(initial=0.0) <= 31.0:
        raise ParameterError(
            "clicks are simulated on graded documents, whose labels must differ by at most 31"
        )
    return np.asarray(NOISE + (1.0 - NOISE) * (np.exp2(y) - 1.0) / (np.exp2(y.max()) - 1.0))


def simulate_clicks(
    labels: ArrayLike,
    queries: QueryIndex,
    scores: ArrayLike,
    draw: Draw = click_by_position,
    *,
    impressions: int = 10,
    shown: int = 10,
    spread: float = 0.5,
    seed: int = 0,
) -> ClickLog:
    """Show the documents of each query repeatedly, ranked by perturbed scores, and log the clicks.

    Args:
        labels, scores: float[N], document labels and scores from the logged ranker.
        draw: the users.
        impressions: number of lists per query.
        shown: number of documents per list.
        spread: Gumbel noise added to the scores of each list, in standard deviations of the query's
            scores. At 0 no document moves, and propensities cannot be estimated.
        seed: random seed. The clicks in a query depend only on the seed and the number of the
            query.

    Raises:
        ParameterError: an option is out of range.
        DataError: there is not one label and one score per document.
    """
    if impressions < 1 or shown < 1 or not 0.0 <= spread < np.inf:
        raise ParameterError(
            f"impressions={impressions} and shown={shown} must be at least 1, and spread={spread!r}"
            " a number of at least 0"
        )
    attraction, scores = click_probabilities(labels), np.asarray(scores, np.float64)
    if not attraction.shape == scores.shape == (queries.n_documents,):
        raise DataError(
            f"{attraction.size} labels and {scores.size} scores for {queries.n_documents} documents"
        )
    entries = [np.zeros((4, 0), np.int64)]
    for q, (start, stop) in enumerate(pairwise(queries.ptr.tolist())):
        size = stop - start
        rng = np.random.default_rng([seed, q])
        if not size:
            continue
        # Impressions and clicks of each (document, position), summed over batches of lists.
        depth = min(size, shown)
        query_scores = scores[start:stop]
        counts = np.zeros((2, size * depth), np.int64)
        at_once = max(1, _AT_ONCE // size)
        for first in range(0, impressions, at_once):
            lists = min(at_once, impressions - first)
            perturbed = query_scores + spread * query_scores.std() * rng.gumbel(size=(lists, size))
            order = np.argsort(-perturbed, axis=1, kind="stable")[:, :depth]
            clicked = draw(attraction[start:stop][order], rng)
            cell = order * depth + np.arange(depth)
            counts[0] += np.bincount(cell.ravel(), minlength=size * depth)
            counts[1] += np.bincount(cell[clicked], minlength=size * depth)
        shown_cells = np.flatnonzero(counts[0])
        entries.append(
            np.stack(
                [start + shown_cells // depth, shown_cells % depth + 1, *counts[:, shown_cells]]
            )
        )
    rows, positions, shows, clicks = np.concatenate(entries, axis=1)
    return ClickLog(rows, positions, shows, clicks, queries.n_documents)
