"""Model info reads every sidecar and gives back what it read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import boostrank
from boostrank import RankingModel
from boostrank.model.files import sidecar_path
from boostrank.model.info import ModelInfo, fault_of
from tests.model.test_third_engine import ranking

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


@pytest.mark.parametrize("one", [1.5, "red", [], {"values": "red"}, {"values": {"a": 1}}, {"values": ["red", []]}])
def test_fault_086_categories_are_lists_of_text_or_numbers(one: Any) -> None:
    good = {"values": ["red", 1, 2.5], "ordered": True}
    assert fault_of({"data": {"categories": {"a": good, "b": {"values": None}, "c": {}}}}) is None
    assert "'data.categories' holds something else" in str(fault_of({"data": {"categories": {"a": good, "b": one}}}))


@pytest.mark.parametrize("content", [[], "sdcg", None, 3])
def test_a_sidecar_that_is_no_table_is_told_as_such(content: Any) -> None:
    assert fault_of(content) == "it is no table"


LONG = "y" * 100
KINDS = {
    "table": ["objective", "conventions", "parameters", "training", "data", "versions", "start", "folds",
              "price", "within_query", "evals_result", "data.reader", "data.categories"],
    "list": ["metrics", "averaged", "data.feature_names", "within_query.kinds", "folds.members"],
    "text": ["backend", "objective.name", "data.reader.gain", "data.absent"],
    "whole number": ["data.index_base", "training.rounds", "training.rounds_before"],
}  # fmt: skip
VALUES: dict[str, Any] = {"table": {}, "list": [], "text": LONG, "whole number": 7}


def at(place: str, value: Any) -> dict[str, Any]:
    for key in reversed(place.split(".")):
        value = {key: value}
    content: dict[str, Any] = value
    if "within_query" in content and isinstance(content["within_query"], dict):
        content["within_query"] = {"kinds": []} | content["within_query"]
    return content


@pytest.mark.fault(110)
@pytest.mark.parametrize(("place", "kind"), [(place, kind) for kind, places in KINDS.items() for place in places])
def test_every_part_of_a_sidecar_is_of_its_kind(place: str, kind: str) -> None:
    for other, value in [*VALUES.items(), ("a truth", True)]:
        found = fault_of(at(place, value))
        wanted = None if other == kind else f"{place!r} is {str(value)[:40]!r}, not a {kind}"
        assert found == wanted, (place, other)
    assert fault_of(at(place, None)) is None or place == "within_query.kinds"
    if "." in place:  # what holds it may be missing
        assert fault_of({place.split(".")[0]: None}) is None


@pytest.mark.fault(110)
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({}, None),
        ({"data": {"feature_names": ["a", "b"]}}, None),
        ({"data": {"feature_names": ["a", 3]}}, "'data.feature_names' holds what is no text"),
        ({"evals_result": {"valid": {"ndcg": [0.5, None, 1]}}}, None),
        ({"evals_result": {"valid": [0.5]}}, "'evals_result' holds something else than lists of numbers"),
        ({"evals_result": {"valid": {"ndcg": 0.5}}}, "'evals_result' holds something else than lists of numbers"),
        ({"evals_result": {"valid": {"ndcg": ["x"]}}}, "'evals_result' holds something else than lists of numbers"),
        ({"evals_result": {"a": {}, "b": {"m": ["x"]}}}, "'evals_result' holds something else than lists of numbers"),
        ({"within_query": {"kinds": ["rank"]}}, None),
        ({"within_query": {"of": ["a"]}}, "'within_query' has no 'kinds'"),
        ({"later": 5}, None),
    ],
)  # fmt: skip
def test_a_fault_of_a_sidecar_is_told_in_words(content: dict[str, Any], fault: str | None) -> None:
    assert fault_of(content) == fault


def test_columns_and_gain_of_a_table_are_those_of_its_reader() -> None:
    reader = {"label": "y", "qid": "q", "drop": ["m"], "gain": "0.5*y", "sheet": 3}
    info = ModelInfo.read({"data": {"reader": reader}})
    assert info.columns == {"label": "y", "qid": "q", "drop": ["m"]}
    assert info.gain == "0.5*y"
    for content in ({}, {"data": {}}, {"data": {"reader": None}}):
        assert ModelInfo.read(content).columns == {}
        assert ModelInfo.read(content).gain is None
    assert ModelInfo.read({"data": {"index_base": 0}}).index_base == 0
    assert ModelInfo.read({"training": {"rounds": 5}}).trained_rounds is None
    assert ModelInfo.read({"training": {"rounds": 0, "rounds_before": 0}}).trained_rounds == 0
    assert ModelInfo.read({"training": {"rounds": 5}}).rounds_before == 0
