"""`boostrank study noise`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


def test_noise_takes_the_options_of_train_and_says_what_matters(data: Path) -> None:
    result = succeed(
        "study",
        "noise",
        data / "train.txt",
        "--valid",
        data / "valid.txt",
        "--repeats",
        3,
        "--rounds",
        3,
        "--num-leaves",
        5,
        "--threads",
        1,
        "--objective",
        "regression",
        "--set",
        "target=gains",
        "--param",
        "feature_fraction=0.5",
        "--eval-at",
        "5",
        "--early-stopping",
        2,
    )
    # Three models for each of three sources of noise; the fourth needs none.
    assert "9 models for 3 rounds" in result.stderr
    assert "9/9  training queries  ndcg@5 0." in result.stderr
    assert [re.split("  +", line)[1] for line in result.stdout.splitlines()[2:5]] == [
        "seed",
        "row order",
        "training queries",
    ]
    assert "Two single trainings on these data" in result.stdout


def test_noise_as_json_and_by_a_config_file(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        'rounds = 2\nobjective = "regression"\nnum-leaves = 4\neval-at = [3]\n'
    )
    result = invoke(
        "study",
        "noise",
        data / "train.txt",
        "--valid",
        data / "valid.txt",
        "--repeats",
        3,
        "--config",
        tmp_path / "run.toml",
        "--json",
    )
    noise = json.loads(result.stdout)["metrics"]["ndcg@3"]
    assert noise["sources"]["seed"]["sd"] == 0.0
    assert len(noise["sources"]["training queries"]["values"]) == 3
    assert noise["matters"] >= noise["sources"]["training queries"]["matters"] > 0.0
