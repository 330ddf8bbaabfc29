"""Contract of an engine: a `Backend` creates data sets and trains in `Rounds`, a `Booster` is a trained model."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy.typing as npt

from boostrank.core.errors import ParameterError
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.engines.params import Params
from boostrank.engines.trees import LinearStart, ModelFormat

if TYPE_CHECKING:
    from boostrank.objective.bound import Gradient
    from boostrank.objective.description import TrainingObjective

GradientFunction = Callable[[npt.NDArray[Any], Any, int], tuple[Any, Any]]
"""(scores, engine's data set, round) -> gradient and Hessian, float32[N]."""
MetricFunction = Callable[[npt.NDArray[Any], Any], list[tuple[str, float, bool]]]
"""(scores, engine's data set) -> (metric, value, higher is better), as LightGBM's `feval` returns them."""
EvaluateFunction = Callable[[npt.NDArray[Any], Any, int], "Gradient"]
"""(scores, engine's data set, round) -> loss and gradient of our objective, in float64, not scaled."""

SCORES, LEAVES, CONTRIBUTIONS = "scores", "leaves", "contributions"
"""Kinds of output of `Booster.predict`."""


class LostContact(Exception):
    """Another worker of the same training does not answer, or has failed."""


@dataclass(frozen=True)
class Wanted:
    """Options of a prediction.

    Args:
        what: SCORES; LEAVES, the leaf of each tree, those of a linear start first; or CONTRIBUTIONS, TreeSHAP values of
            each feature and then the expected score.
        rounds: maximum number of rounds; 0: all.
        absent_is_missing: treat absent entries of a sparse row as missing, not as zero, if the engine supports it.
    """

    what: str = SCORES
    rounds: int = 0
    threads: int = 1
    absent_is_missing: bool = False


@dataclass(eq=False)
class Booster:
    """Trained model of an engine. Subclass this; methods with a default body are optional.

    Args:
        native: the engine's own object, or an object of ours with `rounds`, `feature_names` and `to_bytes(rounds)`.
    """

    native: Any

    engine: ClassVar[str]
    """Name of the engine."""
    scores_rows_alone: ClassVar[bool] = True
    """Whether the score of a row is bit-identical whatever other rows are predicted with it."""
    absent_is_missing: ClassVar[bool] = False
    """Whether the engine's own data sets treat absent entries of a sparse row as missing, not as zero."""

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Return the model of a file that has been checked."""
        raise NotImplementedError

    @property
    def rounds(self) -> int:
        """Number of rounds, without the trees of a linear start."""
        return int(self.native.rounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in column order."""
        return tuple(self.native.feature_names)

    def predict(self, features: Features, wanted: Wanted) -> npt.NDArray[Any]:
        """Compute raw scores, leaves or contributions.

        Args:
            features: float32[N, d]; in memory for contributions.

        Returns:
            Scores float64[N], leaves as integers [N, trees], or contributions float64[N, d+1].
        """
        raise NotImplementedError

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model file of the first `rounds` rounds (0: all)."""
        found: bytes = self.native.to_bytes(rounds)
        return found

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def best_rounds(self) -> int:
        """Number of rounds that the native `predict` uses by default; 0: all."""
        return 0

    @property
    def stopped_rounds(self) -> int:
        """Number of rounds up to the best one, if another program's early stopping stored it; otherwise 0."""
        return 0

    @property
    def start_trees(self) -> int:
        """Number of trees of a linear start, which precede the first round."""
        return 0

    def finished(self, categories: Mapping[int, Categories]) -> Booster:
        """Return the model as it is saved; may change the native object.

        Leaves are rounded so that every program computes the same sums, if that is harmless (`engines.trees.Leaves`).

        Args:
            categories: column -> its categories, for engines whose files store them.
        """
        return self

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        """Return feature -> categories of a model trained elsewhere, if its file has them."""
        return {}


Callback = Callable[[Any], None]
"""LightGBM's callback, which every engine calls with a `CallbackEnv`.

It may have `order` and `before_iteration`, and may stop the training by an exception with `best_iteration` and
`best_score`.
"""

_MARKS = ("stopping_rounds", "eval_result", "remembers_rounds")
"""Attributes that mark callbacks with memory: LightGBM's early stopping and recorder, and ours."""


class EvalResult(NamedTuple):
    """Value of one metric on one data set: LightGBM 4.7's five fields, with the length of its earlier four."""

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
        """Return False: results never stand for several folds; LightGBM's callbacks ask."""
        return False


@dataclass
class CallbackEnv:
    """Environment of a callback, with LightGBM's fields.

    Args:
        model: the booster (LightGBM) or a stand-in with `reset_parameter` (XGBoost).
        params: engine parameters, in LightGBM's names.
        iteration: 0-based round, counting the rounds of a continued model.
        begin_iteration, end_iteration: first round of this training, and one past its last.
        evaluation_result_list: metrics after this round; None before it.
    """

    model: Any
    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[Any] | None


class StopTraining(Exception):
    """Raised by a callback to stop training normally.

    Args:
        best_iteration: 0-based round of the model to use.
    """

    def __init__(self, best_iteration: int, best_score: Sequence[Any] = ()) -> None:
        super().__init__(best_iteration)
        self.best_iteration, self.best_score = best_iteration, list(best_score)


def beginning_at(env: Any, round: int) -> Any:
    """Return the environment, ours or LightGBM's, of a training that began in this round."""
    return dataclasses.replace(env, begin_iteration=round)


# Trees and scores are kept; everything else of a round follows from its number. Neither engine exposes its random
# state, so both are seeded anew in each round, with or without a checkpoint.
@dataclass(frozen=True)
class Snapshot:
    """State of a training between two rounds, from which its engine can resume.

    Args:
        model: model file of all rounds so far.
        scores: scores of the training set and then each validation set, if trees do not reproduce them bit for bit.
        scores_sha256: hash of the training set's scores, if the engine recomputes them from the trees.
    """

    model: bytes
    scores: tuple[npt.NDArray[Any], ...] = ()
    scores_sha256: str = ""


@dataclass(frozen=True)
class Resumed:
    """Training to resume.

    Args:
        snapshot: state after its last round.
        begin: first round of the training; 0 unless it continued a model.
        results: metrics of every round since `begin`, for callbacks with memory.
    """

    snapshot: Snapshot
    begin: int
    results: list[list[EvalResult]] = field(default_factory=list)


def round_seed(name: str, seed: int, round: int) -> int:
    """Return a seed below 2^30 for one use in one round; LightGBM adds the number of a block of rows to it."""
    digest = hashlib.blake2b(f"{name} {seed} {round}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 2


@dataclass
class TrainRequest:
    """Everything an engine needs for one training.

    Args:
        params: engine parameters in LightGBM's names (or the engine's own).
        train: training set in the engine's own form, from `Backend.dataset`.
        valid: names and data sets to evaluate after each round; may include `train` itself.
        rounds: number of rounds to add.
        gradient: our objective, or None to use `native_objective`.
        native_objective: name of one of the engine's own objectives.
        earlier: model to continue, or None.
        rows: data sets from which `train` and then each member of `valid` were made.
        start_scores: initial scores float64[N] of `train` and then of each member of `valid`; None or absent: the
            scores of `earlier`.
        resumed: interrupted training to resume; `rounds` is still its full number of rounds.
        objective, evaluate: our objective and its losses, for a backend that compares losses; otherwise None.
    """

    params: dict[str, Any]
    train: Any
    valid: list[tuple[str, Any]]
    rounds: int
    gradient: GradientFunction | None
    native_objective: str | None
    metrics: list[MetricFunction]
    earlier: Any = None
    rows: list[RankingDataset] = field(default_factory=list)
    start_scores: Sequence[Float64Array | None] = ()
    callbacks: list[Callback] = field(default_factory=list)
    resumed: Resumed | None = None
    objective: TrainingObjective | None = None
    evaluate: EvaluateFunction | None = None


class Rounds:
    """Rounds of a training: its callbacks, in LightGBM's order, and metrics. Iterate over it to train each round.

    Args:
        model: object that callbacks get.
        before: number of rounds of the continued or resumed model.
        scores: data set of the engine -> its scores after this round.
    """

    def __init__(self, request: TrainRequest, model: Any, before: int, scores: Callable[[Any], Any]) -> None:
        self._request, self._model, self._scores = request, model, scores
        self._begin = before if request.resumed is None else request.resumed.begin
        self._end = self._begin + request.rounds
        # By `order`; callbacks without it come first.
        callbacks = sorted(request.callbacks, key=lambda cb: getattr(cb, "order", -len(request.callbacks)))
        self._early = [cb for cb in callbacks if getattr(cb, "before_iteration", False)]
        self._late = [cb for cb in callbacks if not getattr(cb, "before_iteration", False)]
        self._params = dict(request.params)
        self.round, self.best_rounds, self.stopped = before, 0, False

    def __iter__(self) -> Iterator[int]:
        # Replay the rounds before a resumption to callbacks with memory.
        if self._request.resumed is not None:
            remembering = [cb for cb in self._late if any(hasattr(cb, mark) for mark in _MARKS)]
            for earlier, results in enumerate(self._request.resumed.results, self._begin):
                self._call(remembering, earlier, list(results))
        for number in range(self.round, self._end):
            self.round = number
            if self._call(self._early, self.round, None):
                return
            yield number
            if self._call(self._late, self.round, self._measured()):
                return

    def _measured(self) -> list[EvalResult]:
        """Return the metrics of each validation set."""
        return [
            EvalResult(name, *result)
            for name, data in self._request.valid
            for function in self._request.metrics
            for result in function(self._scores(data), data)
        ]

    def _call(self, callbacks: Sequence[Callback], round: int, results: list[EvalResult] | None) -> bool:
        """Call the callbacks; return True if one stops the training."""
        trained_on = [name for name, data in self._request.valid if data is self._request.train]
        for callback in callbacks:
            watched = results
            if results and hasattr(callback, "stopping_rounds"):  # early stopping ignores the training set
                watched = [result for result in results if result.dataset_name not in trained_on] or results
            env = CallbackEnv(self._model, self._params, round, self._begin, self._end, watched)
            try:
                callback(env)
            except Exception as stop:  # recognised by its attribute: LightGBM may not be installed
                if not hasattr(stop, "best_iteration"):
                    raise
                self.best_rounds, self.stopped = int(stop.best_iteration) + 1, True
                return True
        return False


class Resettable:
    """Base class of models that callbacks get where `lgb.reset_parameter` expects several boosters."""

    @property
    def boosters(self) -> list[Any]:
        return [self]


class Backend:
    """Engine of trees, linear models or others. Subclass this; methods with a default body are optional."""

    name: str
    version: str
    format: ModelFormat
    params: Params
    booster: type[Booster]
    booster_type: type | None = None
    """Class of the engine's own models, which users may pass."""
    error_types: tuple[type[Exception], ...] = ()
    """Exceptions that the engine's own code raises."""
    grows_trees: bool = True
    """Whether the engine has the parameters of trees."""
    starts_linear: bool = False
    """Whether the objective `auto` starts from a linear ranker: see `begin_with`."""
    shares_bins: bool = False
    """Whether `dataset` accepts parts of a `data.rows.Whole` that share their bins."""

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        """Convert a data set into the engine's own form.

        Args:
            params: engine parameters, on which binning depends.
            reference: the training set in the engine's form, for a validation set.
            weights: pass the query weights to the engine. Its own objectives need them; the driver applies them to
                ours.
        """
        raise NotImplementedError

    def check(self, data: Any, params: dict[str, Any]) -> None:
        """Refuse a training set in the engine's own form with which `train` could not begin."""

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        """Train, and return the `Booster` and its best number of rounds (0: all)."""
        raise NotImplementedError

    def load(self, data: bytes) -> Booster:
        """Return the `Booster` of a model file whose structure has been checked."""
        return self.booster.load(data)

    def begin_with(self, start: LinearStart) -> Booster:
        """Return a model of no rounds with the scores of a linear ranker, for training to continue."""
        raise ParameterError(f"{self.name} cannot start from a linear model")

    def snapshot(self, model: Any) -> Snapshot:
        """Return the state of a training after a round, for a backend that can resume."""
        raise ParameterError(f"a training of {self.name} has no checkpoint")
