"""Losses and derivatives of an objective at any scores, for research."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, as_numbers
from boostrank.data.dataset import as_dataset
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.objective.description import Objective, TrainingObjective
from boostrank.objective.mixture import parse_objective


@dataclass(frozen=True, eq=False)
class ObjectiveValues:
    """An objective at some scores, in float64 and unscaled.

    All values are multiplied by the query weights, which are divided by their mean.

    Args:
        losses: float64[Q].
        gradients: float64[N], derivative of the sum of losses by each score, in input order.
        hessians: float64[N], curvature by each score, in input order.

    Example:
        >>> import boostrank
        >>> values = boostrank.objective_values("listnet", [0, 1], [0.0, 0.0], [2])
        >>> values.losses.shape, values.gradients.shape, values.hessians.tolist()
        ((1,), (2,), [0.25, 0.25])
    """

    losses: Float64Array
    gradients: Float64Array
    hessians: Float64Array

    def __repr__(self) -> str:
        return (
            f"ObjectiveValues({self.gradients.size:,} documents, {self.losses.size:,} queries,"
            f" mean loss {self.losses.mean():.6g})"
        )


def objective_values(
    objective: Any,
    data: Any,
    scores: ArrayLike,
    queries: QueryIndex | ArrayLike | None = None,
    *,
    round: int = 0,
) -> ObjectiveValues:
    """Compute the loss of each query, and its derivatives by each score.

    Args:
        objective: a name or a text such as "shf-sdcg(sigma=0.5)", an `Objective`, a `Mixture`, or
            your own objective from `boostrank.define_objective`. A balanced mixture divides by the
            gradients on these data.
        data: `RankingDataset` or `lgb.Dataset`; or labels, float[N].
        scores: float[N], in input order.
        queries: for labels: a `QueryIndex`, one query id per row (a query's rows are contiguous),
            or group sizes.
        round: round for schedules and random numbers, from 0. A schedule over the whole training
            needs an `Objective` with `total_rounds`.

    Raises:
        ParameterError: an unknown objective or parameter, labels without `queries`, or a schedule
            without a length.
        DataError: labels that the gain does not support, or lengths that differ.
        TrainingError: scores or results that are not finite.

    Example:
        >>> import boostrank
        >>> values = boostrank.objective_values("ranknet", [2, 0, 1], [0.0, 0.0, 0.0], [3])
        >>> values.losses.round(3).tolist(), values.gradients.tolist()
        ([2.079], [-1.0, 1.0, 0.0])
    """
    if isinstance(objective, ObjectiveSpec):
        objective = Objective(objective)
    if not isinstance(objective, TrainingObjective):
        objective = parse_objective(str(objective))
    score_numbers = as_numbers(scores, "scores")
    if queries is not None:
        labels = as_numbers(data, "labels")
        bound = objective.bind(labels, QueryIndex.of(queries, labels.size))
        gradient = bound.evaluate(score_numbers, round)
        return ObjectiveValues(gradient.losses, gradient.grad, gradient.hess)
    dataset = as_dataset(data, "data without queries")
    if score_numbers.size != dataset.n_documents:
        raise DataError(
            f"there are {score_numbers.size} scores for {dataset.n_documents} documents"
        )
    bound = objective.bind(dataset.labels, dataset.queries)
    gradient = bound.evaluate(dataset.in_row_order(score_numbers), round)
    in_input_order = map(dataset.in_input_order, (gradient.grad, gradient.hess))
    return ObjectiveValues(gradient.losses, *in_input_order)
