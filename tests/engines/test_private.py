"""Private parts of LightGBM and XGBoost: each is still there, or the failure says which feature
needs it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import pytest

from boostrank.objective.description import round_of_caller

HERE = "(boostrank/engines/lightgbm/private.py)"
BASIC = {
    "_LIB": "streaming into bins (--route bins)",
    "_c_str": "streaming into bins (--route bins)",
    "_param_dict_to_str": "streaming into bins (--route bins)",
    "_safe_call": "streaming into bins (--route bins)",
    "_InnerPredictor": "going on with a model",
    "_ConfigAliases": "the check of parameter names, with a hint at the right one",
}
C_FUNCTIONS = {
    "LGBM_GetSampleCount": "bins that are those of the data in memory",
    "LGBM_SampleIndices": "bins that are those of the data in memory",
    "LGBM_DatasetCreateFromSampledColumn": "streaming into bins",
    "LGBM_DatasetCreateByReference": "streaming of validation sets",
    "LGBM_DatasetPushRows": "streaming of dense rows",
    "LGBM_DatasetPushRowsByCSR": "streaming of sparse rows",
    "LGBM_DatasetCreateFromFile": "bins from the cache",
    "LGBM_DatasetSaveBinary": "bins in the cache",
    "LGBM_SetMaxThreads": "all that LightGBM does in a forked process, which hangs without,",
}
METHODS: dict[str, tuple[set[str], str]] = {
    "_lazy_init": (
        {"data", "label", "reference", "weight", "group", "feature_name", "params"},
        "streaming into bins (--route bins)",
    ),
}

PARAMS = {
    "num_leaves": 7,
    "min_data_in_leaf": 1,
    "verbosity": -1,
    "num_threads": 1,
    "force_col_wise": True,
}


def rows() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Features, some of them zero, and labels."""
    rng = np.random.default_rng(1)
    features = np.where(rng.random((200, 5)) < 0.7, rng.normal(size=(200, 5)), 0.0).astype(
        np.float32
    )
    return features, features[:, 0] + rng.normal(size=200)


@pytest.mark.parametrize("name", BASIC)
def test_lightgbm_basic_has(name: str) -> None:
    assert hasattr(lightgbm.basic, name), (
        f"lightgbm.basic.{name} is gone: {BASIC[name]} needs it {HERE}"
    )


@pytest.mark.parametrize("name", C_FUNCTIONS)
def test_lightgbms_library_has(name: str) -> None:
    assert hasattr(lightgbm.basic._LIB, name), (
        f"LightGBM's C function {name} is gone: {C_FUNCTIONS[name]} needs it"
    )


@pytest.mark.parametrize("name", METHODS)
def test_lightgbms_dataset_has(name: str) -> None:
    expected, feature = METHODS[name]
    method = getattr(lightgbm.Dataset, name, None)
    assert method is not None, f"lightgbm.Dataset.{name} is gone: {feature} needs it {HERE}"
    parameters = set(inspect.signature(method).parameters)
    assert expected <= parameters, (
        f"lightgbm.Dataset.{name} takes {sorted(parameters)}: {feature} needs {sorted(expected)}"
        f" {HERE}"
    )


@pytest.mark.parametrize("name", ["_handle", "_predictor"])
def test_lightgbms_dataset_keeps(name: str) -> None:
    assert name in vars(lightgbm.Dataset([[1.0]])), (
        f"a Dataset has no {name}: streaming into bins and checkpoints set it {HERE}"
    )


def test_a_booster_tells_its_scores() -> None:
    assert hasattr(lightgbm.Booster, "_Booster__inner_predict"), (
        f"metrics and checkpoints need it {HERE}"
    )


def test_lightgbm_tells_its_parameters() -> None:
    from boostrank.engines.lightgbm.private import parameter_names

    names = parameter_names()
    assert names.get("num_leaf") == "num_leaves", (
        "_ConfigAliases says nothing: misspelt parameters are not refused"
    )
    assert names.get("objective") == "objective"


@pytest.mark.parametrize("sparse", [False, True])
def test_pushed_rows_make_lightgbms_own_trees(sparse: bool, tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix

    from boostrank.engines.lightgbm.private import StreamedDataset

    class Pushed(StreamedDataset):
        def fill(self, data: Any, reference: Any) -> None:
            self._create_bins(data)
            for start in (0, 120):
                piece = np.ascontiguousarray(data[start : start + 120])
                rows = csr_matrix(piece) if sparse else piece
                self.push(rows, start)
            assert self.save_bins(str(tmp_path / "bins")), (
                "a file of bins has another layout: none would be cached"
            )

    class Loaded(StreamedDataset):
        def fill(self, data: Any, reference: Any) -> None:
            self.load_bins(str(tmp_path / "bins"), reference)

    # The trees of a data set in memory, of pushed rows, and of bins from a file.
    features, labels = rows()
    names = [f"f{i}" for i in range(5)]
    params = PARAMS | {"bin_construct_sample_cnt": 150, "objective": "regression"}

    def model_of(kind: type) -> str:
        data = kind(features, label=labels, group=[20] * 10, feature_name=names, params=params)
        text: str = lightgbm.train(params, data, 3).model_to_string()
        return text.partition("\nparameters:")[0]

    expected = model_of(lightgbm.Dataset)
    assert model_of(Pushed) == expected, (
        "streamed bins are not those of the data in memory (--route bins)"
    )
    assert model_of(Loaded) == expected, "bins from the cache are not those that were saved"


def test_a_file_of_bins_that_is_cut_is_noticed(tmp_path: Path) -> None:
    from boostrank.engines.lightgbm.private import is_complete

    path = tmp_path / "bins"
    lightgbm.Dataset(*rows(), params=PARAMS).save_binary(path)
    whole = path.read_bytes()
    assert is_complete(str(path)), "a file of bins has another layout: none would be cached"
    path.write_bytes(whole[:-100])
    assert not is_complete(str(path)), "a full disk would leave broken bins in the cache"


def test_a_continued_model_begins_with_the_scores_that_it_is_given() -> None:
    from boostrank.engines.lightgbm.private import create_booster, current_scores

    features, labels = rows()
    first = lightgbm.train(
        PARAMS | {"objective": "regression"}, lightgbm.Dataset(features, labels), 2
    )
    scores, train = np.arange(200.0), lightgbm.Dataset(features, labels)
    booster = create_booster(
        PARAMS | {"objective": "none"}, [("training", train)], first, {id(train): scores}
    )
    assert booster.current_iteration() == 2
    np.testing.assert_array_equal(
        current_scores(booster, train),
        scores,
        "a checkpoint's scores are not taken back: training goes on wrongly",
    )


def test_lightgbm_takes_a_new_seed_in_the_middle_of_training() -> None:
    from boostrank.engines.lightgbm.adapter import Sampling

    features, labels = rows()

    def tree(seed: int, round: int) -> str:
        params = PARAMS | {
            "bagging_fraction": 0.5,
            "bagging_freq": 1,
            "feature_fraction": 0.4,
            "bagging_seed": seed,
        }
        booster = lightgbm.Booster(
            params | {"objective": "regression"}, lightgbm.Dataset(features, labels)
        )
        sampling = Sampling(
            PARAMS | {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.4}
        )
        sampling.seed(booster, round)
        booster.update()
        return str(booster.model_to_string().partition("Tree=0")[2].partition("end of trees")[0])

    assert tree(1, round=5) == tree(2, round=5), (
        "sampling cannot be seeded by the round: no checkpoints"
    )
    assert tree(1, round=5) != tree(1, round=6), (
        "a new seed is not taken: every round samples the same"
    )


def test_lightgbms_error_of_data_without_a_split_is_known() -> None:
    from boostrank.engines.lightgbm.private import has_nothing_to_split

    def objective(scores: npt.NDArray[Any], _: Any) -> tuple[Any, Any]:
        return scores - 1.0, np.ones(5)

    data = lightgbm.Dataset(np.ones((5, 2)), np.arange(5.0))
    with pytest.raises(lightgbm.basic.LightGBMError) as caught:
        lightgbm.train(PARAMS | {"objective": objective}, data, 1)
    assert has_nothing_to_split(caught.value), (
        f"data without a split no longer get our words: {caught.value}"
    )


def test_a_callable_objective_knows_its_round_in_lightgbm() -> None:
    features, labels = rows()
    rounds: list[int | None] = []

    def objective(scores: npt.NDArray[Any], _: Any) -> tuple[Any, Any]:
        rounds.append(ask_round())
        return scores - labels, np.ones(200)

    def ask_round() -> (
        int | None
    ):  # `round_of_caller` begins with the caller of an objective's own method
        return round_of_caller()

    first = lightgbm.train(PARAMS | {"objective": objective}, lightgbm.Dataset(features, labels), 2)
    lightgbm.train(
        PARAMS | {"objective": objective}, lightgbm.Dataset(features, labels), 2, init_model=first
    )
    assert rounds == [
        0,
        1,
        2,
        3,
    ], "objectives handed to LightGBM itself do not know their round: schedules stand still"


# XGBoost
# --------------------------------------------------------------------------------------------------------------


def test_a_callable_objective_knows_its_round_in_xgboost() -> None:
    xgboost = pytest.importorskip("xgboost")
    features, labels = rows()
    rounds: list[int | None] = []

    def objective(scores: npt.NDArray[Any], _: Any) -> tuple[Any, Any]:
        rounds.append(ask_round())
        return (scores - labels).reshape(-1, 1), np.ones((200, 1))

    def ask_round() -> int | None:
        return round_of_caller()

    data = xgboost.DMatrix(features, labels)
    first = xgboost.train({"verbosity": 0}, data, 2, obj=objective)
    xgboost.train({"verbosity": 0}, data, 2, obj=objective, xgb_model=first)
    assert rounds == [
        0,
        1,
        2,
        3,
    ], "objectives handed to XGBoost itself do not know their round: schedules stand still"


@pytest.mark.parametrize("share", ["subsample", "colsample_bytree", "colsample_bynode"])
def test_xgboost_takes_a_new_seed_in_the_middle_of_training(share: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    from boostrank.engines.xgboost.adapter import reseed

    data = xgboost.DMatrix(*rows())

    def second_tree(before: int, seed: int) -> str:
        params = {
            "tree_method": "hist",
            "nthread": 1,
            "verbosity": 0,
            "max_depth": 3,
            share: 0.4,
            "seed": before,
        }
        booster = xgboost.Booster(params | {"learning_rate": 0.0}, [data])
        booster.update(data, 0)
        reseed(booster, seed)
        booster.set_param({"learning_rate": 1.0})
        booster.update(data, 1)
        return str(booster.get_dump(with_stats=True)[1])

    assert second_tree(1, 7) == second_tree(2, 7), (
        f"{share} cannot be seeded by the round: no checkpoints with it"
    )
    assert len({second_tree(1, seed) for seed in range(7, 12)}) > 1, (
        f"a new seed is not taken for {share}"
    )


def test_xgboosts_errors_of_the_connection_are_known() -> None:
    collective = pytest.importorskip("xgboost.collective")
    from xgboost.core import XGBoostError

    from boostrank.engines.xgboost.adapter import is_of_connection, last_line

    nobody = {
        "dmlc_tracker_uri": "127.0.0.1",
        "dmlc_tracker_port": 1,
        "dmlc_retry": 0,
        "dmlc_timeout": 1,
    }
    with (
        pytest.raises(XGBoostError) as caught,
        collective.CommunicatorContext(**nobody, dmlc_task_id="0"),
    ):
        pass
    assert is_of_connection(caught.value), (
        f"a lost worker is taken for another error: {caught.value}"
    )
    assert "\n" not in last_line(caught.value)


def test_xgboosts_error_has_a_stack_trace_that_is_cut_off() -> None:
    xgboost = pytest.importorskip("xgboost")
    from boostrank.engines.xgboost.adapter import is_of_connection, last_line

    with pytest.raises(xgboost.core.XGBoostError) as caught:
        xgboost.train({}, xgboost.DMatrix(rows()[0], np.zeros(10)), 1)
    assert "Stack trace" in str(caught.value), (
        "a stack trace is marked otherwise: messages would hold it"
    )
    assert not is_of_connection(caught.value)
    assert "Stack trace" not in last_line(caught.value)
