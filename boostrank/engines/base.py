"""Base classes of engines, where `Backend` creates data sets and trains, and `Booster` is a trained
model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from boostrank.core.types import Array, Float64Array, ParamValues
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.engines.engine_params import Params
from boostrank.engines.trees import LinearStart, ModelFormat

if TYPE_CHECKING:
    from boostrank.objective.description import TrainingObjective

SCORES, LEAVES, CONTRIBUTIONS = "raw_score", "pred_leaf", "pred_contrib"
"""The outputs that `Booster.predict` can compute, by their options in LightGBM."""


Peers = Any
"""The workers of a distributed training, as the worker number `rank` of `size` on `host` sees them.

`share(value)` returns the values from all workers by rank. `all_to_all(buffers)` sends each worker
its buffer, and returns the received ones. `close()` closes all links, so that no worker waits.
"""


class LostContact(Exception):
    """The error that is raised in a distributed training if another worker fails or does not
    answer.
    """


@dataclass(frozen=True)
class PredictRequest:
    """The options of a prediction.

    Args:
        what: SCORES, LEAVES (the leaf of each tree, starting with the linear start) or
            CONTRIBUTIONS (the TreeSHAP value of each feature, and then the expected score).
        rounds: maximum number of rounds; 0 for all.
        absent_is_missing: treat absent entries of a sparse row as missing instead of zero, if the
            engine supports it.
    """

    what: str = SCORES
    rounds: int = 0
    threads: int = 1
    absent_is_missing: bool = False


@dataclass(eq=False)
class Booster:
    """Base class of trained models, in which the methods with a default body are optional.

    Args:
        native: the engine's own object, or one with `rounds`, `feature_names` and
            `to_bytes(rounds)`.

    Attributes:
        engine: name of the engine.
        scores_rows_alone: whether the score of a row is bit-identical whichever other rows are
            predicted with it.
        absent_is_missing: whether the engine's data sets treat absent entries of a sparse row as
            missing.
        served: whether scores follow the rules of a serving program, which the engine's own file
            would not keep to the last bit.
    """

    native: Any
    engine: ClassVar[str]
    scores_rows_alone: ClassVar[bool] = True
    absent_is_missing: ClassVar[bool] = False
    served: ClassVar[bool] = False

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Load a model file that has been checked."""
        raise NotImplementedError

    @property
    def rounds(self) -> int:
        """The number of rounds, in which the trees of a linear start are not included."""
        return int(self.native.rounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in the order of the model's columns."""
        return tuple(self.native.feature_names)

    def predict(self, features: Features, request: PredictRequest) -> Array:
        """Compute raw scores, leaves or contributions.

        Args:
            features: float32[N, d]; in memory for contributions.

        Returns:
            Scores float64[N], leaves as integers [N, trees], or contributions float64[N, d+1].
        """
        raise NotImplementedError

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model file of the first `rounds` rounds, or of all rounds if `rounds` is 0."""
        return bytes(self.native.to_bytes(rounds))

    @property
    def index_base(self) -> int | None:
        """The number of the first feature in libsvm text, if the model's file tells, or None."""
        return None

    @property
    def best_rounds(self) -> int:
        """The number of rounds that the native `predict` uses by default; 0 for all."""
        return 0

    @property
    def stopped_rounds(self) -> int:
        """The best number of rounds if another program stored it in the file, and otherwise 0."""
        return 0

    @property
    def start_trees(self) -> int:
        """The number of trees in a linear start, which precede the first round."""
        return 0

    def expose(self, best_rounds: int) -> Any:
        """Return the engine's object for users, which predicts with `best_rounds` rounds (0: all).

        It counts rounds as `RankingModel` does. If it is another object than `native`, it has this
        model as attribute `boostrank_model`.
        """
        return self.native

    def finished(self, categories: Mapping[int, Categories]) -> Booster:
        """Return the model to save, with leaves rounded if harmless (`trees.Leaves`). The native
        object may be changed.

        Args:
            categories: categories by column, for engines whose files store them.
        """
        return self

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        """Return the categories of each feature that another program stored in the file."""
        return {}


Callback = Callable[[Any], None]
"""A callback in LightGBM's form, which every engine calls with a `CallbackEnv`. It may have the
attributes `order` and `before_iteration`, and may stop the training by raising an exception with
the attributes `best_iteration` and `best_score`.
"""


class EvalResult(NamedTuple):
    """The value of one metric on one data set, with the fields of LightGBM 4.7 and the length of
    earlier versions.
    """

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool
    metric_std_dev: float | None = None

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:4])

    def is_cv_result(self) -> bool:
        """Return False to LightGBM's callbacks, which call this method."""
        return False


@dataclass
class CallbackEnv:
    """The argument of callbacks, which has LightGBM's fields.

    Args:
        model: LightGBM's booster, or an object with `reset_parameter`.
        params: engine parameters, in LightGBM's names.
        iteration: 0-based round, including the rounds of a continued model.
        begin_iteration, end_iteration: first round of this training, and one past its last round.
        evaluation_result_list: metrics after this round; None before it.
    """

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[Any] | None


class StopTraining(Exception):
    """The exception that a callback raises to stop a training normally, with the 0-based round
    `best_iteration`.
    """

    def __init__(self, best_iteration: int, best_score: Sequence[Any] = ()) -> None:
        super().__init__(best_iteration)
        self.best_iteration, self.best_score = best_iteration, list(best_score)


# Trees and scores are kept; everything else of a round follows from its number. Neither engine
# exposes its random state, so both are seeded anew in each round, with or without a checkpoint.
@dataclass(frozen=True)
class Snapshot:
    """The state of a training between two rounds, from which its engine can resume.

    Args:
        model: model file of the completed rounds.
        scores: scores of the training set and then each validation set, if trees do not reproduce
            them bit for bit.
        scores_sha256: hash of the scores of the training set, if the engine recomputes them from
            the trees.
    """

    model: bytes
    scores: tuple[Array, ...] = ()
    scores_sha256: str = ""


@dataclass(frozen=True)
class Resumed:
    """A training to resume.

    Args:
        snapshot: state after the last completed round.
        first_round: first round of the training, which is 0 unless it continued a model.
        results: metrics of every round since `first_round`.
    """

    snapshot: Snapshot
    first_round: int
    results: list[list[EvalResult]]


def round_seed(name: str, seed: int, round: int) -> int:
    """Return a seed for one purpose in one round, which is below 2^30 because LightGBM adds block
    numbers to it.
    """
    digest = hashlib.blake2b(f"{name} {seed} {round}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 2


@dataclass
class TrainRequest:
    """The arguments of `Backend.train`.

    Args:
        params: engine parameters in LightGBM's names (or the engine's own).
        train: training set from `Backend.dataset`.
        valid: names and data sets to evaluate after each round, which may include `train` itself.
        rounds: number of rounds to add.
        gradient: (scores, data set, round) -> gradient and Hessian, float32[N]; None to use
            `native_objective`.
        native_objective: name of one of the engine's own objectives.
        metrics: functions (scores, data set) -> (metric, value, higher is better), like LightGBM's
            `feval`.
        earlier: model that the training continues, or None.
        rows: data sets from which `train` and then each member of `valid` were created.
        start_scores: initial scores float64[N] of `train` and then of each member of `valid`; None
            or absent for the scores of `earlier`.
        resumed: interrupted training to resume; `rounds` is still its full number of rounds.
        objective: boostrank's objective, whose losses a backend may compare by `gradient.evaluate`:
            (scores, data set, round) -> loss and gradient in float64, not scaled.
    """

    params: dict[str, Any]
    train: Any
    valid: list[tuple[str, Any]]
    rounds: int
    gradient: Any
    native_objective: str | None
    metrics: list[Callable[[Array, Any], list[tuple[str, float, bool]]]]
    earlier: Any
    rows: list[RankingDataset]
    start_scores: Sequence[Float64Array | None]
    callbacks: list[Callback]
    resumed: Resumed | None
    objective: TrainingObjective | None


class Trained(NamedTuple):
    """A trained model, and its best number of rounds (0 for all)."""

    booster: Booster
    best_rounds: int


class Rounds:
    """The loop over a training's rounds, which computes metrics and calls callbacks in LightGBM's
    order.

    Args:
        model: object that the callbacks receive.
        earlier_rounds: number of rounds of the continued or resumed model.
        scores: function that returns the current scores of one of the engine's data sets.
    """

    def __init__(
        self, request: TrainRequest, model: Any, earlier_rounds: int, scores: Callable[[Any], Any]
    ) -> None:
        self._request, self._model, self._scores = request, model, scores
        self._first_round = (
            earlier_rounds if request.resumed is None else request.resumed.first_round
        )
        self._end_round = self._first_round + request.rounds
        # Callbacks without `order` come first.
        self._callbacks = sorted(
            request.callbacks,
            key=lambda callback: getattr(callback, "order", -len(request.callbacks)),
        )
        self._params = dict(request.params)
        self.round, self.best_rounds, self.stopped = earlier_rounds, 0, False

    def __iter__(self) -> Iterator[int]:
        # Replay the rounds before a resumption to stateful callbacks: LightGBM's early stopping and
        # recorder, and ours.
        if self._request.resumed is not None:
            state_attributes = ("stopping_rounds", "eval_result", "remembers_rounds")
            stateful = [
                callback
                for callback in self._callbacks
                if any(hasattr(callback, attribute) for attribute in state_attributes)
            ]
            for past_round, results in enumerate(self._request.resumed.results, self._first_round):
                self._call(stateful, past_round, list(results))
        for round in range(self.round, self._end_round):
            self.round = round
            if self._call(self._callbacks, round, None):
                return
            yield round
            results = [
                EvalResult(name, *result)
                for name, data in self._request.valid
                for metric in self._request.metrics
                for result in metric(self._scores(data), data)
            ]
            if self._call(self._callbacks, round, results):
                return

    def _call(
        self, callbacks: Sequence[Callback], round: int, results: list[EvalResult] | None
    ) -> bool:
        """Call the callbacks of the time after a round, or before it if there are no results, and
        return True if one of them stops the training.
        """
        training_names = [name for name, data in self._request.valid if data is self._request.train]
        held_out = [result for result in results or () if result.dataset_name not in training_names]
        for callback in callbacks:
            if bool(getattr(callback, "before_iteration", False)) != (results is None):
                continue
            # Early stopping ignores the training set, unless it is the only set.
            visible_results = (
                held_out if held_out and hasattr(callback, "stopping_rounds") else results
            )
            env = CallbackEnv(
                self._model,
                self._params,
                iteration=round,
                begin_iteration=self._first_round,
                end_iteration=self._end_round,
                evaluation_result_list=visible_results,
            )
            try:
                callback(env)
            except Exception as stop:  # recognised by its attribute: LightGBM may not be installed
                if not hasattr(stop, "best_iteration"):
                    raise
                self.best_rounds, self.stopped = int(stop.best_iteration) + 1, True
                return True
        return False


class Resettable:
    """Base class of models that work with `lgb.reset_parameter`, which may expect several
    boosters.
    """

    @property
    def boosters(self) -> list[Any]:
        """The models that `lgb.reset_parameter` changes: this one."""
        return [self]


class Backend:
    """Base class of engines for trees or other models, in which the methods with a default body are
    optional.

    Attributes:
        booster_type: class of the engine's own models, which users may pass to boostrank.
        error_types: exceptions that the engine's own code raises.
        grows_trees: whether models consist of trees.
        starts_linear: whether the objective `auto` starts from a linear ranker (see `begin_with`).
        stores_absent: whether absent values of sparse rows take memory, so that features that never
            occur are left out of the training and restored in the model (`ModelFormat.widened`).
        shares_bins: whether `dataset` accepts parts of a `data.rows.Whole` that share their bins.
    """

    name: str
    version: str
    format: ModelFormat
    params: Params
    booster: type[Booster]
    booster_type: type | tuple[()] = ()
    error_types: tuple[type[Exception], ...] = ()
    grows_trees: bool = True
    starts_linear: bool = False
    stores_absent: bool = False
    shares_bins: bool = False

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> Any:
        """Convert a data set to the engine's own class.

        Args:
            params: engine parameters, on which binning depends.
            reference: training set from this method, for a validation set.
            weights: whether to pass query weights to the engine for its objectives. The driver
                applies them to ours.
        """
        raise NotImplementedError

    def check(self, data: Any, params: ParamValues) -> None:
        """Raise an error if `train` could not start with this training set from `dataset`."""

    def train(self, request: TrainRequest) -> Trained:
        """Train a model."""
        raise NotImplementedError

    def load(self, data: bytes) -> Booster:
        """Load a model file that has been checked."""
        return self.booster.load(data)

    def begin_with(self, start: LinearStart) -> Booster:
        """Return a model without rounds that has the scores of a linear ranker, from which training
        continues.
        """
        raise NotImplementedError

    def snapshot(self, model: Any) -> Snapshot:
        """Return the state of a training after a round, if the backend can resume it."""
        raise NotImplementedError
