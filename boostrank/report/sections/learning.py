"""Learning curve: metric by round, metric of the first trees, and trace of the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, ModelError
from boostrank.core.types import Float64Array
from boostrank.engines.trees import Trees
from boostrank.report.charts import SHARE, Chart, lines, stretched, tooltips, whole
from boostrank.report.means import amount_with_interval
from boostrank.report.objective_trace import ObjectiveTrace, objective_of, schedules_of, trace_objective
from boostrank.report.result import Columns, Result, joined, pandas, plain
from boostrank.report.scoring import START, scorer_of
from boostrank.report.section import Context, Section
from boostrank.report.stages import POINTS, StagedMetric, affordable, staged
from boostrank.report.vega import alt

if TYPE_CHECKING:
    import pandas as pd

# Limits on documents and pairs for the objective over all points: about ten seconds.
_ASKED_DOCUMENTS, _ASKED_PAIRS = 4_000_000, 400_000_000
# Limit on points per line in a chart.
_MOST_POINTS = 400


@dataclass(frozen=True, eq=False, repr=False)
class Learning(Result):
    """Result of `learning`.

    Args:
        history: columns: metrics by round, recorded in training; empty if the model file has no record.
        curve: metric of the first rounds, on the data.
        objective_trace: training objective on the data; None if unavailable.
        schedules: parameter -> float64[T], value in each round.
        best_rounds: rounds that prediction uses.
        trained_rounds: rounds of the training; None if unknown.
        negligible: largest loss that does not matter.
        scores: float64[N], scores of the whole model, in row order; None if they were not computed for all documents,
            or not as the engine sums them.
        begins: description of the model of 0 rounds.
    """

    history: Columns
    curve: StagedMetric
    objective_trace: ObjectiveTrace | None
    schedules: Mapping[str, Float64Array]
    best_rounds: int
    trained_rounds: int | None
    negligible: float
    notes: tuple[str, ...] = ()
    scores: Float64Array | None = None
    begins: str = "all documents tied"

    def summary(self) -> str:
        """Value of the first rounds, in a sentence or two."""
        curve = self.curve
        last = curve.rounds.size - 1
        if last < 2:
            return f"The model has {curve.total} round{'s' * (curve.total != 1)}, so none can be left out."
        sure, guess = curve.enough(self.negligible), curve.enough(self.negligible, sure=False)
        at = sure if sure < last else min(guess, last - 1)
        text = f"{curve.rounds[at]:,} of {curve.total:,} rounds{'' if at else f' ({self.begins})'} "
        text += f"{_change(curve, at)} of {curve.metric}"
        if at == sure:
            text += f"; from there on, every 95% interval excludes a loss of {self.negligible:g}."
        elif at == guess:
            text += f": the mean loss is below {self.negligible:g}, but these queries are too few to be sure."
        else:
            text = f"Every round counts: {text}."
        better = np.flatnonzero(curve.lost_high[:-1] < -self.negligible)
        if better.size:
            best = int(better[np.argmin(curve.lost[better])])
            fewer = f"{curve.rounds[best]:,} of them {_change(curve, best)}"
            text += f" Fewer rounds rank better: {fewer}, but this number was chosen on these queries."
        return text

    TABLES: ClassVar = {
        "history": attrgetter("history"),
        "prefixes": lambda self: self.curve.columns(),
        "objective": lambda self: self.objective_trace.losses if self.objective_trace else {},
        "gradient": lambda self: self.objective_trace.gradient if self.objective_trace else {},
    }

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        names = ("history", "schedules", "best_rounds", "trained_rounds", "negligible", "notes", "begins")
        parts = {"summary": self.summary(), "prefixes": self.curve, "objective": self.objective_trace}
        return dict(plain({name: getattr(self, name) for name in names} | parts))


def learning(c: Context) -> Learning:
    """Measure how a ranker learnt."""
    model, data = c.model, c.data
    if model.info.averaged:
        raise ModelError(
            f"the model is an average of {len(model.info.averaged)} models, so a prefix of its trees is not a model; "
            "its record lists the metric of fewer trees under 'price'"
        )
    trees = model.trees()
    _, by = scorer_of(model, trees, data, c.workers)
    if by != "walk":
        raise ModelError(f"the first trees cannot be scored alone: {by}")
    wanted = affordable(trees) if c.documents is None else c.documents or data.n_documents
    part = data.sample(wanted, c.seed)
    objective, why_not = objective_of(model, c.workers)
    asked = np.zeros(0, np.int64)
    if objective is not None:
        most = _ASKED_DOCUMENTS // POINTS
        if part.n_documents and any(p.spec.quadratic for p in objective.parts):
            a_document = float(np.square(part.queries.sizes.astype(np.float64)).sum()) / part.n_documents
            most = min(most, int(_ASKED_PAIRS / POINTS / max(1.0, a_document)))
        asked = part.queries.sample(max(1, most), c.seed + 1)
    curve, kept, scores = staged(c, trees, part, asked)
    notes = [why_not] if why_not else []
    objective_trace, schedules = None, {}
    trained = model.info.trained_rounds
    if objective is not None:
        schedules = schedules_of(objective, objective.total_rounds or trained or model.best_iteration)
        c.say("objective", 0, part.n_documents)
        try:
            objective_trace = trace_objective(objective, curve.rounds, kept, part.take(asked), data)
        except BoostrankError as error:
            notes.append(f"The training objective cannot be evaluated on these data: {error}")
    before = model.info.rounds_before
    history = joined(
        [
            {
                "dataset": [dataset] * len(values),
                "metric": [metric] * len(values),
                "round": np.arange(before + 1, before + 1 + len(values)),
                "value": np.array(values, dtype=np.float64),
            }
            for dataset, metrics in model.evals_result.items()
            for metric, values in metrics.items()
        ]
    )
    if not history:
        notes.append("The model file has no record of its training, so only the curve on these data is shown.")
    if "dart" in map(str, (model.info.parameters or {}).values()):
        notes.append("DART rescales earlier trees, so a prefix of the trees is not a model of the training.")
    return Learning(
        history=history,
        curve=curve,
        objective_trace=objective_trace,
        schedules=schedules,
        best_rounds=model.best_iteration,
        trained_rounds=trained,
        negligible=c.negligible,
        notes=tuple(notes),
        scores=scores if part is data and trees.double else None,
        begins=_beginning(trees, c.rules.without_names),
    )


def _beginning(trees: Trees, rules: Conventions) -> str:
    if trees.forest is not None and trees.forest.start is not None:
        return f"{START} alone"
    if rules.ties == "expected":
        return "a random order"
    return f"all documents tied, ordered by ties={rules.ties}"


def _change(curve: StagedMetric, at: int) -> str:
    """Format the loss or gain at a point, `lose 0.0004 [0.0001, 0.0007]`."""
    amount = amount_with_interval(curve.lost[at], curve.lost_low[at], curve.lost_high[at])
    return f"{'lose' if curve.lost[at] >= 0.0 else 'gain'} {amount}"


def _parts(found: Learning) -> dict[str, Any]:
    several, trace = found.curve.rounds.size > 1, found.objective_trace
    return {
        "prefixes": _prefixes(found) if several else None,
        "lost": _lost(found) if several else None,
        "history": _history(found) if found.history else None,
        "trace": trace,
        **({"losses": [], "dead": None, "shares": []} if trace is None else _trace_parts(trace)),
        "schedules": [_schedule(i, *one) for i, one in enumerate(found.schedules.items(), 1)],
    }


def _trace_parts(trace: ObjectiveTrace) -> dict[str, Any]:
    losses, gradient = trace.to_frame(), trace.to_frame("gradient")
    several = losses["rounds"].nunique() > 1
    dead = losses[losses["objective"] == losses["objective"].iloc[0]][["rounds", "dead_queries"]]
    shares = [part for _, part in gradient.groupby("by", sort=False) if part["part"].nunique() > 1]
    return {
        "losses": [_loss(i, *one) for i, one in enumerate(losses.groupby("objective", sort=False), 1)]
        if several
        else [],
        "dead_now": int(dead["dead_queries"].iloc[-1]),
        "dead": _dead(dead, trace.queries) if several and np.ptp(dead["dead_queries"][1:]) else None,
        "shares": [_share(part) for part in shares if several and part["share"].notna().any()],
    }


def _rounds(title: str = "rounds") -> Any:
    return alt.X("rounds:Q", title=title, scale=alt.Scale(nice=False), axis=whole())


def _prefixes(found: Learning) -> Chart:
    frame, how = found.curve.to_frame(), {"title": found.curve.metric, "scale": alt.Scale(zero=False)}
    tips = ("rounds:Q ,d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
    return Chart("learning-prefixes", frame, lines(frame, _rounds(), "value", tips, band=("low", "high"), **how))


def _lost(found: Learning) -> Chart:
    frame = found.curve.to_frame()[["rounds", "lost", "lost_low", "lost_high"]]
    small = max(found.negligible, 1e-6)
    values = frame.drop(columns="rounds").to_numpy()
    scale, ticks = stretched(small, (float(np.nanmin(values, initial=0.0)), float(np.nanmax(values, initial=small))))
    how = {"title": "loss, stretched near 0", "scale": scale, "axis": alt.Axis(values=ticks, format="~g")}
    tips = ("rounds:Q ,d", "lost:Q +.4f", "lost_low:Q .4f from", "lost_high:Q .4f to")
    drawn = lines(frame, _rounds(), "lost", tips, band=("lost_low", "lost_high"), **how)
    return Chart("learning-lost", frame, drawn)


def _history(found: Learning) -> Chart:
    frame = found.to_frame().rename(columns={"round": "rounds"})
    metrics = frame["metric"].unique().tolist()
    shown = found.curve.metric if found.curve.metric in metrics else metrics[0]
    rows = frame[frame["metric"] == shown]
    step = max(1, -(-int(rows["rounds"].nunique()) // _MOST_POINTS))
    rows = rows[(rows["rounds"] % step == 0) | rows["rounds"].isin([rows["rounds"].max(), found.best_rounds])]
    colour = alt.Color("dataset:N", title=None)
    how = {"title": shown, "scale": alt.Scale(zero=False), "color": colour, "dots": 0}
    best = alt.Chart(pandas().DataFrame({"rounds": [found.best_rounds]}))
    drawn = lines(rows, _rounds("round"), "value", ("dataset:N", "rounds:Q", "value:Q .4f"), **how)
    drawn += best.mark_rule(strokeDash=[4, 4]).encode(x=_rounds("round"))
    others = f" The data also contain {', '.join(m for m in metrics if m != shown)}." if len(metrics) > 1 else ""
    about = f"By round, on the data sets of the training; prediction uses {found.best_rounds:,} rounds (dashed)."
    return Chart("learning-history", frame, drawn, f"{shown} as the training recorded it", about + others)


def _loss(number: int, name: str, part: pd.DataFrame) -> Chart:
    first, last = part.iloc[0], part.iloc[-1]
    since = f"change since round {first['rounds']}"
    frame = part[["rounds", "loss"]].assign(change=part["loss"] - first["loss"], error=part["loss_error"])
    tips = ("rounds:Q", "change:Q +.5g", "loss:Q .5g", "error:Q .2g standard error of the loss")
    about = f"Mean loss per query with the last round's parameters, as {since}; smaller is better. From "
    about += f"{first['loss']:.4g} to {last['loss']:.4g}"
    about += f", whose standard error is {last['loss_error']:.2g}." if np.isfinite(last["loss_error"]) else "."
    drawn = lines(frame, _rounds(), "change", tips, height=200, title=since)
    return Chart(f"learning-loss-{number}", frame, drawn, f"The objective's loss: {name}", about)


def _dead(frame: pd.DataFrame, queries: int) -> Chart:
    frame = frame.assign(dead=frame["dead_queries"] / max(1, queries))
    how = {"title": "share of queries", "scale": alt.Scale(domainMin=0), "axis": alt.Axis(format=SHARE)}
    drawn = lines(frame, _rounds(), "dead", ("rounds:Q", "dead:Q .2%"), height=200, **how)
    about = "Queries without a gradient, from which training learns nothing."
    return Chart("learning-dead", frame, drawn, "Dead queries", about)


def _share(frame: pd.DataFrame) -> Chart:
    parts = frame.drop_duplicates("part")
    y = alt.Y("share:Q", title="share of |gradient|", stack="normalize", axis=alt.Axis(format=SHARE))
    area = alt.Chart(frame).mark_area()
    drawn = area.encode(
        x=_rounds(),
        y=y,
        color=alt.Color("part:N", title=None, sort=parts["part"].tolist()),
        tooltip=tooltips("part:N", "rounds:Q", "share:Q .1%", "error:Q .1% standard error"),
    ).properties(height=220)
    held = ", ".join(f"{name}: {share:.0%}" for name, share in zip(parts["part"], parts["documents"], strict=True))
    kind = frame["by"].iloc[0]
    about = f"Share of the sum of |gradient|. Share of the documents: {held}."
    return Chart(f"learning-gradient-by-{kind.replace(' ', '-')}", frame, drawn, f"Gradient magnitude by {kind}", about)


def _schedule(number: int, name: str, values: Float64Array) -> Chart:
    frame = pandas().DataFrame({"rounds": np.arange(1, values.size + 1), "value": values})
    step = max(1, -(-values.size // _MOST_POINTS))
    thin = frame[(frame["rounds"] % step == 0) | frame["rounds"].isin([1, values.size])]
    log = bool(values.min() > 0.0 and values.max() > 20.0 * values.min() and name != "mix")
    scale = alt.Scale(type="log" if log else "linear", zero=False)
    tips = ("rounds:Q", "value:Q .4g")
    drawn = lines(thin, _rounds("round"), "value", tips, dots=0, height=180, title=name, scale=scale)
    about = f"From {values[0]:.4g} in the first round to {values[-1]:.4g} in round {values.size:,}."
    return Chart(f"learning-schedule-{number}", frame, drawn, name, about)


SPEC = Section(
    "learning",
    "Learning",
    learning,
    _parts,
    place=40,
    applies=lambda model: not model.info.averaged,
)
