"""A metric with its cut-offs, and what it becomes once it is bound to labels and queries.

Metric.parse("ndcg@10").evaluate(labels, scores, queries).mean
evaluate(["ndcg@1,3,5", "map"], labels, scores, queries, "lightgbm")
BoundMetrics(["ndcg@10"], labels, queries).values(scores)          # each round
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.machine import resolve_threads
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import PairedDifference, bootstrap_intervals, paired_difference
from boostrank.core.types import Float64Array, Int64Array, as_numbers, check_in_step
from boostrank.kernels.metric.contract import WHOLE_LIST, Grades, MetricSpec, totals
from boostrank.kernels.metric.driver import EXPECTED, INPUT, OPTIMISTIC, PESSIMISTIC, MetricPass, measure
from boostrank.metrics import METRICS

__all__ = ["BoundMetrics", "Conventions", "Metric", "MetricResult", "PairedDifference", "evaluate", "paired_difference"]

_OTHER_SPELLING = re.compile(r"^([^@]+?)(?::top=|_cut_|_at_|_)(\d+)$")
# For docno the rows are brought into that order first.
_TIES = {"expected": EXPECTED, "input": INPUT, "docno": INPUT, "pessimistic": PESSIMISTIC, "optimistic": OPTIMISTIC}


@dataclass(frozen=True)
class Metric:
    """A ranking metric at one or several cut-offs; `str()` gives the text that `parse` reads.

    Args:
        name: canonical name or alias, see `boostrank.metrics`.
        cutoffs: ranks at which the list is cut, in the order they are reported; none means the whole list.

    Raises:
        ParameterError: an unknown name, or a cut-off that is no rank.
    """

    name: str
    cutoffs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", METRICS.get(self.name).name)
        object.__setattr__(self, "cutoffs", tuple(dict.fromkeys(int(k) for k in self.cutoffs)))
        if any(not 1 <= k < WHOLE_LIST for k in self.cutoffs):
            raise ParameterError(f"{self}: a cut-off is a rank, 1 or more and below 2^63")

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Read "ndcg@10", "ndcg@1,3,5", or "map" for the whole list.

        The spellings of CatBoost (NDCG:top=10) and trec_eval (ndcg_cut_10, P_10) are read too.

        Raises:
            ParameterError: another form.
        """
        if text.strip().endswith("-"):  # XGBoost's
            raise ParameterError(
                f"metric {text!r}: leave the minus out, and say how queries without a relevant document count by "
                'conventions=Conventions(empty="zero"), or --conventions'
            )
        name, at, numbers = _OTHER_SPELLING.sub(r"\1@\2", text.strip()).partition("@")
        words = [word.strip() for word in numbers.split(",")] if at else []
        if not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
            raise ParameterError(f"metric {text!r}: after @ come ranks such as 10, or 1,3,5, below 2^63")
        return cls(name.strip(), tuple(int(word) for word in words))

    @classmethod
    def of(cls, metric: Metric | str) -> Metric:
        """The metric, or that of the text."""
        return cls.parse(metric) if isinstance(metric, str) else metric

    @classmethod
    def all_of(cls, metrics: Metric | str | Iterable[Metric | str]) -> list[Metric]:
        """One or several of them."""
        return [cls.of(one) for one in ([metrics] if isinstance(metrics, str | Metric) else metrics)]

    def __str__(self) -> str:
        return f"{self.name}@{','.join(map(str, self.cutoffs))}" if self.cutoffs else self.name

    @property
    def spec(self) -> MetricSpec:
        """What the metric declares about itself."""
        return METRICS.get(self.name)

    @property
    def higher_is_better(self) -> bool:
        """True: of every metric here a larger value is better."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """One name a cut-off: ("ndcg@1", "ndcg@3"), or ("map",)."""
        return tuple(f"{self.name}@{k}" for k in self.cutoffs) or (self.name,)

    def evaluate(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        queries: QueryIndex | npt.ArrayLike,
        conventions: Conventions | str = "default",
        *,
        docnos: Sequence[str] | None = None,
        threads: int | None = None,
        seed: int = 0,
    ) -> MetricResult:
        """Value, interval and per-query values at this metric's one cut-off; arguments as for `evaluate`.

        Raises:
            ParameterError: the metric has several cut-offs; `boostrank.metric.evaluate` takes those.
        """
        if len(self.cutoffs) > 1:
            raise ParameterError(f"{self} has several cut-offs: boostrank.metric.evaluate gives one result for each")
        results = evaluate(self, labels, scores, queries, conventions, docnos=docnos, threads=threads, seed=seed)
        return results[self.names[0]]


@dataclass(frozen=True, eq=False)
class MetricResult:
    """A metric over a data set.

    Args:
        name: such as "ndcg@10".
        mean: over the queries that count, weighted by the queries' weights.
        low, high: 95% interval of the mean over queries: percentile bootstrap with 2,000 resamples, above
            20,000 queries the normal interval.
        queries: how many count.
        empty: how many have no relevant document, whether they count or not.
        single: how many have one document.
        per_query: float64[Q], NaN where the query does not count.
    """

    name: str
    mean: float
    low: float
    high: float
    queries: int
    empty: int
    single: int
    per_query: Float64Array


def evaluate(
    metrics: Metric | str | Iterable[Metric | str],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    queries: QueryIndex | npt.ArrayLike,
    conventions: Conventions | str = "default",
    *,
    docnos: Sequence[str] | None = None,
    threads: int | None = None,
    seed: int = 0,
) -> dict[str, MetricResult]:
    """Every metric at every cut-off: value, interval and per-query values.

    Args:
        metrics: one or several, or their text.
        labels: float[N], bigger is better.
        scores: float[N], finite; compared within a query only.
        queries: which rows belong to which query, and the queries' weights; or one query id a row (rows of one query
            follow each other), or group sizes.
        conventions: what the definitions leave open; or the name of a library's.
        docnos: the names of the documents, for ties="docno".
        threads: None means every available core.
        seed: of the bootstrap.

    Returns:
        Name ("ndcg@10") -> result, in the order asked for.

    Raises:
        ParameterError: an unknown metric or convention.
        DataError: lengths that differ, labels the gain cannot take, a score that is not finite, no query that counts.
    """
    check_in_step(labels=labels, scores=scores, queries=queries)
    return BoundMetrics(metrics, labels, queries, conventions, threads, docnos=docnos).results(scores, seed=seed)


@dataclass(frozen=True, eq=False)
class _Bound:
    """One metric over a data set, its cut-offs increasing."""

    metric: Metric
    work: MetricPass
    divisors: Float64Array  # [Q, p]
    empty: npt.NDArray[np.bool_]  # [Q]
    counted: npt.NDArray[np.bool_]  # [Q]
    weights: Float64Array  # [Q], 0 where not counted, sums to 1
    weight: float  # of all queries that count

    def mean(self, values: Float64Array) -> float:
        """Weighted mean over queries, added up the same way whatever else is measured and on how many threads."""
        return float(np.sum(np.ascontiguousarray(values) * self.weights))

    def per_query(self, values: Float64Array) -> Float64Array:
        """The values, NaN where the query does not count."""
        return np.where(self.counted, values, np.nan)

    def columns(self) -> list[tuple[str, int]]:
        """Each cut-off's name, in the order asked for, and its column."""
        increasing = sorted(self.metric.cutoffs)
        at = [increasing.index(k) for k in self.metric.cutoffs] or [0]
        return list(zip(self.metric.names, at, strict=True))


class BoundMetrics:
    """Metrics over one data set, for use in every round: grades, ideal values and weights are computed once.

    Args:
        metrics, labels, queries, conventions, docnos, threads: as for `evaluate`.
        partial: this is one part of a data set, for `sums`: no query needs to count.

    Raises:
        DataError, ParameterError: as `evaluate`, but for the scores.
    """

    def __init__(
        self, metrics: Metric | str | Iterable[Metric | str], labels: npt.ArrayLike,
        queries: QueryIndex | npt.ArrayLike,
        conventions: Conventions | str = "default", threads: int | None = None, *,
        docnos: Sequence[str] | None = None, partial: bool = False,
    ) -> None:  # fmt: skip
        self.metrics = tuple(Metric.all_of(metrics))
        self.conventions = Conventions.of(conventions)
        self._threads = resolve_threads(threads)
        y = _writable(as_numbers(labels, "labels"))
        self.queries = queries = QueryIndex.of(queries, y.size)
        if y.shape != (queries.n_documents,):
            raise DataError(f"{y.size} labels but queries that cover {queries.n_documents} documents")
        self._rows: Int64Array | None = None  # in an order in which they break ties, where it is another one
        if self.conventions.ties == "docno":  # by query, then by descending name, as trec_eval does
            if docnos is None:
                raise ParameterError("ties='docno' sorts tied documents by name: give docnos=, or choose other ties")
            names = np.array([str(name).encode() for name in docnos], dtype=object)
            if names.size != queries.n_documents:
                raise DataError(f"{names.size} document names for {queries.n_documents} documents")
            rank = np.unique(names, return_inverse=True)[1] if names.size else np.zeros(0, np.int64)
            self._rows = np.lexsort((-rank, queries.of_rows())).astype(np.int64)
        self._labels, self._partial = y, partial
        self._grades: dict[Grades, Float64Array] = {}  # those of several metrics are the same, 8 bytes a document
        self._bound = [self._bind(m) for m in self.metrics]

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of what `values` returns, in order."""
        return tuple(name for metric in self.metrics for name in metric.names)

    def _bind(self, metric: Metric) -> _Bound:
        spec, queries, conventions = metric.spec, self.queries, self.conventions
        cutoffs = np.array(sorted(metric.cutoffs) or [WHOLE_LIST], dtype=np.int64)
        if spec.grades not in self._grades:
            with queries.naming_rows():
                given = spec.grades(self._labels, conventions)
            self._grades[spec.grades] = given if self._rows is None else given[self._rows]
        grades = self._grades[spec.grades]
        total = totals(grades, queries.ptr)
        if not np.isfinite(total).all():
            q = int(np.flatnonzero(~np.isfinite(total))[0])
            raise DataError(f"{metric}: the gains of query {queries.qid[q]} overflow when added up")
        work = MetricPass(spec.kernel, grades, spec.weights(queries.longest, conventions), cutoffs)
        empty = total <= 0.0
        counted = np.ones(len(queries), dtype=bool)
        if conventions.empty_for(spec.name) == "exclude":
            counted &= ~empty
        if conventions.single == "exclude":
            counted &= queries.sizes != 1
        if not counted.any() and not self._partial:
            raise DataError(
                f"{metric}: none of the {len(queries)} queries counts ({int(empty.sum())} have no relevant document, "
                f"{int((queries.sizes == 1).sum())} have one document); conventions: {conventions.describe()}"
            )
        weights = np.where(counted, 1.0 if queries.weights is None else queries.weights, 0.0)
        divisors = spec.divisors(grades, queries.ptr, cutoffs, conventions)
        weight = float(weights.sum())
        return _Bound(metric, work, divisors, empty, counted, weights / weight if weight else weights, weight)

    def values(self, scores: npt.ArrayLike) -> dict[str, float]:
        """Mean of every metric at every cut-off.

        Args:
            scores: float[N], finite.

        Raises:
            DataError: as `evaluate`.
        """
        measured = zip(self._bound, self._measure(scores), strict=True)
        return {name: bound.mean(values[:, c]) for bound, values in measured for name, c in bound.columns()}

    def sums(self, scores: npt.ArrayLike) -> dict[str, tuple[float, float]]:
        """Of every metric at every cut-off: the weighted sum over the queries that count, and their weight.

        The mean over several parts of a data set is the sum of the first, divided by the sum of the second.
        """
        values = self.values(scores)
        weights = {name: bound.weight for bound in self._bound for name in bound.metric.names}
        return {name: (value * weights[name], weights[name]) for name, value in values.items()}

    def per_query(self, scores: npt.ArrayLike) -> dict[str, Float64Array]:
        """Of every metric at every cut-off: float64[Q], NaN where the query does not count."""
        measured = zip(self._bound, self._measure(scores), strict=True)
        return {name: bound.per_query(values[:, c]) for bound, values in measured for name, c in bound.columns()}

    def results(self, scores: npt.ArrayLike, *, seed: int = 0) -> dict[str, MetricResult]:
        """Everything about every metric at every cut-off; see `evaluate`."""
        out: dict[str, MetricResult] = {}
        measured = self._measure(scores)
        for bound, values, (low, high) in zip(self._bound, measured, self._intervals(measured, seed), strict=True):
            for name, c in bound.columns():
                out[name] = MetricResult(
                    name=name, mean=bound.mean(values[:, c]), low=float(low[c]), high=float(high[c]),
                    queries=int(bound.counted.sum()), empty=int(bound.empty.sum()),
                    single=int((self.queries.sizes == 1).sum()), per_query=bound.per_query(values[:, c]),
                )  # fmt: skip
        return out

    def _intervals(self, measured: Sequence[Float64Array], seed: int) -> list[Float64Array]:
        """Both ends for every metric, float64[2, p]; metrics over the same queries share the resamples."""
        ends: dict[int, Float64Array] = {}
        counted = [bound.counted.tobytes() for bound in self._bound]
        for same in dict.fromkeys(counted):
            members = [i for i, one in enumerate(counted) if one == same]
            first = self._bound[members[0]]
            values = np.concatenate([measured[i][first.counted] for i in members], axis=1)
            low, high = bootstrap_intervals(values, first.weights[first.counted], seed=seed)
            cuts = np.cumsum([measured[i].shape[1] for i in members])[:-1]
            ends |= dict(zip(members, np.split(np.stack([low, high]), cuts, axis=1), strict=True))
        return [ends[i] for i in range(len(self._bound))]

    def _measure(self, scores: npt.ArrayLike) -> list[Float64Array]:
        """Per-query values, float64[Q, p] a metric."""
        with np.errstate(over="ignore"):
            s = _writable(as_numbers(scores, "scores").astype(self.conventions.score_type, copy=False))
        if s.shape != self._labels.shape:
            raise DataError(f"{s.size} scores for {self._labels.size} documents")
        bad = np.flatnonzero(~np.isfinite(s))
        if bad.size:
            row = int(bad[0])
            qid = self.queries.qid[self.queries.of_row(row)]
            raise DataError(f"score of row {row} (query {qid}) is {s[row]}: only finite scores can be ranked")
        if self._rows is not None:
            s = s[self._rows]
        work, ties = [bound.work for bound in self._bound], _TIES[self.conventions.ties]
        sums = measure(work, s, self._labels, self.queries.ptr, ties=ties, threads=self._threads)
        out = []
        for bound, total in zip(self._bound, sums, strict=True):
            spec = bound.metric.spec
            values = np.divide(total, bound.divisors, out=np.zeros_like(total), where=bound.divisors > 0.0)
            if spec.upper is not None:
                np.minimum(values, spec.upper, out=values)  # rounding may lift a perfect list above 1
            values[bound.empty] = 1.0 if spec.ratio and self.conventions.empty_for(spec.name) == "one" else 0.0
            out.append(values)
        return out


def _writable(values: npt.ArrayLike) -> Float64Array:
    """float64[N] in one piece. Compiled code has one signature, which a read-only array (a memory map, a column of a
    data frame) does not match: it is copied."""
    return np.require(values, np.float64, ["C", "W"]).ravel()
