"""Linear models: what their file holds, and what is refused; leaves and categories in the edges of
their ranges.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from boostrank.engines.lightgbm.model_text import _parse_whole
from boostrank.engines.linear.format import LINEAR
from boostrank.engines.trees import Leaves, sum_of_starts
from boostrank.engines.xgboost.schema import WHOLE_TYPES, CategoryNames, count_categories
from boostrank.kernels.curves import Curve

CONTENT: dict[str, Any] = {
    "format": "boostrank linear",
    "version": 1,
    "rounds": 7,
    "scaling": "standard",
    "intercept": 0.25,
    "features": ["a", "b", "c"],
    "weights": [0.5, 0.0, -2.0],
    "means": [1.0, 2.0, 3.0],
    "scales": [2.0, 1.0, 0.0],
}


def body(**changed: Any) -> bytes:
    return (json.dumps(CONTENT | changed) + "\n").encode()


def test_a_file_is_read_and_written_to_the_byte() -> None:
    model = LINEAR.parse(body())
    assert (model.feature_names, model.rounds, model.scaling.kind) == (
        ("a", "b", "c"),
        7,
        "standard",
    )
    assert model.weights().tolist() == [0.5, 0.0, -2.0, 0.25]
    assert model.to_bytes() == body()
    assert LINEAR.recognises(body())
    assert not LINEAR.recognises(b"tree")


def test_weights_are_those_after_each_of_the_rounds_that_are_kept() -> None:
    model = replace(LINEAR.parse(body()), path=np.arange(8.0).reshape(2, 4))
    assert model.weights(6).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert model.weights(7).tolist() == model.weights().tolist() == [4.0, 5.0, 6.0, 7.0]
    assert json.loads(model.to_bytes(6))["rounds"] == 6
    for rounds in (5, 8):
        with pytest.raises(ModelError, match=f"{rounds} rounds"):
            model.weights(rounds)


def test_a_number_that_a_file_cannot_hold_is_not_written() -> None:
    model = LINEAR.parse(body())
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            replace(model, path=np.full((1, 4), value)).to_bytes()


def test_functions_of_trees_refuse_a_linear_model_and_a_stamp_changes_nothing() -> None:
    model = LINEAR.parse(body())
    with pytest.raises(ModelError, match=r"linear .*exported"):
        LINEAR.served(model)
    with pytest.raises(ModelError, match=r"linear .*averaged"):
        LINEAR.merge([model, model], [0.5, 0.5])
    assert LINEAR.stamp(body()) == body()


def test_a_feature_counts_by_the_size_of_its_weight_and_the_intercept_not_at_all() -> None:
    trees = LINEAR.trees(LINEAR.parse(body()), 3)
    assert trees.gain.tolist() == [0.5, 0.0, 2.0]
    assert trees.splits.tolist() == [1, 0, 1]
    assert trees.used.tolist() == [0, 2]
    assert (trees.forest, trees.double) == (None, False)


def test_several_starts_become_their_sum() -> None:
    first = Curve(np.zeros(0), np.array([2.0]), 3.0)
    second = Curve(np.zeros(0), np.array([0.0]), 5.0)
    third = Curve(np.zeros(0), np.array([1.0]), 0.0)
    starts = [{0: first}, {0: second, 1: third}]
    curves = sum_of_starts(starts, [0.5, 0.5])
    assert {j: (*c.constant, c.missing) for j, c in curves.items()} == {
        0: (1.0, 4.0),
        1: (0.5, 0.0),
    }
    assert sum_of_starts(starts, [2.0, -1.0])[0].missing == 1.0


@pytest.mark.fault(86)
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 2}, r"newer boostrank: .*version"),
        ({"version": 0}, "version"),
        ({"version": True}, "version"),
        ({"version": "1"}, "version"),
        ({"intercept": True}, "intercept"),
        ({"weights": [1.0, True, 0.5]}, r"weights\[1\]"),
        ({"more": 1}, "more"),
        ({"features": {"a": 1, "b": 2, "c": 3}}, "features"),
        ({"features": ["a", "b", 3]}, r"features\[2\]"),
        ({"features": [], "weights": [], "means": [], "scales": []}, "features"),
        ({"features": ["a", "b", "a"]}, "has a name twice"),
        ({"features": ["a", "b", "\ud800"]}, "surrogates"),
        ({"scaling": "\ud800"}, "surrogates"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 10**9 + 1}, "rounds"),
        ({"rounds": True}, "rounds"),
        ({"rounds": 7.0}, "rounds"),
        ({"version": 10**30}, "version"),
        ({"format": "boostrank linear 2"}, "format"),
        ({"weights": [1.0, 2.0]}, "'weights' has 2 entries, but needs 3"),
        ({"means": [1.0, 2.0, "x"]}, r"means\[2\]"),
        ({"weights": [math.inf, 0.0, 0.0]}, r"weights\[0\]"),
        ({"scales": [math.nan, 0.0, 0.0]}, r"scales\[0\]"),
        ({"intercept": -math.inf}, "intercept"),
        ({"intercept": "0"}, "intercept"),
        ({"scaling": "letor"}, "scaling"),
        ({"scales": [1.0, 1.0, -1e-300]}, r"scales\[2\]"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        LINEAR.parse(body(**changed))


def test_the_ends_of_the_ranges_are_taken() -> None:
    assert LINEAR.parse(body(rounds=1)).rounds == 1
    assert LINEAR.parse(body(rounds=10**9)).rounds == 10**9


@pytest.mark.parametrize("size", [1e-100, 0.125, 1e100])
def test_leaves_are_rounded_to_units_whatever_their_size(size: float) -> None:
    leaves = Leaves(
        np.array([0, 0, 1, 1]), size * np.array([0.1, -0.3, 0.7, 0.2]), np.full(4, 5.0), size * 0.01
    )
    rounded = leaves.in_units()
    assert rounded is not None
    np.testing.assert_allclose(rounded.value, leaves.value, rtol=1e-6)
    # No sum of them is rounded.
    assert math.fsum([*rounded.value, rounded.base]) == sum([*rounded.value, rounded.base])


def test_a_leaf_that_is_rounded_to_zero_has_no_sign() -> None:
    rounded = Leaves(np.array([0, 0, 0]), np.array([1.0, -1.0, -1e-300]), np.ones(3)).in_units()
    assert rounded is not None
    assert rounded.value[2] == 0.0
    assert not np.signbit(rounded.value[2])


def moved(value: list[list[float]], count: list[list[float]], base: float) -> tuple[float, float]:
    """The unit of some trees, and what rounding to it moves scores by, as a share of their
    deviation.
    """
    total = sum(max(map(abs, tree)) for tree in value) + abs(base)
    unit = 2.0 ** (math.floor(math.log2(total * (1.0 + (len(value) + 1) * 2.0**-24))) + 1 - 24)
    variance = 0.0
    for tree, documents in zip(value, count, strict=True):
        mean = sum(v * n for v, n in zip(tree, documents, strict=True)) / sum(documents)
        variance += sum(n * (v - mean) ** 2 for v, n in zip(tree, documents, strict=True)) / sum(
            documents
        )
    # What is rounded off each tree, and the base, is anywhere within a unit: its variance is a
    # twelfth.
    return unit, unit * math.sqrt((len(value) + 1) / 12.0) / math.sqrt(variance)


def test_leaves_are_rounded_where_that_moves_scores_by_a_thousandth_of_their_deviation_at_most() -> (
    None
):
    seen = set()
    for size in np.geomspace(20.0, 2e5, 120):
        for base in (0.0, -3.0 * size):
            value = [[size, size, size - 0.5], [0.25, -0.125], [-0.3, 0.1, 0.1]]
            count = [[1.0, 1.0, 2.0], [1.0, 3.0], [6.0, 1.0, 2.0]]
            unit, share = moved(value, count, base)
            tree = np.repeat(np.arange(3), [3, 2, 3])
            rounded = Leaves(tree, np.concatenate(value), np.concatenate(count), base).in_units()
            assert (rounded is None) == (share > 1e-3), (size, base)
            seen.add(rounded is None)
            if rounded is not None:
                np.testing.assert_array_equal(
                    rounded.value, np.rint(np.concatenate(value) / unit) * unit
                )
                assert rounded.base == round(base / unit) * unit
    assert seen == {False, True}


def test_a_tree_whose_documents_nobody_counted_has_them_alike() -> None:
    value = np.array([1.0, 2.0, 0.5, -0.5])
    rounded = [
        Leaves(np.array([0, 0, 1, 1]), value, np.array(count)).in_units()
        for count in ([0.0] * 4, [0.0, 0.0, 1.0, 1.0])
    ]
    for leaves in rounded:
        assert leaves is not None
        np.testing.assert_array_equal(leaves.value, value)


@pytest.mark.parametrize("value", [0.0, math.inf])
def test_leaves_that_are_all_zero_or_not_finite_stay_as_they_are(value: float) -> None:
    assert Leaves(np.array([0, 0]), np.array([value, value]), np.ones(2)).in_units() is None


@pytest.mark.parametrize("kind", WHOLE_TYPES)
def test_fault_086_categories_are_numbers_of_their_type(kind: int) -> None:
    type_ = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64][
        kind - 9
    ]
    low, high = int(np.iinfo(type_).min), min(int(np.iinfo(type_).max), 2**63 - 1)
    assert count_categories(CategoryNames([low, high], type=kind), "cats") == 2
    for value in (low - 1, high + 1):
        with pytest.raises(ModelError, match="cats"):
            count_categories(CategoryNames([value], type=kind), "cats")


def test_fault_086_a_category_may_be_the_empty_text() -> None:
    assert count_categories(CategoryNames([97], [0, 0, 1]), "cats") == 2
    for offsets in ([0, 2, 1], [1, 1, 1], [0, 0, 2]):
        with pytest.raises(ModelError, match="offsets"):
            count_categories(CategoryNames([97], offsets), "cats")


def test_fault_086_whole_numbers_end_where_the_loader_would_wrap_around() -> None:
    assert _parse_whole("2147483647", "leaves", 0) == 2**31 - 1
    with pytest.raises(ModelError, match="leaves"):
        _parse_whole("2147483648", "leaves", 0)
