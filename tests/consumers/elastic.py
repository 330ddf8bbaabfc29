"""Elasticsearch's own learning to rank, without a plugin: the body of `PUT _ml/trained_models/ID`.

From the source of elastic/elasticsearch 8.15: `TrainedModelConfig`, `LearningToRankConfig`,
`QueryExtractorBuilder`, `EnsembleInferenceModel`, `TreeInferenceModel`, `Tree`, `WeightedSum`,
`LearningToRankRescorer`, `QueryFeatureExtractor`; and from elastic/eland what a client sends before
8.15.

A feature is the score of a query, a float. A document that the query does not match lacks it, and
goes where a split's default says; so do values that are not finite. Comparison and sum are of
float64, the sum compensated as Java's streams compensate it; the score is rounded to float32 at
last.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array
from tests.consumers.trees import (
    Leaf,
    Node,
    Number,
    Scorer,
    Split,
    check_fields,
    field,
    integer,
    json_of,
    outputs,
)

WHO = "Elasticsearch"
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less,
    "lte": np.less_equal,
    "gt": np.greater,
    "gte": np.greater_equal,
    "eq": np.equal,
}
MOST_INFLATED = 10**9


def read(
    body: bytes, feature_names: Sequence[str], *, version: tuple[int, ...] = (8, 15)
) -> Scorer:
    """A function that scores as the rescorer does, float32[n].

    Args:
        body: the document of the model.
        feature_names: what the columns hold.
        version: of Elasticsearch.

    Raises:
        ModelError: Elasticsearch refuses the document.
    """
    document = json_of(body, WHO)
    fields = {
        "description",
        "tags",
        "metadata",
        "input",
        "inference_config",
        "definition",
        "compressed_definition",
    }
    check_fields(document, fields | {"model_type", "model_size_bytes"}, "the body", WHO)
    extracted = extractors(document.get("inference_config"))
    inputs = document.get("input")
    if version >= (8, 15) and inputs is not None and inputs.get("field_names"):
        raise ModelError(
            f"{WHO}: cannot specify [input.field_names] for a model of type [learning_to_rank]"
        )
    if version < (8, 15) and not (inputs or {}).get("field_names"):
        raise ModelError(f"{WHO}: [input.field_names] must not be empty")
    if ("definition" in document) == ("compressed_definition" in document):
        raise ModelError(f"{WHO}: either [definition] or [compressed_definition] must be set")
    definition = document.get("definition") or inflated(document["compressed_definition"])
    trees = ensemble(
        definition, {name: column for column, name in enumerate(feature_names) if name in extracted}
    )

    def goes(values: Float64Array, split: Split) -> Any:
        operator, default = split.missing
        return np.where(np.isfinite(values), OPERATORS[operator](values, split.threshold), default)

    def scores(features: Float64Array) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):
            # A score is a float.
            columns = np.ascontiguousarray(features.T, dtype=np.float32).astype(np.float64)
        # Column -1 is that of features which no query extracts.
        columns = np.vstack([columns, np.full(len(features), np.nan)])
        total, lost = np.zeros(len(features)), np.zeros(len(features))
        for tree in trees:
            value = outputs(tree, columns, goes) - lost
            after = total + value
            total, lost = after, (after - total) - value
        return (total - lost).astype(np.float32)

    return scores


def extractors(config: Any) -> set[str]:
    """The names of the features that queries extract."""
    check_fields(config, {"learning_to_rank"}, "'inference_config'", WHO)
    ranking = config["learning_to_rank"]
    check_fields(
        ranking,
        {"feature_extractors", "default_params", "num_top_feature_importance_values"},
        "learning_to_rank",
        WHO,
    )
    names = []
    for extractor in ranking.get("feature_extractors", []):
        check_fields(extractor, {"query_extractor"}, "a feature extractor", WHO)
        check_fields(
            extractor["query_extractor"],
            {"feature_name", "query", "default_score"},
            "a query_extractor",
            WHO,
        )
        names.append(field(extractor["query_extractor"], "feature_name", str, WHO))
        if not field(extractor["query_extractor"], "query", dict, WHO):
            raise ModelError(f"{WHO}: Required [query]")
        if float(extractor["query_extractor"].get("default_score", 0.0)) < 0.0:
            raise ModelError(f"{WHO}: [query_extractor] requires defaultScore to be positive.")
    if len(set(names)) < len(names):
        raise ModelError(f"{WHO}: [feature_extractors] contains duplicate [feature_name] values")
    return set(names)


def inflated(text: str) -> Any:
    """The definition in base64 of gzip."""
    try:
        plain = gzip.decompress(base64.b64decode(text, validate=True))
    except (binascii.Error, OSError, EOFError) as error:
        raise ModelError(f"{WHO}: compressed_definition: {error}") from error
    if len(plain) > MOST_INFLATED:
        raise ModelError(f"{WHO}: compressed stream is longer than maximum allowed bytes")
    return json_of(plain, WHO)


def ensemble(definition: Any, columns: dict[str, int]) -> list[Node]:
    """The trees of a definition."""
    check_fields(definition, {"trained_model", "preprocessors"}, "the definition", WHO)
    check_fields(definition["trained_model"], {"ensemble"}, "'trained_model'", WHO)
    ensemble_body = definition["trained_model"]["ensemble"]
    check_fields(
        ensemble_body,
        {"feature_names", "trained_models", "aggregate_output", "target_type"},
        "an ensemble",
        WHO,
    )
    if not field(ensemble_body, "trained_models", list, WHO):
        raise ModelError(f"{WHO}: [trained_models] must not be empty")
    if ensemble_body.get("target_type") != "regression" or ensemble_body.get(
        "aggregate_output"
    ) != {"weighted_sum": {}}:
        raise ModelError(
            f"{WHO}: only weighted sums of regression trees without weights are emulated"
        )
    trees = []
    for model in ensemble_body["trained_models"]:
        check_fields(model, {"tree"}, "a trained model", WHO)
        trees.append(tree(model["tree"], columns))
    return trees


def tree(tree_body: Any, columns: dict[str, int]) -> Node:
    """A tree, whose nodes refer to each other by their places in the array."""
    check_fields(
        tree_body,
        {"feature_names", "tree_structure", "target_type", "classification_labels"},
        "a tree",
        WHO,
    )
    # The head of a tree.
    names, nodes = (
        field(tree_body, "feature_names", list, WHO),
        field(tree_body, "tree_structure", list, WHO),
    )
    if names is None or not nodes or tree_body.get("target_type") != "regression":
        raise ModelError(f"{WHO}: a tree lacks feature_names or nodes, or is no regression")
    if len(nodes) > 1 and not names:
        raise ModelError(f"{WHO}: [feature_names] is empty and the tree has > 1 nodes")
    seen: set[int] = set()

    def parsed(at: int) -> Node:
        if at >= len(nodes):
            raise ModelError(f"{WHO}: [tree] contains missing nodes [{at}]")
        if at in seen:
            raise ModelError(f"{WHO}: [tree] contains cycle at node {at}")
        seen.add(at)
        # Fields of a leaf, then those of a split, in the order of the program's checks.
        node = nodes[at]
        split_fields = {
            "node_index",
            "decision_type",
            "split_feature",
            "threshold",
            "left_child",
            "right_child",
            "default_left",
        }
        check_fields(
            node, split_fields | {"leaf_value", "split_gain", "number_samples"}, "a node", WHO
        )
        if "left_child" not in node:
            if "leaf_value" not in node:
                raise ModelError(f"{WHO}: [leaf_value] is required for a leaf node.")
            return Leaf(float(field(node, "leaf_value", Number, WHO)))
        if "threshold" not in node:
            raise ModelError(f"{WHO}: [threshold] must exist for non-leaf node.")
        column = integer(node["split_feature"], "split_feature", WHO)
        if not 0 <= column < len(names):
            raise ModelError(
                f"{WHO}: feature index [{column}] is out of bounds for the [feature_names] array"
            )
        operator = node.get("decision_type", "lte")
        if operator not in OPERATORS:
            raise ModelError(f"{WHO}: Unknown operator [{operator}]")
        left = parsed(integer(node["left_child"], "left_child", WHO))
        right = parsed(integer(node["right_child"], "right_child", WHO))
        default = operator, bool(field(node, "default_left", bool, WHO))
        return Split(columns.get(names[column], -1), float(node["threshold"]), left, right, default)

    return parsed(0)


def document(trees: Sequence[Any], extracted: Sequence[str], **more: Any) -> bytes:
    """A document of trees, each an array of nodes over features a, b and c."""
    models = [
        {
            "tree": {
                "feature_names": ["a", "b", "c"],
                "tree_structure": nodes,
                "target_type": "regression",
            }
        }
        for nodes in trees
    ]
    ensemble_body = {
        "trained_models": models,
        "aggregate_output": {"weighted_sum": {}},
        "target_type": "regression",
    }
    queries = [
        {"query_extractor": {"feature_name": name, "query": {"match_all": {}}}}
        for name in extracted
    ]
    config = {"learning_to_rank": {"feature_extractors": queries}}
    definition = {"trained_model": {"ensemble": ensemble_body}}
    return json.dumps({"inference_config": config, "definition": definition} | more).encode()
