"""Losses and derivatives at any scores, against the twins, and as the metric `loss` of a training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank import Mixture, Objective, QueryIndex, RankingDataset, objective_values
from boostrank.core.errors import DataError, ParameterError, TrainingError
from boostrank.objectives import _template
from boostrank.reporting.sections.learning import SPEC
from tests.cli.conftest import FEW, succeed
from tests.cli.conftest import data as data
from tests.objectives.conformance import make_query, twin_of
from tests.reporting.studies import study, words_of

SIZES = [7, 1, 12, 5]
PTR = np.cumsum([0, *SIZES])
LABELS = np.random.default_rng(0).integers(0, 4, 25).astype(np.float64)
SCORES = np.random.default_rng(1).normal(size=25)
WEIGHTS = np.array([0.5, 1.0, 2.0, 0.5])
WEIGHTED = QueryIndex(PTR, np.arange(4), WEIGHTS)


@pytest.mark.parametrize("name", ["shf-sdcg", "listnet", "template"])
def test_each_query_has_the_values_of_the_twin_times_its_weight(name: str) -> None:
    described = _template.SPEC if name == "template" else name
    objective = Objective(described)
    values = objective_values(objective, LABELS, SCORES, WEIGHTED)
    twin, settings = twin_of(name), objective.values(0)
    for q, weight in enumerate(WEIGHTS):
        rows = slice(PTR[q], PTR[q + 1])
        query = make_query(LABELS[rows])
        frozen = twin.freeze(query, SCORES[rows], settings)
        if hasattr(twin, "report"):
            loss = twin.report(query, SCORES[rows], settings)
        else:
            loss = twin.loss(query, SCORES[rows], settings, frozen)
        assert values.losses[q] == pytest.approx(weight * loss, rel=1e-9, abs=1e-12)
        gradient = twin.gradient(query, SCORES[rows], settings)
        hessian = twin.hessian(query, SCORES[rows], settings)
        np.testing.assert_allclose(values.gradients[rows], weight * gradient, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(values.hessians[rows], weight * hessian, rtol=1e-8, atol=1e-12)
    assert values.losses.dtype == values.gradients.dtype == values.hessians.dtype == np.float64


def test_mixtures_and_schedules_have_the_values_of_the_round() -> None:
    def total_of(objective: Any, round: int = 0) -> np.ndarray:
        values = objective_values(objective, LABELS, SCORES, SIZES, round=round)
        return np.concatenate([values.losses, values.gradients, values.hessians])

    first, second = total_of("approx-ndcg"), total_of("regression")
    mixture = Mixture(
        "approx-ndcg", "regression", mix="joined(constant(0.2); constant(0.7); at=3)", balance="raw"
    )
    for round, share in ((0, 0.2), (5, 0.7)):
        np.testing.assert_allclose(
            total_of(mixture, round), share * first + (1 - share) * second, rtol=1e-12, atol=1e-15
        )
    scheduled = "shf-sdcg(sigma=joined(constant(2); constant(0.5); at=3))"
    assert np.array_equal(total_of(scheduled, 4), total_of("shf-sdcg(sigma=0.5)"))
    balanced = objective_values(Mixture("approx-ndcg", "regression"), LABELS, SCORES, SIZES)
    parts = [
        objective_values(name, LABELS, SCORES, SIZES) for name in ("approx-ndcg", "regression")
    ]
    expected = sum(0.5 * part.losses / np.abs(part.gradients).mean() for part in parts)
    np.testing.assert_allclose(balanced.losses, expected, rtol=1e-12)


def test_scores_and_gradients_are_in_input_order() -> None:
    order = np.random.default_rng(2).permutation(25)  # the row that each line of the input has
    rows = RankingDataset.from_arrays(SCORES[:, None], LABELS, group=SIZES)
    data = replace(rows, input_rows=np.argsort(order))
    values = objective_values("sdcg", data, SCORES[order])
    expected = objective_values("sdcg", LABELS, SCORES, SIZES)
    np.testing.assert_allclose(values.gradients, expected.gradients[order], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(values.hessians, expected.hessians[order], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(values.losses, expected.losses, rtol=1e-9)


def test_values_exist_where_nothing_can_be_learnt_and_nonsense_is_refused() -> None:
    flat = objective_values("ranknet", np.ones(5), SCORES[:5], [5])
    assert (flat.losses[0], np.abs(flat.gradients).max()) == (0.0, 0.0)
    with pytest.raises(ParameterError, match="data without queries"):
        objective_values("ranknet", LABELS, SCORES)
    with pytest.raises(ParameterError, match="total_rounds"):
        objective_values("shf-sdcg(sigma=linear(2, 0.5))", LABELS, SCORES, SIZES)
    with pytest.raises(TrainingError, match="not finite"):
        objective_values("ranknet", LABELS, SCORES * np.inf, SIZES)
    data = RankingDataset.from_arrays(SCORES[:, None], LABELS, group=SIZES)
    with pytest.raises(DataError, match="24 scores for 25"):
        objective_values("ranknet", data, SCORES[1:])
    with pytest.raises(DataError, match="24 scores for 25"):
        objective_values("ranknet", LABELS, SCORES[1:], SIZES)


# The metric `loss`
# ----------------------------------------------------------------------------------------------------

QUIET = {"num_leaves": 4, "num_threads": 1}


@pytest.fixture(scope="module")
def sets() -> tuple[RankingDataset, RankingDataset]:
    rng = np.random.default_rng(4)
    datasets = []
    for sizes, weights in (([8] * 12, None), (SIZES, WEIGHTS)):
        x = rng.normal(size=(sum(sizes), 3)).astype(np.float32)
        y = np.digitize(x[:, 0] + 0.3 * rng.normal(size=len(x)), [-0.5, 0.5, 1.2]).astype(float)
        weight = None if weights is None else np.repeat(weights, sizes)
        datasets.append(RankingDataset.from_arrays(x, y, group=sizes, weight=weight))
    return datasets[0], datasets[1]


@pytest.mark.parametrize("backend", ["lightgbm", "xgboost", "linear"])
def test_the_metric_is_the_mean_loss_of_the_round_on_each_set(backend: str, sets: Any) -> None:
    train, valid = sets
    params = {} if backend == "linear" else QUIET
    objective = Mixture("listnet", "xe-ndcg", mix=0.3)  # its balance is not in the metric
    model = boostrank.train(
        {"objective": objective, "metric": ["loss", "ndcg@5"], **params},
        train,
        3,
        [train, valid],
        backend=backend,
    )
    for name, measured in (("training", train), ("valid_1", valid)):
        scores = model.predict(measured)
        parts = [
            objective_values(part, measured, scores, round=2).losses.mean()
            for part in ("listnet", "xe-ndcg")
        ]
        expected = 0.3 * parts[0] + 0.7 * parts[1]
        recorded = model.evals_result[name]
        assert list(recorded) == ["ndcg@5", "loss"]
        assert recorded["loss"][-1] == pytest.approx(expected, rel=1e-5)
        assert len(recorded["loss"]) == 3
    assert model.info.metrics == ["ndcg@5", "loss"]


def test_early_stopping_by_the_loss_keeps_its_smallest_value(sets: Any) -> None:
    train, valid = sets
    params = {
        "objective": "listnet",
        "metric": "loss",
        "early_stopping_round": 4,
        "learning_rate": 0.8,
        **QUIET,
    }
    model = boostrank.train(params, train, 60, [valid])
    losses = model.evals_result["valid_0"]["loss"]
    assert model.best_iteration == int(np.argmin(losses)) + 1 == len(losses) - 4
    for other in ("lightgbm:lambdarank", lambda scores, data: (scores, scores)):
        with pytest.raises(ParameterError, match="feval"):
            boostrank.train({"objective": other, "metric": "loss"}, train, 1)


def test_the_progress_the_log_and_the_report_have_the_loss(
    sets: Any, data: Path, tmp_path: Path
) -> None:
    model, log = tmp_path / "model.txt", tmp_path / "log.jsonl"
    files = ("--model", model, "--log", log, "--valid", data / "valid.txt")
    result = succeed(
        "train", data / "train.txt", "--objective", "listnet", "--metric", "loss", *files, *FEW
    )
    logged = [
        json.loads(line)["metrics"] for line in log.read_text().splitlines() if '"metrics"' in line
    ]
    losses = [metrics["loss"] for of_sets in logged for metrics in of_sets.values()]
    assert len(losses) == 4
    assert f"loss {losses[-1]:.4f}" in result.stderr

    train, valid = sets
    trained = boostrank.train(
        {"objective": "listnet", "metric": ["ndcg@5", "map", "loss"], **QUIET}, train, 3, [valid]
    )
    section = SPEC.on_page(SPEC.run(study(valid, "ndcg@5", model=trained, threads=1)))
    drawn = {
        chart.name: chart.frame for chart in section.drawn if chart.name.startswith("learning-")
    }
    assert {"learning-history", "learning-loss"} <= set(drawn)
    assert "loss as the training recorded it" in words_of(section)
