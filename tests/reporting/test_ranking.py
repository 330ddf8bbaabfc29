"""The metric over k, scores by grade."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import Metric
from boostrank.reporting.sections.ranking import SPEC, Ranking, ranking
from tests.reporting.studies import study


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
def ranking_result(data: RankingDataset, scores: np.ndarray) -> Ranking:
    return ranking(study(data, "ndcg@5", scores=scores, previous=("old", -scores)))


def test_each_point_over_k_is_what_evaluate_has(
    data: RankingDataset, scores: np.ndarray, ranking_result: Ranking
) -> None:
    depth = ranking_result.to_frame("depth")
    assert depth["ranking"].unique().tolist() == ["the model", "old", "random order"]
    assert depth[depth["ranking"] == "old"]["k"].tolist() == [1, 2, 3, 4, 5, 6, 8]
    for name, of in (("the model", scores), ("old", -scores)):
        for row in depth[depth["ranking"] == name].itertuples():
            there = Metric.parse(f"ndcg@{row.k}").evaluate(data.labels, of, data.queries)
            assert (row.value, row.low, row.high) == pytest.approx(
                (there.mean, there.low, there.high), abs=1e-12
            )


def test_scores_by_grade_are_around_the_mean_of_their_query(
    data: RankingDataset, scores: np.ndarray, ranking_result: Ranking
) -> None:
    centred: dict[float, list[float]] = {0.0: [], 1.0: [], 2.0: []}
    for start, stop in zip(data.queries.ptr[:-1], data.queries.ptr[1:], strict=True):
        s = scores[start:stop]
        for grade, value in zip(data.labels[start:stop], s - s.mean(), strict=True):
            if s.size > 1:
                centred[grade].append(value)
    for row in ranking_result.to_frame("grades").itertuples():
        values = centred[row.grade]
        assert row.documents == len(values)
        assert row[-3:] == pytest.approx(np.quantile(values, [0.05, 0.5, 0.95]))


def test_the_page_has_a_chart_of_each(ranking_result: Ranking) -> None:
    assert [part.name for part in SPEC.on_page(ranking_result).drawn] == [
        "ranking-depth",
        "ranking-grades",
    ]


def test_many_grades_need_a_cut_off_and_a_metric_without_one_has_no_depth(
    data: RankingDataset, scores: np.ndarray
) -> None:
    many = RankingDataset(data.features, np.linspace(0, 4, data.n_documents), data.queries)
    with pytest.raises(DataError, match="cut-off"):
        ranking(study(many, "ndcg", scores=scores))
    assert ranking(study(data, "ndcg", scores=scores)).depth == {}
