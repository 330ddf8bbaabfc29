"""Linter for click logs: problems that training refuses, problems that mislead it, and useful facts.

findings = look_at_clicks("train.txt.clicks", queries)
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.columns import ClickColumns
from boostrank.clicks.estimation import NONSENSE
from boostrank.clicks.gate import moved_share
from boostrank.clicks.log import ClickLog
from boostrank.clicks.profile import ClickProfile, estimated
from boostrank.clicks.propensities import AnyPropensities, Propensities
from boostrank.core.errors import FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.doctor.checks import ERROR, NOTE, WARNING, Finding, Findings, Kind, Severity, percent, plural

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
MANY = 0.2  # share of queries from which a note becomes a warning
_RATES = 10  # positions whose click rates are listed
_ENOUGH = 20  # impressions
_SURE = 0.01  # family-wise error over all documents of the test for excess clicks
_BEYOND = 2.0  # minimum ratio of clicks to the largest expected number
_REFITS = 3
_ERRORS = 3.0  # standard errors between click rates


_REFUSED = "training on clicks refuses the log; the rest of this report covers the other lines"
KINDS = {
    "unreadable-click-line": Kind(ERROR, "{why}", _REFUSED, "correct or remove the line"),
    "unreadable-click-lines": Kind(
        ERROR,
        "{count:,} of {all:,} entries are impossible; {shown} are shown",
        _REFUSED,
        "was the log made from these data, in this order?",
    ),
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
    "unmoved-segments": Kind(
        WARNING,
        "segment {segment}: no clicked document moved",
        "its propensities cannot be estimated: the curve of all segments together is used",
        "log lists that vary a little there, too, or merge it with a similar segment",
    ),
    "unmoved-positions": Kind(
        WARNING,
        "{where}no clicked document moved between {positions} and those above",
        "they have no propensity: {lost:,} impressions ({share}) are ignored",
        "log lists that vary a little there, too",
    ),
    "vague-positions": Kind(
        WARNING,
        "{where}the propensities of {positions} are known to a factor of 2.7 at best",
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
    "unclicked-queries": Kind(
        NOTE,
        "{count:,} of {all:,} queries that were shown ({share}) have no clicks",
        "they carry no information",
        "log longer",
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


def look_at_clicks(
    path: str | PathLike[str], queries: QueryIndex, counted: bool = True, columns: ClickColumns | None = None
) -> Findings:
    """Check a click log, or the click columns of a table; return the findings, the most severe first."""
    try:
        if columns is None:
            profile = ClickProfile.read(path, queries, counted)
        else:
            profile = ClickProfile.of_table(path, columns, queries)
    except (FileFormatError, OSError) as error:
        reason, line = (error.reason, error.line) if isinstance(error, FileFormatError) else (str(error.strerror), 0)
        cost = "training on clicks refuses it"
        finding = Finding("unreadable-clicks", Severity.ERROR, fspath(path), line or 0, 0, 1, reason, cost, "")
        return Findings([finding])
    found = [finding for check in CHECKS for finding in check(profile)]
    return Findings(finding for severity in Severity for finding in found if finding.severity is severity)


def _found(profile: ClickProfile, kind: str, line: int, count: int, warn: bool = False, **words: Any) -> Finding:
    severity, *texts, _ = KINDS[kind]
    message, cost, fix = (text.format(count=count, **words) for text in texts)
    return Finding(kind, WARNING if warn else severity, profile.file, line, 0, int(count), message, cost, fix)


# Errors --------------------------------------------------------------------------------------------------------------


def refused_lines(profile: ClickProfile) -> Iterator[Finding]:
    """Find invalid lines: not numbers, rows that are not in the data, more clicks than impressions."""
    found = profile.entries
    for error in found.refused:
        yield _found(profile, "unreadable-click-line", error.line, 1, why=error.reason)
    if found.n_refused > len(found.refused):
        every, first = found.n_refused + found.rows.size, found.refused[0].line
        shown = len(found.refused)
        yield _found(profile, "unreadable-click-lines", first, found.n_refused, all=every, shown=shown)


def nothing_clicked(profile: ClickProfile) -> Iterator[Finding]:
    """Find logs without clicks, or without unclicked impressions."""
    log = profile.log
    shown, clicks = int(log.impressions.sum()), int(log.clicks.sum())
    if not clicks:
        what = "no impression was clicked" if log.rows.size else "there is no entry"
        yield _found(profile, "no-clicks", 0, shown, what=what)
    elif shown >= _ENOUGH and clicks == shown:
        yield _found(profile, "only-clicked-impressions", 0, clicks)


def moves(profile: ClickProfile) -> Iterator[Finding]:
    """Find positions whose propensity cannot be estimated, because no document moved to them, or hardly so."""
    log = profile.log
    if not log.clicks.any():
        return
    if profile.curve is None:
        what = "no clicked document was shown both at position 1 and elsewhere, by itself or through others"
        if log.positions.min() > 1:
            what = f"position {log.positions.min()} is the first with impressions: do positions count from 1?"
        yield _found(profile, "nothing-moved", 0, log.depth, what=what, share=percent(moved_share(log), 1))
        return
    for name, entries, curve in profile.parts:
        if name and estimated(entries, profile.queries) is None:
            line, count = profile.line(segment=name), int(entries.impressions.sum())
            yield _found(profile, "unmoved-segments", line, count, segment=name)
            continue
        where = f"segment {name}: " if name else ""
        shown = np.bincount(entries.positions - 1, entries.impressions)
        still = np.flatnonzero((shown > 0) & ~np.isfinite(curve.at(np.arange(1, entries.depth + 1))[0])) + 1
        assert curve.errors is not None
        vague = np.flatnonzero(curve.errors[: entries.depth] > NONSENSE) + 1
        lost = int(shown[still - 1].sum())
        words: dict[str, Any] = {"where": where, "lost": lost, "share": percent(lost, shown.sum())}
        for kind, positions in (("unmoved-positions", still), ("vague-positions", vague)):
            if positions.size:
                named = f"{plural(positions.size, 'position', 'positions')} (from position {positions[0]})"
                line = profile.line(position=int(positions[0]), segment=name)
                yield _found(profile, kind, line, positions.size, positions=named, **words)


# Sparse logs ---------------------------------------------------------------------------------------------------------


def few_lists(profile: ClickProfile) -> Iterator[Finding]:
    """Find queries with few impressions."""
    lists = profile.lists[profile.lists > 0]
    if not lists.size:
        return
    middle = float(np.median(lists))
    if middle < FEW_LISTS:
        yield _found(profile, "few-impressions", 0, int(lists.sum()), middle=middle)
    yield from _queries(profile, "single-impression-queries", profile.lists == 1)


def never_shown(profile: ClickProfile) -> Iterator[Finding]:
    """Find documents and queries that were never shown, and queries without clicks."""
    log, count = profile.log, profile.queries.n_documents
    hidden = count - int(log.shown.sum())
    if hidden and log.rows.size:
        unseen = int((profile.lists == 0).sum())
        also = f", including {plural(unseen, 'whole query', 'whole queries')}" if unseen else ""
        yield _found(profile, "never-shown", 0, hidden, all=count, share=percent(hidden, count), also=also)
    if log.clicks.any():
        clicked = np.bincount(profile.owner, log.total_clicks(), len(profile.queries))
        yield from _queries(profile, "unclicked-queries", (profile.lists > 0) & (clicked == 0))


def _queries(profile: ClickProfile, kind: str, which: npt.NDArray[np.bool_]) -> Iterator[Finding]:
    """Find queries, of those that were shown; many are a warning."""
    found, shown = np.flatnonzero(which), int((profile.lists > 0).sum())
    if found.size:
        many = found.size > MANY * shown
        line, share = profile.line_of_query(int(found[0])), percent(found.size, shown)
        yield _found(profile, kind, line, found.size, warn=many, all=shown, share=share)


# Misleading logs -----------------------------------------------------------------------------------------------------


def short_lists(profile: ClickProfile) -> Iterator[Finding]:
    """Find lists with fewer impressions at a position than further down: some impressions were not logged."""
    cell, shown = profile.cells
    if not cell.size:
        return
    query, position = np.divmod(cell, profile.log.depth + 1)
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
        words: dict[str, Any] = {"qid": profile.queries.qid[q], "own": own, "p": p, "most": most[i], "deeper": deeper}
        words |= {"all": queries, "missing": missing.sum()}
        line, many = profile.line_of_query(q, deeper), short.size > MANY * queries
        yield _found(profile, "short-impressions", line, short.size, warn=many, **words)


def click_rates(profile: ClickProfile) -> Iterator[Finding]:
    """Find positions that are clicked more often than the first."""
    shown, clicked = (profile.of_positions(one) for one in (profile.log.impressions, profile.log.clicks))
    if not clicked.any():
        return
    rates = np.divide(clicked, shown, out=np.full(shown.size, np.nan), where=shown > 0)
    listed = ", ".join("-" if np.isnan(rate) else f"{rate:.3f}" for rate in rates[:_RATES])
    listed += ", ..." if rates.size > _RATES else ""
    error = np.sqrt(np.maximum(rates * (1.0 - rates), 1e-12) / np.maximum(shown, 1.0))
    higher = np.flatnonzero(rates - rates[0] > _ERRORS * np.hypot(error, error[0]))
    if higher.size:
        p = int(higher[np.argmax(rates[higher])]) + 1
        yield _found(profile, "rising-click-rates", profile.line(position=p), higher.size, rates=listed, p=p)


def bots(profile: ClickProfile) -> Iterator[Finding]:
    """Find documents with more clicks than examination allows.

    A document at position p is clicked with probability e_p at most. The clicks of n independent impressions whose
    probabilities have the mean x / n exceed c with probability exp(-n KL(c / n || x / n)) at most (W. Hoeffding,
    "Probability inequalities for sums of bounded random variables", JASA 58, 1963). Such documents flatten the
    propensities, which are estimated again without them.
    """
    log, curve, found = profile.log, profile.curve, np.zeros(profile.queries.n_documents, bool)
    for _ in range(_REFITS):
        if curve is None:
            break
        more = _beyond_looks(log, curve)
        if np.array_equal(more, found):
            break
        found = more
        curve = estimated(log.where(~found[log.rows]), profile.queries)
    at = np.flatnonzero(found)
    if not at.size:
        return
    row = int(at[np.argmax(log.total_clicks()[at])])
    own, q = log.rows == row, int(profile.owner[row])
    others = (profile.owner[log.rows] == q) & ~found[log.rows]
    low, high = int(log.positions[own].min()), int(log.positions[own].max())
    words: dict[str, Any] = {
        "documents": plural(at.size, "document was", "documents were"),
        "queries": plural(np.unique(profile.owner[at]).size, "query", "queries"),
        "row": profile.number(row),
        "qid": profile.queries.qid[q],
        "clicks": log.clicks[own].sum(),
        "shown": log.impressions[own].sum(),
        "where": f"position {low}" if low == high else f"positions {low} to {high}",
        "rate": log.clicks[others].sum() / max(log.impressions[others].sum(), 1),
    }
    yield _found(profile, "click-bots", profile.line(row=row), at.size, **words)


def _beyond_looks(log: ClickLog, curve: AnyPropensities) -> npt.NDArray[np.bool_]:
    """Mark documents with more clicks than a perfect one would get, bool[N], with a family-wise error of 1%."""
    curves = {"": curve} if isinstance(curve, Propensities) else curve.curves
    # Segments without entries in the estimate have no curve; 1 is the largest possible propensity.
    highest = {name: _highest(one) for name, one in curves.items()}
    looked = np.ones(log.rows.size)
    for number, name in enumerate(log.segment_names or ("",)):
        own = slice(None) if log.segments is None else log.segments == number
        if name in highest:
            at = np.minimum(log.positions[own], highest[name].size) - 1
            looked[own] = highest[name][at]
    n, c = (np.bincount(log.rows, one, log.n_documents) for one in (log.impressions, log.clicks))
    x = np.bincount(log.rows, log.impressions * looked, log.n_documents)
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


CHECKS = tuple(
    one
    for one in list(vars().values())
    if inspect.isgeneratorfunction(one) and one.__module__ == __name__ and not one.__name__.startswith("_")
)
"""All public generators of this module, in order."""
