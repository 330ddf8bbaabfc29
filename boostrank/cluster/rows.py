"""Rows of several shards as if they were one, on a worker that has them, and on the client that has asked for some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.cluster.shards import Shard
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float32Array, Float64Array, Int64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import Rows, is_sparse

Span = tuple[int, int, int]
"""Shard of a worker, first row, last row and one."""


class Stacked(Rows):
    """The features of several shards, one behind the other, as slices of rows.

    Args:
        parts: float32[n, d] each, as a `RankingDataset` has them.
        columns: d.
    """

    def __init__(self, parts: Sequence[Features], columns: int) -> None:
        super().__init__()
        self.parts = list(parts)
        self.is_sparse = any(is_sparse(part) for part in parts)
        self._ends = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = int(self._ends[-1]), columns

    def __getitem__(self, rows: slice) -> Features:
        """float32[n, d], dense or CSR."""
        found = [self.parts[i][a:b] for i, a, b in spans(self._ends, rows)]
        return _joined(found) if found else np.zeros((0, self.shape[1]), np.float32)

    def pieces(self) -> Iterator[tuple[int, Features]]:
        """(first row, rows) of all of them; at least one piece."""
        yield from super().pieces() if len(self) else [(0, self[0:0])]


def spans(ends: Int64Array, rows: slice) -> list[Span]:
    """What of each part lies in some of the rows of all: part i has the rows ends[i] to ends[i + 1]."""
    first, last = (int(np.searchsorted(ends, at, side="right")) - 1 for at in (rows.start, rows.stop - 1))
    clipped = [(i, *np.clip([rows.start, rows.stop], ends[i], ends[i + 1]) - ends[i]) for i in range(first, last + 1)]
    return [(i, int(a), int(b)) for i, a, b in clipped if a < b]


def _joined(rows: Sequence[Features]) -> Features:
    if len(rows) == 1:
        return rows[0]
    if any(sparse.issparse(part) for part in rows):
        return sparse.vstack([sparse.csr_matrix(part) for part in rows], format="csr")
    return np.concatenate(rows)


@dataclass(frozen=True, eq=False)
class Fetched:
    """Slices that were asked for of something longer; no others.

    Args:
        shape: of the whole.
        found: first row -> what lies there.
    """

    shape: tuple[int, ...]
    found: Mapping[int, Any]

    def __getitem__(self, rows: slice) -> Any:
        """One of them."""
        return self.found[rows.start]


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of several shards, one behind the other, as a `fit.start.rows.Source`.

    Args:
        queries: of all of them.
        feature_names: d names.
        features: `Stacked`; or `Fetched`, where they lie elsewhere.
    """

    queries: QueryIndex
    feature_names: tuple[str, ...]
    features: Stacked | Fetched


def queries_of(shards: Sequence[Shard]) -> QueryIndex:
    """The queries of several shards, one behind the other; they have no names."""
    sizes = np.concatenate([np.zeros(0, np.int64), *(shard.sizes for shard in shards)])
    weights = None
    if any(shard.weights is not None for shard in shards):
        weights = np.concatenate([np.ones(s.sizes.size) if s.weights is None else s.weights for s in shards])
    return QueryIndex.from_sizes(sizes, weights=weights)


def rows_of(parts: Sequence[RankingDataset], gains: Sequence[Float64Array], wanted: Sequence[Span]) -> list[Any]:
    """(features, gains) of some rows of a worker's shards."""
    return [(parts[i].features[a:b], gains[i][a:b]) for i, a, b in wanted]


def joined(pieces: Sequence[tuple[Float32Array, Float64Array]]) -> tuple[Features, Float64Array]:
    """Several of those, one behind the other."""
    return _joined([features for features, _ in pieces]), np.concatenate([gains for _, gains in pieces])
