"""Findings of the doctor: content, order and formatting."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from boostrank.core.text import small_table


class Severity(enum.Enum):
    """Severity of a finding."""

    ERROR = "error"  # `boostrank train` refuses the data
    WARNING = "warning"  # it costs quality, or makes metrics look better than they are
    NOTE = "note"  # worth knowing


@dataclass(frozen=True)
class Finding:
    """One problem of the data.

    Args:
        check: name of the check, stable.
        file: first file with the problem; "" without a place.
        line: 1-based line; 0 means the whole file.
        column: 1-based byte; 0 means the whole line.
        count: number of affected rows, queries or features.
        message: the observation.
        cost: the consequence.
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
    fix: str
    options: str = ""

    @property
    def where(self) -> str:
        """Place as `file:line:column`, as far as known."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"severity": self.severity.value}


class Findings(list[Finding]):
    """List of findings, displayed as a table in notebooks."""

    def _repr_html_(self) -> str:
        rows = [(f.severity.value, f.where, f.message, f.cost, f.fix) for f in self]
        columns = ("severity", "where", "what", "cost", "what mends it")
        return small_table(f"{len(self):,} findings" if self else "nothing found", rows, columns if self else ())


def percent(count: float, total: float) -> str:
    """Format `4.0%`, never rounded to 0% or 100%."""
    share = 100.0 * count / max(total, 1)
    if 0 < share < 0.05:
        return "under 0.1%"
    if 99.5 <= share < 100:
        return f"{share:.1f}%" if share < 99.95 else "over 99.9%"
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def plural(number: int, one: str, several: str) -> str:
    """Format `1 query`, `2,000 queries`."""
    return f"{number:,} {one if number == 1 else several}"
