"""XGBoost's model JSON, with its checks, its trees and the merging of models.

XGBoost's loader follows node numbers, tree numbers and category offsets without bounds checks, so files are checked
first. The checks accept the files of XGBoost 1.6 to 3.x.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.engines.trees import (
    MAX_DEPTH,
    Leaves,
    ModelFormat,
    ServedTrees,
    Trees,
    depths,
    filled_start,
    parts_of,
    read_json,
    reals,
    refuse,
    sum_of_starts,
    write_json,
)
from boostrank.engines.xgboost.model_json import ATTRIBUTE, read_start, start_trees, write_start
from boostrank.kernels.curves import Curve, Curves
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, Forest

_INT32_MAX = 2**31 - 1
_FLOAT32_MAX = float(np.finfo(np.float32).max)

# XGBoost stores the categories of a split as bits up to the highest one; these limits bound its memory.
_MAX_CATEGORY, _MAX_CATEGORY_BITS = 2**24, 2**33
# Each feature takes memory, even if the file does not name it.
_MOST_UNNAMED = 2**24
# Objectives that predict exponentials of scores.
_LOGARITHMIC = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_NO_PARENT = (-1, _INT32_MAX)  # the root's parent: -1, or -1 without its sign bit
_DELETED = _INT32_MAX  # split index of a pruned node
# XGBoost's numbers of the types of categories (Value::ValueKind).
_REAL_TYPES = (7, 8)
_WHOLE_TYPES: dict[int, Any] = dict(enumerate(map(np.dtype, "bBhHiIqQ"), 9))  # int8, uint8, ..., uint64


@dataclass(frozen=True, eq=False)
class XGBoostModel:
    """A checked model JSON.

    Args:
        forest: part of the document with the trees.
        weights: float64[T], weight of each tree; None if all are 1.
    """

    document: dict[str, Any]
    forest: dict[str, Any]
    weights: Float64Array | None

    @cached_property
    def start_trees(self) -> int:
        """The number of leading trees that form a linear start."""
        return int(self.document["learner"]["attributes"].get(ATTRIBUTE, 0))

    @property
    def start(self) -> dict[int, Curve]:
        """The functions of the linear start, by feature."""
        return read_start(self.forest["trees"][: self.start_trees])

    @property
    def ends(self) -> list[int]:
        """The number of grown trees after each round, which starts with 0."""
        ends = self.forest.get("iteration_indptr") or list(range(len(self.forest["trees"]) + 1))
        return [end - self.start_trees for end in ends[self.start_trees :]]

    def with_trees(self, start: Mapping[int, Curve], grown: Sequence[Mapping[str, Any]], ends: Sequence[int]) -> bytes:
        """Return the file with another linear start and other grown trees."""
        learner = self.document["learner"]
        first = write_start(start, int(learner["learner_model_param"]["num_feature"]))
        trees = [dict(tree) | {"id": i} for i, tree in enumerate([*first, *grown])]
        forest = self.forest | {
            "trees": trees,
            "tree_info": [0] * len(trees),
            "iteration_indptr": [*range(len(first)), *(end + len(first) for end in ends)],
            "gbtree_model_param": self.forest["gbtree_model_param"] | {"num_trees": str(len(trees))},
        }
        changed = {
            "gradient_booster": learner["gradient_booster"] | {"model": forest},
            "attributes": {ATTRIBUTE: str(len(first))} if first else {},
        }
        return write_json(self.document | {"learner": learner | changed})


class XGBoostFormat(ModelFormat):
    """The format of XGBoost's JSON models."""

    name = "xgboost"
    title = "XGBoost's JSON"

    def recognises(self, body: bytes) -> bool:
        return re.match(rb'\{\s*"(learner|version)"', body) is not None and b'"learner"' in body

    def parse(self, body: bytes) -> XGBoostModel:
        refuse(not body.startswith(b"{"), "this is not an XGBoost JSON model: it must begin with '{'")
        refuse(body[1:2].isalpha(), "this is XGBoost's binary UBJSON: save it under a name that ends in .json")
        model = read_json(body)
        _integers(_get(model, "version", list), "version", 0, _INT32_MAX, length=3)
        learner = _get(model, "learner", dict)
        n_features = _check_learner(learner)
        booster = _get(learner, "gradient_booster", dict, "learner")
        name = _get(booster, "name", str, "gradient_booster")
        if name == "dart":
            _get(booster, "weight_drop", list, "dart")
            forest = _get(_get(booster, "gbtree", dict, "gradient_booster"), "model", dict, "gbtree")
        elif name == "gbtree":
            forest = _get(booster, "model", dict, "gradient_booster")
        else:
            raise ModelError(f"the booster is {name[:40]!r}: only tree models (gbtree, dart) are supported")
        largest = _check_forest(forest, n_features)
        weights = tree_weights(booster)
        claimed, rounds = learner["attributes"].get(ATTRIBUTE, "0"), forest.get("iteration_indptr")
        there = start_trees(forest["trees"]) if weights is None else 0
        if claimed not in ("0", str(there)):
            raise ModelError(f"{ATTRIBUTE} claims {claimed[:40]!r} trees of a linear start, but the file has {there}")
        if claimed != "0" and rounds and rounds[: there + 1] != list(range(there + 1)):
            raise ModelError(f"iteration_indptr does not count each of the {there} trees of a linear start as a round")
        weights = None if weights is None else reals(weights, "weight_drop", len(forest["trees"]), largest=_FLOAT32_MAX)
        with np.errstate(over="ignore"):
            total = float(np.sum(largest if weights is None else largest * np.abs(weights)))
        refuse(not total + abs(_base(learner)) <= _FLOAT32_MAX, "its leaves add up to more than the largest float32")
        return XGBoostModel(model, forest, weights)

    def trees(self, model: XGBoostModel, n_features: int) -> Trees:
        curves = model.start
        grown = _served(model, model.start_trees)
        forest = replace(grown.forest, start=Curves.of(list(curves.items())) if curves else None)
        trees = model.forest["trees"][model.start_trees :]
        gain = _column(trees, "loss_changes", np.float64)[_column(trees, "left_children", np.int64) >= 0]
        return Trees.of(forest, gain, n_features)

    def served(self, model: XGBoostModel) -> ServedTrees:
        return _served(model, 0)

    def merge(self, models: Sequence[XGBoostModel], weights: Sequence[float] | None = None) -> bytes:
        if any(model.weights is not None for model in models):
            raise ModelError("dart weights its trees, so its models cannot be averaged")
        starts = {model.document["learner"]["learner_model_param"]["base_score"] for model in models}
        if len(starts) > 1:
            raise ParameterError(f"the models have different base scores: {', '.join(sorted(starts))}")
        trees, ends = [], [0]
        for model, parts in zip(models, parts_of(len(models), weights), strict=True):
            trees += [_divided(tree, parts) for tree in model.forest["trees"][model.start_trees :]]
            ends += [ends[-1] + end for end in model.ends[1:]]
        return models[0].with_trees(sum_of_starts([model.start for model in models], weights), trees, ends)

    def filled(self, body: bytes, values: Float64Array) -> bytes:
        model = self.parse(body)
        trees = model.forest["trees"]
        start = write_start(filled_start(model.start, values), values.size)
        trees[: len(start)] = [dict(tree) | {"id": i} for i, tree in enumerate(start)]
        for tree in trees[len(start) :]:
            categorical = set(tree.get("categories_nodes", ()))
            for node, feature in enumerate(tree["split_indices"]):
                if tree["left_children"][node] >= 0 and node not in categorical and not np.isnan(values[feature]):
                    left = np.float32(values[feature]) < np.float32(tree["split_conditions"][node])
                    tree["default_left"][node] = int(left)
        return write_json(model.document)

    def leaf_values(self, model: XGBoostModel) -> list[Float64Array]:
        # XGBoost numbers leaves as nodes; thresholds stay where they are.
        return [np.array(tree["split_conditions"], np.float64) for tree in model.forest["trees"][model.start_trees :]]

    def with_leaves(
        self, model: XGBoostModel, values: Sequence[Float64Array], start: Mapping[int, Curve] | None = None
    ) -> bytes:
        trees = []
        for tree, leaves in zip(model.forest["trees"][model.start_trees :], values, strict=True):
            is_leaf = np.array(tree["left_children"]) < 0
            conditions = np.where(is_leaf, leaves.astype(np.float32), tree["split_conditions"])
            trees.append({**tree, "split_conditions": conditions.tolist()})
        return model.with_trees(model.start if start is None else start, trees, model.ends)

    def widened(self, body: bytes, columns: Sequence[int], names: Sequence[str]) -> bytes:
        document = json.loads(body)
        learner = document["learner"]
        learner["feature_names"] = list(names)
        learner["feature_types"] = ["float"] * len(names) if learner["feature_types"] else []
        learner["learner_model_param"]["num_feature"] = str(len(names))
        booster = learner["gradient_booster"]
        for tree in booster.get("gbtree", booster)["model"]["trees"]:
            tree["tree_param"]["num_feature"] = str(len(names))
            pairs = zip(tree["split_indices"], tree["left_children"], strict=True)
            tree["split_indices"] = [columns[at] if left >= 0 else at for at, left in pairs]
        return write_json(document)


XGBOOST = XGBoostFormat()


def _served(model: XGBoostModel, begin: int) -> ServedTrees:
    """Return the trees whose number is at least `begin`."""
    trees = model.forest["trees"][begin:]
    size = np.array([len(tree["left_children"]) for tree in trees], np.int64)
    first, tree = np.cumsum(size) - size, np.repeat(np.arange(size.size), size)
    left, right = (_column(trees, key, np.int64) for key in ("left_children", "right_children"))
    inner = left >= 0
    left, right = (child[inner] + first[tree[inner]] for child in (left, right))
    # Pruned nodes stay in the list as leaves without a parent.
    leaf = np.zeros(inner.size, dtype=bool)
    leaf[np.concatenate([first, left, right])] = True
    leaf &= ~inner
    # Numbers of nodes among nodes, and of leaves among leaves.
    place = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(inner) - 1).astype(np.int32)
    with np.errstate(over="ignore"):
        condition = _column(trees, "split_conditions", np.float64).astype(np.float32)
        # Left is value < condition in float32: value <= the float32 below. No value is below -inf or equal to NaN.
        below = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
    below[np.isneginf(condition)] = np.nan
    owners, sets, set_ptr = _sets_of(trees, first)
    categorical = np.zeros(inner.size, dtype=bool)
    categorical[owners] = True
    below[owners] = np.arange(owners.size)
    nan_left = np.where(_column(trees, "default_left", np.int64), NAN_LEFT, 0)
    weight = np.ones(size.size) if model.weights is None else model.weights[begin:]
    forest = Forest(
        feature=_column(trees, "split_indices", np.int64)[inner].astype(np.int32),
        threshold=below[inner],
        kind=(nan_left | np.where(categorical, CATEGORICAL | LISTED_RIGHT, 0))[inner].astype(np.uint8),
        left=place[left],
        right=place[right],
        value=(condition * weight.astype(np.float32)[tree])[leaf].astype(np.float64),
        roots=place[first],
        tree=tree[inner].astype(np.int32),
        sets=sets,
        set_ptr=set_ptr,
    )
    hessian = _column(trees, "sum_hessian", np.float64)
    return ServedTrees(forest, hessian[inner], hessian[leaf], base=_base(model.document["learner"]), single=True)


def _base(learner: Mapping[str, Any]) -> float:
    """Return the base score as a raw score, because the file stores a prediction, which some objectives transform."""
    text = learner["learner_model_param"]["base_score"].removeprefix("[").removesuffix("]")
    base = np.float32(float(text))
    with np.errstate(all="ignore"):
        if learner["objective"]["name"] in ("binary:logistic", "reg:logistic"):
            base = np.float32(-np.log(np.float64(np.float32(1.0) / base - np.float32(1.0))))
        elif learner["objective"]["name"] in _LOGARITHMIC:
            base = np.float32(np.log(np.float64(base)))
    if not np.isfinite(base):
        raise ModelError(f"base_score {text[:40]} is not a prediction of {learner['objective']['name'][:40]}")
    return float(base)


def _column(trees: Sequence[Mapping[str, Any]], key: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(np.array(tree[key], dtype) for tree in trees)])


def tree_weights(booster: Mapping[str, Any]) -> Any:
    """Return DART's weights of the trees in a `gradient_booster`, or None if it has no weights.

    XGBoost up to 3.2 stores them in a booster "dart" around the "gbtree", 3.3 stores them in the "gbtree" itself, and
    later versions store them next to its trees.
    """
    forest = booster.get("model")
    return booster.get("weight_drop", forest.get("weight_drop") if isinstance(forest, dict) else None)


def with_even_leaves(body: bytes) -> bytes | None:
    """Round the leaves and the base score of an unchecked file that XGBoost wrote, as `Leaves.in_units` does.

    Return None if scores are not the sum of base and leaves, or if rounding would matter.
    """
    document = json.loads(body)
    learner = document["learner"]
    param, booster = learner["learner_model_param"], learner["gradient_booster"]
    base = param["base_score"].strip("[]")
    if booster["name"] != "gbtree" or tree_weights(booster) is not None or _base(learner) != np.float32(float(base)):
        return None
    trees = booster["model"]["trees"]
    inner = _column(trees, "left_children", np.int64) >= 0
    leaf = ~inner & (_column(trees, "split_indices", np.int64) != _DELETED)
    tree = np.repeat(np.arange(len(trees)), [len(tree["left_children"]) for tree in trees])
    conditions = _column(trees, "split_conditions", np.float64)
    even = Leaves(tree[leaf], conditions[leaf], _column(trees, "sum_hessian", np.float64)[leaf], float(base)).in_units()
    if even is None:
        return None
    conditions[leaf] = even.value
    ends = np.cumsum([len(tree["left_children"]) for tree in trees])
    for one, part in zip(trees, np.split(conditions, ends[:-1]), strict=True):
        one["split_conditions"] = part.tolist()
    param["base_score"] = param["base_score"].replace(base, repr(even.base))
    return write_json(document)


def _divided(tree: Mapping[str, Any], parts: float) -> dict[str, Any]:
    leaf = np.array(tree["left_children"]) < 0
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    condition[leaf] /= parts
    return dict(tree) | {
        "split_conditions": condition.astype(np.float32).astype(np.float64).tolist(),
        "base_weights": (np.array(tree["base_weights"], dtype=np.float64) / parts).tolist(),
    }


def _sets_of(trees: list[Any], first: Int64Array) -> tuple[Int64Array, npt.NDArray[np.uint32], Int64Array]:
    """Return the nodes with categorical splits, their category sets as bits, and the start of each set."""
    having = [(tree, begin) for tree, begin in zip(trees, first, strict=True) if "split_type" in tree]
    nothing = np.zeros(0, np.int64)
    owners = np.concatenate([nothing, *(np.array(tree["categories_nodes"], np.int64) + at for tree, at in having)])
    listed, sizes = (_column([tree for tree, _ in having], f"categories{of}", np.int64) for of in ("", "_sizes"))
    highest = np.maximum.reduceat(listed, np.cumsum(sizes) - sizes) if sizes.size else nothing
    set_ptr = np.concatenate([[0], np.cumsum(highest // 32 + 1)]).astype(np.int64)
    # Sets reach only up to their highest category, to save memory.
    sets, word = np.zeros(set_ptr[-1], np.uint32), np.repeat(set_ptr[:-1], sizes) + listed // 32
    np.bitwise_or.at(sets, word, np.uint32(1) << (listed % 32).astype(np.uint32))
    return owners, sets, set_ptr


def _get(owner: Mapping[str, Any], key: str, kind: type, where: str = "the model") -> Any:
    value = owner.get(key)
    if not isinstance(value, kind):
        found = "nothing" if value is None else type(value).__name__
        raise ModelError(f"{where}: {key!r} must be a {kind.__name__}, but found {found}")
    return value


def _number(owner: Mapping[str, Any], key: str, where: str, low: int, high: int = _INT32_MAX) -> int:
    """Return an integer that XGBoost writes as text."""
    text = _get(owner, key, str, where)
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high):
        raise ModelError(f"{where}: {key} is {text[:40]!r}, not a whole number from {low} to {high}")
    return int(text)


def _integers(
    values: Any, what: str, low: int, high: int, length: int | None = None, kinds: Set[type] = frozenset({int})
) -> Int64Array:
    """Return int64[length] from a list of JSON integers."""
    if not isinstance(values, list) or (length is not None and len(values) != length):
        count = len(values) if isinstance(values, list) else "no"
        raise ModelError(f"{what} has {count} entries, but needs {'a list' if length is None else length}")
    refuse(not set(map(type, values)) <= kinds, f"{what} has an entry that is not a whole number")
    if values and not low <= min(values) <= max(values) <= high:
        raise ModelError(f"{what} has an entry outside {low} to {high}")
    return np.array(values, dtype=np.int64)


def _strings(values: Any, what: str, lengths: tuple[int, ...]) -> None:
    if not isinstance(values, list) or len(values) not in lengths or not set(map(type, values)) <= {str}:
        raise ModelError(f"{what} must be a list of {lengths[-1]} words")


def _check_learner(learner: Mapping[str, Any]) -> int:
    """Check everything except the trees, and return the number of features."""
    param = _get(learner, "learner_model_param", dict, "learner")
    n_features = _number(param, "num_feature", "learner_model_param", 1)
    classes = _number(param, "num_class", "learner_model_param", 0)
    targets = _number(param, "num_target", "learner_model_param", 0) if "num_target" in param else 1
    refuse(max(classes, targets) > 1, f"the model has {max(classes, targets)} outputs per document: it is not a ranker")
    base_score = _get(param, "base_score", str, "learner_model_param")
    try:  # a number up to XGBoost 3.0, a list of one number since
        start = float(base_score.removeprefix("[").removesuffix("]"))
    except ValueError:
        start = math.nan
    refuse(not abs(start) <= _FLOAT32_MAX, f"base_score is {base_score[:40]!r}, not a finite number")
    _get(_get(learner, "objective", dict, "learner"), "name", str, "objective")
    _strings(list(_get(learner, "attributes", dict, "learner").values()), "attributes", (len(learner["attributes"]),))
    for key in ("feature_names", "feature_types"):
        _strings(learner.get(key, []), key, (0, n_features))
    if n_features > _MOST_UNNAMED and not learner.get("feature_names"):
        words = f"num_feature is {n_features:,} but the file has no feature names"
        raise ModelError(f"{words}; without names at most {_MOST_UNNAMED:,} are accepted")
    return n_features


def _check_forest(forest: Mapping[str, Any], n_features: int) -> Float64Array:
    """Check the trees and their counts, and return the largest leaf magnitude of each."""
    trees = _get(forest, "trees", list, "gbtree")
    param = _get(forest, "gbtree_model_param", dict, "gbtree")
    if _number(param, "num_trees", "gbtree_model_param", 0) != len(trees):
        raise ModelError(f"num_trees is {param['num_trees']}, but the file has {len(trees)} trees: it is damaged")
    if "num_parallel_tree" in param:
        _number(param, "num_parallel_tree", "gbtree_model_param", 0)
    _integers(forest.get("tree_info"), "tree_info", 0, 0, len(trees))
    if "iteration_indptr" in forest:
        ends = _integers(forest["iteration_indptr"], "iteration_indptr", 0, len(trees))
        if not ends.size or ends[0] != 0 or ends[-1] != len(trees) or bool(np.any(np.diff(ends) < 0)):
            raise ModelError(f"iteration_indptr does not divide {len(trees)} trees into rounds")
    bits, largest = 0, np.zeros(len(trees))
    for number, tree in enumerate(trees):
        where = f"tree {number}"
        refuse(not isinstance(tree, dict), f"{where} is not an object")
        # The loader places trees by id: each place must be filled once.
        if tree.get("id") != number or isinstance(tree["id"], bool):
            raise ModelError(f"{where} has id {str(tree.get('id'))[:40]}: trees must be numbered in order")
        taken, largest[number] = _check_tree(tree, n_features, where)
        bits += taken
    refuse(bits > _MAX_CATEGORY_BITS, f"the categorical splits would need {bits / 2**33:.1f} GiB")
    if "cats" in forest:
        _check_category_names(_get(forest, "cats", dict, "gbtree"), n_features)
    return largest


def _check_tree(tree: dict[str, Any], n_features: int, where: str) -> tuple[int, float]:
    """Check a tree, and return the number of bits of its categorical splits and its largest leaf magnitude."""
    param = _get(tree, "tree_param", dict, where)
    left_children = _get(tree, "left_children", list, where)
    n = _number(param, "num_nodes", where, 1)
    refuse(n != len(left_children), f"{where}: num_nodes is {n}, but left_children has {len(left_children)} entries")
    if _number(param, "num_feature", where, 0) not in (0, n_features):
        raise ModelError(f"{where}: num_feature is {param['num_feature']}, but the model has {n_features} features")
    _number(param, "size_leaf_vector", where, 0, 1)

    limits = {"left_children": (-1, n - 1), "right_children": (-1, n - 1)}
    limits |= {"parents": (-1, _INT32_MAX), "split_indices": (0, _INT32_MAX)}
    left, right, parents, feature = (_integers(tree.get(key), f"{where}: {key}", *of, n) for key, of in limits.items())
    # Booleans up to XGBoost 1.
    default_left = _integers(tree.get("default_left"), f"{where}: default_left", 0, 1, n, {int, bool})
    condition = reals(tree.get("split_conditions"), f"{where}: split_conditions", n)
    for key in ("base_weights", "loss_changes", "sum_hessian"):
        reals(tree.get(key), f"{where}: {key}", n)

    # Count the deleted nodes, then check children, features and structure of the others.
    leaf = left == -1
    deleted = leaf & (feature == _DELETED) & (default_left == 1)
    alive = ~deleted
    if deleted[0] or int(deleted.sum()) != _number(param, "num_deleted", where, 0):
        raise ModelError(f"{where}: num_deleted is not the number of deleted nodes")
    refuse(leaf != (right == -1), f"{where}: a node has one child")
    refuse(feature[alive] >= n_features, f"{where}: splits by a feature that the model does not have")
    _check_shape(left, right, parents, alive, where)
    most, by_set = 0, np.zeros(n, dtype=bool)
    if "split_type" in tree:
        most = _check_categorical_splits(tree, n, leaf, where)
        by_set[tree["categories_nodes"]] = True
    # XGBoost itself writes infinity only where missing values, and nothing else, go right, or -inf
    # where they go left. Before XGBoost 3.1 the threshold of a categorical split is NaN.
    with np.errstate(over="ignore"):
        single = condition.astype(np.float32)
    wrong = ~np.isfinite(single) & alive & ~by_set
    fault = f"{where}: split_conditions has a"
    refuse(wrong & leaf, f"{fault} leaf value that is not finite")
    wrong &= single != np.where(default_left, -np.inf, np.inf)
    refuse(wrong & ~leaf, f"{fault} threshold that is not finite")
    size = np.abs(condition[alive & leaf])
    return most, float(size.max())


def _check_shape(
    left: Int64Array, right: Int64Array, parents: Int64Array, alive: npt.NDArray[np.bool_], where: str
) -> None:
    """Check that every live node except the root has exactly one parent and can be reached from the root."""
    n = left.size
    inner = np.flatnonzero(left != -1)
    child = np.concatenate([left[inner], right[inner]])
    seen = np.bincount(child, minlength=n)
    seen[0] += 1
    refuse(seen != alive, f"{where}: a node has no parent or two parents")
    if parents[0] not in _NO_PARENT or bool(np.any((parents[1:] < 0) | (parents[1:] >= n))):
        raise ModelError(f"{where}: a parent is out of range")
    above = np.where(alive, parents, 0)
    above[0] = 0
    refuse(above[child] != np.tile(inner, 2), f"{where}: parents and children do not agree")
    depth = depths(above)
    refuse(depth < 0, f"{where}: its nodes form a cycle")
    refuse(int(depth.max()) >= MAX_DEPTH, f"{where}: it is deeper than {MAX_DEPTH} nodes")
    refuse(right[inner] != left[inner] + 1, f"{where}: a right child is not next to the left one, as XGBoost requires")


def _check_categorical_splits(tree: dict[str, Any], n: int, leaf: npt.NDArray[np.bool_], where: str) -> int:
    """Check the categorical splits, and return the number of bits that they take.

    The split of node nodes[i] has the categories categories[segments[i] : segments[i] + sizes[i]].
    """
    split_type = _integers(tree.get("split_type"), f"{where}: split_type", 0, 1, n)
    categories = _integers(tree.get("categories"), f"{where}: categories", 0, _MAX_CATEGORY)
    nodes = _integers(tree.get("categories_nodes"), f"{where}: categories_nodes", 0, n - 1)
    starts = _integers(tree.get("categories_segments"), f"{where}: categories_segments", 0, categories.size, nodes.size)
    sizes = _integers(tree.get("categories_sizes"), f"{where}: categories_sizes", 1, categories.size, nodes.size)
    expected = np.flatnonzero(split_type)
    if not np.array_equal(nodes, expected) or bool(leaf[expected].any()):
        raise ModelError(f"{where}: categories_nodes are not the nodes with a categorical split")
    if not np.array_equal(starts, np.cumsum(sizes) - sizes) or int(sizes.sum()) != categories.size:
        raise ModelError(f"{where}: the sets of categories do not fit the list of categories")
    return int(np.maximum.reduceat(categories, starts).sum())


def _check_category_names(cats: Mapping[str, Any], n_features: int) -> None:
    """Check the categories of each column and their sorted order, which XGBoost has written since version 3.1."""
    columns = _get(cats, "enc", list, "cats")
    refuse(len(columns) not in (0, n_features), f"cats describe {len(columns)} columns, but the model has {n_features}")
    counts = [_count_categories(column, f"cats of column {i}") for i, column in enumerate(columns)]
    order = _integers(cats.get("sorted_idx"), "cats: sorted_idx", 0, max(counts, default=0))
    ends = _integers(cats.get("feature_segments"), "cats: feature_segments", 0, order.size)
    if ends.size or counts:
        if not np.array_equal(ends, np.cumsum([0, *counts])) or int(ends[-1]) != order.size:
            raise ModelError("cats: feature_segments do not fit the columns")
        if any(not np.array_equal(np.sort(order[a:b]), np.arange(b - a)) for a, b in itertools.pairwise(ends)):
            raise ModelError("cats: sorted_idx is not an order of the categories")
    elif order.size:
        raise ModelError("cats: sorted_idx without columns")


def _count_categories(column: Any, where: str) -> int:
    refuse(not isinstance(column, dict), f"{where} must be an object")
    values = column.get("values")
    if "offsets" in column:
        ends = _integers(column["offsets"], f"{where}: offsets", 0, _INT32_MAX)
        text = _integers(values, f"{where}: values", -128, 255)
        if ends.size and (ends[0] != 0 or ends[-1] != text.size or bool(np.any(np.diff(ends) < 0))):
            raise ModelError(f"{where}: offsets do not fit the text")
        return max(0, ends.size - 1)
    kind = column.get("type")
    if not isinstance(kind, int) or not isinstance(values, list) or kind not in (*_REAL_TYPES, *_WHOLE_TYPES):
        raise ModelError(f"{where} have no known type")
    if kind in _REAL_TYPES:
        reals(values, f"{where}: values", len(values))
    else:
        limits = np.iinfo(_WHOLE_TYPES[kind])
        _integers(values, f"{where}: values", int(limits.min), min(int(limits.max), 2**63 - 1))
    return len(values)
