"""Long lists: every training is kept, each cell has its interval, and a refusal is a row of the
table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.long_lists import run


def test_methods_are_paired_with_lambdarank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SETS", {200: (6, 3, 6)})
    monkeypatch.setattr(run, "SEEDS", {200: 2})
    monkeypatch.setattr(run, "ROUNDS", 3)
    monkeypatch.setattr(run, "METHODS", ("lambdarank", "query-rmse", "query-rmse(no=1)"))
    monkeypatch.setattr(sys, "argv", ["run", "--lengths", "200", "--out", str(tmp_path)])
    run.main()
    table = (tmp_path / "long_lists.md").read_text()
    truth, reference, other, refused = table.splitlines()[2:]
    assert all(len(re.findall(r"\[[+-]?\.?\d", row)) == 2 for row in (truth, reference, other))
    assert "'no'" in refused
    monkeypatch.setattr(run, "trained", lambda *_: pytest.fail("trained once more"))
    run.main()
    assert (tmp_path / "long_lists.md").read_text() == table


def test_lists_have_one_length_and_few_relevant_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SETS", {300: (20, 10, 60)})
    train, valid, test, truth = run.parts(300, 5)
    assert {*train.queries.sizes, *valid.queries.sizes, *test.queries.sizes} == {300}
    assert truth.size == test.n_documents
    shares = np.bincount(test.labels.astype(int)) / test.n_documents
    assert shares == pytest.approx(run.SHARES, abs=0.01)


def test_a_gradient_is_measured_at_each_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "DOCUMENTS", 2_000)
    monkeypatch.setattr(run, "LENGTHS", (1_000, 2_000))
    cost = run.cost("lambdarank")
    assert [*cost["nanoseconds"]] == ["1000", "2000"]
    assert {"gradient", "round", "bytes"} < cost.keys()
