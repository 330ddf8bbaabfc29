"""The categories and linear starts in XGBoost's JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.engines.trees import StepTree, by_feature, just_above, refuse, write_json
from boostrank.kernels.curves import Curve, rounded_down

_NONE: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def with_names(body: bytes, names: Mapping[int, Sequence[Any] | None]) -> bytes | None:
    """Replace the category names in an unchecked file that XGBoost wrote, or return None if it
    cannot store them.

    Args:
        names: category names of each column in the order of the codes, ASCII text or integers;
            empty to remove them.
    """
    document = json.loads(body)
    forest = document["learner"]["gradient_booster"].get("model")
    columns = int(document["learner"]["learner_model_param"]["num_feature"])
    listed = [names.get(i) or () for i in range(columns)] if names else []
    encoded = [_encoded(column_names) for column_names in listed]
    if forest is None or None in names.values() or None in encoded:
        return None
    forest["cats"] = {
        "enc": encoded,
        "feature_segments": np.cumsum([0, *map(len, listed)]).tolist() if names else [],
        "sorted_idx": [
            i for column in listed for i in sorted(range(len(column)), key=column.__getitem__)
        ],
    }
    return write_json(document)


def names_in(body: bytes) -> dict[int, tuple[Any, ...]]:
    """Return the category names of each column in a checked file, unless the version that wrote it
    garbled them.
    """
    document = json.loads(body)
    decoded = (
        {}
        if _is_garbled(document)
        else {i: _decoded(column) for i, column in enumerate(_columns(document))}
    )
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


def _is_garbled(document: Mapping[str, Any]) -> bool:
    """Return True for non-ASCII text from XGBoost before 3.4, which did not store the text's length
    in bytes.
    """
    texts = (column["values"] for column in _columns(document) if "offsets" in column)
    return document["version"][:2] < [3, 4] and any(
        not 0 <= byte < 128 for text in texts for byte in text
    )


def _columns(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    forest = document["learner"]["gradient_booster"].get("model") or {}
    return list((forest.get("cats") or _NONE)["enc"])


def _encoded(names: Sequence[Any]) -> dict[str, Any] | None:
    if all(isinstance(name, str) and name.isascii() for name in names):
        ends = np.cumsum([0, *map(len, names)]).tolist() if names else []
        return {"offsets": ends, "values": list("".join(names).encode())}
    whole = all(type(name) is int and abs(name) < 2**63 for name in names)
    return {"type": 15, "values": list(names)} if whole else None  # 15 is int64 (Value::ValueKind)


def _decoded(column: Mapping[str, Any]) -> tuple[Any, ...]:
    if "offsets" not in column:
        return tuple(column["values"])
    text, ends = bytes(value % 256 for value in column["values"]), column["offsets"]
    return tuple(text[a:b].decode(errors="replace") for a, b in itertools.pairwise(ends))


ATTRIBUTE = "boostrank_start"
_LOWEST = float(np.finfo(np.float32).min)
_ROOT = 2**31 - 1  # the parent of a root


def write_start(curves: Mapping[int, Curve], n_features: int) -> list[dict[str, Any]]:
    """Return the trees of a linear start as JSON data, one a feature."""
    return [
        _tree(number, feature, curve, n_features)
        for number, (feature, curve) in enumerate(curves.items())
    ]


def _tree(number: int, feature: int, curve: Curve, n_features: int) -> dict[str, Any]:
    tree = StepTree.from_curve(curve)
    bounds = [
        _LOWEST,
        *np.nextafter(rounded_down(np.array(tree.bounds)), np.float32(np.inf)).tolist(),
    ]
    # Renumber nodes and leaves (~leaf), because XGBoost requires a right child next to the left
    # one.
    order, first_child = [0], {}
    position = {0: 0}
    for node, children in enumerate(zip(tree.left, tree.right, strict=True)):
        first_child[position[node]] = len(order)
        for child in children:
            position[child] = len(order)
            order.append(child)
    left = [first_child.get(at, -1) for at in range(len(order))]
    parents = [_ROOT] * len(order)
    for at, child in first_child.items():
        parents[child] = parents[child + 1] = at
    value = [tree.node[node] if node >= 0 else tree.leaf[~node] for node in order]
    return {
        "base_weights": _float32(value),
        **{f"categories{of}": [] for of in ("", "_nodes", "_segments", "_sizes")},
        "default_left": [1] + [0] * (len(order) - 1),
        "id": number,
        "left_children": left,
        "loss_changes": [0.0] * len(order),
        "parents": parents,
        "right_children": [child + 1 if child > 0 else -1 for child in left],
        "split_conditions": _float32(
            [bounds[node] if node >= 0 else tree.leaf[~node] for node in order]
        ),
        "split_indices": [feature if child > 0 else 0 for child in left],
        "split_type": [0] * len(order),
        "sum_hessian": _float32(
            [tree.below[node] if node >= 0 else tree.documents[~node] for node in order]
        ),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(order)),
            "size_leaf_vector": "1",
        },
    }


def _float32(values: Sequence[float]) -> Any:
    with np.errstate(over="ignore"):
        kept = np.array(values, dtype=np.float32).astype(np.float64)
    refuse(~np.isfinite(kept), "the start exceeds the range of float32, in which XGBoost sums")
    return kept.tolist()


def start_trees(trees: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of leading trees that form a linear start."""
    return next((number for number, tree in enumerate(trees) if not _is_start(tree)), len(trees))


def _is_start(tree: Mapping[str, Any]) -> bool:
    """Return True for a tree whose first split is below all numbers and whose other splits have no
    gain.
    """
    left, right, condition = tree["left_children"], tree["right_children"], tree["split_conditions"]
    if (
        left[0] < 0
        or left[left[0]] >= 0
        or float(np.float32(condition[0])) != _LOWEST
        or any(tree["loss_changes"])
    ):
        return False
    nodes, _ = _in_order(left, right)
    bounds = [condition[node] for node in nodes]
    features = {tree["split_indices"][node] for node in nodes}
    return len(features) == 1 and bounds == sorted(set(bounds)) and not tree.get("categories_nodes")


def read_start(trees: Sequence[Mapping[str, Any]]) -> dict[int, Curve]:
    """Return the sum of a start's trees as one function per feature."""
    return by_feature(map(_read, trees))


def _read(tree: Mapping[str, Any]) -> tuple[int, Curve]:
    nodes, leaves = _in_order(tree["left_children"], tree["right_children"])
    conditions = np.array(_float32(tree["split_conditions"]))
    levels, documents = conditions[leaves], np.array(tree["sum_hessian"], dtype=np.float64)[leaves]
    below = np.nextafter(conditions[nodes[1:]].astype(np.float32), np.float32(-np.inf))
    steps = Curve(just_above(below), levels[1:], float(levels[0]))
    return int(tree["split_indices"][0]), replace(steps, documents=np.roll(documents, -1))


def _in_order(left: Sequence[int], right: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the nodes and leaves from left to right."""
    nodes, leaves, above, at = list[int](), list[int](), list[int](), 0
    while True:
        while left[at] >= 0:
            above.append(at)
            at = left[at]
        leaves.append(at)
        if not above:
            return nodes, leaves
        nodes.append(above.pop())
        at = right[nodes[-1]]
