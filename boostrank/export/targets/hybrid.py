"""elastic-linear: Elasticsearch 8.18 or later: `linear` retriever with weights of hybrid search.
opensearch-hybrid: OpenSearch 2.11 or later: search pipeline with weights of hybrid search.

Both sum scores times weights, after min-max normalisation within the query. OpenSearch raises a
normalised score of 0 to 0.001. All scores equal become 1 in OpenSearch and that score in
Elasticsearch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.data.feature_space import quoted
from boostrank.export.linear import LinearScore
from boostrank.export.reading import SINGLE
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec

_RULES = replace(SINGLE, missing=0.0)
_SCALED = re.compile(r"minmax\((.*)\|query\)")
_MOST_QUERIES = 5  # of OpenSearch


def _weights(model: ServedModel, raw: bool) -> dict[str, tuple[str, float]]:
    """Return normalisation and weight of each score, where weights have the sum 1.

    Raises:
        ExportError: a column is not a score, a weight is negative, or all are 0.
    """
    linear, names = model.linear, model.feature_names
    assert linear is not None
    matches = [_SCALED.fullmatch(name) for name in names]
    # Raw columns of a model with columns within queries weigh 0.
    chosen = [j for j, match in enumerate(matches) if match or linear.weights[j] != 0.0]
    other = [names[j] for j in chosen if "|query)" in names[j] and matches[j] is None]
    unfit = [names[j] for j in chosen if not raw and matches[j] is None]
    if other or unfit:
        raise ExportError(
            f"hybrid search has no {quoted(other or unfit)}: train with --within-query minmax"
            " --param scaling=scores"
        )
    if np.any(linear.shift[chosen] != 0.0) or np.any(linear.divisor[chosen] != 1.0):
        raise ExportError(
            "hybrid search counts absent scores as 0: train with --param scaling=scores"
        )
    negative = [names[j] for j in chosen if linear.weights[j] < 0.0]
    if negative or not chosen or not linear.weights[chosen].any():
        words = f"a negative weight for {quoted(negative)}" if negative else "no weight above 0"
        raise ExportError(
            f"the model has {words}, which hybrid search refuses: train with --param"
            " monotone_constraints=1,1 (one number per score)"
        )
    if len({matches[j] is None for j in chosen}) > 1:
        raise ExportError("some scores are normalised and others are not: use either")
    shares = linear.weights / linear.weights.sum()
    normalizer = "none" if matches[chosen[0]] is None else "minmax"
    return {
        match[1] if match else names[j]: (normalizer, float(shares[j]))
        for j, match in enumerate(matches)
        if j in chosen
    }


def _write_elastic(model: ServedModel) -> bytes:
    """Write a search with a template for the query of each score."""
    retrievers = [
        {
            "retriever": {"standard": {"_name": name, "query": {"match": {"FIELD": "QUERY"}}}},
            "weight": weight,
            "normalizer": normalizer,
        }
        for name, (normalizer, weight) in _weights(model, raw=True).items()
    ]
    linear = {"retrievers": retrievers, "rank_window_size": 100}
    return (json.dumps({"retriever": {"linear": linear}}, indent=1) + "\n").encode()


def _read_elastic(body: bytes, names: Sequence[str]) -> Score:
    terms = {}
    for part in json.loads(body)["retriever"]["linear"]["retrievers"]:
        name = part["retriever"]["standard"]["_name"]
        terms[f"minmax({name}|query)" if part["normalizer"] == "minmax" else name] = part["weight"]
    return _score(terms, names)


def _write_opensearch(model: ServedModel) -> bytes:
    """Write a search pipeline; its description names the sub-queries in order."""
    weights = _weights(model, raw=False)
    if len(weights) > _MOST_QUERIES:
        raise ExportError(
            f"{len(weights)} scores are more than the {_MOST_QUERIES} sub-queries of OpenSearch"
        )
    combination = {
        "technique": "arithmetic_mean",
        "parameters": {"weights": [weight for _, weight in weights.values()]},
    }
    processor = {"normalization": {"technique": "min_max"}, "combination": combination}
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
    columns = [f"minmax({name}|query)" for name in scores]
    return _score(dict(zip(columns, weights, strict=True)), names)


def _score(weights: Mapping[str, Any], names: Sequence[str]) -> Score:
    linear = LinearScore.of_weights([weights.get(name, 0.0) for name in names])
    return lambda rows: linear.score(rows, _RULES)


ELASTIC = TargetSpec(
    name="elastic-linear",
    title="Elasticsearch's linear retriever",
    write=_write_elastic,
    read=_read_elastic,
    rules=_RULES,
    proved_by="reading the file by the rules of the linear retriever",
    how=(
        "queries:  replace the query of each retriever in {path} by the one that gave the score of"
        " its _name",
        "search:   curl http://HOST:9200/INDEX/_search --data-binary @{path} -H 'Content-type:"
        " application/json'",
        "scores are those of the model without its intercept, divided by the sum of the weights",
    ),
    engine="linear",
    within_query=True,
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
        how=(
            "upload:   curl -XPUT http://HOST:9200/_search/pipeline/{model} --data-binary @{path}"
            " -H 'Content-type: application/json'",
            'query:    search_pipeline={model} with {{"query": {{"hybrid": {{"queries": ...}}}}}},'
            " in the order of the description in {path}",
            ELASTIC.how[2],
        ),
    ),
)
