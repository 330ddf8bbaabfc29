"""`boostrank calibrate` and `predict --calibrated`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import boostrank
from tests.cli.conftest import FEW, invoke, refuse, succeed

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its training data, and other data."""
    folder, rng = tmp_path_factory.mktemp("calibrate"), np.random.default_rng(0)
    for name in ("train", "other"):
        x = rng.normal(size=(900, 3))
        grades = np.digitize(x[:, 0] + rng.normal(size=900), [0.7, 2.0])
        lines = [
            f"{y} qid:{i // 15} 1:{a} 2:{b} 3:{c}"
            for i, (y, (a, b, c)) in enumerate(zip(grades, x, strict=True))
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    succeed("train", folder / "train.txt", "-m", folder / "raw", *FEW)
    return folder


def test_the_record_gets_the_map_and_predict_applies_it(folder: Path) -> None:
    raw, calibrated, data = folder / "raw", folder / "known", folder / "other.txt"
    result = succeed("calibrate", raw, data, "-o", calibrated, "--json")
    assert calibrated.read_bytes() == raw.read_bytes()
    model = boostrank.RankingModel.load(calibrated)
    assert json.loads(result.stdout) == json.loads(json.dumps(model.info["calibration"]))
    expected = model.predict(boostrank.read(data), calibrated=True).tolist()
    assert (
        list(map(float, invoke("predict", calibrated, data, "--calibrated").stdout.split()))
        == expected
    )
    table = folder / "scores.csv"
    succeed("predict", calibrated, data, "--calibrated", "-o", table)
    assert [
        float(line.rpartition(",")[2]) for line in table.read_text().splitlines()[1:]
    ] == expected


def test_the_model_itself_is_the_default_output(folder: Path) -> None:
    model = folder / "own"
    succeed("train", folder / "train.txt", "-m", model, *FEW)
    before = model.read_bytes()
    result = succeed("calibrate", model, folder / "other.txt")
    assert model.read_bytes() == before
    calibration = boostrank.RankingModel.load(model).info["calibration"]
    numbers = (*calibration["error"], calibration["uncalibrated_error"])
    assert all(f"{number:.4f}" in result.stdout for number in numbers)
    assert f"{calibration['explained']:.1%}" in result.stdout


def test_uncalibrated_models_and_rows_of_the_training_are_refused(folder: Path) -> None:
    for command, words in (
        (
            ("predict", folder / "raw", folder / "other.txt", "--calibrated"),
            f"boostrank calibrate {folder / 'raw'}",
        ),
        (
            ("predict", folder / "raw", folder / "other.txt", "--calibrated", "--num-iteration", 2),
            "--num-iteration",
        ),
        (("calibrate", folder / "raw", folder / "train.txt"), "trained"),
    ):
        result = refuse(*command)
        assert words in result.stderr
    assert boostrank.RankingModel.load(folder / "raw").info.calibration is None
