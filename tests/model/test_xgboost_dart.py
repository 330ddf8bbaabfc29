"""DART models of XGBoost: three forms of one content, each read, walked, and refused where weights
do not fit.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost as xgb
from packaging.version import Version

from boostrank.core.errors import ModelError
from boostrank.engines import get_backend
from boostrank.engines.base import PredictRequest
from boostrank.engines.xgboost.format import ATTRIBUTE, XGBOOST, tree_weights
from tests.model.real_models import data, xgboost_models


def dart_in_all_forms() -> list[bytes]:
    """One DART model as XGBoost up to 3.2, 3.3 and 3.4 write it."""
    model = json.loads(xgboost_models()["dart"])
    booster = model["learner"]["gradient_booster"]
    trees_of = booster["gbtree"] if booster["name"] == "dart" else booster
    forest = dict(trees_of["model"])
    weights = tree_weights(booster)
    forest.pop("weight_drop", None)
    old = {"name": "dart", "gbtree": {"name": "gbtree", "model": forest}, "weight_drop": weights}
    between = {"name": "gbtree", "model": forest, "weight_drop": weights}
    new = {"name": "gbtree", "model": forest | {"weight_drop": weights}}
    return [
        json.dumps(model | {"learner": model["learner"] | {"gradient_booster": form}}).encode()
        for form in (old, between, new)
    ]


@pytest.mark.fault(86)
def test_a_forest_with_weights_of_trees_has_no_trees_of_a_start() -> None:
    document = json.loads(xgboost_models()["dart"])
    for promised in ("1", "3"):
        document["learner"]["attributes"][ATTRIBUTE] = promised
        with pytest.raises(ModelError, match="the file has 0"):
            XGBOOST.parse(json.dumps(document).encode())


def test_dart_weights_beside_something_else_than_trees_are_refused() -> None:
    model = json.loads(dart_in_all_forms()[0])
    booster = model["learner"]["gradient_booster"]
    booster["model"] = 5
    del booster["weight_drop"]
    with pytest.raises(ModelError, match="weight_drop"):
        XGBOOST.parse(json.dumps(model).encode())


def test_dart_weights_are_one_for_each_tree() -> None:
    for body in dart_in_all_forms():
        model = json.loads(body)
        tree_weights(model["learner"]["gradient_booster"]).pop()
        with pytest.raises(ModelError, match=r"weight_drop .*3 .*4"):
            XGBOOST.parse(json.dumps(model).encode())


def test_dart_is_checked_and_walked_in_every_form() -> None:
    forests = []
    for body in dart_in_all_forms():
        XGBOOST.parse(body)
        forests.append(XGBOOST.trees(XGBOOST.parse(body), 6).forest)
    assert min(tree_weights(json.loads(body)["learner"]["gradient_booster"])) < 1
    for forest in forests[1:]:
        np.testing.assert_array_equal(forest.value, forests[0].value)


def test_dart_is_not_averaged_in_any_form() -> None:
    for body in dart_in_all_forms():
        with pytest.raises(ModelError, match="dart"):
            XGBOOST.merge([XGBOOST.parse(body)])


def test_dart_of_another_version_scores_the_same_or_is_refused() -> None:
    X, _ = data()
    engine, written = get_backend("xgboost"), xgboost_models()["dart"]
    expected = engine.load(written).predict(X.astype(np.float32), PredictRequest())
    for body in dart_in_all_forms():
        try:
            booster = engine.load(body)
        except ModelError as error:
            assert "XGBoost" in str(error)  # noqa: PT017
            assert Version(xgb.__version__) < Version("3.4")
            assert body != written
        else:
            scores = booster.predict(X.astype(np.float32), PredictRequest())
            np.testing.assert_array_equal(scores, expected)
