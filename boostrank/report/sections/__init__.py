"""Sections of the report, one module each, with a `SPEC` (`boostrank.report.section.Section`)."""

from __future__ import annotations

from typing import Any

from boostrank.core.params import Registry

SECTIONS: Registry[Any] = Registry(__name__, "section")

METRICS = ("ndcg@1,3,5,10", "map", "mrr")
"""Default metrics of a report."""


def section_names() -> list[str]:
    """Return the names of all sections without importing them, for `--help`."""
    return SECTIONS.modules()
