"""`boostrank train --quality` and `--folds`: what they print and refuse, how they stop, and what
reads the models.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.fit import presets
from boostrank.fit.callbacks import StopWhenAsked
from boostrank.fit.presets import FEW_MEMBERS, FOLDS
from boostrank.model.averaging import count_trees
from tests.cli.conftest import (
    FEW,
    interrupt_saving,
    invoke,
    messages,
    refuse,
    sidecar,
    succeed,
    train_words,
)

QUICKLY = ("--rounds", "3", "--num-leaves", "4", "--threads", "1", "--start", "none")
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def good(data: Path) -> tuple[Path, Any]:
    """A model of the default, and what was printed."""
    path = data / "good.txt"
    done = succeed(*train_words(data, path), *QUICKLY)
    return path, done


def test_the_default_prints_one_row_a_fold_its_worth_and_its_cost(
    data: Path, good: tuple[Path, Any]
) -> None:
    path, done = good
    lines = messages(done)
    record: Any = sidecar(path)["folds"]
    assert not any(" left" in line for line in lines)
    (planned,) = [line for line in lines if line.startswith("quality ")]
    assert planned.startswith(
        f"quality good: {FOLDS} folds; learning_rate=0.1, feature_fraction=0.5; 3 rounds at most"
    )
    at = next(i for i, line in enumerate(lines) if line.startswith("fold "))
    # A slow machine shows progress between the rows.
    rows = [line for line in lines[at:] if not re.match(r"fold \d+/", line)]
    table = [re.split(r"\s{2,}", line.strip()) for line in rows[: 1 + FOLDS]]
    assert table[0] == ["fold", "trained", "rounds", "ndcg@10", "time"]
    assert [row[:3] for row in table[1:]] == [
        [str(k + 1), name, str(rounds)]
        for k, (name, rounds) in enumerate(zip(record["members"], record["rounds"], strict=True))
    ]
    assert [name.split(",")[0] for name in record["members"]] == [
        member.objective for member in FEW_MEMBERS
    ]
    assert any(line.startswith("valid: ndcg@10 0.") for line in lines)
    trees = count_trees(boostrank.RankingModel.load(path))
    assert [line for line in lines if " trees" in line] == [
        line for line in lines if line.startswith(f"{trees} trees; ")
    ]
    held_out = record["held_out"]["ndcg@10"]
    interval = f"[{held_out['low']:.4f}, {held_out['high']:.4f}]"
    value = f"ndcg@10 {held_out['value']:.4f} {interval} on {held_out['queries']} queries"
    assert [line.partition(",  each")[0][: len(value)] for line in done.stdout.splitlines()] == [
        value,
        f"model written to {path}"[: len(value)],
    ]


def test_files_of_two_runs_are_the_same_byte_for_byte(
    data: Path, good: tuple[Path, Any], tmp_path: Path
) -> None:
    path, _ = good
    again = (
        "train",
        data / "train.txt",
        "--valid",
        data / "valid.txt",
        "--quality",
        "good",
        *QUICKLY,
        "--json",
    )
    done = succeed(*again, "-m", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == path.read_bytes()
    assert (
        Path(f"{tmp_path / 'm'}.meta.json").read_bytes() == Path(f"{path}.meta.json").read_bytes()
    )
    (line,) = done.stdout.splitlines()
    printed = json.loads(line)
    assert printed.items() >= sidecar(path)["folds"].items()  # type: ignore[attr-defined]
    assert (printed["model"], printed["quality"], printed["stopped"]) == (
        str(tmp_path / "m"),
        "good",
        False,
    )
    assert printed["trees"] == count_trees(boostrank.RankingModel.load(path))


def test_every_command_takes_the_model(
    data: Path, good: tuple[Path, Any], model: Path, tmp_path: Path
) -> None:
    path, _ = good
    test = data / "test.txt"
    rows = boostrank.read(test)
    query = rows.queries.qid[int(np.argmax(rows.queries.sizes))]
    for command in (
        ("predict", path, test),
        ("evaluate", path, test),
        ("compare", model, path, test),
        ("importance", path, test, "--repeats", 1),
        ("why", path, test, query, "@1", "@2"),
        ("report", path, test, "-o", tmp_path / "report.html", "--only", "queries"),
        ("export", path, "--to", "lightgbm", "-o", tmp_path / "exported"),
        ("study", "average", path, model, "-m", tmp_path / "averaged"),
    ):
        succeed(*command)
    assert "the average of 4 models" in (tmp_path / "report.html").read_text()
    more = ("train", data / "train.txt", "--init-model", path, "-m", tmp_path / "more", *QUICKLY)
    refuse(*more)
    succeed(*more, "--quality", "quick")
    before = boostrank.RankingModel.load(path)
    after = boostrank.RankingModel.load(tmp_path / "more")
    assert after.best_iteration == before.best_iteration + 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--init-model", "MODEL"], "--quality quick"),
        (["--folds", "3", "--route", "bins"], "--folds"),
        (["--folds", "3", "--init-model", "MODEL"], "--folds"),
        (["--quality", "quick", "--backend", "linear"], "--quality plain"),
        (["--param", "boosting=dart"], "--quality quick"),
        (["--quality", "better"], "'better' is not one of"),
    ],
    ids=" ".join,
)
def test_options_that_the_default_cannot_have_are_refused_with_what_to_give(
    options: list[str], words: str, data: Path, model: Path, tmp_path: Path
) -> None:
    arguments = [str(model) if word == "MODEL" else word for word in options]
    refused = refuse("train", data / "train.txt", "-m", tmp_path / "m", *arguments)
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_log_and_checkpoint_train_the_same_model(
    data: Path, good: tuple[Path, Any], tmp_path: Path
) -> None:
    words = train_words(data, tmp_path / "m", *QUICKLY)
    succeed(*words, "--log", tmp_path / "log.jsonl", "--checkpoint-every", 1)
    assert (tmp_path / "m").read_bytes() == good[0].read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line.get("round") for line in lines] == [None, 1, 2, 3] * FOLDS
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.jsonl", "m", "m.meta.json"]


@pytest.mark.parametrize("what", ["few", "streamed"])
def test_data_that_folds_cannot_take_train_one_model_which_a_line_says(
    what: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, more = data / "train.txt", []
    if what == "few":
        file = tmp_path / "few.txt"
        lines = (data / "train.txt").read_text().splitlines(keepends=True)
        queries = list(dict.fromkeys(line.split()[1] for line in lines))[:6]
        file.write_text("".join(line for line in lines if line.split()[1] in queries))
    else:
        more = ["--route", "bins", "--cache", "none"]
    done = succeed(
        "train",
        file,
        "-m",
        tmp_path / "m",
        "--rounds",
        3,
        "--threads",
        1,
        "--objective",
        "sdcg",
        *more,
    )
    assert any("--quality good" in line and "single model" in line for line in messages(done))
    assert "folds" not in {key for key, value in sidecar(tmp_path / "m").items() if value}


def test_large_data_leave_out_two_of_three_folds(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "LARGE", 1_000)
    done = succeed("train", data / "train.txt", "-m", tmp_path / "m", *QUICKLY)
    assert any("2 of 3 folds" in line for line in messages(done))
    assert "stopped" not in done.stdout
    record: Any = sidecar(tmp_path / "m")["folds"]
    assert (record["folds"], len(record["rounds"])) == (3, 2)


def test_a_linear_model_is_trained_plainly(data: Path, tmp_path: Path) -> None:
    done = succeed(
        "train", data / "train.txt", "-m", tmp_path / "m", "--backend", "linear", "--rounds", 3
    )
    assert any(line.startswith("quality plain: ") for line in messages(done))


def test_quick_is_one_training_of_trees_that_suit_and_folds_have_them_too(
    data: Path, tmp_path: Path
) -> None:
    words = (
        "train",
        data / "train.txt",
        "-m",
        tmp_path / "m",
        "--objective",
        "sdcg",
        "--threads",
        1,
    )
    done = invoke(*words, "--quality", "quick")
    trees = "learning_rate=0.1, num_leaves=15, feature_fraction=0.75"
    assert f"quality quick: {trees}; 100 rounds" in messages(done)
    assert boostrank.RankingModel.load(tmp_path / "m").best_iteration == 100
    done = invoke(*words, "--quality", "quick", "--valid", data / "valid.txt", "--param", "eta=0.3")
    trees = "num_leaves=15, feature_fraction=0.75"
    assert f"quality quick: {trees}; 1,000 rounds" in done.stderr
    record: Any = sidecar(tmp_path / "m")
    history = record["evals_result"]["valid"]["ndcg@10"]
    assert len(history) == boostrank.RankingModel.load(tmp_path / "m").best_iteration + 100
    assert (record["parameters"]["num_leaves"], record["parameters"]["eta"]) == (15, 0.3)
    for quality, members in (("quick", ["as given"] * 2), ("plain", ["as given"] * 2)):
        done = succeed(*words, "--quality", quality, "--folds", 2, "--rounds", 4, "--num-leaves", 5)
        record = sidecar(tmp_path / "m")
        assert (len(record["averaged"]), record["folds"]["members"]) == (2, members)
        assert ("feature_fraction" in record["parameters"]) == (quality == "quick")
    done = invoke(*words, *FEW)
    assert not [line for line in messages(done) if line.startswith("quality")]
    assert "feature_fraction" not in sidecar(tmp_path / "m")["parameters"]  # type: ignore[operator]


def asking_in(monkeypatch: pytest.MonkeyPatch, training: int) -> None:
    """From now on somebody asks to stop in the second round of this training, from 1."""
    begun: list[int] = []

    class Asked(StopWhenAsked):
        def __call__(self, env: Any) -> None:
            begun.append(env.iteration == 0)
            self._request.pending |= sum(begun) == training and env.iteration == 1
            super().__call__(env)

    monkeypatch.setattr("boostrank.from_files.StopWhenAsked", Asked)


@pytest.mark.parametrize("training", [1, 3])
def test_ctrl_c_leaves_a_model_of_what_is_there_and_a_checkpoint_to_go_on_from(
    training: int,
    data: Path,
    good: tuple[Path, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = train_words(data, tmp_path / "m", *QUICKLY)
    with monkeypatch.context() as patched:
        asking_in(patched, training)
        done = invoke(*words, "--checkpoint-every", 1)
    assert done.exit_code == 130
    lines = messages(done)
    assert any(line.startswith(f"stopped in fold {training};") for line in lines)
    assert any("--resume" in line for line in lines)
    assert done.stdout.endswith(f"model written to {tmp_path / 'm'}\n")
    assert len(sidecar(tmp_path / "m")["folds"]["rounds"]) == training  # type: ignore[index]
    succeed("predict", tmp_path / "m", data / "test.txt")
    refuse(*words, "--checkpoint-every", 1)  # an unfinished training lies there
    (tmp_path / "m.checkpoint.1").rename(tmp_path / "m.checkpoint.3")
    refuse(*words, "--checkpoint-every", 1)  # and the file of any fold is kept
    (tmp_path / "m.checkpoint.3").rename(tmp_path / "m.checkpoint.1")
    done = succeed(*words, "--checkpoint-every", 1, "--resume")
    assert (tmp_path / "m").read_bytes() == good[0].read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m", "m.meta.json"]


def test_ctrl_c_while_the_model_is_written_changes_nothing(
    data: Path, good: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_saving(monkeypatch)
    done = succeed(*train_words(data, tmp_path / "m"), *QUICKLY)
    assert "stopped in fold" not in done.stderr
    assert (tmp_path / "m").read_bytes() == good[0].read_bytes()


def test_without_a_metric_folds_train_all_their_rounds(data: Path, tmp_path: Path) -> None:
    words = train_words(data, tmp_path / "m", *QUICKLY)
    succeed(*words, "--metric", "none")
    assert sidecar(tmp_path / "m")["folds"]["rounds"] == [3] * FOLDS  # type: ignore[index]
