"""Evaluation of one ranker, and comparison between two rankers on the same queries."""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from boostrank.core.errors import DataError, ParameterError
from boostrank.core.files import path_of
from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.text import NUMERIC, count_of
from boostrank.core.types import Array, Float64Array, Int64Array, check_in_step
from boostrank.data.dataset import RankingDataset, as_dataset
from boostrank.files.join import MACHINE
from boostrank.files.judgements import Values, values_by_query
from boostrank.metrics import Conventions, Metric, MetricResult
from boostrank.metrics.measure import Metrics
from boostrank.model.ranking_model import RankingModel
from boostrank.model.trec import bind_run, data_of_runs, describe_left_out
from boostrank.reporting.difference import Difference, Opening, open_report
from boostrank.reporting.html import block, need_report_extra
from boostrank.reporting.machine import (
    JudgedDifference,
    JudgedQueries,
    by_judges,
    describe_judges,
    judges_table,
)
from boostrank.reporting.rank_changes import (
    Churn,
    RankChange,
    Ranker,
    churn,
    rank_changes_in,
    ranks_of,
)
from boostrank.reporting.result import Result, plain
from boostrank.reporting.section import Context, PageSection, page
from boostrank.reporting.segments import FEWEST_FOR_INTERVAL, TIE, holm
from boostrank.reporting.table import Cell, Column, Table, interval, table_of_rows

GRAMMAR = "METRIC < NUMBER [at p<ALPHA], or low(METRIC) < NUMBER for an end of the interval"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_CONDITION = re.compile(
    rf"\s*(?:(low|high)\s*\(\s*([^\s<>=()]+)\s*\)|([^\s<>=()]+))\s*([<>]=?)\s*({_NUMBER})"
    rf"(?:\s+at\s+p\s*<\s*({_NUMBER}))?\s*",
    re.IGNORECASE,
)


OneOrMore: TypeAlias = (
    RankingModel | Ranker | npt.ArrayLike | Sequence[RankingModel | Ranker | npt.ArrayLike]
)
"""A ranker, or several trainings of it."""


@dataclass(frozen=True)
class Regression:
    """A query for which the metric fell.

    Args:
        old, new: the query's first metric under each ranker.
        segments: the query's segment by kind.
        moves: documents in either top k whose rank changed, sorted by old rank.
    """

    qid: str
    old: float
    new: float
    segments: Mapping[str, str]
    moves: tuple[RankChange, ...]

    @property
    def fallen(self) -> RankChange | None:
        """The document with the best label among those that fell."""
        fell = [move for move in self.moves if move.fell]
        return max(fell, key=lambda move: move.label, default=None)


@dataclass(frozen=True)
class Condition:
    """A condition that fails the comparison when a difference, optionally a significant one, is
    beyond a bound.

    Args:
        metric: metric whose mean difference, new minus old, is tested.
        end: "low" or "high" to test an end of the 95% interval instead.
        operator: <, <=, > or >=.
        bound: threshold for the difference.
        alpha: upper bound on the p-value, or None to ignore the p-value.
    """

    metric: str
    operator: str
    bound: float
    alpha: float | None = None
    end: str = ""

    @classmethod
    def parse(cls, text: str, functions: Iterable[str] = ()) -> Condition:
        """Parse a condition, METRIC OP NUMBER [at p<ALPHA] or low(METRIC) OP NUMBER.

        Args:
            functions: names of further metrics, which are functions.
        """
        match, prefix = _CONDITION.fullmatch(text), f"condition {text!r}"
        if match is None or (match[1] and match[6]):  # the end of an interval takes no p
            raise ParameterError(
                f"{prefix}: the form must be {GRAMMAR}, such as 'ndcg@10 < -0.002 at p<0.05'"
            )
        # Check the metric, then the p-value.
        end, of_end, of_mean, operator, bound, p = match.groups()
        name, alpha = of_end or of_mean, None if p is None else float(p)
        names = [name] if name in functions else []
        try:
            names = names or list(Metric.parse(name).names)
        except ParameterError as error:
            raise ParameterError(f"{prefix}: {error}") from None
        if len(names) != 1:
            raise ParameterError(f"{prefix}: it must name one metric with one cut-off")
        if alpha is not None and not 0.0 < alpha < 1.0:
            raise ParameterError(
                f"{prefix}: the p-value must be between 0 and 1, but got {alpha:g}"
            )
        return cls(names[0], operator, float(bound), alpha, (end or "").lower())

    def __str__(self) -> str:
        significance = "" if self.alpha is None else f" at p<{self.alpha:g}"
        quantity = f"{self.end}({self.metric})" if self.end else self.metric
        return f"{quantity} {self.operator} {self.bound:g}{significance}"

    def holds(self, value: float, p: float) -> bool:
        """Return whether a difference, or an end of its interval, and its p-value meet the
        condition.
        """
        is_sure = self.alpha is None or p < self.alpha
        return is_sure and _OPERATORS[self.operator](value, self.bound)


@dataclass(frozen=True)
class ConditionOutcome:
    """The outcome of one condition, which fails the comparison if it holds."""

    condition: Condition
    holds: bool


class Comparison(Result):
    """Result of `compare`.

    Args:
        metrics: overall difference for each metric. The first metric determines the regressions.
        segments: differences in each metric and each non-empty segment.
        churn: changes at the top of the lists.
        regressions: queries with the largest losses, worst first.
        per_query: old and new values by metric, float64[Q, 2], with NaN for excluded queries. They
            are means over several models of a ranker.
        weights: float64[Q], weight of each query.
        models: the mean of each metric for each model, as {metric: {"old": [...], "new": [...]}}.
        of_segment: each query's segment by kind, [Q].
        judges: differences by people, by a machine and by both, for each metric, if a machine
            judged more queries. All else is by people's grades of the queries that they judged.
        meanings: what each metric measures.
        trees: numbers of trees of the new and the old ranker, or None where unknown.
    """

    old: str
    new: str
    metrics: Mapping[str, Difference]
    segments: tuple[Difference, ...]
    churn: Churn
    regressions: tuple[Regression, ...]
    outcomes: tuple[ConditionOutcome, ...]
    conventions: Conventions
    qids: Array
    per_query: Mapping[str, Float64Array]
    weights: Float64Array
    of_segment: Mapping[str, Array]
    models: Mapping[str, Mapping[str, list[float]]]
    notes: tuple[str, ...]
    judges: tuple[JudgedDifference, ...]
    meanings: tuple[str, ...]
    trees: tuple[int | None, int | None]

    @property
    def failed(self) -> bool:
        """Whether any condition holds."""
        return any(outcome.holds for outcome in self.outcomes)

    @property
    def first(self) -> str:
        """The name of the first metric."""
        return next(iter(self.metrics))

    @property
    def opening(self) -> Opening:
        """The first line of the page: which ranker is better, how sure, and at what cost."""
        difference, judges = self.metrics[self.first], ""
        if self.judges:
            difference = _replace_by_both(difference, self.judges_of(self.first)[2])
            judges = "people and the machine"
        return open_report(self.new, self.old, difference, self.trees, judges)

    def judges_of(self, metric: str) -> tuple[JudgedDifference, ...]:
        """Return the differences in a metric by judges."""
        return tuple(row for row in self.judges if row.metric == metric)

    @property
    def judges_notes(self) -> list[str]:
        """What the machine's grades are worth, for each metric."""
        return [describe_judges(self.judges_of(name)) for name in self.metrics if self.judges]

    @property
    def luck_notes(self) -> list[str]:
        """What the intervals are over, and how far the models of a ranker differ, for each
        metric.
        """
        return list(dict.fromkeys(map(self._describe_luck, self.metrics)))

    def _describe_luck(self, metric: str) -> str:
        """Say what the interval of a metric is over, and how far the models of a ranker differ."""
        difference = self.metrics[metric]
        ranges = [
            f"{len(values)} {side} models give {interval(min(values), max(values))}"
            for side, values in self.models[metric].items()
            if len(values) > 1
        ]
        if ranges:
            scope = (
                "intervals and p include how much trainings differ, with a standard error of"
                f" {difference.luck:.4f}"
            )
            if math.isnan(difference.luck):
                scope = "one query has no interval"
            return f"{metric}: {' and '.join(ranges)}; {scope}"
        scope = (
            "intervals are over queries only; to include how much trainings differ, give several"
            " with other seeds"
        )
        if not math.isnan(difference.matters):
            scope += f"; {metric} of two trainings may differ by {difference.matters:.4f} by chance"
        return scope

    HIDDEN = (
        "qids",
        "per_query",
        "weights",
        "of_segment",
        "outcomes",
        "meanings",
        "trees",
        "differences",
        "queries",
    )

    def tables(self) -> tuple[Table, ...]:
        """Return all differences, and the values of each query."""
        differences = (*self.metrics.values(), *self.segments)
        columns = (
            *("metric", "kind", "segment", "queries #", "old .4f", "new .4f"),
            Column("mean", "difference", "+.4f", "new minus old", ends=("low", "high"), drawn=True),
            "better # | queries that gained",
            "same # | queries that stayed",
            "worse # | queries that lost",
            "p .4f | two-sided p-value",
            "p_holm .4f p (Holm) | p-value adjusted for all segments",
        )
        means = [Cell(row.mean, look=row.look) for row in differences]
        queries: dict[str, Any] = {"qid": self.qids}
        for name, values in self.per_query.items():
            queries |= {f"{name} old": values[:, 0], f"{name} new": values[:, 1]}
        return (
            table_of_rows("differences", differences, columns, mean=means),
            Table("queries", queries | {**self.of_segment}),
            *([judges_table(self.judges)] if self.judges else []),
        )

    def regression_table(self) -> Table:
        """Return the queries with the largest losses."""
        loss = Column("difference", format="+.4f", look="worse")
        rows = [
            {
                "qid": row.qid,
                "old": row.old,
                "new": row.new,
                "difference": row.new - row.old,
                **row.segments,
            }
            for row in self.regressions
        ]
        columns: list[Column | str] = ["qid - query", "old .4f", "new .4f", loss]
        columns += map(Column, self.of_segment)
        return table_of_rows("worst", rows, columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, without the values per query."""
        totals = {
            "queries": len(self.qids),
            "failed": self.failed,
            "conditions": [
                vars(outcome) | {"condition": str(outcome.condition)} for outcome in self.outcomes
            ],
        }
        content = super().to_dict() | dict(plain(totals))
        if not self.judges:
            del content["judges"]
        return content

    @property
    def _title(self) -> str:
        outcomes = [
            f"{outcome.condition} {'holds' if outcome.holds else 'does not hold'}"
            for outcome in self.outcomes
        ]
        opening = self.opening
        names = f"{opening.new} {opening.verdict} {opening.old}"
        return "; ".join([f"{names}, {len(self.qids):,} queries", *outcomes])

    def to_html(self, data: str = "") -> str:
        """Return a self-contained HTML page that names the data. This needs the extra `report`."""
        need_report_extra()
        titles = {"difference": "The difference"}
        if self.judges:
            titles["judges"] = "People and the machine"
        titles |= {
            "segments": f"Segments: {self.first}",
            "regressions": f"Worst regressions: {self.first}",
        }
        # Render the blocks of the template.
        variables = {
            "comparison": self,
            "data": data,
            "d": self.metrics[self.first],
            "fewest": FEWEST_FOR_INTERVAL,
            "resamples": PAIRED_RESAMPLES,
        }

        def render(name: str) -> Markup:
            return block("comparison.html", name, **variables)

        sections = [PageSection(name, heading, render(name)) for name, heading in titles.items()]
        top = {name: render(name) for name in ("heading", "summary")}
        return page(f"{self.new} against {self.old}", sections, self.opening, **top)


def evaluate(
    ranker: RankingModel | Ranker | npt.ArrayLike,
    data: RankingDataset,
    metrics: Metrics = "ndcg@1,3,5,10",
    **options: Any,
) -> dict[str, MetricResult]:
    """Evaluate a ranker, with 95% intervals over the queries, as `boostrank evaluate` does.

    Args:
        ranker: a model, booster or fitted ranker of LightGBM or XGBoost, its file, or scores,
            float[N] in input order.
        data: N labelled documents, with the model's features.
        metrics: one or more metrics, or functions (see `Metric`).
        options: conventions, seed, threads.

    Returns:
        Dictionary from name ("ndcg@10") to result, in the requested order.

    Raises:
        ParameterError: an unknown metric or convention.
        DataError: scores that do not fit the data, labels that the gain does not support, or only
        excluded queries.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> results = boostrank.evaluate([0.1, 0.4, 0.3, 0.0, 0.2], data, ["ndcg@1,3", "mrr"])
        >>> {name: round(result.mean, 3) for name, result in results.items()}
        {'ndcg@1': 0.5, 'ndcg@3': 0.793, 'mrr': 0.75}
    """
    data = as_dataset(data)
    context = Context(None, data, metrics, **options)
    scores = Ranker.from_source(ranker, "ranker", data, context.threads).scores
    return context.bound(context.metrics).results(scores, seed=context.seed)


def compare(
    old: OneOrMore,
    new: OneOrMore,
    data: RankingDataset,
    metrics: Metrics = "ndcg@10",
    *,
    fail_if: str | Condition | Iterable[str | Condition] = (),
    top: int = 10,
    worst: int = 20,
    machine: Any = None,
    **options: Any,
) -> Comparison:
    """Compare two rankers query by query.

    Intervals and p-values come from `boostrank.metrics.paired_difference`, as in `boostrank
    evaluate`.

    Args:
        old, new: models, boosters or fitted rankers of LightGBM or XGBoost, their files, or scores,
            float[N] in input order. A list has several trainings of one ranker, such as with other
            seeds: intervals and p-values then include how much these differ.
        data: N labelled documents, with the features of both models.
        metrics: one or more metrics, or functions (see `Metric`). The first one determines the
            regressions.
        fail_if: conditions, METRIC < NUMBER [at p<ALPHA], low(METRIC) < NUMBER for an end of the
            interval (non-inferiority), or `Condition`. Their metrics are measured too.
        top: number of top documents whose changes are counted and listed.
        worst: maximum number of regressions.
        machine: grades of people and of a machine that judged more queries, which replace the
            labels: a data frame or dictionary with the columns `label` and `machine`, float[N] in
            input order, NaN without a grade, and optionally `chance`, with which people's queries
            were chosen. Instead of a column, judgements in a form of `boostrank.files.judgements`
            (a path or {"q1": {"d1": 2}}), matched by the names of queries and documents. A path
            alone is the machine's, beside the labels. Conditions then read the difference by both;
            see `JudgedDifference`.
        options: fields of `boostrank.reporting.section.Context`: conventions, segments, matters,
            seed, threads.

    Raises:
        ParameterError: an unknown metric or convention, or a malformed condition.
        DataError: scores that do not fit the data, labels that the gain does not support, only
            excluded queries, too few queries for the p-value of a condition, or fewer than 10
            queries judged by people and the machine.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> comparison = boostrank.compare([0.1, 0.4, 0.3, 0.0, 0.2], [3, 2, 1, 0, 1], data, "mrr")
        >>> comparison.per_query["mrr"].tolist()
        [[0.5, 1.0], [1.0, 1.0]]
    """
    data = as_dataset(data)
    context = Context(None, data, metrics, **options)
    names = [name for metric in context.metrics for name in metric.names]
    texts = [fail_if] if isinstance(fail_if, str | Condition) else fail_if
    conditions = [
        text if isinstance(text, Condition) else Condition.parse(text, names) for text in texts
    ]
    if top < 1:
        raise ParameterError(f"top must be at least 1, but got {top}")
    check_in_step(old=old, new=new)
    rankers = [_list_trainings(old, "old", context), _list_trainings(new, "new", context)]
    # Measure the requested metrics and those of the conditions by the machine's grades, if there
    # are any, and go on with the queries of people.
    added = dict.fromkeys(c.metric for c in conditions if c.metric not in names)
    measured_metrics = [*context.metrics, *map(Metric.parse, added)]
    judged, by_machine = None, {}
    if machine is not None:
        judged = JudgedQueries.split(machine, data)
        of_machine = replace(context, data=judged.machine)
        try:
            rankers_of_machine = _restrict(rankers, data, judged.positions)
            by_machine = _measure_values(of_machine, measured_metrics, rankers_of_machine)
        except DataError as error:
            raise DataError(f"by the machine's grades: {error}") from None
        rankers = _restrict(rankers, data, judged.positions[judged.people_positions])
        context = replace(context, data=judged.people)
    data, values = context.data, _measure_values(context, measured_metrics, rankers)
    # Compare all queries, and the queries of each segment.
    measured, in_segments = _measure_differences(context, measured_metrics, values)
    judges = [] if judged is None else _measure_by_judges(judged, values, by_machine, measured)
    by_both = {row.metric: _replace_by_both(measured[row.metric], row) for row in judges[2::3]}
    # Find what changed in the lists, by the first model of each ranker.
    first, second = [trainings[0] for trainings in rankers]
    ranks = ranks_of(first, data.queries), ranks_of(second, data.queries)
    per_query = {name: _average_models(sides) for name, sides in values.items()}
    lost = _find_regressions(
        context, measured_metrics[0], next(iter(per_query.values())), ranks, top, worst
    )
    notes = [*judged.notes] if judged else []
    if any(len(trainings) > 1 for trainings in rankers):
        notes.insert(0, "changes of ranks are those of the first model of each ranker")
    return Comparison(
        old=_name_trainings(rankers[0]),
        new=_name_trainings(rankers[1]),
        metrics=measured,
        segments=tuple(in_segments),
        churn=churn(*ranks, data.queries, top),
        regressions=lost,
        outcomes=tuple(_test_condition(each, measured | by_both) for each in conditions),
        conventions=context.rules,
        qids=data.queries.qid,
        per_query=per_query,
        weights=data.queries.each_weight,
        of_segment=context.of_segment,
        models={name: _average_queries(sides, data) for name, sides in values.items()},
        notes=tuple(notes),
        judges=tuple(judges),
        meanings=tuple({metric.meaning: None for metric in measured_metrics if metric.meaning}),
        trees=(second.trees, first.trees),
    )


def compare_runs(
    old: Any,
    new: Any,
    qrels: Any,
    metrics: Metrics = "ndcg@10",
    *,
    machine: Any = None,
    **options: Any,
) -> Comparison:
    """Compare two rankers by their runs, measured as by trec_eval unless `conventions` are others.

    Queries that a run lacks, or without judgements, are left out with a note.

    Args:
        old, new: runs in a form of `boostrank.files.judgements`, or lists of the runs of several
            trainings.
        qrels, machine: judgements of people, and of a machine, in such a form.
        metrics, options: see `compare`.

    Raises:
        DataError: a file cannot be read, no query is judged, or as for `compare`.
    """
    judgements = {"label": qrels} | ({} if machine is None else {MACHINE: machine})
    graded = {judge: values_by_query(source) for judge, source in judgements.items()}
    # Read the runs of each side, and say which queries they and the judges do not share.
    sides = [side if isinstance(side, list | tuple) else [side] for side in (old, new)]
    runs = [values_by_query(run, run=True) for side in sides for run in side]
    of_sides = zip(("old", "new"), sides, strict=True)
    names = [path_of(run) or name for name, side in of_sides for run in side]
    judged = Values(ChainMap(*graded.values()))
    notes = [describe_left_out(*each, judged) for each in zip(runs, names, strict=True)]
    # Compare the lists.
    data, scores, grades = data_of_runs(runs, graded)
    rankers = [Ranker(*each, is_run=True) for each in zip(names, scores, strict=True)]
    options = {"conventions": "trec"} | options
    by_judge = None if machine is None else grades
    first, second = rankers[: len(sides[0])], rankers[len(sides[0]) :]
    comparison = compare(first, second, data, metrics, machine=by_judge, **options)
    return replace(comparison, notes=(*filter(None, notes), *comparison.notes))


def _restrict(
    rankers: Sequence[Sequence[Ranker]], data: RankingDataset, queries: Int64Array
) -> list[list[Ranker]]:
    """Return the rankers with the scores of some queries only."""
    rows = data.queries.take(queries)[1]
    return [
        [replace(ranker, scores=ranker.scores[rows]) for ranker in trainings]
        for trainings in rankers
    ]


def _measure_values(
    context: Context, metrics: Sequence[Metric], rankers: Sequence[Sequence[Ranker]]
) -> dict[str, list[Float64Array]]:
    """Return the values of each query by metric, for the trainings of the old and of the new
    ranker, float64[Q, m], NaN in queries that do not count for all of them.
    """
    bound = context.bound(metrics)

    def measure(training: Ranker) -> dict[str, Float64Array]:
        if not training.is_run:
            return bound.per_query(training.scores)
        bound_run, scores = bind_run(
            metrics, context.data, training.scores, context.rules, context.threads
        )
        return bound_run.per_query(scores)

    of_models = [measure(training) for trainings in rankers for training in trainings]
    values = {}
    for name in bound.names:
        columns = np.column_stack([model_values[name] for model_values in of_models])
        # A function may leave out other queries each time.
        columns[np.isnan(columns).any(axis=1)] = np.nan
        if np.isnan(columns).all():
            raise DataError(f"metric {name}: no query counts for both rankers")
        values[name] = np.hsplit(columns, [len(rankers[0])])
    return values


def _average_models(sides: Sequence[Float64Array]) -> Float64Array:
    """Return the means over the models of each ranker, float64[Q, 2]."""
    return np.column_stack([side.mean(axis=1) for side in sides])


def _average_queries(sides: Sequence[Float64Array], data: RankingDataset) -> dict[str, list[float]]:
    """Return the mean over queries of each model of the old and of the new ranker."""
    is_counted = ~np.isnan(sides[0][:, 0])
    w = data.queries.each_weight[is_counted]
    old, new = [np.average(side[is_counted], axis=0, weights=w).tolist() for side in sides]
    return {"old": old, "new": new}


def _measure_by_judges(
    judged: JudgedQueries,
    people: Mapping[str, Sequence[Float64Array]],
    machine: Mapping[str, Sequence[Float64Array]],
    measured: Mapping[str, Difference],
) -> list[JudgedDifference]:
    """Return the differences of each metric by people, by the machine, and by both."""
    rows: list[JudgedDifference] = []
    weights = judged.people.queries.each_weight, judged.machine.queries.each_weight
    for name, sides in people.items():
        free = min((side.shape[1] - 1 for side in sides if side.shape[1] > 1), default=1)
        by_people, by_machine = [
            np.diff(_average_models(values))[:, 0] for values in (sides, machine[name])
        ]
        luck = float(np.nan_to_num(measured[name].luck)), free
        rows += by_judges(name, by_people, by_machine, judged.people_positions, *weights, luck)
    return rows


def _replace_by_both(difference: Difference, both: JudgedDifference) -> Difference:
    """Return a difference with the mean, the interval and the p-value of both judges."""
    numbers = {name: getattr(both, name) for name in ("mean", "low", "high", "p")}
    return replace(difference, **numbers, luck=0.0)


def _find_regressions(
    context: Context,
    metric: Metric,
    values: Float64Array,
    ranks: tuple[Float64Array, Float64Array],
    top: int,
    worst: int,
) -> tuple[Regression, ...]:
    """Return the queries that lost most of the first metric."""
    data = context.data
    change = np.nan_to_num(values[:, 1] - values[:, 0], nan=0.0)
    change = change if metric.higher_is_better else -change
    regressions = []
    for q in np.argsort(change, kind="stable")[:worst].tolist():
        if change[q] >= -TIE:
            break
        moves = rank_changes_in(q, *ranks, data, top)
        segments = {kind: str(segment[q]) for kind, segment in context.of_segment.items()}
        qid, (old, new) = data.queries.describe_query(q), values[q].tolist()
        regressions.append(Regression(qid, old, new, segments, moves))
    return tuple(regressions)


def _list_trainings(ranker: Any, name: str, context: Context) -> list[Ranker]:
    """Return the trainings of a ranker, which are the items of a list unless it has scores."""
    trainings = {name: ranker}
    several = isinstance(ranker, list | tuple) and len(ranker) > 0
    if several and not isinstance(ranker[0], Real) and not NUMERIC.fullmatch(str(ranker[0])):
        trainings = {f"{name} {i}": model for i, model in enumerate(ranker, 1)}
    return [
        Ranker.from_source(source, title, context.data, context.threads)
        for title, source in trainings.items()
    ]


def _name_trainings(trainings: Sequence[Ranker]) -> str:
    """Return the name of the first training, and the number of the others."""
    n_others = len(trainings) - 1
    return trainings[0].name + (f" and {count_of(n_others, 'more model')}" if n_others else "")


def _measure_differences(
    context: Context, metrics: Sequence[Metric], values: Mapping[str, Sequence[Float64Array]]
) -> tuple[dict[str, Difference], list[Difference]]:
    """Return the differences over all queries by metric, and those in all segments with an included
    query.
    """
    measured: dict[str, Difference] = {}
    in_segments: list[Difference] = []
    higher = {name: metric.higher_is_better for metric in metrics for name in metric.names}
    for name, sides in values.items():
        measure = partial(context.measure_difference, name, sides, higher_is_better=higher[name])
        is_counted, rows = ~np.isnan(sides[0][:, 0]), []
        measured[name] = measure(is_counted)
        for cut in context.cuts:
            for segment, is_included in cut.split(is_counted):
                row = measure(is_included, cut.kind, segment)
                if row.queries < FEWEST_FOR_INTERVAL:
                    row = replace(row, low=math.nan, high=math.nan)
                rows.append(row)
        # The randomisation test only flips signs, so segments without any change are not tested.
        tested = [row.better + row.worse > 0 for row in rows]
        p_holm = np.ones(len(rows))
        p_holm[tested] = holm(np.array([row.p for row in rows])[tested])
        in_segments += [
            replace(row, p_holm=p) for row, p in zip(rows, p_holm.tolist(), strict=True)
        ]
    return measured, in_segments


def _test_condition(condition: Condition, metrics: Mapping[str, Difference]) -> ConditionOutcome:
    """Return whether a condition holds.

    Raises:
        DataError: the condition can never hold, or its metric has no interval.
    """
    difference = metrics[condition.metric]
    value = getattr(difference, condition.end or "mean")
    if condition.alpha is not None and math.isnan(difference.luck):
        # Among n queries, no p is below 2 / 2^n, and none is below that of the sign flips.
        n_queries = difference.queries
        by_queries, by_flips = 2.0 ** (1 - n_queries), 1.0 / (PAIRED_RESAMPLES + 1)
        cause = f"{n_queries} queries give p of at least {by_queries:.2g}; use more queries, or"
        if by_flips > by_queries:
            cause = f"{PAIRED_RESAMPLES:,} random flips of signs give p of at least {by_flips:.2g};"
        if condition.alpha <= max(by_queries, by_flips):
            raise DataError(f"'{condition}' can never hold: {cause} use a larger p")
    if math.isnan(value):
        raise DataError(
            f"one query has no interval, so '{condition}' cannot be tested: use more queries"
        )
    return ConditionOutcome(condition, condition.holds(value, difference.p))
