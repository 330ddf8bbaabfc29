"""Uploads to the learning-to-rank plugins of Elasticsearch and OpenSearch, as they are posted or as
the engine returns them, and dumps of XGBoost, which they contain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import DataWarning, warn_user
from boostrank.core.types import Json
from boostrank.data.feature_space import NUMBERED
from boostrank.engines.served import ranklib
from boostrank.engines.served.linear import LinearFile, read_weights
from boostrank.engines.served.rules import (
    NORMALISED_TREES,
    SINGLE,
    Rules,
    Scale,
    Split,
    check_scale,
)
from boostrank.engines.served.trees import TreeFile, read_trees
from boostrank.engines.trees import refuse
from boostrank.records import from_json

RULES = replace(SINGLE, strict=True)
"""The rules of XGBoost, and of the plugins."""

# Objectives whose scores are sums of leaves, and the normalisers of the plugin that keep them.
_SUMS = ("rank:", "reg:linear", "reg:squarederror", "binary:logitraw")


def recognises_dump(document: Any) -> bool:
    """Return whether JSON is a list of XGBoost's trees, or of their texts."""
    if not isinstance(document, list) or not document:
        return False
    first_tree = document[0]
    if isinstance(first_tree, str):
        return first_tree.lstrip().startswith(('{ "nodeid"', '{"nodeid"'))
    return isinstance(first_tree, dict) and "nodeid" in first_tree


def read_dump(document: Any) -> TreeFile:
    """Read the trees of `get_dump(dump_format="json")`."""
    roots = [from_json(tree, once=True) if isinstance(tree, str) else tree for tree in document]
    file = read_roots(roots)
    warn_user(
        "a dump of XGBoost has no base_score, so all scores lack this constant; the order within"
        " queries is the model's",
        DataWarning,
    )
    return file


def read_roots(
    roots: Sequence[Any],
    names: Sequence[str] = (),
    rules: Rules = RULES,
) -> TreeFile:
    """Read the trees of a dump. Without `names`, the features are those that occur."""
    return read_trees(names or _names_of(roots), roots, parse=_parse_node, rules=rules)


def _parse_node(columns: Mapping[str, int], node: Json) -> Split | float:
    if "leaf" in node:
        return float(node["leaf"])
    children = {child["nodeid"]: child for child in node["children"]}
    missing_left, child_ids = node["missing"] == node["yes"], (node["yes"], node["no"])
    refuse(
        node["missing"] not in child_ids or len(children) != 2, f"node {node['nodeid']} is no split"
    )
    condition = node["split_condition"]
    refuse(isinstance(condition, list), f"{node['split']!r} has categories, which are not read")
    left, right = children[child_ids[0]], children[child_ids[1]]
    return Split(columns[node["split"]], float(condition), missing_left, left, right)


def _names_of(roots: Sequence[Any]) -> list[str]:
    """Return the names of the features that occur, and f0 if they are numbered."""
    names: dict[str, None] = {}
    unvisited = list(roots)
    while unvisited:
        node = unvisited.pop()
        if "split" in node:
            names[str(node["split"])] = None
            unvisited += node["children"]
    if names and all(map(NUMBERED.fullmatch, names)):
        names["f0"] = None
    return list(names)


def model_of(document: Any) -> Json:
    """Return the part of an upload with `type` and `definition`, or an empty one."""
    while isinstance(document, dict):
        if isinstance(document.get("type"), str) and document["type"].startswith("model/"):
            return document
        document = document.get("_source") or document.get("model")
    return {}


def read_upload(document: Any, names: Sequence[str] = ()) -> TreeFile | LinearFile:
    """Read the model in a body of `_createmodel`, or in the engine's answer.

    Args:
        names: names of the features; by default those of the feature set in the document, or those
            that occur.
    """
    model, names = model_of(document), names or _features_of(document)
    kind = model["type"].removeprefix("model/")
    definition: Any = model.get("definition")
    scales = _scales_of(model.get("feature_normalizers") or {})
    refuse(kind != "linear" and bool(scales), NORMALISED_TREES)
    if kind == "ranklib":
        return ranklib.read(definition, names)
    if isinstance(definition, str):
        definition = from_json(definition, once=True)
    if kind == "linear":
        weights = {str(name): float(weight) for name, weight in definition.items()}
        return read_weights(names or list(weights), weights, scales=scales)
    rules = RULES
    if isinstance(definition, dict) and definition.get("missing_as_zero"):  # of OpenSearch
        rules = replace(RULES, missing=0.0)
    refuse(
        kind == "xgboost+json+raw",
        f"its type model/{kind} cannot be read: pass the definition, which is XGBoost's own model",
    )
    refuse(kind != "xgboost+json", f"its type model/{kind} cannot be read")
    if isinstance(definition, dict):
        objective = str(definition.get("objective", "reg:linear"))
        refuse(not objective.startswith(_SUMS), f"its scores are transformed by {objective}")
        definition = definition["splits"]
    return read_roots(definition, names, rules)


def _scales_of(normalizers: Json) -> dict[str, Scale]:
    """Return the scaling of each feature that the plugin normalises."""
    scales = {}
    for name, normalizer in normalizers.items():
        if "standard" in normalizer:
            standard = normalizer["standard"]
            shift, divisor = float(standard["mean"]), float(standard["standard_deviation"])
        else:
            ends = normalizer["min_max"]
            shift = float(ends["minimum"])
            divisor = float(np.float32(ends["maximum"]) - np.float32(shift))
        scales[name] = check_scale(shift, divisor, f"the normalizer of {name!r}")
    return scales


def _features_of(document: Any) -> list[str]:
    """Return the names in the feature set that the engine returns with a model."""
    source = document.get("_source", document)
    features = (source.get("feature_set") or {}).get("features") or ()
    return [str(feature["name"]) for feature in features]
