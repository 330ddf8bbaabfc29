"""elasticsearch: Elasticsearch's LTR plugin from 1.5.10: `model/xgboost+json`, `model/linear`.
opensearch: OpenSearch's LTR plugin from 3.8: `model/xgboost+json`, `model/linear`.
opensearch-2: OpenSearch 2 and up to 3.1, where missing values count as 0.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from boostrank.core.types import Json
from boostrank.engines.served.linear import RULES as LINEAR_RULES
from boostrank.engines.served.search_plugins import RULES, read_upload
from boostrank.export.target import (
    ServedModel,
    TargetSpec,
    above,
    cuts,
    exactly,
    missing_goes_left,
    nested,
    shortest,
)

_HOW = """\
features: a feature set with the model's names, in any order: POST _ltr/_featureset/SET
upload:   curl -XPOST http://HOST:9200/_ltr/_featureset/SET/_createmodel --data-binary @{path} \
-H 'Content-type: application/json'
query:    curl http://HOST:9200/INDEX/_search -H 'Content-type: application/json' -d '{{"query": \
{{...}}, "rescore": {{"window_size": 1000, "query": {{"query_weight": 0, "rescore_query_weight": \
1, "rescore_query": {{"sltr": {{"model": "{model}", "params": {{...}}}}}}}}}}}}'  # window_size: \
all results
"""


def dump(model: ServedModel, exact_text: bool = False) -> list[Json]:
    """Return the trees in the format of XGBoost's dump, in which values below a condition go to
    `yes`.

    `exact_text` writes float32 numbers in full, for programs that read float64, instead of their
    shortest text.
    """
    forest = model.trees.forest
    conditions, missing_left = above(cuts(forest)), missing_goes_left(forest).tolist()
    float_of = exactly if exact_text else shortest

    def node(index: int, yes: Any, no: Any) -> Json:
        return {
            "split": model.feature_names[forest.feature[index]],
            "split_condition": float_of(conditions[index]),
            "missing": missing_left[index],
            "children": [yes, no],
        }

    trees = nested(forest, lambda value: {"leaf": float_of(value)}, node, model.trees.base)
    return list(map(_numbered, trees))


def _numbered(tree: Json) -> Json:
    """Number the nodes in a tree level by level, and convert directions to ids."""
    nodes: list[Json] = [{"nodeid": 0, "depth": 0, **tree}]
    for node in nodes:
        if "children" not in node:
            del node["depth"]  # leaves have none in XGBoost's own dumps
            continue
        yes_id, no_id = ids = len(nodes), len(nodes) + 1
        missing_id = yes_id if node.pop("missing") else no_id
        children = zip(ids, node.pop("children"), strict=True)
        child_nodes = [{"nodeid": i, "depth": node["depth"] + 1, **child} for i, child in children]
        node |= {"yes": yes_id, "no": no_id, "missing": missing_id, "children": child_nodes}
        nodes += child_nodes
    return nodes[0]


def write_dump(model: ServedModel) -> bytes:
    """Write the body for `_createmodel`, with the trees as a string, so that no JSON parser rounds
    their numbers.
    """
    definition = json.dumps(dump(model), separators=(",", ":"))
    return _created(model, {"type": "model/xgboost+json", "definition": definition})


def _created(model: ServedModel, ranker: Json) -> bytes:
    return (json.dumps({"model": {"name": model.name, "model": ranker}}) + "\n").encode()


def _write_linear(model: ServedModel) -> bytes:
    """Write weights and normalizers. As plugins add no bias, one normalizer's mean contains it."""
    terms = model.linear.terms(model.feature_names)
    weights, normalizers = {}, {}
    for name, (weight, shift, divisor) in terms.items():
        weights[name] = weight
        if (shift, divisor) != (0.0, 1.0):
            normalizers[name] = {"standard": {"mean": shift, "standard_deviation": divisor}}
    ranker = {"type": "model/linear", "feature_normalizers": normalizers}
    return _created(model, ranker | {"definition": json.dumps(weights)})


_DEFAULT = '"missing": {value} in the field_value_factor of its query'
ELASTICSEARCH = TargetSpec(
    name="elasticsearch",
    title="Elasticsearch with the LTR plugin 1.5.10 or later",
    write=write_dump,
    parse=read_upload,
    rules=RULES,
    proved_by="reading the file by the rules of the plugin's XGBoostJsonParser 1.5.12",
    how=_HOW,
    finite=True,
    aliases=("es",),
    categories=False,
    linear={
        "title": "the LTR plugins of Elasticsearch and OpenSearch",
        "write": _write_linear,
        "rules": LINEAR_RULES,
        "proved_by": "reading the file by the rules of the plugins' LinearRanker",
        "no_missing": "",
        "unset": 0.0,
        "default": _DEFAULT,
    },
)
OPENSEARCH = replace(
    ELASTICSEARCH,
    name="opensearch",
    title="OpenSearch 3.8 or later",
    proved_by="reading the file by the rules of the plugin's XGBoostJsonParser 3.8",
    aliases=(),
)
SPECS = (
    ELASTICSEARCH,
    OPENSEARCH,
    replace(
        OPENSEARCH,
        name="opensearch-2",
        title="OpenSearch 2.0 to 3.1",
        rules=replace(RULES, missing=0.0),
        proved_by="reading the file by the rules of the plugin's XGBoostJsonParser 2.19",
        no_missing="OpenSearch before 3.2 reads missing values as 0",
        unset=0.0,
        default=_DEFAULT,
    ),
)
