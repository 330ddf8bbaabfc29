"""Model files of the three formats: refused, or a model that works without taking the process with
it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import boostrank
from qa.fuzz.cases import damaged, edited, may_refuse
from tests.model.real_models import CATEGORICAL, frame, train_lightgbm, train_xgboost

LINEAR = {
    "format": "boostrank linear",
    "version": 1,
    "rounds": 3,
    "scaling": "standard",
    "intercept": 0.25,
    "features": ["f1", "f2", "f3"],
    "weights": [0.5, -1.0, 2.0],
    "means": [0.0, 1.0, 0.5],
    "scales": [1.0, 2.0, 0.0],
}
TABLE = np.where(
    np.random.default_rng(1).random((12, 6)) < 0.2, np.nan, np.arange(72.0).reshape(12, 6) % 13
)


@cache
def texts() -> list[bytes]:
    """Of LightGBM."""
    few = {"num_leaves": 4}
    boosters = [
        train_lightgbm(2, **few),
        train_lightgbm(
            2, dataset=CATEGORICAL, min_data_per_group=1, cat_smooth=0, max_cat_to_onehot=1, **few
        ),
    ]
    return [
        booster.model_to_string().partition("\nparameters:")[0].encode() + b"\n"
        for booster in boosters
    ]


@cache
def contents() -> list[Any]:
    """Of XGBoost."""
    boosters = [
        train_xgboost(2, max_depth=2),
        train_xgboost(1, X=frame(), max_cat_to_onehot=1, max_depth=2),
    ]
    return [json.loads(bytes(booster.save_raw("json"))) for booster in boosters]


@st.composite
def _drawn(draw: Any) -> dict[str, Any]:
    match draw(st.sampled_from("lllxxxj")):
        case "l":
            return {"body": draw(damaged(draw(st.sampled_from(texts()))))}
        case "x":
            content = draw(st.sampled_from(contents()))
        case _:
            content = LINEAR
    body = json.dumps(draw(edited(content))).encode()
    return {"body": draw(damaged(body, 1)) if draw(st.integers(0, 5)) == 0 else body}


cases = _drawn()


def check(body: bytes) -> None:
    path = Path("model")
    path.write_bytes(body)
    with may_refuse():
        use(boostrank.RankingModel.load(path))


def use(model: Any) -> None:
    """What people ask of a model; each may be refused, after it was loaded too."""
    if model.n_features > 10_000:  # the table would be wide, not the model wrong
        return
    rows = np.resize(TABLE, (len(TABLE), model.n_features))
    for ask in (
        lambda: repr(model),
        lambda: (model.feature_names, model.column_names),
        lambda: (model.info.index_base, model.best_iteration),
        lambda: model.predict(rows, threads=1),
        lambda: model.contributions(rows, threads=1),
        lambda: model.trees(),
        lambda: model.to_bytes(),
        lambda: model.best_score,
        lambda: dict(model.info),
        lambda: model.feature_importance(),
        lambda: boostrank.average([model, model]),
        lambda: model.save("again"),
    ):
        with may_refuse():
            ask()
