"""`--within-query`: from the training to every command that takes the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.routes import Work, routes_of, survey
from tests.cli.conftest import FEW, invoke, messages, sidecar, succeed, train_words

TRAIN = (*FEW, "--start", "none", "--within-query", "rank,zscore")


@pytest.fixture(scope="module")
def plain(data: Path) -> Path:
    path = data / "without.txt"
    succeed("train", data / "train.txt", "-m", path, *FEW, "--start", "none")
    return path


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    path = data / "within.txt"
    succeed(
        *train_words(data, path),
        *TRAIN,
        "--of",
        "f2,5,7",
    )
    return path


def test_every_command_takes_files_of_the_features_alone(
    data: Path, model: Path, plain: Path, tmp_path: Path
) -> None:
    assert sidecar(model)["within_query"] == {"kinds": ["rank", "zscore"], "of": ["f2", "f5", "f7"]}
    ranker = boostrank.RankingModel.load(model)
    test = data / "test.txt"
    rows = boostrank.read(test, n_features=ranker.n_features)
    scores = succeed("predict", model, test)
    np.testing.assert_array_equal(np.array(scores.stdout.split(), float), ranker.predict(rows))
    for command in (
        ("evaluate", model, test),
        ("compare", plain, model, test),
        ("importance", model, test, "--repeats", 1),
        ("why", model, test, rows.queries.qid[0], "@1", "@2"),
        ("report", model, test, "-o", tmp_path / "report.html", "--only", "queries"),
    ):
        result = succeed(*command)
        if command[0] in ("importance", "why"):
            assert "zscore(f2|query)" in result.stdout


def test_routes_folds_and_configurations_train_with_the_columns(
    data: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(
        'within-query = ["rank", "zscore"]\nof = "f2,5,7"\nstart = "none"\n'
    )
    train = ("train", data / "train.txt", "--valid", data / "valid.txt", *FEW)
    streamed = ("--route", "bins", "--cache", "none")
    for options in (
        ("--config", tmp_path / "run.toml"),
        (*TRAIN[len(FEW) :], "--of", "f2,5,7", *streamed),
    ):
        result = succeed(*train, "-m", tmp_path / "again", *options)
        assert (tmp_path / "again").read_bytes() == model.read_bytes()
        assert any("and 6 columns within queries, " in line for line in messages(result))
    result = succeed(
        "train",
        data / "train.txt",
        "-m",
        tmp_path / "more",
        *FEW,
        "--init-model",
        model,
        "--start",
        "none",
    )
    assert any("and 6 columns within queries, " in line for line in messages(result))
    assert sidecar(tmp_path / "more")["within_query"] == sidecar(model)["within_query"]
    surveyed = survey(data / "train.txt")
    plain = routes_of(Work(train=surveyed, added=0))[0].peak
    narrow = routes_of(Work(train=surveyed, added=1))[0].peak
    wide = routes_of(Work(train=surveyed, added=300))[0].peak
    floats = 4 * surveyed.features * (surveyed.rows or 0)
    assert (
        narrow - plain > floats
    )  # of the features alone, which stay beside those with their columns
    assert wide - narrow > 300 * floats / surveyed.features


def test_wrong_kinds_and_features_within_queries_are_refused(
    data: Path, model: Path, tmp_path: Path
) -> None:
    train = ("train", data / "train.txt", "-m", tmp_path / "m", *FEW)
    for command, words in {
        (*train, "--of", "f2"): "--of is for --within-query",
        (*train, "--within-query", "ranks"): "within_query: unknown kind 'ranks'",
        (*train, "--within-query", "rank", "--of", "f2000"): "no feature 'f2000'",
        ("export", model, "--to", "solr", "-o", tmp_path / "m"): "one document at a time",
    }.items():
        result = invoke(*command)
        assert result.exit_code != 0
        assert words in result.stderr
    assert not (tmp_path / "m").exists()


def test_a_search_trains_with_the_columns_and_writes_them_down(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason="tuning is an extra")
    from boostrank.tuning import search as module

    # Keep every model that the search trains.
    trained = []

    def recorded(training: Any) -> boostrank.RankingModel:
        trained.append(run(training))
        return trained[-1]

    run = module.run
    monkeypatch.setattr(module, "run", recorded)
    # All have the columns, and the configuration names them.
    search = (
        "tune",
        data / "train.txt",
        "-o",
        tmp_path / "tuned.toml",
        *FEW[2:],
        "--folds",
        2,
        "--trials",
        1,
        "--objective",
        "regression",
    )
    result = succeed(*search, "--within-query", "zscore", "--of", "f1,3")
    assert {model.column_names[38:] for model in trained} == {
        ("zscore(f1|query)", "zscore(f3|query)")
    }
    written = (tmp_path / "tuned.toml").read_text()
    assert 'within-query = "zscore"\nof = "f1,3"\n' in written
    # Another search is not resumed; the configuration trains with the columns.
    result = invoke(*search, "--resume", "--within-query", "rank")
    assert result.exit_code != 0
    assert "within_query" in result.stderr
    result = succeed(
        "train",
        data / "train.txt",
        "-m",
        tmp_path / "m",
        "--config",
        tmp_path / "tuned.toml",
        "--threads",
        1,
    )
    assert sidecar(tmp_path / "m")["within_query"] == {"kinds": ["zscore"], "of": ["f1", "f3"]}
