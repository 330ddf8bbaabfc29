"""Details of the ranking: metric by cut-off, scores by grade, and queries against another model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import BoundMetrics, Metric
from boostrank.report.charts import Chart, tooltips
from boostrank.report.comparison import TIE
from boostrank.report.means import QUANTILES, means_over_queries, named_quantiles
from boostrank.report.result import Result, columns_of, pandas, plain
from boostrank.report.scoring import START
from boostrank.report.section import Context, Section
from boostrank.report.sections.verdict import MODEL, RANDOM
from boostrank.report.segments import by_value
from boostrank.report.vega import COLOURS, alt

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
# With more distinct labels, labels are not grades.
_MOST_GRADES = 12
_HEIGHT, _LINE = 260, 30


@dataclass(frozen=True, eq=False)
class DepthCurve:
    """A metric by cut-off.

    Args:
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
    """Scores of the documents of one grade, minus the mean score of their query.

    Args:
        documents: number of documents, in queries with at least two.
        mean: mean score.
        quantiles: 5%, 25%, 50%, 75% and 95% quantiles of the scores.
    """

    grade: str
    documents: int
    mean: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class OldAndNew:
    """Metric of each query, by a previous model and by this one.

    Args:
        qids: [Q], queries that count.
        old, new: float64[Q].
    """

    name: str
    qids: npt.NDArray[Any]
    old: Float64Array
    new: Float64Array

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of queries that the new model ranks better, equally and worse."""
        change = self.new - self.old
        better, worse = int((change > TIE).sum()), int((change < -TIE).sum())
        return better, change.size - better - worse, worse


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """Result of `ranking`.

    Args:
        family: metric without cut-off: "ndcg".
        depth: metric by cut-off of each ranking; empty for metrics without cut-offs.
        grades: scores by ascending grade; empty if labels are not grades.
        pairs, pairs_low, pairs_high: share of correctly ordered pairs of different grades, as a mean over queries with
            its 95% interval; ties count half; NaN without pairs.
        against: comparison with the previous model; None without one.
    """

    metric: str
    family: str
    depth: tuple[DepthCurve, ...]
    grades: tuple[GradeScores, ...]
    pairs: float
    pairs_low: float
    pairs_high: float
    against: OldAndNew | None

    TABLES: ClassVar = {
        "depth": lambda self: _depth_columns(self.depth),
        "grades": lambda self: {
            **columns_of(self.grades, "grade", "documents", "mean"),
            **named_quantiles([one.quantiles for one in self.grades]),
        },
        "old and new": lambda self: {} if self.against is None else _old_and_new_columns(self.against),
    }

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, without values per query."""
        counts = self.against and dict(zip(("better", "same", "worse"), self.against.counts, strict=True))
        found = {"metric": self.metric, "depth": self.rows("depth"), "grades": self.rows("grades"), "against": counts}
        pairs = {name: getattr(self, name) for name in ("pairs", "pairs_low", "pairs_high")}
        return dict(plain(found | pairs))


def _depth_columns(curves: tuple[DepthCurve, ...]) -> dict[str, Any]:
    names = ("k", "value", "low", "high")
    columns = {name: [v for one in curves for v in getattr(one, name).tolist()] for name in names}
    return {"ranking": [one.ranking for one in curves for _ in one.k]} | columns


def _old_and_new_columns(one: OldAndNew) -> dict[str, Any]:
    return {"qid": one.qids, "old": one.old, "new": one.new}


def ranking(c: Context) -> Ranking:
    """Analyse the ranking of a model and its baselines.

    Raises:
        DataError: no query counts.
    """
    data, name = c.data, c.metric
    previous = {} if c.previous is None else {c.previous[0]: np.asarray(c.previous[1], np.float64)}
    start = {} if c.start is None else {START: c.start}
    rankings: dict[str, Any] = {MODEL: c.scores, **previous, **start, RANDOM: None}
    family, _, cut = name.partition("@")
    depth: list[DepthCurve] = []
    if cut:
        longest = max(int(data.queries.sizes.max(initial=1)), int(cut))
        k = np.array(sorted({d for d in DEPTHS if d <= longest} | {int(cut)}), np.int64)
        over_k = Metric.parse(f"{family}@{','.join(map(str, k.tolist()))}")
        for called, of in rankings.items():
            # With equal scores, the mean over tied orders is the mean of a random order.
            used, named = (replace(c.rules, ties="expected"), None) if of is None else (c.rules, data.document_names)
            bound = BoundMetrics([over_k], data.labels, data.queries, used, c.threads, docnos=named)
            values = bound.per_query(np.zeros(data.n_documents) if of is None else of)
            columns = np.column_stack([values[f"{family}@{d}"] for d in k.tolist()])
            found = means_over_queries(columns, data.queries.each_weight, seed=c.seed)
            depth.append(DepthCurve(called, k, found.mean, found.low, found.high))
    against = None
    for called, before in previous.items():
        bound = BoundMetrics(
            [Metric.parse(name)], data.labels, data.queries, c.rules, c.threads, docnos=data.document_names
        )
        old, new = bound.per_query(before)[name], bound.per_query(c.scores)[name]
        counted = ~np.isnan(new)
        against = OldAndNew(called, data.queries.qid[counted], old[counted], new[counted])
    means = means_over_queries(_pairs_in_order(data, c.scores)[:, None], data.queries.each_weight, seed=c.seed)
    pairs, low, high = means.mean.item(), means.low.item(), means.high.item()
    return Ranking(name, family, tuple(depth), _by_grade(data, c.scores), pairs, low, high, against)


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
            quantiles = tuple(np.quantile(here, QUANTILES).tolist())
            found.append(GradeScores(name, here.size, float(here.mean()), quantiles))
    return tuple(found)


def _pairs_in_order(data: RankingDataset, scores: Float64Array) -> Float64Array:
    """Return the share of correctly ordered pairs of each query, float64[Q], in O(n log n) per grade."""
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


def _parts(found: Ranking) -> dict[str, Any]:
    return {
        "over_k": _over_k(found) if found.depth and found.depth[0].k.size > 1 else None,
        "by_grade": _by_grade_chart(found) if found.grades else None,
        "old_and_new": found.against and _old_and_new(found.against, found.metric),
    }


def _over_k(found: Ranking) -> Chart:
    frame = found.to_frame("depth")
    base = alt.Chart(frame).encode(
        x=alt.X("k:Q", title="k", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="d")),
        color=alt.Color("ranking:N", title=None, sort=None),
        tooltip=tooltips("ranking:N", "k:Q d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to"),
    )
    low, value = (alt.Y(f"{n}:Q", title=f"{found.family}@k", scale=alt.Scale(zero=False)) for n in ("low", "value"))
    drawn = alt.layer(
        base.mark_area(opacity=0.15).encode(y=low, y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=22)).encode(y=value),
    )
    return Chart("ranking-depth", frame, drawn.properties(height=_HEIGHT))


def _by_grade_chart(found: Ranking) -> Chart:
    frame = found.to_frame("grades")
    frame["label"] = [f"{one.grade} ({one.documents:,})" for one in found.grades]
    tips = tooltips("label:N", "mean:Q +.4f", "q05:Q +.4f 5%", "q50:Q +.4f median", "q95:Q +.4f 95%")
    base = alt.Chart(frame).encode(y=alt.Y("label:N", sort=None, title="grade (documents)"), tooltip=tips)
    figure = quantile_marks(base, "score minus its query's mean", 11, 14)
    return Chart("ranking-grades", frame, figure.properties(height=max(_HEIGHT // 2, _LINE * len(frame) + 10)))


def quantile_marks(base: Any, title: str, bar: int, tick: int) -> Any:
    """Return box marks of quantiles and means on a horizontal axis, one row each."""
    main = COLOURS["main"]
    return alt.layer(
        base.mark_rule(opacity=0.5).encode(x=alt.X("q05:Q", title=title), x2="q95:Q"),
        base.mark_bar(height=bar, opacity=0.35, color=main).encode(x="q25:Q", x2="q75:Q"),
        base.mark_tick(thickness=2, size=tick, color=main).encode(x="q50:Q"),
        base.mark_point(size=55, color=COLOURS["bad"], shape="diamond").encode(x="mean:Q"),
    )


def _old_and_new(one: OldAndNew, metric: str) -> Chart:
    frame = pandas().DataFrame(_old_and_new_columns(one) | {"change": one.new - one.old})
    ends = [0.0, max(1.0, float(frame[["old", "new"]].to_numpy().max(initial=0.0)))]
    scale = alt.Scale(domain=ends, nice=False)
    diagonal = alt.Chart(pandas().DataFrame({"old": ends, "new": ends}))
    drawn = alt.layer(
        diagonal.mark_line(strokeDash=[4, 4], strokeWidth=1, color=COLOURS["faint"]).encode(
            x=alt.X("old:Q", scale=scale), y=alt.Y("new:Q", scale=scale)
        ),
        alt.Chart(frame)
        .mark_circle(size=26, opacity=0.5)
        .encode(
            x=alt.X("old:Q", title=f"{metric} of the old model", scale=scale),
            y=alt.Y("new:Q", title="of this model", scale=scale),
            color=alt.condition("datum.change < 0", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"])),
            tooltip=tooltips("qid:N", "old:Q .4f", "new:Q .4f", "change:Q +.4f"),
        ),
    )
    return Chart("ranking-old-and-new", frame, drawn.properties(height=320))


def _frames(found: Ranking) -> dict[str, Any]:
    names = ("depth", "grades", *(["old and new"] if found.against else []))
    return {name: found.to_frame(name) for name in names}


SPEC = Section("ranking", "Ranking", ranking, _parts, _frames, place=15, after=("learning",))
