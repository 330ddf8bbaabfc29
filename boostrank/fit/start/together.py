"""Linear start for training on several workers, which equals the start on one machine with the same shards.

The first worker collects a sample of tens of thousands of rows and fits the coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boostrank.core.conventions import Gain, weighted_gains
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import joined_rows, spans
from boostrank.engines.params import Limits
from boostrank.fit.start import cross_fit, ridge


class _Fetched:
    """Slices of a longer array, by the number of their first row."""

    def __init__(self, shape: tuple[int, ...], found: Mapping[int, Any]) -> None:
        self.shape, self._found = shape, found

    def __getitem__(self, rows: slice) -> Any:
        return self._found[rows.start]


def start_together(
    mesh: Any,
    parts: Sequence[RankingDataset],
    order: Sequence[tuple[int, int]],
    data: RankingDataset,
    gain: Gain,
    threads: int,
    limits: Limits,
) -> cross_fit.CrossFitted:
    """Fit the start on the rows of all workers; see `fit.start.cross_fit.cross_fitted`.

    Args:
        mesh: the links between workers, with `rank`, `share` and `all_reduce`.
        parts: the training shards on this worker, which are joined in `data`.
        order: (rank, index on that rank) for each shard, in input order.
    """
    names, ranks = data.feature_names, [rank for rank, _ in order]
    layout = mesh.share([(part.queries.sizes, part.queries.each_weight) for part in parts])
    sizes, weights = zip(*(layout[rank][number] for rank, number in order), strict=True)
    queries = QueryIndex.from_sizes(np.concatenate(sizes), weights=np.concatenate(weights))
    ends = np.cumsum([0, *(int(each.sum()) for each in sizes)])
    firsts = np.cumsum([0, *(part.n_documents for part in parts)])
    gains = weighted_gains(data.labels, gain, data.queries)
    # Find the worker, shard and rows of each sampled part.
    read = ridge.sampled(ridge.parts_of(queries, len(names)))
    pieces = [[(*order[i], a, b) for i, a, b in spans(ends, part.at)] for part in read]
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
            {part.at.start: joined_rows(some[i]) for part, some in zip(read, found, strict=True)} for i in (0, 1)
        )
        sampled = ridge.Sampled(queries, names, _Fetched((int(ends[-1]), len(names)), rows))
        learnt = cross_fit.learnt(sampled, _Fetched((int(ends[-1]),), values), threads, limits)
    regressions: cross_fit.Regressions = mesh.share(learnt)[0]
    # Score the rows of this worker with the models of their folds.
    folds = np.split(ridge.folds(len(queries)), np.cumsum([each.size for each in sizes])[:-1])
    own_folds = [fold for rank, fold in zip(ranks, folds, strict=True) if rank == mesh.rank]
    scores, counts = regressions.scores(data, np.concatenate(own_folds), threads)
    counts = mesh.all_reduce(counts.astype(np.float64)).astype(np.int64)
    return regressions.cross_fitted(names, scores, counts)
