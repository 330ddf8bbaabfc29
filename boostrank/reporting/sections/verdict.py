"""Verdict on a ranker, whose metrics are compared with those of untrained rankings and a previous
model.

All rankings are measured on the same queries, so leads are means of paired differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError
from boostrank.core.resampling import PAIRED_RESAMPLES, paired_difference
from boostrank.core.types import Float32Array, Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows, dense_rows
from boostrank.metrics import BoundMetrics, Metric
from boostrank.metrics.measure import is_built_in
from boostrank.reporting.charts import COLOURS, Chart, alt, row_chart
from boostrank.reporting.difference import Difference
from boostrank.reporting.result import Result
from boostrank.reporting.scoring import START
from boostrank.reporting.section import Context, Section
from boostrank.reporting.segments import (
    FEWEST_FOR_INTERVAL,
    TIE,
    means_over_queries,
)
from boostrank.reporting.table import Column, Table, table_of_objects
from boostrank.reporting.ties import TieReport, tied_documents

MODEL, SINGLE = "the model", "the best single feature"
RANDOM, FILE_ORDER = "random order", "the order of the file"

# Limit on the number of values from which one half chooses a feature (50 MB in float32, a few
# seconds).
_VALUES_TO_CHOOSE_BY = 12_500_000
_LARGEST = float(np.finfo(np.float32).max)
# Number of random orders that are measured if a metric is a function.
_ORDERS = 20


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
    """The model or a baseline, with its standing in each metric."""

    name: str
    about: str
    standings: Mapping[str, Standing]


class Verdict(Result):
    """Result of `verdict`.

    Args:
        metric: headline metric, which is the first metric at its largest cut-off.
        ties: how the order of tied documents affects the headline metric.
        per_query: the model's values by metric, float64[Q], with NaN for excluded queries.
        queries, documents: numbers of queries and documents in the data.
        empty: number of queries without a relevant document. The conventions determine whether they
            are included.
        p: p-value of the lead over the first baseline that `first_lead` returns.
        matters: difference that exceeds training noise by metric, if it was measured.
        meaning: what each metric measures, by its name without a cut-off.
    """

    metric: str
    model: Ranking
    baselines: tuple[Ranking, ...]
    ties: TieReport
    conventions: Conventions
    per_query: Mapping[str, Float64Array]
    queries: int
    documents: int
    empty: int
    p: float = math.nan
    notes: tuple[str, ...] = ()
    matters: Mapping[str, float] = field(default_factory=dict)
    meaning: Mapping[str, str] = field(default_factory=dict)

    HIDDEN = ("model", "baselines", "per_query", "p")

    def tables(self) -> tuple[Table, ...]:
        """Return the standings of all rankings in all metrics."""
        standings = [
            standing for ranking in self.rankings for standing in ranking.standings.values()
        ]
        names = [ranking.name for ranking in self.rankings for _ in ranking.standings]
        columns = (
            "ranking",
            "metric",
            Column("value", format=".4f", ends=("low", "high")),
            Column("lead", format="+.4f", ends=("lead_low", "lead_high")),
            "better #",
            "worse #",
        )
        table = table_of_objects("verdict", standings, columns)
        return (replace(table, data={"ranking": names, **table.data}),)

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """The model and the baselines."""
        return (self.model, *self.baselines)

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

    def first_lead(self) -> tuple[str, Difference]:
        """Return the name of the first baseline except the linear start, and the lead over it."""
        base = next(ranking for ranking in self.baselines if ranking.name != START)
        lead, value = base.standings[self.metric], self.headline
        same = value.queries - lead.better - lead.worse
        ends = lead.lead, lead.lead_low, lead.lead_high, self.p
        counts, matters = (lead.better, same, lead.worse), self.matters.get(self.metric, math.nan)
        values = value.queries, lead.value, value.value
        return base.name, Difference("all", "all", self.metric, *values, *ends, *counts, matters)


def verdict(c: Context) -> Verdict:
    """Measure a ranker and its baselines."""
    data, rules, first, main = c.data, c.rules, c.metric, c.main
    bound = c.bound(c.metrics)
    rankings, notes = _baselines(c, bound)
    per_query = bound.per_query(c.scores)
    standings = _standings(
        bound.names, [per_query, *(values for _, _, values in rankings)], data, c.seed
    )
    counted = standings[0][first].queries
    if counted < len(data.queries) and rules.empty_for(first.partition("@")[0]) == "exclude":
        notes.append(
            f"{len(data.queries) - counted:,} of {len(data.queries):,} queries are excluded from"
            f" {first}."
        )

    # Test the lead over the first baseline other than the model's own start.
    p = math.nan
    if counted:
        base = next(values for name, _, values in rankings if name != START)
        weights = data.queries.each_weight
        p = paired_difference(per_query[first], base[first], weights=weights, seed=c.seed).p

    # Measure the effect of ties on the headline metric, and count the queries without a relevant
    # document.
    where_relevant = replace(rules, ties="expected", empty="exclude", empty_of=(), single="count")
    of_labels = main if main.function is None else Metric("precision")
    (empty,) = c.bound([of_labels], where_relevant, partial=True).per_query(c.scores).values()
    tied = tied_documents(data.labels, c.scores, data.queries, score_type=rules.score_type)
    ties = TieReport.measure(
        data.n_documents, tied, rules, lambda of: c.bound([main], of).values(c.scores), first
    )
    baselines = tuple(
        Ranking(name, about, standing)
        for (name, about, _), standing in zip(rankings, standings[1:], strict=True)
    )
    return Verdict(
        metric=first,
        model=Ranking(MODEL, "", standings[0]),
        baselines=baselines,
        ties=ties,
        conventions=rules,
        per_query=per_query,
        queries=len(data.queries),
        documents=data.n_documents,
        empty=int(np.isnan(empty).sum()),
        p=p,
        notes=tuple(notes),
        matters=dict(c.matters or {}),
        meaning={metric.name: metric.meaning for metric in c.metrics if metric.meaning},
    )


def _baselines(
    c: Context, bound: BoundMetrics
) -> tuple[list[tuple[str, str, dict[str, Float64Array]]], list[str]]:
    """Return the name, the description and the metrics of each baseline, and notes: the previous
    model, the linear start, the single feature, random order and file order.
    """
    notes: list[str] = []
    rankings: list[tuple[str, str, dict[str, Float64Array]]] = []
    if c.previous is not None:
        rankings.append((c.previous[0], "an earlier model", bound.per_query(c.previous[1])))
    if c.start is not None:
        rankings.append((START, "the model without its trees", bound.per_query(c.start)))
    chosen = single_feature(c)
    if chosen is None:
        notes.append(
            "There is no single-feature baseline: too few queries are included to choose a feature"
            " on half."
        )
    else:
        rankings.append((SINGLE, chosen.words, bound.per_query(chosen.scores)))
    rankings.append((RANDOM, *_by_chance(c)))
    # Tied documents have ranks in row order.
    order = -c.data.queries.ranks(np.zeros(c.data.n_documents)).astype(np.float64)
    about = "the rows of each query in file order"
    rankings.append((FILE_ORDER, about, bound.per_query(order)))
    return rankings, notes


def _by_chance(c: Context) -> tuple[str, dict[str, Float64Array]]:
    """Return how a random order is measured, and its metrics, float64[Q]."""
    bound, n = c.bound(c.metrics, replace(c.rules, ties="expected")), c.data.n_documents
    if all(metric.function is None for metric in c.metrics):
        # With equal scores, the mean over tied orders is the mean of a random order.
        return "the exact mean over all orders of each list", bound.per_query(np.zeros(n))
    rng = np.random.default_rng(c.seed)
    draws = [bound.per_query(rng.random(n)) for _ in range(_ORDERS)]
    means = {name: np.mean([values[name] for values in draws], axis=0) for name in bound.names}
    return f"the mean over {_ORDERS} random orders of each list", means


def _standings(
    names: Sequence[str],
    rankings: Sequence[Mapping[str, Float64Array]],
    data: RankingDataset,
    seed: int,
) -> list[dict[str, Standing]]:
    """Return the standing of each ranking in each metric. The first ranking is the model."""
    values = np.column_stack([r[name] for r in rankings for name in names])
    leads = np.column_stack([rankings[0][name] - r[name] for r in rankings for name in names])
    weights = data.queries.each_weight
    mean = means_over_queries(values, weights, seed=seed)
    lead = means_over_queries(leads, weights, seed=seed, resamples=PAIRED_RESAMPLES)
    # Each row has the fields of one standing. The model has no lead over itself.
    numbers = np.column_stack([mean.mean, mean.low, mean.high, lead.mean, lead.low, lead.high])
    numbers[: len(names), 3:] = np.nan
    counts = np.column_stack([mean.queries, (leads > TIE).sum(axis=0), (leads < -TIE).sum(axis=0)])
    metrics = list(names) * len(rankings)
    standings = map(Standing, metrics, *numbers.T.tolist(), *counts.T.tolist())
    return [{name: next(standings) for name in names} for _ in rankings]


@dataclass(frozen=True, eq=False)
class SingleFeature:
    """A ranking that sorts each half of the queries by one feature.

    Args:
        names: features that the two halves chose for each other.
        signs: 1.0 for each feature whose higher values are better, and -1.0 for the others.
        scores: float64[N].
    """

    names: tuple[str, str]
    signs: tuple[float, float]
    scores: Float64Array

    @property
    def words(self) -> str:
        """A description of the chosen features."""
        words = [
            f"{name}, {'higher' if sign > 0 else 'lower'} is better"
            for name, sign in zip(self.names, self.signs, strict=True)
        ]
        if words[0] == words[1]:
            return words[0]
        return f"{words[0]}, or {words[1]}: the two halves choose different features"


def single_feature(c: Context) -> SingleFeature | None:
    """Rank each half of the queries by the feature and direction that are best on the other half.

    Missing values rank last in either direction. On large data, the choice uses a sample of each
    half.

    Returns:
        The ranking, or None if a half has no included query or if there is no feature.
    """
    data = c.data
    count = len(data.queries)
    if count < 2 or not data.n_features:
        return None
    # Choose a feature on each half.
    order = np.random.default_rng(c.seed).permutation(count)
    halves = order[: count // 2], order[count // 2 :]
    most = max(1, _VALUES_TO_CHOOSE_BY // data.n_features)
    choices: list[tuple[int, float]] = []
    for half in halves:
        # Sample a fixed number of queries, because a fixed number of documents would favour short
        # lists.
        documents = int(data.queries.sizes[half].sum())
        sample = half[: max(1, half.size * most // max(documents, most))]
        chosen = _choose(data.take(np.sort(sample)), c.main, c.rules, c.threads)
        if chosen is None:
            return None
        choices.append(chosen)
    # Rank each half by the other half's choice.
    columns = np.array([column for column, _ in choices], dtype=np.int64)
    values = DenseRows(data, columns)[: data.n_documents]
    (a, a_sign), (b, b_sign) = choices
    first, second = _as_scores(values[:, 0], a_sign), _as_scores(values[:, 1], b_sign)
    in_second = np.zeros(count, dtype=bool)
    in_second[halves[1]] = True
    scores = np.where(np.repeat(in_second, data.queries.sizes), first, second)
    return SingleFeature((data.feature_names[a], data.feature_names[b]), (a_sign, b_sign), scores)


def _choose(
    data: RankingDataset, metric: Metric, conventions: Conventions, threads: int | None
) -> tuple[int, float] | None:
    """Return the column and the sign with the best metric, or None if all queries are excluded."""
    try:
        bound = BoundMetrics(
            [metric], data.labels, data.queries, replace(conventions, ties="expected"), threads
        )
    except DataError:
        return None
    best, chosen = -np.inf, None
    features = data.features.tocsc() if hasattr(data.features, "tocsc") else data.features
    for column in range(data.n_features):
        values = dense_rows(features[:, [column]], 0, data.n_documents)[:, 0]
        for sign in (1.0, -1.0):
            value = bound.values(_as_scores(values, sign))[bound.names[0]]
            if value > best:
                best, chosen = value, (column, sign)
    return chosen


def _as_scores(values: Float32Array, sign: float) -> Float64Array:
    """Return finite scores that rank missing values last."""
    return np.nan_to_num(
        sign * values.astype(np.float64), nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST
    )


def _parts(result: Verdict) -> dict[str, Any]:
    return {
        "few": result.headline.queries < FEWEST_FOR_INTERVAL and FEWEST_FOR_INTERVAL,
        "file_order": FILE_ORDER,
        "single": SINGLE,
        "function": not is_built_in(result.metric),
        "chart": _chart(result),
    }


def _chart(result: Verdict) -> Chart:
    frame = result.to_frame()
    frame = frame[frame["metric"] == result.metric][["ranking", "value", "low", "high"]]
    tips = ("ranking:N", "value:Q .4f", "low:Q .4f from", "high:Q .4f to")
    colours = [alt.value(COLOURS[name]) for name in ("main", "faint")]
    colour = alt.condition(f"datum.ranking == '{MODEL}'", *colours)
    return row_chart("verdict-rankings", frame, "ranking:N", tips, result.metric, color=colour)


SPEC = Section("verdict", "Verdict", verdict, _parts, position=10, after=("learning",))
