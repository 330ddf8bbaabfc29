"""SQL query: the leaves that the engine reaches, added up in float64."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.trees import ServedTrees
from boostrank.export.targets.sql import SPEC
from boostrank.kernels.forest import NAN_LEFT, Forest
from tests.export.conftest import Example, example, served_model


def assert_same_leaves(model_example: Example) -> None:
    trees = model_example.served.trees
    expected = scores(
        trees,
        model_example.rows,
        replace(Rules.of_engine(trees), sums=np.float64, gives=np.float64),
    )
    of_query = SPEC.read(SPEC.write(model_example.served), model_example.served.feature_names)(
        model_example.rows
    )
    np.testing.assert_allclose(of_query, expected, rtol=0, atol=1e-14)


def test_every_row_reaches_the_leaves_that_it_reaches_in_the_engine(each: Example) -> None:
    assert_same_leaves(each)


def test_zeros_may_be_missing() -> None:
    assert_same_leaves(example("lightgbm-none-zeros"))


def chain(length: int, right: bool) -> Forest:
    """A tree that is as deep as it has nodes."""
    inner, leaves = np.arange(1, length), ~np.arange(length)
    on, off = np.append(inner, ~length).astype(np.int32), leaves.astype(np.int32)
    thresholds = np.linspace(0.0, 1.0, length)
    left_child, right_child = off, on
    if not right:
        left_child, right_child, thresholds = on, off, thresholds[::-1].copy()
    return Forest(
        feature=np.zeros(length, np.int32),
        threshold=thresholds,
        kind=np.where(np.arange(length) % 2, NAN_LEFT, 0).astype(np.uint8),
        left=left_child,
        right=right_child,
        value=np.arange(length + 1.0),
        roots=np.zeros(1, np.int32),
        tree=np.zeros(length, np.int32),
        sets=np.zeros(0, np.uint32),
        set_ptr=np.zeros(1, np.int64),
    )


@pytest.mark.parametrize("right", [True, False])
def test_deep_trees_are_not_nested_deep(right: bool) -> None:
    forest = chain(150, right)
    trees = ServedTrees(forest, np.ones(151))
    rows = np.append(np.linspace(-0.1, 1.1, 500), np.nan)[:, None]
    of_query = SPEC.read(SPEC.write(served_model("deep", "lightgbm", b"", trees, ("x",))), ("x",))(
        rows
    )
    np.testing.assert_array_equal(of_query, scores(trees, rows, Rules()))


def test_more_trees_than_data_bases_add_up_are_refused() -> None:
    forest = chain(1, True)
    trees = ServedTrees(forest, np.ones(2))
    (objection,) = SPEC.objections(trees=901)
    assert "--max-trees 900" in objection.fix
    assert not [*SPEC.objections(trees=900)]
    copies = np.arange(900, dtype=np.int32)
    columns = {name: np.tile(getattr(forest, name), 900) for name in ("threshold", "kind", "value")}
    many = replace(
        forest,
        **columns,
        feature=np.zeros_like(copies),
        left=forest.left - 2 * copies,
        right=forest.right - 2 * copies,
        roots=copies,
        tree=copies,
    )
    most = replace(trees, forest=many)
    score = SPEC.read(SPEC.write(served_model("most", "lightgbm", b"", most, ("x",))), ("x",))
    assert score(np.array([[1.0]])) == [900.0]


def test_names_may_be_anything_that_sql_tells_apart() -> None:
    model_example = example("lightgbm-none-whole")
    names = ('say "so"', "select", "größe", "a;--", "d", "documents")
    score = SPEC.read(SPEC.write(replace(model_example.served, feature_names=names)), names)
    np.testing.assert_allclose(
        score(model_example.rows), model_example.expected(model_example.rows), rtol=0, atol=1e-14
    )
    for name, other in (("BM25", "bm25"), ("Score", "the score")):
        (objection,) = SPEC.objections(names=("bm25", name, "a", "b", "c", "d"))
        assert f"'{other}' and '{name}'" in objection.words


def test_a_column_that_the_table_has_not_is_an_error() -> None:
    body = SPEC.write(example("lightgbm-none-whole").served)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        SPEC.read(
            body.replace(b'"clicks"', b'"kicks"'),
            example("lightgbm-none-whole").served.feature_names,
        )(np.zeros((1, 6)))


def test_columns_of_other_features_are_not_needed() -> None:
    model_example = example("lightgbm-none-whole")
    names = (*model_example.served.feature_names, *(f'f"{i}' for i in range(3000)))
    body = SPEC.write(replace(model_example.served, feature_names=names))
    rows = np.hstack([model_example.rows, np.zeros((len(model_example.rows), 3000))])
    np.testing.assert_allclose(
        SPEC.read(body, names)(rows[:50]),
        model_example.expected(model_example.rows[:50]),
        rtol=0,
        atol=1e-9,
    )
