"""Functions that find queries by id, and documents by rank or name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset

_RANK = re.compile(r"@\s*(\d{1,18})")
# Number of ids that an error lists, and number of ids that are compared for suggestions.
_LISTED = 10
_COMPARED = 20_000


def shown_name(row: int, data: RankingDataset) -> str:
    """Return the document's name, or its input row counted from 1, such as `row 17`."""
    name = "" if data.document_names is None else str(data.document_names[row])
    return name or f"row {_input_row(row, data)}"


def shown_value(value: float) -> str:
    """Format a feature value."""
    return "missing" if np.isnan(value) else f"{value:.6g}"


def find_query(qid: Any, queries: QueryIndex) -> int:
    """Return the position of a query, given its id or its query text.

    Raises:
        DataError: no query has this id or text, or several have it.
    """
    # Search the ids, then the query texts.
    text = str(qid).strip()
    ids, matches = queries.qid, np.zeros(0, np.int64)
    if ids.dtype.kind not in "iu":
        matches = np.flatnonzero(ids.astype(str) == text)
    elif re.fullmatch(r"[+-]?\d{1,18}", text):
        matches = np.flatnonzero(ids == int(text))
    if not matches.size and queries.words is not None:
        matches = np.flatnonzero(queries.words == text)
    if not matches.size:
        near = ids[:_COMPARED].astype(str).tolist()
        hint = did_you_mean(text, near, list_all=len(near) <= _LISTED)
        raise DataError(f"the data has no query {text!r} among {len(queries):,}.{hint}")
    if matches.size > 1:
        raise DataError(
            f"query id {text} is not unique: {matches.size} queries have it; use distinct ids, or"
            " bring the rows of each query together (boostrank data sort, sort=True)"
        )
    return int(matches[0])


def find_document(document: str, query: int, data: RankingDataset, ranks: Int64Array) -> int:
    """Return a document's row in the data set.

    Args:
        document: the document's rank (`@3`), or its name (`D7`).
        query: position of the query.
        ranks: int64[n], ranks of the query's documents in row order, from 1.

    Raises:
        DataError: no document of the query has this rank or name, or several have this name.
    """
    start, text = int(data.queries.ptr[query]), str(document).strip()
    names = np.full(ranks.size, "", dtype=object)
    if data.document_names is not None:
        names = np.asarray(data.document_names[start : start + ranks.size], dtype=object)
    rank = _RANK.fullmatch(text)
    matches = np.flatnonzero(ranks == int(rank[1]) if rank else names == text)
    if matches.size == 1:
        return start + int(matches[0])
    # Name the ranks that the query has.
    problem = f"has {matches.size} documents named {text!r}"
    if not matches.size:
        hint = did_you_mean(text, [name for name in names if name], list_all=False)
        problem = f"has no document {text!r}.{hint}"
    raise DataError(
        f"query {data.queries.describe_query(query)} {problem}; write a rank, @1 to @{ranks.size}"
    )


def _input_row(row: int, data: RankingDataset) -> int:
    return (row if data.input_rows is None else int(data.input_rows[row])) + 1
