"""Checks of the labels and of the gains that they give."""

from __future__ import annotations

from collections.abc import Iterator

from boostrank.core.gains import MAX_EXPONENTIAL_LABEL
from boostrank.data.doctor.finding import Finding, Severity, percent
from boostrank.data.doctor.profile import Profile

USUAL_TOP = 5.0  # the largest grade of the public collections is 4
ENGINES_TOP = 31.0  # LightGBM takes labels below it
MANY_GRADES = 32
ONE_SIDED = 0.97
_LINEAR = "--gain linear, or a table such as --gain 0,1,3,7,15"


def negative_labels(profile: Profile) -> Iterator[Finding]:
    """Labels below 0."""
    if profile.negative.count:
        low = profile.low_label
        yield profile.finding(
            "negative-labels", Severity.ERROR, profile.negative.line, profile.negative.count,
            f"{profile.of_rows(profile.negative.count)} have a negative label, down to {low:g}",
            "train refuses them: relevance starts at 0",
            "if it means not judged: --label-map=-1=0" if low == -1 else "shift all labels: the lowest is 0",
        )  # fmt: skip


def steep_gains(profile: Profile) -> Iterator[Finding]:
    """Labels whose exponential gain overflows, or drowns all others."""
    top = profile.high_label
    if profile.gain != "exponential" or top <= USUAL_TOP:
        return
    line, count = profile.largest.line, profile.largest.count
    if top > MAX_EXPONENTIAL_LABEL:
        yield profile.finding(
            "gain-overflow", Severity.ERROR, line, count,
            f"label {top:g}: a gain of 2^label - 1 allows {MAX_EXPONENTIAL_LABEL:g} at most",
            "train refuses it with exponential gain (as do LightGBM and XGBoost)", _LINEAR)  # fmt: skip
    else:
        yield profile.finding(
            "steep-gains", Severity.WARNING, line, count,
            f"the largest label is {top:g}: its gain 2^label - 1 is {2.0**top - 1.0:,.0f} times that of label 1",
            "NDCG and the gradient see little but the documents with the largest labels", _LINEAR)  # fmt: skip


def engines_refuse_labels(profile: Profile) -> Iterator[Finding]:
    """Labels that the engines' own objectives do not take."""
    if profile.fractional.count:
        yield profile.finding(
            "fractional-labels", Severity.NOTE, profile.fractional.line, profile.fractional.count,
            f"{profile.of_rows(profile.fractional.count)} have a label that is no whole number",
            "nothing here; LightGBM's and XGBoost's own ranking objectives refuse them",
            "if they are amounts and not grades: --gain linear",
        )  # fmt: skip
    elif profile.high_label >= ENGINES_TOP:
        yield profile.finding(
            "labels-for-engines", Severity.NOTE, profile.largest.line, profile.largest.count,
            f"the largest label is {profile.high_label:g}",
            "LightGBM's own objectives take labels below 31 (label_gain)",
            "none needed for boostrank's objectives",
        )  # fmt: skip


def many_grades(profile: Profile) -> Iterator[Finding]:
    """So many different labels that they are hardly grades."""
    if profile.many_labels or len(profile.labels) > MANY_GRADES:
        many = "over 1,000" if profile.many_labels else f"{len(profile.labels):,}"
        yield profile.finding(
            "many-labels", Severity.NOTE, 0, len(profile.labels),
            f"there are {many} different labels, from {profile.low_label:g} to {profile.high_label:g}: clicks, amounts "
            "or scores rather than grades?",
            "with exponential gain a difference of 1 means twice the gain, everywhere", "--gain linear",
        )  # fmt: skip


def labels_from_above_zero(profile: Profile) -> Iterator[Finding]:
    """No document is irrelevant."""
    grades = sorted(profile.labels)
    if profile.live and profile.low_label > 0 and not profile.many_labels and len(grades) <= MANY_GRADES:
        fix = "--label-map=" + ",".join(f"{old:g}={old - grades[0]:g}" for old in grades)
        yield profile.finding(
            "no-label-zero", Severity.WARNING, 0, profile.n_rows,
            f"the smallest label is {profile.low_label:g}: every document counts as relevant",
            "MAP, MRR, recall and precision say nothing, and the lowest grade takes a gain of its own", fix,
        )  # fmt: skip


def one_sided_labels(profile: Profile) -> Iterator[Finding]:
    """Nearly all documents have one label."""
    if profile.many_labels or len(profile.labels) < 2:
        return
    label, most = max(profile.labels.items(), key=lambda item: item[1].count)
    if most.count > ONE_SIDED * profile.n_rows:
        rest = profile.n_rows - most.count
        yield profile.finding(
            "one-sided-labels", Severity.NOTE, 0, most.count,
            f"{percent(most.count, profile.n_rows)} of the documents have label {label:g}",
            f"what there is to learn lies in the other {rest:,} documents",
            "usual for clicks and purchases; for judgements, is the label the right column?",
        )  # fmt: skip
