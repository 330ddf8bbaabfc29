"""The ranking model, which is an engine's booster with its provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from boostrank.core.errors import (
    DataError,
    DataWarning,
    MissingDependency,
    ModelError,
    ParameterError,
    warn_user,
)
from boostrank.core.files import AnyPath
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex, checked_ids, ids_of_rows, query_numbers
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.data.arrays import as_features, default_feature_names, queries_of_sizes
from boostrank.data.categories import Categories, read_record, say_no_codes
from boostrank.data.dataset import RankingDataset
from boostrank.engines import booster_of, get_backend, load_booster
from boostrank.engines.base import CONTRIBUTIONS, LEAVES, SCORES, Backend, Booster, PredictRequest
from boostrank.engines.engine_params import as_whole
from boostrank.engines.trees import LARGEST_SCORE, Trees, in_range
from boostrank.model.arguments import takes_engines_arguments
from boostrank.model.files import check_ending, read_model_files, sidecar_path, write_model_files
from boostrank.model.query_columns import ModelColumns
from boostrank.records import CalibrationRecord, History, ModelInfo, as_record, jsonable

D = TypeVar("D", RankingDataset, RankingDataset | None)
IMPORTANCES = ("split", "gain")
# Below this number of rows, scoring is faster than starting a second thread.
_FEW_ROWS = 32


@dataclass(frozen=True)
class TrainingSummary:
    """Statistics about a training.

    Args:
        dead_queries: number of queries without gradients in the last round; None for an engine's
            own objective.
        rounds: number of rounds trained, including the rounds of a continued model. The model may
            keep fewer.
        seconds: wall time of the whole call.
        kernel_seconds, metric_seconds: wall time spent in boostrank's objective and in its metrics.
        floored: number of documents whose Hessian was raised to the minimum in the last round; None
            if not counted.
    """

    rows: int
    queries: int
    dead_queries: int | None
    rounds: int
    best_round: int
    seconds: float
    kernel_seconds: float
    metric_seconds: float
    floored: int | None = None

    @property
    def tree_seconds(self) -> float:
        """Wall time spent in the engine."""
        return self.seconds - self.kernel_seconds - self.metric_seconds


def check_finite(scores: Float64Array, first: int = 0) -> None:
    """Raise ModelError with the row if scores (or contributions) are NaN, infinite or beyond
    `LARGEST_SCORE`.
    """
    if not in_range(scores):
        row = int(np.argwhere(~(np.abs(scores) <= LARGEST_SCORE))[0][0])
        raise ModelError(
            f"the score of row {first + row} (from 0) is not a finite number, or beyond"
            f" {LARGEST_SCORE:g}: leaves or weights of the model are too large, or features are"
            " infinite"
        )


_OF_BOOSTER = frozenset(
    """
    num_feature num_features current_iteration num_boosted_rounds num_model_per_iteration
    model_to_string dump_model trees_to_dataframe get_score get_fscore get_dump save_raw save_config
    get_split_value_histogram get_leaf_output lower_bound upper_bound
    """.split()
)
"""Methods of the engines' boosters that read the model."""


class RankingModel:
    """A trained ranker, which has the methods of LightGBM's Booster.

    Scores are only comparable within a query and have no unit. The trees of a linear start precede
    the first round.

    Args:
        booster: the engine's own booster, also available as `.booster`.
        best_rounds: number of rounds used in prediction; 0 for all rounds.
        info: how the model was made, which is saved in its record, `MODEL.meta.json`.
        evals_result: data set -> metric -> values in each round.
        summary: statistics about the training; None for a loaded model.

    Example:
        >>> import pathlib, tempfile
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.txt"))
        ...     loaded = boostrank.RankingModel.load(pathlib.Path(folder, "model.txt"))
        >>> bool((loaded.predict(data) == model.predict(data)).all())
        True
    """

    def __init__(
        self,
        booster: Any,
        *,
        best_rounds: int = 0,
        info: Mapping[str, Any] | None = None,
        evals_result: Mapping[str, Mapping[str, list[float]]] | None = None,
        summary: TrainingSummary | None = None,
    ) -> None:
        wrapped = booster if isinstance(booster, Booster) else booster_of(booster)
        if wrapped is None:
            raise ParameterError(
                f"{type(booster).__name__} is not a lightgbm.Booster or xgboost.Booster"
            )
        self._booster = wrapped
        self._best_rounds = best_rounds
        self.info = info if isinstance(info, ModelInfo) else ModelInfo(**(info or {}))
        self.evals_result = {name: dict(metrics) for name, metrics in (evals_result or {}).items()}
        self.summary = summary
        self._shown: Any = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a method of the engine's booster that only reads."""
            if name in _OF_BOOSTER:
                return getattr(self.booster, name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; `.booster` is the"
                " engine's own"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_shown": None}

    def __repr__(self) -> str:
        name = self.info.objective_name or "unknown objective"
        return f"RankingModel({self.backend}, {name}, {self._size}, {self.n_features} features)"

    @property
    def _size(self) -> str:
        if self.info.averaged:
            return f"{self.num_trees():,} trees"
        return f"{self.best_iteration:,} rounds"

    @property
    def backend(self) -> str:
        """Name of the engine."""
        return self._booster.engine

    @property
    def booster(self) -> Any:
        """The engine's booster, which predicts with the best rounds and counts them alike."""
        if self._shown is None:
            self._shown = self._booster.expose(self._best_rounds)
        return self._shown

    @property
    def _engine(self) -> Backend:
        return get_backend(self.backend)

    @cached_property
    def columns(self) -> ModelColumns:
        """The columns that the trees use: the features, and the columns within queries that the
        model computes from them, if there are any (`columns.added`).
        """
        columns = ModelColumns(self._booster.feature_names)
        real = self.info.feature_names
        recorded = self.info.within_query
        # Without a sidecar, detect them by the names of the booster's features.
        if recorded["kinds"] if recorded else not real:
            columns = ModelColumns.from_names(columns.features)
        return replace(columns, features=real) if len(real) == len(columns.features) else columns

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Feature names, in column order."""
        return self.columns.features

    @property
    def n_features(self) -> int:
        """Number of features that `predict` expects."""
        return len(self.columns.features)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns that the trees use, which are the features followed by the columns
        within queries.
        """
        return self.columns.names

    @cached_property
    def categories(self) -> dict[str, Categories]:
        """Categories of each categorical feature, in the order of their codes."""
        record = (self.info.data or {}).get("categories")
        if record is None:  # trained by LightGBM itself, from a pandas DataFrame
            return self._booster.categories(self.feature_names)
        return read_record(record)

    @property
    def best_iteration(self) -> int:
        """Number of rounds used in prediction: the best number after early stopping, or else all
        rounds.
        """
        return self._best_rounds or self._booster.rounds

    @property
    def is_served(self) -> bool:
        """Whether the model was read from a serving program's file, which lists only the features
        that it uses, and scores by that program's rules.
        """
        return self._booster.served

    @property
    def absent_is_missing(self) -> bool:
        """Whether absent entries in sparse rows are missing values. Otherwise, they are zero."""
        return self._booster.absent_is_missing and self.info.absent in (None, "missing")

    @property
    def scores_rows_alone(self) -> bool:
        """Whether scores are bit-identical regardless of which rows are predicted together."""
        return self._booster.scores_rows_alone and not self.columns.kinds

    def trees(self, num_iteration: int | None = None) -> Trees:
        """Return the trees used in prediction as arrays over the columns in `column_names`."""
        format = self._engine.format
        trees = format.trees(format.parse(self.to_bytes(num_iteration)), len(self.column_names))
        return replace(trees, double=trees.double and not self.is_served)

    def to_bytes(self, num_iteration: int | None = None) -> bytes:
        """Return the engine's model file, with the rounds used in prediction."""
        return self._booster.to_bytes(self._rounds(num_iteration))

    @property
    def best_score(self) -> dict[str, dict[str, float]]:
        """Metrics at the best round (data set -> metric -> value)."""
        position = self.best_iteration - self.info.rounds_before - 1
        return {
            name: {
                metric: values[position]
                for metric, values in metrics.items()
                if 0 <= position < len(values)
            }
            for name, metrics in self.evals_result.items()
        }

    @takes_engines_arguments
    def predict(
        self,
        data: Any,
        *,
        num_iteration: int | None = None,
        threads: int | None = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        start_iteration: int = 0,
        pred_leaf: bool = False,
        pred_contrib: bool = False,
        calibrated: bool = False,
    ) -> Float64Array:
        """Compute a score for each document. Within a query, higher scores are better.

        Arguments of `predict` of the engines' boosters and rankers are also accepted, such as
        `raw_score`, `iteration_range=(0, 20)` and `pred_contribs`.

        Args:
            data: `RankingDataset`, array, sparse matrix, table (pandas, polars, Arrow, ...).
                Table columns are matched by name, and extra columns are ignored. Unknown categories
                are treated as missing, with a warning. In arrays, categories are codes. Absent
                entries in sparse rows are zero, or missing for models trained by XGBoost alone.
            num_iteration: number of rounds to use; None for the best rounds, 0 or less for all
                rounds.
            threads: number of threads; None for every available core, or for one thread if there
                are few rows.
            qid, group: queries, for data other than a `RankingDataset`. Models with columns within
                queries require them. For other models, only the total number of rows is checked.
            start_iteration: first round to use, as in LightGBM. If above 0, the linear start is
                excluded, and num_iteration=None means all remaining rounds.
            pred_leaf: whether to return leaf indices instead of scores, with the linear start
                first. The indices are LightGBM's leaf numbers or XGBoost's node numbers.
            pred_contrib: whether to return `contributions` instead of scores.
            calibrated: whether to return expected grades in the same order instead; see
                `boostrank.calibrate`.

        Returns:
            float64[N], in input order; int32[N, trees] for leaves, and float64[N, d+1] for
            contributions.

        Raises:
            ParameterError: if several outputs are requested, or leaves from a model without trees.
            ModelError: if calibrated scores are requested from a model without calibration.
            DataError: if the number of features differs, a column is missing or has another type,
                or the model needs queries and there are none.
        """
        if calibrated and (
            pred_leaf or pred_contrib or start_iteration > 0 or self._are_others(num_iteration)
        ):
            raise ParameterError(
                "calibrated=True needs scores of the best rounds: pass no other output or rounds"
            )
        if pred_leaf and pred_contrib:
            raise ParameterError("pred_leaf and pred_contrib exclude each other: pass one of them")
        # Find the rounds to use.
        all_rounds = self._booster.rounds
        last_round = self._rounds(num_iteration)
        first_round = as_whole(start_iteration, "start_iteration", -(2**31))
        first_round = min(max(0, first_round), all_rounds)
        if first_round:
            rounds = 0 if num_iteration is None else last_round
            last_round = min(all_rounds, first_round + (rounds or all_rounds))
        compute = self._output_of(data, qid, group, threads)
        if pred_leaf:
            counts = self.tree_counts
            leaves = compute(LEAVES, last_round).astype(np.int32)
            first_tree = counts.after(first_round) if first_round else 0
            return leaves[:, first_tree:]  # type: ignore[return-value]
        kind = CONTRIBUTIONS if pred_contrib else SCORES
        output = compute(kind, last_round)
        if first_round:
            output = output - compute(kind, first_round)
        return calibrated_scores(self.info.calibration, output) if calibrated else output

    def contributions(self, data: Any, **options: Any) -> Float64Array:
        """Compute the contribution of each feature to each score, using TreeSHAP for trees.

        The arguments are the same as in `predict`. The features must be in memory.

        Returns:
            float64[N, d+1], in input order, with a column for each feature followed by the mean
            score. Each row sums to its score. Contributions of columns within queries are added to
            those of their source feature.

        Raises:
            ModelError: if the engine does not support contributions.
        """
        return self.predict(data, pred_contrib=True, **options)

    def over_columns(self, data: D) -> tuple[RankingModel, D]:
        """Return an equivalent model whose features are the `column_names`, and the data with these
        columns, if there are any data.
        """
        data = data and self.check_features(data)
        if not self.columns.kinds:
            return self, data
        if data is not None:
            data = self.columns.dataset(data)
        data_record = {**(self.info.data or {}), "feature_names": self.column_names}
        info = self.info | {"within_query": {"kinds": []}, "data": data_record}
        return self.altered(info=info), data

    def altered(self, **changes: Any) -> RankingModel:
        """Return a copy with other constructor arguments."""
        arguments = {name: getattr(self, name) for name in ("info", "evals_result", "summary")}
        return RankingModel(
            **{"booster": self._booster, "best_rounds": self._best_rounds, **arguments, **changes}
        )

    def _output_of(
        self, data: Any, qid: ArrayLike | None, group: ArrayLike | None, threads: int | None
    ) -> Callable[[str, int], Float64Array]:
        """Return a function that takes the kind of output and the number of rounds, and returns the
        output for each row of the data, in input order.
        """
        data = self._with_queries(data, qid, group)
        features = data
        if isinstance(data, RankingDataset):
            features = self.columns.of_data(self.check_features(data), threads)
        n_rows = features.shape[0]
        if threads is None and n_rows <= _FEW_ROWS:
            threads = 1
        if n_rows == 0:  # engines refuse no rows, and one row gives the shape
            features = np.zeros((1, features.shape[1]), np.float32)
        n_threads = resolve_threads(threads)

        def compute(kind: str, rounds: int) -> Float64Array:
            request = PredictRequest(kind, rounds, n_threads, self.absent_is_missing)
            try:
                output: Float64Array = self._booster.predict(features, request)[:n_rows]
            except Exception as error:  # each engine raises its own kind
                if kind != CONTRIBUTIONS:
                    raise
                reason = str(error).partition("\n")[0]
                raise ModelError(
                    f"{self.backend} cannot compute contributions: {reason}"
                ) from error
            check_finite(output)
            if kind == CONTRIBUTIONS:
                output = self.columns.sum_by_feature(output)
            return data.in_input_order(output) if isinstance(data, RankingDataset) else output

        return compute

    def _with_queries(self, data: Any, qid: ArrayLike | None, group: ArrayLike | None) -> Any:
        """Return the rows of data, or a data set if scores depend on the queries."""
        if isinstance(data, RankingDataset):
            if qid is not None or group is not None:
                raise DataError(
                    "qid and group are for data without queries, but a RankingDataset has queries"
                )
            return data
        rows = self._rows(data)
        if rows.shape[1] != self.n_features:
            raise DataError(
                f"the data has {rows.shape[1]} features, but the model has {self.n_features}"
            )
        # Check the queries, also where scores do not depend on them.
        if qid is not None:
            ids_of_rows(qid, rows.shape[0])
        elif group is not None:
            queries_of_sizes(group, rows.shape[0])
        elif self.columns.kinds:
            raise DataError(
                f"this model computes {self.columns.words(2)}, which needs queries: predict a"
                " RankingDataset, or pass qid or group"
            )
        else:
            return rows
        if self.scores_rows_alone:
            return rows
        labels, names = np.zeros(rows.shape[0]), self.feature_names
        return RankingDataset.from_arrays(
            rows, labels, qid=qid, group=group, feature_names=names, sort=True, copy=False
        )

    def _rounds(self, num_iteration: int | None) -> int:
        """Return the number of rounds as the engine counts them, with 0 for all."""
        if num_iteration is None:
            return self._best_rounds
        rounds = as_whole(num_iteration, "num_iteration", -(2**31))
        return min(max(0, rounds), self._booster.rounds)

    def _are_others(self, num_iteration: int | None) -> bool:
        return self._rounds(num_iteration) not in (self._best_rounds, self.best_iteration)

    def check_features(self, data: RankingDataset) -> RankingDataset:
        """Return the data set with its features in the model's order.

        Raises:
            DataError: if the features are different, or are numbered from a different base.
        """
        if self.is_served:
            data = data.only(self.feature_names)
        base = data.provenance.index_base
        model_base = self.info.index_base
        is_named = data.feature_names == self.feature_names
        if None not in (base, model_base) and base != model_base and not is_named:
            raise DataError(
                f"the files of the model number features from {model_base}, but this file numbers"
                f" them from {base}: read it like the training file (like=, or --zero-based)"
            )
        return data.with_features(self.feature_names, whose="the model", categories=self.categories)

    def _rows(self, data: Any) -> Any:
        """Return the features in an array, or the model's columns in a table."""
        if isinstance(data, np.ndarray) or sparse.issparse(data):
            rows = as_features(data)
            if isinstance(rows, np.ndarray) and rows.shape[1] == self.n_features:
                say_no_codes(rows, self.feature_names, self.categories, "the model")
            return rows
        from boostrank.data.frames import as_frame, names_of, read_table

        table = as_frame(data)
        if table is None:
            return self._rows(np.asarray(as_features(data)))
        columns = names_of(table)
        names = self.feature_names
        if not set(columns) & set(names) and names == default_feature_names(len(names)):
            raise DataError(
                f"the table has column names, but the model does not ({names[0]}, ...): pass an"
                " array with the columns in the order of training"
            )
        return read_table(table, names, trained_categories=self.categories, whose="the model")[0]

    def rank(
        self,
        data: Any,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        **options: Any,
    ) -> Int64Array:
        """Rank the documents in each query, where rank 1 is best and ties keep the input order.

        The arguments are the same as in `predict`, but queries are required.

        Returns:
            int64[N], in input order.
        """
        scores = self.predict(data, qid=qid, group=group, **options)
        if isinstance(data, RankingDataset):
            ids = data.in_input_order(data.queries.of_rows())
        elif qid is not None:
            ids = query_numbers(checked_ids(qid))
        elif group is not None:
            ids = queries_of_sizes(group, scores.size).of_rows()
        else:
            raise DataError("rank needs queries: pass qid or group, or a RankingDataset")
        by_query = np.argsort(ids, kind="stable")
        ranks = np.empty(ids.size, np.int64)
        queries = QueryIndex.from_sizes(np.bincount(ids))
        ranks[by_query] = queries.ranks(scores[by_query])
        return ranks

    def save(self, path: AnyPath, *, num_iteration: int | None = None) -> None:
        """Write the model file, which the engine can read without boostrank, and its record, whole
        or not at all.

        Args:
            num_iteration: number of rounds to keep; None for the best rounds, 0 or less for all
                rounds.

        Raises:
            TrainingError: if the files cannot be written. Existing files are unchanged.
        """
        check_ending(path)
        info = dict(self.info)
        if self.is_served:
            warn_user(
                f"{path}: saved in the format of {self.backend}, which may round the last digits"
                " of scores in another way than the program that has the model",
                DataWarning,
            )
        if self._are_others(num_iteration) and info.pop("calibration", None):
            warn_user(
                f"{path}: saved without the calibration of other rounds: calibrate it again",
                DataWarning,
            )
        body = self._engine.format.stamp(self.to_bytes(num_iteration))
        write_model_files(Path(path), body, jsonable({**info, "evals_result": self.evals_result}))

    def feature_name(self) -> list[str]:
        """Return `feature_names` as a list."""
        return list(self.feature_names)

    def feature_importance(
        self, importance_type: Literal["split", "gain"] = "split", iteration: int | None = None
    ) -> Array:
        """Return the number of splits on each feature, or the total gain of these splits.

        Args:
            importance_type: "split" or "gain" (XGBoost's "total_gain").
            iteration: number of rounds to use; None for the best rounds, 0 or less for all rounds.

        Returns:
            int32[d] or float64[d], excluding the linear start, which has no gain. Columns within
            queries are attributed to their source feature.

        Raises:
            ParameterError: if the type is unknown, or the model has no trees.
        """
        if importance_type not in IMPORTANCES:
            raise ParameterError(
                f"importance_type={importance_type!r}: use {' or '.join(IMPORTANCES)}; for the"
                " effect of features on a metric, use boostrank.reporting.importance"
            )
        self._check_trees()
        trees = self.trees(iteration)
        if importance_type == "split":
            return self.columns.sum_by_feature(trees.splits.astype(np.int32))
        return self.columns.sum_by_feature(trees.gain)

    def num_trees(self) -> int:
        """Return the number of trees in all rounds and the linear start, or raise ParameterError
        for linear models.
        """
        return self.tree_counts.after(self._booster.rounds)

    @cached_property
    def tree_counts(self) -> TreeCounts:
        """The numbers of trees; linear models raise ParameterError."""
        self._check_trees()
        return TreeCounts(self._booster.start_trees, self.trees(1).count)

    def save_model(self, filename: AnyPath, num_iteration: int | None = None) -> RankingModel:
        """Save the model like `save`, under LightGBM's name."""
        self.save(filename, num_iteration=num_iteration)
        return self

    def _check_trees(self) -> None:
        if not self._engine.grows_trees:
            raise ParameterError(
                f"models of backend={self.backend!r} have no trees, leaves or splits; use"
                " contributions() for the effect of features"
            )

    @classmethod
    def load(cls, path: AnyPath) -> RankingModel:
        """Load a model file of boostrank, LightGBM or XGBoost, or a model that another program
        serves: Solr, Elasticsearch, the learning-to-rank plugins, RankLib, or a JSON dump of
        LightGBM or XGBoost. Models of other programs score as those do.

        Before the engine opens the file, its structure is checked, and its checksum if there is a
        record.

        Raises:
            ModelError: if the file is damaged, is not a model, or was written by a newer version.
        """
        if not isinstance(path, str | PathLike):
            raise ParameterError(f"{type(path).__name__} is not the path of a model file")
        path = Path(path)
        body, sidecar = read_model_files(path)
        try:
            booster = load_booster(body)
        except MissingDependency:
            raise
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        except Exception as error:  # each engine raises its own kind
            reason = str(error).partition("\n")[0][:200]
            raise ModelError(f"{path}: its engine cannot load it: {reason}") from error
        content = dict(sidecar or {})
        try:
            history: Any = as_record(History, content.pop("evals_result", {}))
            info = as_record(ModelInfo, content)
        except ValueError as fault:
            raise ModelError(
                f"{sidecar_path(path)}: not written by boostrank: {fault}; without it the model"
                " still opens"
            ) from None
        best_rounds = 0
        if sidecar is None and 0 < booster.stopped_rounds < booster.rounds:
            best_rounds = booster.stopped_rounds
            warn_user(
                f"{path}: uses {best_rounds} of its {booster.rounds} rounds, up to"
                f" best_iteration={best_rounds - 1}, as XGBRanker does; xgboost.Booster.predict"
                " uses all",
                DataWarning,
            )
        if booster.index_base is not None:
            info = info | {"data": {"index_base": booster.index_base}}
        return cls(booster, best_rounds=best_rounds, info=info, evals_result=history)


def calibrated_scores(record: CalibrationRecord | None, scores: Float64Array) -> Float64Array:
    """Map scores by the best rounds to expected grades in the same order, or raise ModelError if
    there is no map.
    """
    if record is None:
        raise ModelError(
            "the model is not calibrated: use boostrank.calibrate(model, data) with unseen queries"
        )
    distinct, rank_of_score = np.unique(scores, return_inverse=True)
    mean_scores = record["scores"]
    values = record["values"]
    lowest, highest = record["ends"]
    grades = np.interp(distinct, mean_scores, values)
    # Beyond the known scores, approach the extreme grades, half of the way at ten times their
    # range.
    for beyond, room in (
        (distinct - mean_scores[-1], highest - values[-1]),
        (mean_scores[0] - distinct, lowest - values[0]),
    ):
        distance = np.maximum(beyond, 0.0) / (mean_scores[-1] - mean_scores[0])
        grades += room * distance / (10.0 + distance)
    # Keep the order of scores that differ only in their last digits and may round to the same
    # value.
    while (tied := np.flatnonzero(np.diff(grades) <= 0.0)).size:
        grades[tied + 1] = np.nextafter(grades[tied], np.inf)
    return grades[rank_of_score]


class TreeCounts(NamedTuple):
    """The numbers of trees in the linear start, and in each round."""

    start: int
    each_round: int

    def after(self, rounds: int) -> int:
        """Return the number of trees after some rounds."""
        return self.start + self.each_round * rounds


def find_model(source: Any) -> RankingModel | None:
    """Convert a `RankingModel`, its path, or a fitted Booster, LGBMRanker, XGBRanker or BoostRanker
    to a model.

    A model from a booster or ranker keeps the rounds that its own `predict` uses. Return None for
    other objects.
    """
    if isinstance(source, RankingModel):
        return source
    if isinstance(source, str) and "\n" in source:
        raise ModelError(
            "the text of a model is no path: pass lightgbm.Booster(model_str=text), or the path of"
            " the model's file"
        )
    if isinstance(source, str | PathLike):
        return RankingModel.load(source)
    source = getattr(source, "best_estimator_", source)  # of a search in scikit-learn
    engine = type(source).__module__.partition(".")[0]
    if isinstance(model := getattr(source, "model_", None), RankingModel):
        return model
    if engine == "lightgbm" and hasattr(type(source), "booster_"):
        source = source.booster_
    is_xgboost_ranker = engine == "xgboost" and hasattr(source, "get_booster")
    if (
        is_xgboost_ranker and source.missing is not None and source.missing == source.missing
    ):  # not NaN
        raise ModelError(
            f"{type(source).__name__}(missing={source.missing:g}): the model does not store this"
            " value, and scores would differ: fit it with NaN for missing values"
        )
    booster = booster_of(source.get_booster() if is_xgboost_ranker else source)
    if booster is None:
        return None
    rounds = booster.stopped_rounds if is_xgboost_ranker else booster.best_rounds
    return RankingModel(booster, best_rounds=rounds)


def as_model(source: Any, argument: str = "model") -> RankingModel:
    """Convert an argument to a model, as `find_model` does, or raise ParameterError for other
    objects.
    """
    model = find_model(source)
    if model is None:
        raise ParameterError(
            f"{argument}={type(source).__name__}: expected a RankingModel, its path, a Booster, or"
            " a fitted LGBMRanker, XGBRanker or BoostRanker"
        )
    return model
