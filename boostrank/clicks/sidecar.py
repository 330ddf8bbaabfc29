"""Clicks on the documents in a data file, from a sidecar log or from table columns, and position
propensities.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from boostrank.clicks.estimation import check_propensities, estimate_propensities
from boostrank.clicks.gate import moved_share, shown_at_the_top, with_click_gains
from boostrank.clicks.log import ClickLog, Propensities, some_documents
from boostrank.clicks.tables import ClickColumns, ClickRows, read_clicks
from boostrank.core.errors import DataError, InputError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.roles import DEFAULTS
from boostrank.files.side_files import find_sidecar
from boostrank.files.tables import header_of, is_table
from boostrank.options import ReadOptions, typed_names

Reading = TypeVar("Reading", bound=ReadOptions)
Tell = Callable[[str], None]
"""A function that prints a line for the user."""
ENDING = ".clicks"


def click_reading(
    names: Sequence[str] | None, files: Sequence[str], reading: Reading, *, logs: bool = True
) -> tuple[ClickColumns | None, Reading]:
    """Check the files whose clicks will be used. Return the click columns, and options that drop
    them as features.
    """
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip cannot be used with clicks, because click logs count all rows of"
            " the file"
        )
    columns = None if names is None else ClickColumns.from_names(tuple(names))
    for path in files:
        if path == "-" or not os.path.isfile(path):
            raise InputError(f"--clicks: {path} is not a file, so it has no {ENDING} sidecar file")
        if columns is not None:
            _check_columns(path, columns, reading)
        elif logs:
            log_of(path)
    if columns is not None:
        reading = replace(
            reading, drop=tuple(dict.fromkeys((*(reading.drop or ()), *columns.names)))
        )
    return columns, reading


def _check_columns(path: str, columns: ClickColumns, reading: ReadOptions) -> None:
    if not is_table(path):
        raise InputError(f"--click-columns: {path} is not a table (CSV, TSV, Parquet, Arrow)")
    header = header_of(path)
    for name in columns.names:
        if name not in header:
            hint = did_you_mean(name, header, list_all=len(header) < 13)
            raise InputError(f"--click-columns: {path}: no column is called {name!r}.{hint}")
        for role in DEFAULTS:
            if getattr(reading, role, None) == name:
                raise InputError(f"column {name!r} is used for both --{role} and --click-columns")


def log_of(path: str) -> str:
    """Return the path of a file's click log."""
    sidecar = find_sidecar(path, (ENDING,))
    if sidecar is None:
        raise InputError(f"{path}{ENDING}: no such file, but --clicks needs it")
    return sidecar


@dataclass(frozen=True)
class Clicks:
    """The documents in a file and their clicks.

    Args:
        name: arguments to `boostrank data propensities` that specify the log.
        kept: int64[n], rows in the file that are documents; None if all are.
        holds: whether the clicks agree with the propensities.
    """

    data: RankingDataset
    log: ClickLog
    name: str
    kept: Int64Array | None
    propensities: Propensities
    holds: bool

    @classmethod
    def read(
        cls,
        path: str,
        data: RankingDataset,
        columns: ClickColumns | None,
        propensities: str | Propensities | None,
        tell: Tell,
    ) -> Clicks:
        """Read the clicks on a file's documents from `columns`, or from its sidecar log if
        `columns` is None.

        Args:
            propensities: propensities, or a file with propensities that are tested against the
                clicks. None estimates them.
        """
        kept = None
        if columns is None:
            log_path = log_of(path)
            log, name = read_clicks(log_path, data.n_documents), shlex.quote(log_path)
        else:
            qid = data.provenance.options.get("qid") or "qid"
            name = f"{shlex.quote(path)} --click-columns {typed_names(*columns.names)}"
            name += "" if qid == "qid" else f" --qid {shlex.quote(qid)}"
            data, log, kept = ClickRows.read(path, columns).of_data(data)
        tell(f"{name}: {log!r}")
        holds = True
        if propensities is None:
            propensities = estimate_propensities(log, queries_of(data))
            tell(
                f"{name}: propensities from {propensities.moved:,} documents that moved:"
                f" {propensities!r}"
            )
        elif isinstance(propensities, str):
            propensities, holds = _checked(propensities, log, queries_of(data), name, tell)
        return cls(data, log, name, kept, propensities, holds)

    def judged(self, data: RankingDataset) -> RankingDataset:
        """Label the documents of a data set that has the same rows with clicks over exposure, to
        compare rankers.
        """
        documents = data if self.kept is None else some_documents(data, self.kept)
        return with_click_gains(documents, self.log, self.propensities)

    def words(self, data: RankingDataset, scores: Any, top: int) -> str:
        """Describe the reliability of a comparison."""
        share = np.mean(shown_at_the_top(data, self.log, scores, top))
        return (
            f"by clicks: {share:.0%} of the new top {top} was ever shown, and the rest counts as"
            f" not clicked; {moved_share(self.log):.0%} of the clicked documents moved"
        )


def _checked(
    path: str, log: ClickLog, queries: QueryIndex | None, name: str, tell: Tell
) -> tuple[Propensities, bool]:
    """Return the propensities in a file, and whether the clicks agree with them."""
    propensities = Propensities.read(path)
    if propensities.false_clicks.any():
        tell(f"{path}: the file has false_clicks, so these propensities cannot be checked")
        return propensities, True
    try:
        check = check_propensities(log, propensities, queries)
    except DataError:
        tell(
            f"{path}: no clicked document of {name} moved, so these propensities cannot be checked"
        )
        return propensities, True
    if check.p < 0.05:
        tell(
            f"{path}: clicks contradict these propensities ({check.nats:.0f} nats, p"
            f" {check.p:.2g}): estimate them with `boostrank data propensities {name}`, or leave"
            " out --propensities"
        )
    return propensities, check.p >= 0.05


def queries_of(data: RankingDataset) -> QueryIndex | None:
    """Return the queries of a data set, or None if its rows were reordered."""
    return None if data.input_rows is not None else data.queries


@dataclass(frozen=True)
class ClickTraining:
    """Training data with clicks over exposure as labels, and validation data with clicks.

    Args:
        columns: table columns that contain the clicks; None for sidecar logs.
        prior: see `ClickLog.gains`.
        tell: function that prints a line for the user.
        validation: clicks in the validation files that were read so far.
    """

    clicks: Clicks
    columns: ClickColumns | None
    prior: float
    tell: Tell
    validation: list[Clicks] = field(default_factory=list)

    @cached_property
    def train_set(self) -> RankingDataset:
        """The documents that were shown, with their gains."""
        return self.clicks.log.training_set(self.clicks.data, self.clicks.propensities, self.prior)

    def label(self, path: str, data: RankingDataset, learnt: bool) -> RankingDataset:
        """Label a validation file with clicks over exposure.

        Args:
            learnt: whether models also train on this file, in folds, which requires documents that
                were shown.
        """
        clicks = Clicks.read(path, data, self.columns, self.clicks.propensities, self.tell)
        self.validation.append(clicks)
        if learnt:
            return clicks.log.training_set(clicks.data, clicks.propensities, self.prior)
        try:
            return with_click_gains(clicks.data, clicks.log, clicks.propensities)
        except DataError as error:
            raise InputError(f"{clicks.name}: {error}") from None
