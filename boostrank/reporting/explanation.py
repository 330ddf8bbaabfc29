"""Explanation of why one document ranks above another.

The engine's TreeSHAP (Lundberg et al. 2020) attributes the score difference to the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, ModelError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.rows import DenseRows
from boostrank.files.tables import query_name
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.reporting.rank_changes import input_row, shown_name
from boostrank.reporting.result import Result
from boostrank.reporting.table import Cell, Table, fixed, table_of_rows

# Number of ids that an error lists, and number of ids that are compared for suggestions.
_LISTED = 10
_COMPARED = 20_000


@dataclass(frozen=True)
class Document:
    """One document of the pair, with its rank in the query, counted from 1. Tied documents are
    ranked in row order.
    """

    name: str
    row: int
    rank: int
    score: float
    label: float

    def __str__(self) -> str:
        return f"{self.name}, rank {self.rank:,}, score {self.score:.6g}"


class Why(Result):
    """Result of `why`. Arrays have one entry per feature that the trees use, by absolute part,
    largest first.

    Args:
        documents: number of documents in the query.
        features: the c feature names.
        values: float64[2, c], feature values of both documents, where NaN is a missing value.
        contributions: float64[2, c], TreeSHAP contributions to both scores, or NaN if the engine
            cannot compute them.
        categories: category names of each categorical feature, by code.
    """

    qid: str
    a: Document
    b: Document
    documents: int
    features: tuple[str, ...]
    values: Float64Array
    contributions: Float64Array
    notes: tuple[str, ...]
    categories: Mapping[str, Categories]

    def value_text(self, feature: str, value: float) -> str:
        """Return the category's name, the number, or "missing"."""
        categories = self.categories.get(feature)
        if np.isnan(value):
            return "missing"
        if categories is None or categories.values is None:
            return f"{value:.6g}"
        if not 0.0 <= value < len(categories.values):
            return "another category"
        return str(categories.values[int(value)])

    @property
    def side(self) -> str:
        """Whether a ranks "above" or "below" b."""
        return "above" if self.a.rank < self.b.rank else "below"

    @property
    def difference(self) -> float:
        """The score of document a minus that of document b."""
        return self.a.score - self.b.score

    @property
    def parts(self) -> Float64Array:
        """The contributions to a's score minus the contributions to b's, float64[c]. They add up to
        `difference`.
        """
        return np.asarray(self.contributions[0] - self.contributions[1])

    HIDDEN = ("values", "contributions", "pair")

    def tables(self) -> tuple[Table, ...]:
        """Return the features, and the pair."""
        signed = fixed(self.contributions.ravel().tolist(), 4, sign=True)
        numbers = [*self.values, *self.contributions, self.parts]
        by_name = dict(zip(("a", "b", "a_part", "b_part", "part"), numbers, strict=True))
        columns = (
            "feature",
            "a # A",
            "b # B",
            f"a_part {signed} part of A | TreeSHAP contribution to A's score",
            f"b_part {signed} part of B | TreeSHAP contribution to B's score",
            f"part {signed} A - B | The parts add up to the difference of the scores.",
        )
        cells = {
            document: [
                Cell(value, self.value_text(feature, value))
                for feature, value in zip(self.features, by_name[document].tolist(), strict=True)
            ]
            for document in ("a", "b")
        }
        pair_columns = ("document", "name", "rank #", "score .6g", "label g")
        return (
            Table("features", {"feature": self.features, **by_name}, columns, cells),
            table_of_rows("pair", (self.a, self.b), pair_columns, document=["A", "B"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {"difference": self.difference} | super().to_dict()

    @property
    def _title(self) -> str:
        return f"Query {self.qid}: A ({self.a}) minus B ({self.b}) is {self.difference:+.4g}"


def why(
    model: RankingModel | str | PathLike[str],
    data: RankingDataset,
    qid: Any,
    a: str | int,
    b: str | int,
    *,
    threads: int | None = None,
) -> Why:
    """Explain why document `a` of a query ranks above or below document `b`.

    Args:
        model: a boostrank, LightGBM or XGBoost model, or its file.
        data: data that contain the query.
        a, b: documents, given by rank (`@3`, or the number 3), by data row (`row:17`), or by name.
        threads: number of threads, or None for every available core.

    Raises:
        DataError: an unknown query or document, an ambiguous name, the same document twice, or
            features other than the model's.
    """
    data = as_dataset(data)
    ranker = as_model(model)
    categories = ranker.categories
    ranker, data = ranker.over_columns(data)
    # Score and rank the documents of the query, and find the pair.
    query = find_query(qid, data.queries)
    start, stop = int(data.queries.ptr[query]), int(data.queries.ptr[query + 1])
    if stop - start < 2:
        raise DataError(f"query {qid} has only one document, but a comparison needs two")
    scores = ranker.predict(data.features[start:stop], threads=threads)
    ranks = QueryIndex.from_sizes([scores.size]).ranks(scores)
    rows = [find_document(document, query, data, ranks) for document in (a, b)]
    documents = [
        Document(
            name=shown_name(row, data),
            row=row,
            rank=int(ranks[row - start]),
            score=float(scores[row - start]),
            label=float(data.labels[row]),
        )
        for row in rows
    ]
    if rows[0] == rows[1]:
        raise DataError(
            f"{a} and {b} are the same document of query {qid}: {documents[0].name}, rank"
            f" {documents[0].rank}"
        )
    # Attribute both scores to the features that the trees use.
    used, notes = ranker.trees().used, []
    values = DenseRows(data, used, ranker.absent_is_missing)[np.array(rows)].astype(np.float64)
    contributions = np.full(values.shape, np.nan)
    try:
        contributions = ranker.contributions(data.features[rows], threads=threads)[:, used]
    except ModelError as error:
        notes.append(str(error))
    if documents[0].score == documents[1].score:
        notes.append("the scores are equal, so row order decides")
    # List the features that matter most first.
    order = np.argsort(-np.abs(contributions[0] - contributions[1]), kind="stable")
    features = tuple(ranker.feature_names[i] for i in used[order])
    return Why(
        qid=data.queries.describe_query(query),
        a=documents[0],
        b=documents[1],
        documents=stop - start,
        features=features,
        values=values[:, order],
        contributions=contributions[:, order],
        notes=tuple(notes),
        categories={name: categories[name] for name in features if name in categories},
    )


def find_query(qid: Any, queries: QueryIndex) -> int:
    """Return the position of a query, given its id or its query text."""
    # Search the ids, then the query texts.
    text = query_name(str(qid).strip())
    ids = queries.qid
    matches = np.flatnonzero(ids.astype(str) == text)
    if not matches.size and queries.words is not None:
        matches = np.flatnonzero(queries.words == text)
    if matches.size == 1:
        return int(matches[0])
    if matches.size:
        rows = ", ".join(str(int(queries.ptr[match]) + 1) for match in matches[:_LISTED])
        raise DataError(
            f"query id {text} is not unique: {matches.size} queries have it, starting at rows"
            f" {rows}; use distinct ids, or bring the rows of each query together (boostrank data"
            " sort, sort=True)"
        )
    # Suggest similar ids.
    list_all = len(queries) <= _LISTED
    id_range = "" if list_all else f" It has {len(queries):,} queries, from {ids[0]} to {ids[-1]}"
    hint = did_you_mean(text, list(map(str, ids[:_COMPARED])), list_all=list_all)
    raise DataError(f"the data has no query {text!r}.{hint}{id_range}")


def find_document(document: str | int, query: int, data: RankingDataset, ranks: Int64Array) -> int:
    """Return a document's row in the data set.

    Args:
        document: the document's rank (`@3`, or the number 3), input row (`row:17`), or name.
        query: position of the query.
        ranks: int64[n], ranks of the query's documents in row order, from 1.
    """
    start = int(data.queries.ptr[query])
    text = str(document).strip()
    if isinstance(document, int | np.integer):
        text = f"@{document}"
    names = [""] * ranks.size
    if data.document_names is not None:
        names = data.document_names[start : start + ranks.size].tolist()
    rows = [f"row:{input_row(start + i, data)}" for i in range(ranks.size)]
    labels = [(f"@{rank}", *label) for rank, *label in zip(ranks, rows, names, strict=True)]
    positions = [i for i, labels_of_document in enumerate(labels) if text in labels_of_document]
    if len(positions) == 1:
        return start + positions[0]
    query_title = f"query {data.queries.describe_query(query)}"
    if positions:
        choices = ", ".join(f"{rows[i]} (rank {ranks[i]})" for i in positions[:_LISTED])
        raise DataError(
            f"{query_title} has {len(positions)} documents named {text!r}; choose one: {choices}"
        )
    hint = did_you_mean(text, list(filter(None, names)), list_all=False)
    raise DataError(
        f"{query_title} has no document {text!r}.{hint} Write a name, @1 to @{ranks.size} for a"
        f" rank, or row:N for one of its rows, such as {rows[0]}"
    )
