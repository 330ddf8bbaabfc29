"""Model format contract: methods that every engine's model file provides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array
from boostrank.engines.trees import ServedTrees, Trees
from boostrank.kernels.curves import Curve
from boostrank.records import from_json

LARGEST_SCORE = 1e150
"""Largest magnitude of a document's score; squares and sums of such numbers stay finite."""


def in_range(scores: npt.NDArray[Any]) -> bool:
    """Return True if all scores are finite up to `LARGEST_SCORE`, without a temporary array for 10^8 of them."""
    return not scores.size or max(float(scores.max()), -float(scores.min())) <= LARGEST_SCORE  # False for NaN


@dataclass(frozen=True, eq=False)
class LinearStart:
    """Linear ranker from which trees start: its score is a sum of functions of single features.

    Args:
        feature_names: d names.
        curves: column -> its function; other columns add nothing.
    """

    feature_names: tuple[str, ...]
    curves: Mapping[int, Curve]


class ModelFormat(Protocol):
    """Model file of one engine.

    Attributes:
        title: title of the format, for messages.
        averages: whether `merge` can average models.
    """

    name: str
    title: str
    averages: bool = True

    def recognises(self, body: bytes) -> bool:
        """Return True if a file has this format, judged by its first bytes."""
        ...

    def parse(self, body: bytes) -> Any:
        """Parse and check the file. Nothing in it is executed, and no size in it is trusted.

        Raises:
            ModelError: the engine would not load the file, or would read beyond its memory.
        """
        ...

    def write(self, model: Any) -> bytes:
        """Return the file of a parsed model, without loss."""
        ...

    def trees(self, model: Any, n_features: int) -> Trees:
        """Return the trees of a parsed model as arrays, for `n_features` features."""
        ...

    def served(self, model: Any) -> ServedTrees:
        """Return all trees of a parsed model, including those of a start, for `boostrank.export`.

        Raises:
            ModelError: scores are not a sum of constant leaves.
        """
        raise ModelError(f"models of {self.name} cannot be exported")

    def merge(self, models: Sequence[Any], weights: Sequence[float] | None = None) -> bytes:
        """Return one file whose scores are the weighted sum of those of one or more models of this format.

        Args:
            weights: weight of each model, > 0; None: the mean.
        """
        raise ModelError(f"models of {self.name} cannot be averaged")

    def widened(self, body: bytes, columns: Sequence[int], names: Sequence[str]) -> bytes:
        """Return the file of the same model on a larger set of features.

        Args:
            body: file that the engine wrote, without categories or parameters of single features.
            columns: new column of each feature, ascending.
            names: names of all features, as the engine accepts them.
        """
        raise ModelError(f"the features of a {self.name} model cannot change")

    def stamp(self, body: bytes) -> bytes:
        """Return the same model with everything that other programs need to open it."""
        return body


def refuse(wrong: bool | npt.NDArray[np.bool_], reason: str) -> None:
    """Raise ModelError with this reason if the condition, or any entry of an array, is true."""
    if wrong is not False and np.any(wrong):  # NumPy takes microseconds for one condition
        raise ModelError(reason)


def read_json(body: bytes) -> Any:
    """Parse JSON without repeated keys; NaN and infinity are allowed."""
    try:
        return from_json(body, once=True)
    except ValueError as error:
        raise ModelError(f"broken JSON; the file is damaged or not a model: {str(error)[:200]}") from None


def write_json(document: Any) -> bytes:
    """Write JSON for `read_json` without escapes, which XGBoost's reader takes for six letters."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")


def reals(values: Any, what: str, length: int, *, largest: float | None = None) -> Float64Array:
    """Return float64[length] from a list of JSON numbers.

    Args:
        values: list.
        what: name of the list, for messages.
        length: required length.
        largest: largest allowed magnitude; None: any number, finite or not.
    """
    if not isinstance(values, list) or len(values) != length:
        raise ModelError(f"{what} has {len(values) if isinstance(values, list) else 'no list'} entries, needs {length}")
    refuse(not set(map(type, values)) <= {int, float}, f"{what} has an entry that is not a number")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        raise ModelError(f"{what} has an entry too large for a float64") from None
    if largest is not None and not bool(np.all(np.abs(numbers) <= largest)):
        raise ModelError(f"{what} has an entry that is not finite")
    return numbers


def engine_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return feature names that every engine accepts, close to the real ones: `price [EUR]` becomes `price__EUR_`.

    LightGBM rejects the characters of JSON and changes blanks, XGBoost rejects brackets and `<`. The model keeps the
    real names.
    """
    safe = [re.sub(r"[\s\[\]{}\",:<>]", "_", name) for name in names]
    taken: dict[str, int] = {}
    for i, name in enumerate(safe):
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            safe[i] = f"{name}.{i}"
    return tuple(safe)
