"""Report sections. Each module declares one section as its `SPEC`
(`boostrank.reporting.section.Section`).
"""

from __future__ import annotations

from typing import Any

from boostrank.core.params import Registry

SECTIONS: Registry[Any] = Registry(__name__, "section")

METRICS = ("ndcg@1,3,5,10", "map", "mrr")
"""The default metrics in a report."""
