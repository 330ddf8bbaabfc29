"""Checks of click logs: problems that training refuses, problems that mislead it, and useful facts.

findings = look_at_clicks("train.txt.clicks", queries)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.clicks.estimation import NONSENSE, estimate_propensities
from boostrank.clicks.gate import moved_share
from boostrank.clicks.log import MAX_ROWS, ClickLog, Propensities
from boostrank.clicks.sidecar import log_of
from boostrank.clicks.tables import ClickColumns, ClickRows, read_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError, InputError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.doctor import Profile
from boostrank.data.doctor.checks import ERROR, NOTE, WARNING, Finding, Findings, Severity, percent, plural

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
"""Findings of `boostrank.data.doctor` about labels, which training on clicks ignores."""

FEW_LISTS = 5  # impressions of the median query's list: with 2, debiasing ranked worse than click counts
_MANY = 0.2  # share of queries from which a note becomes a warning
_RATES = 10  # positions whose click rates are listed
_ENOUGH = 20  # impressions
_SURE = 0.01  # family-wise error over all documents of the test for excess clicks
_BEYOND = 2.0  # minimum ratio of clicks to the largest expected number
_REFITS = 3
_ERRORS = 3.0  # standard errors between click rates


class Kind(NamedTuple):
    """A kind of finding: its severity, and words with fields that the checks fill in."""

    severity: Severity
    message: str
    cost: str
    fix: str = ""


KINDS = {
    "no-click-log": Kind(
        ERROR, "{why}", "train refuses it", "create it from sessions with boostrank data count-clicks"
    ),
    "unreadable-clicks": Kind(ERROR, "{why}", "training on clicks refuses it"),
    "no-clicks": Kind(
        ERROR, "{what}", "there is nothing to learn", "check the contents of the columns `impressions` and `clicks`"
    ),
    "only-clicked-impressions": Kind(
        WARNING,
        "every impression was clicked: were those without a click left out?",
        "relevant documents cannot be distinguished from those shown often",
        "log every impression, clicked or not",
    ),
    "nothing-moved": Kind(
        ERROR,
        "{what}; {share} of the clicked documents moved at all",
        "propensities cannot be estimated: training needs --propensities, comparisons by clicks are no better than "
        "chance, and bots cannot be distinguished from good documents",
        "log lists that vary a little, or pass a file of propensities",
    ),
    "unmoved-positions": Kind(
        WARNING,
        "no clicked document moved between {positions} and those above",
        "they have no propensity: {lost:,} impressions ({share}) are ignored",
        "log lists that vary a little there, too",
    ),
    "vague-positions": Kind(
        WARNING,
        "the propensities of {positions} are known to a factor of 2.7 at best",
        "clicks there are divided by a number that is mostly noise",
        "collect more clicks on documents that move",
    ),
    "few-impressions": Kind(
        WARNING,
        "the list of the median query was shown {middle:g} times",
        "a gain beyond chance is unlikely: with 2 lists per query, clicks over exposure ranked worse than click counts",
        f"log at least {FEW_LISTS * 2} lists per query, and rely on the gate that train prints",
    ),
    "single-impression-queries": Kind(
        NOTE,
        "{count:,} of {all:,} queries that were shown ({share}) were shown once",
        "none of their documents moved: they carry no information on positions, and little on documents",
        "log longer",
    ),
    "never-shown": Kind(
        NOTE,
        "{count:,} of {all:,} documents ({share}) were never shown{also}",
        "training excludes them; comparisons count them as not clicked",
        "if this is unexpected: was the log counted over these data, in this row order?",
    ),
    "short-impressions": Kind(
        NOTE,
        "in {count:,} of {all:,} queries a position has fewer impressions than one further down, {missing:,} are "
        "missing in all: qid {qid} has {own:,} at position {p} and {most:,} at position {deeper}",
        "unlogged impressions make exposure too small, and gains too large",
        "log every position of a list down to the last one shown; ignore this if those documents are not in the data",
    ),
    "rising-click-rates": Kind(
        WARNING,
        "clicks per impression at positions 1, 2, ...: {rates}: position {p} is clicked more often than position 1",
        "positions may differ from those that users saw",
        "check that position 1 is the top of the list",
    ),
    "click-bots": Kind(
        WARNING,
        "{documents} clicked more often than its position is examined, in {queries}: row {row:,} (qid {qid}) has "
        "{clicks:,} clicks of {shown:,} impressions at {where}, the rest of its query {rate:.2f} clicks per impression",
        "bots, or one person who clicks everywhere: they count as the best documents, and make propensities too flat",
        "drop such sessions before counting (boostrank data count-clicks --where), or remove these rows from the log",
    ),
}
"""Findings, with words that the checks fill in."""


def with_clicks(
    findings: Sequence[Finding], sets: Sequence[tuple[str, Profile]], columns: ClickColumns | None
) -> list[Finding]:
    """Replace findings about labels by findings about clicks."""
    # A document with several positions has several rows, which are no duplicates.
    left_out = OF_LABELS | ({"duplicates"} if columns is not None and columns.document else set())
    found = [finding for finding in findings if finding.check not in left_out]
    for path, profile in sets:
        try:
            log = path if columns is not None else log_of(path)
        except InputError as error:
            found.append(_found(path, "no-click-log", 1, why=error))
            continue
        if not profile.n_queries:  # already reported as an error
            continue
        ptr = np.concatenate([[0], np.cumsum(profile.sizes)]).astype(np.int64)
        qid = np.array([profile.qid(q) for q in range(profile.n_queries)], object)
        unread = ("unreadable-file", "unreadable-row", "missing-token")
        whole = not any(one.file == path and one.check in unread for one in findings)
        found += look_at_clicks(log, QueryIndex(ptr, qid), counted=whole, columns=columns)
    return [finding for severity in Severity for finding in found if finding.severity is severity]


def look_at_clicks(
    path: str | PathLike[str], queries: QueryIndex, counted: bool = True, columns: ClickColumns | None = None
) -> Findings:
    """Check a click log, or the click columns of a table; return the findings, the most severe first.

    Args:
        counted: these are all queries, so a row of another document is an error.
    """
    try:
        if columns is None:
            clicks = _Clicks.read(path, queries, counted)
        else:
            clicks = _Clicks.of_table(path, queries, columns)
    except (FileFormatError, OSError) as error:
        reason, line = (error.reason, error.line) if isinstance(error, FileFormatError) else (str(error.strerror), 0)
        return Findings([_found(fspath(path), "unreadable-clicks", 1, line=line, why=reason)])
    found = [finding for check in CHECKS for finding in check(clicks)]
    return Findings(finding for severity in Severity for finding in found if finding.severity is severity)


@dataclass(frozen=True, eq=False)
class _Clicks:
    """A click log with the queries of its documents.

    Args:
        rows_of_table: int64[N], table row of each document, from 0, if the clicks are in the data's own table; None if
            documents are the rows.
    """

    file: str
    queries: QueryIndex
    log: ClickLog
    rows_of_table: Int64Array | None = None

    @classmethod
    def read(cls, path: str | PathLike[str], queries: QueryIndex, counted: bool) -> _Clicks:
        count = queries.n_documents
        log = read_clicks(path, count if counted else MAX_ROWS)
        return cls(fspath(path), queries, replace(log.where(log.rows < count), n_documents=count))

    @classmethod
    def of_table(cls, path: str | PathLike[str], queries: QueryIndex, columns: ClickColumns) -> _Clicks:
        name, clicks, owner = fspath(path), ClickRows.read(path, columns), queries.of_rows()
        if clicks.positions.size != owner.size:
            words = f"{clicks.positions.size:,} rows of clicks, but {owner.size:,} rows of data"
            raise FileFormatError(words, file=name)
        log, first = clicks.log(owner)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[first], minlength=len(queries)))]).astype(np.int64)
        return cls(name, QueryIndex(ptr, queries.qid), log, np.flatnonzero(first))

    @cached_property
    def curve(self) -> Propensities | None:
        """Propensities of the positions; None if no clicked document moved."""
        return _estimated(self.log, self.queries)

    @cached_property
    def owner(self) -> Int64Array:
        """Query of each document, int64[N]."""
        return self.queries.of_rows()

    @cached_property
    def cells(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Query, position and impressions of each query and position with impressions, ascending."""
        width = self.log.depth + 1
        cell, number = np.unique(self.owner[self.log.rows] * width + self.log.positions, return_inverse=True)
        return cell // width, cell % width, np.bincount(number, self.log.impressions).astype(np.int64)

    @cached_property
    def lists(self) -> Int64Array:
        """Largest number of impressions at a position of each query, int64[Q]."""
        most = np.zeros(len(self.queries), np.int64)
        np.maximum.at(most, self.cells[0], self.cells[2])
        return most

    def found(self, kind: str, count: int, warn: bool = False, **words: Any) -> Finding:
        return _found(self.file, kind, count, warn, **words)


def _found(file: str, kind: str, count: int, warn: bool = False, line: int = 0, **words: Any) -> Finding:
    severity, *texts = KINDS[kind]
    message, cost, fix = (text.format(count=count, **words) for text in texts)
    return Finding(kind, WARNING if warn else severity, file, line, 0, int(count), message, cost, fix)


def _estimated(log: ClickLog, queries: QueryIndex) -> Propensities | None:
    """Estimate the propensities of a log, ignoring warnings; None if no clicked document moved."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return estimate_propensities(log, queries)
    except DataError:
        return None


def nothing_clicked(clicks: _Clicks) -> Iterator[Finding]:
    """Find logs without clicks, or without unclicked impressions."""
    log = clicks.log
    shown, clicked = int(log.impressions.sum()), int(log.clicks.sum())
    if not clicked:
        what = "no impression was clicked" if shown else "there is no entry"
        yield clicks.found("no-clicks", shown, what=what)
    elif shown >= _ENOUGH and clicked == shown:
        yield clicks.found("only-clicked-impressions", clicked)


def moves(clicks: _Clicks) -> Iterator[Finding]:
    """Find positions whose propensity cannot be estimated, because no document moved to them, or hardly so."""
    log, curve = clicks.log, clicks.curve
    if not log.clicks.any():
        return
    if curve is None:
        what = "no clicked document was shown both at position 1 and elsewhere, by itself or through others"
        if log.positions.min() > 1:
            what = f"position {log.positions.min()} is the first with impressions: do positions count from 1?"
        yield clicks.found("nothing-moved", log.depth, what=what, share=percent(moved_share(log), 1))
        return
    assert curve.errors is not None
    shown = np.bincount(log.positions - 1, log.impressions)
    still = np.flatnonzero((shown > 0) & np.isnan(curve.examination))
    lost = int(shown[still].sum())
    for kind, found in (("unmoved-positions", still), ("vague-positions", np.flatnonzero(curve.errors > NONSENSE))):
        if found.size:
            positions = f"{plural(found.size, 'position', 'positions')} (from position {found[0] + 1})"
            yield clicks.found(kind, found.size, positions=positions, lost=lost, share=percent(lost, shown.sum()))


def few_lists(clicks: _Clicks) -> Iterator[Finding]:
    """Find logs whose queries have few impressions."""
    lists = clicks.lists[clicks.lists > 0]
    middle = float(np.median(lists)) if lists.size else FEW_LISTS
    if middle < FEW_LISTS:
        yield clicks.found("few-impressions", int(lists.sum()), middle=middle)
    once = int((lists == 1).sum())
    if once:
        words = {"all": lists.size, "share": percent(once, lists.size)}
        yield clicks.found("single-impression-queries", once, warn=once > _MANY * lists.size, **words)


def never_shown(clicks: _Clicks) -> Iterator[Finding]:
    """Find documents and queries that were never shown."""
    log, count = clicks.log, clicks.queries.n_documents
    hidden = count - int(log.shown.sum())
    if hidden and log.rows.size:
        unseen = int((clicks.lists == 0).sum())
        also = f", including {plural(unseen, 'whole query', 'whole queries')}" if unseen else ""
        yield clicks.found("never-shown", hidden, all=count, share=percent(hidden, count), also=also)


def short_lists(clicks: _Clicks) -> Iterator[Finding]:
    """Find lists with fewer impressions at a position than further down: some impressions were not logged."""
    query, position, shown = clicks.cells
    if not query.size:
        return
    # Reverse running maximum of impressions within each query. Numbers are replaced by their ranks to avoid overflow.
    levels, level = np.unique(shown, return_inverse=True)
    backwards = (query.max() - query)[::-1] * levels.size + level[::-1]
    most = levels[np.maximum.accumulate(backwards)[::-1] % levels.size]
    above = np.concatenate([[0], position[:-1]])
    above[1:][query[1:] != query[:-1]] = 0
    skipped = position - above - 1  # positions without any impression
    missing = (most - shown) + skipped * most
    short, queries = np.unique(query[missing > 0]), np.unique(query).size
    if short.size:
        i = int(np.flatnonzero(missing > 0)[0])
        q = int(query[i])
        p, own = (int(above[i]) + 1, 0) if skipped[i] else (int(position[i]), int(shown[i]))
        deeper = int(position[i:][(query[i:] == q) & (shown[i:] == most[i]) & (position[i:] > p)][0])
        words: dict[str, Any] = {"qid": clicks.queries.qid[q], "own": own, "p": p, "most": most[i], "deeper": deeper}
        words |= {"all": queries, "missing": missing.sum()}
        yield clicks.found("short-impressions", short.size, warn=short.size > _MANY * queries, **words)


def click_rates(clicks: _Clicks) -> Iterator[Finding]:
    """Find positions that are clicked more often than the first."""
    log = clicks.log
    shown, clicked = (np.bincount(log.positions - 1, counts) for counts in (log.impressions, log.clicks))
    if not clicked.any():
        return
    rates = np.divide(clicked, shown, out=np.full(shown.size, np.nan), where=shown > 0)
    listed = ", ".join("-" if np.isnan(rate) else f"{rate:.3f}" for rate in rates[:_RATES])
    listed += ", ..." if rates.size > _RATES else ""
    error = np.sqrt(np.maximum(rates * (1.0 - rates), 1e-12) / np.maximum(shown, 1.0))
    higher = np.flatnonzero(rates - rates[0] > _ERRORS * np.hypot(error, error[0]))
    if higher.size:
        p = int(higher[np.argmax(rates[higher])]) + 1
        yield clicks.found("rising-click-rates", higher.size, rates=listed, p=p)


def bots(clicks: _Clicks) -> Iterator[Finding]:
    """Find documents with more clicks than examination allows.

    A document at position p is clicked with probability e_p at most. The clicks of n independent impressions whose
    probabilities have the mean x / n exceed c with probability exp(-n KL(c / n || x / n)) at most (W. Hoeffding,
    "Probability inequalities for sums of bounded random variables", JASA 58, 1963). Such documents flatten the
    propensities, which are estimated again without them.
    """
    log, curve, found = clicks.log, clicks.curve, np.zeros(clicks.queries.n_documents, bool)
    for _ in range(_REFITS):
        if curve is None:
            break
        more = _beyond_looks(log, curve)
        if np.array_equal(more, found):
            break
        found = more
        curve = _estimated(log.where(~found[log.rows]), clicks.queries)
    at = np.flatnonzero(found)
    if not at.size:
        return
    row = int(at[np.argmax(log.total_clicks()[at])])
    own, q = log.rows == row, int(clicks.owner[row])
    others = (clicks.owner[log.rows] == q) & ~found[log.rows]
    low, high = int(log.positions[own].min()), int(log.positions[own].max())
    words: dict[str, Any] = {
        "documents": plural(at.size, "document was", "documents were"),
        "queries": plural(np.unique(clicks.owner[at]).size, "query", "queries"),
        "row": 1 + (row if clicks.rows_of_table is None else int(clicks.rows_of_table[row])),
        "qid": clicks.queries.qid[q],
        "clicks": log.clicks[own].sum(),
        "shown": log.impressions[own].sum(),
        "where": f"position {low}" if low == high else f"positions {low} to {high}",
        "rate": log.clicks[others].sum() / max(log.impressions[others].sum(), 1),
    }
    yield clicks.found("click-bots", at.size, **words)


def _beyond_looks(log: ClickLog, curve: Propensities) -> npt.NDArray[np.bool_]:
    """Mark documents with more clicks than a perfect one would get, bool[N], with a family-wise error of 1%."""
    highest = _highest(curve)
    looked = highest[np.minimum(log.positions, highest.size) - 1]
    n, c, x = (
        np.bincount(log.rows, one, log.n_documents) for one in (log.impressions, log.clicks, log.impressions * looked)
    )
    many = np.flatnonzero((n >= _ENOUGH) & (c > _BEYOND * x))
    n, c, x = n[many], c[many], x[many]
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(c < n, (n - c) * np.log((n - c) / (n - x)), 0.0)
        unlikely = -(c * np.log(c / x) + rest)
    found = np.zeros(log.n_documents, bool)
    found[many[unlikely < np.log(_SURE / max(int(log.shown.sum()), 1))]] = True
    return found


def _highest(curve: Propensities) -> Float64Array:
    """Return upper bounds of the propensities, float64[P + 1]; 1 where unknown and beyond the curve."""
    assert curve.errors is not None
    sure = np.isfinite(curve.examination) & (curve.errors <= NONSENSE)
    highest = np.ones(sure.size + 1)
    highest[:-1][sure] = np.minimum(curve.examination[sure] * np.exp(1.96 * curve.errors[sure]), 1.0)
    return highest


CHECKS = (nothing_clicked, moves, few_lists, never_shown, short_lists, click_rates, bots)
