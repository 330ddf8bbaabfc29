"""Plan of a training: every route with its memory, and the one to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from boostrank.core.errors import InputError
from boostrank.core.machine import free_memory, resolve_threads
from boostrank.core.text import size_words
from boostrank.engines import ENGINES
from boostrank.kernels.runtime.jit import cache_directory, is_kept
from boostrank.objective.description import TrainingObjective
from boostrank.planning.costs import Work, float_bytes, fold_bytes, peak_of
from boostrank.planning.sample import Survey

# In memory, other work on the machine keeps half of what is free; streamed data are made to need little.
_SHARE = {"memory": 0.5, "bins": 1.0, "external": 1.0}
_LEAVES = ("num_leaves", "num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes")
_BINS = ("max_bin", "max_bins")
_FRACTIONS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
_FEWER_LEAVES = (15, 7)

_WORDS = {
    "memory": "floats in memory", "bins": "streamed into bins", "again": "second start, bins from the cache",
    "external": "streamed, bins on disk too",
}  # fmt: skip


@dataclass(frozen=True)
class Route:
    """How an engine may hold the features, and its memory at the peak in bytes; None: nobody knows."""

    backend: str
    name: str
    peak: float | None

    @property
    def options(self) -> str:
        """Of the command line, that choose it."""
        return f"--backend {self.backend} --route {'bins' if self.name == 'again' else self.name}"

    @property
    def peak_bytes(self) -> float:
        """Memory at its peak; infinite when nobody knows."""
        return float("inf") if self.peak is None else self.peak

    @property
    def words(self) -> str:
        """What it is."""
        return _WORDS[self.name]


@dataclass(frozen=True)
class Plan:
    """All routes, and the chosen one.

    Args:
        work: what is to be trained.
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
    train: Survey, valid: Sequence[Survey] = (), *, backend: str = "lightgbm", route: str = "auto",
    limit: float | None = None, params: Mapping[str, Any] | None = None, threads: int | None = None,
    compiles: bool = False, added: int = 0, folds: bool = False, copies: float = 0.0,
) -> Plan:  # fmt: skip
    """The plan of a training.

    Args:
        train, valid: surveys of the data.
        backend: the engine.
        route: "memory", "bins", "external", or "auto": the first of them that stays under the limit.
        limit: bytes of anonymous memory. None: what the machine leaves, of which floats in memory may take half.
        params: of the engine; leaves and bins count.
        threads: as for `boostrank.train`.
        compiles: whether the objective must be compiled first; see `must_compile`.
        added: columns within queries, beside the features.
        folds: whether a preset trains on folds of all rows, which are put together for it.
        copies: of the training rows, beside those that are read.
    """
    held = sum(float_bytes(one, one.features) for one in (train, *valid)) if added else 0.0
    train, *valid = (one.with_columns(added) if added else one for one in (train, *valid))
    held += fold_bytes(train, valid) if folds else 0.0
    held += copies * float_bytes(train, train.features) if copies else 0.0
    given = params or {}
    leaves = next((given[name] for name in _LEAVES if name in given), None)
    if leaves is None:
        depth = int(given.get("max_depth", 0) or 0)
        leaves = min(2**depth, 2**20) if depth > 0 else 31
    max_bin = next((given[name] for name in _BINS if name in given), 255)
    work = Work(train, tuple(valid), int(leaves), int(max_bin), resolve_threads(threads), compiles, held)
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
        why = "nobody knows how long a pipe is" if train.rows is None else f"nobody has measured {backend}"
        why += "" if limit is None else ": the route that needs least"
        return Plan(work, routes, chosen, why, bound)
    fitting = next(filter(fits, candidates), None)
    if fitting is None:
        refusal = _refusal(candidates, routes, work, bound, limited=limit is not None)
        return Plan(work, routes, None, "", bound, refusal)
    return Plan(work, routes, fitting, _why(fitting, candidates, route, bound, limited=limit is not None), bound)


def must_compile(objective: TrainingObjective | None) -> bool:
    """Whether the machine code of an objective does not lie in the cache yet."""
    for kernel in [] if objective is None else [part.spec.kernel for part in objective.parts]:
        folder = cache_directory() if kernel.is_ours else None
        if folder is None or not is_kept(kernel, folder):
            return True
    return False


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
    for leaves in _FEWER_LEAVES:
        changed = peak_of(least.backend, least.name, replace(work, leaves=min(leaves, work.leaves)))
        if changed is not None and changed <= bound:
            return f"{words}: with --num-leaves {leaves} it would take about {size_words(changed)}"
    for share in _FRACTIONS:
        train = replace(work.train, rows=round((work.train.rows or 0) * share))
        changed = peak_of(least.backend, least.name, replace(work, train=train))
        if changed is not None and changed <= bound:
            part = f"a part of the queries (boostrank sample --fraction {share:g})"
            return f"{words}: {part} would take about {size_words(changed)} with {least.options}"
    nothing = peak_of("lightgbm", "again", replace(work, train=replace(work.train, rows=0), valid=(), leaves=2))
    assert nothing is not None
    program = size_words(0.8 * nothing)
    return f"{words}: nothing fits in that, the program alone takes more than {program}"
