"""All checks. One of a data set is a public generator in one of these modules: it is found there, and runs in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

from boostrank.data.doctor.checks import between, documents, features, labels, queries, reading
from boostrank.data.doctor.finding import Finding
from boostrank.data.doctor.profile import Profile


def _checks(*modules: ModuleType) -> tuple[Callable[[Profile], Iterator[Finding]], ...]:
    return tuple(found for module in modules for found in vars(module).values() if inspect.isgeneratorfunction(found))


OF_A_SET = (*_checks(reading, queries, labels, documents), between.numbering_of_files)
"""Look at one data set."""

OF_TRAINING_DATA = _checks(features)
"""Look at what later sets would only repeat."""

BETWEEN_SETS: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (between.leaked_queries,)
"""Look at two sets with different roles: training and validation, training and test, validation and test."""

AGAINST_TRAINING: tuple[Callable[[Profile, Profile], Iterator[Finding]], ...] = (
    between.numbering, between.widths, between.lost_features, between.other_labels,
)  # fmt: skip
"""Look at the training data and a later set."""
