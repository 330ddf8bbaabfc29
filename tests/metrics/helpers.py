"""The twin of every metric, found by name as the metrics are."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from boostrank.core.conventions import Conventions
from boostrank.core.queries import QueryIndex
from boostrank.metrics import BoundMetrics, Metric
from boostrank.metrics.measure import METRICS
from tests.reference.tied_orders import over_ties

NAMES = METRICS.names()
TIES = ("expected", "input", "pessimistic", "optimistic")


def twin(name: str) -> Any:
    return importlib.import_module(f"tests.reference.metric_{name}")


def per_query(
    metric: str,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    sizes: list[int],
    conventions: Conventions,
    threads: int = 1,
) -> npt.NDArray[np.float64]:
    """float64[Q, p] by the compiled kernels."""
    bound = BoundMetrics([metric], labels, QueryIndex.from_sizes(sizes), conventions, threads)
    results = bound.results(np.asarray(scores, dtype=np.float64))
    return np.column_stack([r.per_query for r in results.values()])


def reference(
    metric: str, labels: list[float], scores: list[float], conventions: Conventions
) -> list[float]:
    """The same for one query by trying every order of the ties."""
    parsed = Metric.parse(metric)
    module = twin(parsed.name)
    c = (
        conventions
        if conventions.max_grade is not None
        else replace(conventions, max_grade=max(labels))
    )
    if module.empty(labels, c):
        ratio = parsed.spec.ratio and c.empty_for(parsed.name) == "one"
        return [1.0 if ratio else 0.0 for _ in parsed.names]
    return [
        over_ties(c.ties, lambda ranked, k=k: module.value(ranked, k, c), scores, labels)
        for k in parsed.cutoffs or (None,)
    ]


@st.composite
def queries(
    draw: st.DrawFn, labels: st.SearchStrategy[float], most: int = 7
) -> list[tuple[list[float], list[float]]]:
    """Ragged queries of (labels, scores) with many ties; few enough documents to try every order."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, most))
        y = draw(st.lists(labels, min_size=n, max_size=n))
        s = draw(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 3.0]), min_size=n, max_size=n))
        out.append((y, s))
    return out
