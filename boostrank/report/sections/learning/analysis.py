"""Learning curves of a ranker: its metric round by round, that of its first trees, and its objective's trace.

found = learning(model, data)
found.curve.to_frame()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, ModelError, ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines import format_of
from boostrank.engines.trees import Trees
from boostrank.metric import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.records import jsonable
from boostrank.report.frames import pandas
from boostrank.report.means import amount_with_interval
from boostrank.report.scoring import Progress, scorer_of
from boostrank.report.sections.learning.objective_trace import (
    ObjectiveTrace,
    objective_of,
    schedules_of,
    trace_objective,
)
from boostrank.report.sections.learning.staged_metrics import (
    POINTS,
    StagedMetric,
    affordable,
    staged_metric,
    staged_scores,
)
from boostrank.report.start import START

# Documents and pairs that an objective is asked for at all points together: some ten seconds.
_ASKED_DOCUMENTS, _ASKED_PAIRS = 4_000_000, 400_000_000


@dataclass(frozen=True, eq=False)
class History:
    """A metric round by round, as the training recorded it.

    Args:
        dataset: name of the data set it was measured on.
        metric: such as "ndcg@10".
        rounds: int64[T], rounds that the model had, earlier ones of a continued model included.
        values: float64[T].
    """

    dataset: str
    metric: str
    rounds: Int64Array
    values: Float64Array


@dataclass(frozen=True, eq=False)
class Learning:
    """How a ranker learnt.

    Args:
        history: as the training recorded it; empty where the model file does not say.
        curve: the metric over the first rounds, on the data.
        objective_trace: the training objective on the data; None where it cannot be had.
        schedules: parameter -> float64[T], its value in each round of the training.
        best_rounds: that prediction uses.
        trained_rounds: of the training; None where the file does not say.
        negligible: the loss that does not matter.
        notes: what is missing, and why.
        scores: float64[N] of the whole model, in the order of the rows of the data set; None where not all of them
            were walked, or not as the engine adds up.
        begins: what the model of 0 rounds is.
        leaves: int64[R], how many the file of each point of the curve has, a start's too; None where they cannot be
            counted.
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
        """What the first rounds are worth, in a sentence or two."""
        curve = self.curve
        last = curve.rounds.size - 1
        if last < 2:
            return f"The model has {curve.total} round{'s' * (curve.total != 1)}: there is nothing to leave out."
        sure, guess = curve.enough(self.negligible), curve.enough(self.negligible, sure=False)
        at = sure if sure < last else min(guess, last - 1)
        few = (
            f"{curve.rounds[at]:,} of {curve.total:,} rounds" if at else f"0 of {curve.total:,} rounds ({self.begins})"
        )
        text = f"{few} {_change(curve, at)} of {curve.metric}"
        if at == sure:
            text += f"; from there on no 95% interval reaches a loss of {self.negligible:g}."
        elif at == guess:
            text += f": less than {self.negligible:g} lost in the mean, but these queries are too few to be sure."
        else:
            text = f"Every round counts: {text}."
        better = np.flatnonzero(curve.lost_high[:-1] < -self.negligible)
        if better.size:
            best = int(better[np.argmin(curve.lost[better])])
            text += (
                f" Fewer rounds rank better: {curve.rounds[best]:,} of them {_change(curve, best)}, though picked on "
                "these very queries."
            )
        return text

    def history_frame(self) -> Any:
        """A pandas data frame, a row for each round, data set and metric.

        Raises:
            MissingDependency: there is no pandas.
        """
        rows = [
            {"dataset": h.dataset, "metric": h.metric, "round": r, "value": v}
            for h in self.history
            for r, v in zip(h.rounds.tolist(), h.values.tolist(), strict=True)
        ]
        return pandas().DataFrame(rows, columns=["dataset", "metric", "round", "value"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: what is not a number is None."""
        parts = {
            "summary": self.summary(),
            "history": [vars(history) for history in self.history],
            "prefixes": vars(self.curve),
            "objective": None if self.objective_trace is None else self.objective_trace.to_dict(),
        }
        names = ("schedules", "best_rounds", "trained_rounds", "negligible", "notes", "begins")
        return dict(jsonable(parts | {name: getattr(self, name) for name in names}))


def learning(
    model: RankingModel,
    data: RankingDataset,
    *,
    metric: Metric | str = "ndcg@10",
    conventions: Conventions | str = "default",
    documents: int | None = None,
    negligible: float = 0.001,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Learning:
    """How a ranker learnt.

    Args:
        model: ours, or one that LightGBM or XGBoost made.
        data: labelled queries.
        metric: with one cut-off.
        negligible: a loss of the metric that does not matter.
        conventions, documents, seed, threads, progress: as for `boostrank.report.report`.

    Raises:
        ParameterError: a metric with several cut-offs, a number out of range.
        DataError: features that are not the model's; no query that counts.
        ModelError: the average of several models, whose rounds stand one model after another.
    """
    if model.info.averaged:
        raise ModelError(
            f"the model is the average of {len(model.info.averaged)}, whose rounds stand one model after another: what "
            "fewer trees are worth is in its record, under 'price'"
        )
    one = Metric.of(metric)
    if len(one.cutoffs) > 1:
        raise ParameterError(f"{one} has several cut-offs: a curve is of one, such as {one.names[0]}")
    if not negligible >= 0.0 or (documents is not None and documents < 0):
        raise ParameterError("negligible and documents must be 0 or more")
    workers = resolve_threads(threads)
    model, data = model.over_columns(data)
    rules = Conventions.of(conventions).over(data.labels)
    trees = model.trees()
    _, by = scorer_of(model, trees, data, workers)
    wanted = affordable(model, trees, by == "walk") if documents is None else documents or data.n_documents
    part = data.sample(wanted, seed)
    objective, why_not = objective_of(model, workers)
    asked = np.zeros(0, np.int64)
    if objective is not None:
        most = _ASKED_DOCUMENTS // POINTS
        if part.n_documents and any(p.spec.quadratic for p in objective.parts):
            a_document = float(np.square(part.queries.sizes.astype(np.float64)).sum()) / part.n_documents
            most = min(most, int(_ASKED_PAIRS / POINTS / max(1.0, a_document)))
        asked = part.queries.sample(max(1, most), seed + 1)
    name = one.names[0]
    walk = staged_scores(model, trees, part, name, rules, by=by, keep=asked, threads=workers, progress=progress)
    notes = [why_not] if why_not else []
    objective_trace, schedules = None, {}
    trained = model.info.trained_rounds
    if objective is not None:
        schedules = schedules_of(objective, objective.total_rounds or trained or model.best_iteration)
        if progress is not None:
            progress("objective", 0, part.n_documents)
        try:
            objective_trace = trace_objective(objective, walk.rounds, walk.kept, part.take(asked), data)
        except BoostrankError as error:
            notes.append(f"The training objective cannot be asked about these data: {error}")
    before = model.info.rounds_before
    history = tuple(
        History(dataset, metric, np.arange(before + 1, before + 1 + len(values)), np.array(values, dtype=np.float64))
        for dataset, metrics in model.evals_result.items()
        for metric, values in metrics.items()
    )
    if not history:
        notes.append("The model file has no record of its training: the curve on these data stands alone.")
    if "dart" in map(str, (model.info.parameters or {}).values()):
        notes.append("DART rescaled earlier trees by later ones: a prefix is no model that the training ever saw.")
    return Learning(
        history=history, curve=staged_metric(walk, name, part, data.n_documents, seed=seed),
        objective_trace=objective_trace, schedules=schedules, best_rounds=model.best_iteration, trained_rounds=trained,
        negligible=negligible, notes=tuple(notes), scores=walk.scores if part is data and trees.double else None,
        begins=_beginning(trees, by, rules), leaves=_leaves(model, trees, walk.rounds),
    )  # fmt: skip


def _leaves(model: RankingModel, trees: Trees, rounds: Int64Array) -> Int64Array | None:
    if trees.forest is None or not trees.count:
        return None
    of_tree = np.bincount(trees.forest.leaf_trees(), minlength=trees.count)
    start = 0
    if trees.forest.start is not None:  # its trees are curves to the walker
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
    return f"all documents tied, which the conventions order by ties={rules.ties}"


def _change(curve: StagedMetric, at: int) -> str:
    """`lose 0.0004 [0.0001, 0.0007]`, or what they gain."""
    amount = amount_with_interval(curve.lost[at], curve.lost_low[at], curve.lost_high[at])
    return f"{'lose' if curve.lost[at] >= 0.0 else 'gain'} {amount}"
