"""`boostrank compare`: the release gate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import boostrank
from tests.cli.conftest import FEW, invoke, refuse, succeed

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def poor(data: Path, model: Path) -> Path:
    """Scores that are the model's upside down, and some noise."""
    scores = boostrank.RankingModel.load(model).predict(boostrank.read(data / "train.txt"))
    noisy = -scores + 0.1 * scores.std() * np.random.default_rng(0).normal(size=scores.size)
    path = data / "poor.txt"
    path.write_text("".join(f"{score!r}\n" for score in noisy.tolist()))
    return path


@pytest.fixture(scope="module")
def second(data: Path) -> Path:
    path = data / "second.txt"
    succeed("train", data / "train.txt", "-m", path, "--objective", "regression", *FEW)
    return path


def test_compare_and_evaluate_give_the_same_numbers(
    data: Path, model: Path, poor: Path, second: Path
) -> None:
    for new in (poor, second):
        measured = (
            "--metric",
            "ndcg@3,10",
            "--metric",
            "map",
            "--conventions",
            "xgboost",
            "--json",
        )
        printed = json.loads(invoke("compare", model, new, data / "train.txt", *measured).stdout)
        first, other = json.loads(
            invoke("evaluate", model, new, data / "train.txt", *measured).stdout
        ).values()
        assert list(printed["metrics"]) == list(first) == ["ndcg@3", "ndcg@10", "map"]
        # Each number of `compare` has another name in `evaluate`.
        for name, d in printed["metrics"].items():
            keys = {
                "mean": "difference",
                "low": "difference_low",
                "high": "difference_high",
                "p": "p",
            }
            assert [d[key] for key in keys] == [other[name][key] for key in keys.values()]
            assert d["queries"] == other[name]["queries"]
            assert (d["old"], d["new"]) == pytest.approx(
                (first[name]["mean"], other[name]["mean"]), abs=1e-14
            )


def test_the_exit_status_is_1_when_a_condition_holds_and_0_when_none_does(
    data: Path, model: Path, poor: Path
) -> None:
    condition = ("--fail-if", "ndcg@10 < -0.002 at p<0.05")
    shut = invoke("compare", model, poor, data / "train.txt", *condition, "--fail-if", "map > 0")
    assert shut.exit_code == 1
    assert "FAILS: ndcg@10 < -0.002 at p<0.05\npasses: not (map > 0)\n" in shut.stdout
    open_ = invoke("compare", poor, model, data / "train.txt", *condition)
    assert (open_.exit_code, open_.stderr.count("error")) == (0, 0)
    succeed("compare", model, poor, data / "train.txt")
    printed = invoke("compare", model, poor, data / "train.txt", *condition, "--json")
    assert (printed.exit_code, json.loads(printed.stdout)["failed"]) == (1, True)


def test_the_table_has_metrics_segments_and_changes_of_the_top(
    data: Path, model: Path, second: Path
) -> None:
    result = invoke(
        "compare", model, second, data / "train.txt", "--metric", "ndcg@10", "--metric", "map"
    )
    opening, *lines = result.stdout.splitlines()
    assert opening.startswith(f"{second} ")
    assert lines[0] == f"{second} against {model} on {data / 'train.txt'}, query by query"
    assert lines[1].split() == [
        "metric",
        "queries",
        "old",
        "new",
        "difference",
        "95%",
        "interval",
        "better",
        "same",
        "worse",
        "p",
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["ndcg@10", "map"]
    assert lines[4].startswith("top 10: ")
    assert "ndcg@10 by list length; p is adjusted for all segments by Holm's method" in lines
    assert any(" -> " in line and "(label " in line for line in lines)


def test_segments_come_from_a_file_and_documents_are_named_by_their_comments(
    tmp_path: Path,
) -> None:
    # The new scores turn the first six queries around, which are those of phones.
    rows = [
        f"{label} qid:{q} 1:{label} # docid = d{q}{label} more"
        for q in range(12)
        for label in (2, 1, 0)
    ]
    (tmp_path / "t.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "old.txt").write_text("3\n2\n1\n" * 12)
    (tmp_path / "new.txt").write_text("1\n2\n3\n" * 6 + "3\n2\n1\n" * 6)
    devices = ["phone"] * 6 + ["desk"] * 6
    (tmp_path / "s.csv").write_text(
        "qid,device\n" + "".join(f"{q},{device}\n" for q, device in enumerate(devices))
    )
    result = invoke(
        "compare",
        tmp_path / "old.txt",
        tmp_path / "new.txt",
        tmp_path / "t.txt",
        "--segments",
        tmp_path / "s.csv",
        "--fail-if",
        "ndcg@10 < 0 at p<0.2",
        "--json",
    )
    # The segment with the loss has its own row, and a document has its name.
    printed = json.loads(result.stdout)
    parts = {s["segment"]: s for s in printed["segments"] if s["kind"] == "segment"}
    assert (parts["phone"]["worse"], parts["desk"]["worse"]) == (6, 0)
    assert parts["phone"]["p"] == 2 / 64
    assert printed["conditions"][0]["holds"]
    assert "d02" in [move["document"] for move in printed["regressions"][0]["moves"]]


def test_the_page_is_written_whole(data: Path, model: Path, poor: Path, tmp_path: Path) -> None:
    succeed("compare", model, poor, data / "train.txt", "-o", tmp_path / "gate.html")
    text = (tmp_path / "gate.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert str(poor) in text


def test_names_that_steer_a_terminal_are_shown_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(
        "".join(f"{i % 2} qid:{i // 2} 1:1 # a\x1b[31m\n" for i in range(6))
    )
    (tmp_path / "old.txt").write_text("1\n2\n" * 3)
    (tmp_path / "new.txt").write_text("2\n1\n" * 3)
    printed = succeed("compare", tmp_path / "old.txt", tmp_path / "new.txt", tmp_path / "t.txt")
    assert "\x1b" not in printed.stdout
    assert "a\\x1b[31m (label 1)" in printed.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fail-if", "ndcg@10 < x"), "condition 'ndcg@10 < x': "),
        (("--metric", "ndgc"), "Did you mean 'ndcg'"),
        (("-o", "/no/such/folder/x.html"), "/no/such/folder/x.html: cannot be written"),
        (("--segments", "/no/such/file"), "/no/such/file: no such file"),
    ],
)
def test_wrong_options_are_refused_before_a_file_is_read(
    options: tuple[str, str], message: str, data: Path, model: Path, poor: Path
) -> None:
    result = refuse("compare", model, poor, data / "train.txt", *options)
    assert message in result.stderr
    assert "rows" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_same_file_twice_and_no_data_are_refused(data: Path, model: Path, poor: Path) -> None:
    assert "given twice" in invoke("compare", model, model, data / "train.txt").stderr
    assert "DATA" in invoke("compare", model, poor).stderr


def test_noise_says_of_a_difference_that_luck_explains_it(
    data: Path, model: Path, poor: Path, tmp_path: Path
) -> None:
    (tmp_path / "noise.json").write_text(json.dumps({"metrics": {"ndcg@10": {"matters": 0.9}}}))
    result = succeed("compare", model, poor, data / "train.txt", "--noise", tmp_path / "noise.json")
    assert "two trainings may differ by 0.9000" in result.stdout
