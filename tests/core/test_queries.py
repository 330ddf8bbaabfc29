"""QueryIndex: which rows belong to which query."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex, checked_ids


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
    assert list(QueryIndex.from_ids(np.array([2**63 + 1, 2**63 + 1, 5], np.uint64)).qid) == [
        str(2**63 + 1),
        "5",
    ]
    assert list(QueryIndex.from_ids([2.0, 2.0, -4.0]).qid) == [2, -4]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, 2, 1], r"query 1 appears again at row 2"),
        (["x", "y", "y", "x"], "'x' .*row 3"),
        ([1.0, np.nan], "row 1 has no query id"),
        ([1.5], "whole numbers or text"),
        ([[1, 2]], "one-dimensional"),
    ],
)
def test_bad_ids_are_refused(ids, words):
    with pytest.raises(DataError, match=words):
        QueryIndex.from_ids(ids)


def objects(*ids):
    return np.fromiter(ids, object, len(ids))


MISSING_TIMES = np.array(["2020-01-01", "NaT", "NaT"], "M8[s]")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a", "a\0", "b"], r"query id 'a\\x00' of row 1"),
        (["a", "b", "b", "a\ud800"], r"query id 'a\\ud800' of row 3"),
        (["1", "1", 1], "row 0 .*row 2"),
        (objects("1", 1), "row 0 .*row 1"),
        ([3, date(2020, 1, 1)], "row 0 .*row 1"),
        (MISSING_TIMES, "row 1 has no query id"),
        ([7, None], "row 1 has no query id"),
        ([Decimal("2.5")], "type Decimal"),
        (np.array([b"a", b"\xc8"]), "row 1, b'\\\\xc8'"),
        ([(1, 2), (1, 2)], "type tuple"),
        (objects({}, {}), "type dict"),
        (objects(1j), "type complex"),
        (objects(np.ones(2), np.ones(2)), "type ndarray"),
        ([np.ones((2, 3)), np.ones((2, 4))], "type ndarray"),
        (objects(0.5, 1.5), "whole numbers or text"),
        (np.array([1e300]), "whole numbers or text"),
    ],
)
def test_ids_that_are_no_whole_numbers_and_no_text_are_refused_in_words(ids, words):
    with pytest.raises(DataError, match=words):
        QueryIndex.from_ids(ids)
    with pytest.raises(DataError, match=words):
        QueryIndex.of(ids, len(ids))


def test_each_id_is_as_long_as_it_is():
    ids = np.array(["x" * 10**6, *map(str, range(1, 20_000))], object)
    index = QueryIndex.from_ids(ids)  # 80 GB as one array of NumPy's text
    assert list(index.qid[[0, 7]]) == [ids[0], "7"]


def test_bytes_and_numbers_of_any_width_are_ids():
    assert list(QueryIndex.from_ids([b"b", b"b", b"a"]).qid) == ["b", "a"]
    assert list(QueryIndex.from_ids([np.int8(2), 2, np.float32(1)]).qid) == [2, 1]
    assert list(QueryIndex.from_ids([2**63, 2**63 + 1, 5]).qid) == [str(2**63), str(2**63 + 1), "5"]


@pytest.mark.parametrize("options", [{}, {"na_object": None}])
def test_numpy_text_of_any_length_is_an_id(options):
    assert list(
        QueryIndex.from_ids(np.array(["b", "b", "a"], np.dtypes.StringDType(**options))).qid
    ) == ["b", "a"]


@pytest.mark.parametrize("sizes", [[2, 0], [2, -1], [1.5], [[1, 2]]])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(DataError):
        QueryIndex.from_sizes(sizes)


def test_weights_are_one_positive_number_a_query():
    assert list(QueryIndex.from_sizes([1, 2], weights=[1, 3]).weights) == [1.0, 3.0]
    for weights in ([1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [np.inf, 1.0]):
        with pytest.raises(DataError):
            QueryIndex.from_sizes([1, 2], weights=weights)


def test_weights_whose_sum_no_number_holds_and_cut_offs_that_are_no_whole_numbers_are_refused():
    with pytest.raises(DataError, match=r"weights, up to 1e\+308"):
        QueryIndex.from_sizes([1] * 10, weights=[1e308] * 10)
    for k in ([1, 1.5], [1, -1]):
        with pytest.raises(DataError, match=f"query 1: k={k[1]} "):
            QueryIndex(np.array([0, 1, 2]), np.arange(2), k=np.array(k))


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
    sample = queries.sample(40, 3)
    assert sample.size == 10
    assert (np.diff(sample) > 0).all()
    assert sample.tolist() == queries.sample(40, 3).tolist() != queries.sample(40, 4).tolist()
    assert queries.sample(200, 0).tolist() == queries.sample(10**9, 1).tolist() == list(range(50))
    assert queries.sample(1, 0).size == 1


def test_blocks_cover_all_queries_once():
    queries = QueryIndex.from_sizes([3, 10, 1, 1, 1, 20])
    blocks = queries.blocks(5)
    assert [q for a, b in blocks for q in range(a, b)] == list(range(6))
    assert len(blocks) > 1
    assert queries.blocks(1000) == [(0, 6)]


def test_ids_that_are_true_or_false_are_numbers_in_any_container() -> None:
    for flags in ([True, False], np.array([True, False]), np.array([True, False], object)):
        assert checked_ids(flags).tolist() == [1, 0]


def test_ids_of_bytes_are_text() -> None:
    assert checked_ids(np.char.encode(np.array(["a", "é"]), "utf-8")).tolist() == ["a", "é"]
    with pytest.raises(DataError, match=r"row 1, b'\\xff'.* UTF-8"):
        checked_ids(np.array([b"a", b"\xff"]))


def test_text_of_numpy_is_text_among_other_ids() -> None:
    index = QueryIndex.from_ids(np.array([np.str_("a"), "a", "b"], object))
    assert index.qid.tolist() == ["a", "b"]
    assert [type(name) for name in index.qid] == [str, str]
