"""Two trainings that write one file, and a training where the disk is full."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import TrainingError
from boostrank.fit.checkpoint import Checkpoint
from boostrank.objective.bound import BoundObjective
from tests.cli.conftest import (
    ENDLESS,
    FEW,
    invoke,
    read_folder,
    refuse,
    start,
    stop_in_round,
    succeed,
    train_eight_rounds,
)


def test_a_second_training_is_refused_and_what_a_killed_one_leaves_is_not_in_the_way(
    data: Path, model: Path, tmp_path: Path
) -> None:
    # A training that goes on for long.
    first = start(
        "train",
        data / "train.txt",
        "-m",
        tmp_path / "m",
        "--checkpoint",
        tmp_path / "c",
        "--checkpoint-every",
        1,
        *ENDLESS,
    )
    while not (tmp_path / "c").exists():
        assert first.poll() is None
        time.sleep(0.02)
    # Nothing else writes its model or its checkpoint.
    refused = refuse("study", "average", model, "-m", tmp_path / "m")
    assert f"{tmp_path / 'm'}: another run is writing it" in refused.stderr
    for path, checkpoint, name in (("m", "other", "m"), ("other", "c", "c")):
        for more in ((), ("--resume",)):
            words = "-m", tmp_path / path, "--checkpoint", tmp_path / checkpoint, *more
            refused = refuse("train", data / "train.txt", *FEW, *words)
            assert f"{tmp_path / name}: another run is writing it" in refused.stderr
            assert "rows" not in refused.stderr
    # After a kill, with what it can leave, the next training writes both.
    first.kill()
    first.communicate()
    for name in ("m", "m.meta.json", "c"):
        (tmp_path / f".{name}.0123456789ab.tmp").write_bytes(b"half of it")
    (tmp_path / "c").unlink()
    assert {".m.lock", ".c.lock"} <= set(read_folder(tmp_path))
    succeed(*train_eight_rounds(data, tmp_path / "m", "--checkpoint", tmp_path / "c"))
    assert sorted(read_folder(tmp_path)) == ["m", "m.meta.json"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True
        )
    except FileNotFoundError:
        done = None
    if done is None or done.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    """Leave not a byte of room."""
    with open(folder / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_fault_077_a_full_disk_ends_with_3_and_everything_that_there_is_kept(
    data: Path, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "whole").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    words = train_eight_rounds(data, disk / "m", "--checkpoint-every", 2, "--resume")
    succeed(*train_eight_rounds(data, tmp_path / "whole" / "m"))
    with monkeypatch.context() as patch:
        stop_in_round(patch, 4)
        assert invoke(*words).exit_code == 130
    before = read_folder(disk)
    fill(disk)
    full = invoke(*words)
    assert full.exit_code == 3
    assert full.stderr.count("m.checkpoint: could not be written: No space left on device") == 1
    assert f"{disk / 'm.meta.json'}: could not" in full.stderr
    assert f"{disk / 'm.checkpoint'}, which has 5" in full.stderr
    (disk / "filler").unlink()
    assert read_folder(disk) == before
    rescued = re.search(r"was written to (\S+) instead", full.stderr)
    assert rescued is not None
    assert Path(rescued[1]).read_bytes() == (tmp_path / "whole" / "m").read_bytes()
    assert boostrank.RankingModel.load(rescued[1]).best_iteration == 8
    succeed(*words)
    assert read_folder(disk) == read_folder(tmp_path / "whole")


def unwritable(*_: object, **__: object) -> None:
    raise TrainingError("no room")


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_fault_063_a_checkpoint_has_the_rounds_before_a_broken_gradient(
    backend: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*train_eight_rounds(data, tmp_path / "m.txt"), "--backend", backend]
    succeed(*words, "-m", tmp_path / "whole.txt")
    gradient = BoundObjective.gradient

    def broken_later(
        bound: BoundObjective, scores: np.ndarray, round: int, **options: bool
    ) -> object:
        if round >= 3:
            scores = np.full_like(scores, np.nan)
        return gradient(bound, scores, round, **options)

    (tmp_path / "m.txt").write_text("precious")
    checkpoint = ("--checkpoint-every", 1, "--resume")
    with monkeypatch.context() as patch:
        patch.setattr(BoundObjective, "gradient", broken_later)
        result = invoke(*words, *checkpoint)
    assert result.exit_code == 3
    assert "round 3" in result.stderr
    assert (tmp_path / "m.txt").read_text() == "precious"
    resumed = succeed(*words, *checkpoint)
    assert "resumed after round 3" in resumed.stderr
    assert (tmp_path / "m.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()


def test_a_model_that_can_be_written_nowhere_is_said_to_be_lost(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_folder(*_: object, **__: object) -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("boostrank.model.ranking_model.write_model_files", unwritable)
    assert "elsewhere either" in invoke(*train_eight_rounds(data, tmp_path / "m")).stderr
    monkeypatch.setattr("tempfile.mkdtemp", no_folder)
    result = invoke(*train_eight_rounds(data, tmp_path / "m"))
    assert result.exit_code == 3
    assert "elsewhere either" in result.stderr


def full_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """From now on the disk is full for a checkpoint once it has been written so many times."""
    real, done = Checkpoint.write, []

    def write(checkpoint: Checkpoint, env: object) -> None:
        if len(done) < writes:
            done.append(env)
            return real(checkpoint, env)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda *_: fail())
            return real(checkpoint, env)

    def fail() -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "write", write)


def test_fault_077_a_training_goes_on_without_its_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_after(monkeypatch, 1)
    result = succeed(*train_eight_rounds(data, tmp_path / "m", "--checkpoint-every", 1))
    assert result.stderr.count("No space left on device") == 1
    assert "Training continues" in result.stderr
    assert sorted(read_folder(tmp_path)) == ["m", "m.meta.json"]


@pytest.mark.parametrize(
    ("writes", "words"), [(1, "which has 2 rounds"), (0, "there is no checkpoint to resume from")]
)
def test_fault_077_a_stop_without_room_for_the_checkpoint_still_writes_the_model(
    writes: int, words: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_after(monkeypatch, writes)
    stop_in_round(monkeypatch, 4)
    result = invoke(*train_eight_rounds(data, tmp_path / "m", "--checkpoint-every", 2))
    assert result.exit_code == 130
    assert words in result.stderr
    assert boostrank.RankingModel.load(tmp_path / "m").best_iteration == 5
    assert (tmp_path / "m.checkpoint").exists() == bool(writes)


def test_fault_077_no_room_anywhere_is_told(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(boostrank.RankingModel, "save", lambda *_: fail())

    def fail() -> None:
        raise boostrank.TrainingError("m: could not be written: No space left on device")

    result = invoke(*train_eight_rounds(data, tmp_path / "m"))
    assert result.exit_code == 3
    assert "model is lost" in result.stderr
    assert read_folder(tmp_path) == {}
