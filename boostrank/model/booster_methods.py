"""Methods of LightGBM's Booster, with the same names and meanings, for models of every engine."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import MissingDependency, ModelError, ParameterError
from boostrank.core.text import small_table
from boostrank.core.types import Float64Array
from boostrank.engines.base import LEAVES, Backend, Booster
from boostrank.engines.trees import Trees
from boostrank.model.within_query import WithinColumns
from boostrank.records import CalibrationRecord, ModelInfo

IMPORTANCES = ("split", "gain")


class _Model(Protocol):
    """The interface of `RankingModel` that these methods use."""

    _booster: Booster
    within_query: WithinColumns | None
    info: ModelInfo

    @property
    def _engine(self) -> Backend: ...
    @property
    def best_score(self) -> dict[str, dict[str, float]]: ...
    @property
    def backend(self) -> str: ...
    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def column_names(self) -> tuple[str, ...]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def best_iteration(self) -> int: ...
    @property
    def _size(self) -> str: ...
    def trees(self, num_iteration: int | None = None) -> Trees: ...
    def to_bytes(self, num_iteration: int | None = None) -> bytes: ...
    def save(self, path: str | PathLike[str], *, num_iteration: int | None = None) -> None: ...
    def _each_row(self, what: str, data: Any, rounds: int, threads: int | None, *columns: int) -> Any: ...
    def _rows_worth(self, data: Any, rounds: int, threads: int | None, by_feature: bool) -> Float64Array: ...


M = TypeVar("M", bound=_Model)


class BoosterMethods:
    """LightGBM's Booster methods, mixed into `RankingModel`.

    The trees of a linear start count as trees before the first round. `feature_importance` excludes them: they encode a
    linear ranker, and their splits have no gain.
    """

    def _repr_html_(self: _Model) -> str:
        names = ", ".join(self.feature_names[:8]) + (", …" if self.n_features > 8 else "")
        rows: list[tuple[str, Any]] = [
            ("objective", self.info.objective_name or "unknown"),
            ("size", self._size),
            ("features", f"{self.n_features:,}: {names}"),
        ]
        rows += [
            (name, ", ".join(f"{metric} {value:.4f}" for metric, value in values.items()))
            for name, values in self.best_score.items()
        ]
        return small_table(f"RankingModel ({self.backend})", rows)

    def feature_name(self: _Model) -> list[str]:
        """Return `feature_names` as a list."""
        return list(self.feature_names)

    def feature_importance(
        self: _Model, importance_type: Literal["split", "gain"] = "split", iteration: int | None = None
    ) -> npt.NDArray[Any]:
        """Return the number of splits by each feature, or their total gain.

        Args:
            importance_type: "split" or "gain" (XGBoost's "total_gain").
            iteration: rounds to use; None for the best ones, 0 or less for all.

        Returns:
            int32[d] or float64[d], without the linear start. Columns within queries count as their source feature.

        Raises:
            ParameterError: unknown type, or a model without trees.
        """
        if importance_type not in IMPORTANCES:
            raise ParameterError(
                f"importance_type={importance_type!r}: expected one of {', '.join(IMPORTANCES)}; for the effect of "
                "features on a metric, use boostrank.report.importance"
            )
        _need_trees(self, "feature_importance()")
        trees = self.trees(iteration)
        found = trees.splits.astype(np.int32) if importance_type == "split" else trees.gain
        if self.within_query is None:
            return found
        of_features = found[: self.n_features].copy()
        np.add.at(of_features, np.asarray(self.within_query.sources), found[self.n_features :])
        return of_features

    def num_trees(self: _Model) -> int:
        """Return the number of trees, including rounds after the best one and the linear start.

        Raises:
            ParameterError: a model without trees.
        """
        return trees_before(self, None)

    def save_model(
        self: M, filename: str | PathLike[str], num_iteration: int | None = None, start_iteration: int = 0
    ) -> M:
        """Save the model like `save`, under LightGBM's name.

        Args:
            filename: path of the model file.
            num_iteration: rounds to keep; None for the best ones, 0 or less for all.
            start_iteration: must be 0.

        Raises:
            ParameterError: start_iteration is above 0.
            TrainingError: as `save`.
        """
        if start_iteration > 0:
            raise ParameterError(
                "start_iteration: a model without its first rounds is not a ranker; booster.save_model writes one"
            )
        self.save(filename, num_iteration=num_iteration)
        return self

    def trees_to_dataframe(self: _Model) -> Any:
        """Return all nodes and leaves as a table with LightGBM's columns, for either engine.

        For XGBoost, `decision_type` is "<", `weight` is the sum of hessians, `count` is NA and `value` is given for
        leaves
        only. `threshold` of a categorical split lists the categories that go left.

        Returns:
            pandas.DataFrame; `split_feature` holds names from `column_names`.

        Raises:
            MissingDependency: pandas is not installed.
            ParameterError: a model without trees.
        """
        _need_trees(self, "trees_to_dataframe()")
        try:
            import pandas
        except ImportError as error:
            raise MissingDependency("trees_to_dataframe needs pandas: pip install 'boostrank[report]'") from error
        return pandas.DataFrame(self._booster.tree_table(self.column_names))


def tree_counts(model: _Model) -> tuple[int, int]:
    """Return the number of trees of the linear start, and per round.

    Raises:
        ParameterError: a model without trees.
    """
    engine = model._engine
    if not engine.grows_trees:
        raise ParameterError(f"models of backend={model.backend!r} have no trees to count")
    parsed = engine.format.parse(model.to_bytes(1))
    return int(getattr(parsed, "start_trees", 0)), engine.format.trees(parsed, len(model.column_names)).count


def trees_before(model: _Model, rounds: int | None) -> int:
    """Return the number of trees in the first `rounds` rounds, including the linear start; None for all rounds.

    Raises:
        ParameterError: a model without trees.
    """
    start, each = tree_counts(model)
    return start + each * (model._booster.rounds if rounds is None else rounds)


def predict_otherwise(
    model: _Model,
    data: Any,
    first: int,
    rounds: int | None,
    threads: int | None,
    *,
    leaves: bool,
    contributions: bool,
) -> Any:
    """Compute the non-default outputs of `predict`: leaves, contributions, or scores of later rounds.

    Args:
        model, data, threads: as in `predict`; the data include their queries.
        rounds: rounds to use; 0 or less for all. None means the best ones, or all remaining ones if `first` is above 0.
        leaves, contributions: compute these in place of scores.

    Raises:
        ParameterError: both outputs at once, or leaves of a model without trees.
    """
    if leaves and contributions:
        raise ParameterError("pred_leaf and pred_contrib exclude each other: pass one of them")
    count = model._booster.rounds
    first = min(max(0, first), count)
    last = count if rounds is None or rounds <= 0 else min(count, first + rounds)
    if rounds is None and not first:
        last = model.best_iteration
    if leaves:
        _need_trees(model, "pred_leaf=True")
        begin = trees_before(model, first) if first else 0
        shape = trees_before(model, last)
        return model._each_row(LEAVES, data, last, threads, shape).astype(np.int32)[:, begin:]
    found = model._rows_worth(data, last, threads, contributions)
    return found - model._rows_worth(data, first, threads, contributions) if first else found


def calibrated(record: CalibrationRecord | None, scores: Float64Array) -> Float64Array:
    """Map scores of a model's best rounds by its record. Equal scores stay equal, and higher scores are higher.

    Raises:
        ModelError: the record has no map.
    """
    if record is None:
        raise ModelError("the model is not calibrated: model = boostrank.calibrate(model, data), with unseen queries")
    distinct, place = np.unique(scores, return_inverse=True)
    x, y, (lowest, highest) = record["scores"], record["values"], record["ends"]
    found = np.interp(distinct, x, y)
    # Beyond the known scores, approach the extreme grades: half way at ten times their range.
    for beyond, room in ((distinct - x[-1], highest - y[-1]), (x[0] - distinct, lowest - y[0])):
        far = np.maximum(beyond, 0.0) / (x[-1] - x[0])
        found += room * far / (10.0 + far)
    # Scores that differ in their last digits alone may round to the same value: keep their order.
    while (tied := np.flatnonzero(np.diff(found) <= 0.0)).size:
        found[tied + 1] = np.nextafter(found[tied], np.inf)
    return found[place]


def _need_trees(model: _Model, what: str) -> None:
    if not model._engine.grows_trees:
        raise ParameterError(
            f"{what}: models of backend={model.backend!r} have no trees; use contributions() for the effect of features"
        )
