"""LightGBM's text: the same trees under other names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from boostrank.export.targets.lightgbm import SPEC
from tests.export.conftest import KINDS, example

OURS = [kind for kind in KINDS if kind.startswith("lightgbm")]


@pytest.mark.parametrize("kind", [*OURS, "lightgbm-none-zeros"])
def test_bits_are_those_of_the_model(kind: str) -> None:
    model_example = example(kind)
    score = SPEC.read(SPEC.write(model_example.served), model_example.served.feature_names)
    np.testing.assert_array_equal(
        score(model_example.rows), model_example.expected(model_example.rows)
    )


def test_lightgbm_alone_opens_it_under_the_names_of_the_program(tmp_path: Path) -> None:
    model_example = example("lightgbm-start-missing")
    (tmp_path / "m.txt").write_bytes(
        SPEC.write(replace(model_example.served, feature_names=("a b", "c", "d", "e", "f", "g")))
    )
    alone = lgb.Booster(model_file=tmp_path / "m.txt")
    assert alone.feature_name() == ["a_b", "c", "d", "e", "f", "g"]
    assert "\nobjective=lambdarank\n" in (tmp_path / "m.txt").read_text()
    counted = re.findall(
        r"\n(\w+)=\d+(?=\n)",
        (tmp_path / "m.txt").read_text().partition("\nfeature_importances:")[2],
    )
    assert set(counted) <= {"a_b", "c", "d", "e", "f", "g"} != set()
    np.testing.assert_array_equal(
        alone.predict(model_example.rows), model_example.expected(model_example.rows)
    )


def test_objectives_that_change_scores_are_not_named() -> None:
    model_example = example("lightgbm-none-whole")
    odd = model_example.served.body.replace(
        b"\nobjective=lambdarank\n", b"\nobjective=binary sigmoid:1\n"
    )
    assert odd != model_example.served.body
    assert b"\nobjective=lambdarank\n" in SPEC.write(replace(model_example.served, body=odd))


def test_models_of_xgboost_are_refused() -> None:
    (objection,) = SPEC.objections(engine="xgboost")
    assert objection.final
    assert "--backend lightgbm" in objection.fix
    assert not [*SPEC.objections(engine="lightgbm")]
