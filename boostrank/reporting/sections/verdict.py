"""Verdict on a ranker, whose metrics are compared with those of untrained rankings and a previous
model.

All rankings are measured on the same queries, so leads are means of paired differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.types import Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows, dense_rows
from boostrank.metrics import BoundMetrics
from boostrank.reporting.difference import Difference
from boostrank.reporting.html import look_of
from boostrank.reporting.result import Result
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import TIE, means_over_queries
from boostrank.reporting.table import Cell, Column, Table, table_of_rows

MODEL, START, SINGLE = "the model", "the linear start", "the best single feature"
RANDOM, FILE_ORDER = "random order", "the order of the file"

# Limit on the number of values from which one half chooses a feature (50 MB in float32, a few
# seconds).
_VALUES_TO_CHOOSE_BY = 12_500_000
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Standing:
    """One metric for one ranking.

    Args:
        value, low, high: mean over queries and its 95% interval.
        lead, lead_low, lead_high: mean of the paired differences, model minus this ranking, and its
            interval, or NaN for the model itself.
        better, worse: numbers of queries that the model ranks better and worse, or 0 for the model
            itself.
    """

    metric: str
    value: float
    low: float
    high: float
    lead: float
    lead_low: float
    lead_high: float
    queries: int
    better: int = 0
    worse: int = 0


@dataclass(frozen=True)
class Ranking:
    """The model or a baseline, with its values by query, float64[Q], and its standing in each
    metric.
    """

    name: str
    about: str
    per_query: Mapping[str, Float64Array]
    standings: Mapping[str, Standing]


class Verdict(Result):
    """Result of `verdict`.

    Args:
        metric: headline metric, which is the first metric at its largest cut-off.
        tied: number of documents that share a score with a document of another label in their
            query.
        per_query: the model's values by metric, float64[Q], with NaN for excluded queries.
        queries, documents: numbers of queries and documents in the data.
        lead: lead over `first_baseline` in the headline metric.
        matters: difference that exceeds training noise by metric, if it was measured.
        meaning: what each metric measures, by its name without a cut-off.
    """

    metric: str
    model: Ranking
    baselines: tuple[Ranking, ...]
    tied: int
    conventions: Conventions
    per_query: Mapping[str, Float64Array]
    queries: int
    documents: int
    lead: Difference
    notes: tuple[str, ...]
    matters: Mapping[str, float]
    meaning: Mapping[str, str]

    HIDDEN = ("model", "baselines", "per_query", "lead")

    def tables(self) -> tuple[Table, ...]:
        """Return the standings of all rankings in all metrics."""
        rows, leads = [], []
        for ranking in (self.model, *self.baselines):
            for standing in ranking.standings.values():
                rows.append({"ranking": ranking.name, **vars(standing)})
                leads.append(Cell(standing.lead, look=self.look(standing)))
        columns = (
            "ranking",
            "metric",
            "value .4f [low high]",
            Column("lead", format="+.4f", ends=("lead_low", "lead_high"), drawn=True),
        )
        return (table_of_rows("verdict", rows, columns, lead=leads),)

    @property
    def headline(self) -> Standing:
        """The model's standing in the headline metric."""
        return self.model.standings[self.metric]

    def doubt(self, standing: Standing) -> str:
        """Return why a lead may mean nothing, or "" if it exceeds chance and training noise."""
        if not (standing.lead_low > 0.0 or standing.lead_high < 0.0):
            return "not significant"
        small = abs(standing.lead) < self.matters.get(standing.metric, 0.0)
        return "within the training noise" if small else ""

    def look(self, standing: Standing) -> str:
        """Return the CSS class of a lead, which is grey if it is in doubt."""
        return "faint" if self.doubt(standing) else look_of(standing.lead, standing.lead)

    @property
    def first_baseline(self) -> Ranking:
        """The first baseline except the linear start."""
        return next(ranking for ranking in self.baselines if ranking.name != START)


def verdict(context: Context) -> Verdict:
    """Measure a ranker and its baselines."""
    data, rules, metric = context.data, context.rules, context.metric
    feature = single_feature(context)
    model, *baselines = _rank(_measure_rankings(context, feature), data, context.seed)
    # Say what the comparison lacks.
    notes, n_counted = [], model.standings[metric].queries
    if feature is None:
        notes.append(
            "There is no single-feature baseline: too few queries are included to choose a feature"
            " on half."
        )
    if n_counted < len(data.queries) and rules.empty_for(metric.partition("@")[0]) == "exclude":
        notes.append(
            f"{len(data.queries) - n_counted:,} of {len(data.queries):,} queries are excluded from"
            f" {metric}."
        )
    # Test the lead over the first baseline other than the model's own start.
    baseline = next(ranking for ranking in baselines if ranking.name != START)
    sides = [ranking.per_query[metric][:, None] for ranking in (baseline, model)]
    is_counted = ~np.isnan(sides[0] + sides[1])[:, 0]  # a function may leave out others of each
    return Verdict(
        metric=metric,
        model=model,
        baselines=tuple(baselines),
        tied=tied_documents(data.labels, context.scores, data.queries, rules.score_type),
        conventions=rules,
        per_query=model.per_query,
        queries=len(data.queries),
        documents=data.n_documents,
        lead=context.measure_difference(metric, sides, is_counted),
        notes=tuple(notes),
        matters=dict(context.matters or {}),
        meaning={metric.name: metric.meaning for metric in context.metrics if metric.meaning},
    )


def _measure_rankings(context: Context, feature: SingleFeature | None) -> list[Ranking]:
    """Measure the model, the previous model, the linear start, the single feature, random order and
    file order.
    """
    data, bound = context.data, context.bound(context.metrics)
    measured = []

    def measure(name: str, about: str, scores: npt.ArrayLike, bound: BoundMetrics = bound) -> None:
        measured.append(Ranking(name, about, bound.per_query(scores), {}))

    measure(MODEL, "", context.scores)
    if context.previous is not None:
        name, previous_scores = context.previous
        measure(name, "an earlier model", previous_scores)
    if context.start is not None:
        measure(START, "the model without its trees", context.start)
    if feature is not None:
        measure(SINGLE, feature.about, feature.scores)
    # With equal scores, the mean over tied orders is the mean of a random order, and ranks are in
    # row order. A function has no mean over orders.
    equal_scores = np.zeros(data.n_documents)
    if all(metric.function is None for metric in context.metrics):
        expected = context.bound(context.metrics, replace(context.rules, ties="expected"))
        about = "the exact mean over all orders of each list"
        measure(RANDOM, about, equal_scores, expected)
    file_order = -data.queries.ranks(equal_scores).astype(np.float64)
    measure(FILE_ORDER, "the rows of each query in file order", file_order)
    return measured


def _rank(rankings: Sequence[Ranking], data: RankingDataset, seed: int) -> list[Ranking]:
    """Return the rankings with their standings. The first ranking is the model."""
    model, weights = rankings[0].per_query, data.queries.each_weight
    values = [ranking.per_query[name] for ranking in rankings for name in model]
    per_query = np.column_stack(values)
    leads = np.tile(per_query[:, : len(model)], len(rankings)) - per_query
    value = means_over_queries(per_query, weights, seed=seed)
    lead = means_over_queries(leads, weights, seed=seed, resamples=PAIRED_RESAMPLES)
    # Each column has one field of all standings. The model has no lead over itself.
    lead_columns = np.stack([lead.mean, lead.low, lead.high])
    lead_columns[:, : len(model)] = np.nan
    columns = [value.mean, value.low, value.high, *lead_columns, value.queries]
    columns += [(leads > TIE).sum(axis=0), (leads < -TIE).sum(axis=0)]
    names = list(model) * len(rankings)
    standings = map(Standing, names, *(column.tolist() for column in columns))
    return [
        replace(ranking, standings={name: next(standings) for name in model})
        for ranking in rankings
    ]


def tied_documents(
    labels: Float64Array, scores: Float64Array, queries: QueryIndex, score_type: str = "float64"
) -> int:
    """Count documents that share a score, rounded to `score_type`, with another label's document in
    their query.
    """
    with np.errstate(over="ignore"):
        rounded = scores.astype(score_type)
    query = queries.of_rows()
    order = np.lexsort((labels, rounded, query))
    grades, rounded, query = labels[order], rounded[order], query[order]
    # In a group of ties, neighbours have different labels if any two documents have.
    is_tied = (rounded[1:] == rounded[:-1]) & (query[1:] == query[:-1])
    group = np.append(0, np.cumsum(~is_tied))
    is_mixed = is_tied & (grades[1:] != grades[:-1])
    mixed_groups = np.bincount(group[1:], is_mixed, group.size) > 0.0
    return int(mixed_groups[group].sum())


class SingleFeature(NamedTuple):
    """A ranking that sorts each half of the queries by one feature.

    Args:
        about: the features that the two halves chose for each other.
        scores: float64[N].
    """

    about: str
    scores: Float64Array


def single_feature(context: Context) -> SingleFeature | None:
    """Rank each half of the queries by the feature and direction that are best on the other half.

    Missing values rank last in either direction. On large data, the choice uses a sample of each
    half.

    Returns:
        The ranking, or None if a half has no included query or if there is no feature.
    """
    data = context.data
    n_queries = len(data.queries)
    if n_queries < 2 or not data.n_features:
        return None
    order = np.random.default_rng(context.seed).permutation(n_queries)
    halves = order[: n_queries // 2], order[n_queries // 2 :]
    most_queries = max(1, _VALUES_TO_CHOOSE_BY // data.n_features)
    query_of_row, scores = data.queries.of_rows(), np.empty(data.n_documents)
    directions: list[str] = []
    for half, other_half in (halves, halves[::-1]):
        # Sample a fixed number of queries, because a fixed number of documents would favour short
        # lists.
        half_documents = int(data.queries.sizes[half].sum())
        sample = half[: max(1, half.size * most_queries // max(half_documents, most_queries))]
        choice = _choose_feature(context, data.take(np.sort(sample)))
        if choice is None:
            return None
        # Rank the other half by the choice.
        column, sign = choice
        values = DenseRows(data, np.array([column]))[: data.n_documents][:, 0]
        is_ranked = np.isin(query_of_row, other_half)
        scores[is_ranked] = _as_scores(values[is_ranked], sign)
        side = {1.0: "higher", -1.0: "lower"}[sign]
        directions.append(f"{data.feature_names[column]} ({side} is better)")
    return SingleFeature(" or ".join(dict.fromkeys(directions)), scores)


def _choose_feature(context: Context, data: RankingDataset) -> tuple[int, float] | None:
    """Return the feature with the best metric, and 1.0 if its higher values are better, else -1.0,
    or None if all queries are excluded.
    """
    try:
        rules = replace(context.rules, ties="expected")
        bound = replace(context, data=data).bound([context.main], rules)
    except DataError:
        return None
    best_value, best_choice = -np.inf, None
    features = data.features.tocsc() if hasattr(data.features, "tocsc") else data.features
    for column in range(data.n_features):
        values = dense_rows(features[:, [column]], 0, data.n_documents)[:, 0]
        for sign in (1.0, -1.0):
            value = bound.values(_as_scores(values, sign))[bound.names[0]]
            if value > best_value:
                best_value, best_choice = value, (column, sign)
    return best_choice


def _as_scores(values: Float32Array, sign: float) -> Float64Array:
    """Return finite scores that rank missing values last."""
    return np.nan_to_num(
        sign * values.astype(np.float64), nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST
    )


SPEC = Section(
    "verdict",
    "Verdict",
    run=verdict,
    variables=lambda result: {"file_order": FILE_ORDER, "single": SINGLE},
    position=10,
    after=("learning",),
)
