"""Base of launchers, one file an engine of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from boostrank.cluster.channel import Address, Call
from boostrank.core.errors import MissingDependency, ParameterError
from boostrank.model.ranking_model import RankingModel


class Launcher:
    """Starts workers, and ends them.

    Attributes:
        size: number of workers.
        listen: host and port on which the client waits for them.
        key: that they know; None: one is made for each training.
        patience: seconds in which they must have called.
        rank: of this process among ranks that all run the client's program; 0 is the client.
        tables: tables of each worker, by name.
    """

    key: bytes | None = None
    rank = 0

    def __init__(self, size: int, listen: Address, patience: float = 300.0) -> None:
        self.size, self.listen, self.patience = size, listen, patience
        self.tables: list[dict[str, Any]] = [{}] * size

    @classmethod
    def named(cls, kind: str, where: str) -> Self:
        """Return the launcher of `KIND:WHERE`, by default of a number of workers."""
        if not (where.isdecimal() and int(where)):
            raise ParameterError(f"{kind}:{where}: give the number of workers, {kind}:2")
        return cls(int(where))  # type: ignore[call-arg]

    def hold(self, frames: Sequence[Any], qid: str) -> bool:
        """Partition data frames of this engine by query, for the workers to hold; return False for other tables."""
        return False

    def run(self, call: Call) -> None:
        """Run `worker.serve(call, RANK, THREADS, TABLES)` for each rank below `size`; return when all have ended.

        It runs in a thread of its own. What it raises ends the training.
        """
        raise NotImplementedError

    def stop(self, ranks: Sequence[int]) -> None:
        """End these workers, whatever they are doing."""

    def close(self) -> None:
        """Let go of the cluster."""


def package(name: str, install: str) -> Any:
    """Import a module of an engine of clusters; MissingDependency: it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependency(f"these workers need {name.partition('.')[0]}: pip install {install}") from error


def by_worker(sets: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the tables of each worker by name, from those of each set by worker; the first set is for training."""
    kinds = ["training", *(f"validation {i}" for i in range(len(sets) - 1))]
    return [
        {f"{kind} partition {i}": table for kind, table in zip(kinds, tables, strict=True)}
        for i, tables in enumerate(zip(*sets, strict=True))
    ]


def scored(model: RankingModel, table: Any, column: str) -> Any:
    """Return an Arrow table with one more column, the scores of its rows."""
    import pyarrow as pa

    if model.within_query is not None:
        raise ParameterError("a model with columns within queries needs whole queries, which a batch of rows has not")
    rows = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    scores = model.predict(rows.select(list(model.feature_names))) if rows.num_rows else np.zeros(0)
    return rows.append_column(column, pa.array(scores, pa.float64()))
