"""Page of one explanation: why one document stands above another."""

from __future__ import annotations

import math
from typing import Any

from boostrank.report.documents import shown_value
from boostrank.report.explanation.analysis import Why
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.page import PageSection, page
from boostrank.report.html.tables import Cell, Column, Table
from boostrank.report.html.vega import COLOURS, alt

# Bars in the chart; the table has all.
_BARS = 20
_BAR_HEIGHT = 22


def whole_page(found: Why, model: str = "") -> str:
    """The page.

    Args:
        found: what to show.
        model: what the model is called.
    """
    a, b = found.a, found.b
    side = "above" if a.rank < b.rank else "below"
    by = f"by {abs(found.difference):.5g}" if found.difference else "by the order of the rows alone"
    ranked = f", ranked by {model}" if model else ""
    ranking = f"Query {found.qid}, {found.documents:,} documents{ranked}: A stands {side} B {by}."
    documents = Table(
        "documents",
        [Column("document", "Document"), Column("rank", "Rank", "number"), Column("score", "Score", "number"),
         Column("label", "Label", "number", "g"), Column("name", "Name")],
        [[letter, one.rank, one.score, one.label, one.name] for letter, one in (("A", a), ("B", b))],
        caption="The two documents",
    )  # fmt: skip
    parts: list[Any] = [_features(found)]
    if not any(map(math.isnan, found.parts)):
        parts.insert(0, _chart(found))
    return page(
        f"Why {a.name} stands {side} {b.name}",
        [
            PageSection("features", "What each feature adds", parts),
            PageSection("changes", "What would swap them", _changes(found)),
        ],
        summary=[ranking, documents, _smallest(found), *(f"{note}." for note in found.notes)],
    )


def _smallest(found: Why) -> str:
    change = found.smallest
    if change is None:
        return "No change of one feature of one document would swap them."
    now, then = (found.shown(change.feature, value, shown_value) for value in (change.now, change.value))
    of = f"{change.feature} of {change.document.upper()} from {now} to {then}"
    size = "" if change.step == 1.0 else f": {change.step:.1%} of the documents have a value in between"
    return (
        f"The smallest change that would swap them is that of {of}{size if change.seen else ', which no document has'}."
    )


def _chart(found: Why) -> Chart:
    shown = found.order[:_BARS].tolist()
    names = [found.features[i] for i in shown]
    parts = [float(found.parts[i]) for i in shown]
    rest = float(found.parts.sum()) - sum(parts)
    if found.order.size > _BARS:
        names.append(f"{found.order.size - _BARS} more")
        parts.append(rest)
    frame = pandas().DataFrame(
        {"feature": names, "part": parts, "speaks_for": ["A" if part >= 0 else "B" for part in parts]}
    )
    scale = alt.Scale(domain=["A", "B"], range=[COLOURS["main"], COLOURS["bad"]])
    figure = alt.Chart(frame).mark_bar().encode(
        x=alt.X("part:Q", title="A's part of the score minus B's"), y=alt.Y("feature:N", sort=None, title=None),
        color=alt.Color("speaks_for:N", title="speaks for", scale=scale), tooltip=tooltips("feature:N", "part:Q +.4g"),
    ).properties(height=_BAR_HEIGHT * len(names))  # fmt: skip
    about = "What each feature adds to A's score beyond B's (TreeSHAP); the bars add up to the difference."
    return Chart("contributions", "From B's score to A's", about, frame, figure)


def _features(found: Why) -> Table:
    columns = [
        Column("feature", "Feature"), Column("a", "Value in A", "number"), Column("b", "Value in B", "number"),
        Column("a_part", "Part of A", "number", "+.4f", "What it adds to A's score, by TreeSHAP."),
        Column("b_part", "Part of B", "number", "+.4f", "What it adds to B's score, by TreeSHAP."),
        Column("part", "A - B", "number", "+.4f", "The parts of all features add up to the difference of the scores."),
    ]  # fmt: skip
    rows = [
        [
            row["feature"],
            *(_value(found, row["feature"], row[at]) for at in "ab"),
            row["a_part"],
            row["b_part"],
            row["part"],
        ]
        for row in found.rows()
    ]
    return Table("parts", columns, rows, search=True, caption="Features by the size of their part")


def _changes(found: Why) -> list[Any]:
    stays = f"Not changed, as the query has them and not its documents: {', '.join(found.query_level)}."
    tail = [stays] if found.query_level else []
    if found.smallest is None:
        return [f"No change of one feature of one document swaps them; {found.tried:,} values were tried.", *tail]
    about = (
        "One feature of one document takes another value, all others stay as they are: the nearest value that occurs "
        "in the data and swaps the two, through all thresholds of the trees. The size of a change is the share of the "
        f"data's documents whose value lies in between ({found.sampled:,} documents were looked at)."
    )
    columns = [
        Column("feature", "Feature"), Column("document", "Of"), Column("now", "Now", "number"),
        Column("value", "Then", "number", help="The nearest value that occurs in the data, where there is one."),
        Column("nearest", "From", "number", help="The nearest number of all that swaps them."),
        Column("step", "Size", "number", ".1%", "Share of documents in between; 100% to and from a missing value."),
        Column("score", "Score then", "number"),
    ]  # fmt: skip
    rows = [
        [c.feature, c.document.upper(), _value(found, c.feature, c.now),
         _value(found, c.feature, c.value, "" if c.seen else " (no document has it)"),
         _value(found, c.feature, c.nearest), c.step, c.score]
        for c in found.changes
    ]  # fmt: skip
    return [
        about,
        Table("changes-table", columns, rows, search=True, order="step", caption="Changes that swap them"),
        *tail,
    ]


def _value(found: Why, feature: str, value: float, more: str = "") -> Cell:
    shown = found.shown(feature, value, shown_value) + more
    return Cell(None if math.isnan(value) else value, shown, "faint" if math.isnan(value) else "")
