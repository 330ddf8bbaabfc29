"""Page of a Pareto front: the picture, the table, and the gain to train with."""

from __future__ import annotations

from typing import Any

from boostrank.core.resampling import PairedDifference
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, tooltips
from boostrank.report.html.marks import key_numbers, look_of
from boostrank.report.html.markup import Markup, bdi, join, tag
from boostrank.report.html.page import Fold, PageSection, page
from boostrank.report.html.tables import Cell, Column, Table, fixed, interval_cells, interval_columns
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.pareto_front.analysis import Mix, ParetoFront

_DOMINATED = "dominated (by the means)"
_NEAR = 0.07  # of the width or the height: labels of points that are nearer would cover each other


def whole_page(found: ParetoFront, data: str = "") -> str:
    """The page.

    Args:
        found: the front.
        data: what the data are called.
    """
    queries = found.mixes[0].metrics[found.names[0]].queries
    where = f"{found.folds} folds of the training queries" if found.folds else "the validation set"
    summary = [
        tag("p", f"{len(found.mixes)} trainings of {found.rounds:,} rounds, measured on {queries:,} held-out queries: "
            f"{where}", join(", ", bdi(data)) if data else None, f"; {found.conventions.describe()}.", class_="faint"),
        tag("p", verdict(found)),
        key_numbers(*_key_numbers(found)),
    ]  # fmt: skip
    sections = [
        PageSection("front", "One goal against the other", [_chart(found)], "Front"),
        PageSection("mixes", "The mixes", [_table(found), _gains(found)], "Mixes"),
        PageSection("method", "How this was computed", [_method(found)], "Method"),
    ]
    title = f"The label and {found.goal}"
    return page(title, sections, summary=summary, heading=join("The label and ", bdi(found.goal)))


def verdict(found: ParetoFront) -> str:
    """What the front comes to, in a sentence or two."""
    label, goal, _ = found.names
    free = found.free
    if free is None:
        return (
            f"No mix has a sure win of {goal} and no sure loss of {label}: the picture says what the one costs of the "
            "other."
        )
    one, other = free.differences[label], free.differences[goal]
    wins = f"Mix {free.share:g} wins {_signed(other)} of {goal}"
    if one.low > 0.0:
        found_so = f"{wins} and {_signed(one)} of {label}: better by both."
    else:
        found_so = f"{wins} and changes {label} by {_signed(one)}: a loss of up to {-one.low:.4f} is not ruled out."
    return (
        f"{found_so} Of the mixes with no sure loss it is the one with most of the goal. The best of many flatters "
        "itself: measure it on other queries."
    )


def _signed(d: PairedDifference) -> str:
    return f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]"


def _key_numbers(found: ParetoFront) -> list[tuple[str, Any, str]]:
    first, last = found.mixes[0], found.mixes[-1]
    return [
        (f"{name}, mix 0 → {last.share:g}", f"{first.metrics[name].mean:.4f} → {last.metrics[name].mean:.4f}",
         _interval(last, name))
        for name in found.names[:2]
    ]  # fmt: skip


def _interval(mix: Mix, name: str) -> str:
    d = mix.differences[name]
    return f"{d.mean:+.4f}, {d.low:+.4f} to {d.high:+.4f} (95%)"


def _chart(found: ParetoFront) -> Chart:
    label, goal, _ = found.names
    first = found.mixes[0].metrics
    rows = [
        {
            "mix": mix.share, "front": "on the front" if mix.on_front else _DOMINATED,
            "x": mix.metrics[label].mean, "y": mix.metrics[goal].mean,
            "x_low": first[label].mean + mix.differences[label].low,
            "x_high": first[label].mean + mix.differences[label].high,
            "y_low": first[goal].mean + mix.differences[goal].low,
            "y_high": first[goal].mean + mix.differences[goal].high,
        }
        for mix in found.mixes
    ]  # fmt: skip
    names = _named(rows)
    frame = pandas().DataFrame([row | {"name": name} for row, name in zip(rows, names, strict=True)])
    base = alt.Chart(frame)
    x = alt.X("x:Q", title=label, scale=alt.Scale(zero=False, nice=False, padding=16))
    y = alt.Y("y:Q", title=goal, scale=alt.Scale(zero=False, nice=False, padding=16))
    colour = alt.Color("front:N", title=None, scale=alt.Scale(
        domain=["on the front", _DOMINATED], range=[COLOURS["main"], COLOURS["faint"]]
    ))  # fmt: skip
    tips = tooltips("mix:Q g", "x:Q .4f " + label, "x_low:Q .4f from", "x_high:Q .4f to", "y:Q .4f " + goal,
                    "y_low:Q .4f from", "y_high:Q .4f to")  # fmt: skip
    drawn = alt.layer(
        base.mark_line(strokeWidth=1.5, opacity=0.5).encode(x=x, y=y, order="mix:Q"),
        base.mark_rule(opacity=0.75).encode(x="x_low:Q", x2="x_high:Q", y=y, color=colour, tooltip=tips),
        base.mark_rule(opacity=0.75).encode(x=x, y="y_low:Q", y2="y_high:Q", color=colour, tooltip=tips),
        base.mark_point(size=60).encode(x=x, y=y, color=colour, tooltip=tips),
        base.mark_text(align="left", dx=8, dy=-9).encode(x=x, y=y, text="name:N"),
    ).properties(height=380)  # fmt: skip
    about = (
        "Each point is a training, labelled by its share of the goal: further right ranks better by the label, higher "
        "better by the goal. Bars are the 95% intervals of the difference to mix 0, query by query; mix 0 has none. "
        "Differences between neighbouring mixes are not tested: which mix dominates another is said of the means."
    )
    return Chart("pareto", f"{label} against {goal}", about, frame, drawn)


def _named(rows: list[dict[str, Any]]) -> list[str]:
    """The share of each point; "" where the name of another one is near."""
    spans = [max(row[a] for row in rows) - min(row[a] for row in rows) or 1.0 for a in ("x", "y")]
    kept: list[tuple[float, float]] = []
    out = {}
    order = [0, len(rows) - 1, *range(1, len(rows) - 1)]
    for i in order:
        x, y = rows[i]["x"] / spans[0], rows[i]["y"] / spans[1]
        near = any(abs(x - a) < _NEAR and abs(y - b) < _NEAR for a, b in kept)
        out[i] = "" if near else f"{rows[i]['mix']:g}"
        if not near:
            kept.append((x, y))
    return [out[i] for i in range(len(rows))]


def _table(found: ParetoFront) -> Table:
    *both, dcg = found.names
    columns = [Column("mix", "mix", "number", "g", "share of the goal")]
    for key, name in zip(("label", "goal"), both, strict=True):
        columns += [
            Column(key, name, "number", ".4f"),
            *interval_columns(f"{key}_difference", "to mix 0", "+.4f", f"{name} less that of mix 0",
                              (f"{key}_low", f"{key}_high")),
        ]  # fmt: skip
    digits = fixed(mix.differences[dcg].mean for mix in found.mixes)
    columns += [Column("dcg", dcg, "number", digits), Column("dcg_difference", "to mix 0", "number", f"+{digits}")]
    rows = []
    for mix in found.mixes:
        row: list[Any] = [mix.share]
        for name in both:
            d = mix.differences[name]
            row += [mix.metrics[name].mean, *interval_cells(d.mean, d.low, d.high, look_of(d.low, d.high))]
        d = mix.differences[dcg]
        rows.append([*row, mix.metrics[dcg].mean, Cell(d.mean, look=look_of(d.low, d.high))])
    free = found.free
    marked = frozenset() if free is None else frozenset([found.mixes.index(free)])
    note = "" if free is None else f"Marked: mix {free.share:g}, most of the goal without a sure loss by the label."
    return Table("mixes-table", columns, rows, marked=marked, note=note, caption="Both goals, mix by mix")


def _gains(found: ParetoFront) -> Fold:
    columns = [Column("mix", "mix", "number", "g"), Column("gain", "gain")]
    rows = [[mix.share, Cell(mix.gain, tag("code", bdi(mix.gain)))] for mix in found.mixes]
    return Fold(
        "The gains, for boostrank train --gain", [Table("gains", columns, rows, caption="The gain of each mix")]
    )


def _method(found: ParetoFront) -> Markup:
    return tag(
        "p",
        "The gain of mix w is (1 - w) times that of the label plus w c times ", bdi(found.goal),
        f", with c = {found.scale:.4g}, which brings both to the same mean ideal DCG over the training queries. All "
        "mixes have the same parameters, rounds and training queries. Each is measured by the label alone and by the "
        "goal alone (linear gain; queries where it is 0 throughout are left out). Intervals: 95%, percentile bootstrap "
        "over queries of the paired differences to mix 0; they do not hold what another seed would change "
        "(boostrank noise).",
    )  # fmt: skip
