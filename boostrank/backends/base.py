"""What an engine must do, and what passes between it and the trainer.

Callbacks are LightGBM's: callables that take a `CallbackEnv`, with `order` and `before_iteration`, that may raise an
exception with `best_iteration` and `best_score` to stop. Both engines call them, so `lgb.early_stopping`,
`lgb.log_evaluation`, `lgb.record_evaluation` and `lgb.reset_parameter` work on either.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.dataset import Features, RankingDataset
from boostrank.kernels.trees.curves import Curve

if TYPE_CHECKING:
    from boostrank.backends.snapshot import Resumed, Snapshot
    from boostrank.objective.bound import Evaluation
    from boostrank.objective.description import TrainingObjective


class EvalResult(NamedTuple):
    """One metric on one data set; the same fields, in the same order, as LightGBM's."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool
    metric_std_dev: float | None = None

    def is_cv_result(self) -> bool:
        """Whether it stands for several folds; never, here. LightGBM's callbacks ask."""
        return False


@dataclass
class CallbackEnv:
    """What a callback sees; the same fields as LightGBM's.

    Args:
        model: the booster (LightGBM) or a stand-in with `reset_parameter` (XGBoost).
        params: engine parameters, in LightGBM's names.
        iteration: 0-based round, earlier rounds of a continued model included.
        begin_iteration, end_iteration: first round of this training, and one past its last.
        evaluation_result_list: metrics after this round; None before it.
    """

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[Any] | None


def beginning_at(env: Any, round: int) -> Any:
    """The same environment, ours or LightGBM's of any version, of a training that began in this round."""
    return _changed(env, begin_iteration=round)


def later(env: Any, rounds: int) -> Any:
    """The same environment with every round counted from another one."""
    names = ("iteration", "begin_iteration", "end_iteration")
    return _changed(env, **{name: getattr(env, name) + rounds for name in names})


def _changed(env: Any, **fields: Any) -> Any:
    if dataclasses.is_dataclass(env) and not isinstance(env, type):
        return dataclasses.replace(env, **fields)
    return env._replace(**fields)


class StopTraining(Exception):
    """Raised by a callback to end training in good order.

    Args:
        best_iteration: 0-based round of the model to use.
        best_score: metrics at that round.
    """

    def __init__(self, best_iteration: int, best_score: Sequence[Any] = ()) -> None:
        super().__init__(best_iteration)
        self.best_iteration, self.best_score = best_iteration, list(best_score)


Callback = Callable[[Any], None]
GradientFunction = Callable[[npt.NDArray[Any], Any, int], tuple[Any, Any]]
"""(scores, engine's data set, round) -> gradient and hessian, float32[N]."""
MetricFunction = Callable[[npt.NDArray[Any], Any], list[tuple[str, float, bool]]]
"""(scores, engine's data set) -> (metric, value, higher is better), as LightGBM's `feval` returns them."""


EvaluateFunction = Callable[[npt.NDArray[Any], Any, int], "Evaluation"]
"""(scores, engine's data set, round) -> our objective there, in float64 and on no engine's scale."""


@dataclass(frozen=True, eq=False)
class LinearStart:
    """A linear ranker that trees begin with: its score is the sum of a function of each feature.

    Args:
        feature_names: d names.
        curves: column -> its function; other columns add nothing.
    """

    feature_names: tuple[str, ...]
    curves: Mapping[int, Curve]


@dataclass
class TrainRequest:
    """Everything an engine needs for one training.

    Args:
        params: engine parameters in LightGBM's names (or the engine's own).
        train: training data in the engine's own form, from `Backend.dataset`.
        valid: names and data sets to evaluate after each round; may hold `train` itself.
        rounds: rounds to add.
        gradient: our objective, or None to use `native_objective`.
        native_objective: name of one of the engine's own objectives.
        metrics: evaluated on every member of `valid`, in order.
        init_model: booster to continue, or None.
        start_scores: float64[N], what the training rows begin with in the place of what `init_model` says of them.
        callbacks: LightGBM-style callbacks.
        keep_training_booster: as in `lgb.train`.
        own_datasets: whether the data sets came from `Backend.dataset`, and not from the user.
        resumed: a training that stopped, to go on with; `rounds` are still all that it was to have.
        objective, evaluate: our objective and its losses, for a backend that compares those; None without one.
    """

    params: dict[str, Any]
    train: Any
    valid: list[tuple[str, Any]]
    rounds: int
    gradient: GradientFunction | None
    native_objective: str | None
    metrics: list[MetricFunction]
    init_model: Any = None
    start_scores: Float64Array | None = None
    callbacks: list[Callback] = field(default_factory=list)
    keep_training_booster: bool = False
    own_datasets: bool = True
    resumed: Resumed | None = None
    objective: TrainingObjective | None = None
    evaluate: EvaluateFunction | None = None


class Backend(Protocol):
    """One engine: trees, or linear models."""

    name: str
    version: str
    objective_params: frozenset[str]
    """Parameters that only the engine's own objectives read."""
    objective_defaults: Mapping[str, Mapping[str, Any]]
    """Objective -> parameters that are otherwise here than the objective says, unless they are given."""

    def check_params(self, params: dict[str, Any]) -> None:
        """Refuse unknown parameters, and those that contradict what boostrank does."""
        ...

    def is_native_dataset(self, data: Any) -> bool:
        """Whether this is the engine's own kind of data set."""
        ...

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        """The engine's own form of a data set.

        Args:
            data: rows, labels, queries.
            params: engine parameters (binning depends on them).
            reference: the training set in the engine's form, for a validation set.
            weights: whether the engine shall know the query weights (its own objectives need them; with ours the
                driver applies them).
        """
        ...

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        """Train; returns the booster and its best number of rounds (0: all of them)."""
        ...

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        """What in these parameters keeps a training from being resumed exactly, in words; None if nothing."""
        ...

    def snapshot(self, model: Any) -> Snapshot:
        """A training after a round.

        Args:
            model: what its callbacks find as `model`.
        """
        ...

    def rounds_of(self, booster: Any) -> int:
        """Rounds a booster holds."""
        ...

    def load_booster(self, model: Any) -> Any:
        """The booster that users hand over to continue; files come through `RankingModel.load`, which checks them."""
        ...

    def begin_with(self, start: LinearStart) -> Any:
        """A booster of no rounds that scores as a linear ranker does, for training to continue.

        Raises:
            ParameterError: this engine's files cannot hold one.
        """
        ...

    def with_queries(self, booster: Any, features: Features, queries: QueryIndex | None) -> Features:
        """Features as `predict` and `contributions` take them, where a model looks at whole queries.

        Raises:
            DataError: it does, and nobody knows them.
        """
        ...

    def predict(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        """Raw scores, float64[N], by the first `rounds` rounds (0: all).

        Args:
            booster, features: the model and float32[N, d].
            rounds: at most as many as there are.
            threads: at least 1.
            absent_is_missing: what a sparse row does not name is missing and not zero, if the engine can tell.
        """
        ...

    def contributions(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> Float64Array:
        """What each feature adds to each score, float64[N, d+1], and the score of no feature last (TreeSHAP).

        Arguments as for `predict`, whose scores are the sums of the rows; the features not on disk.
        """
        ...

    def to_bytes(self, booster: Any, *, rounds: int) -> bytes:
        """The model file (plain LightGBM text, XGBoost JSON) of the first `rounds` rounds (0: all)."""
        ...

    def from_bytes(self, data: bytes) -> Any:
        """The booster in a model file whose structure has been checked."""
        ...

    def feature_names(self, booster: Any) -> tuple[str, ...]:
        """Names of the features, in column order."""
        ...


def engine_names(names: Sequence[str]) -> tuple[str, ...]:
    """Feature names that both engines take, as near to the real ones as can be: `price [EUR]` becomes `price__EUR_`.

    LightGBM refuses the characters of JSON and changes blanks, XGBoost refuses brackets and `<`. The model keeps the
    real names.
    """
    safe = [re.sub(r"[\s\[\]{}\",:<>]", "_", name) for name in names]
    taken: dict[str, int] = {}
    for i, name in enumerate(safe):
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            safe[i] = f"{name}.{i}"
    return tuple(safe)


def dense_batches(features: Features, batch_bytes: int = 16 << 20) -> list[tuple[int, int]]:
    """Row ranges whose dense float32 form takes about `batch_bytes` each."""
    rows, columns = features.shape
    step = max(1, batch_bytes // max(1, 4 * columns))
    return [(a, min(a + step, rows)) for a in range(0, rows, step)]


def dense_rows(features: Features, start: int, stop: int) -> npt.NDArray[np.float32]:
    """Some rows as a dense float32 array; what a sparse row does not name is zero."""
    part = features[start:stop]
    return np.ascontiguousarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32)


def ordered(callbacks: Sequence[Callback], *, before: bool) -> list[Callback]:
    """Callbacks of one kind in the order LightGBM runs them: by `order`, unset ones first as given."""
    kind = [cb for cb in callbacks if bool(getattr(cb, "before_iteration", False)) == before]
    first = -len(callbacks)
    return sorted(kind, key=lambda cb: getattr(cb, "order", first))
