"""The metric by query, with its distribution, segments, and the worst queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.reporting.html import Chart, alt, whole_numbers
from boostrank.reporting.rank_changes import shown_name
from boostrank.reporting.result import Result
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import (
    FEWEST_FOR_INTERVAL,
    best_labels,
    means_over_queries,
)
from boostrank.reporting.table import Column, Data, Table, import_extra, table_of_rows

_BINS = 20
_QUANTILES = (0.05, 0.5, 0.95)
_PARTS = ("kind", "name", "queries", "mean", "low", "high", "q05", "q50", "q95")
# Numbers of top documents and of relevant documents below them for each of the worst queries.
_TOP, _BELOW = 10, 5


@dataclass(frozen=True)
class WorstQuery:
    """A query and its ranked list.

    Args:
        parts: the query's segment by kind.
        documents: table of the top documents and of the best-labelled documents below them, with
            the model's rank (ties keep row order), name, label and score.
    """

    qid: str
    value: float
    size: int
    parts: Mapping[str, str]
    documents: Data


class QueryValues(Result):
    """Result of `query_values`.

    Args:
        values: float64[Q], metric of each query, with NaN for excluded queries.
        sizes: int64[Q], number of documents of each query.
        of_part: each query's segment by kind, [Q].
        parts: rows of the segments with an included query: mean, its 95% interval (NaN for fewer
            than 20 queries), and quantiles over queries.
        worst: queries with the lowest values. Ties are ordered by the best label, then by the
            number of documents.
    """

    metric: str
    qids: Array
    values: Float64Array
    sizes: Int64Array
    of_part: Mapping[str, Array]
    parts: Sequence[Mapping[str, Any]]
    worst: tuple[WorstQuery, ...]

    HIDDEN = ("qids", "values", "sizes", "of_part", "queries")

    def tables(self) -> tuple[Table, ...]:
        """Return the values of the queries, the segments and the worst queries."""
        queries = {
            "qid": self.qids,
            self.metric: self.values,
            "documents": self.sizes,
            **self.of_part,
        }
        help = "mean over queries; its interval needs at least 20 queries"
        columns = (
            "name - part",
            "kind - by",
            "queries #",
            Column("mean", self.metric, ".4f", help, ends=("low", "high"), drawn=True),
            "q05 .3f 5%",
            "q50 .3f median",
            "q95 .3f 95%",
        )
        return Table("queries", queries), table_of_rows("parts", self.parts, columns)


def query_values(context: Context, worst: int = 20) -> QueryValues:
    """Analyse the metric for each query."""
    data, name = context.data, context.metric
    values = context.bound([context.main]).per_query(context.scores)[name]
    # Break ties by the best label, because failing on a very good document is worse.
    best_label = np.where(data.queries.sizes > 0, best_labels(data.labels, data.queries), 0.0)
    order = np.lexsort((-data.queries.sizes, -best_label, values))
    worst_queries = [query for query in order[:worst].tolist() if not np.isnan(values[query])]
    return QueryValues(
        metric=name,
        qids=data.queries.qid,
        values=values,
        sizes=data.queries.sizes,
        of_part=context.of_segment,
        parts=_measure_parts(context, values),
        worst=tuple(_list_documents(context, query, values) for query in worst_queries),
    )


def _measure_parts(context: Context, values: Float64Array) -> list[dict[str, Any]]:
    """Return a row for each of the segments that have an included query."""
    rows, weights = [], context.data.queries.each_weight
    for cut in context.cuts:
        for name, is_included in cut.split(~np.isnan(values)):
            means = means_over_queries(
                values[is_included, None], weights[is_included], seed=context.seed
            )
            ends = [*means.low, *means.high]
            if means.queries < FEWEST_FOR_INTERVAL:
                ends = [math.nan, math.nan]
            quantiles = np.quantile(values[is_included], _QUANTILES)
            numbers = (*means.queries, *means.mean, *ends, *quantiles)
            rows.append(dict(zip(_PARTS, (cut.kind, name, *numbers), strict=True)))
    return rows


def _list_documents(context: Context, query: int, values: Float64Array) -> WorstQuery:
    """Return the ranked list of a query."""
    data, queries = context.data, context.data.queries
    rows = np.arange(queries.ptr[query], queries.ptr[query + 1])
    scores, labels = context.scores[rows], data.labels[rows]
    ranks = QueryIndex.from_sizes([rows.size]).ranks(scores)
    # Take the top documents and the best-labelled documents below them.
    order = np.argsort(ranks)
    below_top = order[_TOP:]
    below_top = below_top[labels[below_top] > 0.0]
    best_below = np.sort(np.argsort(-labels[below_top], kind="stable")[:_BELOW])
    positions = np.concatenate([order[:_TOP], below_top[best_below]])
    documents = {
        "rank": ranks[positions],
        "document": [shown_name(row, data) for row in rows[positions].tolist()],
        "label": labels[positions].astype(np.float64),
        "score": scores[positions],
    }
    return WorstQuery(
        qid=queries.describe_query(query),
        value=float(values[query]),
        size=rows.size,
        parts={kind: str(names[query]) for kind, names in context.of_segment.items()},
        documents=documents,
    )


def _template_variables(result: QueryValues) -> dict[str, Any]:
    values = result.values[~np.isnan(result.values)]
    limits = min(0.0, float(values.min())), max(1.0, float(values.max()))
    certain = [segment for segment in result.parts if not math.isnan(segment["low"])]
    counts, edges = np.histogram(values, bins=_BINS, range=limits)
    bins = {"begin": edges[:-1], "end": edges[1:], "queries": counts}
    frame = import_extra("pandas").DataFrame(bins)
    x = alt.X("begin:Q", title=result.metric, bin="binned")
    y = alt.Y("queries:Q", axis=whole_numbers())
    figure = alt.Chart(frame).mark_bar(binSpacing=1).encode(x=x, x2="end:Q", y=y)
    return {
        "top": _TOP,
        "values": values,
        "quartiles": np.quantile(values, [0.25, 0.5, 0.75]),
        "lowest": min(certain, key=itemgetter("mean")) if len(certain) > 1 else None,
        "histogram": Chart("queries-values", frame, figure.properties(height=220)),
    }


SPEC = Section(
    "queries",
    "Queries",
    run=query_values,
    variables=_template_variables,
    position=50,
    after=("learning",),
)
