"""A callback that saves the training state between rounds, from which training can resume with the
same result.

The file is replaced atomically. It contains

* the line `boostrank checkpoint 1`;
* the SHA-256 of the rest of the file;
* one line of JSON: the training's identity, the number of rounds, and the lengths of the following
  parts;
* the engine's model file with all rounds so far;
* the metrics in every round, and the scores that the engine cannot recompute (float64, little
  endian).

Nothing is unpickled. The model's structure is validated before an engine opens the model.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from boostrank.core.errors import (
    InputError,
    ModelError,
    ParameterError,
    TrainingError,
    TrainingWarning,
    warn_user,
)
from boostrank.core.files import check_writable, replacing, reserved, write_all
from boostrank.engines import parse_model
from boostrank.engines.base import Backend, EvalResult, Resumed, Snapshot
from boostrank.engines.engine_params import as_whole
from boostrank.model.files import read_file
from boostrank.model.ranking_model import RankingModel
from boostrank.records import CheckpointHeader, Record, as_record, from_json, jsonable

_MAGIC = b"boostrank checkpoint "
_VERSION = 1
AS_ARGUMENT = (
    "a checkpoint is not a callback of the engine: pass it to boostrank.train as checkpoint="
)
_MOST_FOLDS = 100
"""Maximum number of fold files to search for."""
_OTHER = "the checkpoint belongs to another training, which differs in"
_REMEDY = (
    "To start over, use --resume-or-restart (resume_or_restart=True in Python), or remove the file"
)


class Checkpoint:
    """A callback that saves the training state periodically, so that training can be resumed.

    During training, the file is reserved so that no other training can use it. If a write fails (a
    full disk), a warning is issued, the file is unchanged, and training continues.

    Args:
        path: the file; its folder must exist.
        every: number of rounds between writes; if None, the file is only written when `write` is
            called. A write takes the time to write the model and 8 bytes per document.
        resume: whether to resume from the file if it exists.
        resume_or_restart: whether to resume if the file belongs to the same training, and otherwise
            to start over, with a warning that says why. A file that is not a checkpoint is renamed
            to `PATH.old`.

    Attributes:
        parts: the checkpoints for the folds, each with its own file.
        failure: reason why the last write failed, or an empty string.

    Raises:
        InputError: at the start of training, if the file cannot be written or is in use by another
            process; and with `resume` alone, if it is damaged or belongs to another training (the
            message lists the differences).

    Example:
        >>> import pathlib, tempfile
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "training.checkpoint")
        ...     checkpoint = boostrank.Checkpoint(path, every=2)
        ...     model = boostrank.train(params, data, 4, checkpoint=checkpoint)
        ...     checkpoint = boostrank.Checkpoint(path, every=2, resume=True)
        ...     resumed = boostrank.train(params, data, 4, checkpoint=checkpoint)
        >>> bool((resumed.predict(data) == model.predict(data)).all())
        True
    """

    before_iteration = False
    order = 35  # after early stopping, which raises an exception
    remembers_rounds = True

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        every: int | None = None,
        resume: bool = False,
        resume_or_restart: bool = False,
    ) -> None:
        if not isinstance(path, str | PathLike):
            raise ParameterError(f"path={path!r}: expected text or a PathLike")
        if every is not None:
            every = as_whole(every, "every", 1)
        self.path, self.every = os.fspath(path), every
        self.resume, self.resume_or_restart = resume or resume_or_restart, resume_or_restart
        self.parts: list[Checkpoint] = []
        self._whole, self._differed = self, False
        self._resumed_at: int | None = None
        self._holds: int | None = None
        self._reserved, self.failure = 0, ""
        self._engine: Backend | None = None
        self._identity: Record = {}
        self._metrics: list[list[tuple[str, str, bool]]] = []
        self._values: list[float] = []

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Reserve the file while the block runs. Blocks can be nested, as `boostrank.train` also
        reserves the file.

        Raises:
            InputError: if another process uses the file, or if the file cannot be written.
        """
        check_writable(self.path)
        with contextlib.nullcontext() if self._reserved else reserved(self.path):
            self._reserved += 1
            try:
                yield
            finally:
                self._reserved -= 1

    def begin(
        self, engine: Backend, identity: Mapping[str, Any], callbacks: Sequence[Any] = ()
    ) -> Resumed | None:
        """Return the state from which to resume, or None for a new training. `boostrank.train`
        calls this method.

        Args:
            identity: everything that the model depends on besides the callbacks.
        """
        self._engine = engine
        self._identity = jsonable({**identity, "stopping": settings_of(callbacks)})
        self._metrics, self._values, self.failure = [], [], ""
        self._resumed_at = self._holds = None
        if not self.resume:
            return None
        try:
            if not os.path.exists(self.path):
                for path in self._strays:
                    raise ParameterError(f"{path}: {_OTHER}: folds")
                return None
            resumed, identity_then, rounds = _read(self.path)
            differences = _differences(identity_then, self._identity)
            if differences:
                raise ParameterError(f"{self.path}: {_OTHER}: {'; '.join(differences)}")
        except InputError as error:
            self.start_over(error)
            return None
        self._holds = self._resumed_at = rounds
        return resumed

    def start_over(self, error: InputError) -> None:
        """Discard the file and warn with the reason, or raise the error unless `resume_or_restart`
        is set.

        Folds warn once that their files belong to another training.
        """
        checkpoint = self._whole
        if not self.resume_or_restart:
            raise type(error)(f"{error}. {_REMEDY}")
        if not (isinstance(error, ParameterError) and checkpoint._differed):
            warn_user(f"{error}; training starts over", TrainingWarning)
        checkpoint._differed = checkpoint._differed or isinstance(error, ParameterError)
        self._holds = self._resumed_at = None
        if not os.path.exists(self.path):
            for path in self._strays:
                with checkpoint.reserved() if path == checkpoint.path else reserved(path):
                    os.unlink(os.path.realpath(path))
        elif not is_checkpoint(self.path):
            os.replace(os.path.realpath(self.path), f"{os.path.realpath(self.path)}.old")

    def __call__(self, env: Any) -> None:
        if self._engine is None:
            raise ParameterError(AS_ARGUMENT)
        results = env.evaluation_result_list or []
        self._metrics.append([(result[0], result[1], bool(result[3])) for result in results])
        self._values += [result[2] for result in results]
        rounds = env.iteration + 1
        # Skip rounds replayed by a resumed training, and the last round, after which the model is
        # saved.
        past = self._resumed_at is not None and rounds <= self._resumed_at
        if self.every and rounds % self.every == 0 and rounds < env.end_iteration and not past:
            self.try_to_write(env)

    def try_to_write(self, env: Any) -> None:
        """Write the checkpoint, and warn instead of raising an error. Only the first of consecutive
        failures warns.
        """
        try:
            self.write(env)
        except TrainingError as error:
            if not self.failure:
                message = f"{error}. Training continues, and the next checkpoint may succeed"
                warn_user(message, TrainingWarning)
            self.failure = str(error)

    def write(self, env: Any) -> None:
        """Write the current state. Only a callback that runs after this one (`order` above 35) can
        call this method.

        Raises:
            TrainingError: if the file could not be written. The old file is unchanged.
        """
        assert self._engine is not None, "called outside a training"
        snapshot, rounds = self._engine.snapshot(env.model), int(env.iteration) + 1
        if any(metrics != self._metrics[-1] for metrics in self._metrics):
            raise ParameterError("a checkpoint needs the same metrics in every round")
        header = CheckpointHeader(
            training=self._identity,
            begin=int(env.begin_iteration),
            rounds=rounds,
            metrics=self._metrics[-1],
            model_bytes=len(snapshot.model),
            scores=[int(scores.size) for scores in snapshot.scores],
            scores_sha256=snapshot.scores_sha256,
        )
        # Write header, model, metrics and scores, after the checksum of all of them.
        line = json.dumps(msgspec.to_builtins(header), allow_nan=False).encode() + b"\n"
        arrays = [np.asarray(array, "<f8").tobytes() for array in (self._values, *snapshot.scores)]
        contents = [line, snapshot.model, *arrays]
        first_lines = b"%s%d\n%s\n" % (_MAGIC, _VERSION, _checksum(contents))
        with replacing(self.path) as descriptor:
            for part in (first_lines, *contents):
                write_all(descriptor, part)
        self._holds, self.failure = rounds, ""

    def remove(self) -> None:
        """Delete the checkpoint files after the model has been saved. Symbolic links are kept for
        the next training.
        """
        for path in (self.path, *(self._of_folds if self.parts else ())):
            if is_checkpoint(path):
                os.unlink(os.path.realpath(path))

    def of_fold(self, fold: int) -> Checkpoint:
        """Create the checkpoint for a fold, numbered from 0, in a separate file (`PATH.1` for fold
        0).
        """
        part = Checkpoint(f"{self.path}.{fold + 1}", every=self.every)
        part.resume, part.resume_or_restart, part._whole = self.resume, self.resume_or_restart, self
        self.parts.append(part)
        return part

    @property
    def exists(self) -> bool:
        """Whether the file or the file for any fold exists."""
        return any(map(os.path.exists, (self.path, *self._of_folds)))

    @property
    def _of_folds(self) -> list[str]:
        return [f"{self.path}.{fold}" for fold in range(1, _MOST_FOLDS)]

    @property
    def _strays(self) -> list[str]:
        """The checkpoints of folds if this training has none, and of a training without folds if it
        is one of them.
        """
        paths = self._of_folds if self._whole is self else [self._whole.path]
        return list(filter(is_checkpoint, paths))

    @property
    def resumed_at(self) -> int | None:
        """Number of rounds restored from the file over all folds, or None for a new training."""
        return sum(part.resumed_at or 0 for part in self.parts) or self._resumed_at

    @property
    def holds(self) -> int | None:
        """Number of this training's rounds in the file over all folds, or None if there is no
        file.
        """
        return sum(part.holds or 0 for part in self.parts) or self._holds


def _checksum(contents: Sequence[Any]) -> bytes:
    """Return the SHA-256 of several bytes objects, in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in contents:
        digest.update(part)
    return digest.hexdigest().encode()


def is_checkpoint(path: str) -> bool:
    """Return whether a file begins as a checkpoint does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _read(path: str) -> tuple[Resumed, Record, int]:
    """Read a checkpoint file and return its state, the training's identity, and the number of
    rounds.
    """
    data = read_file(Path(path))
    try:
        return _parse(data)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: boostrank did not write this file: {error}") from None


def _parse(data: bytes) -> tuple[Resumed, Record, int]:
    first_line = re.match(rb"%s(\d{1,9})\n" % _MAGIC, data)
    if first_line is None:
        raise ModelError(
            "the file is not a checkpoint of boostrank, or its first bytes are damaged"
        )
    if int(first_line[1]) > _VERSION:
        raise ModelError("a newer boostrank wrote this checkpoint, and only it can resume from it")
    lines = re.compile(rb"([0-9a-f]{64})\n(.*)\n").match(data, first_line.end())
    if lines is None or _checksum([memoryview(data)[lines.start(2) :]]) != lines[1]:
        raise ModelError("the file is truncated or damaged, as its checksum does not match")
    # The header is followed by the model, the metrics and the scores.
    header = as_record(CheckpointHeader, from_json(lines[2]))
    first_round, rounds, metrics = header.begin, header.rounds, header.metrics
    model_end = lines.end() + header.model_bytes
    lengths = [(rounds - first_round) * len(metrics), *header.scores]
    is_whole = model_end + 8 * sum(lengths) == len(data)
    if min([rounds - first_round, *lengths]) < 0 or not is_whole:
        raise ValueError("the lengths of its parts do not match its size")
    if rounds > header.model_bytes:  # without metrics, no other check bounds the rounds
        raise ValueError(f"too many rounds for the size of the model: {rounds:,}")
    model = data[lines.end() : model_end]
    parse_model(model)
    numbers = np.frombuffer(data, "<f8", sum(lengths), model_end).astype(np.float64)
    values, *scores = np.split(numbers, np.cumsum(lengths)[:-1])
    results = [
        [EvalResult(n, m, v, up) for (n, m, up), v in zip(metrics, row, strict=True)]
        for row in values.reshape(rounds - first_round, len(metrics)).tolist()
    ]
    snapshot = Snapshot(model, tuple(scores), header.scores_sha256)
    return Resumed(snapshot, first_round, results), header.training, rounds


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    if not (isinstance(then, dict) and isinstance(now, dict)):
        return [] if then == now else [f"{name} {_short(then)} then, {_short(now)} now"]
    differences: list[str] = []
    for key in then | now:
        path = f"{name}.{key}".lstrip(".")
        differences += _differences(then.get(key), now.get(key), path)
    return differences


def _short(value: Any) -> str:
    text = "unset"
    if value is not None:
        text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch("[0-9a-f]{32,}", text):  # a hash
        return text[:8]
    return text if len(text) <= 60 else text[:57] + "..."


def settings_of(callbacks: Sequence[Any]) -> list[Record]:
    """Return the callback settings that affect stopping or parameters, as plain data."""
    settings: list[Record] = []
    for callback in callbacks:
        gated = getattr(callback, "gated", callback)
        names = ("stopping_rounds", "min_delta", "first_metric_only", "kwargs")
        values = {name: getattr(gated, name) for name in names if hasattr(gated, name)}
        if values.keys() & {"stopping_rounds", "kwargs"}:
            plain = jsonable(values, other=lambda unknown: type(unknown).__name__)
            settings.append({"callback": type(gated).__name__, **plain})
    return settings


# Save a trained model, with fallbacks.


def save_or_rescue(trained: RankingModel, path: str, checkpoint: Checkpoint | None = None) -> None:
    """Save the model, or save it in another folder if that fails, so that hours of work are not
    lost.
    """
    try:
        trained.save(path)
    except (TrainingError, MemoryError) as error:
        message = str(error) or f"{path}: could not be written: out of memory"
        rescued = _rescued(trained, os.path.basename(path))
        if rescued is None:
            message += ". It could not be written elsewhere either, so this model is lost"
        else:
            message += f". The model was written to {rescued} instead: move it and its .meta.json"
        if checkpoint is not None and checkpoint.holds is not None:
            message += f"; {resume_words(checkpoint)}"
        raise TrainingError(message) from error


def _rescued(trained: RankingModel, name: str) -> str | None:
    """Save the model in a new temporary folder, and return its path or None."""
    with contextlib.suppress(OSError, TrainingError, MemoryError), contextlib.ExitStack() as undo:
        folder = tempfile.mkdtemp(prefix="boostrank-rescued-")
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        trained.save(os.path.join(folder, name))
        undo.pop_all()
        return os.path.join(folder, name)
    return None


def resume_words(checkpoint: Checkpoint) -> str:
    """Describe how to resume from a checkpoint."""
    return (
        f"the same command with --resume continues from {checkpoint.path}, which has"
        f" {checkpoint.holds} rounds"
    )
