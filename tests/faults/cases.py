"""Cases of `cases.md`, and the tests that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).with_name("cases.md")
_CASE = re.compile(r"^(\d+)\. (.*(?:\n    .*)*)", re.MULTILINE)
_NAME = re.compile(r"test_fault_0*(\d+)_")


def cases() -> dict[int, tuple[str, str]]:
    """Number -> the case, and what is promised."""
    promises = {}
    for match in _CASE.finditer(LIST.read_text(encoding="utf-8")):
        words, arrow, promise = " ".join(match[2].split()).rpartition(" -> ")
        promises[int(match[1])] = (words, promise) if arrow else (promise, "as it says")
    return promises


def cases_of(name: str, marks: Iterator[tuple[int, ...]]) -> set[int]:
    """The cases that a test names, or is marked with."""
    return {int(number) for number in _NAME.findall(name)} | {
        number for mark in marks for number in mark
    }
