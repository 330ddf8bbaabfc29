"""Folds of whole queries: each held out once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.types import Int64Array
from boostrank.data.dataset import RankingDataset


def query_folds(data: RankingDataset, folds: int, seed: int) -> list[tuple[RankingDataset, RankingDataset]]:
    """(to train on, held out) of each fold, of whole queries at random, about as many in each.

    Raises:
        ParameterError: less than two folds, or more than queries.
        DataError: rows that lie on disk.
    """
    fold = fold_numbers(data, folds, seed) % folds
    return [(data.take(np.flatnonzero(fold != f)), data.take(np.flatnonzero(fold == f))) for f in range(folds)]


def fold_numbers(
    data: RankingDataset, folds: int, seed: int, counted: npt.NDArray[np.bool_] | None = None
) -> Int64Array:
    """int64[Q]: the numbers from 0 to Q - 1 at random; modulo `folds` they are the folds of the queries.

    Args:
        data, folds, seed: as of `query_folds`.
        counted: bool[Q], the queries that a metric counts: where chance would leave a fold with less than two of them,
            they are dealt first, so that each fold gets as many; None: all are alike.

    Raises:
        ParameterError, DataError: as of `query_folds`.
    """
    count = len(data.queries)
    if not 2 <= folds <= count:
        raise ParameterError(f"folds={folds}: from 2 to the number of training queries, {count}")
    if data.on_disk:
        raise DataError("rows that lie on disk cannot be put into folds: read them to memory (--route memory)")
    numbers = np.random.default_rng(seed).permutation(count)
    if counted is not None and np.bincount(numbers[counted] % folds, minlength=folds).min() < 2:
        numbers[np.lexsort((numbers, ~counted))] = np.arange(count)
    return numbers
