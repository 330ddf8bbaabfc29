"""Detailed analysis of the ranking by cut-off, by grade, and by query against another model."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from boostrank.core.errors import DataError
from boostrank.reporting.charts import COLOURS, Chart, alt, lines, ranges, tooltips, whole
from boostrank.reporting.result import Columns, Result, joined, pandas, result_class
from boostrank.reporting.scoring import START, within_queries
from boostrank.reporting.section import Context, Section
from boostrank.reporting.sections.verdict import MODEL, RANDOM
from boostrank.reporting.segments import TIE, means_over_queries

_DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
# Labels with more distinct values are not grades.
_MOST_GRADES = 12


@result_class
class Ranking(Result):
    """Result of `ranking`.

    Args:
        depth: table of each ranking's mean metric by cut-off `k`, with its 95% interval; empty for metrics without
            cut-offs.
        grades: table of the 5%, 50% and 95% quantiles of the scores by grade, minus their query's mean, over queries
            with at least two documents; empty if labels are not grades.
        against: name of the previous model, or "".
        old_and_new: table of each included query's metric, under the previous model and under this one.
    """

    metric: str
    depth: Columns
    grades: Columns
    against: str
    old_and_new: Columns

    TABLES: ClassVar = {name: attrgetter(name) for name in ("depth", "grades", "old_and_new")}
    HIDDEN: ClassVar = ("old_and_new",)


def ranking(c: Context) -> Ranking:
    """Analyse the rankings by a model and its baselines."""
    data, queries = c.data, c.data.queries
    named = {MODEL: c.scores} | ({START: c.start} if c.start is not None else {})
    family, _, cut = c.metric.partition("@")
    against, old_and_new, depth = "", {}, []
    if c.previous is not None:
        against, before = c.previous
        named[against] = np.asarray(before, np.float64)
        new, old = (c.bound([c.main]).per_query(scores)[c.metric] for scores in (c.scores, named[against]))
        counted = ~np.isnan(new)
        old_and_new = {"qid": queries.qid[counted], "old": old[counted], "new": new[counted]}
    if cut:
        longest = max(int(queries.sizes.max(initial=1)), int(cut))
        ks = sorted({k for k in _DEPTHS if k <= longest} | {int(cut)})
        names = [f"{family}@{k}" for k in ks]
        values = {name: c.bound(names).per_query(scores) for name, scores in named.items()}
        # With equal scores, the mean over tied orders is the mean of a random order.
        values[RANDOM] = c.bound(names, replace(c.rules, ties="expected")).per_query(np.zeros(data.n_documents))
        for name, of in values.items():
            found = means_over_queries(np.column_stack([of[k] for k in names]), queries.each_weight, seed=c.seed)
            ends = {"value": found.mean, "low": found.low, "high": found.high}
            depth.append({"ranking": [name] * len(ks), "k": ks} | ends)
    grades = _by_grade(c)
    if not (depth or grades or against):
        raise DataError(f"{c.metric} has no cut-off, the labels are not grades, and there is no previous model")
    return Ranking(c.metric, joined(depth), grades, against, old_and_new)


def _by_grade(c: Context) -> Columns:
    labels, owner, sizes = c.data.labels, c.data.queries.of_rows(), c.data.queries.sizes
    compared = sizes[owner] > 1
    grades, counts = np.unique(labels[compared], return_counts=True)
    if not 0 < grades.size <= _MOST_GRADES:
        return {}
    centred = within_queries(c.scores, sizes)
    quantiles = np.array([np.quantile(centred[compared & (labels == g)], (0.05, 0.5, 0.95)) for g in grades])
    return {"grade": grades, "documents": counts} | dict(zip(("low", "median", "high"), quantiles.T, strict=True))


def _parts(found: Ranking) -> dict[str, Any]:
    parts: dict[str, Any] = {"family": found.metric.partition("@")[0], "tie": TIE}
    if found.depth:
        frame, x = found.to_frame("depth"), alt.X("k:Q", scale=alt.Scale(type="log", nice=False), axis=whole())
        tips = ("ranking:N", "k:Q d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
        how = {
            "title": f"{parts['family']}@k",
            "scale": alt.Scale(zero=False),
            "color": alt.Color("ranking:N", sort=None),
        }
        drawn = lines(frame, x, "value", tips, band=("low", "high"), **how)
        parts["over_k"] = Chart("ranking-depth", frame, drawn)
    if found.grades:
        frame = found.to_frame("grades")
        shown = tooltips("grade:O", "documents:Q ,d", "median:Q +.4f", "low:Q +.4f 5%", "high:Q +.4f 95%")
        drawn = ranges(alt.Chart(frame).encode(y="grade:O", tooltip=shown), "score minus its query's mean", "median")
        parts["by_grade"] = Chart("ranking-grades", frame, drawn.properties(height=30 * len(frame) + 40))
    if found.against:
        parts["old_and_new"] = _old_and_new(found)
    return parts


def _old_and_new(found: Ranking) -> Chart:
    frame = found.to_frame("old_and_new")
    ends = [0.0, max(1.0, float(frame[["old", "new"]].to_numpy().max(initial=0.0)))]
    x, y = (alt.X("old:Q", title=f"{found.metric} of {found.against}"), alt.Y("new:Q", title="of this model"))
    place = {"x": x.scale(domain=ends, nice=False), "y": y.scale(domain=ends, nice=False)}
    colour = alt.condition("datum.new < datum.old", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"]))
    diagonal = alt.Chart(pandas().DataFrame({"old": ends, "new": ends})).mark_line(strokeDash=[4, 4], strokeWidth=1)
    shown = {"color": colour, "tooltip": tooltips("qid:N", "old:Q .4f", "new:Q .4f")}
    drawn = diagonal.encode(**place) + alt.Chart(frame).mark_circle(size=26, opacity=0.5).encode(**place, **shown)
    return Chart("ranking-old-and-new", frame, drawn.properties(height=320))


SPEC = Section("ranking", "Ranking", ranking, _parts, place=15, after=("learning",))
