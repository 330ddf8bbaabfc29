"""Save a trained model, with fallbacks."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator

from boostrank.core.errors import TrainingError
from boostrank.fit.checkpoint import Checkpoint
from boostrank.model.ranking_model import RankingModel


def save_or_rescue(trained: RankingModel, path: str, checkpoint: Checkpoint | None = None) -> None:
    """Save the model; if that fails, save it in another folder, so that hours of work are not lost."""
    try:
        trained.save(path)
    except (TrainingError, MemoryError) as error:
        rescued = _rescued(trained, os.path.basename(path))
        kept = ["It could not be written elsewhere either, so this model is lost"]
        if rescued is not None:
            kept = [f"The model was written to {rescued} instead: move it, and {os.path.basename(rescued)}.meta.json"]
        if checkpoint is not None and checkpoint.holds is not None:
            kept.append(resume_words(checkpoint))
        reason = str(error) or f"{path}: could not be written: out of memory"
        raise TrainingError(f"{reason}. {'; '.join(kept)}") from error


@contextlib.contextmanager
def keeping_rounds(path: str) -> Iterator[None]:
    """Save the previous rounds next to the model's path if a gradient fails in the block."""
    try:
        yield
    except TrainingError as error:
        if error.model is None:
            raise
        rounds, (root, ending) = error.model.num_trees(), os.path.splitext(path)
        beside = next(
            name
            for number in itertools.count(1)
            if not os.path.lexists(name := f"{root}-before-the-fault{f'-{number}' * (number > 1)}{ending}")
        )
        kept = f"The {rounds} trees before it are in {beside}"
        try:
            save_or_rescue(error.model, beside)
        except TrainingError as trouble:
            kept = f"The {rounds} trees before it: {trouble}"
        raise TrainingError(f"{error}. {kept}") from error


def _rescued(trained: RankingModel, name: str) -> str | None:
    """Save the model in a new folder in the temporary, working or home directory; return its path, or None."""
    for parent in (None, os.curdir, os.path.expanduser("~")):
        folder = None
        try:
            folder = tempfile.mkdtemp(prefix="boostrank-rescued-", dir=parent)
            trained.save(os.path.join(folder, name))
            return os.path.join(folder, name)
        except (OSError, TrainingError, MemoryError):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
    return None


def resume_words(checkpoint: Checkpoint) -> str:
    """Describe how to resume from a checkpoint."""
    return f"the same command with --resume continues from {checkpoint.path}, which has {checkpoint.holds} rounds"
