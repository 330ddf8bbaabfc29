"""Fit the linear start of a distributed training. It equals the start that one machine fits on the same shards.

Worker 0 collects a sample of tens of thousands of rows and fits the coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boostrank.core.conventions import Gain, weighted_gains
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import joined_rows, spans
from boostrank.engines.params import Limits

if TYPE_CHECKING:
    from boostrank.fit.start.cross_fit import CrossFitted


class _Fetched:
    """Slices of a longer array, by first row."""

    def __init__(self, shape: tuple[int, ...], found: Mapping[int, Any]) -> None:
        self.shape, self._found = shape, found

    def __getitem__(self, rows: slice) -> Any:
        return self._found[rows.start]


class _Everywhere(NamedTuple):
    """Rows of all workers, as a `fit.start.ridge.Source`."""

    queries: QueryIndex
    feature_names: tuple[str, ...]
    features: Any


class StartTogether:
    """Fit the start on the rows of all workers; see `fit.start.cross_fit.cross_fitted`.

    Args:
        mesh: links of the workers, with `rank`, `share` and `all_reduce`.
        parts: training shards of this worker.
        order: (rank, index on that rank) of each shard, in input order.
    """

    def __init__(self, mesh: Any, parts: Sequence[RankingDataset], order: Sequence[tuple[int, int]]) -> None:
        self._mesh, self._parts, self._order = mesh, parts, order

    def __call__(self, data: RankingDataset, gain: Gain, threads: int, limits: Limits) -> CrossFitted:
        from boostrank.fit.start import cross_fit
        from boostrank.fit.start import ridge as start_rows

        mesh, names, ranks = self._mesh, data.feature_names, [rank for rank, _ in self._order]
        layout = mesh.share([(part.queries.sizes, part.queries.each_weight) for part in self._parts])
        sizes, weights = zip(*(layout[rank][number] for rank, number in self._order), strict=True)
        queries = QueryIndex.from_sizes(np.concatenate(sizes), weights=np.concatenate(weights))
        ends = np.cumsum([0, *(int(each.sum()) for each in sizes)])
        firsts = np.cumsum([0, *(part.n_documents for part in self._parts)])
        gains = weighted_gains(data.labels, gain, data.queries)
        # Find the worker, shard and rows of each sampled part.
        parts = start_rows.sampled(start_rows.parts_of(queries, len(names)))
        pieces = [[(*self._order[i], a, b) for i, a, b in spans(ends, part.at)] for part in parts]
        own = [
            (data.features[firsts[number] + a : firsts[number] + b], gains[firsts[number] + a : firsts[number] + b])
            for some in pieces
            for rank, number, a, b in some
            if rank == mesh.rank
        ]
        sent, learnt = [iter(some or ()) for some in mesh.share(own, reader=0)], None
        if mesh.rank == 0:
            found = [list(zip(*(next(sent[rank]) for rank, *_ in some), strict=True)) for some in pieces]
            rows, values = (
                {part.at.start: joined_rows(some[i]) for part, some in zip(parts, found, strict=True)} for i in (0, 1)
            )
            everywhere = _Everywhere(queries, names, _Fetched((int(ends[-1]), len(names)), rows))
            learnt = cross_fit.learnt(everywhere, _Fetched((int(ends[-1]),), values), threads, limits)
        learnt = mesh.share(learnt)[0]
        # Score the rows of this worker with the models of their folds.
        folds = np.split(start_rows.folds(len(queries)), np.cumsum([each.size for each in sizes])[:-1])
        own_folds = [fold for rank, fold in zip(ranks, folds, strict=True) if rank == mesh.rank]
        scores, counts = learnt.scores(data, np.concatenate(own_folds), threads)
        counts = mesh.all_reduce(counts.astype(np.float64)).astype(np.int64)
        return cross_fit.CrossFitted(learnt.start(names, counts), scores, learnt.description)
