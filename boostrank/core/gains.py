"""Gains of relevance labels, the same in objectives and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ParameterError, RowError, did_you_mean
from boostrank.core.gain_expression import GainExpression
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

# 2^31 is where the engines stop too; far above it one document outweighs all others in a float32 gradient.
MAX_EXPONENTIAL_LABEL = 31.0

Gain = str | Sequence[float]

_WORDS = {"exponential": "exponential", "exp": "exponential", "exp2": "exponential",
          "linear": "linear", "identity": "linear", "real": "linear"}  # fmt: skip


def expression_of(gain: Any) -> GainExpression | None:
    """What a gain is where it is an expression over columns, such as "0.7*label + 0.3*log1p(margin)".

    Raises:
        ParameterError: a text that is neither a word, nor a table, nor an expression.
    """
    if not isinstance(gain, str) or not gain.strip() or gain.strip().lower() in _WORDS or _is_table(gain):
        return None
    return GainExpression.parse(gain)


def rule_of(gain: Any) -> str | tuple[float, ...]:
    """`parse_gain`; "linear" for an expression, whose values a data set has in place of its labels."""
    return parse_gain(gain) if expression_of(gain) is None else "linear"


def parse_gain(gain: Any) -> str | tuple[float, ...]:
    """`"exponential"` (2^label - 1), `"linear"` (the label itself, real numbers welcome), or a table.

    A table gives the gain of label 0, 1, 2, ...: a sequence of numbers, or text such as "0,1,3,7".

    Raises:
        ParameterError: anything else, or a table with negative, infinite or decreasing entries.
    """
    if isinstance(gain, str):
        word = gain.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        if not _is_table(word):
            hint = did_you_mean(word, _WORDS, list_all=False) if word.isalpha() else ""
            raise ParameterError(
                f"gain={gain!r}: use 'exponential', 'linear', or a table such as '0,1,3,7,15'.{hint} An expression "
                "over columns is computed where columns are: by train, or RankingDataset.with_gain"
            )
        gain = word.split(",")
    try:
        table = tuple(float(entry) for entry in gain)
    except (TypeError, ValueError):
        raise ParameterError(f"gain={gain!r}: use 'exponential', 'linear', or a table such as '0,1,3,7,15'") from None
    if not table or not all(np.isfinite(table)) or min(table) < 0 or any(np.diff(table) < 0):
        raise ParameterError(f"gain table {table}: entries must be finite, >= 0 and never decrease")
    return table


def gains_from_labels(labels: npt.ArrayLike, gain: Any = "exponential") -> Float64Array:
    """Gain of each document.

    Args:
        labels: float[N], finite and >= 0.
        gain: see `parse_gain`.

    Returns:
        float64[N], finite and >= 0.

    Raises:
        RowError: labels that are not finite, negative, too large for 2^label, or outside the table.
    """
    rule = parse_gain(gain)
    y = np.asarray(labels, dtype=np.float64)
    if not bool(np.all(np.isfinite(y))):
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise RowError(row, f"label {y[row]:g} is not a finite number")
    if y.size and float(y.min()) < 0:
        row = int(np.argmin(y))
        raise RowError(
            row, f"label {y[row]:g} is negative: relevance labels start at 0 (map them, e.g. --label-map=-1=0)"
        )
    if rule == "exponential":
        if y.size and float(y.max()) > MAX_EXPONENTIAL_LABEL:
            raise RowError(
                int(np.argmax(y)),
                f"label {y.max():g} is above {MAX_EXPONENTIAL_LABEL:g}: a gain of 2^label - 1 would drown every other "
                "document; use gain='linear' or a gain table",
            )
        return np.exp2(y) - 1.0
    if rule == "linear":
        return y.copy()
    table = np.asarray(rule, dtype=np.float64)
    index = y.astype(np.int64)
    bad = np.flatnonzero((index != y) | (index >= table.size))
    if bad.size:
        raise RowError(
            int(bad[0]),
            f"label {y[bad[0]]:g} has no entry in the gain table of {table.size} labels (0 to {table.size - 1})",
        )
    return np.asarray(table[index], dtype=np.float64)


def _is_table(text: str) -> bool:
    """Whether a text is numbers with commas between them."""
    try:
        return bool([float(entry) for entry in text.split(",")])
    except ValueError:
        return False


def weighted_gains(labels: npt.ArrayLike, gain: Gain, queries: QueryIndex) -> Float64Array:
    """`gains_from_labels` times the weights of the documents, where they have any: float64[N].

    Raises:
        DataError: as `gains_from_labels`; products beyond the largest number.
    """
    with queries.naming_rows():
        gains = gains_from_labels(labels, gain)
    if queries.document_weights is None:
        return gains
    with np.errstate(over="ignore"):
        weighted = gains * queries.document_weights
    beyond = np.flatnonzero(np.isinf(weighted))
    if beyond.size:
        raise queries.row_error(int(beyond[0]), "gain times weight is beyond the largest number: rescale the weights")
    return weighted


def above_least(gains: Float64Array, queries: QueryIndex) -> Float64Array:
    """float64[N]: what the gain of each document is above the least of its query; a 0 in every query."""
    # One more, so that an empty query at the end has a place to begin.
    least = np.minimum.reduceat(np.append(gains, np.inf), queries.ptr[:-1])
    return np.asarray(gains - np.repeat(least, queries.sizes), dtype=np.float64)
