"""Scores of documents whose features take other values: by walking the trees here, or else by the engine."""

from __future__ import annotations

import numpy as np

from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import DenseRows
from boostrank.formats.trees import Trees
from boostrank.kernels.trees.walker import Walker
from boostrank.report.sections.importance.permutation_importance import Scorer
from boostrank.training.model import RankingModel

# Rows on which the walk is compared with the engine.
_COMPARED = 1000


class Engine:
    """A `Scorer` by the engine's own predict, which it calls once for each unit.

    Args:
        model: whose engine.
        columns: int64[c], the features that rows hold; all that the trees use are among them.
        threads: of the engine.
    """

    def __init__(self, model: RankingModel, columns: Int64Array, threads: int) -> None:
        self._model, self._columns, self._threads = model, columns, threads

    def scores(self, rows: Float32Array) -> Float64Array:
        """float64[n] of float32[n, c]."""
        return self._model.predict(self._full(rows), threads=self._threads)

    def changes(self, rows: Float32Array, other: Float32Array, unit: Int64Array, units: int) -> Float64Array:
        """As `kernels.trees.walker.Walker.changes`."""
        changed = [self.scores(np.where(unit == u, other, rows)) for u in range(units)]
        return np.array(changed).reshape(units, rows.shape[0])

    def parts(self, rows: Float32Array) -> Float64Array:
        """float64[n, c], what each feature adds to the score of each row, by TreeSHAP.

        Raises:
            ModelError: the engine cannot tell.
        """
        return self._model.contributions(self._full(rows), threads=self._threads)[:, self._columns]

    def _full(self, rows: Float32Array) -> Float32Array:
        full = np.zeros((rows.shape[0], self._model.n_features), np.float32)
        full[:, self._columns] = rows
        return full


def scorer_of(model: RankingModel, trees: Trees, data: RankingDataset, threads: int) -> tuple[Scorer, str]:
    """The walker where it gives the engine's scores, on some rows of this data; and "walk", or why it is not used."""
    engine = Engine(model, trees.used, threads)
    if trees.forest is None:
        return engine, trees.why_not
    rows = DenseRows(data, trees.used, model.absent_is_missing)
    reach = None if trees.forest.start is None else rows.reach(threads)
    try:
        walker = Walker(trees.forest, trees.used, reach)
    except ValueError as error:
        return engine, str(error)
    some = rows[: min(_COMPARED, data.n_documents)]
    expected = engine.scores(some)
    difference = walker.scores(some) - expected
    # XGBoost adds float32 numbers up; its scores also hold a constant that is not in the trees.
    accuracy = 1e-9 if trees.double else 1e-5
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    if difference.size and float(np.ptp(difference)) > accuracy * scale:
        return engine, f"the trees as read differ from {model.backend}'s scores by {np.ptp(difference):.2g}"
    return walker, "walk"
