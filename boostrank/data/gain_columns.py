"""Gain expressions over the columns of a data set, whose values replace the labels."""

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
"""A `boostrank.data.dataset.RankingDataset`; its module imports this one."""

_ROWS_AT_A_TIME = 1 << 14


def with_gain(data: Data, gain: str, others: Mapping[str, Float64Array] | None = None) -> Data:
    """Return a data set with the values of an expression as labels, recorded in its provenance."""
    expression, columns = GainExpression.parse(gain), dict(others or {})
    held = gain_of(data)
    if held is not None:
        if held == expression.text:
            return data
        raise DataError(f"the labels already are the gain {held!r}: read the data without it, or with {gain!r}")
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
    """Return the expression that defines the labels of a data set; None for plain labels."""
    return data.provenance.options.get("gain")


def feature_places(data: Data, expression: GainExpression, others: Collection[str] = ()) -> dict[str, int]:
    """Return name -> column for features in an expression; `f12` also means number 12 of libsvm text."""
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
            raise DataError(f"gain {expression.text!r}: {name!r} is categorical, and its codes are not quantities")
        found[name] = at
    return found


def unknown_column(name: str, expression: GainExpression, known: Collection[str]) -> str:
    """Return the message about an unknown name in an expression."""
    words = [LABEL, *known, *(("exponential", "linear") if expression.text == name else ())]
    listed = did_you_mean(name, words, list_all=len(words) < 13)
    return (
        f"gain {expression.text!r}: no column {name!r}.{listed} Columns that are not features (--drop) are only "
        "available while reading a table: --gain, or gain= of RankingDataset.read and from_frame"
    )


def _cells(rows: Any, places: Mapping[str, int]) -> dict[str, Float64Array]:
    """Return name -> float64[n] of some features."""
    wanted = rows[:, list(places.values())]
    dense = wanted.toarray() if sparse.issparse(wanted) else np.asarray(wanted)
    return {name: dense[:, i].astype(np.float64) for i, name in enumerate(places)}


def _refuse(data: Data, row: int, expression: GainExpression, value: float, given: Mapping[str, float]) -> None:
    """Raise the error of a row with an invalid gain."""
    shown = ", ".join(f"{name}={given[name]:g}" for name in expression.columns)
    missing = next((name for name in expression.columns if np.isnan(given[name])), None)
    mend = "gains must be finite and at least 0"
    if missing is not None:
        mend += f"; where(isnan({missing}), 0, {missing}) replaces missing values"
    elif value < 0.0:
        mend += "; limit them with max(..., 0) or clip"
    raise data.queries.row_error(row, f"gain {expression.text!r} is {value:g} ({shown}): {mend}")
