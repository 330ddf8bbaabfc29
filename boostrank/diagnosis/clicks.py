"""Checks on click logs: problems that training refuses, problems that mislead training, and useful facts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath

import numpy as np

from boostrank.clicks.estimation import NONSENSE, estimate_propensities
from boostrank.clicks.gate import moved_share
from boostrank.clicks.log import MAX_ROWS, ClickLog, Propensities
from boostrank.clicks.sidecar import log_of
from boostrank.clicks.tables import ClickColumns, ClickRows, read_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError, InputError
from boostrank.core.queries import QueryIndex
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array
from boostrank.diagnosis.checks import ERROR, NOTE, WARNING, Finding, Findings, Severity, percent, share_of
from boostrank.diagnosis.profile import Profile

OF_LABELS = frozenset(
    {
        "contradicting-duplicates",
        "dead-queries",
        "label-copy",
        "no-label-zero",
        "nothing-to-learn",
        "refused-labels",
        "steep-gains",
    }
)
"""Names of `boostrank.diagnosis` findings about labels, which training on clicks ignores."""

FEW_LISTS = 5  # times that the median query's list was shown: with 2, debiasing ranked worse than click counts
_MANY = 0.2  # share of queries from which a note becomes a warning
_RATES = 10  # positions whose click rates are listed
_ENOUGH = 20  # impressions
_ERRORS = 3.0  # standard errors between click rates
_VARY = "log lists that vary a little"


def with_clicks(
    findings: Sequence[Finding], sets: Sequence[tuple[str, Profile]], columns: ClickColumns | None
) -> Findings:
    """Replace findings about labels by findings about clicks."""
    # A document that was shown at several positions has several rows, which are not duplicates.
    left_out = OF_LABELS | ({"duplicates"} if columns is not None and columns.document else set())
    found = [finding for finding in findings if finding.check not in left_out]
    for path, profile in sets:
        try:
            log = path if columns is not None else log_of(path)
        except InputError as error:
            fix = "create it from sessions with boostrank data count-clicks"
            found.append(Finding("no-click-log", ERROR, path, 0, 0, 1, str(error), "train refuses it", fix))
            continue
        if not profile.n_queries:  # already reported as an error
            continue
        qid = np.array([profile.qid(q) for q in range(profile.n_queries)], object)
        unread = ("unreadable-file", "unreadable-row", "missing-token")
        whole = not any(one.file == path and one.check in unread for one in findings)
        queries = QueryIndex(np.append(profile.starts, profile.labels.size), qid)
        found += look_at_clicks(log, queries, counted=whole, columns=columns)
    return Findings(found)


def look_at_clicks(
    path: str | PathLike[str], queries: QueryIndex, counted: bool = True, columns: ClickColumns | None = None
) -> Findings:
    """Check a click log or the click columns of a table, and return the findings, with the most severe first.

    Args:
        counted: whether `queries` are all queries in the data, in which case a row for another document is an error.
    """
    file, count = fspath(path), queries.n_documents
    try:
        if columns is None:
            log = read_clicks(path, count if counted else MAX_ROWS)
            clicks = _Clicks(file, queries, replace(log.where(log.rows < count), n_documents=count))
        else:
            clicks = _of_table(file, queries, columns)
    except (FileFormatError, OSError) as error:
        reason, line = (error.reason, error.line) if isinstance(error, FileFormatError) else (str(error.strerror), 0)
        cost = "training on clicks refuses it"
        return Findings([Finding("unreadable-clicks", ERROR, file, line, 0, 1, reason, cost)])
    return Findings(finding for check in CHECKS for finding in check(clicks))


@dataclass(frozen=True, eq=False)
class _Clicks:
    """A click log and the queries of its documents."""

    file: str
    queries: QueryIndex
    log: ClickLog

    @cached_property
    def curve(self) -> Propensities | None:
        """The propensities of the positions; None if no clicked document moved."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                return estimate_propensities(self.log, self.queries)
        except DataError:
            return None

    @cached_property
    def query(self) -> Int64Array:
        """The query of each document, int64[N]."""
        return self.queries.of_rows()

    @cached_property
    def by_position(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The query, position and number of impressions for each query and position that has impressions, ascending."""
        width = self.log.depth + 1
        pairs, number = np.unique(self.query[self.log.rows] * width + self.log.positions, return_inverse=True)
        return pairs // width, pairs % width, np.bincount(number, self.log.impressions).astype(np.int64)

    @cached_property
    def lists(self) -> Int64Array:
        """The largest number of impressions at any position, for each query, int64[Q]."""
        most = np.zeros(len(self.queries), np.int64)
        np.maximum.at(most, self.by_position[0], self.by_position[2])
        return most

    def found(self, check: str, severity: Severity, count: int, message: str, cost: str, fix: str) -> Finding:
        return Finding(check, severity, self.file, 0, 0, count, message, cost, fix)


def _of_table(file: str, queries: QueryIndex, columns: ClickColumns) -> _Clicks:
    clicks, query = ClickRows.read(file, columns), queries.of_rows()
    if clicks.positions.size != query.size:
        words = f"there are {clicks.positions.size:,} rows of clicks, but {query.size:,} rows of data"
        raise FileFormatError(words, file=file)
    log, first = clicks.log(query)
    documents = replace(QueryIndex.from_sizes(np.bincount(query[first])), qid=queries.qid)
    return _Clicks(file, documents, log)


def nothing_clicked(clicks: _Clicks) -> Iterator[Finding]:
    """Find logs without clicks, or without unclicked impressions."""
    log = clicks.log
    shown, clicked = int(log.impressions.sum()), int(log.clicks.sum())
    if not clicked:
        message = "no impression was clicked" if shown else "there is no entry"
        fix = "check the contents of the columns `impressions` and `clicks`"
        yield clicks.found("no-clicks", ERROR, shown, message, "there is nothing to learn", fix)
    elif shown >= _ENOUGH and clicked == shown:
        message = "every impression was clicked: were impressions without a click left out?"
        cost = "relevant documents cannot be distinguished from those shown often"
        fix = "log every impression, clicked or not"
        yield clicks.found("only-clicked-impressions", WARNING, clicked, message, cost, fix)


def moves(clicks: _Clicks) -> Iterator[Finding]:
    """Find positions with too few documents that moved there to estimate a propensity."""
    log, curve = clicks.log, clicks.curve
    if not log.clicks.any():
        return
    if curve is None:
        what = "no clicked document was shown both at position 1 and elsewhere, and no chain of documents joins them"
        if log.positions.min() > 1:
            what = f"position {log.positions.min()} is the first with impressions: do positions count from 1?"
        yield clicks.found(
            "nothing-moved",
            ERROR,
            log.depth,
            f"{what}; {percent(moved_share(log), 1)} of the clicked documents moved at all",
            "propensities cannot be estimated: training needs --propensities, comparisons by clicks are no better than "
            "chance, and bots cannot be distinguished from good documents",
            f"{_VARY}, or pass a file of propensities",
        )
        return
    assert curve.errors is not None
    shown = np.bincount(log.positions - 1, log.impressions)
    still, vague = np.flatnonzero((shown > 0) & np.isnan(curve.examination)), np.flatnonzero(curve.errors > NONSENSE)
    if still.size:
        message = f"no clicked document moved between {_from(still)} and those above"
        lost = int(shown[still].sum())
        cost = f"they have no propensity: {lost:,} impressions ({percent(lost, shown.sum())}) are ignored"
        yield clicks.found("unmoved-positions", WARNING, still.size, message, cost, f"{_VARY} there, too")
    if vague.size:
        message = f"the propensities of {_from(vague)} are accurate to a factor of 2.7 at best"
        cost = "clicks there are divided by a number that is mostly noise"
        fix = "collect more clicks on documents that move"
        yield clicks.found("vague-positions", WARNING, vague.size, message, cost, fix)


def _from(positions: Int64Array) -> str:
    return f"{count_of(positions.size, 'position')} (from position {positions[0] + 1})"


def few_lists(clicks: _Clicks) -> Iterator[Finding]:
    """Find logs whose queries have few impressions."""
    lists = clicks.lists[clicks.lists > 0]
    middle, once = float(np.median(lists)) if lists.size else FEW_LISTS, int((lists == 1).sum())
    if middle < FEW_LISTS:
        message = f"the list of the median query was shown {middle:g} times"
        cost = "a gain beyond chance is unlikely: with 2 lists per query, click counts ranked better than clicks over "
        cost += "exposure"
        fix = f"log at least {FEW_LISTS * 2} lists per query, and rely on the gate that train prints"
        yield clicks.found("few-impressions", WARNING, int(lists.sum()), message, cost, fix)
    if once:
        message = f"{once:,} of {lists.size:,} queries that were shown ({percent(once, lists.size)}) were shown once"
        cost = "none of their documents moved: they carry no information about positions, and little about documents"
        severity = WARNING if once > _MANY * lists.size else NOTE
        yield clicks.found("single-impression-queries", severity, once, message, cost, "log for longer")


def never_shown(clicks: _Clicks) -> Iterator[Finding]:
    """Find documents and queries that were never shown."""
    log, count = clicks.log, clicks.queries.n_documents
    hidden = count - int(log.shown.sum())
    if hidden and log.rows.size:
        unseen = int((clicks.lists == 0).sum())
        message = f"{share_of(hidden, count, 'documents')} were never shown"
        message += f", including {count_of(unseen, 'whole query', 'whole queries')}" if unseen else ""
        cost = "training excludes them, and comparisons treat them as not clicked"
        fix = "if this is unexpected, check that the log was counted over these data, in this row order"
        yield clicks.found("never-shown", NOTE, hidden, message, cost, fix)


def short_lists(clicks: _Clicks) -> Iterator[Finding]:
    """Find lists with fewer impressions at a position than further down, which means that impressions are missing."""
    query, position, shown = clicks.by_position
    if not query.size:
        return
    # Reverse running maximum of impressions within each query. Numbers are replaced by their ranks to avoid overflow.
    levels, level = np.unique(shown, return_inverse=True)
    backwards = (query.max() - query)[::-1] * levels.size + level[::-1]
    most = levels[np.maximum.accumulate(backwards)[::-1] % levels.size]
    above = np.concatenate([[0], position[:-1]])
    above[1:][query[1:] != query[:-1]] = 0
    skipped = position - above - 1  # positions without impressions
    missing = (most - shown) + skipped * most
    short, count = np.unique(query[missing > 0]).size, np.unique(query).size
    if short:
        i = int(np.flatnonzero(missing > 0)[0])
        p, own = (int(above[i]) + 1, 0) if skipped[i] else (int(position[i]), int(shown[i]))
        deeper = position[i:][(query[i:] == query[i]) & (shown[i:] == most[i]) & (position[i:] > p)][0]
        yield clicks.found(
            "short-impressions",
            WARNING if short > _MANY * count else NOTE,
            short,
            f"in {short:,} of {count:,} queries a position has fewer impressions than one further down, "
            f"{missing.sum():,} are missing in all: qid {clicks.queries.qid[query[i]]} has {own:,} at position {p} and "
            f"{most[i]:,} at position {deeper}",
            "unlogged impressions make exposure too small, and gains too large",
            "log every position of a list down to the last one shown; ignore this if those documents are not in the "
            "data",
        )


def click_rates(clicks: _Clicks) -> Iterator[Finding]:
    """Find positions that are clicked more often than the first."""
    log = clicks.log
    shown, clicked = (np.bincount(log.positions - 1, counts) for counts in (log.impressions, log.clicks))
    if not clicked.any():
        return
    rates = np.divide(clicked, shown, out=np.full(shown.size, np.nan), where=shown > 0)
    error = np.sqrt(np.maximum(rates * (1.0 - rates), 1e-12) / np.maximum(shown, 1.0))
    higher = np.flatnonzero(rates - rates[0] > _ERRORS * np.hypot(error, error[0]))
    if higher.size:
        listed = ", ".join("-" if np.isnan(rate) else f"{rate:.3f}" for rate in rates[:_RATES])
        listed += ", ..." if rates.size > _RATES else ""
        p = int(higher[np.argmax(rates[higher])]) + 1
        message = f"clicks per impression at positions 1, 2, ...: {listed}: position {p} is clicked more often than "
        message += "position 1"
        cost = "positions may differ from those that users saw"
        fix = "check that position 1 is the top of the list"
        yield clicks.found("rising-click-rates", WARNING, higher.size, message, cost, fix)


CHECKS = (nothing_clicked, moves, few_lists, never_shown, short_lists, click_rates)
