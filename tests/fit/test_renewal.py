"""Leaves renewed on more queries: the equation, what they have seen, and where they stay as they
were.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

import boostrank
from boostrank import RankingDataset, RankingModel, average, calibrate, refit, train
from boostrank.core.errors import DataError, DataWarning, ModelError, ParameterError
from boostrank.data.synthetic import make_ranking_data
from boostrank.engines import get_backend
from boostrank.files.writer import write_libsvm
from boostrank.fit.from_data import with_params
from boostrank.fit.plan import Training
from boostrank.fit.renewal import renew_leaves
from boostrank.fit.resolve import resolve
from boostrank.fit.run import run
from boostrank.options import TrainOptions
from tests.cli.conftest import succeed

ENGINES = ["lightgbm", "xgboost"]
PARAMS: dict[str, Any] = {"num_threads": 1, "verbosity": -1, "seed": 3, "learning_rate": 0.2}
pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


@pytest.fixture(scope="module")
def few() -> RankingDataset:
    return make_ranking_data(queries=30, seed=1).dataset


@pytest.fixture(scope="module")
def more(few: RankingDataset) -> RankingDataset:
    return few.join(make_ranking_data(queries=20, seed=2).dataset.like(few))


def training_of(data: RankingDataset, backend: str = "lightgbm", **params: Any) -> Training:
    options = with_params(
        TrainOptions(rounds=12, backend=backend, start=params.pop("start", "auto")), PARAMS | params
    )
    return resolve(options, data).trainings[0]


def leaf_values(model: RankingModel) -> list[np.ndarray]:
    engine_format = get_backend(model.backend).format
    return engine_format.leaf_values(engine_format.parse(model.to_bytes()))


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("objective", ["auto", "reg-shf-sdcg"])
def test_the_rows_that_trained_give_the_same_model(
    backend: str, objective: str, few: RankingDataset
) -> None:
    training = training_of(few, backend, objective=objective)
    model = run(training)
    renewed = renew_leaves(model, training)
    tolerance = 0.0 if backend == "lightgbm" else 1e-5
    np.testing.assert_allclose(renewed.predict(few), model.predict(few), rtol=0.0, atol=tolerance)
    assert renewed.info["renewed"]["queries"] == len(few.queries)


@pytest.mark.usefixtures("leaves_as_grown")
def test_leaves_are_the_slopes_over_the_curvatures_of_all_rows(
    few: RankingDataset, more: RankingDataset
) -> None:
    training = training_of(few, objective="lambdarank", start="none", lambda_l2=0.5)
    model = run(training)
    renewed = renew_leaves(model, replace(training, train_set=more))
    # One tree after the other, in plain NumPy.
    objective = training.objective
    assert objective is not None
    bound = objective.scale_to(12).bind(more.labels, more.queries)
    leaves, scores = model.predict(more, pred_leaf=True), np.zeros(more.n_documents)
    for number, values in enumerate(leaf_values(renewed)):
        gradient = bound.gradient(scores, number)
        for leaf in range(values.size):
            rows = leaves[:, number] == leaf
            slope, curvature = (
                gradient.grad[rows].sum(dtype=float),
                gradient.hess[rows].sum(dtype=float),
            )
            if rows.any():
                assert values[leaf] == pytest.approx(-0.2 * slope / (curvature + 0.5), rel=1e-5)
        scores += values[leaves[:, number]]
    assert not np.allclose(renewed.predict(more), model.predict(more))


@pytest.mark.usefixtures("leaves_as_grown")
def test_a_leaf_without_a_row_keeps_its_value(few: RankingDataset) -> None:
    training = training_of(few, objective="lambdarank", start="none")
    model = run(training)
    part = few.take(np.arange(3))
    empty = np.setdiff1d(
        np.arange(leaf_values(model)[0].size), model.predict(part, pred_leaf=True)[:, 0]
    )
    renewed = renew_leaves(model, replace(training, train_set=part))
    assert empty.size
    np.testing.assert_array_equal(leaf_values(renewed)[0][empty], leaf_values(model)[0][empty])


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "lightgbm:lambdarank"},
        {"objective": lambda scores, data: (scores - data.get_label(), np.ones_like(scores))},
        {"boosting": "dart"},
        {"path_smooth": 2.0},
        {"lambda_l1": 0.1},
        {"monotone_constraints": [1, 0, 0, 0]},
        {"categorical_feature": [0]},
    ],
    ids=[
        "native",
        "function",
        "dart",
        "path_smooth",
        "lambda_l1",
        "monotone",
        "categories",
    ],
)
def test_leaves_that_follow_another_rule_stay(
    params: dict[str, Any], few: RankingDataset, more: RankingDataset
) -> None:
    narrow = [
        replace(data, features=np.floor(np.abs(data.features[:, :4])), feature_names=tuple("abcd"))
        for data in (few, more)
    ]
    training = training_of(narrow[0], **params)
    model = run(training)
    assert (
        renew_leaves(model, replace(training, train_set=training_of(narrow[1], **params).train_set))
        is model
    )


@pytest.mark.parametrize("backend", ENGINES)
def test_quick_learns_from_the_queries_that_stopped_it(backend: str, few: RankingDataset) -> None:
    valid = make_ranking_data(queries=20, seed=2).dataset
    model = train(PARAMS, few, valid_sets=[valid], quality="quick", backend=backend)
    kept = train(
        PARAMS,
        few,
        valid_sets=[valid],
        quality="quick",
        backend=backend,
        num_boost_round=model.best_iteration,
    )
    assert model.info["renewed"]["queries"] == 50
    assert "renewed" not in kept.info  # no early stopping: the validation queries are only measured
    leaves = [ranker.predict(valid, pred_leaf=True)[:, -1] for ranker in (model, kept)]
    np.testing.assert_array_equal(*leaves)
    assert not np.allclose(model.predict(valid), kept.predict(valid))


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("objective", ["lambdarank", "reg-shf-sdcg"])
def test_a_refit_on_the_same_rows_gives_the_same_model(
    backend: str, objective: str, few: RankingDataset
) -> None:
    model = train(PARAMS | {"objective": objective}, few, num_boost_round=12, backend=backend)
    again = refit(model, few)
    np.testing.assert_allclose(again.predict(few), model.predict(few), rtol=0.0, atol=1e-5)
    assert again.info["renewed"]["queries"] == len(few.queries)


@pytest.mark.parametrize("backend", ENGINES)
def test_a_refit_of_a_model_that_ended_early(backend: str, few: RankingDataset) -> None:
    how: dict[str, Any] = {
        "valid_sets": [make_ranking_data(queries=10, seed=4).dataset],
        "backend": backend,
    }
    params = PARAMS | {"objective": "lambdarank", "learning_rate": 1.0}
    stopped = train(params | {"early_stopping_rounds": 1}, few, 30, **how)
    cut = train(params, few, 5, max_trees=2, backend=backend)
    for model in (stopped, cut):
        assert model.best_iteration < (model.info.trained_rounds or 0)
        np.testing.assert_allclose(refit(model, few).predict(few), model.predict(few), atol=1e-5)


@pytest.mark.parametrize("backend", ENGINES)
def test_a_refit_knows_numbers_of_numpy(backend: str, few: RankingDataset) -> None:
    numbers = {"learning_rate": np.float32(0.25), "lambda_l2": np.int64(5)}
    constraints = {"monotone_constraints": np.zeros(few.n_features, np.int64)}
    params = PARAMS | {"objective": "lambdarank"} | numbers
    model = train(params, few, 4, backend=backend)
    assert model.info.parameters == model.info.parameters | {"learning_rate": 0.25, "lambda_l2": 5}
    np.testing.assert_allclose(refit(model, few).predict(few), model.predict(few), atol=1e-5)
    recorded = train(params | constraints, few, 1, backend=backend).info.parameters
    assert recorded["monotone_constraints"] == [0] * few.n_features


def test_a_refit_follows_the_schedule_of_the_training(few: RankingDataset) -> None:
    stage = boostrank.Objective("reg-shf-sdcg", total_rounds=20)
    first = train({**PARAMS, "objective": stage}, few, 6)
    for model in (first, train({**PARAMS, "objective": stage}, few, 6, init_model=first)):
        np.testing.assert_allclose(refit(model, few).predict(few), model.predict(few), atol=1e-5)
    # The first rounds followed a shorter schedule than the others.
    for objective in ("reg-shf-sdcg", boostrank.Mixture("listnet", "sdcg", mix="logistic")):
        first = train({**PARAMS, "objective": objective}, few, 6)
        with pytest.raises(ModelError, match="between rounds"):
            refit(train({**PARAMS, "objective": objective}, few, 6, init_model=first), few)
    mixture = {**PARAMS, "objective": boostrank.Mixture("listnet", "sdcg")}
    first = train(mixture, few, 3)
    model = train(mixture, few, 3, init_model=first)
    np.testing.assert_allclose(refit(model, few).predict(few), model.predict(few), atol=1e-5)


def test_a_refit_takes_the_gain_of_the_model(few: RankingDataset) -> None:
    model = train(PARAMS | {"objective": "lambdarank"}, few.with_gain("2 * label"), 2)
    np.testing.assert_allclose(refit(model, few).predict(few), model.predict(few), atol=1e-5)
    with pytest.raises(DataError, match="gain"):
        refit(model, few.with_gain("3 * label"))
    plain = train(PARAMS | {"objective": "lambdarank"}, few, 2)
    with pytest.raises(DataError, match="gain"):
        refit(plain, few.with_gain("2 * label"))


def test_a_refit_of_an_average_is_the_average_of_refits(
    few: RankingDataset, more: RankingDataset
) -> None:
    parts = [
        train(PARAMS | {"objective": name}, few, num_boost_round=rounds)
        for name, rounds in (("auto", 5), ("sdcg", 7))
    ]
    averaged = average(parts, [0.5, 2.0])
    expected = average([refit(part, more) for part in parts], [0.5, 2.0])
    np.testing.assert_allclose(
        refit(averaged, more).predict(more), expected.predict(more), rtol=1e-3, atol=1e-4
    )


def test_a_refit_keeps_a_share_of_the_leaves(few: RankingDataset, more: RankingDataset) -> None:
    model = train(PARAMS | {"objective": "lambdarank"}, few, num_boost_round=1)
    new = refit(model, more, keep=0.0).predict(more)
    half = refit(model, more, keep=0.5).predict(more)
    old = refit(model, more, keep=1.0).predict(more)
    np.testing.assert_allclose(half, (new + old) / 2.0, atol=1e-6)
    np.testing.assert_allclose(old, model.predict(more), atol=1e-6)
    assert not np.allclose(new, old)


def test_a_refit_needs_a_share_and_an_objective_of_ours(few: RankingDataset) -> None:
    model = train(PARAMS, few, num_boost_round=2)
    native = train(PARAMS | {"objective": "lightgbm:lambdarank"}, few, num_boost_round=2)
    with pytest.raises(ParameterError, match="keep"):
        refit(model, few, keep=1.5)
    with pytest.raises(ParameterError, match="keep"):
        refit(model, few, keep="0.5")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="lightgbm:lambdarank"):
        refit(native, few)
    with pytest.raises(ModelError, match="record"):
        refit(RankingModel(native._booster, info={}), few)


@pytest.mark.parametrize("backend", ENGINES)
def test_rounds_of_several_kinds_are_not_refitted(backend: str, few: RankingDataset) -> None:
    def grown(
        earlier: Any = None, callbacks: Any = None, objective: str = "lambdarank", **params: Any
    ) -> RankingModel:
        settings = PARAMS | {"objective": objective} | params
        return train(settings, few, 2, init_model=earlier, callbacks=callbacks, backend=backend)

    first = grown()
    same = refit(grown(first), few)
    np.testing.assert_allclose(same.predict(few), grown(first).predict(few), atol=1e-5)
    slower = lightgbm.reset_parameter(learning_rate=lambda number: 0.3 * 0.5**number)
    foreign = RankingModel(first._booster, info={"backend": backend})
    mixed = [
        grown(first, learning_rate=0.5),
        grown(first, objective="xe-ndcg"),
        grown(grown(first, learning_rate=0.5), learning_rate=0.5),
        grown(foreign),
        grown(callbacks=[slower]),
    ]
    for model in mixed:
        with pytest.raises(ModelError, match="between rounds"):
            refit(model, few)


@pytest.mark.parametrize("backend", ENGINES)
def test_quick_keeps_the_leaves_of_other_rounds(backend: str, few: RankingDataset) -> None:
    valid = make_ranking_data(queries=10, seed=4).dataset
    first = train(PARAMS, few, 3, backend=backend)
    slower = lightgbm.reset_parameter(learning_rate=lambda number: 0.3 * 0.5**number)
    how: dict[str, Any] = {"valid_sets": [valid], "backend": backend, "quality": "quick"}
    params = PARAMS | {"early_stopping_rounds": 2}
    for options in ({"init_model": first}, {"callbacks": [slower]}):
        assert train(params, few, 4, **how, **options).info.renewed is None
    renewed = train(params, few, 4, **how).info.renewed
    assert renewed is not None
    assert renewed["queries"] == len(few.queries) + len(valid.queries)


def test_the_command_writes_a_refitted_model(few: RankingDataset, tmp_path: Path) -> None:
    model, data = tmp_path / "m.txt", tmp_path / "d.txt"
    write_libsvm(data, few)
    train(PARAMS | {"objective": "lambdarank"}, boostrank.read(data), num_boost_round=3).save(model)
    succeed("refit", model, data, "-o", tmp_path / "new.txt", "--keep", 0.2)
    assert RankingModel.load(tmp_path / "new.txt").info["renewed"]["queries"] == len(few.queries)


def test_a_refitted_model_is_not_calibrated_on_the_data_of_the_refit(few: RankingDataset) -> None:
    other = make_ranking_data(queries=40, seed=5).dataset
    model = refit(train(PARAMS | {"objective": "lambdarank"}, few, 3), other)
    with pytest.raises(DataError, match="trained on these data"):
        calibrate(model, other)


def test_the_command_says_that_leaves_come_from_the_validation_queries(
    few: RankingDataset, tmp_path: Path
) -> None:
    train_file, valid_file = tmp_path / "t.txt", tmp_path / "v.txt"
    write_libsvm(train_file, few)
    write_libsvm(valid_file, make_ranking_data(queries=10, seed=4).dataset)
    result = succeed(
        "train", train_file, "--valid", valid_file, "--quality", "quick", "-m", tmp_path / "m.txt"
    )
    assert "40 queries" in result.stderr
    valid_set = boostrank.read(valid_file)
    with pytest.warns(DataWarning, match="v.txt: training read"):
        calibrate(tmp_path / "m.txt", valid_set)
