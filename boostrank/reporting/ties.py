"""The number of documents of a query that share a score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from boostrank.core.queries import QueryIndex


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
