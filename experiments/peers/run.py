"""The peers' objectives and ours, tuned alike and measured on queries that neither training nor
tuning saw.

    python -m experiments.peers.run [--stage search] [--sets ohsumed] [--methods "first;listnet"]
    [--trials 8]

Every training is kept under out/: a run that was killed goes on where it was, and several processes
started with the same command share the work. See README.md in this folder.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from experiments.common import arguments
from experiments.peers import engines, report
from experiments.peers.cells import Budget, Cell, Place, Task
from experiments.peers.methods import Method, chosen
from experiments.peers.splits import SETS, STAGES, read_sets
from experiments.peers.store import Store

REFERENCE = "lightgbm lambdarank"
# Smaller budgets come first, so that there is a complete table early; a larger one goes on from a
# smaller.
EARLY = (Budget(2, 1, 1), Budget(4, 1, 1))
_LINE_EVERY = 30.0  # seconds


def main() -> None:
    """Train what is missing, a budget at a time, and write the tables after each."""
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(threads=1)
    parser.add_argument(
        "--stage", choices=STAGES, default="search", help="confirm: once, for what the search found"
    )
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=FILE,...", help="a further set, libsvm"
    )
    parser.add_argument(
        "--methods",
        default="first;second;rest",
        help="names and groups of methods.py, semicolons between",
    )
    parser.add_argument(
        "--draw", type=int, default=0, help="deal the queries to folds another way; 0: as always"
    )
    parser.add_argument(
        "--trials", type=int, default=4, help="settings of the trees that every method tries"
    )
    parser.add_argument(
        "--inner", type=int, default=2, help="validation parts that a setting is tried on, 1 to 4"
    )
    parser.add_argument(
        "--seeds", type=int, default=2, help="final models a fold, whose NDCG is averaged"
    )
    parser.add_argument(
        "--rates",
        default="",
        help="further learning rates for the best setting, comma-separated: the drawn end at 0.2",
    )
    parser.add_argument(
        "--against", default=REFERENCE, help="the method that the others are compared with"
    )
    parser.add_argument(
        "--name",
        default=None,
        help="of the tables, to which the budget is added; peers-STAGE if none",
    )
    parser.add_argument("--only-report", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()
    rates = tuple(float(rate) for rate in options.rates.split(",") if rate)
    full = Budget(options.trials, options.inner, options.seeds, rates)
    budgets = [early for early in EARLY if early.within(full) and early.runs < full.runs]
    console, store = Console(stderr=True), Store(options.out)

    methods = chosen(options.methods)
    skipped = {
        m.name: f"skipped, {m.library} is not installed" for m in methods if engines.is_missing(m)
    }
    for name, words in skipped.items():
        console.print(f"{name}: {words}", highlight=False)
    methods = [m for m in methods if m.name not in skipped]
    sets = read_sets(options.sets, options.set, options.data_root)
    places = [Place(name, data, options.stage, draw=options.draw) for name, data in sets.items()]
    cells = cells_of(methods, places, engines.Length())

    def written(budget: Budget) -> str:
        stage = f"{options.stage}{options.draw or ''}"
        path = options.out / f"{options.name or f'peers-{stage}'}-{budget.short}.md"
        return report.write(path, cells, budget, store, options.against, skipped)

    if not options.only_report:
        store.forget_failures()
        work = Work(cells, full, store, options.threads, console)
        for group in dict.fromkeys(m.group for m in methods):
            own = [cell for cell in cells if cell.method.group == group]
            for budget in budgets:
                work.do(own, budget)
                written(budget)
            work.do(own, full)
    print(written(full))


def cells_of(
    methods: Sequence[Method], places: Sequence[Place], length: engines.Length
) -> list[Cell]:
    """Every method on every fold: fold by fold, so that what is complete early is so for all
    methods.
    """
    identities = {m.name: engines.identity(m) for m in methods}
    return [
        Cell(method, place, fold, length, identities[method.name])
        for place in places
        for fold in range(place.count)
        for method in methods
    ]


class Work:
    """Trains what is missing, and says how far it is.

    Args:
        cells, budget: of the whole, for the time that is left.
        store: where trainings are kept.
        threads: a training.
        console: for a line now and then.
    """

    def __init__(
        self, cells: Sequence[Cell], budget: Budget, store: Store, threads: int, console: Console
    ) -> None:
        self._cells, self._budget, self._store = cells, budget, store
        self._threads, self._console = threads, console
        self._seconds: dict[tuple[str, str], list[float]] = {}
        self._last = 0.0

    def do(self, cells: Sequence[Cell], budget: Budget) -> None:
        """Bring these cells to this budget; cells that another process works on are waited for at
        the end.
        """
        waiting = list(cells)
        while waiting:
            busy = []
            for cell in waiting:
                with self._store.claim(cell.name) as mine:
                    if not mine:
                        busy.append(cell)
                        continue
                    for task in steps(cell, budget, self._store):
                        self._train(cell, task)
            waiting = busy
            if busy:
                time.sleep(1.0)

    def _train(self, cell: Cell, task: Task) -> None:
        started = time.perf_counter()
        run = cell.run(task, self._store, self._threads)
        if "error" in run:
            self._console.print(f"{cell.name}: {run['error']}", style="red", highlight=False)
        self._seconds.setdefault((cell.method.name, cell.place.name), []).append(
            time.perf_counter() - started
        )
        if time.perf_counter() - self._last > _LINE_EVERY:
            self._last = time.perf_counter()
            self._say(cell)

    def _say(self, cell: Cell) -> None:
        total = len(self._cells) * self._budget.runs
        left, seconds = 0, 0.0
        for other in self._cells:
            missing = self._budget.runs - done(other, self._budget, self._store)
            left += missing
            seconds += missing * self._expected(other)
        clock = f"{seconds // 3600:.0f}:{seconds % 3600 // 60:02.0f} h"
        words = f"{total - left} of {total} trainings, about {clock} left; {cell.name}"
        self._console.print(words, highlight=False, soft_wrap=True)

    def _expected(self, cell: Cell) -> float:
        """Seconds a training: as this method on this set so far, else as any on this set, else as
        any.
        """
        own = self._seconds.get((cell.method.name, cell.place.name))
        same_set = [
            s
            for (_, place), times in self._seconds.items()
            if place == cell.place.name
            for s in times
        ]
        times = own or same_set or [s for times in self._seconds.values() for s in times]
        return sum(times) / len(times)


def steps(cell: Cell, budget: Budget, store: Store) -> Iterator[Task]:
    """What a cell lacks, each after the one before is trained; ends where a library failed."""
    for task in cell.missing(budget, store):
        if cell.error(budget, store):
            return
        yield task


def done(cell: Cell, budget: Budget, store: Store) -> int:
    """How many of a cell's trainings are there; all of them, where a library failed and no more
    will come.
    """
    if cell.error(budget, store):
        return budget.runs
    return sum(store.get(cell.key(task)) is not None for task in set(cell.tasks(budget, store)))


if __name__ == "__main__":
    main()
