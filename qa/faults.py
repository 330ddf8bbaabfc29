"""Run the tests of all cases, and write the page: case, promise, tests, result.

    python -m qa.faults [--out FILE] [CASE ...]

Exit status 1: a case has no test, or one that fails.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.faults.cases import cases, cases_of


class Results:
    """Keeps the tests of the wanted cases, and how each ended."""

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = numbers
        self.tests: dict[str, set[int]] = {}
        self.outcome: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Drop the others."""
        kept = []
        for item in items:
            numbers = (
                cases_of(item.name, (mark.args for mark in item.iter_markers("fault")))
                & self.numbers
            )
            if numbers:
                self.tests[item.nodeid] = numbers
                kept.append(item)
        config.hook.pytest_deselected(
            items=[item for item in items if item.nodeid not in self.tests]
        )
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The worst of set-up, call and tear-down."""
        if report.when == "call" or report.outcome != "passed":
            self.outcome[report.nodeid] = report.outcome


def page(results: Results) -> tuple[str, list[int]]:
    """The page, and the cases that are not held."""
    of_case: dict[int, list[str]] = defaultdict(list)
    for test, numbers in results.tests.items():
        for number in numbers:
            of_case[number].append(test)
    rows, open_cases = [], []
    for number, (case, promise) in cases().items():
        if number not in results.numbers:
            continue
        ended = Counter(results.outcome.get(test, "not run") for test in of_case[number])
        if not ended["passed"] or ended["failed"] or ended["not run"]:
            open_cases.append(number)
        functions = sorted(
            {test.partition("[")[0].removeprefix("tests/") for test in of_case[number]}
        )
        result = ", ".join(f"{count} {word}" for word, count in sorted(ended.items())) or "no test"
        cells = (
            str(number),
            case,
            promise,
            "<br>".join(f"`{function}`" for function in functions),
            result,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    passed = len(rows) - len(open_cases)
    head = [
        f"# Faults: {passed} of {len(rows)} cases are held",
        "",
        "| | case | promise | tests | result |",
    ]
    return "\n".join([*head, "|---|---|---|---|---|", *rows, ""]), open_cases


def main() -> int:
    """Run, write, say what is open."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", type=int, help="numbers; all of them by default")
    parser.add_argument("--out", type=Path, default=Path("faults.md"), help="where the page goes")
    arguments = parser.parse_args()
    results = Results(set(arguments.cases) or set(cases()))
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "tests"], plugins=[results])
    text, open_cases = page(results)
    arguments.out.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{text.splitlines()[0].removeprefix('# ')}: {arguments.out}\n")
    if open_cases:
        sys.stdout.write(f"not held: {', '.join(map(str, open_cases))}\n")
    return bool(open_cases)


if __name__ == "__main__":
    sys.exit(main())
