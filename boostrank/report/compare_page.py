"""A comparison as one HTML page: no network, no script, light and dark, readable on a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.report.comparison import FEWEST_FOR_INTERVAL, RESAMPLES, Comparison, Difference, Regression
from boostrank.report.html.markup import Markup, join, page, tag
from boostrank.report.moves import Swap

_ALPHA = 0.05
_BINS = 40
_WIDTH, _HEIGHT = 1000, 240

_STYLE = """
:root { --back: #ffffff; --text: #1c2024; --faint: #60666d; --line: #d9dde1; --soft: #f4f5f7;
  --better: #0b6bcb; --worse: #b3470b; --even: #767c83; }
@media (prefers-color-scheme: dark) { :root { --back: #15181b; --text: #e6e8ea; --faint: #9ba1a8; --line: #363b41;
  --soft: #1e2226; --better: #63aef5; --worse: #f09a5c; --even: #8b9198; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.faint, .scale { color: var(--faint); font-size: .875rem; }
.better { color: var(--better); } .worse { color: var(--worse); }
.gate { border-left: .3rem solid var(--better); background: var(--soft); padding: .5rem .8rem; margin: .5rem 0; }
.gate.shut { border-color: var(--worse); }
.row { display: grid; grid-template-columns: 12rem 19rem 1fr; gap: 0 1rem; align-items: center;
  border-top: 1px solid var(--line); padding: .3rem 0; font-variant-numeric: tabular-nums; }
.row > * { min-width: 0; overflow-wrap: anywhere; }
.scale { display: grid; grid-template-columns: 1fr auto 1fr; }
.scale :last-child { text-align: right; }
svg { display: block; width: 100%; }
.interval { height: 1.5rem; } .bars { height: 12rem; background: var(--soft); }
svg line { vector-effect: non-scaling-stroke; }
.zero { stroke: var(--faint); stroke-width: 1; }
.span { stroke-width: 3; } .dot { stroke-width: 10; stroke-linecap: round; }
line.better { stroke: var(--better); } line.worse { stroke: var(--worse); } line.even { stroke: var(--even); }
rect.better { fill: var(--better); } rect.worse { fill: var(--worse); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9375rem; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-weight: 600; color: var(--faint); }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; padding: .45rem 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
summary:focus-visible { outline: 2px solid var(--better); }
details > div { padding: 0 0 1rem 1.1rem; }
.pair { background: var(--soft); }
@media (max-width: 700px) { .row { grid-template-columns: 1fr; } details > div { padding-left: 0; }
  table { font-size: .8125rem; } th, td { padding: .2rem .3rem; } th { white-space: normal; vertical-align: bottom; } }
@media print { :root { font-size: 11px; } .scroll { overflow: visible; } }
"""


def compare_page(found: Comparison, data: str = "") -> str:
    """The page.

    Args:
        found: the comparison.
        data: what the data are called.
    """
    first = next(iter(found.metrics))
    return page(
        f"{found.new} against {found.old}",
        _STYLE,
        tag("h1", _name(found.new), " against ", _name(found.old)),
        tag("p", f"{len(found.qids):,} queries", join(" of ", _name(data)) if data else None,
            f"; {found.conventions.describe()}.", class_="faint"),
        *_gate(found),
        tag("h2", "The difference"),
        tag("p", _verdict(found.metrics[first])),
        *_intervals([(tag("b", name), d, None) for name, d in found.metrics.items()]),
        tag("h2", f"Query by query: {first}"),
        *_histogram(found.per_query[first], found.metrics[first]),
        tag("h2", f"The top {found.churn.k}"),
        tag("p", _churn(found)),
        tag("h2", f"Segments: {first}"),
        tag("p", "p is adjusted for all segments (Holm), the intervals are not; there is none for less than "
            f"{FEWEST_FOR_INTERVAL} queries.", class_="faint"),
        *_segments(found, first),
        tag("h2", f"Worst regressions: {first}"),
        tag("p", "The documents of either top ", found.churn.k, " that moved; the two whose exchange cost most; and, "
            "where models tell, how much each feature lifts the first of them above the second one, by the old and "
            "the new model, in standard deviations of its scores in the query: largest changes first.", class_="faint")
        if found.regressions else None,
        *(tag("p", note, class_="faint") for note in found.notes),
        *(_regression(r, found) for r in found.regressions),
        None if found.regressions else tag("p", "No query lost."),
        tag("h2", "How this was computed"),
        tag("p", "A difference is new minus old, query by query. Intervals: 95%, percentile bootstrap over queries "
            f"with {RESAMPLES:,} resamples, widened for few queries as Hesterberg (2015) says (above 20,000 queries "
            "the normal interval). p: two-sided paired randomisation test, in which each difference could as well have "
            "had the other sign. Several metrics or conditions are several tests, and are not adjusted for.",
            class_="faint"),
    )  # fmt: skip


def _name(text: Any) -> Markup:
    """A text from a file, whose direction of writing ends with it."""
    return tag("bdi", text)


def _gate(found: Comparison) -> list[Markup]:
    out = []
    for outcome in found.outcomes:
        where = f": {', '.join(outcome.where)}" if outcome.where else None
        words, end = ("Fails: ", " holds") if outcome.holds else ("Passes: ", " does not hold")
        told = join(tag("b", words), tag("code", outcome.condition), end, where)
        out.append(tag("p", told, class_="gate shut" if outcome.holds else "gate"))
    return out


def _verdict(d: Difference) -> Markup:
    way = "higher" if d.mean > 0 else "lower" if d.mean < 0 else "different"
    amount = f"{abs(d.mean):.4f}" if d.mean else "not"
    if d.p < _ALPHA:
        sure = f"more than chance explains (p = {d.p:.4f})"
    else:
        sure = f"within what chance alone gives (p = {d.p:.4f})"
    return join(tag("b", f"{d.metric} is {amount} {way}"), f": {sure}. {d.better:,} queries got better, {d.same:,} "
                f"stayed, {d.worse:,} got worse.")  # fmt: skip


def _churn(found: Comparison) -> str:
    top = found.churn
    first = "" if math.isnan(top.first) else f" Another document is first in {top.first:.1%} of the queries."
    if not top.queries:
        return f"No query has more than {top.k} documents.{first}"
    return (
        f"{top.changed:.1%} of the top {top.k} were not there before, on average over the {top.queries:,} queries "
        f"with more than {top.k} documents.{first}"
    )


def _intervals(rows: Sequence[tuple[Any, Difference, float | None]]) -> list[Markup]:
    """Numbers and interval, a row each, on one scale."""
    ends = [abs(x) for _, d, _ in rows for x in (d.mean, d.low, d.high) if math.isfinite(x)]
    limit = max(ends, default=0.0) * 1.05 or 1.0
    lines = [
        tag(
            "div",
            tag("div", heading),
            tag("div", *_numbers(d, holm)),
            tag("div", _interval(d, holm, limit)),
            class_="row",
        )
        for heading, d, holm in rows
    ]
    scale = _scale(f"{-limit:+.4f}", "0", f"{limit:+.4f}")
    return [*lines, tag("div", tag("div"), tag("div"), scale, class_="row")]


def _scale(*marks: str) -> Markup:
    return tag("div", *(tag("span", mark) for mark in marks), class_="scale")


def _numbers(d: Difference, holm: float | None) -> list[Any]:
    spread = "" if math.isnan(d.low) else f" [{d.low:+.4f}, {d.high:+.4f}]"
    p = f"p = {d.p:.4f}" if holm is None else f"p = {holm:.4f} (Holm)"
    return [
        tag("b", f"{d.mean:+.4f}", class_=_way(d, d.p if holm is None else holm)), f"{spread} ",
        tag("div", f"{d.old:.4f} → {d.new:.4f}, {p}", class_="faint"),
        tag("div", f"{d.better:,} better, {d.same:,} same, {d.worse:,} worse", class_="faint"),
    ]  # fmt: skip


def _way(d: Difference, p: float) -> str:
    """Only what is more than chance explains gets a colour."""
    return "even" if p >= _ALPHA or not d.mean else "better" if d.mean > 0.0 else "worse"


def _interval(d: Difference, holm: float | None, limit: float) -> Markup:
    def x(value: float) -> str:
        return f"{(value / limit + 1.0) * _WIDTH / 2:.1f}"

    way = _way(d, d.p if holm is None else holm)
    span = None
    if math.isfinite(d.low):
        span = tag("line", x1=x(d.low), x2=x(d.high), y1=12, y2=12, class_=f"span {way}")
    return tag(
        "svg",
        tag("line", x1=x(0.0), x2=x(0.0), y1=0, y2=24, class_="zero"),
        span,
        tag("line", x1=x(d.mean), x2=x(d.mean), y1=12, y2=12, class_=f"dot {way}"),
        viewBox=f"0 0 {_WIDTH} 24", preserveAspectRatio="none", class_="interval", role="img",
        aria_label=f"difference {d.mean:+.4f}",
    )  # fmt: skip


def _histogram(values: Float64Array, d: Difference) -> list[Markup]:
    change = values[:, 1] - values[:, 0]
    change = change[np.isfinite(change) & (np.abs(change) > 1e-12)]
    if not change.size:
        return [tag("p", "No query changed.")]
    limit = float(np.abs(change).max())
    counts, edges = np.histogram(change, bins=_BINS, range=(-limit, limit))
    step, high = _WIDTH / _BINS, int(counts.max())
    bars = [
        tag(
            "rect", tag("title", f"{a:+.3f} to {b:+.3f}: {n:,} queries"), x=f"{i * step + 1:.1f}",
            y=f"{_HEIGHT * (1 - n / high):.1f}", width=f"{step - 2:.1f}", height=f"{_HEIGHT * n / high:.1f}",
            class_="better" if i >= _BINS // 2 else "worse",
        )
        for i, (n, a, b) in enumerate(zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True)) if n
    ]  # fmt: skip
    return [
        tag("p", f"Differences of the {change.size:,} queries that changed; {d.same:,} did not and are not drawn. "
            f"The tallest bar stands for {high:,}.", class_="faint"),
        tag("svg", *bars, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", class_="bars", role="img",
            aria_label=f"histogram: {d.worse:,} queries worse, {d.better:,} better"),
        _scale(f"{-limit:+.3f} worse", "0", f"better {limit:+.3f}"),
    ]  # fmt: skip


def _segments(found: Comparison, metric: str) -> list[Markup]:
    mine = [s for s in found.segments if s.difference.metric == metric]
    out: list[Markup] = []
    for kind in dict.fromkeys(s.kind for s in mine):
        out.append(tag("h3", _name(kind)))
        out += _intervals(
            [
                (join(_name(s.segment), tag("div", f"{s.difference.queries:,} queries", class_="faint")), s.difference,
                 s.p_holm)
                for s in mine if s.kind == kind
            ]
        )  # fmt: skip
    return out


def _regression(r: Regression, found: Comparison) -> Markup:
    swap = r.swap
    pair = set() if swap is None else {swap.fell.row, swap.rose.row}
    rows = [
        tag("tr", tag("td", _name(m.document)), tag("td", f"{m.label:g}"), tag("td", m.old), tag("td", m.new),
            class_="pair" if m.row in pair else None)
        for m in r.moves
    ]  # fmt: skip
    kinds = [join(kind, " ", _name(name)) for kind, name in r.segments.items()]
    return tag(
        "details",
        tag("summary", tag("b", _name(r.qid)), f" {r.old:.4f} → {r.new:.4f} ",
            tag("span", f"{r.new - r.old:+.4f}", class_="worse")),
        tag(
            "div",
            tag("p", *(join(kind, "; " if i + 1 < len(kinds) else "") for i, kind in enumerate(kinds)), class_="faint"),
            _table(("document", "label", "old rank", "new rank"), rows) if rows else
            tag("p", "The ranks are the same: scores that tied, or no longer do, make the difference."),
            None if swap is None else _why(swap, found),
        ),
    )  # fmt: skip


def _why(swap: Swap, found: Comparison) -> Markup:
    def number(x: float | None) -> str:
        return "" if x is None else f"{x:+.3f}"

    def value(x: float) -> str:
        return "missing" if math.isnan(x) else f"{x:g}"

    told = tag("p", "What cost most: ", _name(swap.fell.document), f" (label {swap.fell.label:g}) is below ",
               _name(swap.rose.document), f" (label {swap.rose.label:g}) now.")  # fmt: skip
    if not swap.features:
        return told
    rows = [
        tag("tr", tag("td", _name(f.feature)), tag("td", value(f.fell)), tag("td", value(f.rose)),
            tag("td", number(f.old)), tag("td", number(f.new)))
        for f in swap.features
    ]  # fmt: skip
    rows.append(tag("tr", tag("td", "all features"), tag("td"), tag("td"), tag("td", number(swap.old)),
                    tag("td", number(swap.new)), class_="pair"))  # fmt: skip
    heading = ("feature", swap.fell.document, swap.rose.document, "old", "new")
    return join(told, _table(heading, rows))


def _table(heading: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", _name(h), scope="col") for h in heading)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll", tabindex=0)
