"""Models of the learning-to-rank plugins of Elasticsearch and OpenSearch: XGBoost's dump, and RankLib's XML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from boostrank.export.target import (
    ServedModel,
    above,
    cuts,
    java_text,
    missing_goes_left,
    nested,
    no_categories,
    shortest,
)

HOW = (
    "features: a feature set whose names are the model's: POST _ltr/_featureset/SET (its order is of no importance)",
    "upload:   curl -XPOST http://HOST:9200/_ltr/_featureset/SET/_createmodel --data-binary @{file} "
    "-H 'Content-type: application/json'",
    'query:    "rescore": {{"query": {{"rescore_query": {{"sltr": {{"model": "{model}", "params": {{...}}}}}}}}}}',
)


def dump(model: ServedModel, engine: str, exact_text: bool = False) -> list[dict[str, Any]]:
    """The trees as XGBoost dumps them: a value below a condition goes to `yes`.

    Args:
        model: to write.
        engine: that reads it, for messages.
        exact_text: numbers are read as float64 and must be float32 numbers all the same; otherwise as short as can be.

    Raises:
        ExportError: categories, zeros that are missing, or trees too deep.
    """
    forest = model.trees.forest
    no_categories(forest, engine, "train with numbers in their place")
    conditions, left = above(cuts(forest)), missing_goes_left(forest).tolist()

    def number(value: Any) -> float:
        return float(np.float32(shortest(value))) if exact_text else shortest(value)

    def leaf(index: int) -> dict[str, Any]:
        return {"leaf": number(forest.value[index])}

    def node(index: int, yes: Any, no: Any) -> dict[str, Any]:
        return {
            "split": model.feature_names[forest.feature[index]], "split_condition": number(conditions[index]),
            "missing": left[index], "children": [yes, no],
        }  # fmt: skip

    base = [{"leaf": number(model.trees.base)}] if model.trees.base else []
    return [_numbered(tree) for tree in base + nested(forest, leaf, node)]


def _numbered(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with ids, in breadth, and with ids in place of directions."""
    root = {"nodeid": 0, "depth": 0, **tree}
    level, count = [root], 1
    while level:
        below = []
        for one in level:
            if "children" not in one:
                del one["depth"]  # leaves have none in XGBoost's own dumps
                continue
            children = [
                {"nodeid": count + i, "depth": one["depth"] + 1, **child} for i, child in enumerate(one.pop("children"))
            ]
            to_yes = one.pop("missing")
            one |= {"yes": count, "no": count + 1, "missing": count if to_yes else count + 1, "children": children}
            below += children
            count += 2
        level = below
    return root


def created_model(model: ServedModel, kind: str, definition: str) -> bytes:
    """The body of `_createmodel`; the definition as a string, whose numbers nothing rounds on the way."""
    inner = {"name": model.name, "model": {"type": kind, "definition": definition}}
    return (json.dumps({"model": inner}) + "\n").encode()


def write_dump(model: ServedModel) -> bytes:
    """As `model/xgboost+json`."""
    trees = dump(model, "the plugin")
    return created_model(model, "model/xgboost+json", json.dumps(trees, separators=(",", ":")))


def write_ranklib(model: ServedModel) -> bytes:
    """As `model/ranklib`: features are numbers, from 1 in the order of the feature set.

    Raises:
        ExportError: as `dump`.
    """
    forest = model.trees.forest
    no_categories(forest, "RankLib", "train with numbers in their place")
    missing_goes_left(forest)
    cut = cuts(forest)

    def leaf(index: int) -> str:
        return f"<output>{java_text(forest.value[index])}</output>"

    def node(index: int, yes: str, no: str) -> str:
        return (
            f"<feature>{forest.feature[index] + 1}</feature><threshold>{java_text(cut[index])}</threshold>"
            f'<split pos="left">{yes}</split><split pos="right">{no}</split>'
        )

    base = [f"<output>{java_text(model.trees.base)}</output>"] if model.trees.base else []
    trees = base + nested(forest, leaf, node)
    lines = (f'<tree id="{i}" weight="1.0"><split>{tree}</split></tree>' for i, tree in enumerate(trees, 1))
    text = "\n".join([f"## LambdaMART\n## No. of trees = {len(trees)}\n\n<ensemble>", *lines, "</ensemble>\n"])
    return created_model(model, "model/ranklib", text)
