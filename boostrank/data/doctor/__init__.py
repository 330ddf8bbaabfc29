"""Linter for ranking data: errors that `train` refuses, problems that cost quality, and notes.

It continues after errors. The text is read once, as a stream, with the reader of the training.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from boostrank.core.gains import Gain, parse_gain
from boostrank.core.machine import resolve_threads
from boostrank.data.blocks import BAD_ROWS
from boostrank.data.doctor.checks import (
    AGAINST_TRAINING,
    BETWEEN_SETS,
    HIDES,
    OF_ROWS,
    OF_TEXT,
    OF_TRAINING_DATA,
    Check,
    Finding,
    Findings,
    Severity,
)
from boostrank.data.doctor.profile import Profile
from boostrank.data.options import Progress
from boostrank.data.source import AnySource, Reading

__all__ = ["Finding", "Findings", "Profile", "Severity", "examine", "look_at"]


def look_at(
    files: AnySource,
    *,
    role: str = "train",
    like: Profile | None = None,
    gain: Gain = "exponential",
    threads: int | None = None,
    progress: Progress = None,
    format: str = "auto",
    labelled: bool = True,
    **options: Any,
) -> Profile:
    """Profile one data set in one pass; arguments as for `boostrank.doctor`.

    Tables must have the columns of `like`, the profile of the training data, and labels if `labelled`.
    """
    space = None if like is None else like.space
    reading = Reading(**options, like=space, labelled=labelled, lenient=True)
    profile = Profile(role, reading, parse_gain(gain))
    profile.read(files, format, resolve_threads(threads), progress)
    return profile


def examine(sets: Sequence[Profile]) -> Findings:
    """Run all checks on the data sets, the training data first; the most severe findings come first."""
    findings: list[Finding] = []
    for profile in sets:
        findings += _of_a_set(profile)
    for one, other in itertools.combinations(sets, 2):
        if one.role != other.role:
            for compare in BETWEEN_SETS + (AGAINST_TRAINING if one.role == "train" else ()):
                findings += compare(one, other)
    return Findings(finding for severity in Severity for finding in findings if finding.severity is severity)


def _of_a_set(profile: Profile) -> list[Finding]:
    """Return the findings of one data set, without consequences of other findings."""
    found, hidden = [finding for check in OF_TEXT for finding in check(profile)], set[Check]()
    if profile.n_rows < max(1, int(profile.counts[BAD_ROWS])):  # the readable rows represent too little of the data
        return found
    for check in OF_ROWS + (OF_TRAINING_DATA if profile.role == "train" else ()):
        if check not in hidden:
            for finding in check(profile):
                found.append(finding)
                hidden |= set(HIDES.get(finding.check, ()) if finding.severity is Severity.ERROR else ())
    return found
