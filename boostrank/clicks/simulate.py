"""Simulation of user clicks on lists of graded documents."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import BoolArray, Float64Array

UserModel = Literal["position", "cascade", "trust"]
USERS = get_args(UserModel)
_AT_ONCE = 1 << 20  # scores drawn at once
_GOES_ON = 0.9
"""Probability that cascade users continue to the next document, which is halved after a click."""


@dataclass(frozen=True)
class Users:
    """A click model.

    Args:
        model: "position": users examine position p with probability p^-eta, and click an examined
            document with its click probability. "trust": a document that "position" would click is
            clicked with probability 1 - (min(p, 20) + 1) / 100, any other examined one with .65 / p
            (A. Agarwal, X. Wang, C. Li, M. Bendersky, M. Najork, "Addressing trust bias for
            unbiased learning-to-rank", WWW 2019). "cascade": users read from the top and are more
            likely to leave after a click; eta is not used.
        eta: strength of position bias.
        noise: probability of a click on an examined irrelevant document.
    """

    model: UserModel = "position"
    eta: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        if self.model not in USERS:
            raise ParameterError(f"users={self.model!r} must be one of {', '.join(USERS)}")
        Propensities.power(self.eta)  # raises for a bad eta
        if not 0.0 <= self.noise < 1.0:
            raise ParameterError(
                f"noise={self.noise!r} is out of range; allowed: a probability below 1"
            )

    def propensities(self, positions: int) -> Propensities:
        """Return the true propensities under this click model."""
        p = np.arange(1, positions + 1, dtype=np.float64)
        if self.model == "cascade":
            raise ParameterError(
                "cascade users have no position propensities: examination depends on the list"
            )
        if self.model == "position":
            return Propensities.power(self.eta, positions)
        relevant, irrelevant = _trust(p)
        slope = p**-self.eta * (relevant - irrelevant)
        false = p**-self.eta * irrelevant
        return Propensities(slope / slope[0], false, method="trust of simulated users")

    def clicks(self, attraction: Float64Array, rng: np.random.Generator) -> BoolArray:
        """Draw the clicks on I lists, bool[I, P].

        Args:
            attraction: float64[I, P], click probability of each document if it is examined.
        """
        p = np.arange(1, attraction.shape[1] + 1, dtype=np.float64)
        attracts = rng.random(attraction.shape) < attraction
        if self.model == "cascade":
            goes_on = rng.random(attraction.shape) < np.where(attracts, _GOES_ON / 2.0, _GOES_ON)
            reached = np.ones(attraction.shape, dtype=bool)
            reached[:, 1:] = np.logical_and.accumulate(goes_on, axis=1)[:, :-1]
            return attracts & reached
        examined = rng.random(attraction.shape) < p**-self.eta
        if self.model == "trust":
            relevant, irrelevant = _trust(p)
            attracts = rng.random(attraction.shape) < np.where(attracts, relevant, irrelevant)
        return attracts & examined


def click_probabilities(labels: ArrayLike, noise: float) -> Float64Array:
    """Return noise + (1 - noise) (2^y - 1) / (2^m - 1), float64[N], for labels y above the lowest,
    with maximum m.
    """
    y = np.asarray(labels, np.float64)
    y = y - y.min(initial=np.inf)
    if not 0.0 < y.max(initial=0.0) <= 31.0:
        raise ParameterError(
            "clicks are simulated on graded documents, whose labels must differ by at most 31"
        )
    return np.asarray(noise + (1.0 - noise) * (np.exp2(y) - 1.0) / (np.exp2(y.max()) - 1.0))


def simulate_clicks(
    labels: ArrayLike,
    queries: QueryIndex,
    scores: ArrayLike,
    users: Users | None = None,
    *,
    impressions: int = 10,
    shown: int = 10,
    spread: float = 0.5,
    seed: int = 0,
) -> ClickLog:
    """Show the documents of each query repeatedly, ranked by perturbed scores, and log the clicks.

    Args:
        labels, scores: float[N], document labels and scores from the logged ranker.
        users: click model; None means position bias with an eta of 1 and noise of .1.
        impressions: number of lists per query.
        shown: number of documents per list.
        spread: Gumbel noise added to the scores of each list, in standard deviations of the query's
            scores. At 0 no document moves, and propensities cannot be estimated.
        seed: random seed. The clicks in a query depend only on the seed and the number of the
            query.

    Raises:
        ParameterError: an option is out of range.
    """
    users = users or Users()
    if impressions < 1 or shown < 1 or not 0.0 <= spread < np.inf:
        raise ParameterError(
            f"impressions={impressions} and shown={shown} must be at least 1, and spread={spread!r}"
            " a number of at least 0"
        )
    attraction, scores = click_probabilities(labels, users.noise), np.asarray(scores, np.float64)
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
            clicked = users.clicks(attraction[start:stop][order], rng)
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


def _trust(p: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the click probabilities of relevant and irrelevant documents at an examined position
    p.
    """
    return 1.0 - (np.minimum(p, 20.0) + 1.0) / 100.0, 0.65 / p
