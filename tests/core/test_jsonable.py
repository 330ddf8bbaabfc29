"""JSON data."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from boostrank.core.jsonable import MAX_NESTING, fits, from_json, is_number, is_whole, jsonable
from boostrank.schedules import parse_schedule


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"a": (1, np.int64(2), [np.float32(0.5)])}, {"a": [1, 2, [0.5]]}),
        (np.array([[1.0, np.nan], [np.inf, -2.0]]), [[1.0, None], [None, -2.0]]),
        ({1: True, 2.5: np.bool_(False), None: None}, {"1": True, "2.5": False, "None": None}),
        (math.nan, None),
        (np.float64(-math.inf), None),
        ("text", "text"),
    ],
)
def test_plain_data_is_what_json_holds(value: object, plain: object) -> None:
    made = jsonable(value)
    assert made == plain
    assert json.loads(json.dumps(made, allow_nan=False)) == plain


def test_numbers_of_numpy_become_those_of_python() -> None:
    assert [type(one) for one in jsonable([np.int32(1), np.float64(1.0), np.bool_(True)])] == [int, float, bool]


def test_digits_are_significant_digits_of_floats_alone() -> None:
    assert jsonable([123456, 1234.5678, np.float64(1e-9 / 3), math.nan], digits=3) == [123456, 1230.0, 3.33e-10, None]


def test_what_json_has_no_form_for_is_its_text_or_what_is_asked_for() -> None:
    schedule = parse_schedule("linear(1.0, 2.0)")
    assert jsonable({"t": schedule}) == {"t": str(schedule)}
    assert jsonable([schedule, 1.5], other=lambda value: type(value).__name__) == [type(schedule).__name__, 1.5]


@pytest.mark.parametrize(("before", "behind"), [("[", "]"), ('{"a": ', "}"), ('[1, "x", ', ", null]")])
def test_fault_086_text_may_be_nested_but_not_bottomless(before: str, behind: str) -> None:
    def nested(depth: int) -> str:
        return before * depth + "0.5" + behind * depth

    for text in (nested(1), nested(MAX_NESTING), nested(MAX_NESTING).encode()):
        assert jsonable(from_json(text)) == json.loads(text)
    for text in (nested(MAX_NESTING + 1), nested(900), nested(100_000), before * 100_000):
        with pytest.raises(ValueError, match="nested deeper than 100"):
            from_json(text)


def test_a_key_twice_is_refused_where_it_is_asked_for() -> None:
    assert from_json('{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(ValueError, match="same key twice"):
        from_json('[{"b": {"a": 1, "a": 2}}]', once=True)


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [(1, True, True), (1.5, True, False), (True, False, False), ("1", False, False), (None, False, False)],
)
def test_true_and_false_are_no_numbers(value: object, number: bool, whole: bool) -> None:
    assert (is_number(value), is_whole(value)) == (number, whole)


@pytest.mark.parametrize(
    ("value", "form", "fit"),
    [
        (1, int, True),
        (True, int, False),
        (None, (int, type(None)), True),
        ([1, 2], [int], True),
        ([1, "2"], [int], False),
        ("12", [str], False),
        ({"a": 1, "b": 2}, {"a": int}, True),
        ({"b": 2}, {"a": int}, False),
        ([], {"a": int}, False),
        ({"a": "x", "b": "y"}, {str: str}, True),
        ({"a": "x", "b": 1}, {str: str}, False),
        ({"a": [{"b": [1]}]}, {"a": [{"b": [int]}]}, True),
    ],
)
def test_plain_data_have_a_form_or_not(value: Any, form: Any, fit: bool) -> None:
    assert fits(value, form) is fit
