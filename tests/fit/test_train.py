"""`boostrank.train` behaves as `lgb.train` does, on both engines."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import boostrank
from boostrank.core.errors import (
    DataError,
    InputError,
    NothingToLearn,
    ParameterError,
    TrainingError,
    TrainingWarning,
)
from boostrank.data.dataset import RankingDataset
from tests.fit.conftest import BACKENDS, FAST, make_dataset


@pytest.fixture(scope="module")
def data() -> tuple[RankingDataset, RankingDataset]:
    return make_dataset(0), make_dataset(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_callback_of_lightgbm_works_on_either_engine(
    backend: str, data: Any, capfd: Any
) -> None:
    train, valid = data
    pytest.importorskip(backend)
    recorded: dict[str, Any] = {}
    rates: list[float] = []

    def rate(round: int) -> float:
        rates.append(0.2 * 0.99**round)
        return rates[-1]

    # Stopping, recording, logging, and a schedule of the learning rate.
    model = boostrank.train(
        {"objective": "lambdarank", "eval_at": [5], **FAST},
        train,
        200,
        valid_sets=[train, valid],
        valid_names=iter(("train", "valid")),
        callbacks=[
            lgb.early_stopping(5, verbose=False),
            lgb.record_evaluation(recorded),
            lgb.log_evaluation(1),
            lgb.reset_parameter(learning_rate=rate),
        ],
        backend=backend,
    )
    # Each has done its work.
    assert set(recorded) == {"train", "valid"}
    assert recorded == model.evals_result
    curve = recorded["valid"]["ndcg@5"]
    assert len(curve) < 200, "early stopping never fired"
    assert len(rates) == len(curve)
    assert model.best_iteration == int(np.argmax(curve)) + 1
    assert model.best_score["valid"]["ndcg@5"] == max(curve)
    logged = capfd.readouterr()
    assert "valid's ndcg@5" in logged.out + logged.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_our_early_stopping_watches_the_largest_cutoff_and_not_the_training_set(
    backend: str, data: Any
) -> None:
    train, valid = data
    model = boostrank.train(
        {"objective": "lambdarank", "early_stopping_round": 5, "eval_at": [1, 5, 3], **FAST},
        train,
        200,
        valid_sets=[train, valid],
        backend=backend,
    )
    curve = model.evals_result["valid_1"]["ndcg@5"]
    assert list(model.evals_result) == ["training", "valid_1"]
    assert len(curve) == int(np.argmax(curve)) + 1 + 5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("objective", ["sdcg", "lambdarank"])
def test_the_same_training_gives_the_same_bytes_with_one_thread_or_two(
    backend: str, objective: str, data: Any, tmp_path: Any
) -> None:
    train, _ = data
    texts = []
    for threads in (1, 2, 2):
        model = boostrank.train(
            {"objective": objective, **FAST, "num_threads": threads}, train, 10, backend=backend
        )
        model.save(tmp_path / "model")
        text = (tmp_path / "model").read_text()
        texts.append(re.sub(r"\[num_threads: \d+\]", "", text))
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_continuing_goes_on_with_the_round(backend: str, data: Any) -> None:
    train, _ = data
    params = {"objective": "sdcg", "sigma": "linear(1, 2, rounds=8)", **FAST}
    whole = boostrank.train(params, train, 8, backend=backend)
    half = boostrank.train(params, train, 4, backend=backend)
    continued = boostrank.train(params, train, 4, init_model=half, backend=backend)
    assert continued.best_iteration == 8
    np.testing.assert_allclose(continued.predict(train), whole.predict(train), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_schedule_over_the_training_spans_all_of_its_rounds(
    backend: str, data: Any, monkeypatch: Any
) -> None:
    train, _ = data
    seen: list[tuple[int, float]] = []
    original = boostrank.Objective.values

    def values(self: Any, round: int) -> Any:
        result = original(self, round)
        seen.append((round, result["sigma"]))
        return result

    monkeypatch.setattr(boostrank.Objective, "values", values)
    boostrank.train(
        {"objective": "sdcg", "sigma": "geometric(8, 1)", **FAST}, train, 4, backend=backend
    )
    assert [round for round, _ in seen] == [0, 1, 2, 3]
    np.testing.assert_allclose([value for _, value in seen], [8, 4, 2, 1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_and_dense_features_give_the_same_model(backend: str) -> None:
    from scipy import sparse

    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 6)).astype(np.float32) * (rng.random((600, 6)) < 0.3)
    y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=600), [0.2, 1.0])
    dense = RankingDataset.from_arrays(X, y, group=[20] * 30)
    thin = RankingDataset.from_arrays(sparse.csr_matrix(X), y, group=[20] * 30)
    assert thin.is_sparse
    assert not dense.is_sparse
    params = {"objective": "lambdarank", **FAST}
    a = boostrank.train(params, dense, 10, valid_sets=[dense], backend=backend)
    b = boostrank.train(params, thin, 10, valid_sets=[thin], backend=backend)
    assert a.evals_result == b.evals_result
    np.testing.assert_array_equal(a.predict(dense), b.predict(thin))
    np.testing.assert_array_equal(a.predict(thin), b.predict(dense))


def test_the_engines_own_objectives_train_beside_ours(data: Any) -> None:
    train, valid = data
    for name, backend in (("lightgbm:lambdarank", "lightgbm"), ("xgboost:rank:ndcg", "xgboost")):
        model = boostrank.train(
            {"objective": name, **FAST}, train, 20, valid_sets=[valid], backend=backend
        )
        curve = model.evals_result["valid_0"]["ndcg@10"]
        assert curve[-1] > curve[0]
        assert model.info["objective"] == {"name": name}
    with pytest.raises(ParameterError, match="backend='lightgbm'"):
        boostrank.train({"objective": "lightgbm:lambdarank"}, train, 1, backend="xgboost")
    with pytest.raises(ParameterError, match="backend='xgboost'"):
        boostrank.train({"objective": "rank:pairwise"}, train, 1)


@pytest.mark.parametrize(
    ("name", "backend"), [("lightgbm:lambdarank", "lightgbm"), ("xgboost:rank:ndcg", "xgboost")]
)
def test_one_word_for_the_gain_reaches_the_engines_own_objectives(
    name: str, backend: str, data: Any
) -> None:
    def fit(**gain: Any) -> Any:
        return boostrank.train(
            {"objective": name, **FAST, **gain}, data[0], 5, backend=backend
        ).predict(data[0])

    np.testing.assert_array_equal(fit(), fit(gain="exponential"))
    assert np.abs(fit() - fit(gain="linear")).max() > 1e-3
    if backend == "lightgbm":
        np.testing.assert_array_equal(fit(gain="linear"), fit(gain=[0, 1, 2, 3]))
    else:
        with pytest.raises(ParameterError, match="not a table"):
            fit(gain=[0, 1, 2, 3])


def test_arguments_by_position_are_those_of_lgb_train(data: Any) -> None:
    train, valid = data
    ours, theirs = (
        inspect.signature(boostrank.train).parameters,
        inspect.signature(lgb.train).parameters,
    )
    assert [*ours][: len(theirs)] == [*theirs]
    assert {parameter.kind for parameter in [*ours.values()][len(theirs) :]} == {
        inspect.Parameter.KEYWORD_ONLY
    }
    rounds: list[int] = []
    spread = lambda scores, _: ("spread", float(np.ptp(scores)), True)  # noqa: E731
    first = boostrank.train(FAST, train, 2)
    model = boostrank.train(
        FAST, train, 3, [valid], ["v"], spread, first, False, [lambda e: rounds.append(e.iteration)]
    )
    assert "spread" in model.evals_result["v"]
    assert (model.best_iteration, len(set(rounds))) == (5, 3)
    with pytest.raises(ParameterError, match=r"keep_training_booster.*update.*init_model"):
        boostrank.train(FAST, train, 2, keep_training_booster=True)


def test_feval_and_callables_are_taken_as_lightgbm_takes_them(data: Any) -> None:
    train, valid = data

    def spread(scores: Any, dataset: Any) -> tuple[str, float, bool]:
        return "spread", float(np.ptp(scores)), True

    def squares(scores: Any, dataset: Any) -> tuple[Any, Any]:
        return scores - dataset.get_label(), np.ones_like(scores)

    model = boostrank.train(
        {"objective": squares, "metric": "None", **FAST}, train, 5, [valid], feval=spread
    )
    assert list(model.evals_result["valid_0"]) == ["spread"]
    assert model.info["objective"]["name"] == "custom"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            lambda s, d: (np.full(s.size, np.nan), np.ones(s.size)),
            "round 0: gradient of row 0 is nan",
        ),
        (lambda s, d: (np.zeros(s.size), -np.ones(s.size)), "round 0: hessian of row 0 is -1.0"),
        (lambda s, d: (np.zeros(3), np.ones(3)), "gradient has 3 values"),
    ],
)
def test_fault_063_a_broken_custom_gradient_stops_training(
    backend: str, broken: Any, message: str, data: Any
) -> None:
    with pytest.raises(TrainingError, match=message):
        boostrank.train({"objective": broken, **FAST}, data[0], 3, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_fault_070_trees_of_one_leaf_are_not_a_silent_success(backend: str, data: Any) -> None:
    gate = {"min_sum_hessian_in_leaf": 1e9}
    with pytest.warns(TrainingWarning, match="single leaf"):
        boostrank.train({"objective": "sdcg", **FAST, **gate}, data[0], 6, backend=backend)


def test_fault_071_equal_labels_everywhere_teach_nothing() -> None:
    flat = RankingDataset.from_arrays(
        np.random.default_rng(0).normal(size=(40, 2)), np.ones(40), group=[20, 20]
    )
    with pytest.raises(TrainingError, match="nothing to learn"):
        boostrank.train({"objective": "lambdarank", **FAST}, flat, 3)


def test_fault_071_a_linear_model_of_equal_labels_is_no_silent_success_either() -> None:
    flat = RankingDataset.from_arrays(
        np.random.default_rng(0).normal(size=(40, 2)), np.ones(40), group=[20, 20]
    )
    with pytest.raises(NothingToLearn, match="the same gain"):
        boostrank.train({}, flat, 3, backend="linear")


@pytest.mark.fault(69)
def test_hessians_that_were_floored_are_counted_in_the_summary(data: Any) -> None:
    flat = {"objective": "shf-sdcg", "sigma": 1e20, **FAST}
    summary = boostrank.train(flat, data[0], 1, start="none").summary
    assert summary is not None
    assert summary.floored is not None
    assert 0 < summary.floored <= summary.rows


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_validation_set_without_rows_is_refused(backend: str, data: Any) -> None:
    empty = RankingDataset.from_arrays(np.zeros((0, data[0].n_features)), [], group=[])
    with pytest.raises(DataError, match=r"'valid_0' .*no rows"):
        boostrank.train(
            {"objective": "sdcg", **FAST}, data[0], 1, valid_sets=[empty], backend=backend
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_fault_098_the_hessian_gate_means_the_same_for_every_objective(
    backend: str, data: Any
) -> None:
    # A leaf must hold about as much hessian as 30 average documents, whatever the objective's own
    # scale.
    for objective in ("sdcg", "shf-sdcg", "approx-ndcg", "lambdarank", "regression"):
        loose = boostrank.train({"objective": objective, **FAST}, data[0], 1, backend=backend)
        tight = boostrank.train(
            {"objective": objective, **FAST, "min_sum_hessian_in_leaf": 500},
            data[0],
            1,
            backend=backend,
        )
        leaves = [len(np.unique(m.predict(data[0]))) for m in (loose, tight)]
        assert leaves[0] == 7
        assert 1 <= leaves[1] <= 2


@pytest.mark.fault(72)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objectiv": "sdcg"}, "Did you mean 'objective'"),
        ({"objective": "sdgc"}, "Did you mean 'sdcg'"),
        ({"objective": "sdcg", "sigmaa": 1}, "no parameter 'sigmaa'"),
        ({"objective": "sdcg", "sigma": -1}, "out of range"),
        ({"objective": "sdcg", "sgima": 1}, "Did you mean 'sigma'"),
        ({"objective": "sdcg", "sigma": "geometrc(8, 1)"}, "Did you mean 'geometric'"),
        ({"objective": "sdcg", "sigma": "large"}, "sigma='large'"),
        ({"num_iterations": 5, "n_estimators": 6}, "same parameter"),
        ({"objective": "sdcg", "metric": "l2"}, "unknown metric"),
        ({"early_stopping_round": 5}, "validation set"),
        ({"objective": "shf-sdcg", "lambdarank_truncation_level": 3}, "own objectives"),
        ({"objective": "shf-sdcg", "sigmoid": 2}, "own objectives"),
        ({"objective": lambda s, d: (s, s), "label_gain": [0, 1, 2, 3]}, "own objectives"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(params: Any, message: str, data: Any) -> None:
    with pytest.raises(ParameterError, match=message):
        boostrank.train({"objective": "sdcg", **params}, data[0], 2, valid_sets=None)


def test_lightgbms_names_for_lambdaranks_options_are_understood(data: Any) -> None:
    def fit(**options: Any) -> Any:
        return boostrank.train({"objective": "lambdarank", **FAST, **options}, data[0], 3).predict(
            data[0]
        )

    np.testing.assert_array_equal(
        fit(lambdarank_norm=False), fit(norm_distance=False, norm_query=False)
    )
    assert np.abs(fit(lambdarank_norm=False) - fit()).max() > 1e-3
    np.testing.assert_array_equal(fit(lambdarank_truncation_level=3), fit(truncation_level=3))
    np.testing.assert_array_equal(fit(early_stopping_round=-1), fit())


def test_the_engines_names_are_never_taken_for_an_objectives() -> None:
    from boostrank.engines.lightgbm.private import parameter_names
    from boostrank.objectives import OBJECTIVES

    # Names that mean the same in both, the papers' own alpha and sigmoid, which the engine has no
    # use for here, and metric, which parameters of a training always report:
    # `lambdarank(metric=...)` alone trains on it.
    shared = {
        "alpha",
        "metric",
        "sigmoid",
        "lambdarank_truncation_level",
        "seed",
        "random_seed",
        "random_state",
    }
    for spec in OBJECTIVES:
        names = {name for param in spec.params for name in (param.name, *param.aliases)}
        assert names & set(parameter_names()) <= shared, spec.name


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_reach_an_objective_that_was_built_before(
    backend: str, data: Any, monkeypatch: Any
) -> None:
    seen: list[int] = []
    import boostrank.objective.bound as bound

    original = bound.resolve_threads
    monkeypatch.setattr(
        bound, "resolve_threads", lambda threads: seen.append(threads) or original(threads)
    )
    objective = boostrank.Objective("sdcg")
    boostrank.train({"objective": objective, **FAST, "num_threads": 1}, data[0], 1, backend=backend)
    assert seen == [1]
    assert objective.threads is None


def test_parameters_of_the_wrong_engine_are_refused_with_what_to_use(data: Any) -> None:
    with pytest.raises(ParameterError, match="min_child_weight"):
        boostrank.train({"objective": "sdcg", "min_data_in_leaf": 5}, data[0], 1, backend="xgboost")
    with pytest.raises(ParameterError, match="no parameter 'max_leavez'"):
        boostrank.train({"objective": "sdcg", "max_leavez": 5}, data[0], 1, backend="xgboost")
    with pytest.raises(ParameterError, match=r"lightgbn.*lightgbm"):
        boostrank.train({}, data[0], 1, backend="lightgbn")


@pytest.mark.parametrize("backend", BACKENDS)
def test_stopping_waits_until_the_objective_has_settled(backend: str, data: Any) -> None:
    train, valid = data
    params = {"objective": "reg-shf-sdcg", "early_stopping_round": 3, "eval_at": 10, **FAST}
    model = boostrank.train(params, train, 60, valid_sets=[valid], backend=backend)
    assert model.best_iteration > 30
    callback = boostrank.train(
        {k: v for k, v in params.items() if k != "early_stopping_round"},
        train,
        60,
        valid_sets=[valid],
        callbacks=[lgb.early_stopping(3, verbose=False)],
        backend=backend,
    )
    assert callback.best_iteration > 30


def test_query_weights_change_the_model_and_their_scale_does_not(data: Any) -> None:
    train, _ = data
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.1, 3.0, len(train.queries))

    def fit(weight: Any) -> Any:
        weighted = RankingDataset.from_arrays(
            train.features, train.labels, group=train.queries.sizes, weight=weight
        )
        return boostrank.train({"objective": "sdcg", **FAST}, weighted, 5).predict(train.features)

    plain, once, twice = fit(None), fit(weights), fit(weights * 4.0)
    assert np.abs(plain - once).max() > 1e-3
    np.testing.assert_array_equal(once, twice)


def test_the_summary_adds_up(data: Any) -> None:
    train, valid = data
    model = boostrank.train({"objective": "sdcg", **FAST}, train, 5, valid_sets=[valid])
    summary = model.summary
    assert summary is not None
    assert (summary.rows, summary.queries, summary.rounds, summary.best_round) == (1200, 60, 5, 5)
    assert summary.dead_queries == 0
    assert 0 <= summary.kernel_seconds <= summary.seconds
    assert summary.tree_seconds > 0


def test_training_warns_nothing_when_all_is_well(data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for backend in BACKENDS:
            boostrank.train(
                {"objective": "sdcg", **FAST}, data[0], 3, valid_sets=[data[1]], backend=backend
            )


def test_a_lightgbm_dataset_is_accepted_as_it_is(data: Any) -> None:
    train, valid = data
    ours = boostrank.train({"objective": "sdcg", **FAST}, train, 5, valid_sets=[valid])
    native = lgb.Dataset(train.features, train.labels, group=train.queries.sizes)
    native_valid = native.create_valid(valid.features, valid.labels, group=valid.queries.sizes)
    theirs = boostrank.train({"objective": "sdcg", **FAST}, native, 5, valid_sets=[native_valid])
    assert theirs.evals_result == ours.evals_result
    np.testing.assert_array_equal(theirs.predict(valid.features), ours.predict(valid))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"init_score": 1.0}, "init_score"),
        ({"position": 0}, "positions"),
        ({"group": None}, "no queries"),
        ({"label": None}, "no labels"),
    ],
)
def test_a_lightgbm_dataset_that_others_cannot_read_is_refused(
    data: Any, options: dict[str, Any], words: str
) -> None:
    train, _ = data
    rows = {
        name: None if value is None else np.full(train.n_documents, value)
        for name, value in options.items()
    }
    native = lgb.Dataset(
        train.features, **{"label": train.labels, "group": train.queries.sizes} | rows
    )
    with pytest.raises(InputError, match=words):
        boostrank.train({"objective": "sdcg", **FAST}, native, 1)


def test_a_lightgbm_dataset_without_its_rows_is_refused(data: Any) -> None:
    train, _ = data
    native = lgb.Dataset(
        train.features, train.labels, group=train.queries.sizes, params={"verbosity": -1}
    ).construct()
    with pytest.raises(ParameterError, match=r"free_raw_data=False.*lgb\.train"):
        boostrank.train({"objective": "sdcg", **FAST}, native, 1)
    with pytest.raises(ParameterError, match="only LightGBM reads"):
        boostrank.train({"objective": "sdcg", **FAST}, lgb.Dataset("rows.csv"), 1)


def test_a_lightgbm_dataset_brings_its_parameters_and_weights(data: Any) -> None:
    train, _ = data
    weights = np.repeat(np.arange(1.0, 1 + len(train.queries)), train.queries.sizes)
    dataset_params = {"max_bin": 7, "num_leaves": 3}
    native = lgb.Dataset(
        train.features,
        train.labels,
        group=train.queries.sizes,
        weight=weights,
        params=dataset_params,
    )
    weighted = boostrank.RankingDataset.from_arrays(
        train.features,
        train.labels,
        group=train.queries.sizes,
        weight=np.arange(1.0, 1 + len(train.queries)),
    )
    params = {"objective": "sdcg", **FAST}
    theirs, ours = (
        boostrank.train(dataset_params | params, weighted, 3),
        boostrank.train(params, native, 3),
    )
    np.testing.assert_array_equal(theirs.predict(train.features), ours.predict(train.features))
