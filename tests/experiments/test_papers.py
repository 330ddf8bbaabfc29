"""The papers' experiments: their arithmetic, and the files that they write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import boostrank
from experiments.papers import cells
from experiments.papers.cells import Cell, Lab
from experiments.papers.restarts import run as restarts
from experiments.papers.smooth_dcg.run import _interval


def test_a_cell_is_trained_once(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "OUT", tmp_path)
    lab = Lab(data_root / "ohsumed")
    cell = Cell(1, cells.regression(0.1), 1)
    first = lab.result(cell)
    assert lab.trained == 1
    assert lab.result(cell)["vali"] == first["vali"]
    assert lab.trained == 1
    assert len(first["letor"]["ndcg@10"]) == 22
    assert 0.3 < first["train"] < 0.6
    again = Lab(data_root / "ohsumed").result(cell)
    assert again["letor"] == first["letor"]
    assert Cell(1, cells.regression(0.3), 1).path != cell.path


def test_algorithm_1_ascends_the_objective_one_query_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    features = rng.random((60, 3))
    labels = np.digitize(features[:, 1], [0.5, 0.8]).astype(float)
    labels[40:] = 0.0  # a query that teaches nothing
    data = boostrank.RankingDataset.from_arrays(features, labels, group=[20, 20, 20])
    bound = boostrank.Objective("approx-ndcg", alpha=10.0, threads=1).bind(
        data.labels, data.queries
    )
    losses = []
    for epochs in (0, 1, 20):
        monkeypatch.setattr(restarts, "EPOCHS", epochs)
        weights = restarts.algorithm_1(data, 10.0, 0.1, seed=3)
        losses.append(bound.evaluate(features @ weights, 0).stats.loss)
    assert losses[0] > losses[1] > losses[2]


def test_an_interval_over_queries_and_seeds_holds_the_luck_of_both() -> None:
    assert _interval(np.full((3, 50), 0.25)) == "+0.250 [+0.250, +0.250]"
    by_seed = np.repeat([[-0.1], [0.1], [0.3]], 50, axis=1)  # all queries agree, the seeds do not
    assert _interval(by_seed) == "+0.100 [-0.100, +0.300]"
    by_query = np.repeat(np.random.default_rng(0).normal(0.0, 1.0, (1, 400)), 3, axis=0)
    by_query[:, :2] = np.nan  # two that do not count
    low, high = _interval(by_query).split("[")[1].strip("]").split(",")
    assert float(high) - float(low) == pytest.approx(4 / 398**0.5, rel=0.1)
