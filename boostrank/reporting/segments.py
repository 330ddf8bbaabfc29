"""Query segments, weighted means over queries with bootstrap intervals, and adjusted p-values."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import (
    DataError,
    DataWarning,
    FileFormatError,
    ParameterError,
    warn_user,
)
from boostrank.core.files import path_of, read_text
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import RESAMPLES, bootstrap_intervals
from boostrank.core.types import Array, BoolArray, Float64Array, Int64Array
from boostrank.data.roles import DEFAULTS, is_among
from boostrank.files.tables import query_name

# With fewer queries, a bootstrap interval is unreliable, whereas exact p-values remain reliable.
FEWEST_FOR_INTERVAL = 20

TIE = 1e-12
"""The largest difference that is attributed to rounding."""

NEGLIGIBLE = 0.001
"""The default for the largest negligible difference in a metric."""

NO_SEGMENT = "(none)"
# A larger number of segments suggests that the wrong column was used, such as ids.
MOST_SEGMENTS = 1_000
_SHORTEST = (1, 2, 10, 30, 100)
_LENGTHS = ("1 document", "2 to 9", "10 to 29", "30 to 99", "100 or more")
_MOST_LABELS = 8


class Segmentation(NamedTuple):
    """A partition of the queries.

    Args:
        kind: segmentation criterion, such as "list length".
        of_query: int64[Q], position of each query's segment in `names`.
    """

    kind: str
    names: tuple[str, ...]
    of_query: Array

    @property
    def name_of_query(self) -> Array:
        """The name of each query's segment, [Q]."""
        return np.array(self.names, object)[self.of_query]

    def split(self, included: BoolArray) -> Iterator[tuple[str, BoolArray]]:
        """Yield the name and the included queries, bool[Q], of each segment that has any."""
        for i in np.unique(self.of_query[included]).tolist():
            yield self.names[i], included & (self.of_query == i)


def by_length(queries: QueryIndex) -> Segmentation:
    """Segment queries by their number of documents."""
    of_query = np.maximum(np.searchsorted(_SHORTEST, queries.sizes, side="right") - 1, 0)
    return Segmentation("list length", _LENGTHS, of_query)


def best_labels(labels: Float64Array, queries: QueryIndex) -> Float64Array:
    """Return the largest label of each query, float64[Q], or -inf for a query without documents."""
    best = np.full(len(queries), -np.inf)
    has_documents = queries.sizes > 0
    best[has_documents] = np.maximum.reduceat(labels, queries.ptr[:-1][has_documents])
    return best


def by_best_label(labels: Float64Array, queries: QueryIndex) -> Segmentation:
    """Segment queries by their largest label, or by its sign if there are many distinct labels."""
    best = best_labels(labels, queries)
    values, of_query = np.unique(best, return_inverse=True)
    names = tuple(f"{value:g}" for value in values.tolist())
    if values.size > _MOST_LABELS:
        return Segmentation("best label", ("0 or less", "above 0"), (best > 0.0).astype(int))
    return Segmentation("best label", names, of_query)


def by_table(table: Mapping[Any, Any], queries: QueryIndex) -> Segmentation:
    """Segment queries by query id, compared as text. Queries not in the table get `NO_SEGMENT`,
    with a warning.
    """
    segments = {query_name(str(qid)): str(segment) for qid, segment in table.items()}
    qids = [str(qid) for qid in queries.qid.tolist()]
    n_missing = sum(qid not in segments for qid in qids)
    if n_missing == len(qids):
        raise DataError(
            f"none of the {len(qids):,} queries of the data is among the {len(segments):,} with a"
            " segment"
        )
    if n_missing:
        warn_user(
            f"{n_missing:,} of {len(qids):,} queries have no segment and are shown as {NO_SEGMENT}",
            DataWarning,
        )
    of_query = np.array([segments.get(qid, NO_SEGMENT) for qid in qids], dtype=object)
    names, segment_positions = np.unique(of_query, return_inverse=True)
    if names.size > MOST_SEGMENTS:
        raise DataError(f"there are {names.size:,} segments, but the limit is {MOST_SEGMENTS:,}")
    return Segmentation("segment", tuple(names.tolist()), segment_positions)


def read_segments(path: str | PathLike[str]) -> dict[str, str]:
    """Read each query id's segment from a CSV or TSV file with two columns and an optional
    `qid,...` header.

    Raises:
        FileFormatError: a row without two filled cells, or a query that occurs twice.
    """
    name, text = os.fspath(path), read_text(path, errors="backslashreplace")
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    table: dict[str, str] = {}
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells) or (
                rows.line_num == 1 and is_among(cells[0], chain(*DEFAULTS["qid"]))
            ):
                continue
            qid = query_name(cells[0])
            if len(cells) != 2 or not all(cells) or "\n" in cells[1] or qid in table:
                raise csv.Error("the row must have a query id that no other row has, and a segment")
            table[qid] = cells[1]
    except csv.Error as error:
        raise FileFormatError(str(error), file=name, line=rows.line_num) from None
    if not table:
        raise FileFormatError("the file has no segments; add lines such as 817,mobile", file=name)
    return table


def segmentations(
    table: Mapping[Any, Any] | str | PathLike[str] | None, labels: Float64Array, queries: QueryIndex
) -> tuple[Segmentation, ...]:
    """Return the segmentations by table, if a table is given, by list length and by best label."""
    built_in = by_length(queries), by_best_label(labels, queries)
    if table is None:
        return built_in
    if not isinstance(table, Mapping):
        if path_of(table) is None:
            raise ParameterError("segments must be a mapping from query ids, or a path")
        table = read_segments(table)
    return by_table(table, queries), *built_in


def holm(p: npt.ArrayLike) -> Float64Array:
    """Adjust p-values for multiple tests, so that the chance of any false rejection at level alpha
    is at most alpha.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics
        6, 1979.
    """
    p_values = np.asarray(p, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    step_down = np.maximum.accumulate(p_values[order] * np.arange(p_values.size, 0, -1))
    return np.minimum(step_down, 1.0)[np.argsort(order)]


class Means(NamedTuple):
    """The means of columns, with their intervals.

    Args:
        mean: float64[m], means weighted by query weights, or NaN without an included query.
        low, high: float64[m], 95% bootstrap intervals over queries, or NaN with fewer than two
            queries.
        queries: int64[m], numbers of included queries.
    """

    mean: Float64Array
    low: Float64Array
    high: Float64Array
    queries: Int64Array


def means_over_queries(
    values: Float64Array, weights: Float64Array, *, seed: int, resamples: int = RESAMPLES
) -> Means:
    """Return the mean of each column over the queries that it includes.

    Columns with the same queries share resamples, so intervals of difference columns are paired.

    Args:
        values: float64[Q, m], with NaN for excluded queries.
        weights: float64[Q], positive.
        resamples: number of resamples. `compare` uses `PAIRED_RESAMPLES`.
    """
    included = ~np.isnan(values)
    mean, low, high = np.full((3, values.shape[1]), np.nan)
    # Group the columns that include the same queries. np.unique is slow on long columns.
    columns_by_queries: dict[bytes, list[int]] = {}
    for column, rows in enumerate(included.T):
        columns_by_queries.setdefault(rows.tobytes(), []).append(column)
    for columns in columns_by_queries.values():
        rows = included[:, columns[0]]
        included_values, row_weights = np.ascontiguousarray(values[rows][:, columns]), weights[rows]
        if len(row_weights):
            mean[columns] = (row_weights / row_weights.sum()) @ included_values
            low[columns], high[columns] = bootstrap_intervals(
                included_values, row_weights, seed=seed, resamples=resamples
            )
    return Means(mean, low, high, queries=included.sum(axis=0))
