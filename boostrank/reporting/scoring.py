"""Scoring of documents with changed features, which walks the trees for blocks of queries."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataWarning
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.rows import DenseRows
from boostrank.kernels.forest import Forest, Walker
from boostrank.kernels.jit import run_parallel
from boostrank.metrics import BoundMetrics, Metric
from boostrank.model.ranking_model import RankingModel

# Number of score changes in memory per thread (32 MB).
_CHANGES = 1 << 22

T = TypeVar("T")

DocumentProgress = Callable[[int, int], None] | None
"""A function of the number of finished documents and the number of all documents, if any."""


class Engine(NamedTuple):
    """Scores from the engine, of models that a `kernels.forest.Walker` cannot score, with the same
    methods.

    Args:
        columns: int64[c], features in the rows, which must include those that the model uses.
    """

    model: RankingModel
    columns: Int64Array
    threads: int

    def scores(self, rows: Float32Array) -> Float64Array:
        """Return the scores, float64[n], of rows, float32[n, c]."""
        features = np.zeros((rows.shape[0], self.model.n_features), np.float32)
        features[:, self.columns] = rows
        with warnings.catch_warnings():  # of unknown category codes
            warnings.simplefilter("ignore", DataWarning)
            return self.model.predict(features, threads=self.threads)

    def changes(
        self, rows: Float32Array, changed_rows: Float32Array, unit_of_column: Int64Array, units: int
    ) -> Iterator[Float64Array]:
        """Yield the scores with the columns of each unit changed, float64[n]."""
        for unit in range(units):
            yield self.scores(np.where(unit_of_column == unit, changed_rows, rows))


def changed_scores(
    scorer: Engine | Walker,
    rows: Float32Array,
    changed_rows: Float32Array,
    unit_of_column: Int64Array,
    n_units: int,
) -> Iterator[tuple[int, Float64Array]]:
    """Yield each unit and the scores of the rows with its columns changed, float64[n].

    They are computed in batches that fit in a thread's memory.
    """
    batch_size = max(1, _CHANGES // max(1, rows.shape[0]))
    for first in range(0, n_units, batch_size):
        size = min(batch_size, n_units - first)
        in_batch = (first <= unit_of_column) & (unit_of_column < first + size)
        units = np.where(in_batch, unit_of_column - first, -1)
        changed = scorer.changes(rows, changed_rows, units, size)
        yield from enumerate(changed, first)


def over_blocks(
    work: Callable[[slice, slice], T],
    rows: DenseRows,
    threads: int,
    progress: DocumentProgress = None,
) -> list[T]:
    """Call `work(queries, documents)` in threads for blocks of some thousand documents. Return the
    results in order.
    """
    ptr, lock, finished = rows.data.queries.ptr, threading.Lock(), 0

    def run_block(query_span: tuple[int, int]) -> T:
        nonlocal finished
        documents = slice(int(ptr[query_span[0]]), int(ptr[query_span[1]]))
        result = work(slice(*query_span), documents)
        with lock:
            finished += documents.stop - documents.start
            if progress is not None:
                progress(finished, int(ptr[-1]))
        return result

    return run_parallel(run_block, rows.blocks(), threads)


def measure_blocks(
    work: Callable[[slice, slice, BoundMetrics], None],
    rows: DenseRows,
    metric: Metric,
    conventions: Conventions,
    threads: int,
    progress: DocumentProgress = None,
) -> None:
    """Call `work(queries, documents, bound)` as `over_blocks` does, with the metric bound to the
    queries, to be evaluated on one thread.

    Raises:
        DataError: the metric is undefined on the data.
    """
    data, all_queries = rows.data, rows.data.queries
    BoundMetrics([metric], data.labels, queries=all_queries, conventions=conventions)

    def measure_block(queries: slice, documents: slice) -> None:
        ptr = all_queries.ptr[queries.start : queries.stop + 1] - documents.start
        bound = BoundMetrics(
            [metric],
            data.labels[documents],
            queries=QueryIndex(ptr, all_queries.qid[queries]),
            conventions=conventions,
            threads=1,
            partial=True,
        )
        work(queries, documents, bound)

    over_blocks(measure_block, rows, threads, progress)


def start_alone(forest: Forest) -> Forest:
    """Return a ranker that consists of the linear start without the trees."""
    return replace(forest, roots=forest.roots[:0], tree=np.zeros_like(forest.tree))
