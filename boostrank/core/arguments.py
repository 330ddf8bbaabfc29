"""Type checks for arguments of public functions, with the argument's name in the error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar

from boostrank.core.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")

_WORDS: dict[Any, str] = {
    int: "a whole number",
    str: "text",
    Mapping: "a mapping",
    Callable: "a function",
    NoneType: "None",
}


def takes(**kinds: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function to check the types of its arguments.

    Args:
        kinds: argument name -> a class or a union (`str | None`). `int` includes NumPy integers and excludes bool.

    Raises:
        ParameterError: raised by the decorated function, with the argument's name and the expected type.
    """

    def made(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments
            for name in kinds.keys() & given.keys():
                if not any(_is(given[name], kind) for kind in _each(kinds[name])):
                    wanted = " or ".join(_WORDS.get(kind, f"a {kind.__name__}") for kind in _each(kinds[name]))
                    raise ParameterError(f"{name}={_shown(given[name])}: expected {wanted}")
            return function(*args, **kwargs)

        return checked

    return made


def _is(value: Any, kind: Any) -> bool:
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    return isinstance(value, kind)


def _each(kind: Any) -> tuple[Any, ...]:
    return kind.__args__ if isinstance(kind, UnionType) else (kind,)


def _shown(value: Any) -> str:
    text = repr(value) if value is None or isinstance(value, str | bytes | int | float) else ""
    return text if 0 < len(text) <= 40 else f"<{type(value).__name__}>"
