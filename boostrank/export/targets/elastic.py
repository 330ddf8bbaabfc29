"""elastic: Elasticsearch's own learning to rank from 8.15, without a plugin."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np

from boostrank.core.errors import warn_user
from boostrank.core.types import Json
from boostrank.engines.served.elastic import RULES, read
from boostrank.export.target import ExportError, ServedModel, TargetSpec
from boostrank.export.targets.search_plugins import dump

_ID = re.compile("[a-z0-9]([a-z0-9_.-]{0,62}[a-z0-9])?")


def write(model: ServedModel) -> bytes:
    """Write the body of `PUT _ml/trained_models/ID`."""
    if not _ID.fullmatch(model.name):
        raise ExportError(
            f"{model.name!r} is not a valid model id in Elasticsearch: use up to 64 lowercase"
            " letters and digits, with - _ . between them (--name)"
        )
    names = [model.feature_names[i] for i in model.trees.forest.used]
    names = names or [model.feature_names[0]]
    ensemble = {
        "feature_names": names,
        "trained_models": [{"tree": _tree(tree)} for tree in dump(model, exact_text=True)],
        "aggregate_output": {"weighted_sum": {}},
        "target_type": "regression",
    }
    definition = json.dumps(
        {"trained_model": {"ensemble": ensemble}}, separators=(",", ":")
    ).encode()
    # Use the declared queries of features, or templates for the others.
    query = {"match": {"FIELD": "{{query}}"}}
    queries = {
        name: feature for name, feature in model.declared.items() if "query_extractor" in feature
    }
    extractors = [
        queries.get(name, {"query_extractor": {"feature_name": name, "query": query}})
        for name in names
    ]
    document: Json = {"inference_config": {"learning_to_rank": {"feature_extractors": extractors}}}
    document["compressed_definition"] = base64.b64encode(
        gzip.compress(definition, mtime=0)
    ).decode()
    body = (json.dumps(document, indent=1) + "\n").encode()
    if not queries:
        warn_user(
            f"the file has a template for each of {len(names)} features: replace FIELD, or the"
            " whole query, or pass feature extractors as JSON (--feature-names)",
            UserWarning,
        )
    return body


def _tree(root: Json) -> Json:
    """Convert a tree from `dump` to an array of nodes, which refer to each other by position."""
    unvisited, names = [root], dict[str, int]()
    nodes: list[Json] = []
    for node in unvisited:  # level by level, as `dump` numbers them
        nodes.append({"node_index": node["nodeid"]})
        if "leaf" in node:
            nodes[-1]["leaf_value"] = node["leaf"]
            continue
        nodes[-1] |= {
            "decision_type": "lt",
            "split_feature": names.setdefault(node["split"], len(names)),
            "threshold": node["split_condition"],
            "left_child": node["yes"],
            "right_child": node["no"],
            "default_left": node["missing"] == node["yes"],
        }
        unvisited += node["children"]
    return {"feature_names": list(names), "tree_structure": nodes, "target_type": "regression"}


SPEC = TargetSpec(
    name="elastic",
    title="Elasticsearch 8.15 or later without a plugin",
    write=write,
    parse=lambda document, names: read(document),
    rules=replace(RULES, leaves=np.float32),  # leaves are written so
    proved_by="reading the file by the rules of Elasticsearch's TreeInferenceModel",
    how="""\
features: the queries of {path}; a document that one does not match lacks that feature, as NaN \
in training
upload:   curl -XPUT http://HOST:9200/_ml/trained_models/{model} --data-binary @{path} -H \
'Content-type: application/json'
query:    curl http://HOST:9200/INDEX/_search -H 'Content-type: application/json' -d '{{"query": \
{{...}}, "rescore": {{"window_size": 1000, "learning_to_rank": {{"model_id": "{model}", \
"params": {{"query": "..."}}}}}}}}'  # window_size: all results, which get scores of the model
""",
    finite=True,
    categories=False,
)
