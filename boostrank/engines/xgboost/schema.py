"""The schema of XGBoost's model JSON, and the checks of what no schema can say.

XGBoost's loader follows node numbers, tree numbers and category offsets without bounds checks, so
files are checked first. The checks accept the files of XGBoost 1.6 to 3.x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert

from boostrank.core.errors import ModelError
from boostrank.core.types import BoolArray, Float64Array, Int64Array
from boostrank.engines.trees import MAX_DEPTH, depths, refuse

INT32_MAX = 2**31 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)
DELETED = INT32_MAX
"""The split index of a pruned node."""
# XGBoost stores the categories of a split as bits up to the highest one; these limits bound its
# memory.
_MAX_CATEGORY, _MAX_CATEGORY_BITS = 2**24, 2**33
# Each feature takes memory, even if the file does not name it.
_MOST_UNNAMED = 2**24
_NODE_LISTS = (
    "right_children parents split_indices default_left split_conditions base_weights loss_changes"
    " sum_hessian"
).split()
_NO_PARENT = (-1, INT32_MAX)  # the root's parent: -1, or -1 without its sign bit

Bit = Annotated[int, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0, le=INT32_MAX)]
NodeOrNone = Annotated[int, Meta(ge=-1, le=INT32_MAX)]
Category = Annotated[int, Meta(ge=0, le=_MAX_CATEGORY)]
Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,9}\Z")]
"""A whole number, which XGBoost writes as text."""
OneAtMost = Literal["0", "1"]


class TreeParam(Struct):
    """The sizes of a tree. XGBoost writes numbers as texts."""

    num_nodes: Digits
    num_feature: Digits
    num_deleted: Digits
    size_leaf_vector: OneAtMost


class Tree(Struct):
    """A tree, whose lists have an entry for each node, except for the sets of categories."""

    id: Whole
    tree_param: TreeParam
    left_children: list[NodeOrNone]
    right_children: list[NodeOrNone]
    parents: list[NodeOrNone]
    split_indices: list[Whole]
    default_left: list[bool | Bit]  # bool up to XGBoost 1
    split_conditions: list[float]
    base_weights: list[float]
    loss_changes: list[float]
    sum_hessian: list[float]
    split_type: list[Bit] | UnsetType = UNSET
    categories: list[Category] | UnsetType = UNSET
    categories_nodes: list[Whole] | UnsetType = UNSET
    categories_segments: list[Whole] | UnsetType = UNSET
    categories_sizes: list[Annotated[int, Meta(ge=1, le=INT32_MAX)]] | UnsetType = UNSET


class CategoryNames(Struct):
    """The categories of a column: text, which ends at the offsets, or numbers of a type."""

    values: list[int | float]
    offsets: list[Whole] | UnsetType = UNSET
    type: int = 0


class Categories(Struct):
    """The categories of each column and their sorted order, which XGBoost has written since version
    3.1.
    """

    enc: list[CategoryNames]
    sorted_idx: list[Whole]
    feature_segments: list[Whole]


class ForestParam(Struct):
    """The number of trees in a model."""

    num_trees: Digits
    num_parallel_tree: OneAtMost = "1"


class Forest(Struct):
    """The trees of a model, and where each round begins."""

    trees: list[Tree]
    gbtree_model_param: ForestParam
    tree_info: list[Literal[0]]
    iteration_indptr: list[Whole] | UnsetType = UNSET
    cats: Categories | UnsetType = UNSET
    weight_drop: UnsetType = UNSET


class GBTree(Struct, tag_field="name", tag="gbtree"):
    """The booster `gbtree`. Weights of trees make a dart model of XGBoost 3.3 and later."""

    model: Forest
    weight_drop: UnsetType = UNSET


class LearnerParam(Struct):
    """The number of features and outputs of a model, and the score that trees start from."""

    num_feature: Digits
    num_class: OneAtMost
    base_score: str
    num_target: OneAtMost = "1"


class Named(Struct):
    """An objective, of which only the name is read."""

    name: str


class Learner(Struct):
    """The booster of a model, its objective, attributes and features."""

    learner_model_param: LearnerParam
    gradient_booster: GBTree
    objective: Named
    attributes: dict[str, str]
    feature_names: list[str] = []
    feature_types: list[str] = []


class Model(Struct):
    """The whole file: XGBoost's version and the learner."""

    version: Annotated[list[Whole], Meta(min_length=3, max_length=3)]
    learner: Learner


def largest_leaves(document: Any) -> Float64Array:
    """Return the largest magnitude of a leaf in each tree, or raise `ModelError` if XGBoost cannot
    load the file.
    """
    try:
        learner = convert(document, Model).learner
    except (ValidationError, UnicodeEncodeError) as error:  # a lone surrogate
        raise ModelError(
            "this is no model of XGBoost that boostrank reads (gbtree, not dart or gblinear; one"
            f" score per document; one tree per round): {str(error)[:300]}"
        ) from None
    return _check_forest(learner.gradient_booster.model, _check_learner(learner))


def _check_learner(learner: Learner) -> int:
    """Check everything except the trees, and return the number of features."""
    param = learner.learner_model_param
    n_features = int(param.num_feature)
    refuse(n_features < 1, "num_feature is 0")
    try:  # a number up to XGBoost 3.0, a list of one number since
        base_score = float(param.base_score.removeprefix("[").removesuffix("]"))
    except ValueError:
        base_score = math.nan
    refuse(
        not abs(base_score) <= FLOAT32_MAX,
        f"base_score is {param.base_score[:40]!r}, not a finite number",
    )
    for name in ("feature_names", "feature_types"):
        n_names = len(getattr(learner, name))
        refuse(
            n_names not in (0, n_features), f"{name} has {n_names} words for {n_features} features"
        )
    refuse(
        n_features > _MOST_UNNAMED and not learner.feature_names,
        f"num_feature is {n_features:,} but the file has no feature names; without names at most"
        f" {_MOST_UNNAMED:,} are accepted",
    )
    return n_features


def _check_forest(forest: Forest, n_features: int) -> Float64Array:
    """Check the trees and their counts, and return the largest leaf magnitude of each."""
    n_trees, num_trees = len(forest.trees), forest.gbtree_model_param.num_trees
    refuse(
        int(num_trees) != n_trees,
        f"num_trees is {num_trees}, but the file has {n_trees} trees: it is damaged",
    )
    _check_length(forest, "tree_info", n_trees, "the forest")
    refuse(
        forest.iteration_indptr not in (UNSET, list(range(n_trees + 1))),
        f"iteration_indptr does not divide {n_trees} trees into rounds of one tree",
    )
    n_bits, largest_leaf = 0, np.zeros(n_trees)
    for number, tree in enumerate(forest.trees):
        # The loader places trees by id: each place must be filled once.
        refuse(
            tree.id != number, f"tree {number} has id {tree.id}: trees must be numbered in order"
        )
        largest_leaf[number] = _check_tree(tree, n_features, f"tree {number}")
        n_bits += _check_categorical_splits(tree, f"tree {number}")
    refuse(
        n_bits > _MAX_CATEGORY_BITS, f"the categorical splits would need {n_bits / 2**33:.1f} GiB"
    )
    if forest.cats is not UNSET:
        _check_category_names(forest.cats, n_features)
    return largest_leaf


def _check_length(owner: Struct, name: str, length: int, location: str) -> None:
    n_entries = len(getattr(owner, name))
    refuse(n_entries != length, f"{location}: {name} has {n_entries} entries, but needs {length}")


def _check_tree(tree: Tree, n_features: int, location: str) -> float:
    """Check a tree except for its categories, and return its largest leaf magnitude."""
    n_nodes, param = len(tree.left_children), tree.tree_param
    refuse(
        n_nodes < 1 or int(param.num_nodes) != n_nodes,
        f"{location}: num_nodes is {param.num_nodes}, but there are {n_nodes} nodes",
    )
    for name in _NODE_LISTS:
        _check_length(tree, name, n_nodes, location)
    refuse(
        int(param.num_feature) not in (0, n_features),
        f"{location}: num_feature is {param.num_feature}, but the model has {n_features} features",
    )

    # Count the deleted nodes, then check children, features and structure of the others.
    left, right = np.array(tree.left_children), np.array(tree.right_children)
    feature, default_left = np.array(tree.split_indices), np.array(tree.default_left, np.int64)
    is_leaf = left == -1
    is_alive = ~(is_leaf & (feature == DELETED) & (default_left == 1))
    refuse(
        not is_alive[0] or n_nodes - int(is_alive.sum()) != int(param.num_deleted),
        f"{location}: num_deleted is not the number of deleted nodes",
    )
    refuse(is_leaf != (right == -1), f"{location}: a node has one child")
    refuse(
        feature[is_alive] >= n_features,
        f"{location}: splits by a feature that the model does not have",
    )
    _check_shape(left, right, np.array(tree.parents), is_alive, location)
    # XGBoost itself writes infinity only where missing values, and nothing else, go right, or -inf
    # where they go left. Before XGBoost 3.1 the threshold of a categorical split is NaN.
    with np.errstate(over="ignore"):
        conditions = np.array(tree.split_conditions).astype(np.float32)
    is_wrong = ~np.isfinite(conditions) & is_alive
    refuse(is_wrong & is_leaf, f"{location}: split_conditions has a leaf value that is not finite")
    if tree.split_type is not UNSET:
        _check_length(tree, "split_type", n_nodes, location)
        is_wrong &= np.array(tree.split_type) == 0
    is_wrong &= conditions != np.where(default_left, -np.inf, np.inf)
    refuse(is_wrong, f"{location}: split_conditions has a threshold that is not finite")
    return float(np.abs(np.array(tree.split_conditions)[is_alive & is_leaf]).max())


def _check_shape(
    left: Int64Array,
    right: Int64Array,
    parents: Int64Array,
    is_alive: BoolArray,
    location: str,
) -> None:
    """Check that every live node except the root has exactly one parent and can be reached from the
    root.
    """
    n_nodes, inner_nodes = left.size, np.flatnonzero(left != -1)
    child = np.concatenate([left[inner_nodes], right[inner_nodes]])
    refuse(child >= n_nodes, f"{location}: a child is not a node of the tree")
    parent_counts = np.bincount(child, minlength=n_nodes)
    parent_counts[0] += 1
    refuse(parent_counts != is_alive, f"{location}: a node has no parent or two parents")
    fault = f"{location}: a parent is out of range"
    refuse(parents[0] not in _NO_PARENT, fault)
    refuse((parents[1:] < 0) | (parents[1:] >= n_nodes), fault)
    refuse(
        parents[child] != np.tile(inner_nodes, 2), f"{location}: parents and children do not agree"
    )
    parents = np.where(is_alive, parents, 0)
    parents[0] = 0
    depth = depths(parents)
    refuse(depth < 0, f"{location}: its nodes form a cycle")
    refuse(int(depth.max()) >= MAX_DEPTH, f"{location}: it is deeper than {MAX_DEPTH} nodes")
    refuse(
        right[inner_nodes] != left[inner_nodes] + 1,
        f"{location}: a right child is not next to the left one, as XGBoost requires",
    )


def _check_categorical_splits(tree: Tree, location: str) -> int:
    """Check the categorical splits, and return the number of bits that they take.

    The split of node nodes[i] has the categories categories[segments[i] : segments[i] + sizes[i]].
    """
    if tree.split_type is UNSET:
        return 0
    category_lists = tree.categories, tree.categories_segments, tree.categories_sizes
    refuse(
        UNSET in category_lists,
        f"{location}: has split_type, but no categories, categories_segments or categories_sizes",
    )
    categories = np.array(tree.categories, np.int64)
    starts = np.array(tree.categories_segments, np.int64)
    sizes = np.array(tree.categories_sizes, np.int64)
    categorical_nodes = np.flatnonzero(tree.split_type)
    is_leaf = np.array(tree.left_children) == -1
    refuse(
        is_leaf[categorical_nodes].any() or categorical_nodes.tolist() != tree.categories_nodes,
        f"{location}: categories_nodes are not the nodes with a categorical split",
    )
    fits = sizes.size == categorical_nodes.size and sizes.sum() == categories.size
    refuse(
        not fits or not np.array_equal(starts, np.cumsum(sizes) - sizes),
        f"{location}: categories_segments and categories_sizes do not fit the list of categories",
    )
    return int(np.maximum.reduceat(categories, starts).sum()) if categorical_nodes.size else 0


def _check_category_names(cats: Categories, n_features: int) -> None:
    n_columns = len(cats.enc)
    refuse(
        n_columns not in (0, n_features),
        f"cats describe {n_columns} columns, but the model has {n_features}",
    )
    sizes = [count_categories(column, f"cats of column {i}") for i, column in enumerate(cats.enc)]
    order, ends = cats.sorted_idx, cats.feature_segments or [0]
    refuse(
        ends != [0, *itertools.accumulate(sizes)] or ends[-1] != len(order),
        "cats: feature_segments do not fit the columns",
    )
    refuse(
        any(
            sorted(order[start:stop]) != list(range(stop - start))
            for start, stop in itertools.pairwise(ends)
        ),
        "cats: sorted_idx is not an order of the categories",
    )


# XGBoost's numbers of the types of categories (Value::ValueKind), and what Python's lists of them
# hold.
_REAL_TYPES = (7, 8)
WHOLE_TYPES: dict[int, Any] = dict(
    enumerate(map(np.dtype, "bBhHiIqQ"), 9)
)  # int8, uint8, ..., uint64


def count_categories(column: CategoryNames, location: str) -> int:
    """Check the categories of a column, and return their number."""
    if column.offsets is not UNSET:
        _check_whole(column.values, -128, 255, location)
        if column.offsets:
            refuse(
                column.offsets[0] != 0
                or column.offsets[-1] != len(column.values)
                or column.offsets != sorted(column.offsets),
                f"{location}: offsets do not fit the text",
            )
        return max(0, len(column.offsets) - 1)
    if column.type in _REAL_TYPES:
        whole = [value for value in column.values if isinstance(value, int)]
        _check_whole(whole, -(2**63), 2**63 - 1, location)
    elif column.type in WHOLE_TYPES:
        limits = np.iinfo(WHOLE_TYPES[column.type])
        _check_whole(column.values, int(limits.min), min(int(limits.max), 2**63 - 1), location)
    else:
        raise ModelError(f"{location} have no known type")
    return len(column.values)


def _check_whole(values: Sequence[int | float], low: int, high: int, location: str) -> None:
    are_whole = set(map(type, values)) <= {int} and all(low <= value <= high for value in values)
    refuse(
        not are_whole,
        f"{location}: values has an entry that is not a whole number from {low} to {high}",
    )
