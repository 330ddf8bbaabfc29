"""Vespa's ranking expressions: dumps of LightGBM and XGBoost as its importers turn them into sums
of `if`.

From the source of Vespa 8 (vespa-engine/vespa, 2026-08): `LightGBMParser`, `AbstractXGBoostParser`,
`XGBoostParser`, `Simplifier` (model-integration, searchlib) and `gbdt.cpp`, `vm_forest.cpp`,
`llvm_wrapper.cpp` (eval).

A split is `feature < threshold`, or `!(feature >= threshold)` where a missing value, a NaN, goes
left; for LightGBM too, whose own test is `<=`, and whose `missing_type` is ignored. Categories are
`feature in [...]`, and the values in the list are strings unless a `pandas_categorical` of integers
gives them: no number equals a string. Arithmetic is float64; but the content nodes hold the
thresholds and leaves of a large sum of trees in float32, and add its trees in an order of their
own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array
from tests.consumers.trees import (
    DECIMAL,
    Leaf,
    Node,
    Number,
    Scorer,
    Split,
    check_fields,
    field,
    integer,
    json_of,
    outputs,
    shallow,
)

FLOAT_THRESHOLDS_SINCE = (8, 624)
"""Thresholds of XGBoost are rounded to float32 since this version."""

CATEGORY_TABLES_SINCE = (8, 526)
"""Categories that are integers stand without quotes since this version."""

FORESTS = {"leaves of a tree": 12, "path": 2500.0, "leaves": 25000, "categories": 255}
"""Above which sizes a sum of trees is evaluated with float32 constants; and not if a split has more
categories.
"""

IDENTIFIER = r"[A-Za-z0-9_@][A-Za-z0-9_@$]*"
FEATURE = re.compile(
    rf"({IDENTIFIER})(\([^()]*(?:\([^()]*\)[^()]*)*\))?(\.({IDENTIFIER}|\d+)(\.({IDENTIFIER}|\d+))*)?"
)
KEYWORDS = {
    "if",
    "in",
    "switch",
    "case",
    "default",
    "true",
    "false",
    "f",
    "tensor",
    "lightgbm",
    "xgboost",
}


class Categories(NamedTuple):
    """The list of a test for categories, in the place of a threshold: its numbers, and its length
    with strings.
    """

    numbers: Float64Array
    length: int


def read(
    body: bytes,
    feature_names: Sequence[str],
    *,
    version: tuple[int, ...] = FLOAT_THRESHOLDS_SINCE,
    where: Literal["content", "container"] = "content",
) -> Scorer:
    """A function that scores as Vespa does, float64[n].

    Args:
        body: the file under `models/`: an object is LightGBM's dump, an array XGBoost's.
        feature_names: features that the rank profile has: the columns.
        version: of Vespa.
        where: it is evaluated: the content nodes, for ranking, or a container, for stateless
            evaluation.

    Raises:
        ModelError: the import fails, or the expression does.
    """
    columns = {name: column for column, name in enumerate(feature_names)}
    with shallow("Vespa"):
        content = json_of(body, "Vespa")
        parse = xgboost if type(content) is list else lightgbm
        terms, link = parse(content, columns, tuple(version))
        for term in terms:
            checked(term)
    terms = folded(terms)
    trees = forest(terms) if where == "content" else []

    def scores(features: Float64Array) -> Float64Array:
        values = np.ascontiguousarray(np.asarray(features).T, dtype=np.float64)
        added = [outputs(tree, values, left) for tree in trees]
        if added:
            # The expression ((t1 + t2) + t3) + t4 is unrolled from its end: t4, t3, t1, t2.
            total = np.zeros(values.shape[1])
            for output in [*reversed(added[2:]), *added[:2]]:
                total += output
        else:
            total = outputs(terms[0], values, left)
        for term in terms[len(added) or 1 :]:
            total = total + outputs(term, values, left)
        return link(total)

    return scores


def left(values: Float64Array, split: Split) -> Any:
    """Who goes left at a split; `missing` is whether a NaN does."""
    if isinstance(split.threshold, Categories):
        goes = np.isin(values, split.threshold.numbers)
        return goes | np.isnan(values) if split.missing else goes
    return ~(values >= split.threshold) if split.missing else values < split.threshold


def identity(total: Float64Array) -> Float64Array:
    """The sum itself."""
    return total


def sigmoid(total: Float64Array) -> Float64Array:
    """What a binary objective makes of the sum."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-total))


def checked(node: Node) -> None:
    """Refuses constants that an expression cannot hold."""
    for number in [node.value] if isinstance(node, Leaf) else [node.threshold]:
        if isinstance(number, float) and not np.isfinite(number):
            raise ModelError("Vespa: a constant is infinite, which no ranking expression can say")
    if isinstance(node, Split):
        checked(node.left)
        checked(node.right)


def folded(terms: Sequence[Node]) -> list[Node]:
    """The terms of the sum, with neighbouring constants added beforehand, as its simplifier does."""
    kept: list[Node] = []
    for term in terms:
        if kept and isinstance(term, Leaf) and isinstance(kept[-1], Leaf):
            kept[-1] = Leaf(kept[-1].value + term.value)
        else:
            kept.append(term)
    return kept


# The forest of the content nodes


def forest(terms: Sequence[Node]) -> list[Node]:
    """The leading trees of a sum that content nodes evaluate with float32 constants: none, or two
    and more.
    """
    trees: list[Node] = []
    for term in terms:
        if not is_tree(term):
            break
        trees.append(term)
    if len(trees) < 2:
        return []
    depths = [list(leaf_depths(tree, 0)) for tree in trees]
    path = sum(sum(leaves) / len(leaves) for leaves in depths)
    deep = max(map(len, depths)) > FORESTS["leaves of a tree"] and path > FORESTS["path"]
    if not deep and sum(map(len, depths)) <= FORESTS["leaves"]:
        return []
    if max(map(largest_set, trees)) > FORESTS["categories"]:
        return []
    return [in_float32(tree) for tree in trees]


def is_tree(node: Node) -> bool:
    """Whether a term is a tree for the evaluation: a test for a missing category is none, nor is a
    lone constant.
    """
    if isinstance(node, Leaf) or (isinstance(node.threshold, Categories) and node.missing):
        return False
    return all(isinstance(below, Leaf) or is_tree(below) for below in (node.left, node.right))


def leaf_depths(node: Node, depth: int) -> list[int]:
    """How deep each leaf is."""
    if isinstance(node, Leaf):
        return [depth]
    return leaf_depths(node.left, depth + 1) + leaf_depths(node.right, depth + 1)


def largest_set(node: Node) -> int:
    """The most categories of a split."""
    if isinstance(node, Leaf):
        return 0
    length = node.threshold.length if isinstance(node.threshold, Categories) else 0
    return max(length, largest_set(node.left), largest_set(node.right))


def in_float32(node: Node) -> Node:
    """A tree with its constants rounded to float32; those of categories are not."""
    with np.errstate(over="ignore"):
        if isinstance(node, Leaf):
            return Leaf(float(np.float32(node.value)))
        threshold = node.threshold
        if not isinstance(threshold, Categories):
            threshold = float(np.float32(threshold))
    return Split(
        node.feature, threshold, in_float32(node.left), in_float32(node.right), node.missing
    )


# Imports

Link = Callable[[Float64Array], Float64Array]


def column(name: Any, columns: Mapping[str, int]) -> int:
    """The column of a feature, whose name must be one in an expression."""
    match = FEATURE.fullmatch(name) if isinstance(name, str) else None
    if (
        match is None
        or re.fullmatch(rf"{DECIMAL}[fFdDlL]?|0[xX][0-9a-fA-F]+", name)
        or match[0] in KEYWORDS
    ):
        raise ModelError(f"Vespa: {name!r} cannot be the name of a feature in a ranking expression")
    if name not in columns:
        raise ModelError(f"Vespa: the rank profile has no feature {name!r}")
    return columns[name]


def xgboost(
    trees: list[Any], columns: Mapping[str, int], version: tuple[int, ...]
) -> tuple[list[Node], Link]:
    """The terms of a dump of XGBoost."""
    if not trees:
        raise ModelError("Vespa: no trees, and no ranking expression")
    return [
        xgboost_node(node, columns, version >= FLOAT_THRESHOLDS_SINCE) for node in trees
    ], identity


def xgboost_node(node: Any, columns: Mapping[str, int], rounded: bool) -> Node:
    """A node of a dump and what is below it."""
    ids = ("nodeid", "depth", "yes", "no", "missing")
    check_fields(node, {*ids, "split", "split_condition", "leaf", "children"}, "a node", "Vespa")
    yes = integer(field(node, "yes", Number, "Vespa") or "0", "yes", "Vespa")
    missing = integer(field(node, "missing", Number, "Vespa") or "0", "missing", "Vespa")
    if "children" not in node:
        return Leaf(float(field(node, "leaf", Number, "Vespa") or "0"))
    children = [
        xgboost_node(child, columns, rounded) for child in field(node, "children", list, "Vespa")
    ]
    if len(children) != 2:
        raise ModelError(f"Vespa: a split of XGBoost has {len(children)} children")
    first = integer(field(node["children"][0], "nodeid", Number, "Vespa") or "0", "nodeid", "Vespa")
    threshold = float(field(node, "split_condition", Number, "Vespa") or "0")
    if rounded:
        with np.errstate(over="ignore"):
            threshold = float(np.float32(threshold))
    name = field(node, "split", str, "Vespa")
    if rounded and re.fullmatch(r"[+-]?\d{1,10}", name or ""):
        name = f"xgboost_input_{name}"
    true, false = children if first == yes else children[::-1]
    return Split(column(name, columns), threshold, true, false, missing == yes)


def lightgbm(
    model: Any, columns: Mapping[str, int], version: tuple[int, ...]
) -> tuple[list[Node], Link]:
    """The terms of LightGBM's dump, and what its objective makes of their sum."""
    if type(model) is not dict:
        raise ModelError(
            "Vespa: the file is neither an object, a dump of LightGBM, nor an array, one of XGBoost"
        )
    for name in ("tree_info", "objective", "feature_names", "pandas_categorical"):
        if name not in model:
            raise ModelError(f"Vespa: the dump of LightGBM has no {name!r}")
    names = field(model, "feature_names", list, "Vespa")
    infos = field(model, "tree_info", list, "Vespa")
    if any(
        type(tree) is not dict or type(tree.get("tree_structure")) is not dict for tree in infos
    ):
        raise ModelError("Vespa: a tree has no 'tree_structure'")
    roots = [tree["tree_structure"] for tree in infos]
    if not roots:
        raise ModelError("Vespa: no trees, and no ranking expression")
    tables = category_tables(model, names, roots, version)
    terms = [lightgbm_node(root, names, columns, tables) for root in roots]
    objective = str(model["objective"])
    if objective.startswith("binary") or objective == "cross_entropy":
        return terms, sigmoid
    return terms, np.exp if objective in ("poisson", "gamma", "tweedie") else identity


Tables = Mapping[int, tuple[bool, list[str]]]
"""For features with categories: whether all are integers, and what each index stands for."""


def category_tables(
    model: Mapping[str, Any], names: list[Any], roots: list[Any], version: tuple[int, ...]
) -> Tables:
    """The lists of `pandas_categorical`, given to the features with categories in their order."""
    infos = model.get("feature_infos")
    if version >= CATEGORY_TABLES_SINCE and type(infos) is dict:
        with_categories = [
            i
            for i, name in enumerate(names)
            if type(infos.get(name)) is dict and infos[name].get("values")
        ]
    else:
        with_categories = sorted(
            {feature for root in roots for feature in tested_for_categories(root)}
        )
    tables = {}
    for feature, values in zip(with_categories, model["pandas_categorical"] or [], strict=False):
        integers = all(type(value) is Number and re.fullmatch(r"-?\d+", value) for value in values)
        tables[feature] = (
            integers and version >= CATEGORY_TABLES_SINCE,
            [str(value) for value in values],
        )
    return tables


def tested_for_categories(node: Any) -> list[int]:
    """Features of the splits by categories."""
    if type(node) is not dict or ("left_child" not in node and "right_child" not in node):
        return []
    features = [split_feature(node)] if node.get("decision_type") == "==" else []
    return (
        features
        + tested_for_categories(node.get("left_child"))
        + tested_for_categories(node.get("right_child"))
    )


def split_feature(node: Mapping[str, Any]) -> int:
    """The number of the feature that a node splits; Java's 0 when it says none."""
    return integer(field(node, "split_feature", Number, "Vespa") or "0", "split_feature", "Vespa")


def lightgbm_node(node: Any, names: list[Any], columns: Mapping[str, int], tables: Tables) -> Node:
    """A node of LightGBM's dump and what is below it."""
    if type(node) is not dict:
        raise ModelError("Vespa: a node of the dump must be an object")
    if "left_child" not in node and "right_child" not in node:
        return Leaf(float(field(node, "leaf_value", Number, "Vespa") or "0"))
    for name in ("left_child", "right_child", "decision_type", "threshold"):
        if node.get(name) is None:
            raise ModelError(f"Vespa: a split of the dump has no {name!r}")
    feature = split_feature(node)
    if not 0 <= feature < len(names):
        raise ModelError(f"Vespa: split_feature {feature} has no name")
    missing = bool(field(node, "default_left", bool, "Vespa"))
    true = lightgbm_node(node["left_child"], names, columns, tables)
    false = lightgbm_node(node["right_child"], names, columns, tables)
    text = str(node["threshold"])
    test: float | Categories
    if node["decision_type"] == "==":
        test = categories(text.split("||"), *tables.get(feature, (False, None)))
    elif re.fullmatch(DECIMAL, text):
        test = float(text)
    else:
        raise ModelError(f"Vespa: the threshold {text!r} is no number")
    return Split(column(names[feature], columns), test, true, false, missing)


def categories(indices: Sequence[str], integers: bool, values: list[str] | None) -> Categories:
    """The list that a feature is looked up in; what stands in quotes there equals no number."""
    if values is not None:
        if any(not index.isdigit() or int(index) >= len(values) for index in indices):
            raise ModelError(
                f"Vespa: categories {'||'.join(indices)} are more than pandas_categorical has"
            )
        indices = [values[int(index)] for index in indices]
    if integers and any(value.startswith("-") for value in indices):
        raise ModelError("Vespa: a list of categories cannot hold a negative number")
    numbers = [float(index) for index in indices] if integers else []
    return Categories(np.array(numbers, dtype=np.float64), len(indices))
