"""The gradient and the metrics in each round, both built-in and user-defined, with validation and
timing.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from boostrank.core.errors import (
    DataError,
    ModelError,
    ParameterError,
    TrainingError,
    TrainingWarning,
    warn_user,
)
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float32Array, Float64Array
from boostrank.engines.trees import in_range
from boostrank.fit.settings import LOSS
from boostrank.kernels.driver import AllReduce, PassStats, alone
from boostrank.kernels.jit import CompiledFunction
from boostrank.metrics import BoundMetrics, Metric
from boostrank.objective.bound import BoundObjective, Gradient
from boostrank.objective.description import TrainingObjective

if TYPE_CHECKING:
    from boostrank.fit.plan import Training

_STANDSTILL_ROUNDS = 3
LabelsOf = Callable[[Any], tuple[Array, QueryIndex]]
"""A function that returns the labels and queries of an engine's data set."""


class GuardedGradient:
    """A function that computes a valid gradient and Hessian from (scores, engine's data set,
    round).

    Args:
        bound: one of boostrank's objectives, or None if `function` is given.
        function: a user-defined objective, called with (scores, engine's data set).
    """

    def __init__(
        self, bound: BoundObjective | None, function: Any = None, all_reduce: AllReduce = alone
    ) -> None:
        self._bound, self._function, self._all_reduce = bound, function, all_reduce
        self.seconds = 0.0
        self.stats: PassStats | None = None
        self._previous: Array | None = None
        self._still, self._round = 0, 0
        self._of_set: dict[int, BoundObjective] = {}

    def __call__(self, scores: Array, dataset: Any, round: int) -> tuple[Any, Any]:
        self._watch(scores, round)
        self._round = round
        started = time.perf_counter()
        try:
            if self._bound is None:
                return _checked(self._function(scores, dataset), scores.size, round)
            gradient = self._bound.gradient(scores, round, loss=False)
            self.stats = gradient.stats
            return gradient.grad, gradient.hess
        finally:
            self.seconds += time.perf_counter() - started

    def evaluate(self, scores: Array, dataset: Any, round: int) -> Gradient:
        """Evaluate boostrank's objective without scaling; not available for a user-defined
        function.
        """
        started = time.perf_counter()
        assert self._bound is not None
        self._round = round
        gradient = self._bound.evaluate(scores, round)
        self.stats = gradient.stats
        if round == 0 and gradient.stats.dead_queries == self._bound.total_queries:
            self._bound.check_gains()
        self.seconds += time.perf_counter() - started
        return gradient

    def loss(self, labels_of: LabelsOf, scores: Any, dataset: Any) -> tuple[str, float, bool]:
        """Return the metric `loss`: the mean loss on a data set, with the last round's
        parameters.
        """
        assert self._bound is not None
        bound = self._of_set.get(id(dataset))
        if bound is None:
            bound = self._bound.objective.bind(*labels_of(dataset), self._all_reduce)
            self._of_set[id(dataset)] = bound
        rows = bound.queries.n_documents  # an engine may need a row where there is none
        return LOSS, bound.mean_loss(np.reshape(scores, -1)[:rows], self._round), False

    def _watch(self, scores: Array, round: int) -> None:
        """Warn if trees have stopped changing the scores; the engines continue silently."""
        previous, self._previous = self._previous, np.array(scores)
        if previous is None:
            if not in_range(scores):
                raise ModelError(
                    "the initial scores are not finite: leaves or weights of the model to continue"
                    " are too large"
                )
            return
        has_changed = False
        if previous.size:
            # Bounds of the scores, without copies of up to 10^8 of them.
            largest = max(float(previous.max()), -float(previous.min()))
            step = np.subtract(self._previous, previous, out=previous)
            low, high = float(step.min()), float(step.max())
            rounding = 4 * float(np.finfo(step.dtype).eps) * largest
            has_changed = high - low > 1e-6 * max(high, -low) + rounding
        # With several processes, the queries of one may all lie in a single leaf of a larger tree.
        self._still = 0 if self._all_reduce(np.array([float(has_changed)]))[0] else self._still + 1
        if self._still == _STANDSTILL_ROUNDS:
            cause = (
                "Too few rows for min_data_in_leaf, too large a min_sum_hessian_in_leaf or"
                " min_gain_to_split, or features that do not vary within queries."
            )
            if self.stats and self._bound and self.stats.dead_queries == self._bound.total_queries:
                cause = (
                    "Every query has a zero gradient: the training set is fitted perfectly, or"
                    " sigma is too small."
                )
            trees = f"the last {_STANDSTILL_ROUNDS} trees before round {round} have a single leaf"
            warn_user(f"{trees}: no split was allowed. {cause}", TrainingWarning)


def of_labels(function: Any) -> Any:
    """Mark a function with LGBMRanker's arguments: labels, scores[, weights[, query sizes]].

    Names and boostrank's objectives are returned unchanged.
    """
    if isinstance(function, TrainingObjective | CompiledFunction) or not callable(function):
        return function

    @functools.wraps(function)
    def called(*arguments: Any) -> Any:
        return function(*arguments)

    called.takes_labels = True  # type: ignore[attr-defined]
    return called


def by_arguments(function: Any, labels_of: LabelsOf, what: str) -> Any:
    """Convert a function with either the arguments (scores, data set) or those of LGBMRanker to the
    former.

    The latter are marked by `of_labels`, require over two arguments, or name the first one y_true.
    As in LightGBM, the number of arguments, including those with defaults, decides what they are.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # compiled code
        return function
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [parameter for parameter in parameters if parameter.kind in kinds]
    names = [parameter.name for parameter in positional]
    required = sum(parameter.default is parameter.empty for parameter in positional)
    if not hasattr(function, "takes_labels") and required <= 2 and names[:1] != ["y_true"]:
        return function
    if not 2 <= len(names) <= 4:
        raise ParameterError(
            f"{what}({', '.join(names)}): a function takes (scores, data set) as in lgb.train, or"
            " as in LGBMRanker (labels, scores), (labels, scores, weight) or (labels, scores,"
            " weight, group)"
        )
    optional = names[2:]
    if not set(optional) <= {"weight", "group"}:  # LightGBM 3 passed the group third to objectives
        optional = ["weight", "group"][: len(optional)]

    def called(scores: Array, dataset: Any) -> Any:
        labels, queries = labels_of(dataset)
        weights = None if queries.weights is None else np.repeat(queries.weights, queries.sizes)
        by_name = {"weight": weights, "group": queries.sizes}
        # The function may change its arrays.
        return function(labels.copy(), scores, *[by_name[name] for name in optional])

    return called


def _checked(result: Any, documents: int, round: int) -> tuple[Float32Array, Float32Array]:
    context = f"custom objective, round {round}: "
    if not isinstance(result, tuple | list | np.ndarray) or len(result) != 2:
        kind = type(result).__name__
        raise TrainingError(f"{context}expected (gradient, Hessian), but got {kind}")
    grad, hess = [np.ascontiguousarray(part, dtype=np.float32).reshape(-1) for part in result]
    for name, part, low in (("gradient", grad, -np.inf), ("hessian", hess, 0.0)):
        if part.size != documents:
            raise TrainingError(f"{context}{name} has {part.size} values for {documents} rows")
        bad = np.flatnonzero(~np.isfinite(part) | (part < low))
        if bad.size:
            raise TrainingError(
                f"{context}{name} of row {bad[0]} is {part[bad[0]]}; expected finite numbers, and"
                " Hessians of at least 0"
            )
    return grad, hess


Results = list[tuple[str, float, bool]]
"""Result of a metric: its name, its value, and whether higher is better."""


class RoundMetrics:
    """A function that computes a training's metrics from (scores, engine's data set): those of
    boostrank, user-defined functions, and the objective's loss where it is one of them.
    """

    def __init__(
        self, training: Training, gradient: GuardedGradient | None, labels_of: LabelsOf
    ) -> None:
        self._functions = [by_arguments(feval, labels_of, "feval") for feval in training.feval]
        if training.has_loss and gradient is not None:
            self._functions.append(functools.partial(gradient.loss, labels_of))
        self._training, self._labels_of, self.seconds = training, labels_of, 0.0
        self._bound: dict[int, BoundMetrics] = {}

    def __bool__(self) -> bool:
        return bool(self._training.metrics or self._functions)

    def __call__(self, scores: Array, dataset: Any) -> Results:
        started = time.perf_counter()
        results: Results = []
        if self._training.metrics:
            values = self._values(np.asarray(scores, dtype=np.float64).reshape(-1), dataset)
            metrics = zip(Metric.all_of(self._training.metrics), values.items(), strict=True)
            results += [(name, value, metric.higher_is_better) for metric, (name, value) in metrics]
        for function in self._functions:
            result = function(scores, dataset)
            entries = result if isinstance(result, list) else [result]
            for entry in entries:
                is_triple = isinstance(entry, tuple | list) and len(entry) == 3
                if not is_triple or np.ndim(entry[1]) > 0:
                    raise ParameterError(
                        "feval must return (name, value, higher is better), or a list of these, not"
                        f" {result!r}; with maximize=, (name, value) is enough. Pass a function of"
                        " one query, (labels, scores) -> number, as metric"
                    )
            results += entries
        names = [name for name, *_ in results]
        if len(set(names)) < len(names):
            raise ParameterError(
                f"metrics must have distinct names, not {', '.join(map(str, names))}; rename one"
            )
        self.seconds += time.perf_counter() - started
        return results

    def _values(self, scores: Float64Array, dataset: Any) -> dict[str, float]:
        """Return the values of boostrank's metrics. With several workers, sums of values and
        weights are exchanged.
        """
        labels, queries = self._labels_of(dataset)
        conventions, collective = self._training.conventions, self._training.collective
        bound = self._bound.get(id(dataset))
        if bound is None:
            settings = conventions, self._training.n_threads
            is_partial = not collective.is_alone
            bound = BoundMetrics(
                self._training.metrics, labels, queries, *settings, partial=is_partial
            )
            self._bound[id(dataset)] = bound
        if collective.is_alone:
            return bound.values(scores)
        sums = bound.sums(scores[: labels.size])  # an engine may need a row where there is none
        total = collective.all_reduce(np.array(list(sums.values())).reshape(-1)).reshape(-1, 2)
        values = {}
        for name, (value, weight) in zip(sums, total, strict=True):
            if not weight:
                raise DataError(
                    f"{name}: no query on any worker is included; {conventions.describe()}"
                )
            values[name] = float(value / weight)
        return values
