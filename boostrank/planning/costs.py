"""Cost model: the peak of anonymous memory of a training, by engine and route.

The constants were measured on `boostrank train` with its default objective and the metrics of the training set each
round; the files, the versions and how far off estimates are: experiments/bench_scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostrank.planning.sample import Survey

# The process after imports, with compiled kernels, before it has data; and what reading leaves with the allocator.
_PROGRAM = 180e6
_READER = 20e6
# Compiling the objective, at its first training on a machine; it stays with the process.
_COMPILER = 160e6
# LightGBM's bytes a cell (bins by column and, while it tries which is faster, by row) and a row of a training set
# (labels, scores, gradients and Hessians, order, leaves).
_LGB_CELL, _LGB_ROW = 1.68, 92
# Of a validation set: bins by column; labels, scores.
_VALID_CELL, _VALID_ROW = 1.0, 60
# LightGBM finds bounds in a sample of this many rows: a number and its place for each value that is not 0. Given the
# floats in memory it lets its vectors grow.
_LGB_SAMPLED_ROWS = 200_000
_LGB_SAMPLED_VALUE, _LGB_GROWTH = 13.5, 1.35
# Streamed, the sample is put together from pieces of this many rows, with scratch for each value.
_LGB_PIECE_ROWS, _LGB_SCRATCH = 8192, 30
# Of what the sample of sparse data took, the share that the allocator still holds during training.
_LGB_KEPT = 0.55
# Folds of a preset: the bins of all rows beside those of a training's own two thirds, and what every candidate scores.
_FOLD_CELL, _FOLD_ROW = 0.44, 120
# Names of a column, here, in the engine and in its files.
_COLUMN = 800
# Histograms: sums of gradients and of Hessians; XGBoost keeps those of all nodes, LightGBM's those of the leaves.
_HISTOGRAM_BIN = 16
# The start of `auto`: rows looked at, features and functions of them at most, bytes a pair of functions (five folds,
# three times). A feature has a function of its rank, its value, and of whether it is 0, unless that would be too many.
_START_ROWS, _START_FEATURES, _START_FUNCTIONS, _START_PRODUCTS = 20_000, 2_000, 3, 120
_XGB_NODES_A_LEAF = 3.4
# XGBoost: bins by row and by column; what it has for a row.
_XGB_CELL, _XGB_ROW = 1.6, 60
_XGB_BATCH = 32e6
_XGB_PAGES = 5  # of external memory, which are held at a time
# XGBoost's sketch of a column: levels of entries (src/common/quantile.h; its eps is 1 / (8 max_bin)).
_SKETCH_ENTRY, _SKETCH_FINENESS = 16, 8
# Linear: a row's scores, gradient and curvature, several times over; blocks of rows in float64.
_LINEAR_ROW, _LINEAR_BLOCKS = 150, 100e6


@dataclass(frozen=True)
class Work:
    """What is to be trained.

    Args:
        train, valid: the data.
        leaves: of a tree, at most.
        max_bin: bins of a feature, at most.
        threads: how many work.
        compiles: whether the objective must be compiled.
        held_bytes: what is held beside the features in memory: those without their columns within queries, what folds
            of a preset take (`fold_bytes`), and copies of rows.
    """

    train: Survey
    valid: Sequence[Survey] = ()
    leaves: int = 31
    max_bin: int = 255
    threads: int = 1
    compiles: bool = False
    held_bytes: float = 0.0

    @property
    def data(self) -> tuple[Survey, ...]:
        """The training data and those of validation."""
        return self.train, *self.valid

    @property
    def bins(self) -> int:
        """Of all columns."""
        return int(np.minimum(self.train.distinct, self.max_bin).sum())


def peak_of(backend: str, route: str, work: Work) -> float | None:
    """Largest anonymous memory of the process, in bytes; None: the number of rows, or the engine, is unknown.

    Args:
        backend: the engine.
        route: one of its `Engine.routes`.
        work: what is to be trained.
    """
    if backend not in _PEAKS or any(data.rows is None for data in work.data):
        return None
    return _PEAKS[backend](route, work) + (work.held_bytes if route == "memory" else 0.0)


def float_bytes(data: Survey, columns: int) -> float:
    """Of the features in memory, dense or CSR."""
    rows = data.rows or 0
    return rows * (8.0 * data.nonzero * columns + 8) if data.is_sparse else 4.0 * rows * columns


def fold_bytes(train: Survey, valid: Sequence[Survey]) -> float:
    """Of a preset that trains on folds, beside one training: rows of `valid` join the others, all are held twice."""
    data = (train, *valid)
    joined = sum(float_bytes(one, train.features) for one in data) if valid else 0.0
    return joined + sum((one.rows or 0) * (_FOLD_CELL * train.features + _FOLD_ROW) for one in data)


def _lightgbm_peak(route: str, work: Work) -> float:
    data, columns = work.train, work.train.features
    rows = data.rows or 0
    sampled = min(rows, _LGB_SAMPLED_ROWS) * data.nonzero * columns * _LGB_SAMPLED_VALUE
    histograms = _HISTOGRAM_BIN * work.leaves * work.bins
    growing = work.compiles * _COMPILER + histograms + rows * (_LGB_CELL * columns + _LGB_ROW) + _valid_rows(work)
    # The allocator keeps what each phase leaves.
    program = _PROGRAM + _start(rows, columns)
    if route == "again":
        return program + growing
    kept = _LGB_KEPT * sampled if data.is_sparse else 0.0
    if route == "bins":
        piece = min(rows, _LGB_PIECE_ROWS) * data.nonzero * columns * _LGB_SCRATCH
        return program + max(_READER / 2 + piece + sampled, _READER + growing + kept)
    floats = sum(float_bytes(one, columns) for one in work.data)
    return program + floats + max(_LGB_GROWTH * sampled, _READER + growing + kept)


def _start(rows: int, columns: int) -> float:
    """Of `fit.start.cross_fit`, with which `auto` begins: rows, and products of functions."""
    columns = min(columns, _START_FEATURES)
    functions = _START_FUNCTIONS * columns if _START_FUNCTIONS * columns <= _START_FEATURES else columns
    return 4.0 * min(rows, _START_ROWS) * columns + _START_PRODUCTS * functions**2


def _linear_peak(route: str, work: Work) -> float:
    rows = sum(one.rows or 0 for one in work.data)
    floats = sum(float_bytes(one, work.train.features) for one in work.data)
    return (
        _PROGRAM + _READER + work.compiles * _COMPILER + floats + rows * _LINEAR_ROW + min(_LINEAR_BLOCKS, 3 * floats)
    )


def _xgboost_peak(route: str, work: Work) -> float:
    rows, columns = work.train.rows or 0, work.train.features
    histograms = _HISTOGRAM_BIN * _XGB_NODES_A_LEAF * work.leaves * work.bins
    batch = min(_XGB_BATCH, 4.0 * rows * columns)
    bins = _XGB_CELL * rows * columns
    if route == "external":
        bins = min(bins, _XGB_PAGES * _XGB_CELL * batch / 4)
    phase = max(_sketches(work) + batch, histograms + work.compiles * _COMPILER)
    growing, start = bins + rows * _XGB_ROW + columns * _COLUMN + _valid_rows(work) + phase, _start(rows, columns)
    # What the start leaves with the allocator goes back before rows are fed in pieces.
    apart = route != "memory" or work.train.is_sparse
    peak = _PROGRAM + _READER + (max(start, growing) if apart else start + growing)
    if route == "memory":
        peak += sum(float_bytes(one, columns) for one in work.data)
    return peak


def _sketches(work: Work) -> float:
    """Of all columns: a queue, a scratch of two levels, and the levels, which columns of few values do not fill. Sparse
    columns of few numbers have none (`engines.xgboost.stream`)."""
    rows = work.train.rows or 0
    distinct = work.train.distinct
    if work.train.is_sparse and work.train.nonzero * rows < work.max_bin:
        distinct = distinct[distinct >= work.max_bin]
    fineness = _SKETCH_FINENESS * work.max_bin
    levels, limit = 1, fineness + 1
    while (1 << levels) * limit < rows:
        levels += 1
        limit = levels * fineness + 1
    used = math.ceil(math.log2(rows / (2 * limit) + 1))
    values = np.where(distinct >= work.max_bin, work.train.nonzero * rows, distinct)
    held = np.minimum(values, 2 * limit) + used * np.minimum(values, limit)
    return float(_SKETCH_ENTRY * (min(limit, rows) * values.size + held.sum()))


def _valid_rows(work: Work) -> float:
    return sum((one.rows or 0) * (_VALID_CELL * work.train.features + _VALID_ROW) for one in work.valid)


_PEAKS = {"lightgbm": _lightgbm_peak, "xgboost": _xgboost_peak, "linear": _linear_peak}
"""Engine -> peak of (route, work): of those that were measured."""
