"""Numbers are read as Java reads them, and files that no engine takes are refused."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers.trees import (
    Leaf,
    Number,
    Split,
    float32,
    float32_columns,
    json_of,
    outputs,
    shallow,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5),
        (" -100 ", -100.0),
        ("1f", 1.0),
        ("2.5e3D", 2500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("Infinity", np.inf),
        ("-Infinity", -np.inf),
        ("1e39", np.inf),
        ("1e-50", 0.0),
        # Between two float32 the text decides, not the float64 that is nearest to it.
        ("1.0000000596046448", 1.0000001),
        ("1.000000059604644775390625", 1.0),
        ("1.00000005960464477", 1.0),
        ("-1.0000000596046448", -1.0000001),
        ("1.0000001788139342", 1.0000001),
        ("7.006492321624086e-46", 1e-45),
    ],
)
def test_a_text_is_rounded_to_float32_at_once(text: str, number: float) -> None:
    assert float32(text) == np.float32(number)
    assert isinstance(float32(text), np.float32)


@pytest.mark.parametrize("text", ["", "x", "1_0", "0x1p3q", "1 2", "inf", "nan", "1,5"])
def test_text_that_java_does_not_parse_is_no_number(text: str) -> None:
    with pytest.raises(ModelError, match="is no number"):
        float32(text)


def test_json_keeps_the_text_of_numbers_and_refuses_what_java_refuses() -> None:
    content = json_of(b'{"x": [1.10, 2, true, "3"]}', "Java")
    assert content == {"x": ["1.10", "2", True, "3"]}
    assert [type(value) for value in content["x"]] == [Number, Number, bool, str]
    for body, message in [
        (b'{"a": 1, "b": 2, "a": 1}', "'a' stands twice"),
        (b"[NaN]", "NaN is no JSON number"),
        (b"[1", "no JSON"),
        (b"\xff\xfe[", "no JSON"),
    ]:
        with pytest.raises(ModelError, match=message):
            json_of(body, "Java")
    with pytest.raises(ModelError, match="nested too deeply"), shallow("Java"):
        json_of(b"[" * 100_000 + b"]" * 100_000, "Java")


def test_documents_come_to_the_leaves_that_the_test_sends_them_to() -> None:
    tree = Split(1, 2.0, Leaf(1.0), Split(0, 0.0, Leaf(2.0), Leaf(3.0)))
    columns = np.array([[0.0, -1.0, 1.0, 9.0], [1.0, 2.0, 3.0, 2.5]])
    assert outputs(tree, columns, lambda values, split: values < split.threshold).tolist() == [
        1.0,
        2.0,
        3.0,
        3.0,
    ]
    assert outputs(tree, columns[:, :0], lambda values, split: values < split.threshold).shape == (
        0,
    )


def test_features_are_rounded_to_float32_and_nan_gives_way() -> None:
    columns = float32_columns(np.array([[0.1, np.nan], [1e300, -0.0]]))
    assert columns.dtype == np.float32
    np.testing.assert_array_equal(
        columns, np.array([[0.1, np.inf], [np.nan, 0.0]], dtype=np.float32)
    )
    assert float32_columns(np.array([[0.1, np.nan]]), absent=0.0)[1, 0] == 0.0
