"""Names of queries, features and segments: text that C and UTF-8 hold whole."""

from __future__ import annotations

import re
from collections.abc import Iterable

_UNFIT = re.compile("[\0\ud800-\udfff]")

UNFIT_WORDS = "NUL or half a character (a lone surrogate)"
"""What names cannot hold: C and NumPy end a text at it, or UTF-8 has no bytes for it."""


def first_unfit(names: Iterable[str]) -> int | None:
    """Number, from 0, of the first name that holds what names cannot; None: all are fit."""
    return next((number for number, name in enumerate(names) if _UNFIT.search(name)), None)
