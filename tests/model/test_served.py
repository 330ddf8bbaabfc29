"""Models in the formats of serving programs, read back and scored as those programs score them."""

from __future__ import annotations

import base64
import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank import ModelError, RankingModel
from boostrank.cli import main
from boostrank.core.errors import DataWarning
from tests.consumers import elastic, elasticsearch, solr

NAMES = ("price", "age", "clicks", "bm25")


def rows_of(count: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = 0.0
    return X


ROWS = rows_of(10_000)


@pytest.fixture(scope="module", params=["none", "linear"])
def model(request: pytest.FixtureRequest) -> RankingModel:
    """A model; the trees of a linear start have splits of missing values from all others."""
    X = rows_of(600, 2)
    data = boostrank.RankingDataset.from_arrays(
        X,
        np.nan_to_num(np.abs(X[:, 0]) + X[:, 1]).clip(0, 3).round(),
        group=[20] * 30,
        feature_names=NAMES,
    )
    params = {"objective": "listnet", "num_leaves": 8, "verbosity": -1, "num_threads": 1}
    return boostrank.train(params, data, 8, start=request.param)


EMULATORS = {"solr": solr.read, "elastic": elastic.read, "elasticsearch": elasticsearch.read}


@pytest.mark.parametrize("target", EMULATORS)
def test_an_export_is_read_and_scores_as_in_its_program(
    model: RankingModel, target: str, tmp_path: Path
) -> None:
    path = tmp_path / "exported"
    boostrank.export_model(model, path, target)
    served = RankingModel.load(path)
    expected = EMULATORS[target](path.read_bytes(), NAMES)(ROWS.astype(np.float64))
    columns_of_model = ROWS[:, [NAMES.index(name) for name in served.feature_names]]
    np.testing.assert_array_equal(served.predict(columns_of_model), expected)
    # LightGBM's copy, which explains the scores, has the same trees.
    contributions = served.contributions(columns_of_model[:500])
    np.testing.assert_allclose(contributions.sum(axis=1), expected[:500], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        served.booster.predict(columns_of_model), expected, rtol=1e-5, atol=1e-5
    )
    assert served.num_trees() == model.num_trees()


def test_dumps_of_lightgbm_and_xgboost_score_as_their_models(tmp_path: Path) -> None:
    # LightGBM's dump, with missing values and without.
    X, y = rows_of(500, 3), np.arange(500) % 3
    for rows in (X, np.nan_to_num(X)):
        light = lgb.train(
            {"verbosity": -1, "num_leaves": 9, "min_data_in_leaf": 5}, lgb.Dataset(rows, y), 5
        )
        (tmp_path / "dump.json").write_text(json.dumps(light.dump_model()))
        served = RankingModel.load(tmp_path / "dump.json")
        np.testing.assert_array_equal(served.predict(ROWS), light.predict(ROWS))
        np.testing.assert_array_equal(served.booster.predict(ROWS), light.predict(ROWS))

    # XGBoost's dump without names has as many features as it uses.
    numbered = xgb.train({"max_depth": 2, "base_score": 0.0}, xgb.DMatrix(X, y), 1)
    path = tmp_path / "numbered.json"
    path.write_text(json.dumps(numbered.get_dump(dump_format="json")))
    with pytest.warns(DataWarning, match="base_score"):
        served = RankingModel.load(path)
    used = max(int(name[1:]) for name in numbered.get_score())
    assert served.feature_names == tuple(f"f{i}" for i in range(used + 1))
    assert served.info.index_base == 0

    # With names, as a list of texts or of objects.
    deep = xgb.train({"max_depth": 4, "base_score": 0.0}, xgb.DMatrix(X, y, feature_names=NAMES), 5)
    trees = deep.get_dump(dump_format="json")
    for number, document in enumerate((trees, [json.loads(tree) for tree in trees])):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(document))
        with pytest.warns(DataWarning, match="base_score"):
            served = RankingModel.load(path)
        columns_of_model = ROWS[:, [NAMES.index(name) for name in served.feature_names]]
        expected = deep.predict(xgb.DMatrix(ROWS, feature_names=NAMES), output_margin=True)
        np.testing.assert_allclose(served.predict(columns_of_model), expected, rtol=1e-6, atol=1e-6)


def test_a_transformed_score_and_a_saved_model_of_xgboost_are_refused(tmp_path: Path) -> None:
    splits = json.loads(xgboost_of(missing=2))
    for kind, definition, reason in (
        ("xgboost+json", {"objective": "binary:logistic", "splits": splits}, "binary:logistic"),
        ("xgboost+json+raw", {"learner": {}}, "pass the definition"),
    ):
        upload = {"type": f"model/{kind}", "definition": definition}
        (tmp_path / "model").write_text(json.dumps({"model": {"name": "m", "model": upload}}))
        with pytest.raises(ModelError, match=reason):
            RankingModel.load(tmp_path / "model")


OPERATORS = ("lt", "lte", None)


def test_trees_of_other_clients_score_as_in_elasticsearch(tmp_path: Path) -> None:
    """The operator of each split counts, which is `lte` by default; leaves are doubles."""
    rng, trees = np.random.default_rng(4), []
    for _ in range(40):
        nodes: list[dict[str, Any]] = []
        for number in range(3):  # one split after another
            split = node(2 * number, 2 * number + 1, 2 * number + 2, decision_type=None)
            split |= {"split_feature": int(rng.integers(4)), "decision_type": rng.choice(OPERATORS)}
            split["threshold"] = float(rng.choice([0.0, 0.1, 0.5, ROWS[0, 0], rng.normal()]))
            split["default_left"] = rng.choice([True, False, None])
            split = {name: value for name, value in split.items() if value is not None}
            nodes += [split, leaf(2 * number + 1, float(rng.normal()))]
        trees.append([*nodes, leaf(6, 0.1)])
    body = elastic.document(trees, NAMES)
    body = body.replace(b'["a", "b", "c"]', json.dumps(NAMES).encode())
    (tmp_path / "model").write_bytes(body)
    served, rows = RankingModel.load(tmp_path / "model"), ROWS[:2000].copy()
    rows[:100] = np.float32(0.1)
    expected = elastic.read(body, NAMES)(rows.astype(np.float64))
    np.testing.assert_array_equal(served.predict(rows), expected)
    np.testing.assert_allclose(served.booster.predict(rows), expected, rtol=1e-6)


def test_missing_values_are_zero_in_opensearch_if_the_definition_says_so(tmp_path: Path) -> None:
    splits, scores = json.loads(xgboost_of(missing=2)), {}
    for zero in (True, False):
        definition = {"objective": "rank:ndcg", "missing_as_zero": zero, "splits": splits}
        upload = {"type": "model/xgboost+json", "definition": definition}
        (tmp_path / "model").write_text(json.dumps({"model": {"name": "m", "model": upload}}))
        served = RankingModel.load(tmp_path / "model")
        scores[zero] = served.predict(np.array([[np.nan]])).tolist()
        assert served.booster.predict(np.array([[np.nan]])).tolist() == scores[zero]
    assert scores == {True: [1.0], False: [2.0]}


MART = """## LambdaMART
## No. of trees = 2
## Learning rate = 0.1

<ensemble>
 <tree id="1" weight="0.1">
  <split>
   <feature> 2 </feature>
   <threshold> 0.3 </threshold>
   <split pos="left"><output> 1.7 </output></split>
   <split pos="right">
    <feature> 3 </feature><threshold> -0.5 </threshold>
    <split pos="left"><output> -2.1 </output></split>
    <split pos="right"><output> 0.4 </output></split>
   </split>
  </split>
 </tree>
 <tree id="2" weight="0.1"><split><output> 0.25 </output></split></tree>
</ensemble>
"""


def by_ranklib(row: Any) -> float:
    """RankLib's arithmetic: float32 values, leaves and sums, products in float64."""
    value = [np.float32(0.0 if np.isnan(x) else x) for x in row]
    leaf = 1.7
    if not value[1] <= np.float32(0.3):
        leaf = -2.1 if value[2] <= np.float32(-0.5) else 0.4
    total = np.float32(0.0)
    for output in (leaf, 0.25):
        product = float(np.float32(output)) * float(np.float32(0.1))
        total = np.float32(float(total) + product)
    return float(total)


@pytest.mark.parametrize("wrapped", [False, True])
def test_ranklib_trees_score_as_ranklib_does(wrapped: bool, tmp_path: Path) -> None:
    path, text = tmp_path / "mart.txt", MART
    if wrapped:
        inner = {"name": "m", "model": {"type": "model/ranklib", "definition": MART}}
        text = json.dumps({"model": inner})
    path.write_text(text)
    served = RankingModel.load(path)
    assert served.feature_names == ("f1", "f2", "f3")
    expected = [by_ranklib(row) for row in ROWS[:2000, :3]]
    assert served.predict(ROWS[:2000, :3]).tolist() == expected


LINEAR = "## Coordinate Ascent\n## Restart = 5\n1:0.25 3:-0.5\n"
REGRESSION = "## Linear Regression\n## Lambda = 1.0E-10\n0:0.125 1:0.25 3:-0.5\n"
SOLR_LINEAR = {
    "class": "org.apache.solr.ltr.model.LinearModel",
    "name": "m",
    "features": [
        {
            "name": "f1",
            "norm": {
                "class": "org.apache.solr.ltr.norm.MinMaxNormalizer",
                "params": {"min": "-1.0", "max": "3.0"},
            },
        },
        {"name": "f2"},
        {"name": "f3"},
    ],
    "params": {"weights": {"f1": 0.25, "f2": 0.0, "f3": -0.5}},
}
NORMALISED = {
    "model": {
        "name": "m",
        "model": {
            "type": "model/linear",
            "definition": json.dumps({"f1": 0.25, "f2": 0.0, "f3": -0.5}),
            "feature_normalizers": {
                "f1": {"standard": {"mean": -1.0, "standard_deviation": 4.0}},
                "f3": {"min_max": {"minimum": 0.0, "maximum": 1.0}},
            },
        },
    }
}
UPLOAD = {
    "_source": {
        "name": "m",
        "feature_set": {"features": [{"name": "f1"}, {"name": "f2"}, {"name": "f3"}]},
        "model": {"type": "model/linear", "definition": json.dumps({"f1": 0.25, "f3": -0.5})},
    }
}


@pytest.mark.parametrize(
    ("text", "shift", "divisor", "bias"),
    [
        (LINEAR, 0.0, 1.0, 0.0),
        (REGRESSION, 0.0, 1.0, 0.125),
        (json.dumps(SOLR_LINEAR), -1.0, 4.0, 0.0),
        (json.dumps(UPLOAD), 0.0, 1.0, 0.0),
        ("\ufeff" + json.dumps(UPLOAD), 0.0, 1.0, 0.0),
        (json.dumps({"hits": {"total": 1, "hits": [UPLOAD]}}), 0.0, 1.0, 0.0),
        (json.dumps({"responseHeader": {}, "models": [SOLR_LINEAR]}), -1.0, 4.0, 0.0),
        (json.dumps({"initArgs": {}, "managedList": [SOLR_LINEAR]}), -1.0, 4.0, 0.0),
        (json.dumps(NORMALISED), -1.0, 4.0, 0.0),
    ],
)
def test_linear_models_of_serving_programs_are_read(
    text: str, shift: float, divisor: float, bias: float, tmp_path: Path
) -> None:
    path = tmp_path / "linear"
    path.write_text(text)
    served = RankingModel.load(path)
    rows = np.array([[1.0, 7.0, 2.0], [np.nan, 1.0, -4.0]], np.float32)
    expected = [bias + 0.25 * (x - shift) / divisor - 0.5 * z for x, z in ((1.0, 2.0), (0.0, -4.0))]
    assert served.predict(rows).tolist() == expected


@pytest.mark.parametrize(
    "answer",
    [
        lambda: {"responseHeader": {}, "models": [SOLR_LINEAR]},
        lambda: [SOLR_LINEAR],
        lambda: {"hits": {"total": 1, "hits": [UPLOAD]}},
        lambda: {"count": 1, "trained_model_configs": [json.loads(tree_of([leaf(0)]))]},
    ],
)
def test_the_only_model_in_an_answer_of_an_engine_is_read(answer: Any, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer()))
    assert RankingModel.load(path).n_features in (1, 3)
    # It is not chosen among several.
    twice = json.loads(path.read_text())
    models = twice
    for name in ("hits", "hits", "models", "trained_model_configs"):
        models = models.get(name, models) if isinstance(models, dict) else models
    models.append(models[0])
    path.write_text(json.dumps(twice))
    with pytest.raises(ModelError, match="2"):
        RankingModel.load(path)


@pytest.mark.parametrize("target", ["solr", "elasticsearch"])
def test_an_exported_linear_model_is_read(target: str, tmp_path: Path) -> None:
    X = np.nan_to_num(rows_of(600, 2))
    data = boostrank.RankingDataset.from_arrays(
        X, X[:, 0].clip(0, 3).round(), group=[20] * 30, feature_names=NAMES
    )
    linear = boostrank.train({"objective": "listnet"}, data, 5, backend="linear")
    boostrank.export_model(linear, tmp_path / "exported", target)
    served, rows = RankingModel.load(tmp_path / "exported"), np.nan_to_num(ROWS)
    assert served.feature_names == NAMES
    np.testing.assert_allclose(served.predict(rows), linear.predict(rows), rtol=1e-5, atol=1e-5)


def test_saving_says_that_another_format_is_written(tmp_path: Path) -> None:
    path = tmp_path / "mart.txt"
    path.write_text(MART)
    served = RankingModel.load(path)
    with pytest.warns(DataWarning, match="last digits"):
        served.save(tmp_path / "model.txt")
    again = RankingModel.load(tmp_path / "model.txt").predict(ROWS[:, :3])
    np.testing.assert_allclose(again, served.predict(ROWS[:, :3]), rtol=1e-6)


NORM = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": {"std": "4"}}
IDENTITY = {"class": "org.apache.solr.ltr.norm.IdentityNormalizer"}


@pytest.mark.parametrize("program", ["solr", "plugin", "ranklib"])
def test_trees_of_normalised_features_are_refused(program: str, tmp_path: Path) -> None:
    document = json.loads(solr_of({"value": "1"}))
    document["features"] = [{"name": "a", "norm": NORM}]
    if program != "solr":
        normalizers = {"f2": {"standard": {"mean": 0.0, "standard_deviation": 2.0}}}
        kind, definition = (
            ("ranklib", MART) if program == "ranklib" else ("xgboost+json", xgboost_of().decode())
        )
        upload = {"type": f"model/{kind}", "definition": definition}
        document = {"model": {"name": "m", "model": upload | {"feature_normalizers": normalizers}}}
    path = tmp_path / "model"
    path.write_text(json.dumps(document))
    with pytest.raises(ModelError, match="normalises the features"):
        RankingModel.load(path)


def test_a_split_of_missing_values_from_all_others_is_read(tmp_path: Path) -> None:
    leaves = {"left": {"value": "1"}, "right": {"value": "2"}}
    root = {"feature": "a", "threshold": "-Infinity", "missing": "left", **leaves}
    document = json.loads(solr_of(root))
    document["features"] = [{"name": "a", "norm": IDENTITY}]
    document["params"]["isNullSameAsZero"] = False
    path = tmp_path / "model"
    path.write_text(json.dumps(document))
    served = RankingModel.load(path)
    rows = np.array([[np.nan], [-3e38], [0.0]], np.float32)
    assert served.predict(rows).tolist() == [1.0, 2.0, 2.0]
    path.write_bytes(served.to_bytes())
    assert RankingModel.load(path).predict(rows).tolist() == [1.0, 2.0, 2.0]


def tree_of(nodes: list[dict[str, Any]], **changes: Any) -> bytes:
    tree = {"feature_names": ["a"], "tree_structure": nodes, "target_type": "regression"}
    ensemble = {
        "feature_names": ["a"],
        "trained_models": [{"tree": tree}],
        "aggregate_output": {"weighted_sum": {}},
    } | changes
    packed = gzip.compress(json.dumps({"trained_model": {"ensemble": ensemble}}).encode())
    return json.dumps({"compressed_definition": base64.b64encode(packed).decode()}).encode()


def node(at: int, left: int, right: int, **changes: Any) -> dict[str, Any]:
    return {
        "node_index": at,
        "split_feature": 0,
        "threshold": 0.5,
        "default_left": True,
        "left_child": left,
        "right_child": right,
        **changes,
    }


def leaf(at: int, value: Any = 1.0) -> dict[str, Any]:
    return {"node_index": at, "leaf_value": value}


def solr_of(root: Any) -> bytes:
    document = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "features": [{"name": "a"}],
        "params": {"trees": [{"weight": "1", "root": root}]},
    }
    return json.dumps(document).encode()


def normalised(mean: float, deviation: float) -> bytes:
    standard = {"mean": mean, "standard_deviation": deviation}
    normalizers = {"a": {"standard": standard}}
    document = {"type": "model/linear", "definition": {"a": 1}, "feature_normalizers": normalizers}
    return json.dumps(document).encode()


def xgboost_of(**changes: Any) -> bytes:
    root = {"nodeid": 0, "split": "a", "split_condition": 1.0, "yes": 1, "no": 2, "missing": 1}
    root["children"] = [{"nodeid": 1, "leaf": 1.0}, {"nodeid": 2, "leaf": 2.0}]
    return json.dumps([root | changes]).encode()


def lightgbm_of(**changes: Any) -> bytes:
    leaves = {"left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 2.0}}
    split = {"split_feature": 0, "threshold": 1.0, "decision_type": "<=", "default_left": True}
    tree = {"tree_structure": split | leaves | changes}
    return json.dumps({"feature_names": ["a"], "tree_info": [tree]}).encode()


PLAIN = {
    "ensemble": {
        "feature_names": ["a"],
        "trained_models": [{"tree": {"feature_names": ["a"], "tree_structure": [leaf(0)]}}],
        "aggregate_output": {"weighted_sum": {}},
    }
}


@pytest.mark.parametrize(
    "split", [{"decision_type": "==", "threshold": "0||2"}, {"missing_type": "Zero"}]
)
def test_a_dump_with_categories_or_zeros_as_missing_is_refused_with_the_remedy(
    split: Any, tmp_path: Path
) -> None:
    (tmp_path / "model").write_bytes(lightgbm_of(**split))
    with pytest.raises(ModelError, match="save_model"):
        RankingModel.load(tmp_path / "model")


BOMB = base64.b64encode(gzip.compress(b"[" * 10_000_000)).decode()
HOSTILE: dict[str, Callable[[], bytes]] = {
    "a cycle": lambda: tree_of([node(0, 0, 1), leaf(1)]),
    "a child twice": lambda: tree_of([node(0, 1, 1), leaf(1), leaf(2)]),
    "a child beyond": lambda: tree_of([node(0, 1, 9), leaf(1)]),
    "a feature beyond": lambda: tree_of([node(0, 1, 2, split_feature=3), leaf(1), leaf(2)]),
    "a feature below": lambda: tree_of([node(0, 1, 2, split_feature=-1), leaf(1), leaf(2)]),
    "a threshold that is text": lambda: tree_of([node(0, 1, 2, threshold="x"), leaf(1), leaf(2)]),
    "a threshold of NaN": lambda: tree_of(
        [node(0, 1, 2, threshold=float("nan")), leaf(1), leaf(2)]
    ),
    "an operator": lambda: tree_of([node(0, 1, 2, decision_type="eq"), leaf(1), leaf(2)]),
    "values above": lambda: tree_of([node(0, 1, 2, decision_type="gt"), leaf(1), leaf(2)]),
    "a leaf of classes": lambda: tree_of([leaf(0, [1.0, 2.0])]),
    "a classification": lambda: tree_of([leaf(0)], target_type="classification"),
    "features that are preprocessed": lambda: json.dumps(
        {"definition": {"preprocessors": [{"one_hot_encoding": {}}], "trained_model": PLAIN}}
    ).encode(),
    "sets of categories": lambda: xgboost_of(split_condition=[1, 2]),
    "an infinite leaf": lambda: tree_of([leaf(0, float("inf"))]),
    "no trees": lambda: tree_of([leaf(0)], trained_models=[]),
    "votes": lambda: tree_of([leaf(0)], aggregate_output={"weighted_mode": {}}),
    "a definition that is no gzip": lambda: b'{"compressed_definition": "H4sI"}',
    "a definition that grows": lambda: json.dumps({"compressed_definition": BOMB}).encode(),
    "an unknown feature": lambda: solr_of(
        {"feature": "b", "threshold": "1", "left": {"value": "1"}, "right": {"value": "2"}}
    ),
    "one child": lambda: solr_of({"feature": "a", "threshold": "1", "left": {"value": "1"}}),
    "a node that is none": lambda: solr_of(7),
    "an entity": lambda: b'## LambdaMART\n<!DOCTYPE a [<!ENTITY b "c">]><ensemble>&b;</ensemble>',
    "XML that ends": lambda: MART[:300].encode(),
    "a feature of 10^12": lambda: MART.replace("<feature> 2 ", "<feature> 999999999 ").encode(),
    "a forest": lambda: b"## Random Forests\n<ensemble></ensemble>",
    "linear leaves": lambda: json.dumps(
        {
            "feature_names": ["a"],
            "tree_info": [{"tree_structure": {"leaf_value": 1.0, "leaf_coeff": [2.0]}}],
        }
    ).encode(),
    "weights without numbers": lambda: b"## Linear Regression\n1:x\n",
    "no features": lambda: solr_of({"value": 1}).replace(b'{"name": "a"}', b""),
    "a feature twice": lambda: solr_of({"value": 1}).replace(b'"a"}', b'"a"}, {"name": "a"}'),
    "a key twice": lambda: solr_of({"value": 1}).replace(b'"value"', b'"value": 2, "value"'),
    "a key twice, within text": lambda: json.dumps(
        {"type": "model/linear", "definition": '{"a": 1, "a": 2}'}
    ).encode(),
    "a deep nest": lambda: b"[" * 100_000,
    "a weight of 10^400": lambda: json.dumps(
        SOLR_LINEAR | {"params": {"weights": {"f1": 10**400}}}
    ).encode(),
    "a shift of NaN": lambda: normalised(float("nan"), 1.0),
    "a divisor below float32": lambda: normalised(0.0, 1e-300),
    "feature 0": lambda: MART.replace("<feature> 2 ", "<feature> 0 ").encode(),
    "two weights of a feature": lambda: LINEAR.replace("3:", "1:").encode(),
    "missing values that go nowhere": lambda: xgboost_of(missing=9),
    "a node twice": lambda: xgboost_of(children=[{"nodeid": 1, "leaf": 1.0}] * 2),
    "another comparison": lambda: lightgbm_of(decision_type=">"),
    "another missing type": lambda: lightgbm_of(missing_type="x"),
    "a normaliser of no width": lambda: json.dumps(
        SOLR_LINEAR
        | {
            "features": [
                {
                    "name": "f1",
                    "norm": {
                        "class": "org.apache.solr.ltr.norm.MinMaxNormalizer",
                        "params": {"min": 1, "max": 1},
                    },
                }
            ]
        }
    ).encode(),
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("an unknown feature", "a tree splits on 'b', which is not among its features"),
        ("one child", "tree 0 is damaged: a node has no 'right'"),
    ],
)
def test_the_reason_tells_unknown_features_from_nodes_without_a_key(
    name: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    path.write_bytes(HOSTILE[name]())
    with pytest.raises(ModelError, match=reason):
        RankingModel.load(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_or_hostile_model_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(HOSTILE[name]())
    with pytest.raises(ModelError) as raised:
        RankingModel.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("target", ["solr", "elastic", "linear"])
@pytest.mark.parametrize("base", [0, 1])
def test_numbered_features_that_a_file_does_not_list_keep_their_place(
    target: str, base: int, tmp_path: Path
) -> None:
    rng, rows = np.random.default_rng(0), tmp_path / "rows.txt"
    X = rng.normal(size=(200, 6)).astype(np.float32)
    lines = [
        f"{int(x[1] + x[3] > 0)} qid:{i // 10} "
        + " ".join(f"{base + column}:{value}" for column, value in enumerate(x))
        for i, x in enumerate(X)
    ]
    rows.write_text("\n".join(lines) + "\n")
    data = boostrank.read(str(rows))
    if target == "linear":
        weights = {f"f{base + 3}": 2.0, f"f{base + 1}": 1.0}
        document = {
            "class": "org.apache.solr.ltr.model.LinearModel",
            "name": "m",
            "features": [{"name": name} for name in weights],
            "params": {"weights": weights},
        }
        (tmp_path / "served.json").write_text(json.dumps(document))
        expected = X[:, 1] + 2.0 * X[:, 3]
    else:
        params = {"objective": "listnet", "num_leaves": 3, "verbosity": -1, "num_threads": 1}
        model = boostrank.train(params, data, 4)
        assert set(np.flatnonzero(model.feature_importance())) == {1, 3}
        with warnings.catch_warnings(action="ignore"):
            boostrank.export_model(model, tmp_path / "served.json", target)
        expected = model.predict(data)
    served = RankingModel.load(tmp_path / "served.json")
    np.testing.assert_allclose(served.predict(data), expected, rtol=1e-5, atol=1e-6)
    if base:
        command = [
            "predict",
            str(tmp_path / "served.json"),
            str(rows),
            "-o",
            str(tmp_path / "s.txt"),
        ]
        with pytest.raises(SystemExit, match=r"^0$"):
            main(command)
        scores = np.loadtxt(tmp_path / "s.txt")
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
