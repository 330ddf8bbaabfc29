"""Treelite checkpoint, which tl2cgen and NVIDIA's Forest Inference Library (cuML, nvForest) read.

Treelite's own front ends make it of LightGBM's text and XGBoost's JSON. They keep types, thresholds and directions as
they are; names of features are not in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec, missing_goes_left, with_version
from boostrank.export.targets import lightgbm, xgboost


def _write(model: ServedModel) -> bytes:
    from treelite import Model, TreeliteError, frontend

    missing_goes_left(model.trees.forest)
    try:
        if model.engine == "xgboost":
            found: Model = frontend.from_xgboost_json(xgboost.SPEC.write(model).decode())
        else:
            with tempfile.TemporaryDirectory(prefix="boostrank-") as folder:
                path = Path(folder, "model.txt")
                path.write_bytes(lightgbm.SPEC.write(model))
                found = frontend.load_lightgbm_model(str(path))
    except TreeliteError as error:
        raise ExportError(f"treelite cannot hold this model: {str(error)[:500]}; export to c or onnx") from error
    return bytes(found.serialize_bytes())


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    from treelite import Model, gtil

    model = Model.deserialize_bytes(body)
    if model.num_feature != len(feature_names):
        raise ExportError(f"the file holds a model of {model.num_feature} features, not {len(feature_names)}")

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
        "treelite.gtil.predict(model, rows) scores; tl2cgen.export_lib(model, toolchain='gcc', libpath=...) compiles.",
        "Values in the order of the model's features, float64 for LightGBM's models, float32 for XGBoost's; NaN is "
        "missing.",
    ),
    takes="float64",
    leaves="float64",
    adds="float64",
    gives="float64",
    exact=("lightgbm", "xgboost"),
    extra="treelite",
    helps={"categories": "code categories by whole numbers from 0; "},
)
