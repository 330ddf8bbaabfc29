"""Section of queries: tables and charts of `QueryValues`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from boostrank.metric import Metric
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import key_numbers, look_of
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Part
from boostrank.report.html.tables import Cell, Column, Table, fixed, interval_columns
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Section
from boostrank.report.sections.queries.analysis import QueryValues, SegmentMetric, WorstQuery, query_values

_LINE = 26
# More parts of one kind are in the table alone.
_MOST_DRAWN = 30


def draw(found: QueryValues) -> list[Part]:
    """Tables and charts of what `boostrank.report.sections.queries.analysis` found."""
    parts: list[Part] = [key_numbers(*_key_numbers(found)), _histogram(found)]
    for i, kind in enumerate(dict.fromkeys(part.kind for part in found.parts), 1):
        named = [part for part in found.parts if part.kind == kind]
        if len(named) > 1:
            parts.append(_by_part(found.metric, named, i))
    columns = [
        Column("part", "part"), Column("kind", "by"), Column("queries", "queries", "number"),
        *interval_columns("mean", found.metric, ".4f", "its mean; there is no interval below 20 queries"),
        Column("q05", "5%", "number", ".3f"), Column("q50", "median", "number", ".3f"),
        Column("q95", "95%", "number", ".3f"),
    ]  # fmt: skip
    rows = [[p.name, p.kind, p.queries, p.mean, p.low, p.high, *p.quantiles[::2]] for p in found.parts]
    parts.append(Table("parts", columns, rows, search=len(rows) > 15, caption="Parts of the data"))
    if found.worst:
        parts += [
            tag("h3", "The worst queries"),
            tag("p", f"Lowest {found.metric} first; of equal ones, those with better documents. A query opens to its "
                "list: the first ten documents, the best ones that stand below them, and what the features that tell "
                "them apart most add to each score beyond the mean of the documents shown (by the engine's TreeSHAP)."),
            _worst(found),
        ]  # fmt: skip
    parts += [tag("p", note, class_="faint") for note in found.notes]
    return parts


def _brief(found: QueryValues) -> Markup:
    low, high = np.nanquantile(found.values, [0.25, 0.75])
    sentences = [f"Half of the queries have {found.metric} from {low:.2f} to {high:.2f}."]
    certain = [part for part in found.parts if not math.isnan(part.low)]
    if len(certain) > 1:
        worst = min(certain, key=lambda part: part.mean)
        sentences += [" Worst: ", bdi(worst.kind), " ", bdi(worst.name), f", {worst.mean:.4f}."]
    return join(*sentences)


def _key_numbers(found: QueryValues) -> list[tuple[str, Any, str]]:
    values = found.values[~np.isnan(found.values)]
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    upper = Metric.parse(found.metric).spec.upper
    return [
        ("queries that count", f"{values.size:,}", f"of {len(found.qids):,}"),
        ("median", f"{middle:.4f}", f"half of them from {low:.4f} to {high:.4f}"),
        *([("perfect", f"{np.mean(values >= 1.0):.1%}", f"{found.metric} is 1")] if upper == 1.0 else []),
        ("nothing found", f"{np.mean(values <= 0.0):.1%}", f"{found.metric} is 0"),
    ]


def _histogram(found: QueryValues) -> Chart:
    frame = pandas().DataFrame({"begin": found.edges[:-1], "end": found.edges[1:], "queries": found.counts})
    counted = found.values[~np.isnan(found.values)]
    bars = alt.Chart(frame).mark_bar().encode(
        x=alt.X("begin:Q", title=found.metric, bin="binned"), x2="end:Q", y=alt.Y("queries:Q", title="queries"),
        tooltip=tooltips("begin:Q .2f from", "end:Q .2f to", "queries:Q ,d"),
    )  # fmt: skip
    return Chart(
        "queries-values", f"{found.metric} of each query",
        f"How many of the {counted.size:,} queries that count have which {found.metric}.", frame,
        bars.properties(height=220),
    )  # fmt: skip


def _by_part(metric: str, named: Sequence[SegmentMetric], number: int) -> Chart:
    shown = sorted(named, key=lambda part: -part.queries)[:_MOST_DRAWN]
    rows = [
        {"part": f"{part.name} ({part.queries:,})", "mean": part.mean, "low": part.low, "high": part.high,
         **part.named_quantiles}
        for part in named if part in shown
    ]  # fmt: skip
    frame = pandas().DataFrame(rows)
    base = alt.Chart(frame).encode(
        y=alt.Y("part:N", sort=None, title=None),
        tooltip=tooltips("part:N", "mean:Q .4f", "low:Q .4f from", "high:Q .4f to", "q50:Q .4f median"),
    )  # fmt: skip
    drawn = alt.layer(
        base.mark_rule(opacity=0.5).encode(x=alt.X("q05:Q", title=metric), x2="q95:Q"),
        base.mark_bar(height=10, opacity=0.35, color=COLOURS["main"], cornerRadiusEnd=0).encode(x="q25:Q", x2="q75:Q"),
        base.mark_tick(thickness=2, size=12, color=COLOURS["main"]).encode(x="q50:Q"),
        base.mark_point(size=55, color=COLOURS["bad"], shape="diamond").encode(x="mean:Q"),
    ).properties(height=_LINE * len(rows) + 10)
    left = f" The {len(shown)} with most queries." if len(shown) < len(named) else ""
    return Chart(
        f"queries-by-{number}", f"By {named[0].kind}",
        "The middle half of the queries (bar), the middle 90% (line), median (tick) and mean (diamond)." + left,
        frame, drawn,
    )  # fmt: skip


def _worst(found: QueryValues) -> Table:
    kinds = list(found.worst[0].parts)
    columns = [
        Column("qid", "query"), Column("value", found.metric, "number", ".4f"),
        Column("documents", "documents", "number"),
        *(Column(f"part_{i + 1}", kind) for i, kind in enumerate(kinds)),
    ]  # fmt: skip
    rows = [[w.qid, w.value, w.size, *(w.parts[kind] for kind in kinds)] for w in found.worst]
    return Table(
        "worst", columns, rows, details=[_list(w, i) for i, w in enumerate(found.worst)], order="value", search=True,
        caption=f"The {len(rows):,} worst queries",
    )  # fmt: skip


def _list(query: WorstQuery, number: int) -> Markup:
    score = fixed(d.score for d in query.documents)
    part = fixed((c for d in query.documents for c in d.contributions), sign=True)
    columns = [
        Column("document", "document"), Column("rank", "rank", "number"), Column("label", "label", "number", "g"),
        Column("score", "score", "number", score),
        *(Column(f"feature_{i + 1}", name, "number", part) for i, name in enumerate(query.features)),
    ]  # fmt: skip
    best = max((d.label for d in query.documents), default=0.0)
    rows = [
        [d.document, d.rank, Cell(d.label, look="strong" if d.label == best and best > 0 else ""), d.score,
         *(Cell(c, look=look_of(c, c)) for c in d.contributions)]
        for d in query.documents
    ]  # fmt: skip
    below = sum(d.rank > 10 for d in query.documents)
    words = f"{query.size:,} documents" + (f"; the last {below} shown stand further down" if below else "")
    table = Table(f"worst-list-{number + 1}", columns, rows, caption=f"The list of query {query.qid}")
    return join(tag("p", "Query ", bdi(query.qid), f": {words}.", class_="faint"), table.draw())


SPEC = Section(
    "queries", "Queries",
    lambda c: query_values(
        c.model, c.data, c.scores, metric=c.metric, conventions=c.conventions, segments=c.segments, docnos=c.docnos,
        seed=c.seed, threads=c.threads,
    ),
    draw, lambda found: {"queries": found.to_frame(), "parts": found.parts_frame()}, _brief, place=50,
    after=("learning",),
)  # fmt: skip
