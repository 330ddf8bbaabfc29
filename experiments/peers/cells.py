"""Cells of the comparison: one method on one outer fold of one set, tuned and measured within a
budget.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

import boostrank
from experiments.peers import engines
from experiments.peers.engines import Length
from experiments.peers.methods import Method
from experiments.peers.space import Trees, draws
from experiments.peers.splits import Fold, folds
from experiments.peers.store import Run, Store, key_of


@dataclass(frozen=True)
class Budget:
    """What a method may spend on an outer fold.

    Args:
        trials: settings of the trees that are tried.
        inner: validation parts on which each is tried; the best mean is chosen.
        seeds: models of the chosen setting; model s has seed s and is stopped on part s. Their NDCG
            is averaged.
        rates: further learning rates that the best setting is tried with, on the same parts.
    """

    trials: int
    inner: int
    seeds: int
    rates: tuple[float, ...] = ()

    @property
    def runs(self) -> int:
        """Trainings a cell."""
        tried = (self.trials + len(self.rates)) * self.inner
        return tried + max(0, self.seeds - self.inner)

    @property
    def short(self) -> str:
        """For the names of files."""
        rates = "".join(f"-{rate:g}" for rate in self.rates)
        return f"{self.trials}x{self.inner}x{self.seeds}{rates}"

    def within(self, other: Budget) -> bool:
        """Whether nothing of it is more than the other's."""
        return (
            self.trials <= other.trials
            and self.inner <= other.inner
            and self.seeds <= other.seeds
            and set(self.rates) <= set(other.rates)
        )

    def __str__(self) -> str:
        parts = f"{self.inner} validation part{'s' * (self.inner > 1)}"
        rates = f" and the best at {', '.join(map(str, self.rates))}" if self.rates else ""
        models = f"{self.seeds} final model{'s' * (self.seeds > 1)}"
        return f"{self.trials} trials{rates} on {parts}, {models}"


@dataclass(frozen=True)
class Task:
    """One training: which of the drawn settings, which part validates (and which seed), and the
    learning rate if it is not the drawn one.
    """

    trial: int
    part: int
    rate: float | None = None


class Place:
    """One set in one stage, with its outer folds.

    Args:
        name: of the set.
        data: all its queries.
        stage: search or confirm.
        count: outer folds; see `folds`.
        draw: 0, or another dealing of the same queries.
    """

    def __init__(
        self,
        name: str,
        data: boostrank.RankingDataset,
        stage: str,
        count: int | None = None,
        draw: int = 0,
    ) -> None:
        self.name, self.data, self.stage, self.draw = name, data, stage, draw
        self.folds = folds(data, stage, count, draw)
        self.count = len(self.folds)

    def seed(self, fold: int) -> int:
        """Of the draws of the search space: the same for every method on this fold."""
        draw = {"draw": self.draw} if self.draw else {}
        return int(key_of({"set": self.name, "stage": self.stage, "fold": fold, **draw})[:8], 16)


class Cell:
    """One method on one outer fold.

    Args:
        method: what is trained.
        place, fold: where.
        length: how long at most.
        identity: of the method, `engines.identity`.
    """

    def __init__(
        self, method: Method, place: Place, fold: int, length: Length, identity: Mapping[str, Any]
    ) -> None:
        self.method, self.place, self.fold, self.length, self._identity = (
            method,
            place,
            fold,
            length,
            identity,
        )
        self.name = f"{place.stage}{place.draw or ''} {place.name} {fold} {method.name}"
        self._keys: dict[Task, str] = {}

    @cached_property
    def _what(self) -> dict[str, Any]:
        here = self.outer
        return {
            "version": engines.VERSION,
            "method": dict(self._identity),
            "data": self.place.data.fingerprint,
            "test": key_of({"queries": here.test.tolist()}),
            "parts": key_of({"queries": [part.tolist() for part in here.parts]}),
            "rounds": self.length.rounds,
            "patience": self.length.patience,
        }

    @property
    def outer(self) -> Fold:
        """Its queries."""
        return self.place.folds[self.fold]

    def trees(self, trial: int, rate: float | None = None) -> Trees:
        """The setting of a trial, at its own learning rate or another."""
        drawn = draws(trial + 1, self.place.seed(self.fold))[trial]
        return drawn if rate is None else replace(drawn, learning_rate=rate)

    def key(self, task: Task) -> str:
        """Of a training, in the store."""
        if task not in self._keys:
            trees = self.trees(task.trial, task.rate).plain()
            self._keys[task] = key_of(
                {**self._what, "trees": trees, "part": task.part, "seed": task.part}
            )
        return self._keys[task]

    def run(self, task: Task, store: Store, threads: int = 1) -> Run:
        """Train, and keep what came out; also a failure of a library, which is told once and not
        tried again.
        """
        data = self.place.data
        train, valid = (data.take(queries) for queries in self.outer.inner(task.part))
        test = data.take(self.outer.test)
        try:
            run = engines.trained(
                self.method,
                self.trees(task.trial, task.rate),
                train,
                valid,
                test,
                task.part,
                self.length,
                threads,
            )
        except Exception as error:  # whatever a library raises is its result
            run = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        run["what"] = {
            "cell": self.name,
            "trial": task.trial,
            "part": task.part,
            "trees": self.trees(task.trial, task.rate).plain(),
        }
        store.put(self.key(task), run)
        return run

    def tasks(self, budget: Budget, store: Store) -> list[Task]:
        """What this budget needs, as far as the results so far say: the trials, the best one at the
        further rates, then the final models.
        """
        parts = range(budget.inner)
        needed = [Task(trial, part) for trial in range(budget.trials) for part in parts]
        best = self.best(budget, store)
        if best is not None:
            needed += [Task(best, part, rate) for rate in budget.rates for part in parts]
        return needed + self._finals(budget, store)

    def missing(self, budget: Budget, store: Store) -> Iterator[Task]:
        """The trainings that this budget still needs, one after the other; take each before asking
        for the next.
        """
        for _ in range(3):  # the trials tell the rates' tasks, and these the final models'
            for task in self.tasks(budget, store):
                if self._get(task, store) is None:
                    yield task

    def best(self, budget: Budget, store: Store) -> int | None:
        """The trial with the highest mean over the validation parts, the earliest of equals; None
        if one failed.
        """
        return self._first_of_best([(t, None) for t in range(budget.trials)], budget, store)

    def error(self, budget: Budget, store: Store) -> str | None:
        """What a library raised within this budget."""
        runs = [self._get(task, store) for task in self.tasks(budget, store)]
        return next((run["error"] for run in runs if run and "error" in run), None)

    def outcome(
        self, budget: Budget, store: Store
    ) -> tuple[npt.NDArray[np.float64], list[Run]] | None:
        """NDCG@10 of every test query, the mean over the final models, and their runs; None if
        something is missing.
        """
        finals = [self._get(task, store) for task in self._finals(budget, store)]
        runs = [run for run in finals if run and "error" not in run]
        if not runs or len(runs) < len(finals):
            return None
        return np.mean([np.array(run["test"], dtype=np.float64) for run in runs], axis=0), runs

    def tried(self, budget: Budget, store: Store) -> npt.NDArray[np.float64] | None:
        """NDCG@10 of every test query, the mean over all settings and parts that were tried; None
        if one is missing.
        """
        found = [
            self._get(Task(t, p), store) for t in range(budget.trials) for p in range(budget.inner)
        ]
        if any(run is None or "error" in run for run in found):
            return None
        return np.mean([np.array(run["test"], dtype=np.float64) for run in found if run], axis=0)

    def _finals(self, budget: Budget, store: Store) -> list[Task]:
        """The models of the best trial at its best rate; empty while that is not known."""
        best = self.best(budget, store)
        if best is None:
            return []
        rates = [None, *budget.rates]
        chosen = self._first_of_best([(best, rate) for rate in rates], budget, store)
        if chosen is None:
            return []
        return [Task(best, seed, rates[chosen]) for seed in range(budget.seeds)]

    def _first_of_best(
        self, settings: Sequence[tuple[int, float | None]], budget: Budget, store: Store
    ) -> int | None:
        """Position of the (trial, rate) with the highest mean over the validation parts; None if
        one is missing or failed.
        """
        means = []
        for trial, rate in settings:
            runs = [self._get(Task(trial, part, rate), store) for part in range(budget.inner)]
            if any(run is None or "error" in run for run in runs):
                return None
            means.append(np.mean([run["valid"] for run in runs if run]))
        return int(np.argmax(means))

    def _get(self, task: Task, store: Store) -> Run | None:
        return store.get(self.key(task))
