"""Engine parameters: how they are parsed and tried out, and the number of threads."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.conventions import Gain
from boostrank.core.errors import (
    ParameterError,
    TrainingWarning,
    UnknownParameter,
    did_you_mean,
    warn_user,
)
from boostrank.core.types import Int64Array, ParamValues


@dataclass(frozen=True, eq=False)
class Limits:
    """The constraints on single features.

    Args:
        direction: int64[d], 1 if scores rise with the feature, -1 if they fall, 0 if both are
            allowed. Missing values are not constrained, as in the engines.
        unused: columns that trees cannot split by, or only as categories, ascending.
        groups: sets of columns, where the splits above each leaf use the columns of one set; None
            allows any columns.
    """

    direction: Int64Array
    unused: tuple[int, ...] = ()
    groups: tuple[frozenset[int], ...] | None = None

    @classmethod
    def none(cls, columns: int) -> Limits:
        """Return limits that constrain none of the columns."""
        return cls(np.zeros(columns, np.int64))


_LOWER_BOUNDS = {
    "num_leaves": 2,
    "max_leaves": 0,
    "max_bin": 2,
    "min_data_in_leaf": 0,
    "max_depth": -(2**31),
    "verbosity": -(2**31),
}


class Params:
    """Base class of engine parameters, under LightGBM's names or the engine's own; every method is
    optional.

    Attributes:
        title: name of the engine in messages.
        of_objectives: parameters that only the engine's own objectives use.
        of_ours: parameters whose defaults are different with this engine, by boostrank's objective.
        refused: main name -> reason why the parameter is rejected, and the remedy.
        harmless: values of refused parameters that are allowed, by main name.
        untried: main names of parameters that `attempt` cannot check.
        splits_outside_groups: whether trees split by features outside all groups of
            `interaction_constraints`, by each alone.
    """

    title = "this engine"
    of_objectives: frozenset[str] = frozenset()
    of_ours: Mapping[str, Mapping[str, Any]] = {}
    refused: Mapping[str, str] = {}
    harmless: Mapping[str, tuple[Any, ...]] = {}
    untried: frozenset[str] = frozenset({"verbosity"})
    splits_outside_groups = False

    def names(self) -> Mapping[str, str]:
        """Return the main name of every name and alias."""
        return {}

    def check(self, params: ParamValues) -> None:
        """Raise an error if a parameter is unknown or not supported, or if the engine rejects its
        value.
        """
        given_as = self.check_values(params)
        tried_params = {
            name: params[name] for main, name in given_as.items() if main not in self.untried
        }
        if self._failure(tried_params) is None:
            return
        # Try the parameters one by one to find the rejected one, or else name them all.
        for rejected in (*({name: value} for name, value in tried_params.items()), tried_params):
            error = self._failure(rejected)
            if error is not None:
                assignments = ", ".join(f"{name}={value!r}" for name, value in rejected.items())
                raise ParameterError(
                    f"{self.title} rejects {assignments}: {refusal(error)}"
                ) from error

    def _failure(self, params: dict[str, Any]) -> Exception | None:
        try:
            if params:
                with without_stderr():
                    self.attempt(params)
        except Exception as error:
            return error
        return None

    def check_values(self, params: ParamValues) -> dict[str, str]:
        """Check the values, as far as the engine itself would not, and return the given name of
        each parameter by its main name.

        Raises:
            UnknownParameter: the engine has no such parameter.
            ParameterError: a parameter is given twice, is not supported, or has a value that the
                engine would misread.
        """
        aliases = self.names()
        given_as: dict[str, str] = {}
        for name, value in params.items():
            if name not in aliases:
                hint = did_you_mean(name, aliases, list_all=False)
                raise UnknownParameter(f"{self.title} has no parameter {name!r}.{hint}")
            main = aliases[name]
            if value is None:  # the default
                continue
            if main in given_as:
                raise ParameterError(f"{given_as[main]!r} and {name!r} are the same parameter")
            if main in self.refused and value not in self.harmless.get(main, ()):
                raise ParameterError(f"{name} is not supported: {self.refused[main]}")
            given_as[main] = name
        # Check the numbers that an engine or the memory plan would misread or reject only later.
        for main, name in given_as.items():
            value = params[name]
            if main in _LOWER_BOUNDS:
                as_whole(value, name, _LOWER_BOUNDS[main])
            elif isinstance(value, float | np.floating) and not np.isfinite(value):
                raise ParameterError(f"{name}={value!r} must be a finite number")
        return given_as

    def attempt(self, params: dict[str, Any]) -> None:
        """Try the parameters with the engine, which raises its own errors."""

    def resolve_names(self, params: ParamValues) -> dict[str, Any]:
        """Return the parameters that are not None under their main names; unknown names stay."""
        aliases = self.names()
        return {
            aliases.get(name, name): value for name, value in params.items() if value is not None
        }

    def drops_trees(self, params: ParamValues) -> bool:
        """Return True for dart, whose later rounds rescale earlier trees: it cannot be stopped
        early.
        """
        return bool(self.resolve_names(params).get("boosting") == "dart")

    def of_native(self, objective: str, gain: Gain) -> dict[str, Any]:
        """Return the parameters that set the gain for one of the engine's own objectives.

        Raises:
            ParameterError: the objective does not rank, or does not support this gain.
        """
        raise ParameterError(f"{objective}: {self.title} has no objectives of its own")

    def of_columns(
        self,
        params: ParamValues,
        names: Sequence[str],
        *,
        codes: Sequence[int] = (),
        followed: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Convert the parameters of single features, in any spelling, to the form that the engine
        accepts.

        Args:
            params: parameters as they were given, or as this method returned them.
            codes: columns with category codes, for engines that have a parameter for them.
            followed: for each column after the features, the feature whose parameters it copies.
        """
        converted, aliases = dict(params), self.names()
        for name, value in params.items():
            main = aliases.get(name, name)
            if main == "monotone_constraints" and value is not None:
                directions = read_directions(value, names)
                converted[name] = [*directions, *(directions[column] for column in followed)]
            if main == "interaction_constraints" and value not in ("", None):
                groups, columns = read_groups(value, names), len(names)
                converted[name] = [
                    [*group, *(columns + i for i, column in enumerate(followed) if column in group)]
                    for group in groups
                ]
        if codes and "categorical_column" in aliases:
            converted["categorical_column"] = list(codes)
        return converted

    def limits(self, params: ParamValues, names: Sequence[str]) -> Limits:
        """Return the constraints on single features, which apply to a linear start too.

        Args:
            params: parameters as `of_columns` returned them.
        """
        engine_params, columns = self.resolve_names(params), frozenset(range(len(names)))
        direction = engine_params.get("monotone_constraints") or [0] * len(names)
        groups = [*map(frozenset, filter(None, engine_params.get("interaction_constraints") or ()))]
        others = columns.difference(*groups) if groups else frozenset()
        if self.splits_outside_groups:
            groups += [frozenset([column]) for column in others]
            others = frozenset()
        return Limits(np.array(direction, np.int64), tuple(sorted(others)), tuple(groups) or None)

    def unresumable(self, params: ParamValues, native_objective: str | None) -> str | None:
        """Return the reason why a training with these parameters cannot be resumed exactly, or None
        if it can.
        """
        return "a training of this engine cannot be resumed"


def read_directions(value: Any, names: Sequence[str] | None) -> list[int]:
    """Parse `monotone_constraints` into one number per feature.

    Args:
        value: numbers in the order of the features, a mapping from names, or either of them as
            text.
        names: names of the features, or None if they are not available yet.
    """
    directions = _parsed(value, "monotone_constraints")
    if isinstance(directions, Mapping):
        direction_of_column: dict[Any, Any] = dict.fromkeys(range(len(names or ())), 0)
        for name, direction in directions.items():
            direction_of_column[_column(name, names, "monotone_constraints")] = direction
        directions = list(direction_of_column.values())
    directions = _listed(directions)
    if any(isinstance(direction, str) or direction not in (-1, 0, 1) for direction in directions):
        raise ParameterError(
            f"monotone_constraints={value!r} must be 1 (rising), -1 (falling) or 0 for each feature"
        )
    if names is not None and directions and len(directions) != len(names):
        raise ParameterError(
            f"monotone_constraints has {len(directions)} numbers, but the data has {len(names)}"
            " features: pass one per feature"
        )
    return [int(direction) for direction in directions] or [0] * len(names or ())


def read_groups(value: Any, names: Sequence[str] | None) -> list[list[Any]]:
    """Parse `interaction_constraints` into groups of columns.

    Args:
        value: lists of columns or names, or a text with such lists.
        names: names of the features, or None if they are not available yet, in which case names are
            kept.
    """
    groups = _listed(_parsed(value, "interaction_constraints"))
    are_lists = [isinstance(group, list | tuple) for group in groups]
    if isinstance(value, str) and groups and not any(are_lists):
        groups, are_lists = [groups], [True]  # "[0,1]" alone is one group to LightGBM
    if not all(are_lists):
        raise ParameterError(
            f"interaction_constraints={value!r} must be lists of features, such as [[0, 1], [2]]"
        )
    return [
        [_column(feature, names, "interaction_constraints") for feature in group]
        for group in groups
    ]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value]


def _parsed(value: Any, parameter: str) -> Any:
    """Parse a text as a literal, and return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value.strip() or "()")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ParameterError(
            f"{parameter}={value!r} is not a list of numbers or quoted names"
        ) from None


def _column(feature: Any, names: Sequence[str] | None, parameter: str) -> Any:
    """Return the column of a feature given by name or number, or its name if the names are not
    available yet.
    """
    if isinstance(feature, str):
        if names is not None and feature not in names:
            raise ParameterError(
                f"{parameter}: the data has no feature"
                f" {feature!r}.{did_you_mean(feature, names, list_all=False)}"
            )
        return feature if names is None else list(names).index(feature)
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or feature < 0:
        raise ParameterError(
            f"{parameter}: {feature!r} is not a feature: pass its name, or its column counted"
            " from 0"
        )
    if names is not None and feature >= len(names):
        raise ParameterError(
            f"{parameter}: there is no column {feature}; the columns are 0 to {len(names) - 1}"
        )
    return int(feature)


def as_whole(value: Any, name: str, low: int) -> int:
    """Return a whole number, at least `low` and below 2^31, or raise ParameterError."""
    try:
        whole = int(value)
        if isinstance(value, bool) or whole != float(value) or not low <= whole < 2**31:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"{name}={value!r} must be a whole number, at least {low} and below 2^31"
        ) from None
    return whole


_LIMIT = re.compile(r"Check failed: \((?:static_cast<\w+>\()?(\w+)\)+ (\S+) \(([^()]*)\)")
_PLACES = re.compile(r"^\[\d\d:\d\d:\d\d\] \S+: | at /\S+, line \d+ \.?")


_STDERR_LOCK = threading.Lock()
_saved_stderrs: list[int] = []


@contextlib.contextmanager
def without_stderr() -> Iterator[None]:
    """Silence standard error, where LightGBM prints errors that it also raises."""
    with _STDERR_LOCK:
        try:
            saved_stderr, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        except OSError:  # standard error is closed
            saved_stderr, null_device = -1, -1
        if saved_stderr >= 0:
            _saved_stderrs.append(saved_stderr)
            os.dup2(null_device, 2)
            os.close(null_device)
    try:
        yield
    finally:
        # The last thread in such a block restores what the first one saved.
        with _STDERR_LOCK:
            if saved_stderr >= 0:
                last = _saved_stderrs.pop()
                if not _saved_stderrs:
                    os.dup2(last, 2)
                os.close(last)


def refusal(error: Exception) -> str:
    """Return an engine's error in one line, without its source files, times and stack trace."""
    lines = [line.strip() for line in str(error).partition("Stack trace")[0].splitlines()]
    text = _PLACES.sub("", " ".join(filter(None, lines)))
    limit = _LIMIT.search(text)
    if limit is not None:
        return f"{limit[1]} must be {limit[2]} {limit[3]}"
    if text.startswith("Unknown token"):
        return "a number is required"
    return text[:300].strip() or type(error).__name__


# GNU's OpenMP keeps its threads between calls. A forked child does not inherit them, and an engine
# would wait for them forever. So engines that the parent process had loaded use one thread in the
# child.
_warned: dict[str, bool] = {}
"""Whether the warning about one thread has been shown, for each engine that the parent process had
loaded.
"""


def limit_in_children(engine: str, limit: Callable[[], object]) -> None:
    """Limit an engine to one thread in all processes forked from now on."""

    def begin() -> None:
        limit()
        _warned[engine] = False

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)


def engine_threads(engine: str, threads: int) -> int:
    """Return the requested number of threads, or warn once and return 1 in a forked process."""
    if engine not in _warned or threads == 1:
        return threads
    if not _warned[engine]:
        _warned[engine] = True
        warn_user(
            f"{engine} uses one thread in this process because it was forked after its parent had"
            f" loaded {engine}. Start processes with 'spawn' or 'forkserver', or load the model"
            " only in the child",
            TrainingWarning,
        )
    return 1
