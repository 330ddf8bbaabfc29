"""Concatenation of data sets without copies, and checks that they fit together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import DataError, DataWarning, warn_user
from boostrank.core.queries import QueryIndex, as_text
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import Features, default_feature_names
from boostrank.data.categories import Categories
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.options import FeatureSpace
from boostrank.data.rows import Rows, is_sparse


class Shard(NamedTuple):
    """Description of one of several data sets; `path` is its file, or its name."""

    path: str
    space: FeatureSpace
    rows: int
    qids: npt.NDArray[Any]
    fingerprint: str
    weighs_queries: bool = False
    weighs_documents: bool = False

    @classmethod
    def of(cls, path: str, data: RankingDataset) -> Shard:
        """Describe a data set."""
        ids, weights, each = data.queries.qid, data.queries.weights, data.document_weights
        known, rows = data.fingerprint, data.n_documents
        return cls(path, data.feature_space, rows, ids, known, weights is not None, each is not None)


class Stacked(Rows):
    """Features of several data sets with the same columns, concatenated lazily."""

    on_disk = True  # slices are read on demand

    def __init__(self, sets: Sequence[RankingDataset], columns: int) -> None:
        super().__init__()
        self.parts, self._sets = [one.features for one in sets], sets
        self.is_sparse = any(is_sparse(part) for part in self.parts)
        self._ends = np.cumsum([0, *(part.shape[0] for part in self.parts)])
        self.shape = int(self._ends[-1]), columns

    def __getitem__(self, rows: slice) -> Features:
        """Return float32[n, d], dense or CSR."""
        found = [self.parts[i][a:b] for i, a, b in spans(self._ends, rows)]
        return joined_rows(found) if found else np.zeros((0, self.shape[1]), np.float32)

    def pieces(self) -> Iterator[tuple[int, Features]]:
        yield from super().pieces() if len(self) else [(0, self[0:0])]

    def fingerprint(self, labels: Float64Array, ptr: Int64Array) -> str:
        return fingerprint_of([one.fingerprint for one in self._sets])


def fingerprint_of(sets: Sequence[str]) -> str:
    """Return a hash of data sets, in any order, from their own hashes."""
    return hashlib.blake2b("".join(sorted(sets)).encode(), digest_size=16).hexdigest()


def spans(ends: Int64Array, rows: slice) -> list[tuple[int, int, int]]:
    """Return (part, first row, last row + 1) of some of all rows, where part i has the rows ends[i] to ends[i + 1]."""
    first, last = (int(np.searchsorted(ends, at, side="right")) - 1 for at in (rows.start, rows.stop - 1))
    clipped = [(i, *np.clip([rows.start, rows.stop], ends[i], ends[i + 1]) - ends[i]) for i in range(first, last + 1)]
    return [(i, int(a), int(b)) for i, a, b in clipped if a < b]


def joined_rows(rows: Sequence[Any]) -> Any:
    """Return rows one after the other, CSR if any are."""
    if len(rows) == 1:
        return rows[0]
    if any(sparse.issparse(part) for part in rows):
        return sparse.vstack([sparse.csr_matrix(part) for part in rows], format="csr")
    return np.concatenate(rows)


def stacked(sets: Sequence[RankingDataset], space: FeatureSpace) -> RankingDataset:
    """Return several data sets of the same features, possibly none, as one."""
    queries = [one.queries for one in sets]
    ids = [one.qid for one in queries]
    if any(one.dtype.kind == "O" for one in ids):
        ids = [as_text(one) for one in ids]
    sizes = np.concatenate([np.zeros(0, np.int64), *(one.sizes for one in queries)])
    weights = document_weights = None
    if any(one.weights is not None for one in queries):
        weights = np.concatenate([one.each_weight for one in queries])
    if any(one.document_weights is not None for one in queries):
        document_weights = np.concatenate([one.each_document_weight for one in queries])
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    names = np.concatenate(ids) if ids else np.zeros(0, np.int64)
    return RankingDataset(
        Stacked(sets, space.n_features),
        np.concatenate([np.zeros(0), *(one.labels for one in sets)]),
        QueryIndex(ptr, names, weights, document_weights=document_weights),
        tuple(space.feature_names),
        Provenance((), space.index_base, sets[0].provenance.options if sets else {}),
        categories=space.categories,
    )


def common_space(spaces: Mapping[str, FeatureSpace], known: Mapping[str, Categories]) -> FeatureSpace:
    """Return the features of several files as if they were one: numbered from 0 if 0 occurs in any of them.

    Categories get their codes in the order of the files, after the known ones of a model.
    """
    start, first = next(iter(spaces.items()))
    bases = {space.index_base for space in spaces.values() if space.index_base is not None}
    if not bases:
        for file, space in spaces.items():
            if space.feature_names != first.feature_names:
                name = next(iter(set(space.feature_names) ^ set(first.feature_names)), "their order")
                raise DataError(f"the features of {start} and of {file} differ: {name}")
        return replace(first, categories=_common_categories(spaces.values()) | dict(known))
    base, widths = min(bases), {}
    for file, space in spaces.items():
        names = tuple(space.feature_names)
        if space.index_base is None and names != tuple(default_feature_names(len(names), 1)):
            raise DataError(f"{file} names its features and other files number them: give all one format")
        # A file read as if its first feature had number 1 has one column less.
        widths[file] = len(names) + (base if space.index_base is None else space.index_base) - base
    narrow, width = min(widths, key=lambda file: widths[file]), max(widths.values())
    if widths[narrow] < width:
        warn_user(
            f"{narrow} names {spaces[narrow].n_features:,} features, others up to {width:,}: those that a file does "
            "not name are zero in it",
            DataWarning,
        )
    return replace(first, index_base=base, n_features=width, feature_names=default_feature_names(width, base))


def _common_categories(spaces: Iterable[FeatureSpace]) -> dict[str, Categories]:
    """Feature -> its categories in any file, with the codes that one file of all rows has."""
    found: dict[str, Categories] = {}
    for space in spaces:
        for name, one in space.categories.items():
            before = found.setdefault(name, one)
            if before.values is not None and one.values is not None:
                found[name] = replace(before, values=tuple(dict.fromkeys([*before.values, *one.values])))
    return found


def refuse_shared_queries(shards: Sequence[tuple[str, Shard]]) -> None:
    """Refuse a query in two shards, given with their workers: it would be ranked as two shorter ones."""
    qids, owners = _all_ids([shard for _, shard in shards])
    order = np.argsort(qids, kind="stable")
    again = np.flatnonzero(qids[order][1:] == qids[order][:-1])
    if again.size:
        first, second = sorted(owners[order[again[0] : again[0] + 2]])
        (worker, one), (other, two) = shards[first], shards[second]
        more = f", and {again.size - 1:,} more are in two" if again.size > 1 else ""
        raise DataError(
            f"query {qids[order[again[0]]]} is in {one.path} (on {worker}) and in {two.path} (on {other}){more}: "
            "a shard holds whole queries; `boostrank data shard` cuts a file between them"
        )


def refuse_mixed_weights(shards: Sequence[Shard]) -> None:
    """Refuse weights of queries in one shard and of documents in another: in one data set, all weigh documents."""
    of_documents = next((one.path for one in shards if one.weighs_documents), None)
    of_queries = next((one.path for one in shards if one.weighs_queries), None)
    if of_documents is not None and of_queries is not None:
        raise DataError(
            f"the weights of {of_documents} differ within a query and weigh documents, those of {of_queries} weigh "
            "queries: give all shards the one or the other"
        )


def shared_with_training(training: Sequence[Shard], other: Sequence[Shard]) -> list[Any]:
    """Return query ids of `other` that the training set has as well."""
    ids, owners = _all_ids([*training, *other])
    return list(np.intersect1d(ids[owners < len(training)], ids[owners >= len(training)]))


def _all_ids(shards: Sequence[Shard]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Query ids of all shards, as text if any of them has text; and the number of the shard of each."""
    parts = [shard.qids for shard in shards]
    if any(part.dtype.kind == "O" for part in parts):
        parts = [part.astype(str) for part in parts]
    ids = np.concatenate([np.zeros(0, parts[0].dtype) if parts else np.zeros(0, np.int64), *parts])
    return ids, np.repeat(np.arange(len(shards)), [len(part) for part in parts])
