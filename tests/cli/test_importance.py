"""`boostrank importance`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import invoke


def test_the_table_says_what_it_is_of(model: Path, data: Path) -> None:
    result = invoke("importance", model, data / "test.txt", "--top", 5, "--threads", 1)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "ndcg@10" in lines[0]
    assert "5 shuffles per query" in lines[1]
    header = next(i for i, line in enumerate(lines) if line.startswith("  feature"))
    assert lines[header + 6].startswith("  ... and ")
    assert "unused, " in result.stdout


def test_json_has_every_feature(model: Path, data: Path) -> None:
    arguments = ("importance", model, data / "test.txt", "--repeats", 1, "--top", 2, "--threads", 1)
    printed = json.loads(invoke(*arguments, "--json").stdout)
    assert len(printed["features"]) == 38
    assert {"feature", "verdict", "loss", "loss_low", "loss_high"} <= set(printed["features"][0])


def test_groups_come_from_a_file_with_patterns(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "groups").write_text("# what the text says\nfirst: f1 f2, f3\n\nwide: f1*\n")
    result = invoke(
        "importance", model, data / "test.txt", "--groups", tmp_path / "groups", "--json"
    )
    groups = json.loads(result.stdout)["groups"]
    assert [g["name"] for g in groups] == ["first", "wide"]
    assert groups[0]["features"] == ["f1", "f2", "f3"]
    assert len(groups[1]["features"]) == 11


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no colon", "groups:1: "),
        ("a: f1\na: f2", "groups:2: group 'a' is defined twice"),
        ("a: nothing*", "groups:1: the model has no feature 'nothing*'"),
        ("a: caf\udce9", "groups: byte 6 is not UTF-8 text"),
    ],
)
def test_groups_that_cannot_be_are_refused_with_their_line(
    model: Path, data: Path, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "groups").write_bytes(text.encode(errors="surrogateescape"))
    result = invoke("importance", model, data / "test.txt", "--groups", tmp_path / "groups")
    assert result.exit_code == 2
    assert words in result.stderr
