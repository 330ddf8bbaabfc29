"""What an engine does not take is refused by the name that was given, in a line, before there are
data.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

import boostrank
from boostrank.core.errors import DataError, FileFormatError, ParameterError, TrainingError
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.engine_params import refusal, without_stderr
from boostrank.fit.settings import split_params

WRONG: dict[str, dict[str, list[Any]]] = {
    "lightgbm": {
        "num_leaf": [1, "x", 2.5, float("nan"), 10**6],
        "eta": [0, -1, "x", ",", True, float("inf"), [], {}, [0.1]],
        "min_data_in_leaf": [-1, 1.5],
        "min_sum_hessian": [-1, "x"],
        "reg_lambda": [-5, "x", float("nan")],
        "feature_fraction": [0, 1.5, "x"],
        "feature_fraction_bynode": [-1],
        "subsample": [0, 2, "x"],
        "bagging_freq": ["x", 1.5],
        "min_data_in_bin": [0, "x"],
        "bin_construct_sample_cnt": [0, "x"],
        "path_smooth": [-1, "x"],
        "linear_lambda": [-1],
        "linear_tree": ["maybe"],
        "boosting": ["gbm", 1],
        "drop_rate": [2],
        "data_sample_strategy": ["x"],
        "device_type": ["quantum"],
        "extra_trees": [2],
        "max_cat_threshold": [0],
        "cat_smooth": [-1],
        "monotone_constraints_method": ["x"],
        "monotone_penalty": [-1],
        "max_delta_step": ["x"],
        "use_quantized_grad": ["maybe"],
        "seed": [1e30, "x"],
        "histogram_pool_size": ["x"],
        "interaction_constraints": ["x"],
        "zero_as_missing": ["maybe"],
        "num_gpu": [0],
        "forcedsplits_filename": [__file__],
        "forcedbins_filename": [__file__],
        "num_leavs": [3],
        "early_stopping_min_delta": ["x", -1, float("nan")],
    },
    "xgboost": {
        "max_leaves": [1, "x", 2.5],
        "max_depth": [-5, "x", 2.5],
        "eta": [0, -1, "x", ",", float("nan"), [], {}],
        "gamma": [-1, "x", float("nan")],
        "min_child_weight": [-1, "x"],
        "max_delta_step": [-1, "x"],
        "bagging_fraction": [0, 2, "x", float("nan")],
        "sampling_method": ["x"],
        "colsample_bytree": [0, 2, "x"],
        "colsample_bylevel": [-1],
        "colsample_bynode": ["x"],
        "lambda_l2": [-1, "x"],
        "alpha": [-1, "x"],
        "grow_policy": ["x", 1],
        "max_bin": [0, 1.5, "x"],
        "num_parallel_tree": [0, -1, "x", 1.5],
        "device": ["x"],
        "monotone_constraints": ["x", 2],
        "max_cached_hist_node": ["x"],
        "max_cat_to_onehot": ["x"],
        "seed": [1e30],
        "max_leafs": [3],
    },
}
ROWS = "0 qid:1 1:1\n1 qid:1 1:2\n{} qid:2 1:3\n0 qid:2 1:4\n"


@pytest.mark.parametrize(
    ("backend", "name"), [(backend, name) for backend in WRONG for name in WRONG[backend]]
)
@pytest.mark.fault(115)
def test_a_value_that_the_engine_does_not_take_is_refused_by_name(
    backend: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for value in WRONG[backend][name]:
        for more in ({}, {"learning_rate": 0.1} if name != "eta" else {"min_gain_to_split": 0.5}):
            with pytest.raises(ParameterError, match=f"{name}\\b") as caught:
                split_params(
                    {"objective": "lambdarank", **more, name: value},
                    3,
                    get_backend(backend),
                )
            words = str(caught.value)
            assert "\n" not in words
            assert not any(other in words for other in (".cpp", "Unknown token", *more))
    assert capfd.readouterr() == ("", "")


def test_values_that_do_not_go_together_are_named_together() -> None:
    with pytest.raises(ParameterError, match="force_col_wise=True, force_row_wise=True: "):
        get_backend("lightgbm").params.check({"force_col_wise": True, "force_row_wise": True})


def test_a_trial_leaves_what_xgboost_says_as_it_was() -> None:
    with xgboost.config_context(verbosity=2):
        get_backend("xgboost").params.check({"max_depth": 7})
        assert xgboost.get_config()["verbosity"] == 2


def test_threads_that_silence_standard_error_together_leave_it_as_it_was() -> None:
    before = os.fstat(2)
    is_silent, may_end = threading.Event(), threading.Event()

    def silence_first() -> None:
        with without_stderr():
            is_silent.set()
            may_end.wait()

    first = threading.Thread(target=silence_first)
    first.start()
    is_silent.wait()
    with without_stderr():
        may_end.set()
        first.join()
        assert not os.path.samestat(before, os.fstat(2))
    assert os.path.samestat(before, os.fstat(2))


def test_a_value_that_was_taken_vouches_for_no_other() -> None:
    get_backend("lightgbm").params.check({"lambda_l1": 1})
    with pytest.raises(ParameterError, match="lambda_l1"):
        get_backend("lightgbm").params.check({"lambda_l1": -1})


def test_what_the_engines_say_is_a_line_without_their_sources() -> None:
    message = (
        "[10:55:01] /workspace/src/context.cc:111: Invalid `device`. One of:\n- cpu\n- cuda\nStack"
        " trace:\n  [bt] (0)"
    )
    assert refusal(RuntimeError(message)) == "Invalid `device`. One of: - cpu - cuda"
    limit = "Check failed: (drop_rate) <= (1.0) at /src/io/config_auto.cpp, line 428 .\n"
    assert refusal(RuntimeError(limit)) == "drop_rate must be <= 1.0"
    assert refusal(RuntimeError("Unknown token x in data file")) == "a number is required"
    assert refusal(RuntimeError()) == "RuntimeError"


@pytest.mark.fault(121)
@pytest.mark.parametrize(
    ("objective", "label"),
    [
        ("lightgbm:lambdarank", "-1"),
        ("lightgbm:lambdarank", "0.5"),
        ("lightgbm:lambdarank", "1e30"),
        ("xgboost:rank:ndcg", "-1"),
        ("xgboost:rank:ndcg", "0.5"),
    ],
)
def test_labels_that_the_engine_s_own_objective_does_not_take_are_told_by_their_line(
    objective: str, label: str, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text(ROWS.format(label))
    data = boostrank.read(tmp_path / "t.txt")
    params = {
        "objective": objective,
        "metric": "none",
        "gain": "linear" if label == "1e30" else "exponential",
    }
    with pytest.raises(
        FileFormatError, match=rf"t\.txt:3: query 2: label {label.replace('e', 'e.')}: "
    ):
        boostrank.train(params, data, 1, backend=objective.partition(":")[0])


def test_labels_that_nobody_can_point_at_are_refused_all_the_same() -> None:
    data = RankingDataset.from_arrays(np.arange(4.0).reshape(-1, 1), [0, 1, 2, 0], group=[2, 2])
    with pytest.raises(DataError, match=r"xgboost: .*binary labels"):
        boostrank.train(
            {"objective": "xgboost:rank:map", "metric": "none"}, data, 1, backend="xgboost"
        )


def test_what_else_an_engine_raises_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise xgboost.core.XGBoostError("[1:2] bad allocation\nStack trace:\n [bt]")

    monkeypatch.setattr(xgboost.Booster, "update", fails)
    data = RankingDataset.from_arrays(np.arange(4.0).reshape(-1, 1), [0, 1, 2, 0], group=[2, 2])
    with pytest.raises(TrainingError, match=r"^xgboost: \[1:2\] bad allocation$"):
        boostrank.train(
            {"objective": "xgboost:rank:ndcg", "metric": "none"}, data, 1, backend="xgboost"
        )
