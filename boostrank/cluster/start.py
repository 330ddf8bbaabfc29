"""Linear start of a training on a cluster: the one that a single machine makes of the same rows.

What it is learnt from is bounded, tens of thousands of documents: workers send those rows to the client. Each worker
then finds where its own rows begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from boostrank.cluster.rows import Fetched, ShardRows, Span, joined, queries_of, spans
from boostrank.cluster.shards import Shard
from boostrank.cluster.workers import Workers
from boostrank.core.gains import Gain
from boostrank.core.queries import QueryIndex
from boostrank.engines.model_format import LinearStart
from boostrank.engines.params import Limits
from boostrank.fit.start import cross_fit
from boostrank.fit.start import rows as start_rows


@dataclass(frozen=True)
class PlacedShard:
    """A shard, and where it is.

    Args:
        worker: its address.
        number: which of the worker's it is.
        shard: as the worker has read it.
    """

    worker: str
    number: int
    shard: Shard


@dataclass(frozen=True, eq=False)
class StartMaker:
    """What a start is made of.

    Args:
        shards: of the training set, in the order in which they were given.
        names: of the features.
    """

    shards: Sequence[PlacedShard]
    names: tuple[str, ...]

    @cached_property
    def queries(self) -> QueryIndex:
        """Of all rows."""
        return queries_of([one.shard for one in self.shards])

    @cached_property
    def parts(self) -> tuple[start_rows.Part, ...]:
        """Whose rows it is learnt from."""
        return start_rows.sampled(start_rows.parts_of(self.queries, len(self.names)))

    @property
    def learnt_from(self) -> int:
        """How many rows those are."""
        return sum(part.queries.n_documents for part in self.parts)

    def make(self, workers: Workers, gain: Gain, threads: int, limits: Limits) -> tuple[LinearStart, dict[str, Any]]:
        """Make it; its description too. Every worker then knows what its training rows begin with.

        Args:
            workers: that have the shards.
            gain: of a label.
            threads: here.
            limits: that it keeps.
        """
        features, gains = self._fetched(workers, gain)
        learnt = cross_fit.learnt(ShardRows(self.queries, self.names, features), gains, threads, limits)
        fold, ptr = start_rows.folds(len(self.queries)), np.cumsum([0, *(len(one.shard.qids) for one in self.shards)])
        folds: dict[str, list[Any]] = {address: [np.zeros(0, np.int64)] for address in workers.names}
        for i, one in enumerate(self.shards):  # a worker has its shards in the order in which they were given
            folds[one.worker].append(fold[ptr[i] : ptr[i + 1]])
        work = [(learnt, np.concatenate(folds[address]), len(self.names)) for address in workers.names]
        counts = np.sum(workers.work("begin_training_rows", work), axis=0)
        return learnt.start(self.names, counts), learnt.description

    def _fetched(self, workers: Workers, gain: Gain) -> tuple[Fetched, Fetched]:
        """Features and gains of the rows that it is learnt from."""
        ends = np.cumsum([0, *(one.shard.rows for one in self.shards)])
        wanted: dict[str, list[Span]] = {address: [] for address in workers.names}
        places: dict[int, list[tuple[str, int]]] = {part.at.start: [] for part in self.parts}
        for part in self.parts:
            for i, first, last in spans(ends, part.at):
                one = self.shards[i]
                places[part.at.start].append((one.worker, len(wanted[one.worker])))
                wanted[one.worker].append((one.number, first, last))
        answers = workers.work("send_rows", [(wanted[address], gain) for address in workers.names])
        sent = dict(zip(workers.names, answers, strict=True))
        found = {at: joined([sent[address][i] for address, i in pieces]) for at, pieces in places.items()}
        rows, columns = int(ends[-1]), len(self.names)
        return (
            Fetched((rows, columns), {at: features for at, (features, _) in found.items()}),
            Fetched((rows,), {at: gains for at, (_, gains) in found.items()}),
        )
