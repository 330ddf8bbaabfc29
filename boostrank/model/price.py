"""Price of a model: the trees that a program walks for each document, and models cut to a number of them.

The first rounds are worth most, so an average is cut by giving each of its models at most so many rounds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import Backend
from boostrank.model.booster_methods import tree_counts
from boostrank.model.ranking_model import RankingModel

_ROWS, _TIMES = 4096, 3
"""Rows of which a prediction is timed, and how often."""


def capped(models: Sequence[RankingModel], trees: int) -> list[RankingModel]:
    """Models of an average, each cut to the most rounds with which all together keep to a number of trees.

    Raises:
        ParameterError: not one round each does.
    """
    counts = [tree_counts(model) for model in models]
    start = max(first for first, _ in counts)  # an average has one start

    def total(rounds: int) -> int:
        return start + sum(each * min(rounds, m.best_iteration) for (_, each), m in zip(counts, models, strict=True))

    if total(1) > trees:
        raise _too_few(trees, start, total(1) - start)
    low, high = 1, max(model.best_iteration for model in models)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if total(middle) <= trees else (low, middle - 1)
    return [cut_model(model, low) for model in models]


def cut_model(model: RankingModel, rounds: int) -> RankingModel:
    """The same model, of which prediction uses at most so many rounds, at least one."""
    if model.best_iteration <= rounds:
        return model
    summary = None if model.summary is None else replace(model.summary, best_round=rounds)
    return RankingModel(
        model._booster,
        best_rounds=rounds,
        info=model.info,
        evals_result=model.evals_result,
        summary=summary,
    )


@dataclass(frozen=True)
class Limit:
    """What a model may cost.

    Args:
        trees: that a program walks for a document, those of a start among them, at most.
        microseconds: of a document, at most, as `microseconds` measures them here.

    Raises:
        ParameterError: numbers that are not above 0.
    """

    trees: int | None = None
    microseconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_trees", self.trees), ("max_microseconds", self.microseconds)):
            if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < np.inf):
                raise ParameterError(f"{name}={value!r}: a number above 0")

    def __bool__(self) -> bool:
        return self.trees is not None or self.microseconds is not None

    def check(self, engine: Backend, data: RankingDataset | None = None) -> None:
        """Refuse, before anything is trained, what cannot be kept.

        Args:
            engine: that trains.
            data: the training set; None: not read yet.

        Raises:
            ParameterError: an engine without trees, or rows that nothing can be measured on.
        """
        if not self:
            return
        if not engine.grows_trees:
            raise ParameterError(f"max_trees, max_microseconds: models of backend={engine.name!r} have no trees")
        if self.microseconds is not None and data is not None and data.on_disk:
            raise ParameterError("max_microseconds is measured on rows in memory: give max_trees")

    def in_trees(self, model: RankingModel, data: RankingDataset) -> int | None:
        """Trees, at most; None: there is no limit.

        Args:
            model: that is to be cut: a tree takes as long as one of its.
            data: to measure on.

        Raises:
            ParameterError: not one tree can be had.
        """
        if self.microseconds is None:
            return self.trees
        taken = microseconds(model, data)
        found = int(self.microseconds * count_trees(model) / taken)
        if found < 1:
            raise ParameterError(
                f"max_microseconds={self.microseconds:g}: a tree takes {taken / count_trees(model):.3g} here"
            )
        return found if self.trees is None else min(found, self.trees)

    def record(self, trees: int | None) -> dict[str, Any]:
        """What a model's file says of it; `max_trees` repeats what a limit of time came to."""
        found = {} if trees is None else {"max_trees": trees}
        return found if self.microseconds is None else found | {"max_microseconds": self.microseconds}


def count_trees(model: RankingModel) -> int:
    """Trees that prediction walks, those of a start among them."""
    start, each = tree_counts(model)
    return start + each * model.best_iteration


def limited(model: RankingModel, limit: Limit, data: RankingDataset) -> RankingModel:
    """A model of one training, cut to what it may cost; `info.price` says so.

    Raises:
        ParameterError: its start alone costs more.
    """
    trees = limit.in_trees(model, data)
    if trees is None:
        return model
    start, each = tree_counts(model)
    if trees < start + each:
        raise _too_few(trees, start, each)
    model = cut_model(model, (trees - start) // each)
    model.info |= {"price": {"trees": count_trees(model)} | limit.record(trees)}
    return model


def check_start(start: int, trees: int) -> None:
    """Refuse a start of so many trees where that is all that a model may have.

    Raises:
        ParameterError: not one round can follow it.
    """
    if trees <= start:
        raise _too_few(trees, start, 1)


def _too_few(trees: int, start: int, each: int) -> ParameterError:
    of_start = f", of which {start} are the linear start's, one a feature; start='none' leaves it out" if start else ""
    return ParameterError(f"max_trees={trees}: the model has at least {start + each}{of_start}")


def microseconds(model: RankingModel, data: RankingDataset) -> float:
    """What a prediction takes for a document, by the clock: one thread, up to 4,096 rows at once, the fastest of 3."""
    rows = data.take(np.flatnonzero(data.queries.ptr[1:] <= max(_ROWS, int(data.queries.sizes[0]))))
    taken = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        model.predict(rows, threads=1)
        taken.append(time.perf_counter() - begun)
    return 1e6 * min(taken) / rows.n_documents


def price_of(model: RankingModel, data: RankingDataset | None) -> dict[str, Any]:
    """`trees` of a model, and its `price` where a limit was given, as plain data."""
    found: dict[str, Any] = {"trees": count_trees(model)} if model._engine.grows_trees else {}
    if model.info.price is None or data is None:
        return found
    return found | {"price": {**model.info.price, "microseconds": microseconds(model, data)}}
