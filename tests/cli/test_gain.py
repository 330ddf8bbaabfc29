"""`--gain` of an expression: train, evaluate and compare, with a column that is no feature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import boostrank
from tests.cli.conftest import FEW, invoke, refuse, sidecar, succeed

GAIN = "0.7*label + 0.3*log1p(margin)"
DROP = ("--drop", "margin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.csv, test.csv, and m.txt, trained on the gain."""
    folder, rng = tmp_path_factory.mktemp("gain"), np.random.default_rng(0)
    for name, queries in (("train", 40), ("test", 20)):
        a, b = rng.normal(size=(2, queries * 8))
        pd.DataFrame(
            {
                "label": np.clip(np.round(a + 1), 0, 3).astype(int),
                "qid": np.repeat(np.arange(queries), 8),
                "a": a,
                "b": b,
                "margin": np.exp(b),
            }
        ).to_csv(folder / f"{name}.csv", index=False)
    result = succeed(
        "train", folder / "train.csv", *DROP, "--gain", GAIN, "-m", folder / "m.txt", *FEW
    )
    assert f"the gain {GAIN}" in result.stderr
    return folder


def test_the_sidecar_keeps_the_gain_and_predict_needs_no_column_of_it(folder: Path):
    assert sidecar(folder / "m.txt")["data"]["reader"]["gain"] == GAIN  # type: ignore[index]
    pd.read_csv(folder / "test.csv").drop(columns=["margin", "label"]).to_csv(
        folder / "new.csv", index=False
    )
    succeed("predict", folder / "m.txt", folder / "new.csv", "-o", folder / "scores.txt")


def test_evaluate_names_the_gain_that_it_measures_by(folder: Path):
    plain = invoke("evaluate", folder / "m.txt", folder / "test.csv", "--metric", "ndcg@5")
    assert "gain exponential" in plain.stdout
    same = invoke(
        "evaluate",
        folder / "m.txt",
        folder / "test.csv",
        "--metric",
        "ndcg@5",
        "--gain",
        GAIN,
        "--json",
    )
    data = boostrank.read(folder / "test.csv", drop="margin", gain=GAIN)
    model = boostrank.RankingModel.load(folder / "m.txt")
    rules = boostrank.Conventions(gain="linear")
    expected = boostrank.Metric.parse("ndcg@5").evaluate(
        data.labels, model.predict(data), data.queries, rules
    )
    assert json.loads(same.stdout)["ndcg@5"]["mean"] == pytest.approx(expected.mean, abs=1e-12)


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "m.txt", "scores.txt", "test.csv"),
        ("importance", "m.txt", "test.csv", "--repeats", 1),
        ("report", "m.txt", "test.csv", "--only", "verdict", "-o", "r.html"),
        ("doctor", "train.csv", *DROP),
        ("train", "train.csv", *DROP, "--route", "bins", "-m", "b.txt", *FEW),
        ("train", "train.csv", *DROP, "--backend", "xgboost", "-m", "x.json", *FEW),
    ],
)
def test_every_command_with_a_gain_takes_an_expression(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...]
):
    monkeypatch.chdir(folder)
    (folder / "scores.txt").write_text("0\n" * 160)
    result = succeed(*command, "--gain", GAIN)
    assert (
        "not the gain expression" if command[0] == "doctor" else f"the gain {GAIN}"
    ) in result.stderr


def test_faults_have_their_line_before_anything_is_trained(folder: Path):
    frame = pd.read_csv(folder / "train.csv")
    frame.loc[9, "margin"] = -5.0
    frame.to_csv(folder / "bad.csv", index=False)
    result = refuse(
        "train", folder / "bad.csv", *DROP, "--gain", GAIN, "-m", folder / "no.txt", *FEW
    )
    assert "bad.csv:11: query " in result.stderr
    for gain, words in (
        ("labl", "Did you mean 'label'"),
        ("os.system('x')", "cannot read"),
        ("0,3,1", "never decrease"),
    ):
        result = refuse(
            "train", folder / "train.csv", *DROP, "--gain", gain, "-m", folder / "no.txt", *FEW
        )
        assert words in result.stderr
