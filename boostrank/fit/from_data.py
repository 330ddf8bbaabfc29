"""Training on data in memory. `train` follows `lgb.train`, with objectives over whole queries."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.types import ParamValues
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.data.engine_data import is_lightgbms
from boostrank.fit.callbacks import LogRounds
from boostrank.fit.execute import execute
from boostrank.fit.resolve import resolve
from boostrank.fit.settings import OBJECTIVE_NAMES, STOPPING_NAMES
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.options import KEYWORDS, F, TrainOptions, as_list, takes_options

_RENAMED = {
    "dtrain": "train_set",
    "evals": "valid_sets",
    "custom_metric": "feval",
    "xgb_model": "init_model",
}
_PARAM_NAMES = {
    "obj": OBJECTIVE_NAMES,
    "fobj": OBJECTIVE_NAMES,
    "early_stopping_rounds": STOPPING_NAMES,
    "categorical_feature": ("categorical_feature",),
}
_REFUSED = {
    "learning_rates": "pass callbacks=[lightgbm.reset_parameter(learning_rate=...)]",
    "feature_name": "name the features of the data: lightgbm.Dataset(X, y, feature_name=...), or "
    "RankingDataset.from_arrays(X, y, feature_names=...)",
}
_FOREIGN = {*_RENAMED, *_PARAM_NAMES, *_REFUSED, "maximize", "evals_result", "verbose_eval"}


def takes_foreign_arguments(train: F) -> F:
    """Decorate `boostrank.train` so that it takes arguments of the engines' own functions.

    `evals_result` is filled when the training ends. With several sets in `evals`, early stopping
    watches the last, as in XGBoost. Metrics that return (name, value) get their direction from
    `maximize`.
    """

    @functools.wraps(train)
    def called(*args: Any, **options: Any) -> Any:
        merged = options | inspect.signature(train).bind_partial(*args).arguments
        if not options.keys() & _FOREIGN and not _are_pairs(merged.get("valid_sets")):
            return train(*args, **options)
        values = {name: merged.pop(name, None) for name in _FOREIGN}
        foreign = {
            name: value for name, value in values.items() if str(value) not in ("None", "auto")
        }
        history = foreign.pop("evals_result", {})
        if not isinstance(history, dict):
            raise ParameterError(f"evals_result={history!r} must be a dictionary, which is filled")
        for name in foreign.keys() & _REFUSED:
            raise ParameterError(f"boostrank.train has no argument {name!r}: {_REFUSED[name]}")
        for name in foreign.keys() & _RENAMED:
            if merged.get(_RENAMED[name]) is not None:
                raise ParameterError(f"{_RENAMED[name]} is given twice, also as {name}")
            merged[_RENAMED[name]] = foreign[name]
        model = train(**_translated(merged, foreign))
        history.clear()
        history.update(model.evals_result)
        return model

    return cast(F, called)


@takes_foreign_arguments
@takes_options(KEYWORDS.values())
def train(
    params: ParamValues | None,
    train_set: Any,
    num_boost_round: int | None = None,
    valid_sets: Any = None,
    valid_names: Sequence[str] | str | None = None,
    feval: Any = (),
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Sequence[Callable[..., Any]] | None = (),
    **options: Any,
) -> RankingModel:
    """Train a ranker. The signature follows `lgb.train`.

    Arguments of `lgb.train` before LightGBM 4, and of `xgb.train`, are also accepted:
    `early_stopping_rounds`, `verbose_eval`, `evals_result`, `fobj`; `evals`, `obj`,
    `custom_metric`, `maximize`.

    Args:
        params: LightGBM's parameter names and aliases, on either backend, and the objective's
            parameters: `{"objective": "shf-sdcg", "sigma": 0.5, "learning_rate": 0.1}`. `objective`
            may be a name (see `boostrank objectives`), an `Objective`, a callable as in
            `lgb.train`, or an engine's own objective such as "lightgbm:lambdarank" or
            "xgboost:rank:ndcg". `metric` and `eval_at` select boostrank's metrics.
        train_set: `RankingDataset`. An `lgb.Dataset` with groups is copied if it still has its
            rows.
        num_boost_round: number of rounds; None for 100. Schedules over the whole training cover
            these rounds and the rounds of `init_model`.
        valid_sets: data sets to evaluate in each round. May include `train_set`. Any folds also
            contain their queries.
        valid_names: names for the log. The default is `valid_0`, ..., and "training" for the
            training set.
        feval: one function or a list, (scores, engine's data set) -> (name, value, higher is
            better) or a list.
        init_model: path, booster, fitted ranker or RankingModel to continue from its best round.
            Its objective is kept unless `params` sets another one.
        keep_training_booster: must be False. Use `init_model` to continue training.
        callbacks: callbacks from LightGBM (on either backend), XGBoost (on its backend) or
            boostrank, or any callable that takes a `CallbackEnv`. They are called in every fold.
        backend: "lightgbm", "xgboost", or "linear" for scores X w, where each round is an optimiser
            step and the parameters are those in `boostrank.engines.linear.adapter.PARAMS`.
        conventions: treatment of gains, ties and empty queries in metrics, as a `Conventions` or a
            preset name. The default is the objective's gain, the mean over tie orders, and no
            queries without relevant documents.
        checkpoint: a `Checkpoint`, which saves the training state periodically. Training that
            resumes from it (`resume=True`) gives a byte-identical result. Callable objectives and
            callbacks that change parameters must be pure functions. Each fold has its own file.
        within_query: features to add that are relative to the query, such as rank and z-score, as a
            `WithinQuery` or its kinds ("rank,zscore"). The model computes them itself, and a
            continued model keeps its own.
        of: features to which `within_query` applies, by name or number; None for all numeric ones.
        start: with "linear", trees start from a cross-fitted ridge regression
            (`boostrank.fit.start.cross_fit`), which is part of the model. "auto" means linear for
            the objective `auto` if possible, and "none" means no start.
        quality: "plain" is a single training with the engine's defaults. "quick" is a single
            training with trees suited to the data, and with early stopping if there is a validation
            set and no `num_boost_round`; its leaves are then computed again from the queries of
            both sets (`boostrank.fit.renewal`). "good" is the average of such trainings on folds of
            whole queries. See `boostrank.fit.presets`.
        folds: number of folds of whole queries. For each fold, a model is trained without the fold
            and stopped early on it, and the models are averaged. None means the default of
            `quality`.
        max_trees: maximum number of trees in the model, including the linear start (one per
            feature).
        fill: what replaces missing values, also when the model scores: a number, "mean" or "median"
            of the training data for all numeric features, or a mapping from names to these.

    Returns:
        The model, whose `.booster` is the engine's own booster. Leaves are rounded once, so that
        every program computes the same sums (`boostrank.engines.trees`). Metrics during training
        use the unrounded leaves.

    Raises:
        InputError: if parameters or data are invalid. Nothing was trained.
        TrainingError: if a gradient is not finite, or there is nothing to learn.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> model = boostrank.train(params, data, 3)
        >>> model.num_trees(), model.predict(data).shape == (data.n_documents,)
        (3, True)
    """
    if keep_training_booster:
        raise ParameterError(
            "keep_training_booster must be False, as model.booster keeps no data for update; add"
            " rounds with init_model"
        )
    model = None if init_model is None else as_model(init_model, "init_model")
    options |= {"feval": feval, "init_model": init_model, "callbacks": callbacks}
    params = by_name(params)
    if is_lightgbms(train_set):
        # As in `lgb.train`, the parameters of the data set are merged with those of the training.
        params = {**(train_set.params or {}), **params}
        if train_set.categorical_feature != "auto":
            params = {"categorical_feature": train_set.categorical_feature, **params}
    # Convert the data, where the training set stays the same object.
    data = as_dataset(train_set, "train_set")
    sets = [
        data if rows is train_set else as_dataset(rows, "valid_sets", data.feature_names)
        for rows in as_list(valid_sets)
    ]
    valid = name_sets(sets, valid_names, data)
    train_options = TrainOptions(rounds=num_boost_round, **options)
    plan = resolve(with_params(train_options, params), data, valid, init_model=model)
    return execute(plan)


def with_params(options: TrainOptions, params: ParamValues) -> TrainOptions:
    """Move entries of `params` that are arguments of `train` to the options, for searches."""
    keywords = {name: value for name, value in params.items() if name in KEYWORDS}
    for name in keywords.keys() & options.changed.keys():
        raise ParameterError(f"{name} is given twice: in params, and as an argument")
    engine_params = {name: value for name, value in params.items() if name not in keywords}
    return replace(options, params=engine_params, **keywords)


def name_sets(
    sets: Sequence[RankingDataset], names: Sequence[str] | str | None, train_set: RankingDataset
) -> list[tuple[str, RankingDataset]]:
    """Return pairs of validation sets and their names."""
    set_names: list[str] = []
    if names is not None:
        set_names = [names] if isinstance(names, str) or not np.iterable(names) else list(names)
        if not all(isinstance(name, str) for name in set_names):
            raise ParameterError(f"valid_names={names!r} must be texts")
    if len(set_names) > len(sets):
        raise ParameterError(
            f"there are {len(set_names)} valid_names for {len(sets)} valid_sets; pass one name per"
            " set"
        )
    numbered = ["training" if data is train_set else f"valid_{i}" for i, data in enumerate(sets)]
    set_names += numbered[len(set_names) :]
    if len(set(set_names)) < len(set_names):
        raise ParameterError(f"valid_names must be distinct: {', '.join(set_names)}")
    return list(zip(set_names, sets, strict=True))


# Arguments of `lgb.train` before LightGBM 4, and of `xgb.train`.


def by_name(params: Any) -> dict[str, Any]:
    """Return parameters by name, from a mapping or, as in XGBoost, pairs in which names recur."""
    if params is None or isinstance(params, Mapping):
        return dict(params or {})
    merged: dict[str, Any] = {}
    try:
        for name, value in params:
            merged[name] = [*as_list(merged[name]), value] if name in merged else value
    except (TypeError, ValueError):
        raise ParameterError(f"params={params!r} must be a dictionary") from None
    return merged


def _are_pairs(sets: Any) -> bool:
    return isinstance(sets, list | tuple) and any(isinstance(pair, tuple) for pair in sets)


def _translated(merged: dict[str, Any], foreign: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `boostrank.train`."""
    # Arguments replace the parameters that they name, as in LightGBM and XGBoost.
    params, callbacks = by_name(merged.pop("params", None)), merged.pop("callbacks", None) or ()
    for name, aliases in _PARAM_NAMES.items():
        if name in foreign:
            params = {key: value for key, value in params.items() if key not in aliases}
            params[aliases[0]] = foreign[name]
    stops = any(params.get(name) for name in STOPPING_NAMES)
    if _are_pairs(merged.get("valid_sets")):
        pairs = list(merged["valid_sets"])
        if merged.get("valid_names") or any(len(as_list(pair)) != 2 for pair in pairs):
            raise ParameterError(
                "evals must be a list of pairs (data set, name), without valid_names"
            )
        pairs = [*pairs[-1:], *pairs[:-1]] if stops else pairs
        merged["valid_sets"], merged["valid_names"] = map(list, zip(*pairs, strict=True))
    metrics, maximize = as_list(merged.get("feval")), foreign.get("maximize")
    if maximize is False and not metrics:
        raise ParameterError(
            "maximize=False: higher is better for boostrank's metrics; leave it out"
        )
    if all(map(callable, metrics)) and (maximize is not None or not stops):
        merged["feval"] = [_directed(metric, bool(maximize)) for metric in metrics]
    if period := foreign.get("verbose_eval"):
        callbacks = [*callbacks, LogRounds(period)]
    return merged | {"params": params, "callbacks": callbacks}


def _directed(metric: Callable[..., Any], maximize: bool) -> Callable[..., Any]:
    """Add a direction to results (name, value)."""

    @functools.wraps(metric)
    def called(*arguments: Any) -> Any:
        results = metric(*arguments)
        pairs = results if isinstance(results, list) else [results]
        return [(*pair, maximize)[:3] if isinstance(pair, tuple) else pair for pair in pairs]

    return called
