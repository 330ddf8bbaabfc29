"""Emulator of Elasticsearch's own learning to rank: its test's example, a scalar twin, and what it
refuses.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers.elastic import document, read
from tests.consumers.forests import NAMES, documents, forest


def stump(threshold: float, **more: Any) -> list[dict[str, Any]]:
    split = {
        "node_index": 0,
        "split_feature": 0,
        "threshold": threshold,
        "left_child": 1,
        "right_child": 2,
    }
    return [
        split | more,
        {"node_index": 1, "leaf_value": 5.0},
        {"node_index": 2, "leaf_value": 2.0},
    ]


def scores(trees: list[Any], rows: Any, extracted: Any = NAMES, **more: Any) -> list[float]:
    return read(document(trees, extracted, **more), NAMES)(
        np.array(rows, dtype=np.float64)
    ).tolist()


def test_the_operator_and_the_default_decide() -> None:
    """As in LearningToRankRescorerIT: a cost of 400 goes left under lte, which is the default, and
    right under lt.
    """
    rows = [
        [400.0, 0, 0],
        [300.0, 0, 0],
        [401.0, 0, 0],
        [np.nan, 0, 0],
        [np.inf, 0, 0],
        [-np.inf, 0, 0],
    ]
    assert scores([stump(400)], rows) == [5, 5, 2, 2, 2, 2]
    assert scores([stump(400, decision_type="lt", default_left=True)], rows) == [2, 5, 2, 5, 5, 5]
    assert scores([stump(400), stump(400)], rows[:1]) == [10]


def test_what_no_query_extracts_is_missing() -> None:
    assert scores([stump(400, default_left=True)], [[500.0, 0, 0]], extracted=["b"]) == [5]


def test_values_are_floats_and_thresholds_are_doubles() -> None:
    rows = [[0.1, 0, 0]]
    assert scores([stump(0.1)], rows) == [2]  # float32(0.1) is larger
    assert scores([stump(float(np.float32(0.1)))], rows) == [5]


def test_the_sum_is_compensated_and_rounded_at_last() -> None:
    leaves = [1.0, 1e100, 1.0, -1e100]
    assert scores(
        [[{"node_index": 0, "leaf_value": leaf}] for leaf in [1e16, 1.0, 1.0, -1e16]], [[0, 0, 0]]
    ) == [2.0]
    with np.errstate(over="ignore"):
        assert scores(
            [[{"node_index": 0, "leaf_value": leaf}] for leaf in leaves[:2]], [[0, 0, 0]]
        ) == [math.inf]


def flat(root: Any) -> list[dict[str, Any]]:
    """A tree of `forest` as an array of nodes."""
    nodes: list[dict[str, Any]] = []

    def add(node: Any) -> int:
        at = len(nodes)
        nodes.append({"node_index": at})
        if not isinstance(node, tuple):
            nodes[at]["leaf_value"] = float(node)
            return at
        column, threshold, default, left, right = node
        nodes[at] |= {
            "split_feature": column,
            "threshold": float(threshold),
            "default_left": default,
        }
        nodes[at] |= {"decision_type": "lt", "left_child": add(left), "right_child": add(right)}
        return at

    add(root)
    return nodes


@pytest.mark.parametrize("seed", range(3))
def test_a_scalar_twin_gives_the_same(seed: int) -> None:
    trees = forest(seed)
    rows = documents(seed, trees, 100)

    def leaf(node: Any, row: Any) -> float:
        while isinstance(node, tuple):
            column, threshold, default, left, right = node
            value = float(np.float32(row[column]))
            goes = float(value) < float(threshold) if math.isfinite(value) else default
            node = left if goes else right
        return float(node)

    with np.errstate(over="ignore"):
        expected = [np.float32(math.fsum(leaf(tree, row) for tree in trees)) for row in rows]
    np.testing.assert_allclose(scores([flat(tree) for tree in trees], rows), expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "unknown field 'extra'"),
        ({"input": {"field_names": ["a"]}}, "cannot specify"),
        ({"compressed_definition": "x"}, "either"),
        ({"inference_config": {"regression": {}}}, "unknown field 'regression'"),
    ],
)
def test_wrong_documents_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(document([stump(1)], NAMES, **change), NAMES)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (stump(1, left_child=3), "missing nodes"),
        (stump(1, left_child=0), "cycle"),
        (stump(1, split_feature=3), "out of bounds"),
        (stump(1, decision_type="ne"), "operator"),
        ([*stump(1)[:1], {"node_index": 1}, *stump(1)[2:]], "leaf_value"),
        ([], "lacks"),
    ],
)
def test_wrong_trees_are_refused(nodes: list[Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(document([nodes], NAMES), NAMES)


def test_empty_extractors_duplicates_and_broken_definitions_are_refused() -> None:
    with pytest.raises(ModelError, match="must not be empty"):
        read(document([stump(1)], NAMES), NAMES, version=(8, 12))
    read(document([stump(1)], NAMES, input={"field_names": NAMES}), NAMES, version=(8, 12))
    with pytest.raises(ModelError, match="duplicate"):
        read(document([stump(1)], ["a", "a"]), NAMES)
    broken = json.loads(document([stump(1)], NAMES)) | {"compressed_definition": "H4sI"}
    del broken["definition"]
    with pytest.raises(ModelError, match="compressed_definition"):
        read(json.dumps(broken).encode(), NAMES)
