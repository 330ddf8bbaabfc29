"""Model format contract: what the file of an engine must say, and what is asked of it."""

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
from boostrank.kernels.trees.curves import Curve
from boostrank.records import from_json

LARGEST_SCORE = 1e150
"""Of a document, either side of 0: squares and sums of such numbers are numbers."""


def in_range(scores: npt.NDArray[Any]) -> bool:
    """Whether all are numbers up to `LARGEST_SCORE`, without an array besides: there may be 10^8 of them."""
    return not scores.size or max(float(scores.max()), -float(scores.min())) <= LARGEST_SCORE  # NaN is not


@dataclass(frozen=True, eq=False)
class LinearStart:
    """A linear ranker that trees begin with: its score is the sum of a function of each feature.

    Args:
        feature_names: d names.
        curves: column -> its function; other columns add nothing.
    """

    feature_names: tuple[str, ...]
    curves: Mapping[int, Curve]


class ModelFormat(Protocol):
    """The model file of one engine.

    Attributes:
        name: of the engine.
        title: of the format, for messages.
        averages: whether models can be averaged, most of them at least: `merge`.
    """

    name: str
    title: str
    averages: bool = True

    def recognises(self, body: bytes) -> bool:
        """Whether a file is of this format, by how it begins."""
        ...

    def parse(self, body: bytes) -> Any:
        """The file, taken apart and checked. Nothing in it is executed, and no size in it is believed.

        Raises:
            ModelError: its engine would not load it, or would read outside its memory: what is wrong, and where.
        """
        ...

    def write(self, model: Any) -> bytes:
        """The file of what `parse` gave, without a loss."""
        ...

    def trees(self, model: Any, n_features: int) -> Trees:
        """The trees of what `parse` gave as arrays, for a model of so many features."""
        ...

    def served(self, model: Any) -> ServedTrees:
        """All trees of what `parse` gave, those of a start among them, for `boostrank.export`.

        Raises:
            ModelError: its scores are no sum of constant leaves.
        """
        raise ModelError(f"models of {self.name} cannot be exported")

    def merge(self, models: Sequence[Any], weights: Sequence[float] | None = None) -> bytes:
        """One file whose scores are the weighted sum of those of several, at least one, of this format.

        Args:
            models: as `parse` gives them.
            weights: of each, above 0; None: that of a mean.

        Raises:
            ModelError, ParameterError: they cannot be added up.
        """
        raise ModelError(f"models of {self.name} cannot be averaged")

    def stamp(self, body: bytes) -> bytes:
        """The same model, with what other programs need to open it and its engine may have left out."""
        return body


def refuse(wrong: bool | npt.NDArray[np.bool_], reason: str) -> None:
    """A ModelError for this reason if something is wrong: a condition, or an array with one."""
    if wrong is not False and np.any(wrong):  # NumPy takes microseconds to look at one condition
        raise ModelError(reason)


def read_json(body: bytes) -> Any:
    """JSON without a key twice in one object; it may hold NaN and infinity.

    Raises:
        ModelError: it cannot be read.
    """
    try:
        return from_json(body, once=True)
    except ValueError as error:
        raise ModelError(f"broken JSON, the file is damaged, or no model: {str(error)[:200]}") from None


def write_json(document: Any) -> bytes:
    """What `read_json` reads, with every letter as it is: XGBoost's reader takes the escape of one for six letters."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "backslashreplace")


def reals(values: Any, what: str, length: int, *, largest: float | None = None) -> Float64Array:
    """float64[length] from a list of JSON numbers.

    Args:
        values: the list.
        what: it is, for messages.
        length: of it.
        largest: size of the largest finite number; None where those that are not finite may be there too.

    Raises:
        ModelError: another length, or entries that are no such numbers.
    """
    if not isinstance(values, list) or len(values) != length:
        raise ModelError(f"{what} has {len(values) if isinstance(values, list) else 'no list'} entries, needs {length}")
    refuse(not set(map(type, values)) <= {int, float}, f"{what} has an entry that is not a number")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        raise ModelError(f"{what} has an entry that no number type holds") from None
    if largest is not None and not bool(np.all(np.abs(numbers) <= largest)):
        raise ModelError(f"{what} has an entry that is not finite")
    return numbers


def engine_names(names: Sequence[str]) -> tuple[str, ...]:
    """Feature names that every engine takes, as near to the real ones as can be: `price [EUR]` becomes `price__EUR_`.

    LightGBM refuses the characters of JSON and changes blanks, XGBoost refuses brackets and `<`. The model keeps the
    real names.
    """
    safe = [re.sub(r"[\s\[\]{}\",:<>]", "_", name) for name in names]
    taken: dict[str, int] = {}
    for i, name in enumerate(safe):
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            safe[i] = f"{name}.{i}"
    return tuple(safe)
