"""Learning curve: metric by round, metric of the first trees, and trace of the objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, ModelError, ParameterError
from boostrank.core.types import Float64Array, Int64Array
from boostrank.engines import format_of
from boostrank.engines.trees import Trees
from boostrank.model.ranking_model import RankingModel
from boostrank.report.charts import SHARE, Chart, stretched, tooltips
from boostrank.report.means import amount_with_interval
from boostrank.report.objective_trace import (
    GradientShares,
    ObjectiveTrace,
    objective_of,
    schedules_of,
    trace_objective,
)
from boostrank.report.result import Result, pandas, plain
from boostrank.report.scoring import START, scorer_of
from boostrank.report.section import Context, Section
from boostrank.report.stages import POINTS, StagedMetric, affordable, staged_metric, staged_scores
from boostrank.report.vega import COLOURS, alt

# Limits on documents and pairs for the objective over all points: about ten seconds.
_ASKED_DOCUMENTS, _ASKED_PAIRS = 4_000_000, 400_000_000
# Limit on points per line in a chart.
_MOST_POINTS = 400
_HEIGHT = 260


@dataclass(frozen=True, eq=False)
class History:
    """A metric by round, recorded in training.

    Args:
        rounds: int64[T], rounds of the model, including those of a continued model.
    """

    dataset: str
    metric: str
    rounds: Int64Array
    values: Float64Array


@dataclass(frozen=True, eq=False, repr=False)
class Learning(Result):
    """Result of `learning`.

    Args:
        history: record of the training; empty if the model file has none.
        curve: metric of the first rounds, on the data.
        objective_trace: training objective on the data; None if unavailable.
        schedules: parameter -> float64[T], value in each round.
        best_rounds: rounds that prediction uses.
        trained_rounds: rounds of the training; None if unknown.
        negligible: largest loss that does not matter.
        scores: float64[N], scores of the whole model, in row order; None if they were not computed for all documents,
            or not as the engine sums them.
        begins: description of the model of 0 rounds.
        leaves: int64[R], leaves in the file at each point of the curve, including a start's; None if unknown.
    """

    history: tuple[History, ...]
    curve: StagedMetric
    objective_trace: ObjectiveTrace | None
    schedules: Mapping[str, Float64Array]
    best_rounds: int
    trained_rounds: int | None
    negligible: float
    notes: tuple[str, ...] = ()
    scores: Float64Array | None = None
    begins: str = "all documents tied"
    leaves: Int64Array | None = None

    def summary(self) -> str:
        """Value of the first rounds, in a sentence or two."""
        curve = self.curve
        last = curve.rounds.size - 1
        if last < 2:
            return f"The model has {curve.total} round{'s' * (curve.total != 1)}, so none can be left out."
        sure, guess = curve.enough(self.negligible), curve.enough(self.negligible, sure=False)
        at = sure if sure < last else min(guess, last - 1)
        few = (
            f"{curve.rounds[at]:,} of {curve.total:,} rounds" if at else f"0 of {curve.total:,} rounds ({self.begins})"
        )
        text = f"{few} {_change(curve, at)} of {curve.metric}"
        if at == sure:
            text += f"; from there on, every 95% interval excludes a loss of {self.negligible:g}."
        elif at == guess:
            text += f": the mean loss is below {self.negligible:g}, but these queries are too few to be sure."
        else:
            text = f"Every round counts: {text}."
        better = np.flatnonzero(curve.lost_high[:-1] < -self.negligible)
        if better.size:
            best = int(better[np.argmin(curve.lost[better])])
            text += (
                f" Fewer rounds rank better: {curve.rounds[best]:,} of them {_change(curve, best)}, but this number "
                "was chosen on these queries."
            )
        return text

    TABLES: ClassVar = {
        "history": lambda self: {
            "dataset": [h.dataset for h in self.history for _ in h.rounds],
            "metric": [h.metric for h in self.history for _ in h.rounds],
            "round": [r for h in self.history for r in h.rounds.tolist()],
            "value": [value for h in self.history for value in h.values.tolist()],
        }
    }

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        trace = self.objective_trace
        objective = None if trace is None else trace.to_dict()
        parts = {"summary": self.summary(), "history": self.history, "prefixes": self.curve, "objective": objective}
        names = ("schedules", "best_rounds", "trained_rounds", "negligible", "notes", "begins")
        return dict(plain(parts | {name: getattr(self, name) for name in names}))


def learning(c: Context) -> Learning:
    """Measure how a ranker learnt.

    Raises:
        ParameterError: `documents` is negative.
        DataError: no query counts.
        ModelError: the model is an average, whose rounds are consecutive models.
    """
    model, data, name = c.model, c.data, c.metric
    if model.info.averaged:
        raise ModelError(
            f"the model is an average of {len(model.info.averaged)} models, so a prefix of its trees is not a model; "
            "its record lists the metric of fewer trees under 'price'"
        )
    if c.documents is not None and c.documents < 0:
        raise ParameterError("documents must be 0 or more")
    trees = model.trees()
    _, by = scorer_of(model, trees, data, c.workers)
    wanted = affordable(model, trees, by == "walk") if c.documents is None else c.documents or data.n_documents
    part = data.sample(wanted, c.seed)
    objective, why_not = objective_of(model, c.workers)
    asked = np.zeros(0, np.int64)
    if objective is not None:
        most = _ASKED_DOCUMENTS // POINTS
        if part.n_documents and any(p.spec.quadratic for p in objective.parts):
            a_document = float(np.square(part.queries.sizes.astype(np.float64)).sum()) / part.n_documents
            most = min(most, int(_ASKED_PAIRS / POINTS / max(1.0, a_document)))
        asked = part.queries.sample(max(1, most), c.seed + 1)
    walk = staged_scores(c, trees, part, by, asked)
    notes = [why_not] if why_not else []
    objective_trace, schedules = None, {}
    trained = model.info.trained_rounds
    if objective is not None:
        schedules = schedules_of(objective, objective.total_rounds or trained or model.best_iteration)
        c.say("objective", 0, part.n_documents)
        try:
            objective_trace = trace_objective(objective, walk.rounds, walk.kept, part.take(asked), data)
        except BoostrankError as error:
            notes.append(f"The training objective cannot be evaluated on these data: {error}")
    before = model.info.rounds_before
    history = tuple(
        History(dataset, metric, np.arange(before + 1, before + 1 + len(values)), np.array(values, dtype=np.float64))
        for dataset, metrics in model.evals_result.items()
        for metric, values in metrics.items()
    )
    if not history:
        notes.append("The model file has no record of its training, so only the curve on these data is shown.")
    if "dart" in map(str, (model.info.parameters or {}).values()):
        notes.append("DART rescales earlier trees, so a prefix of the trees is not a model of the training.")
    return Learning(
        history=history,
        curve=staged_metric(walk, name, part, data.n_documents, seed=c.seed),
        objective_trace=objective_trace,
        schedules=schedules,
        best_rounds=model.best_iteration,
        trained_rounds=trained,
        negligible=c.negligible,
        notes=tuple(notes),
        scores=walk.scores if part is data and trees.double else None,
        begins=_beginning(trees, by, c.rules.without_names),
        leaves=_leaves(model, trees, walk.rounds),
    )


def _leaves(model: RankingModel, trees: Trees, rounds: Int64Array) -> Int64Array | None:
    if trees.forest is None or not trees.count:
        return None
    of_tree = np.bincount(trees.forest.leaf_trees(), minlength=trees.count)
    start = 0
    if trees.forest.start is not None:  # the walker treats its trees as curves
        body = model.to_bytes()
        format = format_of(body)
        start = format.served(format.parse(body)).leaf_count.size - int(of_tree.sum())
    upto = np.concatenate([[0], np.cumsum(of_tree)])[rounds * trees.count // max(1, model.best_iteration)]
    return (start + upto).astype(np.int64)


def _beginning(trees: Trees, by: str, rules: Conventions) -> str:
    if trees.forest is not None and trees.forest.start is not None and by == "walk":
        return f"{START} alone"
    if rules.ties == "expected":
        return "a random order"
    return f"all documents tied, ordered by ties={rules.ties}"


def _change(curve: StagedMetric, at: int) -> str:
    """Format the loss or gain at a point, `lose 0.0004 [0.0001, 0.0007]`."""
    amount = amount_with_interval(curve.lost[at], curve.lost_low[at], curve.lost_high[at])
    return f"{'lose' if curve.lost[at] >= 0.0 else 'gain'} {amount}"


def _parts(found: Learning) -> dict[str, Any]:
    several = found.curve.rounds.size > 1
    trace = found.objective_trace
    return {
        "prefixes": _prefixes(found) if several else None,
        "lost": _lost(found) if several else None,
        "history": _history(found) if found.history else None,
        "size": _against_size(found, found.leaves) if several and found.leaves is not None else None,
        "trace": trace,
        **({"losses": [], "dead": None, "shares": []} if trace is None else _trace_parts(trace)),
        "schedules": [_schedule(i, *one) for i, one in enumerate(found.schedules.items(), 1)],
    }


def _trace_parts(trace: ObjectiveTrace) -> dict[str, Any]:
    shares, several = (trace.by_grade, trace.by_length), trace.rounds.size > 1
    known = [s for s in shares if several and np.isfinite(s.share).any() and len(s.names) > 1]
    errors = [float(np.nanmax(s.error)) for s in shares if np.isfinite(s.error).any()]
    return {
        "losses": _losses(trace) if several else [],
        "dead": _dead(trace) if several and np.ptp(trace.dead[1:]) else None,
        "shares": [(s, _share(trace.rounds, s)) for s in known],
        "share_error": max(errors, default=0.0),
    }


def _prefixes(found: Learning) -> Chart:
    frame = found.curve.to_frame()
    figure = _band(frame, ("low", "value", "high"), ".4f", title=found.curve.metric, scale=alt.Scale(zero=False))
    return Chart("learning-prefixes", frame, figure)


def _rounds(title: str = "rounds") -> Any:
    return alt.X("rounds:Q", title=title, scale=alt.Scale(nice=False), axis=alt.Axis(tickMinStep=1, format=",d"))


def _band(frame: Any, names: tuple[str, str, str], format: str, **encoding: Any) -> Any:
    """Return a line with its interval."""
    low, value, high = names
    tips = tooltips("rounds:Q ,d", f"{value}:Q {format}", f"{low}:Q .4f from", f"{high}:Q .4f to")
    base = alt.Chart(frame).encode(x=_rounds(), tooltip=tips)
    area = base.mark_area(opacity=0.2, color=COLOURS["main"]).encode(y=alt.Y(f"{low}:Q", **encoding), y2=f"{high}:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=18)).encode(y=alt.Y(f"{value}:Q", **encoding))
    return alt.layer(area, line).properties(height=_HEIGHT)


def _lost(found: Learning) -> Chart:
    curve = found.curve
    names = ("lost_low", "lost", "lost_high")
    frame = curve.to_frame()[["rounds", "lost", "lost_low", "lost_high"]]
    small = max(found.negligible, 1e-6)
    lowest = float(np.nanmin([0.0, *curve.lost_low, *curve.lost]))
    highest = float(np.nanmax([small, *curve.lost_high, *curve.lost]))
    scale, ticks = stretched(small, (lowest, highest))
    axis = alt.Axis(values=ticks, format="~g")
    drawn = _band(frame, names, "+.4f", title="loss, stretched near 0", scale=scale, axis=axis)
    return Chart("learning-lost", frame, drawn)


def _against_size(found: Learning, leaves: Int64Array) -> Chart:
    curve = found.curve
    frame = pandas().DataFrame({"leaves": leaves, "rounds": curve.rounds, "value": curve.value})
    line = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=18))
    drawn = line.encode(
        x=alt.X("leaves:Q", title="leaves of the file", scale=alt.Scale(nice=False), axis=alt.Axis(format="~s")),
        y=alt.Y("value:Q", title=curve.metric, scale=alt.Scale(zero=False)),
        tooltip=tooltips("leaves:Q ,d", "rounds:Q ,d", "value:Q .4f"),
    ).properties(height=_HEIGHT)
    return Chart("learning-size", frame, drawn)


def _history(found: Learning) -> Chart:
    frame = found.to_frame().rename(columns={"round": "rounds"})
    metrics = list(dict.fromkeys(h.metric for h in found.history))
    shown = found.curve.metric if found.curve.metric in metrics else metrics[0]
    rows = frame[frame["metric"] == shown]
    step = max(1, -(-int(rows["rounds"].nunique()) // _MOST_POINTS))
    rows = rows[(rows["rounds"] % step == 0) | rows["rounds"].isin([rows["rounds"].max(), found.best_rounds])]
    line = alt.Chart(rows).mark_line()
    best = alt.Chart(pandas().DataFrame({"rounds": [found.best_rounds]}))
    drawn = alt.layer(
        line.encode(
            x=_rounds("round"),
            y=alt.Y("value:Q", title=shown, scale=alt.Scale(zero=False)),
            color=alt.Color("dataset:N", title=None),
            tooltip=tooltips("dataset:N", "rounds:Q", "value:Q .4f"),
        ),
        best.mark_rule(strokeDash=[4, 4]).encode(x=_rounds("round")),
    ).properties(height=_HEIGHT)
    others = f" The data also contain {', '.join(m for m in metrics if m != shown)}." if len(metrics) > 1 else ""
    about = f"By round, on the data sets of the training; prediction uses {found.best_rounds:,} rounds (dashed)."
    return Chart("learning-history", frame, drawn, f"{shown} as the training recorded it", about + others)


def _losses(found: ObjectiveTrace) -> list[Chart]:
    """Return a chart per component of the objective, or of its parameters at the end and as they ran."""
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
        tips = tooltips("rounds:Q", "change:Q +.5g", "loss:Q .5g", "error:Q .2g standard error of the loss")
        line = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=18))
        drawn = line.encode(x=_rounds(), y=alt.Y("change:Q", title=since), tooltip=tips).properties(height=_HEIGHT - 60)
        about = f"Mean loss per query, as {since}; smaller is better."
        if known.size:
            last = known[-1]
            sure = f", whose standard error is {error[last]:.2g}" if np.isfinite(error[last]) else ""
            about += f" From {loss[first]:.4g} to {loss[last]:.4g}{sure}."
        slug = "learning-loss" + f"-{number}" * (number > 1)
        charts.append(Chart(slug, frame, drawn, f"The objective's loss: {name}", about))
    return charts


def _dead(found: ObjectiveTrace) -> Chart:
    frame = pandas().DataFrame({"rounds": found.rounds, "dead": found.dead / max(1, found.queries)})
    y = alt.Y("dead:Q", title="share of queries", scale=alt.Scale(domainMin=0), axis=alt.Axis(format=SHARE))
    area = alt.Chart(frame).mark_area(opacity=0.5, line=True, color=COLOURS["faint"])
    drawn = area.encode(x=_rounds(), y=y, tooltip=tooltips("rounds:Q", "dead:Q .2%")).properties(height=_HEIGHT - 60)
    return Chart("learning-dead", frame, drawn)


def _share(rounds: Int64Array, found: GradientShares) -> Chart:
    several, count = rounds.size, len(found.names)
    columns = {"rounds": np.repeat(rounds, count), "part": found.names * several, "share": found.share.ravel()}
    frame = pandas().DataFrame(columns | {"error": found.error.ravel(), "place": [*range(count)] * several})
    area = alt.Chart(frame).mark_area()
    drawn = area.encode(
        x=_rounds(),
        y=alt.Y("share:Q", title="share of |gradient|", stack="normalize", axis=alt.Axis(format=SHARE)),
        color=alt.Color("part:N", title=None, sort=None),
        order=alt.Order("place:Q"),
        tooltip=tooltips("part:N", "rounds:Q", "share:Q .1%", "error:Q .1% standard error"),
    ).properties(height=_HEIGHT - 40)
    return Chart(f"learning-gradient-by-{found.kind.replace(' ', '-')}", frame, drawn)


def _schedule(number: int, name: str, values: Float64Array) -> Chart:
    frame = pandas().DataFrame({"rounds": np.arange(1, values.size + 1), "value": values})
    step = max(1, -(-values.size // _MOST_POINTS))
    thin = frame[(frame["rounds"] % step == 0) | frame["rounds"].isin([1, values.size])]
    log = bool(values.min() > 0.0 and values.max() > 20.0 * values.min() and name != "mix")
    y = alt.Y("value:Q", title=name, scale=alt.Scale(type="log" if log else "linear", zero=False))
    drawn = alt.Chart(thin).mark_line().encode(x=_rounds("round"), y=y, tooltip=tooltips("rounds:Q", "value:Q .4g"))
    about = f"From {values[0]:.4g} in the first round to {values[-1]:.4g} in round {values.size:,}."
    return Chart(f"learning-schedule-{number}", frame, drawn.properties(height=_HEIGHT - 80), name, about)


def _frames(found: Learning) -> dict[str, Any]:
    frames = {"history": found.to_frame(), "prefixes": found.curve.to_frame()}
    trace = found.objective_trace
    return frames | ({} if trace is None else {name: trace.to_frame(name) for name in trace.TABLES})


SPEC = Section(
    "learning",
    "Learning",
    learning,
    _parts,
    _frames,
    place=40,
    applies=lambda model: not model.info.averaged,
)
