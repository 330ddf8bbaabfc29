"""Comparison of two rankers on the same queries: is the new one better, for whom, and what did it break?

comparison = compare(old_model, new_model, test_set, ["ndcg@10"], fail_if=["ndcg@10 < -0.002 at p<0.05"])
comparison.metrics["ndcg@10"].mean, comparison.failed
comparison.to_frame()
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.resampling import PAIRED_RESAMPLES, paired_difference
from boostrank.core.text import small_table
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Conventions, Metric
from boostrank.model.ranking_model import RankingModel, model_of_booster
from boostrank.records import jsonable
from boostrank.report.comparison.gate import Condition
from boostrank.report.comparison.result import Difference, SegmentDifference
from boostrank.report.frames import pandas
from boostrank.report.html.page import page_of
from boostrank.report.means import FEWEST_FOR_INTERVAL
from boostrank.report.rank_changes import (
    Churn,
    Inversion,
    RankChange,
    Ranker,
    churn,
    costliest_inversion,
    explain,
    rank_changes_in,
)
from boostrank.report.segments import Segmentation, holm, segmentations

RESAMPLES = PAIRED_RESAMPLES
# Sums of the same numbers in another order: less is no difference between two lists.
TIE = 1e-12


@dataclass(frozen=True)
class Regression:
    """A query that lost.

    Args:
        qid: its id.
        old, new: the first metric's value.
        segments: kind -> the segment it is in.
        moves: documents of either top k with another rank, by their old ranks.
        swap: the two documents whose exchange cost most; None if no better one fell below a worse one.
    """

    qid: str
    old: float
    new: float
    segments: Mapping[str, str]
    moves: tuple[RankChange, ...]
    swap: Inversion | None


@dataclass(frozen=True)
class ConditionOutcome:
    """A condition, and what became of it.

    Args:
        condition: as it was asked for.
        holds: whether it is so: the gate is shut.
        where: segments where it is so, of a condition `in any`.
    """

    condition: Condition
    holds: bool
    where: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two rankers on the same queries.

    Args:
        old, new: what they are called.
        metrics: name -> difference over all queries; the first one is what regressions are told by.
        segments: differences of every metric in every segment that has a query.
        churn: how much of the top of the lists is another.
        regressions: the queries that lost most, worst first.
        outcomes: of the conditions asked for.
        conventions: what the metrics' definitions leave open.
        qids: [Q], all queries of the data.
        per_query: metric -> float64[Q, 2], old and new; NaN where a query does not count.
        of_segment: kind -> the segment of each query, [Q].
        notes: what is missing, and why.
    """

    old: str
    new: str
    metrics: Mapping[str, Difference]
    segments: tuple[SegmentDifference, ...]
    churn: Churn
    regressions: tuple[Regression, ...]
    outcomes: tuple[ConditionOutcome, ...]
    conventions: Conventions
    qids: npt.NDArray[Any]
    per_query: Mapping[str, Float64Array]
    of_segment: Mapping[str, npt.NDArray[Any]]
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether one of the conditions holds."""
        return any(outcome.holds for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-query values, for JSON: numbers, text, lists; what is not a number is None."""
        top = {name: value for name, value in vars(self.churn).items() if name != "per_query"}
        found = {
            "old": self.old, "new": self.new, "queries": len(self.qids), "failed": self.failed,
            "conditions": [vars(outcome) for outcome in self.outcomes],
            "metrics": {name: vars(difference) for name, difference in self.metrics.items()},
            "churn": top, "segments": self._segment_rows(),
            "regressions": [dataclasses.asdict(r) for r in self.regressions],
            "conventions": self.conventions.describe(), "notes": self.notes,
        }  # fmt: skip
        return dict(jsonable(found))

    def _repr_html_(self) -> str:
        columns = ("metric", self.old, self.new, "difference", "95% interval", "p")
        rows: list[tuple[Any, ...]] = [
            (name, f"{d.old:.4f}", f"{d.new:.4f}", f"{d.mean:+.4f}", f"{d.low:+.4f} to {d.high:+.4f}", f"{d.p:.3g}")
            for name, d in self.metrics.items()
        ]
        rows += [(outcome.condition, "holds" if outcome.holds else "does not hold") for outcome in self.outcomes]
        return small_table(f"{self.new} against {self.old}, {len(self.qids):,} queries", rows, columns)

    def _segment_rows(self) -> list[dict[str, Any]]:
        return [{"kind": s.kind, "segment": s.segment, **vars(s.difference), "p_holm": s.p_holm} for s in self.segments]

    def to_html(self, data: str = "") -> str:
        """One page that needs no network.

        Args:
            data: what the data are called.
        """
        return page_of(self, data)

    def to_frame(self, what: str = "differences") -> Any:
        """A pandas data frame.

        Args:
            what: "differences", a row for each metric and segment; or "queries", a row for each query.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: another word.
        """
        if what == "differences":
            rows = [{"kind": "all", "segment": "all"} | vars(d) for d in self.metrics.values()]
            return pandas().DataFrame(rows + self._segment_rows())
        if what == "queries":
            columns: dict[str, Any] = {"qid": self.qids}
            for name, values in self.per_query.items():
                columns |= {f"{name} old": values[:, 0], f"{name} new": values[:, 1]}
            columns |= {f"changed@{self.churn.k}": self.churn.per_query}
            return pandas().DataFrame(columns | dict(self.of_segment))
        raise ParameterError(f"to_frame({what!r}): 'differences' or 'queries'")


def compare(
    old: RankingModel | Ranker | npt.ArrayLike,
    new: RankingModel | Ranker | npt.ArrayLike,
    data: RankingDataset,
    metrics: Metric | str | Iterable[Metric | str] = "ndcg@10",
    *,
    conventions: Conventions | str = "default",
    segments: Mapping[Any, Any] | str | PathLike[str] | None = None,
    fail_if: str | Iterable[str | Condition] = (),
    top: int = 10,
    worst: int = 20,
    matters: Mapping[str, float] | None = None,
    docnos: Sequence[str] | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare two rankers query by query.

    Interval and p-value are those of `boostrank.metric.paired_difference`, so that `boostrank evaluate` gives the same.

    Args:
        old, new: models, boosters of LightGBM or XGBoost, or float[N], one score a document in the order in which the
            rows were given.
        data: documents with labels.
        metrics: one or several; regressions are told by the first.
        conventions: what the metrics' definitions leave open.
        segments: query id -> segment, or a file of two columns; beside list length and best label, which are always
            looked at.
        fail_if: conditions, see `boostrank.report.comparison.gate`; their metrics are measured too.
        top: k of the churn, and how far down the lists moves are told.
        worst: how many regressions to tell.
        matters: metric -> the difference of two trainings that is more than luck; `report.noise.analysis` measures it.
        docnos: the names of the documents, in the order of the data set's rows.
        threads: None means every available core.
        seed: of the resampling.

    Raises:
        ParameterError: an unknown metric or convention, or a condition that does not read.
        DataError: scores that do not fit the data, labels the gain cannot take, no query that counts.
    """
    conditions = [c if isinstance(c, Condition) else Condition.parse(c)
                  for c in ([fail_if] if isinstance(fail_if, str) else fail_if)]  # fmt: skip
    asked = Metric.all_of(metrics)
    have = {name for metric in asked for name in metric.names}
    extra = dict.fromkeys(c.metric for c in conditions if c.metric not in have)
    if top < 1:
        raise ParameterError(f"top={top}: a rank, 1 or more")
    bound = BoundMetrics(
        [*asked, *map(Metric.parse, extra)], data.labels, data.queries, conventions, docnos=docnos, threads=threads
    )
    first, second = _ranker(old, "old", data, threads), _ranker(new, "new", data, threads)
    before, after = bound.per_query(first.scores), bound.per_query(second.scores)
    per_query = {name: np.column_stack([before[name], after[name]]) for name in bound.names}
    cuts = segmentations(segments, data.labels, data.queries)
    luck = matters or {}
    measured, in_segments = {}, []
    for name, values in per_query.items():
        measured[name] = _difference(name, values, data.queries.weights, seed, luck.get(name, 0.0))
        in_segments += _in_segments(measured[name], values, cuts, data, seed)
    ranks = data.queries.ranks(first.scores), data.queries.ranks(second.scores)
    of_segment = {cut.kind: np.array(cut.names, dtype=object)[cut.of_query] for cut in cuts}
    grades = bound.metrics[0].spec.grades(data.labels, bound.conventions)
    name = bound.names[0]
    change = np.nan_to_num(per_query[name][:, 1] - per_query[name][:, 0], nan=0.0)
    lost = [q for q in np.argsort(change, kind="stable")[:worst].tolist() if change[q] < -TIE]
    moves = [rank_changes_in(q, *ranks, data, top, docnos) for q in lost]
    pairs = [costliest_inversion(m, grades) for m in moves]
    swaps, notes = explain([p for p in pairs if p is not None], data.queries, (first, second))
    rest = iter(swaps)
    regressions = tuple(
        Regression(
            str(data.queries.qid[q]), float(per_query[name][q, 0]), float(per_query[name][q, 1]),
            {kind: str(segment[q]) for kind, segment in of_segment.items()}, changes,
            None if pair is None else next(rest),
        )
        for q, changes, pair in zip(lost, moves, pairs, strict=True)
    )  # fmt: skip
    return Comparison(
        old=first.name, new=second.name, metrics=measured, segments=tuple(in_segments),
        churn=churn(*ranks, data.queries, top), regressions=regressions,
        outcomes=tuple(_outcome(condition, measured, in_segments) for condition in conditions),
        conventions=bound.conventions, qids=data.queries.qid, per_query=per_query, of_segment=of_segment,
        notes=tuple(notes),
    )  # fmt: skip


def _ranker(given: Any, name: str, data: RankingDataset, threads: int | None) -> Ranker:
    if isinstance(given, Ranker):
        return given
    model = given if isinstance(given, RankingModel) else model_of_booster(given)
    scores = np.asarray(given if model is None else model.predict(data, threads=threads), dtype=np.float64)
    if scores.shape != (data.n_documents,):
        raise DataError(f"{name}: scores of shape {scores.shape} for {data.n_documents} documents")
    return Ranker(name, data.in_row_order(scores), model, data)


def _difference(
    metric: str, values: Float64Array, weights: Float64Array | None, seed: int, matters: float
) -> Difference:
    """Over the queries that count, of which there is at least one."""
    found = paired_difference(values[:, 1], values[:, 0], weights=weights, resamples=RESAMPLES, seed=seed)
    counted = ~np.isnan(values[:, 0])
    old, new = values[counted].T
    before, after = (float(np.average(v, weights=None if weights is None else weights[counted])) for v in (old, new))
    change = new - old
    return Difference(
        metric, found.queries, before, after, found.mean, found.low, found.high, found.p,
        better=int(np.count_nonzero(change > TIE)),
        same=int(np.count_nonzero(np.abs(change) <= TIE)),
        worse=int(np.count_nonzero(change < -TIE)),
        matters=matters,
    )  # fmt: skip


def _in_segments(
    whole: Difference, values: Float64Array, cuts: Sequence[Segmentation], data: RankingDataset, seed: int
) -> list[SegmentDifference]:
    weights, counted = data.queries.weights, ~np.isnan(values[:, 0])
    found: list[tuple[str, str, Difference]] = []
    for cut in cuts:
        for i, name in enumerate(cut.names):
            inside = counted & (cut.of_query == i)
            if inside.any():
                part = None if weights is None else weights[inside]
                all_in = np.array_equal(inside, counted)
                difference = whole if all_in else _difference(whole.metric, values[inside], part, seed, whole.matters)
                if difference.queries < FEWEST_FOR_INTERVAL:
                    difference = dataclasses.replace(difference, low=math.nan, high=math.nan)
                found.append((cut.kind, name, difference))
    # Signs are drawn for given sizes of the differences: where all are 0 nothing was tested.
    tested = [i for i, (_, _, difference) in enumerate(found) if difference.better + difference.worse]
    adjusted = np.ones(len(found))
    adjusted[tested] = holm([found[i][2].p for i in tested])
    return [SegmentDifference(*part, float(p)) for part, p in zip(found, adjusted, strict=True)]


def _outcome(
    condition: Condition, metrics: Mapping[str, Difference], segments: Sequence[SegmentDifference]
) -> ConditionOutcome:
    if not condition.anywhere:
        found = metrics[condition.metric]
        return ConditionOutcome(condition, condition.holds(found.mean, found.p))
    where = tuple(
        f"{s.kind} {s.segment}"
        for s in segments
        if s.difference.metric == condition.metric and condition.holds(s.difference.mean, s.p_holm)
    )
    return ConditionOutcome(condition, bool(where), where)
