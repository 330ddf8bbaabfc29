"""The trees of a model as arrays, read from its file: for walking them ourselves, and for what they say of features."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.backends.lightgbm.start import count_start_trees, read_start
from boostrank.core.types import Float64Array, Int64Array
from boostrank.formats.files import engine_of
from boostrank.formats.linear import read_linear
from boostrank.formats.xgboost import tree_weights
from boostrank.kernels.trees.curves import ZERO, Curves
from boostrank.kernels.trees.walker import (
    CATEGORICAL,
    LISTED_RIGHT,
    NAN_LEFT,
    ZERO_IS_MISSING,
    Forest,
)

_BELOW_ZERO = float(np.nextafter(np.float32(-ZERO), np.float32(-1.0)))


@dataclass(frozen=True, eq=False)
class Trees:
    """What a model file says.

    Args:
        forest: for `kernels.trees.walker.Walker`, whose scores differ from the engine's raw ones by a constant
            (XGBoost's base_score) and by rounding; None where it cannot walk these trees.
        why_not: what in these trees it cannot walk; empty if it can.
        count: how many trees there are; a linear start's are none.
        gain: float64[d], the gain of all splits by each feature, as the engine counts it ("gain" of LightGBM,
            "total_gain" of XGBoost).
        splits: int64[d], how many there are.
        used: int64[c], features that a prediction may depend on, ascending.
    """

    forest: Forest | None
    why_not: str
    count: int
    gain: Float64Array
    splits: Int64Array
    used: Int64Array


def read_trees(body: bytes, n_features: int) -> Trees:
    """The trees in a model file that `model_text.check_model` has let through, or that the engine has just written."""
    read = {"xgboost": _xgboost, "lightgbm": _lightgbm, "linear": _linear}[engine_of(body)]
    return read(body, n_features)


def _linear(body: bytes, n_features: int) -> Trees:
    """No trees: every feature with a weight counts as one use, and the size of its scaled weight as its gain."""
    size = np.abs(read_linear(body).weights()[:-1])
    used = np.flatnonzero(size)
    return Trees(None, "a linear model has no trees", 0, size, (size > 0.0).astype(np.int64), used.astype(np.int64))


@dataclass
class _Tree:
    """One tree, its children and sets as in `Forest` but counted from its own first node, leaf and set."""

    feature: Int64Array
    threshold: Float64Array
    kind: npt.NDArray[np.uint8]
    left: Int64Array
    right: Int64Array
    value: Float64Array
    gain: Float64Array
    also_used: Int64Array
    sets: npt.NDArray[np.uint32]
    set_sizes: Int64Array


def _lightgbm(body: bytes, n_features: int) -> Trees:
    region = body.partition(b"\n\n")[2].partition(b"\nend of trees\n")[0]
    trees, why_not = [], ""
    text = body.decode()
    for block in re.split(rb"^Tree=\d+\n", region, flags=re.MULTILINE)[1 + count_start_trees(text) :]:
        fields = dict(line.split(b"=", 1) for line in block.split(b"\n") if b"=" in line)

        def numbers(key: bytes, kind: Any, said: Mapping[bytes, bytes] = fields) -> npt.NDArray[Any]:
            return np.array(said.get(key, b"").split()).astype(kind)

        linear = fields.get(b"is_linear", b"0").strip() == b"1"
        if linear:
            why_not = "linear models in the leaves"
        value = numbers(b"leaf_value", np.float64)
        # LightGBM writes no split in a tree of one leaf, or an empty line.
        inner = value.size - 1
        decision, threshold = numbers(b"decision_type", np.int64)[:inner], numbers(b"threshold", np.float64)[:inner]
        # Bits 2 and 3: what is missing. 0: nothing, NaN is read as 0; 1: zero, and NaN as zero; 2: NaN.
        missing = decision >> 2 & 3
        categorical = (decision & 1) != 0  # its threshold is the number of a set; what is missing goes right
        # What is that near to 0 is 0 to LightGBM: such values stay together, left of what is not below 0.
        ordered = np.where((threshold >= 0.0) & (threshold < ZERO), ZERO, threshold)
        ordered = np.where((threshold < 0.0) & (threshold >= -ZERO), _BELOW_ZERO, ordered)
        nan_left = np.where(missing == 0, ordered >= 0.0, decision & 2)
        kind = np.where(nan_left, NAN_LEFT, 0) | np.where(missing == 1, ZERO_IS_MISSING, 0)
        trees.append(
            _Tree(
                feature=numbers(b"split_feature", np.int64)[:inner],
                threshold=np.where(categorical, threshold, ordered),
                kind=np.where(categorical, CATEGORICAL, kind).astype(np.uint8),
                left=numbers(b"left_child", np.int64)[:inner],
                right=numbers(b"right_child", np.int64)[:inner],
                value=value,
                gain=numbers(b"split_gain", np.float64)[:inner],
                also_used=numbers(b"leaf_features", np.int64) if linear else np.zeros(0, np.int64),
                sets=numbers(b"cat_threshold", np.uint32),
                set_sizes=np.diff(numbers(b"cat_boundaries", np.int64)),
            )
        )
    start = read_start(text)
    return _joined(trees, why_not, n_features, Curves.of(list(start.items())) if start else None)


def _xgboost(body: bytes, n_features: int) -> Trees:
    booster = json.loads(body)["learner"]["gradient_booster"]
    weights: Iterable[float] | None = tree_weights(booster)
    model = (booster.get("gbtree") or booster)["model"]
    trees = []
    for told, weight in zip(model["trees"], weights or [1.0] * len(model["trees"]), strict=True):
        left, right = np.array(told["left_children"]), np.array(told["right_children"])
        condition = np.array(told["split_conditions"], dtype=np.float64).astype(np.float32)
        leaf = left < 0
        # Places of the nodes among the nodes, and of the leaves among the leaves.
        place = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(~leaf) - 1)
        inner = ~leaf
        # What pruning took away stays in the list as leaves that no node leads to.
        reached = np.zeros(leaf.size, dtype=bool)
        reached[np.concatenate([[0], left[inner], right[inner]])] = True
        # Left is value < condition in float32: value <= the float32 below. Nothing is below -inf, or equal to NaN.
        below = np.nextafter(condition[inner], np.float32(-np.inf)).astype(np.float64)
        number, sets = _sets_of(told, leaf.size)
        categorical = number[inner] >= 0
        kind = np.where(np.array(told["default_left"])[inner], NAN_LEFT, 0)
        trees.append(
            _Tree(
                feature=np.array(told["split_indices"])[inner],
                threshold=np.where(categorical, number[inner], np.where(np.isneginf(condition[inner]), np.nan, below)),
                kind=(kind | np.where(categorical, CATEGORICAL | LISTED_RIGHT, 0)).astype(np.uint8),
                left=place[left[inner]],
                right=place[right[inner]],
                value=np.where(reached, condition * np.float32(weight), 0.0)[leaf].astype(np.float64),
                gain=np.array(told["loss_changes"], dtype=np.float64)[inner],
                also_used=np.zeros(0, np.int64),
                sets=np.concatenate([np.zeros(0, np.uint32), *sets]),
                set_sizes=np.array([one.size for one in sets], np.int64),
            )
        )
    return _joined(trees, "", n_features)


def _sets_of(told: Mapping[str, Any], nodes: int) -> tuple[Int64Array, list[npt.NDArray[np.uint32]]]:
    """The set of each node of an XGBoost tree, -1 without one; and the sets as bits."""
    number = np.full(nodes, -1, np.int64)
    owners = np.array(told.get("categories_nodes") or [], np.int64)
    number[owners] = np.arange(owners.size)
    listed = np.array(told.get("categories") or [], np.int64)
    sets = []
    for begin, size in zip(told.get("categories_segments") or [], told.get("categories_sizes") or [], strict=True):
        mine = listed[begin : begin + size]
        bits = np.zeros((int(mine.max()) // 32 + 1) * 32, np.uint8)
        bits[mine] = 1
        sets.append(np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32))
    return number, sets


def _joined(trees: list[_Tree], why_not: str, n_features: int, start: Curves | None = None) -> Trees:
    def all_of(name: str, kind: Any) -> npt.NDArray[Any]:
        return np.concatenate([np.zeros(0), *(getattr(t, name) for t in trees)]).astype(kind)

    nodes, leaves = np.array([[t.feature.size, t.value.size] for t in trees], np.int64).reshape(-1, 2).T
    first_node, first_leaf = np.cumsum(nodes) - nodes, np.cumsum(leaves) - leaves
    tree = np.repeat(np.arange(len(trees)), nodes)

    def shifted(name: str) -> npt.NDArray[np.int32]:
        child = all_of(name, np.int64)
        return np.asarray(np.where(child >= 0, child + first_node[tree], child - first_leaf[tree]), dtype=np.int32)

    feature, gain = all_of("feature", np.int32), all_of("gain", np.float64)
    kind, threshold, sizes = all_of("kind", np.uint8), all_of("threshold", np.float64), all_of("set_sizes", np.int64)
    sets = np.array([t.set_sizes.size for t in trees], np.int64)
    threshold += np.where(kind & CATEGORICAL, (np.cumsum(sets) - sets)[tree], 0)
    # The engines do not count splits without gain (those that were forced).
    counted = gain > 0.0
    forest = Forest(
        feature=feature,
        threshold=threshold,
        kind=kind,
        left=shifted("left"),
        right=shifted("right"),
        value=all_of("value", np.float64),
        roots=np.where(nodes > 0, first_node, ~first_leaf).astype(np.int32),
        tree=tree.astype(np.int32),
        sets=all_of("sets", np.uint32),
        set_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        start=start,
    )
    started = np.zeros(0, np.int64) if start is None else start.feature
    return Trees(
        forest=None if why_not else forest,
        why_not=why_not,
        count=len(trees),
        gain=np.bincount(feature[counted], gain[counted], n_features).astype(np.float64),
        splits=np.bincount(feature[counted], minlength=n_features).astype(np.int64),
        used=np.unique(np.concatenate([feature, started, all_of("also_used", np.int32)])).astype(np.int64),
    )
