"""Conversion of data frames (pandas, polars, Arrow, narwhals, or any with an Arrow stream) to
float32.

narwhals has no dependencies, and LightGBM requires it. Unlike the Arrow C interface, it reads
pandas without pyarrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from boostrank.core.errors import DataError, did_you_mean, warn_user
from boostrank.core.queries import checked_ids, query_numbers, time_text
from boostrank.core.text import as_name
from boostrank.core.types import (
    Array,
    Float32Array,
    Int64Array,
    check_real,
    pandas_index,
)
from boostrank.data.categories import (
    Categories,
    Coding,
    as_float32,
    check_codes,
    coarse_words,
    is_coarse,
    misfit_error,
)
from boostrank.data.roles import (
    DEFAULTS,
    index_columns,
    is_among,
    say_role_columns,
    usual_column,
)

_VALUES_AT_A_TIME = 1 << 21  # source and target stay in the processor's cache
_UNORDERED = {
    "duckdb": "to_arrow_table",
    "ibis": "to_pyarrow",
    "pyspark": "toPandas",
    "pyspark[connect]": "toPandas",
}
"""Libraries whose lazy tables have no row order, and the method that collects a table."""
_ONE_COLUMN = "features must be a two-dimensional table, not a single column"
_OF_CATEGORIES = (nw.Categorical, nw.Enum)
_OF_128_BITS = (nw.Int128, nw.UInt128)  # NumPy has no such integers
_SEVERAL = "column {!r} contains {}, not numbers; extract one value, or drop the column"


def as_frame(X: Any, *, whole: bool = False) -> Any:
    """Return a table, collected if it is lazy, as a `narwhals.DataFrame`, or None for other
    objects.

    Args:
        whole: whether no labels, query ids or scores outside the table must match its rows.
    """
    if not any(
        hasattr(type(X), name) for name in ("columns", "__arrow_c_stream__", "__arrow_c_array__")
    ):
        return None
    # Let narwhals read the libraries that it knows, and collect lazy tables.
    try:
        frame = nw.from_native(X, pass_through=True, allow_series=True)
    except DuplicateError as error:
        raise DataError(f"feature names must be distinct: {' '.join(str(error).split())}") from None
    if isinstance(frame, nw.LazyFrame):
        library = frame.implementation.value
        if library in _UNORDERED and not whole:
            warn_user(
                f"a lazy {library} table has no fixed row order: labels, query ids and scores may"
                " not match its rows; collect it once and use table ="
                f" frame.{_UNORDERED[library]}()"
            )
        return frame.collect()
    if isinstance(frame, nw.Series):
        raise DataError(_ONE_COLUMN)
    if isinstance(frame, nw.DataFrame):
        return frame
    # Other libraries need an Arrow stream.
    if not hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__arrow_c_array__"):
        return None
    try:
        import pyarrow
    except ImportError:
        raise DataError(
            f"a table of type {type(X).__name__} needs pyarrow, which is not installed"
        ) from None
    try:
        return nw.from_native(pyarrow.table(X))
    except pyarrow.ArrowInvalid:
        raise DataError(_ONE_COLUMN) from None


def with_query_level(frame: Any, qid: str | None = None) -> Any:
    """Return a pandas frame with the level of its index that contains query ids as a column, and
    anything else unchanged.

    Args:
        qid: name of the query ids; None for the usual names.
    """
    index = pandas_index(frame)
    if index is None or not hasattr(frame, "columns"):
        return frame
    names = DEFAULTS["qid"] if qid is None else ((str(qid),),)
    levels = [name for name in index.names if isinstance(name, str)]
    level = usual_column("qid", levels, defaults={"qid": names})
    if level is None or any(is_among(str(name), chain(*names)) for name in frame.columns):
        return frame
    return frame.assign(**{level: index.get_level_values(level)})


def names_of(frame: Any) -> tuple[str, ...]:
    """Return the column names of a frame, as text."""
    return tuple(map(str, frame.columns))


def without_index(frame: Any, keep: Collection[str] = (), *, with_warning: bool = True) -> Any:
    """Return a frame without columns for the index of a pandas frame, except those in `keep`."""
    names = names_of(frame)
    schema = getattr(frame.to_native(), "schema", None)
    metadata = getattr(schema, "metadata", None)
    index = [name for name in index_columns(names, metadata) if name not in keep]
    if index and with_warning:
        warn_user(
            f"columns left out as the index of a pandas frame: {', '.join(map(repr, index))}; drop"
            " such columns to silence this warning"
        )
    return frame[:, [i for i, name in enumerate(names) if name not in index]] if index else frame


def read_frame(
    table: Any,
    roles: Mapping[str, str | None],
    drop: Sequence[str] | str,
    features: Collection[str],
) -> tuple[Any, dict[str, Array]]:
    """Divide a narwhals frame into features and the columns with the roles label, qid, weight and
    id (as text).

    Args:
        roles: column by role. None means the usual names of labels and query ids, as in files, and
            no other column.
        features: columns that are features, also if they look like the index of a pandas frame.
    """
    if not isinstance(drop, Iterable):
        raise DataError("drop must be a list of columns")
    # Choose the columns.
    names = names_of(table)
    dropped = [drop] if isinstance(drop, str) else list(map(str, drop))
    column_of_role = {role: str(column) for role, column in roles.items() if column is not None}
    for column in (*column_of_role.values(), *dropped):
        if column not in names:
            raise DataError(f"the data frame has no column {column!r}; it has {', '.join(names)}")
    used_columns = {*column_of_role.values(), *dropped}
    for role in ("label", "qid"):
        if role in column_of_role:
            continue
        is_plain = role in names and role not in used_columns
        role_column = role if is_plain else usual_column(role, names, used_columns)
        if role_column is None:
            raise DataError(
                f"the data frame has no {role} column called {' or '.join(chain(*DEFAULTS[role]))};"
                f" name it with {role}=; it has {', '.join(names)}"
            )
        column_of_role[role] = role_column
        used_columns.add(role_column)
    # Read them, and leave out the index of pandas.
    columns = {
        role: (ids_of if role in ("qid", "id") else values_of)(table, name)
        for role, name in column_of_role.items()
    }
    if "id" in columns:
        columns["id"] = np.array(list(map(as_name, columns["id"])), object)
    table = without_index(table, {*used_columns, *features})
    table = table[:, [i for i, name in enumerate(names_of(table)) if name not in used_columns]]
    if not table.columns:
        raise DataError("the data frame has no features: all columns are labels, ids or dropped")
    say_role_columns(names_of(table))
    return table, columns


def cut(table: Any, qid: str, n_parts: int) -> list[Any]:
    """Divide a table into parts that consist of whole queries and have similar numbers of rows."""
    if isinstance(nw.from_native(table, pass_through=True, allow_series=True), nw.LazyFrame):
        raise DataError(
            f"the table ({type(table).__name__}) is lazy: collect it, or pass workers of its own"
            " cluster"
        )
    frame = as_frame(table)
    if frame is None:
        raise DataError(f"data must be files or a table, not {type(table).__name__}")
    if qid not in names_of(frame):
        raise DataError(f"the table has no column {qid!r} with query ids (qid)")
    query_of_row = query_numbers(checked_ids(ids_of(frame, qid)))
    row_ends = np.cumsum(np.bincount(query_of_row))
    part_of_row = ((row_ends - 1) * n_parts // max(1, len(frame)))[query_of_row]
    return [frame[np.flatnonzero(part_of_row == i)].to_native() for i in range(n_parts)]


def read_table(
    frame: Any,
    names: tuple[str, ...],
    *,
    categorical: Collection[str] = (),
    trained_categories: Mapping[str, Categories] | None = None,
    whose: str = "the training data",
) -> tuple[Float32Array, dict[str, Categories]]:
    """Return the columns `names` of a narwhals frame, float32[n, d] in C order, and the categories
    of the categorical ones.

    Warn about rounded integers and about unknown categories, which become missing values.

    Args:
        categorical: categorical columns, in addition to those with a categorical type.
        trained_categories: categories in the training data by column; None if the frame has the
            training data.
        whose: description of the training data, used in messages.
    """
    # Choose the columns, and how each is coded.
    frame_names = names_of(frame)
    column_numbers = {name: i for i, name in enumerate(frame_names)}
    missing_names = [name for name in names if name not in column_numbers]
    if missing_names:
        hint = did_you_mean(missing_names[0], frame_names, list_all=False)
        raise DataError(
            f"the table has no column {missing_names[0]!r}, which {whose} has"
            f" ({len(missing_names)} of {len(names)} are missing).{hint}"
        )
    if frame_names != names:
        frame = frame[:, [column_numbers[name] for name in names]]
    dtypes = list(frame.schema.values())
    rounded_columns = dict[str, None]()
    codings = [_coding_of(frame, name, categorical, trained_categories) for name in names]
    trained_on = None if trained_categories is None else whose
    values = np.empty((len(frame), len(names)), np.float32)
    step = max(1, _VALUES_AT_A_TIME // max(1, len(names)))
    for start in range(0, len(frame), step):
        target = values[start : start + step]
        for i, series in enumerate(frame[start : start + step].iter_columns()):
            name, dtype, coding = names[i], dtypes[i], codings[i]
            if not dtype.is_numeric() and series.null_count() == len(series):  # even text
                target[:, i] = np.nan
                continue
            if isinstance(coding, Coding):
                target[:, i] = coding.codes(*read_codes(series))
                continue
            if isinstance(dtype, (nw.String, *_OF_CATEGORIES)):
                description = f"text ({series.drop_nulls().to_list()[0]!r}, ...)"
                raise misfit_error(name, description, coding, trained_on)
            numbers = _numbers(series, dtype, name, trained_on)
            target[:, i] = as_float32(numbers, f"column {name!r}")
            if dtype.is_integer() and is_coarse(numbers):
                rounded_columns[name] = None
            if coding is not None:
                check_codes(target[:, i], name)
    if rounded_columns:
        warn_user(coarse_words(rounded_columns))
    categories = {}
    for name, column_coding in zip(names, codings, strict=True):
        if isinstance(column_coding, Coding):
            column_coding.warn(whose)
            categories[name] = column_coding.categories
        elif column_coding is not None:
            categories[name] = column_coding
    return values, categories


def _coding_of(
    frame: Any,
    name: str,
    categorical: Collection[str],
    trained_categories: Mapping[str, Categories] | None,
) -> Coding | Categories | None:
    """Return a `Coding` for a column with categories, `Categories` for one with codes, or None for
    one with numbers."""
    if trained_categories is not None:
        categories = trained_categories.get(name)
        if categories is None or categories.values is None:
            return categories
        return Coding(name, categories)
    series = _column(frame, name)
    if isinstance(series.dtype, _OF_CATEGORIES):
        native = series.to_native()
        # In polars, the order has no meaning.
        native_type = getattr(native, "dtype", getattr(native, "type", None))
        is_ordered = bool(getattr(native_type, "ordered", False))
        return Coding(name, Categories(ordered=is_ordered and name not in categorical))
    if name not in categorical:
        return None
    has_values = isinstance(series.dtype, (nw.String, nw.Object, nw.Unknown))  # Unknown: nulls only
    return Coding(name) if has_values else Categories()


def _numbers(series: Any, dtype: Any, name: str, trained_on: str | None) -> Array:
    """Return the numbers in a column, also of Python objects such as Decimal, with NaN for missing
    values."""
    if dtype.is_temporal():
        raise DataError(
            f"column {name!r} contains times ({dtype}); convert them to numbers, such as days "
            "since a date, or drop the column"
        )
    if dtype.is_nested():
        raise DataError(_SEVERAL.format(series.name, dtype))
    if isinstance(dtype, (nw.Boolean, *_OF_128_BITS)) or dtype.is_decimal():
        series = series.cast(nw.Float64)
    values = _with_none(series, series.to_numpy())
    check_real(values, f"values of column {name!r}")
    if values.dtype.kind in "biuf":
        return values
    # Convert Python objects one by one, to name the one that is no number.
    numbers = np.full(values.size, np.nan)
    for row, value in enumerate(values):
        is_text = isinstance(value, str | bytes | bytearray)
        try:
            if is_text:
                raise TypeError
            if value is not None:
                numbers[row] = float(value)
        except (TypeError, ValueError, OverflowError):
            description = f"{repr(value)[:40]} ({type(value).__name__})"
            if isinstance(value, Iterable) and not is_text:
                raise DataError(_SEVERAL.format(name, description)) from None
            raise misfit_error(name, description, None, trained_on) from None
    return numbers


def read_codes(column: Any) -> tuple[Int64Array, list[Any]]:
    """Return positions in a list of categories, int64[n], or -1 if missing, and this list, as
    declared or by appearance, which may contain missing values, too.

    Args:
        column: a column of a frame, or an Arrow array of a file.
    """
    series = nw.from_native(column, series_only=True)
    dtype = series.dtype
    if series.implementation.is_pyarrow() and not dtype.is_nested():
        encoded = series.to_native().unify_dictionaries().combine_chunks()
        encoded = encoded if isinstance(dtype, _OF_CATEGORIES) else encoded.dictionary_encode()
        positions = encoded.indices.cast("int64").fill_null(-1).to_numpy()
        return positions, encoded.dictionary.to_pylist()
    return _encode(series, dtype)


def _encode(series: Any, dtype: Any) -> tuple[Int64Array, list[Any]]:
    """Return the codes of a column of any library."""
    values = _with_none(series, series.to_numpy().astype(object)).tolist()
    declared: list[Any] = []
    is_polars = series.implementation.is_polars()
    if isinstance(dtype, nw.Enum) or (isinstance(dtype, nw.Categorical) and not is_polars):
        with suppress(AttributeError):  # pandas does not list the categories of an Arrow dictionary
            declared = series.cat.get_categories().to_list()
    elif not isinstance(dtype, (nw.String, *_OF_CATEGORIES)):
        for value in values:
            if isinstance(value, Iterable) and not isinstance(value, str | bytes):
                raise DataError(
                    f"column {series.name!r} contains values of type {type(value).__name__}, which "
                    "cannot be categories; convert them to text, or drop the column"
                )
    code_of_value = {value: i for i, value in enumerate(declared)}
    positions = [code_of_value.setdefault(value, len(code_of_value)) for value in values]
    return np.array(positions, np.int64), list(code_of_value)


def _column(frame: Any, name: str) -> Any:
    return frame.get_column(frame.columns[names_of(frame).index(name)])


def values_of(frame: Any, name: str) -> Array:
    """Return a column with labels or weights. Missing numbers are NaN, and other missing values are
    None."""
    series = _column(frame, name)
    dtype = series.dtype
    if dtype.is_nested():
        raise DataError(_SEVERAL.format(series.name, dtype))
    if isinstance(dtype, _OF_CATEGORIES):
        codes, values = read_codes(series)
        return np.array([*values, None], dtype=object)[codes]
    if isinstance(dtype, (nw.Boolean, *_OF_128_BITS)) or dtype.is_decimal():
        series = series.cast(nw.Float64)
    return _with_none(series, series.to_numpy())


def ids_of(frame: Any, name: str) -> Array:
    """Return a column with query ids or document names like `values_of`, with times as text and
    exact decimals."""
    series = _column(frame, name)
    if isinstance(series.dtype, nw.Date | nw.Datetime):
        texts = map(str, series.cast(nw.String).to_list())
        return _with_none(series, np.array(list(map(time_text, texts)), object))
    extension = getattr(getattr(series.to_native(), "type", None), "extension_name", "")
    if extension == "arrow.uuid" or isinstance(series.dtype, _OF_128_BITS):
        return np.array(series.to_list(), object)
    if series.dtype.is_decimal():
        return _with_none(series, series.to_numpy())
    return values_of(frame, name)


def _with_none(series: Any, values: Array) -> Array:
    """Return the values in a column, with None for missing objects."""
    if values.dtype.kind != "O":
        return values
    objects = values.copy()
    objects[series.is_null().to_numpy()] = None
    return objects
