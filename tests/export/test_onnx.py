"""ONNX graph: the leaves that the engine reaches, added up in float64 and rounded once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.export.target import ExportError, ServedModel
from boostrank.export.targets.onnx import SPEC
from boostrank.export.writing import export_model
from tests.export.conftest import KINDS, example, served_model, table

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")


def assert_same_leaves(served: ServedModel, rows: np.ndarray, rules: Rules) -> None:
    expected = scores(served.trees, rows, replace(rules, sums=np.float64)).astype(np.float32)
    of_export = SPEC.read(SPEC.write(served), served.feature_names)(rows)
    np.testing.assert_array_max_ulp(of_export, expected, maxulp=1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "categories" not in kind])
def test_every_float32_row_reaches_the_leaves_that_it_reaches_in_the_engine(kind: str) -> None:
    each = example(kind)
    assert_same_leaves(each.served, each.single, Rules.of_engine(each.served.trees))


def test_nodes_that_pruning_deleted_are_left_out() -> None:
    X, y = table("missing")
    rows = xgb.DMatrix(X, y, group=[20] * 30, nthread=1)
    params = {
        "objective": "rank:ndcg",
        "tree_method": "exact",
        "gamma": 1.0,
        "max_depth": 5,
        "nthread": 1,
    }
    body = bytes(xgb.train(params, rows, 4).save_raw("json"))
    model = XGBOOST.parse(body)
    assert any(int(tree["tree_param"]["num_deleted"]) for tree in model.forest["trees"])
    served = served_model(
        "toy", "xgboost", body, XGBOOST.served(model), ("a", "b", "c", "d", "e", "f")
    )
    assert_same_leaves(served, X.astype(np.float32), Rules.of_engine(served.trees))


def test_names_are_those_that_converted_models_have() -> None:
    model_example = example("lightgbm-none-whole")
    session = onnxruntime.InferenceSession(SPEC.write(model_example.served))
    (input_node,), (output_node,) = session.get_inputs(), session.get_outputs()
    assert (input_node.name, input_node.type, input_node.shape[1]) == ("input", "tensor(float)", 6)
    assert (output_node.name, output_node.type, output_node.shape[1]) == (
        "variable",
        "tensor(float)",
        1,
    )
    names = session.get_modelmeta().custom_metadata_map["feature_names"]
    assert json.loads(names) == list(model_example.served.feature_names)


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


def test_categories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"2 categorical features .*\(c, sql\)"):
        export_model(example("lightgbm-none-categories").model, tmp_path / "m.onnx", "onnx")
