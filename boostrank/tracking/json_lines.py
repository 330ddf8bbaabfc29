"""JSON-lines log: a line each round, which lies in the file before the next round begins."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from boostrank.core.errors import TrainingWarning, warn_user
from boostrank.core.files import write_all
from boostrank.records import jsonable
from boostrank.tracking.rounds import plain_params


class JsonLines:
    """A callback that appends to a file, which several trainings may share one after another.

    A training begins with `{"event": "begin", "time", "first_round", "last_round", "params"}`; each round is
    `{"round", "time", "metrics": {data set: {metric: value}}}`, `time` in seconds since 1970. Every line is written at
    once: of a killed process the file holds all rounds but the one in work. A line that a full disk has cut is taken
    back, or else closed by a newline the next time. A training that is resumed repeats the rounds since its checkpoint:
    the later line counts.

    Args:
        path: of the file, made where it is not there.

    Raises:
        OSError: at the first round, where it cannot be opened. Where it cannot be written later, training goes on
            without, and a warning says so.
    """

    before_iteration = False
    order = 22  # before early stopping, which ends the round by an exception

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._begun = self._written = self._broken = False

    def __call__(self, env: Any) -> None:
        if not self._begun or env.iteration == env.begin_iteration:
            self._begun = True
            self._append(
                {
                    "event": "begin", "time": time.time(), "first_round": env.iteration + 1,
                    "last_round": env.end_iteration, "params": plain_params(env),
                }
            )  # fmt: skip
        metrics: dict[str, dict[str, float]] = {}
        for result in env.evaluation_result_list or []:
            metrics.setdefault(result[0], {})[result[1]] = float(result[2])
        self._append({"round": env.iteration + 1, "time": time.time(), "metrics": metrics})

    def _append(self, record: dict[str, Any]) -> None:
        if self._broken:
            return
        line = json.dumps(jsonable(record), allow_nan=False).encode() + b"\n"
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            if not self._written:
                raise
            self._break(error)
            return
        size: int | None = None
        try:
            size = os.fstat(descriptor).st_size
            if size and os.lseek(descriptor, -1, os.SEEK_END) >= 0 and os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
            write_all(descriptor, line)
            self._written = True
        except OSError as error:
            with contextlib.suppress(OSError):
                if size is not None and os.fstat(descriptor).st_size < size + len(line):  # another has appended nothing
                    os.ftruncate(descriptor, size)  # no half of a line
            self._break(error)
        finally:
            os.close(descriptor)

    def _break(self, error: OSError) -> None:
        """Write no more, and say why."""
        self._broken = True
        warn_user(f"{self.path}: the log ends here: {error.strerror or error}", TrainingWarning)
