"""MLflow: parameters and metrics of a training, and models as `pyfunc`."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from boostrank.core.errors import MissingDependency
from boostrank.data.arrays import default_feature_names
from boostrank.engines import get_backend
from boostrank.model.ranking_model import RankingModel
from boostrank.tracking.callbacks import metrics_of, plain_params

_FILE = "model.boostrank"
_QID = "qid"


class MLflow:
    """A callback that logs the engine's parameters, and the metrics of each round with the round as step.

    MLflow forbids "@" in names: "ndcg@10" on "valid_0" becomes "valid_0/ndcg_at_10". Logs to the active run, or starts
    one.

    Raises:
        MissingDependency: MLflow is not installed.
    """

    before_iteration = False
    order = 22  # before early stopping, which raises an exception

    def __init__(self) -> None:
        self._mlflow = _mlflow()
        self._begun = False

    def __call__(self, env: Any) -> None:
        if not self._begun:
            self._begun = True
            self._mlflow.log_params({name: str(value)[:500] for name, value in plain_params(env).items()})
        found = {re.sub(r"[^\w\-. /]", "_", name.replace("@", "_at_")): v for name, v in metrics_of(env).items()}
        self._mlflow.log_metrics(found, step=env.iteration + 1)


def log_model(model: RankingModel, name: str = "model", **options: Any) -> Any:
    """Log a model with its sidecar file to the active run, with a signature: one column per feature, and scores.

    `mlflow.pyfunc.load_model` loads it for data frames, with columns matched by name. Models that depend on whole
    queries read the query ids from the column "qid". Nothing is pickled.

    Args:
        model: model to log.
        name: as in `mlflow.pyfunc.log_model`.
        options: other arguments of `mlflow.pyfunc.log_model`.

    Returns:
        The result of `mlflow.pyfunc.log_model`.

    Raises:
        MissingDependency: MLflow is not installed.
    """
    mlflow = _mlflow()
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema, TensorSpec
    from mlflow.types.schema import AnyType

    # Use any type: MLflow rejects whole numbers for "double", and numbers for "string".
    names = [*model.feature_names, *([] if model.scores_rows_alone else [_QID])]
    # Columns without names take arrays. Those of a frame go by name all the same.
    numbered = model.scores_rows_alone and model.feature_names == default_feature_names(model.n_features)
    columns = [ColSpec(AnyType(), None if numbered else name) for name in names]
    signature = ModelSignature(Schema(columns), Schema([TensorSpec(np.dtype(np.float64), (-1,))]))
    engine = get_backend(model.backend)
    needs = [f"boostrank=={boostrank.__version__}"]
    needs += [f"{engine.name}=={engine.version}"] if engine.grows_trees else []
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / _FILE)
        given = {"signature": signature, "pip_requirements": needs} | options
        return mlflow.pyfunc.log_model(name=name, loader_module=__name__, data_path=folder, **given)


def _load_pyfunc(path: str) -> _Served:
    """Load a model for MLflow."""
    return _Served(RankingModel.load(os.path.join(path, _FILE)))


class _Served:
    """MLflow's interface to a model."""

    def __init__(self, model: RankingModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: Any = None) -> Any:
        """Score the rows of a data frame or an array, float64[N]."""
        columns = getattr(model_input, "columns", None)
        if columns is not None and list(columns) == list(range(self.model.n_features)):
            model_input = model_input.to_numpy()  # MLflow made a frame of an array
        if self.model.scores_rows_alone or not hasattr(model_input, "columns"):
            return self.model.predict(model_input)
        return self.model.predict(model_input, qid=model_input[_QID])


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise MissingDependency("tracking with MLflow needs it: pip install 'boostrank[mlflow]'") from error
    return mlflow
