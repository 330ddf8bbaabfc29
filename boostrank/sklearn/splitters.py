"""Splitters for scikit-learn's model selection whose training and test sets are whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator, KFold, ShuffleSplit, TimeSeriesSplit

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.queries import checked_ids, query_numbers
from boostrank.core.types import Int64Array
from boostrank.sklearn.columns import column_of, split_table


class _QuerySplitter(BaseCrossValidator):  # type: ignore[misc]
    """A splitter of scikit-learn, of queries in place of rows."""

    # What it takes of metadata that are routed, without being told to.
    __metadata_request__split = {"groups": True, "qid": True}  # noqa: RUF012

    n_splits: int

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, qid: Any = None) -> int:
        """The number of splits; the arguments, those of `split`, do not matter."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: npt.ArrayLike | None = None, qid: npt.ArrayLike | None = None
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Rows to train on and rows to test on, of each split.

        Args:
            X: [N, d]; a frame may hold the queries as a column `qid`.
            y: of no use.
            groups: [N] query id of each row, under scikit-learn's name; the rows of a query need not follow each
                other. Coarser groups keep several queries together.
            qid: the same, under ours.

        Yields:
            (int64, int64): row numbers, ascending.

        Raises:
            DataError: no queries, not one id a row, or groups that cut a query.
            ParameterError: more splits than queries, or a split without training queries.
        """
        number = _query_of_rows(X, groups, qid)
        count = int(number.max()) + 1
        for train, test in self._of_queries(X, number, count):
            if not train.size:
                raise ParameterError(
                    f"{type(self).__name__}: no query comes before those of a test set; take fewer splits"
                )
            yield tuple(np.flatnonzero(np.isin(number, chosen)) for chosen in (train, test))  # type: ignore[misc]

    def _of_queries(self, X: Any, number: Int64Array, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        raise NotImplementedError


class QueryKFold(_QuerySplitter):
    """Folds of whole queries, about as many in each; each query is tested once.

    Args:
        n_splits: at least 2, at most as many as queries.
        shuffle: deal queries at random; otherwise a fold is a block of queries in the order in which they appear.
        random_state: of the shuffle; None: another one at each call.
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None) -> None:
        self.n_splits, self.shuffle, self.random_state = n_splits, shuffle, random_state

    def _of_queries(self, X: Any, number: Int64Array, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        if self.n_splits > count:
            raise ParameterError(f"n_splits={self.n_splits}: there are only {count} queries")
        of_queries = KFold(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        yield from of_queries.split(np.arange(count))


class QueryShuffleSplit(_QuerySplitter):
    """Whole queries at random to test on, drawn anew for each split.

    Args:
        n_splits: how often.
        test_size: fraction of the queries (not of rows), or their number; None: what `train_size` leaves, or 0.2.
        train_size: likewise; None: what `test_size` leaves.
        random_state: of the draws; None: others at each call.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        test_size: float | None = None,
        train_size: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_splits, self.random_state = n_splits, random_state
        self.test_size, self.train_size = test_size, train_size

    def _of_queries(self, X: Any, number: Int64Array, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        test_size = 0.2 if self.test_size is None and self.train_size is None else self.test_size
        of_queries = ShuffleSplit(
            self.n_splits, test_size=test_size, train_size=self.train_size, random_state=self.random_state
        )
        yield from of_queries.split(np.arange(count))


class QueryTimeSplit(_QuerySplitter):
    """Tests on later queries than it trains on: the first split on the earliest ones, each following one later.

    Sizes are numbers of queries. Queries of one time are never on both sides: those of the time at which a test set
    begins are not trained on.

    Args:
        n_splits: test sets.
        time: when each query was: the name of a column of X, or an array of one value a query (in the order in which
            they appear) or one a row, the same within a query: numbers, dates, whatever can be ordered. None: the
            order in which they appear.
        max_train_size: the latest so many queries alone are trained on.
        test_size: queries in each test set; None: all queries / (n_splits + 1).
        gap: queries between a training set and its test set that are in neither.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        time: Any = None,
        max_train_size: int | None = None,
        test_size: int | None = None,
        gap: int = 0,
    ) -> None:
        self.n_splits, self.time = n_splits, time
        self.max_train_size, self.test_size, self.gap = max_train_size, test_size, gap

    def _of_queries(self, X: Any, number: Int64Array, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        if self.n_splits >= count:
            raise ParameterError(f"n_splits={self.n_splits}: there are only {count} queries")
        time = np.arange(count) if self.time is None else self._times(X, number, count)
        order = np.argsort(time, kind="stable")
        for train, test in TimeSeriesSplit(self.n_splits, test_size=self.test_size).split(order):
            earlier = order[train]
            earlier = earlier[time[earlier] < time[order[test[0]]]]
            earlier = earlier[: max(0, earlier.size - self.gap)]
            yield earlier[-self.max_train_size :] if self.max_train_size else earlier, order[test]

    def _times(self, X: Any, number: Int64Array, count: int) -> Int64Array:
        """int64[Q]: the rank of each query's time."""
        values = column_of(X, self.time) if isinstance(self.time, str) else np.asarray(self.time)
        if values.shape not in ((count,), number.shape):
            raise DataError(
                f"times of shape {values.shape} for {count} queries and {number.size} rows: one a query, or one a row"
            )
        try:
            if not bool(np.all(values == values)):
                raise TypeError("some are missing")
            ranks = np.asarray(np.unique(values, return_inverse=True)[1], np.int64)
        except TypeError as error:
            raise DataError(f"times cannot be ordered: {error}") from None
        if ranks.size == count:
            return ranks
        of_query = np.zeros(count, np.int64)
        of_query[number] = ranks
        uneven = np.flatnonzero(of_query[number] != ranks)
        if uneven.size:
            raise DataError(f"row {uneven[0]} has another time than other rows of its query; a query has one")
        return of_query


def _query_of_rows(X: Any, groups: npt.ArrayLike | None, qid: npt.ArrayLike | None) -> Int64Array:
    """int64[N]: number of the query, or group of queries, of each row, in the order in which they appear."""
    if qid is None:
        qid = split_table(X)[1]
    given = [query_numbers(checked_ids(ids)) for ids in (groups, qid) if ids is not None]
    if not given:
        raise DataError("a splitter of queries needs to know them: groups= or qid=, or a column qid of a frame")
    rows = len(X) if not hasattr(X, "shape") else int(X.shape[0])
    for ids in given:
        if ids.size != rows or not rows:
            raise DataError(f"{ids.size} query ids for {rows} rows of features")
    number = given[0]
    if len(given) > 1:
        group_of_query = np.zeros(int(given[1].max()) + 1, np.int64)
        group_of_query[given[1]] = number
        cut = np.flatnonzero(group_of_query[given[1]] != number)
        if cut.size:
            raise DataError(f"groups= cut the query of row {cut[0]}: all rows of a query must be in one group")
    return number
