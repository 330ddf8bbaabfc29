"""Section on click data: `ClickData` drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boostrank.clicks.propensities import SegmentPropensities
from boostrank.core.errors import DataError
from boostrank.core.text import count_of
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import key_numbers, look_of
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Beside, Fold, Part
from boostrank.report.html.tables import Cell, Column, Table
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Context, Section
from boostrank.report.sections.clicks.analysis import (
    TOP,
    Against,
    ClickData,
    click_data,
    learnt_from,
)
from boostrank.report.sections.clicks.curve import curve_chart, curves_of
from boostrank.report.start import START

_HEIGHT = 220
_SEGMENTS = 3
_LEARNT = "learnt with"
_ORIGINS = {"log": "of this log", "given": "given", "model": _LEARNT}


def draw(found: ClickData) -> list[Part]:
    """Sentences, charts and tables of what `boostrank.report.sections.clicks.analysis` found."""
    known = [] if found.known.size < 2 else [_known(found)]
    parts: list[Part] = [
        tag("p", _sentence(found)), key_numbers(*_key_numbers(found)), _curve(found), tag("p", _origin(found)),
        *(tag("p", note, class_="faint") for note in found.notes),
        Fold("Positions in numbers", [_positions(found)]),
        tag("h3", "Exposure"), tag("p", _exposure_words(found)), Beside([_exposure(found), *known]),
        tag("h3", "What clicks over exposure change"), tag("p", _changes_words(found)),
    ]  # fmt: skip
    if len(found.by_position) > 1:
        parts.append(_by_position(found))
    if found.moves:
        parts.append(_moves(found))
    if found.against is None:
        return [*parts, tag("p", "No other ranker to compare with by clicks: --baseline names one.", class_="faint")]
    return [*parts, *_against(found.against)]


def _brief(found: ClickData) -> Markup:
    sentences = [
        f"{found.shown / found.documents:.0%} of the documents were ever shown, {found.moved:.0%} of the clicked ones "
        "at several positions."
    ]
    against = found.against
    if against is None or against.gate is None:
        return join(*sentences)
    words = {"better": "Clicks prefer the model to ", "worse": "Clicks prefer to the model ",
             "unclear": "Clicks do not tell the model from "}  # fmt: skip
    return join(*sentences, " ", words[against.verdict], bdi(against.name), ".")


def _sentence(found: ClickData) -> Markup:
    depths = len({one.position for one in found.positions})
    return join(
        tag("b", f"{found.impressions:,} impressions and {found.clicks:,} clicks"),
        f" of {found.shown:,} of {found.documents:,} documents, at {count_of(depths, 'position')}. A "
        "document's gain is its clicks over its exposure, the impressions times the propensities of their positions, "
        f"plus {found.prior:g}.",
    )


def _key_numbers(found: ClickData) -> list[tuple[str, Any, str]]:
    return [
        ("clicks an impression", f"{found.clicks / found.impressions:.3f}", f"{found.clicks:,} clicks"),
        ("never shown", f"{1 - found.shown / found.documents:.1%}",
         f"{found.documents - found.shown:,} documents, which nothing was learnt of"),
        ("moved", f"{found.moved:.1%}", f"of the {found.clicked:,} clicked documents stood at several positions"),
        (f"top {min(TOP, found.known.size)} ever shown", f"{np.mean(found.known[:TOP]):.1%}",
         "by the model; the rest counts as never clicked"),
    ]  # fmt: skip


def _curve(found: ClickData) -> Chart:
    shown, clicked = np.zeros((2, max(one.position for one in found.positions)))
    for one in found.positions:  # of all segments together
        shown[one.position - 1] += one.impressions
        clicked[one.position - 1] += one.clicks
    rates = np.divide(clicked, shown, out=np.full(shown.size, math.nan), where=shown > 0)
    rates = rates / rates[0] if rates[0] > 0.0 else np.full(shown.size, math.nan)
    segments = _segments(found)[:_SEGMENTS]
    curves = curves_of(_ORIGINS[found.origin], found.propensities, segments, _SEGMENTS)
    if found.learnt is not None:
        curves |= curves_of(_LEARNT, found.learnt, segments, _SEGMENTS)
    return curve_chart(curves, rates if np.isfinite(rates).any() else None)


def _segments(found: ClickData) -> list[str]:
    """Those of the log that have propensities of their own, the one with most impressions first."""
    shown: dict[str, int] = {}
    for one in found.positions:
        shown[one.segment] = shown.get(one.segment, 0) + one.impressions
    return sorted((name for name in shown if name), key=lambda name: -shown[name])


def _origin(found: ClickData) -> str:
    segments = _segments(found)
    if not segments:
        return _whence(found)
    words = f"Each impression counts by the propensities of its segment. {_whence(found)}"
    if len(segments) > _SEGMENTS:
        words += f" The chart has the {_SEGMENTS} segments with most impressions of {len(segments)}; the table has all."
    return words


def _whence(found: ClickData) -> str:
    if found.origin == "log":
        one = found.propensities
        # Segments have documents in common.
        count = "" if isinstance(one, SegmentPropensities) else f"{one.moved:,} "
        return (
            f"Estimated from {count}clicked documents that were shown at several positions: where their clicks fell, "
            "given how many there were, depends on the positions alone."
        )
    whose = "The propensities were given"
    if found.origin == "model":
        whose = "No clicked document moved, which leaves the propensities that the model was trained with"
    if found.check is None:
        return f"{whose}. Nothing tells whether they hold here."
    p = found.check.p
    return f"{whose}. Clicks of this log {'contradict them' if p < 0.05 else 'do not contradict them'} (p {p:.2g})."


def _positions(found: ClickData) -> Table:
    by_segment = isinstance(found.propensities, SegmentPropensities)
    columns = [
        *([Column("segment", "segment")] if by_segment else []),
        Column("position", "position", "number"), Column("impressions", "impressions", "number"),
        Column("clicks", "clicks", "number"),
        Column("rate", "clicks an impression", "number", ".3f"),
        Column("propensity", "propensity", "number", ".3f", "how likely it is looked at, relative to position 1"),
        Column("low", "from", "number", ".3f", "lower end of the 95% interval"),
        Column("high", "to", "number", ".3f", "upper end of the 95% interval"),
    ]  # fmt: skip
    rows = [
        [*([one.segment] if by_segment else []),
         one.position, one.impressions, one.clicks, one.rate, one.propensity,
         *(Cell(math.nan if one.position == 1 else end, look="faint") for end in (one.low, one.high))]
        for one in found.positions
    ]  # fmt: skip
    return Table(
        "click-positions", columns, rows, order="position", caption="Positions, what was seen and clicked there"
    )


def _exposure_words(found: ClickData) -> str:
    return (
        f"The exposure of a document is how often it was looked at, by expectation. The tenth of the shown documents "
        f"that has most of it has {found.top_tenth:.0%} of all; {found.documents - found.shown:,} of "
        f"{found.documents:,} documents ({1 - found.shown / found.documents:.1%}) have none."
    )


def _exposure(found: ClickData) -> Chart:
    frame = found.to_frame("exposure")
    bars = alt.Chart(frame).mark_bar().encode(
        x=alt.X("begin:Q", title="exposure", bin="binned", scale=alt.Scale(type="log", base=2, nice=False)), x2="end:Q",
        y=alt.Y("documents:Q", title="documents"),
        tooltip=tooltips("begin:Q .3~g from", "end:Q .3~g to", "documents:Q ,d"),
    )  # fmt: skip
    return Chart(
        "clicks-exposure", "Exposure of documents",
        f"How many of the {found.shown:,} documents that were shown have how much exposure; bins are powers of 2.",
        frame, bars.properties(height=_HEIGHT),
    )  # fmt: skip


def _known(found: ClickData) -> Chart:
    frame = found.to_frame("known")
    drawn = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=40)).encode(
        x=alt.X("rank:Q", title="rank by the model", axis=alt.Axis(format="d", tickMinStep=1),
                scale=alt.Scale(nice=False, zero=False)),
        y=alt.Y("shown:Q", title="ever shown", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        tooltip=tooltips("rank:Q d", "shown:Q .1% ever shown"),
    ).properties(height=_HEIGHT)  # fmt: skip
    return Chart(
        "clicks-known", "What the model ranks, and was ever shown",
        f"The share of the documents at each rank by the model that this log ever showed: {found.known[0]:.0%} at rank "
        f"1, {found.known[-1]:.0%} at rank {found.known.size}. Of the rest clicks say nothing.",
        frame, drawn,
    )  # fmt: skip


def _changes_words(found: ClickData) -> str:
    if not found.moves:
        return "No document has another rank in its query by clicks over exposure than by the number of its clicks."
    most, least = (f(found.by_position, key=lambda one: one.change) for f in (max, min))
    words = (
        "Documents of a query by clicks over exposure, against the number of their clicks: in "
        f"{found.same_order:.0%} of the queries with clicks no rank changes."
    )
    if most.change > 0.0 > least.change:
        words += (
            f" Documents that stood at position {most.position} rise by {most.change:.2f} ranks as a mean, those at "
            f"position {least.position} fall by {-least.change:.2f}."
        )
    return words


def _by_position(found: ClickData) -> Chart:
    frame = found.to_frame("by position")
    colour = alt.condition("datum.change < 0", alt.value(COLOURS["bad"]), alt.value(COLOURS["main"]))
    bars = alt.Chart(frame).mark_bar(size=14).encode(
        x=alt.X("position:Q", title="mean position of the document", axis=alt.Axis(format="d", tickMinStep=1),
                scale=alt.Scale(domain=[0.5, max(one.position for one in found.by_position) + 0.5], nice=False)),
        y=alt.Y("change:Q", title="ranks risen"), color=colour,
        tooltip=tooltips("position:Q d", "change:Q +.2f ranks", "documents:Q ,d"),
    ).properties(height=_HEIGHT)  # fmt: skip
    return Chart(
        "clicks-changes", "Ranks that clicks over exposure change, by where documents stood",
        "By how many ranks of its query a document rises when clicks are divided by exposure, as a mean over the "
        "documents that stood at each position.",
        frame, bars,
    )  # fmt: skip


def _moves(found: ClickData) -> Table:
    columns = [
        Column("document", "document"), Column("qid", "query"),
        Column("position", "position", "number", ".1f", "mean of its impressions"),
        Column("impressions", "impressions", "number"), Column("clicks", "clicks", "number"),
        Column("exposure", "exposure", "number", ".1f", "impressions that were looked at, by expectation"),
        Column("gain", "gain", "number", ".3f", "clicks over exposure, with the prior"),
        Column("by_clicks", "rank by clicks", "number", "g", "among the shown documents of its query"),
        Column("by_gain", "by gain", "number", "g", "rank by clicks over exposure"),
        Column("change", "risen by", "number", "+g"),
    ]  # fmt: skip
    rows = [
        [m.document, m.qid, m.position, m.impressions, m.clicks, m.exposure, m.gain, m.by_clicks, m.by_gain,
         Cell(m.change, look=look_of(m.change, m.change))]
        for m in found.moves
    ]  # fmt: skip
    return Table("click-moves", columns, rows, caption="Documents whose rank changes most by clicks over exposure",
                 search=True)  # fmt: skip


def _against(against: Against) -> list[Part]:
    parts: list[Part] = [tag("h3", "The model against ", bdi(against.name), ", by clicks"), tag("p", _gate(against))]
    if not against.queries:
        return [*parts, tag("p", f"Both have the same top {TOP} in every query.")]
    parts.append(f"The two differ by {against.differs:.0%} of the top {TOP}, as a mean over queries: the share of its "
                 "discounts that falls on other documents. Queries in which they differ most:")  # fmt: skip
    columns = [
        Column("qid", "query"), Column("documents", "documents", "number"),
        Column("differs", "differs", "number", ".0%", f"share of the top {TOP}, by discounts"),
        Column("old", "the other", "number", ".3f", f"exposure-DCG@{TOP}; a dash where nothing was clicked"),
        Column("new", "the model", "number", ".3f", f"exposure-DCG@{TOP}"),
        Column("change", "difference", "number", "+.3f"),
        Column("known", "ever shown", "number", ".0%", f"of the top {TOP} by the model"),
    ]  # fmt: skip
    rows = [
        [q.qid, q.documents, q.differs, q.old, q.new, Cell(q.new - q.old, look=look_of(q.new - q.old, q.new - q.old)),
         q.known]
        for q in against.queries
    ]  # fmt: skip
    return [*parts, Table("click-queries", columns, rows, order="-differs", search=True,
                          caption="Queries in which the two rankers differ most")]  # fmt: skip


def _gate(against: Against) -> Markup:
    if against.gate is None:
        return join("Clicks do not tell the two apart: ", bdi(against.reason), ".")
    words = {
        "better": join("Clicks prefer the model to ", bdi(against.name)),
        "worse": join("Clicks prefer ", bdi(against.name), " to the model"),
        "unclear": join("Clicks do not tell the model from ", bdi(against.name)),
    }
    return join(tag("b", words[against.verdict]), f": {against.gate}.")


def _run(context: Context) -> ClickData:
    if context.clicks is None:
        raise DataError("no clicks were given (--clicks reads FILE.clicks beside the data)")
    learnt, prior = learnt_from(context.model)
    previous = context.previous
    if previous is None and context.start is not None:
        previous = (START, context.start)
    return click_data(
        context.data, context.clicks, context.scores, context.propensities, learnt=learnt, prior=prior,
        previous=previous, docnos=context.docnos, seed=context.seed,
    )  # fmt: skip


def _frames(found: ClickData) -> dict[str, Any]:
    names = {"click positions": "positions", "click moves": "moves", "click changes": "by position"}
    more = {} if found.against is None else {"click queries": "queries"}
    return {name: found.to_frame(what) for name, what in (names | more).items()}


SPEC = Section(
    "clicks", "Clicks", _run, draw, _frames, _brief, place=60, after=("learning",), needs_clicks=True,
)  # fmt: skip
