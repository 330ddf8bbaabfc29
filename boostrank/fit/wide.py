"""Wide sparse data: train without features that never occur, and restore them in the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines.trees import engine_names
from boostrank.fit.plan import Plan
from boostrank.model.ranking_model import RankingModel


def named_columns(data: RankingDataset) -> Int64Array | None:
    """Return the columns that occur in some row, ascending; None if most do, or the data are not sparse."""
    if not sparse.issparse(data.features):
        return None
    used = np.flatnonzero(np.bincount(data.features.indices, minlength=data.n_features))
    return used if 0 < 2 * used.size <= data.n_features else None


def used_columns(plan: Plan) -> Int64Array | None:
    """Return the columns that occur in the training set, ascending; None if training keeps all columns.

    Training keeps them if most occur, or if a parameter, a model or a column within queries refers to columns.
    """
    data, engine = plan.train_set, plan.engine
    if data.categories or not engine.grows_trees:
        return None
    if any(one is not None for one in (data.candidates, plan.within, plan.init_model)):
        return None
    named = engine.params.named(plan.settings.engine).keys() & engine.params.of_features
    return None if named else named_columns(data)


def narrowed(plan: Plan, columns: Int64Array) -> Plan:
    """Restrict a training to some columns."""
    wide, names = plan.train_set, tuple(plan.train_set.feature_names[i] for i in columns.tolist())

    def of(data: RankingDataset) -> RankingDataset:
        features = (data if data is wide else data.like(wide)).features
        return replace(data, features=features[:, columns], feature_names=names)

    train = of(wide)
    valid = tuple((name, train if one is wide else of(one)) for name, one in plan.valid)
    return replace(plan, train_set=train, valid=valid)


def widened(model: RankingModel, data: RankingDataset, columns: Int64Array) -> RankingModel:
    """Convert a model of some columns to all features of a data set."""
    engine = model._engine
    body = engine.format.widened(model._booster.to_bytes(), columns.tolist(), engine_names(data.feature_names))
    known = {"features": data.n_features, "feature_names": list(data.feature_names), "fingerprint": data.fingerprint}
    info = model.info | {"data": {**(model.info.data or {}), **known}}
    return model.altered(booster=engine.load(body), info=info)
