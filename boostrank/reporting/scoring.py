"""Scores of documents with changed features, and of some of the trees."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from boostrank.core.errors import DataWarning
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.kernels.curves import Curves
from boostrank.kernels.forest import Forest, Walker
from boostrank.model.ranking_model import RankingModel

# Number of score changes in memory per thread (32 MB).
_CHANGES = 1 << 22


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


def some_trees(forest: Forest, begin: int, end: int, start: Curves | None = None) -> Forest:
    """Return the trees `begin` to `end` (exclusive) with another start; node and leaf numbers
    stay.
    """
    tree = np.clip(forest.tree - begin, 0, max(0, end - begin - 1))
    return replace(forest, roots=forest.roots[begin:end], tree=tree, start=start)
