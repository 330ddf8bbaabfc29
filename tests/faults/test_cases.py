"""Every case of the list has a test, and every test that names a case names one of the list."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.cases import cases

TESTS = Path(__file__).parents[1]
_MARK = re.compile(r"@pytest\.mark\.fault\(([\d, ]+)\)|test_fault_0*(\d+)_")


def test_cases_and_tests_name_each_other() -> None:
    numbers = set()
    for file in TESTS.rglob("test_*.py"):
        for marked, called in _MARK.findall(file.read_text(encoding="utf-8")):
            numbers |= {int(number) for number in (marked or called).split(",")}
    assert numbers == set(cases())


def test_the_list_counts_on() -> None:
    assert list(cases()) == list(range(1, len(cases()) + 1))
    assert all(case and promise for case, promise in cases().values())
