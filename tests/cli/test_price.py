"""`--max-trees`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from boostrank.cli.errors import BAD_INPUT
from tests.cli.conftest import invoke, sidecar, succeed

FEW = ("--rounds", "5", "--num-leaves", "4", "--threads", "1", "--metric", "ndcg@5")


def trees_of(model: Path) -> int:
    return model.read_text().count("\nTree=")


def price_of(model: Path) -> dict[str, object]:
    price = sidecar(model)["price"]
    assert isinstance(price, dict)
    return price


def test_the_default_keeps_to_the_trees(data: Path, tmp_path: Path) -> None:
    path, again = tmp_path / "m.txt", tmp_path / "again.txt"
    asked = ("train", data / "train.txt", "--start", "none", *FEW, "--max-trees", "9")
    result = succeed(*asked, "--model", path)
    price = price_of(path)
    assert price == {"trees": 8, "max_trees": 9}
    assert trees_of(path) == price["trees"]
    result = succeed(*asked, "--json", "--model", again)
    assert again.read_bytes() == path.read_bytes()
    printed = json.loads(result.stdout)
    assert printed["price"] == price
    assert printed["trees"] == 8


@pytest.mark.parametrize("more", [("--quality", "quick"), ("--folds", "2")])
def test_one_training_and_folds_keep_to_the_most_trees(
    data: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    path = tmp_path / "m.txt"
    asked = ("train", data / "train.txt", *FEW, *more, "--start", "none", "--model", path)
    result = succeed(*asked, "--max-trees", "4")
    assert trees_of(path) == price_of(path)["trees"] == 4
    assert "4 trees; " in result.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--quality", "quick", "--objective", "auto", "--max-trees", "1"), "max_trees=1 "),
        (("--folds", "2", "--objective", "auto", "--max-trees", "9"), "max_trees=9 "),
        (("--quality", "good", "--objective", "auto", "--max-trees", "9"), "max_trees=9 "),
        (("--backend", "linear", "--max-trees", "5"), "--max-trees "),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(
    data: Path, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    result = invoke(
        "train", data / "train.txt", "--rounds", "2", *more, "--model", tmp_path / "m.txt"
    )
    assert result.exit_code == BAD_INPUT
    assert message in result.stderr
    assert not (tmp_path / "m.txt").exists()
