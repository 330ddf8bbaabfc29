"""Section on learning: `Learning` drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from boostrank.core.types import Int64Array
from boostrank.report.frames import pandas
from boostrank.report.html.charts import Chart, stretched, tooltips
from boostrank.report.html.markup import tag
from boostrank.report.html.page import Beside, Fold, Part
from boostrank.report.html.tables import Column, Table, interval_columns
from boostrank.report.html.vega import COLOURS, alt
from boostrank.report.section import Section
from boostrank.report.sections.learning.analysis import Learning, learning
from boostrank.report.sections.learning.objective_trace import GradientShares, ObjectiveTrace

# Of a line in a picture; more cannot be seen.
_MOST_POINTS = 400
_HEIGHT = 260


def draw(found: Learning) -> list[Part]:
    """Charts of what `boostrank.report.sections.learning.analysis` found."""
    parts: list[Part] = [tag("p", tag("b", found.summary()))]
    if found.curve.rounds.size > 1:
        curve = found.curve
        prefixes = Chart(
            "learning-prefixes", f"{curve.metric} of the first rounds",
            f"The model cut off after so many rounds, on these data, with 95% intervals; 0 rounds: {found.begins}. "
            f"All {curve.total:,} rounds have {curve.value[-1]:.4f}.",
            curve.to_frame(), _band(curve.to_frame(), "low", "value", "high", curve.metric, alt.Scale(zero=False)),
        )  # fmt: skip
        parts += [Beside([prefixes, _lost(found)]), tag("p", _sample(found), class_="faint")]
    further = [_history(found)] if found.history else []
    further += [] if found.leaves is None or found.curve.rounds.size < 2 else [_against_size(found, found.leaves)]
    if further:
        parts.append(Beside(further))
    if found.objective_trace is not None:
        parts += _objective_trace(found.objective_trace)
    if found.schedules:
        parts += [tag("h3", "Parameters that changed with the round"), Beside(_schedules(found))]
    parts += [tag("p", note, class_="faint") for note in found.notes]
    if found.curve.rounds.size > 1:
        columns = [
            Column("rounds", "rounds", "number"), *interval_columns("value", found.curve.metric, ".4f"),
            *interval_columns("lost", "lost", "+.4f", "by leaving the later rounds out", ("lost_low", "lost_high")),
        ]  # fmt: skip
        rows = list(found.curve.to_frame().itertuples(index=False, name=None))
        table = Table("prefixes", columns, rows, caption="The first rounds of the model", order="rounds")
        parts.append(Fold("All points of the curve", [table]))
    return parts


def _rounds(title: str = "rounds") -> Any:
    return alt.X("rounds:Q", title=title, scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1, format=",d"))


def _band(frame: Any, low: str, value: str, high: str, title: str, scale: Any, axis: Any = None) -> Any:
    sign = "+" if value == "lost" else ""
    tooltip = tooltips("rounds:Q ,d", f"{value}:Q {sign}.4f", f"{low}:Q .4f from", f"{high}:Q .4f to")
    base = alt.Chart(frame).encode(x=_rounds(), tooltip=tooltip)
    encoding = {"title": title, "scale": scale} | ({} if axis is None else {"axis": axis})
    area = base.mark_area(opacity=0.2, color=COLOURS["main"]).encode(y=alt.Y(f"{low}:Q", **encoding), y2=f"{high}:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=18)).encode(y=alt.Y(f"{value}:Q", **encoding))
    return alt.layer(area, line).properties(height=_HEIGHT)


def _lost(found: Learning) -> Chart:
    curve = found.curve
    frame = curve.to_frame()[["rounds", "lost", "lost_low", "lost_high"]]
    small = max(found.negligible, 1e-6)
    ends = (
        float(np.nanmin([0.0, *curve.lost_low, *curve.lost])),
        float(np.nanmax([small, *curve.lost_high, *curve.lost])),
    )
    scale, ticks = stretched(small, ends)
    drawn = _band(
        frame, "lost_low", "lost", "lost_high", "loss, stretched near 0", scale, alt.Axis(values=ticks, format="~g")
    )
    return Chart(
        "learning-lost", "What fewer rounds lose",
        f"{curve.metric} of the whole model minus that of its first rounds, query by query, with 95% intervals of each "
        "point by itself.",
        frame, drawn,
    )  # fmt: skip


def _sample(found: Learning) -> str:
    curve = found.curve
    how = "The trees were walked once, from the first to the last"
    if curve.by != "walk":
        how = f"The engine predicted each point from its first round on ({curve.by})"
    if curve.documents == curve.all_documents:
        return f"{how}, on all {curve.all_documents:,} documents."
    error = (curve.high[-1] - curve.low[-1]) / 3.92
    return (
        f"{how}, on a sample of whole queries: {curve.documents:,} of {curve.all_documents:,} documents, "
        f"{curve.queries:,} queries that count. The standard error of {curve.metric} on it is {error:.4f}, and that of "
        "each loss a quarter of the length of its interval."
    )


def _against_size(found: Learning, leaves: Int64Array) -> Chart:
    curve = found.curve
    frame = pandas().DataFrame({"leaves": leaves, "rounds": curve.rounds, "value": curve.value})
    drawn = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=18)).encode(
        x=alt.X("leaves:Q", title="leaves of the file", scale=alt.Scale(nice=False), axis=alt.Axis(format="~s")),
        y=alt.Y("value:Q", title=curve.metric, scale=alt.Scale(zero=False)),
        tooltip=tooltips("leaves:Q ,d", "rounds:Q ,d", "value:Q .4f"),
    ).properties(height=_HEIGHT)  # fmt: skip
    start = f", {leaves[0]:,} of them the start's" if leaves[0] else ""
    about = f"The model cut off after so many leaves of its file{start}; all are {leaves[-1]:,}."
    return Chart("learning-size", f"{curve.metric} against the size of the model", about, frame, drawn)


def _history(found: Learning) -> Chart:
    frame = found.history_frame().rename(columns={"round": "rounds"})
    metrics = list(dict.fromkeys(h.metric for h in found.history))
    shown = found.curve.metric if found.curve.metric in metrics else metrics[0]
    rows = frame[frame["metric"] == shown]
    step = max(1, -(-int(rows["rounds"].nunique()) // _MOST_POINTS))
    rows = rows[(rows["rounds"] % step == 0) | rows["rounds"].isin([rows["rounds"].max(), found.best_rounds])]
    best = pandas().DataFrame({"rounds": [found.best_rounds]})
    drawn = alt.layer(
        alt.Chart(rows).mark_line().encode(
            x=_rounds("round"), y=alt.Y("value:Q", title=shown, scale=alt.Scale(zero=False)),
            color=alt.Color("dataset:N", title=None),
            tooltip=tooltips("dataset:N", "rounds:Q", "value:Q .4f"),
        ),
        alt.Chart(best).mark_rule(strokeDash=[4, 4]).encode(x=_rounds("round")),
    ).properties(height=_HEIGHT)  # fmt: skip
    others = f" The numbers also have {', '.join(m for m in metrics if m != shown)}." if len(metrics) > 1 else ""
    return Chart(
        "learning-history", f"{shown} as the training recorded it",
        f"Round by round on the data sets that it watched; prediction uses {found.best_rounds:,} rounds (dashed)."
        + others,
        frame, drawn,
    )  # fmt: skip


def _objective_trace(found: ObjectiveTrace) -> list[Part]:
    sample = f"{found.documents:,} documents"
    if found.documents < found.all_documents:
        sample = f"a sample of whole queries, {found.documents:,} of {found.all_documents:,} documents"
    dead = "no query is dead: each of them still has a gradient"
    if found.dead[-1]:
        dead = (
            f"{found.dead[-1]:,} of {found.queries:,} queries are dead, they have no gradient: in {found.alike:,} of "
            "them all labels are the same, so that there is nothing to learn"
        )
        if others := int(found.dead[-1]) - found.alike:
            dead += f"; {others:,} others are as the objective wants them, or its gradient has faded"
    parts: list[Part] = [
        tag("h3", f"What the objective {found.objective} saw"),
        tag("p", f"The training objective, made again from the model's file, on {sample} at the scores of the first "
            f"rounds. With all rounds {dead}."),
    ]  # fmt: skip
    if found.rounds.size < 2:
        return parts
    losses = _losses(found)
    parts.append(Beside(losses) if len(losses) > 1 else losses[0])
    inside: list[Part] = [_dead(found)] if np.ptp(found.dead[1:]) else []
    shares = (found.by_grade, found.by_length)
    drawn = [_share(found.rounds, s) for s in shares if np.isfinite(s.share).any() and len(s.names) > 1]
    if drawn:
        inside.append(Beside(drawn))
        worst = max(float(np.nanmax(s.error)) for s in shares if np.isfinite(s.error).any())
        inside.append(tag("p", f"The standard error of no share is above {worst:.1%}.", class_="faint"))
    if inside:
        parts.append(Fold("For experts: the gradient of the objective", inside))
    return parts


def _losses(found: ObjectiveTrace) -> list[Chart]:
    """A panel for each part of the objective, whose units differ; or for its parameters, at the end and as they ran."""
    series = {name: (loss, found.loss_error[name]) for name, loss in found.loss.items()}
    if found.ran is not None and found.ran_error is not None:
        one = next(iter(series.values()))
        series = {"last round's parameters": one, "parameters as they ran": (found.ran, found.ran_error)}
    charts = []
    for number, (name, (loss, error)) in enumerate(series.items(), 1):
        known = np.flatnonzero(np.isfinite(loss))
        first = int(known[0]) if known.size else 0
        since = f"change since round {found.rounds[first]}"
        frame = pandas().DataFrame({"rounds": found.rounds, "change": loss - loss[first], "loss": loss, "error": error})
        drawn = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=18)).encode(
            x=_rounds(), y=alt.Y("change:Q", title=since),
            tooltip=tooltips("rounds:Q", "change:Q +.5g", "loss:Q .5g", "error:Q .2g standard error of the loss"),
        ).properties(height=_HEIGHT - 60)  # fmt: skip
        about = f"Mean loss a query, as its {since}; less is better."
        if known.size:
            last = known[-1]
            sure = f", whose standard error is {error[last]:.2g}" if np.isfinite(error[last]) else ""
            about += f" From {loss[first]:.4g} to {loss[last]:.4g}{sure}."
        slug = "learning-loss" + f"-{number}" * (number > 1)
        charts.append(Chart(slug, f"The objective's loss: {name}", about, frame, drawn))
    return charts


def _dead(found: ObjectiveTrace) -> Chart:
    frame = pandas().DataFrame({"rounds": found.rounds, "dead": found.dead / max(1, found.queries)})
    drawn = alt.Chart(frame).mark_area(opacity=0.5, line=True, color=COLOURS["faint"]).encode(
        x=_rounds(),
        y=alt.Y("dead:Q", title="share of queries", scale=alt.Scale(domainMin=0), axis=alt.Axis(format="%")),
        tooltip=tooltips("rounds:Q", "dead:Q .2%"),
    ).properties(height=_HEIGHT - 60)  # fmt: skip
    about = "Queries without any gradient: training learns nothing from them."
    return Chart("learning-dead", "Dead queries", about, frame, drawn)


def _share(rounds: Int64Array, found: GradientShares) -> Chart:
    several, count = rounds.size, len(found.names)
    frame = pandas().DataFrame(
        {"rounds": np.repeat(rounds, count), "part": found.names * several, "share": found.share.ravel(),
         "error": found.error.ravel(), "place": [*range(count)] * several}
    )  # fmt: skip
    held = ", ".join(f"{n}: {d:.0%}" for n, d in zip(found.names, found.documents, strict=True))
    drawn = alt.Chart(frame).mark_area().encode(
        x=_rounds(), y=alt.Y("share:Q", title="share of |gradient|", stack="normalize", axis=alt.Axis(format="%")),
        color=alt.Color("part:N", title=None, sort=None), order=alt.Order("place:Q"),
        tooltip=tooltips("part:N", "rounds:Q", "share:Q .1%", "error:Q .1% standard error"),
    ).properties(height=_HEIGHT - 40)  # fmt: skip
    return Chart(
        f"learning-gradient-by-{found.kind.replace(' ', '-')}", f"Gradient magnitude by {found.kind}",
        f"Share of the sum of |gradient|. Of the documents themselves: {held}.", frame, drawn,
    )  # fmt: skip


def _schedules(found: Learning) -> list[Part]:
    parts: list[Part] = []
    for i, (name, values) in enumerate(found.schedules.items()):
        rounds = np.arange(1, values.size + 1)
        frame = pandas().DataFrame({"rounds": rounds, "value": values})
        step = max(1, -(-values.size // _MOST_POINTS))
        thin = frame[(frame["rounds"] % step == 0) | frame["rounds"].isin([1, values.size])]
        log = bool(values.min() > 0.0 and values.max() > 20.0 * values.min() and name != "mix")
        drawn = alt.Chart(thin).mark_line().encode(
            x=_rounds("round"),
            y=alt.Y("value:Q", title=name, scale=alt.Scale(type="log" if log else "linear", zero=False)),
            tooltip=tooltips("rounds:Q", "value:Q .4g"),
        ).properties(height=_HEIGHT - 80)  # fmt: skip
        about = f"From {values[0]:.4g} in the first round to {values[-1]:.4g} in round {values.size:,}."
        parts.append(Chart(f"learning-schedule-{i + 1}", name, about, frame, drawn))
    return parts


def _frames(found: Learning) -> dict[str, Any]:
    frames = {"history": found.history_frame(), "prefixes": found.curve.to_frame()}
    trace = found.objective_trace
    return frames | ({} if trace is None else {"objective": trace.to_frame(), "gradient": trace.shares_frame()})


SPEC = Section(
    "learning", "Learning",
    lambda c: learning(
        c.model, c.data, metric=c.metric, conventions=c.conventions.without_names, documents=c.documents,
        negligible=c.negligible, seed=c.seed, threads=c.threads, progress=c.progress,
    ),
    draw, _frames, brief=Learning.summary, place=40, applies=lambda model: not model.info.averaged,
)  # fmt: skip
