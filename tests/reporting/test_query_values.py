"""A ranker query by query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import boostrank
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.synthetic import make_ranking_data
from boostrank.metrics import evaluate
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.sections.queries import QueryValues, query_values
from tests.reporting.studies import study


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return make_ranking_data(200, seed=8, mean_length=15).dataset


@pytest.fixture(scope="module")
def model(data: RankingDataset) -> RankingModel:
    params = {"num_leaves": 7, "num_threads": 1, "verbosity": -1}
    return boostrank.train(params, data.take(np.arange(60)), 8)


@pytest.fixture(scope="module")
def query_results(model: RankingModel, data: RankingDataset) -> QueryValues:
    segments = {str(q): "even" if i % 2 == 0 else "odd" for i, q in enumerate(data.queries.qid)}
    return query_values(study(data, model=model, segments=segments, threads=1))


def test_values_and_parts_are_those_of_evaluate(
    model: RankingModel, data: RankingDataset, query_results: QueryValues
) -> None:
    scores = model.predict(data)
    result = evaluate("ndcg@10", data.labels, scores, data.queries)["ndcg@10"]
    np.testing.assert_array_equal(query_results.values, result.per_query)
    assert {part["kind"] for part in query_results.parts} == {
        "segment",
        "list length",
        "best label",
    }
    for part in query_results.to_frame("parts").itertuples():
        inside = np.flatnonzero(query_results.of_part[part.kind] == part.name)
        part_data = data.take(inside)
        rows = data.queries.take(inside)[1]
        if part.queries < 20:
            assert np.isnan(part.low)
            continue
        part_result = evaluate("ndcg@10", part_data.labels, scores[rows], part_data.queries)[
            "ndcg@10"
        ]
        assert (part.mean, part.low, part.high) == pytest.approx(
            (part_result.mean, part_result.low, part_result.high), abs=1e-12
        )
        middle = scipy.stats.mstats.mquantiles(
            part_result.per_query[~np.isnan(part_result.per_query)], [0.5], alphap=1, betap=1
        )
        assert part.q50 == pytest.approx(float(middle[0]))


def test_the_worst_queries_come_with_their_lists(
    model: RankingModel, data: RankingDataset, query_results: QueryValues
) -> None:
    values = np.sort(query_results.values[~np.isnan(query_results.values)])
    assert [w.value for w in query_results.worst] == values[:20].tolist()
    scores = model.predict(data)
    for query in query_results.worst:
        q = int(np.flatnonzero(data.queries.qid.astype(str) == query.qid)[0])
        a, b = data.queries.ptr[q : q + 2]
        assert query.size == b - a
        assert query.parts["segment"] == ("even" if q % 2 == 0 else "odd")
        ranks = query.documents["rank"].tolist()
        assert ranks == sorted(ranks)
        assert ranks[:10] == list(range(1, min(10, b - a) + 1))
        labels = query.documents["label"].tolist()
        assert all(label > 0.0 for label in labels[10:])
        rows = [int(name.removeprefix("row ")) - 1 for name in query.documents["document"]]
        assert labels == data.labels[rows].tolist()
        assert query.documents["score"].tolist() == scores[rows].tolist()
        # No better document than those shown is left out.
        left = np.setdiff1d(np.arange(a, b), rows)
        if left.size and len(labels) == 15:
            assert data.labels[left].max() <= min(labels[10:])
        elif left.size:
            assert data.labels[left].max() == 0.0


def test_documents_are_called_by_their_names(model: RankingModel, data: RankingDataset) -> None:
    names = [f"<D{i}>" for i in range(data.n_documents)]
    names[int(data.queries.ptr[3])] = ""
    query_results = query_values(
        study(replace(data, document_names=names), model=model, threads=1), worst=200
    )
    displayed_names = {name for w in query_results.worst for name in w.documents["document"]}
    assert "<D0>" in displayed_names
    assert f"row {data.queries.ptr[3] + 1}" in displayed_names


def test_of_equal_queries_those_with_better_documents_are_worse_then_longer_ones(
    model: RankingModel,
) -> None:
    labels = np.array([0, 1, 0, 4, 0, 1, 0, 0, 0, 1.0])
    data = RankingDataset(
        np.zeros((10, model.n_features), np.float32),
        labels,
        QueryIndex.from_sizes([2, 2, 2, 4]),
        model.feature_names,
    )
    query_results = query_values(
        study(data, "ndcg@1", model=model, scores=[1.0, 0, 1, 0, 1, 0, 1, 0, 0, 0])
    )
    assert [w.qid for w in query_results.worst] == ["1", "3", "0", "2"]


def test_frames(data: RankingDataset, query_results: QueryValues) -> None:
    assert list(query_results.to_frame().columns) == [
        "qid",
        "ndcg@10",
        "documents",
        "segment",
        "list length",
        "best label",
    ]
    assert len(query_results.to_frame()) == len(data.queries)
    assert "q50" in query_results.to_frame("parts").columns
    assert query_results.to_dict()["worst"][0]["documents"]["rank"][0] == 1
