"""Simulated users, who examine positions and click documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from boostrank.clicks.log import Propensities
from boostrank.core.errors import ParameterError
from boostrank.core.types import BoolArray, Float64Array

UserModel = Literal["position", "cascade", "trust"]
USERS = get_args(UserModel)
_GOES_ON = 0.9
"""Probability that cascade users continue to the next document, which is halved after a click."""


def power(eta: float, positions: int = 100) -> Propensities:
    """The usual assumption e_p = p^-eta, where eta is 1 for a list that is read from the top."""
    return Propensities(
        np.arange(1, positions + 1, dtype=np.float64) ** -eta,
        method=f"position to the power of -{eta:g}",
    )


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
    """

    model: UserModel = "position"
    eta: float = 1.0

    def __post_init__(self) -> None:
        if self.model not in USERS:
            raise ParameterError(f"users={self.model!r} must be one of {', '.join(USERS)}")

    def propensities(self, positions: int) -> Propensities:
        """The true propensities under this click model."""
        p = np.arange(1, positions + 1, dtype=np.float64)
        if self.model == "cascade":
            raise ParameterError(
                "cascade users have no position propensities: examination depends on the list"
            )
        if self.model == "position":
            return power(self.eta, positions)
        relevant, irrelevant = _trust(p)
        slope = p**-self.eta * (relevant - irrelevant)
        false = p**-self.eta * irrelevant
        return Propensities(slope / slope[0], false, method="trust of simulated users")

    def clicks(self, attraction: Float64Array, rng: np.random.Generator) -> BoolArray:
        """Draw the clicks on I lists, bool[I, P]; see `boostrank.clicks.simulate.Draw`."""
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


def _trust(p: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The click probabilities of relevant and irrelevant documents at an examined position p."""
    return 1.0 - (np.minimum(p, 20.0) + 1.0) / 100.0, 0.65 / p
