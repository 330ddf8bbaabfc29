"""How large files of models may be, how they are read, and names that every engine takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from boostrank.core.errors import ModelError, TrainingError
from boostrank.engines import format_of
from boostrank.engines.trees import engine_names, read_json, refuse, write_json
from boostrank.model import files as model_files
from boostrank.model.files import read_file, read_model_files, sidecar_path, write_model_files
from boostrank.records import SCHEMA_VERSION
from tests.model.real_models import lightgbm_models

BODY = lightgbm_models()["one leaf"].encode()
SAID = {"objective": {"name": "sdcg"}, "metrics": ["ndcg"]}


def test_models_up_to_the_limits_are_written_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    write_model_files(path, BODY, SAID)
    beside = sidecar_path(path).read_bytes()
    for name, size in (("MAX_MODEL_BYTES", len(BODY)), ("MAX_SIDECAR_BYTES", len(beside))):
        with monkeypatch.context() as patched:
            patched.setattr(model_files, name, size)
            write_model_files(tmp_path / name, BODY, SAID)
            assert read_model_files(tmp_path / name) == (BODY, SAID)
            patched.setattr(model_files, name, size - 1)
            with pytest.raises(TrainingError, match=rf"{len(BODY)} .* {len(beside)}"):
                write_model_files(tmp_path / "more", BODY, SAID)
            assert not (tmp_path / "more").exists()


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path, body = tmp_path / "a", bytes(range(100))
    path.write_bytes(body)
    assert read_file(path) == read_file(path, 100) == read_file(path, 1000) == body
    with pytest.raises(ModelError, match=r"a: 100 bytes, .* 99 "):
        read_file(path, 99)
    path.write_bytes(b"")
    assert read_file(path, 0) == b""
    with pytest.raises(ModelError, match="No such file"):
        read_file(tmp_path / "b")
    with pytest.raises(ModelError, match=r"ordinary file|directory"):
        read_file(tmp_path)


def test_a_sidecar_is_json_of_a_line_a_value_and_may_be_laid_out_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write_model_files(path, BODY, SAID)
    text = sidecar_path(path).read_text()
    assert text.startswith('{\n "file": {\n  "schema_version": 2,\n')
    assert text.endswith("\n ]\n}\n")
    sidecar_path(path).write_text(json.dumps(json.loads(text), sort_keys=True, indent=7))
    assert read_model_files(path) == (BODY, SAID)
    with pytest.raises(ValueError, match="JSON compliant"):
        write_model_files(path, BODY, SAID | {"price": float("nan")})


@pytest.mark.parametrize("version", [1, SCHEMA_VERSION, SCHEMA_VERSION + 1])
def test_a_sidecar_of_a_later_schema_is_refused_with_the_version_that_reads_it(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "model"
    write_model_files(path, BODY, SAID)
    content = json.loads(sidecar_path(path).read_text())
    del content["file"]["checksum"]
    content["file"] |= {"schema_version": version, "readable_since": "9.8.7" + "x" * 40}
    content["file"]["checksum"] = model_files._checksum(content)
    sidecar_path(path).write_text(json.dumps(content))
    if version <= SCHEMA_VERSION:
        assert read_model_files(path) == (BODY, SAID)
        return
    with pytest.raises(ModelError) as caught:
        read_model_files(path)
    assert f"version {version}, " in str(caught.value)
    assert str(caught.value).endswith(f"install boostrank 9.8.7{'x' * 15} or later")


def test_names_that_engines_take_are_all_different() -> None:
    names = ["price [EUR]", "a", 'x"{}', "a", "b:c", "b_c", "b,c", "<", "größe"]
    assert engine_names(names) == (
        "price__EUR_",
        "a",
        "x___",
        "a.3",
        "b_c",
        "b_c.5",
        "b_c.6",
        "_",
        "größe",
    )


def test_json_of_models_keeps_letters_and_what_is_no_letter() -> None:
    document = {"größe": [1, 0.5, float("inf")], "a\ud800": None}
    assert write_json(document) == '{"größe": [1, 0.5, Infinity], "a\\ud800": null}'.encode()
    assert read_json(write_json(document)) == document
    with pytest.raises(ModelError, match=r"broken JSON; .*line 1"):
        read_json(b"[1,")


@pytest.mark.parametrize(
    ("wrong", "is_refused"),
    [
        (True, True),
        (False, False),
        (np.True_, True),
        (np.False_, False),
        (np.array([False, True]), True),
        (np.array([False, False]), False),
        (np.zeros(0, bool), False),
    ],
)
def test_one_condition_or_one_of_many_refuses(wrong: bool, is_refused: bool) -> None:
    if not is_refused:
        refuse(wrong, "why")
        return
    with pytest.raises(ModelError, match=r"^why$"):
        refuse(wrong, "why")


def test_a_file_of_no_format_names_all_of_them() -> None:
    with pytest.raises(ModelError) as caught:
        format_of(b"x")
    assert "or a linear model" in str(caught.value)
    with pytest.raises(ModelError, match="is empty"):
        format_of(b"")
