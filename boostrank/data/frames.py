"""Conversion of data frames to float32: pandas, polars, Arrow, and others via narwhals or an Arrow stream.

narwhals has no dependencies and is required by LightGBM. Unlike the Arrow C interface, it reads pandas without pyarrow.
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
    """Return a `narwhals.DataFrame` of a table; None if X is not a table.

    Raises:
        DataError: an unreadable table: lazy, a nameless column, or duplicate names.
    """
    if not any(hasattr(type(X), name) for name in ("columns", "__arrow_c_stream__", "__arrow_c_array__")):
        return None
    try:
        found = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise DataError(f"feature names must be distinct: {' '.join(str(error).split())}") from None
    if isinstance(found, nw.LazyFrame):
        raise DataError(f"a lazy frame ({type(X).__name__}) has no rows yet; collect it first")
    if isinstance(found, nw.Series):
        raise DataError("features must be a two-dimensional table, not a single column")
    if isinstance(found, nw.DataFrame):
        return found
    if not hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__arrow_c_array__"):
        return None
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"a table of type {type(X).__name__} needs pyarrow, which is not installed") from None
    return nw.from_native(pyarrow.table(X))


def names_of(frame: Any) -> tuple[str, ...]:
    """Return the column names of a frame, as text."""
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
    """Converts tables to float32 rows, one after another; categories of training tables accumulate.

    The first table decides on the kind of each column. Call `warn` at the end to report rounding and unknown
    categories.

    Args:
        names: columns to read, in this order; tables may have others.
        categorical: columns of categories in addition to those detected by type.
        known: column -> categories of the training data; None if this is the training data.
        whose: owner of `known`, for messages.
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
        """Return column -> categories found so far, in column order."""
        found = {}
        for name, one in zip(self.names, self._coding or (), strict=False):
            if one is not None:
                found[name] = one.categories if isinstance(one, Coding) else one
        return found

    def warn(self) -> None:
        """Warn about rounded integers and about categories treated as missing, one line each."""
        self._cast.warn()
        for one in self._coding or ():
            if isinstance(one, Coding):
                one.warn(self._whose)

    def read(self, table: Any) -> Float32Array:
        """Return the rows of a table, float32[n, d] in C order.

        Args:
            table: input of `as_frame`, or a narwhals frame.

        Raises:
            DataError: a missing column, or one that is neither numeric nor categorical, with a remedy.
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
        """Return the columns to read, in order."""
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
        """Fill rows of numeric columns."""
        with np.errstate(over="ignore"):
            out[:] = values
        infinite = range(len(self.names)) if bool(np.isinf(out).any()) else ()
        for i in {*infinite, *whole}:
            if np.nanmax(np.abs(out[:, i]), initial=0.0) >= EXACT:
                self._cast.cast(values[:, i], self.names[i], whole=i in whole)

    def _coding_of(self, frame: Any, i: int, kind: Any) -> Coding | Categories | None:
        """Return how to read a column: by looking up categories, as codes, or as numbers (None)."""
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
        )  # Unknown: nulls only

    def _column(self, i: int, series: Any, kind: Any) -> Float32Array:
        """Return one column, float32[n]."""
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
        """Return the real numbers of a column, NaN if missing, and its name."""
        if isinstance(kind, _OF_TIME):
            raise DataError(
                f"column {name!r} contains times ({kind}), which have no natural unit: convert it to numbers "
                "(such as days since a date), or drop it"
            )
        _check_one_value(series, kind)
        if isinstance(kind, _AS_THEY_ARE):
            values = series.to_numpy()  # old versions return objects if values are missing
            return (values if values.dtype.kind != "O" else _with_none(series, values).astype(np.float64)), name
        # Only pandas has complex numbers, and casting would drop the imaginary part.
        if getattr(getattr(series.to_native(), "dtype", None), "kind", "") == "c":
            raise DataError(
                f"column {name!r} contains complex numbers, which have no order: convert it to real numbers, or drop it"
            )
        if isinstance(kind, nw.Object) and any(isinstance(value, str) for value in series.to_list()):
            raise DataError(self._not_a_number(name, series, kind, None))
        try:
            return _with_none(series, series.cast(nw.Float64).to_numpy()).astype(np.float64), name
        except Exception as error:  # each library raises its own type
            raise DataError(
                f"column {name!r} holds {getattr(series.to_native(), 'dtype', kind)}, not numbers: convert it, or "
                "drop it"
            ) from error

    def _not_a_number(self, name: str, series: Any, kind: Any, coding: Categories | None) -> str:
        what = "categories" if isinstance(kind, _OF_CATEGORIES) else "text"
        values = _local_codes(series, kind)[1]
        first = next((value for value in values if isinstance(value, str)), next(iter(values), None))
        begin = f"column {name!r} holds {what} ({first!r}, ...)"
        if self._known is None:
            return f"{begin}: name it in categorical_feature, convert it to numbers, or drop it"
        if coding is not None:
            return f"{begin}, but {self._whose} has only codes without names there: pass codes"
        return f"{begin}, but {self._whose} has numbers there"


def _is_ordered(series: Any) -> bool:
    """Return whether a column's categories are ordered (pandas and Arrow); the order in polars has no meaning."""
    native = series.to_native()
    return bool(getattr(getattr(native, "dtype", getattr(native, "type", None)), "ordered", False))


def _local_codes(series: Any, kind: Any) -> tuple[Int64Array, list[Any]]:
    """Return positions in a list of categories, int64[n], -1 if missing; and the list, as declared or in order of
    appearance.
    """
    native = series.to_native()
    if isinstance(kind, _OF_CATEGORIES):
        if hasattr(getattr(native, "cat", None), "codes"):  # pandas
            return native.cat.codes.to_numpy().astype(np.int64), native.cat.categories.tolist()
        if hasattr(native, "iterchunks"):  # Arrow: each chunk has its own list
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
                f"column {series.name!r} contains values of type {type(odd).__name__}, which cannot be categories: "
                "convert them to text, or drop the column"
            )
        values = [None if value != value else value for value in values]
    codes = [-1 if value is None else seen.setdefault(value, len(seen)) for value in values]
    return np.array(codes, np.int64), list(seen)


def values_of(frame: Any, column: int) -> npt.NDArray[Any]:
    """Return a column of labels, weights or query ids. Numbers with missing values become float64; other missing values
    None.
    """
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
    """Refuse a column with several values per row."""
    if isinstance(kind, _OF_SEVERAL):
        raise DataError(f"column {series.name!r} contains {kind}, not numbers: extract one value, or drop the column")


def _series(frame: Any, column: int) -> Any:
    return frame.get_column(frame.columns[column])


def _with_none(series: Any, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column's values; None for missing objects."""
    if values.dtype.kind != "O":
        return values
    found = values.copy()
    found[series.is_null().to_numpy()] = None
    return found
