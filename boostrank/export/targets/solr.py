"""solr: Solr's learning to rank from 9.2: `MultipleAdditiveTreesModel` or `LinearModel`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from boostrank.core.types import Float32Array, Float64Array, Json, ParamValues
from boostrank.engines.served.linear import RULES as LINEAR_RULES
from boostrank.engines.served.solr import RULES, SLACK, read
from boostrank.export.target import (
    ExportError,
    ServedModel,
    TargetSpec,
    cuts,
    java_text,
    missing_goes_left,
    nested,
)
from boostrank.kernels.forest import Forest

_PACKAGE = "org.apache.solr.ltr"
_ZERO = np.float32(2e-35)  # LightGBM treats smaller values as zero


def write(model: ServedModel) -> bytes:
    """Write a model for Solr's model store."""
    forest = model.trees.forest
    stored, missing_left = _before_slack(forest), missing_goes_left(forest)

    def node(number: int, left: Any, right: Any) -> Json:
        return {
            "feature": model.feature_names[forest.feature[number]],
            "threshold": java_text(stored[number]),
            "missing": "left" if missing_left[number] else "right",
            "left": left,
            "right": right,
        }

    # The trees, and the features that they use.
    roots = nested(forest, lambda value: {"value": java_text(value)}, node, model.trees.base)
    used_names = [model.feature_names[i] for i in forest.used]
    params = {
        "isNullSameAsZero": False,
        "trees": [{"weight": "1", "root": root} for root in roots],
    }
    features = [{"name": name} for name in used_names or model.feature_names[:1]]
    return _document(model, "MultipleAdditiveTreesModel", features, params)


def _write_linear(model: ServedModel) -> bytes:
    """Write weights and normalizers. As Solr adds no bias, one normalizer's average contains it."""
    terms = model.linear.terms(model.feature_names)
    features: list[Json] = []
    weights = {}
    for name, (weight, shift, divisor) in terms.items():
        features.append({"name": name})
        weights[name] = weight
        if (shift, divisor) != (0.0, 1.0):
            scaling = {"avg": repr(shift), "std": repr(divisor)}
            normalizer = {"class": f"{_PACKAGE}.norm.StandardNormalizer", "params": scaling}
            features[-1]["norm"] = normalizer
    return _document(model, "LinearModel", features, {"weights": weights})


def _document(model: ServedModel, name: str, features: Sequence[Any], params: ParamValues) -> bytes:
    stores = {str(feature["store"]) for feature in model.declared.values() if "store" in feature}
    document = {
        "class": f"{_PACKAGE}.model.{name}",
        "name": model.name,
        **({"store": stores.pop()} if stores else {}),
        "features": features,
        "params": params,
    }
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _before_slack(forest: Forest) -> Float32Array:
    """Return the thresholds to store, float32[M], so that adding Solr's slack in float32 gives the
    cut at each node.

    If no number gives the cut, store the next larger number, because the cut may occur as a value.
    Near 0, store the next smaller number, because zeros must stay on the same side.
    """
    cut = cuts(forest)
    rounded = (cut.astype(np.float64) - SLACK).astype(np.float32)
    with np.errstate(over="ignore"):
        lower = rounded_up = np.nextafter(rounded, -np.inf)
        higher = rounded_down = np.nextafter(rounded, np.inf)
        for candidate in (rounded, higher):
            rounded_up = np.where(rounded_up + SLACK >= cut, rounded_up, candidate)
        for candidate in (rounded, lower):
            rounded_down = np.where(rounded_down + SLACK <= cut, rounded_down, candidate)
        stored = np.where(np.abs(cut) < _ZERO, rounded_down, rounded_up)
    # Adjacent thresholds of a feature that differ in the model and are equal in Solr.
    order = np.lexsort((cut, forest.feature))
    sorted_cut, sorted_stored = cut[order], stored[order]
    merged = (sorted_cut[1:] > sorted_cut[:-1]) & (sorted_stored[1:] == sorted_stored[:-1])
    merged &= np.diff(forest.feature[order]) == 0
    if merged.any():
        node = order[np.argmax(merged)]
        raise ExportError(
            f"column {forest.feature[node]} has thresholds near {cut[node]:.3g} that become equal"
            " in Solr, which adds 1e-6 to each: multiply the feature by 1,000,000, in the data and"
            " in Solr, and train again"
        )
    return stored


def _resolution(forest: Forest) -> Float64Array:
    """Return the distance between Solr's threshold and the cut at each node, float64[M]."""
    with np.errstate(invalid="ignore"):
        distance = np.abs((_before_slack(forest) + SLACK).astype(np.float64) - cuts(forest))
    return np.where(np.isfinite(distance), distance, 0.0)


_HOW = """\
features: in the feature store under the names in {path}, each with "params": {{"defaultValue": \
"NaN"}}; without it missing values are 0
upload:   curl -XPUT http://HOST:8983/solr/COLLECTION/schema/model-store --data-binary @{path} \
-H 'Content-type: application/json'
query:    curl http://HOST:8983/solr/COLLECTION/query --data-urlencode 'q=...' -d \
'fl=id,score,[features]' --data-urlencode 'rq={{!ltr model="{model}" reRankDocs=1000}}'  # \
reRankDocs: all results, which get scores of the model
"""
_DEFAULTS = 'with the "defaultValue" above in their params if documents lack them'
SPEC = TargetSpec(
    name="solr",
    title="Solr 9.2 or later",
    write=write,
    parse=lambda document, names: read(document),
    rules=RULES,
    proved_by="reading the file by the rules of Solr 9.2's MultipleAdditiveTreesModel",
    resolution=_resolution,
    categories=False,
    one_store=True,
    unset=0.0,
    default='"defaultValue": "{value}" in its "params"',
    how=_HOW,
    linear={
        "title": "Solr 9",
        "write": _write_linear,
        "rules": LINEAR_RULES,
        "proved_by": "reading the file by the rules of Solr 9's LinearModel",
        "how": re.sub("each with .* values are 0", _DEFAULTS, _HOW),
    },
)
