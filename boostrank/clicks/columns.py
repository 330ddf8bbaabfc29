"""Clicks in columns of the data's own table, next to the features.

Each row is a document at one position. Rows of a query with the same value in the document column are one document,
with the features of its first row. Without a document column, each row is a separate document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.log import MOST, ClickLog, some_documents
from boostrank.clicks.propensities import MAX_POSITION
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.columns import DEFAULTS
from boostrank.data.dataset import RankingDataset
from boostrank.data.tables import batches, header_of, whole_numbers


@dataclass(frozen=True)
class ClickColumns:
    """Column names.

    Args:
        position: position at which the document was shown, from 1; may be empty if it never was.
        impressions: number of impressions there; 0 if never shown.
        clicks: number of clicks there.
        document: document id within its query; None if each row is a separate document.
    """

    position: str = "position"
    impressions: str = "impressions"
    clicks: str = "clicks"
    document: str | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> ClickColumns:
        """Create from three or four names, in the order of the fields."""
        if len(names) not in (3, 4) or len(set(names)) < len(names):
            raise ParameterError(
                f"columns of clicks are position, impressions, clicks and optionally the document: three or four "
                f"names, not {', '.join(names)}"
            )
        return cls(*names)

    @property
    def names(self) -> tuple[str, ...]:
        """The given names."""
        return tuple(filter(None, (self.position, self.impressions, self.clicks, self.document)))


@dataclass(frozen=True, eq=False)
class ClickRows:
    """Validated values of the click columns.

    Args:
        positions, impressions, clicks: int64[N]; position 1 where there are no impressions.
        documents: int64[N], codes of the document ids; None if each row is a separate document.
        queries: int64[N], codes of the query ids, if they were read.
    """

    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    documents: Int64Array | None = None
    queries: Int64Array | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], columns: ClickColumns, qid: str | None = None) -> ClickRows:
        """Read the columns of a CSV, TSV, Parquet or Arrow file.

        Args:
            qid: also read this column of query ids; "" for a column with a default name, if there is one.
        """
        if qid == "":
            qid = next((name for name in chain(*DEFAULTS["qid"]) if name in header_of(path)), None)
        texts = tuple(filter(None, (columns.document, qid)))
        parts: list[list[Int64Array]] = [[] for _ in range(3 + len(texts))]
        known: list[dict[Any, int]] = [{} for _ in texts]
        for batch in batches(path, numbers=columns.names[:3], texts=texts):
            for part, one in zip(parts, checked_counts(batch.number, columns.names, batch.refuse), strict=False):
                part.append(one)
            # Number the texts in order of appearance, over all batches.
            for name, codes, part in zip(texts, known, parts[3:], strict=True):
                text = batch.text(name)
                if text.null_count:
                    raise batch.refuse(int(np.flatnonzero(np.asarray(text.is_null()))[0]), f"{name} is missing")
                coded = text.dictionary_encode()
                own = [codes.setdefault(value, len(codes)) for value in coded.dictionary.to_pylist()]
                part.append(np.array(own, np.int64)[coded.indices.to_numpy(zero_copy_only=False)])
        found = [np.concatenate([np.zeros(0, np.int64), *part]) for part in parts]
        positions, impressions, clicks, *names = found
        named = dict(zip(texts, names, strict=True))
        return cls(positions, impressions, clicks, named.get(columns.document or ""), named.get(qid or ""))

    def log(self, queries: Int64Array | None = None) -> tuple[ClickLog, npt.NDArray[np.bool_]]:
        """Return the log of the documents, in the order of their first rows, and a mask of these rows, bool[N].

        Args:
            queries: int64[N], query of each row; None for those that were read, or a single query.
        """
        queries = self.queries if queries is None else queries
        # Number the documents by (query, document id), in the order of their first rows.
        rows, first = np.arange(self.positions.size), np.ones(self.positions.size, bool)
        if self.documents is not None:
            names = self.documents
            if queries is not None:
                names = queries * (int(names.max(initial=0)) + 1) + names
            _, at, number = np.unique(names, return_index=True, return_inverse=True)
            first = np.zeros(rows.size, bool)
            first[at] = True
            rows = (np.cumsum(first) - 1)[at][number]
        shown = self.impressions > 0
        log = ClickLog(
            rows[shown], self.positions[shown], self.impressions[shown], self.clicks[shown], int(first.sum())
        )
        return log, first

    def of_data(self, data: RankingDataset) -> tuple[RankingDataset, ClickLog, Int64Array | None]:
        """Return the distinct documents of a data set read from the same rows, their log, and their rows (None for
        all).
        """
        if data.n_documents != self.positions.size:
            raise DataError(f"{self.positions.size:,} rows of clicks, and the data have {data.n_documents:,}")
        log, first = self.log(data.in_input_order(data.queries.of_rows()))
        if first.all():
            return data, log, None
        kept = np.flatnonzero(data.in_row_order(first))
        if data.input_rows is not None:  # the log numbers documents in input order
            log = log.renumbered(np.argsort(data.input_rows[kept]))
        return some_documents(data, kept), log, kept


def from_frame(
    frame: Any,
    columns: ClickColumns | None = None,
    *,
    qid: str = "qid",
    weight: str | None = None,
    drop: Sequence[str] | str = (),
    sort: bool = False,
    categorical_feature: Sequence[str | int] | str | None = "auto",
) -> tuple[RankingDataset, ClickLog]:
    """Create a data set (with labels 0) and a click log from a data frame with click columns.

    Args:
        frame: a table, as `X` in `RankingDataset.from_arrays`.
        columns: names of the click columns.
        qid, weight, drop, sort, categorical_feature: as in `RankingDataset.from_frame`.

    Raises:
        DataError: as `from_frame`; an invalid cell, with its row.
    """
    from boostrank.data.arrays import read_frame
    from boostrank.data.frames import as_frame, names_of, values_of

    columns = columns or ClickColumns()
    dropped = [drop] if isinstance(drop, str) else list(drop)
    X, _, ids, weights, _ = read_frame(frame, columns.position, qid, weight, [*dropped, *columns.names[1:]])
    table = as_frame(frame)
    found = {name: values_of(table, names_of(table).index(name)) for name in columns.names}

    def number(name: str) -> Float64Array:
        try:
            return np.array([np.nan if one is None else one for one in found[name].tolist()], np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column {name!r} does not hold numbers") from None

    counts = checked_counts(number, columns.names, _refuse)
    documents = None
    if columns.document is not None:
        names = found[columns.document]
        lost = next((row for row, one in enumerate(names.tolist()) if one is None or one != one), None)
        if lost is not None:
            raise _refuse(lost, f"{columns.document} is missing")
        documents = np.unique(names.astype(str) if names.dtype.kind == "O" else names, return_inverse=True)[1]
    labels = np.zeros(counts[0].size)
    data = RankingDataset.from_arrays(
        X, labels, qid=ids, weight=weights, sort=sort, categorical_feature=categorical_feature
    )
    return ClickRows(*counts, documents).of_data(data)[:2]


def checked_counts(
    number: Callable[[str], Float64Array], names: Sequence[str], refuse: Callable[[int, str], Exception]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Validate and return (positions, impressions, clicks) of some rows."""
    position, shown, clicked = names[:3]
    impressions = whole_numbers(number(shown), shown, 0, MOST, None, refuse)
    clicks = whole_numbers(number(clicked), clicked, 0, MOST, None, refuse)
    positions = whole_numbers(number(position), position, 1, MAX_POSITION, impressions > 0, refuse)
    more = np.flatnonzero(clicks > impressions)
    if more.size:
        words = f"{clicks[more[0]]} {clicked} of {impressions[more[0]]} {shown}: an impression has at most one click"
        raise refuse(int(more[0]), words)
    return positions, impressions, clicks


def _refuse(row: int, reason: str) -> DataError:
    return DataError(f"row {row} (from 0): {reason}")
