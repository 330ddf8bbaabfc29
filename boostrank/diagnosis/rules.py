"""Findings of the doctor, and the table of its rules: how grave each problem is, what it costs, and
what mends it."""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from boostrank.core.text import small_table


class Severity(enum.Enum):
    """The severity of a finding."""

    ERROR = "error"  # `boostrank train` refuses the data
    WARNING = "warning"  # it costs quality, or makes metrics look better than they are
    NOTE = "note"  # worth knowing


ERROR, WARNING, NOTE = Severity


@dataclass(frozen=True)
class Finding:
    """One problem in the data.

    Args:
        check: name of the rule, which is stable between versions.
        file: first file with the problem; "" if the problem has no location.
        line, column: line and byte, both starting at 1; 0 means the whole file or line.
        count: number of affected rows, queries or features.
        message, cost: the observation, and its consequence.
        fix: command, option or question that leads to a remedy; "" if none is needed.
        options: options of `train` that accept the data; "" if there are none.
    """

    check: str
    severity: Severity
    file: str
    line: int
    column: int
    count: int
    message: str
    cost: str
    fix: str = ""
    options: str = ""

    @property
    def where(self) -> str:
        """Location as `file:line:column`, with the parts that are available."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self) | {"severity": self.severity.value}


class Findings(list[Finding]):
    """A list of findings, with the most severe first, which notebooks display as a table."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        super().__init__(
            sorted(findings, key=lambda finding: list(Severity).index(finding.severity))
        )

    def _repr_html_(self) -> str:
        rows = [(f.severity.value, f.where, f.message, f.cost, f.fix) for f in self]
        if not self:
            return small_table("nothing found", rows, ())
        columns = ("severity", "where", "what", "cost", "fix")
        return small_table(f"{len(self):,} findings", rows, columns)


RULES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
)
"""What is known of each problem before the data are read: `severity`, `cost`, and perhaps `fix` and
`options`. A check may replace each part by a closer one.
"""

OF_LABELS = {
    "contradicting-duplicates",
    "dead-queries",
    "label-copy",
    "no-label-zero",
    "nothing-to-learn",
    "refused-labels",
    "steep-gains",
}
"""Rules about labels, which training on clicks ignores."""


def find(
    check: str, position: tuple[str, int, int], count: int, message: str, **changes: Any
) -> Finding:
    """Return a finding by a rule, at a file, line and column, with the `changes` to the rule that
    the data ask for."""
    parts = RULES[check] | changes
    severity = Severity(parts.pop("severity"))
    return Finding(check, severity, *position, count, message, **parts)


def percent(count: float, total: float) -> str:
    """Format a share as in `4.0%`, without rounding it to 0% or 100%."""
    share = 100.0 * count / max(total, 1)
    if 0.0 < share < 100.0:
        share = min(max(share, 0.1), 99.9)
    return f"{share:.1f}%"


def share_of(count: int, total: int, noun: str) -> str:
    """Format a count and its share, as in `12 of 300 queries (4.0%)`."""
    return f"{count:,} of {total:,} {noun} ({percent(count, total)})"
