"""treelite: Treelite checkpoint, for tl2cgen and NVIDIA's Forest Inference Library (cuML, nvForest).

Treelite's own front ends convert LightGBM's text and XGBoost's JSON. They keep types, thresholds and directions and
drop feature names.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.engines.lightgbm.format import LIGHTGBM
from boostrank.engines.xgboost.format import tree_weights
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec, missing_goes_left, with_version
from boostrank.export.targets import lightgbm, xgboost
from boostrank.kernels.forest import Forest

_OF_SETS = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


def _write(model: ServedModel) -> bytes:
    from treelite import Model, TreeliteError, frontend

    missing_goes_left(model.trees.forest)
    try:
        if model.engine == "xgboost":
            found: Model = frontend.from_xgboost_json(_base_first(xgboost.SPEC.write(model)))
        else:
            with tempfile.TemporaryDirectory(prefix="boostrank-") as folder:
                path = Path(folder, "model.txt")
                path.write_bytes(_zeros_together(lightgbm.SPEC.write(model), model.trees.forest))
                found = frontend.load_lightgbm_model(str(path))
    except TreeliteError as error:
        reason = " ".join(str(error).split())[:500]
        raise ExportError(f"treelite does not support this model: {reason}; export to c or onnx") from error
    return bytes(found.serialize_bytes())


def _base_first(body: bytes) -> str:
    """Return XGBoost's JSON with base_score as a first tree of one leaf, because treelite would add it last."""
    document = json.loads(body)
    learner = document["learner"]
    base = float(learner["learner_model_param"]["base_score"].strip("[]"))
    booster = learner["gradient_booster"]
    if not base or tree_weights(booster) is not None:  # other readers treat weighted trees of DART differently
        return json.dumps(document)  # as ASCII: treelite mistakes the length in characters for bytes
    forest = booster["model"]
    leaf: dict[str, Any] = {key: [] for key in _OF_SETS}
    leaf |= {key: [base] for key in ("base_weights", "split_conditions")}
    leaf |= {key: [-1] for key in ("left_children", "right_children")}
    leaf |= {key: [0] for key in ("default_left", "split_indices", "split_type")}
    leaf |= {"parents": [2**31 - 1], "loss_changes": [0.0], "sum_hessian": [1.0]}
    leaf["tree_param"] = {"num_deleted": "0", "num_feature": "0", "num_nodes": "1", "size_leaf_vector": "1"}
    forest["trees"] = [{**tree, "id": i} for i, tree in enumerate([leaf, *forest["trees"]])]
    forest["tree_info"] = [0] * len(forest["trees"])
    forest["gbtree_model_param"]["num_trees"] = str(len(forest["trees"]))
    forest.pop("iteration_indptr", None)
    learner["learner_model_param"]["base_score"] = "0"
    return json.dumps(document)


def _zeros_together(body: bytes, forest: Forest) -> bytes:
    """Set thresholds near 0 to LightGBM's effective values: values within 1e-35 of 0 count as equal."""
    text = LIGHTGBM.parse(body)
    ends = np.cumsum([0, *(tree.leaves - 1 for tree in text.trees)]).tolist()
    trees = []
    for tree, part in zip(text.trees, itertools.starmap(slice, itertools.pairwise(ends)), strict=True):
        as_read = zip(tree.words(b"threshold"), forest.threshold[part], forest.categorical[part], strict=True)
        words = [word if is_set else repr(float(number)).encode() for word, number, is_set in as_read]
        trees.append(replace(tree, fields={**tree.fields, b"threshold": b" ".join(words)}))
    return replace(text, trees=tuple(trees)).to_bytes()


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    from treelite import Model, gtil

    model = Model.deserialize_bytes(body)
    if model.num_feature != len(feature_names):
        raise ExportError(f"the file has {model.num_feature} features, expected {len(feature_names)}")

    def score(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):
            given = np.ascontiguousarray(rows, dtype=model.input_type)
        return np.asarray(gtil.predict(model, given, nthread=1)).reshape(-1)

    return score


SPEC = TargetSpec(
    name="treelite",
    title="treelite and what reads its checkpoints",
    write=_write,
    read=_read,
    proved_by=with_version("treelite", "treelite") + " (GTIL)",
    how=(
        "Treelite of the same major version opens {file}: model = treelite.Model.deserialize('{file}').",
        "treelite.gtil.predict(model, rows)[:, 0, 0] are the scores; tl2cgen.export_lib(model, toolchain='gcc', "
        "libpath=...) compiles.",
        "Pass values in the order of the model's features, float64 for LightGBM's models, float32 for XGBoost's; "
        "NaN is missing.",
    ),
    leaves="float64",
    adds="float64",
    gives="float64",
    exact=("lightgbm", "xgboost"),
    extra="treelite",
    helps={"categories": "number the categories from 0; "},
)
