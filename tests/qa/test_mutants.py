"""Mutants: what a source file is changed to, and which of them are known to be no faults."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from qa.mutation.mutants import mutants_of
from qa.mutation.score import PACKAGE, equivalents, wilson


def changes(source: str) -> set[str]:
    """The changed lines of a function's body."""
    body = "def f(a, b, c):\n" + "".join(
        f"    {line}\n" for line in dedent(source).strip().splitlines()
    )
    mutants = mutants_of("file.py", body.encode())
    for mutant in mutants:
        ast.parse(mutant.source)
        assert mutant.function == "f"
        assert mutant.lines[0] <= mutant.line <= mutant.lines[1]
        assert mutant.was in body
    return {mutant.now for mutant in mutants}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("if a < b: c()", {"if a <= b: c()", "if not (a < b): c()", "if a < b: pass"}),
        ("g(a is not b not in c)", {"pass", "g(a is b not in c)", "g(a is not b in c)"}),
        ("return a + b * c", {"return a - b * c", "return a + b / c", "return None"}),
        ("return a and b", {"return a or b", "return None"}),
        ("a[b] += 2", {"pass", "a[b] -= 2", "a[b] += 3", "a[b] += 0"}),
        ("return -(a)", {"return (a)", "return None"}),
        ("g(a if b else True)", {"pass", "g(a if not (b) else True)", "g(a if b else False)"}),
        ("return f'{a + 1}'", {"return None"}),
        (
            "g([x for x in range(b) if x])",
            {
                "pass",
                "g([x for x in range(b - 1) if x])",
                "g([x for x in range(b + 1) if x])",
                "g([x for x in range(b) if not (x)])",
            },
        ),
        ("return a[b : c]", {"return a[b + 1 : c]", "return a[b : c - 1]", "return None"}),
        ("x = a", set()),
        ("a = b", {"pass"}),
        ("raise a", {"pass"}),
        ("assert a < b", set()),
        ("x: Kind[3] = a", set()),
        ("x = types.Array(types.float32, 1, 'C'), types.int32[::1]", set()),
        ("return None", set()),
    ],
)
def test_each_statement_has_these_mutants(source: str, expected: set[str]) -> None:
    assert changes(source) == expected


def test_places_are_right_behind_letters_of_several_bytes() -> None:
    assert changes("g('äöü', a < b)") == {"pass", "g('äöü', a <= b)"}


def test_nothing_of_what_only_type_checkers_read_is_changed() -> None:
    source = b"if TYPE_CHECKING:\n    a = 1 + 2\n@overload\ndef f(x: 3) -> 4: ...\n"
    assert mutants_of("file.py", source) == []


def test_every_change_that_is_no_fault_is_one_that_is_made() -> None:
    reasons = equivalents()
    keys = {
        mutant.key
        for file in {key[0] for key in reasons}
        for mutant in mutants_of(file, (PACKAGE / file).read_bytes())
    }
    assert set(reasons) <= keys
    assert all(reasons.values())


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert wilson(0, 10) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.2775, abs=1e-4))
    assert wilson(9, 10) == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))
