"""The parameters of LightGBM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np

from boostrank.core.conventions import Gain
from boostrank.core.errors import ParameterError
from boostrank.core.types import ParamValues
from boostrank.engines.engine_params import Params, read_directions, read_groups
from boostrank.engines.lightgbm.private import has_nothing_to_split, parameter_names

_COMMAND_LINE = "only LightGBM's command line reads it"
_OF_FILES = (
    f"{_COMMAND_LINE}: choose columns when reading the data, or in the params of the lgb.Dataset of"
    " a file"
)
_OF_MODELS = (
    f"{_COMMAND_LINE}: pass models as init_model, save them with RankingModel.save, or use a"
    " checkpoint"
)
REFUSED: dict[str, str] = {
    name: reason
    for reason, names in {
        _OF_FILES: (
            "data valid header label_column weight_column group_column ignore_column two_round"
            " pre_partition precise_float_parser parser_config_file"
        ),
        _OF_MODELS: (
            "config task input_model output_model snapshot_freq save_binary convert_model "
            "convert_model_language saved_feature_importance_type refit_decay_rate"
        ),
        f"it applies to predictions, not to training: {_COMMAND_LINE}": (
            "output_result num_iteration_predict start_iteration_predict predict_raw_score"
            " predict_leaf_index predict_contrib predict_disable_shape_check pred_early_stop"
            " pred_early_stop_freq pred_early_stop_margin"
        ),
        "metrics are boostrank's own: pass `metric` and `eval_at`, or your own functions"
        " as `feval`": ("metric_freq is_provide_training_metric multi_error_top_k auc_mu_weights"),
        "boostrank starts the workers: use --cluster or boostrank.cluster.train": (
            "num_machines machines "
            "machine_list_filename local_listen_port time_out tree_learner top_k"
        ),
        "only 'basic' keeps monotone_constraints where other features are missing": (
            "monotone_constraints_method"
        ),
        "boostrank does not read files of splits or bins": (
            "forcedsplits_filename forcedbins_filename"
        ),
        "leaves must be numbers, so that models can be exported, explained and refitted: use"
        " start='linear'": "linear_tree linear_lambda",
        "features have no weights and no bins of their own: leave features out, or set max_bin": (
            "feature_contri max_bin_by_feature"
        ),
        "boostrank counts no costs of features: leave expensive ones out of the data": (
            "cegb_tradeoff cegb_penalty_split cegb_penalty_feature_lazy"
            " cegb_penalty_feature_coupled"
        ),
        "LightGBM uses it only with its binary objective: use bagging_fraction": (
            "pos_bagging_fraction neg_bagging_fraction"
        ),
        "a ranker has one score per document": "num_class",
    }.items()
    for name in names.split()
}
"""The reason why each parameter is rejected, with the remedy, by main name."""
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "forcedsplits_filename": ("",),
    "forcedbins_filename": ("",),
    "monotone_constraints_method": ("basic",),
    "task": ("train", "training"),
    "num_machines": (1, "1"),
    "tree_learner": ("serial",),
    "num_class": (1, "1"),
    "linear_tree": (False, "false", 0, "0"),
    "linear_lambda": (0, "0", "0.0"),
    "cegb_tradeoff": (1, "1", "1.0"),
    "cegb_penalty_split": (0, "0", "0.0"),
}
OF_COLUMNS = ("categorical_feature", "interaction_constraints", "monotone_constraints")
"""The parameters of single features, which depend on the data."""
LISTS = (*OF_COLUMNS, "eval_at", "gpu_device_id_list", "label_gain", "metric")
_CHANGES_LEAVES = ("quant_train_renew_leaf", "path_smooth")
TRUE = (True, 1, "true", "True", "1", "+")
_FALSE = (None, False, 0, "", "0", "0.0", "false", "False", "-")
LINEAR_GAINS = list(range(31))  # as long as LightGBM's own table of gains


class LightGBMParams(Params):
    """The parameters of LightGBM."""

    # With a custom objective, bagging_by_query grows no trees at 0.5 and samples nothing at 0.9
    # (LightGBM 4.7).
    of_objectives = frozenset(
        """
        bagging_by_query alpha boost_from_average fair_c is_unbalance label_gain lambdarank_norm
        lambdarank_position_bias_regularization lambdarank_truncation_level objective_seed
        poisson_max_delta_step reg_sqrt scale_pos_weight sigmoid tweedie_variance_power
        unbalance unbalanced_sets
        """.split()
    )

    title = "LightGBM"
    refused, harmless = REFUSED, _HARMLESS
    untried = frozenset({*OF_COLUMNS, "verbosity", "num_threads"})

    def names(self) -> Mapping[str, str]:
        """Return LightGBM's own table of names and aliases."""
        return parameter_names()

    def resolve_names(self, params: ParamValues) -> dict[str, Any]:
        """Return the parameters under their main names, and the names of methods in lower case,
        because LightGBM ignores case.
        """
        resolved = super().resolve_names(params)
        methods = resolved.keys() & {"boosting", "data_sample_strategy"}
        return resolved | {name: str(resolved[name]).lower() for name in methods}

    def check_values(self, params: ParamValues) -> dict[str, str]:
        """Check values that LightGBM misreads: lists, constraints and what excludes them.

        Raises:
            UnknownParameter: LightGBM has no such parameter.
            ParameterError: a parameter is given twice, or has such a value.
        """
        given_as, checked = super().check_values(params), self.resolve_names(params)
        read_groups(checked.get("interaction_constraints", ()), None)
        monotone = any(read_directions(checked.get("monotone_constraints", ()), None))
        for name, value in checked.items():
            is_list = isinstance(value, list | tuple | Mapping)
            if is_list and name not in LISTS:  # LightGBM would use the first or none
                raise ParameterError(f"{given_as[name]}={value!r} must be one value")
            if monotone and name in _CHANGES_LEAVES and value not in _FALSE:
                raise ParameterError(
                    f"monotone_constraints does not work with {name}: LightGBM ignores it when it"
                    " changes leaves; drop one of them"
                )
        if checked.get("boosting") in ("rf", "random_forest"):
            raise ParameterError(
                "boosting='rf' averages independent trees and does not support custom objectives"
            )
        return given_as

    def attempt(self, params: dict[str, Any]) -> None:
        """Create a booster on sixty rows of one feature, without training it."""
        # Train on sixty rows without signal, so that LightGBM checks the parameters.
        fixed_params = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}
        features, labels = np.arange(60.0).reshape(-1, 1), np.zeros(60)
        rows = lightgbm.Dataset(features, labels, params=params | fixed_params)
        try:
            lightgbm.Booster(params | fixed_params | {"objective": "none"}, rows)
        except lightgbm.basic.LightGBMError as error:
            if not has_nothing_to_split(error):
                raise

    def of_native(self, objective: str, gain: Gain) -> dict[str, Any]:
        """Return `label_gain` for LightGBM's ranking objectives; {} for the exponential gain.

        Raises:
            ParameterError: the objective has several scores a document.
        """
        if objective.startswith(("multiclass", "softmax", "multi", "ova", "ovr")):
            raise ParameterError(
                f"lightgbm:{objective} has several scores per document; a ranker has one"
            )
        if isinstance(gain, str) and gain == "exponential":
            return {}
        return {"label_gain": LINEAR_GAINS if isinstance(gain, str) else list(gain)}

    def unresumable(self, params: ParamValues, native_objective: str | None) -> str | None:
        """Return which random or hidden state of LightGBM prevents an exact resumption."""
        engine_params = self.resolve_names(params)
        boosting = engine_params.get("boosting")
        if boosting == "dart":
            return "dart rescales earlier trees by random numbers that LightGBM hides"
        if "goss" in (boosting, engine_params.get("data_sample_strategy")):
            return "goss counts its rounds from the start of the process: use bagging_fraction"
        rounds_randomly = engine_params.get("stochastic_rounding", True) in TRUE
        if engine_params.get("use_quantized_grad") in TRUE and rounds_randomly:
            return (
                "LightGBM hides the state of its stochastic rounding: set stochastic_rounding=false"
            )
        if native_objective not in (None, "lambdarank"):
            return "of LightGBM's objectives, lambdarank alone is resumed: use it or boostrank's"
        if "lambdarank_position_bias_regularization" in engine_params:
            return "LightGBM hides the position biases that it has learnt"
        return None
