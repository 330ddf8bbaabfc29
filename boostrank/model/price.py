"""Cost of a model: trees per document, and models truncated to a budget.

The first rounds are worth most, so an average is truncated by limiting the rounds of each of its models.
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
from boostrank.model.ranking_model import RankingModel, tree_counts

_ROWS, _TIMES = 4096, 3
"""Rows in a timed prediction, and number of repetitions."""


def capped(models: Sequence[RankingModel], trees: int) -> list[RankingModel]:
    """Truncate the models of an average to the largest common number of rounds that fits `trees` in total.

    Raises:
        ParameterError: one round each exceeds the budget.
    """
    counts = [tree_counts(model) for model in models]
    start = max(first for first, _ in counts)  # an average merges the starts into one

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
    """Truncate a model to at most `rounds` rounds in prediction."""
    if model.best_iteration <= rounds:
        return model
    summary = None if model.summary is None else replace(model.summary, best_round=rounds)
    return model.altered(best_rounds=rounds, summary=summary)


@dataclass(frozen=True)
class Limit:
    """Budget of a model.

    Args:
        trees: maximum number of trees, including the linear start.
        microseconds: maximum time per document, as measured by `microseconds`.

    Raises:
        ParameterError: a value that is not above 0.
    """

    trees: int | None = None
    microseconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_trees", self.trees), ("max_microseconds", self.microseconds)):
            if value is not None and not (isinstance(value, int | float | np.number) and 0 < value < np.inf):
                raise ParameterError(f"{name}={value!r}: expected a number above 0")

    def __bool__(self) -> bool:
        return self.trees is not None or self.microseconds is not None

    def check(self, engine: Backend, data: RankingDataset | None = None) -> None:
        """Check before training that the budget can be applied.

        Raises:
            ParameterError: an engine without trees, or rows on disk, which cannot be timed.
        """
        if not self:
            return
        if not engine.grows_trees:
            raise ParameterError(f"max_trees, max_microseconds: models of backend={engine.name!r} have no trees")
        if self.microseconds is not None and data is not None and data.on_disk:
            raise ParameterError("max_microseconds is measured on rows in memory: pass max_trees instead")

    def in_trees(self, model: RankingModel, data: RankingDataset) -> int | None:
        """Convert the budget to a maximum number of trees; None without a limit.

        Raises:
            ParameterError: the budget is below one tree.
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
        """Return the entries for the model's record, with `max_trees` also for a time limit."""
        found = {} if trees is None else {"max_trees": trees}
        return found if self.microseconds is None else found | {"max_microseconds": self.microseconds}


def count_trees(model: RankingModel) -> int:
    start, each = tree_counts(model)
    return start + each * model.best_iteration


def limited(model: RankingModel, limit: Limit, data: RankingDataset) -> RankingModel:
    """Truncate a model to its budget and record that in `info.price`.

    Raises:
        ParameterError: the linear start alone exceeds the budget.
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
    """Check that a start of `start` trees leaves room for at least one round.

    Raises:
        ParameterError: it does not.
    """
    if trees <= start:
        raise _too_few(trees, start, 1)


def _too_few(trees: int, start: int, each: int) -> ParameterError:
    of_start = f", including {start} of the linear start (one per feature); start='none' omits it" if start else ""
    return ParameterError(f"max_trees={trees}: the model has at least {start + each}{of_start}")


def microseconds(model: RankingModel, data: RankingDataset) -> float:
    """Measure the prediction time per document: one thread, about 4,096 rows at once, the fastest of 3 runs."""
    rows = data.take(np.flatnonzero(data.queries.ptr[1:] <= max(_ROWS, int(data.queries.sizes[0]))))
    taken = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        model.predict(rows, threads=1)
        taken.append(time.perf_counter() - begun)
    return 1e6 * min(taken) / rows.n_documents


def price_of(model: RankingModel, data: RankingDataset | None) -> dict[str, Any]:
    """Return `trees` of a model, and its `price` if it has a budget, as plain data."""
    found: dict[str, Any] = {"trees": count_trees(model)} if model._engine.grows_trees else {}
    if model.info.price is None or data is None:
        return found
    return found | {"price": {**model.info.price, "microseconds": microseconds(model, data)}}
