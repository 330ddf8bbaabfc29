"""Model info reads every sidecar and gives back what it read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import boostrank
from boostrank import RankingModel
from boostrank.formats.model_files import read_model_files, sidecar_path
from boostrank.formats.model_info import ModelInfo
from tests.formats.test_third_engine import ranking

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*/*.meta.json"))
KNOWN: dict[str, Any] = {
    "backend": "lightgbm",
    "objective": {"name": "sdcg", "sigma": 0.1},
    "metrics": ["ndcg@10"],
    "conventions": {"gain": "exponential"},
    "parameters": {"seed": 3},
    "training": {"rounds": 5, "rounds_before": 2},
    "data": {"rows": 9, "index_base": 1, "feature_names": ["a", "b"], "absent": "zero"},
    "versions": {"python": "3.11"},
    "start": {"model": "ridge"},
    "averaged": [{"rounds": 1, "params": {}}],
    "folds": {"folds": 2},
}


def test_it_is_a_mapping_of_what_is_known_in_one_order() -> None:
    info = ModelInfo.read(dict(reversed(KNOWN.items())))
    assert list(info) == list(KNOWN)
    assert info == KNOWN
    assert dict(info) == KNOWN
    assert len(info) == len(KNOWN)
    assert info.objective == info["objective"] == info.get("objective")
    assert "evals_result" not in info
    with pytest.raises(KeyError):
        ModelInfo()["objective"]
    assert ModelInfo() == {}
    assert len(ModelInfo()) == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.backend = "xgboost"  # type: ignore[misc]


def test_what_a_later_version_says_is_kept_and_a_key_of_another_type_harms_nobody() -> None:
    content = KNOWN | {"objective": "sdcg", "training": None, "metrics": "ndcg", "lineage": {"parent": 7}}
    info = ModelInfo.read(content)
    assert info == content
    assert (info.objective, info.training, info.metrics) == (None, None, None)
    assert info["objective"] == "sdcg"
    assert info.objective_name is None
    assert (info.rounds_before, info.trained_rounds) == (0, None)
    assert info["lineage"] == {"parent": 7}
    assert "training" in info


def test_what_is_asked_for_often_has_a_name() -> None:
    info = ModelInfo.read(KNOWN)
    assert info.objective_name == "sdcg"
    assert info.feature_names == ("a", "b")
    assert info.index_base == 1
    assert info.absent == "zero"
    assert (info.rounds_before, info.trained_rounds) == (2, 7)
    nothing = ModelInfo()
    assert nothing.feature_names == ()
    assert (nothing.index_base, nothing.absent, nothing.trained_rounds) == (None, None, None)


def test_a_value_is_replaced_in_its_place() -> None:
    info = ModelInfo.read(KNOWN) | {"objective": {"name": "xe-ndcg"}, "note": 1}
    assert isinstance(info, ModelInfo)
    assert list(info) == [*KNOWN, "note"]
    assert info.objective == {"name": "xe-ndcg"}


@pytest.mark.parametrize("sidecar", GOLDEN, ids=lambda path: path.name)
def test_every_sidecar_so_far_is_read_and_written_with_the_same_content(sidecar: Path, tmp_path: Path) -> None:
    model = sidecar.with_name(sidecar.name.removesuffix(".meta.json"))
    content = read_model_files(model)[1]
    assert content is not None
    assert ModelInfo.read(content) == content
    loaded = RankingModel.load(model)
    loaded.save(tmp_path / model.name)
    again = json.loads(sidecar_path(tmp_path / model.name).read_text())
    del again["file"]
    assert again == content | {"evals_result": {}}


def test_the_sidecar_of_a_training_is_the_same_after_loading_and_saving(tmp_path: Path) -> None:
    params = {"objective": "lambdarank", "num_leaves": 4, "verbosity": -1, "num_threads": 1, "seed": 5}
    boostrank.train(params, ranking(0), 3, valid_sets=[ranking(1)]).save(tmp_path / "a")
    RankingModel.load(tmp_path / "a").save(tmp_path / "b")
    written = sidecar_path(tmp_path / "a").read_bytes()
    assert sidecar_path(tmp_path / "b").read_bytes() == written
    assert list(json.loads(written)) == [
        "file", "backend", "objective", "metrics", "conventions", "parameters", "training", "data", "versions",
        "evals_result",
    ]  # fmt: skip
    assert json.loads(written)["parameters"]["seed"] == 5
