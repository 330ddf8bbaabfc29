"""The features of a training set, and messages about features that do not fit it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.text import list_names

NUMBERED = re.compile(r"f\d+")
"""Generated feature names."""


@dataclass(frozen=True)
class FeatureSpace:
    """The features of a training set, which later files are read with.

    Args:
        index_base: number of the first feature in the training file, 0 or 1; None for arrays, whose
            features are numbered from 1 unless `zero_based` is given.
        n_features: number of features.
        feature_names: names of the features; empty if they are `f1`, `f2`, ...
        columns: `label`, `qid`, `weight`, `id` and `drop` of a training table, which are the
            defaults for later tables.
        categories: `boostrank.data.categories.Categories` of each categorical feature.
        ignored: names of other features that files may contain.
        partial: whether these are only the features that a model uses, so that files have more.
    """

    index_base: int | None
    n_features: int
    feature_names: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict, compare=False)
    categories: Mapping[str, Any] = field(default_factory=dict, compare=False)
    ignored: frozenset[str] = frozenset()
    partial: bool = False

    def __repr__(self) -> str:
        return f"FeatureSpace({self.n_features:,} features, {len(self.categories):,} categorical)"


def space_of(like: Any) -> FeatureSpace | None:
    """Return the features of training data, given these data or already their features."""
    space = getattr(like, "feature_space", like)
    if not isinstance(space, FeatureSpace | None):
        raise ParameterError(
            f"like=<{type(like).__name__}>: pass the training data or their feature_space"
        )
    return space


def misfit(missing: Sequence[str], additional: Sequence[str], remedy: str = "") -> str:
    """Return the message about missing and additional columns."""
    faults = []
    if missing:
        faults.append(
            f"lacks {quoted(missing)}, which the model or its training data has{unnamed(missing)}"
        )
    if additional:
        faults.append(
            f"has {quoted(additional)}, which the model or its training data lacks{remedy}"
        )
    return "; ".join(faults)


def unnamed(missing: Sequence[str]) -> str:
    """Return a hint if the missing names are LightGBM's own, or "" otherwise."""
    if not all(re.fullmatch(r"Column_\d+", name) for name in missing):
        return ""
    return " (it was trained on an array: train it on named columns, or score an array)"


def quoted(names: Sequence[str], max_names: int = 5) -> str:
    """Return the first few names, quoted and joined."""
    return list_names(list(map(repr, names)), max_names)
