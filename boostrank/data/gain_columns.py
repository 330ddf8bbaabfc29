"""Gains of an expression over the columns of a data set, which take the place of its labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataError, did_you_mean
from boostrank.core.gains import LABEL, GainExpression
from boostrank.core.types import Float64Array
from boostrank.data.options import NUMBERED

Data = Any
"""A `boostrank.data.dataset.RankingDataset`, whose module imports this one."""

_ROWS_AT_A_TIME = 1 << 14


def with_gain(data: Data, gain: str, others: Mapping[str, Float64Array] | None = None) -> Data:
    """A data set whose labels are the values of an expression; its provenance remembers the text.

    Args:
        data: its labels and features.
        gain: the expression.
        others: name -> float64[N], columns that are no features.

    Raises:
        ParameterError: no expression.
        DataError: a column that is not there, or holds categories; a value that is negative or not finite, with its
            row; labels that are the values of another expression.
    """
    expression, columns = GainExpression.parse(gain), dict(others or {})
    held = gain_of(data)
    if held is not None:
        if held == expression.text:
            return data
        raise DataError(f"the labels are the gain {held!r} already: read the data without it, or with {gain!r}")
    features = feature_places(data, expression, columns)
    gains = np.empty(data.n_documents)
    for first in range(0, data.n_documents, _ROWS_AT_A_TIME):
        rows = slice(first, min(first + _ROWS_AT_A_TIME, data.n_documents))
        given = {LABEL: data.labels[rows]} | {name: column[rows] for name, column in columns.items()}
        given |= _cells(data.features[rows], features) if features else {}
        gains[rows] = expression.evaluate(given)
        bad = np.flatnonzero(~(np.isfinite(gains[rows]) & (gains[rows] >= 0.0)))
        if bad.size:
            row = first + int(bad[0])
            _refuse(data, row, expression, float(gains[row]), {n: float(c[bad[0]]) for n, c in given.items()})
    options = {**data.provenance.options, "gain": expression.text}
    return replace(data, labels=gains, provenance=replace(data.provenance, options=options))


def gain_of(data: Data) -> str | None:
    """The expression whose values the labels of a data set are; None: they are its labels."""
    return data.provenance.options.get("gain")


def feature_places(data: Data, expression: GainExpression, others: Collection[str] = ()) -> dict[str, int]:
    """Name -> column of those names of an expression that are features; `f12` is also number 12 of libsvm text.

    Raises:
        DataError: a name that is neither label, feature nor one of `others`; a feature of categories.
    """
    found, names = {}, {name: i for i, name in enumerate(data.feature_names)}
    base = data.provenance.index_base
    for name in expression.columns:
        if name == LABEL or name in others:
            continue
        numbered = base is not None and NUMBERED.fullmatch(name)
        at = names.get(name, int(name[1:]) - (base or 0) if numbered else -1)
        if not 0 <= at < data.n_features:
            raise DataError(unknown_column(name, expression, [*names, *others]))
        if data.feature_names[at] in data.categories:
            raise DataError(f"gain {expression.text!r}: {name!r} holds categories, whose codes are no amounts")
        found[name] = at
    return found


def unknown_column(name: str, expression: GainExpression, known: Collection[str]) -> str:
    """What is said of a name in an expression that nothing has."""
    words = [LABEL, *known, *(("exponential", "linear") if expression.text == name else ())]
    listed = did_you_mean(name, words, list_all=len(words) < 13)
    return (
        f"gain {expression.text!r}: there is no column {name!r}.{listed} Columns that are no features (--drop) are "
        "there while a table is read: --gain, or gain= of RankingDataset.read and from_frame"
    )


def _cells(rows: Any, places: Mapping[str, int]) -> dict[str, Float64Array]:
    """Name -> float64[n] of some features."""
    wanted = rows[:, list(places.values())]
    dense = wanted.toarray() if sparse.issparse(wanted) else np.asarray(wanted)
    return {name: dense[:, i].astype(np.float64) for i, name in enumerate(places)}


def _refuse(data: Data, row: int, expression: GainExpression, value: float, given: Mapping[str, float]) -> None:
    """Raise the error of a row."""
    shown = ", ".join(f"{name}={given[name]:g}" for name in expression.columns)
    missing = next((name for name in expression.columns if np.isnan(given[name])), None)
    mend = "gains are finite numbers of at least 0"
    if missing is not None:
        mend += f"; where(isnan({missing}), 0, {missing}) says what counts where there is none"
    elif value < 0.0:
        mend += "; max(..., 0) or clip keeps them there"
    raise data.queries.row_error(row, f"gain {expression.text!r} is {value:g} ({shown}): {mend}")
