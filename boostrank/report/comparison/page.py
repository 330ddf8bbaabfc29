"""Comparison page: the difference, its segments and the worst regressions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.report.comparison.analysis import RESAMPLES, Comparison, Regression
from boostrank.report.comparison.result import Difference
from boostrank.report.documents import shown_value
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import key_numbers, whisker
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import PageSection, Part, page
from boostrank.report.html.tables import Cell, Column, Table, interval_cells, interval_columns
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.means import FEWEST_FOR_INTERVAL
from boostrank.report.rank_changes import Inversion

_ALPHA = 0.05
_BINS = 40
_METHOD = (
    "A difference is new minus old, query by query. Intervals: 95%, percentile bootstrap over queries with "
    f"{RESAMPLES:,} resamples, widened for few queries as Hesterberg (2015) says (above 20,000 queries the normal "
    "interval). p: two-sided paired randomisation test, in which each difference could as well have had the other "
    "sign. Several metrics or conditions are several tests, and are not adjusted for."
)


def whole_page(found: Comparison, data: str = "") -> str:
    """The page.

    Args:
        found: the comparison.
        data: what the data are called.
    """
    first = next(iter(found.metrics))
    d = found.metrics[first]
    summary: list[Part] = [
        tag("p", f"{len(found.qids):,} queries", join(" of ", bdi(data)) if data else None,
            f"; {found.conventions.describe()}.", class_="faint"),
        *_gate(found),
        tag("p", _verdict(d)),
        key_numbers(*_key_numbers(found, d)),
    ]  # fmt: skip
    limit = _limit(found.metrics.values())
    metrics = Table("metrics", [Column("metric", "metric"), *_columns("p")],
                    [[d.metric, *_numbers(d, d.p, limit)] for d in found.metrics.values()],
                    caption="Old and new over all queries")  # fmt: skip
    sections = [
        PageSection("difference", "The difference", [metrics]),
        PageSection("queries", f"Query by query: {first}", _histogram(found.per_query[first], d), "Queries"),
        PageSection("top", f"The top {found.churn.k}", [_churn(found)]),
        PageSection("segments", f"Segments: {first}", _segments(found, first), "Segments"),
        PageSection("regressions", f"Worst regressions: {first}", _regressions(found), "Worst regressions"),
        PageSection("method", "How this was computed", [_METHOD], "Method"),
    ]
    heading = join(bdi(found.new), " against ", bdi(found.old))
    return page(f"{found.new} against {found.old}", sections, summary=summary, heading=heading)


def _gate(found: Comparison) -> list[Markup]:
    out = []
    for outcome in found.outcomes:
        where = f": {', '.join(outcome.where)}" if outcome.where else None
        words, end = ("Fails: ", " holds") if outcome.holds else ("Passes: ", " does not hold")
        sentence = join(tag("b", words), tag("code", outcome.condition), end, where)
        out.append(tag("p", sentence, class_="note worse" if outcome.holds else "note better"))
    return out


def _verdict(d: Difference) -> Markup:
    direction = "higher" if d.mean > 0 else "lower" if d.mean < 0 else "different"
    amount = f"{abs(d.mean):.4f}" if d.mean else "not"
    if d.p < _ALPHA:
        sure = f"more than chance explains (p = {d.p:.4f})"
    else:
        sure = f"within what chance alone gives (p = {d.p:.4f})"
    if d.by_luck:
        sure += f", and less than the {d.matters:.4f} by which two trainings may differ by luck"
    counts = f"{d.better:,} queries got better, {d.same:,} stayed, {d.worse:,} got worse."
    return join(tag("b", f"{d.metric} is {amount} {direction}"), f": {sure}. {counts}")


def _key_numbers(found: Comparison, d: Difference) -> list[tuple[str, Any, str]]:
    look = _direction(d, d.p)
    interval = "" if math.isnan(d.low) else f"{d.low:+.4f} to {d.high:+.4f} (95%)"
    numbers: list[tuple[str, Any, str]] = [
        (f"{d.metric}, old → new", f"{d.old:.4f} → {d.new:.4f}", f"{d.queries:,} queries count"),
        ("difference", tag("span", f"{d.mean:+.4f}", class_=look), interval),
        ("better : worse", f"{d.better:,} : {d.worse:,}", f"{d.same:,} queries the same"),
    ]
    if found.churn.queries:
        first = "" if math.isnan(found.churn.first) else f"another first in {found.churn.first:.1%} of the queries"
        numbers.append((f"new in the top {found.churn.k}", f"{found.churn.changed:.1%}", first))
    return numbers


def _churn(found: Comparison) -> str:
    top = found.churn
    first = "" if math.isnan(top.first) else f" Another document is first in {top.first:.1%} of the queries."
    if not top.queries:
        return f"No query has more than {top.k} documents.{first}"
    return (
        f"{top.changed:.1%} of the top {top.k} were not there before, on average over the {top.queries:,} queries "
        f"with more than {top.k} documents.{first}"
    )


def _columns(p: str) -> list[Column]:
    return [
        Column("old", "old", "number", ".4f"),
        Column("new", "new", "number", ".4f"),
        *interval_columns("difference", "difference", "+.4f", "new minus old"),
        Column("", "95% interval", "number"),
        Column("p", p, "number", ".4f", "two-sided p-value of the paired randomisation test"),
        Column("better", "better", "number", help="queries that gained"),
        Column("same", "same", "number", help="queries that stayed"),
        Column("worse", "worse", "number", help="queries that lost"),
    ]


def _limit(differences: Iterable[Difference]) -> float:
    ends = [abs(x) for d in differences for x in (d.mean, d.low, d.high) if math.isfinite(x)]
    return max(ends, default=0.0) or 1.0


def _numbers(d: Difference, p: float, limit: float) -> list[Any]:
    look = _direction(d, p)
    drawn = Cell(d.mean, whisker(d.mean, d.low, d.high, limit, look or "faint"))
    return [d.old, d.new, *interval_cells(d.mean, d.low, d.high, look), drawn, p, d.better, d.same, d.worse]


def _direction(d: Difference, p: float) -> str:
    """Only what is more than chance, and luck in training, explain gets a colour."""
    return "" if p >= _ALPHA or not d.mean or d.by_luck else "better" if d.mean > 0.0 else "worse"


def _histogram(values: Float64Array, d: Difference) -> list[Part]:
    change = values[:, 1] - values[:, 0]
    change = change[np.isfinite(change) & (np.abs(change) > 1e-12)]
    if not change.size:
        return ["No query changed."]
    limit = float(np.abs(change).max())
    counts, edges = np.histogram(change, bins=_BINS, range=(-limit, limit))
    direction = np.where(np.arange(_BINS) < _BINS // 2, "worse", "better")
    frame = pandas().DataFrame({"low": edges[:-1], "high": edges[1:], "queries": counts, "way": direction})
    scale = alt.Scale(domain=["worse", "better"], range=[COLOURS["bad"], COLOURS["good"]])
    axis = alt.Axis(format="+.2~f", grid=False)
    tooltip = tooltips("low:Q +.3f from", "high:Q +.3f to", "queries:Q ,")
    drawn = alt.Chart(frame).mark_bar(binSpacing=1).encode(
        x=alt.X("low:Q", bin="binned", title=f"difference of {d.metric}", axis=axis), x2="high:Q",
        y=alt.Y("queries:Q", title="queries", axis=alt.Axis(tickMinStep=1)),
        color=alt.Color("way:N", title=None, scale=scale), tooltip=tooltip,
    ).properties(height=240)  # fmt: skip
    about = f"Differences of the {change.size:,} queries that changed; {d.same:,} did not and are not drawn."
    return [Chart("differences", f"Differences of {d.metric}", about, frame, drawn)]


def _segments(found: Comparison, metric: str) -> list[Part]:
    differences = [s for s in found.segments if s.difference.metric == metric]
    limit = _limit([s.difference for s in differences])
    parts: list[Part] = [
        tag("p", "p is adjusted for all segments (Holm), the intervals are not; there is none for less than "
            f"{FEWEST_FOR_INTERVAL} queries.", class_="faint")
    ]  # fmt: skip
    columns = [Column("segment", "segment"), Column("queries", "queries", "number"), *_columns("p (Holm)")]
    for number, kind in enumerate(dict.fromkeys(s.kind for s in differences), 1):
        rows = [
            [s.segment, s.difference.queries, *_numbers(s.difference, s.p_holm, limit)]
            for s in differences
            if s.kind == kind
        ]
        parts += [
            tag("h3", "By ", bdi(kind)),
            Table(f"segments-{number}", columns, rows, search=len(rows) > 10, caption=f"Differences by {kind}"),
        ]
    return parts


def _regressions(found: Comparison) -> list[Part]:
    notes = [tag("p", note, class_="faint") for note in found.notes]
    if not found.regressions:
        return [*notes, "No query lost."]
    about = tag(
        "p", "The documents of either top ", found.churn.k, " that moved; the two whose exchange cost most; and, "
        "where models tell, how much each feature lifts the first of them above the second one, by the old and "
        "the new model, in standard deviations of its scores in the query: largest changes first.", class_="faint",
    )  # fmt: skip
    kinds = list(found.regressions[0].segments)
    columns = [
        Column("qid", "query"), Column("old", "old", "number", ".4f"), Column("new", "new", "number", ".4f"),
        Column("difference", "difference", "number", "+.4f"), *(Column(kind, kind) for kind in kinds),
    ]  # fmt: skip
    rows = [
        [r.qid, r.old, r.new, Cell(r.new - r.old, look="worse"), *(r.segments[kind] for kind in kinds)]
        for r in found.regressions
    ]
    details = [_lost(r, i) for i, r in enumerate(found.regressions)]
    table = Table("worst", columns, rows, search=True, details=details, order="difference",
                  caption="The queries that lost most")  # fmt: skip
    return [about, *notes, table]


def _lost(r: Regression, number: int) -> Markup:
    """What moved in a query that lost, and the two documents whose exchange cost most."""
    if not r.moves:
        moves = tag("p", "The ranks are the same: scores that tied, or no longer do, make the difference.")
    else:
        pair = set() if r.swap is None else {r.swap.fell.row, r.swap.rose.row}
        columns = [
            Column("document", "document"), Column("label", "label", "number", "g"),
            Column("old", "old rank", "number"), Column("new", "new rank", "number"),
        ]  # fmt: skip
        moves = Table(
            f"moves-{number}", columns, [[m.document, m.label, m.old, m.new] for m in r.moves],
            marked=frozenset(i for i, m in enumerate(r.moves) if m.row in pair), caption="Documents that moved",
        ).draw()  # fmt: skip
    return join(moves, None if r.swap is None else _why(r.swap, number))


def _why(swap: Inversion, number: int) -> Markup:
    sentence = tag("p", "What cost most: ", bdi(swap.fell.document), f" (label {swap.fell.label:g}) is below ",
               bdi(swap.rose.document), f" (label {swap.rose.label:g}) now.")  # fmt: skip
    if not swap.features:
        return sentence
    columns = [
        Column("feature", "feature"), Column("fell", swap.fell.document, "number"),
        Column("rose", swap.rose.document, "number"), Column("old", "old", "number", "+.3f"),
        Column("new", "new", "number", "+.3f"),
    ]  # fmt: skip
    rows: list[list[Any]] = [
        [f.feature, Cell(f.fell, shown_value(f.fell)), Cell(f.rose, shown_value(f.rose)), f.old, f.new]
        for f in swap.features
    ]
    rows.append(["all features", Cell(None, ""), Cell(None, ""), swap.old, swap.new])
    table = Table(f"why-{number}", columns, rows, marked=frozenset([len(rows) - 1]), caption="What lifts the first one")
    return join(sentence, table.draw())
