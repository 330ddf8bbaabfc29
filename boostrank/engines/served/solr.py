"""Solr's models: `MultipleAdditiveTreesModel` and `LinearModel`, with their normalisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.types import Json
from boostrank.engines.served.linear import LinearFile, read_weights
from boostrank.engines.served.rules import NORMALISED_TREES, SINGLE, Scale, Split, check_scale
from boostrank.engines.served.trees import TreeFile, read_trees
from boostrank.engines.trees import refuse
from boostrank.kernels.curves import LOWEST

SLACK = np.float32(1e-6)
RULES = replace(SINGLE, slack=float(SLACK))
"""The rules of Solr, which adds a slack to each threshold."""

_CLASS, _NORM = "org.apache.solr.ltr.model.", "org.apache.solr.ltr.norm."
_KINDS = ("LinearModel", "MultipleAdditiveTreesModel")


def recognises(document: Any) -> bool:
    """Return whether JSON is a model of Solr."""
    return isinstance(document, dict) and str(document.get("class", "")).startswith(_CLASS)


def read(document: Any) -> TreeFile | LinearFile:
    """Read a model of trees or weights, in which missing values are 0 unless it says otherwise."""
    kind = str(document["class"]).removeprefix(_CLASS)
    refuse(kind not in _KINDS, f"its class {kind} cannot be read")
    names = [str(feature["name"]) for feature in document["features"]]
    scales = {
        str(feature["name"]): _scale_of(feature["norm"])
        for feature in document["features"]
        if feature.get("norm") is not None
    }
    params = document["params"]
    if kind == "LinearModel":
        return read_weights(names, params["weights"], scales=scales)
    refuse(any(scale != Scale() for scale in scales.values()), NORMALISED_TREES)
    trees = params["trees"]
    rules = replace(RULES, missing=0.0)
    if params.get("isNullSameAsZero") in (False, "false"):
        rules = RULES
    return read_trees(
        names,
        [tree["root"] for tree in trees],
        parse=_parse_node,
        rules=rules,
        weights=[float(tree.get("weight", 1)) for tree in trees],
    )


def _parse_node(columns: Mapping[str, int], node: Json) -> Split | float:
    if "value" in node:
        return float(node["value"])
    missing_left = node.get("missing") == "left"
    threshold = float(node["threshold"])
    if threshold == -np.inf and "missing" in node:  # a split of missing values from all others
        threshold = LOWEST
    return Split(columns[node["feature"]], threshold, missing_left, node["left"], node["right"])


def _scale_of(norm: Json) -> Scale:
    """Return the scaling of a normaliser."""
    kind, params = str(norm.get("class", "")).removeprefix(_NORM), norm.get("params") or {}
    if kind == "StandardNormalizer":
        shift, divisor = float(params.get("avg", 0.0)), float(params.get("std", 1.0))
    elif kind == "MinMaxNormalizer":
        shift = float(params["min"])
        divisor = float(np.float32(params["max"]) - np.float32(shift))
    else:
        refuse(kind != "IdentityNormalizer", f"its normaliser {kind} cannot be read")
        shift, divisor = 0.0, 1.0
    return check_scale(shift, divisor, f"its {kind}")
