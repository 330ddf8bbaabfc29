"""Parity pack: rows that reach every split and go both ways at its border, and rows of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.trees import ServedTrees
from boostrank.export.proof import parity_pack
from boostrank.kernels.forest import Forest
from tests.export.conftest import Example, example


def leaves(forest: Forest, rows: np.ndarray, rules: Rules) -> np.ndarray:
    """The leaf that each row reaches in each tree, int64[n, T]."""
    numbered = ServedTrees(
        replace(forest, value=np.arange(forest.value.size, dtype=float)),
        forest.value,
    )
    each = (
        replace(numbered, forest=replace(numbered.forest, roots=root[None]))
        for root in forest.roots
    )
    return np.stack([scores(tree, rows, rules).astype(np.int64) for tree in each], axis=1)


def of_kind(pack, kind: str) -> np.ndarray:
    return pack.rows[pack.kind == kind]


def passed(forest: Forest, rows: np.ndarray) -> np.ndarray:
    """bool[M, 2]: whether some row goes left at each node, and right: by the leaves that rows
    reach.
    """
    reached = np.zeros(forest.value.size, bool)
    reached[leaves(forest, rows, Rules())] = True
    ways = np.zeros((forest.feature.size, 2), bool)
    for node in range(forest.feature.size):
        for side, child in enumerate((forest.left[node], forest.right[node])):
            below, passes = [int(child)], False
            while below and not passes:
                at = below.pop()
                passes = bool(at < 0 and reached[~at])
                below += [] if at < 0 else [int(forest.left[at]), int(forest.right[at])]
            ways[node, side] = passes
    return ways


def test_every_split_is_passed_on_both_sides(each: Example) -> None:
    forest = each.served.trees.forest
    pack = parity_pack(forest, 6, 100_000)
    assert pack.nodes == forest.feature.size
    assert passed(forest, pack.rows).all()


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_rows_stand_at_thresholds_and_on_the_next_number(engine: str) -> None:
    forest = example(f"{engine}-none-whole").served.trees.forest
    rows = of_kind(parity_pack(forest, 6, 100_000), "thresholds")
    for feature, threshold in zip(forest.feature, forest.threshold, strict=True):
        column = np.unique(rows[:, feature])
        below, above = column[column <= threshold], column[column > threshold]
        assert above[0] == np.nextafter(below[-1], np.float32(np.inf))


def test_a_program_that_compares_otherwise_is_found_at_thresholds(each: Example) -> None:
    trees: ServedTrees = each.served.trees
    rows = of_kind(parity_pack(trees.forest, 6, 100_000), "thresholds")
    expected = leaves(trees.forest, rows, Rules())
    assert (leaves(trees.forest, rows, Rules(np.float32, strict=True)) != expected).any()


def test_each_kind_of_row_has_the_values_it_is_named_after() -> None:
    forest = example("lightgbm-start-categories").served.trees.forest
    pack = parity_pack(forest, 6, 100_000)
    assert np.isnan(of_kind(pack, "missing")).any(axis=1).mean() > 0.8
    assert np.isinf(of_kind(pack, "infinite")).any()
    assert not np.isnan(of_kind(pack, "random")).any()
    assert (of_kind(pack, "zeros")[:, :4] == 0).mean() > 0.1
    assert (of_kind(pack, "categories")[:, 4] == 1e6).any()
    assert not np.isinf(pack.rows[pack.kind != "infinite"]).any()


def test_a_model_without_categories_has_no_rows_for_them() -> None:
    pack = parity_pack(example("xgboost-start-whole").served.trees.forest, 6, 100_000)
    assert not of_kind(pack, "categories").size


def test_a_limit_of_rows_is_kept_and_told() -> None:
    forest = example("lightgbm-start-missing").served.trees.forest
    pack = parity_pack(forest, 6, 160)
    assert len(pack.rows) <= 160
    assert 0 < pack.nodes < forest.feature.size


def test_fault_086_far_fewer_splits_are_reached_where_each_must_look_through_millions_of_categories() -> (
    None
):
    forest = example("lightgbm-start-categories").served.trees.forest
    wide = replace(
        forest,
        sets=np.append(forest.sets, np.zeros(2**23, np.uint32)),
        set_ptr=forest.set_ptr.copy(),
    )
    wide.set_ptr[-1] += 2**23
    pack = parity_pack(wide, 6, 100_000)
    assert 0 < pack.nodes < 100 < forest.feature.size
    assert (
        pack.nodes * 3
        == of_kind(pack, "thresholds").shape[0] + of_kind(pack, "missing").shape[0] - 1000
    )


def test_rows_keep_away_from_borders_by_the_resolution() -> None:
    forest = example("lightgbm-none-whole").served.trees.forest
    for resolution, near in ((0.0, True), (np.full(forest.feature.size, 1e-8), False)):
        rows = of_kind(parity_pack(forest, 6, 100_000, resolution), "thresholds")
        distance = [
            np.abs(rows[:, 2].astype(np.float64) - cut).min()
            for cut in forest.threshold[forest.feature == 2]
        ]
        assert (min(distance) < 0.9e-8) == near


def test_the_same_model_gives_the_same_pack() -> None:
    forest = example("xgboost-none-missing").served.trees.forest
    first, second = parity_pack(forest, 6, 100_000), parity_pack(forest, 6, 100_000)
    assert first.rows.tobytes() == second.rows.tobytes()
