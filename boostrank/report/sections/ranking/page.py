"""Section on the ranking: `Ranking` drawn."""

from __future__ import annotations

import math
from typing import Any

from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Beside, Part
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Context, Section
from boostrank.report.sections.ranking.analysis import OldAndNew, Ranking, ranking
from boostrank.report.sections.verdict.analysis import MODEL, RANDOM
from boostrank.report.start import START

_HEIGHT, _LINE = 260, 30


def draw(found: Ranking) -> list[Part]:
    """Charts of what `boostrank.report.sections.ranking.analysis` found."""
    charts: list[Part] = []
    if found.depth and found.depth[0].k.size > 1:
        charts.append(_over_k(found))
    if found.grades:
        charts.append(_by_grade(found))
    parts: list[Part] = []
    if not math.isnan(found.pairs):
        parts.append(tag("p", _pairs(found)))
    if charts:
        parts.append(Beside(charts))
    if found.against is not None:
        parts += [tag("p", _sentence(found.against, found.metric)), _old_and_new(found.against, found.metric)]
    return parts


def _pairs(found: Ranking) -> str:
    interval = "" if math.isnan(found.pairs_low) else f" [{found.pairs_low:.1%}, {found.pairs_high:.1%}]"
    return (
        "Of two documents of a query that differ in grade, the better one has the higher score in "
        f"{found.pairs:.1%}{interval} of the pairs, as a mean over queries in which ties count half; a random order "
        "has 50%."
    )


def _over_k(found: Ranking) -> Chart:
    frame = found.to_frame("depth")
    base = alt.Chart(frame).encode(
        x=alt.X("k:Q", title="k", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="d")),
        color=alt.Color("ranking:N", title=None, sort=None),
        tooltip=tooltips("ranking:N", "k:Q d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to"),
    )  # fmt: skip
    scale = alt.Scale(zero=False)
    title = f"{found.family}@k"
    drawn = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=22)).encode(y=alt.Y("value:Q", title=title, scale=scale)),
    ).properties(height=_HEIGHT)
    about = (
        f"Mean over queries of {found.family} cut off after k documents, with 95% intervals. All rankings are measured "
        "on the same queries: which is ahead is for the paired leads of the verdict, not for whether these overlap."
    )
    return Chart("ranking-depth", f"{found.family}@k over k", about, frame, drawn)


def _by_grade(found: Ranking) -> Chart:
    frame = found.to_frame("grades")
    frame["label"] = [f"{one.grade} ({one.documents:,})" for one in found.grades]
    base = alt.Chart(frame).encode(
        y=alt.Y("label:N", sort=None, title="grade (documents)"),
        tooltip=tooltips("label:N", "mean:Q +.4f", "q05:Q +.4f 5%", "q50:Q +.4f median", "q95:Q +.4f 95%"),
    )  # fmt: skip
    drawn = alt.layer(
        base.mark_rule(opacity=0.5).encode(x=alt.X("q05:Q", title="score, less its query's mean"), x2="q95:Q"),
        base.mark_bar(height=11, opacity=0.35, color=COLOURS["main"]).encode(x="q25:Q", x2="q75:Q"),
        base.mark_tick(thickness=2, size=14, color=COLOURS["main"]).encode(x="q50:Q"),
        base.mark_point(size=55, color=COLOURS["bad"], shape="diamond").encode(x="mean:Q"),
    ).properties(height=max(_HEIGHT // 2, _LINE * len(frame) + 10))
    about = (
        "The middle half of the documents of each grade (bar), the middle 90% (line), median (tick) and mean (diamond)."
    )
    return Chart("ranking-grades", "Scores by grade", about, frame, drawn)


def _sentence(one: OldAndNew, metric: str) -> Markup:
    better, same, worse = one.counts
    return join(
        "Against ", bdi(one.name), f", query by query: {metric} is higher in {better:,} queries, the same in {same:,} "
        f"and lower in {worse:,}.",
    )  # fmt: skip


def _old_and_new(one: OldAndNew, metric: str) -> Chart:
    frame = pandas().DataFrame({"qid": one.qids, "old": one.old, "new": one.new, "change": one.new - one.old})
    ends = [0.0, max(1.0, float(frame[["old", "new"]].to_numpy().max(initial=0.0)))]
    scale = alt.Scale(domain=ends, nice=False)
    line = pandas().DataFrame({"old": ends, "new": ends})
    drawn = alt.layer(
        alt.Chart(line).mark_line(strokeDash=[4, 4], strokeWidth=1, color=COLOURS["faint"]).encode(
            x=alt.X("old:Q", scale=scale), y=alt.Y("new:Q", scale=scale)
        ),
        alt.Chart(frame).mark_circle(size=26, opacity=0.5).encode(
            x=alt.X("old:Q", title=f"{metric} of the old model", scale=scale),
            y=alt.Y("new:Q", title="of this model", scale=scale),
            color=alt.condition("datum.change < 0", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"])),
            tooltip=tooltips("qid:N", "old:Q .4f", "new:Q .4f", "change:Q +.4f"),
        ),
    ).properties(height=320)  # fmt: skip
    about = "A point is a query: above the dashed line this model ranks it better, below it worse."
    return Chart("ranking-old-and-new", "Old against new, query by query", about, frame, drawn)


def _brief(found: Ranking) -> Markup:
    if math.isnan(found.pairs):
        return join()
    parts: list[Any] = [
        f"{found.pairs:.1%} of the pairs of different grades are in the right order, as a mean over queries."
    ]
    if found.against is not None:
        better, _, worse = found.against.counts
        parts += [" Against ", bdi(found.against.name), f": {better:,} queries are better, {worse:,} are worse."]
    return join(*parts)


def _run(c: Context) -> Ranking:
    rankings: dict[str, Any] = {MODEL: c.scores}
    previous = None
    if c.previous is not None:
        previous = c.previous[0]
        rankings[previous] = c.previous[1]
    if c.start is not None:
        rankings[START] = c.start
    return ranking(
        c.data, rankings | {RANDOM: None}, metric=c.metric, conventions=c.conventions, previous=previous,
        docnos=c.docnos, seed=c.seed, threads=c.threads,
    )  # fmt: skip


def _frames(found: Ranking) -> dict[str, Any]:
    frames = {"depth": found.to_frame("depth"), "grades": found.to_frame("grades")}
    return frames | ({} if found.against is None else {"old and new": found.to_frame("old and new")})


SPEC = Section("ranking", "Ranking", _run, draw, _frames, _brief, place=15, after=("learning",))
