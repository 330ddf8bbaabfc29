"""Findings: the result of each check of an objective, and of all of them."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class Status(enum.Enum):
    """How a check ended. A note passes, and says something worth knowing."""

    PASS = "pass"
    NOTE = "note"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One check of one objective.

    Args:
        check: its name, one word or two.
        status: how it ended.
        message: what was seen, one line.
        example: the smallest example that fails: scores, labels, gains, and the document.
        why: why it matters.
        mend: what to change.
    """

    check: str
    status: Status
    message: str
    example: str = ""
    why: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Verdict:
    """Every check of one objective.

    Args:
        objective: its name.
        findings: in the order in which they were made.
    """

    objective: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(f.status is not Status.FAIL for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        findings = [asdict(f) | {"status": f.status.value} for f in self.findings]
        return {"objective": self.objective, "passed": self.passed, "checks": findings}


def passed(check: str, message: str) -> Finding:
    """A check that found nothing wrong."""
    return Finding(check, Status.PASS, message)


def skipped(check: str, message: str) -> Finding:
    """A check that does not apply, with the reason."""
    return Finding(check, Status.SKIP, message)
