"""Treelite checkpoint: the engine's bits."""

from __future__ import annotations

from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

from boostrank.engines.lightgbm.format import LIGHTGBM
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.export.target import ExportError, ServedModel
from boostrank.export.targets.treelite import SPEC
from tests.export.conftest import Example, example, table

pytest.importorskip("treelite", reason="the extra treelite is not installed")


@pytest.mark.fault(90)
def test_bits_are_those_of_the_engine(each: Example) -> None:
    columns = np.unique(each.served.trees.forest.feature[each.served.trees.forest.categorical])
    # LightGBM cuts what is above -1 and below 0 to category 0, treelite does not.
    rows = each.rows[~np.any((each.rows[:, columns] < 0) & (each.rows[:, columns] > -1), axis=1)]
    score = SPEC.read(SPEC.write(each.served), each.served.feature_names)
    np.testing.assert_array_equal(score(rows), each.expected(rows))


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


def test_what_scores_begin_with_is_added_first() -> None:
    X, y = table("missing")
    rows = xgb.DMatrix(X, y, group=[20] * 30, nthread=1)
    trained = xgb.train({"objective": "rank:ndcg", "base_score": 0.37, "nthread": 1}, rows, 8)
    body = bytes(trained.save_raw("json"))
    names = ("a", "b", "c", "d", "e", "f")
    served = ServedModel("toy", "xgboost", body, XGBOOST.served(XGBOOST.parse(body)), names)
    own = trained.inplace_predict(X.astype(np.float32), predict_type="margin", validate_features=False)
    np.testing.assert_array_equal(SPEC.read(SPEC.write(served), names)(X), own)


@pytest.mark.parametrize("threshold", [b"1.0000000180025095e-35", b"-1.0000000180025095e-35", b"1e-40"])
def test_values_near_zero_are_one_as_they_are_to_lightgbm(threshold: bytes) -> None:
    one = example("lightgbm-none-missing")
    text = LIGHTGBM.parse(one.served.body)
    tree = text.trees[0]
    words = b" ".join([threshold, *tree.words(b"threshold")[1:]])
    first = replace(tree, fields={**tree.fields, b"threshold": words})
    head = b"\n".join(line for line in text.head.split(b"\n") if not line.startswith(b"tree_sizes"))
    body = replace(text, head=head, trees=(first, *text.trees[1:])).to_bytes()
    served = replace(one.served, body=body, trees=LIGHTGBM.served(LIGHTGBM.parse(body)))
    column = int(tree.words(b"split_feature")[0])
    near = [1e-35, -1e-35, 1e-36, -1e-36, 0.0, -0.0, np.nextafter(np.float32(1e-35), np.float32(1)), -2e-35]
    rows = np.repeat(one.rows[:200], len(near), axis=0)
    rows[:, column] = np.tile(np.array(near, np.float32), 200)
    own = lgb.Booster(model_str=body.decode()).predict(rows, raw_score=True, num_threads=1)
    np.testing.assert_array_equal(SPEC.read(SPEC.write(served), served.feature_names)(rows), own)


def test_what_treelite_cannot_read_is_refused_with_what_helps(capfd: pytest.CaptureFixture[str]) -> None:
    one = example("xgboost-none-whole")
    odd = one.served.body.replace(b'"rank:ndcg"', b'"rank:other"')
    with pytest.raises(ExportError, match=r"treelite does not support this model.*export to c or onnx"):
        SPEC.write(replace(one.served, body=odd))
