"""Clicks of simulated users on lists of graded documents: the truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import Propensities
from boostrank.core.errors import ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

UserModel = Literal["position", "cascade", "trust"]
USERS: tuple[UserModel, ...] = ("position", "cascade", "trust")
_CELLS = 1 << 20
_GOES_ON = 0.9
"""Cascade users look at the next document with this probability where they did not click, and half of it where they
did."""


@dataclass(frozen=True)
class Users:
    """How people click on a list.

    Args:
        model: "position": whoever looks at position p, with probability p^-eta, clicks with the probability of the
            document. "trust": besides, people who look click on what they trust: on a relevant document with
            1 - (min(p, 20) + 1) / 100, on an irrelevant one with .65 / p (A. Agarwal, X. Wang, C. Li, M. Bendersky,
            M. Najork, "Addressing trust bias for unbiased learning-to-rank", WWW 2019). "cascade": they read from the
            top, and leave after a click more often than after none; eta is not used.
        eta: of the position bias.
        noise: probability of a click on an irrelevant document that is looked at.
    """

    model: UserModel = "position"
    eta: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        if self.model not in USERS:
            raise ParameterError(f"users={self.model!r}: one of {', '.join(USERS)}")
        if not 0.0 <= self.eta <= 10.0:
            raise ParameterError(f"eta={self.eta!r}: 0 (no position bias) to 10")
        if not 0.0 <= self.noise < 1.0:
            raise ParameterError(f"noise={self.noise!r}: a probability below 1")

    def propensities(self, positions: int) -> Propensities:
        """Those that a log of these users has; of cascade users there are none, for they depend on the list.

        Raises:
            ParameterError: of cascade users.
        """
        p = np.arange(1, positions + 1, dtype=np.float64)
        if self.model == "cascade":
            raise ParameterError("cascade users have no propensities of positions: they depend on the list")
        if self.model == "position":
            return Propensities.power(self.eta, positions)
        relevant, irrelevant = _trust(p)
        slope, false = p**-self.eta * (relevant - irrelevant), p**-self.eta * irrelevant
        return Propensities(slope / slope[0], false, method="trust of simulated users")

    def clicks(self, attraction: Float64Array, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """bool[I, P]: what is clicked of I lists.

        Args:
            attraction: float64[I, P], probability of a click on each document that is looked at.
            rng: draws.
        """
        p = np.arange(1, attraction.shape[1] + 1, dtype=np.float64)
        wanted = rng.random(attraction.shape) < attraction
        if self.model == "cascade":
            goes_on = rng.random(attraction.shape) < np.where(wanted, _GOES_ON / 2.0, _GOES_ON)
            reached = np.ones(attraction.shape, dtype=bool)
            reached[:, 1:] = np.logical_and.accumulate(goes_on, axis=1)[:, :-1]
            return wanted & reached
        looked = rng.random(attraction.shape) < p**-self.eta
        if self.model == "trust":
            relevant, irrelevant = _trust(p)
            wanted = rng.random(attraction.shape) < np.where(wanted, relevant, irrelevant)
        return wanted & looked


def click_probabilities(labels: npt.ArrayLike, noise: float) -> Float64Array:
    """float64[N]: noise + (1 - noise) (2^y - 1) / (2^m - 1) of a label y above the lowest, of which m is the highest.

    Raises:
        ParameterError: labels that are all the same, or too far apart for grades.
    """
    y = np.asarray(labels, np.float64)
    y = y - y.min(initial=np.inf)
    if not 0.0 < y.max(initial=0.0) <= 31.0:
        raise ParameterError("clicks are simulated on graded documents: labels that differ, by 31 at most")
    return np.asarray(noise + (1.0 - noise) * (np.exp2(y) - 1.0) / (np.exp2(y.max()) - 1.0))


def simulate_clicks(
    labels: npt.ArrayLike,
    queries: QueryIndex,
    scores: npt.ArrayLike,
    users: Users | None = None,
    *,
    impressions: int = 10,
    shown: int = 10,
    spread: float = 0.5,
    seed: int = 0,
) -> ClickLog:
    """Show each query's documents so many times, ranked by scores that vary, and log the clicks.

    Args:
        labels: float[N], of the documents.
        queries: of N documents.
        scores: float[N], of the ranker that is logged.
        users: how they click; None: by position with eta 1 and noise .1.
        impressions: lists a query.
        shown: documents of a list.
        spread: what is added to the scores of each list: Gumbel noise of this many standard deviations of the query's
            scores. At 0 nothing moves, and propensities cannot be estimated.
        seed: of everything drawn; the clicks on a query depend on the seed and its number alone.

    Raises:
        ParameterError: options out of range.
    """
    users = users or Users()
    if impressions < 1 or shown < 1:
        raise ParameterError(f"impressions={impressions}, shown={shown}: at least 1")
    if not 0.0 <= spread < np.inf:
        raise ParameterError(f"spread={spread!r}: a number of at least 0")
    attraction, scores = click_probabilities(labels, users.noise), np.asarray(scores, np.float64)
    entries = []
    for q, (a, b) in enumerate(zip(queries.ptr[:-1], queries.ptr[1:], strict=True)):
        depth, rng = min(int(b - a), shown), np.random.default_rng([seed, q])
        counts = np.zeros((2, int(b - a) * depth), np.int64)
        at_once = max(1, _CELLS // max(int(b - a), 1))
        for first in range(0, impressions, at_once) if depth else ():
            lists = min(at_once, impressions - first)
            moved = scores[a:b] + spread * scores[a:b].std() * rng.gumbel(size=(lists, int(b - a)))
            order = np.argsort(-moved, axis=1, kind="stable")[:, :depth]
            clicked = users.clicks(attraction[a:b][order], rng)
            cell = order * depth + np.arange(depth)
            counts[0] += np.bincount(cell.ravel(), minlength=counts.shape[1])
            counts[1] += np.bincount(cell[clicked], minlength=counts.shape[1])
        seen = np.flatnonzero(counts[0])
        entries.append(np.stack([a + seen // max(depth, 1), seen % max(depth, 1) + 1, *counts[:, seen]]))
    rows, positions, shows, clicks = np.concatenate([np.zeros((4, 0), np.int64), *entries], axis=1)
    return ClickLog(rows, positions, shows, clicks, queries.n_documents)


def _trust(p: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Clicks of people who look at position p, on relevant and on irrelevant documents."""
    return 1.0 - (np.minimum(p, 20.0) + 1.0) / 100.0, 0.65 / p
