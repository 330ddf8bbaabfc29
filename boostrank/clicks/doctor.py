"""Linter for click logs: problems that training refuses, problems that mislead it, and useful facts.

findings = look_at_clicks("train.txt.clicks", queries)
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from os import PathLike, fspath

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
from boostrank.data.doctor.finding import Finding, Findings, Severity, percent, plural

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
RARE = 0.02  # share of the impressions of position 1
_RATES = 10  # positions whose click rates are listed
_ENOUGH = 20  # impressions
_SURE = 0.01  # family-wise error over all documents of the test for excess clicks
_BEYOND = 2.0  # minimum ratio of clicks to the largest expected number
_REFITS = 3
_ERRORS = 3.0  # standard errors between click rates


def look_at_clicks(
    path: str | PathLike[str], queries: QueryIndex, counted: bool = True, columns: ClickColumns | None = None
) -> Findings:
    """Check a click log; return the findings, the most severe first.

    Args:
        path, queries, counted: as in `ClickProfile.read`; with columns, path and queries as in `ClickProfile.of_table`.
        columns: columns of the data's own table that hold the clicks; None if `path` is a log.
    """
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


# Errors --------------------------------------------------------------------------------------------------------------


def refused_lines(profile: ClickProfile) -> Iterator[Finding]:
    """Find invalid lines: not numbers, rows that are not in the data, more clicks than impressions."""
    found, cost = (
        profile.entries,
        "training on clicks refuses the log; the rest of this report covers the other lines",
    )
    for error in found.refused:
        yield Finding(
            "unreadable-click-line",
            Severity.ERROR,
            error.file,
            error.line,
            0,
            1,
            error.reason,
            cost,
            "correct or remove the line",
        )
    if found.n_refused > len(found.refused):
        yield profile.finding(
            "unreadable-click-lines",
            Severity.ERROR,
            found.refused[0].line,
            found.n_refused,
            f"{found.n_refused:,} of {found.n_refused + found.rows.size:,} entries are impossible; "
            f"{len(found.refused)} are shown",
            cost,
            "was the log made from these data, in this order?",
        )


def nothing_clicked(profile: ClickProfile) -> Iterator[Finding]:
    """Find logs without clicks, or without unclicked impressions."""
    log = profile.log
    if not log.clicks.any():
        yield profile.finding(
            "no-clicks",
            Severity.ERROR,
            0,
            int(log.impressions.sum()),
            "no impression was clicked" if log.rows.size else "there is no entry",
            "there is nothing to learn",
            "check the contents of the columns `impressions` and `clicks`",
        )
    elif log.impressions.sum() >= _ENOUGH and log.clicks.sum() == log.impressions.sum():
        yield profile.finding(
            "only-clicked-impressions",
            Severity.WARNING,
            0,
            int(log.clicks.sum()),
            "every impression was clicked: were those without a click left out?",
            "relevant documents cannot be distinguished from those shown often",
            "log every impression, clicked or not",
        )


def moves(profile: ClickProfile) -> Iterator[Finding]:
    """Find positions whose propensity cannot be estimated, because no document moved to them."""
    log, curve = profile.log, profile.curve
    if not log.clicks.any():
        return
    if curve is None:
        message = "no clicked document was shown both at position 1 and elsewhere, by itself or through others"
        if log.positions.min() > 1:
            message = f"position {log.positions.min()} is the first with impressions: do positions count from 1?"
        yield profile.finding(
            "nothing-moved",
            Severity.ERROR,
            0,
            log.depth,
            f"{message}; {percent(moved_share(log), 1)} of the clicked documents moved at all",
            "propensities cannot be estimated: training needs --propensities, comparisons by clicks are no better than "
            "chance, and bots cannot be distinguished from good documents",
            "log lists that vary a little, or pass a file of propensities",
        )
        return
    for name, entries, own in profile.parts:
        if name and estimated(entries, profile.queries) is None:
            yield profile.finding(
                "unmoved-segments",
                Severity.WARNING,
                profile.line(segment=name),
                int(entries.impressions.sum()),
                f"segment {name}: no clicked document moved",
                "its propensities cannot be estimated: the curve of all segments together is used",
                "log lists that vary a little there, too, or merge it with a similar segment",
            )
            continue
        yield from _of_curve(profile, name, entries, own)


def _of_curve(profile: ClickProfile, segment: str, log: ClickLog, curve: Propensities) -> Iterator[Finding]:
    """Find positions of a curve with unknown or imprecise propensities; `segment` is empty without segments."""
    where = f"segment {segment}: " if segment else ""
    shown = np.bincount(log.positions - 1, log.impressions)
    still = np.flatnonzero((shown > 0) & ~np.isfinite(curve.at(np.arange(1, log.depth + 1))[0])) + 1
    if still.size:
        lost = int(shown[still - 1].sum())
        yield profile.finding(
            "unmoved-positions",
            Severity.WARNING,
            profile.line(position=int(still[0]), segment=segment),
            still.size,
            f"{where}no clicked document moved between {plural(still.size, 'position', 'positions')} (from position "
            f"{still[0]}) and those above",
            f"they have no propensity: {lost:,} impressions ({percent(lost, shown.sum())}) are ignored",
            "log lists that vary a little there, too",
        )
    assert curve.errors is not None
    vague = np.flatnonzero(curve.errors[: log.depth] > NONSENSE) + 1
    if vague.size:
        yield profile.finding(
            "vague-positions",
            Severity.WARNING,
            profile.line(position=int(vague[0]), segment=segment),
            vague.size,
            f"{where}the propensities of {plural(vague.size, 'position', 'positions')} (from position {vague[0]}) are "
            "known to a factor of 2.7 at best",
            "clicks there are divided by a number that is mostly noise",
            "collect more clicks on documents that move",
        )


# Sparse logs ---------------------------------------------------------------------------------------------------------


def few_lists(profile: ClickProfile) -> Iterator[Finding]:
    """Find queries with few impressions."""
    lists = profile.lists[profile.lists > 0]
    if not lists.size:
        return
    middle = float(np.median(lists))
    if middle < FEW_LISTS:
        yield profile.finding(
            "few-impressions",
            Severity.WARNING,
            0,
            int(lists.sum()),
            f"the list of the median query was shown {middle:g} times",
            "a gain beyond chance is unlikely: with 2 lists per query, clicks over exposure ranked worse than click "
            "counts",
            f"log at least {FEW_LISTS * 2} lists per query, and rely on the gate that train prints",
        )
    once = np.flatnonzero(profile.lists == 1)
    if once.size:
        severity = Severity.WARNING if once.size > MANY * lists.size else Severity.NOTE
        yield profile.finding(
            "single-impression-queries",
            severity,
            profile.line_of_query(int(once[0])),
            once.size,
            f"{once.size:,} of {lists.size:,} queries that were shown ({percent(once.size, lists.size)}) were shown "
            "once",
            "none of their documents moved: they carry no information on positions, and little on documents",
            "log longer",
        )


def rare_positions(profile: ClickProfile) -> Iterator[Finding]:
    """Find positions with few impressions."""
    shown = profile.of_positions(profile.log.impressions)
    if not shown.size or not shown[0]:
        return
    rare = np.flatnonzero((shown > 0) & (shown < RARE * shown[0])) + 1
    if rare.size:
        p = int(rare[0])
        yield profile.finding(
            "rare-positions",
            Severity.NOTE,
            profile.line(position=p),
            rare.size,
            f"{plural(rare.size, 'position has', 'positions have')} under {RARE:.0%} of the impressions of position 1: "
            f"position {p} has {shown[p - 1]:,.0f} of {shown[0]:,.0f}",
            "their propensities are imprecise, and single clicks there have large weights",
            "remove such entries if their intervals are wide (boostrank data propensities)",
        )


def never_shown(profile: ClickProfile) -> Iterator[Finding]:
    """Find documents and queries that were never shown, and queries without clicks."""
    log, count = profile.log, profile.queries.n_documents
    hidden = count - int(log.shown.sum())
    if hidden and log.rows.size:
        unseen = int((profile.lists == 0).sum())
        also = f", including {plural(unseen, 'whole query', 'whole queries')}" if unseen else ""
        yield profile.finding(
            "never-shown",
            Severity.NOTE,
            0,
            hidden,
            f"{hidden:,} of {count:,} documents ({percent(hidden, count)}) were never shown{also}",
            "training excludes them; comparisons count them as not clicked",
            "if this is unexpected: was the log counted over these data, in this row order?",
        )
    clicked = np.bincount(profile.owner, log.total_clicks(), len(profile.queries))
    without = np.flatnonzero((profile.lists > 0) & (clicked == 0))
    if without.size and log.clicks.any():
        shown = int((profile.lists > 0).sum())
        severity = Severity.WARNING if without.size > MANY * shown else Severity.NOTE
        yield profile.finding(
            "unclicked-queries",
            severity,
            profile.line_of_query(int(without[0])),
            without.size,
            f"{without.size:,} of {shown:,} queries that were shown ({percent(without.size, shown)}) have no clicks",
            "they carry no information",
            "log longer",
        )


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
        severity = Severity.WARNING if short.size > MANY * queries else Severity.NOTE
        yield profile.finding(
            "short-impressions",
            severity,
            profile.line_of_query(q, deeper),
            short.size,
            f"in {short.size:,} of {queries:,} queries a position has fewer impressions than one further down, "
            f"{missing.sum():,} are missing in all: qid {profile.queries.qid[q]} has {own:,} at position {p} and "
            f"{most[i]:,} at position {deeper}",
            "unlogged impressions make exposure too small, and gains too large",
            "log every position of a list down to the last one shown; ignore this if those documents are not in the "
            "data",
        )


def click_rates(profile: ClickProfile) -> Iterator[Finding]:
    """Report clicks per impression by position, which should decrease."""
    shown, clicked = (profile.of_positions(one) for one in (profile.log.impressions, profile.log.clicks))
    if not clicked.any():
        return
    rates = np.divide(clicked, shown, out=np.full(shown.size, np.nan), where=shown > 0)
    listed = ", ".join("-" if np.isnan(rate) else f"{rate:.3f}" for rate in rates[:_RATES])
    more = ", ..." if rates.size > _RATES else ""
    message = f"clicks per impression at positions 1, 2, ...: {listed}{more}"
    error = np.sqrt(np.maximum(rates * (1.0 - rates), 1e-12) / np.maximum(shown, 1.0))
    higher = np.flatnonzero(rates - rates[0] > _ERRORS * np.hypot(error, error[0]))
    if higher.size:
        p = int(higher[np.argmax(rates[higher])]) + 1
        yield profile.finding(
            "rising-click-rates",
            Severity.WARNING,
            profile.line(position=p),
            higher.size,
            f"{message}: position {p} is clicked more often than position 1",
            "positions may differ from those that users saw",
            "check that position 1 is the top of the list",
        )
    else:
        yield profile.finding(
            "click-rates",
            Severity.NOTE,
            0,
            rates.size,
            message,
            "they reflect both attention and relevance; click counts as labels would mix the two",
            "",
        )


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
    own = log.rows == row
    n, c = int(log.impressions[own].sum()), int(log.clicks[own].sum())
    q = int(profile.owner[row])
    others = (profile.owner[log.rows] == q) & ~found[log.rows]
    rate = log.clicks[others].sum() / max(log.impressions[others].sum(), 1)
    low, high = int(log.positions[own].min()), int(log.positions[own].max())
    where = f"position {low}" if low == high else f"positions {low} to {high}"
    queries = np.unique(profile.owner[at]).size
    yield profile.finding(
        "click-bots",
        Severity.WARNING,
        profile.line(row=row),
        at.size,
        f"{plural(at.size, 'document was', 'documents were')} clicked more often than its position is examined, in "
        f"{plural(queries, 'query', 'queries')}: row {profile.number(row):,} (qid {profile.queries.qid[q]}) has {c:,} "
        f"clicks of {n:,} impressions at {where}, the rest of its query {rate:.2f} clicks per impression",
        "bots, or one person who clicks everywhere: they count as the best documents, and make propensities too flat",
        "drop such sessions before counting (boostrank data count-clicks --where), or remove these rows from the log",
    )


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
