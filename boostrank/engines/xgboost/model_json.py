"""The categories and linear starts in XGBoost's JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array, Json
from boostrank.engines.trees import StepTree, just_above, refuse, write_json
from boostrank.kernels.curves import Curve, rounded_down

_NONE: Json = {"enc": [], "feature_segments": [], "sorted_idx": []}


def with_names(body: bytes, names: Mapping[int, Sequence[Any] | None]) -> bytes:
    """Replace the category names in an unchecked file that XGBoost wrote, or return the same file
    if it cannot store them.

    Args:
        names: category names of each column in the order of the codes, ASCII text or integers;
            empty to remove them.
    """
    document = json.loads(body)
    forest = document["learner"]["gradient_booster"]["model"]
    columns = int(document["learner"]["learner_model_param"]["num_feature"])
    names_of_columns = [names.get(i) or () for i in range(columns)] if names else []
    encoded_columns = [_encoded(column_names) for column_names in names_of_columns]
    if None in names.values() or None in encoded_columns:
        return body
    forest["cats"] = {
        "enc": encoded_columns,
        "feature_segments": np.cumsum([0, *map(len, names_of_columns)]).tolist() if names else [],
        "sorted_idx": [
            i
            for column in names_of_columns
            for i in sorted(range(len(column)), key=column.__getitem__)
        ],
    }
    return write_json(document)


def names_in(body: bytes) -> dict[int, tuple[Any, ...]]:
    """Return the category names of each column in a checked file, unless the version that wrote it
    garbled them.
    """
    document = json.loads(body)
    if _is_garbled(document):
        return {}
    decoded = {i: _decoded(column) for i, column in enumerate(_columns(document))}
    return {i: names for i, names in decoded.items() if names}


def readable(body: bytes) -> bytes:
    """Rewrite a file for XGBoost's reader, which does not decode escaped letters.

    Garbled category names are removed, because a later version would claim to have written them.
    """
    if b'"offsets"' not in body and b"\\u" not in body:
        return body
    document = json.loads(body)
    if _is_garbled(document):
        document["learner"]["gradient_booster"]["model"]["cats"] = _NONE
    return write_json(document)


def _is_garbled(document: Json) -> bool:
    """Return True for non-ASCII text from XGBoost before 3.4, which did not store the text's length
    in bytes.
    """
    texts = (column["values"] for column in _columns(document) if "offsets" in column)
    return document["version"][:2] < [3, 4] and any(
        not 0 <= byte < 128 for text in texts for byte in text
    )


def _columns(document: Json) -> list[Json]:
    return list((document["learner"]["gradient_booster"]["model"].get("cats") or _NONE)["enc"])


def _encoded(names: Sequence[Any]) -> Json | None:
    if all(isinstance(name, str) and name.isascii() for name in names):
        offsets = np.cumsum([0, *map(len, names)]).tolist() if names else []
        return {"offsets": offsets, "values": list("".join(names).encode())}
    are_whole = all(type(name) is int and abs(name) < 2**63 for name in names)
    # 15 is int64 (Value::ValueKind).
    return {"type": 15, "values": list(names)} if are_whole else None


def _decoded(column: Json) -> tuple[Any, ...]:
    if "offsets" not in column:
        return tuple(column["values"])
    text, offsets = bytes(value % 256 for value in column["values"]), column["offsets"]
    spans = itertools.pairwise(offsets)
    return tuple(text[start:stop].decode(errors="replace") for start, stop in spans)


ATTRIBUTE = "boostrank_start"
_LOWEST = float(np.finfo(np.float32).min)
_ROOT = 2**31 - 1  # the parent of a root


def write_start(curves: Mapping[int, Curve], n_features: int) -> list[Json]:
    """Return the trees of a linear start as JSON data, one a feature."""
    return [_tree(feature, curve, n_features) for feature, curve in curves.items()]


def _tree(feature: int, curve: Curve, n_features: int) -> Json:
    """Return the tree of a curve, in which siblings are adjacent, as XGBoost's SHAP requires."""
    tree = StepTree.from_curve(curve)
    bounds = np.nextafter(rounded_down(np.array(tree.bounds)), np.inf)
    conditions = _float32([_LOWEST, *bounds, *tree.value[len(tree.left) :]])
    # Write the subtrees of a node, which is a node or ~leaf of `tree`, one after the other.
    nodes, parents, left_children, unvisited = [0], [_ROOT], [-1], [0]
    while unvisited:
        position = unvisited.pop()
        node, child = nodes[position], len(nodes)
        if node >= 0:
            left_children[position] = child
            nodes += [tree.left[node], tree.right[node]]
            parents += [position, position]
            left_children += [-1, -1]
            unvisited += [child + 1, child]
    return {
        "base_weights": _float32(tree.value)[nodes].tolist(),
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [int(node == 0) for node in nodes],
        "id": 0,
        "left_children": left_children,
        "loss_changes": [0.0] * len(nodes),
        "parents": parents,
        "right_children": [child + (child > 0) for child in left_children],
        "split_conditions": conditions[nodes].tolist(),
        "split_indices": [feature * (node >= 0) for node in nodes],
        "split_type": [0] * len(nodes),
        "sum_hessian": _float32(tree.documents)[nodes].tolist(),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(nodes)),
            "size_leaf_vector": "1",
        },
    }


def _float32(values: Sequence[float]) -> Float64Array:
    with np.errstate(over="ignore"):
        rounded = np.array(values, dtype=np.float32).astype(np.float64)
    refuse(~np.isfinite(rounded), "the start exceeds the range of float32, in which XGBoost sums")
    return rounded


def start_trees(trees: Sequence[Json]) -> int:
    """Return the number of leading trees that form a linear start."""
    return next((number for number, tree in enumerate(trees) if not _is_start(tree)), len(trees))


def _is_start(tree: Json) -> bool:
    """Return True for a tree whose first split is below all numbers and whose other splits have no
    gain.
    """
    left_children, conditions = tree["left_children"], tree["split_conditions"]
    if (
        left_children[0] < 0
        or left_children[left_children[0]] >= 0
        or float(np.float32(conditions[0])) != _LOWEST
        or any(tree["loss_changes"])
    ):
        return False
    nodes, _ = _in_order(left_children, tree["right_children"])
    bounds = [conditions[node] for node in nodes]
    features = {tree["split_indices"][node] for node in nodes}
    return len(features) == 1 and bounds == sorted(set(bounds)) and not tree.get("categories_nodes")


def read_curve(tree: Json) -> tuple[int, Curve]:
    """Return the feature and the function of a tree of a linear start."""
    nodes, leaves = _in_order(tree["left_children"], tree["right_children"])
    conditions = _float32(tree["split_conditions"])
    levels, documents = conditions[leaves], np.array(tree["sum_hessian"], dtype=np.float64)[leaves]
    just_below = np.nextafter(conditions[nodes[1:]].astype(np.float32), -np.inf)
    bounds = just_above(just_below)
    curve = Curve(bounds, levels[1:], float(levels[0]), np.roll(documents, -1))
    return int(tree["split_indices"][0]), curve


def _in_order(left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the nodes and the leaves of a tree from left to right."""
    nodes, leaves, ancestors, node = list[int](), list[int](), list[int](), 0
    while True:
        while left[node] >= 0:
            ancestors.append(node)
            node = left[node]
        leaves.append(node)
        if not ancestors:
            return nodes, leaves
        nodes.append(ancestors.pop())
        node = right[nodes[-1]]
