"""The linear start that is made on the spot, against NumPy without any tricks; and trees that begin with it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.core.gains import gains_from_labels
from boostrank.training import cross_fit
from boostrank.training.cross_fit import FOLDS, cross_fitted

SIZES = np.array([3, 9, 1, 6, 12, 2, 7, 8, 4, 10, 5, 11])


def made(seed: int = 0, columns: int = 4, labels: Any = None, **more: Any) -> boostrank.RankingDataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(SIZES.sum(), columns)) * [1.0, 10.0, 0.1, 1.0][:columns]
    x[rng.random(x.shape) < 0.1] = np.nan
    noise = rng.normal(size=SIZES.sum())
    y = np.clip(np.round(1.5 + np.nan_to_num(x[:, 0]) + 0.5 * noise), 0, 3) if labels is None else labels
    return boostrank.RankingDataset.from_arrays(x.astype(np.float32), y, group=SIZES, **more)


def twin(data: boostrank.RankingDataset, ridge: float, rows: Any) -> Any:
    """Weights of the features as they are: one equation a query, solved as least squares."""
    x = data.features.astype(np.float64)
    mean, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    z = np.where(np.isnan(x), 0.0, (x - mean) / scale)
    gains = 2.0**data.labels - 1.0
    weight = data.queries.each_weight / data.queries.each_weight.mean()
    left, right, learning = [], [], 0.0
    for q, (a, b) in enumerate(zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True)):
        t = gains[a:b] - gains[a:b].mean()
        if rows[q] and t.any():
            root = np.sqrt(weight[q] / (b - a))
            left.append((z[a:b] - z[a:b].mean(axis=0)) * root)
            right.append(t / t.std() * root)
            learning += weight[q]
    damped = np.vstack([*left, np.sqrt(ridge * learning) * np.eye(x.shape[1])])
    w = np.linalg.lstsq(damped, np.concatenate([*right, np.zeros(x.shape[1])]), rcond=None)[0]
    return w, z


def direction(v: Any) -> Any:
    return v / np.linalg.norm(v)


WEIGHT = np.repeat(np.arange(1.0, 13.0), SIZES)


@pytest.mark.parametrize(("blocks", "weight"), [(None, None), (30, None), (30, WEIGHT)])
def test_weights_and_scores_are_those_of_plain_least_squares(blocks: Any, weight: Any, monkeypatch: Any) -> None:
    if blocks:
        monkeypatch.setattr(cross_fit, "_NUMBERS_A_BLOCK", blocks)
    data = made(weight=weight)
    start = cross_fitted(data, "exponential", threads=2)
    ridge, scale = start.told["ridge"], start.told["scale"]
    whole, z = twin(data, ridge, np.ones(SIZES.size, bool))
    x = data.features.astype(np.float64)
    np.testing.assert_allclose(start.start.coefficients * np.nanstd(x, axis=0), scale * whole, rtol=1e-5)
    fold = np.random.default_rng(0).permutation(SIZES.size) % FOLDS
    for k in range(FOLDS):
        mine = np.repeat(fold == k, SIZES)
        np.testing.assert_allclose(start.scores[mine], scale * (z @ twin(data, ridge, fold != k)[0])[mine], rtol=1e-5)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_the_ridge_errs_least_on_folds_and_the_scale_is_half_of_the_best(weight: Any) -> None:
    data = made(weight=weight)
    weights = data.queries.each_weight
    start = cross_fitted(data, "exponential")
    fold = np.random.default_rng(0).permutation(SIZES.size) % FOLDS
    gains = gains_from_labels(data.labels, "exponential")
    queries = list(zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True))

    def error(ridge: float) -> float:
        total = 0.0
        for q, (a, b) in enumerate(queries):
            t = gains[a:b] - gains[a:b].mean()
            w, z = twin(data, ridge, fold != fold[q])
            if t.any():
                total += weights[q] * np.mean((t / t.std() - (z[a:b] - z[a:b].mean(axis=0)) @ w) ** 2)
        return total

    errors = [error(ridge) for ridge in cross_fit.RIDGES]
    assert start.told["ridge"] == cross_fit.RIDGES[int(np.argmin(errors))]
    assert 0 < int(np.argmin(errors)) < len(errors) - 1

    def entropy(factor: float) -> float:
        total = 0.0
        for q, (a, b) in enumerate(queries):
            p = gains[a:b] - gains[a:b].min()
            s = factor * start.scores[a:b]
            if p.any():
                total -= weights[q] * (p / p.sum()) @ (s - np.log(np.exp(s).sum()))
        return total

    best = 1.0 / cross_fit.SHARE
    assert entropy(best) < min(entropy(0.95 * best), entropy(1.05 * best))


def test_a_query_says_nothing_of_its_own_scores(monkeypatch: Any) -> None:
    monkeypatch.setattr(cross_fit, "RIDGES", np.array([0.1]))
    labels = np.random.default_rng(3).integers(0, 4, SIZES.sum())
    other = labels.copy()
    a, b = made().queries.ptr[4:6]
    other[a:b] = 3 - other[a:b]
    one, two = (cross_fitted(made(labels=y), "linear") for y in (labels, other))
    np.testing.assert_allclose(direction(one.scores[a:b]), direction(two.scores[a:b]), rtol=1e-9)
    assert not np.allclose(direction(one.start.coefficients), direction(two.start.coefficients), rtol=1e-3)


def test_sparse_rows_and_labels_that_teach_nothing() -> None:
    data = made()
    filled = np.nan_to_num(data.features)
    both = [
        cross_fitted(boostrank.RankingDataset.from_arrays(x, data.labels, group=SIZES), "exponential")
        for x in (filled, sparse.csr_matrix(filled))
    ]
    np.testing.assert_allclose(both[0].scores, both[1].scores, rtol=1e-9)
    silent = cross_fitted(made(labels=np.ones(SIZES.sum())), "exponential")
    assert not silent.scores.any()
    assert not silent.start.coefficients.any()


def test_trees_begin_with_the_scores_of_the_other_folds() -> None:
    data, seen = made(), []

    def watching(scores: Any, dataset: Any) -> Any:
        seen.append(np.array(scores))
        return np.sin(np.arange(scores.size)), np.ones(scores.size)

    params = {"objective": watching, "verbosity": -1, "min_data_in_leaf": 3}
    model = boostrank.train(params, data, 2, start="linear")
    start = cross_fitted(data, "exponential")
    np.testing.assert_allclose(seen[0], start.scores, rtol=1e-12)
    assert model.info["start"] == start.told
    trees = seen[1] - seen[0]
    own = (np.nan_to_num(data.features.astype(np.float64) - start.start.means)) @ start.start.coefficients
    assert not np.allclose(own, start.scores, atol=0.01)
    first = model.booster.predict(data.features, num_iteration=model.booster.num_trees() - 1, raw_score=True)
    np.testing.assert_allclose(first, own + trees, atol=1e-6)


def test_auto_has_a_start_where_it_can_and_nothing_else_does(monkeypatch: Any) -> None:
    data = made()

    def starts(params: Any = None, **options: Any) -> bool:
        params = {"verbosity": -1, **(params or {})}
        return "start" in boostrank.train(params, options.pop("data", data), 1, **options).info

    assert starts()
    assert starts({"objective": "Auto"})
    assert starts({"objective": "lambdarank"}, start="linear")
    assert not starts({"objective": "lambdarank"})
    assert not starts(start="none")
    assert not starts(start=None)
    assert not starts(backend="linear", params={"objective": "regression"})
    assert not starts(init_model=boostrank.train({"verbosity": -1, "objective": "sdcg"}, data, 1))
    rows = np.nan_to_num(data.features)
    rows[0, 0] = np.inf
    with pytest.warns(DataWarning, match="'f1' has infinite values.*no linear start"):
        assert not starts(data=boostrank.RankingDataset.from_arrays(rows, data.labels, group=SIZES))
    monkeypatch.setattr(cross_fit, "MOST_FEATURES", 3)
    with pytest.warns(DataWarning, match="up to 3 features"):
        assert not starts()


def test_xgboost_has_none() -> None:
    pytest.importorskip("xgboost")
    assert "start" not in boostrank.train({}, made(), 1, backend="xgboost").info


def test_what_no_start_can_be_made_of_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(cross_fit, "MOST_FEATURES", 3)
    with pytest.raises(ParameterError, match="up to 3 features, not 4"):
        boostrank.train({"objective": "auto"}, made(), 1, start="linear")
    monkeypatch.undo()
    rows = np.nan_to_num(made().features)
    rows[0, 0] = np.inf
    with pytest.raises(DataError, match="infinite"):
        cross_fitted(boostrank.RankingDataset.from_arrays(rows, made().labels, group=SIZES), "exponential")


def test_one_thread_or_several_of_ours_and_of_the_blas_give_the_same_bytes() -> None:
    program = """
import hashlib, sys
import numpy as np
import boostrank
from boostrank.training import cross_fit
rng = np.random.default_rng(0)
x = rng.normal(size=(1500, 300)).astype(np.float32)
data = boostrank.RankingDataset.from_arrays(x, rng.integers(0, 3, 1500), group=[30] * 50)
cross_fit._NUMBERS_A_BLOCK = 30_000
start = cross_fit.cross_fitted(data, "linear", int(sys.argv[1]))
print(hashlib.sha256(start.start.coefficients.tobytes() + start.scores.tobytes()).hexdigest())
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", program, ours],
            env=os.environ | {"OPENBLAS_NUM_THREADS": blas},
            capture_output=True,
        ).stdout
        for ours, blas in ("11", "32")
    ]
    assert len(told[0]) > 60
    assert told[0] == told[1]
