"""Conversion of LightGBM's and XGBoost's data sets into `RankingDataset`s."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.machine import free_memory
from boostrank.data.arrays import default_feature_names
from boostrank.data.categories import Categories
from boostrank.data.dataset import Provenance, RankingDataset

_IN_THE_ENGINE = {
    "lgb.Dataset": 'lgb.train({"objective": boostrank.ShfSdcg()}, dataset)',
    "xgb.DMatrix": 'xgb.train({"base_score": 0}, dmatrix, obj=boostrank.ShfSdcg())',
}


def at_the_door(
    params: Mapping[str, Any] | None, train_set: Any, valid_sets: Any
) -> tuple[dict[str, Any], RankingDataset, list[RankingDataset] | None]:
    """Convert the data sets of a training, and take over the parameters of a `lgb.Dataset`.

    Args:
        params: parameters of the training; they override those of `train_set`.
        train_set: a `RankingDataset`, `lgb.Dataset` or `xgb.DMatrix`.
        valid_sets: None, one data set or a list; may include `train_set` itself.
    """
    given = {**_own_params(train_set), **(params or {})}
    sets = valid_sets if isinstance(valid_sets, list | tuple) else [] if valid_sets is None else [valid_sets]
    # Matched by identity: if `train_set` is a validation set, so is its conversion.
    train = as_ranking_dataset(train_set)
    converted = {id(train_set): train} | {
        id(one): as_ranking_dataset(one, train.feature_names) for one in sets if one is not train_set
    }
    return given, train, None if valid_sets is None else [converted[id(one)] for one in sets]


def as_ranking_dataset(data: Any, names: Sequence[str] | None = None) -> RankingDataset:
    """Return `data`, or convert a `lgb.Dataset` or `xgb.DMatrix`, which is not changed.

    Args:
        names: feature names, for an engine's data set without names.

    Raises:
        ParameterError: the data set has another type, or does not keep its rows.
        DataError: labels, groups or numbers are invalid.
    """
    if isinstance(data, RankingDataset):
        return data
    if _is_a(data, "lightgbm", "Dataset"):
        return _from_lightgbm(data, names)
    if _is_a(data, "xgboost", "DMatrix"):
        return _from_xgboost(data, names)
    raise ParameterError(
        f"a data set must be a RankingDataset, lgb.Dataset or xgb.DMatrix, not {type(data).__name__}; "
        "create one with RankingDataset.from_arrays(X, y, qid=...)"
    )


def _is_a(data: Any, engine: str, name: str) -> bool:
    module = sys.modules.get(engine)  # not imported here: the engine of existing data is loaded
    return module is not None and isinstance(data, getattr(module, name))


def _refused(kind: str, reason: str) -> ParameterError:
    return ParameterError(f"the {kind} {reason}: pass a RankingDataset, or train with {_IN_THE_ENGINE[kind]}")


def _own_params(data: Any) -> dict[str, Any]:
    """Return the parameters of a `lgb.Dataset`, which `lgb.train` merges with those of the training."""
    if not _is_a(data, "lightgbm", "Dataset"):
        return {}
    named = {} if data.categorical_feature == "auto" else {"categorical_feature": data.categorical_feature}
    return {**named, **(data.params or {})}


def _from_lightgbm(data: Any, default_names: Sequence[str] | None) -> RankingDataset:
    from boostrank.objective.description import queries_given  # imports all objectives

    raw = data.data
    if raw is None:
        raise _refused("lgb.Dataset", "has discarded its raw data (create it with free_raw_data=False)")
    if not hasattr(raw, "shape"):
        raise _refused("lgb.Dataset", f"holds data of type {type(raw).__name__}, which only LightGBM reads")
    if data.init_score is not None:
        raise _refused("lgb.Dataset", "has an init_score, which LightGBM does not add to predictions")
    if getattr(data, "position", None) is not None:
        raise _refused("lgb.Dataset", "has positions of documents, which only LightGBM's own lambdarank uses")
    if data.label is None:
        raise DataError("the lgb.Dataset has no labels")
    labels = np.asarray(data.label).reshape(-1)
    queries = queries_given(data.group, data.weight, labels.size)
    names = data.feature_name if data.feature_name != "auto" else None if hasattr(raw, "columns") else default_names
    found = RankingDataset.from_arrays(raw, labels, group=queries.sizes, feature_names=names)
    return replace(found, queries=queries)


def _from_xgboost(matrix: Any, default_names: Sequence[str] | None) -> RankingDataset:
    import xgboost

    from boostrank.objective.description import queries_of_native  # imports all objectives

    if isinstance(matrix, xgboost.QuantileDMatrix | xgboost.ExtMemQuantileDMatrix):
        raise _refused("xgb.DMatrix", "holds bins, not numbers")
    if matrix.get_base_margin().size:
        raise _refused("xgb.DMatrix", "has a base_margin, which XGBoost does not add to predictions")
    try:
        rows = matrix.get_data()
    except xgboost.core.XGBoostError as error:
        raise _refused("xgb.DMatrix", "does not return its numbers") from error
    cells = rows.shape[0] * rows.shape[1]
    if 4 * cells > free_memory():
        raise _refused("xgb.DMatrix", f"needs {4e-9 * cells:.0f} GB with its missing values, more than the free memory")
    features = np.full(rows.shape, np.nan, np.float32)  # absent entries of a row are missing, not zero
    features[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices] = rows.data
    names = tuple(matrix.feature_names or default_names or default_feature_names(rows.shape[1]))
    codes = [name for name, kind in zip(names, matrix.feature_types or (), strict=False) if kind == "c"]
    labels, queries = queries_of_native(matrix)
    provenance = Provenance(options={"absent": "missing"} if rows.nnz < cells else {})
    return RankingDataset(
        features, labels, queries, names, provenance=provenance, categories={name: Categories() for name in codes}
    )
