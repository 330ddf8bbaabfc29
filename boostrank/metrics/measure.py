"""Ranking metrics with cut-offs, and metrics bound to labels and queries."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.conventions import Conventions
from boostrank.core.errors import BoostrankError, DataError, ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.params import Registry
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import bootstrap_intervals
from boostrank.core.types import (
    Array,
    BoolArray,
    Float64Array,
    as_numbers,
    check_in_step,
)
from boostrank.kernels.metric import (
    TIES,
    WHOLE_LIST,
    Grades,
    MetricPass,
    MetricSpec,
    measure,
    relevance,
    totals,
)

METRICS: Registry[MetricSpec] = Registry("boostrank.metrics", "metric")
"""The metrics, each in a file of its own."""

Names = Sequence[str] | Array
"""Document names, one per row."""

Function = Callable[..., Any]
Metrics: TypeAlias = "Metric | str | Function | Iterable[Metric | str | Function]"

_OTHER_SPELLING = re.compile(r"^([^@]+?)(?::top=|_cut[_.]|_at_|[_:])(\d+)$")


@dataclass(frozen=True)
class Metric:
    """A ranking metric at one or more cut-offs, or a function. `str()` is the inverse of `parse`.

    A function of two arguments, (labels, scores), is called once per query with float64[n] and
    returns its value. One of three, (labels, scores, sizes), is called once with float64[N] and
    int64[Q], and returns float64[Q]. Optional arguments do not count. NaN leaves a query out.
    Conventions do not apply.

    Args:
        name: name or alias of a metric in `boostrank.metrics`, any name for a function, or the
            function itself.
        cutoffs: cut-off ranks in reporting order, or empty for the whole list.
        function: a metric of your own.
        higher_is_better: False if smaller values of the function are better.

    Raises:
        ParameterError: an unknown name, a cut-off that is not a rank, or a function with other
            arguments.

    Example:
        >>> import boostrank
        >>> metric = boostrank.Metric.parse("ndcg@1,10")
        >>> metric.name, metric.cutoffs, str(metric)
        ('ndcg', (1, 10), 'ndcg@1,10')
    """

    name: str
    cutoffs: tuple[int, ...] = ()
    function: Function | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if callable(self.name):
            object.__setattr__(self, "function", self.name)
            object.__setattr__(self, "name", _name_of(self.name))
        if self.function is not None:
            if self.cutoffs or _arguments_of(self.function) == 0:
                raise ParameterError(
                    f"metric {self.name}: a function takes (labels, scores) of one query, or"
                    " (labels, scores, sizes) of all queries, and has no cut-offs"
                )
            return
        if not self.higher_is_better:
            raise ParameterError(f"metric {self.name}: higher_is_better=False needs a function")
        object.__setattr__(self, "name", METRICS.get(self.name).name)
        ranks = [str(k).strip() for k in np.ravel(self.cutoffs)]
        if not all(
            re.fullmatch("[0-9]{1,19}", rank) and 0 < int(rank) < WHOLE_LIST for rank in ranks
        ):
            raise ParameterError(
                f"metric {self.name}@{','.join(ranks)}: expected ranks after @, such as 10 or"
                " 1,3,5, below 2^63"
            )
        object.__setattr__(self, "cutoffs", tuple(dict.fromkeys(map(int, ranks))))

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Parse "ndcg@10", "ndcg@1,3,5", or "map" for the whole list.

        The spellings of CatBoost (NDCG:top=10) and trec_eval (ndcg_cut_10, P_10) are also accepted.

        Raises:
            ParameterError: the text has any other form.
        """
        if text.strip().endswith("-"):  # XGBoost's suffix
            raise ParameterError(
                f"metric {text!r}: remove the minus, and set the value of queries without a"
                ' relevant document by conventions=Conventions(empty="zero"), or --conventions'
            )
        name, separator, numbers = _OTHER_SPELLING.sub(r"\1@\2", text.strip()).partition("@")
        ranks: Any = numbers.split(",") if separator else ()
        return cls(name.strip(), ranks)

    @classmethod
    def of(cls, metric: Metric | str | Function) -> Metric:
        """Return the metric, which is parsed if it is given as text."""
        if callable(metric):
            return cls(metric)  # type: ignore[arg-type]
        if not isinstance(metric, str | Metric):
            raise ParameterError(
                f"metric {metric!r}: pass a name such as ndcg@10, a Metric, or a function (labels,"
                " scores) of one query"
            )
        return cls.parse(metric) if isinstance(metric, str) else metric

    @classmethod
    def all_of(cls, metrics: Metrics) -> list[Metric]:
        """Return one or more metrics as a list."""
        if isinstance(metrics, str | Metric) or not isinstance(metrics, Iterable):
            return [cls.of(metrics)]
        return [cls.of(metric) for metric in metrics]

    def __str__(self) -> str:
        return f"{self.name}@{','.join(map(str, self.cutoffs))}" if self.cutoffs else self.name

    @property
    def spec(self) -> MetricSpec:
        """The specification of the metric."""
        return METRICS.get(self.name)

    @property
    def meaning(self) -> str:
        """The first line of the metric's or the function's docstring, or "" if it has none."""
        documented = self.function or import_module(f"boostrank.metrics.{self.name}")
        return (inspect.getdoc(documented) or "").partition("\n")[0].rstrip(".")

    @property
    def names(self) -> tuple[str, ...]:
        """The names, one per cut-off, such as ("ndcg@1", "ndcg@3") or ("map",)."""
        return tuple(f"{self.name}@{k}" for k in self.cutoffs) or (self.name,)

    def evaluate(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        queries: QueryIndex | ArrayLike,
        conventions: Conventions | str = "default",
        **options: Any,
    ) -> MetricResult:
        """Evaluate the metric at a single cut-off. The arguments are those of
        `boostrank.metrics.evaluate`.

        Raises:
            ParameterError: the metric has several cut-offs, which require
                `boostrank.metrics.evaluate`.
        """
        if len(self.cutoffs) > 1:
            raise ParameterError(
                f"{self} has several cut-offs; use boostrank.metrics.evaluate to measure all of"
                " them"
            )
        return evaluate(self, labels, scores, queries, conventions, **options)[self.names[0]]


@dataclass(frozen=True, eq=False)
class MetricResult:
    """The result of a metric on a data set.

    Args:
        name: metric and cut-off, such as "ndcg@10".
        mean: weighted mean over the included queries.
        low, high: 95% interval of the mean, from a percentile bootstrap over queries with 2,000
            resamples, or the normal interval above 20,000 queries.
        queries: number of included queries.
        empty: number of queries without a relevant document, whether or not they are included.
        single: number of queries with one document.
        per_query: float64[Q], with NaN for excluded queries.
    """

    name: str
    mean: float
    low: float
    high: float
    queries: int
    empty: int
    single: int
    per_query: Float64Array

    def __repr__(self) -> str:
        return (
            f"MetricResult({self.name} {self.mean:.4f} [{self.low:.4f}, {self.high:.4f}],"
            f" {self.queries:,} queries)"
        )


def evaluate(
    metrics: Metrics,
    labels: ArrayLike,
    scores: ArrayLike,
    queries: QueryIndex | ArrayLike,
    conventions: Conventions | str = "default",
    *,
    docnos: Names | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> dict[str, MetricResult]:
    """Evaluate metrics at all their cut-offs.

    Args:
        metrics: one or more metrics, given as `Metric`, as text or as functions.
        labels: float[N], where larger is better.
        scores: float[N], finite. Scores are compared only within a query.
        queries: rows and weights of each query, or one query id per row (a query's rows are
            contiguous), or group sizes.
        conventions: choices that the metric definitions leave open, or the name of a library whose
            choices are used.
        docnos: document names, which ties="docno" requires.
        threads: number of threads, or None for every available core.
        seed: random seed for the bootstrap.

    Returns:
        Dictionary from name ("ndcg@10") to result, in the requested order.

    Raises:
        ParameterError: an unknown metric or convention.
        DataError: lengths that differ, invalid labels for the gain, a score that is not finite, or
            no included query.
    """
    check_in_step(labels=labels, scores=scores, queries=queries)
    return BoundMetrics(metrics, labels, queries, conventions, threads, docnos=docnos).results(
        scores, seed=seed
    )


class _Bound(NamedTuple):
    """A metric bound to a data set, with increasing cut-offs. A function has no pass."""

    metric: Metric
    empty: BoolArray  # [Q]
    is_counted: BoolArray  # [Q]
    metric_pass: MetricPass | None = None
    divisors: Any = None  # float64[Q, p] or [Q, 1]


class _Column(NamedTuple):
    """The values of a metric at a cut-off, and the queries that it counts."""

    name: str
    values: Float64Array  # [Q]
    is_counted: BoolArray  # [Q]
    empty: BoolArray  # [Q]
    weights: Float64Array  # [Q], 0 where not counted, sums to 1
    weight: float  # total of the included queries

    @property
    def mean(self) -> float:
        """The weighted mean over queries. It does not depend on other metrics or the number of
        threads.
        """
        return float(np.sum(np.ascontiguousarray(self.values) * self.weights))

    @property
    def per_query(self) -> Float64Array:
        """The values, with NaN for excluded queries."""
        return np.where(self.is_counted, self.values, np.nan)


class BoundMetrics:
    """Metrics bound to a data set for repeated use. Grades, ideal values and weights are computed
    only once.

    Args:
        metrics, labels, queries, conventions, docnos, threads: as in `evaluate`.
        partial: whether the data set is a part of a larger one, for use with `sums`, and may have
            no included query.
        judged: labels and queries of all judged documents, if some are not ranked, for the ideal
            order and recall.

    Raises:
        DataError, ParameterError: as for `evaluate`, except errors about scores.
    """

    def __init__(
        self,
        metrics: Metrics,
        labels: ArrayLike,
        queries: QueryIndex | ArrayLike,
        conventions: Conventions | str = "default",
        threads: int | None = None,
        *,
        docnos: Names | None = None,
        partial: bool = False,
        judged: tuple[Float64Array, QueryIndex] | None = None,
    ) -> None:
        self.metrics = tuple(Metric.all_of(metrics))
        self.conventions = Conventions.of(conventions)
        self._threads = resolve_threads(threads)
        label_values = _writable(as_numbers(labels, "labels"))
        self.queries = queries = QueryIndex.of(queries, label_values.size)
        if label_values.shape != (queries.n_documents,):
            raise DataError(
                f"there are {label_values.size} labels, but the queries cover {queries.n_documents}"
                " documents"
            )
        self._rows: Any = slice(None)  # row order that breaks ties
        if self.conventions.ties == "docno":  # by query, then by descending name, as trec_eval does
            if docnos is None:
                raise ParameterError(
                    "ties='docno' sorts tied documents by name; pass docnos, or choose other ties"
                )
            names = np.array([str(name).encode() for name in docnos], dtype=object)
            if names.size != queries.n_documents:
                raise DataError(
                    f"there are {names.size} document names for {queries.n_documents} documents"
                )
            for row in np.flatnonzero(names == b"").tolist():
                raise queries.row_error(
                    row, "has no name for ties='docno'; name it, or choose other ties"
                )
            rank = np.unique(names, return_inverse=True)[1]
            self._rows = np.lexsort((-rank, queries.of_rows()))
        self._labels, self._partial, self._judged = label_values, partial, judged
        # Metrics that grade alike share the grades.
        self._grades: dict[Grades, Float64Array] = {}
        self._bound = [self._bind(metric) for metric in self.metrics]
        for metric in self.metrics:
            if metric.function and self.names.count(metric.name) > 1:
                raise ParameterError(
                    f"two metrics are called {metric}; name each: Metric('NAME', function=...)"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The keys in the result of `values`, in order."""
        return tuple(name for metric in self.metrics for name in metric.names)

    def _bind(self, metric: Metric) -> _Bound:
        queries, conventions = self.queries, self.conventions
        is_counted = np.ones(len(queries), dtype=bool)
        if metric.function is not None:
            with queries.naming_rows():
                empty = totals(relevance(self._labels, conventions), queries.ptr) <= 0.0
            return _Bound(metric, empty, is_counted)
        # Grade the documents once for all metrics that grade alike.
        spec = metric.spec
        cutoffs = np.array(sorted(metric.cutoffs) or [WHOLE_LIST], dtype=np.int64)
        if spec.grades not in self._grades:
            with queries.naming_rows():
                grades = spec.grades(self._labels, conventions)
            self._grades[spec.grades] = grades[self._rows]
        grades = self._grades[spec.grades]
        pool, ptr = grades, queries.ptr
        if self._judged is not None and spec.ratio:
            judged_labels, judged_queries = self._judged
            pool, ptr = spec.grades(judged_labels, conventions), judged_queries.ptr
        total = totals(pool, ptr)
        for q in np.flatnonzero(~np.isfinite(total)).tolist():
            raise DataError(f"{metric}: the gains of query {queries.qid[q]} overflow when summed")
        # Leave out the queries that the conventions exclude.
        metric_pass = MetricPass(
            spec.kernel, grades, spec.weights(queries.longest, conventions), cutoffs
        )
        empty = total <= 0.0
        if conventions.empty_for(spec.name) == "exclude":
            is_counted &= ~empty
        if conventions.single == "exclude":
            is_counted &= queries.sizes != 1
        if not is_counted.any() and not self._partial:
            raise DataError(
                f"{metric}: none of the {len(queries)} queries is included ({int(empty.sum())} have"
                f" no relevant document, {int((queries.sizes == 1).sum())} have one document);"
                f" conventions: {conventions.describe()}"
            )
        divisors = spec.divisors(pool, ptr, cutoffs, conventions)
        return _Bound(metric, empty, is_counted, metric_pass, divisors)

    def values(self, scores: ArrayLike) -> dict[str, float]:
        """Return the mean of every metric at every cut-off. The errors are those of `evaluate`."""
        return {column.name: column.mean for column in self._columns(scores)}

    def sums(self, scores: ArrayLike) -> dict[str, tuple[float, float]]:
        """Return the weighted sum over the included queries and their total weight, for every
        metric and cut-off.

        The mean over several parts of a data set is the total of the sums divided by the total of
        the weights.
        """
        return {
            column.name: (column.mean * column.weight, column.weight)
            for column in self._columns(scores)
        }

    def per_query(self, scores: ArrayLike) -> dict[str, Float64Array]:
        """Return the values per query, float64[Q], for every metric and cut-off, with NaN for
        excluded queries.
        """
        return {column.name: column.per_query for column in self._columns(scores)}

    def results(self, scores: ArrayLike, *, seed: int = 0) -> dict[str, MetricResult]:
        """Return the full result for every metric and cut-off, as `evaluate` does."""
        columns = self._columns(scores)
        # Metrics over the same queries share resamples.
        columns_of_queries: dict[bytes, list[int]] = {}
        for i, column in enumerate(columns):
            columns_of_queries.setdefault(column.is_counted.tobytes(), []).append(i)
        ends = np.empty((2, len(columns)))
        for column_numbers in columns_of_queries.values():
            first = columns[column_numbers[0]]
            values = np.stack([columns[i].values[first.is_counted] for i in column_numbers], axis=1)
            ends[:, column_numbers] = bootstrap_intervals(
                values, first.weights[first.is_counted], seed=seed
            )
        single = int((self.queries.sizes == 1).sum())
        return {
            column.name: MetricResult(
                column.name,
                column.mean,
                low,
                high,
                queries=int(column.is_counted.sum()),
                empty=int(column.empty.sum()),
                single=single,
                per_query=column.per_query,
            )
            for column, (low, high) in zip(columns, ends.T.tolist(), strict=True)
        }

    def _columns(self, scores: ArrayLike) -> list[_Column]:
        """Return the values for every metric and cut-off."""
        with np.errstate(over="ignore"):
            score_values = _writable(
                as_numbers(scores, "scores").astype(self.conventions.score_type, copy=False)
            )
        if score_values.shape != self._labels.shape:
            raise DataError(
                f"there are {score_values.size} scores for {self._labels.size} documents"
            )
        for row in np.flatnonzero(~np.isfinite(score_values)).tolist():
            raise self.queries.row_error(
                row, f"the score is {score_values[row]}, but only finite scores can be ranked"
            )
        # Rank each query once for all metrics.
        passes = [bound.metric_pass for bound in self._bound if bound.metric_pass is not None]
        ptr, ties = self.queries.ptr, TIES[self.conventions.ties]
        in_order, threads = score_values[self._rows], self._threads
        sums = iter(measure(passes, in_order, self._labels, ptr, ties=ties, threads=threads))
        # Divide the sums, or call the function, and weigh the queries that count.
        columns = []
        for bound in self._bound:
            metric, is_counted = bound.metric, bound.is_counted
            if metric.function is None:
                spec, divisors, total = metric.spec, bound.divisors, next(sums)
                values = np.divide(total, divisors, out=np.zeros_like(total), where=divisors > 0.0)
                if spec.upper is not None:
                    # Rounding may raise a perfect list above 1.
                    np.minimum(values, spec.upper, out=values)
                is_one = spec.ratio and self.conventions.empty_for(spec.name) == "one"
                values[bound.empty] = float(is_one)
            else:
                values = self._call(metric.function, f"metric {metric}", score_values)
                is_counted = ~np.isnan(values[:, 0])
                values = np.where(is_counted[:, None], values, 0.0)
            weights = np.where(is_counted, self.queries.each_weight, 0.0)
            weight = float(weights.sum())
            weights /= weight or 1.0
            cutoffs = metric.cutoffs or (WHOLE_LIST,)
            by_cutoff = dict(zip(sorted(cutoffs), values.T, strict=True))
            columns += [
                _Column(name, by_cutoff[k], is_counted, bound.empty, weights, weight)
                for name, k in zip(metric.names, cutoffs, strict=True)
            ]
        return columns

    def _call(self, function: Function, metric: str, scores: Float64Array) -> Float64Array:
        """Return the values of a function, float64[Q, 1], with NaN where a query does not count."""
        queries, location = self.queries, "all queries"
        values = np.full(len(queries), np.nan)
        labels, scores = self._labels.copy(), scores.copy()  # the function may sort them in place
        try:
            if _arguments_of(function) == 3:
                values = np.array(function(labels, scores, queries.sizes), np.float64)
                if values.shape != (len(queries),):
                    raise ValueError(
                        f"expected {len(queries)} values, one per query, but got {values.shape}"
                    )
            else:
                for q, (start, stop) in enumerate(pairwise(queries.ptr.tolist())):
                    location = f"query {queries.describe_query(q)}"
                    if start < stop:
                        value = function(labels[start:stop], scores[start:stop])
                        if isinstance(value, tuple):
                            raise TypeError(
                                f"expected one number for a query, but got {value!r}; {_OF_ALL}"
                            )
                        values[q] = float(value)
        except BoostrankError:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ParameterError(
                f"{metric}, {location}: {type(error).__name__}: {error}"
            ) from error
        for q in np.flatnonzero(np.isinf(values)).tolist():
            raise ParameterError(
                f"{metric}, query {queries.describe_query(q)}: {values[q]} is neither finite nor"
                " NaN"
            )
        if np.isnan(values).all() and not self._partial:
            raise DataError(f"{metric}: the function returned NaN for all {len(queries):,} queries")
        return values[:, None]


_OF_ALL = (
    "train takes a function of all queries that returns (name, value, higher is better) as feval="
)


def _name_of(function: Any) -> str:
    function = function.func if isinstance(function, functools.partial) else function
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def _arguments_of(function: Function) -> int:
    """Return with how many arguments to call a function, 2 if possible or else 3, or 0 if neither
    is.
    """
    with contextlib.suppress(ValueError):  # of a function without a signature
        signature = inspect.signature(function)
        for count in (2, 3):
            with contextlib.suppress(TypeError):
                signature.bind(*range(count))
                return count
        return 0
    return 2


def measures_a_query(function: Any) -> bool:
    """Return whether a function of (labels, scores) returns a number, or one of (labels, scores,
    sizes) a number per query, tried on a query of two documents.
    """
    if not callable(function):
        return False
    sizes = [np.array([2])] if _arguments_of(function) == 3 else []
    try:
        result = np.asarray(function(np.array([1.0, 0.0]), np.array([0.5, 0.25]), *sizes))
        return result.shape == (1,) * len(sizes) and result.dtype.kind in "biuf"
    except Exception:  # a function of other arguments
        return False


def _writable(values: ArrayLike) -> Float64Array:
    """Return a contiguous array, float64[N], copied if read-only, because compiled code requires
    writable arrays.
    """
    return np.require(values, np.float64, ["C", "W"]).ravel()
