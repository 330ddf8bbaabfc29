"""`boostrank.train_files`: the command as a function, what its observer hears, and what it leaves
behind.
"""

from __future__ import annotations

import inspect
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boostrank
from boostrank.core.errors import InputError, ParameterError
from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from boostrank.fit.execute import FoldSummary
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.from_files import Observer
from boostrank.options import TrainOptions
from tests.cli.conftest import succeed

FEW: dict[str, Any] = {"rounds": 3, "num_leaves": 4, "threads": 1, "start": "none"}
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt and valid.txt."""
    folder = tmp_path_factory.mktemp("files")
    for seed, name in enumerate(("train.txt", "valid.txt")):
        write_libsvm(folder / name, make_ranking_data(queries=30, mean_length=8, seed=seed).dataset)
    return folder


class Listener(Observer):
    """Keeps what it hears, and asks to stop after a number of rounds."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.sizes: list[int] = []
        self.folds: list[FoldSummary] = []
        self.rounds, self._stop_after = 0, stop_after
        self.callbacks = [self.count]

    def count(self, env: Any) -> None:
        self.rounds += 1
        self.request.pending = self.rounds == self._stop_after

    def say(self, line: str) -> None:
        self.lines.append(line)

    def has_read(self, paths: Any, data: boostrank.RankingDataset, seconds: float) -> None:
        self.sizes.append(len(data.queries))

    def fold_ended(self, fold: FoldSummary) -> None:
        self.folds.append(fold)


def test_train_files_writes_the_bytes_of_the_command_and_reads_each_file_once(
    folder: Path, tmp_path: Path
) -> None:
    # By the command, and by the function with an observer.
    files = (folder / "train.txt", "--valid", folder / "valid.txt")
    succeed(
        "train",
        *files,
        "-m",
        tmp_path / "a",
        "--rounds",
        3,
        "--num-leaves",
        4,
        "--threads",
        1,
        "--start",
        "none",
    )
    listener = Listener()
    model = boostrank.train_files(
        folder / "train.txt",
        valid=folder / "valid.txt",
        model=str(tmp_path / "b"),
        observer=listener,
        **FEW,
    )
    # The same files; the observer hears of data, folds and messages.
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.meta.json").read_bytes() == (tmp_path / "b.meta.json").read_bytes()
    assert listener.sizes == [30, 30]
    assert [fold.fold for fold in listener.folds] == [0, 1, 2, 3]
    assert [fold.rounds for fold in listener.folds] == model.info["folds"]["rounds"]
    assert any(line.startswith("quality good") for line in listener.lines)


def test_train_files_without_a_path_writes_nothing(folder: Path) -> None:
    before = sorted(folder.iterdir())
    model = boostrank.train_files(folder / "train.txt", quality="plain", **FEW)
    assert model.best_iteration == 3
    assert sorted(path for path in folder.iterdir() if path.name != ".boostrank-cache") == before


def test_names_of_engines_are_taken_in_any_case(folder: Path) -> None:
    model = boostrank.train_files(
        folder / "train.txt", quality="plain", backend="LightGBM", route="bins", **FEW
    )
    assert model.backend == "lightgbm"


def test_an_observer_stops_a_training(folder: Path, tmp_path: Path) -> None:
    listener = Listener(stop_after=2)
    how = FEW | {"rounds": 9, "quality": "plain", "observer": listener}
    model = boostrank.train_files(
        folder / "train.txt", model=str(tmp_path / "m"), checkpoint_every=1, **how
    )
    assert listener.request.stopped
    assert model.best_iteration == 2
    assert any("--resume" in line for line in listener.lines)
    resumed = boostrank.train_files(
        folder / "train.txt",
        model=str(tmp_path / "m"),
        resume=True,
        **FEW | {"rounds": 9, "quality": "plain"},
    )
    assert resumed.best_iteration == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.meta.json"]


@pytest.mark.parametrize(
    "options",
    [
        {"quality": "better"},
        {"clicks": True, "gain": "linear"},
        {"cluster": "local:2", "resume": True},
        {"folds": 2, "init_model": "m"},
        {"checkpoint_every": 1},
        {"params": {"early_stopping_round": 1}, "quality": "plain"},
        {"target": "nowhere"},
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        boostrank.train_files(folder / "train.txt", **options)


def test_none_is_the_default_and_a_model_continues_a_model(folder: Path, tmp_path: Path) -> None:
    how = FEW | {"quality": "plain", "clicks": False, "gain": None}
    first = boostrank.train_files(folder / "train.txt", **how)
    second = boostrank.train_files(
        folder / "train.txt",
        init_model=first,
        model=str(tmp_path / "m"),
        checkpoint_every=1,
        **how,
    )
    assert second.best_iteration == 2 * first.best_iteration


def test_each_option_may_be_none_for_its_default(folder: Path) -> None:
    names = inspect.signature(boostrank.train_files).parameters.keys()
    names -= {"train", "observer", "worker_timeout"}
    options: dict[str, Any] = dict.fromkeys(names) | FEW | {"quality": "plain"}
    model = boostrank.train_files(folder / "train.txt", **options)
    usual = boostrank.train_files(folder / "train.txt", **FEW | {"quality": "plain"})
    assert model.booster.model_to_string() == usual.booster.model_to_string()


@pytest.mark.parametrize("gain", ["0,1,3,7,15", [0, 1, 3, 7, 15], "exponential"])
def test_a_gain_may_be_a_word_or_a_table(folder: Path, gain: Any) -> None:
    model = boostrank.train_files(folder / "train.txt", quality="plain", gain=gain, **FEW)
    assert model.info.gain is None


@pytest.mark.parametrize("name", ["train", "valid", "params", "init_model", "metrics", "quality"])
def test_arguments_of_another_type_are_refused_by_name(folder: Path, name: str) -> None:
    options = {"train": folder / "train.txt", "quality": "plain", name: 3}
    with pytest.raises(ParameterError, match=f"{name}="):
        boostrank.train_files(**options)


def test_an_unknown_option_is_refused_with_the_nearest_name(folder: Path) -> None:
    with pytest.raises(TypeError, match="regroup"):
        boostrank.train_files(folder / "train.txt", regoup=True)


def test_a_training_is_printed_and_pickled(folder: Path) -> None:
    data = boostrank.read(folder / "train.txt")
    options = TrainOptions(
        params={"objective": "xe-ndcg", "verbosity": -1, "num_threads": 1}, rounds=2
    )
    first = resolve(options, data).trainings[0]
    again = resolve(options, data).trainings[0]
    assert "rounds=2" in repr(first) == repr(again)
    assert repr(first) != repr(replace(first, rounds=3))
    sent = pickle.loads(pickle.dumps(first))
    assert run(sent).to_bytes() == run(first).to_bytes()
    with pytest.raises(ParameterError):
        resolve(TrainOptions(params={"objective": "xe-ndcg", "sigmoid": 1}), data)
