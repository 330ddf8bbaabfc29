"""Backend contract: what an engine must do, and what it is asked for by a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from boostrank.core.errors import ModelError, ParameterError
from boostrank.core.gains import Gain
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.tables.categories import Categories
from boostrank.engines.model_format import LinearStart, ModelFormat
from boostrank.engines.params import Limits
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


class Backend(Protocol):
    """One engine: trees, linear models, or others. A backend derives from it; what has a body here it may leave."""

    name: str
    version: str
    format: ModelFormat
    booster_type: type | tuple[()] = ()
    """The engine's own class, which users may hand over."""
    error_types: tuple[type[Exception], ...] = ()
    """What its code raises in words of its own."""
    objective_params: frozenset[str] = frozenset()
    """Parameters that only the engine's own objectives read."""
    objective_defaults: Mapping[str, Mapping[str, Any]] = {}
    """Objective -> parameters that are otherwise here than the objective says, unless they are given."""
    grows_trees: bool = True
    """Whether the parameters of trees are its own."""
    starts_linear: bool = False
    """Whether the objective `auto` begins with a linear ranker here: see `begin_with`."""
    absent_is_missing: bool = False
    """Whether its own data sets take what a sparse row does not name for missing, and not for zero."""
    shares_bins: bool = False
    """Whether `dataset` takes `data.part.PartRows`, and the parts of a data set share their bins."""
    random_splits: bool = False
    """Whether `extra_trees` is a parameter of its own: one threshold at random for each feature."""
    scores_rows_alone: bool = True
    """Whether `predict` gives a row the same score to the last bit, whatever rows are beside it."""

    def check_params(self, params: dict[str, Any]) -> None:
        """Refuse unknown parameters, and those that contradict what boostrank does."""
        ...

    def main_names(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by their main names: each has one, whatever alias was given."""
        return dict(params)

    def check_objective(self, name: str) -> None:
        """Refuse one of the engine's own objectives whose models rank nothing, or whose scores would not be right."""
        return None

    def by_column(self, params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Parameters that speak of features, in whichever spelling, as the engine takes them.

        Args:
            params: of the engine.
            names: of the features.

        Raises:
            ParameterError: features that are not there, or something else than the engine takes.
        """
        return params

    def with_followers(self, params: dict[str, Any], names: Sequence[str], followed: Sequence[int]) -> dict[str, Any]:
        """Parameters by column, for more columns: each of those behind the features has what another one has.

        Args:
            params: as `by_column` gives them.
            names: of the features.
            followed: the feature that each column behind them follows.
        """
        return params

    def limits(self, params: dict[str, Any], names: Sequence[str]) -> Limits:
        """What the parameters ask of single features, of those so named: a start must keep it too.

        Raises:
            ParameterError: as `by_column`.
        """
        return Limits.none(len(names))

    def native_gain(self, gain: Gain) -> dict[str, Any]:
        """A gain that is not 2^label - 1, as parameters of the engine's own objectives.

        Raises:
            ParameterError: they cannot have it.
        """
        raise ParameterError(f"{self.name} has no objectives of its own")

    def with_categories(self, params: dict[str, Any], columns: Sequence[int]) -> dict[str, Any]:
        """Parameters for data of which these columns hold codes of categories, where the parameters say so."""
        return params

    def keep_categories(self, booster: Any, categories: Mapping[int, Categories]) -> Any:
        """The booster, which may itself be changed, with the categories of its columns where its file has a place."""
        return booster

    def categories_in(self, booster: Any, names: Sequence[str]) -> dict[str, Categories]:
        """Feature -> categories, of a booster that was trained elsewhere; none where it does not tell."""
        return {}

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
        return f"a training of {self.name} cannot be resumed"

    def snapshot(self, model: Any) -> Snapshot:
        """A training after a round, for a backend that can be resumed.

        Args:
            model: what its callbacks find as `model`.
        """
        raise ParameterError(f"a training of {self.name} has no checkpoint")

    def rounds_of(self, booster: Any) -> int:
        """Rounds a booster holds."""
        ...

    def predicting_rounds(self, booster: Any) -> int:
        """Rounds that the `predict` of a user's own booster uses when nothing is said; 0: all."""
        return 0

    def load_booster(self, model: Any) -> Any:
        """The booster that users hand over to continue; files come through `RankingModel.load`, which checks them."""
        if isinstance(model, self.booster_type):
            return model
        kinds = "a path, a Booster or a RankingModel" if self.booster_type else "a path or a RankingModel"
        raise ParameterError(f"init_model must be {kinds}, not {type(model).__name__}")

    def unstartable(self, params: dict[str, Any]) -> str | None:
        """What in these parameters keeps trees from beginning with a linear ranker, in words; None if nothing."""
        return None

    def has_start(self, booster: Any) -> bool:
        """Whether a booster begins with a linear ranker."""
        return False

    def begin_with(self, start: LinearStart) -> Any:
        """A booster of no rounds that scores as a linear ranker does, for training to continue.

        Raises:
            ParameterError: this engine's files cannot hold one.
        """
        raise ParameterError(f"{self.name} cannot begin with a linear model")

    def linear_start(self, booster: Any, rounds: int) -> LinearStart | None:
        """The model of the first `rounds` rounds (0: all) as trees can begin with it; None: it is not linear.

        Raises:
            ParameterError: it is linear, but trees cannot begin with it.
        """
        return None

    def with_queries(self, booster: Any, features: Features, queries: QueryIndex | None) -> Features:
        """Features as `predict` and `contributions` take them, where a model looks at whole queries.

        Raises:
            DataError: it does, and nobody knows them.
        """
        return features

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
        raise ModelError("it has none")

    def leaves(
        self, booster: Any, features: Features, *, rounds: int, threads: int, absent_is_missing: bool = False
    ) -> npt.NDArray[Any]:
        """The leaf of each tree, integers[N, trees], those of a start first; arguments as for `predict`."""
        raise ModelError("it has none")

    def tree_table(self, booster: Any, names: Sequence[str]) -> dict[str, list[Any]]:
        """Nodes and leaves of all trees by the columns of `lightgbm.Booster.trees_to_dataframe`; it needs pandas.

        Args:
            booster: the model.
            names: of its columns, for those that trees split by.
        """
        raise ModelError("it has no trees")

    def to_bytes(self, booster: Any, *, rounds: int) -> bytes:
        """The model file of the first `rounds` rounds (0: all)."""
        ...

    def with_even_leaves(self, booster: Any) -> Any:
        """The booster, which may itself be changed, with leaves that every program adds up alike: see `engines.trees`.

        As it is where its scores are no sums of leaves, or rounding would count.
        """
        return booster

    def from_bytes(self, data: bytes) -> Any:
        """The booster in a model file whose structure has been checked."""
        ...

    def feature_names(self, booster: Any) -> tuple[str, ...]:
        """Names of the features, in column order."""
        ...

    def n_features(self, booster: Any) -> int:
        """How many features there are."""
        return len(self.feature_names(booster))
