"""The comparison of defaults keeps its confirmation part apart, and goes on where it was killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from experiments.defaults import run, tools
from experiments.defaults.splits import folds
from experiments.peers.splits import read


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("set") / "all.txt"
    write_libsvm(path, make_ranking_data(36, seed=1, mean_length=12.0).dataset)
    return path


def test_no_choice_sees_a_query_of_the_confirmation(file: Path) -> None:
    data = read(Path(), [str(file)])
    (last,) = folds(data, "confirmation")
    seen = set(np.concatenate(last.parts).tolist())
    assert len(last.test) == 12
    assert seen | set(last.test.tolist()) == set(range(36))
    choice = folds(data, "choice")
    assert sorted(np.concatenate([fold.test for fold in choice]).tolist()) == sorted(seen)
    for fold in choice:
        train, valid = fold.inner(1)
        assert sorted([*train, *valid, *fold.test]) == sorted(seen)


def test_queries_with_the_same_documents_stay_together(file: Path) -> None:
    data = read(Path(), [str(file), str(file)])  # each twice
    for stage in ("choice", "confirmation"):
        for fold in folds(data, stage):
            of = fold.test % 36
            assert all(np.count_nonzero(of == document) == 2 for document in of)


def test_a_second_run_trains_nothing_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "ROUNDS", 5)
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "run",
            "--sets",
            "",
            "--set",
            f"own={file}",
            "--tools",
            "lightgbm;boostrank;lightgbm, 4 folds",
            "--seeds",
            "1",
            "--out",
            str(tmp_path),
        ],
    )
    # A table and numbers of all tools.
    run.main()
    table = (tmp_path / "defaults-choice.md").read_text()
    numbers = json.loads((tmp_path / "defaults-choice.json").read_text())
    assert set(numbers) == {"lightgbm", "boostrank", "lightgbm, 4 folds"}
    assert all(name in table for name in numbers)
    assert 0.3 < numbers["lightgbm"]["sets"]["own"] == numbers["lightgbm"]["mean"] < 1.0
    assert numbers["lightgbm, 4 folds"]["trees"] > numbers["lightgbm"]["trees"]
    # The same again, of what was kept.
    monkeypatch.setattr(run.Cell, "run", lambda *_: pytest.fail("trained once more"))
    run.main()
    assert (tmp_path / "defaults-choice.md").read_text() == table
