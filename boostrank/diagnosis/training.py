"""Data checks with explanations, followed by the checks that training makes, so that both accept
the same data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from boostrank.core.conventions import Gain
from boostrank.core.errors import FileFormatError, InputError
from boostrank.data.dataset import RankingDataset
from boostrank.diagnosis.checks import examine
from boostrank.diagnosis.profile import Profile, look_at
from boostrank.diagnosis.rules import Findings, Severity, find
from boostrank.files.assemble import read_files
from boostrank.files.source import expand
from boostrank.files.tables import is_buffer
from boostrank.fit.resolve import resolve
from boostrank.fit.run import check
from boostrank.options import GOOD, TrainOptions, as_list

MOST_CELLS = 2**24
"""Maximum data size (rows times features) for reading the data a second time to make the checks of
training."""


def doctor(
    files: Any,
    *,
    valid: Any = (),
    test: Any = (),
    gain: Gain = "exponential",
    threads: int | None = None,
    **options: Any,
) -> Findings:
    """Find problems in ranking data, the most severe first.

    The memory use is a few chunks of text, the first 4 million values, 24 bytes per row (briefly
    about 100) and 32 bytes per feature. Only the first million features are checked individually.

    Args:
        files: training data: a path, a pattern, "-", a binary file object, or several of these as
            one data set; or a `RankingDataset`, a `lgb.Dataset` or a data frame.
        valid, test: other data sets to check and compare: one, or a list of sets, each like
            `files`.
        gain: the gain for each label, as in training.
        threads: number of threads for reading; None for every available core.
        options: the same reading options as in training; see `boostrank.options.ReadOptions`.

    Raises:
        ParameterError: if options are out of range or contradict each other.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> [finding.check for finding in boostrank.doctor(data, valid=data)]
        ['leaked-queries']
    """
    options |= {"gain": gain, "threads": threads}
    profiles = [look_at(files, **options)]
    for role, sets in (("valid", valid), ("test", test)):
        profiles += [
            look_at(source, role=role, like=profiles[0], **options) for source in as_list(sets)
        ]
    return with_refusal(examine(profiles), profiles)


def with_refusal(findings: Findings, profiles: Sequence[Profile]) -> Findings:
    """Add the error that training would raise for the data, if there is one and no finding is an
    error yet."""
    # Skip the trial if it cannot tell more, or would need too much memory.
    training_profiles = [profile for profile in profiles if profile.role != "test"]
    cells = sum(
        profile.n_rows * (profile.top.top_id + 1) for profile in training_profiles if profile.parts
    )
    readable = all(
        _is_readable(source) for profile in training_profiles for source in expand(profile.files)
    )
    if (
        not readable
        or cells > MOST_CELLS
        or any(finding.severity is Severity.ERROR for finding in findings)
    ):
        return findings
    try:
        # Read and check the data as training does, but do not train.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train_set = _read(training_profiles[0])
            valid = [
                (f"valid_{i}", _read(profile, like=train_set))
                for i, profile in enumerate(training_profiles[1:])
            ]
            options = TrainOptions(
                quality=GOOD, gain=training_profiles[0].gain, params={"verbosity": -1}
            )
            plan = resolve(options, train_set, valid)
            check(replace(plan.trainings[0], starts_linear=False))
    except FileFormatError as error:
        position = error.file, error.line, error.column
        reason = error.reason
    except InputError as error:
        position = training_profiles[0].parts[0].name, 0, 0
        reason = str(error)
    else:
        return findings
    # Put the refusal first, as nothing trains before it is mended.
    return Findings([find("refused-data", position, 1, reason), *findings])


def _is_readable(source: Any) -> bool:
    """Return whether a source can be read a second time."""
    if isinstance(source, str | os.PathLike):
        return os.path.isfile(source)
    return isinstance(source, RankingDataset) or is_buffer(source)


def _read(profile: Profile, **options: Any) -> RankingDataset:
    """Return the data of a profile."""
    if isinstance(profile.files, RankingDataset):
        return profile.files
    return read_files(profile.files, **profile.options, **options)
