"""Checkpoint state: a training on disk between two rounds, from which it goes on to the same model, byte for byte.

One file, replaced whole:

    boostrank checkpoint 1
    SHA-256 of all that follows
    one line of JSON: which training this is, how far it is, and the lengths of what follows
    the engine's model file of all rounds so far
    the metrics of every round, and the scores that the engine cannot make again: float64, little endian

Nothing in it is executed or unpickled, and the model is checked for structure before an engine sees it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from boostrank.core.arguments import takes
from boostrank.core.errors import ModelError, ParameterError, TrainingError, TrainingWarning, warn_user
from boostrank.core.files import check_writable, replacing, reserved, write_all
from boostrank.engines import parse_model
from boostrank.engines.base import Backend
from boostrank.engines.rounds import EvalResult, Resumed, Snapshot
from boostrank.model.files import read_file
from boostrank.records import CheckpointHeader, as_record, from_json, jsonable

_MAGIC = b"boostrank checkpoint "
_VERSION = 1
AS_ARGUMENT = "a checkpoint is no callback of the engine's: give it to boostrank.train as checkpoint="
_DIGITS = 64
_MOST_FOLDS = 100
"""Files of folds are looked for below this number."""


class Checkpoint:
    """A callback that writes the training down now and then, and the way to go on with it.

    While a training runs, the file is its own: another one that names it is refused. When it cannot be written after
    all (a full disk), a warning says so, the file stays as it was, and the training goes on.

    Args:
        path: of the file; its folder must exist.
        every: rounds between two writes; None writes only when `write` is called. Writing takes the time of writing
            the model and 8 bytes a document.
        resume: go on from the file, if there is one.

    Attributes:
        parts: those of the folds, of a training on folds; each has a file of its own.
        failure: why the last write failed; empty when it went well.

    Raises:
        InputError: at the start of the training: the file cannot be written, is damaged, belongs to another training
            (the message says which keys differ), or another process is writing it.
    """

    before_iteration = False
    order = 35  # after early stopping, which ends a training by an exception
    remembers_rounds = True

    @takes(path=str | PathLike, every=int | None)
    def __init__(self, path: str | PathLike[str], *, every: int | None = None, resume: bool = False) -> None:
        if every is not None and every < 1:
            raise ParameterError(f"every={every!r}: a checkpoint needs at least one round")
        self.path, self.every, self.resume = os.fspath(path), every, resume
        self.parts: list[Checkpoint] = []
        self._resumed_at: int | None = None
        self._holds: int | None = None
        self._failures, self.failure = 0, ""
        self._reserved = 0
        self._engine: Backend | None = None
        self._identity: dict[str, Any] = {}
        self._results: list[list[Any]] = []

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Inside, no other training can have the file. May be nested: `boostrank.train` does so anyway.

        Raises:
            InputError: another process has it, or it cannot be written.
        """
        check_writable(self.path)
        with contextlib.nullcontext() if self._reserved else reserved(self.path):
            self._reserved += 1
            try:
                yield
            finally:
                self._reserved -= 1

    def begin(self, engine: Backend, identity: Mapping[str, Any]) -> Resumed | None:
        """Called by `boostrank.train`: what to go on with, None for a start.

        Args:
            engine: that trains.
            identity: everything that the model depends on, plain data.

        Raises:
            InputError: as the class says.
        """
        self._engine, self._identity = engine, json.loads(json.dumps(identity))
        self._results, self._resumed_at, self._holds = [], None, None
        self._failures, self.failure = 0, ""
        if not (self.resume and os.path.exists(self.path)):
            return None
        resumed, identity_then, self._resumed_at = _read(self.path)
        differences = _differences(identity_then, self._identity)
        if differences:
            raise ParameterError(
                f"{self.path}: the checkpoint is of another training: {'; '.join(differences)}. Say the same as then, "
                "or remove the file to start anew"
            )
        self._holds = self._resumed_at
        return resumed

    def __call__(self, env: Any) -> None:
        if self._engine is None:
            raise ParameterError(AS_ARGUMENT)
        self._results.append([tuple(result)[:4] for result in env.evaluation_result_list or []])
        rounds = env.iteration + 1
        # Rounds that a resumed training sees once more need no writing, nor does the last, after which comes the model.
        past = self._resumed_at is not None and rounds <= self._resumed_at
        if self.every and rounds % self.every == 0 and rounds < env.end_iteration and not past:
            self.try_to_write(env)

    def try_to_write(self, env: Any) -> bool:
        """`write`, where a failure is not the end of the training: whether it went well.

        The first failure in a row is a warning; `failure` keeps the last.
        """
        try:
            self.write(env)
        except TrainingError as error:
            if not self.failure:
                warn_user(f"{error}. The training goes on; the next checkpoint may fit again", TrainingWarning)
            self._failures, self.failure = self._failures + 1, str(error)
            return False
        return True

    def write(self, env: Any) -> None:
        """Write the training as it is, from within a callback that comes after this one (`order` above 35).

        Args:
            env: what that callback was given.

        Raises:
            TrainingError: it could not be written; the old file is as it was.
        """
        assert self._engine is not None, "called outside a training"
        snapshot = self._engine.snapshot(env.model)
        named = [(name, metric, bool(up)) for name, metric, _, up in self._results[-1]]
        if any([(n, m, bool(up)) for n, m, _, up in results] != named for results in self._results):
            raise ParameterError("a training whose metrics change from round to round has no checkpoint")
        values = np.array([[r[2] for r in results] for results in self._results], dtype="<f8").reshape(-1)
        rounds = int(env.iteration) + 1
        header = CheckpointHeader(
            training=self._identity,
            begin=int(env.begin_iteration),
            rounds=rounds,
            metrics=named,
            model_bytes=len(snapshot.model),
            scores=[int(scores.size) for scores in snapshot.scores],
            scores_sha256=snapshot.scores_sha256,
        )
        line = json.dumps(msgspec.to_builtins(header), allow_nan=False).encode() + b"\n"
        arrays = [np.ascontiguousarray(scores, dtype="<f8") for scores in snapshot.scores]
        parts = [line, snapshot.model, *(array.tobytes() for array in [values, *arrays])]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        with replacing(self.path) as descriptor:
            write_all(descriptor, b"%s%d\n%s\n" % (_MAGIC, _VERSION, digest.hexdigest().encode()))
            for part in parts:
                write_all(descriptor, part)
        self._holds, self.failure = rounds, ""

    def remove(self) -> None:
        """Delete the file, once the model is safe; a symbolic link to it stays, for the next training."""
        for path in (self.path, *(part.path for part in self.parts)):
            if os.path.exists(path):
                os.unlink(os.path.realpath(path))

    def of_fold(self, fold: int) -> Checkpoint:
        """The checkpoint of a fold's training, numbered from 0: a file of its own, `PATH.1` for fold 0."""
        self.parts.append(Checkpoint(f"{self.path}.{fold + 1}", every=self.every, resume=self.resume))
        return self.parts[-1]

    @property
    def exists(self) -> bool:
        """Whether the file is there, or that of a fold."""
        return any(os.path.exists(self.path + ending) for ending in ("", *(f".{k}" for k in range(1, _MOST_FOLDS))))

    @property
    def resumed_at(self) -> int | None:
        """Rounds that were there already, of all folds; None: the training began anew."""
        return sum(part.resumed_at or 0 for part in self.parts) or self._resumed_at

    @property
    def holds(self) -> int | None:
        """Rounds of this training that the file has, or those of all folds; None: there is no file."""
        return sum(part.holds or 0 for part in self.parts) or self._holds

    @property
    def failures(self) -> int:
        """Number of writes that failed, of all folds."""
        return sum(part.failures for part in self.parts) + self._failures


def _read(path: str) -> tuple[Resumed, dict[str, Any], int]:
    """The training in a file, which training it is, and how many rounds it has.

    Raises:
        ModelError: damaged, of another kind or from a newer boostrank.
    """
    data = read_file(Path(path))
    first, _, rest = data[:200].partition(b"\n")
    if not re.fullmatch(rb"%s\d{1,9}" % _MAGIC, first):
        raise ModelError(f"{path}: not a checkpoint of boostrank, or its first bytes are damaged")
    if int(first[len(_MAGIC) :]) > _VERSION:
        raise ModelError(f"{path}: written by a newer boostrank: resume with that")
    start = len(first) + 1 + _DIGITS + 1
    if hashlib.sha256(memoryview(data)[start:]).hexdigest().encode() + b"\n" != rest[: _DIGITS + 1]:
        raise ModelError(f"{path}: truncated or damaged, its checksum does not fit: remove it to start anew")
    try:
        return _parse(data, start)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: not written by boostrank: {error}") from None


def _parse(data: bytes, start: int) -> tuple[Resumed, dict[str, Any], int]:
    line_end = data.index(b"\n", start)
    header = as_record(CheckpointHeader, from_json(data[start:line_end]))
    begin, rounds, named = header.begin, header.rounds, header.metrics
    model_end = line_end + 1 + header.model_bytes
    lengths = [(rounds - begin) * len(named), *header.scores]
    if min([begin, rounds - begin, model_end - line_end, *lengths]) < 0 or model_end + 8 * sum(lengths) != len(data):
        raise ValueError("its lengths do not add up")
    if rounds > model_end - line_end:  # without metrics nothing else bounds it
        raise ValueError(f"{rounds:,} rounds in so small a model")
    model = data[line_end + 1 : model_end]
    parse_model(model)
    numbers = np.frombuffer(data, dtype="<f8", count=sum(lengths), offset=model_end).astype(np.float64)
    values, *scores = np.split(numbers, np.cumsum(lengths)[:-1])
    values = values.reshape(rounds - begin, len(named))
    results = [[EvalResult(n, m, float(v), up) for (n, m, up), v in zip(named, row, strict=True)] for row in values]
    snapshot = Snapshot(model, tuple(scores), header.scores_sha256)
    return Resumed(snapshot, begin, results), header.training, rounds


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    """`learning_rate: 0.1 then, 0.2 now` of every key in which two nested dictionaries differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(key for key in now if key not in then)]
        pairs = [(f"{name}.{key}".lstrip("."), then.get(key), now.get(key)) for key in keys]
        return [words for key, a, b in pairs for words in _differences(a, b, key)]
    return [] if then == now else [f"{name} {_short(then)} then, {_short(now)} now"]


def _short(value: Any) -> str:
    text = "unset" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def settings_of(callbacks: Sequence[Any]) -> list[dict[str, Any]]:
    """What of the callbacks decides how a training ends or which parameters it has, in plain data."""
    settings: list[dict[str, Any]] = []
    for callback in callbacks:
        inner = getattr(callback, "gated", callback)
        names = [n for n in ("stopping_rounds", "min_delta", "first_metric_only", "kwargs") if hasattr(inner, n)]
        if "stopping_rounds" in names or "kwargs" in names:
            values = jsonable({n: getattr(inner, n) for n in names}, other=lambda unknown: type(unknown).__name__)
            settings.append({"callback": type(inner).__name__, **values})
    return settings
