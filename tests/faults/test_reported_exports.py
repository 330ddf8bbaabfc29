"""What people met with exports to search engines: stores that contradict them, names, commands, and
fill values.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import boostrank
from boostrank.export.target import ExportError
from boostrank.export.writing import export_model, how_to, read_feature_names
from tests.cli.conftest import invoke, refuse, succeed
from tests.consumers import opensearch

FEW = ("--quality", "plain", "--rounds", 4, "--num-leaves", 5, "--threads", 1)
NAMES = ("bm25", "price", "age")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table whose prices are missing in part, and a model that was trained on it."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(0)
    data = pd.DataFrame(rng.random((200, 3)).round(3), columns=NAMES)
    data.insert(0, "label", (2 * data.bm25 + data.price).astype(int))
    data.insert(0, "qid", np.repeat(np.arange(10), 20))
    data.loc[rng.random(200) < 0.3, "price"] = np.nan
    data.to_csv(folder / "s.csv", index=False)
    succeed("train", folder / "s.csv", *FEW, "-m", folder / "m.txt")
    return folder


@pytest.fixture(autouse=True)
def here(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(shop)
    return


def store(file: str, price: object = None, names: tuple[str, ...] = NAMES, **more: object) -> str:
    """Write a Solr feature store, whose prices have a default value."""
    params = {
        name: {"field": name} | ({"defaultValue": price} if name == "price" and price else {})
        for name in names
    }
    features = [
        {"name": name, "class": "FieldValueFeature", "params": params[name], **more}
        for name in names
    ]
    Path(file).write_text(json.dumps(features))
    return file


def feature_set(file: str, *names: str, missing: object = None) -> str:
    """Write a feature set of the LTR plugins, whose prices have a value where a document lacks the
    field.
    """
    factor = {"field": "f"} | ({} if missing is None else {"missing": missing})
    queries = {name: {"match": {"title": "{{q}}"}} for name in names}
    queries["price"] = {"function_score": {"functions": [{"field_value_factor": factor}]}}
    features = [{"name": name, "params": ["q"], "template": queries[name]} for name in names]
    Path(file).write_text(
        json.dumps({"_source": {"featureset": {"name": "s", "features": features}}})
    )
    return file


def export(
    target: str, *options: object, model: str = "m.txt", output: str = "out.json"
) -> tuple[int, str]:
    Path(output).unlink(missing_ok=True)
    result = invoke("export", model, "--to", target, "-o", output, *options)
    assert Path(output).exists() == (result.exit_code == 0)
    return result.exit_code, result.output


@pytest.mark.parametrize("price", [None, "0", "2.5"])
def test_first_use_cli_02_a_store_whose_default_is_a_number(price: str | None) -> None:
    file = store("store.json", price)
    status, words = export("solr", "--feature-names", file)
    assert status == 2
    assert "'price'" in words
    assert '"defaultValue": "NaN"' in words
    for command in ("doctor", "train"):
        more = () if command == "doctor" else ("-m", "no.txt")
        result = refuse(command, "s.csv", "--for", "solr", "--feature-names", file, *more)
        assert "'price'" in result.output
        assert '"defaultValue": "NaN"' in result.output
    assert export("solr", "--feature-names", file, "--allow", "missing")[0] == 0


def test_features_of_two_stores_are_refused_by_solr_alone() -> None:
    features = json.loads(Path(store("store.json", float("nan"), store="shop")).read_text())
    features[0]["store"] = "other"
    Path("store.json").write_text(json.dumps(features))
    assert export("python", "--feature-names", "store.json")[0] == 0
    status, words = export("solr", "--feature-names", "store.json")
    assert (status, "other, shop" in words) == (2, True)
    Path("store.json").write_text(json.dumps([feature | {"store": "s"} for feature in features]))
    assert export("solr", "--feature-names", "store.json")[0] == 0


def test_first_use_cli_02_a_store_that_fits_and_its_name() -> None:
    status, words = export("solr", "--feature-names", store("store.json", "NaN", store="shop"))
    assert (status, "same bits" in words) == (0, True)
    assert json.loads(Path("out.json").read_text())["store"] == "shop"
    result = invoke("doctor", "s.csv", "--for", "solr", "--feature-names", "store.json")
    assert "target-" not in result.output
    saved = {
        "initArgs": {},
        "managedList": json.loads(Path("store.json").read_text()),
    }  # as Solr keeps it
    Path("_schema_feature-store.json").write_text(json.dumps(saved))
    assert export("solr", "--feature-names", "_schema_feature-store.json")[0] == 0


@pytest.mark.parametrize("target", ["elasticsearch", "opensearch"])
def test_first_use_cli_02_a_feature_set_with_values_for_lacking_fields(target: str) -> None:
    status, words = export(target, "--feature-names", feature_set("set.json", *NAMES, missing=0))
    assert status == 2
    assert "'price'" in words
    assert "`missing`" in words
    assert export(target, "--feature-names", feature_set("set.json", *NAMES[::-1]))[0] == 0


@pytest.mark.parametrize("price", ["none", "nan", " ", "1,5", True])
def test_first_use_cli_02_a_default_that_is_no_number(price: object) -> None:
    for command in (("export", "m.txt", "-o", "o.json", "--to"), ("doctor", "s.csv", "--for")):
        refuse(
            *command, "solr", "--feature-names", store("store.json", price), says=("'price'", "NaN")
        )


def test_first_use_cli_02_templates_that_are_text() -> None:
    query = '{"function_score": {"field_value_factor": {"field": "f", "missing": 0, "x": {{y}}}}}'
    features = [{"name": name, "template": query} for name in NAMES]
    Path("set.json").write_text(json.dumps({"featureset": {"features": features}}))
    status, words = export("elasticsearch", "--feature-names", "set.json")
    assert (status, "'price'" in words, "`missing`" in words) == (2, True, True)


@pytest.mark.parametrize("missing", ["1,5", "", "none", True])
def test_first_use_cli_02_a_stand_in_of_a_query_that_is_no_number(missing: object) -> None:
    factor = {"field": "f", "missing": missing}
    query = {"function_score": {"field_value_factor": factor}}
    features = [{"name": name, "template": query} for name in NAMES]
    Path("set.json").write_text(json.dumps({"featureset": {"features": features}}))
    refuse(
        *("export", "m.txt", "-o", "o.json", "--to", "elasticsearch"),
        *("--feature-names", "set.json"),
        says=("default value", "NaN"),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "list"),
        ('"bm25"\n"price"\n"age"\n', "quotes"),
        ("name\nbm25\nprice\nage\n", "header"),
        ("# of week 7\nbm25\nprice\nage\n", "'# of week 7'"),
    ],
)
def test_first_use_cli_02_a_file_of_names_that_is_none(text: str, words: str) -> None:
    Path("names").write_text(text)
    for command in (("export", "m.txt", "-o", "o.json", "--to"), ("doctor", "s.csv", "--for")):
        refuse(*command, "solr", "--feature-names", "names", says=("names", words))


def test_first_use_cli_02_a_feature_map_and_stores_that_contradict_each_other() -> None:
    Path("map").write_text("2 age q\n0 bm25 q\n1 price q\n")
    assert read_feature_names("map") == NAMES
    features = json.loads(Path(store("two.json", "NaN", store="a")).read_text())
    features[1]["store"] = "b"
    Path("two.json").write_text(json.dumps(features))
    result = refuse("doctor", "s.csv", "--for", "solr", "--feature-names", "two.json")
    assert "a, b" in result.stdout
    Path("vespa").write_text("bm25(t)\nthe price\nattribute(age)\n")
    result = invoke("doctor", "s.csv", "--for", "vespa", "--feature-names", "vespa")
    assert "'the price'" in result.stdout


def test_first_use_cli_02_extractors_with_a_default_score() -> None:
    queries = [
        {"feature_name": name, "query": {"match": {"t": "q"}}, "default_score": 0} for name in NAMES
    ]
    Path("e.json").write_text(
        json.dumps({"feature_extractors": [{"query_extractor": query} for query in queries]})
    )
    status, words = export("elastic", "--feature-names", "e.json")
    assert status == 2
    assert "'price'" in words
    assert "`default_score`" in words


@pytest.mark.parametrize(
    ("names", "words"),
    [(("bm25", "prise", "age"), "'price'"), (NAMES[:2], "'age'"), ((*NAMES, "x"), "'x'")],
)
def test_first_use_cli_02_a_store_with_other_names(names: tuple[str, ...], words: str) -> None:
    file = store("store.json", "NaN", names)
    for command in (
        ("export", "m.txt", "--to", "solr", "-o", "o.json"),
        ("doctor", "s.csv", "--for", "solr"),
    ):
        result = refuse(*command, "--feature-names", file)
        assert words in result.output
        assert "bm25, price, age" in result.output


def test_first_use_cli_02_names_in_another_order() -> None:
    Path("names.txt").write_text("age\nprice\ntitle\n")
    status, words = export("onnx", "--feature-names", "names.txt")
    assert status == 2
    assert "'bm25'" in words
    Path("names.txt").write_text("a\nb\nc\n")
    status, words = export("solr", "--feature-names", "names.txt")
    assert status == 0
    assert "bm25 is a" in words
    file = feature_set("set.json", "price", "bm25", "age")
    assert export("elasticsearch", "--feature-names", file, "--allow", "missing")[0] == 0


def test_first_use_cli_02_a_default_that_changes_no_score_is_accepted() -> None:
    clean = pd.read_csv("s.csv").fillna(0.5)
    clean.to_csv("clean.csv", index=False)
    succeed("train", "clean.csv", *FEW, "--start", "none", "-m", "clean.txt")
    assert export("solr", "--feature-names", store("store.json"), model="clean.txt")[0] == 0
    data = boostrank.read("s.csv")  # rows with missing values
    with pytest.raises(ExportError, match="'price'"):
        export_model(
            "m.txt", "x.json", "solr", feature_names=read_feature_names(store("s.json")), data=data
        )


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("shop-v1.2.json", "shop-v1.2"),
        ("shop-v1.3.txt", "shop-v1.3"),
        ("a.b", "a.b"),
        ("my shop.JSON", "my_shop"),
    ],
)
@pytest.mark.parametrize("target", ["solr", "elasticsearch"])
def test_first_use_cli_06_names_keep_their_dots(file: str, name: str, target: str) -> None:
    assert export(target, output=file)[0] == 0
    body = json.loads(Path(file).read_text())
    assert (body.get("name") or body["model"]["name"]) == name


@pytest.mark.parametrize("target", ["solr", "elastic", "elasticsearch", "opensearch-2"])
def test_first_use_cli_07_13_commands_can_be_pasted_and_rank_by_the_model(target: str) -> None:
    spec = boostrank.export.TARGETS.get(target)
    name = "shop-1" if target == "elastic" else 'my "own" shop\'s'
    _, upload, query = how_to(spec, "a folder/it's 1.json", name)
    assert shlex.split(query)  # also where the shell reads no comments
    assert "@a folder/it's 1.json" in shlex.split(upload)
    words = shlex.split(query, comments=True)
    if "solr" in target:
        assert 'rq={!ltr model="my \\"own\\" shop\'s" reRankDocs=1000}' in words
        return
    rescore = json.loads(words[-1].replace("{...}", "{}"))["rescore"]
    assert rescore["window_size"] == 1000
    if target != "elastic":
        asked = rescore["query"]
        assert (asked["query_weight"], asked["rescore_query_weight"]) == (0, 1)
        assert asked["rescore_query"]["sltr"]["model"] == 'my "own" shop\'s'


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("more", [(), ("--folds", 2), ("--start", "none")])
def test_first_use_cli_12_fill_values(backend: str, more: tuple[object, ...]) -> None:
    # The target takes no missing values: without fill values it is refused.
    command = (
        "train",
        "s.csv",
        *FEW,
        "--backend",
        backend,
        *more,
        "--for",
        "opensearch-2",
        "-m",
        "f.json",
    )
    refused = refuse(*command)
    assert "--fill" in refused.output
    succeed(*command, "--fill", "median,price=0.3")
    # The values are the medians but for one, and scores are those of filled rows.
    model, rows = (
        boostrank.RankingModel.load("f.json"),
        pd.read_csv("s.csv")[list(NAMES)].to_numpy(),
    )
    scores = model.predict(rows)
    fill = np.array([model.info.fill[name] for name in NAMES])
    assert fill[1] == np.float32(0.3)
    assert fill[0] == np.float32(np.median(rows[:, 0]))
    assert np.array_equal(scores, model.predict(np.where(np.isnan(rows), fill, rows)))
    # The exported file has the same scores of such rows.
    status, words = export("opensearch-2", "s.csv", model="f.json")
    assert status == 0
    assert "same bits" in words
    assert "price=0.3" in words
    served = opensearch.read(Path("out.json").read_bytes(), NAMES, version=(2, 19, 6))
    filled = np.where(np.isnan(rows), fill, rows).astype(np.float32)
    assert np.array_equal(served(filled), scores.astype(np.float32))


def test_first_use_cli_12_a_feature_set_has_to_hold_the_fill_values() -> None:
    data = boostrank.read("s.csv")
    model = boostrank.train({"num_leaves": 5}, data, 4, fill=0.3)
    query = {
        "function_score": {"functions": [{"field_value_factor": {"field": "f", "missing": 0.3}}]}
    }
    features = [{"name": name, "template": query} for name in NAMES]
    assert export_model(model, "x.json", "opensearch-2", feature_names=features).same_bits
    features[1] = {"name": "price", "template": {"match": {"title": "{{q}}"}}}
    with pytest.raises(ExportError, match=r"'price'.*\"missing\": 0.3"):
        export_model(model, "x.json", "opensearch-2", feature_names=features)


@pytest.mark.parametrize(
    ("fill", "more"),
    [
        ("nan", ()),
        ("no=1", ()),
        ("0,5", ()),
        ("price=0,5", ()),
        ("often", ()),
        ("1_0", ()),
        ("price=0,price=1", ()),
        (1, ("--within-query", "rank")),
        (1, ("--param", "zero_as_missing=true")),
        (1, ("--route", "bins")),
    ],
)
def test_first_use_cli_12_fill_that_cannot_be_is_refused(
    fill: object, more: tuple[object, ...]
) -> None:
    result = refuse("train", "s.csv", *FEW, "--fill", fill, *more, "-m", "no.txt")
    assert "fill" in result.output


def test_first_use_cli_12_the_doctor_knows_no_fill_of_another_feature() -> None:
    refuse("doctor", "s.csv", "--for", "opensearch-2", "--fill", "no=1", says=("'no'", "price"))
    refuse("doctor", "s.csv", "--fill", "price=0,price=1", says=("fill", "once"))
    lines = [f"{i % 3} qid:{i // 6} 1:{i} 2:nan\n2 qid:{i // 6} 1:1 2:3\n" for i in range(90)]
    Path("numbers.txt").write_text("".join(lines))
    command = ("doctor", "numbers.txt", "--for", "opensearch-2")
    assert "target-missing" in refuse(*command, "--fill", "f1=0").output
    assert "target-missing" not in succeed(*command, "--fill", "f2=0").output


def test_first_use_cli_12_a_continued_model_keeps_its_fill_values() -> None:
    data = boostrank.read("s.csv")
    first = boostrank.BoostRanker(n_estimators=3, num_leaves=5, fill={"f2": 0.3}).fit(
        data.features, data.labels
    )
    model = boostrank.train(
        {"num_leaves": 5}, data, 3, init_model=boostrank.train({}, data, 2, fill=0.3)
    )
    assert first.predict(data.features).size == 200
    assert model.info.fill["price"] == np.float32(0.3)
    with pytest.raises(boostrank.ParameterError, match="fill"):
        boostrank.train({}, data, 3, init_model=model, fill=1)


@pytest.mark.parametrize("parameter", ["zero_as_missing=true", "linear_tree=true", "boosting=rf"])
def test_first_use_cli_12_parameters_that_no_export_holds(parameter: str) -> None:
    result = refuse("train", "s.csv", *FEW, "--for", "solr", "--param", parameter, "-m", "no.txt")
    assert parameter.partition("=")[0] in result.output


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_first_use_cli_13_text_for_a_program_without_categories(ending: str) -> None:
    data = pd.read_csv("s.csv").assign(code=["1"] * 150 + ["red"] * 50)
    getattr(data, f"to_{ending}")(f"text.{ending}", index=False)
    for command in (
        ("doctor", f"text.{ending}"),
        ("train", f"text.{ending}", *FEW, "-m", "no.txt"),
    ):
        result = refuse(*command, "--for", "solr")
        assert "--drop code" in result.output
        assert "--categorical" not in result.output


def test_names_alone_declare_no_default() -> None:
    solr = boostrank.export.TARGETS.get("solr")
    assert list(solr.objections(names=("a", "b"), missing=["a"], declared=("a", "b"))) == []
