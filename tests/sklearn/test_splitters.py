"""Splitters never cut a query, wherever its rows stand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from boostrank.core.errors import DataError, ParameterError
from tests.sklearn.conftest import LIBRARIES, Rows, as_table

pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed: pip install 'boostrank[sklearn]'"
)

from boostrank.sklearn import QueryKFold, QueryTimeSplit

SPLITTERS = [
    QueryKFold(3),
    QueryKFold(4, shuffle=True, random_state=1),
    QueryTimeSplit(3),
    QueryTimeSplit(2, test_size=4),
]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)
@pytest.mark.parametrize("scattered", [False, True])
def test_no_query_is_cut(splitter: QueryKFold, scattered: bool, rows: Rows) -> None:
    qid = np.random.default_rng(0).permutation(rows.qid) if scattered else rows.qid
    splits = list(splitter.split(rows.X, rows.y, groups=qid))
    assert len(splits) == splitter.get_n_splits(rows.X, rows.y, qid) > 1
    for train, test in splits:
        assert not set(qid[train]) & set(qid[test])
        for part in (train, test):
            assert part.size
            np.testing.assert_array_equal(part, np.flatnonzero(np.isin(qid, qid[part])))


def test_the_names_of_the_ids_do_not_matter(rows: Rows) -> None:
    expected = list(QueryKFold(3).split(rows.X, groups=rows.qid))
    frame = pd.DataFrame(rows.X).assign(qid=rows.qid)
    texts = [f"query {qid}" for qid in rows.qid]
    frame.columns = frame.columns.astype(str)
    tables = [(table, {}) for table in (frame, *map(partial(as_table, frame), LIBRARIES))]
    kept = (
        (rows.X, {"qid": rows.qid}),
        (rows.X, {"groups": texts}),
        (list(rows.X), {"qid": texts}),
        *tables,
    )
    for X, query_ids in kept:
        for fold, expected_fold in zip(QueryKFold(3).split(X, **query_ids), expected, strict=True):
            np.testing.assert_array_equal(fold[1], expected_fold[1])


def test_folds_hold_each_query_once_and_about_as_many(rows: Rows) -> None:
    for shuffle, splitter in enumerate(
        [QueryKFold(5), QueryKFold(5, shuffle=True, random_state=3)]
    ):
        tests = [rows.qid[test] for _, test in splitter.split(rows.X, qid=rows.qid)]
        assert sorted(len(set(qids)) for qids in tests) == [4, 5, 5, 5, 5]
        np.testing.assert_array_equal(np.sort(np.concatenate(tests)), np.sort(rows.qid))
        in_blocks = np.array_equal(np.concatenate(tests), rows.qid)
        assert in_blocks is not bool(shuffle)


def test_time_goes_forward(rows: Rows) -> None:
    queries = list(dict.fromkeys(rows.qid))
    time = np.random.default_rng(5).permutation(len(queries))
    of_rows = np.repeat(time, rows.sizes)
    dates = np.datetime64("2026-01-01") + of_rows
    frame = pd.DataFrame(rows.X).assign(qid=rows.qid, when=dates)
    expected = list(QueryTimeSplit(3, time=of_rows).split(rows.X, groups=rows.qid))
    assert [(len(set(rows.qid[a])), len(set(rows.qid[b]))) for a, b in expected] == [
        (6, 6),
        (12, 6),
        (18, 6),
    ]
    for train, test in expected:
        assert of_rows[train].max() < of_rows[test].min()
    for times, X in ((dates, rows.X), ("when", frame)):
        for fold, expected_fold in zip(
            QueryTimeSplit(3, time=times).split(X, qid=rows.qid), expected, strict=True
        ):
            np.testing.assert_array_equal(fold[0], expected_fold[0])
    (train, test), *_ = QueryTimeSplit(3).split(rows.X, qid=rows.qid)
    assert [*dict.fromkeys(rows.qid[train])] == queries[:6]
    assert [*dict.fromkeys(rows.qid[test])] == queries[6:12]


def test_queries_of_one_time_are_never_on_both_sides(rows: Rows) -> None:
    day = np.arange(24) // 5
    of_rows = np.repeat(day, rows.sizes)
    for train, test in QueryTimeSplit(2, time=of_rows).split(rows.X, groups=rows.qid):
        assert of_rows[train].max() < of_rows[test].min()


def test_rows_that_cannot_be_split_are_refused(rows: Rows) -> None:
    qid, X = rows.qid, rows.X

    def split(splitter: QueryKFold, X: object = X, **arguments: object) -> None:
        list(splitter.split(X, **arguments))

    with pytest.raises(DataError, match="groups or qid"):
        split(QueryKFold(3))
    with pytest.raises(DataError, match="3 query ids for"):
        split(QueryKFold(3), groups=qid[:3])
    with pytest.raises(DataError, match=r"row 1 .*query id"):
        split(QueryKFold(3), groups=[1, None, *qid[2:]])
    with pytest.raises(DataError, match=r"split .*row 0"):
        split(QueryKFold(3), groups=np.arange(qid.size), qid=qid)
    with pytest.raises(ValueError, match=r"n_splits=25 .*24"):
        split(QueryKFold(25), groups=qid)
    with pytest.raises(ValueError, match=r"folds=25 .*24"):
        split(QueryTimeSplit(24), groups=qid)
    with pytest.raises(ParameterError, match="no earlier queries"):
        split(QueryTimeSplit(2, time=np.zeros(qid.size)), groups=qid)
    with pytest.raises(DataError, match="row 0 differs"):
        split(QueryTimeSplit(2, time=np.arange(qid.size)[::-1]), groups=qid)
    with pytest.raises(DataError, match="some are missing"):
        split(QueryTimeSplit(2, time=[np.nan] * qid.size), groups=qid)
    with pytest.raises(DataError, match="one for each"):
        split(QueryTimeSplit(2, time=[1, 2]), groups=qid)
    with pytest.raises(DataError, match="'when'"):
        split(QueryTimeSplit(2, time="when"), groups=qid)


def test_coarser_groups_keep_queries_together(rows: Rows) -> None:
    users = rows.qid // 4
    for train, test in QueryKFold(3).split(rows.X, groups=users, qid=rows.qid):
        assert not set(users[train]) & set(users[test])


def test_queries_of_the_test_sets_own_time_are_not_trained_on() -> None:
    qid, time, X = np.arange(60), np.arange(60) // 20, np.zeros((60, 1))
    trained = [
        train for train, _ in QueryTimeSplit(2, time=time, test_size=15).split(X, groups=qid)
    ]
    for train, earlier in zip(trained, (20, 40), strict=True):
        np.testing.assert_array_equal(train, np.arange(earlier))
    with pytest.raises(ParameterError, match=r"^QueryTimeSplit: .*earlier"):
        list(QueryTimeSplit(2, time=np.zeros(60), test_size=15).split(X, groups=qid))


def test_query_ids_that_are_passed_win_over_an_index_with_several() -> None:
    index = pd.MultiIndex.from_arrays([[1, 1, 2, 2]] * 2, names=["qid", "query_id"])
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}, index=index)
    splits = QueryKFold(2).split(X, qid=[5, 5, 6, 6])
    assert [test.tolist() for _, test in splits] == [[0, 1], [2, 3]]


def test_times_in_another_order_than_the_rows_are_refused() -> None:
    frame = pd.DataFrame({"x": np.zeros(6), "qid": [1, 1, 2, 2, 3, 3]})
    time = pd.Series([1, 1, 2, 2, 3, 3])
    splits = [list(QueryTimeSplit(2, time=times).split(frame)) for times in (time, time.to_numpy())]
    assert str(splits[0]) == str(splits[1])
    with pytest.raises(DataError, match="time"):
        list(QueryTimeSplit(2, time=time[::-1]).split(frame))
