"""Commands take several files, patterns and compressed files wherever they take one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.conftest import FEW, invoke, succeed


@pytest.fixture(scope="module")
def shards(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the training data cut into three compressed files between queries."""
    folder = tmp_path_factory.mktemp("shards")
    lines = (data / "train.txt").read_text().splitlines(keepends=True)
    qids = [line.split()[1] for line in lines]
    cuts = [i for i in range(1, len(lines)) if qids[i] != qids[i - 1]]
    ends = [0, cuts[len(cuts) // 3], cuts[2 * len(cuts) // 3], len(lines)]
    for i in range(3):
        (folder / f"part-{i}.gz").write_bytes(
            gzip.compress("".join(lines[ends[i] : ends[i + 1]]).encode())
        )
    return folder


def test_shards_train_the_model_that_the_whole_file_trains(
    data: Path, shards: Path, tmp_path: Path
) -> None:
    models = {}
    ways = {
        "whole": [data / "train.txt"],
        "pattern": [shards / "part-*.gz"],
        "listed": sorted(shards.iterdir()),
    }
    for name, files in ways.items():
        result = succeed(
            "train", *files, "--valid", data / "valid.txt", "-m", tmp_path / name, *FEW
        )
        models[name] = (tmp_path / name).read_text()
        if name == "listed":
            assert f"{shards / 'part-0.gz'} and 2 more files: " in result.stderr
    assert models["pattern"] == models["whole"]
    assert models["listed"] == models["whole"]


def test_shards_are_scored_and_measured_as_one(data: Path, shards: Path, model: Path) -> None:
    whole = succeed("predict", model, data / "train.txt")
    assert invoke("predict", model, shards / "*").stdout == whole.stdout
    assert invoke("predict", model, *sorted(shards.iterdir())).stdout == whole.stdout
    measured = succeed("evaluate", model, shards / "*.gz")
    assert measured.stdout == invoke("evaluate", model, data / "train.txt").stdout


def test_a_pattern_that_nothing_matches_is_named(shards: Path, model: Path, tmp_path: Path) -> None:
    for command in (
        ["train", shards / "no*", "-m", tmp_path / "m"],
        ["predict", model, shards / "no*"],
    ):
        result = invoke(*command)
        assert (result.exit_code, result.stderr) == (
            2,
            f"boostrank: error: {shards / 'no*'}: no file matches\n",
        )


def test_a_validation_set_given_as_a_pattern_is_named_by_what_is_fixed_in_it(
    data: Path, shards: Path, tmp_path: Path
) -> None:
    result = succeed(
        "train", data / "train.txt", "--valid", shards / "part-*.gz", "-m", tmp_path / "m", *FEW
    )
    assert "part ndcg" in result.stderr
