"""Documents of a query that share a score: how many there are, and what their order is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.queries import QueryIndex


@dataclass(frozen=True)
class TieReport:
    """The effect of tied scores.

    Args:
        documents: total number of documents.
        tied: number of documents that share a score with a differently labelled document in their
            query.
        expected, file_order, worst, best: mean of the metric over all orders of tied documents, and
            its values in the order of the file, in the worst order and in the best order.
    """

    documents: int
    tied: int
    expected: float
    file_order: float
    worst: float
    best: float

    @classmethod
    def measure(
        cls,
        documents: int,
        tied: int,
        rules: Conventions,
        values: Callable[[Conventions], dict[str, float]],
        metric: str,
    ) -> TieReport:
        """Return the report on a metric, given a function that maps conventions to metric
        values.
        """
        orders = ("expected", "input", "pessimistic", "optimistic")
        return cls(
            documents, tied, *(values(replace(rules, ties=order))[metric] for order in orders)
        )

    @property
    def mass(self) -> float:
        """The share of tied documents."""
        return self.tied / self.documents if self.documents else 0.0


def tied_documents(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    queries: QueryIndex,
    *,
    score_type: str = "float64",
) -> int:
    """Count documents that share a score, rounded to `score_type`, with another label's document in
    their query.
    """
    grades = np.asarray(labels, dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded_scores = np.asarray(scores).astype(score_type)
    if not grades.size:
        return 0
    query_of_row = queries.of_rows()
    order = np.lexsort((rounded_scores, query_of_row))
    grades, rounded_scores, query_of_row = grades[order], rounded_scores[order], query_of_row[order]
    begins = rounded_scores[1:] != rounded_scores[:-1]
    begins |= query_of_row[1:] != query_of_row[:-1]
    group_starts = np.append(0, 1 + np.flatnonzero(begins))
    mixed = np.minimum.reduceat(grades, group_starts) < np.maximum.reduceat(grades, group_starts)
    return int(np.diff(group_starts, append=grades.size)[mixed].sum())
