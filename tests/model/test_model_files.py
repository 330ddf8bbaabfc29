"""A model and its sidecar stay a pair, whatever happens between the two writes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import xgboost as xgb

from boostrank.core import files as atomic
from boostrank.core.errors import ModelError, TrainingError
from boostrank.engines import format_of
from boostrank.model import files as model_text
from boostrank.model.files import (
    content_sha256,
    read_model_files,
    sidecar_path,
    write_model_files,
)
from boostrank.model.ranking_model import RankingModel
from tests.core.conftest import fail_call
from tests.model.real_models import lightgbm_models, train_xgboost, xgboost_models

OLD = lightgbm_models()["lambdarank"].encode(), {"objective": "sdcg", "rounds": 3}
NEW = lightgbm_models()["callable"].encode(), {"objective": "shf-sdcg", "rounds": 4}


class Crash(BaseException):
    """The machine stops: nothing after it runs."""


def crash_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    done: list[Any] = []

    def write(path: Any, data: bytes) -> None:
        if len(done) == writes:
            raise Crash
        done.append(path)
        atomic.write_atomically(path, data)

    monkeypatch.setattr(model_text, "write_atomically", write)


def test_a_saved_model_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    record = {
        "objective": {"name": "sdcg", "sigma": 0.1},
        "names": ["größe"],
        "best": None,
        "nothing": {},
    }
    write_model_files(path, OLD[0], record)
    assert read_model_files(path) == (OLD[0], record)
    assert path.read_bytes() == OLD[0], "the model is the engine's own text, nothing added"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.txt", "model.txt.meta.json"]


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_the_sidecar_lies_beside_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    real, link = tmp_path / "versions" / "v1.txt", tmp_path / "current.txt"
    link.symlink_to(real)
    for body, record in (OLD, NEW):
        write_model_files(link, body, record)
        assert read_model_files(link) == read_model_files(real) == (body, record)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["current.txt", "versions"]
    # A store of files, whose names are links.
    (tmp_path / "current.txt.meta.json").symlink_to(
        sidecar_path(real).rename(tmp_path / "versions" / "0123")
    )
    assert read_model_files(link) == NEW


@pytest.mark.fault(84)
def test_the_sidecar_is_json_that_people_and_programs_read(tmp_path: Path) -> None:
    write_model_files(tmp_path / "model.txt", *OLD)
    sidecar = json.loads(sidecar_path(tmp_path / "model.txt").read_text())
    assert sidecar["objective"] == "sdcg"
    assert sidecar["file"]["body_sha256"] == content_sha256(OLD[0])
    assert sidecar["file"]["body_bytes"] == len(OLD[0])
    assert sidecar["file"]["schema_version"] == 2


def test_the_same_model_gives_the_same_bytes_also_over_another_one(tmp_path: Path) -> None:
    write_model_files(tmp_path / "fresh", *NEW)
    write_model_files(tmp_path / "used", *OLD)
    write_model_files(tmp_path / "used", *NEW)
    assert (tmp_path / "fresh").read_bytes() == (tmp_path / "used").read_bytes()
    assert (
        sidecar_path(tmp_path / "fresh").read_bytes()
        == sidecar_path(tmp_path / "used").read_bytes()
    )


def test_the_sidecar_of_an_xgboost_model_is_not_taken_for_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    body = xgboost_models()["rank:ndcg"]
    write_model_files(path, body, {"objective": "sdcg"})
    assert format_of(read_model_files(path)[0]).name == "xgboost"
    xgb.Booster().load_model(path)
    with pytest.raises(ModelError, match=r"meta\.json"):
        RankingModel.load(sidecar_path(path))


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_fault_082_a_crash_between_the_writes_leaves_a_pair_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    with monkeypatch.context() as patch:
        crash_after(patch, writes)
        with pytest.raises(Crash):
            write_model_files(path, *NEW)
    assert read_model_files(path) == (NEW if writes == 2 else OLD)
    write_model_files(path, *NEW)
    assert read_model_files(path) == NEW


def test_fault_082_two_crashes_in_a_row_leave_a_pair_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    for record in ({"try": 1}, {"try": 2}):
        with monkeypatch.context() as patch:
            crash_after(patch, 1)
            with pytest.raises(Crash):
                write_model_files(path, NEW[0], record)
    assert read_model_files(path) == OLD


def test_fault_082_a_crash_over_a_model_made_elsewhere_leaves_it_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(OLD[0])
    with monkeypatch.context() as patch:
        crash_after(patch, 1)
        with pytest.raises(Crash):
            write_model_files(path, *NEW)
    assert read_model_files(path) == (OLD[0], None)


def test_fault_082_a_crash_before_the_first_model_leaves_a_clean_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.txt"
    with monkeypatch.context() as patch:
        crash_after(patch, 1)
        with pytest.raises(Crash):
            write_model_files(path, *NEW)
    with pytest.raises(ModelError, match=r"model\.txt: .*No such"):
        read_model_files(path)


def test_fault_077_a_failure_of_any_call_leaves_the_old_pair_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    outcomes = []
    while True:
        write_model_files(path, *OLD)
        with pytest.MonkeyPatch.context() as patch:
            calls = fail_call(patch, len(outcomes))
            try:
                write_model_files(path, *NEW)
                failed = False
            except TrainingError:
                failed = True
        pair = read_model_files(path)
        assert pair in (OLD, NEW)
        assert failed or pair == NEW, "no failure is hidden unless the new model is in place"
        assert len(list(tmp_path.iterdir())) == 2
        if len(calls) <= len(outcomes):
            break
        outcomes.append(failed)
    assert len(outcomes) > 25, "every call of all three writes was made to fail once"
    assert outcomes.count(True) > 15


def test_a_first_model_that_cannot_be_written_leaves_no_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Any, data: bytes) -> None:
        if Path(path) == tmp_path / "m":
            raise TrainingError("the disk is full")
        atomic.write_atomically(path, data)

    monkeypatch.setattr(model_text, "write_atomically", write)
    with pytest.raises(TrainingError, match="full"):
        model_text.write_model_files(tmp_path / "m", *NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_model_made_elsewhere_has_no_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "theirs.txt"
    path.write_bytes(OLD[0])
    assert read_model_files(path) == (OLD[0], None)


def test_a_sidecar_of_another_model_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    path.write_bytes(NEW[0])
    with pytest.raises(
        ModelError,
        match=r"checksum .*restore.*\.meta\.json",
    ):
        read_model_files(path)
    sidecar_path(path).unlink()
    assert read_model_files(path) == (NEW[0], None)


def test_an_edited_sidecar_is_refused_and_a_reformatted_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    sidecar = json.loads(sidecar_path(path).read_text())
    sidecar_path(path).write_text(json.dumps(sidecar, sort_keys=True, indent=4))
    assert read_model_files(path) == OLD
    sidecar_path(path).write_text(json.dumps({**sidecar, "objective": "lambdarank"}))
    with pytest.raises(ModelError, match=r"meta\.json: its checksum"):
        read_model_files(path)


def test_fault_087_a_newer_schema_is_refused_with_the_version_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_text, "SCHEMA_VERSION", 3)
        patch.setattr(model_text, "READABLE_SINCE", "1.4.0")
        write_model_files(path, *OLD)
    with pytest.raises(ModelError, match=r"version 3.*up to 2; .*boostrank 1\.4\.0"):
        read_model_files(path)


@pytest.mark.parametrize(
    "sidecar",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"file": 5}',
        b'{"file": {"schema_version": "1"}}',
        b"[" * 100_000,
        b'{"file": {"schema_version": true}}',
        b'{"file": {"schema_version": 1}, "objective": ' + b"[" * 600 + b"]" * 600 + b"}",
    ],
)
def test_a_sidecar_that_is_none_is_refused_by_name(tmp_path: Path, sidecar: bytes) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(OLD[0])
    sidecar_path(path).write_bytes(sidecar)
    with pytest.raises(ModelError, match=r"txt\.meta\.json.*restore"):
        read_model_files(path)


def test_fault_086_a_hostile_sidecar_with_a_valid_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(OLD[0])
    for seal in ({}, {"body_sha256": None}, {"previous": 5}, {"previous": {"body_sha256": 3}}):
        sidecar: dict[str, Any] = {"file": {"schema_version": 1, **seal}}
        sidecar["file"]["checksum"] = model_text._checksum(sidecar)
        sidecar_path(path).write_text(json.dumps(sidecar))
        with pytest.raises(ModelError, match=r"meta\.json"):
            read_model_files(path)


def test_fault_086_a_hostile_model_with_a_valid_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, OLD[0].replace(b"left_child=", b"left_child=9", 1), OLD[1])
    with pytest.raises(ModelError, match=r"model\.txt: tree 0"):
        RankingModel.load(path)


def test_files_beyond_the_limits_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    os.truncate(sidecar_path(path), model_text.MAX_SIDECAR_BYTES + 1)  # sparse: takes no room
    with pytest.raises(ModelError, match=r"meta\.json: 268435457 bytes"):
        read_model_files(path)
    os.truncate(path, model_text.MAX_MODEL_BYTES + 1)
    with pytest.raises(ModelError, match=r"model\.txt: 2147483649 bytes"):
        read_model_files(path)
    monkeypatch.setattr(model_text, "MAX_SIDECAR_BYTES", 100)
    with pytest.raises(TrainingError, match=r"\d+ bytes .*\d+"):
        write_model_files(tmp_path / "other.txt", *OLD)
    assert not (tmp_path / "other.txt").exists()


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path, "ordinary file|directory"),
        (tmp_path / "pipe", "not an ordinary file"),
    ):
        with pytest.raises(ModelError, match=words):
            read_model_files(path)


@pytest.mark.fault(84)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "it is empty"),
        (b"\x80\x04pickle", "pickle"),
        (b"tree\n\xff\n\n", "byte 5 is not UTF-8 text"),
    ],
)
def test_files_that_are_no_model_are_refused_by_name(
    tmp_path: Path, body: bytes, words: str
) -> None:
    (tmp_path / "model.txt").write_bytes(body)
    with pytest.raises(ModelError, match=rf"model\.txt: .*{words}"):
        RankingModel.load(tmp_path / "model.txt")


def test_a_binary_xgboost_model_is_refused_with_the_way_out(tmp_path: Path) -> None:
    train_xgboost(1).save_model(tmp_path / "model.ubj")
    with pytest.raises(ModelError, match=r"UBJSON.*\.json"):
        RankingModel.load(tmp_path / "model.ubj")


def test_a_description_that_json_cannot_hold_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    write_model_files(path, *OLD)
    for bad in ({"a": float("nan")}, {"a": object()}, {"file": 1}):
        with pytest.raises((ValueError, TypeError)):
            write_model_files(path, NEW[0], bad)
    assert read_model_files(path) == OLD
