"""Linear start for training on several workers, which equals the start on one machine with the same
shards.

The first worker collects a sample of tens of thousands of rows and fits the coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from boostrank.core.conventions import Gain, weighted_gains
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import joined_rows, spans
from boostrank.engines.engine_params import Limits
from boostrank.fit.start import cross_fit, ridge


@dataclass
class _Slices:
    """Slices of a longer array, by the number of their first row."""

    shape: tuple[int, ...]
    slices: Mapping[int, Any]

    def __getitem__(self, rows: slice) -> Any:
        return self.slices[rows.start]


def start_together(
    collective: Any, data: RankingDataset, gain: Gain, threads: int, limits: Limits
) -> cross_fit.CrossFitted:
    """Fit the start on the rows of all workers; see `fit.start.cross_fit.cross_fitted`.

    Args:
        collective: the workers, with the `parts` of `data` and the `order` of all parts.
        data: this worker's rows.
    """
    names, parts, order = data.feature_names, collective.parts, collective.order
    sizes_and_weights = [(part.queries.sizes, part.queries.each_weight) for part in parts]
    layout = collective.share(sizes_and_weights)
    sizes, weights = zip(*(layout[rank][number] for rank, number in order), strict=True)
    queries = QueryIndex.from_sizes(np.concatenate(sizes), weights=np.concatenate(weights))
    ends = np.cumsum([0, *(int(counts.sum()) for counts in sizes)])
    firsts = np.cumsum([0, *(part.n_documents for part in parts)])
    gains = weighted_gains(data.labels, gain, data.queries)
    # Find the worker, shard and rows of each sampled part, and send them to the first worker.
    sampled = ridge.sampled(ridge.parts_of(ridge.Sampled(queries, names, None)))
    sent = []
    for part in sampled:
        for shard, a, b in spans(ends, part.at):
            rank, number = order[shard]
            if rank == collective.rank:
                span = slice(firsts[number] + a, firsts[number] + b)
                sent.append((part.at.start, shard, data.features[span], gains[span]))
    received, regressions = collective.share(sent, reader=0), None
    if collective.rank == 0:
        shards_by_part = sorted(
            (shard_rows for of_rank in received for shard_rows in of_rank), key=itemgetter(0, 1)
        )
        features, targets = {}, {}
        for first, of_part in groupby(shards_by_part, key=itemgetter(0)):
            _, _, rows, values = zip(*of_part, strict=True)
            features[first], targets[first] = joined_rows(rows), joined_rows(values)
        total = int(ends[-1])
        source = ridge.Sampled(queries, names, _Slices((total, len(names)), features))
        regressions = cross_fit.learnt(source, _Slices((total,), targets), threads, limits)
    shared: cross_fit.Regressions = collective.share(regressions)[0]
    # Score the rows of this worker with the models of their folds.
    split = np.cumsum([counts.size for counts in sizes])[:-1]
    folds = zip(order, np.split(ridge.folds(len(queries)), split), strict=True)
    of_rank = [fold for (rank, _), fold in folds if rank == collective.rank]
    parts = ridge.parts_of(data, np.concatenate(of_rank))
    scores, counts = shared.scores(ridge.Rows(data, parts, shared.columns, threads), parts)
    counts = collective.all_reduce(counts.astype(np.float64)).astype(np.int64)
    return shared.cross_fitted(names, scores, counts)
