"""Score files of any size in constant memory.

Trees are evaluated by `kernels.forest`, several times as fast as LightGBM and bit-identical. Before a file is
scored, this is verified on rows at and next to every threshold; if it fails, the engine scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.core.types import Float32Array, Int64Array
from boostrank.data.assemble import Named, pieces_of_files
from boostrank.kernels.forest import Forest, Scorer
from boostrank.model.ranking_model import RankingModel, check_finite

_PROOF_ROWS = 512
_ODD = np.array([np.nan, 0.0, -0.0, 1e-36, -1e-36, 2e-35, 1e-40, -3.4e38, 3.4e38, np.inf, -np.inf], np.float32)


def scores_of_files(
    model: RankingModel, source: Any, *, num_iteration: int | None = None, threads: int | None = None, **options: Any
) -> Iterator[Any] | None:
    """Score the rows of files in order, one block at a time; return None if all rows must be in memory.

    Yield float64[n], or `Named` scores with the reader option `keep_names`.

    That is the case where a score depends on other rows (columns within queries; linear models, whose sums depend on
    neighbouring rows in the last bit), and where absent entries of sparse rows
    are missing (whether rows are sparse depends on all of them).

    Raises:
        FileFormatError: as the reader, and a row with a feature that the model does not have.
        ModelError: a score that is not finite.
    """
    if not model.scores_rows_alone or model.absent_is_missing:
        return None
    scorer = compiled_scorer(model, num_iteration)
    if scorer is None:
        columns, work = None, lambda rows: model.predict(rows, num_iteration=num_iteration, threads=threads)
    else:
        columns, work = scorer.columns, scorer.scores
    pieces = pieces_of_files(source, work, columns=columns, threads=threads, **options)
    return _finite(pieces)


def _finite(pieces: Iterator[Any]) -> Iterator[Any]:
    first = 0
    for piece in pieces:
        scores = piece.values if isinstance(piece, Named) else piece
        check_finite(scores, first)
        first += scores.size
        yield piece


def compiled_scorer(model: RankingModel, num_iteration: int | None = None) -> Scorer | None:
    """Return a scorer that matches `RankingModel.predict` bit for bit; None if there is none."""
    trees = model.trees(num_iteration)
    if trees.forest is None:
        return None
    try:
        scorer = Scorer(trees.forest, double=trees.double)
    except ValueError:
        return None
    rows = _rows_at_thresholds(trees.forest, scorer.columns, model.n_features)
    try:
        expected = model.predict(rows, num_iteration=num_iteration, threads=1)
    except ModelError:  # artificial rows may overflow where real ones do not
        return None
    same = np.array_equal(scorer.scores(np.ascontiguousarray(rows[:, scorer.columns])), expected)
    return scorer if same else None


def _rows_at_thresholds(forest: Forest, columns: Int64Array, n_features: int) -> Float32Array:
    """Create float32[n, d] rows with values at and next to the thresholds, zeros and missing values."""
    rng = np.random.default_rng(0)
    start = forest.start
    rows = np.zeros((_PROOF_ROWS, n_features), np.float32)
    for column in columns.tolist():
        ends = [forest.threshold[forest.feature == column], np.zeros(1)]
        if start is not None:
            of_start = np.repeat(start.feature == column, np.diff(start.ptr))
            ends.append(start.bounds[of_start])
        with np.errstate(over="ignore"):
            near = np.concatenate(ends).astype(np.float32)
        near = rng.choice(near[np.isfinite(near)], _PROOF_ROWS)
        beside = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
        # Mix in zeros, subnormals, infinities and missing values.
        near = np.choose(rng.integers(0, 3, _PROOF_ROWS), beside)
        rows[:, column] = np.where(rng.random(_PROOF_ROWS) < 0.1, rng.choice(_ODD, _PROOF_ROWS), near)
    return rows
