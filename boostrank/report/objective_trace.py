"""Trace of the training objective: its loss and gradient on data, at several rounds of a training.

The objective is rebuilt from the model's record and bound to these data. At round r it is evaluated at the scores of
the first r trees, with the parameters of round r.
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

# With more distinct labels, labels are not grades, and a bar each would be unreadable.
_MOST_GRADES = 12


@dataclass(frozen=True, eq=False)
class GradientShares:
    """Distribution of the gradient's magnitude over parts of the data.

    Args:
        kind: criterion ("grade").
        documents: float64[G], share of documents in each part.
        share: float64[R, G], share of the sum of |gradient|; NaN if the gradient is 0.
        error: float64[R, G], standard error of `share` over queries.
    """

    kind: str
    names: tuple[str, ...]
    documents: Float64Array
    share: Float64Array
    error: Float64Array

    def rows(self, rounds: Int64Array) -> list[dict[str, Any]]:
        """Return a row per point and part."""
        return [
            {"rounds": r, "by": self.kind, "part": name, "documents": held, "share": share, "error": error}
            for r, shares, errors in zip(rounds.tolist(), self.share.tolist(), self.error.tolist(), strict=True)
            for name, held, share, error in zip(self.names, self.documents.tolist(), shares, errors, strict=True)
        ]


@dataclass(frozen=True, eq=False, repr=False)
class ObjectiveTrace(Result):
    """Result of `trace_objective`.

    Args:
        loss: component -> float64[R], mean loss per query with the parameters of the last round; mixtures have several
            components. Smaller is better; 0 has no special meaning.
        loss_error: component -> float64[R], standard error over queries.
        ran: float64[R], mean loss with each round's own parameters; None for constant parameters, and for mixtures,
            which rescale their components every round.
        ran_error: standard error of `ran`.
        dead: int64[R], queries with a zero gradient.
        alike: dead queries at the last point whose documents have one label: they have nothing to learn.
        by_grade, by_length: distribution of the gradient.
        queries, documents: size of the sample.
        all_queries, all_documents: size of the data.
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
        """Return the result as JSON data."""
        named = {"name": self.objective, "rounds": self.rounds, "loss": self.loss, "loss_error": self.loss_error}
        counts = {"loss as it ran": self.ran, "dead queries": self.dead, "dead queries of one label": self.alike}
        shares = {"by grade": self.by_grade, "by list length": self.by_length}
        of_part = {by: {name: v for name, v in vars(one).items() if name != "kind"} for by, one in shares.items()}
        sizes = ("queries", "documents", "all_queries", "all_documents")
        return dict(plain(named | counts | of_part | {name: getattr(self, name) for name in sizes}))


def objective_of(model: RankingModel, threads: int | None = None) -> tuple[TrainingObjective | None, str]:
    """Return the training objective of a model, or None and the reason."""
    recorded = model.info.get("objective")
    if not recorded:
        return None, "The model file does not name its objective."
    name = str(recorded.get("name", "of no name"))
    if ":" in name:
        return None, f"It was trained with {name}, a built-in objective of the engine, which does not report its loss."
    if name == "custom":
        return None, "It was trained with a custom function, which the file does not contain."
    try:
        objective = objective_from_dict(recorded)
    except BoostrankError as error:
        return None, f"Its objective cannot be rebuilt from the file: {error}"
    if objective.needs_total and objective.total_rounds is None:
        return None, f"The file does not contain the total number of rounds, which {name} depends on."
    for one in (objective, *objective.parts):
        one.threads = threads
    return objective, ""


def schedules_of(objective: TrainingObjective, rounds: int) -> dict[str, Float64Array]:
    """Return parameter -> float64[rounds], for parameters that change between rounds.

    Args:
        objective: an objective with a known training length.
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
    """Evaluate the objective at each of these scores.

    Args:
        objective: an objective with a known training length.
        rounds: int64[R], ascending.
        scores: float64[R, N], scores after each number of rounds.

    Raises:
        BoostrankError: labels that the gain does not support, or lists too long for the pair loop.
    """
    last = max(0, int(rounds[-1]) - 1)
    bound = objective.bind(data.labels, data.queries)
    several = len(objective.parts) > 1
    # Each round draws new noise: the loss varies even at fixed scores and parameters.
    noisy = any(p.options.get("score_noise", "none") != "none" or "noise" in p.params for p in objective.parts)
    changes = noisy or bool(schedules_of(objective, 1))
    # Parts of the documents: grades, and list lengths that occur.
    lengths = by_length(data.queries)
    held, at = np.unique(lengths.of_query, return_inverse=True)
    of_length = np.repeat(at.astype(np.int64), data.queries.sizes)
    cuts = [
        by_value("grade", data.labels, _MOST_GRADES),
        Segmentation(lengths.kind, tuple(lengths.names[i] for i in held.tolist()), of_length),
    ]
    dead = np.zeros(rounds.size, np.int64)
    sizes = np.zeros((rounds.size, data.n_documents))  # |gradient|
    # Mean and its standard error.
    ran = np.full((2, rounds.size), np.nan)
    parts = {part.name: np.full((2, rounds.size), np.nan) for part in objective.parts}
    # Evaluate components of a mixture separately: the mixture rescales its loss every round.
    bounds = {part.name: part.bind(data.labels, data.queries) for part in objective.parts} if several or changes else {}
    # Evaluate loss and gradient at each point.
    found = None
    for i, r in enumerate(rounds.tolist()):
        try:
            found = bound.gradient(scores[i], min(r, last))
        except TrainingError:
            if min(r, last):
                raise
            # Without trees all scores are equal, and some objectives have a zero gradient there.
            dead[i] = len(data.queries)
            continue
        dead[i], sizes[i] = found.stats.dead_queries, np.abs(found.grad.astype(np.float64))
        if not several:
            ran[:, i] = _mean_loss(bound.losses, found.stats.loss)
        for name, one in bounds.items():
            # The first round would reject a gradient of zeros.
            loss = one.gradient(scores[i], max(1, last)).stats.loss
            parts[name][:, i] = _mean_loss(one.losses, loss)
    if not bounds:
        parts = dict.fromkeys(parts, ran)
    # Count queries without gradient whose documents have one label.
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
    """Return the mean loss and its standard error, from weighted losses per query; weights have mean 1."""
    count = losses.size
    return total / count, float(np.std(losses, ddof=1)) / np.sqrt(count) if count > 1 else np.nan


def _gradient_shares(cut: Segmentation, sizes: Float64Array, data: RankingDataset) -> GradientShares:
    """Apply `_shares` to each row of float64[R, N]."""
    documents = np.bincount(cut.of_query, minlength=len(cut.names)) / max(1, cut.of_query.size)
    share, error = (np.array(one) for one in zip(*(_shares(cut, size, data) for size in sizes), strict=True))
    return GradientShares(cut.kind, cut.names, documents, share, error)


def _shares(cut: Segmentation, size: Float64Array, data: RankingDataset) -> tuple[Float64Array, Float64Array]:
    """Return each part's share of the sum of |gradient|, with the standard error of a ratio estimator over queries."""
    count, owner = len(cut.names), data.queries.of_rows()
    flat = np.bincount(owner * count + cut.of_query, size, len(data.queries) * count)
    of_query = flat.reshape(len(data.queries), count)
    total = float(of_query.sum())
    if not total:
        return np.full(count, np.nan), np.full(count, np.nan)
    share = of_query.sum(axis=0) / total
    residual = of_query - of_query.sum(axis=1, keepdims=True) * share
    return share, np.sqrt(np.square(residual).sum(axis=0)) / total
