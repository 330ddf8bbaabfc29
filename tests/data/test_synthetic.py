"""The generated data tell the story that their docstring tells."""

from __future__ import annotations

import itertools

import lightgbm as lgb
import numpy as np
import pytest
from scipy import stats

from boostrank.core.errors import ParameterError
from boostrank.data.synthetic import GRADE_SHARES, SyntheticData, make_ranking_data


@pytest.fixture(scope="module")
def data() -> SyntheticData:
    return make_ranking_data(2000, seed=3)


def list_names(data: SyntheticData, role: str) -> list[str]:
    return [
        name
        for name, feature_role in zip(data.dataset.feature_names, data.roles, strict=True)
        if feature_role == role
    ]


def column(data: SyntheticData, name: str) -> np.ndarray:
    return data.dataset.features[:, data.dataset.feature_names.index(name)].astype(np.float64)


def mean_ndcg_at_10(scores: np.ndarray, data: SyntheticData) -> float:
    """Exponential gains; queries without a relevant document are left out."""
    values = []
    ptr = data.dataset.queries.ptr
    for start, stop in itertools.pairwise(ptr):
        gains = 2.0 ** data.dataset.labels[start:stop] - 1.0
        if not gains.any():
            continue
        discounts = 1.0 / np.log2(np.arange(2, 12))[: stop - start]
        ranked = gains[np.argsort(-scores[start:stop], kind="stable")][:10]
        values.append((ranked * discounts).sum() / (np.sort(gains)[::-1][:10] * discounts).sum())
    return float(np.mean(values))


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    first = make_ranking_data(50, seed=7)
    second = make_ranking_data(50, seed=7)
    other = make_ranking_data(50, seed=8)
    assert first.dataset.fingerprint == second.dataset.fingerprint
    np.testing.assert_array_equal(first.relevance, second.relevance)
    assert first.dataset.fingerprint != other.dataset.fingerprint


def test_more_useless_features_leave_all_other_numbers_alone() -> None:
    few, many = make_ranking_data(50, useless=1), make_ranking_data(50, useless=9)
    assert many.dataset.n_features == few.dataset.n_features + 8
    np.testing.assert_array_equal(
        many.dataset.features[:, : few.dataset.n_features], few.dataset.features
    )
    np.testing.assert_array_equal(many.dataset.labels, few.dataset.labels)


def test_grades_have_the_shares_of_mslr_and_differ_between_queries(data: SyntheticData) -> None:
    labels, queries = data.dataset.labels, data.dataset.queries
    shares = [np.mean(labels == grade) for grade in range(5)]
    np.testing.assert_allclose(shares, GRADE_SHARES, atol=0.001)
    best = np.maximum.reduceat(labels, queries.ptr[:-1])
    assert 0.01 < np.mean(best == 0) < 0.15, "some queries have no relevant document"
    long = queries.sizes >= 20
    share_of_zeros = (np.add.reduceat(labels == 0, queries.ptr[:-1]) / queries.sizes)[long]
    assert share_of_zeros.std() > 0.1


def test_most_lists_are_short_and_a_few_are_very_long(data: SyntheticData) -> None:
    sizes = data.dataset.queries.sizes
    assert sizes.min() == 1
    assert 300 < sizes.max() <= 1000
    assert sizes.mean() == pytest.approx(40, rel=0.15)
    assert np.median(sizes) < 0.6 * sizes.mean()


def test_lists_respect_the_asked_mean_and_maximum() -> None:
    sizes = make_ranking_data(500, mean_length=10, max_length=15).dataset.queries.sizes
    assert sizes.max() == 15
    assert sizes.mean() < 10


def test_every_role_is_there_and_named(data: SyntheticData) -> None:
    assert set(data.roles) == {"informative", "redundant", "useless", "query"}
    assert len(data.roles) == data.dataset.n_features
    assert "bm25_title" in list_names(data, "informative")
    assert "navigational" in list_names(data, "query")
    assert all(name.startswith("noise_") for name in list_names(data, "useless"))
    assert len(list_names(data, "useless")) == 8


def test_informative_features_tell_of_relevance_and_useless_ones_do_not(
    data: SyntheticData,
) -> None:
    # Age and depth matter in some queries only: the effect over all queries is small but there.
    for name in list_names(data, "informative"):
        present = ~np.isnan(column(data, name))
        test = stats.spearmanr(column(data, name)[present], data.relevance[present])
        assert test.pvalue < 1e-6, name
    for name in list_names(data, "useless"):
        assert abs(stats.spearmanr(column(data, name), data.relevance).statistic) < 0.012, name


def test_redundant_features_follow_from_others(data: SyntheticData) -> None:
    parts = [column(data, f"bm25_{field}") for field in ("body", "title", "anchor")]
    np.testing.assert_allclose(column(data, "bm25_sum"), np.sum(parts, axis=0), atol=1e-5)
    np.testing.assert_allclose(
        column(data, "log_inlinks"), np.log1p(column(data, "inlinks")), atol=1e-5
    )
    assert (
        stats.spearmanr(column(data, "bm25_body_copy"), column(data, "bm25_body")).statistic > 0.95
    )


def test_the_intent_of_a_query_decides_whether_body_or_links_matter(data: SyntheticData) -> None:
    intent = column(data, "navigational")

    def strength(name: str, rows: np.ndarray) -> float:
        return float(stats.spearmanr(column(data, name)[rows], data.relevance[rows]).statistic)

    informational, navigational = intent < 0.3, intent > 0.7
    assert strength("tf_body", informational) > strength("tf_body", navigational) + 0.1
    assert strength("pagerank", navigational) > strength("pagerank", informational) + 0.1


def test_missing_values_come_by_chance_and_by_irrelevance(data: SyntheticData) -> None:
    missing = np.isnan(data.dataset.features)
    has_missing = {
        n for n, m in zip(data.dataset.feature_names, missing.any(axis=0), strict=True) if m
    }
    assert has_missing == {"page_quality", "age_days", "dwell_seconds"}
    by_chance, by_irrelevance = (
        np.isnan(column(data, "page_quality")),
        np.isnan(column(data, "dwell_seconds")),
    )
    assert by_chance.mean() == pytest.approx(0.1, abs=0.01)
    assert abs(data.relevance[by_chance].mean() - data.relevance[~by_chance].mean()) < 0.05
    assert data.relevance[by_irrelevance].mean() < data.relevance[~by_irrelevance].mean() - 0.2


def test_values_look_like_those_of_a_search_engine(data: SyntheticData) -> None:
    for name in ("tf_title", "inlinks", "pagerank", "clicks", "noise_count_1", "noise_hash_1"):
        values = column(data, name)
        np.testing.assert_array_equal(values, np.rint(values))
    for name in ("tf_anchor", "bm25_anchor", "inlinks", "clicks"):
        assert np.mean(column(data, name) == 0) > 0.3, name
    assert column(data, "inlinks").max() > 500, "a heavy tail"
    for name in ("bm25_title", "dwell_seconds", "query_rarity"):
        values = data.dataset.features[:, data.dataset.feature_names.index(name)]
        six_digits = np.round(values.astype(np.float64), 6).astype(np.float32)
        np.testing.assert_array_equal(values, six_digits)
    assert not np.isinf(data.dataset.features).any()
    assert not np.signbit(data.dataset.features[data.dataset.features == 0]).any()


def test_synthetic_data_can_be_learned_but_not_perfectly(data: SyntheticData) -> None:
    train, _, test = data.split()
    booster = lgb.train(
        {"objective": "lambdarank", "num_leaves": 31, "verbose": -1, "num_threads": 2, "seed": 1},
        lgb.Dataset(
            train.dataset.features, train.dataset.labels, group=train.dataset.queries.sizes
        ),
        num_boost_round=30,
    )
    singles = [
        mean_ndcg_at_10(sign * np.nan_to_num(column(test, name)), test)
        for name in test.dataset.feature_names
        for sign in (1, -1)
    ]
    model = mean_ndcg_at_10(booster.predict(test.dataset.features), test)
    assert model > max(singles) + 0.05
    assert mean_ndcg_at_10(test.relevance, test) > model + 0.03


def test_a_split_keeps_queries_whole_and_loses_none(data: SyntheticData) -> None:
    parts = data.split()
    assert [len(p.dataset.queries) for p in parts] == [1200, 400, 400]
    np.testing.assert_array_equal(
        np.concatenate([p.dataset.queries.qid for p in parts]), data.dataset.queries.qid
    )
    np.testing.assert_array_equal(
        np.concatenate([p.dataset.features for p in parts]), data.dataset.features
    )
    np.testing.assert_array_equal(np.concatenate([p.relevance for p in parts]), data.relevance)
    assert all(p.roles == data.roles for p in parts)


@pytest.mark.parametrize(
    "bad", [{"queries": 0}, {"mean_length": 0.5}, {"useless": -1}, {"seed": float("nan")}]
)
def test_a_value_out_of_range_is_refused_by_name(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        make_ranking_data(**bad)


def test_one_query_of_one_document_is_possible() -> None:
    assert make_ranking_data(1, mean_length=1, max_length=1).dataset.n_documents == 1
