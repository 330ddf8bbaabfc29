"""Treelite checkpoint: the engine's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostrank.export.target import ExportError
from boostrank.export.targets.treelite import SPEC
from tests.export.conftest import Example, example

pytest.importorskip("treelite", reason="the extra treelite is not installed")


def test_bits_are_those_of_the_engine(each: Example) -> None:
    columns = np.unique(each.served.trees.forest.feature[each.served.trees.forest.categorical])
    # LightGBM cuts what is above -1 and below 0 to category 0, treelite does not.
    rows = each.rows[~np.any((each.rows[:, columns] < 0) & (each.rows[:, columns] > -1), axis=1)]
    score = SPEC.read(SPEC.write(each.served), each.served.feature_names)
    np.testing.assert_array_equal(score(rows), each.expected(rows))


def test_zeros_that_are_missing_are_refused() -> None:
    with pytest.raises(ExportError, match="zero_as_missing"):
        SPEC.write(example("lightgbm-none-zeros").served)


def test_what_treelite_cannot_read_is_refused_with_what_helps(capfd: pytest.CaptureFixture[str]) -> None:
    one = example("xgboost-none-whole")
    odd = one.served.body.replace(b'"rank:ndcg"', b'"rank:other"')
    with pytest.raises(ExportError, match=r"treelite cannot hold this model.*export to c or onnx"):
        SPEC.write(replace(one.served, body=odd))
