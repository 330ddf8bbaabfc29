"""QueryIndex: which rows belong to which query."""

from __future__ import annotations

import numpy as np
import pytest

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex


def test_from_sizes_and_from_ids_agree():
    sizes = QueryIndex.from_sizes([2, 1, 3])
    ids = QueryIndex.from_ids([7, 7, 3, 9, 9, 9])
    assert list(sizes.ptr) == list(ids.ptr) == [0, 2, 3, 6]
    assert list(ids.qid) == [7, 3, 9]
    assert (len(ids), ids.n_documents, ids.longest) == (3, 6, 3)
    assert list(ids.row_ids()) == [7, 7, 3, 9, 9, 9]
    assert [ids.of_row(r) for r in range(6)] == [0, 0, 1, 2, 2, 2]


def test_ids_may_be_text_or_larger_than_int64():
    assert list(QueryIndex.from_ids(["b", "b", "a"]).qid) == ["b", "a"]
    assert list(QueryIndex.from_ids(np.array([2**63 + 1, 2**63 + 1, 5], np.uint64)).qid) == [str(2**63 + 1), "5"]
    assert list(QueryIndex.from_ids([2.0, 2.0, -4.0]).qid) == [2, -4]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, 1], r"query 1 appears again at row 2"),
        (["x", "y", "y", "x"], "query x appears again at row 3"),
        ([1.0, np.nan], "row 1 has no query id"),
        ([1.5], "whole numbers or text"),
        ([[1, 2]], "one-dimensional"),
    ],
)
def test_bad_ids_are_refused(ids, words):
    with pytest.raises(DataError, match=words):
        QueryIndex.from_ids(ids)


@pytest.mark.parametrize("sizes", [[2, 0], [2, -1], [1.5], [[1, 2]]])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(DataError):
        QueryIndex.from_sizes(sizes)


def test_weights_are_one_positive_number_a_query():
    assert list(QueryIndex.from_sizes([1, 2], weights=[1, 3]).weights) == [1.0, 3.0]
    for weights in ([1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [np.inf, 1.0]):
        with pytest.raises(DataError):
            QueryIndex.from_sizes([1, 2], weights=weights)


@pytest.mark.parametrize("ptr", [[1, 2], [0, 3, 2], [[0, 1]], []])
def test_boundaries_start_at_zero_and_never_decrease(ptr):
    with pytest.raises(DataError):
        QueryIndex(np.array(ptr), np.arange(max(0, len(ptr) - 1)))


def test_take_keeps_whole_queries_in_the_order_asked_for():
    index = QueryIndex.from_ids([7, 7, 3, 9, 9], weights=[1.0, 2.0, 3.0])
    taken, rows = index.take([2, 0])
    assert list(rows) == [3, 4, 0, 1]
    assert list(taken.ptr) == [0, 2, 4]
    assert list(taken.qid) == [9, 7]
    assert list(taken.weights) == [3.0, 1.0]
    assert index.take([])[0].n_documents == 0


def test_no_queries_are_an_index_too():
    empty = QueryIndex.from_sizes([])
    assert (len(empty), empty.n_documents, empty.longest) == (0, 0, 0)
    assert len(QueryIndex.from_ids([])) == 0


def test_ranks_count_within_queries_and_equal_scores_keep_the_order_of_the_rows():
    queries = QueryIndex.from_sizes([3, 1, 4])
    assert queries.of_rows().tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert queries.ranks([0.1, 0.9, 0.1, 5.0, 1, 3, 3, 2]).tolist() == [2, 1, 3, 1, 4, 1, 2, 3]
    assert QueryIndex.from_sizes([]).ranks([]).tolist() == []


def test_a_sample_holds_whole_queries_in_order_and_is_the_same_for_a_seed():
    queries = QueryIndex.from_sizes([4] * 50)
    some = queries.sample(40, 3)
    assert some.size == 10
    assert (np.diff(some) > 0).all()
    assert some.tolist() == queries.sample(40, 3).tolist() != queries.sample(40, 4).tolist()
    assert queries.sample(200, 0).tolist() == queries.sample(10**9, 1).tolist() == list(range(50))
    assert queries.sample(1, 0).size == 1


def test_blocks_cover_all_queries_once():
    queries = QueryIndex.from_sizes([3, 10, 1, 1, 1, 20])
    blocks = queries.blocks(5)
    assert [q for a, b in blocks for q in range(a, b)] == list(range(6))
    assert len(blocks) > 1
    assert queries.blocks(1000) == [(0, 6)]
