"""Fill values: numbers that replace the missing values of features, in training and in the saved
trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.text import number_in
from boostrank.core.types import Array, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.kernels.curves import ZERO
from boostrank.options import listed_names

_OF_COLUMNS: dict[str, Callable[[Float64Array], Any]] = {"mean": np.mean, "median": np.median}


def find_fills(requested: Any, data: RankingDataset) -> dict[str, float]:
    """Return the number that replaces a missing value of each feature, as float32.

    Args:
        requested: a number, "mean" or "median" for all numeric features; a mapping from names to
            these; or text with them, such as "median,price=0".

    Raises:
        ParameterError: if a feature is unknown or categorical, or a value is no finite number.
    """
    # Map each feature to its rule, and None to the rule of all others.
    rules: dict[str | None, Any] = (
        dict(requested) if isinstance(requested, Mapping) else {None: requested}
    )
    if isinstance(requested, str):
        try:
            parts = [part.rpartition("=") for part in listed_names(requested)]
        except ValueError as error:
            raise ParameterError(f"fill={error}") from None
        names = {name for name, _, _ in parts}
        if not all(mark for _, mark, _ in parts[1:]) or len(names) < len(parts):
            words = (
                "write the value of all other features once and first, each feature once, and"
                " decimals with a point"
            )
            raise ParameterError(f"fill={requested!r}: {words}, such as 'median,price=0.5'")
        rules = {name if mark else None: value for name, mark, value in parts}
    # Refuse unknown features, and categories, which need no fill.
    for name in rules.keys() - {None, *data.feature_names}:
        raise ParameterError(
            f"fill: there is no feature {name!r}.{did_you_mean(str(name), data.feature_names)}"
        )
    for name in rules.keys() & data.categories.keys():
        raise ParameterError(
            f"fill: {name!r} is categorical; its missing values are a category of their own"
        )
    # Compute the numbers from the data.
    chosen = {
        name: rules.get(name, rules.get(None))
        for name in data.feature_names
        if name not in data.categories
    }
    return {name: _number(rule, data, name) for name, rule in chosen.items() if rule is not None}


def fill_missing(data: RankingDataset, fills: Mapping[str, float]) -> RankingDataset:
    """Return the data set with numbers in place of missing values."""
    features, values = data.features[:], fill_array(fills, data.feature_names)
    if sparse.issparse(features):
        features = features.copy()
        features.data = _replaced(features.data, values[features.indices])
    else:
        features = _replaced(features, values)
    return replace(data, features=features)


def fill_array(fills: Mapping[str, float], names: Sequence[str]) -> Float64Array:
    """Return the fill value of each feature, float64[d], or NaN if it has none."""
    return np.array([fills.get(name, math.nan) for name in names])


def _replaced(cells: Array, values: Float64Array) -> Array:
    return np.where(np.isnan(cells), values.astype(np.float32), cells)


def _number(rule: Any, data: RankingDataset, name: str) -> float:
    """Return the number that a rule gives for a feature."""
    statistic = _OF_COLUMNS.get(rule) if isinstance(rule, str) else None
    try:
        if statistic is None:
            value = number_in(rule.strip()) if isinstance(rule, str) else rule
            with np.errstate(over="ignore"):
                number = np.float32(value)
        else:
            column = data.features[:, [data.feature_names.index(name)]]
            column = column.toarray() if sparse.issparse(column) else column
            present = column[~np.isnan(column)].astype(np.float64)
            number = np.float32(statistic(present)) if present.size else np.float32(0.0)
    except (TypeError, ValueError):
        number = np.float32(math.nan)
    if not np.isfinite(number):
        raise ParameterError(
            f"fill: {rule!r} for {name!r} is not a finite number of float32, mean or median"
        )
    return float(number) if abs(number) > ZERO else 0.0
