"""Emulator of Elasticsearch's plugin against its own tests' examples, a scalar twin, and what it
refuses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers import elasticsearch, opensearch
from tests.consumers.elasticsearch import read
from tests.consumers.forests import NAMES, documents, forest, text

F = np.float32
DUMP, RAW = "model/xgboost+json", "model/xgboost+json+raw"


def body(definition: Any, kind: str = DUMP) -> bytes:
    """What is posted to `_createmodel`; a definition that is no text is sent as text."""
    definition = definition if isinstance(definition, str) else json.dumps(definition)
    return json.dumps(
        {"model": {"name": "m", "model": {"type": kind, "definition": definition}}}
    ).encode()


def scores(
    definition: Any, rows: Any, names: list[str], kind: str = DUMP, read: Any = read, **options: Any
) -> Any:
    return read(body(definition, kind), names, **options)(np.array(rows, dtype=np.float64)).tolist()


def split(**more: Any) -> dict[str, Any]:
    """The split of XGBoostJsonParserTests."""
    children = [{"nodeid": 1, "depth": 1, "leaf": 0.5}, {"nodeid": 2, "depth": 1, "leaf": 0.2}]
    node = {
        "nodeid": 0,
        "split": "feat1",
        "depth": 0,
        "split_condition": 0.123,
        "yes": 1,
        "no": 2,
        "missing": 1,
    }
    return node | {"children": children} | more


def raw_model(**more: Any) -> dict[str, Any]:
    """The model of XGBoostRawJsonParserTests."""
    tree = {
        "base_weights": [1.0, 10.0, 0.0],
        "default_left": [0, 0, 0],
        "id": 0,
        "left_children": [2, -1, -1],
        "parents": [2147483647, 0, 0],
        "right_children": [1, -1, -1],
        "split_conditions": [3.0, -1.0, -1.0],
        "split_indices": [0, 0, 0],
        "split_type": [0, 0, 0],
        "categories": [],
    } | more
    learner = {
        "feature_names": ["feat1"],
        "feature_types": ["float"],
        "attributes": {},
        "gradient_booster": {"model": {"trees": [tree], "tree_info": [0]}, "name": "gbtree"},
        "learner_model_param": {"base_score": "5E-1"},
        "objective": {"name": "reg:linear"},
    }
    return {"learner": learner, "version": [2, 1, 0]}


def learner(**more: Any) -> dict[str, Any]:
    model = raw_model()
    return {"learner": model["learner"] | more, "version": model["version"]}


HALF, FIFTH = float(F(0.5)), float(F(0.2))


def test_the_examples_of_its_own_tests() -> None:
    assert scores([{"nodeid": 0, "leaf": 0.234}], [[0.0]], ["feat1"]) == [F(0.234)]
    rows = [[0.124], [0.122], [0.123], [np.nan]]
    assert scores([split()], rows, ["feat1"]) == [FIFTH, HALF, FIFTH, HALF]
    assert scores({"splits": [split(missing=2)]}, rows, ["feat1"]) == [FIFTH, HALF, FIFTH, FIFTH]
    # Node 2, on the left, is the second of the arrays' leaves; the base score adds nothing.
    assert scores(raw_model(), [[2.0], [4.0], [3.0]], ["feat1"], RAW) == [0.0, 10.0, 10.0]


def test_a_threshold_above_the_value_sends_it_left_in_float32() -> None:
    rows = [
        [float(np.nextafter(F(0.123), F(0)))],
        [float(F(0.123))],
        [0.12299999999],
        [0.123 + 1e-12],
    ]
    assert scores([split()], rows, ["feat1"]) == [HALF, FIFTH, FIFTH, FIFTH]
    # Text between two float32, whose nearest float64 is a tie: rounded at once, upwards.
    tie = [split(split_condition=1.0000000596046448)]
    assert scores(tie, [[1.0]], ["feat1"]) == [HALF]
    assert scores([split(split_condition=1.0)], [[1.0]], ["feat1"]) == [FIFTH]


@pytest.mark.parametrize(
    ("objective", "logistic"), [("rank:ndcg", False), ("binary:logistic", True)]
)
def test_the_objective_says_whether_the_sum_is_made_a_probability(
    objective: str, logistic: bool
) -> None:
    expected = [F(1 / (1 + math.exp(-float(F(0.2))))) if logistic else F(0.2)]
    assert scores({"objective": objective, "splits": [split()]}, [[9.0]], ["feat1"]) == expected
    assert scores(learner(objective={"name": objective}), [[9.0]], ["feat1"], RAW) == [
        F(1 / (1 + math.exp(-10.0))) if logistic else 10.0
    ]


def test_leaves_are_added_in_float32_in_the_order_of_the_trees() -> None:
    values = [16777216.0, 1.0, 1.0, -16777216.0]
    trees = [{"nodeid": 0, "leaf": value} for value in values]
    assert scores(trees, [[0.0]], ["feat1"]) == [0.0]
    assert scores(trees[1:3] + trees[:1] + trees[3:], [[0.0]], ["feat1"]) == [2.0]


def test_a_definition_may_be_json_itself() -> None:
    model = {"name": "m", "model": {"type": DUMP, "definition": [split()]}}
    assert read(json.dumps({"model": model}).encode(), ["feat1"])(np.zeros((1, 1))).tolist() == [
        HALF
    ]
    # Its numbers pass through float64: what is exactly between two float32 in the file is not when
    # it is read.
    exact = "1.000000059604644775390625"
    outer = json.dumps({"model": model}).replace("0.123", exact).encode()
    assert read(outer, ["feat1"])(np.ones((1, 1))).tolist() == [HALF]
    assert scores(json.dumps([split()]).replace("0.123", exact), [[1.0]], ["feat1"]) == [FIFTH]


def test_features_of_a_saved_model_are_found_by_name() -> None:
    names = ["other", "feat1"]
    assert scores(raw_model(), [[9.0, 2.0], [0.0, 4.0]], names, RAW) == [0.0, 10.0]
    assert scores(raw_model(), [[2.0, 9.0]], names[::-1], RAW, version=(1, 5, 10)) == [0.0]
    with pytest.raises(ModelError, match="by position"):
        scores(raw_model(), [[9.0, 2.0]], names, RAW, version=(1, 5, 10))


def twin(tree: dict[str, Any], document: Any, rule: str) -> np.float32:
    """One tree of a dump and one document, as the Java reads; rule: of what is absent."""
    while "leaf" not in tree:
        value, below = F(document[NAMES.index(tree["split"])]), tree["children"]
        if np.isnan(value) and rule == "0":
            value = F(0)
        if np.isnan(value) and rule == "default":
            tree = below[0] if tree["missing"] == tree["yes"] else below[1]
        else:
            tree = below[0] if F(tree["split_condition"]) > value else below[1]
    return F(tree["leaf"])


def dumped(node: Any) -> dict[str, Any]:
    """A tree of `forest` as XGBoost dumps it."""
    count = [-1]

    def dump_node(node: Any, depth: int) -> dict[str, Any]:
        count[0] += 1
        node_id = count[0]
        if not isinstance(node, tuple):
            return {"nodeid": node_id, "leaf": float(text(node))}
        column, threshold, missing, *below = node
        children = [dump_node(child, depth + 1) for child in below]
        yes, no = [child["nodeid"] for child in children]
        return {
            "nodeid": node_id,
            "depth": depth,
            "split": NAMES[column],
            "split_condition": float(text(threshold)),
            "yes": yes,
            "no": no,
            "missing": yes if missing else no,
            "children": children,
        }

    return dump_node(node, 0)


def saved(trees: list[Any]) -> dict[str, Any]:
    """Trees of `forest` as XGBoost saves them."""

    def arrays(tree: Any) -> dict[str, Any]:
        columns = (
            "left_children",
            "right_children",
            "split_indices",
            "split_conditions",
            "default_left",
            "base_weights",
        )
        # Nodes get their places from the top down; children are filled in after.
        content: dict[str, list[Any]] = {name: [] for name in columns}

        def add(node: Any) -> int:
            at = len(content["left_children"])
            for values in content.values():
                values.append(0)
            if isinstance(node, tuple):
                column, threshold, missing, *below = node
                row = [*map(add, below), column, float(text(threshold)), int(missing), 99.0]
            else:
                row = [-1, -1, 0, float(text(node)) + 1, 0, float(text(node))]
            for values, value in zip(content.values(), row, strict=True):
                values[at] = value
            return at

        add(tree)
        return content

    model = learner(feature_names=NAMES, feature_types=["float"] * len(NAMES))
    model["learner"]["gradient_booster"] = {"model": {"trees": [arrays(tree) for tree in trees]}}
    return model


RULES: list[tuple[Callable[..., Any], tuple[int, ...], str, str | None]] = [
    (elasticsearch.read, (1, 5, 8), "0", None),
    (elasticsearch.read, (1, 5, 9), "default", None),
    (elasticsearch.read, (1, 5, 11), "default", "right"),
    (elasticsearch.read, (1, 5, 12), "default", "default"),
    (opensearch.read, (2, 18), "0", None),
    (opensearch.read, (2, 19, 6), "0", "0"),
    (opensearch.read, (3, 1), "0", "0"),
    (opensearch.read, (3, 2), "right", "right"),
    (opensearch.read, (3, 7, 0), "right", "right"),
    (opensearch.read, (3, 7, 1), "default", "default"),
    (opensearch.read, (3, 8), "default", "default"),
]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("read", "version", "rule", "raw_rule"), RULES)
def test_scores_are_those_of_a_scalar_twin(
    read: Callable[..., Any], version: tuple[int, ...], rule: str, raw_rule: str | None
) -> None:
    trees = forest(5)
    rows, dumps = documents(6, trees), [dumped(tree) for tree in trees]

    def expected(rule: str) -> list[np.float32]:
        sums = []
        for row in rows:
            total = F(0)
            for tree in dumps:
                total = F(total + twin(tree, row, rule))
            sums.append(total)
        return sums

    assert scores(dumps, rows, NAMES, read=read, version=version) == expected(rule)
    if raw_rule is None:
        with pytest.raises(ModelError, match="Unsupported"):
            scores(saved(trees), rows, NAMES, RAW, read=read, version=version)
    else:
        assert scores(saved(trees), rows, NAMES, RAW, read=read, version=version) == expected(
            raw_rule
        )


def test_real_models_of_xgboost_have_the_scores_of_xgboost() -> None:
    xgb = pytest.importorskip("xgboost", reason="XGBoost is optional")
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(300, 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    data = xgb.DMatrix(rows, rng.normal(size=300), feature_names=NAMES, feature_types=["float"] * 3)
    params = {"base_score": 0.0, "max_depth": 3, "nthread": 1, "objective": "reg:squarederror"}
    booster = xgb.train(params, data, 10)
    model = json.loads(booster.save_raw("json"))
    model["learner"]["objective"]["name"] = "rank:pairwise"
    expected = booster.predict(data).tolist()
    assert scores(model, rows, NAMES, RAW) == expected
    assert scores(model, rows[:, ::-1], NAMES[::-1], RAW) == expected
    dumps = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
    assert scores(dumps, rows, NAMES, read=opensearch.read) == expected


def without(node: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != name}


@pytest.mark.parametrize(
    ("definition", "kind", "message"),
    [
        ("[", DUMP, "no JSON"),
        ([], DUMP, "at least one tree"),
        ({}, DUMP, r"missing required field \[splits\]"),
        ({"splits": [split()], "trees": 1}, DUMP, "unknown field 'trees'"),
        (
            {"splits": [split()], "objective": "reg:squarederror"},
            DUMP,
            "reg:squarederror. is not a valid",
        ),
        ({"splits": [split()], "missing_as_zero": True}, DUMP, "unknown field 'missing_as_zero'"),
        ([split(gain=1.0)], DUMP, "unknown field 'gain'"),
        ([split(split="feat2")], DUMP, r"Unknown feature \[feat2\]"),
        ([split(yes=2, no=1)], DUMP, "proper children"),
        ([split(children=[{"nodeid": 1, "leaf": 1}])], DUMP, "all the required fields"),
        ([split(split_condition="0.5")], DUMP, "'split_condition' must be of the kind number"),
        ([split(split_condition=None)], DUMP, "'split_condition' must be of the kind number"),
        ([split(nodeid=0.5)], DUMP, "'nodeid' must be an integer"),
        ([without(split(), "missing")], DUMP, "no field 'missing'"),
        ([without(split(), "depth")], DUMP, "all the required fields"),
        ([{"leaf": 1.0}], DUMP, "leaf does not have all"),
        ([], RAW, r"missing required field \[learner\]"),
        (learner(feature_names=["x", "feat1"]), RAW, r"Unknown features in model: \[x\]"),
        (learner(feature_types=[]), RAW, "same length"),
        (learner(feature_types=["c"]), RAW, "only supports float"),
        (learner(objective={"name": "rank:xendcg"}), RAW, "not a valid XGBoost objective"),
        (learner(objective=7), RAW, "'objective' must be of the kind object"),
        (learner(gradient_booster={}), RAW, "lacks feature_names"),
        (raw_model(left_children=[7, -1, -1]), RAW, r"reference ID \[7\] is invalid"),
        (raw_model(left_children=[1, -1, -1]), RAW, "node 1 is the child of two"),
        (raw_model(left_children=[0, -1, -1]), RAW, "node 0 is the child of two"),
        (raw_model(base_weights=[1.0]), RAW, "too short"),
        (raw_model(split_indices=[3, 0, 0]), RAW, "has no name"),
        (raw_model(base_weights=["1", "1", "1"]), RAW, "numbers alone"),
        (without(raw_model(), "learner"), RAW, "missing required field"),
        ({}, "model/linear", "Unsupported"),
    ],
)
def test_models_that_the_plugin_refuses_are_refused(
    definition: Any, kind: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read(body(definition, kind), ["feat1"])


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([], "the body must be an object"),
        ({"model": {"name": "m", "model": {}}, "other": 1}, "unknown field 'other' in the body"),
        ({"model": {"model": {"type": DUMP, "definition": "[]"}}}, "no name"),
        ({"model": {"name": "m", "model": {"type": DUMP}}}, "definition. is mandatory"),
        ({"model": {"name": "m", "model": {"definition": "[]"}}}, "Unsupported LtrRanker format"),
        (
            {
                "model": {
                    "name": "m",
                    "model": {"type": DUMP, "definition": "[]", "feature_normalizers": {"a": {}}},
                }
            },
            "normalizers are not emulated",
        ),
    ],
)
def test_bodies_that_are_refused(sent: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(json.dumps(sent).encode(), ["feat1"])


def test_old_versions_of_elasticsearch() -> None:
    plain = [without(split(), "missing")]
    assert scores(plain, [[np.nan]], ["feat1"], version=(1, 5, 8)) == [HALF]
    with pytest.raises(ModelError, match="rank:ndcg"):
        scores(
            {"objective": "rank:ndcg", "splits": [split()]}, [[0.0]], ["feat1"], version=(1, 5, 8)
        )
    bare = raw_model()
    del bare["learner"]["gradient_booster"]["model"]["trees"][0]["default_left"]
    assert scores(bare, [[np.nan]], ["feat1"], RAW, version=(1, 5, 11)) == [10.0]
    with pytest.raises(ModelError, match="lacks default_left"):
        scores(bare, [[np.nan]], ["feat1"], RAW)


def test_opensearch_differs_from_elasticsearch_by_version() -> None:
    plain, newer = [without(split(), "missing")], {"read": opensearch.read, "version": (3, 9)}
    assert scores(plain, [[np.nan]], ["feat1"], read=opensearch.read) == [FIFTH]
    with pytest.raises(ModelError, match="missing does not point"):
        scores([split(missing=0)], [[np.nan]], ["feat1"], read=opensearch.read)
    assert scores(
        [split(missing=0)], [[np.nan]], ["feat1"], read=opensearch.read, version=(3, 7)
    ) == [FIFTH]
    ranked = {"objective": "rank:ndcg", "splits": [split()]}
    with pytest.raises(ModelError, match="rank:ndcg"):
        scores(ranked, [[0.0]], ["feat1"], read=opensearch.read, version=(3, 1))
    assert scores(ranked, [[0.0]], ["feat1"], read=opensearch.read, version=(3, 2)) == [HALF]
    bare = raw_model()
    del bare["learner"]["gradient_booster"]["model"]["trees"][0]["default_left"]
    assert scores(bare, [[np.nan], [0.0]], ["feat1"], RAW, read=opensearch.read) == [10.0, 0.0]
    zero = {"splits": [split(missing=2)], "missing_as_zero": True}
    assert scores(zero, [[np.nan]], ["feat1"], **newer) == [HALF]
    assert scores(raw_model() | {"missing_as_zero": True}, [[np.nan]], ["feat1"], RAW, **newer) == [
        0.0
    ]
    with pytest.raises(ModelError, match="missing_as_zero"):
        scores(zero, [[np.nan]], ["feat1"], read=opensearch.read)
