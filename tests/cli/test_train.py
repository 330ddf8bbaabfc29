"""`boostrank train`: what it writes, what it says and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boostrank
from tests.cli.conftest import FEW, invoke, refuse, sidecar, start, succeed, train_words

# The generated data have missing values, which the reader mentions.
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


def run_in_a_process(*arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    process = start(*arguments)
    out, log = process.communicate()
    return process.returncode, out, log


def run_here(*arguments: object) -> tuple[int, str, str]:
    """The same in this process."""
    result = invoke(*arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("backend", "run"), [("lightgbm", run_in_a_process), ("xgboost", run_here)]
)
def test_a_model_is_trained_scored_and_measured(
    backend: str, run: Callable[..., tuple[int, str, str]], data: Path, tmp_path: Path
) -> None:
    pytest.importorskip(backend)
    model, scores = tmp_path / "model", tmp_path / "scores.txt"
    words = train_words(data, model, "--backend", backend, *FEW)
    status, out, log = run(*words)
    assert (status, out) == (0, f"model written to {model}\n")
    assert "round 4/4  valid ndcg@10 0." in log

    assert run("predict", model, data / "test.txt", "-o", scores)[:2] == (0, "")
    test_set = boostrank.read(data / "test.txt")
    expected = boostrank.RankingModel.load(model).predict(test_set)
    assert [float(line) for line in scores.read_text().splitlines()] == expected.tolist()

    printed = json.loads(run("evaluate", model, scores, data / "test.txt", "--json")[1])
    assert printed[str(scores)]["ndcg@10"]["mean"] == printed[str(model)]["ndcg@10"]["mean"]
    assert printed[str(scores)]["ndcg@10"]["difference"] == 0.0


def test_the_summary_goes_to_standard_error_and_the_result_to_standard_output(
    data: Path, tmp_path: Path
) -> None:
    result = invoke("train", data / "train.txt", "--model", tmp_path / "m", *FEW)
    assert result.stdout == f"model written to {tmp_path / 'm'}\n"
    for words in (
        "rows, 36 queries",
        "dead (no gradient)",
        "kernels",
        "trees",
        "last round 4",
        "training  ",
    ):
        assert words in result.stderr


def test_json_holds_the_summary(data: Path, tmp_path: Path) -> None:
    result = invoke(
        *train_words(data, tmp_path / "m"),
        "--json",
        *FEW,
    )
    printed = json.loads(result.stdout)
    assert printed["model"] == str(tmp_path / "m")
    assert (printed["queries"], printed["rounds"], printed["best_round"], printed["stopped"]) == (
        36,
        4,
        4,
        False,
    )
    assert printed["seconds"] == pytest.approx(
        printed["kernel_seconds"] + printed["tree_seconds"] + printed["metric_seconds"]
    )
    assert list(printed["metrics"]["valid"]) == ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10"]


def test_options_reach_objective_engine_and_metrics(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    succeed(
        *train_words(data, model),
        *FEW,
        "--objective",
        "shf-sdcg",
        "--set",
        "sigma=geometric(2,0.5)",
        "--set",
        "k=5",
        "--gain",
        "linear",
        "--param",
        "min_data_in_leaf=3",
        "--seed",
        7,
        "--metric",
        "map",
        "--metric",
        "mrr@2",
        "--eval-at",
        "4",
        "--conventions",
        "lightgbm",
    )
    printed = sidecar(model)
    assert printed["objective"]["params"]["sigma"] == "geometric(2, 0.5)"  # type: ignore[index]
    assert printed["objective"]["params"]["k"] == 5  # type: ignore[index]
    assert printed["objective"]["gain"] == "linear"  # type: ignore[index]
    assert printed["conventions"]["ties"] == "input"  # type: ignore[index]
    assert printed["metrics"] == ["map@4", "mrr@2"]
    text = model.read_text()
    assert "[min_data_in_leaf: 3]" in text
    assert "[seed: 7]" in text
    assert "[num_leaves: 7]" in text


def test_an_objective_of_the_engine_can_be_named(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    succeed("train", data / "train.txt", "--objective", "lightgbm:lambdarank", "-m", model, *FEW)
    assert "objective=lambdarank" in model.read_text()


def test_early_stopping_keeps_the_best_round_of_the_largest_cut_off(
    data: Path, tmp_path: Path
) -> None:
    result = invoke(
        *train_words(data, tmp_path / "m"),
        "--early-stopping",
        2,
        "--quality",
        "plain",
        "--rounds",
        60,
        "--num-leaves",
        7,
        "--threads",
        1,
        "--objective",
        "lambdarank",
        "--json",
    )
    printed = json.loads(result.stdout)
    history = sidecar(tmp_path / "m")["evals_result"]["valid"]["ndcg@10"]  # type: ignore[index]
    assert printed["rounds"] == printed["best_round"] + 2 < 60
    assert printed["best_round"] == history.index(max(history)) + 1


@pytest.mark.parametrize("name", ["early_stopping_round", "n_iter_no_change"])
def test_early_stopping_by_the_engine_s_parameter_is_the_same(
    name: str, data: Path, tmp_path: Path
) -> None:
    common = (
        "train",
        data / "train.txt",
        "--valid",
        data / "valid.txt",
        "--rounds",
        60,
        "--num-leaves",
        7,
        "--threads",
        1,
        "--objective",
        "lambdarank",
        "--quality",
        "plain",
    )
    succeed(*common, "-m", tmp_path / "a", "--early-stopping", 2)
    succeed(*common, "-m", tmp_path / "b", "--param", f"{name}=2")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_early_stopping_does_not_go_with_dart(data: Path, tmp_path: Path) -> None:
    result = refuse(
        *train_words(data, tmp_path / "m"),
        *FEW,
        "--early-stopping",
        2,
        "--param",
        "boosting=dart",
    )
    assert "dart does not support" in result.stderr


def test_training_goes_on_from_a_model(data: Path, model: Path, tmp_path: Path) -> None:
    result = invoke(
        "train", data / "train.txt", "--init-model", model, "-m", tmp_path / "m", "--json", *FEW
    )
    assert json.loads(result.stdout)["rounds"] == 8


def test_what_an_engine_prints_goes_to_standard_error(data: Path, tmp_path: Path) -> None:
    result = invoke(
        "train", data / "train.txt", "-m", tmp_path / "m", "--param", "verbosity=1", *FEW
    )
    assert "[LightGBM] [Info]" in result.stderr
    assert result.stdout == f"model written to {tmp_path / 'm'}\n"


def test_a_stand_in_for_a_missing_value_is_refused_with_the_option_that_reads_it(
    data_root: Path, tmp_path: Path
) -> None:
    file = data_root / "ohsumed-null" / "testset.txt"
    refused = refuse("train", file, "-m", tmp_path / "m", *FEW)
    assert refused.stderr.startswith(f"boostrank: error: {file}:2:")
    assert "--missing-token NULL" in refused.stderr
    assert not (tmp_path / "m").exists()
    succeed("train", file, "-m", tmp_path / "m", "--missing-token", "NULL", *FEW)


def test_a_mixture_and_what_composes_are_words_on_the_command_line(
    data: Path, tmp_path: Path
) -> None:
    model = tmp_path / "m.txt"
    noise = ["--set", "score_noise=logistic", "--set", "mix=linear(0.2, 0.8)", "--seed", 5]
    invoke(
        "train",
        data / "train.txt",
        "--objective",
        "mix(sdcg(sigma=2), regression)",
        *noise,
        "-m",
        model,
        *FEW,
    )
    printed: Any = sidecar(model)["objective"]
    assert (printed["name"], printed["mix"]) == ("mixture", "linear(0.2, 0.8)")
    assert printed["first"]["params"]["sigma"] == 2
    assert {part["options"]["score_noise"] for part in (printed["first"], printed["second"])} == {
        "logistic"
    }
    assert {part["options"]["seed"] for part in (printed["first"], printed["second"])} == {5}
    refused = refuse("train", data / "train.txt", "--set", "score_nois=gumbel", "-m", model)
    assert "Did you mean 'score_noise'" in refused.stderr


@pytest.mark.parametrize("how", ["name", "pattern", "link", "valid"])
def test_the_data_are_not_overwritten_by_the_model(how: str, data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_bytes((data / "train.txt").read_bytes())
    (tmp_path / "link").symlink_to("mine.txt")
    read: list[object] = {
        "name": [mine],
        "pattern": [tmp_path / "mi*.txt"],
        "link": [tmp_path / "link"],
        "valid": [data / "train.txt", "--valid", mine],
    }[how]
    for options in (["-m", mine], ["-m", tmp_path / "m", "--checkpoint", mine, "--resume"]):
        done = refuse("train", *read, *options, *FEW)
        assert "mine.txt: is read" in done.stderr
    assert mine.read_bytes() == (data / "train.txt").read_bytes()


def test_scores_do_not_overwrite_the_data_or_the_model(
    data: Path, model: Path, tmp_path: Path
) -> None:
    before = model.read_bytes()
    for output in (model, data / "test.txt"):
        done = refuse("predict", model, data / "test.txt", "-o", output)
        assert f"{output}: is read by this command" in done.stderr
    assert model.read_bytes() == before


def test_folds_are_averaged_into_one_file(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.txt"
    how = (
        "train",
        data / "train.txt",
        "-m",
        model,
        "--objective",
        "regression",
        "--eval-at",
        "5",
        *FEW,
    )
    result = succeed(*how, "--folds", "3", "--early-stopping", "2")
    assert f"model written to {model}" in result.stdout
    printed = sidecar(model)["folds"]
    assert boostrank.RankingModel.load(model).best_iteration == sum(printed["rounds"])  # type: ignore[index]
    for wrong in (("--cache", "there"), ("--route", "bins")):
        refused = refuse(*how, "--folds", "3", *wrong)
        assert "--folds" in refused.stderr
