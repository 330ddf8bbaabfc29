"""ONNX graph: the leaves that the engine reaches, added up in float64 and rounded once."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb

from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.trees import ServedTrees
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.export.target import ExportError, ServedModel
from boostrank.export.targets.onnx import SPEC
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, Forest
from tests.export.conftest import Example, example, served_model, table

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")


def assert_same_leaves(served: ServedModel, rows: np.ndarray, rules: Rules) -> None:
    expected = scores(served.trees, rows, replace(rules, sums=np.float64)).astype(np.float32)
    of_export = SPEC.read(SPEC.write(served), served.feature_names)(rows)
    np.testing.assert_array_max_ulp(of_export, expected, maxulp=1)


def test_every_float32_row_reaches_the_leaves_that_it_reaches_in_the_engine(each: Example) -> None:
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


@pytest.mark.parametrize("codes", [40, 300])
@pytest.mark.parametrize("listed", [0, LISTED_RIGHT])
def test_sets_of_categories_of_any_size_hold(codes: int, listed: int) -> None:
    trees, words, rng = 30, codes // 32 + 1, np.random.default_rng(codes)
    sets = rng.integers(0, 2**32, (trees, words), dtype=np.uint32)
    sets[: trees // 2] &= rng.integers(0, 2, (trees // 2, words), dtype=np.uint32)
    sets[:, 0] |= 1
    leaf = np.arange(trees + 1)[:trees] * 2
    forest = Forest(
        feature=rng.integers(0, 2, trees).astype(np.int32),
        threshold=np.arange(float(trees)),
        kind=(CATEGORICAL + listed + rng.integers(0, 2, trees) * NAN_LEFT * (listed > 0)).astype(
            np.uint8
        ),
        left=~leaf.astype(np.int32),
        right=~(leaf + 1).astype(np.int32),
        value=rng.normal(size=2 * trees + 1),
        roots=np.append(np.arange(trees), ~(2 * trees)).astype(np.int32),
        tree=np.arange(trees, dtype=np.int32),
        sets=sets.ravel(),
        set_ptr=words * np.arange(trees + 1),
    )
    served = ServedTrees(forest, np.ones(2 * trees + 1), base=0.5)
    rows = rng.integers(-2, codes + 40, (500, 2)).astype(np.float32)
    rows[::7, 0], rows[::11, 1], rows[::13, 0], rows[::17, 1] = np.nan, 1e6, -0.5, 2.7
    assert_same_leaves(
        served_model("sets", "lightgbm", b"", served, ("a", "b")), rows, Rules(np.float32)
    )


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


def test_codes_that_are_too_large_for_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boostrank.export.targets.onnx._MOST_CELLS", 100)
    with pytest.raises(
        ExportError,
        match=r"codes .*\d+ .*column 4.* gaps",
    ):
        SPEC.write(example("lightgbm-none-categories").served)
