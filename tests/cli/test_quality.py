"""`boostrank train --quality`: what the presets say, when they cannot be had, how they stop, and what reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.cli import train, train_quality
from boostrank.training.callbacks import StopWhenAsked
from boostrank.training.quality.candidates import GOOD, MORE
from tests.cli.conftest import FEW, interrupt_saving, invoke, messages, sidecar

QUICKLY = ("--rounds", "3", "--num-leaves", "4", "--threads", "1", "--start", "none")
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def good(data: Path) -> tuple[Path, Any]:
    """A model of the default, and what was printed."""
    path = data / "good.txt"
    done = invoke("train", data / "train.txt", "--valid", data / "valid.txt", "-m", path, *QUICKLY)
    assert done.exit_code == 0, done.stderr
    return path, done


def test_good_is_the_default_and_says_what_it_does_what_it_tried_and_what_that_got(
    data: Path, good: tuple[Path, Any]
) -> None:
    path, done = good
    lines = messages(done)
    record: Any = sidecar(path)["quality"]
    queries = sum(len(boostrank.RankingDataset.read(data / f"{name}.txt").queries) for name in ("train", "valid"))
    assert " in all, about" in next(line for line in lines if line.startswith("plan: "))
    (planned,) = (line for line in lines if line.startswith("quality "))
    assert planned == (
        f"quality good: {len(GOOD)} candidates on 4 folds of {queries} queries, then the average of the good ones; "
        "learning_rate=0.1, feature_fraction=0.5, up to 3 rounds"
    )
    assert any(re.fullmatch(rf"at most .+ to go, {4 * len(GOOD)} trainings", line) for line in lines)
    at = next(i for i, line in enumerate(lines) if line.startswith("candidate "))
    table = [re.split(r"\s{2,}", line.strip()) for line in lines[at + 1 : at + 1 + len(GOOD)]]
    assert {row[0] for row in table} == {one.name for one in GOOD}
    assert [row[1] for row in table] == sorted((f"{c['value']:.4f}" for c in record["candidates"]), reverse=True)
    assert sum(c["weight"] for c in record["candidates"]) == pytest.approx(1.0)
    assert any(line.startswith("valid: ndcg@10 0.") and "had not seen it" in line for line in lines)
    found = record["held_out"]["ndcg@10"]
    assert done.stdout.splitlines() == [
        f"ndcg@10 {found['value']:.4f} [{found['low']:.4f}, {found['high']:.4f}] on {found['queries']} queries that "
        "the models had not seen",
        f"model written to {path}",
    ]
    assert record["preset"] == "good"


def test_files_of_two_runs_are_the_same_byte_for_byte(data: Path, good: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = good
    again = ("train", data / "train.txt", "--valid", data / "valid.txt", "--quality", "good", *QUICKLY, "--json")
    done = invoke(*again, "-m", tmp_path / "m")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "m").read_bytes() == path.read_bytes()
    assert Path(f"{tmp_path / 'm'}.meta.json").read_bytes() == Path(f"{path}.meta.json").read_bytes()
    (line,) = done.stdout.splitlines()
    printed = json.loads(line)
    assert printed["candidates"] == sidecar(path)["quality"]["candidates"]  # type: ignore[index]
    assert (printed["model"], printed["stopped"], set(printed["seconds"])) == (
        str(tmp_path / "m"), False, {one.name for one in GOOD},
    )  # fmt: skip


def test_every_command_takes_the_model(data: Path, good: tuple[Path, Any], model: Path, tmp_path: Path) -> None:
    path, _ = good
    test = data / "test.txt"
    rows = boostrank.RankingDataset.read(test)
    query = rows.queries.qid[int(np.argmax(rows.queries.sizes))]
    for command in (
        ("predict", path, test), ("evaluate", path, test), ("compare", model, path, "--data", test),
        ("importance", path, "--data", test, "--repeats", 1), ("why", path, test, "@1", "@2", "--qid", query),
        ("report", path, "--data", test, "-o", tmp_path / "report.html", "--only", "queries"),
        ("export", path, "--to", "lightgbm", "-o", tmp_path / "exported"),
        ("average", path, model, "-m", tmp_path / "averaged"),
    ):  # fmt: skip
        done = invoke(*command)
        assert done.exit_code == 0, (command, done.stderr)
    more = invoke("train", data / "train.txt", "--init-model", path, "-m", tmp_path / "more", *QUICKLY)
    assert more.exit_code == 0, more.stderr
    before, after = (boostrank.RankingModel.load(one) for one in (path, tmp_path / "more"))
    assert after.best_iteration == before.best_iteration + 3


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["FEW"], "quick: the data set has 5 queries whose labels differ, and a choice needs 8"),
        (["--init-model", "MODEL"], "quick: --init-model is of one training"),
        (["--checkpoint-every", "2"], "quick: --checkpoint-every is of one training"),
        (["--resume"], "quick: --resume is of one training"),
        (["--route", "bins", "--no-cache"], "quick: --route bins leaves the rows on disk, where folds cannot be taken"),
        (["STREAMED"], "quick: the rows are streamed, and stay on disk, where folds cannot be taken"),
        (["--backend", "linear"], "plain: linear grows no trees"),
        (["--param", "boosting=dart"], "quick: dart cannot be stopped early, nor averaged on XGBoost"),
        (["--backend", "xgboost", "--param", "booster=dart"], "quick: dart cannot be stopped early"),
        (["--metric", "none"], "quick: there is no metric to choose by"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_where_good_cannot_be_had_a_line_says_so_and_who_asked_for_it_is_refused(
    options: list[str], line: str, data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = data / "train.txt"
    if "FEW" in options:
        file, options = tmp_path / "few.txt", []
        lines = (data / "train.txt").read_text().splitlines(keepends=True)
        queries = list(dict.fromkeys(line.split()[1] for line in lines))[:6]
        graded = [q for q in queries if len({line.split()[0] for line in lines if line.split()[1] == q}) > 1][:5]
        file.write_text("".join(line for line in lines if line.split()[1] in graded))
    if "STREAMED" in options:
        options = []
        monkeypatch.setattr(train, "_streaming", lambda *_: {"cache": False, "external_memory": False})
    few = ("--rounds", "3", "--threads", "1", "--objective", "sdcg")
    words = [str(model) if word == "MODEL" else word for word in options]
    done = invoke("train", file, "-m", tmp_path / "m", *few, *words)
    assert done.exit_code == 0, done.stderr
    assert any(one.startswith(f"quality {line}") for one in messages(done))
    assert "quality" not in {key for key, value in sidecar(tmp_path / "m").items() if value}
    for name in ("good", "best"):
        refused = invoke("train", file, "-m", tmp_path / "refused", "--quality", name, *few, *words)
        assert refused.exit_code == 2
        assert f"--quality {name} cannot be had: {line.split(': ', 1)[1]}" in refused.stderr
        assert not (tmp_path / "refused").exists()


def test_early_stopping_is_kept_or_refused_where_good_becomes_quick(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "_streaming", lambda *_: {"cache": False, "external_memory": False})
    words = ("train", data / "train.txt", "-m", tmp_path / "m", "--objective", "sdcg", "--rounds", "40", "--threads", 1)
    refused = invoke(*words, "--early-stopping", 2)
    assert (refused.exit_code, "early stopping needs --valid" in refused.stderr) == (2, True)
    for patience in (("--early-stopping", 2), ("--param", "early_stopping_round=2")):
        done = invoke(*words, *patience, "--valid", data / "valid.txt")
        assert done.exit_code == 0, done.stderr
        history = sidecar(tmp_path / "m")["evals_result"]["valid"]["ndcg@10"]  # type: ignore[index]
        assert len(history) == boostrank.RankingModel.load(tmp_path / "m").best_iteration + 2 < 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "5m"], "--time is a limit of --quality best"),
        (["--quality", "good", "--candidates", "2"], "--candidates is a limit of --quality best"),
        (["--quality", "best", "--time", "soon"], "'soon' is not a duration such as 90s, 30m or 2h"),
        (["--quality", "best", "--time", "0s"], "not a duration"),
        (["--quality", "good", "--folds", "3"], "--quality good deals folds of its own: leave out --folds"),
        (["--quality", "better"], "'better' is not one of"),
        (["--quality", "good", "--dask", "local:2"], "cannot be had: workers of a cluster train one model"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_the_data_are_read(
    options: list[str], words: str, data: Path, tmp_path: Path
) -> None:
    refused = invoke("train", data / "train.txt", "-m", tmp_path / "m", *options)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_quick_is_one_training_of_trees_that_suit_and_folds_have_them_too(data: Path, tmp_path: Path) -> None:
    words = ("train", data / "train.txt", "-m", tmp_path / "m", "--objective", "sdcg", "--threads", 1)
    done = invoke(*words, "--quality", "quick")
    trees = "learning_rate=0.1, num_leaves=15, feature_fraction=0.5"
    assert f"quality quick: {trees}; 100 rounds" in messages(done)
    assert boostrank.RankingModel.load(tmp_path / "m").best_iteration == 100
    done = invoke(*words, "--quality", "quick", "--valid", data / "valid.txt", "--param", "eta=0.3")
    trees = "num_leaves=15, feature_fraction=0.5"
    assert f"quality quick: {trees}; 1,000 rounds at most, stops after 100 without gain" in messages(done)
    record: Any = sidecar(tmp_path / "m")
    history = record["evals_result"]["valid"]["ndcg@10"]
    assert len(history) == boostrank.RankingModel.load(tmp_path / "m").best_iteration + 100
    assert (record["parameters"]["num_leaves"], record["parameters"]["eta"]) == (15, 0.3)
    done = invoke(*words, "--folds", 2, "--rounds", 4, "--num-leaves", 5)
    assert "quality quick: learning_rate=0.1, feature_fraction=0.5; 4 rounds" in messages(done)
    assert len(sidecar(tmp_path / "m")["averaged"]) == 2  # type: ignore[arg-type]
    done = invoke(*words, *FEW)
    assert not [line for line in messages(done) if line.startswith("quality")]
    assert "feature_fraction" not in sidecar(tmp_path / "m")["parameters"]  # type: ignore[operator]


def test_best_within_its_time_can_be_repeated_by_number(data: Path, tmp_path: Path) -> None:
    words = ("train", data / "train.txt", *QUICKLY, "--quality", "best")
    first = invoke(*words, "--time", "0.001s", "-m", tmp_path / "a")
    assert first.exit_code == 0, first.stderr
    names = "; ".join(one.name for one in (*GOOD, *MORE)[1:] if "num_leaves" not in one.trees)
    assert f"not tried for want of time: {names} (--candidates 1 repeats this model)" in messages(first)
    again = invoke(*words, "--candidates", 1, "-m", tmp_path / "b")
    assert again.exit_code == 0, again.stderr
    assert "not tried" not in again.stderr
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def asking_in(monkeypatch: pytest.MonkeyPatch, training: int) -> None:
    """From now on somebody asks to stop in the second round of this training, from 1."""
    begun: list[int] = []

    class Asked(StopWhenAsked):
        def __call__(self, env: Any) -> None:
            begun.append(env.iteration == 0)
            self._request.made |= sum(begun) == training and env.iteration == 1
            super().__call__(env)

    monkeypatch.setattr(train_quality, "StopWhenAsked", Asked)


@pytest.mark.parametrize("training", [1, 2, 5])
def test_ctrl_c_leaves_a_model_of_what_is_there(
    training: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking_in(monkeypatch, training)
    done = invoke("train", data / "train.txt", "-m", tmp_path / "m", *QUICKLY)
    assert done.exit_code == 130
    lines = messages(done)
    assert "stopped before the end: the model holds what is there" in lines
    not_tried = [line for line in lines if line.startswith("not tried: ")]
    assert not_tried == [f"not tried: {'; '.join(one.name for one in GOOD[training:])}"][: len(GOOD[training:])]
    assert "want of time" not in done.stderr
    assert done.stdout.endswith(f"model written to {tmp_path / 'm'}\n")
    record: Any = sidecar(tmp_path / "m")
    tried = record["quality"]["candidates"]
    assert sum(len(c["rounds"]) for c in tried) == training
    assert len(record["averaged"] or [1]) == sum(len(c["rounds"]) for c in tried if c["weight"])
    assert invoke("predict", tmp_path / "m", data / "test.txt").exit_code == 0


def test_ctrl_c_while_the_model_is_written_changes_nothing(
    data: Path, good: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_saving(monkeypatch)
    done = invoke("train", data / "train.txt", "--valid", data / "valid.txt", "-m", tmp_path / "m", *QUICKLY)
    assert done.exit_code == 0
    assert "stopped before the end" not in done.stderr
    assert (tmp_path / "m").read_bytes() == good[0].read_bytes()


@pytest.mark.parametrize("option", [("--param", "boosting=dart"), ("--metric", "none")])
def test_where_good_cannot_be_had_quick_trains_all_its_rounds_beside_a_validation_file(
    option: tuple[str, str], data: Path, tmp_path: Path
) -> None:
    done = invoke(
        "train", data / "train.txt", "--valid", data / "valid.txt", "-m", tmp_path / "m", "--start", "none",
        "--threads", 1, "--num-leaves", 3, *option,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert any(line.startswith("quality quick: ") and line.endswith("; 100 rounds") for line in messages(done))
