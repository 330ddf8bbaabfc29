"""Arrays, sparse matrices and data frames, and what is given beside them, as what a data set holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex, checked_ids, query_numbers
from boostrank.core.types import (
    Float64Array,
    Int64Array,
    as_numbers,
    check_in_step,
    check_real,
    masked_as_missing,
)
from boostrank.data.categories import EXACT, Categories, Float32Cast, check_codes, named_columns
from boostrank.data.row_places import InputRows

Features = Any
"""float32[N, d] C-ordered, a float32 `scipy.sparse.csr_matrix`, or `data.rows.Rows`."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """What `RankingDataset.from_arrays` was given, checked; see there."""

    features: Features
    labels: Float64Array
    queries: QueryIndex
    names: tuple[str, ...]
    input_rows: Int64Array | None
    categories: dict[str, Categories]


def read_arrays(
    X: Any,
    y: npt.ArrayLike,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    weight: npt.ArrayLike | None,
    document_weight: npt.ArrayLike | None,
    k: npt.ArrayLike | None,
    feature_names: Sequence[str] | None,
    sort: bool,
    categorical_feature: Any,
    copy: bool,
) -> Arrays:
    """Features, labels and queries of arrays or a data frame; arguments and errors of `RankingDataset.from_arrays`."""
    if (qid is None) == (group is None):
        raise DataError("give one of the two: qid= (one id a row) or group= (sizes of the queries)")
    check_in_step(X=X, y=y, qid=qid, weight=weight, document_weight=document_weight, k=k)
    features, names, categories = _read_rows(X, feature_names, categorical_feature, copy)
    blank = [i for i, name in enumerate(names) if not str(name).strip()]
    if blank:
        raise DataError(f"feature {blank[0]} (from 0) has a blank name: give it another")
    labels = _owned(as_numbers(y, "labels"), y)
    rows: Int64Array | None = None
    if qid is not None:
        ids = checked_ids(_without_mask(qid, "query id"))
        if sort:
            if not ids.size == features.shape[0] == labels.size:
                raise DataError(
                    f"{ids.size} query ids and {labels.size} labels for {features.shape[0]} rows of features"
                )
            rows = np.argsort(query_numbers(ids), kind="stable").astype(np.int64)
            if np.array_equal(rows, np.arange(rows.size)):
                rows = None
            else:
                ids, features, labels = ids[rows], features[rows], labels[rows]
        queries = QueryIndex.from_ids(ids)
    else:
        queries = queries_of_sizes(group, features.shape[0])
    if rows is not None:
        queries = replace(queries, places=InputRows(rows))
    if queries.n_documents != features.shape[0]:
        what = "query ids" if qid is not None else "rows in the groups"
        raise DataError(f"{queries.n_documents} {what} but {features.shape[0]} rows of features")

    def in_order(given: npt.ArrayLike, what: str) -> Float64Array:
        values = _owned(as_numbers(_without_mask(given, f"entry in {what}"), what), given)
        return values if rows is None or values.size != rows.size else values[rows]

    if weight is not None:
        queries = with_weights(queries, in_order(weight, "weights"))
    if document_weight is not None:
        if queries.document_weights is not None:
            raise DataError(
                "weight= differs within a query, and so weighs documents, as document_weight= does: give one"
            )
        values = in_order(document_weight, "document weights")
        if values.size != queries.n_documents:
            raise DataError(f"{values.size} document weights for {queries.n_documents} rows: give one a row")
        queries = replace(queries, document_weights=values)
    if k is not None:
        cutoffs: Any = query_values(in_order(k, "cut-offs"), queries, "cut-offs")
        queries = replace(queries, k=cutoffs)
    return Arrays(features, labels, queries, names, rows, categories)


def read_frame(frame: Any, label: str, qid: str, weight: str | None, drop: Sequence[str]) -> tuple[Any, Any, Any, Any]:
    """(table of the features, labels, query ids, weights or None) of a data frame.

    Raises:
        DataError: no data frame, or a column that is not there.
    """
    from boostrank.data.frames import as_frame, names_of, values_of

    table = as_frame(frame)
    if table is None:
        raise DataError(f"{type(frame).__name__} is no data frame: from_arrays takes arrays")
    if label is None or qid is None or not isinstance(drop, Iterable):
        raise DataError("label and qid each name a column of the data frame, and drop is a list of some")
    names, dropped = names_of(table), list(map(str, drop))
    wanted = [str(c) for c in (label, qid, weight) if c is not None]
    for column in (*wanted, *dropped):
        if column not in names:
            raise DataError(f"the data frame has no column {column!r}; it has {', '.join(names)}")
    y, ids, *weights = (values_of(table, names.index(column)) for column in wanted)
    kept = [i for i, name in enumerate(names) if name not in (*wanted, *dropped)]
    return table[:, kept], y, ids, next(iter(weights), None)


def read_columns(frame: Any, names: Sequence[str]) -> dict[str, Float64Array]:
    """Those of these columns that a data frame has, float64[N], NaN where they are missing.

    Raises:
        DataError: a column that holds no numbers.
    """
    from boostrank.data.frames import as_frame, names_of, values_of

    table = as_frame(frame)
    there, found = names_of(table), {}
    for name in names:
        if name in there:
            try:
                found[name] = as_numbers(values_of(table, there.index(name)), "values")
            except DataError:
                raise DataError(f"column {name!r} is in the gain, and holds no numbers") from None
    return found


_MOST_COLUMNS = 2**24  # as `max_feature` of files


class NumberedNames(tuple[str, ...]):
    """Names of features that merely number them: distinct, which of millions takes seconds to look up."""


def default_feature_names(columns: int, base: int = 1) -> NumberedNames:
    """`f1`, `f2`, ...: the name says the number that the feature has in its file."""
    return NumberedNames(f"f{i}" for i in range(base, base + columns))


def as_features(X: Any) -> Features:
    """float32[N, d] in C order, or a float32 CSR matrix.

    Raises:
        DataError: not two-dimensional, not numeric, or a finite value that float32 cannot hold.
    """
    if sparse.issparse(X):
        if X.ndim != 2:
            raise DataError(f"features must be two-dimensional, not of shape {X.shape}")
        _check_sparse(X)
        matrix = sparse.csr_matrix(X)
        check_real(matrix.data, "features")
        if not matrix.has_canonical_format:  # summed in place: not in the caller's buffers
            matrix = matrix.copy()
            matrix.sum_duplicates()
        if matrix.dtype != np.float32:
            matrix = sparse.csr_matrix(
                (_as_float32(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape, copy=False
            )
        return matrix
    try:
        array = X.to_numpy() if hasattr(X, "to_numpy") else np.asanyarray(X)
    except ValueError as error:
        raise DataError(f"features must be two-dimensional: {error}") from None
    if array.ndim != 2:
        raise DataError(f"features must be two-dimensional, not of shape {array.shape}")
    check_real(array, "features")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"features must be numbers: {error}; encode text columns first") from None
    return np.ascontiguousarray(_as_float32(masked_as_missing(array)))


def _check_sparse(X: Any) -> None:
    """Refuse, before compiled code follows them, indices that point outside the matrix.

    Raises:
        DataError: what SciPy finds wrong.
    """
    try:
        if X.format in ("csr", "csc", "bsr"):
            if np.any(np.diff(X.indptr, prepend=0) < 0) or X.indptr[-1] > len(X.indices):  # SciPy looks if nnz > 0
                raise ValueError("indptr must begin with 0, never descend, and end within the indices")
            X.check_format(full_check=True)
        elif X.format == "coo" and X.nnz:
            for axis, (indices, length) in enumerate(zip((X.row, X.col), X.shape, strict=True)):
                if int(indices.min()) < 0 or int(indices.max()) >= length:
                    raise ValueError(f"an index of axis {axis} is outside 0 to {length - 1}")
    except ValueError as error:
        raise DataError(f"the sparse matrix is broken: {error}") from None


def queries_of_sizes(group: Any, rows: int) -> QueryIndex:
    """Queries by their sizes, `group=`, of so many rows.

    Raises:
        DataError: what are no positive whole numbers, or ids of the rows.
    """
    sizes = _without_mask(group, "group size")
    if np.shape(sizes) == (rows,) and np.any(np.asarray(sizes) != 1):
        raise DataError(
            f"group= holds one entry for each of the {rows:,} rows: ids are given by qid=; group= takes sizes, one a "
            "query, that add up to the rows"
        )
    return QueryIndex.from_sizes(sizes)


def _without_mask(values: Any, what: str) -> Any:
    """What is given beside features and labels, of which nothing may be masked."""
    if getattr(getattr(values, "dtype", None), "names", None):
        raise DataError(f"a structured array holds several numbers a row: take the field with the {what}")
    if np.ma.is_masked(values):
        raise DataError(f"row {int(np.flatnonzero(np.ma.getmaskarray(values))[0])} has no {what}: it is masked")
    return values.data if np.ma.isMaskedArray(values) else values


def _owned(found: Any, given: Any) -> Any:
    """What was made of an array or a matrix, in memory of its own: what is done to it later changes no data set."""
    if isinstance(found, np.ndarray):  # a list has no memory to share
        shared = not isinstance(given, list | tuple) and np.may_share_memory(found, np.asarray(given))
        return found.copy() if shared else found
    shared = sparse.issparse(given) and given.format == "csr" and np.may_share_memory(found.indices, given.indices)
    return found.copy() if shared else found


def _as_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        out = values.astype(np.float32)
    lost = np.isinf(out) & np.isfinite(values)
    if bool(lost.any()):
        where = tuple(int(i[0]) for i in np.nonzero(lost))
        raise DataError(f"feature value {values[where]!r} at {where} does not fit in float32; rescale the column")
    if values.dtype.kind in "iu" and values.ndim == 2 and values.size and max(-out.min(), out.max()) >= EXACT:
        cast = Float32Cast()
        for column, name in enumerate(default_feature_names(values.shape[1])):
            cast.cast(values[:, column], name)
        cast.warn()
    return out


def _read_rows(
    X: Any, names: Sequence[str] | None, categorical_feature: Any, copy: bool
) -> tuple[Features, tuple[str, ...], dict[str, Categories]]:
    """Features, names and categories of whatever `from_arrays` is given."""
    table = None
    if not isinstance(X, np.ndarray) and not sparse.issparse(X):
        from boostrank.data.frames import FrameReader, as_frame, names_of

        table = as_frame(X)
    if table is None:
        features = _owned(as_features(X), X) if copy else as_features(X)
        if features.shape[1] > _MOST_COLUMNS:  # each of which gets a name, also where nothing stands in it
            raise DataError(
                f"features have {features.shape[1]:,} columns, more than {_MOST_COLUMNS:,}: leave out those without a "
                "value, or hash their names into fewer"
            )
        found = _as_names(names) if names is not None else default_feature_names(features.shape[1])
        categories = {name: Categories() for name in named_columns(categorical_feature, found)}
        for name in categories if len(found) == features.shape[1] else ():
            column = features[:, found.index(name)]
            check_codes(column.data if sparse.issparse(column) else column, name)
        return features, found, categories
    if names is not None:
        given = _as_names(names)
        if len(set(given)) < len(given) or len(given) != len(table.columns):
            raise DataError(f"{len(table.columns)} features need as many distinct feature names, not {len(given)}")
        table = table.rename(dict(zip(table.columns, given, strict=True)))
    found = names_of(table)
    reader = FrameReader(found, categorical=named_columns(categorical_feature, found))
    features = reader.read(table)
    reader.warn()
    return features, found, reader.categories


def _as_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Feature names as text; numbers, which tables often have for names, count as such."""
    if isinstance(names, str | set | frozenset) or not isinstance(names, Iterable):
        raise DataError(f"feature_names={names!r} is no list of names, which has an order: give one")
    odd = [name for name in names if not isinstance(name, str | int | np.integer)]
    if odd:
        raise DataError(f"feature names must be text, not {odd[0]!r}")
    return tuple(map(str, names))


def with_weights(queries: QueryIndex, values: Float64Array) -> QueryIndex:
    """Queries with weights: of queries, where there is one each, or one a row that is the same within every query; else
    of documents.

    Args:
        queries: of N documents.
        values: float64[Q] or [N].

    Raises:
        DataError: neither length fits; a weight that is not finite, negative, or 0 of a query.
    """
    # What is not a number differs from itself, and is refused as a document's, by its row.
    if values.size == queries.n_documents and np.any(values != np.repeat(values[queries.ptr[:-1]], queries.sizes)):
        return replace(queries, document_weights=values)
    return replace(queries, weights=query_values(values, queries))


def query_values(values: Float64Array, queries: QueryIndex, what: str = "weights") -> Float64Array:
    """One number a query, from one a query or one a row.

    Raises:
        DataError: neither length fits, or rows of one query differ.
    """
    if values.size == len(queries) and values.size != queries.n_documents:
        return values
    if values.size != queries.n_documents:
        raise DataError(
            f"{values.size} {what} for {len(queries)} queries and {queries.n_documents} rows: give one a query, or "
            "one a row"
        )
    firsts = values[queries.ptr[:-1]]
    uneven = np.flatnonzero(values != np.repeat(firsts, queries.sizes))
    if uneven.size:
        q = queries.of_row(int(uneven[0]))
        raise DataError(f"query {queries.qid[q]}: its rows have different {what}; a query has one")
    return firsts
