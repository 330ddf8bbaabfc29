"""Damaged or hostile JSON never reaches XGBoost's loader; what XGBoost itself writes does."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from boostrank import RankingDataset, average, train
from boostrank.core.errors import DataError, ModelError
from boostrank.data.categories import Categories
from boostrank.engines import get_backend
from boostrank.engines.base import PredictRequest
from boostrank.engines.trees import write_json
from boostrank.engines.xgboost import schema as xgboost_schema
from boostrank.engines.xgboost.format import XGBOOST, _base, _sets_of
from boostrank.engines.xgboost.model_json import names_in, with_names
from boostrank.model.ranking_model import RankingModel
from tests.model.real_models import ROWS, SIZE, data, frame, train_xgboost, xgboost_models
from tests.model.xgboost_json import (
    Edit,
    get_forest,
    make_chain,
    set_in_forest,
    set_in_learner,
    set_in_tree,
)


def check_xgboost_json(model: bytes | dict[str, Any]) -> None:
    body = model if isinstance(model, bytes) else json.dumps(model).encode()
    XGBOOST.parse(body)


def cycle(model: dict[str, Any]) -> None:
    """Node `above` hangs below its own child, whose left subtree moves up to take its place."""
    tree = get_forest(model)["trees"][0]
    left, right, parents = tree["left_children"], tree["right_children"], tree["parents"]
    child = next(i for i in range(1, len(left)) if left[i] != -1 and parents[i] != 0)
    above, moved = parents[child], left[child]
    side = left if left[parents[above]] == above else right
    side[parents[above]], parents[moved] = moved, parents[above]
    left[child], parents[above] = above, child


@pytest.mark.parametrize("name", sorted(xgboost_models()))
def test_what_xgboost_writes_is_accepted_as_bytes_and_parsed(name: str) -> None:
    check_xgboost_json(xgboost_models()[name])
    check_xgboost_json(json.loads(xgboost_models()[name]))


def test_pruning_leaves_deleted_nodes_in_the_file() -> None:
    # What makes the next test's models worth trying: without such nodes the exemption for them
    # would go untested.
    trees = get_forest(json.loads(xgboost_models()["pruned"]))["trees"]
    assert any(int(tree["tree_param"]["num_deleted"]) for tree in trees)


def test_a_deleted_node_has_both_marks() -> None:
    # XGBoost counts the nodes whose feature and default direction are both all ones, and refuses
    # another count.
    model = json.loads(xgboost_models()["pruned"])
    tree = next(t for t in get_forest(model)["trees"] if int(t["tree_param"]["num_deleted"]))
    tree["default_left"][tree["split_indices"].index(2**31 - 1)] = 0
    with pytest.raises(ModelError, match="num_deleted"):
        check_xgboost_json(model)


def strangers(model: dict[str, Any]) -> None:
    """The children of the root, the other way round: XGBoost would go from the right one to the
    node behind it.
    """
    tree = get_forest(model)["trees"][0]
    left, right = tree["left_children"], tree["right_children"]
    left[0], right[0] = right[0], left[0]


HOSTILE: dict[str, tuple[Edit, str]] = {
    "child beyond the nodes": (
        set_in_tree("left_children", 0, 99999),
        "left_children|a child is not a node",
    ),
    "child below minus one": (
        set_in_tree("left_children", 0, -2),
        "left_children|a child is not a node",
    ),
    "child beyond 64 bits": (
        set_in_tree("left_children", 0, 10**30),
        "left_children|a child is not a node",
    ),
    "a node with two parents": (set_in_tree("left_children", 0, 3), "no parent or two parents"),
    "the root as a child": (set_in_tree("left_children", 0, 0), "no parent or two parents"),
    "one child only": (set_in_tree("right_children", 0, -1), "one child"),
    "a cycle": (cycle, "cycle"),
    "children that are not neighbours": (strangers, "a right child is not next to the left one"),
    "a parent beyond the nodes": (set_in_tree("parents", 1, 99999), "parent is out of range"),
    "a parent that is not": (set_in_tree("parents", 1, 2), "parents and children do not agree"),
    "a root with a parent": (set_in_tree("parents", 0, 1), "parent is out of range"),
    "a feature that is not there": (
        set_in_tree("split_indices", 0, 6),
        "feature that the model does not have",
    ),
    "deleted nodes that are not": (set_in_tree("tree_param", "num_deleted", "1"), "num_deleted"),
    "more nodes than there are": (
        set_in_tree("tree_param", "num_nodes", "1000000000"),
        "num_nodes",
    ),
    "a vector in every leaf": (set_in_tree("tree_param", "size_leaf_vector", "9"), "trees.0."),
    "a tree of another width": (set_in_tree("tree_param", "num_feature", "7"), "num_feature is 7"),
    "a number that is text": (set_in_tree("split_conditions", 0, "0.5"), "split_conditions"),
    "a fraction for a node": (set_in_tree("left_children", 0, 1.0), "left_children"),
    "an unknown threshold": (set_in_tree("split_conditions", 0, float("nan")), "not finite"),
    "a score beyond float32": (set_in_tree("split_conditions", -1, 1e39), "not finite"),
    "a score beyond float64": (set_in_tree("split_conditions", -1, 10**400), "split_conditions"),
    "a short array": (set_in_tree("sum_hessian", [1.0]), "sum_hessian has 1 entries"),
    "an array that is none": (set_in_tree("default_left", None), "default_left"),
    "a switch that is a number": (set_in_tree("default_left", 0, 2), "default_left"),
    "an id beyond the trees": (set_in_tree("id", 1000000), "has id 1000000"),
    "an id twice": (set_in_forest("trees", 1, "id", 0), "tree 1 has id 0"),
    "a tree that is none": (set_in_forest("trees", 0, 5), "trees.0."),
    "more trees than there are": (
        set_in_forest("gbtree_model_param", "num_trees", "1000000000"),
        "num_trees",
    ),
    "a negative count": (set_in_forest("gbtree_model_param", "num_trees", "-4"), "num_trees"),
    "a group that is not there": (set_in_forest("tree_info", 0, 1), "tree_info"),
    "too few groups": (set_in_forest("tree_info", [0]), "tree_info has 1 entries, but needs 4"),
    "rounds beyond the trees": (set_in_forest("iteration_indptr", 1, 5), "iteration_indptr"),
    "rounds that fall": (
        set_in_forest("iteration_indptr", [0, 2, 1, 3, 4]),
        "iteration_indptr does not divide",
    ),
    "rounds that lose trees": (
        set_in_forest("iteration_indptr", [0, 1]),
        "iteration_indptr does not divide",
    ),
    "no rounds": (set_in_forest("iteration_indptr", []), "iteration_indptr does not divide"),
    "too few categories": (
        set_in_forest("cats", "enc", [{"type": 13, "values": []}]),
        "describe 1 columns",
    ),
    "an order without columns": (set_in_forest("cats", "sorted_idx", [0]), "feature_segments"),
    "no features": (set_in_learner("learner_model_param", "num_feature", "0"), "num_feature"),
    "more features than numbers": (
        set_in_learner("learner_model_param", "num_feature", "99999999999"),
        "num_feature",
    ),
    "a wider model": (
        set_in_learner("learner_model_param", "num_feature", "9"),
        "num_feature is 6, but the model has 9",
    ),
    "several classes": (
        set_in_learner("learner_model_param", "num_class", "3"),
        "one score per document.*num_class",
    ),
    "several targets": (
        set_in_learner("learner_model_param", "num_target", "2"),
        "one score per document.*num_target",
    ),
    "a start that is no number": (
        set_in_learner("learner_model_param", "base_score", "[x]"),
        "base_score",
    ),
    "an infinite start": (set_in_learner("learner_model_param", "base_score", "inf"), "base_score"),
    "a name too many": (set_in_learner("feature_names", ["a"] * 7), "feature_names has 7"),
    "a name that is a number": (
        set_in_learner("feature_names", [1, 2, 3, 4, 5, 6]),
        "feature_names",
    ),
    "an attribute that is a number": (
        set_in_learner("attributes", {"best_iteration": 3}),
        "attributes",
    ),
    "no objective": (set_in_learner("objective", None), "objective"),
    "another booster": (set_in_learner("gradient_booster", "name", "gblinear"), "'gblinear'"),
    "no version": (lambda model: model.pop("version"), "version"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_fault_086_a_hostile_model_is_refused_with_words(name: str) -> None:
    edit, words = HOSTILE[name]
    model = json.loads(xgboost_models()["rank:ndcg"])
    edit(model)
    with pytest.raises(ModelError, match=words):
        check_xgboost_json(json.dumps(model).encode())


def categorical_leaf(model: dict[str, Any]) -> None:
    """The last node, a leaf, gets a set of categories of its own."""
    tree = get_forest(model)["trees"][0]
    tree["split_type"][-1] = 1
    tree["categories_nodes"].append(len(tree["split_type"]) - 1)
    tree["categories_segments"].append(len(tree["categories"]))
    tree["categories_sizes"].append(1)
    tree["categories"].append(0)


CATEGORICAL: dict[str, tuple[Edit, str]] = {
    "a set beyond the list": (set_in_tree("categories_sizes", 0, 1000), "categories_sizes"),
    "an empty set": (set_in_tree("categories_sizes", 0, 0), "categories_sizes"),
    "a set that begins elsewhere": (
        set_in_tree("categories_segments", 0, 1),
        "do not fit the list",
    ),
    "a set of no node": (
        set_in_tree("categories_nodes", []),
        "not the nodes with a categorical split",
    ),
    "a set of another node": (
        set_in_tree("categories_nodes", 0, 3),
        "not the nodes with a categorical split",
    ),
    "a set of a leaf": (categorical_leaf, "not the nodes with a categorical split"),
    "text that no name uses": (
        lambda m: get_forest(m)["cats"]["enc"][4]["values"].append(65),
        "offsets do not fit",
    ),
    "a category beyond memory": (set_in_tree("categories", 0, 2**31 - 1), "categories"),
    "an unknown split": (set_in_tree("split_type", 0, 2), "split_type"),
    "text beyond its end": (
        set_in_forest("cats", "enc", 4, "offsets", 1, 1000),
        "offsets do not fit the text",
    ),
    "a column of unknown type": (set_in_forest("cats", "enc", 5, "type", 99), "type"),
    "a column of a list for a type": (set_in_forest("cats", "enc", 5, "type", [15]), "type"),
    "segments beyond the order": (
        set_in_forest("cats", "feature_segments", 6, 9999),
        "feature_segments do not fit",
    ),
    "segments that are not the columns'": (
        set_in_forest("cats", "feature_segments", 5, 1),
        "do not fit the columns",
    ),
    "an order with a repeat": (set_in_forest("cats", "sorted_idx", 0, 1), "not an order"),
}


@pytest.mark.parametrize("name", sorted(CATEGORICAL))
def test_fault_086_hostile_categories_are_refused_with_words(name: str) -> None:
    edit, words = CATEGORICAL[name]
    model = json.loads(xgboost_models()["sets of categories"])
    assert get_forest(model)["trees"][0]["categories"], "the first tree splits by categories"
    edit(model)
    with pytest.raises(ModelError, match=words):
        check_xgboost_json(json.dumps(model).encode())


def test_fault_086_categories_may_not_ask_for_more_memory_than_a_machine_has() -> None:
    model = json.loads(xgboost_models()["sets of categories"])
    trees = get_forest(model)["trees"]
    trees[0]["categories"][-1] = 2**24
    check_xgboost_json(model)
    copies = 600
    trees[:] = [{**trees[0], "id": i} for i in range(copies)]
    get_forest(model)["gbtree_model_param"]["num_trees"] = str(copies)
    get_forest(model)["tree_info"], get_forest(model)["iteration_indptr"] = (
        [0] * copies,
        list(range(copies + 1)),
    )
    with pytest.raises(ModelError, match="GiB"):
        check_xgboost_json(model)


def test_fault_086_a_tree_may_be_deep_but_not_bottomless() -> None:
    check_xgboost_json(make_chain(2000))
    with pytest.raises(ModelError, match="deeper than 4096"):
        check_xgboost_json(make_chain(6000))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "broken JSON"),
        (b"[]", "no model of XGBoost"),
        (b"{", "broken JSON"),
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": ' * 100_000, "nested deeper than 100"),
        (b'{"a": "\xff"}', "broken JSON"),
        (b'{"version": [3, 2, 0], "learner": 5}', "learner"),
        (b'{"version": ' + b"9" * 5000 + b"}", "broken JSON"),
    ],
)
def test_json_that_is_no_model_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        check_xgboost_json(data)


def widened(features: int, *, with_names_of_features: bool) -> Any:
    """A model of so many features; its trees stay as they are."""
    model = json.loads(xgboost_models()["sets of categories"])
    model["learner"]["learner_model_param"]["num_feature"] = str(features)
    model["learner"]["feature_names"] = (
        [f"f{i}" for i in range(features)] if with_names_of_features else []
    )
    model["learner"]["feature_types"] = []
    get_forest(model).pop("cats", None)
    for tree in get_forest(model)["trees"]:
        tree["tree_param"]["num_feature"] = str(features)
    return model


def test_fault_086_a_small_file_cannot_promise_more_features_than_data_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_xgboost_json(widened(2**24, with_names_of_features=False))
    with pytest.raises(ModelError, match=r"16,777,217 .*feature names"):
        check_xgboost_json(widened(2**24 + 1, with_names_of_features=False))
    monkeypatch.setattr(xgboost_schema, "_MOST_UNNAMED", 10)
    check_xgboost_json(widened(11, with_names_of_features=True))


@pytest.mark.parametrize(
    ("leaf", "base", "taken"),
    [
        (3e38, "0E0", False),
        (1.6e38, "0E0", True),
        (1e38, "[2E38]", False),
    ],
)
def test_fault_086_leaves_that_add_up_beyond_float32_are_refused(
    leaf: float, base: str, taken: bool
) -> None:
    model = json.loads(xgboost_models()["sets of categories"])
    trees = get_forest(model)["trees"][:2]
    assert len(trees) == 2
    for tree in trees:
        ends = [i for i, child in enumerate(tree["left_children"]) if child < 0]
        for i in ends:
            tree["split_conditions"][i] = -leaf
    get_forest(model)["trees"] = trees
    get_forest(model)["gbtree_model_param"]["num_trees"] = "2"
    get_forest(model)["tree_info"], get_forest(model)["iteration_indptr"] = [0, 0], [0, 1, 2]
    model["learner"]["learner_model_param"]["base_score"] = base
    if taken:
        check_xgboost_json(model)
    else:
        with pytest.raises(ModelError, match="largest float32"):
            check_xgboost_json(model)


@given(data=st.data())
@settings(max_examples=300)
def test_fault_086_no_value_in_any_place_breaks_the_check_itself(data: st.DataObject) -> None:
    model = json.loads(xgboost_models()["sets of categories"])
    owner, key = None, None
    value: Any = model
    while (
        isinstance(value, dict | list)
        and value
        and (owner is None or data.draw(st.integers(0, 9)) > 0)
    ):
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        owner, key = value, data.draw(st.sampled_from(keys))
        value = owner[key]
    odd = [
        None,
        True,
        -1,
        10**30,
        0.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        "[[",
        "9" * 5000,
        [],
        [[]],
        [None],
        {},
    ]
    owner[key] = data.draw(st.sampled_from(odd))
    with contextlib.suppress(ModelError):
        check_xgboost_json(model)


@pytest.mark.parametrize(
    ("objective", "base_score", "start"),
    [
        ("rank:ndcg", "-1.5", -1.5),
        ("rank:ndcg", "[5E-1]", 0.5),
        ("binary:logistic", "2.5E-1", -np.log(3.0)),
        ("reg:logistic", "[7.5E-1]", np.log(3.0)),
        ("count:poisson", "2E0", np.log(2.0)),
    ],
)
def test_scores_begin_with_what_the_objective_makes_a_prediction_of(
    objective: str, base_score: str, start: float
) -> None:
    learner = {"objective": {"name": objective}, "learner_model_param": {"base_score": base_score}}
    assert _base(learner) == pytest.approx(start, rel=1e-6)


@pytest.mark.parametrize(
    ("objective", "base_score"), [("binary:logistic", "1E0"), ("count:poisson", "0E0")]
)
def test_fault_086_a_prediction_that_no_score_makes_is_refused(
    objective: str, base_score: str
) -> None:
    learner = {"objective": {"name": objective}, "learner_model_param": {"base_score": base_score}}
    with pytest.raises(ModelError, match="prediction"):
        _base(learner)


def test_names_of_categories_are_put_into_a_file_and_found_again() -> None:
    document = json.loads(xgboost_models()["rank:ndcg"])
    columns = int(document["learner"]["learner_model_param"]["num_feature"])
    with_categories = with_names(
        json.dumps(document).encode(), {1: ("b", "a", ""), columns - 1: (3, -4)}
    )

    assert names_in(with_categories) == {1: ("b", "a", ""), columns - 1: (3, -4)}
    body = json.dumps(document).encode()
    assert with_names(body, {0: (1.5,)}) == with_names(body, {0: None}) == body


def test_a_linear_booster_is_refused() -> None:
    train = xgb.DMatrix([[1.0], [2.0]], [0.0, 1.0])
    booster = xgb.train({"booster": "gblinear", "verbosity": 0}, train, 1)
    with pytest.raises(ModelError, match="gblinear"):
        check_xgboost_json(bytes(booster.save_raw("json")))


@pytest.mark.parametrize("name", xgboost_models())
def test_a_file_that_is_taken_apart_is_put_together_without_a_loss(name: str) -> None:
    body = xgboost_models()[name]
    again = write_json(XGBOOST.parse(body).document)
    assert json.loads(again) == json.loads(body)
    booster = xgb.Booster()
    booster.load_model(bytearray(again))


def test_thresholds_of_splits_by_categories_are_nan_before_xgboost_3_1() -> None:
    engine, document = get_backend("xgboost"), json.loads(xgboost_models()["sets of categories"])
    model, rows = XGBOOST.parse(xgboost_models()["sets of categories"]), np.nan_to_num(data()[0])
    replaced = 0
    for tree in get_forest(document)["trees"]:
        for node in tree["categories_nodes"]:
            tree["split_conditions"][node] = float("nan")
            replaced += 1
    assert replaced
    body = json.dumps(document).encode()
    old = XGBOOST.parse(body)
    scores = [
        engine.load(model_file).predict(rows, PredictRequest())
        for model_file in (body, write_json(model.document))
    ]
    np.testing.assert_array_equal(*scores)
    of_sets = [XGBOOST.trees(parsed, 6).forest for parsed in (old, model)]
    np.testing.assert_array_equal(of_sets[0].threshold, of_sets[1].threshold)
    numeric = next(
        i for i, kind in enumerate(get_forest(document)["trees"][0]["split_type"]) if kind == 0
    )
    with pytest.raises(ModelError, match=r"tree 0: split_conditions .*finite"):
        XGBOOST.parse(edited(document, set_in_tree("split_conditions", numeric, float("nan"))))


def edited(document: dict[str, Any], edit: Edit) -> bytes:
    copy = json.loads(json.dumps(document))
    edit(copy)
    return json.dumps(copy).encode()


@pytest.mark.fault(119)
def test_names_of_categories_that_xgboost_garbled_are_no_names() -> None:
    engine, document = get_backend("xgboost"), json.loads(xgboost_models()["sets of categories"])
    # x, yy, zß as XGBoost 3.1 to 3.3 write them: ends in letters, and as many bytes.
    get_forest(document)["cats"]["enc"][4] = {
        "offsets": [0, 1, 3, 5],
        "values": [*b"xyyz", 0xC3 - 256],
    }
    document["version"] = [3, 3, 0]
    model = RankingModel(engine.load(json.dumps(document).encode()))
    assert model.categories == {"e": Categories(), "f": Categories()}
    with pytest.raises(DataError, match="codes without names"):
        model.predict(frame())
    codes = np.nan_to_num(data()[0])
    alone = engine.load(xgboost_models()["sets of categories"])
    np.testing.assert_array_equal(model.predict(codes), alone.predict(codes, PredictRequest()))
    assert json.loads(model.to_bytes())["learner"]["gradient_booster"]["model"]["cats"]["enc"] == []


def test_names_of_categories_are_coded_as_xgboost_does_or_not_known() -> None:
    booster = train_xgboost(X=frame(), max_cat_to_onehot=1)
    model = RankingModel(booster)
    if model.categories["e"].values is None:
        assert Version(xgb.__version__) < Version("3.4")
        return
    alone = booster.predict(xgb.DMatrix(frame(), enable_categorical=True))
    np.testing.assert_array_equal(model.predict(frame()), alone)


@pytest.mark.fault(119)
def test_names_of_features_keep_their_letters_in_the_engine_s_file() -> None:
    rows = frame()[["größe", "b", "c", "d"]]
    ranking = RankingDataset.from_arrays(rows, data()[1], group=[SIZE] * (ROWS // SIZE))
    params = {"objective": "lambdarank", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
    model = train(params, ranking, 2, backend="xgboost")
    for body in (
        model.to_bytes(),
        average([model, model]).to_bytes(),
        write_json(XGBOOST.parse(model.to_bytes()).document),
    ):
        alone = xgb.Booster(model_file=bytearray(body))
        assert alone.feature_names == list(rows)
        scores = alone.predict(xgb.DMatrix(rows), output_margin=True)
        np.testing.assert_allclose(scores, model.predict(rows), atol=1e-6)
    # JSON may be written otherwise by others, and is the same to boostrank.
    escaped = json.dumps(json.loads(model.to_bytes())).encode()
    assert b"\\u00f6" in escaped
    engine = get_backend("xgboost")
    np.testing.assert_array_equal(
        RankingModel(engine.load(escaped)).predict(rows), model.predict(rows)
    )


def test_fault_086_a_base_that_is_no_prediction_of_its_objective_is_refused_with_the_file() -> None:
    model = json.loads(xgboost_models()["sets of categories"])
    model["learner"]["objective"] = {"name": "binary:logistic"}
    for base, taken in (("[5E-1]", True), ("[-1E0]", False), ("[1E0]", False)):
        model["learner"]["learner_model_param"]["base_score"] = base
        with (
            contextlib.nullcontext()
            if taken
            else pytest.raises(ModelError, match=r"not a prediction .*binary")
        ):
            check_xgboost_json(model)


def test_sets_of_categories_are_the_bits_of_those_that_are_listed() -> None:
    trees = [
        {
            "split_type": [],
            "categories": [0, 33, 5, 70, 69],
            "categories_sizes": [2, 1, 2],
            "categories_nodes": [0, 2, 5],
        },
        {},
        {"split_type": [], "categories": [], "categories_sizes": [], "categories_nodes": []},
        {"split_type": [], "categories": [31], "categories_sizes": [1], "categories_nodes": [1]},
    ]
    owners, sets = _sets_of(trees, np.array([0, 7, 10, 13]))
    assert owners == [0, 2, 5, 14]
    assert [words.tolist() for words in sets] == [
        [1, 2],
        [1 << 5],
        [0, 0, (1 << 6) | (1 << 5)],
        [1 << 31],
    ]
    assert _sets_of([{}], np.array([0])) == ([], [])
