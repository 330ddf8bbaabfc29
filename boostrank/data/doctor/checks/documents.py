"""Documents that nothing distinguishes."""

from __future__ import annotations

from collections.abc import Iterator

from boostrank.data.doctor.finding import Finding, Severity, percent, plural
from boostrank.data.doctor.profile import Profile

MANY_ALIKE = 0.05  # of the documents
MANY_EMPTY = 0.01


def contradictions(profile: Profile) -> Iterator[Finding]:
    """Documents of one query with the same features and different labels."""
    alike = profile.contradicting
    if alike.rows:
        yield profile.finding(
            "contradicting-duplicates", Severity.WARNING, alike.line, alike.rows,
            f"{profile.of_rows(alike.rows)} in {plural(alike.queries, 'query', 'queries')} have the features of "
            f"another document of their query, and another label: the first is like {profile.at(alike.twin)}",
            "no model can put them in order: the best NDCG is below 1",
            "keep one of each, if they are one document; otherwise add a feature that tells them apart",
        )  # fmt: skip


def duplicates(profile: Profile) -> Iterator[Finding]:
    """Documents of one query with the same features and the same label."""
    alike = profile.same
    if alike.rows:
        many = alike.rows > MANY_ALIKE * profile.n_rows
        yield profile.finding(
            "duplicates", Severity.WARNING if many else Severity.NOTE, alike.line, alike.rows,
            f"{profile.of_rows(alike.rows)} in {plural(alike.queries, 'query', 'queries')} have features and label of "
            f"another document of their query: the first is like {profile.at(alike.twin)}",
            "they get one score, and take ranks from other documents in the metric", "keep one of each",
        )  # fmt: skip


def empty_rows(profile: Profile) -> Iterator[Finding]:
    """Documents without any feature that is not 0."""
    empty = profile.empty_rows
    if empty.count:
        many = empty.count > MANY_EMPTY * profile.n_rows
        yield profile.finding(
            "empty-documents", Severity.WARNING if many else Severity.NOTE, empty.line, empty.count,
            f"{profile.of_rows(empty.count)} have no feature that is not 0",
            f"nothing tells them apart: {percent(empty.count, profile.n_rows)} of the documents share one score",
            "were their features lost?",
        )  # fmt: skip
