"""Categorical features of a training: `categorical_feature` among its parameters, and the categories of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import DataWarning, warn_user
from boostrank.data.dataset import RankingDataset
from boostrank.data.tables.categories import Categories, check_codes, named_columns
from boostrank.fit.params import pop_param
from boostrank.model.ranking_model import RankingModel

NAMES = ("categorical_feature", "categorical_features", "categorical_column", "cat_feature", "cat_column")
"""LightGBM's, on every engine."""
_LISTED = 4


def with_categories(
    params: Mapping[str, Any] | None, train_set: RankingDataset, valid_sets: Any = None, init_model: Any = None
) -> tuple[dict[str, Any], Any, Any]:
    """Parameters without `categorical_feature`, and the training set that says it instead, where it is meant among the
    validation sets too.

    Codes are those of a model that is continued.

    Raises:
        DataError: a column that is not there, or holds no codes.
        ParameterError: the parameter is given by two names.
    """
    rest = dict(params or {})
    names, known, found = train_set.feature_names, train_set.categories, train_set
    named = [
        name for name in named_columns(pop_param(rest, NAMES, None), names)
        if name not in known or known[name].ordered
    ]  # fmt: skip
    features = train_set.features
    for name in named if isinstance(features, np.ndarray) or sparse.issparse(features) else ():
        column = features[:, names.index(name)]
        check_codes(column.data if sparse.issparse(column) else column, name)
    if named:
        added = {name: replace(known.get(name, Categories()), ordered=False) for name in named}
        found = replace(train_set, categories={**known, **added})
    if isinstance(init_model, RankingModel):
        theirs = init_model.feature_names
        coded = found.with_features(theirs, whose="the model", categories=init_model.categories)
        found = coded if coded.feature_names == names else found
    if found is not train_set and isinstance(valid_sets, list | tuple):
        valid_sets = [found if one is train_set else one for one in valid_sets]
    return rest, found, found if valid_sets is train_set else valid_sets


def say_left_out(data: RankingDataset, what: str) -> None:
    """Say that something goes without the categorical features of a data set."""
    if data.categorical:
        listed = ", ".join(repr(data.feature_names[i]) for i in data.categorical[:_LISTED])
        more = f" and {len(data.categorical) - _LISTED} more" if len(data.categorical) > _LISTED else ""
        warn_user(f"{what} goes without {listed}{more}: codes of categories are no numbers", DataWarning)
