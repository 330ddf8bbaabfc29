"""Solr's learning to rank, from 9.2: `MultipleAdditiveTreesModel`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array
from boostrank.export.consumers.solr import read
from boostrank.export.target import (
    ExportError,
    ServedModel,
    TargetSpec,
    above,
    cuts,
    java_text,
    missing_goes_left,
    nested,
    no_categories,
)
from boostrank.kernels.trees.walker import Forest

_SLACK = np.float32(1e-6)
# With the slack, thresholds below 1e-6 in size are multiples of 2^-44: float32 has no finer numbers near -1e-6.
_RESOLUTION = 2.0**-43


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
    """float32[M]: what becomes the cut of each node, or the number below it that can be had, when Solr has added its
    slack in float32.

    Raises:
        ExportError: two thresholds of a feature would become one.
    """
    cut = cuts(forest)
    near = (cut.astype(np.float64) - float(_SLACK)).astype(np.float32)
    stored = np.nextafter(near, np.float32(-np.inf))
    with np.errstate(over="ignore"):
        for higher in (near, above(near)):
            stored = np.where(higher + _SLACK <= cut, higher, stored)
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


SPEC = TargetSpec(
    name="solr",
    title="Solr 9.2 or later",
    write=write,
    read=read,
    proved_by="an emulator of Solr 9.2's MultipleAdditiveTreesModel",
    resolution=_RESOLUTION,
    how=(
        'features: in the store by the names in {file}, each with "params": {{"defaultValue": "NaN"}}: else what a '
        "document lacks is 0",
        "upload:   curl -XPUT http://HOST:8983/solr/COLLECTION/schema/model-store --data-binary @{file} "
        "-H 'Content-type: application/json'",
        'query:    rq={{!ltr model="{model}" reRankDocs=100}}&fl=id,score,[features]',
    ),
)
