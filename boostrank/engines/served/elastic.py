"""Elasticsearch's own models: the body of `_ml/trained_models`."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Json
from boostrank.engines.served.rules import Rules, Split
from boostrank.engines.served.trees import TreeFile, read_trees
from boostrank.engines.trees import refuse
from boostrank.records import from_json

RULES = Rules(strict=True, gives=np.float32)
"""The rules of Elasticsearch's TreeInferenceModel, of splits by `lt`."""

_MOST_BYTES = 2**28


def _parse_node(columns: Mapping[str, int], position: tuple[Json, int]) -> Split | float:
    """Parse a node, which is a tree and a position in it."""
    tree, node_index = position
    node = tree["tree_structure"][node_index]
    if "leaf_value" in node and "threshold" not in node:
        refuse(np.size(node["leaf_value"]) != 1, "a leaf has several values")
        return float(np.ravel(node["leaf_value"])[0])
    feature, operator = node["split_feature"], str(node.get("decision_type", "lte"))
    refuse(feature < 0, f"split_feature {feature} is out of range")
    refuse(operator not in ("lt", "lte"), f"its decision_type {operator!r} cannot be read")
    column, threshold = columns[tree["feature_names"][feature]], float(node["threshold"])
    left, right = (tree, node["left_child"]), (tree, node["right_child"])
    missing_left = bool(node.get("default_left"))
    if operator == "lte":  # below the next number
        threshold = math.nextafter(threshold, math.inf)
    return Split(column, threshold, missing_left, left, right)


def _definition_of(document: Json) -> Any:
    """Return the definition of a model, which may be compressed."""
    compressed = document.get("compressed_definition")
    if compressed is None:
        return document["definition"]
    # Bound what a small text can become.
    try:
        inflate = zlib.decompressobj(wbits=31)
        definition = inflate.decompress(base64.b64decode(compressed), _MOST_BYTES)
    except (zlib.error, ValueError) as error:
        raise ModelError(f"compressed_definition is damaged: {error}") from None
    refuse(not inflate.eof, f"its definition is cut, or has over {_MOST_BYTES:,} bytes")
    return from_json(definition, once=True)


def recognises(document: Any) -> bool:
    """Return whether JSON is a model of Elasticsearch."""
    return isinstance(document, dict) and bool(
        document.keys() & {"compressed_definition", "definition"}
    )


def read(document: Any) -> TreeFile:
    """Read an ensemble that is a sum of trees."""
    definition = _definition_of(document)
    ensemble = definition["trained_model"]["ensemble"]
    refuse(bool(definition.get("preprocessors")), "it preprocesses features")
    target = ensemble.get("target_type", "regression")
    refuse(target != "regression", f"its target_type is {target!r}")
    refuse(list(ensemble["aggregate_output"]) != ["weighted_sum"], "its trees are not added up")
    trees = [model["tree"] for model in ensemble["trained_models"]]
    names = ensemble.get("feature_names") or [n for tree in trees for n in tree["feature_names"]]
    for number, tree in enumerate(trees):
        _check_tree(number, tree)
    weights = ensemble["aggregate_output"]["weighted_sum"].get("weights")
    refuse(weights is not None and len(weights) != len(trees), "its weights do not fit its trees")
    return read_trees(
        list(dict.fromkeys(names)),
        [(tree, 0) for tree in trees],
        parse=_parse_node,
        rules=RULES,
        weights=weights,
    )


def _check_tree(number: int, tree: Json) -> None:
    """Refuse a tree in which a node is not where it says, or has two parents."""
    nodes = tree["tree_structure"]
    child_keys = "left_child", "right_child"
    children = [node[child_key] for node in nodes for child_key in child_keys if child_key in node]
    indices = [node["node_index"] for node in nodes]
    refuse(indices != list(range(len(nodes))), f"tree {number}: a node is not at its node_index")
    refuse(sorted(children) != indices[1:], f"tree {number}: a node has no parent, or two")
