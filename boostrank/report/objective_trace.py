"""Trace of the training objective: its loss and gradient on data, at several rounds of a training.

The objective is rebuilt from the model's record and bound to these data. At round r it is evaluated at the scores of
the first r trees, with the parameters of round r.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from boostrank.core.errors import BoostrankError
from boostrank.core.types import Float64Array, Int64Array, Schedule
from boostrank.data.dataset import RankingDataset
from boostrank.model.ranking_model import RankingModel
from boostrank.objective.description import TrainingObjective, value_at
from boostrank.objective.mixture import MIX, objective_from_dict
from boostrank.report.result import Columns, Result, joined
from boostrank.report.segments import Segmentation, by_length, by_value

# With more distinct labels, labels are not grades, and a bar each would be unreadable.
_MOST_GRADES = 12


@dataclass(frozen=True, eq=False, repr=False)
class ObjectiveTrace(Result):
    """Result of `trace_objective`.

    Args:
        losses: columns by component of the objective and point: mean loss per query with the parameters of the last
            round, its standard error over queries, and the queries with a zero gradient. Smaller losses are better.
        gradient: columns by point and part of the data (by grade, by list length): share of the documents, share of the
            sum of |gradient|, NaN if it is 0, and its standard error over queries.
        queries, documents: size of the sample.
        all_queries, all_documents: size of the data.
    """

    objective: str
    losses: Columns
    gradient: Columns
    queries: int
    documents: int
    all_queries: int
    all_documents: int

    TABLES: ClassVar = {"objective": attrgetter("losses"), "gradient": attrgetter("gradient")}


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
    """Evaluate the objective at the scores after each number of rounds, float64[R, N]."""
    last = max(0, int(rounds[-1]) - 1)
    bound = objective.bind(data.labels, data.queries)
    # Each round draws new noise: the loss varies even at fixed scores and parameters.
    noisy = any(p.options.get("score_noise", "none") != "none" or "noise" in p.params for p in objective.parts)
    alone = len(objective.parts) == 1 and not noisy and not schedules_of(objective, 1)
    # Evaluate components of a mixture separately: the mixture rescales its loss every round.
    bounds = {part.name: bound if alone else part.bind(data.labels, data.queries) for part in objective.parts}
    # Parts of the documents: grades, and list lengths that occur.
    lengths = by_length(data.queries)
    held, at = np.unique(lengths.of_query, return_inverse=True)
    names = tuple(lengths.names[i] for i in held.tolist())
    of_length = Segmentation(lengths.kind, names, np.repeat(at.astype(np.int64), data.queries.sizes))
    cuts = [by_value("grade", data.labels, _MOST_GRADES), of_length]
    losses: dict[str, list[dict[str, Any]]] = {name: [] for name in bounds}
    gradient: list[Columns] = []
    for i, r in enumerate(rounds.tolist()):
        # The first round would reject a gradient of zeros.
        found = bound.gradient(scores[i], max(1, min(r, last)))
        size = np.abs(found.grad.astype(np.float64))
        for name, one in bounds.items():
            stats = (found if alone else one.gradient(scores[i], max(1, last))).stats
            count = one.losses.size
            error = float(np.std(one.losses, ddof=1)) / np.sqrt(count) if count > 1 else np.nan
            row = {"rounds": r, "objective": name, "loss": stats.loss / count, "loss_error": error}
            losses[name].append(row | {"dead_queries": found.stats.dead_queries})
        gradient += [{"rounds": [r] * len(cut.names)} | _shares(cut, size, data) for cut in cuts]
    rows = [row for of_part in losses.values() for row in of_part]
    sizes = (len(data.queries), data.n_documents, len(whole.queries), whole.n_documents)
    return ObjectiveTrace(
        objective.name, {key: [row[key] for row in rows] for key in rows[0]}, joined(gradient), *sizes
    )


def _shares(cut: Segmentation, size: Float64Array, data: RankingDataset) -> Columns:
    """Return each part's share of the sum of |gradient|, with the standard error of a ratio estimator over queries."""
    count, owner = len(cut.names), data.queries.of_rows()
    flat = np.bincount(owner * count + cut.of_query, size, len(data.queries) * count)
    of_query = flat.reshape(len(data.queries), count)
    total = float(of_query.sum()) or np.nan
    share = of_query.sum(axis=0) / total
    residual = of_query - of_query.sum(axis=1, keepdims=True) * share
    documents = np.bincount(cut.of_query, minlength=count) / max(1, cut.of_query.size)
    named = {"by": [cut.kind] * count, "part": cut.names, "documents": documents}
    return named | {"share": share, "error": np.sqrt(np.square(residual).sum(axis=0)) / total}
