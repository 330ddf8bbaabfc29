"""Conversion of arrays, sparse matrices and data frames to data set contents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
    check_real,
    first_true,
    masked_as_missing,
    with_nan,
)
from boostrank.data.categories import (
    Categories,
    as_float32,
    check_codes,
    coarse_words,
    named_columns,
)
from boostrank.data.feature_space import FeatureSpace

Features = Any
"""float32[N, d] in C order, a float32 `scipy.sparse.csr_matrix`, or `data.rows.Rows`."""


_MOST_COLUMNS = 2**24  # same limit as `max_feature` of files


class NumberedNames(tuple[str, ...]):
    """Generated feature names. They are always distinct, so the data set does not need to check
    millions of names."""


def default_feature_names(columns: int, base: int = 1) -> NumberedNames:
    """Return generated feature names, `f1`, `f2`, ..., numbered from `base`."""
    return NumberedNames(f"f{i}" for i in range(base, base + columns))


def check_rows(X: Any) -> None:
    """Raise `DataError` with a remedy for an object that is neither a table nor has rows."""
    has_shape = hasattr(X, "shape") and not hasattr(X, "to_pandas")  # what to collect has both
    if has_shape or hasattr(X, "__array__") or hasattr(X, "__array_interface__"):
        return
    if not isinstance(X, list | tuple) or any(isinstance(row, Mapping) for row in X):
        raise DataError(
            f"X is of type {type(X).__name__}, but must be a frame, an array or a sparse matrix:"
            " pandas.DataFrame(X) takes names of columns, pandas.DataFrame([X]) one row, and"
            " to_table(), to_pandas() or df() of a query or data set collects its rows;"
            " boostrank.train and model_.predict take a RankingDataset, boostrank.read takes files"
        )


def as_features(X: Any) -> Features:
    """Convert to float32[N, d] in C order, or to a float32 CSR matrix."""
    array = X
    if not sparse.issparse(X):
        check_rows(X)
        try:
            array = np.asanyarray(X)
        except ValueError as error:
            raise DataError(f"features must be two-dimensional: {error}") from None
    if array.ndim != 2:
        raise DataError(f"features must be two-dimensional, but have shape {array.shape}")
    if sparse.issparse(array):
        return _as_csr(array)
    check_real(array, "features")
    if array.dtype.kind not in "fiub":
        try:
            array = with_nan(array).astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"features must be numbers: {error}; encode text columns first"
            ) from None
    columns = np.arange(array.shape[1])
    return np.ascontiguousarray(_as_float32(masked_as_missing(array), columns))


def _as_csr(X: Any) -> Any:
    """Convert a sparse matrix to float32 CSR without duplicates, and check its indices, because
    compiled code relies on them."""
    try:
        if X.format in ("csr", "csc", "bsr"):
            stored = len(X.indices)  # SciPy only checks indptr if nnz > 0
            if np.any(np.diff(X.indptr, prepend=0) < 0) or X.indptr[-1] > stored:
                raise ValueError(
                    "indptr must start with 0, never decrease, and end within the indices"
                )
            X.check_format(full_check=True)
        elif X.format == "coo":
            sparse.coo_matrix((X.data, (X.row, X.col)), X.shape)  # raises ValueError
    except ValueError as error:
        raise DataError(f"the sparse matrix is invalid: {error}") from None
    csr = sparse.csr_matrix(X)
    check_real(csr.data, "features")
    if not csr.has_canonical_format:  # sum duplicates in place, but not in the caller's buffers
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.dtype == np.float32:
        return csr
    values = _as_float32(csr.data, csr.indices)
    return sparse.csr_matrix((values, csr.indices, csr.indptr), shape=csr.shape, copy=False)


def queries_of_sizes(group: Any, rows: int) -> QueryIndex:
    """Return queries with the given group sizes."""
    if np.ma.is_masked(group):
        raise DataError(f"group {first_true(np.ma.getmaskarray(group))} is masked")
    queries = QueryIndex.from_sizes(group)
    if queries.n_documents != rows:
        raise DataError(
            f"there are {queries.n_documents} rows in the groups but {rows} rows of features: group"
            " must have one size per query; pass the query id of each row as qid"
        )
    return queries


def _shares_memory(converted: Any, original: Any) -> bool:
    """Return whether converted features may share memory with the input."""
    if sparse.issparse(original):
        is_csr = original.format == "csr"
        return is_csr and np.may_share_memory(converted.indices, original.indices)
    if isinstance(original, list | tuple):  # converting it again takes long
        return False
    return np.may_share_memory(converted, np.asarray(original))


def _as_float32(values: Array, columns: Array) -> Float32Array:
    """Convert numbers of these columns to float32, and warn about rounded integers."""
    converted = as_float32(values, "the features array")
    if values.dtype.kind in "iu":
        rounded_columns = np.unique(np.broadcast_to(columns, values.shape)[converted != values])
        if rounded_columns.size:
            warn_user(coarse_words(f"f{column + 1}" for column in rounded_columns))
    return converted


def read_rows(
    X: Any, names: Sequence[str] | None, categorical_feature: Any, copy: bool
) -> tuple[Features, tuple[str, ...], dict[str, Categories]]:
    """Return the features in the input to `from_arrays`, their names, and the categories of the
    categorical ones."""
    from boostrank.data.frames import as_frame, names_of, read_table, without_index

    table = as_frame(X)
    if table is None:
        features = as_features(X)
        if copy and _shares_memory(features, X):
            features = features.copy()
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
            check_codes(features[:, feature_names.index(name)], name)
        return features, feature_names, categories
    if names is not None:
        column_names = _as_names(names)
        if len(set(column_names)) < len(column_names) or len(column_names) != len(table.columns):
            raise DataError(
                f"{len(table.columns)} features need as many distinct feature names, but got"
                f" {len(column_names)}"
            )
        table = table.rename(dict(zip(table.columns, column_names, strict=True)))
    # Positions count all columns.
    categorical = named_columns(categorical_feature, names_of(table))
    if names is None:
        table = without_index(table, categorical)
    feature_names = names_of(table)
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
    query_weights, uneven_row = query_values(values, queries, "weights")
    if uneven_row is None:
        return replace(queries, weights=query_weights)
    return replace(queries, document_weights=values)


def queries_given(sizes: Any, weight: Any, rows: int) -> QueryIndex:
    """Create queries from LightGBM's group sizes and row weights (or None)."""
    if sizes is None or not len(sizes):
        raise DataError(
            "the data set has no queries: pass group sizes as group=; without them all rows would"
            " be one query"
        )
    queries = queries_of_sizes(sizes, rows)
    if weight is None or not len(weight):
        return queries
    return with_weights(queries, np.asarray(weight, dtype=np.float64).ravel())


def query_values(
    values: Float64Array, queries: QueryIndex, what: str
) -> tuple[Float64Array, int | None]:
    """Return one value per query, from values that are given per query or per row, and the first
    row whose value is not that of its query, such as NaN."""
    if values.size == queries.n_documents:
        first_values = values[queries.ptr[:-1]]
        return first_values, first_true(values != np.repeat(first_values, queries.sizes))
    if values.size == len(queries):
        return values, None
    raise DataError(
        f"there are {values.size} {what} for {len(queries)} queries and {queries.n_documents} rows;"
        " expected one per query or per row"
    )


def unknown_column(name: str, expression: GainExpression, column_names: Collection[str]) -> str:
    """Return the message about an unknown name in an expression."""
    candidates = list(dict.fromkeys([LABEL, *column_names]))
    if expression.text == name:
        candidates += ["exponential", "linear"]
    hint = did_you_mean(name, candidates, list_all=len(candidates) < 13)
    return (
        f"gain {expression.text!r}: there is no column {name!r}.{hint} Columns that are not"
        " features (--drop) are only available while a table is read, with --gain or the argument"
        " gain of boostrank.read and from_frame"
    )


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
        names = space.feature_names
        if space.index_base is None and names != default_feature_names(len(names)):
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
