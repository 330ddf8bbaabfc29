"""Solr's trees: a `MultipleAdditiveTreesModel` of the learning-to-rank module, as JSON for its
model store.

From the source: `MultipleAdditiveTreesModel`, `LTRScoringModel`, `ManagedModelStore`
(solr/modules/ltr) and `SolrPluginUtils.invokeSetters` of Solr 9. Everything is float32. A threshold
is stored as threshold + 1e-6, and a value up to it goes left. What a document has no value for is
0; since 9.2, with `isNullSameAsZero` false (and `defaultValue` NaN of the feature in the feature
store, taken for granted here), it goes where the split's `missing` says.

Numbers are strings in the file: fields are set by setters found by the class of the value, and none
takes the double that a JSON number becomes. `isNullSameAsZero` alone is no string, whatever the
reference guide shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Float32Array, Float64Array
from tests.consumers.trees import (
    Leaf,
    Node,
    Scorer,
    Split,
    check_fields,
    field,
    float32,
    float32_columns,
    json_of,
    outputs,
    shallow,
)

SLACK = np.float32(1e-6)
MISSING_SINCE = (9, 2)
CLASS = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
IDENTITY = "org.apache.solr.ltr.norm.IdentityNormalizer"


def read(
    body: bytes, feature_names: Sequence[str], *, version: tuple[int, ...] = MISSING_SINCE
) -> Scorer:
    """A function that scores as Solr does, float32[n].

    Args:
        body: what is put to `/schema/model-store`: one model.
        feature_names: features of its feature store: the columns.
        version: of Solr.

    Raises:
        ModelError: Solr refuses the model; or, when scoring, a document comes to a split without
            `missing` that has no value for it, where Solr fails.
    """
    with shallow("Solr"):
        model = json_of(body, "Solr")
        check_fields(model, {"class", "name", "store", "features", "params"}, "the model", "Solr")
        if model.get("class") != CLASS:
            raise ModelError(f"Solr: the class must be {CLASS}, not {model.get('class')!r}")
        if not field(model, "name", str, "Solr"):
            raise ModelError("Solr: the model has no name")
        columns = model_features(model, {name: column for column, name in enumerate(feature_names)})
        params = field(model, "params", dict, "Solr") or {}
        # Since that version a split may say where a document without a value goes.
        missing = tuple(version) >= MISSING_SINCE
        settable_names = {"trees", "isNullSameAsZero"} if missing else {"trees"}
        settable(params, settable_names, "params")
        missing_is_zero = field(params, "isNullSameAsZero", bool, "Solr") is not False
        if "trees" not in params:
            raise ModelError(f"Solr: no trees declared for model {model['name']}")
        fields = {"value", "feature", "threshold", "left", "right"} | (
            {"missing"} if missing else set()
        )
        trees = [weighted(tree, columns, fields) for tree in field(params, "trees", list, "Solr")]

    def scores(features: Float64Array) -> Float32Array:
        filler = 0.0 if missing_is_zero else np.nan
        values = float32_columns(features, absent=filler)
        total = np.zeros(values.shape[1], dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for weight, root in trees:
                total += weight * outputs(root, values, left)
        return total

    return scores


def left(values: Float32Array, split: Split) -> Any:
    """Who goes left at a split."""
    goes = values <= split.threshold
    none = np.isnan(values)
    if none.any():
        if split.missing is None:
            raise ModelError(
                "Solr: a document without a value comes to a split without 'missing': Solr fails"
                " there"
            )
        goes |= none & (split.missing == "left")
    return goes


def model_features(model: Mapping[str, Any], store: Mapping[str, int]) -> dict[str, int]:
    """The column of each feature that the model declares."""
    names: list[str] = []
    for feature in field(model, "features", list, "Solr") or []:
        check_fields(feature, {"name", "norm"}, "a feature", "Solr")
        if (feature.get("norm") or {"class": IDENTITY}).get("class") != IDENTITY:
            raise ModelError("Solr: normalizers of features are not emulated")
        if feature.get("name") not in store:
            raise ModelError(f"Solr: Feature: {feature.get('name')} not found in store")
        if feature["name"] in names:
            raise ModelError(f"Solr: duplicated feature {feature['name']} in model {model['name']}")
        names.append(feature["name"])
    if not names:
        raise ModelError(f"Solr: no features declared for model {model['name']}")
    return {name: store[name] for name in names}


def settable(node: Any, fields: set[str], what: str) -> None:
    """Refuses fields that have no setter."""
    if type(node) is not dict:
        raise ModelError(f"Solr: {what} must be an object")
    for name in node:
        if name not in fields:
            raise ModelError(f"Solr: No setter corresponding to {name!r} in {what}")


def weighted(tree: Any, columns: Mapping[str, int], fields: set[str]) -> tuple[np.float32, Node]:
    """The weight and the root of a tree."""
    settable(tree, {"weight", "root"}, "a tree")
    if "weight" not in tree:
        raise ModelError("Solr: MultipleAdditiveTreesModel tree doesn't contain a weight")
    if "root" not in tree:
        raise ModelError("Solr: MultipleAdditiveTreesModel tree doesn't contain a tree")
    root = parsed(tree["root"], columns, fields)
    return float32(field(tree, "weight", str, "Solr")), root


def parsed(node: Any, columns: Mapping[str, int], fields: set[str]) -> Node:
    """A node and what is below it."""
    settable(node, fields, "a node")
    for name in ("threshold", "value", "missing", "feature"):
        field(node, name, str, "Solr")
    below = {
        side: parsed(node[side], columns, fields) for side in ("left", "right") if side in node
    }
    if "feature" not in node:
        if below:
            raise ModelError(
                "Solr: MultipleAdditiveTreesModel tree node is leaf with left or right"
            )
        return Leaf(float32(node.get("value", "0")))
    for name in ("threshold", "left", "right"):
        if name not in node:
            raise ModelError(f"Solr: MultipleAdditiveTreesModel tree node is missing {name}")
    if node["feature"] not in columns:
        # A feature that the model does not declare: whoever comes there has 0..
        return Leaf(np.float32(0))
    threshold = float32(node["threshold"]) + SLACK
    return Split(
        columns[node["feature"]], threshold, below["left"], below["right"], node.get("missing")
    )
