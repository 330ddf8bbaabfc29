"""Conversion of arrays, sparse matrices and data frames to data set contents, and gains over
several columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.conventions import LABEL, GainExpression
from boostrank.core.errors import DataError, did_you_mean, warn_user
from boostrank.core.queries import QueryIndex
from boostrank.core.types import (
    Array,
    Float32Array,
    Float64Array,
    as_numbers,
    check_real,
    first_true,
    masked_as_missing,
    with_nan,
)
from boostrank.data.categories import (
    EXACT,
    Categories,
    as_float32,
    check_codes,
    coarse_words,
    is_coarse,
    named_columns,
)
from boostrank.data.feature_space import NUMBERED, FeatureSpace
from boostrank.data.roles import DEFAULTS, say_role_columns, usual_column

Data = Any  # a `boostrank.data.dataset.RankingDataset`, whose module imports this one
Features = Any
"""float32[N, d] in C order, a float32 `scipy.sparse.csr_matrix`, or `data.rows.Rows`."""


def read_frame(
    table: Any, roles: Mapping[str, str | None], drop: Sequence[str], features: Collection[str] = ()
) -> tuple[Any, dict[str, Array]]:
    """Return a narwhals frame's features, and the columns with the roles label, qid, weight and id
    (as text).

    Args:
        roles: column by role. None means the usual names of labels and query ids, as in files, and
            no other column.
        features: columns that are features, also if they look like the index of a pandas frame.
    """
    from boostrank.data.frames import ids_of, names_of, values_of, without_index

    if not isinstance(drop, Iterable):
        raise DataError("drop must be a list of columns")
    # Choose the columns.
    names, dropped = names_of(table), list(map(str, drop))
    chosen = {role: str(column) for role, column in roles.items() if column is not None}
    for column in (*chosen.values(), *dropped):
        if column not in names:
            raise DataError(f"the data frame has no column {column!r}; it has {', '.join(names)}")
    for role in ("label", "qid"):
        taken = {*chosen.values(), *dropped}
        plain = role if role in names and role not in taken else None
        usual = chosen.get(role) or plain or usual_column(role, names, taken)
        if usual is None:
            raise DataError(
                f"the data frame has no {role} column called {' or '.join(chain(*DEFAULTS[role]))};"
                f" name it with {role}=; it has {', '.join(names)}"
            )
        chosen[role] = usual
    # Read them, and leave out the index of pandas.
    columns = {
        role: (ids_of if role == "qid" else values_of)(table, name) for role, name in chosen.items()
    }
    if "id" in columns:
        documents = ["" if name is None or name != name else str(name) for name in columns["id"]]
        columns["id"] = np.array(documents, object)
    others = {*chosen.values(), *dropped}
    table = without_index(table, {*others, *features})
    table = table[:, [i for i, name in enumerate(names_of(table)) if name not in others]]
    say_role_columns(names_of(table))
    return table, columns


def read_columns(table: Any, names: Sequence[str]) -> dict[str, Float64Array]:
    """Return the requested columns that exist in a `narwhals.DataFrame`, as float64[N] with NaN for
    missing values."""
    from boostrank.data.frames import names_of, values_of

    columns = {}
    for name in (name for name in names if name in names_of(table)):
        try:
            columns[name] = as_numbers(values_of(table, name), "values")
        except DataError:
            raise DataError(f"column {name!r} in the gain is not numeric") from None
    return columns


_ROWS_AT_A_TIME = 1 << 14
_MOST_COLUMNS = 2**24  # same limit as `max_feature` of files


class NumberedNames(tuple[str, ...]):
    """Generated feature names. They are always distinct, so the data set does not need to check
    millions of names."""


def default_feature_names(columns: int, base: int = 1) -> NumberedNames:
    """Return generated feature names, `f1`, `f2`, ..., numbered from `base`."""
    return NumberedNames(f"f{i}" for i in range(base, base + columns))


def check_rows(X: Any) -> None:
    """Raise `DataError` with a remedy for an object that is neither a table nor has rows."""
    if isinstance(X, list | tuple):
        if any(isinstance(row, Mapping) for row in X):
            raise DataError("X is a list of dictionaries; pass pandas.DataFrame(X)")
    elif not any(hasattr(X, name) for name in ("shape", "__array__", "__array_interface__")):
        remedy = "boostrank.train and model_.predict take data sets, boostrank.read takes files"
        if isinstance(X, Mapping):
            remedy = "pass pandas.DataFrame(X), or pandas.DataFrame([X]) for one row"
        words = "but must be a frame, an array or a sparse matrix"
        raise DataError(f"X is of type {type(X).__name__}, {words}: {remedy}")


def as_features(X: Any) -> Features:
    """Convert to float32[N, d] in C order, or to a float32 CSR matrix."""
    if sparse.issparse(X):
        if X.ndim != 2:
            raise DataError(f"features must be two-dimensional, but have shape {X.shape}")
        _check_sparse(X)
        matrix = sparse.csr_matrix(X)
        check_real(matrix.data, "features")
        if (
            not matrix.has_canonical_format
        ):  # sum duplicates in place, but not in the caller's buffers
            matrix = matrix.copy()
            matrix.sum_duplicates()
        if matrix.dtype != np.float32:
            matrix = sparse.csr_matrix(
                (_as_float32(matrix.data), matrix.indices, matrix.indptr),
                shape=matrix.shape,
                copy=False,
            )
        return matrix
    check_rows(X)
    try:
        array = X.to_numpy() if hasattr(X, "to_numpy") else np.asanyarray(X)
    except ValueError as error:
        raise DataError(f"features must be two-dimensional: {error}") from None
    if array.ndim != 2:
        raise DataError(f"features must be two-dimensional, but have shape {array.shape}")
    check_real(array, "features")
    if array.dtype.kind not in "fiub":
        try:
            array = with_nan(array).astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"features must be numbers: {error}; encode text columns first"
            ) from None
    return np.ascontiguousarray(_as_float32(masked_as_missing(array)))


def _check_sparse(X: Any) -> None:
    """Check that the indices of a sparse matrix are valid, because compiled code relies on them."""
    try:
        if X.format in ("csr", "csc", "bsr"):
            stored = len(X.indices)  # SciPy only checks indptr if nnz > 0
            if np.any(np.diff(X.indptr, prepend=0) < 0) or X.indptr[-1] > stored:
                raise ValueError(
                    "indptr must start with 0, never decrease, and end within the indices"
                )
            X.check_format(full_check=True)
        elif X.format == "coo" and X.nnz:
            for axis, (indices, length) in enumerate(zip((X.row, X.col), X.shape, strict=True)):
                if int(indices.min()) < 0 or int(indices.max()) >= length:
                    raise ValueError(f"an index of axis {axis} is outside 0 to {length - 1}")
    except ValueError as error:
        raise DataError(f"the sparse matrix is invalid: {error}") from None


def queries_of_sizes(group: Any, rows: int) -> QueryIndex:
    """Return queries with the given group sizes."""
    sizes = without_mask(group, "group size")
    if np.shape(sizes) == (rows,) and np.any(np.asarray(sizes) != 1):
        raise DataError(
            f"group has an entry for each of the {rows:,} rows, but must have one size per "
            "query; pass the query id of each row as qid"
        )
    queries = QueryIndex.from_sizes(sizes)
    if queries.n_documents != rows:
        raise DataError(
            f"there are {queries.n_documents} rows in the groups but {rows} rows of features"
        )
    return queries


def without_mask(values: Any, what: str) -> Any:
    """Return values without their mask, and raise an error if any entry is masked."""
    if getattr(getattr(values, "dtype", None), "names", None):
        raise DataError(
            f"a structured array has several numbers per row; pass the field with the {what}"
        )
    if np.ma.is_masked(values):
        raise DataError(f"row {first_true(np.ma.getmaskarray(values))} has no {what}: it is masked")
    return values.data if np.ma.isMaskedArray(values) else values


def copy_if_shared(converted: Any, original: Any) -> Any:
    """Return converted data that do not share memory with the input."""
    if isinstance(converted, np.ndarray):  # lists share no memory
        is_array = not isinstance(original, list | tuple)
        shared = is_array and np.may_share_memory(converted, np.asarray(original))
    else:
        is_csr = sparse.issparse(original) and original.format == "csr"
        shared = is_csr and np.may_share_memory(converted.indices, original.indices)
    return converted.copy() if shared else converted


def _as_float32(values: Array) -> Float32Array:
    out = as_float32(values, "the features array")
    if (
        values.dtype.kind in "iu"
        and values.ndim == 2
        and values.size
        and max(-out.min(), out.max()) >= EXACT
    ):
        names = default_feature_names(values.shape[1])
        coarse = [name for column, name in enumerate(names) if is_coarse(values[:, column])]
        if coarse:
            warn_user(coarse_words(coarse))
    return out


def read_rows(
    X: Any, names: Sequence[str] | None, categorical_feature: Any, copy: bool
) -> tuple[Features, tuple[str, ...], dict[str, Categories]]:
    """Return the features, feature names and categories in the input to `from_arrays`."""
    table = None
    if not isinstance(X, np.ndarray) and not sparse.issparse(X):
        from boostrank.data.frames import as_frame, names_of, read_table, without_index

        table = as_frame(X)
    if table is None:
        features = copy_if_shared(as_features(X), X) if copy else as_features(X)
        if features.shape[1] > _MOST_COLUMNS:  # each column gets a name, even without values
            raise DataError(
                f"features have {features.shape[1]:,} columns, more than the limit of "
                f"{_MOST_COLUMNS:,}; drop empty columns, or hash the names into fewer columns"
            )
        feature_names = (
            _as_names(names) if names is not None else default_feature_names(features.shape[1])
        )
        categories = {
            name: Categories() for name in named_columns(categorical_feature, feature_names)
        }
        for name in categories if len(feature_names) == features.shape[1] else ():
            column = features[:, feature_names.index(name)]
            codes = column.data if sparse.issparse(column) else column
            check_codes(codes, name)
        return features, feature_names, categories
    if names is not None:
        column_names = _as_names(names)
        if len(set(column_names)) < len(column_names) or len(column_names) != len(table.columns):
            raise DataError(
                f"{len(table.columns)} features need as many distinct feature names, but got"
                f" {len(column_names)}"
            )
        table = table.rename(dict(zip(table.columns, column_names, strict=True)))
    else:
        # Positions count all columns.
        categorical_feature = named_columns(categorical_feature, names_of(table))
        table = without_index(table, categorical_feature)
    feature_names = names_of(table)
    features, categories = read_table(
        table, feature_names, categorical=named_columns(categorical_feature, feature_names)
    )
    return features, feature_names, categories


def _as_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return feature names as text. Integers, which are common in tables, are converted."""
    if isinstance(names, str | set | frozenset) or not isinstance(names, Iterable):
        raise DataError(f"feature_names={names!r} has no order; pass a list of names")
    odd = [name for name in names if not isinstance(name, str | int | np.integer)]
    if odd:
        raise DataError(f"feature names must be text, not {odd[0]!r}")
    return tuple(map(str, names))


def with_weights(queries: QueryIndex, values: Float64Array) -> QueryIndex:
    """Return queries with weights, float64[Q] or [N]. Row weights that vary within a query become
    document weights."""
    # NaN differs from itself, so it becomes a document weight and is refused with its row number.
    if values.size == queries.n_documents and np.any(
        values != np.repeat(values[queries.ptr[:-1]], queries.sizes)
    ):
        return replace(queries, document_weights=values)
    return replace(queries, weights=query_values(values, queries))


def queries_given(sizes: Any, weight: Any, rows: int) -> QueryIndex:
    """Create queries from an engine's group sizes and row weights (or None)."""
    if sizes is None or not len(sizes):
        raise DataError(
            "the data set has no queries: pass group sizes (LightGBM: group=, XGBoost: qid= or"
            " group=); without them all rows would be one query"
        )
    queries = QueryIndex.from_sizes(sizes)
    if queries.n_documents != rows:
        raise DataError(f"group sizes sum to {queries.n_documents} but there are {rows} rows")
    if weight is None or not len(weight):
        return queries
    return with_weights(queries, np.asarray(weight, dtype=np.float64).ravel())


def query_values(values: Float64Array, queries: QueryIndex, what: str = "weights") -> Float64Array:
    """Return one value per query, from values that are given per query or per row."""
    if values.size == len(queries) and values.size != queries.n_documents:
        return values
    if values.size != queries.n_documents:
        raise DataError(
            f"there are {values.size} {what} for {len(queries)} queries and "
            f"{queries.n_documents} rows; expected one per query or per row"
        )
    firsts = values[queries.ptr[:-1]]
    uneven = first_true(values != np.repeat(firsts, queries.sizes))
    if uneven is not None:
        q = queries.of_row(uneven)
        raise DataError(
            f"the rows of query {queries.qid[q]} have different {what}; they must be equal"
        )
    return firsts


# Gains of several columns -------------------------------------------------------------------------


def with_gain(data: Data, gain: str, others: Mapping[str, Float64Array] | None = None) -> Data:
    """Return a data set whose labels are the values of an expression, which the provenance
    records."""
    # Refuse a second gain, except the same.
    expression, columns = GainExpression.parse(gain), dict(others or {})
    gain_so_far = gain_of(data)
    if gain_so_far is not None:
        if gain_so_far == expression.text:
            return data
        raise DataError(
            f"the labels already are the gain {gain_so_far!r}; read the data without a gain or with"
            f" {gain!r}"
        )
    # Evaluate a block of rows at a time, to bound the memory for dense features.
    features = feature_places(data, expression, columns)
    gains = np.empty(data.n_documents)
    for first in range(0, data.n_documents, _ROWS_AT_A_TIME):
        rows = slice(first, min(first + _ROWS_AT_A_TIME, data.n_documents))
        values = {LABEL: data.labels[rows]} | {
            name: column[rows] for name, column in columns.items()
        }
        if features:
            part = data.features[rows][:, list(features.values())]
            dense = part.toarray() if sparse.issparse(part) else np.asarray(part)
            values |= {name: dense[:, i].astype(np.float64) for i, name in enumerate(features)}
        gains[rows] = expression.evaluate(values)
        bad = first_true(~(np.isfinite(gains[rows]) & (gains[rows] >= 0.0)))
        if bad is not None:
            row = first + bad
            _refuse(
                data,
                row,
                expression,
                float(gains[row]),
                {n: float(c[bad]) for n, c in values.items()},
            )
    # Record the expression, from which other data get the same gain.
    options = {**data.provenance.options, "gain": expression.text}
    return replace(data, labels=gains, provenance=replace(data.provenance, options=options))


def gain_of(data: Data) -> str | None:
    """Return the expression that defines the labels of a data set, or None if there is none."""
    return data.provenance.options.get("gain")


def feature_places(
    data: Data, expression: GainExpression, others: Collection[str] = ()
) -> dict[str, int]:
    """Return the column number of each feature in an expression. `f12` also means feature number 12
    in libsvm text."""
    columns, names = {}, {name: i for i, name in enumerate(data.feature_names)}
    base = data.provenance.index_base
    for name in expression.columns:
        if name == LABEL or name in others:
            continue
        numbered = base is not None and NUMBERED.fullmatch(name)
        number = int(name[1:]) - (base or 0) if numbered else -1
        at = names.get(name, number)
        if not 0 <= at < data.n_features:
            raise DataError(unknown_column(name, expression, [*names, *others]))
        if data.feature_names[at] in data.categories:
            raise DataError(
                f"gain {expression.text!r}: {name!r} is categorical, so its codes are not"
                " quantities"
            )
        columns[name] = at
    return columns


def unknown_column(name: str, expression: GainExpression, column_names: Collection[str]) -> str:
    """Return the message about an unknown name in an expression."""
    words = [LABEL, *column_names, *(("exponential", "linear") if expression.text == name else ())]
    listed = did_you_mean(name, words, list_all=len(words) < 13)
    return (
        f"gain {expression.text!r}: there is no column {name!r}.{listed} Columns that are not"
        " features (--drop) are only available while a table is read, with --gain or the argument"
        " gain of boostrank.read and from_frame"
    )


def _refuse(
    data: Data, row: int, expression: GainExpression, value: float, values: Mapping[str, float]
) -> None:
    """Raise an error for a row with an invalid gain."""
    listed = ", ".join(f"{name}={values[name]:g}" for name in expression.columns)
    missing = next((name for name in expression.columns if np.isnan(values[name])), None)
    mend = "gains must be finite and at least 0"
    if missing is not None:
        mend += f"; where(isnan({missing}), 0, {missing}) replaces missing values"
    elif value < 0.0:
        mend += "; limit them with max(..., 0) or clip"
    raise data.queries.row_error(row, f"gain {expression.text!r} is {value:g} ({listed}): {mend}")


def common_space(
    spaces: Mapping[str, FeatureSpace], trained: Mapping[str, Categories]
) -> FeatureSpace:
    """Return the features of several files as if they were one file, numbered from 0 if any file
    has a feature 0.

    Categories are coded in file order, and a model's `trained` categories keep their codes.
    """
    start, first = next(iter(spaces.items()))
    bases = {space.index_base for space in spaces.values() if space.index_base is not None}
    if not bases:
        categories: dict[str, Categories] = {}
        for file, space in spaces.items():
            if space.feature_names != first.feature_names:
                name = next(
                    iter(set(space.feature_names) ^ set(first.feature_names)), "their order"
                )
                raise DataError(f"the features of {start} and {file} differ: {name}")
            for name, in_file in space.categories.items():
                before = categories.setdefault(name, in_file)
                if before.values is not None and in_file.values is not None:
                    categories[name] = replace(
                        before, values=tuple(dict.fromkeys([*before.values, *in_file.values]))
                    )
        return replace(first, categories={**categories, **trained})
    base, widths = min(bases), {}
    for file, space in spaces.items():
        names = tuple(space.feature_names)
        if space.index_base is None and names != tuple(default_feature_names(len(names), 1)):
            raise DataError(
                f"{file} names its features, but other files number them; use one format for all"
                " files"
            )
        # A file whose features are read from number 1 has one column fewer than one read from 0.
        widths[file] = len(names) + (base if space.index_base is None else space.index_base) - base
    narrow, width = min(widths, key=lambda file: widths[file]), max(widths.values())
    if widths[narrow] < width:
        warn_user(
            f"{narrow} has {spaces[narrow].n_features:,} features, others up to {width:,}: absent"
            " features are zero"
        )
    return replace(
        first, index_base=base, n_features=width, feature_names=default_feature_names(width, base)
    )
