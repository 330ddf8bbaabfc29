"""Rank changes between two rankers: churn, and moved documents with their names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.errors import BoostrankError, DataError, ParameterError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel, find_model
from boostrank.model.scores import as_scores


@dataclass(frozen=True, eq=False)
class Ranker:
    """One of two compared rankers.

    Args:
        scores: float64[N], in row order.
        trees: number of trees, if known.
        is_run: whether it lists only the documents whose score is not NaN; see `model.trec`.
    """

    name: str
    scores: Float64Array
    trees: int | None = None
    is_run: bool = False

    @classmethod
    def from_source(
        cls, source: Any, name: str, data: RankingDataset, threads: int | None
    ) -> Ranker:
        """Return a ranker, given a model, its file, or its scores in input order."""
        if isinstance(source, Ranker):
            return source
        model = find_model(source)
        if model is not None:
            scores = model.predict(data.only(model.feature_names), threads=threads)
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
        return cls(name, data.in_row_order(scores), count_trees(model))


def count_trees(model: RankingModel | None) -> int | None:
    """Return the number of trees of a model, or None for scores and models without trees."""
    try:
        return None if model is None else model.num_trees()
    except BoostrankError:  # a report without its cost is better than none
        return None


@dataclass(frozen=True, eq=False)
class Churn:
    """The changes at the top of the ranked lists.

    Args:
        changed: mean share of the new top k that was not in the old top k, over `queries`.
        queries: number of queries with more than k documents.
        first: share of queries with two or more documents whose first document changed, or NaN
            without such queries.
    """

    k: int
    changed: float
    queries: int
    first: float


def input_row(row: int, data: RankingDataset) -> int:
    """Return the input row of a document, counted from 1."""
    return (row if data.input_rows is None else int(data.input_rows[row])) + 1


def shown_name(row: int, data: RankingDataset) -> str:
    """Return the document's name, or its input row counted from 1, such as `row 17`."""
    name = "" if data.document_names is None else str(data.document_names[row])
    return name or f"row {input_row(row, data)}"


@dataclass(frozen=True)
class RankChange:
    """A document whose rank changed, with its name or row, and its old and new rank, counted from
    1, or None where a run does not list it.
    """

    document: str
    row: int
    label: float
    old: int | None
    new: int | None

    @property
    def fell(self) -> bool:
        """Whether the document ranks lower now, or is no longer listed."""
        return (self.new or math.inf) > (self.old or math.inf)

    def __str__(self) -> str:
        old, new = ["unlisted" if rank is None else rank for rank in (self.old, self.new)]
        return f"{self.document} (label {self.label:g}) {old} -> {new}"


def ranks_of(ranker: Ranker, queries: QueryIndex) -> Float64Array:
    """Return `QueryIndex.ranks`, float64[N], infinite for documents that a run does not list."""
    return np.where(np.isnan(ranker.scores), np.inf, queries.ranks(ranker.scores))


def churn(old_ranks: Float64Array, new_ranks: Float64Array, queries: QueryIndex, k: int) -> Churn:
    """Compare the top k of two rankings, given the results of `ranks_of`."""
    owner = queries.of_rows()

    def share_entered(depth: int) -> float:
        entered = owner[(new_ranks <= depth) & (old_ranks > depth)]
        shares = np.bincount(entered, minlength=len(queries)) / depth
        shares = shares[queries.sizes > depth]
        return float(shares.mean()) if shares.size else math.nan

    return Churn(k, share_entered(k), int((queries.sizes > k).sum()), share_entered(1))


def rank_changes_in(
    query: int, old: Float64Array, new: Float64Array, data: RankingDataset, k: int
) -> tuple[RankChange, ...]:
    """Return the documents in either top k whose rank changed, sorted by old rank."""
    rows = np.arange(data.queries.ptr[query], data.queries.ptr[query + 1])
    moved_rows = rows[(np.minimum(old[rows], new[rows]) <= k) & (old[rows] != new[rows])]
    return tuple(
        RankChange(
            document=shown_name(row, data),
            row=row,
            label=float(data.labels[row]),
            old=_rank(old[row]),
            new=_rank(new[row]),
        )
        for row in moved_rows[np.argsort(old[moved_rows])].tolist()
    )


def _rank(rank: float) -> int | None:
    return int(rank) if rank < math.inf else None
