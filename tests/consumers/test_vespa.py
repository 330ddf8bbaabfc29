"""Vespa's emulator against the documentation's and its tests' examples, a scalar twin, and what an
import refuses.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import ModelError
from tests.consumers import vespa
from tests.consumers.forests import NAMES, documents, forest
from tests.consumers.vespa import read

F = np.float32


def scores(model: Any, rows: Any, names: list[str] = NAMES, **options: Any) -> list[float]:
    result = read(json.dumps(model).encode(), names, **options)(np.array(rows, dtype=np.float64))
    assert result.dtype == np.float64
    return result.tolist()


DOCUMENTED = [
    {
        "nodeid": 0,
        "depth": 0,
        "split": "fieldMatch(title).completeness",
        "split_condition": 0.772132337,
        "yes": 1,
        "no": 2,
        "missing": 1,
        "children": [{"nodeid": 1, "leaf": 0.673938096}, {"nodeid": 2, "leaf": 0.791884363}],
    },
    {
        "nodeid": 0,
        "depth": 0,
        "split": "fieldMatch(title).importance",
        "split_condition": 0.606320798,
        "yes": 1,
        "no": 2,
        "missing": 2,
        "children": [{"nodeid": 1, "leaf": 0.469432801}, {"nodeid": 2, "leaf": 0.55586201}],
    },
]
"""The example of the documentation, the second tree with its missing values to the right."""
TITLE = ["fieldMatch(title).completeness", "fieldMatch(title).importance"]


def split(left: Any, right: Any, **more: Any) -> dict[str, Any]:
    """A split of LightGBM's dump on feature 0 at 0.5."""
    node = {
        "split_feature": 0,
        "threshold": 0.5,
        "decision_type": "<=",
        "default_left": False,
        "missing_type": "NaN",
    }
    below = [
        {"leaf_value": child} if isinstance(child, float) else child for child in (left, right)
    ]
    return {**node, "left_child": below[0], "right_child": below[1], **more}


def lightgbm(*roots: Any, **more: Any) -> dict[str, Any]:
    """A dump of LightGBM with some trees."""
    model = {
        "name": "tree",
        "objective": "lambdarank",
        "feature_names": NAMES,
        "pandas_categorical": None,
    }
    return {
        **model,
        "tree_info": [{"tree_index": i, "tree_structure": root} for i, root in enumerate(roots)],
        **more,
    }


def test_the_documented_example_of_xgboost() -> None:
    rows = [[0.0, 0.0], [1.0, 1.0], [np.nan, np.nan], [0.5, 0.606320798]]
    sums = [0.673938096 + 0.469432801, 0.791884363 + 0.55586201, 0.673938096 + 0.55586201]
    assert float(F(0.606320798)) > 0.606320798
    assert scores(DOCUMENTED, rows, TITLE) == [*sums, sums[0]]
    # Before, thresholds were not rounded to float32.
    assert scores(DOCUMENTED, rows, TITLE, version=(8, 623)) == [*sums, sums[2]]


def test_the_child_that_yes_names_is_taken_wherever_it_stands() -> None:
    first = DOCUMENTED[0]
    swapped = first | {"children": first["children"][::-1]}
    assert scores([swapped], [[0.0, 0.0]], TITLE) == [0.673938096]


def test_a_numeric_split_of_lightgbm_is_less_than_and_nan_goes_as_default_left_says() -> None:
    rows = [[x, 0.0, 0.0] for x in (0.5, np.nextafter(0.5, 0), np.nan)]
    assert scores(lightgbm(split(1.0, 2.0)), rows) == [2.0, 1.0, 2.0]
    for kind in ("NaN", "None", "Zero"):
        assert scores(lightgbm(split(1.0, 2.0, default_left=True, missing_type=kind)), rows) == [
            2.0,
            1.0,
            1.0,
        ]


def test_categories_are_numbers_only_by_a_table_of_integers() -> None:
    rows = [[x, 0.0, 0.0] for x in (0.0, 5.0, 7.0, 7.5, np.nan)]
    by_category = {"decision_type": "==", "threshold": "0||2"}
    plain = lightgbm(split(1.0, 2.0, **by_category), pandas_categorical=[[5, 6, 7]])
    assert scores(plain, rows) == [2.0, 1.0, 1.0, 2.0, 2.0]
    missing_left = lightgbm(
        split(1.0, 2.0, **by_category, default_left=True), pandas_categorical=[[5, 6, 7]]
    )
    assert scores(missing_left, rows) == [2.0, 1.0, 1.0, 2.0, 1.0]
    for table in ([], [["5", "6", "7"]], [[5.0, 6.0, 7.5]]):
        quoted = lightgbm(split(1.0, 2.0, **by_category), pandas_categorical=table)
        assert scores(quoted, rows) == [2.0] * 5
    assert scores(plain, rows, version=(8, 525)) == [2.0] * 5
    with pytest.raises(ModelError, match="more than pandas_categorical"):
        scores(lightgbm(split(1.0, 2.0, **by_category), pandas_categorical=[[5, 6]]), rows)


def test_tables_go_to_the_features_with_categories_in_their_order() -> None:
    tested = {"decision_type": "==", "threshold": "0"}
    root = split(1.0, split(2.0, 3.0, split_feature=2, **tested), **tested)
    rows = [[5.0, 0.0, 9.0], [6.0, 0.0, 9.0], [6.0, 0.0, 5.0]]
    tables: dict[str, Any] = {"pandas_categorical": [[5], [9]]}
    assert scores(lightgbm(root, **tables), rows) == [1.0, 2.0, 3.0]
    # Feature b has categories too, though no split asks for them: its table is not that of c.
    infos = {name: {"min_value": 0, "max_value": 9, "values": [5, 9]} for name in NAMES}
    tables = {"pandas_categorical": [[5], [7], [9]], "feature_infos": infos}
    assert scores(lightgbm(root, **tables), rows) == [1.0, 2.0, 3.0]
    assert scores(lightgbm(root, **tables | {"feature_infos": None}), rows) == [1.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("objective", "link"),
    [
        ("lambdarank", lambda x: x),
        ("binary sigmoid:1", lambda x: 1 / (1 + math.exp(-x))),
        ("poisson", math.exp),
    ],
)
def test_some_objectives_make_something_of_the_sum(objective: str, link: Any) -> None:
    assert scores(
        lightgbm({"leaf_value": 0.25}, objective=objective), [[0.0] * 3]
    ) == pytest.approx([link(0.25)])


def test_the_sum_is_float64_from_left_to_right_and_neighbouring_constants_are_added_first() -> None:
    tree = split(1e16, 1e16)
    assert scores(lightgbm(tree, {"leaf_value": 1.0}, {"leaf_value": 1.0}), [[0.0] * 3]) == [
        1e16 + 2
    ]
    assert scores(lightgbm(tree, split(1.0, 1.0), {"leaf_value": 1.0}), [[0.0] * 3]) == [1e16]
    assert scores(lightgbm({"leaf_value": 0.1}, split(0.2, 0.0), split(0.3, 0.0)), [[0.0] * 3]) == [
        0.1 + 0.2 + 0.3
    ]


def twin(model: Any, document: Any) -> float:
    """One document, by the expression as a container evaluates it."""

    def value(node: Any) -> float:
        if "leaf_value" in node:
            return float(node["leaf_value"])
        x, threshold = float(document[node["split_feature"]]), float(node["threshold"])
        true = not (x >= threshold) if node["default_left"] else x < threshold
        side = "left_child" if true else "right_child"
        return value(node[side])

    total = value(model["tree_info"][0]["tree_structure"])
    for tree in model["tree_info"][1:]:
        total += value(tree["tree_structure"])
    return total


def dumped(node: Any) -> dict[str, Any]:
    """A tree of `forest` as LightGBM dumps it, with numbers that are no float32."""
    if not isinstance(node, tuple):
        return {"leaf_value": float(node) / 3}
    column, threshold, missing, left, right = node
    more = {
        "split_feature": column,
        "threshold": float(threshold) * (1 + 1e-9),
        "default_left": missing,
    }
    return split(dumped(left), dumped(right), **more)


@pytest.mark.parametrize("where", ["content", "container"])
def test_scores_are_those_of_a_scalar_twin(where: Any) -> None:
    trees = [tree for tree in forest(9, trees=12) if isinstance(tree, tuple)]
    model, rows = lightgbm(*map(dumped, trees)), documents(10, trees)
    assert scores(model, rows, where=where) == [twin(model, row) for row in rows]
    xgb = [as_xgboost(tree["tree_structure"]) for tree in model["tree_info"]]
    assert scores(xgb, rows, version=(8, 500), where=where) == [twin(model, row) for row in rows]


def as_xgboost(node: Any) -> dict[str, Any]:
    """A tree of a dump of LightGBM as one of XGBoost's; ids need to differ among brothers alone."""

    def convert(node: Any, nodeid: int) -> dict[str, Any]:
        if "leaf_value" in node:
            return {"nodeid": nodeid, "leaf": node["leaf_value"]}
        children = [convert(node["left_child"], 1), convert(node["right_child"], 2)]
        missing = 1 if node["default_left"] else 2
        more = {"split": NAMES[node["split_feature"]], "split_condition": node["threshold"]}
        return {
            "nodeid": nodeid,
            "yes": 1,
            "no": 2,
            "missing": missing,
            "children": children,
            **more,
        }

    return convert(node, 0)


def test_a_real_model_of_lightgbm_has_the_scores_of_lightgbm() -> None:
    lgb = pytest.importorskip("lightgbm", reason="LightGBM is optional")
    rng = np.random.default_rng(12)
    rows = rng.normal(size=(300, 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    params = {"verbosity": -1, "num_threads": 1, "num_leaves": 7}
    booster = lgb.train(params, lgb.Dataset(rows, rng.normal(size=300), feature_name=NAMES), 10)
    assert scores(booster.dump_model(), rows) == booster.predict(rows).tolist()


def chain(leaves: int, **more: Any) -> dict[str, Any]:
    """A tree with some leaves, of values that are no float32; the first test is the one that
    counts.
    """
    node = split(0.1, 0.2)
    for _ in range(leaves - 2):
        node = split(0.1, node, threshold=0.1)
    return {**node, **more}


def test_a_large_sum_of_trees_has_float32_constants() -> None:
    trees = [chain(63)] * 79  # Their paths are 31.98 long in the mean: of 2,526 together.
    (score,) = scores(lightgbm(*trees), [[0.0] * 3])
    assert score == float(np.cumsum(np.full(79, float(F(0.1))))[-1])
    in_float64 = [float(np.cumsum(np.full(n, 0.1))[-1]) for n in (78, 79)]
    assert scores(lightgbm(*trees[:-1]), [[0.0] * 3]) == in_float64[:1]
    assert scores(lightgbm(*trees), [[0.0] * 3], where="container") == in_float64[1:]


@pytest.fixture
def small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vespa.FORESTS, "leaves", 4)
    monkeypatch.setitem(vespa.FORESTS, "categories", 2)


@pytest.mark.usefixtures("small_forests")
def test_trees_of_a_forest_are_added_from_the_last_and_the_first_two_at_the_end() -> None:
    values = [1e8, 3e-9, 5e-9, -1e8, 7e-9]
    model = lightgbm(*(split(value, 0.0) for value in values))
    f = [float(F(value)) for value in values]
    expected = 0.0 + f[4] + f[3] + f[2] + f[0] + f[1]
    assert scores(model, [[0.0] * 3]) == [expected]
    assert expected not in (sum(f), sum(f[::-1]))


@pytest.mark.usefixtures("small_forests")
def test_thresholds_of_a_forest_are_float32_and_features_are_not() -> None:
    model, rows = (
        lightgbm(*[split(1.0, 2.0, threshold=0.1)] * 5),
        [[0.1000000001, 0, 0], [float(F(0.1)), 0, 0]],
    )
    assert scores(model, rows) == [5.0, 10.0]
    assert scores(model, rows, where="container") == [10.0, 10.0]


@pytest.mark.usefixtures("small_forests")
def test_a_forest_ends_at_the_first_term_that_is_no_tree() -> None:
    tree, double, single = split(0.1, 0.0), 0.1, float(F(0.1))
    rows = [[0.0] * 3]
    by_category = {"decision_type": "==", "threshold": "0"}
    # A zero is in no list of strings: 0.0..
    no_tree = split(0.1, 0.0, **by_category, default_left=True)
    assert scores(lightgbm(tree, tree, tree, {"leaf_value": 0.1}, tree), rows) == [
        single * 3 + double + double
    ]
    assert scores(lightgbm(tree, tree, tree, no_tree, tree), rows) == [single * 3 + 0.0 + double]
    assert scores(lightgbm(no_tree, tree, tree, tree), rows) == [double + double + double]
    assert scores(lightgbm(tree, {"leaf_value": 0.1}, tree, tree), rows) == [
        double + double + double + double
    ]
    assert scores(lightgbm(tree, tree), rows) == [double * 2]
    assert scores(lightgbm(chain(6)), rows) == [double]
    in_list = split(0.0, 0.1, **by_category)
    assert scores(lightgbm(in_list, tree, tree), rows) == [single + single + single]
    long = split(0.0, 0.1, decision_type="==", threshold="0||1||2")
    assert scores(lightgbm(long, tree, tree), rows) == [double + double + double]


def test_a_forest_of_deep_trees_is_one_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = chain(13)
    path = (sum(range(1, 13)) + 12) / 13
    for limit, value in ((2 * path - 0.01, float(F(0.1))), (2 * path + 0.01, 0.1)):
        monkeypatch.setitem(vespa.FORESTS, "path", limit)
        assert scores(lightgbm(tree, tree), [[0.0] * 3]) == [value * 2]
    monkeypatch.setitem(vespa.FORESTS, "path", 1.0)
    assert scores(lightgbm(chain(12), chain(12)), [[0.0] * 3]) == [0.2]


def leaf(**more: Any) -> dict[str, Any]:
    return {"nodeid": 0, "leaf": 1.0, **more}


def without(model: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key != name}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ([], "no trees"),
        ([leaf(cover=3.0)], "unknown field 'cover'"),
        ([DOCUMENTED[0] | {"children": []}], "has 0 children"),
        ([DOCUMENTED[0] | {"split": "fieldMatch(title)"}], "has no feature 'fieldMatch.title.'"),
        ([DOCUMENTED[0] | {"split": "price in EUR"}], "cannot be the name"),
        ([DOCUMENTED[0] | {"split": "in-stock"}], "cannot be the name"),
        ([DOCUMENTED[0] | {"split": "1e5"}], "cannot be the name"),
        ([DOCUMENTED[0] | {"split": "if"}], "cannot be the name"),
        ([DOCUMENTED[0] | {"split": "7"}], "has no feature 'xgboost_input_7'"),
        ([DOCUMENTED[0] | {"split_condition": 1e39}], "infinite"),
        (7, "neither an object"),
        (lightgbm(), "no trees"),
        (without(lightgbm({"leaf_value": 1.0}), "objective"), "has no 'objective'"),
        (
            without(lightgbm({"leaf_value": 1.0}), "pandas_categorical"),
            "has no 'pandas_categorical'",
        ),
        (lightgbm({"leaf_value": 1.0}, tree_info=[{}]), "no 'tree_structure'"),
        (lightgbm(without(split(1.0, 2.0), "right_child")), "has no 'right_child'"),
        (lightgbm(without(split(1.0, 2.0), "decision_type")), "has no 'decision_type'"),
        (lightgbm(split(1.0, 2.0, threshold="low")), "'low' is no number"),
        (lightgbm(split(1.0, 2.0, split_feature=3)), "split_feature 3 has no name"),
        (lightgbm(split(1.0, 2.0), feature_names=["z", "b", "c"]), "has no feature 'z'"),
        (lightgbm(split(1.0, 2.0), feature_names=["a b", "b", "c"]), "cannot be the name"),
    ],
)
def test_dumps_that_an_import_refuses_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(json.dumps(model).encode(), NAMES + TITLE)


def test_names_of_features_are_those_that_vespa_parses() -> None:
    for name in (
        "attribute(price)",
        "query(x)",
        "bm25(title)",
        "Column_0",
        "f12",
        "a$1",
        "nativeRank",
        "x.out.1",
    ):
        assert scores([DOCUMENTED[0] | {"split": name}], [[0.0]], [name]) == [0.673938096]
