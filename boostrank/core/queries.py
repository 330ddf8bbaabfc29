"""Index of the rows of each query."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.errors import DataError, FileFormatError, RowError
from boostrank.core.text import UNFIT_WORDS, first_unfit
from boostrank.core.types import Array, Float64Array, Int64Array, first_true, pandas_index

# Day, hours and minutes, seconds, their fraction, and zone of a time.
_TIME = re.compile(r"(\d{4,}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(?:(\.\d*?)0*)?(Z|[+-]\d\d:?\d\d)?")

Places = Callable[[int], tuple[str, int]]
"""Function that returns the source of a row as (file, line), (description, 0), or ("", row before
reordering).
"""


@dataclass(frozen=True, eq=False)
class QueryIndex:
    """An index of the rows in each query, where query q consists of the rows from ptr[q] to below
    ptr[q+1].

    Args:
        ptr: int64[Q+1], non-decreasing, ptr[0] = 0.
        qid: int64[Q] or object[Q] of str, the distinct query ids.
        weights: float64[Q], positive query weights; None for equal weights.
        k: int64[Q], the objective's cut-off rank for each query (0: the whole list); None for the
            objective's default.
        document_weights: float64[N], document weights of at least 0; None for equal weights. Each
            objective defines their effect (`ObjectiveSpec.document_weights`).
        places: source of each row for messages; None if unknown.
        words: object[Q], text of each query, or "" if unknown; None if all texts are unknown or the
            ids are the text.

    Example:
        >>> import boostrank
        >>> queries = boostrank.QueryIndex.from_ids(["a", "a", "a", "b", "b"])
        >>> queries.ptr.tolist(), queries.sizes.tolist(), queries.of_rows().tolist()
        ([0, 3, 5], [3, 2], [0, 0, 0, 1, 1])
    """

    ptr: Int64Array
    qid: Array
    weights: Float64Array | None = None
    k: Int64Array | None = None
    document_weights: Float64Array | None = None
    places: Places | None = field(default=None, repr=False)
    words: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        ptr = np.require(self.ptr, np.int64, ["C", "W"])  # compiled code takes no read-only arrays
        put("ptr", ptr)
        if ptr.ndim != 1 or ptr.size < 1 or ptr[0] != 0 or np.any(ptr[1:] < ptr[:-1]):
            raise DataError("query boundaries must start at 0 and never decrease")
        for name, values in {
            "query ids": self.qid,
            "weights": self.weights,
            "k": self.k,
            "words": self.words,
        }.items():
            if values is not None and np.shape(values) != (ptr.size - 1,):
                raise DataError(
                    f"there are {ptr.size - 1} queries, but {name} of shape {np.shape(values)}"
                )
        if self.weights is not None:
            weights = np.ascontiguousarray(self.weights, dtype=np.float64)
            put("weights", weights)
            query = first_true(~(np.isfinite(weights) & (weights > 0)))
            if query is not None:
                raise DataError(
                    f"query {self.qid[query]}: weight {weights[query]} is not a positive finite"
                    " number; remove a query of weight zero from the data"
                )
            with np.errstate(over="ignore"):
                total = float(weights.sum())
            if not np.isfinite(total):
                raise DataError(
                    f"the sum of the weights, up to {weights.max():g}, overflows: divide them by a"
                    " constant"
                )
        if self.k is not None:
            k = np.asarray(self.k)
            query = first_true((k % 1 != 0) | (k < 0) | (k >= 2.0**63))
            if query is not None:
                raise DataError(
                    f"query {self.qid[query]}: k={k[query]} is not a whole number of at least 0"
                )
            put("k", k.astype(np.int64))
        if self.document_weights is not None:
            weights = np.ascontiguousarray(self.document_weights, dtype=np.float64)
            put("document_weights", weights)
            if weights.shape != (self.n_documents,):
                raise DataError(
                    f"there are {self.n_documents} rows, but document weights of shape"
                    f" {weights.shape}"
                )
            row = first_true(~(np.isfinite(weights) & (weights >= 0)))
            if row is not None:
                raise self.row_error(
                    row, f"weight {weights[row]} is not a finite number of at least 0"
                )

    @classmethod
    def from_sizes(
        cls, sizes: Sequence[int] | Array, *, weights: ArrayLike | None = None
    ) -> QueryIndex:
        """Create an index from group sizes in row order, as in LightGBM. Query ids are numbers from
        0.

        Raises:
            DataError: if a size is not a positive whole number, or the sizes have an index whose
                order may differ from the rows.
        """
        # Refuse a pandas index that was sorted or filtered: its order may differ from the rows.
        index = pandas_index(sizes)
        if index is not None and (
            type(index).__name__ != "RangeIndex" or index.start != 0 or index.step != 1
        ):
            labels = ", ".join(map(repr, index[:3].tolist()))
            raise DataError(
                f"group has the index {labels}, ..., whose order may not be that of the rows: pass"
                " the query id of each row as qid, or group=sizes.to_numpy() if the order is the"
                " same"
            )
        # Turn positive whole numbers into the first row of each query.
        counts = _to_int64(sizes)
        if counts is None or counts.ndim != 1:
            raise DataError(
                "group sizes must be a list of whole numbers, one per query; pass the query id of"
                " each row as qid"
            )
        group = first_true(counts <= 0)
        if group is not None:
            raise DataError(
                f"group {group} has size {counts[group]}, but every query needs at least one row;"
                " pass query ids as qid"
            )
        ptr = np.append(0, np.cumsum(counts))
        if ptr.min() < 0:
            raise DataError("the sum of the group sizes overflows")
        return cls(ptr, np.arange(counts.size, dtype=np.int64), weights)  # type: ignore[arg-type]

    @classmethod
    def from_ids(cls, ids: ArrayLike, *, weights: ArrayLike | None = None) -> QueryIndex:
        """Create an index from one query id per row. Each query's rows must be contiguous.

        Raises:
            DataError: if an id is missing, or reappears after another query.
        """
        row_ids = checked_ids(ids)
        is_start = np.append(True, row_ids[1:] != row_ids[:-1])[: row_ids.size]
        starts = np.flatnonzero(is_start)
        run_ids = row_ids[starts]
        first_runs = query_numbers(run_ids)
        repeated = first_true(first_runs != np.arange(first_runs.size))
        if repeated is not None:
            raise DataError(
                f"query {run_ids.tolist()[repeated]!r} appears again at row {starts[repeated]}"
                f" (0-based) after ending near row {starts[first_runs[repeated]]}: the rows of a"
                " query must be contiguous; sort them stably by query id (sort=True, or"
                " BoostRanker(sort=True)). If the ids are the sizes of the queries, pass the query"
                " id of each row"
            )
        ptr = np.append(starts, row_ids.size).astype(np.int64)
        if run_ids.dtype.kind in "iu" and not np.any(run_ids > np.iinfo(np.int64).max):
            run_ids = run_ids.astype(np.int64)
        else:
            run_ids = as_text(run_ids)
            unfit = first_unfit(run_ids)
            if unfit is not None:
                raise DataError(
                    f"the query id {run_ids[unfit]!r} of row {starts[unfit]} (0-based) contains"
                    f" {UNFIT_WORDS}: rename the query"
                )
        return cls(ptr, run_ids, weights)  # type: ignore[arg-type]

    @classmethod
    def of(cls, ids_or_sizes: QueryIndex | ArrayLike, documents: int) -> QueryIndex:
        """Create an index from query ids (one per row) or group sizes, which are distinguished by
        their number.

        Raises:
            DataError: as in `from_ids` and `from_sizes`, or if neither or both match the number of
                documents.
        """
        if isinstance(ids_or_sizes, QueryIndex):
            return ids_or_sizes
        entries = checked_ids(ids_or_sizes)
        if entries.dtype.kind in "iu" and entries.sum() == documents:
            if entries.size != documents:
                return cls.from_sizes(ids_or_sizes)  # type: ignore[arg-type]
            if documents > 1 and np.all(entries == 1):
                raise DataError(
                    f"{documents} ones for {documents} documents may be query ids (one query) or"
                    " group sizes (one document each): use QueryIndex.from_ids(...) or"
                    " QueryIndex.from_sizes(...)"
                )
        if entries.shape != (documents,):
            raise DataError(
                f"the queries have shape {entries.shape} for {documents} documents; pass one id per"
                f" document or group sizes that sum to {documents}"
            )
        return cls.from_ids(entries)

    def __len__(self) -> int:
        return int(self.ptr.size - 1)

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return int(self.ptr[-1])

    @property
    def sizes(self) -> Int64Array:
        """Number of documents in each query, int64[Q]."""
        return np.diff(self.ptr)

    @property
    def longest(self) -> int:
        """Size of the longest query, or 0 if there are no queries."""
        return int(self.sizes.max(initial=0))

    @property
    def each_weight(self) -> Float64Array:
        """Query weights, float64[Q], which are 1 if no weights were given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def row_ids(self) -> Array:
        """Return the query id of every row."""
        return np.repeat(self.qid, self.sizes)

    def of_rows(self) -> Int64Array:
        """Return the query of every row by position (not id), int64[N]."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def of_row(self, row: int) -> int:
        """Return the query of a row by position (not id)."""
        return int(np.searchsorted(self.ptr, row, side="right") - 1)

    def __repr__(self) -> str:
        weights = "" if self.weights is None else ", with weights"
        return f"QueryIndex({len(self):,} queries of {self.n_documents:,} documents{weights})"

    def describe_query(self, query: int) -> str:
        """Return the id of the query at a position with its text, such as `7: red shoe`."""
        query_text = "" if self.words is None else f": {self.words[query]}"
        return f"{self.qid[query]}{query_text}".removesuffix(": ")

    def row_error(self, row: int, reason: str) -> DataError:
        """Return an error for a row, with its source and its query."""
        name, number = ("", row) if self.places is None else self.places(row)
        query = f"query {self.describe_query(self.of_row(row))}"
        if not name:
            return DataError(f"row {number} (from 0, {query}): {reason}")
        return FileFormatError(f"{query}: {reason}", file=name, line=number)

    @contextlib.contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Convert a `RowError` that is raised in the block with `row_error`."""
        try:
            yield
        except RowError as error:
            raise self.row_error(error.row, error.reason) from None

    def ranks(self, scores: ArrayLike) -> Int64Array:
        """Rank the documents in each query, int64[N], where 1 is best and ties keep the row
        order.
        """
        order = np.lexsort((-np.asarray(scores, dtype=np.float64), self.of_rows()))
        ranks = np.empty(order.size, np.int64)
        ranks[order] = np.arange(order.size) - np.repeat(self.ptr[:-1], self.sizes) + 1
        return ranks

    def sample(self, documents: int, seed: int) -> Int64Array:
        """Sample whole queries with about `documents` documents in total, and return the sorted
        query positions.
        """
        # Fix the number of queries in advance: stopping at a number of documents would favour short
        # lists.
        count = len(self)
        if documents >= self.n_documents:
            return np.arange(count)
        n_chosen = max(1, count * documents // self.n_documents)
        return np.sort(np.random.default_rng(seed).permutation(count)[:n_chosen])

    def blocks(self, documents: int) -> list[tuple[int, int]]:
        """Split the queries into ranges with about `documents` documents and at least one query
        each.
        """
        marks = np.arange(documents, self.n_documents, documents)
        cuts = np.unique(np.concatenate([[0], np.searchsorted(self.ptr, marks), [len(self)]]))
        return list(pairwise(cuts.tolist()))

    def take(self, queries: ArrayLike) -> tuple[QueryIndex, Int64Array]:
        """Select whole queries in the given order, and return their index and their row numbers in
        this one, int64.
        """
        choice = np.asarray(queries)
        if choice.dtype != bool:  # numbers, as opposed to a mask
            choice = choice.astype(np.int64)
        selected = np.arange(len(self))[choice]  # negative numbers count from the end
        sizes = self.sizes[selected]
        ptr = np.append(0, np.cumsum(sizes))
        rows = np.arange(ptr[-1]) + np.repeat(self.ptr[selected] - ptr[:-1], sizes)

        def select(values: Any, positions: Int64Array = selected) -> Any:
            return None if values is None else values[positions]

        index = QueryIndex(
            ptr,
            self.qid[selected],
            select(self.weights),
            select(self.k),
            select(self.document_weights, rows),
            self.places and PlacesOf(self.places, rows),
            select(self.words),
        )
        return index, rows


@dataclass(frozen=True, eq=False)
class PlacesOf:
    """The sources of some rows in a table, which are row numbers if `places` is None."""

    places: Places | None
    rows: Int64Array

    def __call__(self, row: int) -> tuple[str, int]:
        row = int(self.rows[row])
        return ("", row) if self.places is None else self.places(row)


def _to_int64(values: Any) -> Int64Array | None:
    """Convert to int64, or return None if a value is not a whole number or is too large."""
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind == "c":
            return None
        with np.errstate(invalid="ignore"):  # NaN
            integers = numbers.astype(np.int64, copy=False)
        return integers if np.array_equal(integers, numbers) else None
    except (TypeError, ValueError, OverflowError):
        return None


def checked_ids(ids: ArrayLike) -> Array:
    """Return the query ids of rows, [N], as int64 (uint64 if large) or text, or raise `DataError`
    for other ids.
    """
    # NumPy would turn the numbers of a mixed list into text, and zoned times of polars and Arrow to
    # UTC. It lacks integers of 128 bits.
    if isinstance(ids, np.ma.MaskedArray):
        row = first_true(np.ma.getmaskarray(ids))
        if row is not None:
            raise DataError(f"row {row} has no query id: it is masked")
    dtype = getattr(ids, "dtype", None)
    zone = getattr(dtype, "time_zone", None) or getattr(getattr(ids, "type", None), "tz", None)
    if zone or str(dtype) in ("Int128", "UInt128"):
        ids = list(getattr(ids, "to_pylist", getattr(ids, "to_list", None))())  # type: ignore[misc]
    array = np.fromiter(ids, object, len(ids)) if isinstance(ids, list | tuple) else np.asarray(ids)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"query ids must be one per row, not of shape {array.shape}")
    kind = array.dtype.kind
    if kind in "cVm":
        raise DataError(
            f"query ids must be whole numbers or text, not {array.dtype}; convert them to text"
        )
    if kind == "M":
        times, of_row = np.unique(array, return_inverse=True)
        row = first_true(np.isnat(array)) or 0
        texts = np.fromiter((_id_of_object(value, row) for value in times), object, times.size)
        return texts[of_row]
    if kind in "SOT":
        return _ids_of_objects(array.astype(object))
    if kind == "b":
        return array.astype(np.int64)
    if kind != "f":
        return array
    row = first_true(~np.isfinite(array))
    if row is not None:
        raise DataError(f"row {row} has no query id")
    integers = _to_int64(array)
    if integers is None:
        raise DataError("query ids must be whole numbers or text; convert them to text")
    limit = 2 ** (np.finfo(array.dtype).nmant + 1)
    row = first_true(abs(integers) >= limit)
    if row is not None:
        raise DataError(
            f"row {row}: the query id {integers[row]} is a {array.dtype}, which rounds whole"
            f" numbers from {limit:,}: read query ids as integers or text"
        )
    return integers


def ids_of_rows(ids: ArrayLike, rows: int) -> Array:
    """Return `checked_ids`, and raise `DataError` unless there is one id per row."""
    checked = checked_ids(ids)
    if checked.size != rows:
        raise DataError(
            f"there are {checked.size:,} query ids (qid) but {rows:,} rows of features; pass one"
            " id per row, or sizes of queries as group"
        )
    return checked


def _ids_of_objects(objects: Array) -> Array:
    """Return ids that are Python objects as text or int64, or unchanged if int64 is too small."""
    if set(map(type, objects)) == {str}:
        return objects
    ids = np.fromiter(
        (_id_of_object(value, row) for row, value in enumerate(objects)), object, objects.size
    )
    kinds = list(map(type, ids))
    if len(set(kinds)) > 1:
        row = max(kinds.index(str), kinds.index(int))
        raise DataError(
            f"query ids are of two kinds (row 0 has {ids[0]!r}, row {row} {ids[row]!r}): make all"
            " of them text, or all whole numbers"
        )
    integers = None if str in kinds else _to_int64(ids)
    return ids if integers is None else integers


_MISSING_IDS = "<na> nat nan inf -inf infinity -infinity".split()


def _id_of_object(value: Any, row: int) -> int | str:
    if isinstance(value, str):
        return str(value)  # not of a subclass, such as np.str_
    if value is None or str(value).lower() in _MISSING_IDS:
        raise DataError(f"row {row} has no query id")
    if isinstance(value, date | time | np.datetime64) or type(value).__name__ == "Period":
        return time_text(str(value).replace("T", " "))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError(
                f"the query id of row {row}, {value!r}, is not valid UTF-8; convert ids to text"
            ) from None
    numeric = isinstance(value, int | float | Decimal | np.integer | np.floating | np.bool_)
    rounded = isinstance(value, float) and abs(value) >= 2**53
    if numeric and int(value) == value and not rounded:  # type: ignore[arg-type]
        return int(value)  # type: ignore[arg-type]
    raise DataError(
        f"query ids must be whole numbers or text, one-dimensional: row {row} has {value!r}, of"
        f" type {type(value).__name__}; convert them to text"
    )


def time_text(word: str) -> str:
    """Return a time as in query ids: its day at midnight, else without zeros at the end
    (`10:00:00.5`).
    """
    parts = _TIME.fullmatch(word)
    if parts is None:
        return word
    clock = parts[2] + (parts[3] or ":00") + (parts[4] or "").rstrip(".")
    if clock == "00:00:00":
        return parts[1]
    zone = (parts[5] or "").replace(":", "").replace("Z", "+0000")
    return f"{parts[1]} {clock}" + re.sub("(...)(..)", r"\1:\2", zone)


def as_text(ids: Array) -> Array:
    """Return ids of any type as texts, object[n]."""
    return np.fromiter(map(str, ids), object, ids.size)


def query_numbers(ids: Array) -> Int64Array:
    """Number the queries of rows, int64[N], from 0 in order of first appearance."""
    if ids.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        return np.fromiter(
            (numbers.setdefault(query_id, len(numbers)) for query_id in ids), np.int64, ids.size
        )
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], np.int64)
