"""Routes of a training: sample the files, estimate the memory of each route, and choose one.

The estimate is a rule: rows x features x bytes, and for wide data the sample for bin bounds or the
histograms. It serves to choose a route. `make experiment NAME=bench-scale` compares it with
measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from boostrank.core.errors import DataError, InputError
from boostrank.core.machine import free_memory
from boostrank.core.text import size_words
from boostrank.core.types import ParamValues
from boostrank.engines import ENGINES
from boostrank.files import blocks as slots
from boostrank.files.source import AnySource, expand, open_files, size_of
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel
from boostrank.options import NO_CACHE, TrainOptions

SAMPLE_BYTES = 12 << 20
"""Files with up to this many bytes of text are read completely."""
_CHUNK_BYTES = 1 << 20
_MOST_FILES = 3

# Bytes.
_PROGRAM = 300e6  # the process after imports, with compiled kernels
_NAME = 350  # a feature name in data, model and record
_CELL = 2.0  # bins by column and by row
_ROW = 100  # labels, scores, gradients and Hessians, order, leaves
_FOLD_ROW = 120  # the same of folds, and their scores
_WIDE = 100  # cells per value above which LightGBM stores entries
_ENTRY = 8  # an entry, in cells
_PAGES = 160e6  # pages of XGBoost's external memory held at a time
_SAMPLED_ROWS, _SAMPLED_VALUE = 200_000, 14  # the sample for LightGBM's bin bounds
_SKETCH, _SKETCHED_VALUE = 256e3, 16  # XGBoost's summary of a column, at most, and of a value
_HISTOGRAM_BIN, _BINS = 16, 255  # sums of gradients and Hessians
_CACHED_DEPTH = 16  # XGBoost keeps the histograms of 65,536 leaves

_WORDS = {
    "memory": "floats in memory",
    "bins": "streamed into bins",
    "external": "streamed, bins on disk too",
}


@dataclass(frozen=True)
class Survey:
    """The size and shape of a data set, estimated from a sample of its files."""

    exact: bool  # all of the text was read
    sampled_rows: int
    refused_rows: int  # rows of the sample that cannot be read
    rows: int | None  # None if a pipe hides the size
    features: int
    used: int  # columns with a value in some row; an upper bound unless exact
    present: float  # fraction of the cells that are given in the text
    nonzero: float  # fraction of the cells that are not 0

    @property
    def is_sparse(self) -> bool:
        """Whether the reader will store the data set as CSR."""
        return self.present < 0.5

    @property
    def float_bytes(self) -> float:
        """The size of the features in memory in bytes, dense or CSR."""
        row_bytes = 4.0 * self.features
        if self.is_sparse:
            row_bytes = 8.0 * self.nonzero * self.features + 8
        return (self.rows or 0) * row_bytes

    def columns(self, backend: str, route: str) -> int:
        """The number of columns that an engine stores. XGBoost stores unused ones, which training
        in memory leaves out if they are most.
        """
        leaves_out = route == "memory" and 2 * self.used <= self.features
        return self.features if backend == "xgboost" and not leaves_out else self.used

    def cells(self, backend: str, route: str) -> float:
        """The number of cells that an engine stores. XGBoost stores every absent value as a zero,
        and a linear model none.
        """
        rows = self.rows or 0
        if backend == "linear":
            return self.float_bytes / 4.0
        if backend == "xgboost":
            return float(rows * self.columns(backend, route))
        cells, entries = rows * self.used, rows * self.nonzero * self.features
        return _ENTRY * entries if self.is_sparse and cells > _WIDE * entries else cells


def survey(source: AnySource, *, format: str = "auto", **options: Any) -> Survey:
    """Read a sample of a few megabytes from files of any size.

    Args:
        source: as for `boostrank.read`. A sample taken from a pipe is lost, because a pipe can be
            read only once.
        format: format of the files.
        options: fields of `boostrank.files.source.Reading`.

    Raises:
        FileFormatError: a file cannot be opened or unpacked.
        DataError: no row of the sample can be read.
    """
    files = expand(source)
    sizes = [size_of(file) for file in files]
    options |= {"on_bad_line": "skip", "strict": False}
    # Add up the blocks of rows from the beginnings of some files.
    sampled_files = _sampled(sizes)
    exact = len(sampled_files) == len(files)
    counts, used, has_zero = slots.no_counts(), set[int](), False
    sampled_rows = nonzero = 0
    sampled_disk = 0.0  # bytes on disk of the sample
    for i, sampled_bytes in sampled_files.items():
        spec, opened = open_files([files[i]], format, **options)
        file, text, rows = opened.first, 0, 0
        with closing(opened):
            for _, block in opened.blocks(_CHUNK_BYTES, 1):
                if text >= sampled_bytes:
                    exact = False
                    break
                text += block.size
                rows += block.n_rows
                counts[slots.ADDED_UP] += block.counts[slots.ADDED_UP]
                counts[slots.TOP_ID] = max(counts[slots.TOP_ID], block.counts[slots.TOP_ID])
                has_zero |= bool(block.counts[slots.ZERO_LINE])
                if block.n_rows:
                    if block.dense is not None:
                        used.update(range(block.dense.shape[1]))
                    _, columns, values = block.cells()
                    used.update(np.unique(columns).tolist())
                    nonzero += int(np.count_nonzero(values))
        sampled_rows += rows
        # The whole text is assumed to expand like its beginning. A file of batches knows its rows.
        if file.is_packed:
            sampled_disk += text * file.done / max(1, file.text_bytes)
        else:
            sampled_disk += (file.total or 0) * rows / file.rows if file.rows else text
    if not sampled_rows:
        form = "`label qid:ID number:value ...`"
        if spec.is_table:
            form = "labels, query ids and numbers"
        raise DataError(f"{files[0]}: no row of the sample can be read as {form}")
    # Extrapolate to all files.
    total_rows = sampled_rows if exact else None
    if not exact and None not in sizes:
        total_rows = round(sum(filter(None, sizes)) * sampled_rows / sampled_disk)
    base = int(not has_zero) if opened.base is None else opened.base
    features = int(counts[slots.TOP_ID]) + 1 - base
    cells = sampled_rows * features or 1
    growth = (total_rows or sampled_rows) / sampled_rows
    return Survey(
        exact=exact,
        sampled_rows=sampled_rows,
        refused_rows=int(counts[slots.BAD_ROWS]),
        rows=total_rows,
        features=features,
        used=min(features, round(len(used) * max(1.0, growth))),
        present=int(counts[slots.CELLS]) / cells,
        nonzero=nonzero / cells,
    )


def is_pipe(source: AnySource) -> bool:
    """Return whether some source can be read only once, so that a sample would be lost."""
    return any(size_of(file) is None for file in expand(source))


def _sampled(sizes: Sequence[int | None]) -> dict[int, float]:
    """Return the number of bytes to read from the beginning of each sampled file."""
    if None in sizes:
        return {sizes.index(None): SAMPLE_BYTES}
    ends = np.cumsum([size or 0 for size in sizes])
    if ends[-1] <= SAMPLE_BYTES:
        return dict.fromkeys(range(len(sizes)), SAMPLE_BYTES)
    starts = np.linspace(0, ends[-1], _MOST_FILES, endpoint=False)
    files = np.unique(np.searchsorted(ends, starts, side="right")).tolist()
    return dict.fromkeys(files, SAMPLE_BYTES / len(files))


@dataclass(frozen=True)
class Route:
    """A way for an engine to store the features, with its peak memory in bytes, which is infinite
    if unknown, and the reason for its choice.
    """

    backend: str
    name: str
    peak: float
    why: str = ""

    @property
    def options(self) -> str:
        """The options of `boostrank train` that select this route."""
        return f"--backend {self.backend} --route {self.name}"

    @property
    def words(self) -> str:
        """The route in a few words."""
        return _WORDS[self.name]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The training for which a route is planned."""

    train: Survey
    valid: Sequence[Survey] = ()
    added: int = 0  # columns within queries, in addition to the features
    copies: float = 0.0  # additional copies of the rows in memory
    leaves: int = 31  # of a tree
    folds: bool = False  # models train on folds of the rows


def most_leaves(params: ParamValues, backend: str) -> int:
    """Return the largest number of leaves that a tree may have, given the engine's parameters."""
    leaves = int(params.get("num_leaves") or params.get("max_leaves") or 0)
    if leaves:
        return leaves
    # XGBoost limits only the depth, if it is given.
    depth = int(params.get("max_depth") or 0)
    if backend == "xgboost" and depth > 0:
        return 1 << min(depth, _CACHED_DEPTH)
    return 31


def routes_of(work: Work, backend: str = "lightgbm") -> tuple[Route, ...]:
    """Return all routes of the installed engines and of the engine `backend`."""
    return tuple(
        Route(engine, name, peak_of(engine, name, work))
        for engine in ENGINES
        if engine == backend or find_spec(engine) is not None
        for name in ENGINES[engine].routes
    )


def find_route(
    work: Work, *, backend: str = "lightgbm", route: str = "auto", limit: float | None = None
) -> Route:
    """Return the route for a training, with the reason for it.

    Args:
        backend: name of the engine.
        route: "memory", "bins", "external", or "auto" for the first route below the limit.
        limit: limit on anonymous memory in bytes, or None for the free memory, with `auto` at most
            half for floats.

    Raises:
        InputError: no route fits.
    """
    routes = routes_of(work, backend)
    names = ENGINES[backend].routes if route == "auto" else (route,)
    candidates = [
        candidate
        for candidate in routes
        if candidate.backend == backend and candidate.name in names
    ]
    bound = free_memory() if limit is None else limit
    if math.isinf(candidates[0].peak):
        candidate = candidates[0] if limit is None else candidates[-1]
        return replace(candidate, why="its memory is unknown")
    size = size_words(bound)
    memory, state = f"the limit of {size}", f"--memory-limit is {size}"
    if limit is None:
        memory, state = f"the {size} that are free", f"only {size} are free"
    for candidate in candidates:
        # Floats leave half of the free memory to other programs. Streamed rows need little.
        is_halved = limit is None and route == "auto" and candidate.name == "memory"
        if candidate.peak <= (bound / 2 if is_halved else bound):
            why = "it fits in " + ("half of " * is_halved) + memory
            if candidate is not candidates[0]:
                why += f"; {candidates[0].words} would take {size_words(candidates[0].peak)}"
            return replace(candidate, why=why)
    # Name the required memory, and the first change that would fit.
    smallest = min(candidates, key=lambda candidate: candidate.peak)
    remedy = (
        "try a part of the queries (boostrank data sample --queries 10%); the program alone takes"
        f" about {size_words(_PROGRAM)}"
    )
    fitting = next((candidate for candidate in routes if candidate.peak <= bound), None)
    if fitting is not None:
        remedy = f"{fitting.options} would take about {size_words(fitting.peak)}"
    raise InputError(
        f"training would take about {size_words(smallest.peak)} ({smallest.options}), and {state}:"
        f" {remedy}"
    )


def peak_of(backend: str, route: str, work: Work) -> float:
    """Return the process's peak anonymous memory in bytes, or infinity if the number of rows is
    unknown.
    """
    data = (work.train, *work.valid)
    if any(survey.rows is None for survey in data):
        return math.inf
    total, copies = _PROGRAM + _NAME * work.train.features, 1.0 + work.copies
    if work.added:  # rows without the columns within queries stay beside those with them
        copies += 1.0
    growing, row_bytes = 0.0, _ROW + _FOLD_ROW * work.folds
    for survey in data:
        rows = survey.rows or 0
        added = rows * work.added
        bins = _CELL * (survey.cells(backend, route) + added)
        growing += rows * row_bytes + (min(bins, _PAGES) if route == "external" else bins)
        if route == "memory":
            total += copies * survey.float_bytes + 4.0 * added
    if backend == "linear":
        return total + growing
    # The bounds of bins are found before trees grow.
    train, rows = work.train, work.train.rows or 0
    columns = train.columns(backend, route) + work.added
    values = train.nonzero * train.features + work.added  # of a row
    finding = _SAMPLED_VALUE * min(rows, _SAMPLED_ROWS) * values
    if backend == "xgboost":
        cells = train.cells(backend, route) + rows * work.added
        finding = min(_SKETCHED_VALUE * cells, _SKETCH * columns)
    histograms = _HISTOGRAM_BIN * work.leaves * min(_BINS * columns, rows * values + columns)
    return total + max(finding, growing + histograms)


def wanted_route(options: TrainOptions, route: str, cache: str | None) -> str:
    """Return the route that the options `route` and `cache` ask for, or "auto".

    Raises:
        InputError: the training does not have the route, or the route does not use a cache.
    """
    engine = ENGINES[options.backend]
    routes = ("memory",) if options.folds else engine.routes
    keeps_bins = cache not in (None, NO_CACHE)
    if routes == ("memory",):
        if keeps_bins or route not in ("auto", "memory"):
            cause = "--folds" if options.folds else options.backend
            raise InputError(
                f"--route and --cache cannot be used: {cause} trains on rows in memory"
            )
        return "memory"
    if route == "external" and route not in routes:
        raise InputError("--route external needs --backend xgboost")
    if keeps_bins and route == "memory":
        raise InputError("--route memory and --cache cannot be used together")
    return "bins" if route == "auto" and keeps_bins else route


def choose_route(
    files: Sequence[Any],
    options: TrainOptions,
    reading: Mapping[str, Any],
    *,
    route: str,
    limit: int | None,
    copies: float,
    leaves: int,
    init_model: RankingModel | None = None,
) -> tuple[str, str]:
    """Return the route for a training, and a line about its memory.

    Args:
        files: the training set and the validation sets.
        reading: options of `survey`.
        route, limit: as for `find_route`.
        copies, leaves: as in `Work`.
        init_model: the model to continue, if any.

    Raises:
        InputError: every route exceeds the limit.
    """
    if any(map(is_pipe, files)):
        if route == "auto":
            route = "memory" if limit is None else ENGINES[options.backend].routes[-1]
        return route, f"plan: --route {route}; its memory is unknown, as is the size of a pipe"
    try:
        train, *valid = surveys = [survey(source, **reading) for source in files]
        is_strict = reading.get("on_bad_line", "stop") == "stop"
        is_refused = is_strict and any(sampled.refused_rows for sampled in surveys)
    except DataError:
        is_refused = True
    if is_refused:  # the reader will report the place
        return ("memory" if route == "auto" else route), ""
    n_added = 0
    query_columns = WithinQuery.of_options(options)
    if query_columns is not None:
        n_added = len(query_columns.kinds) * (
            train.features if query_columns.of is None else len(query_columns.of)
        )
    elif init_model is not None:
        n_added = len(init_model.column_names) - init_model.n_features
    work = Work(
        train=train,
        valid=valid,
        added=n_added,
        copies=copies,
        leaves=leaves,
        folds=options.on_folds,
    )
    best_route = find_route(work, backend=options.backend, route=route, limit=limit)
    shape = f"{train.rows:,} rows x {train.features:,} features"
    if not train.exact:
        shape = f"about {shape}"
    if n_added:
        shape += f" and {n_added:,} columns within queries"
    memory = f"{size_words(best_route.peak)} ({best_route.why})"
    return best_route.name, f"plan: {shape}, {best_route.words}: {memory}"
