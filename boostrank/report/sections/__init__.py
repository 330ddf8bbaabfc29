"""Sections of the report, a file or a folder each: an analysis and its part of the page.

A section is found by its `SPEC`, a `boostrank.report.section.Section`: of the file, or of `page.py` in the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boostrank.core.registry import Registry

if TYPE_CHECKING:
    from boostrank.report.section import Section

SECTIONS: Registry[Section] = Registry(__name__, "section", within="page")

METRICS = ("ndcg@1,3,5,10", "map", "mrr")
"""What a report measures unless told otherwise."""


def section_names() -> list[str]:
    """The names of all sections; imports none of them, as `--help` must not."""
    return [module.partition(".")[0] for module in SECTIONS.modules()]
