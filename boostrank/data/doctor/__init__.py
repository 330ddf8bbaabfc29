"""A linter for ranking data: what train will refuse, what will cost quality, what is worth knowing.

Nothing ends it at the first error. The text is read once, as a stream, with the reader that training uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from boostrank.core.gains import Gain, parse_gain
from boostrank.core.machine import resolve_threads
from boostrank.data.doctor.checks import OF_TRAINING_DATA
from boostrank.data.doctor.comparisons import AGAINST_TRAINING, BETWEEN_SETS, OF_A_SET
from boostrank.data.doctor.finding import Finding, Findings, Severity
from boostrank.data.doctor.profile import Profile
from boostrank.data.options import Progress
from boostrank.data.source import AnySource, Reading

__all__ = ["Finding", "Profile", "Severity", "doctor", "examine", "look_at"]


def doctor(
    files: AnySource,
    *,
    valid: str | Sequence[AnySource] = (),
    test: str | Sequence[AnySource] = (),
    gain: Gain = "exponential",
    threads: int | None = None,
    **options: Any,
) -> Findings:
    """Everything that is found in ranking data, the gravest first.

    Memory: a few chunks of text and the longest query, 8 bytes a row (a hash; some 60 for a moment where sets are
    compared), 50 bytes a query and 100 a feature. Of over a million features the first million are looked at singly.

    Args:
        files: the training data: a path, a pattern, "-", a binary file object, or several of them as one data set.
        valid, test: data sets that are looked at too, and compared: a path, or a sequence of sets, each as `files`.
        gain: what labels are worth, as in training.
        threads: that read; None for every available core.
        options: of `boostrank.data.options.ReaderOptions`: the findings are what training with them would meet.

    Raises:
        ParameterError: options out of range, or in contradiction.
    """
    sets = [("train", files)]
    for role, later in (("valid", valid), ("test", test)):
        sets += [(role, one) for one in ([later] if isinstance(later, str) else later)]
    profiles: list[Profile] = []
    for role, one in sets:
        like = profiles[0] if profiles else None
        profiles.append(look_at(one, role=role, like=like, gain=gain, threads=threads, **options))
    return examine(profiles)


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
    """One pass over one data set; arguments as of `doctor`.

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
        for check in OF_A_SET + (OF_TRAINING_DATA if profile.role == "train" else ()):
            findings += check(profile)
    for one, other in itertools.combinations(sets, 2):
        if one.role != other.role:
            for compare in BETWEEN_SETS + (AGAINST_TRAINING if one.role == "train" else ()):
                findings += compare(one, other)
    return Findings(finding for severity in Severity for finding in findings if finding.severity is severity)
