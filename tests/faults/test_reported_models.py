"""Model files as they come in: old texts of LightGBM, files of other programs, thresholds that are
not finite.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import InputError, ModelError
from boostrank.engines import parse_model
from boostrank.engines.xgboost.format import XGBOOST
from tests.cli.conftest import invoke, refuse, succeed

QUIET = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1, "num_leaves": 4}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).round(3)
X[:, 2] = np.arange(60) % 4
Y = (X[:, 0] > 0).astype(int) + (X[:, 2] == 1)
GROUPS = [10] * 6


def trained(rounds: int = 2, features: Any = X, **parameters: Any) -> str:
    """Return the text of a small model by LightGBM itself."""
    categorical = parameters.pop("categorical_feature", [])
    rows = lgb.Dataset(features, Y, group=GROUPS, categorical_feature=categorical, params=QUIET)
    return str(
        lgb.train(QUIET | {"objective": "lambdarank"} | parameters, rows, rounds).model_to_string()
    )


def aged(
    text: str,
    version: str = "v2",
    *,
    sizes: bool = True,
    ending: str = "\npandas_categorical:null\n",
) -> str:
    """Return a model as LightGBM 2.1 wrote it: no end of the trees, no parameters, fewer fields."""
    head, _, body = text.partition("\n\n")
    trees, _, importances = body.partition("end of trees\n")
    trees = re.sub(r"(?m)^(is_linear|leaf_weight|internal_weight)=.*\n", "", trees)
    lengths = " ".join(str(len(tree)) for tree in re.split("(?m)^(?=Tree=)", trees) if tree)
    head = re.sub("(?m)^version=.*$", f"version={version}", head)
    head = (
        re.sub("(?m)^tree_sizes=.*$", f"tree_sizes={lengths}", head)
        if sizes
        else head.partition("\ntree_sizes")[0]
    )
    listed = importances.partition("\nparameters:")[0].replace(
        "feature_importances", "feature importances"
    )
    return head + "\n\n" + trees + listed.rstrip("\n") + "\n" + ending


def data_file(folder: Path) -> Path:
    """Write the rows as libsvm text."""
    lines = (
        f"{y} qid:{i // 10} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1))
        for i, (y, row) in enumerate(zip(Y.tolist(), X.tolist(), strict=True))
    )
    path = folder / "train.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def loaded(folder: Path, body: str | bytes) -> boostrank.RankingModel:
    path = folder / "model.txt"
    content = body.encode() if isinstance(body, str) else body
    path.write_bytes(content)
    return boostrank.RankingModel.load(path)


OLD = {
    "plain": lambda: aged(trained()),
    "v3": lambda: aged(trained(), "v3"),
    "no sizes": lambda: aged(trained(), sizes=False),
    "by the command line": lambda: aged(trained(), ending=""),
    "parameters": lambda: aged(
        trained(), ending="\nparameters:\n[boosting: gbdt]\n\nend of parameters\n"
    ),
    "categories": lambda: aged(
        trained(categorical_feature=[2], min_data_per_group=1, cat_smooth=0)
    ),
    "dart": lambda: aged(trained(boosting="dart", drop_rate=0.9, skip_drop=0)),
    "rf": lambda: aged(trained(boosting="rf", bagging_freq=1, bagging_fraction=0.7)),
    "no importances": lambda: aged(trained()).partition("\nfeature importances")[0],
    "no importances in version 3": lambda: aged(trained(), "v3").partition("\nfeature imp")[0],
    "a blank line more before the trees": lambda: trained().replace("\n\nTree=0", "\n\n\nTree=0"),
}


@pytest.mark.parametrize("kind", OLD)
def test_report_01_a_whole_old_text_scores_as_in_lightgbm(kind: str, tmp_path: Path) -> None:
    text = OLD[kind]()
    expected = lgb.Booster(model_str=text).predict(X, raw_score=True)
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(loaded(tmp_path, text).predict(X, group=GROUPS), expected)


def test_report_01_the_commands_take_an_old_text(tmp_path: Path) -> None:
    rows, text = data_file(tmp_path), aged(trained())
    (tmp_path / "old.txt").write_text(text)
    for command in (
        ("predict", "-o", tmp_path / "s.txt"),
        ("export", "--to", "lightgbm", "-o", tmp_path / "e.txt"),
    ):
        succeed(command[0], tmp_path / "old.txt", rows, *command[1:])
    expected = lgb.Booster(model_str=text).predict(X, raw_score=True)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "s.txt"), expected)
    np.testing.assert_array_equal(
        lgb.Booster(model_file=tmp_path / "e.txt").predict(X, raw_score=True), expected
    )


@pytest.mark.parametrize("sizes", [True, False])
def test_report_01_an_old_text_cut_at_any_byte_is_refused(sizes: bool) -> None:
    body = aged(trained(2, num_leaves=3), sizes=sizes).encode()
    whole = re.search(rb"importances:\n(?:.*=\d+\n)+", body).end() - 1  # type: ignore[union-attr]
    taken = []
    for length in range(len(body)):
        try:
            parse_model(body[:length])
            taken.append(length)
        except ModelError:
            continue
    # What the command line wrote ends here, and Python's last line is only whole with its JSON.
    # Sizes in the header tell that the trees are whole without what follows them.
    after_trees = re.search(rb"\n*feature importances", body)
    assert after_trees is not None
    with_trees = [after_trees.start() + 3] if sizes else []
    assert taken == [*with_trees, whole, whole + 1, whole + 2, len(body) - 1]
    parse_model(body)


def test_report_01_a_text_cut_before_the_names_of_its_categories_is_refused() -> None:
    text = aged(trained(categorical_feature=[2], min_data_per_group=1, cat_smooth=0), "v3")
    parse_model(text.encode())
    with pytest.raises(ModelError, match="truncated"):
        parse_model(text.partition("\nfeature importances")[0].encode())


def test_report_01_an_old_text_that_lost_bytes_inside_is_refused() -> None:
    body = aged(trained(4), sizes=False).encode()
    tree = body[body.index(b"Tree=2") : body.index(b"Tree=3")]
    for damaged in (
        body.replace(tree, b""),
        body.replace(b"\n\n\n\nfeature", b"\nfeature"),
        body.replace(b"num_cat", b"x"),
    ):
        with pytest.raises(ModelError):
            parse_model(damaged)


def old_binary() -> bytes:
    """Return the beginning of XGBoost 0.90's binary form: parameters, objective, booster and the
    counts of trees.
    """
    names = b"".join(struct.pack("<Q", len(name)) + name for name in (b"rank:pairwise", b"gbtree"))
    return (
        struct.pack("<fii", 0.5, 3, 0)
        + bytes(124)
        + names
        + struct.pack("<iii", 3, 1, 3)
        + bytes(160)
    )


def booster() -> xgb.Booster:
    rows = xgb.DMatrix(X, Y, nthread=1)
    rows.set_group(GROUPS)
    return xgb.train({"objective": "rank:pairwise", "max_depth": 2, "nthread": 1}, rows, 2)


def upload(kind: str, definition: Any) -> dict[str, Any]:
    return {"model": {"name": "shop", "model": {"type": f"model/{kind}", "definition": definition}}}


def wrapped(kind: str) -> dict[str, Any]:
    """Return an answer of the engine, in which the type comes late."""
    features = [
        {"name": f"f{i}", "template": {"match": {"title": "{{query}}"}}} for i in range(200)
    ]
    model = {
        "name": "shop",
        "feature_set": {"features": features},
        "model": {"definition": "[]", "type": kind},
    }
    return {"_index": ".ltrstore", "_id": "model-shop", "found": True, "_source": model}


SOLR = "org.apache.solr.ltr.model."
FOREIGN: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "7 bare": (old_binary, ("XGBoost's old binary", "xgboost<3.1", "save_model('model.json')")),
    "7 binf": (lambda: b"binf" + old_binary(), ("old binary", "xgboost<3.1")),
    "7 bs64": (lambda: b"bs64\t" + base64.b64encode(old_binary()), ("old binary", "xgboost<3.1")),
    "8 list of text": (
        lambda: booster().get_dump(),
        ("XGBoost's dump", "save_model('model.json')"),
    ),
    "8 graph": (lambda: "\n".join(booster().get_dump(dump_format="dot")).encode(), ("dump",)),
    "8 several models of Solr": (
        lambda: {"models": [{"class": f"{SOLR}LinearModel", "name": name} for name in "ab"]},
        ("2 models", "write one of them"),
    ),
    "8 text alone": (lambda: "\n".join(booster().get_dump()).encode(), ("XGBoost's dump",)),
    "8 a later tree": (lambda: b"booster[7]:\n0:leaf=0.1\n", ("XGBoost's dump",)),
    "8 a printed list": (lambda: repr(booster().get_dump()).encode(), ("XGBoost's dump",)),
    "8 one tree": (
        lambda: json.loads(booster().get_dump(dump_format="json")[0]),
        ("XGBoost's dump",),
    ),
    "8 table": (
        lambda: b",Tree,Node,ID,Feature,Split,Yes,No,Missing,Gain,Cover,Category\n0,0,0,0-0,f0\n",
        ("dump",),
    ),
    "8 table of LightGBM": (
        lambda: b"tree_index,node_depth,node_index\n0,1,0-S0\n",
        ("LightGBM's dump",),
    ),
    "8 upload of XGBoost": (
        lambda: upload("xgboost+json", "[]"),
        ("_createmodel", "scores"),
    ),
    "8 upload of RankLib": (lambda: upload("ranklib", "## LambdaMART"), ("_createmodel",)),
    "8 upload of weights": (lambda: upload("linear", {}), ("_createmodel", "weights")),
    "8 what the engine answers": (lambda: wrapped("model/xgboost+json"), ("_createmodel",)),
    "8 of Elasticsearch": (
        lambda: {
            "input": {"field_names": ["f1"]},
            "inference_config": {},
            "definition": {"trained_model": {}},
        },
        ("a trained model of Elasticsearch", "scores"),
    ),
    "8 compressed": (
        lambda: {"compressed_definition": "H4sI"},
        ("a trained model of Elasticsearch",),
    ),
    "8 of Solr": (
        lambda: {"class": f"{SOLR}MultipleAdditiveTreesModel"},
        ("a model of Solr", "scores"),
    ),
    "8 of Solr, cut": (
        lambda: json.dumps({"class": f"{SOLR}LinearModel", "name": "m"})[:-1].encode(),
        ("a model of Solr", "cut"),
    ),
    "8 upload of XGBoost, cut": (
        lambda: json.dumps(upload("xgboost+json", "[]"))[:-2].encode(),
        ("_createmodel", "cut"),
    ),
    "8 of Solr, by name": (
        lambda: {"store": "s", "name": "m", "class": f"{SOLR}LinearModel"},
        ("a model of Solr",),
    ),
    "8 LightGBM in JSON": (lambda: {"model": trained()}, ("inside JSON",)),
    "8 byte order mark": (lambda: b"\xef\xbb\xbf" + trained().encode(), ("BOM", "tail -c +4")),
    "1 CRLF": (lambda: trained().replace("\n", "\r\n").encode(), ("CRLF", "tr -d '\\r'")),
    "1 no version": (
        lambda: trained().replace("version=v4\n", "").encode(),
        ("version", "save_model('model.txt')"),
    ),
    "8 ONNX": (lambda: b"\x08\x08\x12\x08skl2onnx" + bytes(300), ("ONNX",)),
    "8 PMML": (lambda: b'<?xml version="1.0"?>\n<PMML version="4.4">\n', ("PMML",)),
    "8 treelite": (lambda: struct.pack("<iii", 4, 8, 1) + bytes(300), ("treelite",)),
    "8 C": (
        lambda: b'#include "header.h"\n\nfloat predict(union Entry* data) {\n',
        ("program code",),
    ),
    "8 SQL": (lambda: b"-- Scores of the ranker\nSELECT 1\n", ("program code",)),
    "8 SVMrank": (lambda: b"SVM-light Version V6.20\n0 # kernel type\n", ("SVMrank", "scores")),
    "8 gzip": (lambda: b"\x1f\x8b\x08" + bytes(20), ("unpack it first", "if it has data")),
    "8 record": (lambda: {"file": {"schema_version": 2}}, (".meta.json",)),
    "8 other JSON": (lambda: {"trees": [1]}, ("JSON of another program",)),
}


def written(kind: str, folder: Path) -> Path:
    body = FOREIGN[kind][0]()
    path = folder / "theirs"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", FOREIGN)
def test_report_07_and_08_a_foreign_model_is_named_with_its_remedy(
    kind: str, tmp_path: Path
) -> None:
    path = written(kind, tmp_path)
    with pytest.raises(ModelError) as error:
        boostrank.RankingModel.load(path)
    assert [
        word for word in (str(path), *FOREIGN[kind][1]) if word not in str(error.value)
    ] == [], error.value
    assert "data join" not in str(error.value)
    assert ("cut:" in str(error.value)) == kind.endswith(", cut")
    result = refuse("evaluate", path, data_file(tmp_path))
    assert FOREIGN[kind][1][0] in result.stderr


@pytest.mark.parametrize(
    "kind", ["7 bare", "8 list of text", "8 text alone", "8 upload of XGBoost", "8 of Solr"]
)
def test_report_07_and_08_every_door_names_it(kind: str, tmp_path: Path) -> None:
    rows, path, word = data_file(tmp_path), written(kind, tmp_path), FOREIGN[kind][1][0]
    (tmp_path / "m.txt").write_text(trained())
    continued = (
        "train",
        rows,
        "--init-model",
        path,
        "--quality",
        "plain",
        "--rounds",
        1,
        "--model",
        tmp_path / "o",
    )
    # Commands.
    for command in (
        ("predict", path, rows, "-o", tmp_path / "s.txt"),
        ("compare", path, tmp_path / "m.txt", rows),
        ("compare", tmp_path / "m.txt", path, rows),
        ("report", path, rows, "-o", tmp_path / "r.html"),
        ("why", path, rows, 1, "@1", "@2"),
        ("export", path, "--to", "c", "-o", tmp_path / "m.c"),
        continued,
        ("train", path, "--model", tmp_path / "o"),
    ):
        result = invoke(*command)
        assert (result.exit_code, word in result.stderr) == (2, True), (command[0], result.stderr)
    # Functions.
    sample = boostrank.RankingDataset.from_arrays(X, Y, group=GROUPS)
    with pytest.raises(InputError, match=re.escape(word)):
        boostrank.compare(str(path), str(tmp_path / "m.txt"), sample)
    with pytest.raises(InputError, match=re.escape(word)):
        boostrank.train({"objective": "lambdarank"}, sample, 1, init_model=str(path))


RANKLIB = """## LambdaMART
## No. of trees = 1

<ensemble>
 <tree id="1" weight="0.5">
  <split><feature>1</feature><threshold>0.1</threshold>
   <split pos="left"><output>-2.0</output></split>
   <split pos="right"><output>3.0</output></split>
  </split>
 </tree>
</ensemble>
"""
LEAVES = {"value": "-1"}, {"value": "1.5"}
MODEL_OF_SOLR = {
    "class": f"{SOLR}MultipleAdditiveTreesModel",
    "features": [{"name": f"f{i}"} for i in (1, 2, 3)],
    "params": {
        "trees": [
            {"root": {"feature": "f1", "threshold": "0.1", "left": LEAVES[0], "right": LEAVES[1]}}
        ]
    },
}


@pytest.mark.parametrize(
    "text",
    [
        RANKLIB,
        RANKLIB[RANKLIB.index("<ensemble") :],
        "\ufeff" + RANKLIB[RANKLIB.index("<ensemble") :],
        json.dumps(MODEL_OF_SOLR),
        json.dumps({"responseHeader": {"status": 0}, "models": [MODEL_OF_SOLR]}, indent=1),
        json.dumps(upload("ranklib", RANKLIB)),
        json.dumps({"hits": {"hits": [{"_source": upload("ranklib", RANKLIB)["model"]}]}}),
    ],
)
def test_first_use_cli_09_models_in_production_are_compared(text: str, tmp_path: Path) -> None:
    rows, old = data_file(tmp_path), tmp_path / "old"
    old.write_text(text)
    (tmp_path / "m.txt").write_text(trained())
    succeed("predict", old, rows, "-o", tmp_path / "s.txt")
    assert np.loadtxt(tmp_path / "s.txt").tolist() == np.where(X[:, 0] > 0.1, 1.5, -1).tolist()
    compared = succeed("compare", old, tmp_path / "m.txt", rows, "--metric", "map", "--json")
    measured = succeed("evaluate", tmp_path / "s.txt", rows, "--metric", "map", "--json")
    mean = json.loads(measured.stdout)["map"]["mean"]
    assert json.loads(compared.stdout)["metrics"]["map"]["old"] == pytest.approx(mean)


def with_threshold(text: str, word: str, kind: str) -> str:
    """Return the model with another first threshold and decision type."""
    text = re.sub(r"(?m)^threshold=\S+", f"threshold={word}", text, count=1)
    return re.sub(r"(?m)^decision_type=\S+", f"decision_type={kind}", text, count=1)


@pytest.mark.parametrize(
    ("word", "kind"), [("nan", "2"), ("nan", "8"), ("inf", "2"), ("-inf", "8"), ("1e999", "10")]
)
def test_first_use_cli_16_a_threshold_that_is_not_finite_is_refused(
    word: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "m.txt").write_text(with_threshold(aged(trained(), sizes=False), word, kind))
    result = invoke("export", tmp_path / "m.txt", "--to", "c", "-o", tmp_path / "m.c")
    assert (result.exit_code, "tree 0: threshold" in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "m.c").exists()


@pytest.mark.parametrize(("number", "left"), [(np.nan, 0), (np.nan, 1), (np.inf, 1), (-np.inf, 0)])
def test_first_use_cli_16_xgboosts_thresholds_are_finite_too(
    number: float, left: int, tmp_path: Path
) -> None:
    document = json.loads(bytes(booster().save_raw("json")))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][1]
    tree["split_conditions"][0], tree["default_left"][0] = number, left
    (tmp_path / "m.json").write_text(json.dumps(document))
    result = invoke("predict", tmp_path / "m.json", data_file(tmp_path), "-o", tmp_path / "s.txt")
    assert (result.exit_code, "tree 1: split_conditions" in result.stderr) == (2, True), (
        result.stderr
    )


def test_first_use_cli_16_infinity_that_an_engine_writes_scores_as_there(tmp_path: Path) -> None:
    absent = X.copy()
    absent[Y == 2, 0] = np.nan
    text = trained(4, absent)
    assert re.search(r"(?m)^threshold=(\S+ )*inf", text)
    ours = loaded(tmp_path, text).predict(absent, group=GROUPS)
    np.testing.assert_array_equal(ours, lgb.Booster(model_str=text).predict(absent, raw_score=True))

    huge = np.where(Y == 2, np.nan, 3.3e38)[:, None].astype(np.float32)
    native = xgb.train({"tree_method": "hist", "nthread": 1}, xgb.DMatrix(huge, Y, nthread=1), 1)
    body = bytes(native.save_raw("json"))
    assert b"Infinity" in body
    XGBOOST.parse(body)
    ours = loaded(tmp_path, body).predict(huge, group=GROUPS)
    np.testing.assert_array_equal(
        ours.astype(np.float32), native.predict(xgb.DMatrix(huge), output_margin=True)
    )
