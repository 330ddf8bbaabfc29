"""Model info reads every sidecar and gives back what it read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import boostrank
from boostrank import RankingModel
from boostrank.model.files import sidecar_path
from boostrank.records import History, ModelInfo, as_record
from tests.model.conftest import make_named_dataset

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


def test_info_is_a_mapping_of_its_fields_in_one_order() -> None:
    info = ModelInfo(**dict(reversed(KNOWN.items())))
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
    with pytest.raises(AttributeError):
        info.backend = "xgboost"  # type: ignore[misc]


def test_frequent_fields_of_info_have_properties() -> None:
    info = ModelInfo(**KNOWN)
    assert info.objective_name == "sdcg"
    assert info.feature_names == ("a", "b")
    assert info.index_base == 1
    assert info.absent == "zero"
    assert (info.rounds_before, info.trained_rounds) == (2, 7)
    nothing = ModelInfo()
    assert nothing.feature_names == ()
    assert (nothing.index_base, nothing.absent, nothing.trained_rounds) == (None, None, None)


def test_a_value_is_replaced_in_its_place() -> None:
    info = ModelInfo(**KNOWN) | {"objective": {"name": "xe-ndcg"}}
    assert isinstance(info, ModelInfo)
    assert list(info) == list(KNOWN)
    assert info.objective == {"name": "xe-ndcg"}


def test_the_sidecar_of_a_training_is_the_same_after_loading_and_saving(tmp_path: Path) -> None:
    params = {
        "objective": "lambdarank",
        "num_leaves": 4,
        "verbosity": -1,
        "num_threads": 1,
        "seed": 5,
    }
    boostrank.train(params, make_named_dataset(0), 3, valid_sets=[make_named_dataset(1)]).save(
        tmp_path / "a"
    )
    RankingModel.load(tmp_path / "a").save(tmp_path / "b")
    # The same bytes, with all records of a training.
    written = sidecar_path(tmp_path / "a").read_bytes()
    assert sidecar_path(tmp_path / "b").read_bytes() == written
    assert list(json.loads(written)) == [
        "file",
        "backend",
        "objective",
        "metrics",
        "conventions",
        "parameters",
        "training",
        "data",
        "versions",
        "evals_result",
    ]
    assert json.loads(written)["parameters"]["seed"] == 5


@pytest.mark.parametrize(
    "category", [1.5, "red", [], {"values": "red"}, {"values": {"a": 1}}, {"values": ["red", []]}]
)
def test_fault_086_categories_are_lists_of_text_or_numbers(category: Any) -> None:
    good = {"values": ["red", 1, 2.5], "ordered": True}
    as_record(ModelInfo, {"data": {"categories": {"a": good, "b": {"values": None}, "c": {}}}})
    with pytest.raises(ValueError, match=r"\$\.data\.categories"):
        as_record(ModelInfo, {"data": {"categories": {"a": good, "b": category}}})


@pytest.mark.fault(110)
@pytest.mark.parametrize(
    ("content", "field"),
    [
        ([], "object"),
        ("sdcg", "object"),
        ({"later": 5}, "later"),
        ({"data": {"later": 5}}, "$.data.later"),
        ({"data": {"categories": {"a": {"later": 5}}}}, "$.data.categories.a.later"),
        ({"backend": 3}, "$.backend"),
        ({"objective": {"name": 3}}, "$.objective.name"),
        ({"metrics": {}}, "$.metrics"),
        ({"data": {"rows": True}}, "$.data.rows"),
        ({"data": {"index_base": 0.5}}, "$.data.index_base"),
        ({"data": {"feature_names": ["a", 3]}}, "$.data.feature_names[1]"),
        ({"data": {"reader": {"gain": 3}}}, "$.data.reader.gain"),
        ({"training": {"rounds": "3"}}, "$.training.rounds"),
        ({"within_query": {"of": ["a"]}}, "$.within_query"),
        ({"folds": {"members": [3]}}, "$.folds.members[0]"),
    ],
)
def test_a_wrong_or_unknown_field_is_named(content: Any, field: str) -> None:
    with pytest.raises(ValueError, match=re.escape(field)):
        as_record(ModelInfo, content)


@pytest.mark.fault(110)
def test_the_history_holds_lists_of_numbers() -> None:
    assert as_record(History, {"valid": {"ndcg": [0.5, None, 1]}}) == {
        "valid": {"ndcg": [0.5, None, 1.0]}
    }
    for wrong in ({"valid": [0.5]}, {"valid": {"ndcg": 0.5}}, {"a": {}, "b": {"m": ["x"]}}):
        with pytest.raises(ValueError, match="Expected"):
            as_record(History, wrong)


def test_columns_and_gain_of_a_table_are_those_of_its_reader() -> None:
    reader = {"label": "y", "qid": "q", "drop": ["m"], "gain": "0.5*y", "sheet": 3}
    info = ModelInfo(data={"reader": reader})
    assert info.columns == {"label": "y", "qid": "q", "drop": ["m"]}
    assert info.gain == "0.5*y"
    for content in ({}, {"data": {}}, {"data": {"reader": {}}}):
        assert ModelInfo(**content).columns == {}
        assert ModelInfo(**content).gain is None
    assert ModelInfo(**{"data": {"index_base": 0}}).index_base == 0
    assert ModelInfo(**{"training": {"rounds": 5}}).trained_rounds is None
    assert ModelInfo(**{"training": {"rounds": 0, "rounds_before": 0}}).trained_rounds == 0
    assert ModelInfo(**{"training": {"rounds": 5}}).rounds_before == 0
