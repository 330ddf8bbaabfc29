"""Linear rankers: what is minimised, how, and what comes back from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

import boostrank
from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.linear.adapter import (
    BACKEND,
    Risk,
    ScaledRows,
    measure_scaling,
    ridge_regression,
)
from boostrank.engines.linear.format import LINEAR, LinearModel
from boostrank.fit.settings import split_params
from boostrank.objectives import OBJECTIVES
from tests.engines.conftest import make_scaled_dataset

SMOOTH = ("approx-ndcg", "smooth-ndcg", "soft-ndcg", "smooth-ap", "margin-ndcg", "ranknet")


@pytest.fixture(scope="module")
def data() -> tuple[RankingDataset, RankingDataset]:
    return make_scaled_dataset(0), make_scaled_dataset(1)


@pytest.fixture(scope="module")
def trained(data: Any) -> boostrank.RankingModel:
    return boostrank.train(
        {"objective": "approx-ndcg"}, data[0], 12, valid_sets=[data[1]], backend="linear"
    )


def risk_of(data: RankingDataset, name: str, **params: Any) -> Risk:
    bound = boostrank.Objective(name, total_rounds=10, **params).bind(data.labels, data.queries)
    rows = ScaledRows(data.features, measure_scaling("standard", data.features))
    return Risk(rows, bound.evaluate, len(data.queries), 0.01, np.full(7, 0.1), 9)


# What is minimised
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_by_the_weights_is_that_of_the_risk(name: str) -> None:
    risk = risk_of(make_scaled_dataset(3, queries=8, gaps=True), name)
    weights = np.random.default_rng(0).normal(size=7)
    _, gradient = risk(weights)
    for j in range(7):
        step = np.zeros(7)
        step[j] = 1e-6
        central = (risk(weights + step)[0] - risk(weights - step)[0]) / 2e-6
        assert gradient[j] == pytest.approx(central, abs=2e-6), j


def test_evaluate_is_what_gradient_hands_to_an_engine_before_its_scale() -> None:
    data = make_scaled_dataset(2, queries=8)
    scores = np.random.default_rng(0).normal(size=data.n_documents)
    weighted = boostrank.QueryIndex(data.queries.ptr, data.queries.qid, np.linspace(0.5, 2.0, 8))
    for objective in (
        boostrank.Objective("shf-sdcg", hessian_scale="raw"),
        boostrank.Mixture("approx-ndcg", "regression", mix=0.3, hessian_scale="raw"),
    ):
        evaluation = objective.bind(data.labels, weighted).evaluate(scores, 0)
        engine = objective.bind(data.labels, weighted).gradient(scores, 0)
        np.testing.assert_allclose(evaluation.grad, engine.grad, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(evaluation.hess, engine.hess, rtol=1e-5, atol=1e-7)
        assert evaluation.stats.loss == pytest.approx(engine.stats.loss)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_the_start_is_sklearns_ridge_regression(make: Any, data: Any) -> None:
    train, ridge = data[0], 0.05
    features = make(train.features)
    gains = gains_from_labels(train.labels)
    rows = ScaledRows(features, measure_scaling("standard", features))
    weights = ridge_regression(rows, gains, ridge)
    X = train.features.astype(np.float64)[:, :5]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = Ridge(alpha=ridge * len(X)).fit(X, gains)
    np.testing.assert_allclose(weights[:5], expected.coef_, rtol=1e-6, atol=1e-9)
    assert weights[6] == pytest.approx(expected.intercept_)
    assert weights[5] == 0.0  # the feature that never changes


# How
# ------------------------------------------------------------------------------------------------------------------


def test_the_start_is_a_converged_ranksvm(data: Any) -> None:
    train = data[0]
    params = {
        "objective": "ranksvm",
        "initial": "zero",
        "toward": "zero",
        "lambda_l2": 0.1,
        "tolerance": 1e-9,
    }
    converged = boostrank.train(params, train, 80, backend="linear").predict(train, num_iteration=0)
    # No step of the objective moves weights that the penalty holds.
    params = {"objective": "approx-ndcg", "initial": "ranksvm", "ridge": 0.1, "lambda_l2": 1e9}
    cut = replace(train, queries=replace(train.queries, k=np.full(len(train.queries), 3)))
    start = boostrank.train(params, cut, 1, backend="linear").predict(train)
    np.testing.assert_allclose(
        start - start.mean(), converged - converged.mean(), rtol=0, atol=1e-3
    )
    assert np.ptp(start) > 0.1


def test_annealed_smooth_ndcg_beats_the_regression_it_begins_with() -> None:
    # The best feature also moves from query to query, which a regression pays for and a ranking
    # does not.
    rng = np.random.default_rng(0)
    good, noisy = rng.normal(size=(40, 15)), rng.normal(size=(40, 15))
    label = np.digitize(good + noisy, [0.5, 1.5, 2.5]).ravel()
    X = np.column_stack([(good + 3.0 * rng.normal(size=(40, 1))).ravel(), noisy.ravel()])
    train = RankingDataset.from_arrays(X, label, group=[15] * 40)
    model = boostrank.train({"objective": "smooth-ndcg"}, train, 130, backend="linear")
    rows = ScaledRows(train.features, model.booster.scaling)
    start = rows.scores(ridge_regression(rows, gains_from_labels(train.labels), 1e-3))
    metric = boostrank.Metric.parse("ndcg")
    before = metric.evaluate(train.labels, start, train.queries).mean
    after = metric.evaluate(train.labels, model.predict(train), train.queries).mean
    assert before < 0.9
    assert after > 0.97
    sigma = model.info["objective"]["params"]["sigma"]
    assert sigma.startswith("steps(64, 32, 16")
    assert "0.015625" in sigma


@pytest.mark.parametrize(
    ("params", "optimizer"),
    [
        ({"objective": "lambdarank"}, "newton"),
        ({"objective": "approx-ndcg", "score_noise": "gumbel"}, "newton"),
        ({"objective": "mix(approx-ndcg, xe-ndcg)"}, "newton"),
        ({"objective": "margin-ndcg", "bound": "tight"}, "lbfgs"),
        ({"objective": "margin-ndcg", "bound": "convex"}, "newton, though it compares losses"),
        ({"objective": "margin-ndcg"}, "newton, though it compares losses"),
    ],
)
def test_every_kind_of_objective_learns(params: dict[str, Any], optimizer: str, data: Any) -> None:
    train = data[0]
    model = boostrank.train(
        {**params, "initial": "random", "lambda_l2": 1e-4},
        train,
        15,
        valid_sets=[train],
        backend="linear",
    )
    curve = model.evals_result["training"]["ndcg@10"]
    assert len(curve) == 15
    assert max(curve) > curve[0] + 0.05 or curve[0] > 0.8
    if optimizer == "newton":
        with pytest.raises(ParameterError, match="compares losses"):
            boostrank.train({**params, "optimizer": "cg"}, train, 2, backend="linear")


def test_early_stopping_goes_back_to_the_best_round(data: Any, tmp_path: Path) -> None:
    train, valid = data
    model = boostrank.train(
        {
            "objective": "lambdarank",
            "early_stopping_round": 5,
            "eval_at": 10,
            "learning_rate": 1.0,
            "lambda_l2": 0,
        },
        train,
        60,
        valid_sets=[valid],
        backend="linear",
    )
    # The best round counts, in memory and in the file; the last one is another.
    curve = model.evals_result["valid_0"]["ndcg@10"]
    assert model.best_iteration == int(np.argmax(curve)) + 1 < 60
    ndcg = (
        boostrank.Metric.parse("ndcg@10")
        .evaluate(valid.labels, model.predict(valid), valid.queries)
        .mean
    )
    assert ndcg == pytest.approx(max(curve))
    last = model.predict(valid, num_iteration=0)
    assert not np.array_equal(last, model.predict(valid))
    model.save(tmp_path / "model.json")
    again = boostrank.RankingModel.load(tmp_path / "model.json")
    assert again.best_iteration == model.best_iteration
    np.testing.assert_array_equal(again.predict(valid), model.predict(valid))
    with pytest.raises(ModelError, match="best round"):
        again.predict(valid, num_iteration=1)


def test_a_model_is_not_continued(data: Any) -> None:
    train, params = data[0], {"objective": "approx-ndcg"}
    first = boostrank.train(params, train, 3, backend="linear")
    trees = boostrank.train({"num_leaves": 4, "verbosity": -1}, train, 1)
    for model in (first, trees):
        with pytest.raises(ParameterError, match="cannot be continued"):
            boostrank.train(params, train, 1, init_model=model, backend="linear")


# Features
# -------------------------------------------------------------------------------------------------------------


def test_sparse_and_dense_rows_train_the_same_model() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).astype(np.float32) * (rng.random((300, 6)) < 0.3)
    X[5, 2] = np.nan
    y = np.digitize(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=300), [0.3, 1.0])
    y[np.isnan(y)] = 0
    dense = RankingDataset.from_arrays(X, y, group=[20] * 15)
    thin = RankingDataset.from_arrays(sparse.csr_matrix(X), y, group=[20] * 15)
    for params in (
        {"objective": "approx-ndcg"},
        {"objective": "lambdarank"},
    ):
        models = [
            boostrank.train({**params, "lambda_l2": 0.01}, d, 6, backend="linear")
            for d in (dense, thin)
        ]
        scores = [m.predict(d) for m, d in zip(models, (dense, thin), strict=True)]
        np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-4)


def test_a_missing_value_counts_as_the_mean(data: Any, trained: Any) -> None:
    X = data[1].features[:4].copy()
    X[1, 1] = np.nan
    filled = X.copy()
    filled[1, 1] = trained.booster.scaling.mean[1]
    np.testing.assert_allclose(trained.predict(X), trained.predict(filled), rtol=1e-6)
    assert np.isfinite(trained.predict(np.full((1, 6), np.nan))).all()


def test_infinite_values_are_refused(data: Any) -> None:
    for value in (np.inf, -np.inf):
        X = data[0].features.copy()
        X[3, 2] = value
        broken = RankingDataset.from_arrays(X, data[0].labels, group=data[0].queries.sizes)
        for scaling in ("standard", "none"):
            with pytest.raises(DataError, match="infinite"):
                boostrank.train({"scaling": scaling}, broken, 1, backend="linear")


def test_contributions_add_up_to_the_scores(data: Any, trained: Any) -> None:
    X = data[1].features.copy()
    X[2, 0] = np.nan
    for rows in (X, sparse.csr_matrix(X)):
        parts = trained.contributions(rows)
        assert parts.shape == (len(X), 7)
        np.testing.assert_allclose(parts.sum(axis=1), trained.predict(rows), rtol=1e-9, atol=1e-9)
    model: LinearModel = trained.booster
    weights, scaling = model.weights(), model.scaling
    expected = weights[1] * (X[0, 1] - scaling.mean[1]) / scaling.scale[1]
    assert trained.contributions(X)[0, 1] == pytest.approx(expected)
    assert trained.contributions(X)[2, 0] == 0.0


def test_no_rows_give_no_scores(trained: Any) -> None:
    assert trained.predict(np.zeros((0, 6), np.float32)).shape == (0,)
    assert trained.contributions(np.zeros((0, 6), np.float32)).shape == (0, 7)


# The file
# -------------------------------------------------------------------------------------------------------------


def test_a_saved_model_is_the_same_to_the_last_bit(data: Any, trained: Any, tmp_path: Path) -> None:
    trained.save(tmp_path / "m.json")
    body = (tmp_path / "m.json").read_bytes()
    assert LINEAR.recognises(body)
    again = boostrank.RankingModel.load(tmp_path / "m.json")
    assert again.backend == "linear"
    assert again.info["objective"]["name"] == "approx-ndcg"
    np.testing.assert_array_equal(again.predict(data[1]), trained.predict(data[1]))
    again.save(tmp_path / "n.json")
    assert (tmp_path / "n.json").read_bytes() == body
    assert again.trees().used.tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "m.json").write_bytes(body.replace(b"0.", b"1.", 1))
    with pytest.raises(ModelError, match="checksum"):
        boostrank.RankingModel.load(tmp_path / "m.json")


def test_a_damaged_file_is_refused_with_words(trained: Any) -> None:
    body = trained.booster.to_bytes()
    document = json.loads(body)
    # A wrong value of each field, and each field left out.
    broken = {
        "scales": [-1.0] * 6,
        "weights": [0.0] * 5,
        "means": ["0"] * 6,
        "features": ["a"] * 6,
        "rounds": 0,
        "scaling": "log",
        "intercept": 10**400,
        "version": 1.5,
    }
    for key, value in broken.items():
        with pytest.raises(ModelError):
            LINEAR.parse(json.dumps({**document, key: value}).encode())
        with pytest.raises(ModelError):
            LINEAR.parse(json.dumps({k: v for k, v in document.items() if k != key}).encode())
    with pytest.raises(ModelError, match="newer"):
        LINEAR.parse(json.dumps({**document, "version": 2}).encode())
    # A file that is cut, is no JSON, or has a field twice.
    for bad in (
        body[:-20],
        body.replace(b"0.", b"NaN, 0.", 1),
        b'{"format": "boostrank linear", "format": 1}',
        b"\xff",
    ):
        with pytest.raises(ModelError):
            LINEAR.parse(bad)
    for word in (b"Infinity", b"1e999"):
        with pytest.raises(ModelError, match="intercept"):
            LINEAR.parse(
                json.dumps({**document, "intercept": 0.5})
                .encode()
                .replace(b'"intercept": 0.5', b'"intercept": ' + word)
            )


def test_damage_of_any_kind_is_refused_or_harmless(trained: Any) -> None:
    body, rng = trained.booster.to_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        damaged, at = bytearray(body), int(rng.integers(len(body)))
        damaged[at : at + int(rng.integers(0, 5))] = bytes(
            rng.choice(list(b'[]{}",:019eE-.tN\xff'), rng.integers(0, 4))
        )
        try:
            model = LINEAR.parse(bytes(damaged))
        except ModelError:
            refused += 1
            continue
        assert np.isfinite(model.weights()).all()
        assert len(model.feature_names) == 6
    assert refused > 250
    for deep in (
        b'{"format": "boostrank linear", "a": ' + b"[" * 100_000,
        body.replace(b'"f1"', b'"\\ud800"'),
    ):
        with pytest.raises(ModelError):
            LINEAR.parse(deep)


# What is refused
# ------------------------------------------------------------------------------------------------------


def test_what_a_linear_model_cannot_is_refused_with_words(data: Any, tmp_path: Path) -> None:
    train = data[0]

    def refused(match: str, params: dict[str, Any], **options: Any) -> None:
        with pytest.raises(ParameterError, match=match):
            boostrank.train(params, train, 2, backend="linear", **options)

    refused("'num_leaves'", {"num_leaves": 7})
    refused("belongs to the lightgbm backend", {"objective": "lightgbm:lambdarank"})
    refused("define_objective", {"objective": lambda scores, data: (scores, scores)})
    refused("no checkpoint", {}, checkpoint=boostrank.Checkpoint(tmp_path / "c"))
    refused("optimizer", {"objective": "approx-ndcg", "optimizer": "bundle"})
    assert BACKEND.params.unresumable({}, None)


def test_callbacks_see_rounds_and_may_change_the_step(data: Any) -> None:
    import lightgbm as lgb

    train = data[0]
    rounds: list[int] = []

    def watch(env: Any) -> None:
        rounds.append(env.iteration)

    model = boostrank.train(
        {"objective": "lambdarank"},
        train,
        4,
        valid_sets=[train],
        backend="linear",
        callbacks=[watch, lgb.reset_parameter(learning_rate=[0.5, 0.5, 1e-9, 1e-9])],
    )
    assert rounds == [0, 1, 2, 3]
    a, b, c = model.booster.weights(1), model.booster.weights(2), model.booster.weights(3)
    assert np.abs(b - a).max() > 1e-3 > np.abs(c - b).max()
    with pytest.raises(ParameterError, match="learning_rate"):
        boostrank.train(
            {}, train, 2, backend="linear", callbacks=[lgb.reset_parameter(lambda_l2=[1, 2])]
        )


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_every_objective_of_the_registry_trains(name: str) -> None:
    data = make_scaled_dataset(5, queries=10)
    model = boostrank.train({"objective": name}, data, 3, backend="linear")
    assert model.best_iteration == 3
    assert np.isfinite(model.predict(data)).all()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"optimizer": "newton"},
        {"objective": "lambdarank", "monotone_constraints": np.array([1, 1, 0, 0, 0, 0])},
    ],
)
def test_monotone_constraints_set_the_signs_of_weights(params: dict[str, Any]) -> None:
    """Labels rise with two columns; in one of the sets the second is turned."""
    data = make_scaled_dataset(2)
    turned = replace(data, features=data.features * np.float32([1, -1, 1, 1, 1, 1]))
    params = {"objective": "approx-ndcg", "monotone_constraints": "1,1,0,0,0,0"} | params
    for constrained, signs in ((data, [1, 1]), (turned, [1, 0])):
        model = boostrank.train(params, constrained, 8, backend="linear")
        weights = json.loads(model.to_bytes())["weights"]
        assert np.sign(weights[:2]).tolist() == signs
    with pytest.raises(ParameterError, match="optimizer=cg"):
        boostrank.train(params | {"optimizer": "cg"}, data, 1, backend="linear")
    with pytest.raises(ParameterError, match="5 numbers"):
        boostrank.train(params | {"monotone_constraints": [1] * 5}, data, 1, backend="linear")


def test_scores_of_hybrid_search_are_0_where_they_are_missing() -> None:
    data = make_scaled_dataset(3, gaps=True)
    params = {"objective": "shf-sdcg", "scaling": "scores"}
    model = boostrank.train(params, data, 3, backend="linear", within_query="minmax")
    file = json.loads(model.to_bytes())
    assert file["means"] == [0.0] * 12
    assert file["scales"] == [0.0] * 6 + [1.0] * 6  # of columns within queries alone
    columns = model.over_columns(data)[1].features[:, 6:]
    expected = np.nan_to_num(columns.astype(np.float64)) @ file["weights"][6:] + file["intercept"]
    np.testing.assert_allclose(model.predict(data), expected, atol=1e-12)


def test_the_engines_defaults_belong_to_an_objective_under_any_spelling() -> None:
    engine, own = get_backend("linear"), replace(OBJECTIVES.get("listnet"), name="SDCG")
    for name in ("sdcg", "SDCG", "SDCG(k=5)"):
        objective = split_params({"objective": name}, 1, engine).objective
        assert isinstance(objective, boostrank.Objective)
        assert objective.params["sigma"] == engine.params.of_ours["sdcg"]["sigma"]
    assert split_params({"objective": own}, 1, engine).objective is not None
