"""Impressions and clicks by document and position, position propensities, and gains computed from
both.

A document that was shown n_p times at position p and clicked c times has the exposure x = sum_p n_p
e_p, where e_p is the probability that position p is examined. E[c] = x r, so c / x estimates r, the
probability of a click on an examined document (T. Joachims, A. Swaminathan, T. Schnabel, "Unbiased
learning-to-rank with biased feedback", WSDM 2017; A. Agarwal, K. Takatsu, I. Zaitsev, T. Joachims,
"A general framework for counterfactual learning-to-rank", SIGIR 2019). Objectives use c / x as a
real-valued gain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import ArrayLike

from boostrank.core.errors import DataError, FileFormatError, ParameterError, warn_user
from boostrank.core.files import AnyPath, read_text, replacing, write_atomically
from boostrank.core.queries import PlacesOf
from boostrank.core.types import BoolArray, Float64Array, Int64Array, first_true
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import View
from boostrank.files.tables import whole_numbers
from boostrank.records import PropensityRecord, as_record, from_json, jsonable

PRIOR = 1.0
"""Exposure without clicks that is added to every document to shrink the gains of rarely shown ones;
0 is unbiased.
"""
MAX_POSITION = 10_000
MAX_ROWS = 2**40
_MOST = 10**12  # impressions per entry, so that sums over all entries do not overflow
_FIELDS = ("rows", "positions", "impressions", "clicks")
COLUMNS = ("row", "position", "impressions", "clicks")
"""The columns of a click log file. `row` is the number of a document in the data, starting at 1, in
file order.
"""


@dataclass(frozen=True, eq=False)
class Propensities:
    """The examination probability of each position, relative to position 1.

    Args:
        examination: float64[P], e for positions 1, 2, ..., which is positive, and 1 for position 1;
            NaN if unknown.
        false_clicks: float64[P], clicks per impression on irrelevant documents, less than 1.
            `examination` is then the additional click rate of relevant documents (affine correction
            of A. Vardasbi, H. Oosterhuis, M. de Rijke, "When inverse propensity scoring does not
            work", CIKM 2020).
        errors: float64[P], standard errors of log e, which are 0 for position 1; None if the curve
            was not estimated.
        method: description of how the propensities were obtained.
        moved: number of clicked documents that were shown at two or more positions; 0 for other
            methods.
    """

    examination: Float64Array
    false_clicks: Float64Array = field(default_factory=lambda: np.zeros(0))
    errors: Float64Array | None = None
    method: str = "given"
    moved: int = 0

    def __post_init__(self) -> None:
        e = np.array(self.examination, np.float64).ravel()
        false = np.array(self.false_clicks, np.float64).ravel()
        false = false if false.size else np.zeros(e.size)
        # Check the propensities; NaN marks a position without an estimate.
        if not 1 <= e.size <= MAX_POSITION:
            raise ParameterError(
                f"there are {e.size:,} propensities, but there must be 1 to {MAX_POSITION:,}"
            )
        if not abs(e[0] - 1.0) <= 1e-9 or not np.all(np.isnan(e) | ((e > 0.0) & (e < np.inf))):
            raise ParameterError(
                "propensities must be relative to position 1: the first must be 1, and all above 0"
            )
        # Check that false clicks and standard errors match the propensities.
        if false.shape != e.shape or not np.all((false >= 0.0) & (false < 1.0)):
            raise ParameterError(
                f"false_clicks must be {e.size} numbers in [0, 1), one for each position"
            )
        object.__setattr__(self, "examination", e)
        object.__setattr__(self, "false_clicks", false)
        if self.errors is not None:
            errors = np.array(self.errors, np.float64).ravel()
            if errors.shape != e.shape:
                raise ParameterError(
                    f"there are {errors.size} standard errors for {e.size} propensities"
                )
            object.__setattr__(self, "errors", errors)

    def __repr__(self) -> str:
        examinations = ", ".join(f"{value:.3g}" for value in self.examination[:10])
        ellipsis = ", ..." if self.examination.size > 10 else ""
        return f"Propensities({examinations}{ellipsis}; {self.method})"

    @classmethod
    def from_dict(cls, content: Any) -> Propensities:
        """Create propensities from the result of `to_dict`."""
        record: Any = as_record(PropensityRecord, content)
        false_clicks: Any = record.false_clicks or ()
        errors = record.errors or None
        return cls(record.examination, false_clicks, errors, record.method, record.moved)

    @classmethod
    def read(cls, path: AnyPath) -> Propensities:
        """Read a file that `write` created. A FileFormatError names the key of an invalid entry."""
        text = read_text(path)
        try:
            return cls.from_dict(from_json(text))
        except ValueError as error:
            raise FileFormatError(
                f"not a file of propensities: {error}", file=os.fspath(path)
            ) from None

    def write(self, path: AnyPath) -> None:
        """Write the propensities as JSON, atomically."""
        write_atomically(path, (json.dumps(self.to_dict(), indent=1) + "\n").encode())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with null for unknown values."""
        false_clicks = jsonable(self.false_clicks) if self.false_clicks.any() else UNSET
        errors = UNSET if self.errors is None else jsonable(self.errors)
        record = PropensityRecord(
            examination=jsonable(self.examination),
            false_clicks=false_clicks,
            errors=errors,
            method=self.method,
            moved=self.moved,
        )
        return msgspec.to_builtins(record)  # type: ignore[no-any-return]


def checked_counts(
    number: Callable[[str], Float64Array],
    names: Sequence[str],
    refuse: Callable[[int, str], Exception],
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the validated positions, impressions and clicks in some rows, given the names of these
    columns.

    The position may be missing in a row without impressions, and becomes 1.
    """
    position, impressions_name, clicked = names
    impressions = whole_numbers(number(impressions_name), impressions_name, 0, _MOST, refuse)
    clicks = whole_numbers(number(clicked), clicked, 0, _MOST, refuse)
    shown_at = np.where(impressions > 0, number(position), 1)
    positions = whole_numbers(shown_at, position, 1, MAX_POSITION, refuse)
    row = first_true(clicks > impressions)
    if row is not None:
        raise refuse(
            row,
            f"{clicks[row]} {clicked} of {impressions[row]} {impressions_name}: an impression has"
            " at most one click",
        )
    return positions, impressions, clicks


@dataclass(frozen=True, eq=False)
class ClickLog:
    """The impressions and clicks of each document at each position.

    Entries for the same row and position are summed, and entries without impressions are dropped.

    Args:
        rows: int64[m], row of the document in the data, starting at 0.
        positions: int64[m], starting at 1.
        impressions: int64[m], at least 0.
        clicks: int64[m], at least 0 and at most the impressions.
        n_documents: number of rows in the data.

    Raises:
        DataError: an entry is invalid. The message contains its number.
    """

    rows: Int64Array
    positions: Int64Array
    impressions: Int64Array
    clicks: Int64Array
    n_documents: int

    def __post_init__(self) -> None:
        read: dict[str, Any] = dict(zip(COLUMNS, map(np.asarray, self._columns()), strict=True))
        lengths = {column.shape for column in read.values()}
        are_numbers = all(column.dtype.kind in "iuf" for column in read.values())
        if not are_numbers or lengths != {(read["row"].size,)}:
            types = [f"{name} {column.dtype}{column.shape}" for name, column in read.items()]
            raise DataError(
                "the columns of a click log must be one-dimensional whole numbers of one length,"
                f" not {', '.join(types)}"
            )

        def refuse(entry: int, reason: str) -> DataError:
            return DataError(f"entry {entry} of the click log: {reason}")

        rows = whole_numbers(read["row"] + 1.0, "row", 1, self.n_documents, refuse) - 1
        positions, *counts = checked_counts(read.__getitem__, COLUMNS[1:], refuse)
        # Sort by row and position, and sum equal entries.
        entries = np.flatnonzero(counts[0])
        keys = (rows * (MAX_POSITION + 1) + positions)[entries]
        keys, number = np.unique(keys, return_inverse=True)
        columns = [*np.divmod(keys, MAX_POSITION + 1)]
        for count in counts:
            columns.append(np.zeros(keys.size, np.int64))
            np.add.at(columns[-1], number, count[entries])
        for name, column in zip(_FIELDS, columns, strict=True):
            object.__setattr__(self, name, column)

    def _columns(self) -> list[Int64Array]:
        return [getattr(self, name) for name in _FIELDS]

    def __repr__(self) -> str:
        impressions = int(self.impressions.sum())
        clicks = int(self.clicks.sum())
        return (
            f"ClickLog({impressions:,} impressions and {clicks:,} clicks of"
            f" {np.unique(self.rows).size:,} of {self.n_documents:,} documents, {self.depth}"
            " positions)"
        )

    def write(self, path: AnyPath) -> None:
        """Write the log as CSV, atomically: columns `row,position,impressions,clicks`, with rows
        from 1.
        """
        table = np.column_stack(self._columns())
        table[:, 0] += 1
        header = ",".join(COLUMNS)
        with replacing(path) as out, open(out, "wb", closefd=False) as file:
            np.savetxt(file, table, fmt="%d", delimiter=",", header=header, comments="")

    @property
    def depth(self) -> int:
        """The largest position; 0 for an empty log."""
        return int(self.positions.max(initial=0))

    @property
    def shown(self) -> BoolArray:
        """A mask of the documents that were ever shown, bool[N]."""
        return np.bincount(self.rows, minlength=self.n_documents) > 0

    def total_clicks(self) -> Int64Array:
        """Return the number of clicks on each document over all positions, int64[N]."""
        return self._sum(self.clicks).astype(np.int64)

    def exposure(self, propensities: Propensities) -> Float64Array:
        """Return the expected number of examinations of each document, sum_p n_p e_p,
        float64[N].
        """
        log = self.up_to(propensities)
        return log._sum(log.impressions * propensities.examination[log.positions - 1])

    def gains(self, propensities: Propensities, prior: float = PRIOR) -> Float64Array:
        """Return the clicks over exposure of each document, float64[N], at least 0, or NaN for
        documents never shown.

        Impressions at positions without a propensity are ignored, with a warning. Expected clicks
        on irrelevant documents (`Propensities.false_clicks`) are subtracted first.

        Args:
            prior: exposure without clicks that is added to every document; 0 is unbiased.

        Raises:
            ParameterError: the prior is negative or not a number.
        """
        if not 0.0 <= prior < np.inf:
            raise ParameterError(f"prior={prior!r} is out of range; allowed: at least 0")
        log = self.up_to(propensities)
        clicks = log._sum(
            log.clicks - log.impressions * propensities.false_clicks[log.positions - 1]
        )
        exposure = np.where(log.shown, log.exposure(propensities) + prior, np.nan)
        return np.maximum(clicks, 0.0) / exposure

    def up_to(self, propensities: Propensities | None) -> ClickLog:
        """Select the entries at positions with a propensity, and warn about the others. None
        selects all entries.
        """
        if propensities is None:
            return self
        valid_positions = np.flatnonzero(np.isfinite(propensities.examination))
        has_propensity = np.isin(self.positions - 1, valid_positions)
        if has_propensity.all():
            return self
        lost = int(self.impressions[~has_propensity].sum())
        first_position = int(self.positions[~has_propensity].min())
        warn_user(
            f"{lost:,} of {self.impressions.sum():,} impressions are ignored: their positions (from"
            f" {first_position}) have no propensity"
        )
        return self.where(has_propensity)

    def where(self, mask: BoolArray) -> ClickLog:
        """Select entries by a mask, bool[m]."""
        return replace(self, **{name: getattr(self, name)[mask] for name in _FIELDS})

    def renumbered(self, rows: Int64Array | None) -> ClickLog:
        """Return the log with row i renumbered to rows[i], int64[N], or unchanged if `rows` is
        None.
        """
        return self if rows is None else replace(self, rows=rows[self.rows])

    def training_set(
        self, data: RankingDataset, propensities: Propensities | None, prior: float = PRIOR
    ) -> RankingDataset:
        """Return the documents that were shown, labelled with their gains, for training with the
        gain "linear".

        Rows on disk are not copied.

        Args:
            data: the documents, which the log numbers in input order.
            propensities: propensities of the positions. None uses click counts as gains, which
                favours top positions.
            prior: see `gains`.

        Raises:
            DataError: the log has another number of documents, or no clicks.
        """
        log = self.up_to(propensities)
        labelled = log.label(data, propensities, prior)
        if not labelled.labels.any():
            raise DataError("the click log has no clicks to learn from")
        return some_documents(labelled, np.flatnonzero(data.in_row_order(log.shown)))

    def label(
        self, data: RankingDataset, propensities: Propensities | None, prior: float
    ) -> RankingDataset:
        """Replace the labels of all documents by their gains, or 0 if they were never shown; see
        `training_set`.
        """
        if data.n_documents != self.n_documents:
            raise DataError(
                f"the click log has {self.n_documents:,} documents, but the data have"
                f" {data.n_documents:,}"
            )
        gains: Any = self.total_clicks()
        click_record: dict[str, Any] = {"propensities": None}
        if propensities is not None:
            gains = np.where(self.shown, self.gains(propensities, prior), 0.0)
            click_record = {"propensities": propensities.to_dict(), "prior": prior}
        options = {**data.provenance.options, "clicks": click_record}
        options.pop("gain", None)
        provenance = replace(data.provenance, options=options)
        return replace(data, labels=data.in_row_order(gains), provenance=provenance)

    def of_queries(
        self, data: RankingDataset, queries: ArrayLike
    ) -> tuple[RankingDataset, ClickLog]:
        """Return a selection of queries in the data, and the log of their documents."""
        rows = data.queries.take(queries)[1]
        number = np.full(self.n_documents, -1, np.int64)
        number[rows] = np.arange(rows.size)
        number = data.in_input_order(number)
        part = self.where(number[self.rows] >= 0)
        return data.take(queries), replace(part, rows=number[part.rows], n_documents=rows.size)

    def _sum(self, values: ArrayLike) -> Float64Array:
        """Sum the values of entries by document, float64[N]."""
        return np.asarray(np.bincount(self.rows, values, self.n_documents), np.float64)


def some_documents(data: RankingDataset, rows: Int64Array) -> RankingDataset:
    """Select documents by ascending rows, and drop queries without any. Rows on disk are not
    copied.
    """
    queries, sizes = np.unique(data.queries.of_rows()[rows], return_counts=True)
    index, _ = data.queries.take(queries)
    weights = None if data.document_weights is None else data.document_weights[rows]
    ptr = np.cumsum([0, *sizes], dtype=np.int64)
    places = PlacesOf(data.queries.places, rows)
    index = replace(index, ptr=ptr, document_weights=weights, places=places)
    features = View(data.features, rows) if data.on_disk else None
    return replace(data.of_rows(index, rows, features), has_all_documents=False)
