"""Scikit-learn splitters that keep queries whole, and tables with a column of query ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator, KFold, TimeSeriesSplit

from boostrank.core.errors import DataError, ParameterError, warn_user
from boostrank.core.queries import checked_ids, query_numbers
from boostrank.core.types import Array, Int64Array, check_in_step
from boostrank.data.frames import (
    as_frame,
    ids_of,
    names_of,
    values_of,
    with_query_level,
    without_index,
)
from boostrank.data.roles import say_role_columns, usual_column

QID = "qid"
"""Name of the column that contains query ids. Other usual names are read with a warning."""


def split_table(
    X: Any, features: Collection[str] = (), *, warns: bool = False, usual: bool = True
) -> tuple[Any, Array | None, str | None]:
    """Return the features without a query column, its values or None, and its name.

    The name is "" without such a column, and None if X is not a table.

    Args:
        features: names of the model's features, which are not query ids.
        warns: whether to warn about an index of pandas, and a query column not called `qid`.
        usual: whether a column with another usual name, such as `query_id`, contains the query ids.
    """
    table = as_frame(X)
    if table is None:
        return X, None, None
    table = without_index(table, features, with_warning=warns)
    names, qid = names_of(table), None
    if usual:
        # ColumnTransformer adds the name of a step: `remainder__qid`. Names without one win.
        candidates = [name for name in names if name not in features]
        candidates.sort(key=lambda name: "__" not in name)
        plain = {name.rpartition("__")[2]: name for name in candidates}
        qid = plain.get(usual_column("qid", [*plain]) or "")
    elif QID in names:
        qid = QID
    if warns:
        say_role_columns([name for name in names if name != qid])
    if qid is None:
        return table.to_native(), None, ""
    if warns and qid != QID:
        warn_user(
            f"the column {qid!r} contains the query ids; name it {QID!r} to silence this warning"
        )
    feature_columns = [i for i, name in enumerate(names) if name != qid]
    return table[:, feature_columns].to_native(), ids_of(table, qid), qid


class _QuerySplitter(BaseCrossValidator):  # type: ignore[misc]
    """Base class for splitters, which split queries instead of rows."""

    # Request routed metadata by default.
    __metadata_request__split = {"groups": True, "qid": True}  # noqa: RUF012

    n_splits: int

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, qid: Any = None
    ) -> int:
        """Return the number of splits. The arguments are ignored."""
        return self.n_splits

    def split(
        self,
        X: Any,
        y: Any = None,
        groups: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield the training and test rows of each split, int64 in ascending order.

        Args:
            X: [N, d] features. A frame may contain the query ids in a column `qid`.
            groups, qid: [N] query id for each row. A query's rows need not be contiguous. If both
                are given, `groups` may keep several queries together.

        Raises:
            DataError: if there are no queries, not one id per row, or groups that split a query.
            ParameterError: if a split has no training queries.
            ValueError: if there are more splits than queries, which scikit-learn calls samples.
        """
        number = _query_of_rows(X, groups, qid)
        for train, test in self._of_queries(X, number, int(number.max()) + 1):
            if not train.size:
                raise ParameterError(
                    f"{type(self).__name__}: a test set has no earlier queries; use fewer splits"
                )
            yield np.flatnonzero(np.isin(number, train)), np.flatnonzero(np.isin(number, test))

    def _of_queries(
        self, X: Any, number: Int64Array, count: int
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        raise NotImplementedError


class QueryKFold(_QuerySplitter):
    """K-fold splitter that keeps queries whole, with folds of about equal size.

    Args:
        n_splits: number of folds, from 2 to the number of queries.
        shuffle: whether to assign queries to folds at random. Otherwise, folds are consecutive
            blocks of queries.
        random_state: seed for shuffling; None gives different folds in each call.

    Example:
        >>> import boostrank
        >>> qid = [1, 1, 1, 2, 2, 3, 4]
        >>> for train, test in boostrank.QueryKFold(2).split([[0.0]] * 7, groups=qid):
        ...     print(test.tolist())
        [0, 1, 2, 3, 4]
        [5, 6]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_splits, self.shuffle, self.random_state = n_splits, shuffle, random_state

    def _of_queries(
        self, X: Any, number: Int64Array, count: int
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        yield from KFold(self.n_splits, shuffle=self.shuffle, random_state=self.random_state).split(
            np.arange(count)
        )


class QueryTimeSplit(_QuerySplitter):
    """Time series splitter, whose splits train on earlier queries and test on later queries.

    Sizes are numbers of queries. Queries with the same time are never on both sides, because a
    training set excludes the time at which its test set begins.

    Args:
        n_splits: number of test sets.
        time: time of each query, as the name of a column in X, or an array with one sortable value
            per row (constant within queries). None means order of appearance.
        test_size: number of queries per test set; None means all queries / (n_splits + 1).

    Example:
        >>> import boostrank
        >>> qid = [1, 1, 1, 2, 2, 3, 4]
        >>> splitter = boostrank.QueryTimeSplit(2, test_size=1)
        >>> for train, test in splitter.split([[0.0]] * 7, groups=qid):
        ...     print(train.tolist(), test.tolist())
        [0, 1, 2, 3, 4] [5]
        [0, 1, 2, 3, 4, 5] [6]
    """

    def __init__(
        self, n_splits: int = 5, *, time: Any = None, test_size: int | None = None
    ) -> None:
        self.n_splits, self.time, self.test_size = n_splits, time, test_size

    def _of_queries(
        self, X: Any, number: Int64Array, count: int
    ) -> Iterator[tuple[Int64Array, Int64Array]]:
        time = np.arange(count) if self.time is None else self._times(X, number)
        order = np.argsort(time, kind="stable")
        for train, test in TimeSeriesSplit(self.n_splits, test_size=self.test_size).split(order):
            earlier = order[train]
            yield earlier[time[earlier] < time[order[test[0]]]], order[test]

    def _times(self, X: Any, number: Int64Array) -> Int64Array:
        """Return the rank of each query's time, int64[Q]."""
        values = np.asarray(self.time)
        if isinstance(self.time, str):
            table = as_frame(X)
            if table is None or self.time not in names_of(table):
                raise DataError(f"X has no column {self.time!r}")
            values = values_of(table, self.time)
        else:
            check_in_step(X=X, time=self.time)
        if values.shape != number.shape:
            raise DataError(
                f"times have shape {values.shape}, but must be one for each of {number.size} rows"
            )
        try:
            if not np.all(values == values):
                raise TypeError("some are missing")
            ranks = np.unique(values, return_inverse=True)[1]
        except TypeError as error:
            raise DataError(f"times cannot be ordered: {error}") from None
        of_query, uneven = _by_query(ranks, number)
        if uneven.size:
            raise DataError(
                f"times must be constant within queries; row {uneven[0]} differs from its query"
            )
        return of_query


def _query_of_rows(X: Any, groups: ArrayLike | None, qid: ArrayLike | None) -> Int64Array:
    """Return the number of each row's query or group, int64[N], in order of appearance."""
    if qid is None:
        table, qid, _ = split_table(with_query_level(X))
    else:
        table = split_table(X, usual=False)[0]
    check_in_step(X=X, groups=groups, qid=qid)
    numbers = [query_numbers(checked_ids(ids)) for ids in (groups, qid) if ids is not None]
    if not numbers:
        raise DataError("splitters need queries: pass groups or qid, or a frame with a column qid")
    rows = table.shape[0] if hasattr(table, "shape") else len(table)
    for ids in numbers:
        if ids.size != rows or not rows:
            raise DataError(
                f"there are {ids.size} query ids for {rows} rows of features; pass one per row"
            )
    if len(numbers) > 1:
        _, uneven = _by_query(*numbers)
        if uneven.size:
            raise DataError(
                f"groups split the query of row {uneven[0]}; all rows of a query must be in the"
                " same group"
            )
    return numbers[0]


def _by_query(values: Int64Array, number: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return one row value per query, int64[Q], and the rows whose value differs from their query's
    value.
    """
    of_query = np.zeros(int(number.max()) + 1, np.int64)
    of_query[number] = values
    return of_query, np.flatnonzero(of_query[number] != values)
