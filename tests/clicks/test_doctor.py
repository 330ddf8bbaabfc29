"""The doctor finds each planted defect of a click log, at its line, and nothing else in a clean
one.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from boostrank.clicks.simulate import simulate_clicks
from boostrank.core.queries import QueryIndex
from boostrank.diagnosis import Finding, Severity
from boostrank.diagnosis.clicks import look_at_clicks
from boostrank.diagnosis.rules import OF_LABELS, RULES

Entry = tuple[int, int, int, int]
Ask = Callable[..., dict[str, Finding]]
SIZES = np.full(60, 8)
QUERIES = QueryIndex.from_sizes(SIZES)
ROWS = int(SIZES.sum())
DEPTH, LISTS = 5, 60


def simulated(lists: int = LISTS, spread: float = 0.7, seed: int = 0) -> list[Entry]:
    rng = np.random.default_rng(seed)
    labels, scores = rng.integers(0, 4, ROWS), rng.normal(size=ROWS)
    log = simulate_clicks(
        labels,
        QUERIES,
        labels + scores,
        impressions=lists,
        shown=DEPTH,
        spread=spread,
        seed=seed,
    )
    columns = (log.rows + 1, log.positions, log.impressions, log.clicks)
    return [
        (a, b, c, d) for a, b, c, d in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """`ask(entries)`: what is found in them, by the name of the check."""

    def found_in(entries: list[Entry], heading: bool = True, **options: bool) -> dict[str, Finding]:
        lines = ["row,position,impressions,clicks"] * heading + [
            ",".join(map(str, entry)) for entry in entries
        ]
        (tmp_path / "log").write_text("\n".join(lines) + "\n")
        findings = look_at_clicks(tmp_path / "log", QUERIES, **options)
        assert [f.severity for f in findings] == sorted(
            (f.severity for f in findings), key=list(Severity).index
        )
        return {f.check: f for f in findings}

    return found_in


def expect_single(
    findings: dict[str, Finding], check: str, severity: str, line: int, count: int, *words: str
) -> None:
    """The single finding, which is this one."""
    assert list(findings) == [check]
    finding = findings[check]
    assert (finding.severity.value, finding.line, finding.count) == (severity, line, count), finding
    for word in words:
        assert word in f"{finding.message} / {finding.cost} / {finding.fix}", finding


def test_a_clean_log_has_nothing(ask: Ask) -> None:
    assert ask(simulated()) == {}


def test_the_first_line_that_cannot_be_is_the_only_finding(ask: Ask) -> None:
    entries = simulated()
    many = [*entries[:4], (1, 1, 3, 4), *entries[4:], (1, 1, 3, 5)]  # line 6, after the heading
    expect_single(
        ask(many), "unreadable-clicks", "error", 6, 1, "an impression has at most one click"
    )
    unknown = [*entries[:4], (ROWS + 1, 1, 2, 1), *entries[4:]]
    expect_single(ask(unknown), "unreadable-clicks", "error", 6, 1, f"row is {ROWS + 1}")
    assert ask(unknown, counted=False) == {}  # rows of data that were not read to their end


def test_a_file_that_cannot_be_read_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(b"1 1 1 1\n" * 1000)[:-9])
    for path in (tmp_path / "log", tmp_path / "missing"):
        (finding,) = look_at_clicks(path, QUERIES)
        assert (finding.check, finding.severity, finding.line) == (
            "unreadable-clicks",
            Severity.ERROR,
            0,
        )


def test_no_clicks_and_nothing_but_clicks(ask: Ask) -> None:
    entries = simulated()
    findings = ask([(row, p, n, 0) for row, p, n, _ in entries])
    expect_single(
        findings, "no-clicks", "error", 0, sum(e[2] for e in entries), "no impression was clicked"
    )
    expect_single(ask([]), "no-clicks", "error", 0, 0, "there is no entry")
    findings = ask([(row, p, c, c) for row, p, _, c in entries if c])
    assert "only-clicked-impressions" in findings
    assert findings["only-clicked-impressions"].severity is Severity.WARNING


def test_lists_that_never_vary_and_positions_that_do_not_begin_at_1(ask: Ask) -> None:
    expect_single(
        ask(simulated(spread=0.0)),
        "nothing-moved",
        "error",
        0,
        DEPTH,
        "0.0% of the clicked documents moved",
    )
    findings = ask([(row, p + 1, n, c) for row, p, n, c in simulated()])
    assert "position 2 is" in findings["nothing-moved"].message


def test_positions_to_which_nothing_moves(ask: Ask) -> None:
    # The first two queries have documents that stay at positions 4 and 5, where the others have
    # none.
    mended = [(row, p, n, c) for row, p, n, c in simulated() if p < 4 and row > 16]
    at_4 = [(row, 4, LISTS, 9) for row in range(1, 9)]
    at_5 = [(row, 5, LISTS, 9) for row in range(9, 17)]
    findings = ask(mended + at_4 + at_5)
    assert set(findings) == {"unmoved-positions"}
    finding = findings["unmoved-positions"]
    assert (finding.severity, finding.count) == (Severity.WARNING, 2)
    assert "from position 4" in finding.message
    assert f"{16 * LISTS} impressions" in finding.cost


def test_propensities_that_rest_on_nearly_nothing(ask: Ask) -> None:
    # One document moved between positions 5 and 6, with two clicks; as many lists as before end
    # there.
    entries = [e for e in simulated() if (e[0], e[1]) != (1, 1)]
    findings = ask([*entries, (1, 1, LISTS, 1), (1, 6, LISTS, 1)])
    assert findings["vague-positions"].severity is Severity.WARNING
    assert "from position 6" in findings["vague-positions"].message


def test_click_rates_that_rise(ask: Ask) -> None:
    entries = simulated()
    swapped = [(row, {1: 3, 3: 1}.get(p, p), n, c) for row, p, n, c in entries]
    findings = ask(swapped)
    expect_single(
        findings,
        "rising-click-rates",
        "warning",
        0,
        2,
        "position 3 is clicked more often than position 1",
    )


def test_findings_on_labels_are_known_by_name() -> None:
    assert set(RULES) >= OF_LABELS
