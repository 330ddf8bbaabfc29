"""Data frames as float32 rows: pandas, polars, Arrow, and what else narwhals reads or hands out an Arrow stream.

narwhals has no dependencies, LightGBM needs it anyway, and pandas needs no pyarrow for it, as it would for the Arrow C
interface.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from narwhals.exceptions import DuplicateError

from boostrank.core.errors import DataError, did_you_mean
from boostrank.core.queries import query_numbers
from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.categories import EXACT, Categories, Coding, Float32Cast, check_codes

_CELLS_AT_A_TIME = 1 << 21
_OF_CATEGORIES = (nw.Categorical, nw.Enum)
_OF_TIME = (nw.Date, nw.Datetime, nw.Duration, nw.Time)
_OF_SEVERAL = (nw.Struct, nw.List, nw.Array)
_AS_THEY_ARE = (
    nw.Float32,
    nw.Float64,
    nw.Int8,
    nw.Int16,
    nw.Int32,
    nw.Int64,
    nw.UInt8,
    nw.UInt16,
    nw.UInt32,
    nw.UInt64,
)


def as_frame(X: Any) -> Any:
    """A `narwhals.DataFrame` of what is a table; None: it is none.

    Raises:
        DataError: a table that cannot be read: lazy, of one column without a name, with names twice.
    """
    if not any(hasattr(type(X), name) for name in ("columns", "__arrow_c_stream__", "__arrow_c_array__")):
        return None
    try:
        found = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise DataError(f"feature names must be distinct: {' '.join(str(error).split())}") from None
    if isinstance(found, nw.LazyFrame):
        raise DataError(f"a lazy frame ({type(X).__name__}) has no rows yet: collect it first")
    if isinstance(found, nw.Series):
        raise DataError("features must be two-dimensional, a table; this is one column")
    if isinstance(found, nw.DataFrame):
        return found
    if not hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__arrow_c_array__"):
        return None
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"a table of type {type(X).__name__} is read by pyarrow, which is not installed") from None
    return nw.from_native(pyarrow.table(X))


def names_of(frame: Any) -> tuple[str, ...]:
    """Names of a frame's columns, as text."""
    return tuple(map(str, frame.columns))


def cut(table: Any, qid: str, parts: int) -> list[Any]:
    """Cut a table between queries into parts of about as many rows, in the order of the queries' first rows."""
    frame = as_frame(table)
    if frame is None:
        raise DataError(f"data must be files or a table, not {type(table).__name__}")
    if qid not in names_of(frame):
        raise DataError(f"the table has no column {qid!r} of query ids (qid=)")
    number = query_numbers(frame[qid].to_numpy())
    ends = np.cumsum(np.bincount(number))
    part = ((ends - 1) * parts // max(1, len(frame)))[number]
    return [frame[np.flatnonzero(part == i)].to_native() for i in range(parts)]


class FrameReader:
    """Reads tables, one after another, into float32 rows; of a training's tables the categories grow.

    A column is what it is in the first table. Say what was rounded or taken as missing by `warn`, at the end.

    Args:
        names: the columns to read, in this order; tables may have others.
        categorical: columns that hold categories beside those whose type says so.
        known: column -> its categories, of the training data whose tables these are to be like; None: this is they.
        whose: those are, for messages.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        categorical: Collection[str] = (),
        known: Mapping[str, Categories] | None = None,
        whose: str = "the training data",
    ) -> None:
        self.names = tuple(names)
        self._named, self._known, self._whose = set(categorical), known, whose
        self._cast = Float32Cast()
        self._coding: list[Coding | Categories | None] | None = None

    @property
    def categories(self) -> dict[str, Categories]:
        """Column -> categories met so far, in the order of the columns."""
        found = {}
        for name, one in zip(self.names, self._coding or (), strict=False):
            if one is not None:
                found[name] = one.categories if isinstance(one, Coding) else one
        return found

    def warn(self) -> None:
        """Say, a line a kind, what was rounded, and which categories were taken as missing."""
        self._cast.warn()
        for one in self._coding or ():
            if isinstance(one, Coding):
                one.warn(self._whose)

    def read(self, table: Any) -> Float32Array:
        """float32[n, d], C order.

        Args:
            table: whatever `as_frame` takes, or a frame of its own.

        Raises:
            DataError: a column that is missing, or holds what is no number and no category: by name, and what mends it.
        """
        frame = table if isinstance(table, nw.DataFrame) else as_frame(table)
        frame = self._columns(frame)
        schema = list(frame.schema.values())
        if self._coding is None:
            self._coding = [self._coding_of(frame, i, kind) for i, kind in enumerate(schema)]
        rows = len(frame)
        out = np.empty((rows, len(self.names)), np.float32)
        plain = all(c is None for c in self._coding) and all(isinstance(t, _AS_THEY_ARE) for t in schema)
        whole = [i for i, kind in enumerate(schema) if kind.is_integer()]
        step = max(1, _CELLS_AT_A_TIME // max(1, len(self.names)))
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            part = frame if stop - start == rows else frame[start:stop]
            values = part.to_numpy() if plain else None
            if values is not None and values.dtype.kind in "fiu":
                self._fill(out[start:stop], values, whole)
                continue
            for i, series in enumerate(part.iter_columns()):
                out[start:stop, i] = self._column(i, series, schema[i])
        return out

    def _columns(self, frame: Any) -> Any:
        """The frame's columns that are to be read, in their order."""
        names = names_of(frame)
        if names == self.names:
            return frame
        places = {name: i for i, name in enumerate(names)}
        missing = [name for name in self.names if name not in places]
        if missing:
            hint = did_you_mean(missing[0], names, list_all=False)
            many = f" ({len(missing)} of {len(self.names)} are missing)" if len(missing) > 1 else ""
            raise DataError(f"the table has no column {missing[0]!r}, which {self._whose} has{many}.{hint}")
        return frame[:, [places[name] for name in self.names]]

    def _fill(self, out: Float32Array, values: npt.NDArray[Any], whole: Sequence[int]) -> None:
        """Rows of which all columns are ordinary numbers."""
        with np.errstate(over="ignore"):
            out[:] = values
        infinite = range(len(self.names)) if bool(np.isinf(out).any()) else ()
        for i in {*infinite, *whole}:
            if np.nanmax(np.abs(out[:, i]), initial=0.0) >= EXACT:
                self._cast.cast(values[:, i], self.names[i], whole=i in whole)

    def _coding_of(self, frame: Any, i: int, kind: Any) -> Coding | Categories | None:
        """How a column is read: categories that are looked up, codes as they are, or numbers (None)."""
        name = self.names[i]
        if self._known is not None:
            known = self._known.get(name)
            return known if known is None or known.values is None else Coding(name, known)
        if isinstance(kind, _OF_CATEGORIES):
            return Coding(name, ordered=name not in self._named and _is_ordered(_series(frame, i)))
        if name not in self._named:
            return None
        return (
            Coding(name) if isinstance(kind, (nw.String, nw.Object, nw.Unknown)) else Categories()
        )  # Unknown: of nulls

    def _column(self, i: int, series: Any, kind: Any) -> Float32Array:
        """float32[n] of one column."""
        assert self._coding is not None
        name, coding = self.names[i], self._coding[i]
        if isinstance(coding, Coding):
            return coding.codes(*_local_codes(series, kind))
        if isinstance(kind, (nw.String, *_OF_CATEGORIES)):
            raise DataError(self._not_a_number(name, series, kind, coding))
        found = self._cast.cast(*self._numbers(name, series, kind), whole=kind.is_integer())
        if coding is not None:
            check_codes(found, name)
        return found

    def _numbers(self, name: str, series: Any, kind: Any) -> tuple[npt.NDArray[Any], str]:
        """Real numbers of a column, NaN for what is missing; and its name."""
        if isinstance(kind, _OF_TIME):
            raise DataError(
                f"column {name!r} holds times ({kind}), which have no unit that a split could name: make it a number "
                "(days or seconds since something), or leave it out"
            )
        _check_one_value(series, kind)
        if isinstance(kind, _AS_THEY_ARE):
            values = series.to_numpy()  # of old versions objects where some are missing
            return (values if values.dtype.kind != "O" else _with_none(series, values).astype(np.float64)), name
        # pandas alone has them, and would drop a half.
        if getattr(getattr(series.to_native(), "dtype", None), "kind", "") == "c":
            raise DataError(
                f"column {name!r} holds complex numbers, which have no order: make it real, or leave it out"
            )
        if isinstance(kind, nw.Object) and any(isinstance(value, str) for value in series.to_list()):
            raise DataError(self._not_a_number(name, series, kind, None))
        try:
            return _with_none(series, series.cast(nw.Float64).to_numpy()).astype(np.float64), name
        except Exception as error:  # each library raises its own kind
            raise DataError(
                f"column {name!r} holds {getattr(series.to_native(), 'dtype', kind)}, no number: make it one, or leave "
                "it out"
            ) from error

    def _not_a_number(self, name: str, series: Any, kind: Any, coding: Categories | None) -> str:
        what = "categories" if isinstance(kind, _OF_CATEGORIES) else "text"
        values = _local_codes(series, kind)[1]
        first = next((value for value in values if isinstance(value, str)), next(iter(values), None))
        begin = f"column {name!r} holds {what} ({first!r}, ...)"
        if self._known is None:
            return f"{begin}: name it in categorical_feature, make it numbers, or leave it out"
        if coding is not None:
            return f"{begin}, where {self._whose} has codes and does not know what they stand for: give codes"
        return f"{begin}, where {self._whose} has numbers"


def _is_ordered(series: Any) -> bool:
    """Whether a column's categories have an order: of pandas and Arrow; polars' own have none that is meant."""
    native = series.to_native()
    return bool(getattr(getattr(native, "dtype", getattr(native, "type", None)), "ordered", False))


def _local_codes(series: Any, kind: Any) -> tuple[Int64Array, list[Any]]:
    """int64[n] places in a list of categories, -1 for what is missing; and the list, as the type declares it, or else
    in the order in which they come."""
    native = series.to_native()
    if isinstance(kind, _OF_CATEGORIES):
        if hasattr(getattr(native, "cat", None), "codes"):  # pandas
            return native.cat.codes.to_numpy().astype(np.int64), native.cat.categories.tolist()
        if hasattr(native, "iterchunks"):  # Arrow: each chunk has a list of its own
            places: dict[Any, int] = {}
            parts = [np.zeros(0, np.int64)]
            for chunk in native.iterchunks():
                listed = chunk.dictionary.to_pylist()
                own = [
                    -1 if value is None or value != value else places.setdefault(value, len(places)) for value in listed
                ]
                codes = chunk.indices.fill_null(len(own)).to_numpy(zero_copy_only=False).astype(np.int64)
                parts.append(np.array([*own, -1], np.int64)[codes])
            return np.concatenate(parts), list(places)
        series = series.cast(nw.String)
    declared = list(kind.categories) if isinstance(kind, nw.Enum) else []
    seen = {value: i for i, value in enumerate(declared)}
    values = _with_none(series, series.to_numpy().astype(object)).tolist()
    if not isinstance(kind, (nw.String, *_OF_CATEGORIES)):
        odd = next(
            (value for value in values if isinstance(value, Iterable) and not isinstance(value, str | bytes)), None
        )
        if odd is not None:
            raise DataError(
                f"column {series.name!r} holds values of type {type(odd).__name__}, which are no categories: make them "
                "text, or leave the column out"
            )
        values = [None if value != value else value for value in values]
    codes = [-1 if value is None else seen.setdefault(value, len(seen)) for value in values]
    return np.array(codes, np.int64), list(seen)


def values_of(frame: Any, column: int) -> npt.NDArray[Any]:
    """A column as it is, for labels, weights and query ids: numbers are float64 where some are missing, and what is
    missing in others None."""
    series = _series(frame, column)
    kind = series.dtype
    _check_one_value(series, kind)
    if isinstance(kind, _OF_CATEGORIES):
        local, values = _local_codes(series, kind)
        return np.array([*values, None], dtype=object)[local]
    if isinstance(kind, nw.Boolean) or (kind.is_numeric() and not isinstance(kind, _AS_THEY_ARE)):
        series = series.cast(nw.Float64)
    return _with_none(series, series.to_numpy())


def _check_one_value(series: Any, kind: Any) -> None:
    """Refuse a column of which a row holds several values."""
    if isinstance(kind, _OF_SEVERAL):
        raise DataError(f"column {series.name!r} holds {kind}, no number: take one out, or leave the column out")


def _series(frame: Any, column: int) -> Any:
    return frame.get_column(frame.columns[column])


def _with_none(series: Any, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column's values, None for each that is missing if they are objects."""
    if values.dtype.kind != "O":
        return values
    found = values.copy()
    found[series.is_null().to_numpy()] = None
    return found
