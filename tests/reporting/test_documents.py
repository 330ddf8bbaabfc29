"""Documents and queries by what people call them, and what is said of names that are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.reporting import why
from tests.reporting.conftest import QUERIES, SIZE, make_world
from tests.reporting.test_why import model_of


def make_named_data(names: list[str]) -> RankingDataset:
    """Two queries of four documents with names."""
    two_queries = make_world().take([0, 1])
    rows = np.concatenate([np.arange(4), np.arange(SIZE, SIZE + 4)])
    queries = QueryIndex(np.array([0, 4, 8]), np.array(["q1", "q2"], dtype=object))
    return RankingDataset(
        two_queries.features[rows],
        two_queries.labels[rows],
        queries,
        two_queries.feature_names,
        document_names=names + names[::-1],
    )


def test_documents_are_found_by_rank_row_and_name() -> None:
    model, data = model_of("LightGBM"), make_named_data(["D1", "D2", "7", ""])
    scores = model.predict(data)
    first = 4 + int(np.argmax(scores[4:]))
    for document in ("@1", 1, f"row:{first + 1}"):
        assert why(model, data, "q2", document, "@4").a.row == first
    for document in ("D1", "row:8"):  # the last one of its query
        assert why(model, data, "q2", document, "row:5").a.row == 7
    assert why(model, data, "q1", "7", "D2").a.row == 2
    explanation = why(model, data, "q1", "D2", "row:4")
    assert (explanation.a.name, explanation.b.name) == ("D2", "row 4")
    words = replace(data, queries=replace(data.queries, words=np.array(["red shoe", ""], object)))
    query_explanation = why(model, words, "red shoe", "D1", "D2")
    assert (query_explanation.qid, query_explanation.a.row, query_explanation.b.row) == (
        "q1: red shoe",
        0,
        1,
    )


@pytest.mark.parametrize(
    ("names", "a", "words"),
    [
        (["GX01", "GX2", "", "X"], "GX02", "query q1 has no document 'GX02'. Did you mean 'GX2'"),
        (
            ["D1", "D2", "D3", "D4"],
            "@5",
            "query q1 has no document '@5'. Write a name, @1 to @4 for a rank",
        ),
        (["D1", "D2", "D3", "D4"], "0", "no document '0'"),
        (["D1", "D2", "D3", "D4"], "row:6", "query q1 has no document 'row:6'"),
        (["D1", "D2", "D3", "D4"], "row:9", "or row:N"),
        (["D1", "D1", "D3", "D4"], "D1", "2 documents named 'D1'; choose one: row:1"),
        (["", "", "", ""], "D1", "Write a name, @1 to @4 for a rank, or row:N"),
        (["D1", "D2", "D3", "D4"], "1", "no document '1'"),
    ],
)
def test_documents_that_cannot_be_told_are_refused(names: list[str], a: str, words: str) -> None:
    with pytest.raises(DataError) as error:
        why(model_of("LightGBM"), make_named_data(names), "q1", a, "@2")
    assert words in str(error.value)


def test_digits_are_a_name() -> None:
    data = make_named_data(["4", "3", "2", "1"])
    assert why(model_of("LightGBM"), data, "q1", "2", "1").a.row == 2


def test_queries_that_cannot_be_told_are_refused() -> None:
    model, data = model_of("LightGBM"), make_world()
    with pytest.raises(DataError, match=r"'99'.* '9'.* 40 .*0 to 39"):
        why(model, data, 99, 1, 2)
    with pytest.raises(DataError, match=r"no query 'q3'\. Known: q1, q2"):
        why(model, make_named_data(["", "", "", ""]), "q3", 1, 2)
    with pytest.raises(DataError, match=r"same document .*query 3: row 2"):
        why(model, data, 3, *(["row:26"] * 2))
    twice = replace(data, queries=QueryIndex(data.queries.ptr, np.arange(QUERIES) // 2))
    with pytest.raises(DataError, match=r"query id 4 .*2 queries .*rows 65, 73"):
        why(model, twice, 4, 1, 2)
    alone = RankingDataset.from_arrays(data.features[:3], data.labels[:3], group=[2, 1])
    with pytest.raises(DataError, match=r"query 1 .*one document"):
        why(model, alone, 1, 1, 1)


def test_rows_are_those_of_the_file_also_where_they_were_brought_together() -> None:
    model, data = model_of("LightGBM"), make_world()
    rows = np.concatenate([np.arange(0, 16, 2), np.arange(1, 16, 2)])  # two queries, in turns
    mixed = RankingDataset.from_arrays(
        data.features[:16],
        data.labels[:16],
        qid=np.tile([5, 6], 8),
        sort=True,
        feature_names=data.feature_names,
    )
    np.testing.assert_array_equal(mixed.input_rows, rows)
    explanation = why(model, mixed, 6, "row:2", "row:16")
    assert explanation.b.name == "row 16"
    np.testing.assert_array_equal(
        explanation.values[1],
        data.features[15, [data.feature_names.index(f) for f in explanation.features]],
    )
    with pytest.raises(DataError, match="no document 'row:3'"):
        why(model, mixed, 6, "row:3", "row:16")
