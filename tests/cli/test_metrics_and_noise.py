"""`boostrank metrics` and `boostrank study noise`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse, succeed

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture
def tied(tmp_path: Path) -> tuple[Path, Path]:
    """Scores of two levels and the data they belong to: ties, an empty query, a single one, short
    lists.
    """
    labels = [[2, 0, 1, 0], [0, 3, 1], [0, 0], [1]]
    lines = [
        f"{y} qid:{q} 1:{i + y}" for q, query in enumerate(labels) for i, y in enumerate(query)
    ]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "scores.txt").write_text("".join(f"{i % 2}\n" for i in range(len(lines))))
    return tmp_path / "scores.txt", tmp_path / "data.txt"


def test_metrics_prints_a_table_whose_rows_add_up_as_printed(tied: tuple[Path, Path]) -> None:
    result = invoke("metrics", *tied, "--metric", "ndcg@3")
    lines = result.stdout.splitlines()
    heading = next(
        i for i, line in enumerate(lines) if line.split()[:1] == ["ndcg@3"] and "ties" in line
    )
    start = float(lines[heading + 1].split()[1])
    rows = [line.split() for line in lines[heading + 2 : heading + 8]]
    assert [row[0] for row in rows] == [
        "lightgbm",
        "xgboost",
        "catboost",
        "sklearn",
        "trec",
        "letor",
    ]
    for _, value, *changes in rows:
        assert sum(float(change) for change in changes if change != "-") == pytest.approx(
            float(value) - start, abs=1e-9
        )
    assert "linear gain, the label itself" in result.stdout
    assert "Ties: 40.00% of the documents (4 of 10)" in result.stdout


def test_metrics_as_json_agrees_with_evaluate(tied: tuple[Path, Path]) -> None:
    explanations = json.loads(invoke("metrics", *tied, "--metric", "ndcg@1,3", "--json").stdout)
    assert list(explanations) == ["ndcg@1", "ndcg@3"]
    for metric, explanation in explanations.items():
        for reading in (
            reading
            for reading in explanation["readings"]
            if reading["name"] in ("sklearn", "xgboost")
        ):
            evaluated = invoke(
                "evaluate", *tied, "--metric", metric, "--conventions", reading["name"], "--json"
            )
            assert reading["value"] == json.loads(evaluated.stdout)[metric]["mean"]


def test_metrics_refuses_names_it_does_not_know(tied: tuple[Path, Path]) -> None:
    refuse("metrics", *tied, "--metric", "ndgc@3")


def test_metrics_orders_ties_by_the_names_in_the_comments(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("0 qid:1 1:0 # docid = a\n1 qid:1 1:1 # docid = b\n")
    (tmp_path / "scores.txt").write_text("1\n1\n")
    arguments = ("metrics", tmp_path / "scores.txt", tmp_path / "data.txt", "--metric", "ndcg@1")
    assert "trec says 1.0000" in invoke(*arguments).stdout
    (tmp_path / "data.txt").write_text("0 qid:1 1:0\n1 qid:1 1:1\n")
    assert "from 0.0000 to 1.0000" in " ".join(invoke(*arguments).stdout.split())


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
    assert "9 models for 3 rounds" in result.stderr
    assert "9/9  training queries  ndcg@5 0." in result.stderr
    assert [re.split("  +", line)[1] for line in result.stdout.splitlines()[2:6]] == [
        "seed",
        "row order",
        "training queries",
        "validation queries",
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
