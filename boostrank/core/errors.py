"""Errors and warnings: what went wrong, where, and what mends it.

Every exception that boostrank raises on purpose derives from `BoostrankError`; its `exit_code` is what the
command line leaves with (2: the input or the command is at fault; 3: the work failed).
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any


class BoostrankError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 3


class InputError(BoostrankError, ValueError):
    """Something the user handed over cannot be used as it is."""

    exit_code = 2


class ParameterError(InputError):
    """A parameter is unknown, out of range, or contradicts another one."""


class UnknownParameter(ParameterError):
    """A parameter that nobody knows by this name."""


class DataError(InputError):
    """Labels, queries or features that cannot be trained on or scored."""


class RowError(DataError):
    """Something of a row cannot be used; where it was read `QueryIndex.naming_rows` says.

    Args:
        row: it, counted from 0.
        reason: what is wrong, and what mends it.
    """

    def __init__(self, row: int, reason: str) -> None:
        self.row, self.reason = int(row), reason
        super().__init__(f"row {row} (from 0): {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return RowError, (self.row, self.reason)


class FileFormatError(DataError):
    """A file cannot be read as it is.

    Args:
        reason: what is wrong, naming the token, and what mends it.
        file: the path as the user typed it.
        line: 1-based line number, 0 when the whole file is meant.
        column: 1-based byte column, 0 when the whole line is meant.
    """

    def __init__(self, reason: str, *, file: str, line: int = 0, column: int = 0) -> None:
        self.reason, self.file, self.line, self.column = reason, file, line, column
        where = file + (f":{line}" if line else "") + (f":{column}" if line and column else "")
        super().__init__(f"{where}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return partial(FileFormatError, file=self.file, line=self.line, column=self.column), (self.reason,)


class DataWarning(UserWarning):
    """Data was read, and something about it deserves a look: one line a kind, with counts."""


class ModelError(InputError):
    """A model file is damaged, hostile, or from a newer version."""


class TrainingError(BoostrankError, RuntimeError):
    """Training cannot go on: a broken gradient, nothing to learn, a failed write.

    Attributes:
        model: the `RankingModel` of the rounds before a broken gradient; None where there were none.
    """

    model: Any = None


class NothingToLearn(TrainingError):
    """The training data have nothing that the objective could learn from."""

    exit_code = 2


class WorkerLost(TrainingError):
    """A worker of a training on several machines died, or does not answer any more."""

    exit_code = 4


class TrainingWarning(UserWarning):
    """Training goes on, but probably not as meant."""


class MissingDependency(BoostrankError, ImportError):
    """An optional package is needed and not installed."""

    exit_code = 2


def warn_user(message: str, category: type[Warning]) -> None:
    """`warnings.warn`, pointing at the first line outside boostrank: the caller's own."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "boostrank":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


def did_you_mean(name: str, candidates: Iterable[str], *, list_all: bool = True) -> str:
    """`" Did you mean 'sigma'? Known: alpha, sigma."`, for the end of an unknown-name message."""
    known = sorted(candidates)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(known)}." if list_all else hint
