"""Every parameter of both engines: kept, refused by name, boostrank's, or of the engine's own
objectives.
"""

from __future__ import annotations

import json
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import boostrank
from boostrank.core.errors import ParameterError
from boostrank.engines import get_backend
from boostrank.engines.lightgbm import params as lightgbm_params
from boostrank.engines.lightgbm.private import parameter_names
from boostrank.engines.xgboost import params as xgboost_params
from tests.fit.conftest import TREES, make_rough_dataset

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

ROUNDS = 3
# Parameter -> one value of it, or with what it needs beside itself.
KEPT: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "bagging_fraction": {"bagging_fraction": 0.5, "bagging_freq": 1},
        "bagging_freq": {"bagging_freq": 2, "subsample": 0.7},
        "bagging_seed": {"bagging_seed": 9, "bagging_fraction": 0.5, "bagging_freq": 1},
        "bin_construct_sample_cnt": 100,
        "boosting": "dart",
        "cat_l2": {"cat_l2": 1.0, "cat_feature": [5]},
        "cat_smooth": {"cat_smooth": 1.0, "cat_feature": [5]},
        "categorical_feature": [5],
        "data_random_seed": 3,
        "data_sample_strategy": {"data_sample_strategy": "goss", "learning_rate": 1.0},
        "deterministic": False,
        "device_type": "cpu",
        "drop_rate": {"drop_rate": 0.5, "boosting": "dart"},
        "drop_seed": {"drop_seed": 5, "boosting": "dart"},
        "enable_bundle": False,
        "extra_seed": {"extra_seed": 2, "extra_trees": True},
        "extra_trees": True,
        "feature_fraction": 0.5,
        "feature_fraction_bynode": 0.5,
        "feature_fraction_seed": {"feature_fraction_seed": 7, "feature_fraction": 0.5},
        "feature_pre_filter": False,
        "force_col_wise": True,
        "force_row_wise": True,
        "gpu_device_id": 0,
        "gpu_device_id_list": "0",
        "gpu_platform_id": 0,
        "gpu_use_dp": True,
        "histogram_pool_size": 1.0,
        "interaction_constraints": [[0, 1]],
        "is_enable_sparse": False,
        "lambda_l1": 0.5,
        "lambda_l2": 0.5,
        "learning_rate": 0.3,
        "max_bin": 16,
        "max_cat_threshold": {"max_cat_threshold": 3, "cat_feature": [5]},
        "max_cat_to_onehot": {"max_cat_to_onehot": 2, "cat_feature": [5]},
        "max_delta_step": 0.1,
        "max_depth": 3,
        "max_drop": {"max_drop": 2, "boosting": "dart"},
        "min_data_in_bin": 5,
        "min_data_in_leaf": 10,
        "min_data_per_group": {"min_data_per_group": 5, "cat_feature": [5]},
        "min_gain_to_split": 0.5,
        "min_sum_hessian_in_leaf": 1.0,
        "monotone_constraints": [1] * 6,
        "monotone_penalty": {"monotone_penalty": 1.0, "mc": [1] * 6},
        "num_gpu": 1,
        "num_grad_quant_bins": {"num_grad_quant_bins": 8, "use_quantized_grad": True},
        "num_leaves": 7,
        "other_rate": {"other_rate": 0.3, "boosting": "goss", "learning_rate": 1.0},
        "path_smooth": 1.0,
        "quant_train_renew_leaf": {"quant_train_renew_leaf": True, "use_quantized_grad": True},
        "skip_drop": {"skip_drop": 0.1, "boosting": "dart"},
        "stochastic_rounding": {"stochastic_rounding": False, "use_quantized_grad": True},
        "top_rate": {"top_rate": 0.3, "boosting": "goss", "learning_rate": 1.0},
        "uniform_drop": {"uniform_drop": True, "boosting": "dart"},
        "use_missing": False,
        "use_quantized_grad": True,
        "verbosity": -1,
        "xgboost_dart_mode": {"xgboost_dart_mode": True, "boosting": "dart"},
        "zero_as_missing": True,
    },
    "xgboost": {
        "alpha": 0.5,
        "booster": "gbtree",
        "colsample_bylevel": 0.5,
        "colsample_bynode": 0.5,
        "colsample_bytree": 0.5,
        "device": "cpu",
        "eta": 0.3,
        "gamma": 0.5,
        "grow_policy": "depthwise",
        "interaction_constraints": [[0, 1]],
        "lambda": 2.0,
        "learning_rate": 0.3,
        "max_bin": 16,
        "max_cached_hist_node": 10,
        "max_cat_threshold": 3,
        "max_cat_to_onehot": 3,
        "max_delta_step": 0.1,
        "max_depth": 3,
        "max_leaves": 7,
        "min_child_weight": 1.0,
        "min_split_loss": 0.5,
        "monotone_constraints": [1] * 6,
        "reg_alpha": 0.5,
        "reg_lambda": 2.0,
        "sampling_method": {"sampling_method": "uniform", "subsample": 0.5},
        "subsample": 0.5,
        "tree_method": "hist",
        "verbosity": 0,
    },
}
OURS = {
    "lightgbm": {
        "early_stopping_min_delta",
        "early_stopping_round",
        "eval_at",
        "first_metric_only",
        "label_gain",
        "lambdarank_norm",
        "lambdarank_truncation_level",
        "metric",
        "num_iterations",
        "num_threads",
        "objective",
        "seed",
        "sigmoid",
    },
    "xgboost": {
        "eval_metric",
        "n_jobs",
        "nthread",
        "num_round",
        "num_trees",
        "objective",
        "random_state",
        "seed",
    },
}
# XGBoost's documentation has them, and they are in no configuration that it writes.
DOCUMENTED = {"eval_metric", "num_round", "top_k"}


@cache
def all_of_xgboost() -> set[str]:
    """What every booster, tree method and objective shows of its parameters."""
    data = xgb.DMatrix(np.zeros((4, 1)), label=[0.0, 1.0, 0.0, 1.0], group=[4])
    more = {"reg:quantileerror": {"quantile_alpha": 0.5}, "multi:softprob": {"num_class": 2}}
    objectives = [
        "rank:ndcg",
        "reg:squarederror",
        "reg:pseudohubererror",
        "reg:tweedie",
        "survival:aft",
        "binary:logistic",
    ]
    names: set[str] = set()

    def collect(node: Any) -> None:
        for name, value in node.items() if isinstance(node, dict) else ():
            if isinstance(value, dict):
                collect(value)
            elif isinstance(value, list):
                for part in value:
                    collect(part)
            else:
                names.add(name)

    for objective in (*objectives, *more):
        for booster in ("gbtree", "dart", "gblinear"):
            for method in ("exact", "approx", "hist"):
                tree = {} if booster == "gblinear" else {"tree_method": method}
                params = {
                    "objective": objective,
                    "booster": booster,
                    **tree,
                    **more.get(objective, {}),
                }
                with warnings.catch_warnings(action="ignore"):  # XGBoost 3.4 gives up gblinear
                    collect(json.loads(xgb.Booster(params, [data]).save_config()))
    return names - {"name", "specified_updater"}  # of parts of the configuration, not of parameters


def all_of(backend: str) -> set[str]:
    return (
        set(parameter_names().values()) if backend == "lightgbm" else all_of_xgboost() | DOCUMENTED
    )


def classes(backend: str) -> dict[str, set[str]]:
    engine = get_backend(backend)
    refused = lightgbm_params.REFUSED if backend == "lightgbm" else xgboost_params.REFUSED
    of_objectives = set(engine.params.resolve_names(dict.fromkeys(engine.params.of_objectives, 1)))
    return {
        "kept": set(KEPT[backend]),
        "refused": set(refused),
        "ours": OURS[backend],
        "own objectives": of_objectives - OURS[backend],
    }


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_every_parameter_of_the_engine_is_in_one_class(backend: str) -> None:
    classes_of_names = classes(backend)
    for name in sorted(all_of(backend)):
        of = [title for title, names in classes_of_names.items() if name in names]
        assert len(of) == 1, (
            f"{backend}'s parameter {name!r} is {of or 'new'}: where start, custom objectives and"
            " sampling go with it, give it a value in KEPT here; else a reason in REFUSED of"
            f" boostrank/engines/{backend}/params.py"
        )


def test_what_is_documented_of_xgboost_is_known_to_it() -> None:
    data = xgb.DMatrix(np.zeros((4, 1)), label=[0.0, 1.0, 0.0, 1.0])
    unused = set()
    for name in DOCUMENTED - {"num_round"} | {"nonsense"}:
        params: dict[str, Any] = {
            name: "rmse" if name == "eval_metric" else 1,
            "validate_parameters": True,
        }
        if name == "top_k":
            params |= {
                "booster": "gblinear",
                "updater": "coord_descent",
                "feature_selector": "greedy",
            }
        # Another test may have asked XGBoost for silence, which is for the whole process.
        with warnings.catch_warnings(record=True) as seen, xgb.config_context(verbosity=1):
            warnings.simplefilter("always")
            xgb.train(params, data, 1)
        if any(f'"{name}" }} are not used' in str(warning.message) for warning in seen):
            unused.add(name)
    assert unused == {"nonsense"}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    """Training set, and a validation set within its values: XGBoost takes numbers far beyond them
    for missing ones, but not in its bins."""
    train, valid = make_rough_dataset(0), make_rough_dataset(1)
    x = np.clip(
        valid.features, np.nanmin(train.features, axis=0), np.nanmax(train.features, axis=0)
    )
    return train, boostrank.RankingDataset.from_arrays(
        x, valid.labels, group=valid.queries.sizes, feature_names=valid.feature_names
    )


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The files that parameters name, in the working directory."""
    folder, before = tmp_path_factory.mktemp("parameters"), Path.cwd()
    os.chdir(folder)
    yield
    os.chdir(before)


def trained(sets: Any, backend: str, start: str, /, **params: Any) -> tuple[Any, Any]:
    """The model, and the validation set's scores as its training last saw them."""
    seen: list[Any] = []

    def watch(scores: Any, _: Any) -> tuple[str, float, bool]:
        seen.append(np.array(scores).ravel())
        return "seen", 0.0, True

    full_names = parameter_names() if backend == "lightgbm" else {"max_leaves": "num_leaves"}
    set_by_caller = {full_names.get(name, name) for name in params}
    trees = {
        name: value
        for name, value in TREES[backend].items()
        if full_names.get(name, name) not in set_by_caller
    }
    model = boostrank.train(
        {**trees, **params},
        sets[0],
        ROUNDS,
        valid_sets=[sets[1]],
        feval=watch,
        backend=backend,
        start=start,
    )
    return model, seen[-1]


def alone(model: Any, rows: Any) -> Any:
    """What the engine itself says, which has the file and nothing else."""
    body = model.to_bytes()
    if model.backend == "lightgbm":
        return lgb.Booster(model_str=body.decode()).predict(rows, raw_score=True)
    booster = xgb.Booster()
    booster.load_model(bytearray(body))
    return booster.inplace_predict(rows, predict_type="margin")


@pytest.mark.filterwarnings("ignore:.*device ordinal:UserWarning")
@pytest.mark.parametrize(
    ("backend", "name"), [(backend, name) for backend in KEPT for name in KEPT[backend]]
)
def test_a_supported_parameter_trains_a_model_whose_file_has_its_scores(
    data: Any, backend: str, name: str
) -> None:
    if name not in all_of(backend):
        pytest.skip(f"this version of {backend} has no {name}")
    value = KEPT[backend][name]
    params = value if isinstance(value, dict) else {name: value}
    for start in ("linear", "none"):
        model, scores = trained(data, backend, start, **params)
        assert np.ptp(scores) > 0.01
        np.testing.assert_allclose(scores, model.predict(data[1]), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(model.predict(data[1]), alone(model, data[1].features))
        assert ("start" in model.info) == (start == "linear")


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (engine, name)
        for engine in ("lightgbm", "xgboost")
        for name in sorted(classes(engine)["refused"])
    ],
)
def test_an_unsupported_parameter_is_refused_with_a_reason(
    data: Any, backend: str, name: str
) -> None:
    if backend == "lightgbm" and name not in parameter_names():
        pytest.skip(f"this version of {backend} has no {name}")
    with pytest.raises(ParameterError, match=f"{name} is not supported: .{{20,}}"):
        trained(data, backend, "none", **{name: 2})


@pytest.mark.parametrize(
    ("backend", "params", "reason"),
    [
        ("lightgbm", {"boosting": "rf"}, "custom objectives"),
        ("lightgbm", {"objective": "lightgbm:multiclass"}, "several scores per document"),
        ("lightgbm", {"alpha": 0.5}, "own objectives"),
        (
            "lightgbm",
            {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1},
            "own obj|no parameter",
        ),
        ("xgboost", {"booster": "gblinear"}, "must be gbtree"),
        ("xgboost", {"booster": "dart"}, "must be gbtree"),
        ("xgboost", {"tree_method": "exact"}, "tree_method=exact: use hist"),
        ("xgboost", {"tree_method": "approx"}, "tree_method=approx: use hist"),
        ("xgboost", {"objective": "xgboost:multi:softprob"}, "not a ranking objective"),
        ("xgboost", {"objective": "xgboost:survival:cox"}, "not a ranking objective"),
        ("xgboost", {"objective": "xgboost:binary:logistic"}, "not a ranking objective"),
        ("xgboost", {"lambdarank_pair_method": "mean"}, "own objectives"),
    ],
    ids=str,
)
def test_values_that_would_break_something_are_refused(
    data: Any, backend: str, params: Any, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        trained(data, backend, "none", **params)


@pytest.mark.parametrize(
    ("backend", "params"),
    [
        ("lightgbm", {"objective": "lightgbm:poisson"}),
        ("lightgbm", {"objective": "lightgbm:regression"}),
    ],
    ids=str,
)
def test_what_a_checkpoint_could_not_resume_exactly_is_refused_one(
    data: Any, backend: str, params: Any
) -> None:
    with pytest.raises(ParameterError, match="no checkpoint"):
        boostrank.train(
            {**TREES[backend], **params},
            data[0],
            2,
            checkpoint=boostrank.Checkpoint("c"),
            backend=backend,
        )


@pytest.mark.parametrize("method", ["dart", "DART"])
def test_dart_in_any_case_is_not_stopped_early(data: Any, method: str) -> None:
    params = {"boosting": method, "metric": "ndcg@5", "early_stopping_round": 2}
    with pytest.raises(ParameterError, match="dart"):
        boostrank.train({**TREES["lightgbm"], **params}, data[0], 4, valid_sets=[data[0]])
    unresumable = get_backend("lightgbm").params.unresumable
    assert unresumable({"boosting": method}, None)
    assert unresumable({"data_sample_strategy": "GOSS"}, None)


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_a_parameter_that_is_none_has_its_default(data: Any, backend: str) -> None:
    unset = (
        "bagging_fraction feature_fraction learning_rate max_depth verbosity monotone_constraints"
        " interaction_constraints num_class"
    ).split()
    params = {name: value for name, value in TREES[backend].items() if name not in unset}
    models = [
        boostrank.train(chosen, data[0], 3, backend=backend)
        for chosen in ({**dict.fromkeys(unset), **params}, params)
    ]
    np.testing.assert_array_equal(*(model.predict(data[0]) for model in models))


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost"])
def test_constraints_in_an_array_of_lists_are_refused(backend: str) -> None:
    with pytest.raises(ParameterError, match="interaction_constraints"):
        get_backend(backend).params.check({"interaction_constraints": np.array([[0, 1]])})


@pytest.mark.parametrize("start", ["none", "linear"])
def test_a_regression_of_xgboost_begins_at_a_score_of_zero(data: Any, start: str) -> None:
    model, _ = trained(data, "xgboost", start, objective="xgboost:reg:squarederror")
    scores = model.predict(data[1])
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores, alone(model, data[1].features))


def test_xgboost_grows_the_trees_of_lightgbm_unless_told_otherwise() -> None:
    translated = xgboost_params.translate({})
    assert translated["learning_rate"] == 0.1
    assert translated["max_leaves"] == 31
    assert translated["reg_lambda"] == 0.0
    assert "max_leaves" not in xgboost_params.translate({"max_depth": 3})
