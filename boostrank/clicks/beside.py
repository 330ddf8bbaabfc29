"""Clicks of the documents in a data file: a log beside it or columns of a table, and the propensities of positions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from boostrank.clicks.columns import ClickColumns, ClickRows
from boostrank.clicks.doctor import OF_LABELS, look_at_clicks
from boostrank.clicks.estimation import check as check_propensities
from boostrank.clicks.estimation import estimate
from boostrank.clicks.files import read_clicks
from boostrank.clicks.gate import known_share, moved_share, with_click_gains
from boostrank.clicks.log import PRIOR, ClickLog, some_documents
from boostrank.clicks.propensities import AnyPropensities, SegmentPropensities, read_propensities
from boostrank.core.errors import DataError, InputError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.doctor import Profile
from boostrank.data.doctor.finding import Finding, Severity
from boostrank.data.side_files import find_sidecar
from boostrank.data.tables.batches import header_of, is_table
from boostrank.data.tables.columns import DEFAULTS
from boostrank.options import ReadOptions, typed_names

Reading = TypeVar("Reading", bound=ReadOptions)
Tell = Callable[[str], None]
"""Called with lines for the user."""
ENDING = ".clicks"


def prepare(
    names: Sequence[str] | None, files: Sequence[str], reading: Reading, *, logs: bool = True
) -> tuple[ClickColumns | None, Reading]:
    """Check files whose clicks will be used, before they are read.

    Args:
        names: columns of the tables that hold the clicks; None: each file has a log beside it.
        files: each is one data set.
        reading: options of reading them.
        logs: whether a file without a log is refused.

    Returns:
        The columns, and the options of reading, for which they are not features.

    Raises:
        InputError: rows that would be skipped, a file that has no clicks, or columns that it does not have.
    """
    if reading.on_bad_line == "skip":
        raise InputError("click logs count the rows of the file: no --on-bad-line skip")
    columns = None if names is None else ClickColumns.of(tuple(names))
    for path in files:
        if path == "-" or not os.path.isfile(path):
            raise InputError(f"--clicks: {path} is no file beside which {ENDING} could lie")
        if columns is not None:
            _check_columns(path, columns, reading)
        elif logs:
            log_of(path)
    if columns is None:
        return None, reading
    drop = tuple(reading.drop or ())
    return columns, replace(reading, drop=(*drop, *(name for name in columns.names if name not in drop)))


def _check_columns(path: str, columns: ClickColumns, reading: ReadOptions) -> None:
    if not is_table(path):
        raise InputError(f"--click-columns: {path} is no table (CSV, TSV, Parquet, Arrow)")
    header = header_of(path)
    for name in columns.names:
        if name not in header:
            hint = did_you_mean(name, header, list_all=len(header) < 13)
            raise InputError(f"--click-columns: {path}: no column is called {name!r}.{hint}")
        for role in DEFAULTS:
            if getattr(reading, role, None) == name:
                raise InputError(f"column {name!r} is taken as --{role} and as one of --click-columns")


def log_of(path: str) -> str:
    """The click log beside a file.

    Raises:
        InputError: there is none.
    """
    found = find_sidecar(path, (ENDING,))
    if found is None:
        raise InputError(f"{path}{ENDING}: no such file, and --clicks learns from it")
    return found


@dataclass(frozen=True)
class Clicks:
    """Documents of a file, and their clicks.

    Args:
        data: the documents.
        log: their clicks.
        name: of the log, as `boostrank data propensities` takes it.
        kept: int64[n], the rows of the file that are documents; None: all.
    """

    data: RankingDataset
    log: ClickLog
    name: str
    kept: Int64Array | None

    @classmethod
    def read(cls, path: str, data: RankingDataset, columns: ClickColumns | None, tell: Tell) -> Clicks:
        """Read the clicks of a file.

        Args:
            path, data: the file and its rows.
            columns: columns that hold the clicks; None: the log lies beside the file.
            tell: called with a line about the log.
        """
        kept = None
        if columns is None:
            name = log_of(path)
            log = read_clicks(name, data.n_documents)
        else:
            qid = data.provenance.options.get("qid") or "qid"
            name = f"{shlex.quote(path)} --click-columns {typed_names(*columns.names)}"
            name += "" if qid == "qid" else f" --qid {shlex.quote(qid)}"
            data, log, kept = ClickRows.read(path, columns).of_data(data)
        tell(f"{name}: {log!r}")
        return cls(data, log, name, kept)

    @property
    def queries(self) -> QueryIndex | None:
        """The queries of the documents, if these are in their original order."""
        return queries_of(self.data)

    def propensities(self, path: str | None, tell: Tell) -> tuple[AnyPropensities, bool]:
        """Propensities from a file, or estimated from documents that moved; and whether clicks agree with them.

        Args:
            path: the file; None: estimate.
            tell: called with lines about what was found.
        """
        if path is None:
            found = estimate(self.log, self.queries)
            if isinstance(found, SegmentPropensities):
                moved = ", ".join(f"{curve.moved:,} of segment {segment}" for segment, curve in found.curves.items())
                tell(f"{self.name}: propensities by documents that moved, {moved}: {found!r}")
            else:
                tell(f"{self.name}: propensities by {found.moved:,} documents that moved: {found!r}")
            return found, True
        given = read_propensities(path)
        self.log.at(given)
        if given.false_clicks.any():
            tell(f"{path}: with false_clicks, so that nothing tells whether these propensities hold")
            return given, True
        try:
            check = check_propensities(self.log, given, self.queries)
        except DataError:
            tell(
                f"{path}: no clicked document of {self.name} moved, so that nothing tells whether these propensities "
                "hold"
            )
            return given, True
        if check.p < 0.05:
            tell(
                f"{path}: clicks contradict these propensities ({check.nats:.0f} nats, p {check.p:.2g}): "
                f"compare them with `boostrank data propensities {self.name} --check {path}`"
            )
        return given, check.p >= 0.05


def queries_of(data: RankingDataset) -> QueryIndex | None:
    """The queries of documents that are in their original order."""
    return None if data.input_rows is not None else data.queries


@dataclass(frozen=True)
class ClickTraining:
    """Training data whose labels are clicks over exposure, and validation data with clicks.

    Args:
        clicks: all documents, and what was shown of them.
        propensities: of the positions.
        holds: whether clicks agree with the propensities.
        prior: exposure that is added to each document.
        train_set: the documents that were shown, with their gains.
        held: clicks of the validation files that were read so far.
        columns: columns of the tables that hold the clicks; None: they lie beside.
        tell: called with lines for the user.
    """

    clicks: Clicks
    propensities: AnyPropensities
    holds: bool
    prior: float
    train_set: RankingDataset
    held: list[Clicks]
    columns: ClickColumns | None
    tell: Tell

    @classmethod
    def read(
        cls,
        path: str,
        data: RankingDataset,
        columns: ClickColumns | None,
        *,
        propensities: str | None,
        prior: float | None,
        tell: Tell,
    ) -> ClickTraining:
        """Read the clicks of the training file."""
        clicks = Clicks.read(path, data, columns, tell)
        prior = PRIOR if prior is None else prior
        curve, holds = clicks.propensities(propensities, tell)
        train_set = clicks.log.training_set(clicks.data, curve, prior)
        return cls(clicks, curve, holds, prior, train_set, [], columns, tell)

    def measured(self, path: str, data: RankingDataset, learnt: bool) -> RankingDataset:
        """A validation file with clicks over exposure for labels.

        Args:
            path, data: the file and its rows.
            learnt: whether it is dealt into folds, so that models learn from it: only what was shown is kept then.
        """
        clicks = Clicks.read(path, data, self.columns, self.tell)
        self.held.append(clicks)
        if learnt:
            return clicks.log.training_set(clicks.data, self.propensities, self.prior)
        try:
            return with_click_gains(clicks.data, clicks.log, self.propensities)
        except DataError as error:
            raise InputError(f"{clicks.name}: {error}") from None


@dataclass(frozen=True)
class ClickJudge:
    """Clicks by which rankers are compared.

    Args:
        log, propensities: of the documents.
        kept: int64[n], rows of the file that are documents; None: all.
    """

    log: ClickLog
    propensities: AnyPropensities
    kept: Int64Array | None

    @classmethod
    def read(
        cls, path: str, data: RankingDataset, propensities: str | None, columns: ClickColumns | None, tell: Tell
    ) -> ClickJudge:
        """Read the clicks of a file."""
        clicks = Clicks.read(path, data, columns, tell)
        return cls(clicks.log, clicks.propensities(propensities, tell)[0], clicks.kept)

    def judged(self, data: RankingDataset) -> RankingDataset:
        """The documents with clicks over exposure for labels."""
        documents = data if self.kept is None else some_documents(data, self.kept)
        return with_click_gains(documents, self.log, self.propensities)

    def words(self, data: RankingDataset, scores: Any, top: int) -> str:
        """How far a comparison can be trusted."""
        return (
            f"by clicks: {known_share(data, self.log, scores, top):.0%} of the new top {top} was ever shown, the rest "
            f"counts as never clicked; {moved_share(self.log):.0%} of the clicked documents moved"
        )


def with_clicks(
    findings: Sequence[Finding], sets: Sequence[tuple[str, Profile]], columns: ClickColumns | None
) -> list[Finding]:
    """Findings of data sets, with those about their clicks in place of those about labels.

    Args:
        findings: of `boostrank.data.doctor.examine`.
        sets: file and profile of each data set.
        columns: columns of the tables that hold the clicks; None: logs lie beside the files.
    """
    left_out = OF_LABELS | ({"duplicates"} if columns is not None and columns.document else set())  # a row a position
    found = [finding for finding in findings if finding.check not in left_out]
    for path, profile in sets:
        try:
            log = path if columns is not None else log_of(path)
        except InputError as error:
            mend = "boostrank data count-clicks adds up sessions"
            found.append(Finding("no-click-log", Severity.ERROR, path, 0, 0, 1, str(error), "train refuses it", mend))
            continue
        if not profile.n_queries:  # which is an error already
            continue
        ptr = np.concatenate([[0], np.cumsum(profile.sizes)]).astype(np.int64)
        qid = np.array([profile.qid(q) for q in range(profile.n_queries)], object)
        unread = ("unreadable-file", "unreadable-row", "missing-token")
        whole = not any(one.file == path and one.check in unread for one in findings)
        found += look_at_clicks(log, QueryIndex(ptr, qid), counted=whole, columns=columns)
    return [finding for severity in Severity for finding in found if finding.severity is severity]
