"""LightGBM's dump: the JSON of `dump_model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boostrank.engines.served.rules import Rules, Split
from boostrank.engines.served.trees import TreeFile, read_trees
from boostrank.engines.trees import refuse


def recognises(document: Any) -> bool:
    """Return whether JSON is a dump of LightGBM."""
    return isinstance(document, dict) and "tree_info" in document and "feature_names" in document


def read(document: Any) -> TreeFile:
    """Read all trees, whose leaves add up in float64."""
    refuse(document.get("num_class", 1) != 1, "it has several outputs")
    refuse(bool(document.get("average_output")), "it is a random forest, whose trees are averaged")
    roots = [tree["tree_structure"] for tree in document["tree_info"]]
    return read_trees(document["feature_names"], roots, parse=_parse_node, rules=Rules())


def _parse_node(columns: Mapping[str, int], node: Mapping[str, Any]) -> Split | float:
    refuse("leaf_coeff" in node, "its leaves hold linear models")
    if "leaf_value" in node:
        return float(node["leaf_value"])
    feature, missing_type = int(node["split_feature"]), node.get("missing_type", "NaN")
    refuse(not 0 <= feature < len(columns), f"split_feature {feature} is out of range")
    is_plain = node["decision_type"] == "<=" and missing_type in ("None", "NaN")
    refuse(not is_plain, "it splits by categories, or with zero_as_missing")
    threshold, missing_left = float(node["threshold"]), bool(node["default_left"])
    if missing_type == "None":  # missing values are read as 0
        missing_left = threshold >= 0.0
    return Split(feature, threshold, missing_left, node["left_child"], node["right_child"])
