"""The model file of a linear ranker, s = sum_j w_j (x_j - mean_j) / scale_j + intercept.

{"format": "boostrank linear", "version": 1, "rounds": 37, "scaling": "standard", "intercept": 0.2,
 "features": ["f1", ...], "weights": [...], "means": [...], "scales": [...]}
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct, ValidationError, convert

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array
from boostrank.engines.trees import ModelFormat, Trees, read_json, refuse

STANDARD, NONE, SCORES = SCALINGS = ("standard", "none", "scores")

_FORMAT, _VERSION = "boostrank linear", 1
_LARGEST = sys.float_info.max
_Finite = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
_Scale = Annotated[float, Meta(ge=0.0, le=_LARGEST)]


class _File(Struct, forbid_unknown_fields=True):
    """The fields of a file."""

    format: Literal["boostrank linear"]
    version: Literal[1]
    rounds: Annotated[int, Meta(ge=1, le=10**9)]
    scaling: Literal["standard", "none", "scores"]
    intercept: _Finite
    features: Annotated[list[str], Meta(min_length=1)]
    weights: list[_Finite]
    means: list[_Finite]
    scales: list[_Scale]


@dataclass(frozen=True, eq=False)
class Scaling:
    """The scaling of the features, (x - mean) / scale.

    Args:
        kind: standard, which divides by the standard deviation over the training rows, none for
            scale 1, or scores for mean 0 and scale 1.
        mean: float64[d], mean over the training rows that have the feature, or 0, which also
            replaces missing values.
        scale: float64[d]; 0 for a constant feature, which is ignored.
    """

    kind: str
    mean: Float64Array
    scale: Float64Array

    def coefficients(self, weights: Float64Array) -> Float64Array:
        """Convert weights of the scaled features, float64[..., d], to weights of the raw
        features.
        """
        with np.errstate(over="ignore"):  # scores are checked later
            return np.divide(
                weights, self.scale, out=np.zeros(np.shape(weights)), where=self.scale > 0.0
            )


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear model with the weights after each of its last rounds.

    Args:
        feature_names: d names.
        rounds: number of rounds.
        path: float64[r, d + 1], r >= 1: weights of the scaled features and intercept, after each of
            the last r rounds. A file has one row.
    """

    feature_names: tuple[str, ...]
    scaling: Scaling
    rounds: int
    path: Float64Array

    def weights(self, rounds: int = 0) -> Float64Array:
        """Return the weights after `rounds` rounds (0 for all), float64[d + 1], or raise ModelError
        if not stored.
        """
        rounds = rounds or self.rounds
        # The last row belongs to the last round.
        position = len(self.path) - 1 - (self.rounds - rounds)
        if not 0 <= position < len(self.path):
            raise ModelError(
                f"the file of a linear model has only the weights of its best round {self.rounds},"
                f" not those after {rounds} rounds"
            )
        return np.asarray(self.path[position])

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model file after the given number of rounds (0 for all), in which numbers are
        exact.
        """
        weights = self.weights(rounds)
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "rounds": rounds or self.rounds,
            "scaling": self.scaling.kind,
            "intercept": float(weights[-1]),
            "features": list(self.feature_names),
            "weights": weights[:-1].tolist(),
            "means": self.scaling.mean.tolist(),
            "scales": self.scaling.scale.tolist(),
        }
        return (json.dumps(content, allow_nan=False) + "\n").encode()


class LinearFormat(ModelFormat):
    """The JSON of a linear model."""

    name = "linear"
    title = "a linear model"

    def recognises(self, body: bytes) -> bool:
        """Return whether a file begins with this format's name."""
        return re.match(rb'\s*\{\s*"format"\s*:\s*"boostrank linear"', body[:200]) is not None

    def parse(self, body: bytes) -> LinearModel:
        """Parse the JSON, and check version, names, and sizes of all arrays.

        Raises:
            ModelError: the file is damaged, or from a newer version.
        """
        try:
            content = convert(read_json(body), _File)
            "".join(content.features).encode()
        except (ValidationError, UnicodeEncodeError) as error:  # a lone surrogate
            raise ModelError(
                f"the linear model is damaged, or from a newer boostrank: {error}"
            ) from None
        names = content.features
        refuse(len(set(names)) < len(names), "'features' has a name twice")
        for key in ("weights", "means", "scales"):
            n_numbers = len(getattr(content, key))
            refuse(
                n_numbers != len(names),
                f"{key!r} has {n_numbers} entries, but needs {len(names)}",
            )
        path = np.array([[*content.weights, content.intercept]])
        scaling = Scaling(content.scaling, np.array(content.means), np.array(content.scales))
        return LinearModel(tuple(names), scaling, content.rounds, path)

    def trees(self, model: LinearModel, n_features: int) -> Trees:
        """Return a forest without trees. Each nonzero weight counts as a split whose gain is its
        scaled magnitude.
        """
        magnitudes = np.abs(model.weights()[:-1])
        used_columns = np.flatnonzero(magnitudes)
        splits = (magnitudes > 0.0).astype(np.int64)
        return Trees(None, 0, magnitudes, splits, used_columns)


LINEAR = LinearFormat()
