"""Parameters of the engines: those of single features, trial runs, and the number of threads."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError, TrainingWarning, UnknownParameter, did_you_mean, warn_user
from boostrank.core.gains import Gain
from boostrank.core.types import Int64Array


@dataclass(frozen=True, eq=False)
class Limits:
    """What parameters ask of single features, of d.

    Args:
        direction: int64[d], 1: scores must not fall where the feature rises; -1: nor rise; 0: as they like. What
            missing values get is free, as in the engines.
        unused: columns that trees cannot split by, or not as by numbers, ascending.
        groups: sets of columns; what leads to a leaf are columns of one of them. None: any.
    """

    direction: Int64Array
    unused: tuple[int, ...] = ()
    groups: tuple[frozenset[int], ...] | None = None

    @classmethod
    def none(cls, columns: int) -> Limits:
        """Of no feature."""
        return cls(np.zeros(columns, np.int64))


class Params:
    """Parameters of an engine, in LightGBM's names or its own. Subclass this; every method is optional.

    Args:
        known: their names.
    """

    of_objectives: frozenset[str] = frozenset()
    """Parameters that only the engine's own objectives read."""
    of_ours: Mapping[str, Mapping[str, Any]] = {}
    """Objective of ours -> parameters whose defaults differ on this engine."""

    def __init__(self, *known: str) -> None:
        self._known = known

    def check(self, params: dict[str, Any]) -> None:
        """Refuse unknown parameters, and those that contradict what boostrank does."""
        unknown = next((name for name in params if name not in self._known), None)
        if unknown is not None:
            raise UnknownParameter(f"this engine has no parameter {unknown!r}.{did_you_mean(unknown, self._known)}")

    def named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters under their main names, whatever alias was given."""
        return dict(params)

    def of_native(self, objective: str, gain: Gain) -> dict[str, Any]:
        """Return the parameters that give one of the engine's own objectives a gain.

        Raises:
            ParameterError: its models rank nothing, its scores would not be right, or it has no such gain.
        """
        raise ParameterError(f"{objective}: this engine has no objectives of its own")

    def of_columns(
        self, params: dict[str, Any], names: Sequence[str], *, codes: Sequence[int] = (), followed: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Return parameters that speak of features, in whichever spelling, as the engine takes them.

        Args:
            params: as they were given, or as this method returns them.
            names: of the features.
            codes: columns that hold codes of categories, for engines that are told so by parameters.
            followed: for each column behind the features, the feature whose values of the parameters it takes over.

        Raises:
            ParameterError: features that are not there, or something else than the engine takes.
        """
        return params

    def limits(self, params: dict[str, Any], names: Sequence[str]) -> Limits:
        """Return what the parameters ask of single features; a linear start must keep it too.

        Raises:
            ParameterError: as `of_columns`.
        """
        return Limits.none(len(names))

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        """Return what in these parameters keeps a training from being resumed exactly; None if nothing."""
        return "a training of this engine cannot be resumed"

    def unstartable(self, params: dict[str, Any]) -> str | None:
        """Return what in these parameters keeps trees from beginning with a linear ranker; None if nothing."""
        return None


def read_directions(value: Any, names: Sequence[str] | None, *, padded: bool) -> list[int]:
    """`monotone_constraints`, a number a feature.

    Args:
        value: numbers in the order of the features, or a mapping from names; or either as text.
        names: of the features; None: nobody knows them yet.
        padded: whether there may be fewer numbers than features: the others are 0.

    Raises:
        ParameterError: no such numbers.
    """
    found = _parsed(value, "monotone_constraints")
    if isinstance(found, Mapping):
        numbers = dict.fromkeys(range(len(names or ())), 0)
        for name, number in found.items():
            column = _column(name, names, "monotone_constraints")
            numbers[len(numbers) if column is None else column] = number
        found = list(numbers.values())
    found = list(found) if isinstance(found, list | tuple | np.ndarray) else [found]
    if any(isinstance(number, str) or number not in (-1, 0, 1) for number in found):
        raise ParameterError(f"monotone_constraints={value!r}: each feature has 1 (rising), -1 (falling) or 0")
    if names is not None and found and (len(found) > len(names) or (len(found) < len(names) and not padded)):
        raise ParameterError(
            f"monotone_constraints has {len(found)} numbers, the data {len(names)} features: one each is needed"
        )
    return [int(number) for number in found] + [0] * (len(names or ()) - len(found))


def read_groups(value: Any, names: Sequence[str] | None) -> list[list[Any]]:
    """`interaction_constraints`: groups of columns.

    Args:
        value: lists of columns or of names; or that as text.
        names: of the features; None: nobody knows them yet, and names stay names.

    Raises:
        ParameterError: no such lists.
    """
    found = _parsed(value, "interaction_constraints")
    groups = list(found) if isinstance(found, list | tuple) else [found]
    if isinstance(value, str) and groups and not any(isinstance(group, list | tuple) for group in groups):
        groups = [groups]  # "[0,1]" alone is one group to LightGBM
    if any(not isinstance(group, list | tuple) for group in groups):
        raise ParameterError(f"interaction_constraints={value!r}: give lists of features, as [[0, 1], [2]]")
    columns = [[(_column(one, names, "interaction_constraints"), one) for one in group] for group in groups]
    return [[one if column is None else column for column, one in group] for group in columns]


def groups_with(groups: Sequence[Sequence[int]], columns: int, followed: Sequence[int]) -> list[list[int]]:
    """Groups of columns, with each of those behind the first `columns` wherever the one that it follows is."""
    return [[*group, *(columns + i for i, one in enumerate(followed) if one in group)] for group in groups]


def by_name(value: Any) -> bool:
    """Whether `monotone_constraints` or `interaction_constraints` speak of features by their names."""
    found = _parsed(value, "constraints")
    groups = [found] if isinstance(found, Mapping) else found if isinstance(found, list | tuple) else []
    return any(isinstance(one, str) for group in groups if isinstance(group, Mapping | list | tuple) for one in group)


def read_numbers(value: Any, names: Sequence[str], parameter: str) -> list[float]:
    """A number a feature, or as text.

    Raises:
        ParameterError: no such numbers.
    """
    found = _parsed(value, parameter)
    try:
        numbers = [float(number) for number in (found if isinstance(found, list | tuple | np.ndarray) else [found])]
    except (TypeError, ValueError):
        raise ParameterError(f"{parameter}={value!r} must be a number for each feature") from None
    if len(numbers) != len(names):
        raise ParameterError(
            f"{parameter} has {len(numbers)} numbers, the data {len(names)} features: one each is needed"
        )
    return numbers


def read_columns(value: Any, names: Sequence[str] | None, parameter: str) -> list[int]:
    """Columns in LightGBM's spelling: a list of columns or names, or as text "0,2" or "name:a,b".

    Raises:
        ParameterError: one that is not there.
    """
    if isinstance(value, str):
        by_name = value.startswith("name:")
        parts = [part.strip() for part in value.removeprefix("name:").split(",") if part.strip()]
        value = [int(part) if not by_name and part.isdigit() else part for part in parts]
    found = [_column(one, names, parameter) for one in np.atleast_1d(np.array(value, dtype=object)).tolist()]
    return sorted({column for column in found if column is not None})


def _parsed(value: Any, parameter: str) -> Any:
    """Text as what it spells."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value.strip() or "()")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ParameterError(f"{parameter}={value!r} is no list: put names in quotes, numbers between commas") from None


def _column(one: Any, names: Sequence[str] | None, parameter: str) -> int | None:
    """The column of a feature by its name or number; None where it cannot be known yet."""
    if isinstance(one, str):
        if names is not None and one not in names:
            raise ParameterError(
                f"{parameter}: the data have no feature {one!r}.{did_you_mean(one, names, list_all=False)}"
            )
        return None if names is None else list(names).index(one)
    if isinstance(one, bool) or not isinstance(one, int | np.integer) or one < 0:
        raise ParameterError(f"{parameter}: {one!r} is no feature: give its name, or its column counted from 0")
    if names is not None and one >= len(names):
        raise ParameterError(f"{parameter}: there is no column {one}: the data have {len(names)}, counted from 0")
    return int(one)


_WHOLE = {
    "num_leaves": 2,
    "max_leaves": 0,
    "max_bin": 2,
    "max_depth": -(2**31),
    "min_data_in_leaf": 0,
    "verbosity": -(2**31),
}
"""Parameters of either engine that are whole numbers -> the least that is taken."""


def check_numbers(params: Mapping[str, Any], given_as: Mapping[str, str]) -> None:
    """Refuse by name what an engine, or the plan of its memory, would fail on later, or take for something else.

    Args:
        params: by their main names.
        given_as: main name -> the name that was given.

    Raises:
        ParameterError: a value is no finite number; or no whole number where one is needed, or too small, or above
            2^31 - 1.
    """
    for name, value in params.items():
        if name not in _WHOLE and isinstance(value, float | np.floating) and not np.isfinite(value):
            raise ParameterError(f"{given_as.get(name, name)}={value!r} must be a finite number")
    for name, low in _WHOLE.items():
        value = params.get(name)
        if value is None:
            continue
        try:
            whole = not isinstance(value, bool) and float(value) == int(value)
            right = whole and low <= int(value) < 2**31
        except (TypeError, ValueError, OverflowError):
            right = False
        if not right:
            raise ParameterError(
                f"{given_as.get(name, name)}={value!r} must be a whole number, at least {low} and below 2^31"
            )


Attempt = Callable[[dict[str, Any]], object]
"""Hands an engine parameters, and raises what it raises."""

_TAKEN: set[str] = set()
_LIMIT = re.compile(r"Check failed: \((?:static_cast<\w+>\()?(\w+)\)+ (\S+) \(([^()]*)\)")
_PLACES = re.compile(r"^\[\d\d:\d\d:\d\d\] \S+: | at /\S+, line \d+ \.?")
_LONGEST = 300


def try_parameters(engine: str, params: Mapping[str, Any], attempt: Attempt) -> None:
    """Let an engine have parameters, together and, where it refuses those, one by one.

    Args:
        engine: its name.
        params: as they were given.
        attempt: tries them, in a millisecond or so.

    Raises:
        ParameterError: it refuses them; names the one that it does not take, or all where it takes each.
    """
    known = f"{engine} {sorted(params.items(), key=str)!r}"
    if not params or known in _TAKEN:
        return
    try:
        _quietly(attempt, dict(params))
    except Exception as error:
        for name, value in params.items() if len(params) > 1 else ():
            try:
                _quietly(attempt, {name: value})
            except Exception as own:
                raise ParameterError(_words(engine, {name: value}, own)) from own
        raise ParameterError(_words(engine, params, error)) from error
    _TAKEN.add(known)


def _quietly(attempt: Attempt, params: dict[str, Any]) -> None:
    with without_stderr():
        attempt(params)


@contextlib.contextmanager
def without_stderr() -> Iterator[None]:
    """Inside, nothing gets to standard error: LightGBM prints there, past Python, the errors that it raises."""
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # it is closed
        yield
        return
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _words(engine: str, params: Mapping[str, Any], error: Exception) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in params.items())
    return f"{engine} does not take {given}: {refusal(error)}"


def refusal(error: Exception) -> str:
    """What an engine's error says, in one line without its source files, times and stack."""
    lines = [line.strip() for line in str(error).partition("Stack trace")[0].splitlines()]
    text = _PLACES.sub("", " ".join(filter(None, lines)))
    limit = _LIMIT.search(text)
    if limit is not None:
        return f"{limit[1]} must be {limit[2]} {limit[3]}"
    if text.startswith("Unknown token"):
        return "a number is needed"
    return text[:_LONGEST].strip() or type(error).__name__


# GNU's OpenMP keeps its threads between two calls, and a forked child has none of them: an engine would wait for them
# forever. So the engines of a child whose parent had loaded them use one thread.
_warned: dict[str, bool] = {}
"""Engine that this process has from its parent -> whether a warning has named its one thread."""


def limit_in_children(engine: str, limit: Callable[[], object]) -> None:
    """Have an engine use one thread in all processes that are forked from now on.

    Args:
        engine: its name, for people.
        limit: makes it use one where it is not told how many.
    """

    def begin() -> None:
        limit()
        _warned[engine] = False

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=begin)


def engine_threads(engine: str, threads: int) -> int:
    """Threads for an engine: as many as are wanted, but 1 in a forked process, with one warning.

    Args:
        engine: as of `limit_in_children`.
        threads: that are wanted.
    """
    if engine not in _warned or threads == 1:
        return threads
    if not _warned[engine]:
        _warned[engine] = True
        warn_user(
            f"{engine} uses one thread in this process: it was forked from one that had loaded {engine}, whose threads "
            "a fork leaves behind. Start processes by 'spawn' or 'forkserver', or load the model in the child alone",
            TrainingWarning,
        )
    return 1
