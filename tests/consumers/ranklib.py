"""RankLib's LambdaMART model file, as the learning-to-rank plugins of Elasticsearch and OpenSearch score it.

From the source: RankyMcRankFace (RankLib as the plugins bundle it) 0.1.0 to 0.3.0, `RankerFactory`,
`ModelLineProducer`, `Ensemble`, `Split`; and the plugins' `DenseProgramaticDataPoint`. Features are numbers from 1 in
the order of the feature set, float32, and what a document has no value for is 0. A value up to the threshold goes left.
A leaf times its tree's weight is added in float64, and the sum is kept in float32.

Lines are joined without their margins, and elements are found by position: white space between two of them is refused.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Float32Array, Float64Array
from tests.consumers.trees import Leaf, Node, Scorer, Split, float32, float32_columns, outputs, shallow


def read(text: str, features: int) -> Scorer:
    """A function that scores as RankLib does, float32[n].

    Args:
        text: the model file.
        features: how many the feature set has.

    Raises:
        ModelError: RankLib refuses the file, or would fail when scoring.
    """
    head, *_ = re.split("[\r\n]", text)
    if head.replace("## ", "").strip().upper() not in ("LAMBDAMART", "MART"):
        raise ModelError(f"RankLib: the first line must be '## LambdaMART', not {head!r}")
    lines = (line.strip() for line in re.split("[\r\n]", text))
    model = "".join(line for line in lines if not line.startswith("#"))
    if "<!" in model:  # Its newer versions refuse a DOCTYPE, and comments would be taken for elements.
        raise ModelError("RankLib: a DOCTYPE or a comment is refused")
    try:
        document = ElementTree.fromstring(model)
    except ElementTree.ParseError as error:
        raise ModelError(f"RankLib: no XML: {error}") from error
    with shallow("RankLib"):
        trees = [weighted(tree, features) for tree in document.iter("tree")]

    def scores(features: Float64Array) -> Float32Array:
        values = float32_columns(features, absent=0.0)
        total = np.zeros(values.shape[1], dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, root in trees:
                added = outputs(root, values, left).astype(np.float64) * np.float64(weight)
                total = (total.astype(np.float64) + added).astype(np.float32)
        return total

    return scores


def left(values: Float32Array, split: Split) -> Any:
    """Who goes left at a split."""
    return values <= split.threshold


def weighted(tree: ElementTree.Element, features: int) -> tuple[np.float32, Node]:
    """The weight and the root of a tree."""
    if "weight" not in tree.attrib:
        raise ModelError("RankLib: a tree has no weight")
    root = children(tree, 1)[0]
    return float32(tree.attrib["weight"]), parsed(root, features)


def parsed(node: ElementTree.Element, features: int) -> Node:
    """A split and what is below it, or a leaf."""
    if len(node) and node[0].tag.lower() == "feature":
        feature, threshold, *below = children(node, 4)
        fid = content(feature)
        if not re.fullmatch(r"[+-]?\d+", fid) or not 1 <= int(fid) <= features:
            raise ModelError(f"RankLib: feature {fid} is none of 1 to {features}: scoring fails")
        return Split(int(fid) - 1, float32(content(threshold)), parsed(below[0], features), parsed(below[1], features))
    return Leaf(float32(content(children(node, 1)[0])))


def children(node: ElementTree.Element, count: int) -> list[ElementTree.Element]:
    """The elements in a node, with nothing between them."""
    if node.text or any(child.tail for child in node):
        raise ModelError(f"RankLib: white space or text between the elements of <{node.tag}>")
    if len(node) < count:
        raise ModelError(f"RankLib: <{node.tag}> must hold {count} elements, and holds {len(node)}")
    return list(node)[:count]


def content(node: ElementTree.Element) -> str:
    """The text of an element that holds nothing else."""
    if node.text is None:
        raise ModelError(f"RankLib: <{node.tag}> is empty")
    return node.text.strip()
