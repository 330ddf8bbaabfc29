"""Ranking looked at closely: the metric over k, scores by grade, and query by query against a model from before.

found = ranking(data, {"the model": scores, "random order": None}, metric="ndcg@10")
found.to_frame("depth"), found.to_frame("grades"), found.to_frame("old and new")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Metric
from boostrank.records import jsonable
from boostrank.report.comparison.analysis import TIE
from boostrank.report.frames import pandas
from boostrank.report.means import means_over_queries
from boostrank.report.segments import by_value

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# More grades than this are no grades.
_MOST_GRADES = 12


@dataclass(frozen=True, eq=False)
class DepthCurve:
    """A metric over its cut-off.

    Args:
        ranking: whose it is: "the model".
        k: int64[K], ascending.
        value, low, high: float64[K], mean over queries and its 95% interval.
    """

    ranking: str
    k: Int64Array
    value: Float64Array
    low: Float64Array
    high: Float64Array


@dataclass(frozen=True)
class GradeScores:
    """Scores of the documents of one grade, less the mean of their query.

    Args:
        grade: the label.
        documents: how many have it, in queries of two documents or more.
        mean: of their scores.
        quantiles: 5%, 25%, 50%, 75% and 95% of them are at or below these.
    """

    grade: str
    documents: int
    mean: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class OldAndNew:
    """The metric of each query, by a model from before and by this one.

    Args:
        name: of the one from before.
        qids: [Q], of the queries that count.
        old, new: float64[Q].
    """

    name: str
    qids: npt.NDArray[Any]
    old: Float64Array
    new: Float64Array

    @property
    def counts(self) -> tuple[int, int, int]:
        """Queries that the new one ranks better, the same, and worse."""
        change = self.new - self.old
        better, worse = int((change > TIE).sum()), int((change < -TIE).sum())
        return better, change.size - better - worse, worse


@dataclass(frozen=True, eq=False)
class Ranking:
    """What `ranking` found.

    Args:
        metric: such as "ndcg@10".
        family: the metric without its cut-off: "ndcg".
        depth: the family over k, of each ranking; empty for a metric without cut-offs.
        grades: by grade, ascending; empty where there are too many to be grades.
        pairs, pairs_low, pairs_high: mean over queries, and its 95% interval, of the share of the pairs of documents of
            different grades whose better one has the higher score; ties count half; NaN without such a pair.
        against: the model from before; None: there is none.
    """

    metric: str
    family: str
    depth: tuple[DepthCurve, ...]
    grades: tuple[GradeScores, ...]
    pairs: float
    pairs_low: float
    pairs_high: float
    against: OldAndNew | None

    def rows(self, what: str) -> list[dict[str, Any]]:
        """The rows of `to_frame`."""
        if what == "depth":
            names = ("ranking", "k", "value", "low", "high")
            rows: list[dict[str, Any]] = []
            for one in self.depth:
                points = zip(one.k.tolist(), one.value.tolist(), one.low.tolist(), one.high.tolist(), strict=True)
                rows += [dict(zip(names, (one.ranking, *point), strict=True)) for point in points]
            return rows
        if what == "grades":
            quantiles = [f"q{round(100 * q):02d}" for q in _QUANTILES]
            return [
                {"grade": one.grade, "documents": one.documents, "mean": one.mean}
                | dict(zip(quantiles, one.quantiles, strict=True))
                for one in self.grades
            ]
        if what == "old and new":
            against = self.against
            if against is None:
                return []
            columns = against.qids.tolist(), against.old.tolist(), against.new.tolist()
            return [{"qid": qid, "old": old, "new": new} for qid, old, new in zip(*columns, strict=True)]
        raise ParameterError(f"to_frame({what!r}).{did_you_mean(what, ('depth', 'grades', 'old and new'))}")

    def to_frame(self, what: str = "depth") -> Any:
        """A pandas data frame.

        Args:
            what: "depth", a row for each ranking and k; "grades", a row a grade; "old and new", a row a query.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: another word.
        """
        return pandas().DataFrame(self.rows(what))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of each query, as plain data."""
        names = ("better", "same", "worse")
        counts = None if self.against is None else dict(zip(names, self.against.counts, strict=True))
        found = {"metric": self.metric, "depth": self.rows("depth"), "grades": self.rows("grades"), "against": counts}
        pairs = {"pairs": self.pairs, "pairs_low": self.pairs_low, "pairs_high": self.pairs_high}
        return dict(jsonable(found | pairs))


def ranking(
    data: RankingDataset,
    rankings: Mapping[str, Float64Array | None],
    *,
    metric: Metric | str = "ndcg@10",
    conventions: Conventions | str = "default",
    previous: str | None = None,
    docnos: Sequence[str] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Ranking:
    """Look at rankings of the same data closely.

    Args:
        data: labelled queries.
        rankings: name -> float64[N], scores in the order of the data set's rows; the model first; None: random order.
        metric: with one cut-off, or without one.
        previous: which of the rankings is the model from before.
        conventions, docnos, seed, threads: as for `boostrank.report.report`.

    Raises:
        DataError: no query that counts.
    """
    one = Metric.of(metric)
    (name,) = one.names
    rules = Conventions.of(conventions).over(data.labels)
    family, _, cut = name.partition("@")
    scores = next(iter(rankings.values()))
    assert scores is not None
    depth: list[DepthCurve] = []
    if cut:
        longest = max(int(data.queries.sizes.max(initial=1)), int(cut))
        k = np.array(sorted({d for d in DEPTHS if d <= longest} | {int(cut)}), np.int64)
        over_k = Metric.parse(f"{family}@{','.join(map(str, k.tolist()))}")
        for called, of in rankings.items():
            # Documents that all tie are in random order to the mean over the orders of tied ones.
            used = replace(rules, ties="expected") if of is None else rules
            named = docnos if of is not None else None
            bound = BoundMetrics([over_k], data.labels, data.queries, used, threads, docnos=named)
            values = bound.per_query(np.zeros(data.n_documents) if of is None else of)
            columns = np.column_stack([values[f"{family}@{d}"] for d in k.tolist()])
            found = means_over_queries(columns, data.queries.each_weight, seed=seed)
            depth.append(DepthCurve(called, k, found.mean, found.low, found.high))
    against = None
    if previous is not None:
        bound = BoundMetrics([one], data.labels, data.queries, rules, threads, docnos=docnos)
        before = rankings[previous]
        assert before is not None
        old, new = bound.per_query(before)[name], bound.per_query(scores)[name]
        counted = ~np.isnan(new)
        against = OldAndNew(previous, data.queries.qid[counted], old[counted], new[counted])
    means = means_over_queries(_pairs_in_order(data, scores)[:, np.newaxis], data.queries.each_weight, seed=seed)
    pairs, low, high = means.mean.item(), means.low.item(), means.high.item()
    return Ranking(name, family, tuple(depth), _by_grade(data, scores), pairs, low, high, against)


def _by_grade(data: RankingDataset, scores: Float64Array) -> tuple[GradeScores, ...]:
    owner, sizes = data.queries.of_rows(), data.queries.sizes
    centred = scores - (np.bincount(owner, scores, sizes.size) / np.maximum(sizes, 1))[owner]
    several = sizes[owner] > 1
    if np.unique(data.labels).size > _MOST_GRADES:
        return ()
    cut = by_value("grade", data.labels, _MOST_GRADES)
    found = []
    for i, name in enumerate(cut.names):
        here = centred[several & (cut.of_query == i)]
        if here.size:
            quantiles = tuple(np.quantile(here, _QUANTILES).tolist())
            found.append(GradeScores(name, here.size, float(here.mean()), quantiles))
    return tuple(found)


def _pairs_in_order(data: RankingDataset, scores: Float64Array) -> Float64Array:
    """float64[Q]; of each query by counting, for each grade, lower scores of lower grades: n log n a grade."""
    shares = np.full(len(data.queries), np.nan)
    for q, (start, stop) in enumerate(pairwise(data.queries.ptr.tolist())):
        right = total = 0.0
        s, y = scores[start:stop], data.labels[start:stop]
        for grade in np.unique(y)[1:].tolist():
            lower, here = np.sort(s[y < grade]), s[y == grade]
            below, upto = (np.searchsorted(lower, here, side=side) for side in ("left", "right"))
            right += float((below + upto).sum()) / 2.0
            total += float(lower.size * here.size)
        if total:
            shares[q] = right / total
    return shares
