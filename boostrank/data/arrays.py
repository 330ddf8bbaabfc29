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
    table: Any, roles: Mapping[str, str | None], drop: Sequence[str], features: Collection[str]
) -> tuple[Any, dict[str, Array]]:
    """Divide a narwhals frame into features and the columns with the roles label, qid, weight and
    id (as text).

    Args:
        roles: column by role. None means the usual names of labels and query ids, as in files, and
            no other column.
        features: columns that are features, also if they look like the index of a pandas frame.
    """
    from boostrank.data.frames import ids_of, names_of, values_of, without_index

    if not isinstance(drop, Iterable):
        raise DataError("drop must be a list of columns")
    # Choose the columns.
    names = names_of(table)
    dropped = list(map(str, drop))
    column_of_role = {role: str(column) for role, column in roles.items() if column is not None}
    for column in (*column_of_role.values(), *dropped):
        if column not in names:
            raise DataError(f"the data frame has no column {column!r}; it has {', '.join(names)}")
    for role in ("label", "qid"):
        used_columns = {*column_of_role.values(), *dropped}
        plain_name = role if role in names and role not in used_columns else None
        role_column = column_of_role.get(role) or plain_name
        role_column = role_column or usual_column(role, names, used_columns)
        if role_column is None:
            raise DataError(
                f"the data frame has no {role} column called {' or '.join(chain(*DEFAULTS[role]))};"
                f" name it with {role}=; it has {', '.join(names)}"
            )
        column_of_role[role] = role_column
    # Read them, and leave out the index of pandas.
    columns = {
        role: (ids_of if role == "qid" else values_of)(table, name)
        for role, name in column_of_role.items()
    }
    if "id" in columns:
        documents = ["" if name is None or name != name else str(name) for name in columns["id"]]
        columns["id"] = np.array(documents, object)
    used_columns = {*column_of_role.values(), *dropped}
    table = without_index(table, {*used_columns, *features})
    table = table[:, [i for i, name in enumerate(names_of(table)) if name not in used_columns]]
    if not table.columns:
        raise DataError("the data frame has no features: all columns are labels, ids or dropped")
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
    if any(hasattr(X, name) for name in ("shape", "__array__", "__array_interface__")):
        return
    is_list = isinstance(X, list | tuple)
    if isinstance(X, Mapping) or (is_list and any(isinstance(row, Mapping) for row in X)):
        remedy = "pass pandas.DataFrame(X), or pandas.DataFrame([X]) for one row"
        raise DataError(f"X is of type {type(X).__name__}, with names of columns: {remedy}")
    if not is_list:
        raise DataError(
            f"X is of type {type(X).__name__}, but must be a frame, an array or a sparse matrix:"
            " boostrank.train and model_.predict take data sets, boostrank.read takes files"
        )


def as_features(X: Any) -> Features:
    """Convert to float32[N, d] in C order, or to a float32 CSR matrix."""
    if sparse.issparse(X):
        if X.ndim != 2:
            raise DataError(f"features must be two-dimensional, but have shape {X.shape}")
        _check_sparse(X)
        csr = sparse.csr_matrix(X)
        check_real(csr.data, "features")
        if not csr.has_canonical_format:  # sum duplicates in place, but not in the caller's buffers
            csr = csr.copy()
            csr.sum_duplicates()
        if csr.dtype != np.float32:
            csr = sparse.csr_matrix(
                (_as_float32(csr.data), csr.indices, csr.indptr),
                shape=csr.shape,
                copy=False,
            )
        return csr
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
        shares_memory = is_array and np.may_share_memory(converted, np.asarray(original))
    else:
        is_csr = sparse.issparse(original) and original.format == "csr"
        shares_memory = is_csr and np.may_share_memory(converted.indices, original.indices)
    return converted.copy() if shares_memory else converted


def _as_float32(values: Array) -> Float32Array:
    converted = as_float32(values, "the features array")
    if (
        values.dtype.kind in "iu"
        and values.ndim == 2
        and values.size
        and max(-converted.min(), converted.max()) >= EXACT
    ):
        names = default_feature_names(values.shape[1])
        rounded_names = [name for column, name in enumerate(names) if is_coarse(values[:, column])]
        if rounded_names:
            warn_user(coarse_words(rounded_names))
    return converted


def read_rows(
    X: Any, names: Sequence[str] | None, categorical_feature: Any, copy: bool
) -> tuple[Features, tuple[str, ...], dict[str, Categories]]:
    """Return the features in the input to `from_arrays`, their names, and the categories of the
    categorical ones."""
    from boostrank.data.frames import as_frame, names_of, read_table, without_index

    is_array = isinstance(X, np.ndarray) or sparse.issparse(X)
    table = None if is_array else as_frame(X)
    if table is None:
        features = copy_if_shared(as_features(X), X) if copy else as_features(X)
        if features.shape[1] > _MOST_COLUMNS:  # each column gets a name, even without values
            raise DataError(
                f"features have {features.shape[1]:,} columns, more than the limit of "
                f"{_MOST_COLUMNS:,}; drop empty columns, or hash the names into fewer columns"
            )
        feature_names: tuple[str, ...] = default_feature_names(features.shape[1])
        if names is not None:
            feature_names = _as_names(names)
        coded = named_columns(categorical_feature, feature_names)
        categories = {name: Categories() for name in coded}
        for name in coded if len(feature_names) == features.shape[1] else ():
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
    categorical = named_columns(categorical_feature, feature_names)
    features, categories = read_table(table, feature_names, categorical=categorical)
    return features, feature_names, categories


def _as_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return feature names as text. Integers, which are common in tables, are converted."""
    if isinstance(names, str | set | frozenset) or not isinstance(names, Iterable):
        raise DataError(f"feature_names={names!r} has no order; pass a list of names")
    not_text = [name for name in names if not isinstance(name, str | int | np.integer)]
    if not_text:
        raise DataError(f"feature names must be text, not {not_text[0]!r}")
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
    queries = queries_of_sizes(sizes, rows)
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
    first_values = values[queries.ptr[:-1]]
    uneven_row = first_true(values != np.repeat(first_values, queries.sizes))
    if uneven_row is not None:
        query = queries.of_row(uneven_row)
        raise DataError(
            f"the rows of query {queries.qid[query]} have different {what}; they must be equal"
        )
    return first_values


# Gains of several columns -------------------------------------------------------------------------


def with_gain(data: Data, gain: str, others: Mapping[str, Float64Array] | None = None) -> Data:
    """Return a data set whose labels are the values of an expression, which the provenance
    records."""
    # Refuse a second gain, except the same.
    expression = GainExpression(gain)
    columns = dict(others or {})
    gain_so_far = data.gain
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
    for start in range(0, data.n_documents, _ROWS_AT_A_TIME):
        rows = slice(start, min(start + _ROWS_AT_A_TIME, data.n_documents))
        values = {LABEL: data.labels[rows]}
        values |= {name: column[rows] for name, column in columns.items()}
        if features:
            block = data.features[rows][:, list(features.values())]
            dense = block.toarray() if sparse.issparse(block) else np.asarray(block)
            values |= {name: dense[:, i].astype(np.float64) for i, name in enumerate(features)}
        gains[rows] = expression.evaluate(values)
        invalid_row = first_true(~(np.isfinite(gains[rows]) & (gains[rows] >= 0.0)))
        if invalid_row is not None:
            row = start + invalid_row
            row_values = {name: float(column[invalid_row]) for name, column in values.items()}
            _refuse(data, row, expression, value=float(gains[row]), values=row_values)
    # Record the expression, from which other data get the same gain.
    options = {**data.provenance.options, "gain": expression.text}
    return replace(data, labels=gains, provenance=replace(data.provenance, options=options))


def feature_places(
    data: Data, expression: GainExpression, others: Collection[str] = ()
) -> dict[str, int]:
    """Return the column number of each feature in an expression. `f12` also means feature number 12
    in libsvm text."""
    columns = {}
    names = {name: i for i, name in enumerate(data.feature_names)}
    index_base = data.provenance.index_base
    for name in expression.columns:
        if name == LABEL or name in others:
            continue
        is_numbered = index_base is not None and NUMBERED.fullmatch(name)
        numbered_column = int(name[1:]) - (index_base or 0) if is_numbered else -1
        column = names.get(name, numbered_column)
        if not 0 <= column < data.n_features:
            raise DataError(unknown_column(name, expression, [*names, *others]))
        if data.feature_names[column] in data.categories:
            raise DataError(
                f"gain {expression.text!r}: {name!r} is categorical, so its codes are not"
                " quantities"
            )
        columns[name] = column
    return columns


def unknown_column(name: str, expression: GainExpression, column_names: Collection[str]) -> str:
    """Return the message about an unknown name in an expression."""
    candidates = [LABEL, *column_names]
    if expression.text == name:
        candidates += ["exponential", "linear"]
    listed = did_you_mean(name, candidates, list_all=len(candidates) < 13)
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
    missing_name = next((name for name in expression.columns if np.isnan(values[name])), None)
    remedy = "gains must be finite and at least 0"
    if missing_name is not None:
        remedy += f"; where(isnan({missing_name}), 0, {missing_name}) replaces missing values"
    elif value < 0.0:
        remedy += "; limit them with max(..., 0) or clip"
    raise data.queries.row_error(row, f"gain {expression.text!r} is {value:g} ({listed}): {remedy}")


def common_space(
    spaces: Mapping[str, FeatureSpace], trained: Mapping[str, Categories]
) -> FeatureSpace:
    """Return the features of several files as if they were one file, numbered from 0 if any file
    has a feature 0.

    Categories are coded in file order, and a model's `trained` categories keep their codes.
    """
    first_file, first_space = next(iter(spaces.items()))
    bases = {space.index_base for space in spaces.values() if space.index_base is not None}
    if not bases:
        categories: dict[str, Categories] = {}
        for file, space in spaces.items():
            if space.feature_names != first_space.feature_names:
                differing = set(space.feature_names) ^ set(first_space.feature_names)
                name = next(iter(differing), "their order")
                raise DataError(f"the features of {first_file} and {file} differ: {name}")
            for name, file_categories in space.categories.items():
                known_categories = categories.setdefault(name, file_categories)
                if known_categories.values is not None and file_categories.values is not None:
                    values = dict.fromkeys([*known_categories.values, *file_categories.values])
                    categories[name] = replace(known_categories, values=tuple(values))
        return replace(first_space, categories={**categories, **trained})
    index_base = min(bases)
    widths = []
    for file, space in spaces.items():
        names = tuple(space.feature_names)
        if space.index_base is None and names != tuple(default_feature_names(len(names), 1)):
            raise DataError(
                f"{file} names its features, but other files number them; use one format for all"
                " files"
            )
        # A file whose features are read from number 1 has one column fewer than one read from 0.
        base = index_base if space.index_base is None else space.index_base
        widths.append(len(names) + base - index_base)
    width = max(widths)  # absent features are zero
    return replace(
        first_space,
        index_base=index_base,
        n_features=width,
        feature_names=default_feature_names(width, index_base),
    )
