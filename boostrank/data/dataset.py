"""Features, labels and queries of one data set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from boostrank.core.errors import DataError
from boostrank.core.gains import LABEL, GainExpression
from boostrank.core.queries import QueryIndex
from boostrank.core.text import UNFIT_WORDS, first_unfit, small_table
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.arrays import Features, NumberedNames, default_feature_names, read_arrays, read_columns, read_frame
from boostrank.data.candidates import Candidates
from boostrank.data.categories import Categories, code_map, say_no_codes, say_unseen
from boostrank.data.gain_columns import gain_of, with_gain
from boostrank.data.options import NUMBERED, FeatureSpace, takes_reader_options
from boostrank.data.rows import Rows, is_on_disk, is_sparse, missing_in

_ROWS_AT_A_TIME = 1 << 14

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from, as far as a model must remember it.

    Args:
        files: paths as given; empty for arrays.
        index_base: number of the first feature in the file (0 or 1), None for arrays.
        options: of the reader, those that changed the numbers (missing tokens, label map, ...), plain data.
    """

    files: tuple[str, ...] = ()
    index_base: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RankingDataset:
    """Whole queries: a row is a document, the rows of a query follow each other.

    Args:
        features: float32[N, d], C order, or `scipy.sparse.csr_matrix` of float32. NaN is missing; what a sparse row
            does not name is zero, on every backend. Those of `stream` lie on disk, and slices of them come to memory.
        labels: float64[N], finite; bigger is better.
        queries: which rows belong to which query.
        feature_names: d distinct names.
        provenance: where it came from.
        comments: what stood behind `#` on each row, if it was asked for.
        input_rows: int64[N] when rows were sorted on the way in: row i was row input_rows[i] of the input.
        categories: feature -> what its codes stand for, of those that hold codes of categories.
        candidates: all documents of the queries, where these are some of them; None: they are all.
    """

    features: Features
    labels: Float64Array
    queries: QueryIndex
    feature_names: tuple[str, ...] = ()
    provenance: Provenance = Provenance()
    comments: tuple[str, ...] | None = None
    input_rows: Int64Array | None = None
    categories: Mapping[str, Categories] = field(default_factory=dict)
    candidates: Candidates | None = None

    def __post_init__(self) -> None:
        rows, columns = self.features.shape
        if not self.feature_names:
            object.__setattr__(self, "feature_names", default_feature_names(columns))
        labels = np.ascontiguousarray(self.labels, dtype=np.float64)
        object.__setattr__(self, "labels", labels)
        if labels.shape != (rows,):
            raise DataError(f"{rows} rows of features but labels of shape {labels.shape}")
        if self.queries.n_documents != rows:
            raise DataError(
                f"queries cover {self.queries.n_documents} rows but there are {rows}: group sizes must sum to the "
                "number of rows"
            )
        if len(self.feature_names) != columns:
            raise DataError(f"{columns} features but {len(self.feature_names)} feature names")
        if not isinstance(self.feature_names, NumberedNames):
            odd = [name for name in self.feature_names if not isinstance(name, str)]
            if odd:
                raise DataError(f"feature names must be text, not {odd[0]!r}")
            at = first_unfit(self.feature_names)
            if at is not None:
                raise DataError(f"the feature name {self.feature_names[at]!r} holds {UNFIT_WORDS}: give it another")
            if len(set(self.feature_names)) != columns:
                raise DataError("feature names must be distinct")
        bad = np.flatnonzero(~np.isfinite(labels))
        if bad.size:
            raise self.queries.row_error(int(bad[0]), f"label {labels[bad[0]]} is not a finite number")

    def _repr_html_(self) -> str:
        names = ", ".join(self.feature_names[:8]) + (", …" if self.n_features > 8 else "")
        labels = f"{self.labels.min():g} to {self.labels.max():g}" if self.labels.size else "none"
        rows = [
            ("documents", f"{self.n_documents:,}"),
            ("queries", f"{len(self.queries):,}"),
            ("longest query", f"{self.queries.longest:,} documents"),
            ("labels", labels),
            ("features", f"{self.n_features:,}: {names}"),
            ("of categories", ", ".join(self.categories) or "none"),
        ]
        return small_table("RankingDataset", rows)

    @classmethod
    @takes_reader_options
    def read(cls, path: Paths, *, format: str = "auto", **options: Any) -> RankingDataset:
        """Read files of any format that `boostrank.data.source.FORMATS` knows as one data set.

        Args:
            path: a file, plain or compressed; several; a pattern, `shards/*.gz`; or "-", standard input.
            format: its name, such as csv or parquet; "auto": as the names of the files end, or, where they say nothing,
                as the files begin.
            {options}

        Raises:
            FileFormatError: what cannot be read, the first by line.
            ParameterError: options out of range, in contradiction, or that the format has no use for.
        """
        # By name: the readers make data sets, and import this module.
        data: RankingDataset = import_module("boostrank.data.assemble").read_files(path, format=format, **options)
        return data

    @classmethod
    @takes_reader_options
    def from_libsvm(cls, path: Paths, **options: Any) -> RankingDataset:
        """Read libsvm (SVMrank, LETOR) files as one data set; `boostrank.data.assemble.read_files`.

        Args:
            path: as of `read`.
            {options}
        """
        return cls.read(path, format="libsvm", **options)

    @classmethod
    @takes_reader_options
    def stream(
        cls, path: Paths, *, cache: str | PathLike[str] | bool = True, external_memory: bool = False, **options: Any
    ) -> RankingDataset:
        """Read files without holding their features in memory; see `boostrank.data.spill.stream_files`.

        Args:
            path: as of `read`; `format` too.
            cache: folder of the cache; True for `.boostrank-cache` beside the first file, False for none.
            external_memory: whether XGBoost shall keep its bins on disk too.
            {options}
        """
        stream_files = import_module("boostrank.data.spill").stream_files
        data: RankingDataset = stream_files(path, cache=cache, external_memory=external_memory, **options)
        return data

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        document_weight: npt.ArrayLike | None = None,
        k: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        sort: bool = False,
        categorical_feature: Sequence[str | int] | str | None = "auto",
        copy: bool = True,
    ) -> RankingDataset:
        """From an array, a sparse matrix or a data frame.

        Args:
            X: [N, d] numbers; a table of pandas, polars, Arrow or another library that narwhals reads, or that hands
                out an Arrow stream, may have categories too. Cast to float32: a number that is too large is refused,
                and whole numbers that are rounded (above 2^24) are said. Null, and what a masked array masks, is
                missing.
            y: [N] relevance labels, bigger is better.
            qid: [N] query id of each row, numbers or text. Rows of one query must follow each other.
            group: sizes of the queries in row order, instead of `qid`.
            weight: one positive number a query, or one a row. Those of rows that differ within a query weigh
                documents, as `document_weight`.
            document_weight: [N] numbers of at least 0, which objectives take as each declares, and others refuse: most
                multiply the document's gain by it (`boostrank objectives NAME`). Metrics do not look at them.
            k: rank at which each query's objective is cut off, in place of the objective's own k; one whole number a
                query, or one a row that is constant within each query. 0 means the whole list.
            feature_names: d names; a data frame brings its own.
            sort: bring the rows of each query together (stably); predictions come back in the order given here.
            categorical_feature: columns of categories, by name or position, beside those whose type says so ("auto"
                alone): pandas' and polars' categories, enumerations, Arrow's dictionaries. Named columns of text are
                categories, and those of numbers are codes already: whole numbers from 0. Codes follow the order that
                the type declares, or else that of the rows. Categories with an order (pandas, Arrow) that are not
                named are split as numbers, by their codes.
            copy: whether features that need no cast (float32 in C order, CSR of float32) are copied, so that what is
                done to the array later leaves the data set as it is; False saves the memory, and leaves that to you.

        Raises:
            DataError: what cannot be ranked, with the row or column and what mends it.
        """
        given = read_arrays(
            X, y, qid, group, weight, document_weight, k, feature_names, sort, categorical_feature, copy
        )
        return cls(
            given.features,
            given.labels,
            given.queries,
            given.names,
            input_rows=given.input_rows,
            categories=given.categories,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str = "label",
        qid: str = "qid",
        weight: str | None = None,
        drop: Sequence[str] | str = (),
        sort: bool = False,
        categorical_feature: Sequence[str | int] | str | None = "auto",
        gain: str | None = None,
    ) -> RankingDataset:
        """From a table that holds label and query id (and weight) as columns beside the features.

        Args:
            frame: a table, as `X` of `from_arrays`.
            label, qid, weight: names of columns; the weights as of `from_arrays`.
            drop: columns that are no features: ids of documents, dates.
            sort: as of `from_arrays`.
            categorical_feature: as of `from_arrays`; positions count the features.
            gain: an expression over `label` and other columns, features or not, whose values take the place of the
                labels; see `with_gain`.

        Raises:
            DataError: as `from_arrays`, and a column that is not there.
        """
        X, y, ids, weights = read_frame(frame, label, qid, weight, [drop] if isinstance(drop, str) else drop)
        data = cls.from_arrays(X, y, qid=ids, weight=weights, sort=sort, categorical_feature=categorical_feature)
        if gain is None:
            return data
        named = [one for one in GainExpression.parse(gain).columns if one not in (LABEL, *data.feature_names)]
        beside = read_columns(frame, named)
        gained: RankingDataset = with_gain(data, gain, {name: data.in_row_order(c) for name, c in beside.items()})
        return gained

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        rows, queries = f"{self.n_documents:,} rows", f"{len(self.queries):,} queries"
        return f"RankingDataset({rows}, {queries}, {self.n_features:,} {kind} features)"

    @property
    def n_documents(self) -> int:
        """Rows."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features, or what is read of them from disk, are a CSR matrix."""
        return is_sparse(self.features)

    @property
    def document_weights(self) -> Float64Array | None:
        """float64[N], the weight of each document, at least 0; None: all the same. They are those of `queries`."""
        return self.queries.document_weights

    @property
    def categorical(self) -> tuple[int, ...]:
        """The columns that trees split by sets of categories, ascending; not those whose categories have an order."""
        return tuple(
            i
            for i, name in enumerate(self.feature_names)
            if name in self.categories and not self.categories[name].ordered
        )

    @property
    def feature_space(self) -> FeatureSpace:
        """The features, which later files are read into."""
        how = self.provenance.options
        columns = {role: how[role] for role in ("label", "qid", "weight", "drop") if role in how}
        return FeatureSpace(self.provenance.index_base, self.n_features, self.feature_names, columns, self.categories)

    @property
    def on_disk(self) -> bool:
        """Whether the features lie on disk."""
        return is_on_disk(self.features)

    def with_features(
        self, names: Sequence[str], *, whose: str, categories: Mapping[str, Categories] | None = None
    ) -> RankingDataset:
        """The same rows with the features in the order of `names`, and the codes of categories that these have.

        Names that merely number the features (`f1`, `f2`, ...) go by position.

        Args:
            names: feature names of what this data set meets: a model, or a training set.
            whose: what that is, for the message.
            categories: feature -> its categories there; codes of others are missing, and that is said.

        Raises:
            DataError: another number of features, or other features; categories where there are none.
        """
        found = self._in_order(names, whose)
        if categories is None:
            return found
        own = zip(found.feature_names, names, strict=True)  # which may be numbers for names
        return found._coded({here: categories[name] for here, name in own if name in categories}, whose)

    def only(self, names: Sequence[str]) -> RankingDataset:
        """The same rows with these features alone, if all are here by name; else as they are."""
        if len(names) >= self.n_features or not set(names) <= set(self.feature_names):
            return self
        return self._columns(names, {name: one for name, one in self.categories.items() if name in names})

    def like(self, train_set: RankingDataset) -> RankingDataset:
        """The same rows with the features of a training set, in its order and its codes of categories.

        Raises:
            DataError: as `with_features`.
        """
        return self.with_features(train_set.feature_names, whose="the training set", categories=train_set.categories)

    def _in_order(self, names: Sequence[str], whose: str) -> RankingDataset:
        if tuple(names) == self.feature_names:
            return self
        if len(names) != self.n_features:
            raise DataError(f"the data has {self.n_features} features, {whose} {len(names)}")
        known = set(self.feature_names)
        missing = [name for name in names if name not in known]
        if not missing:
            return self._columns(names, self.categories)
        if all(map(NUMBERED.fullmatch, names)) or all(map(NUMBERED.fullmatch, self.feature_names)):
            return self
        raise DataError(f"the data has no feature {missing[0]!r}, which {whose} has ({len(missing)} are missing)")

    def _columns(self, names: Sequence[str], categories: Mapping[str, Categories]) -> RankingDataset:
        places = {name: i for i, name in enumerate(self.feature_names)}
        order = [places[name] for name in names]
        features = self.features.in_order(order) if self.on_disk else self.features[:, order]
        if isinstance(features, np.ndarray):
            features = np.ascontiguousarray(features)
        return replace(self, features=features, feature_names=tuple(names), categories=categories)

    def _coded(self, categories: Mapping[str, Categories], whose: str) -> RankingDataset:
        """The same with the codes of these categories."""
        maps = {}
        if isinstance(self.features, np.ndarray):
            say_no_codes(self.features, self.feature_names, _without(categories, self.categories), whose)
        for i, name in enumerate(self.feature_names):
            changed = code_map(name, self.categories.get(name), categories.get(name), whose)
            if changed is not None:
                maps[i] = changed
        if not maps:
            return self if self.categories == categories else replace(self, categories=categories)
        if not isinstance(self.features, np.ndarray):
            raise DataError(
                f"column {self.feature_names[next(iter(maps))]!r} has other codes of categories than {whose}, and its "
                "rows are not in memory: read them like the training data (like=)"
            )
        features = self.features.copy()
        for i, changed in maps.items():
            name = self.feature_names[i]
            codes = np.where(np.isnan(features[:, i]), len(changed), features[:, i]).astype(np.int64)
            features[:, i] = np.append(changed, np.float32(np.nan))[codes]
            counts, values = np.bincount(codes, minlength=len(changed)), self.categories[name].values or ()
            say_unseen(
                name, {v: int(counts[c]) for c, v in enumerate(values) if np.isnan(changed[c]) and counts[c]}, whose
            )
        return replace(self, features=features, categories=categories)

    def with_gain(self, gain: str) -> RankingDataset:
        """The same rows with the values of an expression in place of the labels: what `gain` of a training makes of it.

        Args:
            gain: over `label` and features, as "0.7*label + 0.3*log1p(margin)"; `boostrank.core.gains` has
                its grammar. The gain of such labels is "linear". Columns that are no features are there while a table
                is read: `gain=` of `read` and `from_frame`.

        Raises:
            ParameterError: no expression.
            DataError: a column that is not there; a value that is negative or not finite, with its row.
        """
        found: RankingDataset = with_gain(self, gain)
        return found

    @property
    def gain(self) -> str | None:
        """The expression whose values the labels are, None where they are labels."""
        return gain_of(self)

    def take(self, queries: npt.ArrayLike) -> RankingDataset:
        """Some whole queries, in the order asked for."""
        index, rows = self.queries.take(queries)
        return self._of_rows(index, rows, self.comments and tuple(self.comments[r] for r in rows))

    def joined(self, other: RankingDataset) -> RankingDataset:
        """The queries of both, this one's first; numbered anew where both have one of the same name.

        Args:
            other: of the same features.

        Raises:
            DataError: it has others, or one of the two alone has cut-offs of its queries, or lies on disk.
        """
        first, second = self.queries, other.queries
        if self.feature_names != other.feature_names:
            raise DataError("data sets of different features cannot be joined")
        if self.categories != other.categories:
            raise DataError("data sets of different categories cannot be joined: one.like(other) has the other's codes")
        if self.gain != other.gain:
            raise DataError(f"data sets with the gains {self.gain!r} and {other.gain!r} cannot be joined")
        if self.on_disk or other.on_disk:
            raise DataError("rows that lie on disk cannot be joined: read them to memory (--route memory)")
        if (first.k is None) != (second.k is None):
            raise DataError("one of two data sets has a cut-off for each query, the other none: they cannot be joined")
        names = np.concatenate([first.qid.astype(object), second.qid.astype(object)])
        if len(set(names.tolist())) < names.size:
            names = np.arange(names.size)
        weights = None
        if first.weights is not None or second.weights is not None:
            weights = np.concatenate([first.each_weight, second.each_weight])
        k = None if first.k is None or second.k is None else np.concatenate([first.k, second.k])
        of_documents = None
        if first.document_weights is not None or second.document_weights is not None:
            of_documents = np.concatenate([first.each_document_weight, second.each_document_weight])
        ptr = np.concatenate([first.ptr, first.ptr[-1] + second.ptr[1:]])
        queries = QueryIndex(ptr, names, weights, k, of_documents)
        features: Any
        if self.is_sparse:
            features = sparse.vstack([self.features, sparse.csr_matrix(other.features)], format="csr")
        else:
            more = other.features.toarray() if other.is_sparse else other.features
            features = np.concatenate([self.features, more])
        some = self.candidates is not None or other.candidates is not None
        return replace(
            self,
            features=features,
            labels=np.concatenate([self.labels, other.labels]),
            queries=queries,
            provenance=replace(self.provenance, files=(*self.provenance.files, *other.provenance.files)),
            comments=None,
            input_rows=None,
            candidates=Candidates.of(self).joined(Candidates.of(other)) if some else None,
        )

    def sample(self, documents: int, seed: int) -> RankingDataset:
        """Whole queries at random with about `documents` documents, in their order; see `QueryIndex.sample`."""
        chosen = self.queries.sample(documents, seed)
        return self if chosen.size == len(self.queries) else self.take(chosen)

    def shuffled(self, rng: np.random.Generator) -> RankingDataset:
        """The same queries in another order, and the rows of each in another order; queries are numbered anew."""
        index, rows = self.queries.take(rng.permutation(len(self.queries)))
        order = np.lexsort((rng.random(rows.size), index.of_rows()))
        weights = None if index.document_weights is None else index.document_weights[order]
        index = replace(index, document_weights=weights, places=None)
        return self._numbered(index, rows[order])

    def redrawn(self, rng: np.random.Generator) -> RankingDataset:
        """As many queries, drawn with replacement; one that is drawn twice is two queries; they are numbered anew."""
        count = len(self.queries)
        return self._numbered(*self.queries.take(np.sort(rng.integers(0, count, count))))

    def _numbered(self, index: QueryIndex, rows: Int64Array) -> RankingDataset:
        return self._of_rows(replace(index, qid=np.arange(len(index))), rows, None)

    def _of_rows(self, index: QueryIndex, rows: Int64Array, comments: tuple[str, ...] | None) -> RankingDataset:
        features, labels = self.features[rows], self.labels[rows]
        candidates = None if self.candidates is None else self.candidates.take(rows)
        return replace(
            self,
            features=features,
            labels=labels,
            queries=index,
            comments=comments,
            input_rows=None,
            candidates=candidates,
        )

    def in_row_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values in the order in which the rows came in, in the order of this data set's rows."""
        return values if self.input_rows is None else values[self.input_rows]

    def in_input_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of this data set's rows (predictions), in the order in which the rows came in."""
        if self.input_rows is None:
            return values
        out = np.empty_like(values)
        out[self.input_rows] = values
        return out

    def constant_features(self) -> tuple[str, ...]:
        """Names of the features that have one value in every row, or are missing in every row: no tree can use them."""
        if not self.n_documents:
            return ()
        same = np.arange(self.n_features)
        if self.on_disk:
            same = self.features.constant_columns()
        elif self.is_sparse:
            low, high = (extreme(axis=0).toarray().ravel() for extreme in (self.features.min, self.features.max))
            same = np.flatnonzero((low == high) | (missing_in(self.features) == self.n_documents))
        else:
            for start in range(0, self.n_documents, _ROWS_AT_A_TIME):
                rows, first = self.features[start : start + _ROWS_AT_A_TIME, same], self.features[0, same]
                same = same[np.all((rows == first) | (np.isnan(rows) & np.isnan(first)), axis=0)]
        return tuple(self.feature_names[i] for i in same)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of features, labels and query boundaries: the same for the same numbers in the same order."""
        if isinstance(self.features, Rows):
            return str(self.features.fingerprint(self.labels, self.queries.ptr))
        digest = hashlib.blake2b(digest_size=16)
        parts = [self.labels, self.queries.ptr]
        if self.is_sparse:
            indptr, indices = self.features.indptr.astype(np.int64), self.features.indices.astype(np.int32)
            parts += [indptr, indices, self.features.data]
        else:
            parts.append(self.features)
        digest.update(repr(self.features.shape).encode())
        for part in parts:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def _without(categories: Mapping[str, Categories], known: Mapping[str, Categories]) -> dict[str, Categories]:
    """Those of columns of which data know codes alone."""
    return {name: one for name, one in categories.items() if known.get(name, Categories()).values is None}
