"""Learning to rank with LightGBM and XGBoost: any metric, lists of any length, checked exports.

    import boostrank
    train = boostrank.RankingDataset.from_libsvm("train.txt")
    model = boostrank.train({"objective": "shf-sdcg"}, train, num_boost_round=200)
    scores = model.predict(boostrank.RankingDataset.from_libsvm("test.txt", like=train))

Heavy dependencies are imported only when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from boostrank.core import __version__

if TYPE_CHECKING:
    from boostrank.checking.user_file import load_objective
    from boostrank.core.errors import BoostrankError, DataError, InputError, ModelError, ParameterError, TrainingError
    from boostrank.core.params import Param
    from boostrank.core.queries import QueryIndex
    from boostrank.data.dataset import RankingDataset
    from boostrank.export.proof import verify
    from boostrank.export.writing import export_model
    from boostrank.fit.callbacks import EarlyStopping
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.fit.doctor import doctor
    from boostrank.fit.from_data import train
    from boostrank.fit.renewal import refit
    from boostrank.from_files import train_files
    from boostrank.kernels.jit import inline
    from boostrank.kernels.objective import ObjectiveSpec, define_objective, objective_kernel
    from boostrank.metric import Conventions, Metric
    from boostrank.model.averaging import average
    from boostrank.model.calibration import calibrate
    from boostrank.model.query_columns import WithinQuery
    from boostrank.model.ranking_model import RankingModel
    from boostrank.objective.description import Objective
    from boostrank.objective.mixture import Mixture
    from boostrank.reporting.comparison import compare
    from boostrank.reporting.evaluation import evaluate
    from boostrank.reporting.page import report
    from boostrank.sklearn.estimator import BoostRanker as BoostRanker
    from boostrank.sklearn.splitters import QueryKFold as QueryKFold
    from boostrank.sklearn.splitters import QueryTimeSplit as QueryTimeSplit
    from boostrank.tuning.search import tune

_NAMES = {
    "core.errors": "BoostrankError DataError InputError ModelError ParameterError TrainingError",
    "core.params": "Param", "core.queries": "QueryIndex", "data.dataset": "RankingDataset",
    "export.proof": "verify", "export.writing": "export_model",
    "kernels.objective": "ObjectiveSpec define_objective objective_kernel",
    "kernels.jit": "inline", "metric": "Conventions Metric", "objective.description": "Objective",
    "objective.mixture": "Mixture", "checking.user_file": "load_objective",
    "reporting.comparison": "compare", "reporting.evaluation": "evaluate", "reporting.page": "report",
    "sklearn": "BoostRanker QueryKFold QueryTimeSplit", "model.averaging": "average",
    "model.calibration": "calibrate",
    "from_files": "train_files",
    "fit.doctor": "doctor", "fit.callbacks": "EarlyStopping", "fit.checkpoint": "Checkpoint",
    "model.ranking_model": "RankingModel", "fit.renewal": "refit", "fit.from_data": "train",
    "model.query_columns": "WithinQuery", "tuning.search": "tune",
}  # fmt: skip
_HOMES = {name: f"boostrank.{module}" for module, names in _NAMES.items() for name in names.split()}

_PACKAGES = ("cluster", "data", "export", "reporting", "tracking", "tuning")

# What needs scikit-learn is in `boostrank.sklearn.__all__`: `from boostrank import *` does without.
__all__ = [
    "BoostrankError", "Checkpoint", "Conventions", "DataError", "EarlyStopping", "InputError", "Metric", "Mixture",
    "ModelError", "Objective", "ObjectiveSpec", "Param", "ParameterError", "QueryIndex", "RankingDataset",
    "RankingModel", "TrainingError", "WithinQuery", "__version__", "average", "calibrate", "compare",
    "define_objective", "doctor", "evaluate", "export_model", "inline", "load_objective", "objective_kernel", "refit",
    "report", "train", "train_files", "tune", "verify",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_PACKAGES})


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return import_module(f"boostrank.{name}")
    if name == "spark":
        return import_module("boostrank.cluster.spark")
    if name[:1].isupper():  # ShfSdcg, ApproxNDCG, LambdaRank: every objective of the registry, as a constructor
        maker = import_module("boostrank.objective.description").objective_constructor(name)
        if maker is not None:
            return maker
    raise AttributeError(f"module 'boostrank' has no attribute {name!r}")
