"""The comparison by metric: every training is kept, and no cell of its tables stands without an
interval.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from experiments.metrics import run


def test_objectives_are_compared_by_their_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.txt"
    write_libsvm(file, make_ranking_data(36, seed=1, mean_length=12.0).dataset)
    monkeypatch.setattr(run, "ROUNDS", 4)
    tools = ("lambdarank(metric=map)", "xgboost:rank:map", "no:such")
    monkeypatch.setattr(run, "TOOLS", {"map": tools})
    monkeypatch.setattr(
        sys, "argv", ["run", "--sets", "", "--set", f"own={file}", "--out", str(tmp_path)]
    )
    run.main()
    table = (tmp_path / "metrics-choice.md").read_text()
    rows = [row for row in table.splitlines() if any(row.startswith(f"| {tool}") for tool in tools)]
    assert [len(re.findall(r"\[[+-]\.?\d", row)) for row in rows] == [3, 3, 1, 1]
    monkeypatch.setattr(run.Cell, "run", lambda *_: pytest.fail("trained once more"))
    run.main()
    assert (tmp_path / "metrics-choice.md").read_text() == table
