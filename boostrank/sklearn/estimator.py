"""BoostRanker, which wraps `boostrank.train` as a scikit-learn estimator."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from boostrank.core.errors import DataError, ParameterError, warn_user
from boostrank.core.types import (
    Array,
    Float64Array,
    Int64Array,
    ParamValues,
    masked_as_missing,
    with_nan,
)
from boostrank.data.arrays import check_rows
from boostrank.data.dataset import RankingDataset
from boostrank.data.frames import with_query_level
from boostrank.fit.callbacks import LogRounds
from boostrank.fit.from_data import train
from boostrank.fit.gradient import of_labels
from boostrank.fit.settings import METRIC_NAMES, headline, metric_names
from boostrank.metrics import BoundMetrics, Conventions, Metric
from boostrank.metrics.measure import measures_a_query
from boostrank.model.arguments import THREADS, put, rename
from boostrank.model.ranking_model import RankingModel
from boostrank.options import (
    DEFAULT_EVAL_AT,
    DEFAULT_ROUNDS,
    KEYWORDS,
    Option,
    TrainOptions,
    as_list,
    declared,
    takes_options,
)
from boostrank.sklearn.splitters import QID, split_table

_NAMES = {
    "rounds": "n_estimators",
    "early_stopping": "early_stopping_rounds",
    "seed": "random_state",
    "threads": "n_jobs",
}
"""Mapping from options to their names in scikit-learn."""
_OF_FIT = "settings params metrics gain init_model checkpoint callbacks feval".split()
_DECLARED = {name: option for name, option in declared(TrainOptions).items() if name not in _OF_FIT}
_OF_TRAIN = tuple(name for name in _DECLARED if name in KEYWORDS)
"""Parameters that are keyword arguments of `boostrank.train`. The others go into its `params`."""
_PARAMETERS: dict[str, Any] = {
    **{_NAMES.get(name, name): option.default for name, option in _DECLARED.items()},
    **dict.fromkeys(
        "max_depth min_child_samples min_child_weight subsample colsample_bytree reg_alpha"
        " reg_lambda".split()
    ),
    "sort": False,
    "importance_type": "gain",
}
"""Mapping from parameters to their defaults."""
_MOST_OF_ONE_QUERY = 1000
_GENERATED = re.compile(r"(f|Column_)\d+")
"""Feature names that boostrank or LightGBM gives to columns of arrays."""
_UNNAMED_SET = re.compile(r"training|valid_\d+")

_FIT = """
    eval_set eval_qid eval_group eval_sample_weight
    eval_names eval_X eval_y eval_metric eval_at feval early_stopping_rounds
    init_model callbacks checkpoint feature_name categorical_feature
    """.split()
_RENAMED = {
    "xgb_model": "init_model",
    "sample_weight_eval_set": "eval_sample_weight",
    "eval_weight": "eval_sample_weight",
}
"""Arguments of `fit` in XGBoost and old code, with their names here."""
_REFUSED_OF_FIT = {
    "feature_weights": "with backend='lightgbm', the parameter feature_contri weights gains",
    **dict.fromkeys(
        "groups query_id query_ids qids queries".split(),
        "pass qid, one id per row, or group, one size per query",
    ),
    **dict.fromkeys(("weight", "weights"), "pass sample_weight"),
    "evals_result": "read the attribute evals_result_ after fit",
    "verbose_eval": "pass verbose",
    "position": "to train by clicks, weight documents by sample_weight (docs/guide/clicks.md)",
}
"""Arguments of `fit` elsewhere, with the remedy."""
_NOT_OF_INIT = """
    eval_set eval_qid eval_group eval_sample_weight
    qid group sample_weight init_model checkpoint params
    """.split()
"""Names that are no parameters of a ranker."""


def _of_model(name: str, doc: str, kind: Callable[[Any], Any] = lambda value: value) -> Any:
    """Create a property that reads an attribute of the fitted model and converts its value."""
    return property(lambda self: kind(attrgetter(name)(self._fitted)), doc=doc)


class BoostRanker(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn ranker that wraps `boostrank.train`, for pipelines, searches and
    cross-validation.

    Pass queries as an argument (`fit(X, y, qid=qid)`) or as a column `qid` of a frame (or
    `query_id` or `query`, with a warning). The column works everywhere in scikit-learn, while the
    argument needs `sklearn.set_config(enable_metadata_routing=True)`:

        cross_validate(BoostRanker(), X, y, cv=QueryKFold(5), params={"qid": qid})

    Parameters are the options of `boostrank.train`, with its defaults, and any entry of its
    `params` under any alias (`BoostRanker(sigma=0.5, min_data_in_bin=5)`). `fit` rejects unknown
    names. Some of them have scikit-learn's names:

    Args:
        objective: name of an objective, an `Objective` or a function as in LGBMRanker, (labels,
            scores[, weights[, query sizes]]) -> (gradient, Hessian); None means `auto`.
        n_estimators: number of rounds; None means 100, or the number in the preset. learning_rate,
        num_leaves, max_depth, min_child_weight, subsample, colsample_bytree, reg_alpha, reg_lambda:
            tree parameters, which have these names on either engine. `subsample` applies in every
            round, even on LightGBM without `subsample_freq`.
        min_child_samples: minimum number of documents in a leaf; LightGBM only.
        early_stopping_rounds: patience on the first validation set that is no copy of the training
            set, for `metric` (see `boostrank.train`; the default is NDCG) at the largest cut-off in
            `eval_at`.
        eval_at: cut-offs for metrics, of which `score` uses the largest. None means 1, 3, 5, 10.
        sort: whether to sort the rows by query (stably). Otherwise, each query's rows must be
            contiguous.
        importance_type: type of `feature_importances_`: "gain" or "split" (in XGBoost's words
            "total_gain" or "weight").
        random_state: seed, or a NumPy generator that draws a seed. None gives the same model each
            time.
        n_jobs: number of threads; None and -1 mean every available core, -2 all but one.
        params: other options and parameters of `boostrank.train`.

    Attributes:
        model_: the fitted `RankingModel`.
        n_features_in_, feature_names_in_: features of X. The names are only set if all column names
            are strings.
        booster_, best_iteration_, best_score_, evals_result_, n_features_, feature_name_,
            objective_: as in LGBMRanker.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> X, y = np.arange(60.0).reshape(30, 2), np.tile([0, 1, 2], 10)
        >>> ranker = boostrank.BoostRanker("listnet", n_estimators=3, n_jobs=1, min_child_samples=2)
        >>> ranker.fit(X, y, qid=np.repeat(np.arange(10), 3)).predict(X).shape
        (30,)
    """

    # Request routed metadata by default.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    backend: str
    subsample: float | None
    sort: bool
    importance_type: str
    n_jobs: int | None

    @takes_options(
        [Option(name=name, help="", default=value) for name, value in _PARAMETERS.items()],
        alone=False,
    )
    def __init__(self, objective: Any = None, **params: Any) -> None:
        self.__dict__.update(_PARAMETERS | {"objective": objective})
        self.set_params(**params)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, including parameters given only by keyword.

        Args:
            deep: ignored, because no parameter is an estimator.
        """
        return {name: value for name, value in sorted(vars(self).items()) if _is_parameter(name)}

    def set_params(self, **params: Any) -> BoostRanker:
        """Set parameters. `fit` rejects unknown names."""
        for name, value in params.items():
            if not _is_parameter(name) or hasattr(type(self), name):
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> BoostRanker:
        """Train the ranker.

        Arguments of LGBMRanker and XGBRanker are also accepted under their names: `eval_X` and
        `eval_y`, `xgb_model`, `sample_weight_eval_set`, `verbose`.

        Args:
            X: [N, d] array, sparse matrix or frame; NaN means missing. A column `qid` in a frame
                contains the query ids and is not a feature.
            y: [N] relevance labels, which are at least 0, and larger if more relevant.
            qid: [N] query id for each row. Without `qid`, `group` or a column, all rows are one
                query, with a warning.
            group: query sizes in row order, instead of `qid`.
            sample_weight: positive weights, one per query or per row. Row weights that differ
                within a query are document weights; see `RankingDataset.from_arrays`.
            options: further arguments by name, eval_set: validation sets, as a list of pairs (X, y)
                or one pair. The same objects as X and y, with the
                    same queries and weights, reuse the training set. eval_names: names of the
                    validation sets.
                    eval_qid, eval_group, eval_sample_weight: lists of `qid`, `group` and
                        `sample_weight` of each set.
                eval_metric, eval_at, early_stopping_rounds: replace the parameters for this
                    training. A metric is a name, a function of one query, (labels, scores) ->
                    number, of which higher is better (see `Metric`), a function as in LGBMRanker,
                    (labels, scores[, weights[, query sizes]]) -> (name, value, higher is better),
                    or a list of names and functions.
                feval, callbacks, checkpoint, init_model: as for `boostrank.train`.
                feature_name: d names, if X has no column names.
                categorical_feature: as for `RankingDataset.from_arrays`.

        Returns:
            The estimator.

        Raises:
            InputError: as in `boostrank.train`. It is a ValueError.
        """
        train_options = _fit_arguments(options)
        names = train_options.pop("feature_name", "auto")
        conversion = {
            "categorical_feature": train_options.pop("categorical_feature", "auto"),
            "feature_names": None if isinstance(names, str) else list(names),
        }
        of_fit = {"qid": qid, "group": group, "sample_weight": sample_weight}
        data = self._dataset("fit", X, y, **of_fit, **conversion)
        of_sets = {name: train_options.pop(f"eval_{name}", None) for name in of_fit}
        sets = train_options.pop("eval_set", None)
        sets = self._evaluation_sets(sets, of_sets, X, y, data, of_fit)
        # Arguments replace parameters, and functions are marked by their arguments.
        params = self._train_params()
        for option in ("eval_at", "early_stopping", "metrics"):
            names = declared(TrainOptions)[option].params
            for name in train_options.keys() & names:
                params = {key: params[key] for key in params if key not in names}
                params[name] = train_options.pop(name)
        for name in params.keys() & METRIC_NAMES:
            metrics = [
                Metric.of(each) if measures_a_query(each) else each
                for each in as_list(params[name])
            ]
            if functions := [of_labels(metric) for metric in metrics if callable(metric)]:
                params[name] = [metric for metric in metrics if not callable(metric)] or None
                train_options["feval"] = functions + as_list(train_options.get("feval"))
        if "objective" in params:
            params["objective"] = of_labels(params["objective"])
        train_options["callbacks"] = as_list(params.pop("callbacks", None)) + as_list(
            train_options.get("callbacks")
        )
        train_options["valid_names"] = train_options.pop("eval_names", None)
        train_options |= {name: getattr(self, name) for name in _OF_TRAIN}
        self.model_: RankingModel = train(params, data, valid_sets=sets, **train_options)
        self._metric = self._headline(params)
        return self

    def predict(
        self,
        X: Any,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        **options: Any,
    ) -> Float64Array:
        """Return a score for each document, where higher is better. Scores are only comparable
        within a query.

        Args:
            X: as for `fit`. Frame columns are matched by name if `fit` received column names.
            qid, group: queries, which are only needed by models with columns within
                queries.
            options: as for `RankingModel.predict`: num_iteration, start_iteration, pred_leaf,
                pred_contrib. XGBRanker's names are also accepted (iteration_range=(0, 20)). Scores
                are always raw.

        Returns:
            float64[N], in row order. For leaves and contributions, see `RankingModel.predict`.

        Raises:
            NotFittedError: not fitted yet.
            DataError: as `RankingModel.predict`.
        """
        rows, qid, group = self._rows("predict", X, qid, group)
        if not options.keys() & THREADS:
            options["threads"] = self.n_jobs
        return self.model_.predict(rows, qid=qid, group=group, **options)

    def apply(self, X: Any, **options: Any) -> Array:
        """Return the leaf of each row in each tree, under XGBRanker's name."""
        return self.predict(X, pred_leaf=True, **options)

    def rank(
        self, X: Any, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> Int64Array:
        """Return the rank of each document in its query, int64[N] in row order. Rank 1 is best;
        ties keep row order.

        Args:
            X, qid, group: as for `fit`. All rows are one query if neither call specifies queries.

        Raises:
            NotFittedError, DataError: as `predict`.
        """
        rows, qid, group = self._rows("rank", X, qid, group)
        return self.model_.rank(rows, qid=qid, group=group, threads=self.n_jobs)

    def score(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean NDCG over queries at the largest cut-off in `eval_at`, which is NDCG@10
        by default.

        The conventions are those of the training, with the objective's gain, the mean over tie
        orders, and no queries without relevant documents. In a search over `gain`, set
        `conventions` to measure all candidates alike.

        Args:
            X, y, qid, group: as for `fit`. Queries are required if `fit` had queries.
            sample_weight: positive weights, either one per query, or one per row that is constant
                within each query.

        Raises:
            NotFittedError: not fitted yet.
            DataError: if queries are missing, all are excluded, or weights differ within a query,
                or as in `predict`.
        """
        rows, qid, group = self._rows("score", X, qid, group)
        scores = self.model_.predict(rows, qid=qid, group=group, threads=self.n_jobs)
        gain = self.model_.info.gain
        options: Any = {"weight": sample_weight, "sort": self.sort, "copy": False}
        columns = scores[:, None]
        if gain is not None:  # expressions are over features
            columns, options["categorical_feature"] = rows, [*self.model_.categories]
            if not hasattr(rows, "columns"):
                options["feature_names"] = self.model_.feature_names
        data = RankingDataset.from_arrays(columns, y, qid=qid, group=group, **options)
        if data.document_weights is not None:
            raise DataError("sample_weight differs within a query; NDCG needs one weight per query")
        data = data if gain is None else data.with_gain(gain)
        rules = Conventions(**(self.model_.info.conventions or {})).without_names
        bound = BoundMetrics(self._metric, data.labels, data.queries, rules, self.n_jobs)
        return bound.values(data.in_row_order(scores))[str(self._metric)]

    def save_model(self, fname: str | PathLike[str]) -> None:
        """Save the model like `RankingModel.save`. XGBoost or LightGBM opens the file without
        boostrank.
        """
        self._fitted.save(fname)

    def load_model(self, fname: str | PathLike[str]) -> None:
        """Load a model file, like `RankingModel.load`. The ranker then predicts as if `fit` had
        trained this model.
        """
        model = RankingModel.load(fname)
        self.model_, self.backend, self.n_features_in_ = model, model.backend, model.n_features
        self._has_names = not all(map(_GENERATED.fullmatch, model.feature_names))
        self._knows_queries = True
        self.__dict__.pop("feature_names_in_", None)
        if self._has_names:
            self.feature_names_in_ = np.array(model.feature_names, object)
        self._metric = self._headline(self.get_params())

    def get_booster(self) -> Any:
        """Return `booster_`, under XGBRanker's name."""
        return self.booster_

    def evals_result(self) -> Any:
        """Return `evals_result_`, with XGBRanker's names of the sets unless `fit` had names:
        `validation_0`, `validation_1`, ...
        """
        history = self.evals_result_
        if not all(map(_UNNAMED_SET.fullmatch, history)):
            return history
        return {f"validation_{i}": metrics for i, metrics in enumerate(history.values())}

    def get_num_boosting_rounds(self) -> int:
        """Return the number of rounds to train under any of its names, as in XGBRanker."""
        return int(_value_of(self.get_params(), "rounds", DEFAULT_ROUNDS))

    def get_xgb_params(self) -> dict[str, Any]:
        """Return the parameters that `boostrank.train` gets, under XGBRanker's name."""
        return self._train_params()

    @property
    def best_score(self) -> float:
        """The value at the best round that early stopping watches, as in XGBRanker."""
        sets = {name: values for name, values in self.best_score_.items() if name != "training"}
        if not sets:
            raise AttributeError("best_score needs a validation set: fit(..., eval_set=[(X, y)])")
        first = next(iter(sets.values()))
        return float(first[headline(list(first)) or ""])

    n_estimators_ = n_iter_ = _of_model("best_iteration", "`best_iteration_`, as in LGBMRanker.")
    best_iteration = _of_model(
        "best_iteration", "Best round from 0, as in XGBRanker.", lambda rounds: rounds - 1
    )
    booster_ = _of_model(
        "booster", "The engine's booster, such as for `shap.TreeExplainer(r.booster_)`."
    )
    best_iteration_ = _of_model("best_iteration", "Number of rounds used in prediction.")
    best_score_ = _of_model(
        "best_score", "Metrics at the best round (validation set -> metric -> value)."
    )
    evals_result_ = _of_model(
        "evals_result", "Metrics in each round (validation set -> metric -> values)."
    )
    n_features_ = _of_model("n_features", "Number of features.")
    feature_name_ = _of_model(
        "feature_names", "Feature names, which are generated if X had none.", list
    )
    objective_ = _of_model("info.objective_name", "Name of the objective.")

    @property
    def feature_importances_(self) -> Float64Array:
        """Share of each feature in the total gain or number of splits (`importance_type`),
        float64[d].

        Columns computed within queries are attributed to their feature. Linear models use the
        engine's measure.
        """
        kinds = {"gain": "gain", "total_gain": "gain", "split": "splits", "weight": "splits"}
        kind = self.importance_type or "gain"  # None is XGBRanker's default
        if kind not in kinds:
            raise ParameterError(f"importance_type={kind!r} is not one of {' | '.join(kinds)}")
        model = self._fitted
        values = np.asarray(getattr(model.trees(), kinds[kind]), np.float64)
        shares = model.columns.sum_by_feature(values)
        return shares / (shares.sum() or 1.0)

    @property
    def _fitted(self) -> RankingModel:
        check_is_fitted(self, "model_")
        return self.model_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.required = tags.target_tags.positive_only = True
        return tags

    @staticmethod
    def _headline(params: ParamValues) -> Metric:
        names = metric_names("ndcg", _value_of(params, "eval_at", DEFAULT_EVAL_AT))
        return Metric.parse(headline(names) or "ndcg")

    def _train_params(self) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for name, value in self.get_params().items():
            if value is None or name in (*_OF_TRAIN, "sort", "importance_type"):
                continue
            if name in _NOT_OF_INIT:
                remedy = "its entries: BoostRanker(**params)"
                if name != "params":
                    remedy = f"fit(X, y, {name}=...)"
                raise ParameterError(
                    f"{name!r} is no parameter of {type(self).__name__}; pass {remedy}"
                )
            draw = getattr(value, "integers", getattr(value, "randint", None))
            if draw is not None:  # a random generator
                value = draw(np.iinfo(np.int32).max)
            params[name] = value.item() if isinstance(value, np.generic) else value
        frequency = params.keys() & {"bagging_freq", "subsample_freq"}
        if self.backend == "lightgbm" and self.subsample is not None and not frequency:
            params["bagging_freq"] = 1
        return params

    def _rows(self, method: str, X: Any, qid: Any, group: Any) -> tuple[Any, Any, Any]:
        """Return the model's features, query ids and query sizes, for a method."""
        if method not in ("fit", "eval_set"):
            check_is_fitted(self, "model_")
        reset, explicit = method == "fit", qid is not None or group is not None
        features = () if reset else getattr(self, "feature_names_in_", ())
        # An index has the query ids only where no argument has them.
        X = X if explicit else with_query_level(X)
        X, column, name = split_table(X, features, warns=reset, usual=not (reset and explicit))
        is_table = name is not None
        if not is_table:
            check_rows(X)
            X = with_nan(masked_as_missing(X)) if isinstance(X, np.ndarray | list) else X
        if explicit and name == QID:
            raise DataError(
                f"queries are given twice, as qid or group and as the column {QID!r}; remove one"
            )
        qid = qid if explicit else column
        if reset:
            self._has_names, self._knows_queries = is_table, qid is not None or group is not None
        if not (is_table and self._has_names):
            fewest = {"fit": 2, "eval_set": 0}.get(method, 1)  # training names an empty set
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse=True,
                ensure_all_finite=False,
                ensure_min_samples=fewest,
            )
        elif reset:
            validate_data(self, X, skip_check_array=True)
        if method != "predict":
            group = self._one_query(X, method, qid, group)
        return X, qid, group

    def _dataset(
        self,
        method: str,
        X: Any,
        y: Any,
        *,
        qid: Any,
        group: Any,
        sample_weight: Any,
        feature_names: Any,
        **options: Any,
    ) -> RankingDataset:
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        rows, qid, group = self._rows(method, X, qid, group)
        if hasattr(rows, "columns"):
            columns = [str(name) for name in getattr(rows, "column_names", rows.columns)]
            if method == "fit" and feature_names not in (None, columns):
                raise ParameterError(
                    "feature_name differs from the column names of X; rename the columns instead"
                )
            feature_names = None
        options |= {"weight": sample_weight, "feature_names": feature_names, "sort": self.sort}
        return RankingDataset.from_arrays(rows, y, qid=qid, group=group, copy=False, **options)

    def _one_query(self, rows: Any, method: str, qid: Any, group: Any) -> Any:
        """Return the query sizes, or a single query's size if neither this call nor `fit` specifies
        queries.
        """
        if qid is not None or group is not None:
            return group
        remedy = f"pass qid=ids (eval_qid=[ids] for an eval_set), or a column {QID!r} of a frame"
        if self._knows_queries:
            raise DataError(
                f"{method} needs queries, because fit had them: {remedy}; in scikit-learn's"
                " searches and cross-validation, use the column or"
                " sklearn.set_config(enable_metadata_routing=True)"
            )
        if method == "fit":
            if rows.shape[0] > _MOST_OF_ONE_QUERY:
                raise DataError(
                    f"no queries were given, and {rows.shape[0]:,} rows are too many for one:"
                    f" {remedy}"
                )
            warn_user(f"no queries were given, so all rows are one query; {remedy}")
        return [rows.shape[0]]

    def _evaluation_sets(
        self,
        sets: Any,
        of_sets: ParamValues,
        X: Any,
        y: Any,
        data: RankingDataset,
        of_fit: ParamValues,
    ) -> list[RankingDataset] | None:
        if sets is None:
            if any(values is not None for values in of_sets.values()):
                raise ParameterError("eval_qid, eval_group and eval_sample_weight need eval_set")
            return None
        if isinstance(sets, tuple) and len(sets) == 2 and not isinstance(sets[0], tuple):
            sets = [sets]
        pairs = sets if isinstance(sets, list | tuple) else [None]
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise ParameterError("eval_set must be a list of pairs (X, y), or one pair")
        nothing = [None] * len(sets)
        of_sets = {name: nothing if values is None else values for name, values in of_sets.items()}
        for name, values in of_sets.items():
            if len(values) != len(sets):
                raise ParameterError(
                    f"eval_{name} has {len(values)} entries for {len(sets)} validation sets; pass a"
                    " list with an array for each set"
                )
        # The training set is reused where its rows are repeated with the same queries and weights.
        # Positions of categorical features count the columns of X, so sets get the names.
        datasets = []
        for i, (features, labels) in enumerate(sets):
            of_set = {name: values[i] for name, values in of_sets.items()}
            repeats, weighted = features is X and labels is y, of_set["sample_weight"] is not None
            if repeats and of_set["qid"] is of_set["group"]:  # no queries
                of_set |= {"qid": of_fit["qid"], "group": of_fit["group"]}
            candidate = self._dataset(
                "eval_set",
                features,
                labels,
                feature_names=data.feature_names,
                categorical_feature=[*data.categories],
                **of_set,
            )
            compared = ("sizes", "each_weight", "document_weights") if weighted else ("sizes",)
            if repeats and all(
                np.array_equal(getattr(candidate.queries, name), getattr(data.queries, name))
                for name in compared
            ):
                candidate = data
            datasets.append(candidate)
        return datasets


def _value_of(params: ParamValues, option: str, default: Any) -> Any:
    """Return the value of an option under any of its names, or the default."""
    names = declared(TrainOptions)[option].params
    return next((params[name] for name in names if params.get(name) is not None), default)


def _is_parameter(name: str) -> bool:
    """Return True if a name can be a parameter, and is not an attribute set by `fit`."""
    return not (name.startswith("_") or name.endswith("_") or "__" in name)


# Arguments of LGBMRanker and XGBRanker.


def _fit_arguments(options: ParamValues) -> dict[str, Any]:
    """Return the arguments of `fit` under boostrank's names."""
    arguments = dict(options)
    if period := arguments.pop("verbose", None):
        arguments["callbacks"] = [*as_list(arguments.get("callbacks")), LogRounds(period)]
    X, y = arguments.pop("eval_X", None), arguments.pop("eval_y", None)
    if (X is None) != (y is None):
        raise ParameterError("eval_X and eval_y must be given together")
    if X is not None:
        several = isinstance(X, tuple)
        if isinstance(X, list):  # of tables or matrices, or the rows of one set
            several = all(
                hasattr(type(rows), "columns") or len(getattr(rows, "shape", ())) == 2 for rows in X
            )
        if several and (not isinstance(y, list | tuple) or len(X) != len(y)):
            raise ParameterError(f"eval_X has {len(X)} sets: eval_y must list the labels of each")
        sets = list(zip(X, y, strict=True)) if several else (X, y)
        arguments = put(arguments, "eval_set", sets, "eval_X")
    for name in arguments.keys() & _REFUSED_OF_FIT.keys():
        if arguments.pop(name) is not None:
            raise ParameterError(f"fit has no argument {name!r}: {_REFUSED_OF_FIT[name]}")
    return rename(arguments, _FIT, _RENAMED, "fit")
