"""Checks on click logs: problems that training refuses, problems that mislead training, and useful
facts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import fspath

import numpy as np

from boostrank.clicks.estimation import NONSENSE, estimate_propensities
from boostrank.clicks.gate import moved_share
from boostrank.clicks.log import MAX_ROWS, ClickLog
from boostrank.clicks.sidecar import log_of
from boostrank.clicks.tables import read_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError, InputError
from boostrank.core.files import AnyPath
from boostrank.core.queries import QueryIndex
from boostrank.core.text import count_of
from boostrank.core.types import Int64Array
from boostrank.diagnosis.profile import Profile
from boostrank.diagnosis.rules import OF_LABELS, Finding, Findings, find, percent

_RATES = 10  # positions whose click rates are listed
_ENOUGH = 20  # impressions
_ERRORS = 3.0  # standard errors between click rates
_LOG = ("", 0, 0)  # position in a log whose name is filled in at the end


def with_clicks(findings: Sequence[Finding], sets: Sequence[tuple[str, Profile]]) -> Findings:
    """Replace findings about labels by findings about clicks."""
    click_findings = [finding for finding in findings if finding.check not in OF_LABELS]
    for path, profile in sets:
        try:
            log = log_of(path)
        except InputError as error:
            click_findings.append(find("no-click-log", (path, 0, 0), 1, str(error)))
            continue
        if not profile.n_queries:  # already reported as an error
            continue
        unread = ("unreadable-file", "unreadable-row")
        counted = not any(finding.file == path and finding.check in unread for finding in findings)
        queries = QueryIndex.from_sizes(profile.sizes)
        click_findings += look_at_clicks(log, queries, counted=counted)
    return Findings(click_findings)


def look_at_clicks(path: AnyPath, queries: QueryIndex, counted: bool = True) -> Findings:
    """Check a click log, and return the findings, with the most severe first.

    Args:
        counted: whether `queries` are all queries in the data, in which case a row for another
            document is an error.
    """
    file = fspath(path)
    count = queries.n_documents
    try:
        max_rows = count if counted else MAX_ROWS
        log = read_clicks(path, max_rows)
    except FileFormatError as error:
        return Findings([find("unreadable-clicks", (file, error.line, 0), 1, error.reason)])
    except OSError as error:
        return Findings([find("unreadable-clicks", (file, 0, 0), 1, str(error.strerror))])
    log = replace(log.where(log.rows < count), n_documents=count)
    findings = [
        *nothing_clicked(log),
        *moves(log, queries),
        *click_rates(log),
    ]
    return Findings(replace(finding, file=file) for finding in findings)


def nothing_clicked(log: ClickLog) -> Iterator[Finding]:
    """Find logs without clicks, or without unclicked impressions."""
    impressions = int(log.impressions.sum())
    clicked = int(log.clicks.sum())
    if not clicked:
        message = "no impression was clicked" if impressions else "there is no entry"
        yield find("no-clicks", _LOG, impressions, message)
    elif impressions >= _ENOUGH and clicked == impressions:
        message = "every impression was clicked: were impressions without a click left out?"
        yield find("only-clicked-impressions", _LOG, clicked, message)


def moves(log: ClickLog, queries: QueryIndex) -> Iterator[Finding]:
    """Find positions with too few documents that moved there to estimate a propensity."""
    if not log.clicks.any():
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            curve = estimate_propensities(log, queries)
    except DataError:
        message = (
            "no clicked document was shown both at position 1 and elsewhere, and no chain of"
            f" documents joins them; position {log.positions.min()} is the first with impressions"
            f" (positions count from 1), and {percent(moved_share(log), 1)} of the clicked"
            " documents moved at all"
        )
        yield find("nothing-moved", _LOG, log.depth, message)
        return
    assert curve.errors is not None
    # Find positions without a propensity, and those whose propensity is nearly a guess.
    impressions = np.bincount(log.positions - 1, log.impressions)
    still = np.flatnonzero((impressions > 0) & np.isnan(curve.examination))
    vague = np.flatnonzero(curve.errors > NONSENSE)
    if still.size:
        message = f"no clicked document moved between {_from(still)} and those above"
        lost = int(impressions[still].sum())
        share = percent(lost, impressions.sum())
        cost = f"they have no propensity: {lost:,} impressions ({share}) are ignored"
        yield find("unmoved-positions", _LOG, still.size, message, cost=cost)
    if vague.size:
        message = f"the propensities of {_from(vague)} are accurate to a factor of 2.7 at best"
        yield find("vague-positions", _LOG, vague.size, message)


def _from(positions: Int64Array) -> str:
    return f"{count_of(positions.size, 'position')} (from position {positions[0] + 1})"


def click_rates(log: ClickLog) -> Iterator[Finding]:
    """Find positions that are clicked more often than the first."""
    positions = log.positions - 1
    impressions = np.bincount(positions, log.impressions)
    clicked = np.bincount(positions, log.clicks)
    if not clicked.any():
        return
    # Compare with position 1; the rate of a position without impressions is NaN.
    with np.errstate(invalid="ignore"):
        rates = clicked / impressions
        error = np.sqrt(np.maximum(rates * (1.0 - rates), 1e-12) / impressions)
    higher = np.flatnonzero(rates - rates[0] > _ERRORS * np.hypot(error, error[0]))
    if higher.size:
        first_rates = ", ".join(f"{rate:.3f}" for rate in rates[:_RATES])
        p = int(higher[np.argmax(rates[higher])]) + 1
        message = (
            f"clicks per impression at positions 1, 2, ...: {first_rates}: position {p} is clicked"
            " more often than position 1"
        )
        yield find("rising-click-rates", _LOG, higher.size, message)
