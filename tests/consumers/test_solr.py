"""Solr's emulator against the reference guide's examples, a scalar twin, and what Solr refuses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers.forests import NAMES, documents, forest, text
from tests.consumers.solr import CLASS, read

F = np.float32


def model(trees: list[Any], features: list[str] = NAMES, **params: Any) -> dict[str, Any]:
    return {
        "class": CLASS,
        "name": "m",
        "features": [{"name": name} for name in features],
        "params": {"trees": trees, **params},
    }


def scores(
    body: dict[str, Any], rows: Any, names: list[str] = NAMES, **options: Any
) -> list[float]:
    return read(json.dumps(body).encode(), names, **options)(
        np.array(rows, dtype=np.float64)
    ).tolist()


def split(feature: str, threshold: str, left: Any, right: Any, **more: str) -> dict[str, Any]:
    below = {
        side: {"value": node} if isinstance(node, str) else node
        for side, node in (("left", left), ("right", right))
    }
    return {"feature": feature, "threshold": threshold, **below, **more}


DOCUMENTED = model(
    [
        {
            "weight": "1",
            "root": split(
                "userTextTitleMatch", "0.5", "-100", split("originalScore", "10.0", "50", "75")
            ),
        },
        {"weight": "2", "root": {"value": "-10"}},
    ],
    ["userTextTitleMatch", "originalScore"],
)
"""The example of MultipleAdditiveTreesModel's documentation."""

GUIDE = model(
    [
        {
            "weight": "1f",
            "root": split(
                "matchedTitle",
                "0.5f",
                "-100",
                split("productReviewScore", "0f", "50", "65", missing="left"),
                missing="right",
            ),
        }
    ],
    ["matchedTitle", "productReviewScore"],
    isNullSameAsZero=False,
)
"""The example of the reference guide's section on null values, with the boolean that Solr takes."""


def test_the_documented_examples() -> None:
    rows = [[0.0, 0.0], [1.0, 10.0], [1.0, 10.1], [np.nan, 99.0]]
    assert scores(DOCUMENTED, rows, ["userTextTitleMatch", "originalScore"]) == [
        -120.0,
        30.0,
        55.0,
        -120.0,
    ]
    swapped = [row[::-1] for row in rows]
    assert scores(DOCUMENTED, swapped, ["originalScore", "userTextTitleMatch"]) == [
        -120.0,
        30.0,
        55.0,
        -120.0,
    ]
    rows = [[0.0, 1.0], [1.0, 0.0], [1.0, 0.1], [1.0, np.nan], [np.nan, 0.1]]
    assert scores(GUIDE, rows, GUIDE_NAMES) == [-100.0, 50.0, 65.0, 50.0, 65.0]


GUIDE_NAMES = ["matchedTitle", "productReviewScore"]


def test_a_value_within_the_slack_of_the_threshold_goes_left() -> None:
    body = model([{"weight": "1", "root": split("a", "0.5", "1", "2")}], ["a"])
    stored = F(0.5) + F(1e-6)
    at = [[0.5], [stored], [np.nextafter(stored, F(1))], [0.5000009], [0.5000011]]
    assert scores(body, at, ["a"]) == [1.0, 1.0, 2.0, 1.0, 2.0]
    # The slack is added in float32: 2.919 + 1e-6 in float64 is nearer to the next number.
    stored = F(2.919) + F(1e-6)
    assert stored < F(2.919 + 1e-6)
    rounded = model([{"weight": "1", "root": split("a", "2.919", "1", "2")}], ["a"])
    assert scores(rounded, [[stored], [2.919 + 1e-6]], ["a"]) == [1.0, 2.0]
    large = model([{"weight": "1", "root": split("a", "64", "1", "2")}], ["a"])
    assert scores(large, [[64.0], [np.nextafter(F(64), F(99))]], ["a"]) == [1.0, 2.0]


def test_scores_are_float32_sums_of_float32_products_in_the_order_of_the_trees() -> None:
    leaves = [("0.1", "16777216"), ("1", "1"), ("0.1", "3"), ("-0.1", "16777216")]
    body = model([{"weight": weight, "root": {"value": value}} for weight, value in leaves], ["a"])
    total = F(0)
    for weight, value in leaves:
        total = F(total + F(F(weight) * F(value)))
    result = read(json.dumps(body).encode(), ["a"])(np.zeros((2, 1)))
    assert result.dtype == F
    assert result.tolist() == [total, total]
    assert total != F(sum(float(F(weight)) * float(F(value)) for weight, value in leaves))


def test_a_missing_value_is_zero_unless_the_model_says_otherwise() -> None:
    trees = [{"weight": "1", "root": split("a", "-1", "1", "2", missing="left")}]
    assert scores(model(trees, ["a"]), [[np.nan], [0.0]], ["a"]) == [2.0, 2.0]
    assert scores(model(trees, ["a"], isNullSameAsZero=True), [[np.nan]], ["a"]) == [2.0]
    assert scores(model(trees, ["a"], isNullSameAsZero=False), [[np.nan], [0.0]], ["a"]) == [
        1.0,
        2.0,
    ]
    trees[0]["root"]["missing"] = "elsewhere"
    assert scores(model(trees, ["a"], isNullSameAsZero=False), [[np.nan]], ["a"]) == [2.0]


def test_scoring_fails_where_solr_does() -> None:
    body = model(
        [{"weight": "1", "root": split("a", "0", "1", "2")}], ["a"], isNullSameAsZero=False
    )
    assert scores(body, [[0.0]], ["a"]) == [1.0]
    with pytest.raises(ModelError, match="without 'missing'"):
        scores(body, [[0.0], [np.nan]], ["a"])


def test_whoever_comes_to_an_undeclared_feature_has_zero() -> None:
    tree = {"weight": "3", "root": split("a", "0", "1", split("z", "0", "5", "6"))}
    assert scores(model([tree], ["a"]), [[0.0, 0.0], [1.0, 0.0]], ["a", "z"]) == [3.0, 0.0]


def twin(body: dict[str, Any], document: np.ndarray[Any, Any]) -> np.float32:
    """One document, as the Java reads."""
    names = [feature["name"] for feature in body["features"]]
    null_is_zero = body["params"].get("isNullSameAsZero", True)
    values = [F(0) if null_is_zero and np.isnan(x) else F(x) for x in document]

    def score(node: dict[str, Any]) -> np.float32:
        if "feature" not in node:
            return F(node["value"])
        value, threshold = values[names.index(node["feature"])], F(F(node["threshold"]) + F(1e-6))
        goes_left = node["missing"] == "left" if np.isnan(value) else value <= threshold
        side = "left" if goes_left else "right"
        return score(node[side])

    total = F(0)
    for tree in body["params"]["trees"]:
        total = F(total + F(F(tree["weight"]) * score(tree["root"])))
    return total


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("null_is_zero", [True, False])
def test_scores_are_those_of_a_scalar_twin(null_is_zero: bool) -> None:
    def written(node: Any) -> dict[str, Any]:
        if not isinstance(node, tuple):
            return {"value": text(node)}
        column, threshold, missing, left, right = node
        side = "left" if missing else "right"
        return split(NAMES[column], text(threshold), written(left), written(right), missing=side)

    trees = forest(3)
    body = model(
        [{"weight": text(0.1 * i), "root": written(tree)} for i, tree in enumerate(trees, 1)],
        isNullSameAsZero=null_is_zero,
    )
    rows = documents(4, trees)
    assert scores(body, rows) == [twin(body, row) for row in rows]


LEAF = {"weight": "1", "root": {"value": "1"}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (model([LEAF]) | {"class": "LinearModel"}, "the class must be"),
        (model([LEAF]) | {"name": ""}, "no name"),
        (model([LEAF]) | {"models": []}, "unknown field 'models'"),
        (model([LEAF], []), "no features declared"),
        (model([LEAF], ["a", "a"]), "duplicated feature a"),
        (model([LEAF], ["a", "d"]), "Feature: d not found in store"),
        (model([LEAF]) | {"features": [{"name": "a", "norm": {"class": "MinMax"}}]}, "normalizers"),
        (model([LEAF]) | {"params": {}}, "no trees declared"),
        (model([LEAF], bias="1"), "No setter corresponding to 'bias' in params"),
        (model([LEAF], isNullSameAsZero="false"), "'isNullSameAsZero' must be of the kind boolean"),
        (model([{"root": {"value": "1"}}]), "doesn't contain a weight"),
        (model([{"weight": "1"}]), "doesn't contain a tree"),
        (model([{"weight": 1.0, "root": {"value": "1"}}]), "'weight' must be of the kind string"),
        (model([{"weight": "1", "root": {"value": 1.5}}]), "'value' must be of the kind string"),
        (model([{"weight": "1", "root": {"value": "one"}}]), "'one' is no number"),
        (
            model([{"weight": "1", "root": split("a", "0", "1", "2") | {"threshold": 0.5}}]),
            "'threshold' must be",
        ),
        (
            model([{"weight": "1", "root": split("a", "0", "1", "2", gain="1")}]),
            "No setter corresponding to 'gain'",
        ),
        (
            model([{"weight": "1", "root": {"left": {"value": "1"}, "right": {"value": "1"}}}]),
            "is leaf with left",
        ),
        (
            model([{"weight": "1", "root": {"feature": "a", "left": {}, "right": {}}}]),
            "is missing threshold",
        ),
        (
            model([{"weight": "1", "root": {"feature": "a", "threshold": "1", "right": {}}}]),
            "is missing left",
        ),
        (
            model([{"weight": "1", "root": {"feature": "a", "threshold": "1", "left": {}}}]),
            "is missing right",
        ),
    ],
)
def test_models_that_solr_refuses_are_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(json.dumps(body).encode(), NAMES)


def test_before_9_2_there_are_no_missing_values() -> None:
    with pytest.raises(ModelError, match="'missing' in a node"):
        read(
            json.dumps(
                model([{"weight": "1", "root": split("a", "0", "1", "2", missing="left")}])
            ).encode(),
            NAMES,
            version=(9, 1, 1),
        )
    with pytest.raises(ModelError, match="'isNullSameAsZero' in params"):
        read(json.dumps(GUIDE).encode(), GUIDE_NAMES, version=(9, 1))
    assert scores(
        DOCUMENTED, [[np.nan, 0.0]], ["userTextTitleMatch", "originalScore"], version=(8, 11)
    ) == [-120.0]
