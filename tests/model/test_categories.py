"""What files of models say of categories: their names in XGBoost's JSON, their codes in LightGBM's
text.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec import ValidationError, convert

from boostrank.core.errors import ModelError
from boostrank.engines.xgboost.format import XGBOOST
from boostrank.engines.xgboost.model_json import names_in, readable, with_names
from boostrank.engines.xgboost.schema import CategoryNames, count_categories
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
    assert names_in(body) == {1: ("b", "aa", ""), 5: (3, -4, 7)}
    none = with_names(body, {})
    assert none != body
    assert cats(none) == {"enc": [], "feature_segments": [], "sorted_idx": []}
    assert names_in(none) == {}


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
        assert names_in(body) == {0: names, 3: ("x",)}


def write_names(version: list[int], values: list[int], offsets: list[int]) -> bytes:
    document = json.loads(with_names(BODY, {2: ("a", "b")}))
    document["version"] = version
    document["learner"]["gradient_booster"]["model"]["cats"]["enc"][2] = {
        "offsets": offsets,
        "values": values,
    }
    return json.dumps(document).encode()


ODD = [*"zß".encode(), *b"a"]


@pytest.mark.fault(119)
@pytest.mark.parametrize(
    ("version", "garbled"),
    [
        ([3, 1, 2], True),
        ([3, 3, 9], True),
        ([3, 4, 0], False),
        ([3, 4, 1], False),
        ([4, 0, 0], False),
    ],
)
def test_names_beyond_ascii_are_believed_since_the_version_that_counts_their_bytes(
    version: list[int], garbled: bool
) -> None:
    assert (names_in(write_names(version, [128], [0, 1])) == {}) == garbled
    for values in (ODD, [value - 256 * (value > 127) for value in ODD]):
        body = write_names(version, values, [0, 3, 4])
        assert names_in(body) == ({} if garbled else {2: ("zß", "a")})
        assert cats(readable(body))["enc"] == ([] if garbled else cats(body)["enc"])
    plain = write_names(version, [127, 0, 98], [0, 2, 3])
    assert names_in(plain) == {2: ("\x7f\0", "b")}
    assert cats(readable(plain)) == cats(plain)


def test_a_file_without_escapes_or_names_is_readable_as_it_is() -> None:
    body = json.dumps(json.loads(BODY), indent=2).encode()
    assert readable(body) is body
    escaped = body.replace(b'"rank:ndcg"', b'"r\\u0061nk:ndcg"')
    assert json.loads(readable(escaped)) == json.loads(body)
    assert b"\\u" not in readable(escaped)


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"offsets": [0, 1], "values": [-129]}, "-128 to 255"),
        ({"offsets": [0, 1], "values": [256]}, "-128 to 255"),
        ({"offsets": [0, -1], "values": []}, "offsets"),
        ({"offsets": [1, 1], "values": [97]}, "offsets"),
        ({"offsets": [0], "values": [97]}, "offsets"),
        ({"type": 6, "values": []}, "type"),
        ({"type": 17, "values": []}, "type"),
        ({"type": "7", "values": []}, "type"),
        ({"type": 7, "values": None}, "values"),
        ({"type": 7, "values": ["x"]}, "values"),
        ([], "object"),
    ],
)
def test_a_column_of_categories_is_refused_where_it_is_wrong(column: Any, words: str) -> None:
    with pytest.raises((ModelError, ValidationError), match=words):
        _count_categories(column)


def _count_categories(column: Any) -> int:
    return count_categories(convert(column, CategoryNames), "it")


def test_a_column_of_categories_counts_them() -> None:
    assert _count_categories({"offsets": [], "values": [97]}) == 0
    assert _count_categories({"offsets": [0], "values": []}) == 0
    assert _count_categories({"offsets": [0, 1, 3], "values": [-128, 255, 0]}) == 2
    for kind in (7, 8):
        assert _count_categories({"type": kind, "values": [0.5, float("inf"), 1]}) == 3


@pytest.mark.fault(86)
def test_whole_numbers_of_categories_are_of_the_type_that_the_file_names() -> None:
    types = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64]
    for kind, type_ in enumerate(types, 9):
        low, high = int(np.iinfo(type_).min), int(np.iinfo(type_).max)
        assert _count_categories({"type": kind, "values": [low, high]}) == 2
        for value in (low - 1, high + 1):
            with pytest.raises(ModelError, match=f"it: .* {low} to {high}"):
                _count_categories({"type": kind, "values": [value]})
    with pytest.raises(ModelError, match=f"it: .* 0 to {2**63 - 1}"):
        _count_categories({"type": 16, "values": [-1]})
