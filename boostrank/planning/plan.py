"""Plan of a training: every route with its memory, and the one to take.

Memory is counted in bytes of what a route holds: floats, bins, and numbers a row. It is meant to choose a route, not to
forecast the peak to the megabyte; `make bench-scale` compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from boostrank.core.errors import InputError
from boostrank.core.machine import free_memory, resolve_threads
from boostrank.core.text import size_words
from boostrank.engines import ENGINES
from boostrank.planning.sample import Survey

# In memory, other work on the machine keeps half of what is free; streamed data are made to need little.
_SHARE = {"memory": 0.5, "bins": 1.0, "external": 1.0}
_LEAVES = ("num_leaves", "num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes")
_BINS = ("max_bin", "max_bins")
_FRACTIONS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)

_PROGRAM = 300e6  # the process after imports, with compiled kernels
_NAME = 350  # a feature's name, in data, model and sidecar
_CELL = 1.7  # bins by column, and by row
_WIDE, _ENTRY = 100, 8  # XGBoost holds sparse data as entries from 100 cells per value; an entry takes 8 cells
_ROW = 100  # labels, scores, gradients and Hessians, order, leaves
_VALID_CELL, _VALID_ROW = 1.0, 60
_HISTOGRAM_BIN = 16  # sums of gradients and of Hessians
_SAMPLED_ROWS, _SAMPLED_VALUE = 200_000, 14  # from which LightGBM finds the bounds of bins
_SKETCHED_VALUE, _SKETCH = 16, 16_000  # XGBoost's summary of a column: bytes a value, values at most
_PAGES = 160e6  # of XGBoost's external memory, which are held at a time
_FOLD_CELL, _FOLD_ROW = 0.44, 120  # folds of a preset: bins of all rows, and what every candidate scores
_START_ROWS, _START_FEATURES, _START_PAIR = 20_000, 2_000, 120  # of the start: rows and features looked at, a product

_WORDS = {
    "memory": "floats in memory",
    "bins": "streamed into bins",
    "again": "second start, bins from the cache",
    "external": "streamed, bins on disk too",
}


@dataclass(frozen=True)
class Route:
    """How an engine may hold the features, and its memory at the peak in bytes; None if unknown."""

    backend: str
    name: str
    peak: float | None

    @property
    def options(self) -> str:
        """Of the command line, that choose it."""
        return f"--backend {self.backend} --route {'bins' if self.name == 'again' else self.name}"

    @property
    def peak_bytes(self) -> float:
        """Memory at its peak; infinite if unknown."""
        return float("inf") if self.peak is None else self.peak

    @property
    def words(self) -> str:
        """What it is."""
        return _WORDS[self.name]


@dataclass(frozen=True)
class Work:
    """A training: data sizes and options.

    Args:
        train, valid: the data.
        leaves: of a tree, at most.
        max_bin: bins of a feature, at most.
        threads: number of threads.
        held_bytes: what is held beside the features in memory: those without their columns within queries, folds of a
            preset (`fold_bytes`), and copies of rows.
    """

    train: Survey
    valid: Sequence[Survey] = ()
    leaves: int = 31
    max_bin: int = 255
    threads: int = 1
    held_bytes: float = 0.0


@dataclass(frozen=True)
class Plan:
    """All routes, and the chosen one.

    Args:
        work: the training.
        routes: of every engine that is installed.
        chosen: one of them; None when none may be taken, and `refusal` says so.
        why: it was chosen.
        limit_bytes: that it must stay under.
        refusal: the number, and what would fit; None if one was chosen.
    """

    work: Work
    routes: tuple[Route, ...]
    chosen: Route | None
    why: str
    limit_bytes: float
    refusal: str | None = None

    def check(self) -> Route:
        """The chosen route.

        Raises:
            InputError: there is none.
        """
        if self.chosen is None:
            raise InputError(self.refusal)
        return self.chosen


def make_plan(
    train: Survey,
    valid: Sequence[Survey] = (),
    *,
    backend: str = "lightgbm",
    route: str = "auto",
    limit: float | None = None,
    params: Mapping[str, Any] | None = None,
    threads: int | None = None,
    added: int = 0,
    folds: bool = False,
    copies: float = 0.0,
) -> Plan:
    """Return the plan of a training.

    Args:
        train, valid: surveys of the data.
        backend: the engine.
        route: "memory", "bins", "external", or "auto": the first of them that stays under the limit.
        limit: bytes of anonymous memory. None: what the machine leaves, of which floats in memory may take half.
        params: of the engine; leaves and bins count.
        threads: as for `boostrank.train`.
        added: columns within queries, in addition to the features.
        folds: whether a preset trains on folds of all rows, which are put together for it.
        copies: of the training rows, in addition to those that are read.
    """
    held = sum(map(float_bytes, (train, *valid))) if added else 0.0
    train, *valid = (one.with_columns(added) if added else one for one in (train, *valid))
    held += fold_bytes(train, valid) if folds else 0.0
    held += copies * float_bytes(train) if copies else 0.0
    given = params or {}
    leaves = next((given[name] for name in _LEAVES if name in given), None)
    if leaves is None:
        depth = int(given.get("max_depth", 0) or 0)
        leaves = min(2**depth, 2**20) if depth > 0 else 31
    max_bin = next((given[name] for name in _BINS if name in given), 255)
    work = Work(train, tuple(valid), int(leaves), int(max_bin), resolve_threads(threads), held)
    engines = [name for name in ENGINES if name == backend or find_spec(name) is not None]
    routes = tuple(Route(name, one, peak_of(name, one, work)) for name in engines for one in ENGINES[name].routes)
    bound = free_memory() if limit is None else limit
    candidates = [
        one for one in routes if one.backend == backend and one.name != "again" and route in ("auto", one.name)
    ]

    def fits(candidate: Route) -> bool:
        share = 1.0 if limit is not None or route != "auto" else _SHARE[candidate.name]
        return candidate.peak_bytes <= share * bound

    if candidates[0].peak is None:
        chosen = candidates[0] if limit is None else candidates[-1]
        why = "the length of a pipe is unknown" if train.rows is None else f"the memory of {backend} is not measured"
        why += "" if limit is None else ": the route that needs least"
        return Plan(work, routes, chosen, why, bound)
    fitting = next(filter(fits, candidates), None)
    if fitting is None:
        refusal = _refusal(candidates, routes, work, bound, limited=limit is not None)
        return Plan(work, routes, None, "", bound, refusal)
    return Plan(work, routes, fitting, _why(fitting, candidates, route, bound, limited=limit is not None), bound)


def peak_of(backend: str, route: str, work: Work) -> float | None:
    """Return the largest anonymous memory of the process, in bytes; None if rows or engine are unknown.

    Args:
        backend: the engine.
        route: one of its `Engine.routes`.
        work: the training.
    """
    if backend not in ("lightgbm", "xgboost", "linear") or any(one.rows is None for one in (work.train, *work.valid)):
        return None
    rows, columns = work.train.rows or 0, work.train.used
    floats = sum(map(float_bytes, (work.train, *work.valid)))
    held = floats + work.held_bytes if route == "memory" else 0.0
    if backend == "linear":
        return _PROGRAM + held + floats / 2 + sum(one.rows or 0 for one in (work.train, *work.valid)) * _ROW
    values = work.train.nonzero * work.train.features
    histograms = _HISTOGRAM_BIN * work.leaves * min(work.max_bin * columns, rows * values + columns)
    bins = _CELL * _cells(work.train)
    growing = rows * _ROW + sum(_VALID_CELL * _cells(one) + (one.rows or 0) * _VALID_ROW for one in work.valid)
    if backend == "xgboost":
        bins = min(bins, _PAGES) if route == "external" else bins
        finding: float = _SKETCHED_VALUE * min(_cells(work.train), _SKETCH * columns)
    else:
        finding = 0.0 if route == "again" else _SAMPLED_VALUE * min(rows, _SAMPLED_ROWS) * values
    looked_at = min(columns, _START_FEATURES)
    start = 4.0 * min(rows, _START_ROWS) * looked_at + _START_PAIR * looked_at**2
    return _PROGRAM + _NAME * work.train.features + start + held + max(finding, bins + growing + histograms)


def float_bytes(data: Survey) -> float:
    """Return the bytes of the features in memory, dense or CSR."""
    rows = data.rows or 0
    return rows * (8.0 * data.nonzero * data.features + 8) if data.is_sparse else 4.0 * rows * data.features


def _cells(data: Survey) -> float:
    """Return the number of cells that an engine holds: no column that no row names."""
    rows = data.rows or 0
    cells, entries = rows * data.used, rows * data.nonzero * data.features
    return _ENTRY * entries if data.is_sparse and cells > _WIDE * entries else cells


def fold_bytes(train: Survey, valid: Sequence[Survey]) -> float:
    """Return the bytes of a preset's folds: rows of `valid` join the others, and all are held twice."""
    data = (train, *valid)
    joined = sum(map(float_bytes, data)) if valid else 0.0
    return joined + sum(_FOLD_CELL * _cells(one) + (one.rows or 0) * _FOLD_ROW for one in data)


def _why(chosen: Route, candidates: Sequence[Route], route: str, bound: float, *, limited: bool) -> str:
    name = f"the limit of {size_words(bound)}" if limited else f"the {size_words(bound)} that are free"
    if route != "auto":
        return f"asked for; it fits in {name}"
    skipped = candidates[: candidates.index(chosen)]
    half = "half of " if not limited and (skipped[-1] if skipped else chosen).name == "memory" else ""
    if not skipped:
        return f"the quickest that fits in {half}{name}"
    return f"it fits in {name}; {skipped[-1].words} would take {size_words(skipped[-1].peak_bytes)}, over {half}it"


def _refusal(candidates: Sequence[Route], routes: Sequence[Route], work: Work, bound: float, *, limited: bool) -> str:
    """The number, and the first change that would fit."""
    least = min(candidates, key=lambda one: one.peak_bytes)
    name = f"--memory-limit is {size_words(bound)}" if limited else f"only {size_words(bound)} are free"
    words = f"training would take about {size_words(least.peak_bytes)} ({least.options}), and {name}"
    other = next((one for one in routes if one.name != "again" and one.peak_bytes <= bound), None)
    if other is not None:
        return f"{words}: {other.options} would take about {size_words(other.peak_bytes)}"
    for share in _FRACTIONS:
        train = replace(work.train, rows=round((work.train.rows or 0) * share))
        changed = peak_of(least.backend, least.name, replace(work, train=train))
        if changed is not None and changed <= bound:
            part = f"a part of the queries (boostrank data sample --queries {100 * share:g}%)"
            return f"{words}: {part} would take about {size_words(changed)} with {least.options}"
    return f"{words}: nothing fits in that, the program alone takes about {size_words(_PROGRAM)}"
