"""All checks. A new one is a function in one of these modules (or a new module), and its name here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from boostrank.data.doctor.checks import between, documents, features, labels, queries, reading
from boostrank.data.doctor.finding import Finding
from boostrank.data.doctor.profile import Profile

OF_A_SET: tuple[Callable[[Profile], Iterator[Finding]], ...] = (
    reading.broken_files,
    reading.refused_rows,
    reading.stand_ins,
    reading.truncated_text,
    reading.untidy_text,
    queries.split_queries,
    queries.unsorted_ids,
    queries.dead_queries,
    queries.long_lists,
    queries.uneven_lists,
    queries.rows_by_label,
    queries.repeated_queries,
    labels.negative_labels,
    labels.steep_gains,
    labels.engines_refuse_labels,
    labels.many_grades,
    labels.labels_from_above_zero,
    labels.one_sided_labels,
    documents.contradictions,
    documents.duplicates,
    documents.empty_rows,
    between.numbering_of_files,
)
"""Look at one data set."""

OF_TRAINING_DATA: tuple[Callable[[Profile], Iterator[Finding]], ...] = (
    features.label_copies,
    features.constant_features,
    features.mostly_missing,
    features.query_features,
    features.stand_in_numbers,
    features.coarse_values,
)
"""Look at what later sets would only repeat."""

BETWEEN_SETS: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (between.leaked_queries,)
"""Look at two sets with different roles: training and validation, training and test, validation and test."""

AGAINST_TRAINING: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (
    between.numbering,
    between.widths,
    between.lost_features,
    between.other_labels,
)
"""Look at the training data and a later set."""
