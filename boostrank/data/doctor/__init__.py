"""A linter for ranking data: what train will refuse, what will cost quality, what is worth knowing.

Nothing ends it at the first error. The text is read once, as a stream, with the reader that training uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from boostrank.core.gains import Gain, parse_gain
from boostrank.core.machine import resolve_threads
from boostrank.data.blocks import BAD_ROWS
from boostrank.data.doctor.checks import HIDES, OF_TEXT, OF_TRAINING_DATA, Check
from boostrank.data.doctor.comparisons import AGAINST_TRAINING, BETWEEN_SETS, OF_ROWS
from boostrank.data.doctor.finding import Finding, Findings, Severity
from boostrank.data.doctor.profile import Profile
from boostrank.data.options import Progress
from boostrank.data.source import AnySource, Reading

__all__ = ["Finding", "Profile", "Severity", "examine", "look_at"]


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
    """One pass over one data set; arguments as of `boostrank.doctor`.

    Args:
        role: "train", "valid" or "test": what the data are for.
        like: the training data, whose columns tables must have.
        progress: called with the bytes read and their total, None when that is not known.
        format: of the files.
        labelled: whether tables must have labels; otherwise they are 0 where there are none.
    """
    space = None if like is None else like.space
    reading = Reading(**options, like=space, labelled=labelled, lenient=True)
    profile = Profile(role, reading, parse_gain(gain))
    profile.read(files, format, resolve_threads(threads), progress)
    return profile


def examine(sets: Sequence[Profile]) -> Findings:
    """What all checks find in the data sets, the training data first: the gravest first, then in the checks' order."""
    findings: list[Finding] = []
    for profile in sets:
        findings += _of_a_set(profile)
    for one, other in itertools.combinations(sets, 2):
        if one.role != other.role:
            for compare in BETWEEN_SETS + (AGAINST_TRAINING if one.role == "train" else ()):
                findings += compare(one, other)
    return Findings(finding for severity in Severity for finding in findings if finding.severity is severity)


def _of_a_set(profile: Profile) -> list[Finding]:
    """Findings of one data set, without the consequences of others."""
    found, hidden = [finding for check in OF_TEXT for finding in check(profile)], set[Check]()
    if profile.n_rows < max(1, int(profile.counts[BAD_ROWS])):  # the rest says little of the whole
        return found
    for check in OF_ROWS + (OF_TRAINING_DATA if profile.role == "train" else ()):
        if check not in hidden:
            for finding in check(profile):
                found.append(finding)
                hidden |= set(HIDES.get(finding.check, ()) if finding.severity is Severity.ERROR else ())
    return found
