"""The comparison of rankers by clicks: how long its trainings are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from boostrank.core.errors import DataError
from boostrank.data.synthetic import make_ranking_data
from boostrank.fit import click_gate
from boostrank.options import TrainOptions


def test_the_trainings_of_the_gate_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    data, rounds, lines = make_ranking_data(queries=60, seed=1).dataset, list[int](), list[str]()

    def execute(plan: Any) -> Any:
        rounds.append(plan.trainings[0].rounds)
        raise DataError("ended here")

    monkeypatch.setattr(click_gate, "execute", execute)
    log = SimpleNamespace(training_set=lambda part, *_: part)
    log.of_queries = lambda part, queries: (part.take(queries), log)
    clicks = SimpleNamespace(data=data, log=log, propensities=None, holds=True)
    clicked: Any = SimpleNamespace(clicks=clicks, tell=lines.append, validation=(), prior=1.0)
    options = TrainOptions(params={"num_iterations": 300, "verbosity": -1})
    click_gate.report_gate(clicked, options, 300, estimated=False)
    assert rounds == [100]
    assert lines == ["no gate: ended here"]
