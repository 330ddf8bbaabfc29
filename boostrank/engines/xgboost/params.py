"""The parameters of XGBoost, under its own names or LightGBM's. Trees grow leaf by leaf, like
LightGBM's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost

from boostrank.core.conventions import Gain
from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import ParamValues
from boostrank.engines.engine_params import (
    Params,
    engine_threads,
    read_directions,
    read_groups,
)

# Own name -> LightGBM's names and aliases.
_LIGHTGBM = {
    "learning_rate": "eta shrinkage_rate",
    "max_leaves": "num_leaves num_leaf max_leaf",
    "min_child_weight": (
        "min_sum_hessian_in_leaf min_sum_hessian min_hessian min_sum_hessian_per_leaf"
    ),
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
OF_OBJECTIVES = frozenset(
    """
    lambdarank_bias_norm lambdarank_normalization lambdarank_num_pair_per_sample
    lambdarank_pair_method lambdarank_score_normalization lambdarank_unbiased ndcg_exp_gain
    """.split()
)
_KNOWN = (
    "colsample_bylevel grow_policy interaction_constraints max_cached_hist_node max_cat_threshold"
    " max_cat_to_onehot max_delta_step max_depth sampling_method tree_method"
)
REFUSED = {
    name: reason
    for reason, names in {
        # LightGBM's parameters without a counterpart
        "XGBoost has none: use min_child_weight (with boostrank's objectives one unit of"
        " Hessian is one average document)": ("min_data_in_leaf min_child_samples"),
        "XGBoost has none: use only subsample (XGBoost samples in every round)": (
            "bagging_freq subsample_freq"
        ),
        # XGBoost's own parameters
        "a ranker has one score per document": "num_class num_target multi_strategy",
        "scores start at 0 or from start= or init_model=": "base_score boost_from_average",
        "tree_method selects how trees grow; boostrank only adds trees": (
            "updater updater_seq process_type refresh_leaf"
        ),
        "it belongs to booster=gblinear: train linear models with backend='linear'": (
            "feature_selector top_k tolerance max_row_perbatch"
        ),
        "boostrank trains no dart models of XGBoost: use backend='lightgbm', boosting='dart'": (
            "normalize_type one_drop rate_drop sample_type skip_drop"
        ),
        "a round is one tree: use subsample and colsample_bynode": "num_parallel_tree",
        "metrics are boostrank's own: pass metric= and eval_at=": "disable_default_eval_metric",
        "features have no weights of their own: leave features out": "feature_weights",
        "it belongs to the data: RankingDataset.from_arrays(..., categorical_feature=)": (
            "feature_types"
        ),
        "it belongs to objectives that do not rank": (
            "aft_loss_distribution aft_loss_distribution_scale huber_slope quantile_alpha"
            " scale_pos_weight tweedie_variance_power"
        ),
        "XGBoost sets it itself": (
            "cache_opt debug_synchronize default_direction extmem_single_page"
            " fail_on_invalid_gpu_id num_feature opt_dense_col rng_state sketch_ratio"
            " sparse_threshold validate_parameters"
        ),
        "boostrank seeds the sampling of each round: seed= is enough": "seed_per_iteration",
    }.items()
    for name in names.split()
}
"""The reason why each parameter is rejected, with the remedy, by main name."""
_HARMLESS = {
    "multi_strategy": ("one_output_per_tree",),
    "num_class": (1,),
    "num_parallel_tree": (1, "1"),
    "scale_pos_weight": (1, "1"),
    "validate_parameters": (True, False),
}
_NAMES = {
    **{
        alias: canonical
        for canonical, aliases in _LIGHTGBM.items()
        for alias in (canonical, *aliases.split())
    },
    **{name: name for name in (*_KNOWN.split(), *OF_OBJECTIVES, *REFUSED)},
}
_OBJECTIVES = ("rank:ndcg", "rank:map", "rank:pairwise", "reg:squarederror")


SAMPLED_FRACTIONS = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")
"""The parameters that sample rows or features in each round."""


def translate(params: ParamValues) -> dict[str, Any]:
    """Return the parameters under XGBoost's names, with LightGBM's defaults."""
    given_as, translated = Params.check_values(PARAMS, params), PARAMS.resolve_names(params)
    for name in ("learning_rate", *SAMPLED_FRACTIONS):
        if translated.get(name) in (0, "0"):
            raise ParameterError(f"{given_as[name]}=0 must be above 0, or nothing would be learnt")
    if translated.get("max_leaves") == 1:
        raise ParameterError(f"{given_as['max_leaves']}=1 must be at least 2, or 0 for any number")
    if translated.get("max_depth", 0) == -1:  # no limit, in LightGBM's spelling
        translated["max_depth"] = 0
    # XGBoost accepts no lists of numbers for constraints.
    if not isinstance(translated.get("monotone_constraints", {}), Mapping):
        directions = read_directions(translated["monotone_constraints"], None)
        translated["monotone_constraints"] = tuple(directions) or ""
    if "interaction_constraints" in translated:
        groups = read_groups(translated["interaction_constraints"], None)
        translated["interaction_constraints"] = json.dumps(groups) if groups else ""
    if "nthread" in translated:
        translated["nthread"] = engine_threads("XGBoost", translated["nthread"])
    if "verbosity" in translated:
        translated["verbosity"] = min(max(0, int(translated["verbosity"])), 3)
    booster = translated.pop("booster", "gbtree")
    if booster not in ("gbtree", "gbdt"):
        hint = "; backend='lightgbm' trains dart" if booster == "dart" else ""
        raise ParameterError(f"{given_as['booster']}={booster!r} must be gbtree{hint}")
    defaults: dict[str, Any] = {"learning_rate": 0.1, "max_bin": 255, "reg_lambda": 0.0}
    if "max_depth" not in translated or "max_leaves" in translated:
        defaults |= {"max_leaves": 31, "max_depth": 0, "grow_policy": "lossguide"}
    return defaults | translated


class XGBoostParams(Params):
    """The parameters of XGBoost, in its names or LightGBM's."""

    title, refused, of_objectives = "XGBoost", REFUSED, OF_OBJECTIVES
    harmless, splits_outside_groups = _HARMLESS, True
    untried = frozenset(
        {"interaction_constraints", "monotone_constraints", "nthread", "tree_method", "verbosity"}
    )

    def names(self) -> Mapping[str, str]:
        """Return boostrank's table of XGBoost's names, because XGBoost has none."""
        return _NAMES

    def check_values(self, params: ParamValues) -> dict[str, str]:
        """Check the values, and that LightGBM's parameters have counterparts in XGBoost."""
        translate(params)
        return super().check_values(params)

    def attempt(self, params: dict[str, Any]) -> None:
        """Train one round on four rows, so that XGBoost raises its own errors."""
        rows = xgboost.DMatrix(np.arange(4.0).reshape(-1, 1), np.zeros(4), nthread=1)
        flat_gradient = np.zeros(4, np.float32), np.ones(4, np.float32)
        trial_params = translate(params)
        trial_params |= {"nthread": 1, "disable_default_eval_metric": True, "base_score": 0.0}
        # As a parameter, the verbosity would stay and hide messages of the training.
        with xgboost.config_context(verbosity=0):
            xgboost.train(trial_params, rows, 1, obj=lambda *_: flat_gradient)

    def of_native(self, objective: str, gain: Gain) -> dict[str, Any]:
        """Return `ndcg_exp_gain` for the linear gain; {} for the exponential one.

        Raises:
            ParameterError: the objective does not rank, or the gain is a table.
        """
        if objective not in _OBJECTIVES:
            raise ParameterError(
                f"xgboost:{objective} is not a ranking objective."
                f"{did_you_mean(objective, _OBJECTIVES)}"
            )
        if not isinstance(gain, str):
            raise ParameterError(
                "XGBoost's own objectives take gain='exponential' or 'linear', not a table"
            )
        return {} if gain == "exponential" else {"ndcg_exp_gain": False}

    def unresumable(self, params: ParamValues, native_objective: str | None) -> str | None:
        """Return which random or hidden state of XGBoost prevents an exact resumption."""
        translated = translate(params)
        if translated.get("lambdarank_unbiased") in (True, 1, "1", "true"):
            return "XGBoost cannot restore learnt position biases (lambdarank_unbiased)"
        if native_objective and translated.get("lambdarank_pair_method") == "mean":
            return (
                "XGBoost seeds the pairs of lambdarank_pair_method=mean by a round counter that"
                " restarts"
            )
        return None


PARAMS = XGBoostParams()
