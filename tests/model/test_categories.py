"""The names of categories in XGBoost's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from boostrank.core.errors import ModelError
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.model_json import names_in, readable, with_names
from tests.model.real_models import xgboost_models

BODY = xgboost_models()["rank:ndcg"]


def cats(body: bytes) -> dict[str, Any]:
    categories = json.loads(body)["learner"]["gradient_booster"]["model"]["cats"]
    assert isinstance(categories, dict)
    return categories


def test_names_of_categories_stand_in_a_file_as_xgboost_has_them() -> None:
    body = with_names(BODY, {1: ("b", "aa", ""), 5: (3, -4, 7)})
    assert body != BODY
    nothing = {"offsets": [], "values": []}
    assert cats(body)["enc"] == [
        nothing,
        {"offsets": [0, 1, 3, 3], "values": list(b"baa")},
        nothing,
        nothing,
        nothing,
        {"type": 15, "values": [3, -4, 7]},
    ]
    assert cats(body)["feature_segments"] == [0, 0, 3, 3, 3, 3, 6]
    assert cats(body)["sorted_idx"] == [2, 1, 0, 1, 0, 2]
    XGBOOST.parse(body)
    assert names_in(json.loads(body)) == {1: ("b", "aa", ""), 5: (3, -4, 7)}
    none = with_names(body, {})
    assert none != body
    assert cats(none) == {"enc": [], "feature_segments": [], "sorted_idx": []}
    assert names_in(json.loads(none)) == {}


@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (("a", "b"), True),
        ((1, 2), True),
        ((2**63 - 1, -(2**63) + 1), True),
        ((2**63,), False),
        ((-(2**63),), False),
        ((True, False), False),
        (("a", 1), False),
        ((1.5,), False),
        (("ä",), False),
        (None, False),
    ],
)
def test_names_that_xgboost_would_order_otherwise_or_not_hold_stay_out(
    names: Any, fits: bool
) -> None:
    body = with_names(BODY, {0: names, 3: ("x",)})
    assert (body != BODY) == fits
    if fits:
        assert names_in(json.loads(body)) == {0: names, 3: ("x",)}


def test_a_file_without_escapes_or_names_is_readable_as_it_is() -> None:
    body = json.dumps(json.loads(BODY), indent=2).encode()
    assert readable(body) is body
    escaped = body.replace(b'"rank:ndcg"', b'"r\\u0061nk:ndcg"')
    assert json.loads(readable(escaped)) == json.loads(body)
    assert b"\\u" not in readable(escaped)


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    "column",
    [
        {"offsets": [0, 1], "values": [-31]},
        {"offsets": [0, 1], "values": [256]},
        {"offsets": [0, 1], "values": [True]},
        {"offsets": [0, 2], "values": [97]},
        {"offsets": [0, -1], "values": []},
        {"offsets": [1, 1], "values": [97]},
        {"offsets": [0, 2, 1], "values": [97]},
        {"offsets": [0], "values": [97]},
        {"offsets": [], "values": [97]},
        {"type": 6, "values": []},
        {"type": 13, "values": [1]},
        {"type": "15", "values": [1]},
        {"type": 15, "values": None},
        {"type": 15, "values": ["x"]},
        {"type": 15, "values": [1.0]},
        {"type": 15, "values": [2**63]},
        {"type": 15, "values": [1, 1, 2], "offsets": [0, 1]},
        {"values": [1]},
        [],
    ],
)
def test_a_column_of_categories_that_xgboost_would_not_write_is_refused(column: Any) -> None:
    document = json.loads(with_names(BODY, {2: ("a",)}))
    XGBOOST.parse(json.dumps(document).encode())
    document["learner"]["gradient_booster"]["model"]["cats"]["enc"][2] = column
    with pytest.raises(ModelError, match="cats"):
        XGBOOST.parse(json.dumps(document).encode())
