"""Contents of `lightgbm.Dataset` and `xgboost.DMatrix`, read without importing the engines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.types import Array

_LIGHTGBM, _XGBOOST = "lightgbm.basic.Dataset", "xgboost.core.DMatrix"
_TO_TRAIN = (
    '; to train on the lgb.Dataset, use lgb.train({"objective": boostrank.ShfSdcg()}, dataset)'
)


class Content(NamedTuple):
    """The rows and queries of an engine's data set.

    Args:
        features: the user's own array or table from LightGBM, float32[N, d] from XGBoost.
        labels: [N] relevance labels.
        sizes: rows of each query; None or empty if there are no queries.
        weights: one per query or per row; None or empty if there are none.
        feature_names: d names, or None.
        absent_is_missing: whether absent entries of the user's sparse rows are missing values.
    """

    features: Any
    labels: Array
    sizes: Any
    weights: Any
    feature_names: Any
    absent_is_missing: bool = False


def is_lightgbms(data: Any) -> bool:
    """Return whether an object is a `lightgbm.Dataset`."""
    return _LIGHTGBM in _classes(data)


def is_engines(data: Any) -> bool:
    """Return whether an object is a `lightgbm.Dataset` or an `xgboost.DMatrix`."""
    return bool(_classes(data) & {_LIGHTGBM, _XGBOOST})


def content_of(data: Any, what: str, *, labelled: bool = True) -> Content:
    """Return the content of an engine's data set.

    Args:
        what: name of the argument, used in messages.
        labelled: whether labels are required.

    Raises:
        ParameterError: the object is of another type, lacks rows or labels, or has what a
            `RankingDataset` cannot hold.
    """
    # Refuse other objects, and data sets that cannot be converted.
    remedy = ""
    if is_lightgbms(data):
        kind = "lgb.Dataset"
        raw = data.data
        if labelled:
            remedy = _TO_TRAIN
        faults = {
            "is a subset of another data set": getattr(data, "used_indices", None) is not None,
            "has discarded its raw data (create it with free_raw_data=False)": raw is None,
            f"holds a {type(raw).__name__}, which only LightGBM reads": not hasattr(raw, "shape"),
            "has an init_score, which LightGBM does not add to predictions": (
                data.init_score is not None
            ),
            "has positions, for LightGBM's own lambdarank (docs/guide/clicks.md trains by"
            " clicks)": (getattr(data, "position", None) is not None),
            "has no labels": labelled and data.label is None,
        }
    elif is_engines(data):
        kind = "xgb.DMatrix"
        faults = {
            "holds bins of values (a QuantileDMatrix)": "Quantile" in type(data).__name__,
            "has categories, whose names it does not keep": "c" in (data.feature_types or ()),
            "has a base_margin, which boostrank does not add to predictions": (
                data.get_base_margin().size > 0
            ),
            "has feature_weights": data.get_float_info("feature_weights").size > 0,
            "has no labels": labelled and not data.get_label().size,
        }
    else:
        raise ParameterError(
            f"{what}=<{type(data).__name__}>: expected a RankingDataset, lgb.Dataset or"
            " xgb.DMatrix; RankingDataset.from_arrays(X, y, group=sizes) or from_frame(frame,"
            " label=..., qid=...) creates one"
        )
    for fault, applies in faults.items():
        if applies:
            raise ParameterError(f"the {kind} {fault}: pass a RankingDataset as {what}{remedy}")
    # LightGBM keeps the user's own rows.
    if is_lightgbms(data):
        names = None if data.feature_name == "auto" else data.feature_name
        labels = np.asarray(data.label).reshape(-1)
        return Content(data.data, labels, data.group, data.weight, names)
    # XGBoost drops missing values, so absent entries are missing and zeros are stored.
    present = data.get_data().tocoo()
    features = np.full(present.shape, np.nan, np.float32)
    features[present.row, present.col] = present.data
    sizes = np.diff(data.get_uint_info("group_ptr").astype(np.int64))
    weights = data.get_weight()
    names = data.feature_names
    return Content(features, data.get_label(), sizes, weights, names, absent_is_missing=True)


def _classes(data: Any) -> set[str]:
    return {f"{base.__module__}.{base.__name__}" for base in type(data).__mro__}
