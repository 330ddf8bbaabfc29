"""The trees of a model file as arrays: what each field of the file becomes, and which trees are
refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import ModelError, ParameterError
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines.lightgbm import model_text
from boostrank.engines.lightgbm.format import LIGHTGBM, write_start
from boostrank.engines.lightgbm.model_text import LightGBMText, count_documents
from boostrank.engines.trees import Leaves, ServedTrees, depths
from boostrank.engines.xgboost.format import XGBOOST, with_even_leaves
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import CATEGORICAL, NAN_LEFT, ZERO_IS_MISSING, Forest
from tests.model.conftest import STEPS, TWO
from tests.model.lightgbm_text import resize_trees, set_line
from tests.model.real_models import lightgbm_models, xgboost_models
from tests.model.xgboost_json import get_forest as json_forest

BELOW_ZERO = float(np.nextafter(np.float32(-ZERO), np.float32(-1.0)))


def numbers(model: LightGBMText, tree: int, key: str) -> np.ndarray:
    return np.array([float(word) for word in model.trees[tree].words(key.encode())])


@pytest.mark.parametrize(
    "name", ["lambdarank", "sets of categories", "one leaf", "pandas", "few bins", "continued"]
)
def test_lightgbms_trees_are_put_one_after_another(name: str) -> None:
    model = LIGHTGBM.parse(lightgbm_models()[name].encode())
    served = LIGHTGBM.served(model)
    forest, node, leaf, of_set = served.forest, 0, 0, 0
    for number, tree in enumerate(model.trees):
        # Roots, the numbers of trees, and leaves.
        inner = tree.leaves - 1
        at, leaves = slice(node, node + inner), slice(leaf, leaf + tree.leaves)
        assert forest.roots[number] == (node if inner else ~leaf)
        assert (forest.tree[at] == number).all()
        np.testing.assert_array_equal(forest.value[leaves], numbers(model, number, "leaf_value"))
        # Splits, whose children are counted from the first node and leaf of the tree.
        if inner:
            np.testing.assert_array_equal(
                forest.feature[at], numbers(model, number, "split_feature")
            )
            np.testing.assert_array_equal(
                served.leaf_count[leaves], numbers(model, number, "leaf_count")
            )
            for children, key in ((forest.left, "left_child"), (forest.right, "right_child")):
                child = numbers(model, number, key)
                np.testing.assert_array_equal(
                    children[at], np.where(child >= 0, child + node, child - leaf)
                )
            categorical = numbers(model, number, "decision_type").astype(int) % 2 == 1
            assert ((forest.kind[at] == CATEGORICAL) == categorical).all()
            threshold = numbers(model, number, "threshold")
            np.testing.assert_array_equal(
                forest.threshold[at][categorical], threshold[categorical] + of_set
            )
        node, leaf, of_set = node + inner, leaf + tree.leaves, of_set + tree.categorical_splits
    # Nothing is left over.
    assert (forest.feature.size, forest.value.size, forest.set_ptr.size) == (node, leaf, of_set + 1)
    assert served.leaf_count.size == leaf
    assert (served.base, served.single) == (0.0, False)


def test_what_lightgbm_counts_as_missing_or_as_zero_goes_where_it_goes_there() -> None:
    # Bit 1: missing goes left; bits 2 and 3: nothing, zero or NaN is missing.
    text = set_line("decision_type", "0 2 4 6 8 10")(lightgbm_models()["lambdarank"])
    kinds = [0, 0, ZERO_IS_MISSING, ZERO_IS_MISSING | NAN_LEFT, 0, NAN_LEFT]
    for thresholds, expected, where_none_is_missing in (
        ("1 1 1 1 1 1", [1.0] * 6, NAN_LEFT),
        ("-1 -1 -1 -1 -1 -1", [-1.0] * 6, 0),
        ("0 0 0 0 0 0", [ZERO] * 6, NAN_LEFT),
        ("-0.0 -0.0 0 0 0 0", [ZERO] * 6, NAN_LEFT),
        ("1e-36 1e-36 1e-36 1e-36 1e-36 1e-36", [ZERO] * 6, NAN_LEFT),
        ("-1e-36 -1e-36 -1e-36 -1e-36 -1e-36 -1e-36", [BELOW_ZERO] * 6, 0),
        (" ".join([repr(ZERO)] * 6), [ZERO] * 6, NAN_LEFT),
        (" ".join([repr(-ZERO)] * 6), [BELOW_ZERO] * 6, 0),
        (
            " ".join([repr(np.nextafter(ZERO, 1.0).item())] * 6),
            [np.nextafter(ZERO, 1.0)] * 6,
            NAN_LEFT,
        ),
        (
            " ".join([repr(np.nextafter(-ZERO, -1.0).item())] * 6),
            [np.nextafter(-ZERO, -1.0)] * 6,
            0,
        ),
    ):
        # Each of the six kinds of decision at this threshold.
        model = LIGHTGBM.parse(set_line("threshold", thresholds)(text).encode())
        forest = LIGHTGBM.served(model).forest
        assert forest.threshold[:6].tolist() == expected
        assert forest.kind[:6].tolist() == [
            where_none_is_missing,
            where_none_is_missing,
            *kinds[2:],
        ]


def with_start(name: str) -> LightGBMText:
    head, first, trees = lightgbm_models()[name].partition("Tree=0\n")
    grown = re.sub(r"(?m)^Tree=(\d+)$", lambda number: f"Tree={int(number[1]) + 2}", first + trees)
    start = [replace(tree, number=i) for i, tree in enumerate(write_start({0: STEPS, 3: TWO}))]
    texts = "".join(tree.to_bytes().decode() for tree in start)
    return LIGHTGBM.parse(resize_trees(head + texts + grown).encode())


def test_trees_behind_a_start_are_those_of_the_file_without_it() -> None:
    for name in ("lambdarank", "sets of categories"):
        plain, started = LIGHTGBM.parse(lightgbm_models()[name].encode()), with_start(name)
        assert started.start_trees == 2
        assert [tree.number for tree in started.trees] == list(range(len(plain.trees) + 2))
        # The same arrays; the start is apart.
        of_plain, of_started = LIGHTGBM.trees(plain, 6), LIGHTGBM.trees(started, 6)
        for key in (
            "feature",
            "threshold",
            "kind",
            "left",
            "right",
            "value",
            "roots",
            "tree",
            "sets",
            "set_ptr",
        ):
            np.testing.assert_array_equal(
                getattr(of_started.forest, key), getattr(of_plain.forest, key)
            )
        assert of_plain.forest.start is None
        assert [feature for feature, _ in of_started.forest.start] == [0, 3]
        # Gains and counts are of the trees alone.
        np.testing.assert_array_equal(of_plain.gain, of_started.gain)
        np.testing.assert_array_equal(of_plain.splits, of_started.splits)
        assert (of_plain.count, of_started.count) == (len(plain.trees), len(plain.trees))
        assert of_started.double
        assert LIGHTGBM.served(started).forest.roots.size == len(plain.trees) + 2


def test_gain_of_a_feature_is_that_of_its_splits() -> None:
    model = LIGHTGBM.parse(lightgbm_models()["lambdarank"].encode())
    trees = LIGHTGBM.trees(model, 6)
    gain, splits = np.zeros(6), np.zeros(6, int)
    for number in range(len(model.trees)):
        for feature, split_gain in zip(
            numbers(model, number, "split_feature"),
            numbers(model, number, "split_gain"),
            strict=True,
        ):
            gain[int(feature)] += split_gain
            splits[int(feature)] += 1
    np.testing.assert_allclose(trees.gain, gain)
    assert trees.splits.tolist() == splits.tolist()
    assert trees.used.tolist() == np.flatnonzero(splits).tolist()
    free = LIGHTGBM.parse(
        set_line("split_gain", "0 0 0 -1 0 0")(lightgbm_models()["lambdarank"]).encode()
    )
    assert LIGHTGBM.trees(free, 6).splits.sum() == splits.sum() - 6
    assert LIGHTGBM.trees(free, 6).used.tolist() == trees.used.tolist()


def test_a_random_forest_is_neither_exported_nor_averaged() -> None:
    forest = LIGHTGBM.parse(lightgbm_models()["random forest"].encode())
    with pytest.raises(ModelError, match="random forest"):
        LIGHTGBM.served(forest)
    with pytest.raises(ModelError, match=r"random forest .*averaged"):
        LIGHTGBM.merge([forest], [1.0])


def test_documents_that_nobody_counted_are_none() -> None:
    text = re.sub("(?m)^(leaf|internal)_count=.*\n", "", lightgbm_models()["lambdarank"])
    served = LIGHTGBM.served(LIGHTGBM.parse(resize_trees(text).encode()))
    assert served.leaf_count.tolist() == [0.0] * served.forest.value.size
    counted = LIGHTGBM.parse(lightgbm_models()["lambdarank"].encode())
    counts = count_documents(counted.trees).reshape(4, 7)
    assert counts.sum(axis=1).tolist() == [400.0] * 4
    # Every document counts alike in the rounding of leaves.
    rounded = LIGHTGBM.parse(model_text.with_even_leaves(resize_trees(text).encode()))
    expected = Leaves(np.repeat(np.arange(4), 7), counted.leaf_value, np.ones(28)).in_units()
    assert expected is not None
    np.testing.assert_array_equal(rounded.leaf_value, expected.value)


def test_the_leaves_of_a_random_forest_are_not_rounded() -> None:
    text = lightgbm_models()["random forest"].encode()
    before, after = LIGHTGBM.parse(text), LIGHTGBM.parse(model_text.with_even_leaves(text))
    np.testing.assert_array_equal(after.leaf_value, before.leaf_value)


def test_an_average_divides_what_is_in_units_of_the_score() -> None:
    texts = [lightgbm_models()[name].encode() for name in ("lambdarank", "goss")]
    models = [LIGHTGBM.parse(text) for text in texts]
    merged = LIGHTGBM.parse(LIGHTGBM.merge(models, [0.5, 4.0]))
    assert len(merged.trees) == 8
    for number, tree in enumerate(merged.trees):
        before = models[number // 4].trees[number % 4]
        for key, value in before.fields.items():
            words, average = value.split(), tree.fields[key].split()
            factor = (
                [0.5, 4.0][number // 4]
                if key in (b"leaf_value", b"internal_value", b"shrinkage")
                else None
            )
            if factor is None:
                assert average == words
            else:
                np.testing.assert_allclose(
                    [float(w) for w in average], [factor * float(w) for w in words], rtol=1e-15
                )
    assert merged.tail == models[0].tail


def test_a_stamp_is_put_where_no_objective_is() -> None:
    text = lightgbm_models()["callable"].encode()
    stamped = LIGHTGBM.stamp(text)
    assert b"\nmax_feature_idx=5\nobjective=lambdarank\n" in stamped
    assert (
        stamped.count(b"[objective: lambdarank]")
        == stamped.count(b"objective=")
        == stamped.count(b"[objective: ")
        == 1
    )
    assert LIGHTGBM.stamp(stamped) == stamped
    other = lightgbm_models()["quantile"].encode()
    assert LIGHTGBM.stamp(other) == other


# XGBoost
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(xgboost_models()))
def test_xgboosts_trees_are_put_one_after_another(name: str) -> None:
    model = XGBOOST.parse(xgboost_models()[name])
    served = XGBOOST.served(model)
    forest, node, leaf, of_set = served.forest, 0, 0, 0
    for number, tree in enumerate(model.forest["trees"]):
        sets = dict(zip(tree.get("categories_nodes", []), range(99), strict=False))
        left, right = tree["left_children"], tree["right_children"]
        # Nodes that the root leads to: pruned ones stay in the file.
        children, stack = [], [0]
        while stack:
            children.append(stack.pop())
            stack += [child for child in (left[children[-1]], right[children[-1]]) if child >= 0]
        alive = sorted(children)
        inner, leaves = [i for i in alive if left[i] >= 0], [i for i in alive if left[i] < 0]
        position = {i: node + k for k, i in enumerate(inner)} | {
            i: ~(leaf + k) for k, i in enumerate(leaves)
        }
        assert forest.roots[number] == position[0]
        # Splits: thresholds are the next number below, since XGBoost compares by <.
        for i in inner:
            at = position[i]
            assert (forest.tree[at], forest.feature[at]) == (number, tree["split_indices"][i])
            assert (forest.left[at], forest.right[at]) == (position[left[i]], position[right[i]])
            assert bool(forest.kind[at] & NAN_LEFT) == bool(tree["default_left"][i])
            assert bool(forest.kind[at] & CATEGORICAL) == (i in sets)
            if i in sets:
                assert forest.threshold[at] == of_set + sets[i]
                start, size = (
                    tree["categories_segments"][sets[i]],
                    tree["categories_sizes"][sets[i]],
                )
                listed = tree["categories"][start : start + size]
                assert forest.categories(of_set + sets[i]).tolist() == sorted(listed)
            else:
                condition = np.float32(tree["split_conditions"][i])
                assert forest.threshold[at] == np.nextafter(condition, np.float32(-np.inf))
        # Leaves, weighted as dart weights its trees.
        for i in leaves:
            value = np.float32(tree["split_conditions"][i])
            assert forest.value[~position[i]] == value
            assert served.leaf_count[~position[i]] == tree["sum_hessian"][i]
        node, leaf, of_set = node + len(inner), leaf + len(leaves), of_set + len(sets)
    assert (forest.feature.size, forest.value.size, forest.set_ptr.size) == (node, leaf, of_set + 1)
    assert (served.leaf_count.size, served.single) == (leaf, True)
    base = model.document["learner"]["learner_model_param"]["base_score"].strip("[]")
    assert served.base == np.float32(base)


@pytest.mark.parametrize(
    ("condition", "below"),
    [
        (0.0, -(2.0**-149)),
        (1.0, 1.0 - 2.0**-24),
        (0.1, float(np.nextafter(np.float32(0.1), np.float32(0.0)))),
        (1e39, float(np.finfo(np.float32).max)),
        (float("inf"), float(np.finfo(np.float32).max)),
    ],
)
def test_left_of_a_threshold_is_what_is_below_it_in_float32(condition: float, below: float) -> None:
    document = json.loads(xgboost_models()["rank:ndcg"])
    tree = json_forest(document)["trees"][0]
    tree["split_conditions"][0], tree["default_left"][0] = condition, 0
    assert XGBOOST.served(XGBOOST.parse(json.dumps(document).encode())).forest.threshold[0] == below


def test_nothing_is_left_of_what_is_below_all() -> None:
    document = json.loads(xgboost_models()["rank:ndcg"])
    tree = json_forest(document)["trees"][0]
    tree["split_conditions"][0], tree["default_left"][0] = -float("inf"), 1
    assert np.isnan(
        XGBOOST.served(XGBOOST.parse(json.dumps(document).encode())).forest.threshold[0]
    )


def test_an_average_of_xgboosts_models_divides_scores_and_counts_rounds() -> None:
    models = [XGBOOST.parse(xgboost_models()[name]) for name in ("rank:ndcg", "pairwise")]
    for model in models:  # they begin with scores of their own
        model.document["learner"]["learner_model_param"]["base_score"] = "[2.5E-1]"
    merged = XGBOOST.parse(XGBOOST.merge(models, [0.5, 4.0]))
    trees = [
        (tree, weight)
        for model, weight in zip(models, (0.5, 4.0), strict=True)
        for tree in model.forest["trees"]
    ]
    assert len(merged.forest["trees"]) == len(trees) == 8
    for number, (merged_tree, (tree, weight)) in enumerate(
        zip(merged.forest["trees"], trees, strict=True)
    ):
        leaf = np.array(tree["left_children"]) < 0
        before, after = (
            np.array(tree["split_conditions"]),
            np.array(merged_tree["split_conditions"]),
        )
        np.testing.assert_array_equal(after[~leaf], before[~leaf].astype(np.float32))
        np.testing.assert_allclose(after[leaf], weight * before[leaf], rtol=1e-7)
        np.testing.assert_allclose(
            merged_tree["base_weights"], weight * np.array(tree["base_weights"]), rtol=1e-15
        )
        assert merged_tree["id"] == number
        assert merged_tree["sum_hessian"] == tree["sum_hessian"]
    assert merged.forest["iteration_indptr"] == list(range(9))
    assert merged.forest["tree_info"] == [0] * 8
    assert merged.forest["gbtree_model_param"]["num_trees"] == "8"
    models[1].document["learner"]["learner_model_param"]["base_score"] = "[5E-1]"
    with pytest.raises(ValueError, match=r"have different base scores: \[2.5E-1\], \[5E-1\]"):
        XGBOOST.merge(models, [0.5, 0.5])


def test_gain_of_a_feature_is_that_of_its_splits_in_xgboost_too() -> None:
    model = XGBOOST.parse(xgboost_models()["pruned"])
    gain, splits = np.zeros(6), np.zeros(6, int)
    for tree in model.forest["trees"]:
        for feature, change, left in zip(
            tree["split_indices"], tree["loss_changes"], tree["left_children"], strict=True
        ):
            if left >= 0 and change > 0:
                gain[feature] += change
                splits[feature] += 1
    trees = XGBOOST.trees(model, 6)
    np.testing.assert_allclose(trees.gain, gain)
    assert trees.splits.tolist() == splits.tolist()
    assert not trees.double


def test_even_leaves_are_close_and_everything_else_is_as_it_was() -> None:
    body = xgboost_models()["pruned"]
    even = with_even_leaves(body)
    assert even != body
    before, after = json.loads(body), json.loads(even)
    base = before["learner"]["learner_model_param"]["base_score"]
    assert base.startswith("[")
    even_base = after["learner"]["learner_model_param"]["base_score"]
    assert even_base.startswith("[")
    assert float(even_base.strip("[]")) == pytest.approx(float(base.strip("[]")), abs=1e-6)
    after["learner"]["learner_model_param"]["base_score"] = base
    leaves = XGBOOST.served(XGBOOST.parse(body)).forest
    largest = np.zeros(leaves.roots.size)
    np.maximum.at(largest, leaves.leaf_trees(), np.abs(leaves.value))
    unit = 2.0 ** (np.ceil(np.log2(largest.sum())) - 24)  # float32 has 24 bits
    for tree, even_tree in zip(
        json_forest(before)["trees"], json_forest(after)["trees"], strict=True
    ):
        old, new = np.array(tree["split_conditions"]), np.array(even_tree.pop("split_conditions"))
        leaf = (np.array(tree["left_children"]) < 0) & (
            np.array(tree["split_indices"]) != 2**31 - 1
        )
        np.testing.assert_array_equal(old[~leaf], new[~leaf])
        np.testing.assert_allclose(new[leaf], old[leaf], atol=1e-6)
        assert (new[leaf] / unit == np.rint(new[leaf] / unit)).all()
        even_tree["split_conditions"] = tree["split_conditions"]
    assert after == before


# Both
# -----------------------------------------------------------------------------------------------------------------


def test_trees_that_add_least_to_the_size_of_a_score_come_first() -> None:
    count = np.array([3.0, 1.0, 1.0, 3.0, 0.0, 5.0])
    value = np.array([1.0, 4.0, -0.5, 0.5, 9.0, 2.0])
    forest = Forest(
        feature=np.zeros(3, np.int32),
        threshold=np.zeros(3),
        kind=np.zeros(3, np.uint8),
        left=np.array([~0, ~2, ~4], np.int32),
        right=np.array([~1, ~3, ~5], np.int32),
        value=value,
        roots=np.arange(3, dtype=np.int32),
        tree=np.arange(3, dtype=np.int32),
        sets=np.zeros(0, np.uint32),
        set_ptr=np.zeros(1, np.int64),
    )
    # Mean squares: (3 + 16) / 4, 0.25, and 4, as nobody is in the leaf of 9.
    sorted_ = ServedTrees(forest, count).small_first()
    assert sorted_.forest.roots.tolist() == [1, 2, 0]
    assert sorted_.forest.tree.tolist() == [2, 0, 1]
    unknown = ServedTrees(forest, np.zeros(6)).small_first()
    assert unknown.forest.roots.tolist() == [1, 0, 2]  # 0.25, 8.5, 42.5


@pytest.mark.parametrize(
    ("parent", "steps"),
    [
        ([], []),
        ([0], [0]),
        ([0, 0, 1, 2, 3], [0, 1, 2, 3, 4]),
        ([0, 0, 0, 3, 3, 4], [0, 1, 1, 0, 1, 2]),
        ([0, 2, 1], [0, -1, -1]),
        ([1, 0, 0], [-1, -1, -1]),
        ([0, 2, 3, 1, 3, 0], [0, -1, -1, -1, -1, 1]),
    ],
)
def test_nodes_are_counted_from_their_root_and_a_cycle_has_none(
    parent: list[int], steps: list[int]
) -> None:
    assert depths(np.array(parent, np.int64)).tolist() == steps


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 15, 16, 1023])
def test_a_chain_is_as_deep_as_it_is_long(length: int) -> None:
    assert depths(np.maximum(np.arange(length) - 1, 0)).tolist() == list(range(length))


def test_weights_of_numpy_average_as_those_of_python() -> None:
    data = make_ranking_data(queries=20, seed=1, mean_length=6).dataset
    params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    models = [boostrank.train(params | {"seed": seed}, data, 2) for seed in (1, 2)]
    expected = boostrank.average(models, [1.0, 2.0])
    averaged = boostrank.average(iter(models), np.array([1, 2]))
    assert averaged.to_bytes() == expected.to_bytes()
    for weights in (["a", 1.0], 2.0, [1.0]):
        with pytest.raises(ParameterError, match="2 models"):
            boostrank.average(models, weights)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no models"):
        boostrank.average(iter([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("rounds", [2, 2.0, "2"])
def test_rounds_after_the_first_are_whole_numbers_in_any_type(rounds: Any) -> None:
    data = make_ranking_data(queries=20, seed=1, mean_length=6).dataset
    params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    model = boostrank.train(params, data, 4)
    scores = model.predict(data, start_iteration=1, num_iteration=rounds)
    expected = model.predict(data, num_iteration=3) - model.predict(data, num_iteration=1)
    np.testing.assert_array_equal(scores, expected)


def test_a_feature_of_columns_within_queries_may_be_a_number_of_numpy() -> None:
    assert boostrank.WithinQuery("rank", of=np.int64(3)).of == (3,)  # type: ignore[arg-type]
