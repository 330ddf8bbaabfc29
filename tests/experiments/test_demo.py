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
from experiments.defaults import demo, tools
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
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(tools, "ROUNDS", 5)
    train_few = partial(demo.ours, rounds=3)
    monkeypatch.setattr(demo, "ours", lambda *data, **_: train_few(*data))
    demo.main()
    printed = capsys.readouterr().out
    assert "from 48 queries" in printed
    invoke("train", train, "--valid", valid, "--rounds", 3, "--threads", 1, "--model", same)
    assert Path(same).read_bytes() == Path(model).read_bytes()
    test_set = make_ranking_data(60, mean_length=15).split().test
    asked = {
        "boostrank": boostrank.RankingModel.load(model).predict(test_set.dataset),
        "best possible": test_set.relevance,
        "random order": np.zeros(test_set.relevance.size),
    }
    for name, scores in asked.items():
        result = evaluate(demo.METRIC, test_set.dataset.labels, scores, test_set.dataset.queries)[
            demo.METRIC
        ]
        row = rf"^{name} +{result.mean:.4f} ±{(result.high - result.low) / 2:.4f}"
        assert re.search(row, printed, re.MULTILINE), (name, result.mean)
    rows = dict(re.findall(r"^(\w.*?)  +(0.*)$", printed, re.MULTILINE))
    ndcg = {name: float(row.split()[0]) for name, row in rows.items()}
    lead = float(rows["LightGBM lambdarank"].split()[2])
    assert lead == pytest.approx(ndcg["boostrank"] - ndcg["LightGBM lambdarank"], abs=1.1e-4)
    verdict, ratios = printed.splitlines()[-3:-1]
    assert "LightGBM" in verdict
    assert re.search(r"\d\.\d times as long as LightGBM, \d+\.\d times as long as XGBoost", ratios)


def test_the_verdict_goes_by_the_intervals() -> None:
    def between(low: float, high: float) -> PairedDifference:
        return PairedDifference((low + high) / 2, low, high, 0.5, 9)

    sentence = demo.verdict(
        {
            "A": between(0.1, 0.2),
            "B": between(-0.1, 0.2),
            "C": between(-0.2, -0.1),
            "D": between(0.1, 0.3),
        }
    )
    assert sentence.startswith("boostrank is ahead of A and D, level with B, behind C ")
