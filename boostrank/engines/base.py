"""Contract of an engine: a `Backend` makes data sets and trains, a `Booster` is a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.queries import QueryIndex
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
"""(scores, engine's data set, round) -> gradient and hessian, float32[N]."""
MetricFunction = Callable[[npt.NDArray[Any], Any], list[tuple[str, float, bool]]]
"""(scores, engine's data set) -> (metric, value, higher is better), as LightGBM's `feval` returns them."""
EvaluateFunction = Callable[[npt.NDArray[Any], Any, int], "Evaluation"]
"""(scores, engine's data set, round) -> our objective there, in float64 and on no engine's scale."""

SCORES, LEAVES, CONTRIBUTIONS = "scores", "leaves", "contributions"
"""What `Booster.predict` computes."""


class LostContact(Exception):
    """Another worker of the same training does not answer."""


@dataclass(frozen=True)
class Wanted:
    """What to predict, and how.

    Args:
        what: SCORES; LEAVES, the leaf of each tree, those of a linear start first; or CONTRIBUTIONS, what each feature
            adds to each score, and last the score of no feature (TreeSHAP).
        rounds: number of rounds, at most as many as there are; 0: all.
        threads: at least 1.
        queries: queries of the rows, where they are known.
        absent_is_missing: treat what a sparse row does not name as missing, not as zero, if the engine can tell.
    """

    what: str = SCORES
    rounds: int = 0
    threads: int = 1
    queries: QueryIndex | None = None
    absent_is_missing: bool = False


@dataclass(eq=False)
class Booster:
    """A trained model of an engine. Subclass this; methods with a default body are optional.

    Args:
        native: the engine's own object; or one of ours with `rounds`, `feature_names` and `to_bytes(rounds)`.
    """

    native: Any

    engine: ClassVar[str]
    """Name of the engine."""
    scores_rows_alone: ClassVar[bool] = True
    """Whether the score of a row is the same to the last bit, whatever rows are beside it."""
    absent_is_missing: ClassVar[bool] = False
    """Whether the engine's own data sets treat what a sparse row does not name as missing, not as zero."""

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
            features: float32[N, d]; for contributions, not on disk.
            wanted: what to compute.

        Returns:
            float64[N] of scores, integers[N, trees] of leaves, float64[N, d+1] of contributions.

        Raises:
            DataError: the model needs the queries, and they are not known.
            ModelError: the model has no leaves, or no contributions.
        """
        raise NotImplementedError

    def to_bytes(self, rounds: int = 0) -> bytes:
        """Return the model file of the first `rounds` rounds (0: all)."""
        found: bytes = self.native.to_bytes(rounds)
        return found

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def best_rounds(self) -> int:
        """Number of rounds that the native `predict` uses by default; 0: all."""
        return 0

    @property
    def stopped_rounds(self) -> int:
        """Number of rounds up to the best one, where early stopping elsewhere left it in the file; 0: it did not."""
        return 0

    @property
    def start_trees(self) -> int:
        """Number of trees of a linear start, which come before the first round."""
        return 0

    def finished(self, categories: Mapping[int, Categories]) -> Booster:
        """Return the model as it is saved. The native object may be changed.

        Leaves are rounded to what every program adds up alike, where that does not count (`engines.trees.Leaves`).

        Args:
            categories: column -> its categories, for engines whose files have a place for them.
        """
        return self

    def categories(self, names: Sequence[str]) -> dict[str, Categories]:
        """Return feature -> categories of a model that was trained elsewhere, where it tells them."""
        return {}

    def linear_start(self, rounds: int) -> LinearStart | None:
        """Return the model of the first `rounds` rounds (0: all) as trees can begin with it; None: it is not linear.

        Raises:
            ParameterError: it is linear, but trees cannot begin with it.
        """
        return None

    def tree_table(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return nodes and leaves by the columns of `lightgbm.Booster.trees_to_dataframe`; it needs pandas.

        Args:
            names: of the columns that trees split by.
        """
        raise ModelError("it has no trees")


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
        init_model: model to continue, or None.
        rows: the data sets that `train`, and then each member of `valid`, was made of.
        start_scores: float64[N] of `train`, and then of each member of `valid`: what its rows begin with; None, or no
            entry: what `init_model` says of them.
        callbacks: LightGBM-style callbacks.
        keep_training_booster: as in `lgb.train`.
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
    rows: list[RankingDataset] = field(default_factory=list)
    start_scores: Sequence[Float64Array | None] = ()
    callbacks: list[Callback] = field(default_factory=list)
    keep_training_booster: bool = False
    resumed: Resumed | None = None
    objective: TrainingObjective | None = None
    evaluate: EvaluateFunction | None = None


class Backend:
    """One engine: trees, linear models, or others. Subclass this; methods with a default body are optional."""

    name: str
    version: str
    format: ModelFormat
    params: Params
    booster: type[Booster]
    booster_type: type | None = None
    """Class of the engine's own models, which users may hand over."""
    error_types: tuple[type[Exception], ...] = ()
    """What the engine's own code raises."""
    grows_trees: bool = True
    """Whether the parameters of trees are its own."""
    starts_linear: bool = False
    """Whether the objective `auto` begins with a linear ranker here: see `begin_with`."""
    shares_bins: bool = False
    """Whether `dataset` takes parts of a `data.rows.Whole`, and these share their bins."""

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> Any:
        """Convert a data set into the engine's own form.

        Args:
            data: rows, labels, queries.
            params: engine parameters (binning depends on them).
            reference: the training set in the engine's form, for a validation set.
            weights: whether the engine shall know the query weights (its own objectives need them; with ours the
                driver applies them).
        """
        raise NotImplementedError

    def check(self, data: Any, params: dict[str, Any]) -> None:
        """Refuse a training set in the engine's own form with which `train` could not begin.

        Raises:
            DataError: no feature can be split.
        """

    def train(self, request: TrainRequest) -> tuple[Any, int]:
        """Train; return the `Booster` and its best number of rounds (0: all of them)."""
        raise NotImplementedError

    def load(self, data: bytes) -> Any:
        """Return the `Booster` in a model file whose structure has been checked."""
        return self.booster(self.format.parse(data))

    def begin_with(self, start: LinearStart) -> Booster:
        """Return a model of no rounds that scores as a linear ranker does, for training to continue.

        Raises:
            ParameterError: this engine's files cannot hold one.
        """
        raise ParameterError(f"{self.name} cannot begin with a linear model")

    def snapshot(self, model: Any) -> Snapshot:
        """Return a training after a round, for a backend that can be resumed.

        Args:
            model: what its callbacks find as `model`.
        """
        raise ParameterError(f"a training of {self.name} has no checkpoint")
