"""Contract of an engine: a `Backend` creates data sets and trains, a `Booster` is a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from boostrank.core.errors import ParameterError
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.categories import Categories
from boostrank.data.dataset import RankingDataset
from boostrank.engines.model_format import LinearStart, ModelFormat
from boostrank.engines.params import Params
from boostrank.engines.rounds import Callback, Resumed, Snapshot

if TYPE_CHECKING:
    from boostrank.objective.bound import Evaluation
    from boostrank.objective.description import TrainingObjective

GradientFunction = Callable[[npt.NDArray[Any], Any, int], tuple[Any, Any]]
"""(scores, engine's data set, round) -> gradient and Hessian, float32[N]."""
MetricFunction = Callable[[npt.NDArray[Any], Any], list[tuple[str, float, bool]]]
"""(scores, engine's data set) -> (metric, value, higher is better), as LightGBM's `feval` returns them."""
EvaluateFunction = Callable[[npt.NDArray[Any], Any, int], "Evaluation"]
"""(scores, engine's data set, round) -> value of our objective, in float64 and without the engine's scaling."""

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
        init_model: model to continue, or None.
        rows: data sets from which `train` and then each member of `valid` were made.
        start_scores: initial scores float64[N] of `train` and then of each member of `valid`; None or absent: the
            scores of `init_model`.
        keep_training_booster: as in `lgb.train`.
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
    init_model: Any = None
    rows: list[RankingDataset] = field(default_factory=list)
    start_scores: Sequence[Float64Array | None] = ()
    callbacks: list[Callback] = field(default_factory=list)
    keep_training_booster: bool = False
    resumed: Resumed | None = None
    objective: TrainingObjective | None = None
    evaluate: EvaluateFunction | None = None


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

    def load(self, data: bytes) -> Any:
        """Return the `Booster` of a model file whose structure has been checked."""
        return self.booster(self.format.parse(data))

    def begin_with(self, start: LinearStart) -> Booster:
        """Return a model of no rounds with the scores of a linear ranker, for training to continue."""
        raise ParameterError(f"{self.name} cannot start from a linear model")

    def snapshot(self, model: Any) -> Snapshot:
        """Return the state of a training after a round, for a backend that can resume."""
        raise ParameterError(f"a training of {self.name} has no checkpoint")
