"""The comparison of candidates: stops are those of early stopping, and ways to choose see held-out scores alone."""

from __future__ import annotations

import numpy as np

from boostrank.data.synthetic import make_ranking_data
from experiments.candidates import run


def place(queries: int = 24) -> run.Place:
    data = make_ranking_data(queries, seed=4, mean_length=12.0).dataset
    return run.Place("made", data.take(np.arange(queries // 2)), data.take(np.arange(queries // 2, queries)))


def test_a_training_keeps_the_scores_of_every_stage() -> None:
    run.TREES["two rounds"] = {"learning_rate": 10.0, "num_leaves": 4}
    here = place()
    kept = run.trained(here, "lambdarank/two rounds", threads=1)
    assert kept.rounds.tolist() == [0, 1, 2]
    for k in range(run.FOLDS):
        inside = here.train.take(np.flatnonzero(here.fold == k))
        last = kept.held_out[-1][here.fold_of_row == k]
        values = run.BoundMetrics(run.METRIC, inside.labels, inside.queries).per_query(last)[run.METRIC]
        assert np.isclose(np.nanmean(values), kept.curves[k, -1], atol=1e-6)


def test_stops_are_those_of_early_stopping() -> None:
    curves = np.array([[0.1, 0.3, 0.2, 0.2, 0.4], [0.5, 0.1, 0.1, 0.1, 0.1]])
    kept = run.Kept(np.arange(6), np.zeros(0, np.float32), np.zeros(0, np.float32), curves)
    assert kept.stops(2) == [2, 1]
    assert kept.stops(3) == [5, 1]


def test_ways_to_choose_give_the_better_candidate_more() -> None:
    here = place()
    random = np.random.default_rng(0)
    good = here.train.labels + random.normal(0.0, 0.5, here.train.n_documents)
    scores = np.stack([random.normal(0.0, 1.0, good.size), good])
    for name, way in run.WAYS.items():
        weights = way(scores, lambda one: here.values("train", one))
        assert np.isclose(weights.sum(), 1.0), name
        assert weights[1] >= weights[0], name
        assert name == "all alike" or weights[1] > weights[0], name
