"""XGBoost's parameters, under its own names or LightGBM's (`num_leaves`, `min_sum_hessian_in_leaf`, ...).

Trees grow leaf by leaf, as LightGBM's do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost

from boostrank.core.errors import ParameterError, UnknownParameter, did_you_mean
from boostrank.core.gains import Gain
from boostrank.engines.params import (
    Limits,
    Params,
    by_name,
    check_numbers,
    engine_threads,
    groups_with,
    read_directions,
    read_groups,
    try_parameters,
)

# Own name -> LightGBM's names and aliases.
_LIGHTGBM = {
    "learning_rate": "eta shrinkage_rate",
    "max_leaves": "num_leaves num_leaf max_leaf",
    "min_child_weight": "min_sum_hessian_in_leaf min_sum_hessian min_hessian min_sum_hessian_per_leaf",
    "reg_alpha": "lambda_l1 l1_regularization alpha",
    "reg_lambda": "lambda_l2 l2_regularization lambda",
    "gamma": "min_gain_to_split min_split_gain min_split_loss",
    "subsample": "bagging_fraction sub_row bagging",
    "colsample_bytree": "feature_fraction sub_feature",
    "colsample_bynode": "feature_fraction_bynode sub_feature_bynode",
    "nthread": "num_threads num_thread n_jobs",
    "seed": "random_state random_seed",
    "verbosity": "verbose",
    "max_bin": "max_bins",
    "booster": "boosting boosting_type",
    "device": "device_type",
    "monotone_constraints": "mc monotone_constraint monotonic_cst",
}
_FROM_LIGHTGBM = {alias: own for own, aliases in _LIGHTGBM.items() for alias in aliases.split()}
_OF_OBJECTIVES = (
    "huber_slope quantile_alpha scale_pos_weight tweedie_variance_power lambdarank_bias_norm lambdarank_normalization "
    "lambdarank_num_pair_per_sample lambdarank_pair_method lambdarank_score_normalization lambdarank_unbiased "
    "ndcg_exp_gain"
)
OF_OBJECTIVES = frozenset(_OF_OBJECTIVES.split())
"""Parameters that only XGBoost's own objectives read."""
# Without booster=dart, XGBoost before 3.3 ignores them; later versions train a dart model for three of the five.
OF_DART = {"normalize_type", "one_drop", "rate_drop", "sample_type", "skip_drop"}
_KNOWN_WORDS = (
    "colsample_bylevel grow_policy interaction_constraints max_cached_hist_node max_cat_threshold max_cat_to_onehot "
    "max_delta_step max_depth monotone_constraints num_parallel_tree sampling_method tree_method"
)
_KNOWN = {*_LIGHTGBM, *OF_OBJECTIVES, *OF_DART, *_KNOWN_WORDS.split()}
_ABOVE_ZERO = ("learning_rate", "subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
# LightGBM's parameters without a counterpart; rejected with the reason, not dropped.
_WITHOUT_COUNTERPART = {
    "min_data_in_leaf": "min_child_weight (with boostrank's objectives one unit of Hessian is one average document)",
    "min_child_samples": "min_child_weight (with boostrank's objectives one unit of Hessian is one average document)",
    "bagging_freq": "only subsample (XGBoost samples in every round)",
    "subsample_freq": "only subsample (XGBoost samples in every round)",
    "categorical_feature": "feature_types of the DMatrix, or a RankingDataset with categories",
}
_UNTRIED = {"interaction_constraints", "monotone_constraints", "nthread", "tree_method", "verbosity"}
_ONE_SCORE = "a ranker has one score per document"
_AT_ZERO = "scores start at 0 or from start= or init_model="
_UPDATERS = "tree_method selects how trees grow; boostrank only adds trees"
_LINEAR = "it belongs to booster=gblinear: train linear models with backend='linear'"
_INNER = "XGBoost sets it itself"
_METRICS = "metrics are boostrank's own: pass metric= and eval_at="
_MATRIX = "it belongs to a DMatrix: build one and pass it as the training set"
_CATEGORIES = "it belongs to the data: RankingDataset.from_arrays(..., categorical_feature=), or your own DMatrix"
_SURVIVAL = "it belongs to survival objectives, which do not rank"
_REFUSED = {
    _ONE_SCORE: "num_class num_target multi_strategy",
    _AT_ZERO: "base_score boost_from_average",
    _UPDATERS: "updater updater_seq process_type refresh_leaf",
    _LINEAR: "feature_selector top_k tolerance max_row_perbatch",
    _METRICS: "disable_default_eval_metric",
    _MATRIX: "feature_weights missing",
    _CATEGORIES: "enable_categorical feature_types",
    _SURVIVAL: "aft_loss_distribution aft_loss_distribution_scale",
    _INNER: "cache_opt debug_synchronize default_direction extmem_single_page fail_on_invalid_gpu_id num_feature "
    "opt_dense_col rng_state sketch_ratio sparse_threshold validate_parameters",
    "boostrank seeds the sampling of each round: seed= is enough": "seed_per_iteration",
}
REFUSED = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
"""Own name -> reason for the rejection, and the remedy."""
# Prediction at raw score 0, for objectives that transform scores.
_ZERO = {
    "binary:logistic": 0.5,
    "binary:logitraw": 0.5,
    "reg:logistic": 0.5,
    "count:poisson": 1.0,
    "reg:gamma": 1.0,
    "reg:tweedie": 1.0,
}
_RAW_WORDS = (
    "binary:hinge rank:map rank:ndcg rank:pairwise reg:absoluteerror reg:pseudohubererror reg:quantileerror "
    "reg:squarederror reg:squaredlogerror"
)
_RAW = (*_RAW_WORDS.split(),)
# LightGBM's defaults where the engines differ, so that a command means the same on both.
_DEFAULTS: dict[str, Any] = {"learning_rate": 0.1, "max_leaves": 31, "max_depth": 0, "max_bin": 255, "reg_lambda": 0.0}


def translate(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters in XGBoost's names, with the defaults that both engines share here."""
    out: dict[str, Any] = {}
    given_as: dict[str, str] = {}
    for name, value in params.items():
        if name in _WITHOUT_COUNTERPART:
            raise ParameterError(f"XGBoost has no {name!r}: use {_WITHOUT_COUNTERPART[name]}")
        own = _FROM_LIGHTGBM.get(name, name)
        if own in REFUSED:
            raise ParameterError(f"{name} is not supported: {REFUSED[own]}")
        if own not in _KNOWN:
            known = {*_KNOWN, *_FROM_LIGHTGBM}
            raise UnknownParameter(f"XGBoost has no parameter {name!r}.{did_you_mean(name, known, list_all=False)}")
        if own in out:
            raise ParameterError(f"{given_as[own]!r} and {name!r} are the same parameter")
        out[own], given_as[own] = value, name
    check_numbers(out, given_as)
    for name in _ABOVE_ZERO:
        if out.get(name) in (0, "0"):
            raise ParameterError(f"{given_as[name]}=0 would learn nothing: it must be above 0")
    if out.get("max_leaves") == 1:
        raise ParameterError(f"{given_as['max_leaves']}=1: a tree has at least 2 leaves (0: any number)")
    if out.get("max_depth", 0) == -1:  # no limit, in LightGBM's spelling
        out["max_depth"] = 0
    # XGBoost takes no list for the first; for the second it takes names only if features have names.
    if not isinstance(out.get("monotone_constraints", {}), Mapping):
        directions = read_directions(out["monotone_constraints"], None, padded=True)
        out["monotone_constraints"] = f"({','.join(map(str, directions))})" if directions else ""
    if "interaction_constraints" in out:
        given = out["interaction_constraints"]
        groups = read_groups(given, None) if given not in ("", None) else ""
        out["interaction_constraints"] = groups if groups == "" or by_name(groups) else json.dumps(groups)
    if "nthread" in out:
        out["nthread"] = engine_threads("XGBoost", out["nthread"])
    if "verbosity" in out:
        out["verbosity"] = min(max(0, int(out["verbosity"])), 3)
    if "booster" in out:
        out["booster"] = {"gbdt": "gbtree"}.get(out["booster"], out["booster"])
        if out["booster"] not in {"gbtree", "dart"}:
            raise ParameterError(f"booster={out['booster']!r}: use gbtree or dart")
    if out.get("booster") != "dart" and (dropping := sorted(OF_DART & out.keys())):
        raise ParameterError(f"{given_as[dropping[0]]!r} is a parameter of dart: set booster=dart")
    defaults = dict(_DEFAULTS)
    if "max_depth" in out and "max_leaves" not in out:
        del defaults["max_leaves"], defaults["max_depth"]
    elif "grow_policy" not in out:
        defaults["grow_policy"] = "lossguide"
    return defaults | out


def base_score(objective: str) -> float:
    """Return the `base_score` at which raw scores start at 0."""
    if objective not in (*_RAW, *_ZERO):
        known = [*_RAW, *_ZERO]
        raise ParameterError(f"xgboost:{objective} is not a ranking objective.{did_you_mean(objective, known)}")
    return _ZERO.get(objective, 0.0)


def renamed(params: dict[str, Any]) -> dict[str, Any]:
    """Return the given parameters under XGBoost's names."""
    return {_FROM_LIGHTGBM.get(name, name): value for name, value in params.items()}


class XGBoostParams(Params):
    """XGBoost's `Params`."""

    of_objectives = OF_OBJECTIVES

    def check(self, params: dict[str, Any]) -> None:
        translate(params)
        tried = {name: value for name, value in params.items() if not {*renamed({name: value})} & _UNTRIED}
        try_parameters("XGBoost", tried, _try)

    def named(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return renamed(dict(params))

    def of_native(self, objective: str, gain: Gain) -> dict[str, Any]:
        base_score(objective)  # raises for objectives that do not rank
        if not isinstance(gain, str):
            raise ParameterError("XGBoost's own objectives take gain='exponential' or 'linear', not a table")
        return {} if gain == "exponential" else {"ndcg_exp_gain": False}

    def of_columns(
        self, params: dict[str, Any], names: Sequence[str], *, codes: Sequence[int] = (), followed: Sequence[int] = ()
    ) -> dict[str, Any]:
        found = dict(params)
        for name, value in params.items():
            own = next(iter(renamed({name: value})))
            if own == "monotone_constraints":
                directions = read_directions(value, names, padded=True)
                found[name] = [*directions, *(directions[one] for one in followed)]
            elif own == "interaction_constraints" and value not in ("", None):
                found[name] = groups_with(read_groups(value, names), len(names), followed)
        return found

    def limits(self, params: dict[str, Any], names: Sequence[str]) -> Limits:
        named, groups = renamed(self.of_columns(params, names)), None
        if named.get("interaction_constraints", "") not in ("", None):
            # A feature outside all groups gets trees of its own, as in a start.
            alone = [[i] for i in range(len(names))]
            groups = tuple(frozenset(group) for group in (*named["interaction_constraints"], *alone))
        directions = named.get("monotone_constraints", [0] * len(names))
        return Limits(np.array(directions, np.int64), groups=groups)

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        translated = translate(params)
        if translated.get("booster") == "dart":
            return "dart rescales earlier trees by random numbers that XGBoost hides"
        if translated.get("lambdarank_unbiased") in (True, 1, "1", "true"):
            return "XGBoost cannot restore learnt position biases (lambdarank_unbiased)"
        if native_objective and translated.get("lambdarank_pair_method") == "mean":
            return "XGBoost seeds the pairs of lambdarank_pair_method=mean by a round counter that restarts"
        return None

    def unstartable(self, params: dict[str, Any]) -> str | None:
        booster = translate(params).get("booster", "gbtree")
        return None if booster == "gbtree" else f"a model of booster={booster} cannot contain a start"


def _try(params: dict[str, Any]) -> None:
    rows = xgboost.DMatrix(np.arange(4.0).reshape(-1, 1), np.zeros(4), nthread=1)
    needed = {"booster": "dart"} if OF_DART & renamed(params).keys() else {}
    fixed = {"nthread": 1, "disable_default_eval_metric": True, "base_score": 0.0}
    flat = np.zeros(4, np.float32), np.ones(4, np.float32)
    with xgboost.config_context(verbosity=0):  # a parameter would stay and hide messages of the training
        xgboost.train(translate(needed | params) | fixed, rows, 1, obj=lambda *_: flat)
