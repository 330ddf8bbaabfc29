"""Contexts for the analyses of sections, and the words of a section on a page."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np

from boostrank.data.dataset import RankingDataset
from boostrank.reporting.section import Context, PageSection

_HIDDEN = re.compile(r"<script.*?</script>|<noscript>.*?</noscript>|<[^>]*>", re.DOTALL)


def study(
    data: RankingDataset,
    metrics: Any = "ndcg@10",
    model: Any = None,
    scores: Any = None,
    start: Any = None,
    **more: Any,
) -> Context:
    """A context of a model, or of scores that stand for one."""
    if model is not None:
        model, data = model.over_columns(data)
    context = Context(model, data, metrics, **more)
    if scores is not None:
        context.scores, context.start = np.asarray(scores, np.float64), start
    return context


def words_of(section: PageSection) -> str:
    """Its brief, and what stands on the page, without marks: charts by title and caption."""
    return " ".join(unescape(_HIDDEN.sub("", f"{section.brief} {section.body}")).split())
