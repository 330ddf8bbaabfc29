"""Details of the ranking: metric by cut-off, scores by grade, and queries against another model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Metric
from boostrank.report.charts import Chart, lines, quantile_marks, tooltips
from boostrank.report.comparison import TIE
from boostrank.report.means import means_over_queries, quantile_columns
from boostrank.report.result import Columns, Result, joined, pandas, plain
from boostrank.report.scoring import START
from boostrank.report.section import Context, Section
from boostrank.report.sections.verdict import MODEL, RANDOM
from boostrank.report.segments import by_value
from boostrank.report.vega import COLOURS, alt

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
# With more distinct labels, labels are not grades.
_MOST_GRADES = 12


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """Result of `ranking`.

    Args:
        family: metric without cut-off: "ndcg".
        depth: columns: mean of the metric by cut-off `k` of each ranking, with its 95% interval; empty for metrics
            without cut-offs.
        grades: columns by ascending grade: mean and quantiles of the scores minus the mean of their query, over queries
            of at least two documents; empty if labels are not grades.
        pairs, pairs_low, pairs_high: share of correctly ordered pairs of different grades, as a mean over queries with
            its 95% interval; ties count half; NaN without pairs.
        against: name of the previous model; None without one.
        old_and_new: columns: metric of each query that counts, by the previous model and by this one.
    """

    metric: str
    family: str
    depth: Columns
    grades: Columns
    pairs: float
    pairs_low: float
    pairs_high: float
    against: str | None
    old_and_new: Columns

    TABLES: ClassVar = {name: attrgetter(name.replace(" ", "_")) for name in ("depth", "grades", "old and new")}

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of queries that the new model ranks better, the same and worse."""
        change = self.old_and_new["new"] - self.old_and_new["old"]
        better, worse = int((change > TIE).sum()), int((change < -TIE).sum())
        return {"better": better, "same": change.size - better - worse, "worse": worse}

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, without values per query."""
        found = {name: getattr(self, name) for name in ("metric", "pairs", "pairs_low", "pairs_high")}
        found |= {name: self.rows(name) for name in ("depth", "grades")}
        return dict(plain(found | {"against": self.counts if self.against else None}))


def ranking(c: Context) -> Ranking:
    """Analyse the ranking of a model and its baselines."""
    data, name = c.data, c.metric
    weights = data.queries.each_weight
    previous = {} if c.previous is None else {c.previous[0]: np.asarray(c.previous[1], np.float64)}
    start = {} if c.start is None else {START: c.start}
    family, _, cut = name.partition("@")
    depth: list[Columns] = []
    if cut:
        longest = max(int(data.queries.sizes.max(initial=1)), int(cut))
        k = sorted({d for d in DEPTHS if d <= longest} | {int(cut)})
        over_k = Metric.parse(f"{family}@{','.join(map(str, k))}")
        # With equal scores, the mean over tied orders is the mean of a random order.
        values = {
            called: c.bound([over_k]).per_query(of) for called, of in ({MODEL: c.scores} | previous | start).items()
        }
        even = c.bound([over_k], replace(c.rules, ties="expected"))
        values[RANDOM] = even.per_query(np.zeros(data.n_documents))
        for called, of_k in values.items():
            found = means_over_queries(np.column_stack([of_k[f"{family}@{d}"] for d in k]), weights, seed=c.seed)
            ends = {"value": found.mean, "low": found.low, "high": found.high}
            depth.append({"ranking": [called] * len(k), "k": k} | ends)
    old_and_new: Columns = {}
    for before in previous.values():
        old, new = (c.bound([name]).per_query(scores)[name] for scores in (before, c.scores))
        counted = ~np.isnan(new)
        old_and_new = {"qid": data.queries.qid[counted], "old": old[counted], "new": new[counted]}
    pairs = means_over_queries(_pairs_in_order(data, c.scores)[:, None], weights, seed=c.seed)
    share, low, high = (float(one[0]) for one in (pairs.mean, pairs.low, pairs.high))
    grades, against = _by_grade(data, c.scores), next(iter(previous), None)
    return Ranking(name, family, joined(depth), grades, share, low, high, against, old_and_new)


def _by_grade(data: RankingDataset, scores: Float64Array) -> Columns:
    owner, sizes = data.queries.of_rows(), data.queries.sizes
    centred = scores - (np.bincount(owner, scores, sizes.size) / np.maximum(sizes, 1))[owner]
    if np.unique(data.labels).size > _MOST_GRADES:
        return {}
    cut = by_value("grade", data.labels, _MOST_GRADES)
    parts = [centred[(sizes[owner] > 1) & (cut.of_query == i)] for i in range(len(cut.names))]
    named = [(name, here) for name, here in zip(cut.names, parts, strict=True) if here.size]
    counts = {"grade": [name for name, _ in named], "documents": [here.size for _, here in named]}
    return counts | {"mean": [here.mean() for _, here in named]} | quantile_columns([here for _, here in named])


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
        "over_k": _over_k(found) if len({*found.depth.get("k", ())}) > 1 else None,
        "by_grade": _by_grade_chart(found) if found.grades else None,
        "old_and_new": _old_and_new(found) if found.against else None,
    }


def _over_k(found: Ranking) -> Chart:
    frame = found.to_frame("depth")
    x = alt.X("k:Q", title="k", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="d"))
    tips = ("ranking:N", "k:Q d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
    how = {"title": f"{found.family}@k", "scale": alt.Scale(zero=False)}
    colour = alt.Color("ranking:N", title=None, sort=None)
    return Chart("ranking-depth", frame, lines(frame, x, "value", tips, band=("low", "high"), color=colour, **how))


def _by_grade_chart(found: Ranking) -> Chart:
    frame = found.to_frame("grades")
    frame["label"] = [f"{one['grade']} ({one['documents']:,})" for one in found.rows("grades")]
    tips = tooltips("label:N", "mean:Q +.4f", "q05:Q +.4f 5%", "q50:Q +.4f median", "q95:Q +.4f 95%")
    base = alt.Chart(frame).encode(y=alt.Y("label:N", sort=None, title="grade (documents)"), tooltip=tips)
    drawn = quantile_marks(base, "score minus its query's mean").properties(height=max(130, 30 * len(frame) + 10))
    return Chart("ranking-grades", frame, drawn)


def _old_and_new(found: Ranking) -> Chart:
    frame = found.to_frame("old and new")
    frame["change"] = frame["new"] - frame["old"]
    ends = [0.0, max(1.0, float(frame[["old", "new"]].to_numpy().max(initial=0.0)))]
    scale = alt.Scale(domain=ends, nice=False)
    x = alt.X("old:Q", title=f"{found.metric} of the old model", scale=scale)
    y = alt.Y("new:Q", title="of this model", scale=scale)
    diagonal = alt.Chart(pandas().DataFrame({"old": ends, "new": ends})).mark_line(strokeDash=[4, 4], strokeWidth=1)
    points = alt.Chart(frame).mark_circle(size=26, opacity=0.5)
    colour = alt.condition("datum.change < 0", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"]))
    tips = tooltips("qid:N", "old:Q .4f", "new:Q .4f", "change:Q +.4f")
    drawn = diagonal.encode(x=x, y=y, color=alt.value(COLOURS["faint"])) + points.encode(
        x=x, y=y, color=colour, tooltip=tips
    )
    return Chart("ranking-old-and-new", frame, drawn.properties(height=320))


SPEC = Section("ranking", "Ranking", ranking, _parts, place=15, after=("learning",))
