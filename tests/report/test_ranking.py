"""The metric over k, scores by grade, old against new."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Metric
from boostrank.report.sections.ranking import SPEC, Ranking, ranking
from tests.report.studies import study, words_of


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 40)
    labels = rng.integers(0, 3, sizes.sum()).astype(np.float64)
    return RankingDataset(rng.normal(size=(sizes.sum(), 1)), labels, QueryIndex.from_sizes(sizes))


@pytest.fixture(scope="module")
def scores(data: RankingDataset) -> np.ndarray:
    return np.round(data.labels + np.random.default_rng(1).normal(size=data.n_documents), 1)


@pytest.fixture(scope="module")
def found(data: RankingDataset, scores: np.ndarray) -> Ranking:
    return ranking(study(data, "ndcg@5", scores=scores, previous=("old", -scores)))


def test_each_point_over_k_is_what_evaluate_has(data: RankingDataset, scores: np.ndarray, found: Ranking) -> None:
    depth = found.to_frame("depth")
    assert depth["ranking"].unique().tolist() == ["the model", "old", "random order"]
    assert depth[depth["ranking"] == "old"]["k"].tolist() == [1, 2, 3, 4, 5, 6, 8]
    for name, of in (("the model", scores), ("old", -scores)):
        for one in depth[depth["ranking"] == name].itertuples():
            there = Metric.parse(f"ndcg@{one.k}").evaluate(data.labels, of, data.queries)
            assert (one.value, one.low, one.high) == pytest.approx((there.mean, there.low, there.high), abs=1e-12)


def test_grades_and_pairs_are_counted(data: RankingDataset, scores: np.ndarray, found: Ranking) -> None:
    centred: dict[float, list[float]] = {0.0: [], 1.0: [], 2.0: []}
    shares = []
    for start, stop in zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True):
        s, y = scores[start:stop], data.labels[start:stop]
        right = total = 0.0
        for i, j in combinations(range(s.size), 2):
            if y[i] != y[j]:
                total += 1.0
                right += 0.5 if s[i] == s[j] else float((s[i] > s[j]) == (y[i] > y[j]))
        shares.append(right / total if total else np.nan)
        if s.size > 1:
            for grade, value in zip(y, s - s.mean(), strict=True):
                centred[grade].append(value)
    share = np.array(shares)
    assert found.pairs == pytest.approx(np.nanmean(share))
    text = words_of(SPEC.on_page(found))
    assert f"{found.pairs:.1%} [{found.pairs_low:.1%}, {found.pairs_high:.1%}] of cases" in text
    assert found.pairs_low < found.pairs < found.pairs_high
    weights = np.linspace(1.0, 5.0, len(data.queries))
    queries = replace(data.queries, weights=weights)
    weighted = ranking(study(RankingDataset(data.features, data.labels, queries), "ndcg@5", scores=scores))
    known = ~np.isnan(share)
    assert weighted.pairs == pytest.approx(np.average(share[known], weights=weights[known]))
    for one in found.to_frame("grades").itertuples():
        values = centred[float(one.grade)]
        assert (one.documents, one.mean) == (len(values), pytest.approx(np.mean(values)))
        assert one[-5:] == pytest.approx(np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))


def test_old_and_new_are_counted_query_by_query(data: RankingDataset, scores: np.ndarray, found: Ranking) -> None:
    assert found.against == "old"
    new, old = (Metric.parse("ndcg@5").evaluate(data.labels, s, data.queries).per_query for s in (scores, -scores))
    change = (new - old)[~np.isnan(new)]
    counts = (change > 1e-12).sum(), (abs(change) <= 1e-12).sum(), (change < -1e-12).sum()
    assert tuple(found.counts.values()) == counts
    assert len(found.to_frame("old and new")) == change.size


def test_what_has_no_cut_off_and_no_grades_has_no_curve(data: RankingDataset, scores: np.ndarray) -> None:
    many = RankingDataset(data.features, np.linspace(0, 4, data.n_documents), data.queries)
    found = ranking(study(many, "ndcg", scores=scores))
    assert found.depth == {}
    assert found.grades == {}
    assert found.against is None
