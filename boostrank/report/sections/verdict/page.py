"""Section on the verdict: `Verdict` drawn."""

from __future__ import annotations

import math
from typing import Any

from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import key_numbers
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Fold, Part
from boostrank.report.html.tables import Cell, Column, Table
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.means import FEWEST_FOR_INTERVAL, amount_with_interval
from boostrank.report.section import Section
from boostrank.report.sections.verdict.analysis import FILE_ORDER, MODEL, Verdict, verdict
from boostrank.report.start import START

# A line of the chart, in pixels.
_LINE = 30


def draw(found: Verdict) -> list[Part]:
    """Table and chart of what `boostrank.report.sections.verdict.analysis` found."""
    return [
        tag("p", _sentence(found)),
        *([tag("p", tag("b", trees))] if (trees := found.trees_sentence()) else []),
        key_numbers(*_key_numbers(found)),
        _chart(found),
        _table(found),
        tag("h3", "Tied documents and the order of the file"),
        tag("p", _ties(found)),
        *(tag("p", note, class_="faint") for note in found.notes),
        Fold("How this was measured", _method(found)),
    ]


def _brief(found: Verdict) -> Markup:
    """Against the first of the baselines: the model from before, where there is one."""
    head = join(tag("b", f"{found.metric} is {found.headline.value:.4f}"))
    if not found.baselines:
        return join(head, ".")
    against = found.baselines[0]
    standing = against.standings[found.metric]
    lead = f", {abs(standing.lead):.4f} {'above' if standing.lead >= 0.0 else 'below'} "
    sure = f", {found.why_even(standing)}." if found.direction(standing) == "even" else ": more than chance explains."
    trees = found.trees_sentence() if against.name != START or found.direction(standing) != "better" else ""
    return join(head, lead, bdi(against.name), sure, f" {trees}" if trees else None)


def _sentence(found: Verdict) -> Markup:
    head = found.headline
    interval = "" if math.isnan(head.low) else f" [{head.low:.4f}, {head.high:.4f}]"
    clauses = [join(tag("b", f"{head.metric} is {head.value:.4f}"), f"{interval} over the "
                 f"{head.queries:,} queries that count")]  # fmt: skip
    for baseline in found.baselines:
        s = baseline.standings[found.metric]
        if baseline.name == FILE_ORDER:
            continue
        amount = amount_with_interval(s.lead, s.lead_low, s.lead_high)
        clauses.append(
            join(f"; {amount} {'above' if s.lead >= 0.0 else 'below'} ", bdi(baseline.name),
                 join(" (", bdi(baseline.short), ")") if baseline.short else None,
                 f", {found.why_even(s)}" if found.direction(s) == "even" else None)
        )  # fmt: skip
    return join(*clauses, ".")


def _key_numbers(found: Verdict) -> list[tuple[str, Any, str]]:
    head = found.headline
    interval = "one query: no interval" if math.isnan(head.low) else f"{head.low:.4f} to {head.high:.4f} (95%)"
    numbers: list[tuple[str, Any, str]] = [(head.metric, f"{head.value:.4f}", interval)]
    for baseline in found.baselines:
        s = baseline.standings[found.metric]
        if baseline.name != FILE_ORDER:
            interval = f"{s.lead_low:+.4f} to {s.lead_high:+.4f}" if math.isfinite(s.lead_low) else ""
            numbers.append((f"against {baseline.name}", f"{s.lead:+.4f}", interval))
    numbers.append(("queries", f"{found.queries:,}", f"{found.documents:,} documents"))
    return numbers


def _chart(found: Verdict) -> Chart:
    rankings = (found.model, *found.baselines)
    rows = [{"ranking": r.name, **{n: getattr(r.standings[found.metric], n) for n in ("value", "low", "high")},
             "kind": "model" if r is found.model else "baseline"} for r in rankings]  # fmt: skip
    frame = pandas().DataFrame(rows)
    base = alt.Chart(frame).encode(
        y=alt.Y("ranking:N", sort=None, title=None),
        color=alt.Color("kind:N", legend=None,
                        scale=alt.Scale(domain=["model", "baseline"], range=[COLOURS["main"], COLOURS["faint"]])),
        tooltip=tooltips("ranking:N", "value:Q .4f", "low:Q .4f from", "high:Q .4f to"),
    )  # fmt: skip
    x = alt.X("low:Q", title=found.metric, scale=alt.Scale(zero=False, nice=True))
    drawn = alt.layer(
        base.mark_rule(strokeWidth=4, opacity=0.5).encode(x=x, x2="high:Q"),
        base.mark_point(size=80).encode(x="value:Q"),
    ).properties(height=_LINE * len(rows) + 10)
    return Chart(
        "verdict-rankings", f"{found.metric} of the model and of what it is measured against",
        "Means over queries with their 95% intervals. The intervals overlap more than the rankings do, since all are "
        "measured on the same queries: the leads in the table are of pairs.",
        frame, drawn,
    )  # fmt: skip


def _table(found: Verdict) -> Table:
    columns = [
        Column("metric", "metric"), Column("value", MODEL, "number", ".4f", "with its 95% interval"),
    ]  # fmt: skip
    for i, baseline in enumerate(found.baselines):
        columns.append(Column(f"baseline_{i + 1}", baseline.name, "number", ".4f", baseline.about))
        if baseline.name != FILE_ORDER:
            about = f"model minus {baseline.name}, with 95% interval"
            columns.append(Column(f"lead_{i + 1}", "lead", "number", "+.4f", about))
    rows = []
    for metric, own in found.model.standings.items():
        value = join(tag("b", f"{own.value:.4f}"), _small(own.low, own.high))
        row: list[Any] = [metric, Cell(own.value, value)]
        for baseline in found.baselines:
            s = baseline.standings[metric]
            look = found.direction(s).replace("even", "faint")
            row.append(s.value)
            if baseline.name != FILE_ORDER:
                row.append(Cell(s.lead, join(f"{s.lead:+.4f}", _small(s.lead_low, s.lead_high)), look))
        rows.append(row)
    return Table("metrics", columns, rows, caption="Each metric of the model, and its lead with 95% intervals",
                 note=found.matters_sentence())  # fmt: skip


def _small(low: float, high: float) -> Markup | None:
    return None if math.isnan(low) else tag("small", f"{low:.4f} to {high:.4f}")


def _ties(found: Verdict) -> str:
    ties = found.ties
    if not ties.tied:
        return (
            "No document has the score of another one with another label in its query: the order of the file decides "
            "nothing."
        )
    return (
        f"{ties.tied:,} of {ties.documents:,} documents ({ties.mass:.2%}) have the score of a document with another "
        f"label in their query, so that something else must order them. {found.metric} is {ties.expected:.4f} in the "
        f"mean over their orders and {ties.file_order:.4f} in the order of the file, which is worth "
        f"{ties.file_order - ties.expected:+.4f}; the worst order gives {ties.worst:.4f}, the best {ties.best:.4f}."
    )


def _method(found: Verdict) -> list[Part]:
    sentences: list[Part] = [
        f"Conventions: {found.conventions.describe()}. {found.empty:,} queries have no relevant document.",
        "Intervals: 95%, percentile bootstrap over queries, widened for few queries as Hesterberg (2015) says; above "
        "20,000 queries the normal interval. Leads are means of differences query by query, with intervals of their "
        "own, of 10,000 resamples, as `boostrank compare` has them."
        + (f" Fewer than {FEWEST_FOR_INTERVAL} queries count: the intervals are rough."
           if found.headline.queries < FEWEST_FOR_INTERVAL else ""),
    ]  # fmt: skip
    sentences += [join(tag("b", bdi(b.name)), ": ", bdi(b.about), ".") for b in found.baselines if b.about]
    return [tag("p", one) for one in sentences]


SPEC = Section(
    "verdict", "Verdict",
    lambda c: verdict(
        c.scores, c.data, c.metrics, conventions=c.conventions, previous=c.previous, start=c.start, docnos=c.docnos,
        matters=c.matters, seed=c.seed, threads=c.threads, progress=c.progress,
    ),
    draw, lambda found: {"verdict": found.to_frame()}, _brief, place=10, after=("learning",),
)  # fmt: skip
