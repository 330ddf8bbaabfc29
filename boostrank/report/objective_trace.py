"""Trace of the training objective on data at several points of a training: its loss, where its gradient pulls, and
which queries it no longer sees.

The objective is made again from what the model's sidecar says, bound to these data, and asked at the scores of the
first r trees with its parameters as they were in round r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from boostrank.core.errors import BoostrankError, TrainingError
from boostrank.core.types import Float64Array, Int64Array, Schedule
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.description import TrainingObjective, value_at
from boostrank.objective.mixture import MIX, objective_from_dict
from boostrank.report.result import Result, plain
from boostrank.report.segments import Segmentation, by_length, by_value

# More grades than this are no grades: a bar each would say nothing.
_MOST_GRADES = 12


@dataclass(frozen=True, eq=False)
class GradientShares:
    """How the size of the gradient is spread.

    Args:
        kind: over what ("grade").
        names: of the G parts.
        documents: float64[G], the share of the documents in each.
        share: float64[R, G], the share of the sum of |gradient|; NaN where there is none at all.
        error: float64[R, G], its standard error over queries.
    """

    kind: str
    names: tuple[str, ...]
    documents: Float64Array
    share: Float64Array
    error: Float64Array

    def rows(self, rounds: Int64Array) -> list[dict[str, Any]]:
        """Return a row for each point and part."""
        return [
            {"rounds": r, "by": self.kind, "part": name, "documents": held, "share": share, "error": error}
            for r, shares, errors in zip(rounds.tolist(), self.share.tolist(), self.error.tolist(), strict=True)
            for name, held, share, error in zip(self.names, self.documents.tolist(), shares, errors, strict=True)
        ]


@dataclass(frozen=True, eq=False, repr=False)
class ObjectiveTrace(Result):
    """The training objective on data, at the scores of the first rounds of a model.

    Args:
        objective: what it is called.
        rounds: int64[R].
        loss: part of the objective -> float64[R], mean loss a query, with the parameters of the last round; one part
            unless it is a mixture. Less is better, and 0 means nothing in particular.
        loss_error: likewise, its standard error over queries.
        ran: float64[R], the same with the parameters that each round had; None for a mixture, whose parts are
            rescaled in every round, and where no parameter changes.
        ran_error: likewise, its standard error.
        dead: int64[R], queries without any gradient.
        alike: of those at the last point, queries whose documents have one label, so that there is nothing to learn.
        by_grade, by_length: where the gradient is.
        queries, documents: these are of; of
        all_queries, all_documents: in the data.
    """

    objective: str
    rounds: Int64Array
    loss: Mapping[str, Float64Array]
    loss_error: Mapping[str, Float64Array]
    ran: Float64Array | None
    ran_error: Float64Array | None
    dead: Int64Array
    alike: int
    by_grade: GradientShares
    by_length: GradientShares
    queries: int
    documents: int
    all_queries: int
    all_documents: int

    TABLES: ClassVar = {
        "objective": lambda self: {
            "rounds": [r for _ in self.loss for r in self.rounds],
            "objective": [name for name in self.loss for _ in self.rounds],
            "loss": [loss for losses in self.loss.values() for loss in losses],
            "loss_error": [error for name in self.loss for error in self.loss_error[name]],
            "dead_queries": [dead for _ in self.loss for dead in self.dead],
        },
        "gradient": lambda self: {
            name: [one[name] for part in (self.by_grade, self.by_length) for one in part.rows(self.rounds)]
            for name in ("rounds", "by", "part", "documents", "share", "error")
        },
    }

    def to_dict(self) -> dict[str, Any]:
        """Return data for JSON."""
        named = {"name": self.objective, "rounds": self.rounds, "loss": self.loss, "loss_error": self.loss_error}
        counts = {"loss as it ran": self.ran, "dead queries": self.dead, "dead queries of one label": self.alike}
        shares = {"by grade": self.by_grade, "by list length": self.by_length}
        of_part = {by: {name: v for name, v in vars(one).items() if name != "kind"} for by, one in shares.items()}
        sizes = ("queries", "documents", "all_queries", "all_documents")
        return dict(plain(named | counts | of_part | {name: getattr(self, name) for name in sizes}))


def objective_of(model: RankingModel, threads: int | None = None) -> tuple[TrainingObjective | None, str]:
    """The objective that a model was trained with, and where it cannot be had, why."""
    recorded = model.info.get("objective")
    if not recorded:
        return None, "The model file does not say what it was trained with."
    name = str(recorded.get("name", "of no name"))
    if ":" in name:
        return None, f"It was trained with {name}, an objective of the engine's own, which does not tell its loss."
    if name == "custom":
        return None, "It was trained with a function of its author's own, which is not in the file."
    try:
        objective = objective_from_dict(recorded)
    except BoostrankError as error:
        return None, f"Its objective cannot be made again from the file: {error}"
    if objective.needs_total and objective.total_rounds is None:
        return None, f"The file does not say how long the whole training was, which {name} depends on."
    for one in (objective, *objective.parts):
        one.threads = threads
    return objective, ""


def schedules_of(objective: TrainingObjective, rounds: int) -> dict[str, Float64Array]:
    """Every parameter that changes with the round -> float64[rounds], as it was in each.

    Args:
        objective: knows how long the training is.
        rounds: how many.
    """
    found: dict[str, Float64Array] = {}
    if isinstance(mix := getattr(objective, "mix", None), Schedule):
        found["mix"] = np.array([value_at(MIX, mix, r, objective) for r in range(rounds)], dtype=np.float64)
    several = len(objective.parts) > 1
    for part in objective.parts:
        changing = [name for name, value in (part.params | part.options).items() if isinstance(value, Schedule)]
        if not changing:
            continue
        every = [part.values(r) | part.option_values(r) for r in range(rounds)]
        for name in changing:
            key = f"{part.name}: {name}" if several else name
            found[key] = np.array([values[name] for values in every], dtype=np.float64)
    return found


def trace_objective(
    objective: TrainingObjective, rounds: Int64Array, scores: Float64Array, data: RankingDataset, whole: RankingDataset
) -> ObjectiveTrace:
    """The objective at each of these scores.

    Args:
        objective: knows how long the training is.
        rounds: int64[R], ascending.
        scores: float64[R, N], of the first so many rounds each.
        data: of these N documents; the whole data set or a sample of
        whole: the data set.

    Raises:
        BoostrankError: labels that its gain cannot take, lists too long for its pair loop.
    """
    last = max(0, int(rounds[-1]) - 1)
    bound = objective.bind(data.labels, data.queries)
    several = len(objective.parts) > 1
    # Noise is drawn anew in every round: the loss changes at the same scores and parameters.
    noisy = any(p.options.get("score_noise", "none") != "none" or "noise" in p.params for p in objective.parts)
    changes = noisy or bool(schedules_of(objective, 1))
    lengths = by_length(data.queries)
    held, at = np.unique(lengths.of_query, return_inverse=True)
    of_length = np.repeat(at.astype(np.int64), data.queries.sizes)
    cuts = [
        by_value("grade", data.labels, _MOST_GRADES),
        Segmentation(lengths.kind, tuple(lengths.names[i] for i in held.tolist()), of_length),
    ]
    dead = np.zeros(rounds.size, np.int64)
    sizes = np.zeros((rounds.size, data.n_documents))  # of the gradient
    # Mean and its standard error.
    ran = np.full((2, rounds.size), np.nan)
    parts = {part.name: np.full((2, rounds.size), np.nan) for part in objective.parts}
    # A part of a mixture is asked by itself: the mixture's own loss is rescaled in every round.
    bounds = {part.name: part.bind(data.labels, data.queries) for part in objective.parts} if several or changes else {}
    found = None
    for i, r in enumerate(rounds.tolist()):
        try:
            found = bound.gradient(scores[i], min(r, last))
        except TrainingError:
            if min(r, last):
                raise
            # Without trees every score is the same, where some objectives pull nowhere at all.
            dead[i] = len(data.queries)
            continue
        dead[i], sizes[i] = found.stats.dead_queries, np.abs(found.grad.astype(np.float64))
        if not several:
            ran[:, i] = _mean_loss(bound.losses, found.stats.loss)
        for name, one in bounds.items():
            # In a round other than the first, which would refuse a gradient that is zero everywhere.
            loss = one.gradient(scores[i], max(1, last)).stats.loss
            parts[name][:, i] = _mean_loss(one.losses, loss)
    if not bounds:
        parts = dict.fromkeys(parts, ran)
    # Queries without gradient and of one label.
    owner = data.queries.of_rows()
    gradient = np.zeros(data.n_documents) if found is None else found.grad
    either = (gradient != 0.0) | (data.labels != data.labels[data.queries.ptr[owner]])
    alike = int(np.count_nonzero(np.bincount(owner, either, len(data.queries)) == 0))
    by_grade, by_length_ = (_gradient_shares(cut, sizes, data) for cut in cuts)
    as_ran = ran if bounds and not several else (None, None)
    return ObjectiveTrace(
        objective=objective.name,
        rounds=rounds,
        loss={name: losses[0] for name, losses in parts.items()},
        loss_error={name: losses[1] for name, losses in parts.items()},
        ran=as_ran[0],
        ran_error=as_ran[1],
        dead=dead,
        alike=alike,
        by_grade=by_grade,
        by_length=by_length_,
        queries=len(data.queries),
        documents=data.n_documents,
        all_queries=len(whole.queries),
        all_documents=whole.n_documents,
    )


def _mean_loss(losses: Float64Array, total: float) -> tuple[float, float]:
    """Mean and its standard error, from the weighted loss of each query; the weights have mean 1."""
    count = losses.size
    return total / count, float(np.std(losses, ddof=1)) / np.sqrt(count) if count > 1 else np.nan


def _gradient_shares(cut: Segmentation, sizes: Float64Array, data: RankingDataset) -> GradientShares:
    """As `_shares` at each point; `sizes` is float64[R, N]."""
    documents = np.bincount(cut.of_query, minlength=len(cut.names)) / max(1, cut.of_query.size)
    share, error = (np.array(one) for one in zip(*(_shares(cut, size, data) for size in sizes), strict=True))
    return GradientShares(cut.kind, cut.names, documents, share, error)


def _shares(cut: Segmentation, size: Float64Array, data: RankingDataset) -> tuple[Float64Array, Float64Array]:
    """The share of each part in the sum of |gradient|, and its standard error as that of a ratio of sums over queries.

    Args:
        cut: of documents, not of queries.
        size: float64[N], |gradient|.
        data: of these documents.
    """
    count, owner = len(cut.names), data.queries.of_rows()
    flat = np.bincount(owner * count + cut.of_query, size, len(data.queries) * count)
    of_query = flat.reshape(len(data.queries), count)
    total = float(of_query.sum())
    if not total:
        return np.full(count, np.nan), np.full(count, np.nan)
    share = of_query.sum(axis=0) / total
    residual = of_query - of_query.sum(axis=1, keepdims=True) * share
    return share, np.sqrt(np.square(residual).sum(axis=0)) / total
