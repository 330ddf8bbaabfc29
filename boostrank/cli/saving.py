"""Saving of a trained model, or of as much as can be kept where that fails."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from boostrank.cli.errors import say

if TYPE_CHECKING:
    from boostrank.training.checkpoint import Checkpoint
    from boostrank.training.model import RankingModel


def save_or_rescue(trained: RankingModel, path: str, checkpoint: Checkpoint | None = None) -> None:
    """Write the model; where that fails, to the folder of temporary files, so that hours of work are not lost.

    Raises:
        TrainingError: it could not be written where it should be; the message says what is kept.
    """
    from boostrank.core.errors import TrainingError

    try:
        trained.save(path)
    except TrainingError as error:
        folder = None
        try:
            folder = tempfile.mkdtemp(prefix="boostrank-rescued-")
            rescued = os.path.join(folder, os.path.basename(path))
            trained.save(rescued)
            kept = [f"The model was written to {rescued} instead: move it, and {os.path.basename(rescued)}.meta.json"]
        except (OSError, TrainingError):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            kept = [f"There is no room for it in {tempfile.gettempdir()} either, so this model is lost"]
        if checkpoint is not None and checkpoint.holds is not None:
            kept.append(_of_checkpoint(checkpoint))
        raise TrainingError(f"{error}. {'; '.join(kept)}") from error


def _of_checkpoint(checkpoint: Checkpoint) -> str:
    return f"the same command with --resume goes on from {checkpoint.path}, which holds {checkpoint.holds} rounds"


def report_checkpoint(checkpoint: Checkpoint, *, stopped: bool) -> None:
    """Print what became of the checkpoint, at the end of the training."""
    if checkpoint.failures:
        say(f"{checkpoint.failures} checkpoints could not be written")
    if stopped and checkpoint.holds is not None:
        say(_of_checkpoint(checkpoint))
    elif stopped:
        say("there is no checkpoint to go on from")
