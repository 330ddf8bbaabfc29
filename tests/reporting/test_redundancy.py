"""Rank correlation within queries, against SciPy, and clusters."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from boostrank.reporting.permutation import centred_ranks, clusters_of, rank_correlation


def test_the_correlation_within_one_query_is_that_of_spearman() -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=(80, 4)) + 0.8 * rng.normal(size=(80, 1)), 1)  # with ties
    correlation = rank_correlation(centred_ranks(values, np.array([0, 80])))
    np.testing.assert_allclose(correlation, spearmanr(values).statistic, atol=1e-12)


def test_what_differs_between_queries_alone_does_not_correlate() -> None:
    rng = np.random.default_rng(1)
    level = np.repeat(10.0 * rng.normal(size=200), 5)[:, None]
    values = level + rng.normal(size=(1000, 2))
    assert spearmanr(values).statistic > 0.9
    correlation = rank_correlation(centred_ranks(values, np.arange(0, 1001, 5)))
    assert abs(correlation[0, 1]) < 0.1


def test_missing_values_tie_below_all_others() -> None:
    values = np.array([[np.nan, 0.0], [3.0, 5.0], [np.nan, 0.0], [7.0, 9.0]])
    assert rank_correlation(centred_ranks(values, np.array([0, 4])))[0, 1] == 1.0


def test_a_constant_has_no_correlation() -> None:
    values = np.column_stack([np.ones(6), np.arange(6.0)])
    assert rank_correlation(centred_ranks(values, np.array([0, 3, 6])))[0, 1] == 0.0


def test_clusters_hold_what_is_all_alike_with_either_sign() -> None:
    c = np.eye(5)
    for i, j, r in ((0, 1, 0.95), (1, 2, 0.95), (0, 2, 0.5), (3, 4, -0.97)):
        c[i, j] = c[j, i] = r
    clusters = clusters_of(c, 0.9)
    assert [3, 4] in clusters
    assert not any({0, 2} <= set(members) for members in clusters)
    assert clusters_of(c, 0.99) == []
    assert clusters_of(np.ones((2, 2)), 1.0) == [[0, 1]]
    assert clusters_of(np.ones((1, 1)), 0.5) == []
