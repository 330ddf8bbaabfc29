"""Categorical features of a training: `categorical_feature` among its parameters, and the categories of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.data.dataset import RankingDataset
from boostrank.data.tables.categories import Categories, check_codes, named_columns
from boostrank.training.model import RankingModel
from boostrank.training.params import pop_param

NAMES = ("categorical_feature", "categorical_features", "categorical_column", "cat_feature", "cat_column")
"""LightGBM's, on every engine."""


def with_categories(params: Mapping[str, Any] | None, train_set: Any, init_model: Any) -> tuple[dict[str, Any], Any]:
    """Parameters without `categorical_feature`, and the training set that says it instead.

    A data set of an engine's own keeps its parameters. Codes are those of a model that is continued.

    Raises:
        DataError: a column that is not there, or holds no codes.
        ParameterError: the parameter is given by two names.
    """
    rest = dict(params or {})
    if not isinstance(train_set, RankingDataset):
        return rest, train_set
    names = train_set.feature_names
    named = named_columns(pop_param(rest, NAMES, None), names)
    changed = {
        name: replace(train_set.categories.get(name, Categories()), ordered=False)
        for name in named
        if train_set.categories.get(name, Categories(ordered=True)).ordered
    }
    features = train_set.features
    for name in changed if isinstance(features, np.ndarray) or sparse.issparse(features) else ():
        column = features[:, names.index(name)]
        check_codes(column.data if sparse.issparse(column) else column, name)
    if changed:
        train_set = replace(train_set, categories={**train_set.categories, **changed})
    if isinstance(init_model, RankingModel) and train_set.categories and names == init_model.feature_names:
        train_set = train_set.with_features(names, whose="the model", categories=init_model.categories)
    return rest, train_set
