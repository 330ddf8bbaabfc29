"""Records of the files that we write, and plain JSON data."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec
import numpy as np
import pytest

from boostrank.core.errors import FileFormatError
from boostrank.records import (
    MAX_NESTING,
    CheckpointHeader,
    NoiseRecord,
    from_json,
    jsonable,
    load_record,
)
from boostrank.schedules import parse_schedule

HEADER = {
    "training": {"rounds": 3},
    "begin": 0,
    "rounds": 2,
    "metrics": [["valid", "ndcg", True]],
    "model_bytes": 10,
    "scores": [5],
    "scores_sha256": "ab",
}


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
    plain_data = jsonable(value)
    assert plain_data == plain
    assert json.loads(json.dumps(plain_data, allow_nan=False)) == plain


def test_numbers_of_numpy_become_those_of_python() -> None:
    assert [
        type(number) for number in jsonable([np.int32(1), np.float64(1.0), np.bool_(True)])
    ] == [int, float, bool]


def test_digits_are_significant_digits_of_floats_alone() -> None:
    assert jsonable([123456, 1234.5678, np.float64(1e-9 / 3), math.nan], digits=3) == [
        123456,
        1230.0,
        3.33e-10,
        None,
    ]


def test_what_json_has_no_form_for_is_its_text_or_what_is_asked_for() -> None:
    schedule = parse_schedule("linear(1.0, 2.0)")
    assert jsonable({"t": schedule}) == {"t": str(schedule)}
    assert jsonable([schedule, 1.5], other=lambda value: type(value).__name__) == [
        type(schedule).__name__,
        1.5,
    ]


@pytest.mark.parametrize(
    ("before", "behind"), [("[", "]"), ('{"a": ', "}"), ('[1, "x", ', ", null]")]
)
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
    with pytest.raises(ValueError, match="'digits'"):
        from_json('{"digits": 1, "digits": 2}', once=True)


@pytest.mark.parametrize(
    ("kind", "content", "field"),
    [
        (CheckpointHeader, {**HEADER, "rounds": -1}, "$.rounds"),
        (CheckpointHeader, {**HEADER, "scores": [1.5]}, "$.scores[0]"),
        (CheckpointHeader, {**HEADER, "metrics": [["valid", "ndcg"]]}, "$.metrics[0]"),
        (CheckpointHeader, {**HEADER, "later": 1}, "later"),
        (NoiseRecord, {"metrics": {}}, "$.metrics"),
        (NoiseRecord, {"metrics": {"ndcg": {"matters": -1}}}, "matters"),
    ],
)
def test_a_wrong_field_is_one_error_with_file_and_field(
    kind: type, content: Any, field: str
) -> None:
    with pytest.raises(FileFormatError, match=re.escape(field)) as raised:
        load_record(kind, json.dumps(content), "some.json")
    assert raised.value.file == "some.json"


def test_a_record_is_read_as_it_was_written() -> None:
    header = load_record(CheckpointHeader, json.dumps(HEADER), "some.json")
    assert msgspec.to_builtins(header) == HEADER | {"metrics": [("valid", "ndcg", True)]}
    assert list(msgspec.to_builtins(header)) == list(HEADER)
