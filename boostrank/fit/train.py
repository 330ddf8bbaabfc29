"""Training. `train` follows `lgb.train`, with objectives over whole queries and boostrank's own metrics.

Every training is `fit(resolve(options, data))`, where `resolve` validates and makes all choices, and `fit` trains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.conventions import expression_of, parse_gain
from boostrank.core.errors import DataError, DataWarning, ParameterError, TrainingError, warn_user
from boostrank.core.types import Int64Array
from boostrank.data.categories import Categories, check_codes, named_columns
from boostrank.data.dataset import RankingDataset, as_dataset, is_lightgbms
from boostrank.engines import get_backend
from boostrank.engines.trees import engine_names
from boostrank.fit.arguments import takes_foreign_arguments
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.fill import filled, fills_of
from boostrank.fit.folds import FoldEnded, join_validation, train_folds
from boostrank.fit.params import GAIN_NAMES, OBJECTIVE_NAMES, STOPPING_NAMES, pop_param
from boostrank.fit.plan import ALONE, Draft, Peers, Plan
from boostrank.fit.presets import choose_recipe, occurring_columns
from boostrank.fit.renewal import renew_leaves
from boostrank.fit.run import run
from boostrank.model.averaging import limited
from boostrank.model.ranking_model import RankingModel, find_model
from boostrank.objective.description import TrainingObjective
from boostrank.objective.mixture import objective_from_dict
from boostrank.options import DEFAULT_ROUNDS, KEYWORDS, QUICK, TrainOptions, takes_options

CATEGORY_NAMES = ("categorical_feature", "categorical_features", "categorical_column", "cat_feature", "cat_column")
"""LightGBM's names, accepted for every engine."""
_WHOLE_GRADES = ("lightgbm:lambdarank", "lightgbm:rank_xendcg", "rank_xendcg")


@takes_foreign_arguments
@takes_options(KEYWORDS.values())
def train(
    params: Mapping[str, Any] | None,
    train_set: Any,
    num_boost_round: int | None = None,
    valid_sets: Any = None,
    valid_names: Sequence[str] | str | None = None,
    feval: Any = None,
    init_model: Any = None,
    keep_training_booster: bool = False,
    callbacks: Sequence[Callable[..., Any]] | None = None,
    **options: Any,
) -> RankingModel:
    """Train a ranker. The signature follows `lgb.train`.

    Arguments of `lgb.train` before LightGBM 4, and of `xgb.train`, are also accepted:
    `early_stopping_rounds`, `verbose_eval`, `evals_result`, `fobj`; `evals`, `obj`,
    `custom_metric`, `maximize`.

    Args:
        params: LightGBM's parameter names and aliases, on either backend, and the objective's parameters:
            `{"objective": "shf-sdcg", "sigma": 0.5, "learning_rate": 0.1}`. `objective` may be a name (see `boostrank
            objectives`), an `Objective`, a callable as in `lgb.train`, or an engine's own objective such as
            "lightgbm:lambdarank" or "xgboost:rank:ndcg". `metric` and `eval_at` select boostrank's metrics.
        train_set: `RankingDataset`. An `lgb.Dataset` with groups is copied if it still has its rows.
        num_boost_round: number of rounds; None for 100. Schedules over the whole training cover these rounds and the
            rounds of `init_model`.
        valid_sets: data sets to evaluate in each round. May include `train_set`. Any folds also contain their queries.
        valid_names: names for the log. The default is `valid_0`, ..., and "training" for the training set.
        feval: one function or a list, (scores, engine's data set) -> (name, value, higher is better) or a list.
        init_model: path, booster, fitted ranker or RankingModel to continue from its best round. Its objective is kept
            unless `params` sets another one.
        keep_training_booster: must be False. Use `init_model` to continue training.
        callbacks: callbacks from LightGBM (on either backend), XGBoost (on its backend) or boostrank, or any callable
            that takes a `CallbackEnv`. They are called in every fold.
        backend: "lightgbm", "xgboost", or "linear" for scores X w, where each round is an optimiser step and the
            parameters are those in `boostrank.engines.linear.adapter.PARAMS`.
        conventions: treatment of gains, ties and empty queries in metrics, as a `Conventions` or a preset name. The
            default is the objective's gain, the mean over tie orders, and no queries without relevant documents.
        checkpoint: a `Checkpoint`, which saves the training state periodically. Training that resumes from it
            (`resume=True`) gives a byte-identical result. Callable objectives and callbacks that change parameters must
            be pure functions. Each fold has its own file.
        within_query: features to add that are relative to the query, such as rank and z-score, as a `WithinQuery` or
            its kinds ("rank,zscore"). The model computes them itself, and a continued model keeps its own.
        of: features to which `within_query` applies, by name or number; None for all numeric ones.
        start: with "linear", trees start from a cross-fitted ridge regression (`boostrank.fit.start.cross_fit`), which
            is part of the model. "auto" means linear for the objective `auto` if possible, and "none" means no start.
        quality: "plain" is a single training with the engine's defaults. "quick" is a single training with trees suited
            to the data, and with early stopping if there is a validation set and no `num_boost_round`; its leaves are
            then computed again from the queries of both sets (`boostrank.fit.renewal`). "good" is the average of such
            trainings on folds of whole queries. See `boostrank.fit.presets`.
        folds: number of folds of whole queries. For each fold, a model is trained without the fold and stopped early on
            it, and the models are averaged. None means the default of `quality`.
        max_trees: maximum number of trees in the model, including the linear start (one per feature).
        fill: what replaces missing values, also when the model scores: a number, "mean" or "median" of the training
            data for all numeric features, or a mapping from names to these.

    Returns:
        The model, whose `.booster` is the engine's own booster. Leaves are rounded once, so that every program computes
        the same sums (`boostrank.engines.trees`). Metrics during training use the unrounded leaves.

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
            "keep_training_booster must be False, as model.booster keeps no data for update; add rounds with init_model"
        )
    options |= {"feval": feval, "init_model": init_model, "callbacks": callbacks}
    given = valid_sets if isinstance(valid_sets, list | tuple) else [] if valid_sets is None else [valid_sets]
    params = {**_own_params(train_set), **(params or {})}
    train = as_dataset(train_set, "train_set")
    sets = [train if one is train_set else as_dataset(one, "valid_sets", train.feature_names) for one in given]
    valid = named_sets(sets, valid_names, train)
    return fit(resolve(with_params(TrainOptions(rounds=num_boost_round, **options), params), train, valid))


def _own_params(data: Any) -> Mapping[str, Any]:
    """Return the parameters of an `lgb.Dataset`, which `lgb.train` merges with the training parameters."""
    if not is_lightgbms(data):
        return {}
    named = {} if data.categorical_feature == "auto" else {"categorical_feature": data.categorical_feature}
    return {**named, **(data.params or {})}


def with_params(options: TrainOptions, params: Mapping[str, Any]) -> TrainOptions:
    """Move entries of `params` that are arguments of `train` to the options, for searches."""
    moved = {name: value for name, value in params.items() if name in KEYWORDS}
    for name in moved.keys() & options.changed.keys():
        raise ParameterError(f"{name} is given twice: in params, and as an argument")
    return replace(options, params={name: value for name, value in params.items() if name not in moved}, **moved)


def fit(plan: Plan, fold_ended: FoldEnded | None = None) -> RankingModel:
    """Train according to a plan. `fold_ended` is called after each fold."""
    for callback in plan.options.callbacks or ():
        if hasattr(callback, "planned"):
            callback.planned(plan)
    wide, columns, most = plan.train_set, used_columns(plan), plan.options.max_trees
    plan = plan if columns is None else _narrowed(plan, columns)
    try:
        model = train_folds(plan, fold_ended) if plan.recipe.folds else _train_once(plan)
        if most is not None and not plan.recipe.folds:
            model = limited(model, most)
    except TrainingError as error:
        if columns is not None and error.model is not None:
            error.model = _widened(error.model, wide, columns)
        raise
    return model if columns is None else _widened(model, wide, columns)


def _train_once(plan: Plan) -> RankingModel:
    """Train a single model. The preset `quick` renews its leaves on the queries that stopped it, too."""
    model = run(plan)
    in_memory = not any(data.on_disk for data in (plan.train_set, *plan.others))
    stopped = bool(plan.others) and plan.settings.stopping_rounds > 0
    if plan.recipe.preset == QUICK and stopped and in_memory and plan.peers is ALONE:
        return renew_leaves(model, join_validation(plan)[0])
    return model


def named_sets(
    sets: Sequence[RankingDataset], names: Sequence[str] | str | None, train_set: RankingDataset
) -> list[tuple[str, RankingDataset]]:
    """Return pairs of validation sets and their names."""
    given = [] if names is None else [names] if isinstance(names, str) else list(names)
    if len(given) > len(sets):
        raise ParameterError(f"there are {len(given)} valid_names for {len(sets)} valid_sets; pass one name per set")
    made = ["training" if one is train_set else f"valid_{i}" for i, one in enumerate(sets)]
    found = [*given, *made[len(given) :]]
    if len(set(found)) < len(found):
        raise ParameterError(f"valid_names must be distinct: {', '.join(found)}")
    return list(zip(found, sets, strict=True))


def draft(options: TrainOptions) -> Draft:
    """Validate as much as possible before the data are read."""
    engine = get_backend(options.backend)
    if options.max_trees is not None and not engine.grows_trees:
        raise ParameterError(f"max_trees does not apply: models with backend={engine.name!r} have no trees")
    return Draft(options=options, engine=engine, params=options.flat(), rounds=options.rounds or DEFAULT_ROUNDS)


def resolve(
    options: TrainOptions,
    train_set: RankingDataset,
    valid: Sequence[tuple[str, RankingDataset]] = (),
    peers: Peers = ALONE,
) -> Plan:
    """Create a training plan.

    Args:
        valid: names and validation sets, which may include `train_set`.
        peers: workers that train together. A validation set may have no rows on some of them.
    """
    if not isinstance(options.checkpoint, Checkpoint | None):
        raise ParameterError(f"checkpoint={options.checkpoint!r}: expected a Checkpoint(path)")
    earlier, given = _earlier(options.init_model, train_set.feature_names), draft(options)
    names, sets = [name for name, _ in valid], [data for _, data in valid]
    _check(train_set, valid if peers is ALONE else ())
    params, prepared, of_valid = prepare(given.params, train_set, sets, earlier)
    plan = Plan(
        options=options,
        engine=given.engine,
        params=params,
        rounds=given.rounds,
        train_set=prepared,
        valid=tuple(zip(names, of_valid, strict=True)),
        earlier=earlier,
        peers=peers,
    )
    plan = _filled(plan)
    if train_set.document_weights is not None and plan.settings.objective is None:
        native = plan.settings.native_objective
        raise DataError(
            f"{f'objective {given.engine.name}:{native}' if native else 'a custom objective'} does not support "
            "document weights: remove them, or use one of boostrank's objectives (`boostrank objectives`)"
        )
    broken = [label for one in (train_set, *sets) for label in one.labels[one.labels != np.floor(one.labels)][:1]]
    if broken and plan.settings.gain == "exponential" and peers is ALONE:
        words = f"label {broken[0]:g} is no whole number, and its gain is 2^label - 1"
        warn_user(f"{words}; gain='linear' takes the labels as gains", DataWarning)
    recipe = choose_recipe(plan)
    if any(one.document_weights is not None for one in ((train_set, *sets) if recipe.folds else sets)):
        warn_user("metrics ignore document weights; only query weights are used", DataWarning)
    if recipe.note:
        warn_user(f"quality={recipe.preset!r} trains a single model: {recipe.note}", DataWarning)

    def over(params: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the recipe's parameters, and those of its member if there is a single training."""
        found = {**params, **recipe.trees}
        if recipe.patience:
            found = {name: value for name, value in found.items() if name not in STOPPING_NAMES}
            found["early_stopping_round"] = recipe.patience
        return found if recipe.folds else recipe.members[0].over(found)

    plan = replace(plan, recipe=recipe, rounds=recipe.rounds, params=over(params))
    if recipe.folds:
        return plan
    return replace(plan, record=over(given.params), begins_linear=recipe.members[0].begins_linear)


def _filled(plan: Plan) -> Plan:
    """Replace missing values, as the options say or as the continued model does."""
    asked, model, data = plan.options.fill, plan.earlier, plan.train_set
    before = None if model is None else model.info.fill
    if asked is None and not before:
        return plan
    if plan.options.within_query is not None or (model is not None and model.within_query is not None):
        raise ParameterError("fill and within_query cannot be used together: fill the data before training")
    named = plan.engine.params.named(plan.settings.engine)
    unfit = [name for name in ("zero_as_missing", "linear_tree") if named.get(name)]
    if unfit or not plan.engine.grows_trees:
        raise ParameterError(f"fill is not available with {', '.join(unfit) or plan.engine.name}")
    if data.on_disk:
        raise DataError("fill needs rows in memory: use --route memory, or fill the files")
    fill = dict(before or {}) if asked is None else fills_of(asked, data)
    if before and before != fill:
        raise ParameterError("init_model has other fill values, which cannot change: remove fill")
    return replace(plan.converted(lambda rows: filled(rows, fill)), fill=fill)


def _earlier(given: Any, names: tuple[str, ...]) -> RankingModel | None:
    """Return the model to continue. The model of a fitted ranker keeps the ranker's rounds."""
    found = None if given is None else find_model(given)
    if given is not None and found is None:
        kind = type(given).__name__
        raise ParameterError(f"init_model must be a path, a RankingModel, a Booster or a fitted ranker, not {kind}")
    if found is not None and found.feature_names == engine_names(names) != names:  # a booster without its record
        within = {} if found.within_query is None else {"within_query": found.within_query.record}
        found = found.altered(info=found.info | {"data": {"feature_names": list(names)}, **within})
    return found


def _check(train_set: RankingDataset, valid: Iterable[tuple[str, RankingDataset]]) -> None:
    """Raise an error for data sets without rows or features."""
    if not train_set.n_documents:
        raise DataError("the training data have no rows")
    if not train_set.n_features:
        raise DataError("the training data have no features: no row has a number:value pair")
    for name, data in valid:
        if not data.n_documents:
            raise DataError(f"the validation set {name!r} has no rows")


# Parameters that refer to the data: categories, gain expressions, and the objective of a continued model.


def prepare(
    params: Mapping[str, Any],
    train_set: RankingDataset,
    valid: Sequence[RankingDataset] = (),
    earlier: RankingModel | None = None,
) -> tuple[dict[str, Any], RankingDataset, list[RankingDataset]]:
    """Move categories and gain expressions from the parameters to the data sets.

    Labels become gains if the gain is an expression. If the training set is also a validation set, it stays the same
    object. The categories, objective and gain of an `earlier` model to continue are kept.
    """
    rest, coded = _with_categories(params, train_set, earlier)
    rest = with_objective_of(earlier, rest)
    learnt = None if earlier is None else earlier.info.gain
    if learnt is not None and coded.gain is None and not any(name in rest for name in GAIN_NAMES):
        rest[GAIN_NAMES[0]] = learnt
    rest, sets = _with_gain(rest, [coded, *(coded if one is train_set else one for one in valid)])
    return rest, sets[0], sets[1:]


def _with_categories(
    params: Mapping[str, Any], train_set: RankingDataset, earlier: RankingModel | None
) -> tuple[dict[str, Any], RankingDataset]:
    """Move `categorical_feature` from the parameters to the training set."""
    rest = dict(params)
    names, known, found, features = train_set.feature_names, train_set.categories, train_set, train_set.features
    given = named_columns(pop_param(rest, CATEGORY_NAMES, None), names)
    named = [name for name in given if name not in known or known[name].ordered]
    for name in named if isinstance(features, np.ndarray) or sparse.issparse(features) else ():
        column = features[:, names.index(name)]
        check_codes(column.data if sparse.issparse(column) else column, name)
    if named:
        added = {name: replace(known.get(name, Categories()), ordered=False) for name in named}
        found = replace(train_set, categories={**known, **added})
    if earlier is not None:
        coded = found.with_features(earlier.feature_names, whose="the model", categories=earlier.categories)
        found = coded if coded.feature_names == names else found
    return rest, found


def with_objective_of(earlier: RankingModel | None, params: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the objective of the continued model unless another objective is given."""
    before = None if earlier is None else earlier.info.objective
    if not before or any(name in params for name in OBJECTIVE_NAMES):
        return dict(params)
    name = str(before.get("name"))
    try:
        return {**params, "objective": name if ":" in name else objective_from_dict(before)}
    except ParameterError as error:
        raise ParameterError(
            f"the model to continue was trained with objective {name[:40]!r}, which cannot be restored from its "
            "file: pass objective="
        ) from error


def _with_gain(params: dict[str, Any], sets: list[RankingDataset]) -> tuple[dict[str, Any], list[RankingDataset]]:
    """Compute a gain expression, whose values become the labels, with linear gain."""
    name = next((name for name in GAIN_NAMES if name in params), GAIN_NAMES[0])
    given = params.get(name)
    expression = expression_of(given)
    held = next((one.gain for one in sets if one.gain is not None), None)
    text = expression.text if expression is not None else held
    chosen = next((params[one] for one in OBJECTIVE_NAMES if one in params), None)
    clicked = any("clicks" in one.provenance.options for one in sets)
    if (clicked or text is not None) and isinstance(chosen, str) and chosen.strip() in _WHOLE_GRADES:
        what = "gains of clicks are real numbers" if clicked else f"the gain {text!r} is a real number"
        raise ParameterError(f"{chosen} needs integer grades, but {what}: use our lambdarank or xe-ndcg")
    if text is None:
        return params, sets
    if expression is None and given is not None and parse_gain(given) != "linear":
        raise DataError(f"the labels are already the gain {held!r}, but gain={given!r} expects labels: remove it")
    rest = {key: value for key, value in params.items() if key != name}
    if not isinstance(chosen, TrainingObjective):
        rest[name] = "linear"
    elif chosen.gain != "linear":
        raise ParameterError(f"the labels are the gain {text!r}: create the objective with gain='linear'")
    made = {id(one): one.with_gain(text) for one in sets}
    return rest, [made[id(one)] for one in sets]


# Wide sparse data: train without features that never occur, and restore them in the model.


def used_columns(plan: Plan) -> Int64Array | None:
    """Return the columns that occur in the training set, in ascending order, or None if training keeps all columns.

    Training keeps all columns if most occur, or if a parameter, a model or a column within queries refers to columns.
    """
    data, engine = plan.train_set, plan.engine
    if data.categories or not engine.grows_trees:
        return None
    if any(one is not None for one in (data.candidates, plan.within, plan.earlier)):
        return None
    named = engine.params.named(plan.settings.engine).keys() & engine.params.of_features
    return None if named else occurring_columns(data)


def _narrowed(plan: Plan, columns: Int64Array) -> Plan:
    names = tuple(plan.train_set.feature_names[i] for i in columns.tolist())
    return plan.converted(lambda data: replace(data, features=data.features[:, columns], feature_names=names))


def _widened(model: RankingModel, data: RankingDataset, columns: Int64Array) -> RankingModel:
    """Convert a model that was trained on some columns to all features in a data set."""
    engine = model._engine
    body = engine.format.widened(model._booster.to_bytes(), columns.tolist(), engine_names(data.feature_names))
    known = {"features": data.n_features, "feature_names": list(data.feature_names), "fingerprint": data.fingerprint}
    info = model.info | {"data": {**(model.info.data or {}), **known}}
    return model.altered(booster=engine.load(body), info=info)
