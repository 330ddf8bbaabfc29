"""Contents of a `lightgbm.Dataset`, read without importing LightGBM."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.types import Array

_LIGHTGBM = ("lightgbm.basic", "Dataset")
_TO_TRAIN = 'or train with lgb.train({"objective": boostrank.ShfSdcg()}, dataset)'


class Content(NamedTuple):
    """The rows and queries of a LightGBM data set.

    Args:
        features: the user's own array or table.
        labels: [N] relevance labels.
        sizes: rows of each query; None or empty if there are no queries.
        weights: one per query or per row; None or empty if there are none.
        feature_names: d names, or None.
    """

    features: Any
    labels: Array
    sizes: Any
    weights: Any
    feature_names: Any


def is_lightgbms(data: Any) -> bool:
    """Return whether an object is a `lightgbm.Dataset`."""
    return _LIGHTGBM in [(base.__module__, base.__name__) for base in type(data).__mro__]


def content_of(data: Any, what: str) -> Content:
    """Return the content of a LightGBM data set, which keeps the user's own rows.

    Args:
        what: name of the argument, used in messages.

    Raises:
        ParameterError: the object is of another type, lacks rows or labels, or has what a
            `RankingDataset` cannot hold.
    """
    if not is_lightgbms(data):
        raise ParameterError(
            f"{what}=<{type(data).__name__}>: expected a RankingDataset or lgb.Dataset;"
            " RankingDataset.from_arrays(X, y, group=sizes) or from_frame(frame, label=...,"
            " qid=...) creates one"
        )
    others = (data.used_indices, data.init_score, getattr(data, "position", None))
    faults = {
        "is a subset, or has an init_score or positions (docs/guide/clicks.md trains by clicks)": (
            any(values is not None for values in others)
        ),
        "has discarded its raw data (create it with free_raw_data=False)": data.data is None,
        "holds rows that only LightGBM reads": not hasattr(data.data, "shape"),
        "has no labels": data.label is None,
    }
    for fault, applies in faults.items():
        if applies:
            raise ParameterError(
                f"the lgb.Dataset {fault}: pass a RankingDataset as {what}, {_TO_TRAIN}"
            )
    names = None if data.feature_name == "auto" else data.feature_name
    labels = np.asarray(data.label).reshape(-1)
    return Content(data.data, labels, data.group, data.weight, names)
