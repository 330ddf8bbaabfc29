"""Models of RankLib and RankyMcRankFace: LambdaMART and MART, linear regression and coordinate
ascent.

Features are numbered from 1, missing ones are 0, and trees add up in float32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.data.arrays import default_feature_names
from boostrank.engines.served.linear import LinearFile, read_weights
from boostrank.engines.served.rules import Rules, Split
from boostrank.engines.served.trees import TreeFile, read_trees
from boostrank.engines.trees import refuse

RULES = Rules(np.float32, missing=0.0, sums=np.float32, gives=np.float32)
"""RankLib's rules: leaves and weights are float32, and multiplied in float64."""

LINEAR_RULES = Rules(np.float32, missing=0.0)
_LINEAR = ("Linear Regression", "Coordinate Ascent")
_MOST_FEATURES = 1_000_000
_HEAD = re.compile(r"## *\w|\s*(<\?xml[^>]*>\s*)?<ensemble")


def recognises(document: Any) -> bool:
    """Return whether text is a model of RankLib."""
    return isinstance(document, str) and _HEAD.match(document) is not None


def read(document: Any, names: Sequence[str] = ()) -> TreeFile | LinearFile:
    """Read a model, whose features are called f1, f2, ... without `names`."""
    refuse(not isinstance(document, str), "RankLib's model must be text")
    heading = re.match(r"## *(.*)", document)
    kind = heading[1].strip() if heading else "MART"
    if kind in _LINEAR:
        return _read_linear(document, names)
    refuse(kind not in ("LambdaMART", "MART"), f"its kind {kind!r} cannot be read")
    return _read_trees(document[document.find("<ensemble") :], names)


def _names(last_feature: int, names: Sequence[str]) -> Sequence[str]:
    refuse(not 1 <= last_feature <= _MOST_FEATURES, f"feature {last_feature} is out of range")
    refuse(
        bool(names) and last_feature > len(names), f"the feature set has no feature {last_feature}"
    )
    return names or default_feature_names(last_feature)


def _read_linear(document: str, names: Sequence[str]) -> LinearFile:
    lines = [line for line in document.splitlines() if line.strip() and line[0] != "#"]
    refuse(len(lines) != 1, "it must have one line of weights")
    weights: dict[int, float] = {}
    for term in lines[0].split():
        number, _, weight = term.partition(":")
        refuse(not re.fullmatch(r"\d{1,9}", number), f"{term[:40]!r} is no weight")
        refuse(int(number) in weights, f"feature {number} has two weights")
        weights[int(number)] = float(weight)
    bias = weights.pop(0, 0.0)
    names = _names(max(weights, default=0), names)
    by_name = {names[number - 1]: weight for number, weight in weights.items()}
    return read_weights(names, by_name, bias=bias, rules=LINEAR_RULES)


def _read_trees(document: str, names: Sequence[str]) -> TreeFile:
    refuse("<!" in document, "its XML has declarations or comments")
    try:
        ensemble = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise ModelError(f"its XML is broken: {error}") from None
    trees = ensemble.findall("tree")
    features = [_parse_whole(element) for element in ensemble.iter("feature")]
    names = _names(max(features, default=1), names)
    weights = [float(np.float32(tree.get("weight", "1"))) for tree in trees]
    roots = [tree.find("split") for tree in trees]
    return read_trees(names, roots, parse=_parse_node, rules=RULES, weights=weights)


def _parse_whole(element: Any) -> int:
    text = (element.text or "").strip()
    refuse(not re.fullmatch(r"[1-9]\d{0,8}", text), f"feature {text[:40]!r} is no number from 1")
    return int(text)


def _parse_node(columns: Mapping[str, int], node: Any) -> Split | float:
    output = node.find("output")
    if output is not None:
        return float(np.float32(output.text))
    children = {child.get("pos"): child for child in node.findall("split")}
    column = _parse_whole(node.find("feature")) - 1
    refuse(not 0 <= column < len(columns), f"feature {column + 1} is out of range")
    threshold = float(np.float32(node.find("threshold").text))
    return Split(column, threshold, threshold >= 0.0, children["left"], children["right"])
