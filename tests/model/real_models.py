"""Small models that LightGBM and XGBoost really wrote, with many settings: what the model checks
must accept.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

ROWS, SIZE = 400, 20
CATEGORICAL = {"categorical_feature": [4, 5]}


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    """float64[400, 6] with missing values, zeros, and two columns of category numbers; grades 0 to
    4.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.where(rng.random(ROWS) < 0.5, 0.0, X[:, 3])
    X[:, 4], X[:, 5] = rng.integers(0, 40, ROWS), rng.integers(0, 3, ROWS)
    y = np.clip(
        np.round(1 + np.nan_to_num(X[:, 0]) + X[:, 4] % 3 / 2 + 0.3 * rng.normal(size=ROWS)), 0, 4
    )
    return X, y


def frame() -> pd.DataFrame:
    """The same with pandas categories, texts and numbers."""
    X, _ = data()
    table = pd.DataFrame(X[:, :4], columns=["größe", "b", "c", "d"])
    table["e"] = pd.Categorical(np.array(["x", "yy", "zß"])[X[:, 5].astype(int)])
    return table.assign(f=pd.Categorical(X[:, 4].astype(int)))


def squared_error(scores: np.ndarray, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """A callable objective, for both engines."""
    gradient = (scores.reshape(-1) - dataset.get_label()).astype(np.float32)
    return gradient, np.ones_like(gradient)


def train_lightgbm(
    rounds: int = 4, *, X: Any = None, dataset: dict[str, Any] | None = None, **params: Any
) -> lgb.Booster:
    """A booster; lambdarank with 7 leaves unless told otherwise."""
    defaults = {
        "objective": "lambdarank",
        "num_leaves": 7,
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbose": -1,
    }
    features = data()[0] if X is None else X
    train = lgb.Dataset(features, data()[1], group=[SIZE] * (ROWS // SIZE), **(dataset or {}))
    return lgb.train({**defaults, **params}, train, rounds)


def train_xgboost(rounds: int = 4, *, X: Any = None, obj: Any = None, **params: Any) -> xgb.Booster:
    """A booster; rank:ndcg of depth 3 unless told otherwise."""
    table = data()[0] if X is None else X
    qid = np.repeat(np.arange(ROWS // SIZE), SIZE)
    defaults = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1, "verbosity": 0}
    train = xgb.DMatrix(table, data()[1], qid=qid, enable_categorical=True, nthread=1)
    return xgb.train({**defaults, **params}, train, rounds, obj=obj)


@cache
def lightgbm_models() -> dict[str, str]:
    """Name -> model text."""
    many_categories = {
        "min_data_per_group": 1,
        "cat_smooth": 0,
        "cat_l2": 0,
        "max_cat_to_onehot": 1,
    }
    # Objectives, kinds of splits and leaves, and odd sizes.
    boosters = {
        "lambdarank": train_lightgbm(),
        "callable": train_lightgbm(objective=squared_error),
        "xendcg": train_lightgbm(objective="rank_xendcg"),
        "regression": train_lightgbm(objective="regression"),
        "quantile": train_lightgbm(objective="quantile", alpha=0.9),
        "sets of categories": train_lightgbm(dataset=CATEGORICAL, **many_categories),
        "one category at a time": train_lightgbm(dataset={"categorical_feature": [5]}),
        "pandas": train_lightgbm(X=frame()),
        "dart": train_lightgbm(boosting="dart", drop_rate=0.5),
        "random forest": train_lightgbm(
            objective="regression", boosting="rf", bagging_freq=1, bagging_fraction=0.5
        ),
        "goss": train_lightgbm(data_sample_strategy="goss"),
        "missing is nothing": train_lightgbm(use_missing=False),
        "missing is zero": train_lightgbm(zero_as_missing=True),
        "monotone": train_lightgbm(monotone_constraints=[1, 0, 0, -1, 0, 0]),
        "one leaf": train_lightgbm(min_gain_to_split=1e9),
        "one leaf, callable": train_lightgbm(min_gain_to_split=1e9, objective=squared_error),
        "many leaves": train_lightgbm(num_leaves=255, min_data_in_leaf=1),
        "few bins": train_lightgbm(max_bin=5),
        "quantised": train_lightgbm(use_quantized_grad=True),
        "extreme": train_lightgbm(learning_rate=1e4),
        "edited leaf": train_lightgbm().set_leaf_output(0, 0, 1.5),
    }
    # Files of parts of a model, and of models that went on or stopped.
    models = {name: booster.model_to_string() for name, booster in boosters.items()}
    plain = boosters["few bins"]
    models["a slice of rounds"] = plain.model_to_string(start_iteration=1, num_iteration=2)
    models["importance by gain"] = plain.model_to_string(importance_type="gain")
    models["loaded and saved again"] = lgb.Booster(model_str=models["lambdarank"]).model_to_string()
    X, y = data()
    groups = [SIZE] * (ROWS // SIZE)
    params = {"objective": "lambdarank", "verbose": -1, "num_threads": 1}
    more = lgb.train({**params, "max_bin": 5}, lgb.Dataset(X, y, group=groups), 3, init_model=plain)
    models["continued"] = more.model_to_string()
    train = lgb.Dataset(X, y, group=groups)
    stopped = lgb.train(
        {**params, "metric": "ndcg"},
        train,
        50,
        valid_sets=[train],
        callbacks=[lgb.early_stopping(2, verbose=False)],
    )
    models["stopped early"] = stopped.model_to_string()
    models["no trees"] = lgb.Booster(params, lgb.Dataset(X, y, group=groups)).model_to_string()
    return models


@cache
def xgboost_models() -> dict[str, bytes]:
    """Name -> model JSON."""
    # Objectives, ways to grow, and kinds of splits.
    boosters = {
        "rank:ndcg": train_xgboost(),
        "pairwise": train_xgboost(objective="rank:pairwise"),
        "callable": train_xgboost(
            obj=lambda s, d: tuple(a.reshape(-1, 1) for a in squared_error(s, d)), base_score=0
        ),
        "median": train_xgboost(objective="reg:absoluteerror"),
        "pruned": train_xgboost(tree_method="exact", gamma=0.3, max_depth=5),
        "approx": train_xgboost(tree_method="approx", gamma=3),
        "leaf by leaf": train_xgboost(grow_policy="lossguide", max_leaves=9, max_depth=0),
        "one leaf": train_xgboost(gamma=1e9),
        "one category at a time": train_xgboost(X=frame(), max_cat_to_onehot=100),
        "sets of categories": train_xgboost(X=frame(), max_cat_to_onehot=1, max_depth=5),
        "unbiased": train_xgboost(lambdarank_unbiased=True),
        "extreme": train_xgboost(eta=1e4),
    }
    # Parts, attributes, and other forms of the file.
    boosters["a slice of rounds"] = boosters["pruned"][1:3]
    boosters["no trees"] = train_xgboost(0)
    boosters["with attributes"] = boosters["rank:ndcg"].copy()
    boosters["with attributes"].set_attr(best_iteration="2", note="größer")
    models = {name: bytes(booster.save_raw("json")) for name, booster in boosters.items()}
    loaded = xgb.Booster()
    loaded.load_model(bytearray(models["sets of categories"]))
    models["loaded and saved again"] = bytes(loaded.save_raw("json"))
    models["indented"] = json.dumps(json.loads(models["pruned"]), indent=1).encode()
    return models
