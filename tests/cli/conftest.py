"""A small data set with its model, made by the command line itself, and ways to call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import boostrank
from boostrank.cli import main
from boostrank.fit.callbacks import StopWhenAsked

Run = Callable[..., Result]
COMMAND = [sys.executable, "-m", "boostrank"]
ENDLESS = ("--quality", "plain", "--rounds", 100_000, "--num-leaves", 4, "--threads", 1)
FEW = ("--quality", "plain", "--rounds", "4", "--num-leaves", "7", "--threads", "1")


def invoke(*arguments: object) -> Result:
    """Run in this process."""
    return CliRunner().invoke(main, [str(a) for a in arguments])


def succeed(*arguments: object) -> Result:
    """Run a command that must end with exit status 0."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def refuse(*arguments: object, says: tuple[str, ...] = ()) -> Result:
    """Run a command that must refuse its input, and name these places, tokens and options."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.stderr
    assert [word for word in says if word not in result.stderr] == [], result.stderr
    return result


def messages(result: Result) -> list[str]:
    """Lines of standard error, without how far the reading is: on a busy machine it takes long
    enough to be shown.
    """
    return [line for line in result.stderr.splitlines() if not line.startswith("reading ")]


def start(*arguments: object) -> subprocess.Popen[str]:
    """Run in a process of its own, both streams piped."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupt_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C as a model is about to be written."""
    save = boostrank.RankingModel.save

    def interrupted(model: boostrank.RankingModel, path: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        save(model, path)

    monkeypatch.setattr(boostrank.RankingModel, "save", interrupted)


def sidecar(model: Path) -> dict[str, object]:
    """How the model was made."""
    record: dict[str, object] = json.loads(Path(f"{model}.meta.json").read_text())
    return record


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, valid.txt and test.txt."""
    folder = tmp_path_factory.mktemp("data")
    succeed("data", "make", folder, "--queries", 60, "--mean-length", 15)
    return folder


@pytest.fixture(scope="session")
def model(data: Path) -> Path:
    """A LightGBM model trained on `data`, of trees alone."""
    path = data / "model.txt"
    succeed("train", data / "train.txt", "--start", "none", "--model", path, *FEW)
    return path


def stop_in_round(monkeypatch: pytest.MonkeyPatch, round: int) -> None:
    """Let a user ask to stop in this round (from 0) of each training."""
    called = StopWhenAsked.__call__

    def asked(self: Any, env: Any) -> None:
        self._request.pending = env.iteration >= round
        called(self, env)

    monkeypatch.setattr(StopWhenAsked, "__call__", asked)


def train_words(data: Path, model: Path, *more: object) -> tuple[object, ...]:
    """The words of a command that trains, with a validation file."""
    files = ("train", data / "train.txt", "--valid", data / "valid.txt", "-m", model)
    return (*files, *more)


def train_eight_rounds(data: Path, model: Path, *more: object) -> tuple[object, ...]:
    """The same, with few leaves and eight rounds."""
    return train_words(data, model, *FEW, "--rounds", 8, *more)


def read_folder(folder: Path) -> dict[str, bytes]:
    """The bytes of each file, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
