"""Several models as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from boostrank import RankingDataset, RankingModel, average, train
from boostrank.core.errors import ModelError, ParameterError
from tests.fit.conftest import make_short_lists

pytestmark = pytest.mark.usefixtures("leaves_as_grown")

PARAMS: dict[str, Any] = {
    "objective": "regression",
    "verbosity": -1,
    "num_threads": 1,
    "min_sum_hessian_in_leaf": 3.0,
    "feature_fraction": 0.6,
}


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    whole = make_short_lists(60, 0)
    x = whole.features.copy()
    x[::7, 1] = np.nan
    return RankingDataset.from_arrays(x, whole.labels, group=whole.queries.sizes)


def models(
    data: RankingDataset, backend: str, rounds: tuple[int, ...], **params: Any
) -> list[RankingModel]:
    return [
        train(PARAMS | params | {"seed": i + 1}, data, r, valid_sets=[data], backend=backend)
        for i, r in enumerate(rounds)
    ]


@pytest.mark.parametrize(("backend", "off"), [("lightgbm", 1e-12), ("xgboost", 1e-5)])
def test_the_average_scores_as_the_mean_of_the_scores(
    data: RankingDataset, backend: str, off: float, tmp_path: Path
) -> None:
    if backend == "xgboost":
        pytest.importorskip("xgboost")
    parts = models(data, backend, (5, 9, 2))
    mean = np.mean([model.predict(data) for model in parts], axis=0)
    assert np.ptp(mean) > 0.1
    averaged = average(parts)
    np.testing.assert_allclose(averaged.predict(data), mean, atol=off * np.ptp(mean))
    assert averaged.best_iteration == 16
    averaged.save(tmp_path / "m")
    again = RankingModel.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(data), averaged.predict(data))
    assert [part["rounds"] for part in again.info["averaged"]] == [5, 9, 2]
    assert [part["params"]["seed"] for part in again.info["averaged"]] == [1, 2, 3]
    assert again.info["averaged"][1]["params"] == parts[1].info["parameters"]
    np.testing.assert_allclose(again.contributions(data).sum(axis=1), mean, atol=1e-5)
    np.testing.assert_array_equal(
        averaged.trees().splits, np.sum([model.trees().splits for model in parts], axis=0)
    )


def test_an_average_of_averages_keeps_what_each_was_made_of(data: RankingDataset) -> None:
    first, second, third = models(data, "lightgbm", (2, 3, 2))
    info = average([average([first, second]), third]).info
    assert [part["params"]["seed"] for part in info["averaged"][0]["averaged"]] == [1, 2]
    assert "averaged" not in info["averaged"][1]
    assert info["averaged"][1]["params"]["seed"] == 3


def test_trees_without_a_split_are_averaged(data: RankingDataset) -> None:
    parts = models(data, "lightgbm", (2, 3), min_gain_to_split=1e9)
    mean = np.mean([model.predict(data) for model in parts], axis=0)
    averaged = average(parts)
    np.testing.assert_allclose(averaged.predict(data), mean, atol=1e-12)
    assert "\nparameters:\n" in averaged.booster.model_to_string()


def test_lightgbm_opens_the_file_and_counts_all_splits(
    data: RankingDataset, tmp_path: Path
) -> None:
    parts = models(data, "lightgbm", (4, 3))
    average(parts).save(tmp_path / "m.txt")
    booster = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    assert booster.num_trees() == 7
    mean = np.mean([model.predict(data) for model in parts], axis=0)
    np.testing.assert_allclose(booster.predict(data.features), mean, atol=1e-12)
    counted = np.sum([model.booster.feature_importance() for model in parts], axis=0)
    np.testing.assert_array_equal(booster.feature_importance(), counted)


def test_only_the_best_rounds_of_each_count(data: RankingDataset) -> None:
    stopped = train(
        PARAMS | {"early_stopping_round": 2, "learning_rate": 0.9},
        data,
        60,
        valid_sets=[make_short_lists(30, 5)],
    )
    assert (
        stopped.best_iteration < stopped.booster.current_iteration() or stopped.best_iteration < 60
    )
    averaged = average([stopped, stopped])
    np.testing.assert_allclose(averaged.predict(data), stopped.predict(data), atol=1e-12)


def test_one_model_is_its_own_average(data: RankingDataset) -> None:
    (model,) = models(data, "lightgbm", (3,))
    np.testing.assert_array_equal(average([model]).predict(data), model.predict(data))


def test_linear_starts_become_one(data: RankingDataset) -> None:
    parts = [
        *(
            train(PARAMS | {"seed": i}, data.take(np.arange(i, 20)), 3, start="linear")
            for i in range(2)
        ),
        *models(data, "lightgbm", (2,)),
    ]
    averaged, mean = average(parts), np.mean([model.predict(data) for model in parts], axis=0)
    np.testing.assert_allclose(averaged.predict(data), mean, atol=1e-9)
    assert averaged.best_iteration == 8
    np.testing.assert_allclose(averaged.contributions(data).sum(axis=1), mean, atol=1e-9)
    np.testing.assert_array_equal(average(parts[:1]).predict(data), parts[0].predict(data))


def test_models_that_cannot_be_averaged_are_refused(data: RankingDataset, tmp_path: Path) -> None:
    (model,) = models(data, "lightgbm", (2,))
    with pytest.raises(ParameterError, match="no models"):
        average([])
    fewer = RankingDataset.from_arrays(data.features[:, :3], data.labels, group=data.queries.sizes)
    with pytest.raises(ParameterError, match="different features"):
        average([model, *models(fewer, "lightgbm", (2,))])
    booster = lgb.train(
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "verbosity": -1},
        lgb.Dataset(data.features, data.labels),
        2,
    )
    booster.save_model(tmp_path / "forest.txt")
    with pytest.raises(ModelError, match="random forest"):
        average([RankingModel.load(tmp_path / "forest.txt")])
    pytest.importorskip("xgboost")
    other = models(data, "xgboost", (2,))
    with pytest.raises(ParameterError, match=r"averaged .*lightgbm"):
        average([model, *other])
