"""Weights of documents through whole trainings: they are carried everywhere, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.core.errors import DataError, DataWarning, ParameterError
from boostrank.data.dataset import RankingDataset
from tests.fit.conftest import BACKENDS, FAST, make_dataset

PARAMS = {"gain": "linear", "metric": "none", **FAST}


def pair() -> tuple[RankingDataset, RankingDataset]:
    """A data set with weights of documents, and one whose linear gains are its weighted ones."""
    data = make_dataset(0)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], data.n_documents)
    weighted = replace(data, queries=replace(data.queries, document_weights=weights))
    return weighted, replace(data, labels=data.labels * weights)


def scores(data: RankingDataset, rounds: int = 4, **options: Any) -> np.ndarray:
    params = PARAMS | options.pop("params", {})
    return boostrank.train(params, data, rounds, **options).predict(make_dataset(1))


@pytest.mark.parametrize("start", ["linear", "none"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_auto_trains_on_the_weighted_gains(backend: str, start: str) -> None:
    weighted, by_labels = pair()
    ours = scores(weighted, backend=backend, start=start)
    np.testing.assert_array_equal(ours, scores(by_labels, backend=backend, start=start))
    assert not np.array_equal(ours, scores(make_dataset(0), backend=backend, start=start))


@pytest.mark.parametrize("initial", ["regression", "zero"])
def test_so_do_linear_models(initial: str) -> None:
    weighted, by_labels = pair()
    params: dict[str, Any] = {
        "gain": "linear",
        "metric": "none",
        "objective": "sdcg",
        "initial": initial,
    }
    ours = boostrank.train(params, weighted, 3, backend="linear").predict(weighted)
    others = boostrank.train(params, by_labels, 3, backend="linear").predict(by_labels)
    np.testing.assert_array_equal(ours, others)


def test_folds_and_columns_within_queries_keep_document_weights() -> None:
    weighted, by_labels = pair()
    params = PARAMS | {"objective": "sdcg"}
    ours = boostrank.train(params, weighted, 3, folds=2, within_query="rank").predict(weighted)
    others = boostrank.train(params, by_labels, 3, folds=2, within_query="rank").predict(by_labels)
    np.testing.assert_array_equal(ours, others)


@pytest.mark.parametrize("backend", BACKENDS)
def test_regression_on_weighted_losses_errs_less_where_the_weight_is(backend: str) -> None:
    weighted, _ = pair()
    heavy = np.where(weighted.labels > 0, 5.0, 1.0)
    weighted = replace(weighted, queries=replace(weighted.queries, document_weights=heavy))
    params = {"objective": "regression", "metric": "none", **FAST}
    light = boostrank.train(params, make_dataset(0), 5, backend=backend).predict(weighted)
    ours = boostrank.train(params, weighted, 5, backend=backend).predict(weighted)
    assert np.average((ours - weighted.labels) ** 2, weights=heavy) < np.average(
        (light - weighted.labels) ** 2, weights=heavy
    )


def test_objectives_without_document_weights_refuse_them() -> None:
    weighted, _ = pair()
    with pytest.raises(DataError, match=r"'ranknet' .*not support"):
        scores(weighted, params={"objective": "ranknet"})
    with pytest.raises(DataError, match=r"lightgbm:lambdarank .*document weights"):
        scores(weighted, params={"objective": "lightgbm:lambdarank"})
    with pytest.raises(DataError, match="custom objective"):
        boostrank.train(
            {"objective": lambda scores, data: (scores, np.ones_like(scores))}, weighted, 3
        )
    with pytest.raises(
        ParameterError,
        match=r"'regression' .*start='none'",
    ):
        scores(weighted, params={"objective": "regression"}, start="linear")
    with pytest.raises(ParameterError, match=r"initial=regression .*initial=zero"):
        boostrank.train({"objective": "regression"}, weighted, 3, backend="linear")
    assert boostrank.train(
        {"objective": "regression", "initial": "zero"}, weighted, 3, backend="linear"
    )


def test_metrics_ignore_document_weights_with_a_warning() -> None:
    weighted, _ = pair()
    plain = replace(weighted, queries=replace(weighted.queries, document_weights=None))
    params = {"objective": "sdcg", **FAST}
    with pytest.warns(DataWarning, match="metrics ignore document weights"):
        ours = boostrank.train(params, weighted, 2, valid_sets=[weighted])
    assert (
        ours.evals_result["training"]
        == boostrank.train(params, weighted, 2, valid_sets=[plain]).evals_result["valid_0"]
    )
