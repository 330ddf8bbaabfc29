"""A forest of two trees by hand, one of them split by categories: every way through it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, Forest, Walker

LISTED = (0, 1, 20, 33)


def forest(*, listed_right: bool = False, nan_left: bool = False) -> Forest:
    """x0 in LISTED: 1, else 2; and x1 <= 0.5: 10, else 20."""
    kind = CATEGORICAL | LISTED_RIGHT * listed_right | NAN_LEFT * nan_left
    words = np.zeros(3, np.uint32)
    words[0] = 7 | 1 << 31  # another set, before
    for category in LISTED:
        words[1 + category // 32] |= np.uint32(1 << category % 32)
    leaves = [2.0, 1.0, 10.0, 20.0] if listed_right else [1.0, 2.0, 10.0, 20.0]
    return Forest(
        feature=np.array([0, 1], np.int32),
        threshold=np.array([1.0, 0.5]),
        kind=np.array([kind, 0], np.uint8),
        left=np.array([~0, ~2], np.int32),
        right=np.array([~1, ~3], np.int32),
        value=np.array(leaves),
        roots=np.array([0, 1], np.int32),
        tree=np.array([0, 1], np.int32),
        sets=words,
        set_ptr=np.array([0, 1, 3]),
    )


def scores(trees: Forest, *values: float) -> list[float]:
    rows = np.array([[value, 0.0] for value in values], np.float32)
    return (Walker(trees, np.arange(2)).scores(rows) - 10.0).tolist()


def test_listed_categories_go_their_way_and_all_others_the_other_one() -> None:
    for trees in (forest(), forest(listed_right=True)):
        assert scores(trees, *LISTED) == [1.0] * 4
        assert scores(trees, 2, 16, 17, 19, 21, 32, 34, 52, 63, 64, 65, 97, 1e30) == [2.0] * 13


def test_fractions_are_cut_off_and_negative_numbers_are_no_category() -> None:
    for trees in (forest(), forest(listed_right=True)):
        assert scores(trees, 0.9, 1.5, 20.99, 33.5) == [1.0] * 4
        assert scores(trees, 2.1, 34.5, -1.0, -1.5, -33.0) == [2.0] * 5
    # What XGBoost checks before it cuts, LightGBM cuts before it checks.
    assert scores(forest(), -0.5) == [1.0]
    assert scores(forest(listed_right=True), -0.5) == [2.0]


def test_missing_values_go_where_they_are_told_to() -> None:
    assert scores(forest(), np.nan) == [2.0]
    assert scores(forest(nan_left=True), np.nan) == [1.0]
    assert scores(forest(listed_right=True, nan_left=True), np.nan) == [2.0]
    assert scores(forest(listed_right=True), np.nan) == [1.0]


def test_changes_are_the_scores_of_changed_rows() -> None:
    walker = Walker(forest(), np.arange(2))
    rows = np.array([[33.0, 0.5], [2.0, 0.75]], np.float32)
    other = np.array([[2.0, 0.75], [1.0, 0.5]], np.float32)
    assert walker.scores(rows).tolist() == [11.0, 22.0]
    assert walker.changes(rows, other, np.array([0, 1]), 2).tolist() == [[12.0, 21.0], [21.0, 12.0]]
    assert walker.changes(rows, other, np.array([0, 0]), 1).tolist() == [[22.0, 11.0]]


def test_sets_can_be_read_back() -> None:
    assert forest().categories(1).tolist() == list(LISTED)
    assert forest().categories(0).tolist() == [0, 1, 2, 31]
    assert forest().categorical.tolist() == [True, False]


@pytest.mark.parametrize(
    ("value", "exponent"),
    [
        ([1.0, -2.0, 0.5, 1.0], 58),  # 2 and 1 are 3: 2 bits of 60
        ([1.0, -3.0, 0.5, -1.0], 57),  # 4 needs 3
        ([1.0, -3.0, 0.5, 0.999], 58),
        ([2.0**-40, 0.0, 0.0, 0.0], 99),
        ([0.0, 0.0, 0.0, 0.0], 1000),
        ([1e-300, 0.0, 0.0, 0.0], 1000),
    ],
)
def test_the_largest_sum_of_leaves_takes_60_bits(value: list[float], exponent: int) -> None:
    trees = replace(forest(), value=np.array(value))
    assert trees.exponent() == exponent


def test_what_a_start_can_say_is_part_of_the_largest_sum() -> None:
    for level, missing, exponent in ((0.5, -1.0, 58), (2.0, 0.5, 57), (0.5, -2.0, 57)):
        start = Curves.from_pairs([(1, Curve(np.zeros(0), np.array([level]), missing))])
        assert replace(forest(), value=np.ones(4), start=start).exponent() == exponent


def test_each_leaf_knows_its_tree_and_a_tree_may_be_one_leaf() -> None:
    assert forest().leaf_trees().tolist() == [0, 0, 1, 1]
    alone = replace(
        forest(), roots=np.array([~4, 0, ~5, 1], np.int32), tree=np.array([1, 3], np.int32)
    )
    alone = replace(alone, value=np.arange(7.0))  # no node leads to the last one
    assert alone.leaf_trees().tolist() == [1, 1, 3, 3, 0, 2, 0]
    nothing = replace(
        forest(),
        **{
            name: np.zeros(0, np.int32)
            for name in ("feature", "left", "right", "roots", "tree", "value")
        },
    )
    assert nothing.leaf_trees().tolist() == []
    assert nothing.exponent() == 1000
    assert (
        replace(nothing, value=np.array([4.0, -4.0])).exponent() == 57
    )  # leaves that no node leads to
