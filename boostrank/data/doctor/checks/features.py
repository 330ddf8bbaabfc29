"""Checks of single features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Int64Array
from boostrank.data.doctor import column_stats
from boostrank.data.doctor.finding import Finding, Severity, percent
from boostrank.data.doctor.profile import Profile

# A feature that says nothing orders n documents by their labels with a chance of 1/n at most; all queries together
# must be this much less likely (in e-folds) before it counts as a copy.
EVIDENCE = 30.0
MOSTLY_MISSING = 0.95
FLOAT32_WHOLE = 2.0**24  # above it float32 skips whole numbers
_SHOWN = 12
# What programs write for "unknown". -1 also in columns of counts and shares.
_SENTINELS = frozenset(
    {-1.0, -2.0, -9.0, -99.0, -100.0, -999.0, -1000.0, -9999.0, -99999.0, -999999.0, -1e9, -(2.0**31)}
)


def label_copies(profile: Profile) -> Iterator[Finding]:
    """Features that order the documents of (nearly) every query exactly by their labels."""
    live = profile.low < profile.high
    if profile.live < 2 or np.log(np.maximum(profile.sizes[live], 2)).sum() < EVIDENCE + np.log(len(profile.columns)):
        return
    up, down = profile.columns[:, column_stats.UP], profile.columns[:, column_stats.DOWN]
    exact = np.maximum(up, down)
    labelled = profile.n_rows - (profile.labels[0.0].count if 0.0 in profile.labels else 0)
    for j in np.flatnonzero(profile.live - exact <= column_stats.SHARE * profile.live).tolist():
        same = profile.columns[j, column_stats.LIKE_LABEL] == profile.columns[j, column_stats.STORED] == labelled
        order = "falling" if down[j] > up[j] else "rising"
        message = f"{profile.feature(j)} equals the label in every row" if same and not profile.many_labels else (
            f"{profile.feature(j)} ranks the documents of {percent(int(exact[j]), profile.live)} of the queries "
            f"without a mistake ({order} with the label)"
        )  # fmt: skip
        yield profile.finding(
            "label-copy", Severity.WARNING, 0, int(exact[j]), message,
            "a model will look perfect here and fail where the label is not known yet",
            f"leave {profile.feature(j)} out, if it is made from the label or from what happened after the ranking",
        )  # fmt: skip


def constant_features(profile: Profile) -> Iterator[Finding]:
    """Features with one value in every row, or none."""
    used = _numbers(profile)
    missing = used[profile.columns[used, column_stats.MISSING] == profile.n_rows]
    low, high = ranges(profile)
    constant = used[(low[used] == high[used]) & (profile.columns[used, column_stats.MISSING] == 0)]
    if missing.size:
        yield profile.finding(
            "missing-features", Severity.WARNING, 0, missing.size,
            f"{listed(profile, missing)} missing in every row", "they take time and teach nothing", "was a join lost?",
        )  # fmt: skip
    if constant.size:
        zeros = constant[high[constant] == 0]
        more = f" ({zeros.size:,} of them 0 or not in the file)" if zeros.size else ""
        yield profile.finding(
            "constant-features", Severity.NOTE, 0, constant.size,
            f"{listed(profile, constant)} the same in every row{more}", "they take time and teach nothing",
            "leave them out, if that is so in all of your data",
        )  # fmt: skip


def mostly_missing(profile: Profile) -> Iterator[Finding]:
    """Features that are missing in nearly all rows."""
    missing = profile.columns[:, column_stats.MISSING]
    rare = np.flatnonzero((missing > MOSTLY_MISSING * profile.n_rows) & (missing < profile.n_rows))
    if rare.size:
        yield profile.finding(
            "rare-features", Severity.NOTE, 0, rare.size,
            f"{listed(profile, rare)} missing in more than {percent(MOSTLY_MISSING, 1)} of the rows",
            "they say little, unless that they are there says something", "",
        )  # fmt: skip


def query_features(profile: Profile) -> Iterator[Finding]:
    """Features that are constant within every query."""
    if not np.any(profile.sizes > 1):
        return
    low, high = ranges(profile)
    used = _numbers(profile)
    counts = profile.columns[used]
    missing = counts[:, column_stats.MISSING]
    constant = (missing == profile.n_rows) | ((low[used] == high[used]) & (missing == 0))
    alike = (counts[:, column_stats.VARIES] == 0) & ~constant
    if alike.any():
        yield profile.finding(
            "query-features", Severity.NOTE, 0, int(alike.sum()),
            f"{listed(profile, used[alike])} the same for all documents of a query",
            "alone they rank nothing; together with others they can (which query is it?)", "",
        )  # fmt: skip


def stand_in_numbers(profile: Profile) -> Iterator[Finding]:
    """Features whose only negative value is one such as -1 or -999."""
    counts, extremes = profile.columns, profile.extremes
    low, largest = extremes[:, column_stats.LOW], extremes[:, column_stats.HIGH_NEGATIVE]
    # Of values up to 1 a -1 may be a sign or a cosine.
    one = (counts[:, column_stats.NEGATIVE] > 0) & (low == largest) & (extremes[:, column_stats.HIGH] > 1)
    for value in np.unique(low[one]).tolist():
        if value not in _SENTINELS:
            continue
        which = np.flatnonzero(one & (low == value))
        cells = int(counts[which, column_stats.NEGATIVE].sum())
        yield profile.finding(
            "stand-in-numbers", Severity.NOTE, 0, which.size,
            f"{value:g} is the only negative value of {listed(profile, which, verb=False)} ({cells:,} times): does it "
            "mean missing?",
            "trees can split it off; as missing it goes to whichever side suits, and means carry no false number",
            f"--missing-token={value:g} reads it as missing, in every feature",
        )  # fmt: skip


def coarse_values(profile: Profile) -> Iterator[Finding]:
    """Whole numbers so large that float32 makes neighbours equal."""
    low, high = ranges(profile)
    largest = np.maximum(np.abs(low), np.abs(high))
    stored = profile.columns[:, column_stats.STORED] > 0
    coarse = np.flatnonzero((profile.columns[:, column_stats.FRACTIONS] == 0) & stored & (largest > FLOAT32_WHOLE)
                            & np.isfinite(largest))  # fmt: skip
    if coarse.size:
        j = int(coarse[np.argmax(largest[coarse])])
        step = float(np.spacing(np.float32(largest[j])))
        yield profile.finding(
            "coarse-values", Severity.NOTE, 0, coarse.size,
            f"{listed(profile, coarse, verb=False)} hold{'s' * (coarse.size == 1)} whole numbers above "
            f"{FLOAT32_WHOLE:,.0f}, up to {largest[j]:.6g}",
            f"features are float32: around the largest, values less than {step:g} apart are one",
            "of times and ids subtract a start; hashes are no features",
        )  # fmt: skip


def _numbers(profile: Profile) -> Int64Array:
    """The numbers of the features that are looked at, whether they occur or not."""
    if not profile.n_rows:
        return np.zeros(0, np.int64)
    return np.arange(profile.base, min(profile.top.top_id + 1, len(profile.columns)))


def ranges(profile: Profile) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(smallest, largest) value of each feature; where rows do not name it, 0 is one."""
    low, high = profile.extremes[:, column_stats.LOW], profile.extremes[:, column_stats.HIGH]
    everywhere = profile.columns[:, column_stats.STORED] + profile.columns[:, column_stats.MISSING] == profile.n_rows
    zero = np.float32(0.0)
    return np.where(everywhere, low, np.minimum(low, zero)), np.where(everywhere, high, np.maximum(high, zero))


def listed(profile: Profile, numbers: Int64Array, *, verb: bool = True) -> str:
    """`features 3, 5 and 9 are`; of many the first."""
    shown = [profile.feature(number).removeprefix("feature ") for number in numbers[:_SHOWN].tolist()]
    if numbers.size == 1:
        return f"feature {shown[0]}" + " is" * verb
    rest = f" and {numbers.size - _SHOWN:,} more" if numbers.size > _SHOWN else f" and {shown.pop()}"
    return f"features {', '.join(shown)}{rest}" + " are" * verb
