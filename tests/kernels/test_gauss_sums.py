"""Gaussian averages by a lattice: right to the stated error at any distance, in any order of gaps,
for any gains.
"""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.kernels import gauss
from boostrank.objectives.smooth_ndcg import gain_nodes
from tests.objectives.conformance import close


def by_lattice(s, stop, unit, weight, documents, node, nodes):
    """J, gradient and curvature."""
    n = s.size
    pull, curvature = np.zeros(n), np.zeros(n)
    work, iwork = np.full(gauss.WORK * n, np.nan), np.full(gauss.IWORK * n, -(2**62))
    value = gauss.gauss_gradient(
        s,
        gauss.Run(0, n, stop),
        unit,
        weight,
        gauss.Sources(documents, node, nodes),
        pull,
        curvature,
        work,
        iwork,
    )
    return value, pull, curvature


def by_pairs(s, stop, unit, weight, documents, node, nodes):
    """The same from the definition."""
    v = documents[1]
    u = (s[0] - s) * unit
    x = u[:, None] - u[None, :stop]
    h = documents[0][:, None] * np.exp(-x * x)
    h /= h.sum(axis=0)
    c = v @ h
    miss = np.array([np.interp(v, nodes, np.abs(nodes - mean)) for mean in c]).T
    pull = (h * x * (v[:, None] - c)) @ weight[:stop]
    curvature = (h * miss) @ weight[:stop]
    pull[:stop] -= weight[:stop] * ((v * u) @ h - c * (u @ h))
    curvature[:stop] += weight[:stop] * (h * miss).sum(axis=0)
    return weight[:stop] @ c, pull, curvature


def mean_seen(offset, distance, heap):
    """What a document `offset` down the list sees of `heap` documents of value 1, `distance`
    further down.
    """
    documents = np.array([[1e-300, 1.0, heap], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    s = -np.array([0.0, offset, offset + distance])
    return by_lattice(
        s, 2, 1.0, np.array([0.0, 1.0, 0.0]), documents, np.array([0, 0, 1]), np.array([0.0, 1.0])
    )[0]


def test_a_pair_is_right_to_its_stated_relative_error_wherever_it_lies():
    worst = 0.0
    for offset, distance in [
        (a, x) for a in np.linspace(0.0, 0.3, 7) for x in np.linspace(0.0, 2.5, 11)
    ]:
        mean = mean_seen(offset, distance, 1.0)
        worst = max(worst, abs(mean / (1.0 - mean) / np.exp(-distance * distance) - 1.0))
    bound = 2.01 * np.exp(-((np.pi / (2 * gauss.STEP)) ** 2))
    assert bound < 3e-12
    assert worst < 2 * bound + 1e-13


def test_a_hundred_thousand_documents_far_away_do_not_add_up():
    for distance in np.linspace(2.5, 10.0, 31):
        e = 1e5 * np.exp(-distance * distance)
        assert mean_seen(0.1, distance, 1e5) == pytest.approx(e / (1.0 + e), rel=1e-10, abs=2e-11)


def test_the_lattice_moves_along_a_list_of_gaps_heaps_and_ties():
    rng = np.random.default_rng(5)
    gaps = rng.choice(
        [0.0, 0.01, 0.5, 3.0, 9.0, 47.0, 300.0], 70, p=[0.2, 0.3, 0.2, 0.15, 0.05, 0.05, 0.05]
    )
    s = 1e4 - 0.5 * np.cumsum(gaps)
    gains = rng.choice([0.0, 1.0, 3.0, 7.0], 70)
    nodes = np.unique(gains)
    documents = np.stack([np.ones(70), gains, np.zeros(70)])
    for stop in (70, 23):
        arguments = (s, stop, 2.0, rng.random(70), documents, np.searchsorted(nodes, gains), nodes)
        for actual, expected, what in zip(
            by_lattice(*arguments),
            by_pairs(*arguments),
            ("J", "gradient", "curvature"),
            strict=True,
        ):
            close(actual, expected, 1e-10, f"{what} of {stop} anchors")


def test_gains_between_the_nodes_count_as_mixtures():
    rng = np.random.default_rng(6)
    gains, s = rng.random(40), -np.sort(rng.random(40))
    mixture, table = gain_nodes(gains, np.array([0, 40]), 4)
    documents = np.stack([np.ones(40), gains, mixture[:, 1]])
    arguments = (s, 40, 3.0, np.ones(40), documents, mixture[:, 0].astype(np.int64), table[0, 1:])
    for actual, expected, what in zip(
        by_lattice(*arguments), by_pairs(*arguments), ("J", "slope", "curvature"), strict=True
    ):
        close(actual, expected, 1e-10, what)


def test_tied_documents_exert_no_force_at_all():
    gains = np.repeat([0.0, 2.0], 20)
    documents = np.stack([np.ones(40), gains, np.zeros(40)])
    nodes = np.array([0.0, 2.0])
    _, pull, curvature = by_lattice(
        np.full(40, 0.7), 40, 3.0, np.ones(40), documents, (gains > 0).astype(np.int64), nodes
    )
    assert not pull.any()
    assert curvature == pytest.approx(np.full(40, 2.0))


def test_few_gains_are_nodes_themselves_and_many_are_mixed_from_some_of_them():
    gains = np.array([3.0, 0.0, 1.0, 3.0, 5.0, 0.5, 1.5, 0.0, 2.5, 4.0, 9.0])
    mixture, table = gain_nodes(gains, np.array([0, 4, 4, 5, 11]), 4)
    assert table.tolist() == [
        [3, 0, 1, 3, 0],
        [0, 0, 0, 0, 0],
        [1, 5, 0, 0, 0],
        [4, 0, 0.5, 2.5, 9],
    ]
    assert mixture[:5].tolist() == [[2, 0], [0, 0], [1, 0], [2, 0], [0, 0]]
    assert mixture[5:].tolist() == [[1, 0], [1, 0.5], [0, 0], [2, 0], [2, 1.5 / 6.5], [3, 0]]
