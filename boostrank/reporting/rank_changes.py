"""Rank changes between two rankers, including churn, moved documents and the features that cause
the moves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import default_feature_names
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel, find_model
from boostrank.model.scores import as_scores
from boostrank.reporting.documents import shown_name

# Default feature names of LightGBM.
_UNNAMED = re.compile(r"Column_\d+")
# Limit on features listed for a regression.
_FEATURES = 8


@dataclass(frozen=True, eq=False)
class Ranker:
    """One of two compared rankers. Feature contributions require its model and the data columns
    that the model uses.
    """

    name: str
    scores: Float64Array
    model: RankingModel | None = None
    data: RankingDataset | None = None

    @classmethod
    def from_source(
        cls, source: Any, name: str, data: RankingDataset, threads: int | None
    ) -> Ranker:
        """Return a ranker, given a model, its file, or its scores in input order."""
        if isinstance(source, Ranker):
            return source
        model = find_model(source)
        if model is not None:
            data = data.only(model.feature_names)
            scores = model.predict(data, threads=threads)
        elif hasattr(source, "predict") or callable(source):
            raise ParameterError(
                f"{name}: {type(source).__name__} is not a model; pass its scores, predict(X)"
            )
        else:
            scores = as_scores(source, data, name)
        if scores.shape != (data.n_documents,):
            raise DataError(
                f"{name}: the scores must have the shape ({data.n_documents},), but got"
                f" {scores.shape}"
            )
        return cls(name, data.in_row_order(scores), model, data)


@dataclass(frozen=True, eq=False)
class Churn:
    """The changes at the top of the ranked lists.

    Args:
        changed: mean share of the new top k that was not in the old top k, over `queries`.
        queries: number of queries with more than k documents.
        first: share of queries with two or more documents whose first document changed, or NaN
            without such queries.
        per_query: float64[Q], changed share of the top k, or NaN for queries with at most k
            documents.
    """

    k: int
    changed: float
    queries: int
    first: float
    per_query: Float64Array


@dataclass(frozen=True)
class RankChange:
    """A document whose rank changed, with its name or row, and its old and new rank, counted from
    1.
    """

    document: str
    row: int
    label: float
    old: int
    new: int


@dataclass(frozen=True)
class Inversion:
    """A costly inversion of two documents.

    Args:
        fell: the better document, which used to rank above the other.
        rose: the worse document, which now ranks above the other.
        old, new: score difference by each ranker, in standard deviations of its scores in the
            query.
        features: the features whose contributions changed most, largest first, with the values of
            both documents (`fell`, `rose`) and their contributions by each ranker, `fell` minus
            `rose`, in the same unit (`old`, `new`; None for rankers without a model).
    """

    fell: RankChange
    rose: RankChange
    old: float
    new: float
    features: Sequence[dict[str, Any]] = ()


def churn(old: Int64Array, new: Int64Array, queries: QueryIndex, k: int) -> Churn:
    """Compare the top k of two rankings, given the results of `QueryIndex.ranks`."""
    owner = queries.of_rows()

    def entered(depth: int) -> Float64Array:
        return np.bincount(owner[(new <= depth) & (old > depth)], minlength=len(queries)) / depth

    longer, several = queries.sizes > k, queries.sizes > 1
    per_query = np.where(longer, entered(k), np.nan)
    changed = float(per_query[longer].mean()) if longer.any() else math.nan
    first = float(entered(1)[several].mean()) if several.any() else math.nan
    return Churn(k=k, changed=changed, queries=int(longer.sum()), first=first, per_query=per_query)


def rank_changes_in(
    query: int, old: Int64Array, new: Int64Array, data: RankingDataset, k: int
) -> tuple[RankChange, ...]:
    """Return the documents in either top k whose rank changed, sorted by old rank."""
    start, stop = int(data.queries.ptr[query]), int(data.queries.ptr[query + 1])
    before, after = old[start:stop], new[start:stop]
    moved = np.flatnonzero((np.minimum(before, after) <= k) & (before != after))
    order = moved[np.argsort(before[moved])]
    return tuple(
        RankChange(
            shown_name(row, data), row, float(data.labels[row]), int(old[row]), int(new[row])
        )
        for row in (start + order).tolist()
    )


def costliest_inversion(
    moves: Sequence[RankChange], grades: Float64Array
) -> tuple[RankChange, RankChange] | None:
    """Return the inversion for which the grade difference times the difference in 1 / log2(1 +
    rank) is largest.
    """
    best, worst = None, 0.0
    for fell in moves:
        for rose in moves:
            if fell.old < rose.old and fell.new > rose.new:
                lost = 1.0 / np.log2(1.0 + rose.new) - 1.0 / np.log2(1.0 + fell.new)
                cost = float(grades[fell.row] - grades[rose.row]) * float(lost)
                if cost > worst:
                    best, worst = (fell, rose), cost
    return best


def explain(
    pairs: Sequence[tuple[RankChange, RankChange]],
    queries: QueryIndex,
    rankers: tuple[Ranker, Ranker],
) -> tuple[list[Inversion], list[str]]:
    """Return the inversions with feature contributions, and notes on rankers that have no
    contributions.
    """
    if not pairs:
        return [], []
    rows = np.array([[fell.row, rose.row] for fell, rose in pairs], dtype=np.int64)
    spans = [
        slice(*queries.ptr[[q, q + 1]].tolist()) for q in map(queries.of_row, rows[:, 0].tolist())
    ]
    # Compute score differences and contributions in standard deviations of the scores in the query.
    nothing = np.zeros(len(pairs))
    values: dict[str, Float64Array] = {}
    margins, lifts, notes = [], [], []
    for ranker in rankers:
        spread = np.array([float(np.std(ranker.scores[span])) or 1.0 for span in spans])
        margins.append(((ranker.scores[rows[:, 0]] - ranker.scores[rows[:, 1]]) / spread).tolist())
        try:
            parts, seen = _parts(ranker, rows)
        except ModelError as error:
            notes.append(f"{ranker.name}: {error}")
            parts, seen = None, {}
        if parts is not None:
            parts = {name: part / spread for name, part in parts.items()}
        lifts.append(parts)
        values |= seen
    # Sort the features of each pair by the change of their contribution.
    swaps = []
    for i, (fell, rose) in enumerate(pairs):
        changes: list[dict[str, Any]] = []
        for name, value in values.items():
            old, new = [
                None if parts is None else float(parts.get(name, nothing)[i]) for parts in lifts
            ]
            if old or new:
                fell_value, rose_value = value[i].tolist()
                changes.append(
                    {
                        "feature": name,
                        "fell": fell_value,
                        "rose": rose_value,
                        "old": old,
                        "new": new,
                    }
                )
        changes.sort(key=lambda c: -abs((c["new"] or 0.0) - (c["old"] or 0.0)))
        swaps.append(
            Inversion(fell, rose, margins[0][i], margins[1][i], tuple(changes[:_FEATURES]))
        )
    return swaps, notes


def _parts(
    ranker: Ranker, rows: Int64Array
) -> tuple[dict[str, Float64Array] | None, dict[str, Float64Array]]:
    """Return the contribution differences, float64[pairs], and the values, float64[pairs, 2], by
    feature.
    """
    if ranker.model is None or ranker.data is None:
        return None, {}
    model, data = ranker.model.over_columns(ranker.data)
    features = data.features[rows.ravel()]
    both = model.contributions(features)[:, :-1].reshape(len(rows), 2, -1)
    parts = both[:, 0] - both[:, 1]
    values = (features.toarray() if hasattr(features, "toarray") else np.asarray(features)).reshape(
        len(rows), 2, -1
    )
    names = data.feature_names
    if all(
        map(_UNNAMED.fullmatch, names)
    ):  # default names may refer to different features in each model
        base = data.provenance.index_base
        if base is None:
            base = 1
        names = default_feature_names(len(names), base)
    return (
        {name: parts[:, j] for j, name in enumerate(names)},
        {name: values[:, :, j].astype(np.float64) for j, name in enumerate(names)},
    )
