"""Python module: the engine's bits from a bare Python."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.export import TARGETS
from tests.export.conftest import Example, example

SPEC = TARGETS.get("python")


def module(example: Example) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(SPEC.write(example.served), namespace)
    return namespace


def test_bits_are_those_of_the_engine(each: Example) -> None:
    score = SPEC.read(SPEC.write(each.served), each.served.feature_names)
    np.testing.assert_array_equal(score(each.rows), each.expected(each.rows))


def test_names_of_any_characters_are_quoted() -> None:
    names = ("a'b", "\U0001f600", '"""', "\\", "{0}", "é")
    body = SPEC.write(
        replace(example("lightgbm-none-whole").served, feature_names=names, name='"""\\')
    )
    assert SPEC.read(body, names)(np.zeros((1, 6))).shape == (1,)


def test_zeros_may_be_missing() -> None:
    zeros = example("lightgbm-none-zeros")
    score = SPEC.read(SPEC.write(zeros.served), zeros.served.feature_names)
    np.testing.assert_array_equal(score(zeros.rows), zeros.expected(zeros.rows))


def test_values_are_given_by_name_and_what_is_not_named_is_missing() -> None:
    namespace = module(example("lightgbm-start-missing"))
    row = [0.5, None, float("nan"), 0, 2, -1.5]
    values_by_name = {
        name: value
        for name, value in zip(namespace["FEATURES"], row, strict=True)
        if value is not None
    }
    assert namespace["score"](row) == namespace["score_named"](values_by_name)
    with pytest.raises(KeyError, match="no feature 'bm26'"):
        namespace["score_named"]({"bm26": 1.0})
    with pytest.raises(ValueError, match="expected 6 features, not 5"):
        namespace["score"](row[:5])


def test_nothing_but_python_is_needed(tmp_path: Path) -> None:
    model_example = example("xgboost-none-categories")
    (tmp_path / "ranker.py").write_bytes(SPEC.write(model_example.served))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ranker;"
        " print(repr(ranker.score(%s)))"
    )
    row = np.nan_to_num(model_example.rows[0])
    command = [sys.executable, "-I", "-S", "-c", code % json.dumps(row.tolist())]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(printed) == model_example.expected(row[None])[0]
