"""Metric query by query: its spread, by parts of the data, and the worst queries.

found = query_values(model, data, scores)
found.to_frame(), found.worst[0].documents
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ModelError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.report.documents import shown_name
from boostrank.report.frames import pandas
from boostrank.report.means import FEWEST_FOR_INTERVAL, means_over_queries
from boostrank.report.segments import Segmentation, best_labels, segmentations

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 20
# Of a worst query: the top of its list, relevant documents below it, and features side by side.
_TOP, _BELOW, _FEATURES = 10, 5, 6


@dataclass(frozen=True)
class SegmentMetric:
    """A metric over some of the queries.

    Args:
        kind: what the parts are about ("list length").
        name: which one.
        queries: that count.
        mean, low, high: and its 95% interval; NaN for fewer than 20 queries.
        quantiles: 5%, 25%, 50%, 75% and 95% of the queries are at or below these.
    """

    kind: str
    name: str
    queries: int
    mean: float
    low: float
    high: float
    quantiles: tuple[float, ...]

    @property
    def named_quantiles(self) -> dict[str, float]:
        """`q05` -> that quantile, and so on."""
        return {f"q{round(100 * q):02d}": value for q, value in zip(_QUANTILES, self.quantiles, strict=True)}


@dataclass(frozen=True)
class RankedDocument:
    """A document in a list.

    Args:
        rank: by the model, 1 is best; equal scores keep the order of the rows.
        document: its name, or `row 17`: its row in the data, counted from 1.
        label: its grade.
        score: the model's.
        contributions: of the features shown, what each adds to the score beyond the mean of the documents shown.
    """

    rank: int
    document: str
    label: float
    score: float
    contributions: tuple[float, ...]


@dataclass(frozen=True)
class WorstQuery:
    """A query and its list.

    Args:
        qid: its id.
        value: of the metric.
        size: documents in the list.
        parts: kind -> the part it is in.
        features: those whose contributions differ most between the documents shown; empty where the engine cannot tell.
        documents: the top of the list, and the best-labelled documents that stand below it.
    """

    qid: str
    value: float
    size: int
    parts: Mapping[str, str]
    features: tuple[str, ...]
    documents: tuple[RankedDocument, ...]


@dataclass(frozen=True, eq=False)
class QueryValues:
    """A metric query by query.

    Args:
        metric: such as "ndcg@10".
        qids: [Q], all queries of the data.
        values: float64[Q], NaN where a query does not count.
        sizes: int64[Q], documents.
        of_part: kind -> the part of each query, [Q].
        counts: int64[20], queries with a value in each of 20 equal bins, of which
        edges: float64[21] are the ends.
        parts: parts with a query that counts.
        worst: queries with the lowest values; of equal ones first those with better documents, then longer ones.
        notes: what is missing, and why.
    """

    metric: str
    qids: npt.NDArray[Any]
    values: Float64Array
    sizes: Int64Array
    of_part: Mapping[str, npt.NDArray[Any]]
    counts: Int64Array
    edges: Float64Array
    parts: tuple[SegmentMetric, ...]
    worst: tuple[WorstQuery, ...]
    notes: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """A pandas data frame, a row a query.

        Raises:
            MissingDependency: there is no pandas.
        """
        columns = {"qid": self.qids, self.metric: self.values, "documents": self.sizes}
        return pandas().DataFrame(columns | dict(self.of_part))

    def parts_frame(self) -> Any:
        """A pandas data frame, a row a part."""
        rows = [vars(part) | part.named_quantiles for part in self.parts]
        return pandas().DataFrame(rows).drop(columns=["quantiles"], errors="ignore")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of each query, as plain data."""
        return {
            "metric": self.metric, "queries": len(self.qids), "counted": int((~np.isnan(self.values)).sum()),
            "histogram": {"counts": self.counts.tolist(), "edges": self.edges.tolist()},
            "parts": [asdict(part) for part in self.parts], "worst": [asdict(one) for one in self.worst],
            "notes": list(self.notes),
        }  # fmt: skip


def query_values(
    model: RankingModel,
    data: RankingDataset,
    scores: npt.ArrayLike | None = None,
    *,
    metric: Metric | str = "ndcg@10",
    conventions: Conventions | str = "default",
    segments: Mapping[Any, Any] | str | PathLike[str] | None = None,
    worst: int = 20,
    docnos: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> QueryValues:
    """Look at a ranker query by query.

    Args:
        model: ours, or one that LightGBM or XGBoost made.
        data: labelled queries, features in the model's order.
        scores: float[N] of the model in the order of the rows of the data set; None predicts them.
        metric: with one cut-off.
        worst: how many queries to tell with their lists.
        conventions, segments, docnos, seed, threads: as for `boostrank.report.report`.

    Raises:
        DataError: features that are not the model's; no query that counts; no query has a segment.
    """
    one = Metric.of(metric)
    (name,) = one.names
    model, data = model.over_columns(data)
    if scores is None:
        scores = data.in_row_order(model.predict(data, threads=threads))
    s = np.asarray(scores, dtype=np.float64)
    rules = Conventions.of(conventions).over(data.labels)
    bound = BoundMetrics([one], data.labels, data.queries, rules, threads, docnos=docnos)
    values = bound.per_query(s)[name]
    cuts = segmentations(segments, data.labels, data.queries)
    counted = values[~np.isnan(values)]
    counts, edges = np.histogram(counted, bins=_BINS, range=(0.0, max(1.0, float(counted.max()))))
    of_part = {cut.kind: np.array(cut.names, dtype=object)[cut.of_query] for cut in cuts}
    # A low value of a query with very good documents is worse than of one without.
    best = np.where(data.queries.sizes > 0, best_labels(data.labels, data.queries), 0.0)
    order = np.lexsort((-data.queries.sizes, -best, values))
    chosen = [q for q in order[:worst].tolist() if not np.isnan(values[q])]
    lists, notes = _lists(model, data, s, chosen, values, of_part, docnos, threads)
    return QueryValues(
        metric=name, qids=data.queries.qid, values=values, sizes=data.queries.sizes, of_part=of_part,
        counts=counts.astype(np.int64), edges=edges,
        parts=tuple(part for cut in cuts for part in _parts(cut, values, data, seed)),
        worst=tuple(lists), notes=tuple(notes),
    )  # fmt: skip


def _parts(cut: Segmentation, values: Float64Array, data: RankingDataset, seed: int) -> list[SegmentMetric]:
    found = []
    for i, name in enumerate(cut.names):
        inside = (cut.of_query == i) & ~np.isnan(values)
        counted, queries = values[inside], int(inside.sum())
        if not queries:
            continue
        means = means_over_queries(counted[:, None], data.queries.each_weight[inside], seed=seed)
        ends = (float(means.low[0]), float(means.high[0])) if queries >= FEWEST_FOR_INTERVAL else (np.nan, np.nan)
        quantiles = tuple(float(q) for q in np.quantile(counted, _QUANTILES))
        found.append(SegmentMetric(cut.kind, name, queries, float(means.mean[0]), *ends, quantiles))
    return found


def _lists(
    model: RankingModel, data: RankingDataset, scores: Float64Array, chosen: Sequence[int], values: Float64Array,
    of_part: Mapping[str, npt.NDArray[Any]], docnos: Sequence[str] | None, threads: int | None,
) -> tuple[list[WorstQuery], list[str]]:  # fmt: skip
    if not chosen:
        return [], []
    shown: list[Int64Array] = []
    ranks: list[Int64Array] = []
    for q in chosen:
        index, rows = data.queries.take([q])
        rank = index.ranks(scores[rows])
        order = np.argsort(rank)
        below = order[_TOP:]
        best = below[np.argsort(-data.labels[rows[below]], kind="stable")][:_BELOW]
        best = best[data.labels[rows[best]] > 0.0]
        places = np.concatenate([order[:_TOP], best[np.argsort(rank[best])]])
        shown.append(rows[places])
        ranks.append(rank[places])
    notes: list[str] = []
    every = np.concatenate(shown)
    try:
        parts = model.contributions(data.features[every], threads=threads)[:, :-1]
    except ModelError as error:
        parts = np.zeros((every.size, 0))
        notes.append(f"Contributions of features are not available: {error}")
    found = []
    ends = np.cumsum([rows.size for rows in shown])
    for q, rows, rank, of_list in zip(chosen, shown, ranks, np.split(parts, ends[:-1]), strict=True):
        centred = of_list - of_list.mean(axis=0)
        spread = np.abs(centred).max(axis=0)
        top = np.argsort(-spread, kind="stable")[:_FEATURES]
        top = top[spread[top] > 0.0]
        documents = tuple(
            RankedDocument(r, shown_name(row, data, docnos), float(data.labels[row]), float(scores[row]), tuple(beyond))
            for row, r, beyond in zip(rows.tolist(), rank.tolist(), centred[:, top].tolist(), strict=True)
        )
        found.append(
            WorstQuery(
                qid=str(data.queries.qid[q]), value=float(values[q]), size=int(data.queries.sizes[q]),
                parts={kind: str(part[q]) for kind, part in of_part.items()},
                features=tuple(data.feature_names[c] for c in top.tolist()), documents=documents,
            )
        )  # fmt: skip
    return found, notes
