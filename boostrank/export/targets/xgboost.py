"""xgboost: XGBoost's JSON, with the program's feature names."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from boostrank.core.types import Array
from boostrank.engines.trees import engine_names, write_json
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.export.target import Score, ServedModel, TargetSpec, with_version
from boostrank.export.targets.lightgbm import load_exported

_OBJECTIVE = """
{
  "name": "rank:ndcg",
  "lambdarank_param": {
    "lambdarank_bias_norm": "1",
    "lambdarank_normalization": "1",
    "lambdarank_num_pair_per_sample": "4294967295",
    "lambdarank_pair_method": "topk",
    "lambdarank_score_normalization": "1",
    "lambdarank_unbiased": "0",
    "ndcg_exp_gain": "1"
  }
}
"""
"""An objective of XGBoost 3.1 that does not transform scores."""


def _write(model: ServedModel) -> bytes:
    document = XGBOOST.parse(model.body).document
    learner = document["learner"]
    learner["feature_names"] = list(engine_names(model.feature_names))
    if not learner["objective"]["name"].startswith("rank:"):  # others may transform scores
        learner["objective"] = json.loads(_OBJECTIVE)
        learner["learner_model_param"]["base_score"] = f"[{model.trees.base!r}]"
    return write_json(document)


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    booster = load_exported(body, "model.json", feature_names)
    booster.set_param({"nthread": 1})

    def score(rows: Array) -> Array:
        with np.errstate(over="ignore"):
            float32_rows = rows.astype(np.float32)
        return np.asarray(
            booster.inplace_predict(float32_rows, predict_type="margin", validate_features=False)
        )

    return score


SPEC = TargetSpec(
    name="xgboost",
    title="XGBoost and what reads its JSON",
    write=_write,
    read=_read,
    proved_by=with_version("XGBoost", "xgboost", "xgboost-cpu"),
    how="""\
XGBoost 3.1 and later open {file} by themselves: xgboost.Booster(model_file={literal}).
Scores are predict(xgboost.DMatrix(rows, feature_names=...), output_margin=True), or \
inplace_predict(rows).
Pass values in the order of the model's features, rounded to float32; NaN is missing.
""",
    exact=("xgboost",),
    engine="xgboost",
)
