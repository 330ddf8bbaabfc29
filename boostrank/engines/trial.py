"""Parameters tried on an engine: what it does not take is told by name, before there are data to train on."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from boostrank.core.errors import ParameterError

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
    with _without_stderr():
        attempt(params)


@contextlib.contextmanager
def _without_stderr() -> Iterator[None]:
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
