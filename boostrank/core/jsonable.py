"""JSON data: what JSON can hold, from what Python and NumPy hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


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
