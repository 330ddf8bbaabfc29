"""Metrics of every round: ours, bound once per data set, and user-defined functions; timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.fit.gradient import by_arguments
from boostrank.kernels.objective.driver import AllReduce, alone
from boostrank.metric import BoundMetrics, Conventions

Results = list[tuple[str, float, bool]]
"""(name, value, higher is better)."""


class RoundMetrics:
    """Compute results from (scores, engine's data set).

    Args:
        labels_of: returns labels and queries of an engine's data set.
        functions: user-defined functions, each returning one result or a list.
        all_reduce: sums over workers, each of which has some of the queries.
    """

    def __init__(
        self,
        names: Sequence[str],
        labels_of: Callable[[Any], tuple[npt.NDArray[Any], QueryIndex]],
        conventions: Conventions,
        threads: int | None,
        functions: Sequence[Callable[..., Any]] = (),
        all_reduce: AllReduce = alone,
    ) -> None:
        self._names, self._labels_of, self._conventions = names, labels_of, conventions
        self._threads = resolve_threads(threads)
        self._functions = [by_arguments(one, labels_of, "feval") for one in functions]
        self._bound: dict[int, BoundMetrics] = {}
        self._all_reduce = all_reduce
        self.seconds = 0.0

    def __bool__(self) -> bool:
        return bool(self._names or self._functions)

    def __call__(self, scores: npt.NDArray[Any], dataset: Any) -> Results:
        started = time.perf_counter()
        results: Results = []
        if self._names:
            values = self.values(np.asarray(scores, dtype=np.float64).reshape(-1), dataset)
            results += [(name, value, True) for name, value in values.items()]
        for function in self._functions:
            result = function(scores, dataset)
            given = result if isinstance(result, list) else [result]
            if not all(isinstance(one, tuple | list) and len(one) == 3 for one in given):
                raise ParameterError(
                    f"feval must return (name, value, higher is better), or a list of these, not {result!r}"
                )
            results += given
        self.seconds += time.perf_counter() - started
        return results

    def values(self, scores: npt.NDArray[np.float64], dataset: Any) -> dict[str, float]:
        """Return our metrics; over workers, from sums of values and of weights."""
        if self._all_reduce is alone:
            return self.bound(dataset).values(scores)
        rows = self._labels_of(dataset)[0].size  # an engine may need a row where there is none
        sums = self.bound(dataset).sums(scores[:rows])
        total = self._all_reduce(np.array(list(sums.values())).reshape(-1)).reshape(-1, 2)
        for name, weight in zip(sums, total[:, 1], strict=True):
            if not weight:
                raise DataError(f"{name}: no query of any worker counts; {self._conventions.describe()}")
        return {name: float(value / weight) for name, (value, weight) in zip(sums, total, strict=True)}

    def bound(self, dataset: Any) -> BoundMetrics:
        """Return our metrics bound to the data set; see `BoundMetrics`."""
        if id(dataset) not in self._bound:
            labels, queries = self._labels_of(dataset)
            self._bound[id(dataset)] = BoundMetrics(
                self._names, labels, queries, self._conventions, self._threads, partial=self._all_reduce is not alone
            )
        return self._bound[id(dataset)]
