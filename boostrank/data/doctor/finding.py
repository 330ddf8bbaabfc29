"""Findings of the doctor: what each says, in which order, and in which words."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from boostrank.core.text import small_table


class Severity(enum.Enum):
    """How much a finding matters."""

    ERROR = "error"  # `boostrank train` refuses the data
    WARNING = "warning"  # it costs quality, or makes numbers look better than they are
    NOTE = "note"  # worth knowing


@dataclass(frozen=True)
class Finding:
    """One thing about the data.

    Args:
        check: its name, stable.
        severity: how much it matters.
        file: where it is seen first; empty when no place shows it.
        line: 1-based line there, 0 when the whole file is meant.
        column: 1-based byte column, 0 when the whole line is meant.
        count: how often, in what `message` speaks of (rows, queries, features).
        message: what was seen.
        cost: what follows from it.
        fix: the command or option that mends it, or what to look at; empty where nothing need be done.
        options: of `train`, with which it takes the data; empty where no option does.
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
        """`file:line:column`, as far as there is one."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"severity": self.severity.value}


class Findings(list[Finding]):
    """A list of findings, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [(f.severity.value, f.where, f.message, f.cost, f.fix) for f in self]
        columns = ("severity", "where", "what", "cost", "what mends it")
        return small_table(f"{len(self):,} findings" if self else "nothing found", rows, columns if self else ())


def percent(count: float, total: float) -> str:
    """`4.0%`; never rounded to 0 or to 100 when it is not."""
    share = 100.0 * count / max(total, 1)
    if 0 < share < 0.05:
        return "under 0.1%"
    if 99.5 <= share < 100:
        return f"{share:.1f}%" if share < 99.95 else "over 99.9%"
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def plural(number: int, one: str, several: str) -> str:
    """`1 query`, `2,000 queries`."""
    return f"{number:,} {one if number == 1 else several}"
