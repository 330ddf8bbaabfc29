"""The demo's table says what the models and the files say."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import PairedDifference, evaluate
from experiments.defaults import demo, side_by_side, tools
from tests.cli.conftest import invoke


@pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")
def test_the_table_is_that_of_the_model_on_the_test_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke("data", "make", tmp_path, "--queries", 60, "--mean-length", 15)
    train, valid, test = (
        str(tmp_path / "train.txt"),
        str(tmp_path / "valid.txt"),
        str(tmp_path / "test.txt"),
    )
    truth, model = str(tmp_path / "test-relevance.txt"), str(tmp_path / "model.txt")
    same = str(tmp_path / "same.txt")
    arguments = ["demo", train, valid, test, "--truth", truth, "--model", model, "--threads", "1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--few", "24"])
    monkeypatch.setattr(tools, "ROUNDS", 5)
    train_few = partial(side_by_side.ours, rounds=3)
    monkeypatch.setattr(side_by_side, "ours", lambda *data, **_: train_few(*data[:2], threads=1))
    demo.main()
    few, _, printed = capsys.readouterr().out.partition("from 48 judged queries")
    assert "from 32 judged queries" in few
    invoke("train", train, "--valid", valid, "--rounds", 3, "--threads", 1, "--model", same)
    assert Path(same).read_bytes() == Path(model).read_bytes()
    test_set = make_ranking_data(60, mean_length=15).split().test
    scores_by_label = {
        "boostrank": boostrank.RankingModel.load(model).predict(test_set.dataset),
        "perfect order": test_set.relevance,
        "random order": np.zeros(test_set.relevance.size),
    }
    for label, scores in scores_by_label.items():
        result = evaluate(
            side_by_side.METRIC, test_set.dataset.labels, scores, test_set.dataset.queries
        )[side_by_side.METRIC]
        row = rf"^{label} [ \d.]+ {result.mean:.4f} ±{(result.high - result.low) / 2:.4f}"
        assert re.search(row, printed, re.MULTILINE), (label, result.mean)
    # CPU seconds, trees, NDCG and its interval, gain and its interval.
    rows = dict(re.findall(r"^(\w.*?)  +(\d.*±.*)$", printed, re.MULTILINE))
    cells = {label: row.split() for label, row in rows.items() if len(row.split()) > 2}
    assert {*cells} >= {"boostrank", "boostrank quick", "LightGBM", side_by_side.CONTROL}
    seconds = [float(cell[0]) for cell in cells.values()]
    assert seconds == sorted(seconds)
    lead = float(cells["boostrank"][2]) - float(cells[side_by_side.CONTROL][2])
    assert float(cells["boostrank"][4]) == pytest.approx(lead, abs=1.1e-4)
    assert re.search(
        rf"^boostrank is .* {side_by_side.CONTROL}, for \d+% of their", printed, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.1, 0.2, "above"), (-0.1, 0.2, "level with"), (-0.2, -0.1, "below")],
)
def test_the_verdict_goes_by_the_interval(low: float, high: float, words: str) -> None:
    difference = PairedDifference((low + high) / 2, low, high, 0.5, 9)
    assert side_by_side.verdict(difference) == f"is {words}"
