"""Comparison between two rankers on the same queries."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ge, gt, le, lt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.resampling import PAIRED_RESAMPLES, paired_difference
from boostrank.core.types import Float64Array, check_in_step
from boostrank.data.dataset import RankingDataset, takes_dataset
from boostrank.metric import Conventions, Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.charts import COLOURS, Chart, alt, histogram, need_report_extra
from boostrank.reporting.documents import shown_value
from boostrank.reporting.html import block
from boostrank.reporting.rank_changes import (
    Churn,
    Inversion,
    RankChange,
    Ranker,
    churn,
    costliest_inversion,
    explain,
    rank_changes_in,
)
from boostrank.reporting.result import Result, columns_of, pandas, plain
from boostrank.reporting.section import Context, page_of
from boostrank.reporting.segments import FEWEST_FOR_INTERVAL, TIE, Segmentation, holm, segmentations

_ALPHA = 0.05
_BINS = 40
GRAMMAR = "METRIC < NUMBER [at p<ALPHA] [in any]"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_CONDITION = re.compile(
    rf"\s*([^\s<>=]+)\s*([<>]=?)\s*({_NUMBER})(?:\s+at\s+p\s*<\s*({_NUMBER}))?(\s+in\s+any)?\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Difference:
    """The difference in a metric between two rankers, new minus old, over all queries or in one segment.

    Args:
        kind: segmentation criterion, such as "list length", or "all" for all queries.
        old, new: mean metric of each ranker, weighted by the query weights.
        mean: weighted mean of new minus old.
        low, high: 95% bootstrap interval of `mean` over queries, or NaN in a segment with fewer than 20 queries.
        p: two-sided p-value from Fisher's paired randomisation test, which is exact for few queries.
        better, same, worse: unweighted numbers of queries. Differences up to 1e-12 are treated as ties.
        matters: difference that two trainings can show by chance, or 0 if it was not measured.
        p_holm: p-value adjusted by Holm's method over all segments in which this metric changed for some query; 1 in
            other segments, and NaN over all queries.
    """

    kind: str
    segment: str
    metric: str
    queries: int
    old: float
    new: float
    mean: float
    low: float
    high: float
    p: float
    better: int
    same: int
    worse: int
    matters: float = 0.0
    p_holm: float = field(default=math.nan, compare=False)  # NaN is not equal to itself

    @property
    def by_luck(self) -> bool:
        """Whether training noise explains the difference."""
        return abs(self.mean) < self.matters

    def look(self, p: float) -> str:
        """Return "better" or "worse" if the difference exceeds chance and training noise, otherwise ""."""
        return "" if p >= _ALPHA or not self.mean or self.by_luck else "better" if self.mean > 0.0 else "worse"


@dataclass(frozen=True)
class Regression:
    """A query for which the metric fell.

    Args:
        old, new: the query's first metric under each ranker.
        segments: the query's segment by kind.
        moves: documents in either top k whose rank changed, sorted by old rank.
        swap: the costliest inversion, or None if no better document fell below a worse one.
    """

    qid: str
    old: float
    new: float
    segments: Mapping[str, str]
    moves: tuple[RankChange, ...]
    swap: Inversion | None


@dataclass(frozen=True)
class Condition:
    """A condition that fails the comparison when a difference, optionally a significant one, is beyond a bound.

    Args:
        metric: metric whose mean difference, new minus old, is tested.
        operator: <, <=, > or >=.
        bound: threshold for the difference.
        alpha: upper bound on the p-value, or None to ignore the p-value.
        anywhere: whether to test each segment, with Holm-adjusted p-values, instead of all queries together.
    """

    metric: str
    operator: str
    bound: float
    alpha: float | None = None
    anywhere: bool = False

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition, METRIC OP NUMBER [at p<ALPHA] [in any]."""
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ParameterError(f"condition {text!r}: the form must be {GRAMMAR}, such as ndcg@10 < -0.002 at p<0.05")
        name, sign, bound, p, anywhere = found.groups()
        try:
            (metric,) = Metric.parse(name).names
        except ValueError as error:
            reason = error if isinstance(error, ParameterError) else "it must name one metric with one cut-off"
            raise ParameterError(f"condition {text!r}: {reason}") from None
        alpha = None if p is None else float(p)
        if alpha is not None and not 0.0 < alpha < 1.0:
            raise ParameterError(f"condition {text!r}: the p-value must be between 0 and 1, but got {alpha:g}")
        return cls(metric, sign, float(bound), alpha, anywhere is not None)

    def __str__(self) -> str:
        at = "" if self.alpha is None else f" at p<{self.alpha:g}"
        return f"{self.metric} {self.operator} {self.bound:g}{at}{' in any' if self.anywhere else ''}"

    def holds(self, difference: float, p: float) -> bool:
        """Return whether the condition is met by a mean difference and its p-value."""
        return _OPERATORS[self.operator](difference, self.bound) and (self.alpha is None or p < self.alpha)


@dataclass(frozen=True)
class ConditionOutcome:
    """The outcome of one condition.

    Args:
        holds: whether the condition holds, which fails the comparison.
        where: segments in which a condition `in any` holds.
    """

    condition: Condition
    holds: bool
    where: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Result of `compare`.

    Args:
        metrics: overall difference for each metric. The first metric determines the regressions.
        segments: differences in each metric and each non-empty segment.
        churn: changes at the top of the lists.
        regressions: queries with the largest losses, worst first.
        per_query: old and new values by metric, float64[Q, 2], with NaN for excluded queries.
        of_segment: each query's segment by kind, [Q].
    """

    old: str
    new: str
    metrics: Mapping[str, Difference]
    segments: tuple[Difference, ...]
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
        """Whether any condition holds."""
        return any(outcome.holds for outcome in self.outcomes)

    TABLES: ClassVar = {
        "differences": lambda self: columns_of((*self.metrics.values(), *self.segments), *Difference.__annotations__),
        "queries": lambda self: {
            "qid": self.qids,
            **{
                f"{name} {which}": values[:, i]
                for name, values in self.per_query.items()
                for i, which in enumerate(("old", "new"))
            },
            f"changed@{self.churn.k}": self.churn.per_query,
            **self.of_segment,
        },
    }
    HIDDEN: ClassVar = ("qids", "per_query", "of_segment", "outcomes", "differences", "queries")

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, without the values per query."""
        conditions = [vars(outcome) | {"condition": str(outcome.condition)} for outcome in self.outcomes]
        churn = {name: value for name, value in vars(self.churn).items() if name != "per_query"}
        more = {"queries": len(self.qids), "failed": self.failed, "conditions": conditions, "churn": churn}
        return super().to_dict() | dict(plain(more))

    @property
    def _title(self) -> str:
        words = [f"{one.condition} {'holds' if one.holds else 'does not hold'}" for one in self.outcomes]
        return "; ".join([f"{self.new} against {self.old}, {len(self.qids):,} queries", *words])

    def to_html(self, data: str = "") -> str:
        """Return a self-contained HTML page that names the data. This needs the extra `report`."""
        need_report_extra()
        first = next(iter(self.metrics))
        sections = {
            "difference": ("The difference", ""),
            "queries": (f"Query by query: {first}", "Queries"),
            "segments": (f"Segments: {first}", "Segments"),
            "regressions": (f"Worst regressions: {first}", "Worst regressions"),
        }
        title = f"{self.new} against {self.old}"
        return page_of("comparison.html", title, sections, found=self, data=data, **_parts(self, first))


@takes_dataset
def compare(
    old: RankingModel | Ranker | npt.ArrayLike,
    new: RankingModel | Ranker | npt.ArrayLike,
    data: RankingDataset,
    metrics: Metric | str | Iterable[Metric | str] = "ndcg@10",
    *,
    fail_if: str | Iterable[str | Condition] = (),
    top: int = 10,
    worst: int = 20,
    **options: Any,
) -> Comparison:
    """Compare two rankers query by query.

    Intervals and p-values come from `boostrank.metric.paired_difference`, as in `boostrank evaluate`.

    Args:
        old, new: models, boosters or fitted rankers of LightGBM or XGBoost, their files, or scores, float[N] in input
            order.
        metrics: one or more metrics. The first one determines the regressions.
        fail_if: conditions, METRIC < NUMBER [at p<ALPHA] [in any], or `Condition`. Their metrics are measured too.
        top: number of top documents whose changes are counted and listed.
        worst: maximum number of regressions.
        options: fields of `boostrank.reporting.section.Context`: conventions, segments, matters, seed, threads.

    Raises:
        ParameterError: an unknown metric or convention, or a malformed condition.
        DataError: scores that do not fit the data, labels that the gain does not support, only excluded queries, or too
            few queries for the p-value of a condition.
    """
    # Measure the requested metrics, then those of the conditions.
    context = Context(None, data, metrics, **options)
    listed = [fail_if] if isinstance(fail_if, str) else fail_if
    conditions = [one if isinstance(one, Condition) else Condition.parse(one) for one in listed]
    have = {name for metric in context.metrics for name in metric.names}
    extra = dict.fromkeys(c.metric for c in conditions if c.metric not in have)
    if top < 1:
        raise ParameterError(f"top must be at least 1, but got {top}")
    bound = context.bound([*context.metrics, *map(Metric.parse, extra)])
    check_in_step(old=old, new=new)
    # Compute the values of each query, the overall differences, and the differences by segment.
    first, second = (Ranker.of(one, name, data, context.threads) for one, name in ((old, "old"), (new, "new")))
    before, after = bound.per_query(first.scores), bound.per_query(second.scores)
    per_query = {name: np.column_stack([before[name], after[name]]) for name in bound.names}
    cuts = segmentations(context.segments, data.labels, data.queries)
    luck = context.matters or {}
    measured, in_segments = {}, []
    for name, values in per_query.items():
        measured[name] = _difference(name, values, data.queries.weights, context.seed, luck.get(name, 0.0))
        in_segments += _in_segments(measured[name], values, cuts, data, context.seed)
    # Find the queries that lost most of the first metric, and their costliest inversions.
    ranks = data.queries.ranks(first.scores), data.queries.ranks(second.scores)
    of_segment = {cut.kind: np.array(cut.names, dtype=object)[cut.of_query] for cut in cuts}
    grades = bound.metrics[0].spec.grades(data.labels, bound.conventions)
    name = bound.names[0]
    change = np.nan_to_num(per_query[name][:, 1] - per_query[name][:, 0], nan=0.0)
    lost = [q for q in np.argsort(change, kind="stable")[:worst].tolist() if change[q] < -TIE]
    moves = [rank_changes_in(q, *ranks, data, top) for q in lost]
    pairs = [costliest_inversion(m, grades) for m in moves]
    swaps, notes = explain([p for p in pairs if p is not None], data.queries, (first, second))
    rest = iter(swaps)
    regressions = tuple(
        Regression(
            qid=data.queries.shown(q),
            old=float(per_query[name][q, 0]),
            new=float(per_query[name][q, 1]),
            segments={kind: str(segment[q]) for kind, segment in of_segment.items()},
            moves=changes,
            swap=None if pair is None else next(rest),
        )
        for q, changes, pair in zip(lost, moves, pairs, strict=True)
    )
    return Comparison(
        old=first.name,
        new=second.name,
        metrics=measured,
        segments=tuple(in_segments),
        churn=churn(*ranks, data.queries, top),
        regressions=regressions,
        outcomes=tuple(_outcome(condition, measured, in_segments) for condition in conditions),
        conventions=bound.conventions,
        qids=data.queries.qid,
        per_query=per_query,
        of_segment=of_segment,
        notes=tuple(notes),
    )


def _difference(
    metric: str, values: Float64Array, weights: Float64Array | None, seed: int, matters: float
) -> Difference:
    """Return the difference over the included queries. At least one query must be included."""
    found = paired_difference(values[:, 1], values[:, 0], weights=weights, resamples=PAIRED_RESAMPLES, seed=seed)
    counted = ~np.isnan(values[:, 0])
    old, new = values[counted].T
    before, after = (float(np.average(v, weights=None if weights is None else weights[counted])) for v in (old, new))
    better, worse = (int(np.count_nonzero(sign * (new - old) > TIE)) for sign in (1, -1))
    counts = better, old.size - better - worse, worse
    means = before, after, found.mean, found.low, found.high, found.p
    return Difference("all", "all", metric, found.queries, *means, *counts, matters)


def _in_segments(
    whole: Difference, values: Float64Array, cuts: Sequence[Segmentation], data: RankingDataset, seed: int
) -> list[Difference]:
    weights, counted = data.queries.weights, ~np.isnan(values[:, 0])
    found: list[Difference] = []
    for cut in cuts:
        for i, name in enumerate(cut.names):
            inside = counted & (cut.of_query == i)
            if inside.any():
                part = None if weights is None else weights[inside]
                all_in = np.array_equal(inside, counted)
                difference = whole if all_in else _difference(whole.metric, values[inside], part, seed, whole.matters)
                if difference.queries < FEWEST_FOR_INTERVAL:
                    difference = replace(difference, low=math.nan, high=math.nan)
                found.append(replace(difference, kind=cut.kind, segment=name))
    # The randomisation test only flips signs, so segments without any change are not tested.
    tested = [i for i, difference in enumerate(found) if difference.better + difference.worse]
    adjusted = np.ones(len(found))
    adjusted[tested] = holm([found[i].p for i in tested])
    return [replace(one, p_holm=p) for one, p in zip(found, adjusted.tolist(), strict=True)]


def _outcome(
    condition: Condition, metrics: Mapping[str, Difference], segments: Sequence[Difference]
) -> ConditionOutcome:
    whole = metrics[condition.metric]
    measured = [s for s in segments if s.metric == condition.metric] if condition.anywhere else [whole]
    # Among n queries, no p is below 2 / 2^n, and none is below that of the resamples.
    most = max((one.queries for one in measured), default=0)
    least = max(2.0 ** (1 - most), 1.0 / (PAIRED_RESAMPLES + 1))
    if measured and condition.alpha is not None and condition.alpha <= least:
        words = f"{most} queries give p of at least {least:.2g}, so '{condition}' can never hold"
        raise DataError(f"{words}; use more queries or a larger p")
    if not condition.anywhere:
        return ConditionOutcome(condition, condition.holds(whole.mean, whole.p))
    where = tuple(f"{s.kind} {s.segment}" for s in measured if condition.holds(s.mean, s.p_holm))
    return ConditionOutcome(condition, bool(where), where)


def _parts(found: Comparison, first: str) -> dict[str, Any]:
    change = found.per_query[first][:, 1] - found.per_query[first][:, 0]
    change = change[np.isfinite(change) & (np.abs(change) > TIE)]
    here = [s for s in found.segments if s.metric == first]
    kinds = dict.fromkeys(s.kind for s in here)
    return {
        "d": found.metrics[first],
        "alpha": _ALPHA,
        "fewest": FEWEST_FOR_INTERVAL,
        "resamples": PAIRED_RESAMPLES,
        "limit_of": _limit,
        "changed": change.size,
        "histogram": _histogram(change, first) if change.size else None,
        "here": here,
        "segments": {kind: [s for s in here if s.kind == kind] for kind in kinds},
        "details": [
            block("comparison.html", "lost", r=r, number=i, shown_value=shown_value)
            for i, r in enumerate(found.regressions)
        ],
    }


def _limit(differences: Sequence[Difference]) -> float:
    """Return the end of the interval scale. Segments without an interval do not stretch the scale."""
    ends = [abs(x) for d in differences for x in (d.low, d.high) if math.isfinite(x)]
    return max(ends or [abs(d.mean) for d in differences], default=0.0) or 1.0


def _histogram(change: Float64Array, metric: str) -> Chart:
    limit = float(np.abs(change).max())
    counts, edges = np.histogram(change, bins=_BINS, range=(-limit, limit))
    direction = np.where(np.arange(_BINS) < _BINS // 2, "worse", "better")
    frame = pandas().DataFrame({"begin": edges[:-1], "end": edges[1:], "queries": counts, "way": direction})
    scale = alt.Scale(domain=["worse", "better"], range=[COLOURS["bad"], COLOURS["good"]])
    how = {"axis": alt.Axis(format="+.2~f", grid=False), "color": alt.Color("way:N", title=None, scale=scale)}
    drawn = histogram(frame, f"difference of {metric}", "queries", "+.3f", height=240, **how)
    return Chart("differences", frame, drawn)
