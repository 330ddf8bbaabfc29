"""LightGBM's model text, with its trees, its linear starts and the merging of models."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.types import BoolArray, Float64Array
from boostrank.engines.lightgbm.model_text import (
    LightGBMText,
    Tree,
    count_documents,
    join_trees,
    parse_text,
)
from boostrank.engines.trees import (
    NOTHING,
    LinearStart,
    ModelFormat,
    ServedTrees,
    StepTree,
    Trees,
    engine_names,
    filled_start,
    make_forest,
    refuse,
    sum_of_starts,
)
from boostrank.kernels.curves import LOWEST, ZERO, Curve
from boostrank.kernels.forest import CATEGORICAL, NAN_LEFT, ZERO_IS_MISSING, Forest

_HEAD = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx={last}
objective=lambdarank
feature_names={names}
feature_infos={infos}
tree_sizes="""
_TAIL = b"""end of trees

feature_importances:

parameters:
[boosting: gbdt]

end of parameters

pandas_categorical:null
"""
# LightGBM's decision bits of numerical splits: missing values go left or right.
_MISSING_LEFT, _MISSING_RIGHT = 10, 8


def start_text(start: LinearStart) -> bytes:
    """Return the model text of a linear start, which has at least one tree."""
    return _join(start.feature_names, write_start(start.curves or {0: NOTHING}))


def _join(names: Sequence[str], trees: Sequence[Tree]) -> bytes:
    accepted, infos = engine_names(names), ["none"] * len(names)
    head = _HEAD.format(last=len(names) - 1, names=" ".join(accepted), infos=" ".join(infos))
    return join_trees(head.encode(), trees, _TAIL)


def write_start(curves: Mapping[int, Curve]) -> list[Tree]:
    """Return the trees of a linear start, one per feature."""
    trees = []
    for feature, curve in curves.items():
        steps = StepTree.from_curve(curve)
        nodes = len(steps.left)
        tree = _write_tree(
            split_feature=[feature] * nodes,
            split_gain=[0] * nodes,
            threshold=[LOWEST, *steps.bounds],
            decision_type=[_MISSING_LEFT, *[_MISSING_RIGHT] * (nodes - 1)],
            left_child=steps.left,
            right_child=steps.right,
            leaf_value=steps.value[: nodes - 1 : -1],
            leaf_count=steps.documents[: nodes - 1 : -1],
            internal_value=steps.value[:nodes],
            internal_count=steps.documents[:nodes],
        )
        trees.append(tree)
    return trees


def _write_tree(sets: Sequence[list[int]] = (), **columns: list[Any]) -> Tree:
    """Return a tree with the number 0.

    Args:
        sets: words of each set of categories.
        columns: values of the nodes and leaves by name, in LightGBM's order. Each weight is a count
            of documents.
    """
    n_leaves = len(columns["leaf_value"])
    fields = {"num_leaves": [n_leaves], "num_cat": [len(sets)]}
    for name, column in columns.items():
        if name.endswith("_count"):
            fields[name.replace("count", "weight")] = column
        fields[name] = column
    if sets:
        fields["cat_boundaries"] = np.cumsum([0, *map(len, sets)]).tolist()
        fields["cat_threshold"] = [*itertools.chain(*sets)]
    fields |= {"is_linear": [0], "shrinkage": [1]}
    lines = {name.encode(): " ".join(map(repr, column)).encode() for name, column in fields.items()}
    return Tree(0, lines, b"\n\n\n", n_leaves, len(sets))


def plain_text(
    names: Sequence[str],
    forest: Forest,
    threshold: Float64Array,
    missing_left: BoolArray,
) -> bytes:
    """Return the model text of trees from elsewhere, in which each leaf counts as one document.

    Args:
        forest: trees whose nodes precede their children.
        threshold: float64[M], as LightGBM compares them, or the number of a set.
        missing_left: bool[M], whether missing values go left.
    """
    # Number nodes and leaves within their trees.
    n_leaves = np.bincount(forest.leaf_trees(), minlength=forest.roots.size)
    first_leaf = np.cumsum(n_leaves) - n_leaves
    first_node = first_leaf - np.arange(n_leaves.size)
    left, right = [
        np.where(child >= 0, child - first_node[forest.tree], child + first_leaf[forest.tree])
        for child in (forest.left, forest.right)
    ]
    # Add up the leaves below each node, children first. Leaf i is the number ~i from the end.
    n_below = [0] * forest.tree.size + [1] * forest.value.size
    sum_below = [0.0] * forest.tree.size + forest.value[::-1].tolist()
    for node in reversed(range(forest.tree.size)):
        for child in (int(forest.left[node]), int(forest.right[node])):
            n_below[node] += n_below[child]
            sum_below[node] += sum_below[child]
    decisions = np.where(missing_left, _MISSING_LEFT, _MISSING_RIGHT)
    columns = {
        "split_feature": forest.feature,
        "split_gain": np.ones_like(forest.tree),
        "threshold": threshold,
        "decision_type": np.where(forest.categorical, 1, decisions),
        "left_child": left,
        "right_child": right,
        "leaf_value": forest.value,
        "leaf_count": np.ones(forest.value.size, np.int64),
        "internal_value": np.divide(sum_below, n_below),
        "internal_count": np.array(n_below),
    }
    # Cut the columns into trees, and number the sets of categories within them.
    all_sets, trees = np.split(forest.sets, forest.set_ptr[1:-1]), []
    for node, leaf, size in zip(first_node, first_leaf, n_leaves, strict=True):
        at_leaves, at_nodes = slice(leaf, leaf + size), slice(node, node + size - 1)
        spans = {name: at_leaves if name.startswith("leaf") else at_nodes for name in columns}
        fields = {name: column[spans[name]].tolist() for name, column in columns.items()}
        bounds, sets = fields["threshold"], []
        for position in np.flatnonzero(forest.categorical[at_nodes]).tolist():
            sets.append(all_sets[int(bounds[position])].tolist())
            bounds[position] = len(sets) - 1.0
        trees.append(_write_tree(sets, **fields))
    return _join(names, trees)


# Fields in units of the score.
_IN_SCORE = (b"leaf_value", b"internal_value", b"shrinkage")
_BELOW_ZERO = float(np.nextafter(np.float32(-ZERO), -1.0))


class LightGBMFormat(ModelFormat):
    """LightGBM's model text."""

    name = "lightgbm"
    title = "LightGBM's model text"

    def recognises(self, body: bytes) -> bool:
        """Return whether a file begins with the line "tree"."""
        return re.match(rb"tree\b", body) is not None

    def parse(self, body: bytes) -> LightGBMText:
        """Parse the text and check each tree.

        Raises:
            ModelError: the text is damaged, or uses what boostrank does not support.
        """
        return parse_text(body)

    def trees(self, model: LightGBMText, n_features: int) -> Trees:
        """Return the trees with split gains, the linear start as curves, in double precision."""
        forest = _forest(model, model.start_trees)
        gain = model.nodes["split_gain"][model.nodes["split_gain"].size - forest.feature.size :]
        return Trees.summarise(forest, gain, n_features, start=model.start, double=True)

    def served(self, model: LightGBMText) -> ServedTrees:
        """Return all trees, those of a linear start too, with the documents in every leaf.

        Raises:
            ModelError: the model is a random forest.
        """
        refuse(
            b"\naverage_output" in model.head,
            "the model is a random forest, whose trees LightGBM averages",
        )
        return ServedTrees(_forest(model, 0), count_documents(model.trees))

    def stamp(self, body: bytes) -> bytes:
        """Return the file with an objective if it has none, which is the case after training with a
        callable.
        """
        return body if b"\nobjective=" in body.partition(b"\n\n")[0] else stamped(body)

    def merge(self, models: Sequence[LightGBMText], weights: Sequence[float]) -> bytes:
        """Return the text of the sum, with one start and then the trees of all models.

        Raises:
            ModelError: a model is a random forest of LightGBM.
        """
        # One start for all models, then their trees with new numbers.
        grown_trees: list[Tree] = []
        for model, weight in zip(models, weights, strict=True):
            refuse(
                b"\naverage_output" in model.head,
                "a random forest of LightGBM cannot be averaged with others",
            )
            grown_trees += [_divided(tree, 1.0 / weight) for tree in model.grown_trees]
        # LightGBM counts the importances in the tail again.
        start = sum_of_starts([model.start for model in models], weights)
        return _with_trees(models[0], start, grown_trees)

    def filled(self, body: bytes, values: Float64Array) -> bytes:
        """Return the text in which a missing value goes where its fill value goes."""
        model = parse_text(body)
        decision, fill_value = model.nodes["decision_type"], values[model.nodes["split_feature"]]
        is_left = fill_value <= model.nodes["threshold"]
        new_decision = np.where(is_left, _MISSING_LEFT, _MISSING_RIGHT)
        new_decision = np.where((decision & 1 != 0) | np.isnan(fill_value), decision, new_decision)
        grown_trees = [
            tree.with_numbers(b"decision_type", decisions)
            for tree, decisions in zip(
                model.grown_trees, model.split(new_decision, at_nodes=True), strict=True
            )
        ]
        return _with_trees(model, filled_start(model.start, values), grown_trees)

    def leaf_values(self, model: LightGBMText) -> list[Float64Array]:
        """Return the values of each tree's leaves, without those of a linear start."""
        return model.split(model.leaf_value)

    def with_leaves(
        self,
        model: LightGBMText,
        values: Sequence[Float64Array],
        start: Mapping[int, Curve] | None = None,
    ) -> bytes:
        """Return the text with other values of the leaves, and another start if there is one."""
        grown_trees = [
            tree.with_numbers(b"leaf_value", leaves)
            for tree, leaves in zip(model.grown_trees, values, strict=True)
        ]
        return _with_trees(model, start, grown_trees)


LIGHTGBM = LightGBMFormat()


def with_line(head: bytes, key: str, value: str) -> bytes:
    """Return the head of a model text with another value of a key."""
    line = f"{key}={value}".encode()
    return re.sub(rb"(?m)^%b=.*$" % key.encode(), lambda _: line, head)


def _forest(model: LightGBMText, first_tree: int) -> Forest:
    """Return the trees whose number is at least `first_tree`."""
    trees = model.trees[first_tree:]
    leaves = np.array([tree.leaves for tree in trees], np.int64)
    skipped_leaves = model.leaf_value.size - int(leaves.sum())
    nodes = {name: column[skipped_leaves - first_tree :] for name, column in model.nodes.items()}
    threshold, decision = nodes["threshold"], nodes["decision_type"]
    left, right = nodes["left_child"], nodes["right_child"]
    tree = np.repeat(np.arange(len(trees)), leaves - 1)
    # Convert numbers within a tree to numbers over all trees.
    first_node, first_leaf = np.cumsum(leaves - 1) - (leaves - 1), np.cumsum(leaves) - leaves
    left = np.where(left >= 0, left + first_node[tree], left - first_leaf[tree])
    right = np.where(right >= 0, right + first_node[tree], right - first_leaf[tree])
    # Bits 2 and 3, missing values: 0: none, NaN is read as 0; 1: zero, and NaN as zero; 2: NaN.
    missing_type = decision >> 2 & 3
    # Thresholds of categorical splits are numbers of sets; missing values go right.
    categorical = (decision & 1) != 0
    # LightGBM treats values near 0 as 0, so no threshold may separate them.
    bounds = np.where((threshold >= 0.0) & (threshold < ZERO), ZERO, threshold)
    bounds = np.where((threshold < 0.0) & (threshold >= -ZERO), _BELOW_ZERO, bounds)
    nan_left = np.where(missing_type == 0, bounds >= 0.0, decision & 2)
    split_kind = np.where(nan_left, NAN_LEFT, 0) | np.where(missing_type == 1, ZERO_IS_MISSING, 0)
    n_sets = np.array([tree.categorical_splits for tree in trees], np.int64)
    first_set = np.cumsum(n_sets) - n_sets
    return make_forest(
        model.sets,  # a start has none
        feature=nodes["split_feature"],
        threshold=np.where(categorical, threshold + first_set[tree], bounds),
        kind=np.where(categorical, CATEGORICAL, split_kind),
        left=left,
        right=right,
        value=model.leaf_value[skipped_leaves:],
        roots=np.where(leaves > 1, first_node, ~first_leaf),
        tree=tree,
    )


def stamped(body: bytes) -> bytes:
    """Return the same model with an objective that other programs support, because many serving
    tools require one.

    Predictions do not change, because ranking objectives do not transform raw scores.
    """
    head, separator, trees = body.partition(b"\n\n")
    head = re.sub(rb"\nobjective=.*", b"", head)
    head = re.sub(rb"(\nmax_feature_idx=.*)", rb"\1\nobjective=lambdarank", head)
    parameter = b"[objective: lambdarank]"
    return head + separator + re.sub(rb"(?m)^\[objective: .*\]$", parameter, trees)


def _with_trees(
    model: LightGBMText, start: Mapping[int, Curve] | None, grown_trees: Sequence[Tree]
) -> bytes:
    """Return the file with other grown trees, and with another linear start unless that is None."""
    start_trees = model.trees[: model.start_trees] if start is None else write_start(start)
    return join_trees(model.head, [*start_trees, *grown_trees], model.tail)


def _divided(tree: Tree, divisor: float) -> Tree:
    """Return a tree with its scores divided."""
    for key in _IN_SCORE:
        if numbers := tree.words(key):
            tree = tree.with_words(
                key, [repr(float(number) / divisor).encode() for number in numbers]
            )
    return tree
