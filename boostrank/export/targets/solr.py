"""Solr's learning to rank, from 9.2: `MultipleAdditiveTreesModel`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Float64Array
from boostrank.export.consumers.solr import read
from boostrank.export.target import (
    ExportError,
    ServedModel,
    TargetSpec,
    cuts,
    java_text,
    missing_goes_left,
    nested,
    no_categories,
)
from boostrank.kernels.trees.walker import Forest

_SLACK = np.float32(1e-6)
_ZERO = np.float32(2e-35)  # below it LightGBM tells zeros from other numbers


def write(model: ServedModel, *, missing: bool = True) -> bytes:
    """The model as the model store takes it.

    Args:
        model: to write.
        missing: whether splits say where missing values go, which Solr understands since 9.2.

    Raises:
        ExportError: categories, zeros that are missing, trees too deep, or thresholds too near to 0 for Solr's slack.
    """
    forest = model.trees.forest
    no_categories(forest, "Solr", "train with numbers in their place")
    stored, left = _before_slack(forest), missing_goes_left(forest)

    def leaf(number: int) -> dict[str, Any]:
        return {"value": java_text(forest.value[number])}

    def node(number: int, yes: Any, no: Any) -> dict[str, Any]:
        missing_side = {"missing": "left" if left[number] else "right"} if missing else {}
        feature = {"feature": model.feature_names[forest.feature[number]], "threshold": java_text(stored[number])}
        return feature | missing_side | {"left": yes, "right": no}

    roots = nested(forest, leaf, node)
    if model.trees.base:
        roots.insert(0, {"value": java_text(model.trees.base)})
    params: dict[str, Any] = {"isNullSameAsZero": False} if missing else {}
    used = [model.feature_names[i] for i in np.unique(forest.feature)]
    document = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": model.name,
        "features": [{"name": name} for name in used or model.feature_names[:1]],
        "params": params | {"trees": [{"weight": "1", "root": root} for root in roots]},
    }
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _before_slack(forest: Forest) -> Float32Array:
    """float32[M]: what becomes the cut of each node when Solr has added its slack in float32; where nothing does, the
    next number that can be had: above it, as it may be a value that occurs, but below where zeros go right or left.

    Raises:
        ExportError: two thresholds of a feature would become one.
    """
    cut = cuts(forest)
    near = (cut.astype(np.float64) - float(_SLACK)).astype(np.float32)
    with np.errstate(over="ignore"):
        below, higher = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
        up, down = higher, below
        for number in (near, below):
            up = np.where(number + _SLACK >= cut, number, up)
        for number in (near, higher):
            down = np.where(number + _SLACK <= cut, number, down)
        stored = np.where(np.abs(cut) < _ZERO, down, up)
    order = np.lexsort((cut, forest.feature))
    sorted_cut, sorted_stored = cut[order], stored[order]
    one = (sorted_cut[1:] > sorted_cut[:-1]) & (sorted_stored[1:] == sorted_stored[:-1])
    one &= np.diff(forest.feature[order]) == 0
    if one.any():
        raise ExportError(
            f"column {forest.feature[order][np.argmax(one)]} has thresholds near {cut[order][np.argmax(one)]:.3g} that "
            "become one in Solr, which adds 1e-6 to each: multiply the feature by 1,000,000, in the data and in Solr, "
            "and train again"
        )
    return stored


def _resolution(forest: Forest) -> Float64Array:
    """float64[M]: how far Solr's threshold is from the cut of each node."""
    with np.errstate(invalid="ignore"):
        distance = np.abs((_before_slack(forest) + _SLACK).astype(np.float64) - cuts(forest))
    return np.where(np.isfinite(distance), distance, 0.0)


SPEC = TargetSpec(
    name="solr",
    title="Solr 9.2 or later",
    write=write,
    read=read,
    proved_by="an emulator of Solr 9.2's MultipleAdditiveTreesModel",
    resolution=_resolution,
    how=(
        'features: in the store by the names in {file}, each with "params": {{"defaultValue": "NaN"}}: else what a '
        "document lacks is 0",
        "upload:   curl -XPUT http://HOST:8983/solr/COLLECTION/schema/model-store --data-binary @{file} "
        "-H 'Content-type: application/json'",
        'query:    rq={{!ltr model="{model}" reRankDocs=100}}&fl=id,score,[features]',
    ),
)
