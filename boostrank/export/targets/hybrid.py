"""elastic-linear: Elasticsearch 8.18 or later: `linear` retriever with weights of hybrid search.
opensearch-hybrid: OpenSearch 2.11 or later: search pipeline with weights of hybrid search.

Both sum scores times weights, after min-max normalisation within the query, or z_score
(OpenSearch 3.0 or later). OpenSearch raises a min-max score of 0 to 0.001. If all scores are equal,
min-max makes them 1 in OpenSearch, and leaves them as they are in Elasticsearch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from boostrank.data.feature_space import quoted
from boostrank.engines.served.linear import RULES, LinearScore
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec

_TECHNIQUES = {"minmax": "min_max", "opensearch_zscore": "z_score"}  # of OpenSearch
_MOST_QUERIES = 5  # of OpenSearch


def _weights(model: ServedModel, kind: str = "minmax") -> dict[str, float]:
    """Return the weight of each score in columns of a kind, where the sum is 1.

    Raises:
        ExportError: a column is not a score, a weight is negative, or all are 0.
    """
    linear, names = model.linear, model.feature_names
    # Only columns of this kind may weigh, and no weight may be negative.
    scores = [re.fullmatch(rf"{kind}\((.*)\|query\)", name) for name in names]
    unscored_columns = [names[i] for i in linear.used if scores[i] is None]
    if unscored_columns:
        raise ExportError(
            f"hybrid search has no {quoted(unscored_columns)}: train with --within-query {kind}"
            " --param scaling=scores"
        )
    negative = [names[i] for i in linear.used if linear.weights[i] < 0.0]
    if negative or not linear.used.size:
        fault = f"a negative weight for {quoted(negative)}" if negative else "no weight above 0"
        raise ExportError(
            f"the model has {fault}, which hybrid search refuses: train with --param"
            " monotone_constraints=1,1 (one number per score)"
        )
    shares = (linear.weights / linear.weights.sum()).tolist()
    return {score[1]: share for score, share in zip(scores, shares, strict=True) if score}


def _write_elastic(model: ServedModel) -> bytes:
    """Write a search with a template for the query of each score."""
    retrievers = [
        {
            "retriever": {"standard": {"_name": name, "query": {"match": {"FIELD": "QUERY"}}}},
            "weight": weight,
            "normalizer": "minmax",
        }
        for name, weight in _weights(model).items()
    ]
    linear = {"retrievers": retrievers, "rank_window_size": 100}
    return (json.dumps({"retriever": {"linear": linear}}, indent=1) + "\n").encode()


def _read_elastic(body: bytes, names: Sequence[str]) -> Score:
    weights = {}
    for retriever in json.loads(body)["retriever"]["linear"]["retrievers"]:
        weights[retriever["retriever"]["standard"]["_name"]] = retriever["weight"]
    return _score(weights, names)


def _write_opensearch(model: ServedModel) -> bytes:
    """Write a search pipeline; its description names the sub-queries in order."""
    kind = next((kind for kind in _TECHNIQUES if f"{kind}(" in str(model.feature_names)), "minmax")
    weights = _weights(model, kind)
    if len(weights) > _MOST_QUERIES:
        raise ExportError(
            f"{len(weights)} scores are more than the {_MOST_QUERIES} sub-queries of OpenSearch"
        )
    combination = {
        "technique": "arithmetic_mean",
        "parameters": {"weights": list(weights.values())},
    }
    processor = {"normalization": {"technique": _TECHNIQUES[kind]}, "combination": combination}
    pipeline = {
        "description": f"Sub-queries: {json.dumps(list(weights))}",
        "phase_results_processors": [{"normalization-processor": processor}],
    }
    return (json.dumps(pipeline, indent=1) + "\n").encode()


def _read_opensearch(body: bytes, names: Sequence[str]) -> Score:
    pipeline = json.loads(body)
    scores = json.loads(pipeline["description"].removeprefix("Sub-queries: "))
    processor = pipeline["phase_results_processors"][0]["normalization-processor"]
    weights = processor["combination"]["parameters"]["weights"]
    kinds = {technique: kind for kind, technique in _TECHNIQUES.items()}
    kind = kinds[processor["normalization"]["technique"]]
    return _score(dict(zip(scores, weights, strict=True)), names, kind)


def _score(weights: Mapping[str, Any], names: Sequence[str], kind: str = "minmax") -> Score:
    columns = {f"{kind}({name}|query)": weight for name, weight in weights.items()}
    linear = LinearScore.of_weights([columns.get(name, 0.0) for name in names])
    return partial(linear.score, rules=RULES)


ELASTIC = TargetSpec(
    name="elastic-linear",
    title="Elasticsearch's linear retriever",
    write=_write_elastic,
    read=_read_elastic,
    rules=RULES,
    proved_by="reading the file by the rules of the linear retriever",
    how="""\
queries:  replace the query of each retriever in {path} by the one that gave the score of its \
_name
search:   curl http://HOST:9200/INDEX/_search --data-binary @{path} -H 'Content-type: \
application/json'
scores are those of the model without its intercept, divided by the sum of the weights
""",
    engine="linear",
    normalises=True,
    finite=True,
    unset=0.0,
)
SPECS = (
    ELASTIC,
    replace(
        ELASTIC,
        name="opensearch-hybrid",
        title="OpenSearch's hybrid query",
        write=_write_opensearch,
        read=_read_opensearch,
        proved_by="reading the file by the rules of the normalization-processor",
        how="""\
upload:   curl -XPUT http://HOST:9200/_search/pipeline/{model} --data-binary @{path} -H \
'Content-type: application/json'
query:    search_pipeline={model} with {{"query": {{"hybrid": {{"queries": ...}}}}}}, in the order \
of the description in {path}
scores are those of the model without its intercept, divided by the sum of the weights
""",
    ),
)
