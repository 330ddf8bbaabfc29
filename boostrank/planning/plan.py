"""What a training will cost, before it starts: every way with its memory and time, and the one to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from boostrank.core.errors import InputError
from boostrank.core.formatting import size_words
from boostrank.core.machine import free_memory, resolve_threads
from boostrank.kernels.runtime.jit import cache_directory
from boostrank.objective.description import TrainingObjective
from boostrank.planning.costs import ROUTES_OF, Cost, Work, cost
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
class Way:
    """One way of training, and what it costs; cost None when the rows are not known."""

    backend: str
    route: str
    cost: Cost | None

    @property
    def options(self) -> str:
        """Of the command line, that choose it."""
        return f"--backend {self.backend} --route {'bins' if self.route == 'again' else self.route}"

    @property
    def words(self) -> str:
        """What it is."""
        return _WORDS[self.route]


@dataclass(frozen=True)
class Bill:
    """All ways, and the chosen one.

    Args:
        work: what is to be trained.
        ways: of every engine that is installed.
        chosen: one of them; None when none may be taken, and `refusal` says so.
        why: it was chosen.
        limit_bytes: that it must stay under.
        refusal: the number, and what would fit; None if one was chosen.
    """

    work: Work
    ways: tuple[Way, ...]
    chosen: Way | None
    why: str
    limit_bytes: float
    refusal: str | None = None

    def check(self) -> Way:
        """The chosen way.

        Raises:
            InputError: there is none.
        """
        if self.chosen is None:
            raise InputError(self.refusal)
        return self.chosen


def draw_up(
    train: Survey,
    valid: Sequence[Survey] = (),
    *,
    backend: str = "lightgbm",
    route: str = "auto",
    limit: float | None = None,
    params: Mapping[str, Any] | None = None,
    threads: int | None = None,
    rounds: int = 100,
    compiles: bool = False,
) -> Bill:
    """The bill of a training.

    Args:
        train, valid: surveys of the data.
        backend: the engine.
        route: "memory", "bins", "external", or "auto": the first of them that stays under the limit.
        limit: bytes of anonymous memory. None: what the machine leaves, of which floats in memory may take half.
        params: of the engine; leaves and bins count.
        threads, rounds: as for `boostrank.train`.
        compiles: whether the objective must be compiled first; see `must_compile`.
    """
    work = _work(train, valid, params or {}, threads, rounds, compiles)
    engines = [name for name in ROUTES_OF if name == backend or find_spec(name) is not None]
    ways = tuple(Way(name, one, cost(name, one, work)) for name in engines for one in ROUTES_OF[name])
    free = free_memory()
    bound = free if limit is None else limit
    mine = [way for way in ways if way.backend == backend and way.route != "again"]
    if route != "auto":
        mine = [way for way in mine if way.route == route]

    def fits(way: Way) -> bool:
        assert way.cost is not None
        share = 1.0 if limit is not None or route != "auto" else _SHARE[way.route]
        return way.cost.peak_bytes <= share * bound

    if mine[0].cost is None:
        chosen = mine[0] if limit is None else mine[-1]
        what = "nobody knows how long a pipe is"
        return Bill(work, ways, chosen, what if limit is None else f"{what}: the way that needs least", bound)
    chosen_or_none = next((way for way in mine if fits(way)), None)
    if chosen_or_none is None:
        return Bill(work, ways, None, "", bound, _refusal(mine, ways, work, bound, said=limit is not None))
    return Bill(work, ways, chosen_or_none, _why(chosen_or_none, mine, route, limit, free), bound)


def must_compile(objective: TrainingObjective | None) -> bool:
    """Whether the machine code of an objective does not lie in the cache yet."""
    for kernel in [] if objective is None else [part.spec.kernel for part in objective.parts]:
        folder = cache_directory() if kernel.is_ours else None
        kept = f"{Path(kernel.file).stem}.{kernel.py_func.__qualname__}-*.nbi"
        if folder is None or next(Path(folder).rglob(kept), None) is None:
            return True
    return False


def _work(
    train: Survey, valid: Sequence[Survey], params: Mapping[str, Any], threads: int | None, rounds: int, compiles: bool
) -> Work:
    leaves = next((params[name] for name in _LEAVES if name in params), 31)
    if not any(name in params for name in _LEAVES) and int(params.get("max_depth", 0) or 0) > 0:
        leaves = min(2 ** int(params["max_depth"]), 2**20)
    max_bin = next((params[name] for name in _BINS if name in params), 255)
    return Work(train, tuple(valid), int(leaves), int(max_bin), resolve_threads(threads), rounds, compiles)


def _why(way: Way, mine: Sequence[Way], route: str, limit: float | None, free: float) -> str:
    bound = f"the limit of {size_words(limit)}" if limit is not None else f"the {size_words(free)} that are free"
    if route != "auto":
        return f"asked for; it fits in {bound}"
    half = "half of " if limit is None and way.route == "memory" else ""
    skipped = mine[: mine.index(way)]
    if not skipped:
        return f"the quickest that fits in {half}{bound}"
    assert skipped[-1].cost is not None
    before = size_words(skipped[-1].cost.peak_bytes)
    half = "half of " if limit is None and skipped[-1].route == "memory" else ""
    return f"it fits in {bound}; {skipped[-1].words} would take {before}, over {half}it"


def _refusal(mine: Sequence[Way], ways: Sequence[Way], work: Work, bound: float, *, said: bool) -> str:
    """The number, and the first change that would fit."""
    least = min(mine, key=_peak)
    name = f"--memory-limit is {size_words(bound)}" if said else f"only {size_words(bound)} are free"
    words = f"training would take about {size_words(_peak(least))} ({least.options}), and {name}"
    other = next((way for way in ways if way.route != "again" and _peak(way) <= bound), None)
    if other is not None:
        return f"{words}: {other.options} would take about {size_words(_peak(other))}"
    for leaves in _FEWER_LEAVES:
        changed = cost(least.backend, least.route, replace(work, leaves=min(leaves, work.leaves)))
        if changed is not None and changed.peak_bytes <= bound:
            return f"{words}: with --num-leaves {leaves} it would take about {size_words(changed.peak_bytes)}"
    for share in _FRACTIONS:
        train = replace(work.train, rows=round((work.train.rows or 0) * share))
        changed = cost(least.backend, least.route, replace(work, train=train))
        if changed is not None and changed.peak_bytes <= bound:
            part = f"a part of the queries (boostrank sample --fraction {share:g})"
            return f"{words}: {part} would take about {size_words(changed.peak_bytes)} with {least.options}"
    return (
        f"{words}: nothing fits in that, the program alone takes more than {size_words(0.8 * _peak_of_nothing(work))}"
    )


def _peak(way: Way) -> float:
    return float("inf") if way.cost is None else way.cost.peak_bytes


def _peak_of_nothing(work: Work) -> float:
    nothing = cost("lightgbm", "again", replace(work, train=replace(work.train, rows=0), valid=(), leaves=2))
    assert nothing is not None
    return nothing.peak_bytes
