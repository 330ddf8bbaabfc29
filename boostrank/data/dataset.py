"""Features, labels and queries of one data set."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from boostrank.core.conventions import LABEL, GainExpression
from boostrank.core.errors import DataError, warn_user
from boostrank.core.queries import PlacesOf, QueryIndex, as_text, ids_of_rows, query_numbers
from boostrank.core.text import UNFIT_WORDS, first_unfit
from boostrank.core.types import (
    Array,
    Float64Array,
    Int64Array,
    as_numbers,
    check_in_step,
    first_true,
)
from boostrank.data.arrays import (
    Features,
    NumberedNames,
    default_feature_names,
    queries_given,
    queries_of_sizes,
    query_values,
    read_rows,
    unknown_column,
    with_weights,
)
from boostrank.data.categories import (
    Categories,
    Coding,
    list_examples,
    misfit_error,
    say_no_codes,
    to_record,
)
from boostrank.data.engine_data import content_of
from boostrank.data.feature_space import NUMBERED, FeatureSpace, space_of, unnamed
from boostrank.data.roles import DEFAULTS
from boostrank.data.rows import (
    DenseRows,
    constant_columns,
    fingerprint,
    is_on_disk,
    is_sparse,
    join_queries,
    joined_arrays,
    joined_rows,
    missing_columns,
)
from boostrank.records import DataRecord

_ROWS_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class Provenance:
    """The origin of a data set, as recorded with models.

    Args:
        files: paths as the caller passed them; empty for arrays.
        index_base: number of the first feature in the file (0 or 1), None for arrays.
        options: reader options that affect values (missing tokens, label map, ...), as plain data.
    """

    files: tuple[str, ...] = ()
    index_base: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RankingDataset:
    """The documents of complete queries. The rows of a query are contiguous.

    Args:
        features: float32[N, d] in C order, or float32 `scipy.sparse.csr_matrix`. NaN is missing,
            and absent entries of sparse rows are zero on every backend. Features that `stream`
            returns are kept on disk and read in slices.
        labels: float64[N], finite; larger labels are better.
        queries: the rows of each of the Q queries, and their weights.
        feature_names: d distinct names; without them, features are numbered.
        provenance: files, reading options and number of the first feature, for the model's record.
        document_names: object[N], name of each document as text, "" if it has none; None if names
            were not read.
        input_rows: int64[N] if the rows were sorted. Row i is row input_rows[i] of the input.
        categories: mapping from a categorical feature to the categories that its codes stand for.
        has_all_documents: whether no documents of the queries were left out.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> data.n_documents, data.n_features, data.queries.sizes.tolist()
        (5, 2, [3, 2])
    """

    features: Features
    labels: Float64Array
    queries: QueryIndex
    feature_names: tuple[str, ...] = ()
    provenance: Provenance = Provenance()
    document_names: Array | None = None
    input_rows: Int64Array | None = None
    categories: Mapping[str, Categories] = field(default_factory=dict)
    has_all_documents: bool = True

    def __post_init__(self) -> None:
        rows, columns = self.features.shape
        if not self.feature_names:
            object.__setattr__(self, "feature_names", default_feature_names(columns))
        labels = np.ascontiguousarray(self.labels, dtype=np.float64)
        object.__setattr__(self, "labels", labels)
        shapes = {"labels": labels.shape, "rows in queries": (self.queries.n_documents,)}
        if self.document_names is not None:
            object.__setattr__(self, "document_names", np.asarray(self.document_names, object))
            shapes["document names"] = np.shape(self.document_names)
        for part, shape in shapes.items():
            if shape != (rows,):
                raise DataError(f"there are {rows} rows of features but {part} of shape {shape}")
        if len(self.feature_names) != columns:
            raise DataError(
                f"there are {columns} features but {len(self.feature_names)} feature names"
            )
        # Generated names need no check, and there may be millions of them.
        if not isinstance(self.feature_names, NumberedNames):
            not_text = [name for name in self.feature_names if not isinstance(name, str)]
            if not_text:
                raise DataError(f"feature names must be text, not {not_text[0]!r}")
            unfit = first_unfit(self.feature_names)
            if unfit is not None:
                raise DataError(
                    f"the feature name {self.feature_names[unfit]!r} contains {UNFIT_WORDS};"
                    " rename it"
                )
            if len(set(self.feature_names)) != columns:
                raise DataError("feature names must be distinct")
        invalid_row = first_true(~np.isfinite(labels))
        if invalid_row is not None:
            raise self.queries.row_error(invalid_row, f"label {labels[invalid_row]} is not finite")

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        k: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        sort: bool = False,
        categorical_feature: Sequence[str | int] | str | None = "auto",
        copy: bool = True,
    ) -> RankingDataset:
        """Make a data set from an array, a sparse matrix or a data frame.

        Args:
            X: [N, d] numbers. Tables from pandas, polars, Arrow and other libraries (via narwhals
                or an Arrow stream) may also contain categories. Values are cast to float32. Numbers
                out of range are refused, and integers that are rounded (above 2^24) cause a
                warning. Null and masked entries are missing.
            y: [N] relevance labels; larger labels are better.
            qid: [N] query id of each row, as numbers or text. The rows of a query must be
                contiguous.
            group: sizes of the queries in row order, instead of `qid`.
            weight: positive weights, one per query or per row. Row weights that differ within a
                query are document weights, of at least 0. Most objectives multiply the gain of a
                document by its weight, and the others refuse weights (see `boostrank objectives
                NAME`). Metrics ignore them.
            k: cut-off rank for each query, which replaces the objective's parameter k: one integer
                per query, or one per row that is constant within queries. 0 means the whole list.
            feature_names: d names; data frames already have names.
            sort: whether to sort rows by query (stably). Predictions keep the order of the input.
            categorical_feature: categorical columns, by name or position. "auto" detects them by
                type: pandas and polars categories, enumerations and Arrow dictionaries. Named text
                columns contain categories, and named numeric columns contain codes, integers from
                0. Codes follow the declared order, or else the row order. Ordered categories
                (pandas, Arrow) that are not named are split by code, like numbers.
            copy: whether to copy features that need no cast (float32 in C order, or float32 CSR).
                False saves memory, but later changes to the array would change the data set.

        Raises:
            DataError: the data are invalid. The message names the row or column, and a remedy.
        """
        # Features and labels, then queries, whose rows may have to be sorted.
        if (qid is None) == (group is None):
            raise DataError("pass either qid (one id per row) or group (one size per query)")
        check_in_step(X=X, y=y, qid=qid, weight=weight, k=k)
        features, names, categories = read_rows(X, feature_names, categorical_feature, copy)
        blank_columns = [i for i, name in enumerate(names) if not str(name).strip()]
        if blank_columns:
            raise DataError(f"feature {blank_columns[0]} (from 0) has a blank name; rename it")
        n_rows = features.shape[0]
        row_order = None
        if group is not None:
            queries = queries_of_sizes(group, n_rows)
        else:
            ids = ids_of_rows(qid, n_rows)  # type: ignore[arg-type]
            if sort:
                order = np.argsort(query_numbers(ids), kind="stable").astype(np.int64)
                if not np.array_equal(order, np.arange(n_rows)):
                    row_order, ids, features = order, ids[order], features[order]
            queries = QueryIndex.from_ids(ids)
        if row_order is not None:
            queries = replace(queries, places=PlacesOf(None, row_order))

        def read_column(column: ArrayLike, column_name: str) -> Float64Array:
            """Return the numbers of a column in the order of the rows."""
            values = as_numbers(column, column_name)
            if row_order is None or values.size != row_order.size:
                return values.copy()
            return values[row_order]

        labels = read_column(y, "labels")
        # Values of queries and documents follow the order of the rows.
        if weight is not None:
            queries = with_weights(queries, read_column(weight, "weights"))
        if k is not None:
            cutoffs, uneven_row = query_values(read_column(k, "cut-offs"), queries, "cut-offs")
            if uneven_row is not None:
                raise queries.row_error(
                    uneven_row,
                    "the rows of a query must have the same cut-off, and this one differs or is"
                    " missing",
                )
            queries = replace(queries, k=cutoffs)  # type: ignore[arg-type]
        return cls(features, labels, queries, names, input_rows=row_order, categories=categories)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str | None = None,
        qid: str | None = None,
        weight: str | None = None,
        id: str | None = None,
        drop: Sequence[str] | str = (),
        sort: bool = False,
        categorical_feature: Sequence[str | int] | str | None = "auto",
        gain: str | None = None,
        like: RankingDataset | FeatureSpace | None = None,
    ) -> RankingDataset:
        """Make a data set from a table with label, query id and weight columns.

        Args:
            frame: a table, like `X` in `from_arrays`.
            label, qid, weight: column names. None means the usual names of labels (`label`,
                `relevance`, `grade`, `rating`) and query ids (`qid`, `query_id`, `query`), as in
                files. For weights, see `from_arrays`.
            id: column with document names.
            drop: columns that are not features, such as document ids and dates.
            categorical_feature: see `from_arrays`. Positions count features.
            gain: an expression over `label` and other columns (features or not) that replaces the
                labels; see `with_gain`.
            like: training data (or their `FeatureSpace`), whose features and category codes are
                read; other columns are ignored with a warning.

        Raises:
            DataError: see `from_arrays`; also if a column is missing.
        """
        from boostrank.data import frames

        table = frames.as_frame(frames.with_query_level(frame, qid), whole=True)
        if table is None:
            raise DataError(
                f"{type(frame).__name__} is not a data frame; use from_arrays for arrays,"
                " boostrank.read for files, and to_table(), to_pandas() or df() of a query"
            )
        space = space_of(like)
        # Columns that are named as features are no index of a pandas frame.
        named_columns = categorical_feature if isinstance(categorical_feature, Iterable) else ()
        feature_names: Sequence[str] = [name for name in named_columns if isinstance(name, str)]
        if space is not None:
            feature_names = space.feature_names
        roles = {"label": label, "qid": qid, "weight": weight, "id": id}
        X, columns = frames.read_frame(table, roles, drop, feature_names)
        names = frames.names_of(X)
        if space is not None:
            ignored_names = sorted({*names} - {*space.feature_names})
            if ignored_names:
                warn_user(
                    f"columns that the training data lacks are ignored:"
                    f" {', '.join(ignored_names[:9])}"
                )
            names, categorical_feature = space.feature_names, None
            X, _ = frames.read_table(X, names, trained_categories=space.categories)
        data = cls.from_arrays(
            X,
            columns["label"],
            qid=columns["qid"],
            weight=columns.get("weight"),
            feature_names=names,
            sort=sort,
            categorical_feature=categorical_feature,
            copy=False,
        )
        if space is not None:
            data = replace(data, categories=space.categories)
        if "id" in columns:
            data = replace(data, document_names=data.in_row_order(columns["id"]))
        if gain is None:
            return data
        # Read the columns of the gain that are no features.
        gain_columns = {}
        additional_names = {*GainExpression(gain).columns} - {LABEL, *data.feature_names}
        for name in sorted(additional_names & {*frames.names_of(table)}):
            values = as_numbers(frames.values_of(table, name), f"column {name!r} in the gain")
            gain_columns[name] = data.in_row_order(values)
        return data.with_gain(gain, gain_columns)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RankingDataset({self.n_documents:,} rows, {len(self.queries):,} queries,"
            f" {self.n_features:,} {kind} features)"
        )

    @property
    def n_documents(self) -> int:
        """Number of rows."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features, or the slices that are read from disk, are a CSR matrix."""
        return is_sparse(self.features)

    @property
    def document_weights(self) -> Float64Array | None:
        """Weight of each document, float64[N], at least 0; None if all weights are equal."""
        return self.queries.document_weights

    @property
    def categorical(self) -> tuple[int, ...]:
        """Columns that trees split by sets of categories: the unordered categorical features,
        ascending."""
        unordered = {name for name, categories in self.categories.items() if not categories.ordered}
        return tuple(i for i, name in enumerate(self.feature_names) if name in unordered)

    @property
    def feature_space(self) -> FeatureSpace:
        """Description of the features, for reading later files."""
        options = self.provenance.options
        columns = {role: options[role] for role in (*DEFAULTS, "drop") if role in options}
        return FeatureSpace(
            self.provenance.index_base,
            self.n_features,
            feature_names=self.feature_names,
            columns=columns,
            categories=self.categories,
        )

    @property
    def on_disk(self) -> bool:
        """Whether the features are on disk."""
        return is_on_disk(self.features)

    def with_features(
        self,
        names: Sequence[str],
        *,
        whose: str,
        categories: Mapping[str, Categories] | None = None,
    ) -> RankingDataset:
        """Return the same rows with the features in the order of `names` and coded according to
        `categories`.

        Generated names (`f1`, `f2`, ...) are matched by position.

        Args:
            names: feature names of the target, which is a model or a training set.
            whose: description of the target, used in messages.
            categories: categories of the target by feature. Unknown categories become missing, with
                a warning.

        Raises:
            DataError: the features or their number differ, or a numeric column contains categories.
        """
        dataset = self._in_order(names, whose)
        if categories is None:
            return dataset
        pairs = zip(dataset.feature_names, names, strict=True)  # names may be numbers
        return dataset._coded(
            {column: categories[name] for column, name in pairs if name in categories}, whose
        )

    def only(self, names: Sequence[str]) -> RankingDataset:
        """Return the same rows with only these features, or the data set itself if a name does not
        exist."""
        if len(names) >= self.n_features or not set(names) <= set(self.feature_names):
            return self
        return self._columns(names)

    def like(self, train_set: RankingDataset) -> RankingDataset:
        """Return the same rows with the features of a training set, in the same order and with the
        same codes.

        Raises:
            DataError: as `with_features`.
        """
        return self.with_features(
            train_set.feature_names, whose="the training set", categories=train_set.categories
        )

    def _in_order(self, names: Sequence[str], whose: str) -> RankingDataset:
        if tuple(names) == self.feature_names:
            return self
        if len(names) != self.n_features:
            raise DataError(
                f"the data has {self.n_features} features, but {whose} has {len(names)}"
            )
        own_names = set(self.feature_names)
        missing = [name for name in names if name not in own_names]
        if not missing:
            return self._columns(names)
        if all(map(NUMBERED.fullmatch, names)) or all(map(NUMBERED.fullmatch, self.feature_names)):
            return self
        raise DataError(
            f"the data has no feature {missing[0]!r}, which {whose} has ({len(missing)} are"
            f" missing){unnamed(missing)}"
        )

    def _columns(self, names: Sequence[str]) -> RankingDataset:
        column_numbers = {name: i for i, name in enumerate(self.feature_names)}
        categories = {name: self.categories[name] for name in names if name in self.categories}
        order = [column_numbers[name] for name in names]
        features = self.features.in_order(order) if self.on_disk else self.features[:, order]
        if isinstance(features, np.ndarray):
            features = np.ascontiguousarray(features)
        return replace(self, features=features, feature_names=tuple(names), categories=categories)

    def _coded(self, categories: Mapping[str, Categories], whose: str) -> RankingDataset:
        """Return the same rows, coded according to these categories."""
        # Check columns of codes without names, which can only be taken as they are.
        if isinstance(self.features, np.ndarray):
            unnamed_categories = {
                name: column_categories
                for name, column_categories in categories.items()
                if self.categories.get(name, Categories()).values is None
            }
            say_no_codes(self.features, self.feature_names, unnamed_categories, whose)
        # Translate the columns whose codes differ, in a copy; without one, the features are shared.
        features = self.features
        for i, name in enumerate(self.feature_names):
            values = self.categories.get(name, Categories()).values
            new_categories = categories.get(name)
            if values is None or (new_categories is not None and new_categories.values == values):
                continue
            if new_categories is None or new_categories.values is None:
                contents = f"categories ({list_examples(values)})"
                raise misfit_error(name, contents, new_categories, whose)
            if not isinstance(features, np.ndarray):
                raise DataError(
                    f"column {name!r} has other category codes than {whose}, and its rows are not"
                    " in memory: pass the training data as like when reading them"
                )
            if features is self.features:
                features = features.copy()
            column = features[:, i]
            coding = Coding(name, new_categories)
            column[:] = coding.codes(np.nan_to_num(column, nan=-1).astype(np.int64), values)
            coding.warn(whose)
        if features is self.features and categories == self.categories:
            return self
        return replace(self, features=features, categories=categories)

    def with_gain(
        self, gain: str, columns: Mapping[str, Float64Array] | None = None
    ) -> RankingDataset:
        """Return the same rows with the values of an expression as labels, like the training option
        `gain`.

        Args:
            gain: expression over `label` and features, such as "0.7*label + 0.3*log1p(margin)"; see
                `core.conventions`. The new labels are used with the gain "linear".
            columns: float64[N] by name, the columns that are not features.

        Raises:
            ParameterError: the expression is invalid.
            DataError: a column does not exist, or the value in a row is negative or not finite.
        """
        # Refuse a second gain, except the same.
        expression = GainExpression(gain)
        if self.gain == expression.text:
            return self
        if self.gain is not None:
            raise DataError(
                f"the labels already are the gain {self.gain!r}; read the data without a gain or"
                f" with {gain!r}"
            )
        # Evaluate a block of rows at a time, to bound the memory for dense features.
        available_columns = {LABEL: self.labels, **(columns or {})}
        features = self._find_features(expression, available_columns)
        dense_rows = DenseRows(self, np.array([*features.values()], np.int64))
        gains = np.empty(self.n_documents)
        for start in range(0, self.n_documents, _ROWS_AT_A_TIME):
            rows = slice(start, start + _ROWS_AT_A_TIME)
            values = {name: column[rows] for name, column in available_columns.items()}
            if features:
                values |= zip(features, dense_rows[rows].T, strict=True)
            gains[rows] = expression.evaluate(values)
            invalid_row = first_true(~(np.isfinite(gains[rows]) & (gains[rows] >= 0.0)))
            if invalid_row is None:
                continue
            row = start + invalid_row
            raise self.queries.row_error(
                row,
                f"gain {expression.text!r} is {gains[row]:g}: gains must be finite and at"
                " least 0; where(isnan(x), 0, x) replaces missing values, and max(..., 0) or clip"
                " limits gains",
            )
        # Record the expression, from which other data get the same gain.
        options = {**self.provenance.options, "gain": expression.text}
        provenance = replace(self.provenance, options=options)
        return replace(self, labels=gains, provenance=provenance)

    def _find_features(
        self, expression: GainExpression, other_names: Collection[str]
    ) -> dict[str, int]:
        """Return the column number of each feature in an expression. `f12` also means feature
        number 12 in libsvm text."""
        columns = {}
        names = {name: i for i, name in enumerate(self.feature_names)}
        index_base = self.provenance.index_base
        for name in expression.columns:
            if name in other_names:
                continue
            column = names.get(name, -1)
            if column < 0 and index_base is not None and NUMBERED.fullmatch(name):
                column = int(name[1:]) - index_base
            if not 0 <= column < self.n_features:
                raise DataError(unknown_column(name, expression, [*names, *other_names]))
            if self.feature_names[column] in self.categories:
                raise DataError(
                    f"gain {expression.text!r}: {name!r} is categorical, so its codes are not"
                    " quantities"
                )
            columns[name] = column
        return columns

    @property
    def gain(self) -> str | None:
        """The expression that defines the labels; None if they are plain labels."""
        return self.provenance.options.get("gain")

    def take(self, queries: ArrayLike) -> RankingDataset:
        """Return a selection of queries, by numbers in the requested order, or by a mask."""
        index, rows = self.queries.take(queries)
        return self.of_rows(index, rows)

    def join(self, other: RankingDataset) -> RankingDataset:
        """Return the queries of both data sets, renumbered if ids occur in both.

        Raises:
            DataError: the features differ, only one data set has cut-offs by query, or rows are on
                disk.
        """
        queries = self.queries
        other_queries = other.queries
        for aspect, is_different in {
            "features": self.feature_names != other.feature_names,
            "categories (use one.like(other))": self.categories != other.categories,
            f"gains ({self.gain!r}, {other.gain!r})": self.gain != other.gain,
            "cut-offs by query in one of them": (queries.k is None) != (other_queries.k is None),
        }.items():
            if is_different:
                raise DataError(f"data sets with different {aspect} cannot be joined")
        if self.on_disk or other.on_disk:
            raise DataError("rows on disk cannot be joined; read them into memory (--route memory)")
        names = np.concatenate([queries.qid, other_queries.qid])
        if names.dtype.kind == "O":  # text, possibly with numbers
            names = as_text(names)
        if len(set(names.tolist())) < names.size:
            names = np.arange(names.size)
        n_rows = self.n_documents, other.n_documents
        # The result is as sparse as this data set.
        other_features = other.features
        if other.is_sparse and not self.is_sparse:
            other_features = other_features.toarray()
        files = (*self.provenance.files, *other.provenance.files)
        return replace(
            self,
            features=joined_rows([self.features, other_features]),
            labels=np.concatenate([self.labels, other.labels]),
            queries=join_queries([queries, other_queries], names),
            provenance=replace(self.provenance, files=files),
            document_names=joined_arrays([self.document_names, other.document_names], n_rows, ""),
            input_rows=None,
            has_all_documents=self.has_all_documents and other.has_all_documents,
        )

    def sample(self, documents: int, seed: int) -> RankingDataset:
        """Return a random sample of whole queries with about `documents` documents."""
        sampled_queries = self.queries.sample(documents, seed)
        return self if sampled_queries.size == len(self.queries) else self.take(sampled_queries)

    def shuffled(self, rng: np.random.Generator) -> RankingDataset:
        """Return the queries, and the rows within each query, in random order. Queries are
        renumbered."""
        index, rows = self.queries.take(rng.permutation(len(self.queries)))
        order = np.lexsort((rng.random(rows.size), index.of_rows()))
        weights = None if index.document_weights is None else index.document_weights[order]
        return self._numbered(replace(index, document_weights=weights, places=None), rows[order])

    def redrawn(self, rng: np.random.Generator) -> RankingDataset:
        """Return a bootstrap sample of the queries. Repeated queries are separate, and all are
        renumbered."""
        n_queries = len(self.queries)
        return self._numbered(*self.queries.take(np.sort(rng.integers(0, n_queries, n_queries))))

    def _numbered(self, index: QueryIndex, rows: Int64Array) -> RankingDataset:
        return self.of_rows(replace(index, qid=np.arange(len(index))), rows)

    def of_rows(self, index: QueryIndex, rows: Int64Array, features: Any = None) -> RankingDataset:
        """Return a selection of rows with the queries `index`, and with `features` if these were
        already taken."""
        if features is None:
            features = self.features[rows]
        names = self.document_names
        if names is not None:
            names = names[rows]
        return replace(
            self,
            features=features,
            labels=self.labels[rows],
            queries=index,
            document_names=names,
            input_rows=None,
        )

    def in_row_order(self, values: Array) -> Array:
        """Reorder values from input order to the order of this data set's rows."""
        return values if self.input_rows is None else values[self.input_rows]

    def in_input_order(self, values: Array) -> Array:
        """Reorder values (such as predictions) from the order of this data set's rows to input
        order."""
        if self.input_rows is None:
            return values
        reordered = np.empty_like(values)
        reordered[self.input_rows] = values
        return reordered

    def constant_features(self) -> tuple[str, ...]:
        """Return the names of the features that have the same value in every row, or only missing
        values."""
        columns = constant_columns(self.features) if self.n_documents else ()
        return tuple(self.feature_names[i] for i in columns)

    @property
    def record(self) -> DataRecord:
        """The description of the data set in the record of a model that it trains."""
        options = dict(self.provenance.options)
        record: DataRecord = {
            "rows": self.n_documents,
            "queries": len(self.queries),
            "absent": "zero",
            "files": list(self.provenance.files),
            "index_base": self.provenance.index_base,
            "reader": options,
            "features": self.n_features,
            "feature_names": list(self.feature_names),
            "fingerprint": self.fingerprint,
            "missing": [self.feature_names[i] for i in missing_columns(self.features)],
        }
        if self.categories:
            record["categories"] = to_record(self.categories)
        return record

    @property
    def occurring_columns(self) -> Int64Array | None:
        """The columns that occur in some row, in ascending order, or None if most do or the data
        are not sparse.
        """
        if not sparse.issparse(self.features):
            return None
        occurring = np.flatnonzero(np.bincount(self.features.indices, minlength=self.n_features))
        return occurring if 0 < 2 * occurring.size <= self.n_features else None

    @property
    def hashes(self) -> dict[str, Any]:
        """Hashes of all that a training reads of the data set, for checkpoints."""
        names = hashlib.sha256("\n".join(self.feature_names).encode()).hexdigest()
        hashes: dict[str, Any] = {
            "data": self.fingerprint,
            "features": names[:32],
            "weights": _hash_numbers(self.queries.weights),
            "k": _hash_numbers(self.queries.k),
        }
        if self.categories:
            hashes["categories"] = to_record(self.categories)
        if self.document_weights is not None:
            hashes["document_weights"] = _hash_numbers(self.document_weights)
        return hashes

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the features, labels and query boundaries, which depends only on values and
        their order."""
        return fingerprint(self.features, self.labels, self.queries.ptr)


def _hash_numbers(values: Array | None) -> str | None:
    if values is None:
        return None
    return hashlib.sha256(np.asarray(values, dtype=np.float64).tobytes()).hexdigest()[:32]


def as_dataset(data: Any, what: str = "data", names: Sequence[str] | None = None) -> RankingDataset:
    """Return a `RankingDataset` unchanged, or convert the rows that a `lgb.Dataset` keeps.

    Args:
        what: name of the argument, used in messages.
        names: feature names for a `lgb.Dataset` that has none.

    Raises:
        ParameterError: the object is of another type, or a `lgb.Dataset` that cannot be converted.
    """
    if isinstance(data, RankingDataset):
        return data
    content = content_of(data, what)
    queries = queries_given(content.sizes, content.weights, content.labels.size)
    if content.feature_names or hasattr(content.features, "columns"):
        names = content.feature_names
    converted = RankingDataset.from_arrays(
        content.features, content.labels, group=queries.sizes, feature_names=names
    )
    return replace(converted, queries=queries)
