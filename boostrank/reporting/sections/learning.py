"""Learning curve, with the metric of the model's first rounds and the metrics that the training
recorded.

Each tree adds to the scores of the trees before it, so one pass over the trees measures all points
of the curve.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.text import count_of
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.fit.settings import LOSS
from boostrank.kernels.forest import Walker
from boostrank.metrics import BoundMetrics
from boostrank.reporting.html import Chart, alt, lines, whole_numbers
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import some_trees
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import means_over_queries
from boostrank.reporting.table import Column, Data, Table, import_extra, interval

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
    notes: tuple[str, ...] = ()
    scores: Float64Array | None = None

    HIDDEN = ("scores",)

    def tables(self) -> tuple[Table, ...]:
        """Return the recorded metrics and the curve."""
        columns = (
            "rounds #",
            Column("value", self.metric, ".4f", ends=("low", "high")),
            "lost +.4f [lost_low lost_high] | loss without the later rounds",
        )
        return Table("history", self.history), Table("prefixes", self.prefixes, columns)

    @property
    def total(self) -> int:
        """The number of rounds in the whole model."""
        return int(self.prefixes["rounds"][-1])

    def summary(self) -> str:
        """Say in a sentence how many rounds suffice."""
        rounds, last_point = self.prefixes["rounds"], len(self.prefixes["rounds"]) - 1
        if last_point < 2:
            return f"The model has {count_of(self.total, 'round')}, so none can be left out."
        # Find the point from which on no interval reaches a loss that is not negligible.
        lossy_points = np.flatnonzero(~(self.prefixes["lost_high"][:-1] <= self.negligible))
        point = int(lossy_points[-1]) + 1 if lossy_points.size else 0
        caveat = ""
        end = f"; beyond that, every 95% interval excludes a loss of {self.negligible:g}"
        if point == last_point:
            point, end = last_point - 1, ""
            caveat = "These queries do not show that rounds can be left out: "
        names = ("lost", "lost_low", "lost_high")
        loss, low, high = [self.prefixes[name][point] for name in names]
        return (
            f"{caveat}{rounds[point]:,} of {self.total:,} rounds have a loss of {loss:+.4f}"
            f"{interval(low, high, '+.4f', ' [{}, {}]')} in {self.metric}{end}."
        )


def learning(context: Context) -> Learning:
    """Measure the learning curve of a ranker."""
    model, data, info = context.model, context.data, context.model.info
    if info.averaged:
        raise ModelError(
            f"the model is an average of {len(info.averaged)} models, so a prefix of its trees is"
            " not a model; train smaller ones with --max-trees"
        )
    context.make_walker()  # raises if its scores are not the engine's
    n_documents = context.documents or data.n_documents
    if context.documents is None:
        n_documents = max(1, _WALKS // max(1, context.trees.count))
    sample = data.sample(n_documents, context.seed)
    per_query, scores = _measure_prefixes(context, sample)
    # Average the metric of each prefix, and its loss against the whole model.
    weights, seed = sample.queries.each_weight, context.seed
    value = means_over_queries(per_query, weights, seed=seed)
    lost = per_query[:, -1:] - per_query
    loss = means_over_queries(lost, weights, seed=seed, resamples=PAIRED_RESAMPLES)
    curve: Data = {"rounds": points(model.best_iteration)}
    curve |= {"value": value.mean, "low": value.low, "high": value.high}
    curve |= {"lost": loss.mean, "lost_low": loss.low, "lost_high": loss.high}
    # Take the metrics that the training recorded.
    rows = [
        (dataset, metric, info.rounds_before + round, float(value))
        for dataset, metrics in model.evals_result.items()
        for metric, values in metrics.items()
        for round, value in enumerate(values, 1)
    ]
    names = ("dataset", "metric", "round", "value")
    history = dict(zip(names, zip(*rows, strict=True), strict=False))
    notes = [] if history else ["The model file has no record of its training."]
    if "dart" in map(str, (info.parameters or {}).values()):
        notes.append(
            "DART rescales earlier trees, so a prefix of the trees is not a model of the training."
        )
    reusable_scores = scores if sample is data and context.trees.double else None
    return Learning(
        metric=context.metric,
        prefixes=curve,
        queries=int(value.queries[0]),
        documents=sample.n_documents,
        all_documents=data.n_documents,
        history=history,
        best_rounds=model.best_iteration,
        trained_rounds=info.trained_rounds,
        negligible=context.negligible,
        notes=tuple(notes),
        scores=reusable_scores,
    )


def points(rounds: int) -> Int64Array:
    """Return the rounds at which the curve is measured, from 0 to all rounds and denser at the
    beginning.
    """
    return np.unique(np.rint(rounds * np.linspace(0.0, 1.0, _POINTS + 1) ** 1.5)).astype(np.int64)


def _measure_prefixes(context: Context, data: RankingDataset) -> tuple[Float64Array, Float64Array]:
    """Return the metric of the prefixes by query, float64[Q, p], and the scores of all rounds.

    XGBoost's scores lack base_score and are not rounded to float32.
    """
    trees, rows = context.trees, context.rows_of(data)
    assert trees.forest is not None
    rounds = points(context.model.best_iteration)
    # Keep the trees of a round together.
    tree_ends = (rounds * trees.count) // max(1, context.model.best_iteration)
    # Each walker adds the trees between two points to the scores.
    forests = [
        some_trees(trees.forest, 0, 0, trees.forest.start),
        *(some_trees(trees.forest, begin, end) for begin, end in pairwise(tree_ends.tolist())),
    ]
    walkers = [Walker(forest, trees.used) for forest in forests]
    per_query, final_scores = np.empty((len(data.queries), rounds.size)), np.empty(data.n_documents)

    def measure_block(queries: slice, documents: slice, bound: BoundMetrics) -> None:
        values = rows[documents]
        scores = np.zeros(values.shape[0])
        for i, walker in enumerate(walkers):
            scores += walker.scores(values)
            per_query[queries, i] = bound.per_query(scores)[context.metric]
        final_scores[documents] = scores

    context.measure_blocks(measure_block, rows, "first trees")
    return per_query, final_scores


def _template_variables(result: Learning) -> dict[str, Any]:
    value = None
    if result.total:
        frame, y_scale = result.to_frame("prefixes"), alt.Scale(zero=False)
        y_options = {"title": result.metric, "scale": y_scale}
        figure = lines(frame, _rounds(), "value", **y_options)
        value = Chart("learning-prefixes", frame, figure)
    recorded = list(dict.fromkeys(result.history.get("metric", ())))
    main_metric = [name for name in recorded if name == result.metric] or recorded[:1]
    charted_metrics = dict.fromkeys([*main_metric, *(name for name in recorded if name == LOSS)])
    return {
        "value": value,
        "histories": {metric: _history(result, metric) for metric in charted_metrics},
    }


def _rounds() -> Any:
    return alt.X("rounds:Q", scale=alt.Scale(nice=False), axis=whole_numbers())


def _history(result: Learning, metric: str) -> Chart:
    frame = result.to_frame().rename(columns={"round": "rounds"})
    frame = frame[frame["metric"] == metric]
    colour = alt.Color("dataset:N", title=None)
    chart_options = {"title": metric, "scale": alt.Scale(zero=False), "color": colour, "dots": 0}
    best_rounds = alt.Chart(import_extra("pandas").DataFrame({"rounds": [result.best_rounds]}))
    figure = lines(frame, _rounds(), "value", **chart_options)
    figure += best_rounds.mark_rule(strokeDash=[4, 4]).encode(x=_rounds())
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
