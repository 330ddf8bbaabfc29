"""Linear models: every target scores them as they do, up to a bound; hybrid search ranks as they do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel
from boostrank.export import TARGETS
from boostrank.export.proof import Proof
from boostrank.export.target import ExportError
from tests.cli.conftest import invoke
from tests.export.compiled import COMPILERS, compiled, need_compiler
from tests.reference.within_query import z_score

NAMES = ("bm25", "knn", "age", "price")
WITH_LINEAR = [target.name for target in TARGETS if target.linear is not None]
# Programs that sum in float32.
SINGLE = ("solr", "elasticsearch", "opensearch", "opensearch-2")


@cache
def make_dataset(names: tuple[str, ...] = NAMES, queries: int = 30) -> RankingDataset:
    """Columns of different sizes, a tenth of whose values is missing; the last column is constant."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20 * queries, 4)) * [1, 10, 0.01, 0] + [2, 5, 1e3, 100]
    y = np.clip(np.round(X[:, 0] - 1 + (X[:, 1] - 5) / 20 - 30 * (X[:, 2] - 1e3)), 0, 4)
    X[rng.random(X.shape) < 0.1] = np.nan
    X = X.astype(np.float32)
    return RankingDataset.from_arrays(X, y, group=[20] * queries, feature_names=names)


@cache
def train_linear(scaling: str = "standard", within: str = "", **params: Any) -> RankingModel:
    params = {"objective": "approx-ndcg", "scaling": scaling} | params
    kinds = within.split(",") if within else None
    return boostrank.train(params, make_dataset(), 5, backend="linear", within_query=kinds)


def columns_sum(model: RankingModel, rows: np.ndarray) -> np.ndarray:
    """The scores, from the model's file alone, in extended precision."""
    file = json.loads(model.to_bytes())
    mean = np.array(file["means"], np.longdouble)
    scale = np.array(file["scales"], np.longdouble)
    filled = np.where(np.isnan(rows), mean, rows)
    used = scale > 0
    terms = (filled - mean)[:, used] / scale[used] * np.array(file["weights"])[used]
    return terms.sum(axis=1) + file["intercept"]


@pytest.mark.parametrize("scaling", ["standard", "none", "scores"])
@pytest.mark.parametrize("name", WITH_LINEAR)
def test_scores_are_those_of_the_model(
    name: str, scaling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boostrank.export.proof._MOST_CELLS", 40_000)
    model = train_linear(scaling)
    proof = boostrank.export_model(model, tmp_path / "toy", name, data=make_dataset())
    assert proof.rows > 9_000
    assert moved(proof) == 0
    rows = make_dataset().features
    rows = rows if name not in SINGLE else np.where(np.isnan(rows), means(model), rows)
    score = TARGETS.get(name).serving("linear").scorer((tmp_path / "toy").read_bytes(), NAMES)
    scores = columns_sum(model, rows)
    precision = np.float64 if name not in (*SINGLE, "onnx") else np.float32
    size = np.abs(scores).max() + sum(
        np.nanmax(np.abs(rows[:, j])) * abs(w) for j, w in enumerate(weights(model))
    )
    np.testing.assert_allclose(score(rows), scores, rtol=0, atol=8 * np.finfo(precision).eps * size)


def moved(proof: Proof) -> int:
    assert proof.moves is not None
    return proof.moves.moved


def means(model: RankingModel) -> np.ndarray:
    return np.array(json.loads(model.to_bytes())["means"], np.float32)


def weights(model: RankingModel) -> np.ndarray:
    file = json.loads(model.to_bytes())
    scale = np.array(file["scales"])
    return np.where(scale > 0, file["weights"], 0) / np.where(scale > 0, scale, 1)


@pytest.mark.parametrize("name", COMPILERS)
def test_compiled_code_has_the_scores_of_the_model(name: str, tmp_path: Path) -> None:
    need_compiler(name)
    boostrank.export_model(train_linear(), tmp_path / "toy", name)
    folder = tmp_path / "compiled"
    folder.mkdir()
    rows = make_dataset().features
    scores = compiled(name, (tmp_path / "toy").read_bytes(), folder)(rows)
    np.testing.assert_allclose(scores, columns_sum(train_linear(), rows), atol=1e-9)


def test_names_may_have_the_form_of_tables(tmp_path: Path) -> None:
    names = ("thresholds", "tables()", "a = doubles(3)?", "static const int a[] = {1};")
    for target in COMPILERS:
        boostrank.export_model(train_linear(), tmp_path / "thresholds", target, feature_names=names)


def test_bodies_have_the_documented_form(tmp_path: Path) -> None:
    """As Solr's reference guide and the plugins' documentation show them."""
    for name in ("solr", "opensearch"):
        boostrank.export_model(train_linear(), tmp_path / f"{name}.json", name)
    solr = json.loads((tmp_path / "solr.json").read_text())
    assert solr["class"] == "org.apache.solr.ltr.model.LinearModel"
    used = [feature["name"] for feature in solr["features"]]
    assert used == ["bm25", "knn", "age"] == list(solr["params"]["weights"])  # not the constant one
    for feature in solr["features"]:
        assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
        assert {key: float(text) > 0 for key, text in feature["norm"]["params"].items()}["std"]
    model = json.loads((tmp_path / "opensearch.json").read_text())["model"]["model"]
    assert model["type"] == "model/linear"
    assert list(json.loads(model["definition"])) == used == list(model["feature_normalizers"])
    assert set(model["feature_normalizers"]["age"]["standard"]) == {"mean", "standard_deviation"}


def test_a_changed_weight_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGETS.get("vespa")

    def write(served: Any) -> bytes:
        return re.sub(rb"^(\S+)", rb"9.5", target.linear["write"](served))

    changed = replace(target, linear={**target.linear, "write": write})
    monkeypatch.setattr("boostrank.export.writing.TARGETS", {"vespa": changed})
    with pytest.raises(ExportError, match="random"):
        boostrank.export_model(train_linear(), tmp_path / "toy", "vespa")
    assert not (tmp_path / "toy").exists()


def test_a_store_needs_the_value_of_missing_features(tmp_path: Path) -> None:
    store = [{"name": name, "class": "x", "params": {}} for name in NAMES]
    with pytest.raises(ExportError, match=r"'bm25'.*defaultValue"):
        boostrank.export_model(train_linear(), tmp_path / "toy", "solr", feature_names=store)
    for feature, mean in zip(store, means(train_linear()), strict=True):
        feature["params"] = {"defaultValue": float(mean)}
    proof = boostrank.export_model(train_linear(), tmp_path / "toy", "solr", feature_names=store)
    assert proof.fill.keys() == {"bm25", "knn", "age"}


@pytest.mark.parametrize("name", SINGLE)
def test_a_linear_model_of_a_program_goes_to_others(name: str, tmp_path: Path) -> None:
    """Missing values are 0 in it, not its shift."""
    boostrank.export_model(train_linear(), tmp_path / "solr.json", "solr")
    model = RankingModel.load(tmp_path / "solr.json")
    proof = boostrank.export_model(model, tmp_path / "toy", name)
    assert proof.fill == {}
    rows = np.array([[np.nan] * 3, [0.0] * 3], np.float32)
    score = (
        TARGETS.get(name)
        .serving("linear")
        .scorer((tmp_path / "toy").read_bytes(), model.feature_names)
    )
    np.testing.assert_array_equal(score(rows), model.predict(rows))


def test_trees_and_linear_models_have_targets_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no trees"):
        boostrank.export_model(train_linear(), tmp_path / "toy", "elastic")
    trees = boostrank.train({"objective": "listnet", "num_threads": 1}, make_dataset(), 1)
    with pytest.raises(ExportError, match="--backend linear"):
        boostrank.export_model(trees, tmp_path / "toy", "elastic-linear")


@cache
def hybrid(**params: Any) -> RankingModel:
    return train_linear("scores", "minmax", monotone_constraints="1,1,1,1", **params)


@pytest.mark.parametrize("name", ["elastic-linear", "opensearch-hybrid"])
def test_weights_of_hybrid_search_rank_as_the_model(name: str, tmp_path: Path) -> None:
    """Min-max, the weighted sum and the ranks are computed anew from the file."""
    path, data = tmp_path / "toy.json", make_dataset()
    proof = boostrank.export_model(hybrid(), path, name, data=data)
    assert moved(proof) == 0
    document = json.loads(path.read_text())
    if name == "elastic-linear":
        parts = document["retriever"]["linear"]["retrievers"]
        shares = {part["retriever"]["standard"]["_name"]: part["weight"] for part in parts}
    else:
        processor = document["phase_results_processors"][0]["normalization-processor"]
        assert processor["normalization"]["technique"] == "min_max"
        numbers = processor["combination"]["parameters"]["weights"]
        shares = dict(zip(json.loads(document["description"][13:]), numbers, strict=True))
    assert list(shares) == list(NAMES)
    assert min(shares.values()) >= 0.0
    assert sum(shares.values()) == pytest.approx(1.0)
    scores = hybrid().predict(data)
    for query in range(0, data.n_documents, 20):
        columns = data.features[query : query + 20].astype(np.float64)
        low, high = np.nanmin(columns, axis=0), np.nanmax(columns, axis=0)
        scaled = np.where(high > low, (columns - low) / np.where(high > low, high - low, 1), 1.0)
        scaled = np.where(np.isnan(columns), 0.0, scaled)
        fused = scaled @ list(shares.values())
        assert np.corrcoef(fused, scores[query : query + 20])[0, 1] == pytest.approx(1.0)


def test_z_scores_of_opensearch_rank_as_the_model(tmp_path: Path) -> None:
    """`z_score` and `arithmetic_mean` are computed anew from the file, in float32."""
    model = train_linear("scores", "opensearch_zscore", monotone_constraints="1,1,1,1")
    path, data = tmp_path / "toy.json", make_dataset()
    assert moved(boostrank.export_model(model, path, "opensearch-hybrid", data=data)) == 0
    document = json.loads(path.read_text())
    processor = document["phase_results_processors"][0]["normalization-processor"]
    assert processor["normalization"] == {"technique": "z_score"}
    weights = np.array(processor["combination"]["parameters"]["weights"], np.float32)
    scores = model.predict(data)
    for query in range(0, data.n_documents, 20):
        columns = data.features[query : query + 20]
        fused = np.zeros(20)
        for column, weight in zip(columns.T, weights, strict=True):
            retrieved = column[~np.isnan(column)]
            scaled = [0.0 if np.isnan(x) else z_score(x, retrieved) for x in column]
            fused += weight * np.array(scaled)
        kept = scores[query : query + 20] - fused * (model_sum(model))
        assert np.ptp(kept) < 1e-5 * np.ptp(scores)
    with pytest.raises(ExportError, match="within-query minmax"):
        boostrank.export_model(model, path, "elastic-linear", data=data)


def model_sum(model: RankingModel) -> float:
    """The sum of a model's weights."""
    return float(np.sum(json.loads(model.to_bytes())["weights"]))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"scaling": "standard"}, "within-query minmax"),
        ({"scaling": "none", "within": "minmax"}, "scaling=scores"),
        ({"scaling": "scores", "within": "zscore"}, "within-query minmax"),
        ({"scaling": "scores", "within": "minmax"}, "monotone_constraints"),
    ],
)
def test_other_models_are_no_weights_of_hybrid_search(
    params: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=words):
        boostrank.export_model(train_linear(**params), tmp_path / "toy", "elastic-linear")


def test_the_command_says_how_a_linear_model_was_checked(tmp_path: Path) -> None:
    train_linear().save(tmp_path / "linear.json")
    result = invoke(
        "export", tmp_path / "linear.json", "--to", "solr", "-o", tmp_path / "solr.json"
    )
    assert "LinearModel" in result.stdout
    assert "of all columns" in result.stdout
    assert re.search(r'"defaultValue": "VALUE".*age=1000', result.stdout)
