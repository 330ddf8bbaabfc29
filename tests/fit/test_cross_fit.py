"""The linear start that is made on the spot, against NumPy without any tricks; and trees that begin
with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import boostrank
from boostrank.core.conventions import gains_from_labels
from boostrank.engines.trees import LinearStart
from boostrank.fit.start import cross_fit, ridge, steps
from boostrank.fit.start import ridge as start_rows
from boostrank.fit.start.cross_fit import cross_fitted
from boostrank.fit.start.ridge import FOLDS, RIDGES
from boostrank.kernels.curves import Curves

SIZES = np.array([3, 9, 1, 6, 12, 2, 7, 8, 4, 10, 5, 11])


def make_dataset(seed: int = 0, labels: Any = None, **more: Any) -> boostrank.RankingDataset:
    """Tails, zeros and missing values, values below zero, and a feature that never changes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(SIZES.sum(), 5)) * [1.0, 10.0, 0.1, 1.0, 0.0]
    x[:, 2] = np.exp(30 * x[:, 2])
    x[rng.random(x.shape[0]) < 0.3, 1] = 0.0
    x[rng.random(x.shape) < 0.1] = np.nan
    noise = rng.normal(size=SIZES.sum())
    y = np.clip(np.round(1.5 + np.nan_to_num(x[:, 0]) + (x[:, 1] == 0.0) + 0.5 * noise), 0, 3)
    labels = y if labels is None else labels
    return boostrank.RankingDataset.from_arrays(x.astype(np.float32), labels, group=SIZES, **more)


def columns(x: Any, ranks_only: bool = False) -> Any:
    """What is made of the features, one column after another, each less its mean and over its
    deviation.
    """
    transformed = []
    for column in x.astype(np.float64).T:
        present = np.sort(column[~np.isnan(column)])
        rank = [((present < v).sum() + (present <= v).sum()) / 2.0 / present.size for v in column]
        transformed.append(np.where(np.isnan(column), 0.5, rank))
        if ranks_only:
            continue
        if np.unique(present).size > 2:
            line = (column - present[0]) / (present[-1] - present[0])
            transformed.append(np.where(np.isnan(column), np.nanmean(line), line))
        zero, missing = (column == 0.0).astype(float), np.isnan(column).astype(float)
        if 0.02 < np.mean(present == 0.0) < 0.98:
            transformed.append(np.where(np.isnan(column), np.mean(present == 0.0), zero))
        if 0.02 < missing.mean() < 0.98:
            transformed.append(missing)
    z = np.array(transformed).T
    return (z - z.mean(axis=0)) / np.where(np.ptp(z, axis=0) > 1e-9, z.std(axis=0), np.inf)


def twin(data: boostrank.RankingDataset, ridge: float, rows: Any, ranks_only: bool = False) -> Any:
    """Scores of all rows by a regression on some: one equation a query, solved as least squares."""
    z = columns(data.features, ranks_only)
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
    damped = np.vstack([*left, np.sqrt(ridge * learning) * np.eye(z.shape[1])])
    return (
        z @ np.linalg.lstsq(damped, np.concatenate([*right, np.zeros(z.shape[1])]), rcond=None)[0]
    )


def said(start: LinearStart, x: Any) -> Any:
    """The start's score of each row."""
    return sum(
        (Curves.from_pairs([(j, curve)]).values(x)[:, 0] for j, curve in start.curves.items()),
        np.zeros(len(x)),
    )


def direction(v: Any) -> Any:
    return v / np.linalg.norm(v)


WEIGHT = np.repeat(np.arange(1.0, 13.0), SIZES)


@pytest.mark.parametrize(
    ("blocks", "weight", "most"),
    [(None, None, 99), (30, None, 99), (30, WEIGHT, 99), (30, None, 5)],
)
def test_scores_are_those_of_plain_least_squares(
    blocks: Any, weight: Any, most: int, monkeypatch: Any
) -> None:
    if blocks:
        monkeypatch.setattr(start_rows, "_NUMBERS_A_BLOCK", blocks)
    monkeypatch.setattr(cross_fit, "MOST_COLUMNS", most)
    data = make_dataset(weight=weight)
    start = cross_fitted(data, "exponential", threads=2)
    ridge, scale = start.description["ridge"], start.description["scale"]
    whole = twin(data, ridge, np.ones(SIZES.size, bool), most < 99)
    moved = said(start.start, data.features) - scale * whole
    assert (
        np.ptp(moved) <= 2 * steps.MOVED * start.scores.std() * 1.001
    )  # all by the same is no move
    fold = np.random.default_rng(0).permutation(SIZES.size) % FOLDS
    for k in range(FOLDS):
        mine = np.repeat(fold == k, SIZES)
        expected = scale * twin(data, ridge, fold != k, most < 99)[mine]
        np.testing.assert_allclose(start.scores[mine], expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_the_ridge_errs_least_on_folds_and_the_scale_is_half_of_the_best(weight: Any) -> None:
    data = make_dataset(weight=weight)
    weights = data.queries.each_weight
    start = cross_fitted(data, "exponential")
    fold = np.random.default_rng(0).permutation(SIZES.size) % FOLDS
    gains = gains_from_labels(data.labels, "exponential")
    queries = list(zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True))

    def error(ridge: float) -> float:
        total = 0.0
        for q, (a, b) in enumerate(queries):
            t = gains[a:b] - gains[a:b].mean()
            s = twin(data, ridge, fold != fold[q])[a:b]
            if t.any():
                total += weights[q] * np.mean((t / t.std() - (s - s.mean())) ** 2)
        return total

    # Of the ridges the one that errs least.
    errors = [error(ridge) for ridge in RIDGES]
    assert start.description["ridge"] == RIDGES[int(np.argmin(errors))]
    assert 0 < int(np.argmin(errors)) < len(errors) - 1

    def entropy(factor: float) -> float:
        total = 0.0
        for q, (a, b) in enumerate(queries):
            p = gains[a:b] - gains[a:b].min()
            s = factor * start.scores[a:b]
            if p.any():
                total -= weights[q] * (p / p.sum()) @ (s - np.log(np.exp(s).sum()))
        return total

    # The scores are a share of the scale with the lowest entropy.
    best = 1.0 / cross_fit.SHARE
    assert entropy(best) < min(entropy(0.95 * best), entropy(1.05 * best))


def test_a_query_says_nothing_of_its_own_scores(monkeypatch: Any) -> None:
    monkeypatch.setattr(ridge, "RIDGES", np.array([0.1]))
    labels = np.random.default_rng(3).integers(0, 4, SIZES.sum())
    other = labels.copy()
    a, b = make_dataset().queries.ptr[4:6]
    other[a:b] = 3 - other[a:b]
    before = cross_fitted(make_dataset(labels=labels), "linear")
    after = cross_fitted(make_dataset(labels=other), "linear")
    np.testing.assert_allclose(
        direction(before.scores[a:b]), direction(after.scores[a:b]), rtol=1e-9
    )
    x = make_dataset().features
    assert not np.allclose(
        direction(said(before.start, x)), direction(said(after.start, x)), rtol=1e-3
    )


def test_sparse_rows_and_labels_that_teach_nothing() -> None:
    data = make_dataset()
    filled = np.nan_to_num(data.features)
    both = [
        cross_fitted(
            boostrank.RankingDataset.from_arrays(x, data.labels, group=SIZES), "exponential"
        )
        for x in (filled, sparse.csr_matrix(filled))
    ]
    np.testing.assert_allclose(both[0].scores, both[1].scores, rtol=1e-9)
    silent = cross_fitted(make_dataset(labels=np.ones(SIZES.sum())), "exponential")
    assert not silent.scores.any()
    assert not silent.start.curves


def test_trees_begin_with_the_scores_of_the_other_folds() -> None:
    data, seen = make_dataset(), []

    def watching(scores: Any, dataset: Any) -> Any:
        seen.append(np.array(scores))
        return np.sin(np.arange(scores.size)), np.ones(scores.size)

    params = {"objective": watching, "verbosity": -1, "min_data_in_leaf": 3}
    model = boostrank.train(params, data, 2, start="linear")
    start = cross_fitted(data, "exponential")
    np.testing.assert_allclose(seen[0], start.scores, rtol=1e-12)
    assert model.info["start"] == start.description
    trees = seen[1] - seen[0]
    start_scores = said(start.start, data.features)
    assert not np.allclose(start_scores, start.scores, atol=0.01)
    first = model._booster.native.predict(
        data.features, num_iteration=model._booster.native.num_trees() - 1, raw_score=True
    )
    np.testing.assert_allclose(first, start_scores + trees, atol=1e-6)


def test_auto_has_a_start_where_it_can_and_nothing_else_does() -> None:
    data = make_dataset()

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


def test_what_lies_beyond_the_training_data_changes_little() -> None:
    data = make_dataset()
    rows = data.features.copy()
    rows[::7, 0], rows[1::7, 2] = np.inf, -np.inf
    there = boostrank.RankingDataset.from_arrays(rows, data.labels, group=SIZES)
    model = boostrank.train({"verbosity": -1, "min_data_in_leaf": 3}, there, 2, start="linear")
    usual = model.predict(data)
    far = np.array([[f] * 5 for f in (np.inf, -np.inf, 1e30, -1e30, 0.0, np.nan)], np.float32)
    assert np.abs(model.predict(far)).max() < 3 * np.abs(usual).max()


def test_of_many_documents_some_parts_are_learnt_from(monkeypatch: Any) -> None:
    monkeypatch.setattr(start_rows, "_NUMBERS_A_BLOCK", 30)
    every = start_rows.parts_of(make_dataset())
    assert start_rows.spread(every, 1_000) == every
    few = start_rows.spread(every, 20)
    assert few == every[:: -(-SIZES.sum() // 20)]
    for module in (cross_fit, start_rows):
        monkeypatch.setattr(module, "RANKED_DOCUMENTS", 20)
        monkeypatch.setattr(module, "FITTED_DOCUMENTS", 40)
    start, x = cross_fitted(make_dataset(), "exponential"), make_dataset().features
    assert np.corrcoef(start.scores, said(start.start, x))[0, 1] > 0.3
    assert start.scores.size == SIZES.sum()


def test_one_thread_or_several_of_ours_and_of_the_blas_give_the_same_bytes() -> None:
    program = """
import hashlib, sys
import numpy as np
import boostrank
from boostrank.fit.start import cross_fit
from boostrank.fit.start import ridge as start_rows, steps
rng = np.random.default_rng(0)
x = rng.normal(size=(1500, 300)).astype(np.float32)
data = boostrank.RankingDataset.from_arrays(x, rng.integers(0, 3, 1500), group=[30] * 50)
start_rows._NUMBERS_A_BLOCK = 30_000
start = cross_fit.cross_fitted(data, "linear", int(sys.argv[1]))
levels = b"".join(curve.constant.tobytes() for curve in start.start.curves.values())
print(hashlib.sha256(levels + start.scores.tobytes()).hexdigest())
"""
    record = [
        subprocess.run(
            [sys.executable, "-c", program, ours],
            env=os.environ | {"OPENBLAS_NUM_THREADS": blas},
            capture_output=True,
        ).stdout
        for ours, blas in ("11", "32")
    ]
    assert len(record[0]) > 60
    assert record[0] == record[1]
