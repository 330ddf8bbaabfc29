"""JSON data: what JSON can hold, from what Python and NumPy hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

MAX_NESTING = 100
"""Lists and objects within each other that are read: what walks or writes them calls itself for each."""


def from_json(text: str | bytes, *, once: bool = False) -> Any:
    """What JSON text says; it may hold NaN and infinity.

    Args:
        text: of a file that anybody may have written.
        once: refuse a key that an object has twice.

    Raises:
        ValueError: it is no JSON, is nested deeper than `MAX_NESTING`, or has a key twice.
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique if once else None)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [found]
    for _ in range(MAX_NESTING):
        # Long lists of numbers are looked through by `set` and `map` alone, which cost little beside the reading.
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        inside = [values for values in inside if not _PLAIN.issuperset(map(type, values))]
        level = [value for values in inside for value in values]
        if not level:
            return found
    raise ValueError(_TOO_DEEP)


_PLAIN = frozenset({str, int, float, bool, type(None)})
_TOO_DEEP = f"the JSON is nested deeper than {MAX_NESTING} lists and objects"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the JSON has an object with the same key twice: readers would disagree about it")
    return found


def is_number(value: Any) -> bool:
    """Whether it is a number: Python counts true and false among them, JSON and TOML do not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, and neither true nor false."""
    return isinstance(value, int) and not isinstance(value, bool)


def fits(value: Any, form: Any) -> bool:
    """Whether plain data has a form, and so can be used without a look at each part.

    Args:
        value: as JSON gives it.
        form: a type, or a tuple of several; `[form]` for a list of such; `{"name": form}` for an object that has these
            names, and others; `{str: form}` for one of any names.
    """
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(one, form[0]) for one in value)
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return False
        if str in form:
            return all(fits(one, form[str]) for one in value.values())
        return all(name in value and fits(value[name], inner) for name, inner in form.items())
    return type(value) in (form if isinstance(form, tuple) else (form,))  # True is no whole number


def jsonable(value: Any, *, digits: int | None = None, other: Callable[[Any], Any] = str) -> Any:
    """The same as plain data: NumPy's numbers as Python's, tuples as lists, NaN and infinity as null.

    Args:
        value: mappings, sequences, arrays, numbers and text, in any depth.
        digits: significant digits of a float; None keeps all.
        other: what stands for an object that JSON has no form for: its text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(one, digits=digits, other=other) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(one, digits=digits, other=other) for one in value]
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        return jsonable(value.tolist(), digits=digits, other=other)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value if isinstance(value, int) else other(value)
