"""Cost model: the peak of anonymous memory and the time of a training, by engine and route.

The constants were measured on `boostrank train` with its default objective and the metrics of the training set each
round; the files, the versions and how far off estimates are: experiments/bench_scale. Times are those of a machine
whose reader parses `_REFERENCE_SPEED`, from `make bench-scale`, and scale with what it parses here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostrank.planning.sample import Survey

# Memory ---------------------------------------------------------------------------------------------------------------

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

# Time -----------------------------------------------------------------------------------------------------------------

_REFERENCE_SPEED = 280e6  # bytes of text a second and thread, parsed in place
_READER_SHARE = 0.5  # of that, when results are put together too
# Bins: a cell and thread; a cell, round and thread with 31 leaves; the power of the leaves that this grows with.
_TIMES = {"lightgbm": (90e-9, 6.6e-9, 0.5), "xgboost": (200e-9, 5e-9, 1.0)}
_START, _COMPILATION = 3.0, 12.0  # seconds: imports and loading of kernels; compiling them
_STREAMED = 30e-9  # to the temporary file and back, a cell
_LOAD = 4e-9  # a cell from the cache
_ROW_ROUND = 150e-9  # a row, round and thread: gradient, metrics
# Linear: products with the rows, there and back, some three times a round; one thread. Kernels as often.
_LINEAR_CELL, _LINEAR_ROW_ROUND = 11e-9, 600e-9
_EXTERNAL_PAGE = 0.12e-9  # a cell, round and leaf: every split reads all pages


@dataclass(frozen=True)
class Work:
    """What is to be trained.

    Args:
        train, valid: the data.
        leaves: of a tree, at most.
        max_bin: bins of a feature, at most.
        threads: how many work.
        rounds: how many are planned.
        compiles: whether the objective must be compiled.
        held_bytes: what is held beside the features in memory: those without their columns within queries, what folds
            of a preset take (`fold_bytes`), and copies of rows.
    """

    train: Survey
    valid: Sequence[Survey] = ()
    leaves: int = 31
    max_bin: int = 255
    threads: int = 1
    rounds: int = 100
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


@dataclass(frozen=True)
class Cost:
    """What one route costs.

    Args:
        peak_bytes: largest anonymous memory of the process.
        first_round_seconds: from the start of the program to the first round.
        round_seconds: a round.
    """

    peak_bytes: float
    first_round_seconds: float
    round_seconds: float

    def seconds(self, rounds: int) -> float:
        """All of it."""
        return self.first_round_seconds + rounds * self.round_seconds


def cost(backend: str, route: str, work: Work) -> Cost | None:
    """None when nobody knows how many rows there are, or what the engine takes.

    Args:
        backend: the engine.
        route: one of its `Engine.routes`.
        work: what is to be trained.
    """
    if backend not in _PEAKS or any(data.rows is None for data in work.data):
        return None
    times = _linear_times(work) if backend == "linear" else _tree_times(backend, route, work)
    return Cost(_PEAKS[backend](route, work) + (work.held_bytes if route == "memory" else 0.0), *times)


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
    """Of `training.cross_fit`, with which `auto` begins: rows, and products of functions."""
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
    columns of few numbers have none (`backends.xgboost.few_values`)."""
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


def _reading(work: Work) -> float:
    """Seconds for all of the text."""
    return sum((one.text_bytes or 0.0) / one.bytes_a_second for one in work.data) / (_READER_SHARE * work.threads)


def _linear_times(work: Work) -> tuple[float, float]:
    first, _ = _tree_times("lightgbm", "again", work)
    a_round = sum((one.rows or 0) * (one.features * _LINEAR_CELL + _LINEAR_ROW_ROUND) for one in work.data)
    return _reading(work) + first, a_round * _REFERENCE_SPEED / work.train.machine


def _tree_times(backend: str, route: str, work: Work) -> tuple[float, float]:
    """(seconds to the first round, seconds a round)."""
    a_bin, a_cell, by_leaves = _TIMES[backend]
    slower = _REFERENCE_SPEED / work.train.machine
    starting = _START + work.compiles * _COMPILATION
    rows, cells = sum(one.rows or 0 for one in work.data), sum((one.rows or 0) * one.features for one in work.data)
    binning = a_bin * cells / work.threads
    a_round = (work.leaves / 31) ** by_leaves * (a_cell * cells + _ROW_ROUND * rows) / work.threads
    if route == "again":
        return slower * (starting + _LOAD * cells), slower * a_round
    if route != "memory":
        binning += _STREAMED * cells
    if route == "external":
        a_round += _EXTERNAL_PAGE * cells * work.leaves
    return _reading(work) + slower * (starting + binning), slower * a_round


_PEAKS = {"lightgbm": _lightgbm_peak, "xgboost": _xgboost_peak, "linear": _linear_peak}
"""Engine -> peak of (route, work): of those that were measured."""
