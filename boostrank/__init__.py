"""Learning to rank with LightGBM and XGBoost: any metric, lists of any length, checked exports.

    import boostrank
    train = boostrank.read("train.txt")
    model = boostrank.train({"objective": "shf-sdcg"}, train, num_boost_round=200)
    scores = model.predict(boostrank.read("test.txt", like=train))

Heavy dependencies are imported only when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from boostrank.core import __version__ as __version__
from boostrank.core.lazy import modules_of_names

_MODULES = modules_of_names(__file__)
_OF_ENGINES = {
    "cv": "boostrank.tune, or sklearn's cross_validate(BoostRanker(), X, y, cv=QueryKFold(5))",
    **dict.fromkeys(("Dataset", "DMatrix", "QuantileDMatrix"), "RankingDataset.from_arrays"),
    **dict.fromkeys(("LGBMRanker", "XGBRanker", "Ranker"), "BoostRanker"),
    **dict.fromkeys(("Booster", "load_model"), "RankingModel.load"),
    **dict.fromkeys(
        ("early_stopping", "log_evaluation", "record_evaluation", "reset_parameter"),
        "the callback of lightgbm, which boostrank.train takes on either backend",
    ),
}
_PACKAGES = ("cluster", "data", "export", "files", "reporting", "tracking", "tuning")

# What needs scikit-learn is in `boostrank.sklearn.__all__`: `from boostrank import *` does without.
__all__ = sorted(
    name for name, module in _MODULES.items() if not module.startswith("boostrank.sklearn")
)


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_PACKAGES})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name in _PACKAGES:
        return import_module(f"boostrank.{name}")
    if (
        name[:1].isupper()
    ):  # ShfSdcg, ApproxNDCG, LambdaRank: every objective of the registry, as a constructor
        maker = import_module("boostrank.objective.description").objective_constructor(name)
        if maker is not None:
            return maker
    hint = f"; use {_OF_ENGINES[name]}" if name in _OF_ENGINES else ""
    raise AttributeError(f"module 'boostrank' has no attribute {name!r}{hint}")
