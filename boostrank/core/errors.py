"""Errors and warnings that boostrank raises."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable


class BoostrankError(Exception):
    """Base class of all errors that boostrank raises on purpose.

    Attributes:
        exit_code: exit status of the command: 2 for invalid input or options, 3 for failed work, 4
            for a lost worker.

    Example:
        >>> import boostrank
        >>> try:
        ...     boostrank.Objective("no-such-objective")
        ... except boostrank.BoostrankError as error:
        ...     print(type(error).__name__, error.exit_code)
        ParameterError 2
    """

    exit_code = 3


class InputError(BoostrankError, ValueError):
    """Error for user input that cannot be used.

    Example:
        >>> import boostrank
        >>> try:
        ...     boostrank.read("no-such-file.txt")
        ... except boostrank.InputError as error:
        ...     print("no-such-file.txt" in str(error))
        True
    """

    exit_code = 2


class ParameterError(InputError):
    """Error for a parameter that is unknown, out of range, or contradicts another parameter.

    Example:
        >>> import boostrank
        >>> try:
        ...     boostrank.Objective("sdcg", sigma=-1)
        ... except boostrank.ParameterError as error:
        ...     print("sigma" in str(error))
        True
    """


class UnknownParameter(ParameterError):
    """Error for an unknown parameter name."""


class DataError(InputError):
    """Error for labels, queries or features that cannot be used.

    Example:
        >>> import boostrank
        >>> try:
        ...     boostrank.QueryIndex.from_sizes([3, 0])
        ... except boostrank.DataError as error:
        ...     print(error.exit_code)
        2
    """


class RowError(DataError):
    """Error for a row, which is numbered from 0. `QueryIndex.naming_rows` adds the file and
    line.
    """

    def __init__(self, row: int, reason: str) -> None:
        self.row, self.reason = int(row), reason
        super().__init__(f"row {row} (from 0): {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return RowError, (self.row, self.reason)


class FileFormatError(DataError):
    """Error for a file that cannot be parsed.

    Args:
        reason: the fault, with the offending token and the remedy.
        file: path of the file, as typed by the user.
        line: line number, starting from 1, or 0 for the whole file.
        column: column in bytes, starting from 1, or 0 for the whole line.
    """

    def __init__(self, reason: str, file: str, line: int = 0, column: int = 0) -> None:
        self.reason, self.file, self.line, self.column = reason, file, line, column
        location = ":".join(map(str, filter(None, (file, line, line and column))))
        super().__init__(f"{location}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return FileFormatError, (self.reason, self.file, self.line, self.column)


class DataWarning(UserWarning):
    """Warning about suspicious data."""


class ModelError(InputError):
    """Error for a model file that is damaged, hostile, or from a newer version.

    Example:
        >>> import pathlib, tempfile
        >>> import boostrank
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.txt")
        ...     _ = path.write_text("not a model")
        ...     try:
        ...         boostrank.RankingModel.load(path)
        ...     except boostrank.ModelError as error:
        ...         print("model.txt" in str(error))
        True
    """


class TrainingError(BoostrankError, RuntimeError):
    """Error for a training that cannot continue, such as a broken gradient or a failed write.

    Example:
        >>> import boostrank
        >>> try:
        ...     boostrank.objective_values("listnet", [1, 0], [0.5, float("nan")], [2])
        ... except boostrank.TrainingError as error:
        ...     print("score" in str(error))
        True
    """


class NothingToLearn(TrainingError):
    """Error for a training set from which the objective cannot learn."""

    exit_code = 2


class WorkerLost(TrainingError):
    """Error for a worker that died or stopped responding in distributed training."""

    exit_code = 4


class TrainingWarning(UserWarning):
    """Warning about a training that probably does not work as intended."""


class MissingDependency(BoostrankError, ImportError):
    """Error for an optional package that is required but not installed."""

    exit_code = 2


def warn_user(message: str, category: type[Warning] = DataWarning) -> None:
    """Issue a warning like `warnings.warn`, with the location of the first stack frame outside
    boostrank.
    """
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "boostrank":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


def did_you_mean(name: str, candidates: Iterable[str], *, list_all: bool = True) -> str:
    """Return text for messages on unknown names, such as `" Did you mean 'sigma'? Known: alpha,
    sigma."`.
    """
    names = sorted(candidates)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(names)}." if list_all else hint
