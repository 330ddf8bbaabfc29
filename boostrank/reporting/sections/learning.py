"""Learning curve, with the metric of the model's first rounds and the metrics that the training
recorded.

Each tree adds to the scores of the trees before it, so one pass over the trees measures all points
of the curve.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import ModelError
from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.fit.settings import LOSS
from boostrank.kernels.forest import Forest, Walker
from boostrank.metrics import BoundMetrics
from boostrank.reporting.charts import Chart, alt, lines, stretch, whole_numbers
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import START, metrics_of_block, over_blocks, start_alone, walker_of
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import means_over_queries
from boostrank.reporting.table import Column, Data, Table, interval, pandas

# Number of points on the curve, not counting the point with 0 trees.
_POINTS = 40
# Limit on trees times documents, about half a minute on two cores.
_WALKS = 450_000_000


class Learning(Result):
    """Result of `learning`.

    Args:
        prefixes: the curve as a table. `rounds` ascends from 0 to the rounds that prediction uses.
            `value` is the mean metric of the first rounds, with its 95% interval. `lost` is the
            mean of the whole model's metric minus that of the first rounds, with its pointwise
            paired interval. Errors of neighbouring points are correlated.
        queries, documents: numbers of queries and documents in the sample.
        history: table of the metrics that the training recorded in each round, which is empty
            without a record.
        best_rounds: number of rounds that prediction uses.
        trained_rounds: number of rounds in the training, or None if unknown.
        negligible: largest negligible loss.
        begins: description of the model with 0 rounds.
        scores: float64[N], scores of the whole model in row order; None unless they were computed
            for all documents, in the order of the engine's sum.
    """

    metric: str
    prefixes: Data
    queries: int
    documents: int
    all_documents: int
    history: Data
    best_rounds: int
    trained_rounds: int | None
    negligible: float
    begins: str = "all documents tied"
    notes: tuple[str, ...] = ()
    scores: Float64Array | None = None

    HIDDEN = ("scores",)

    def tables(self) -> tuple[Table, ...]:
        """Return the recorded metrics and the curve."""
        help = "loss without the later rounds"
        columns = (
            "rounds #",
            Column("value", self.metric, ".4f", ends=("low", "high")),
            Column("lost", format="+.4f", help=help, ends=("lost_low", "lost_high")),
        )
        return Table("history", self.history), Table("prefixes", self.prefixes, columns)

    @property
    def total(self) -> int:
        """The number of rounds in the whole model."""
        return int(self.prefixes["rounds"][-1])

    def enough(self, *, sure: bool = True) -> int:
        """Return the first point from which on no point loses more than `negligible`, by the
        intervals or the means.
        """
        lost = self.prefixes["lost_high" if sure else "lost"]
        lossy_points = np.flatnonzero(~(lost[:-1] <= self.negligible))
        return int(lossy_points[-1]) + 1 if lossy_points.size else 0

    def summary(self) -> str:
        """Summarise the value of the first rounds in a sentence or two."""
        rounds, lost = self.prefixes["rounds"], self.prefixes["lost"]
        last_point = rounds.size - 1
        if last_point < 2:
            return (
                f"The model has {self.total} round{'s' * (self.total != 1)}, so none can be left"
                " out."
            )
        # Say how many rounds suffice, or that all of them count.
        sure, likely = self.enough(), self.enough(sure=False)
        point = sure
        if sure == last_point:
            point = min(likely, last_point - 1)
        text = f"{rounds[point]:,} of {self.total:,} rounds{'' if point else f' ({self.begins})'} "
        text += f"{self._change(point)} of {self.metric}"
        if point == sure:
            text += f"; beyond that, every 95% interval excludes a loss of {self.negligible:g}."
        elif point == likely:
            text += (
                f". The mean loss is below {self.negligible:g}, but these queries are too few to be"
                " sure."
            )
        else:
            text = f"Every round counts: {text}."
        # Warn if fewer rounds are better.
        better_points = np.flatnonzero(self.prefixes["lost_high"][:-1] < -self.negligible)
        if better_points.size:
            best_point = int(better_points[np.argmin(lost[better_points])])
            fewer = f"{rounds[best_point]:,} of them {self._change(best_point)}"
            text += (
                f" Fewer rounds rank better: {fewer}, but this number was chosen on these queries."
            )
        return text

    def _change(self, point: int) -> str:
        """Format the loss or gain at one point, such as `lose 0.0004 [0.0001, 0.0007]`."""
        loss, *ends = [self.prefixes[name][point] for name in ("lost", "lost_low", "lost_high")]
        verb = "lose"
        if loss < 0.0:
            verb, loss, ends = "gain", -loss, [-end for end in reversed(ends)]
        return f"{verb} {loss:.4f}" + interval(ends[0], ends[1], pattern=" [{}, {}]")


def learning(context: Context) -> Learning:
    """Measure the learning curve of a ranker."""
    model, data = context.model, context.data
    if model.info.averaged:
        raise ModelError(
            f"the model is an average of {len(model.info.averaged)} models, so a prefix of its"
            " trees is not a model; its record lists the metric of fewer trees under 'price'"
        )
    trees = model.trees()
    walker_of(model, trees, data, context.workers)
    n_documents = context.documents or data.n_documents
    if context.documents is None:
        n_documents = max(1, _WALKS // max(1, trees.count))
    sample = data.sample(n_documents, context.seed)
    prefixes = _measure_prefixes(context, trees, sample)
    # Take the metrics that the training recorded.
    earlier_rounds = model.info.rounds_before
    rows = [
        (dataset, metric, earlier_rounds + round, float(value))
        for dataset, metrics in model.evals_result.items()
        for metric, values in metrics.items()
        for round, value in enumerate(values, 1)
    ]
    names = ("dataset", "metric", "round", "value")
    history = dict(zip(names, zip(*rows, strict=True), strict=False))
    notes = []
    if not history:
        notes.append(
            "The model file has no record of its training, so only the curve on these data is"
            " shown."
        )
    if "dart" in map(str, (model.info.parameters or {}).values()):
        notes.append(
            "DART rescales earlier trees, so a prefix of the trees is not a model of the training."
        )
    all_scores = prefixes.scores if sample is data and trees.double else None
    return Learning(
        metric=context.metric,
        prefixes=prefixes.curve,
        queries=prefixes.queries,
        documents=sample.n_documents,
        all_documents=data.n_documents,
        history=history,
        best_rounds=model.best_iteration,
        trained_rounds=model.info.trained_rounds,
        negligible=context.negligible,
        begins=_beginning(trees, context.rules.without_names),
        notes=tuple(notes),
        scores=all_scores,
    )


def points(rounds: int) -> Int64Array:
    """Return the rounds at which the curve is measured, from 0 to all rounds and denser at the
    beginning.
    """
    return np.unique(np.rint(rounds * np.linspace(0.0, 1.0, _POINTS + 1) ** 1.5)).astype(np.int64)


class _Prefixes(NamedTuple):
    """The measured first rounds of a model.

    Args:
        curve: the curve as a table.
        queries: number of included queries.
        scores: float64[N], scores of all rounds. XGBoost scores lack base_score and are not rounded
            to float32.
    """

    curve: Data
    queries: int
    scores: Float64Array


def _measure_prefixes(context: Context, trees: Trees, data: RankingDataset) -> _Prefixes:
    """Measure a model's prefixes in one pass."""
    model = context.model
    metric = context.main
    conventions = context.rules.without_names
    threads = context.workers
    # Raises if the metric is undefined.
    BoundMetrics(
        [metric], data.labels, queries=data.queries, conventions=conventions, threads=threads
    )
    assert trees.forest is not None
    rounds = points(model.best_iteration)
    # Keep the trees of a round together (XGBoost's num_parallel_tree).
    tree_ends = (rounds * trees.count) // max(1, model.best_iteration)
    rows = DenseRows(data, trees.used, model.absent_is_missing)
    # Each walker adds the trees between two points to the scores.
    forests = [
        start_alone(trees.forest),
        *(some_trees(trees.forest, begin, end) for begin, end in pairwise(tree_ends.tolist())),
    ]
    walkers = [Walker(forest, trees.used) for forest in forests]
    per_query, final_scores = np.empty((len(data.queries), rounds.size)), np.empty(data.n_documents)

    def measure_block(queries: slice, documents: slice) -> None:
        bound = metrics_of_block(data, queries, documents, metric, conventions)
        values = rows[documents]
        scores = np.zeros(values.shape[0])
        for i, walker in enumerate(walkers):
            scores += walker.scores(values)
            per_query[queries, i] = bound.per_query(scores)[context.metric]
        final_scores[documents] = scores

    over_blocks(measure_block, rows, threads, partial(context.progress, "first trees"))
    lost, weights = per_query[:, -1:] - per_query, data.queries.each_weight
    value = means_over_queries(per_query, weights, seed=context.seed)
    loss = means_over_queries(lost, weights, seed=context.seed, resamples=PAIRED_RESAMPLES)
    curve = {"rounds": rounds, "value": value.mean, "low": value.low, "high": value.high}
    curve |= {"lost": loss.mean, "lost_low": loss.low, "lost_high": loss.high}
    return _Prefixes(curve, int(value.queries[0]), final_scores)


def some_trees(forest: Forest, begin: int, end: int) -> Forest:
    """Return the trees `begin` to `end` (exclusive) without the linear start; node and leaf
    numbers stay.
    """
    if end <= begin:
        return replace(start_alone(forest), start=None)
    tree = np.clip(forest.tree - begin, 0, end - begin - 1)
    return replace(forest, roots=forest.roots[begin:end], tree=tree, start=None)


def _beginning(trees: Trees, rules: Conventions) -> str:
    if trees.forest is not None and trees.forest.start is not None:
        return f"{START} alone"
    if rules.ties == "expected":
        return "a random order"
    return f"all documents tied, ordered by ties={rules.ties}"


def _template_variables(result: Learning) -> dict[str, Any]:
    charts: dict[str, Any] = {"value": None}
    if result.prefixes["rounds"].size > 1:
        charts = {"value": _value(result), "lost": _lost(result)}
    recorded = list(dict.fromkeys(result.history.get("metric", ())))
    main_metric = [name for name in recorded if name == result.metric] or recorded[:1]
    charted_metrics = dict.fromkeys([*main_metric, *(name for name in recorded if name == LOSS)])
    histories = {metric: _history(result, metric) for metric in charted_metrics}
    return charts | {"histories": histories, "recorded": recorded}


def _rounds(title: str = "rounds") -> Any:
    return alt.X("rounds:Q", title=title, scale=alt.Scale(nice=False), axis=whole_numbers())


def _value(result: Learning) -> Chart:
    frame = result.to_frame("prefixes")
    y_options = {"title": result.metric, "scale": alt.Scale(zero=False)}
    tips = ("rounds:Q ,d", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
    figure = lines(frame, _rounds(), "value", tips, band=("low", "high"), **y_options)
    return Chart("learning-prefixes", frame, figure)


def _lost(result: Learning) -> Chart:
    frame = result.to_frame("prefixes")[["rounds", "lost", "lost_low", "lost_high"]]
    linear_up_to = max(result.negligible, 1e-6)
    values = frame.drop(columns="rounds").to_numpy()
    ends = float(np.nanmin(values, initial=0.0)), float(np.nanmax(values, initial=linear_up_to))
    scale, ticks = stretch(linear_up_to, ends)
    axis = alt.Axis(values=ticks, format="~g")
    y_options = {"title": "loss, stretched near 0", "scale": scale, "axis": axis}
    tips = ("rounds:Q ,d", "lost:Q +.4f", "lost_low:Q .4f from", "lost_high:Q .4f to")
    figure = lines(frame, _rounds(), "lost", tips, band=("lost_low", "lost_high"), **y_options)
    return Chart("learning-lost", frame, figure)


def _history(result: Learning, metric: str) -> Chart:
    frame = result.to_frame().rename(columns={"round": "rounds"})
    metric_frame = frame[frame["metric"] == metric]
    colour = alt.Color("dataset:N", title=None)
    chart_options = {"title": metric, "scale": alt.Scale(zero=False), "color": colour, "dots": 0}
    best_rounds = alt.Chart(pandas().DataFrame({"rounds": [result.best_rounds]}))
    tips = ("dataset:N", "rounds:Q", "value:Q .4f")
    figure = lines(metric_frame, _rounds("round"), "value", tips, **chart_options)
    figure += best_rounds.mark_rule(strokeDash=[4, 4]).encode(x=_rounds("round"))
    name = "learning-loss" if metric == LOSS else "learning-history"
    return Chart(name, frame, figure)


SPEC = Section(
    "learning",
    "Learning",
    run=learning,
    variables=_template_variables,
    position=40,
    applies=lambda context: not context.model.info.averaged,
)
