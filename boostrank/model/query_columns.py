"""The columns of a model: its features, and columns within queries, which are features relative to
the other documents in the query.

Columns within queries have names such as `rank(price|query)` and `zscore(price|query)`. The names
are in the engine's own file, so that the columns are recognised without a sidecar.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from boostrank.core.errors import (
    DataError,
    DataWarning,
    ParameterError,
    did_you_mean,
    warn_user,
)
from boostrank.core.machine import free_memory, resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.core.text import list_names
from boostrank.core.types import Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.feature_space import quoted
from boostrank.data.rows import Rows, Whole, is_on_disk, whole_of
from boostrank.engines.trees import engine_names
from boostrank.kernels.within_query import KINDS, fill_within_queries
from boostrank.records import WithinRecord

_ADDED = re.compile(rf"({'|'.join(KINDS)})\((.+)\|query\)")
_NUMBERS_AT_A_TIME = 1 << 22
_LITTLE_BYTES = 1 << 28  # free memory is not checked below this size


@dataclass(frozen=True)
class WithinQuery:
    """Columns within queries to add to the features.

    Args:
        kinds: one or more kinds, as a sequence or as names separated by commas. "rank" is the mean
            rank among the query's documents, from 0 (smallest) to 1. "zscore" is (x - mean) /
            deviation. "best" is the difference from the largest value, and "mean" is the difference
            from the mean. "minmax" is (x - minimum) / (maximum - minimum), as in hybrid search.
            "opensearch_zscore" is `z_score` of OpenSearch's hybrid search, .001 at or below the
            mean.
        of: features by name or by number in their file (in arrays, column numbers from 0), as a
            sequence or as names separated by commas; None for all numeric features.

    Raises:
        ParameterError: if a kind is unknown or repeated.

    Example:
        >>> import boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> data = make_ranking_data(queries=30, seed=1, mean_length=8).dataset
        >>> params = {"objective": "listnet", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
        >>> within = boostrank.WithinQuery("rank", of=[1])
        >>> model = boostrank.train(params, data, 3, within_query=within)
        >>> len(model.columns.added)
        1
    """

    kinds: Sequence[str] = ("rank", "zscore")
    of: Sequence[str | int] | str | None = None

    def __post_init__(self) -> None:
        kinds = _words(self.kinds)
        of = self.of
        for kind in kinds:
            if kind not in KINDS:
                raise ParameterError(
                    f"within_query: unknown kind {kind!r}.{did_you_mean(str(kind), KINDS)}"
                )
        if len(set(kinds)) < len(kinds):
            raise ParameterError("within_query names a kind twice")
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "of", None if of is None else _words(of))

    @classmethod
    def of_options(cls, options: Any) -> WithinQuery | None:
        """Return the columns that `TrainOptions` request, or None."""
        columns = options.within_query
        if columns is None:
            return None
        requested = columns if isinstance(columns, WithinQuery) else cls(columns)
        return requested if options.of is None else replace(requested, of=options.of)

    @property
    def record(self) -> dict[str, list[str]]:
        """The entry of a record of options."""
        return {"within_query": [*self.kinds, str(self.of)]}

    def columns(
        self, names: Sequence[str], base: int | None, unused: Collection[int] = ()
    ) -> ModelColumns:
        """Resolve the features and kinds, or raise ParameterError if features cannot be used.

        Args:
            base: number of the first feature in the file; None for arrays.
            unused: features that trees cannot split as numbers.
        """
        if not self.kinds:
            return ModelColumns(tuple(names))
        if self.of is None:
            features = [i for i in range(len(names)) if i not in unused]
        else:
            features = [_column(feature, names, base or 0) for feature in self.of]
        if len(set(features)) < len(features):
            raise ParameterError("within_query: a feature is named twice")
        if unusable := [names[i] for i in features if i in unused]:
            raise ParameterError(
                f"within_query: these parameters do not let trees use {unusable[0]!r} as a number"
            )
        if not features:
            raise ParameterError("within_query: the data has no suitable feature")
        columns = ModelColumns(tuple(names), tuple(self.kinds), tuple(features))
        if ModelColumns.from_names(engine_names(columns.names)) != replace(
            columns, features=engine_names(names)
        ):
            clashing = next((name for name in names if _ADDED.fullmatch(name)), names[0])
            raise ParameterError(
                f"feature {clashing!r} has the name of a column of within_query: rename it"
            )
        return columns


def _words(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = value.split(",")
    entries = [value] if np.isscalar(value) else value
    stripped = (entry.strip() if isinstance(entry, str) else entry for entry in entries)
    return tuple(entry for entry in stripped if entry != "")


def _column(feature: str | int, names: Sequence[str], base: int) -> int:
    if feature in names:
        return list(names).index(str(feature))
    if isinstance(feature, int | np.integer) or str(feature).isdecimal():
        if not 0 <= int(feature) - base < len(names):
            raise ParameterError(
                f"within_query: {feature} is not a feature, use {base} to {base + len(names) - 1}"
            )
        return int(feature) - base
    hint = did_you_mean(str(feature), names, list_all=False)
    raise ParameterError(f"within_query: the data has no feature {feature!r}.{hint}")


@dataclass(frozen=True)
class ModelColumns:
    """The columns of a model: its features, and columns within queries, if any: one column of each
    of the `kinds` for each feature in `of`.
    """

    features: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    of: tuple[int, ...] = ()

    def __repr__(self) -> str:
        added_columns = f", {self.words()}" if self.kinds else ""
        return f"{type(self).__name__}({len(self.features):,} features{added_columns})"

    @classmethod
    def of_training(
        cls,
        options: Any,
        data: RankingDataset,
        unsplittable: Collection[int],
        continued: ModelColumns | None,
    ) -> ModelColumns:
        """Return the columns of a training, which `TrainOptions` request, or those of the continued
        model.

        Args:
            unsplittable: features that trees cannot split as numbers.

        Raises:
            ParameterError: if features cannot be used, or the continued model has other columns.
        """
        names = data.feature_names
        requested = WithinQuery.of_options(options)
        continued_columns = None if continued is None else replace(continued, features=names)
        if requested is None:
            return continued_columns or cls(names)
        columns = requested.columns(names, data.provenance.index_base, unsplittable)
        if requested.of is None and data.categorical:
            categorical_names = quoted([names[column] for column in data.categorical])
            warn_user(
                f"within_query ignores {categorical_names}: codes of categories are not numbers;"
                " name the columns by of=",
                DataWarning,
            )
        if continued_columns is not None and columns != continued_columns:
            description = continued_columns.words() or "no columns within queries"
            raise ParameterError(
                f"init_model has {description}, which cannot change: remove within_query"
            )
        return columns

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns within queries, such as "rank(price|query)", kind by kind."""
        if not self.kinds:
            return ()
        names = engine_names(self.features)
        return tuple(f"{kind}({names[column]}|query)" for kind in self.kinds for column in self.of)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, followed by the names of the added columns."""
        return self.features + self.added

    @property
    def sources(self) -> list[int]:
        """The position of the feature that each added column follows."""
        return list(self.of) * len(self.kinds)

    @property
    def record(self) -> dict[str, WithinRecord]:
        """The entry of a model's record for columns within queries; empty if there are none."""
        if not self.kinds:
            return {}
        features = [self.features[column] for column in self.of]
        return {"within_query": {"kinds": list(self.kinds), "of": features}}

    def sum_by_feature(self, values: Array) -> Array:
        """Add the values of columns within queries, on the last axis, to those of their features.

        Args:
            values: an array [..., d + m], or [..., d + m + 1] with a value that stays the last.
        """
        if not self.kinds:
            return values
        d = len(self.features)
        sources = self.sources
        merged = np.delete(values, np.s_[d : d + len(sources)], axis=-1)
        for i, source in enumerate(sources):
            merged[..., source] += values[..., d + i]
        return merged

    def words(self, most: int = 4) -> str:
        """List the columns within queries, as in `rank(f1|query), rank(f2|query) and 8 more`."""
        return list_names(self.added, most)

    @classmethod
    def from_names(cls, names: Sequence[str]) -> ModelColumns:
        """Return the columns with these names, as a booster has them."""
        # Find the shortest prefix of features whose names explain all columns after it.
        matches = [_ADDED.fullmatch(name) for name in names]
        fewest = max((i + 1 for i, match in enumerate(matches) if match is None), default=0)
        for n_features in range(max(fewest, 1), len(names)):
            column_of_name = {name: i for i, name in enumerate(engine_names(names[:n_features]))}
            pairs = [(match[1], match[2]) for match in matches[n_features:] if match]
            kinds, sources = [tuple(dict.fromkeys(part)) for part in zip(*pairs, strict=True)]
            if column_of_name.keys() >= {*sources}:
                of = tuple(column_of_name[source] for source in sources)
                columns = cls(tuple(names[:n_features]), kinds, of)
                if columns.names == tuple(names):
                    return columns
        return cls(tuple(names))

    def dataset(self, data: RankingDataset, threads: int | None = None) -> RankingDataset:
        """Return the data set with the added columns, if there are any."""
        features = data.features
        parent = whole_of(features)
        if parent is not None:  # compute the columns once for all parts, which have whole queries
            if parent.wider is None or parent.wider.data.feature_names != self.names:
                parent.wider = Whole(self.dataset(parent.data, threads))
            features = parent.wider.view(features.rows)
        else:
            features = self.of_data(data, threads)
        return replace(data, features=features, feature_names=self.names)

    def of_data(self, data: RankingDataset, threads: int | None) -> Features:
        """Return a data set's rows with the added columns, or raise `DataError` if documents were
        left out.
        """
        if self.kinds and not data.has_all_documents:
            raise DataError(
                f"{self.words(2)} need all documents of a query, but the training set of a click"
                " log leaves out those never shown: remove within_query, or pass all documents"
            )
        return self.rows(data.features, data.queries, threads)

    def rows(self, features: Features, queries: QueryIndex, threads: int | None) -> Features:
        """Append the m columns to float32[N, d], dense, CSR or on disk, or raise DataError if
        memory is too small.
        """
        if not self.kinds:
            return features
        threads = resolve_threads(threads)
        if is_on_disk(features):
            return RowsWithin(features, queries, self, threads)
        is_sparse = sparse.issparse(features)
        n_added = len(self.added)
        n_rows, n_features = features.shape
        # Ranks have few zeros.
        to_dense = not is_sparse or ("rank" in self.kinds and n_added >= n_features)
        size = 4 * n_rows * (n_features + n_added) if to_dense else 8 * n_rows * n_added
        if size > _LITTLE_BYTES and size > free_memory():
            raise DataError(
                f"{n_rows:,} rows with {n_added:,} columns within queries may take"
                f" {size / 1e9:.0f} GB, more than is free: select fewer features (--of,"
                " WithinQuery(of=...))"
            )
        width = n_features + n_added if to_dense else 0
        widened = np.empty((n_rows, width), np.float32)
        sources = np.array(self.of, np.int64)
        if not is_sparse:
            fill_within_queries(features, sources, self.kinds, queries.ptr, widened, threads)
            return widened
        # Convert sparse rows block by block, to limit the size of dense copies.
        added_blocks = [sparse.csr_matrix((0, n_added), dtype=np.float32)]
        for first_query, last_query in queries.blocks(
            max(1, _NUMBERS_AT_A_TIME // (n_features + n_added))
        ):
            start = int(queries.ptr[first_query])
            stop = int(queries.ptr[last_query])
            block = features[start:stop]
            ptr = queries.ptr[first_query : last_query + 1] - start
            if to_dense:
                fill_within_queries(
                    block.toarray(), sources, self.kinds, ptr, widened[start:stop], threads
                )
                continue
            dense = block[:, sources].toarray()
            columns = np.arange(sources.size)
            added = np.empty((stop - start, n_added), np.float32)
            fill_within_queries(dense, columns, self.kinds, ptr, added, threads)
            added_blocks.append(sparse.csr_matrix(added))
        if to_dense:
            return widened
        return sparse.csr_matrix(
            sparse.hstack([features, sparse.vstack(added_blocks)], format="csr"), dtype=np.float32
        )


class RowsWithin(Rows):
    """Rows on disk with columns within queries, float32[N, d + m]. The columns are computed in each
    read.
    """

    on_disk = True

    def __init__(
        self, stored: Any, queries: QueryIndex, columns: ModelColumns, threads: int
    ) -> None:
        self._stored = stored
        self._queries = queries
        self._columns = columns
        self._threads = threads
        self.shape = (stored.shape[0], len(columns.names))
        self.is_sparse = stored.is_sparse
        self.external = stored.external
        self.watch = stored.watch

    @property
    def store(self) -> Any:
        """The store of the rows without the added columns."""
        return self._stored.store

    def __getitem__(self, rows: slice | Array) -> Any:
        """Return float32 rows in memory, dense or CSR, which are computed from whole queries."""
        if isinstance(rows, slice):
            row_numbers = np.arange(*rows.indices(len(self)))
        else:
            row_numbers = np.asarray(rows, np.int64)
        # Compute the columns of whole queries, and choose the rows.
        ptr = self._queries.ptr
        query_of_row = np.searchsorted(ptr, row_numbers, side="right") - 1
        chosen_queries, position = np.unique(query_of_row, return_inverse=True)
        queries, query_rows = self._queries.take(chosen_queries)
        computed = self._columns.rows(self._stored[query_rows], queries, self._threads)
        return computed[queries.ptr[position] + row_numbers - ptr[query_of_row]]

    def pieces(self) -> Iterator[tuple[int, Any]]:
        """Yield (first row, rows) in order, with a few megabytes of whole queries at a time."""
        for first_query, last_query in self._queries.blocks(
            max(1, _NUMBERS_AT_A_TIME // max(1, self.shape[1]))
        ):
            start = int(self._queries.ptr[first_query])
            stop = int(self._queries.ptr[last_query])
            yield start, self[start:stop]
