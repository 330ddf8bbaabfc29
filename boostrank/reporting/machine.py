"""The difference between two rankers by few queries that people judged and many that a machine did.

With d_h and d_m the difference of a query by people's and by the machine's grades, n queries of
people among N of the machine,

    estimate = mean_n (d_h - w d_m) + w mean_N d_m,

which is that of people, whatever the machine does, and which varies least for
w = cov(d_h, d_m) / var d_m. Each query has the w of the other n - 1, in [0, 1], because a weight
tuned on its own query is biased. It is multiplied by max(0, 1 - 4 / t^2), where t is w in standard
errors, because a weight learnt from noise widens the interval: at 20 queries by up to 6%, and so by
up to 3% (`experiments/judgements`). The interval is Student's with n - 1 - w degrees of freedom.
The variance is the sum of squares of what each of the N queries adds to the estimate.

Source: A. Angelopoulos, J. Duchi, T. Zrnic, "PPI++: efficient prediction-powered inference", 2023
(arXiv 2311.01453), example 6.1. Its second mean is over the N - n other queries only, with the
weight (1 - n / N) w, which is the same estimate.

Where fewer than a quarter of people's queries differ, they may have too few or too many of those
that differ by much. The variance V of people's mean is then V + v (M_N - M_n), where M is the
machine's over N or n queries. Where M_N > M_n, v = min(2, (V + a) / (M_n + a)) with
a = 32 M_N / n. Otherwise, v is the tuned weight of the squared deviations, at most V / M_n, so that
a machine lowers V only if it knows in which queries people see a difference.

A metric may leave out queries. Then, d is replaced by its linearisation r + i (d - r) / mean(i),
where r is the mean of d over the included queries (i = 1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from boostrank.core.errors import DataError
from boostrank.core.files import path_of
from boostrank.core.text import count_of
from boostrank.core.types import BoolArray, Float64Array, Int64Array, as_numbers
from boostrank.data.dataset import RankingDataset
from boostrank.files.join import CHANCE, MACHINE, grades_by_name
from boostrank.reporting.table import Column, Table, table_of_rows

FEWEST = 10
"""Number of queries of people from which a difference is estimated."""
POWER = 0.8
_MOST_QUERIES = 10_000_000
Luck: TypeAlias = tuple[float, float]
_TAIL = 0.025
_DOUBT = 4.0  # squared standard errors within which a weight is 0
_FEW = 0.25  # share of queries that differ below which the machine's spread is used
_PRIOR = 32.0  # weight, in queries, of the prior that both judges have the same spread
_MOST_RATIO = 2.0
_MOST_EXCESS = 4.0
_TIE = 1e-12
_CERTAIN = 9.0  # standard errors beyond the limit of the test, where the power is 1


@dataclass(frozen=True)
class JudgedDifference:
    """The mean difference in a metric between two rankers, new minus old, by some judges.

    Args:
        judges: "people", "machine" or "both".
        queries: number of queries that the judges judged and the metric includes. For both, those
            of people.
        mean: mean difference, with its standard error, Student's 95% interval from low to high and
            two-sided p-value.
        weight: mean weight of the machine's differences in `mean`.
        bias: mean of the machine's differences minus people's over the queries of people, with its
            95% interval, for the machine alone.
        worth: number of queries for which people alone would have the error of both.
        differ: number of queries whose difference is not 0.
        excess: by how many standard errors the machine's absolute differences are larger over the
            queries of people than over all, for the machine alone. Where these were drawn with
            their recorded chances, it rarely exceeds 4.
    """

    judges: str
    metric: str
    queries: int
    mean: float
    error: float
    low: float
    high: float
    p: float
    weight: float = 0.0
    bias: float = math.nan
    bias_low: float = math.nan
    bias_high: float = math.nan
    worth: float = math.nan
    differ: int = 0
    excess: float = 0.0


class JudgedQueries(NamedTuple):
    """The queries that a machine judged, and those of them that people judged.

    Args:
        machine, people: the queries of each, labelled with its grades. The weights of people's are
            divided by the chances of being chosen.
        positions: int64[N], positions of the machine's queries in the data.
        people_positions: int64[n], positions of people's queries among the machine's.
        notes: which queries are left out.
    """

    machine: RankingDataset
    people: RankingDataset
    positions: Int64Array
    people_positions: Int64Array
    notes: tuple[str, ...]

    @classmethod
    def split(cls, grades: Any, data: RankingDataset) -> JudgedQueries:
        """Split queries by judge. A document that a judge did not grade has the grade 0.

        Args:
            grades: columns `label` and `machine`, float[N] in input order, with NaN where people or
                the machine did not judge, or judgements (`files.join.grades_by_name`), and
                optionally `chance`, with NaN for 1. A path has the machine's judgements, and the
                labels are people's.

        Raises:
            DataError: a column has another length, a chance is not in (0, 1], or people judged
                fewer than 10 queries that the machine judged.
        """
        if path_of(grades) is not None:
            grades = {"label": data.in_input_order(data.labels), MACHINE: grades}
        people, machine = _read_grades(grades, "label", data), _read_grades(grades, MACHINE, data)
        chances = np.ones(people.size)
        if CHANCE in grades:
            chances = np.nan_to_num(_read_grades(grades, CHANCE, data), nan=1.0)
        if not np.all((chances > 0.0) & (chances <= 1.0)):
            raise DataError(f"column {CHANCE!r} has numbers outside of (0, 1]; correct them")
        # People judged a query if they graded what the machine graded.
        query_of_row, n_queries = data.queries.of_rows(), len(data.queries)

        def has_any(is_in_row: BoolArray) -> BoolArray:
            """Return whether each query has any such row, bool[Q]."""
            return np.asarray(np.bincount(query_of_row, is_in_row, n_queries) > 0.0)

        by_people, by_machine = has_any(~np.isnan(people)), has_any(~np.isnan(machine))
        is_whole = ~has_any(np.isnan(people) & ~np.isnan(machine))
        is_judged = by_people & by_machine & is_whole
        ungraded = np.isnan(machine) & by_machine[query_of_row]
        # Say which documents and queries are left out.
        left_out = (
            (ungraded, "document", "", "of the machine's queries without its grade, counted as 0"),
            (
                by_people & ~is_whole,
                "query",
                "queries",
                "judged by people in part, counted as not judged",
            ),
            (~by_machine, "query", "queries", "without a machine's grade, left out"),
        )
        notes = [
            f"{count_of(int(mask.sum()), noun, nouns)} {reason}"
            for mask, noun, nouns, reason in left_out
            if mask.any()
        ]
        if not (by_machine & ~by_people).any():
            notes.append(
                f"people judged {by_people.sum()} queries, and the machine {by_machine.sum()} of"
                " them and no other, which adds nothing: pass data with all that it judged, or were"
                " judgements swapped?"
            )
        if is_judged.sum() < FEWEST:
            raise DataError(
                f"people judged {is_judged.sum()} whole queries that the machine judged too, but at"
                f" least {FEWEST} are needed; let people judge more, or leave out --machine"
                + "".join(f" ({note})" for note in notes)
            )
        # Weigh people's queries by 1 / chance.
        machine_queries, people_queries = np.flatnonzero(by_machine), np.flatnonzero(is_judged)
        of_people = _label(data, people_queries, people)
        chance_of_query = np.ones(n_queries)
        np.minimum.at(chance_of_query, query_of_row, chances)
        weights = of_people.queries.each_weight / chance_of_query[people_queries]
        of_people = replace(of_people, queries=replace(of_people.queries, weights=weights))
        return cls(
            machine=_label(data, machine_queries, machine),
            people=of_people,
            positions=machine_queries,
            people_positions=np.searchsorted(machine_queries, people_queries),
            notes=tuple(notes),
        )


def _read_grades(grades: Any, name: str, data: RankingDataset) -> Float64Array:
    """Return a column of grades or chances in row order, float64[N]."""
    if name not in grades:
        raise DataError(f"the grades have no column {name!r}; pass label, {MACHINE} and {CHANCE}")
    column = grades[name]
    if path_of(column) is not None or isinstance(column, Mapping):
        column = grades_by_name(column, data)
    numbers = as_numbers(column, f"column {name!r}")
    if numbers.shape != (data.n_documents,) or np.isinf(numbers).any():
        raise DataError(
            f"column {name!r} has the shape {numbers.shape} or infinite numbers, but there are"
            f" {data.n_documents:,} documents; pass a number for each, NaN where it is missing"
        )
    return data.in_row_order(numbers)


def _label(data: RankingDataset, queries: Int64Array, grades: Float64Array) -> RankingDataset:
    """Return the queries at these positions, labelled with grades, of which NaN counts as 0."""
    labels = np.nan_to_num(grades)[data.queries.take(queries)[1]]
    return replace(data.take(queries), labels=labels)


def by_judges(
    metric: str,
    people: Float64Array,
    machine: Float64Array,
    people_positions: Int64Array,
    people_weights: Float64Array,
    machine_weights: Float64Array,
    luck: Luck = (0.0, 1.0),
) -> list[JudgedDifference]:
    """Return the mean difference by people, by the machine, and by both.

    Args:
        people, machine: float64[n] and float64[N], difference of each query, NaN where the metric
            leaves it out.
        people_positions: int64[n], positions of people's queries among the machine's.
        people_weights, machine_weights: float64[n] and float64[N], positive weights.
        luck: standard error by the luck of training, which is added to each, and its degrees of
            freedom.

    Raises:
        DataError: the metric includes fewer than 10 queries by people, or 2 by the machine.
    """
    n, n_by_machine = [int(np.count_nonzero(~np.isnan(values))) for values in (people, machine)]
    if n < FEWEST or n_by_machine < 2:
        raise DataError(
            f"{metric} includes {n} queries by people's grades and {n_by_machine} by the machine's,"
            f" but {FEWEST} by people's are needed; let people judge more, or leave out --machine"
        )
    shares = people_weights / people_weights.sum()
    machine_shares = machine_weights / machine_weights.sum()
    included_shares = shares[~np.isnan(people)]
    # The number of queries with equal weights whose mean varies as much: n, with equal weights.
    effective = float(included_shares.sum() ** 2 / (included_shares @ included_shares))
    # The differences by people, by the machine, and by the machine in people's queries.
    d_people, d_machine = _linearise(people, shares), _linearise(machine, machine_shares)
    d_shared, machine_mean = d_machine[people_positions], float(machine_shares @ d_machine)
    # Where few queries differ, correct their variance by the machine's.
    n_differ, n_differ_by_machine = [
        int((np.abs(np.nan_to_num(values)) > _TIE).sum()) for values in (people, machine)
    ]
    squares = [shares * (values - shares @ values) ** 2 for values in (d_people, d_shared)]
    spread = variance = float(shares @ squares[0])
    if n_differ < _FEW * n:
        machine_variance = float(
            shares @ shares * (machine_shares @ (d_machine - machine_mean) ** 2)
        )
        variance = correct_variance(squares[0], squares[1], shares, machine_variance)
    rows = []
    no_weights, tuned = np.zeros(d_people.size), tune_weights(d_people, d_shared, shares)
    for judges, weights in (("people", no_weights), ("both", tuned)):
        corrected, weight = d_people - weights * (d_shared - machine_mean), float(shares @ weights)
        estimate = float(shares @ corrected)
        # Sum the squares of what each query adds to the estimate.
        residuals = shares * (corrected - estimate)
        terms = weight * machine_shares * (d_machine - machine_mean)
        if spread:
            terms[people_positions] += residuals * math.sqrt(variance / spread)
        else:
            terms = np.append(terms, math.sqrt(variance))
        student = _infer_mean(estimate, terms, effective, luck, weight)
        rows.append(JudgedDifference(judges, metric, n, **student, weight=weight, differ=n_differ))
    # The machine alone is biased by what it adds on queries of people.
    excess = d_shared - d_people
    terms = shares * (excess - shares @ excess)
    bias = _infer_mean(float(shares @ excess), terms, effective, (0.0, 1.0))
    machine_fields = {"bias": bias["mean"], "bias_low": bias["low"], "bias_high": bias["high"]}
    # Compare how much rankers disagree in people's queries and in all.
    sizes = np.abs(d_machine) - machine_shares @ np.abs(d_machine)
    error = math.sqrt(shares @ shares * (machine_shares @ sizes**2))
    machine_fields["excess"] = float(shares @ sizes[people_positions]) / error if error else 0.0
    terms = machine_shares * (d_machine - machine_mean)
    student = _infer_mean(machine_mean, terms, n_by_machine, luck) | machine_fields
    alone = JudgedDifference(
        "machine", metric, n_by_machine, **student, weight=1.0, differ=n_differ_by_machine
    )
    errors = [row.error for row in rows]
    worth = n * (errors[0] / errors[1]) ** 2 if errors[1] else math.nan
    return [rows[0], alone, replace(rows[1], worth=worth)]


def correct_variance(
    people: Float64Array, machine: Float64Array, shares: Float64Array, machine_variance: float
) -> float:
    """Return the variance of people's mean, corrected by the machine's over all queries.

    Args:
        people, machine: float64[n], squared deviations times the share, whose means are the
            variances of the means over the queries of people.
        shares: float64[n], weights that sum to 1.
        machine_variance: variance of a mean over n queries by the machine, from all queries.
    """
    of_people, of_machine = float(shares @ people), float(shares @ machine)
    if machine_variance > of_machine:
        prior = _PRIOR * machine_variance / shares.size
        ratio = min((of_people + prior) / (of_machine + prior), _MOST_RATIO)
        return of_people + ratio * (machine_variance - of_machine)
    if not of_machine:
        return of_people
    weight = float(shares @ tune_weights(people, machine, shares))
    return of_people - min(weight, of_people / of_machine) * (of_machine - machine_variance)


def tune_weights(people: Float64Array, machine: Float64Array, shares: Float64Array) -> Float64Array:
    """Return the weight of the machine's difference for each query, float64[n], from the others.

    Args:
        people, machine, shares: float64[n], differences, and weights that sum to 1.
    """
    people_terms = shares * (people - shares @ people)
    machine_terms = shares * (machine - shares @ machine)

    def sum_others(products: Float64Array) -> Float64Array:
        return np.asarray(products.sum() - products / (1.0 - shares))

    people_square = sum_others(people_terms * people_terms)
    product = sum_others(people_terms * machine_terms)
    machine_square = sum_others(machine_terms * machine_terms)
    with np.errstate(all="ignore"):
        # The squared standard error of the weight, divided by the squared weight.
        noise = (people_square * machine_square / product**2 - 1.0) * (shares @ shares)
        weights = product / machine_square * np.maximum(1.0 - _DOUBT * noise, 0.0)
    is_known = machine_square > 1e-12 * (machine_terms @ machine_terms)
    is_usable = is_known & np.isfinite(weights)
    return np.clip(np.where(is_usable, weights, 0.0), 0.0, 1.0)


def _linearise(values: Float64Array, shares: Float64Array) -> Float64Array:
    """Return values whose mean over all queries is that over those which are not NaN."""
    is_included = ~np.isnan(values)
    total = shares[is_included].sum()
    mean = shares[is_included] @ values[is_included] / total
    return np.asarray(np.where(is_included, mean + (values - mean) / total, mean))


def _infer_mean(
    mean: float, terms: Float64Array, n: float, luck: Luck, weight: float = 0.0
) -> dict[str, float]:
    """Return the fields of a mean: its standard error, Student's 95% interval and p-value.

    Args:
        terms: contribution of each query to the mean, minus its expectation.
        n: number of queries.
        luck: as for `by_judges`.
        weight: mean weight of the machine's differences, which is subtracted from the degrees of
            freedom.
    """
    freedom = max(n - 1.0 - weight, 1.0)
    by_queries, by_luck = n / freedom * float(terms @ terms), luck[0] ** 2
    error = math.sqrt(by_queries + by_luck)
    if by_luck:  # Satterthwaite's, as in `core.resampling.crossed_difference`
        freedom = error**4 / (by_queries**2 / freedom + by_luck**2 / luck[1])
    width = float(stdtrit(freedom, 1.0 - _TAIL)) * error
    p = 2.0 * float(stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0.0)
    return {"mean": mean, "error": error, "low": mean - width, "high": mean + width, "p": p}


def judges_table(rows: Sequence[JudgedDifference]) -> Table:
    """Return the table of the differences by judge."""
    columns = (
        "metric",
        "judges | both: people's estimate, with less variance",
        "queries #",
        Column("mean", "difference", "+.4f", "new minus old", ends=("low", "high"), drawn=True),
        "p .4f | two-sided p-value",
        "weight .2f | weight of the machine's differences",
        "bias +.4f | machine minus people on the queries of people",
        "worth .0f | queries of people alone with this error",
    )
    return table_of_rows("judges", rows, columns)


def describe_judges(rows: Sequence[JudgedDifference]) -> str:
    """Say what the machine's grades are worth, and how they are biased."""
    people, machine, both = rows
    text = (
        f"{both.metric}: with the machine's grades, {people.queries:,} queries of people are worth"
        f" {both.worth:,.0f}; its bias is {machine.bias:+.4f}"
        f" ({machine.bias_low:+.4f} to {machine.bias_high:+.4f})"
    )
    if both.weight == 0.0:
        text += "; its grades are not used, because they say nothing of people's"
    if people.differ < _FEW * people.queries:
        text += (
            f"; only {people.differ} of {people.queries} judged queries differ: the intervals are"
            " corrected by the machine's spread, and may still be too narrow"
        )
    if machine.excess > _MOST_EXCESS:
        text += (
            "; by the machine, rankers disagree far more in people's queries than in all, which may"
            " shift the difference: draw queries at random, or by data choose and join its chances"
        )
    return text


@dataclass(frozen=True)
class Plan:
    """Numbers of queries for people to judge, to detect a difference in a metric.

    Args:
        detect: difference to detect, at the two-sided level .05.
        people, both: number of queries with a power of .8, by people alone and with the machine's
            grades, or None.
        judged: number of queries that the machine judged, or people without a machine.
    """

    metric: str
    detect: float
    judged: int
    people: int
    both: int | None


def plan_of(comparison: Any, detect: float) -> Plan:
    """Return how many queries people must judge to detect a difference in the first metric of a
    comparison.

    Raises:
        DataError: fewer than 10 queries, or no query differs.
    """
    rows = comparison.judges_of(comparison.first)
    if not rows:
        values = comparison.per_query[comparison.first]
        differences, weights = values[:, 1] - values[:, 0], comparison.weights
        positions = np.arange(weights.size)
        rows = by_judges(comparison.first, differences, differences, positions, weights, weights)
    return plan_queries(rows, detect)


def plan_queries(rows: Sequence[JudgedDifference], detect: float) -> Plan:
    """Return how many queries people must judge to detect a difference.

    Args:
        rows: rows of `by_judges`. Without a machine, those of people stand in its place.
    """
    people, machine, both = rows
    n, n_by_machine = people.queries, machine.queries
    if not people.error:
        raise DataError(
            f"{people.metric}: no query differs between the rankers, so its spread is unknown"
        )

    def count_queries(saved: float) -> int:
        def compute_power(size: int) -> float:
            explained = saved * max(0.0, 1.0 - size / n_by_machine)
            error = people.error * math.sqrt(n / size * (1.0 - explained))
            return power_of(detect, error, size)

        sizes = range(2, _MOST_QUERIES)
        position = bisect_left(sizes, POWER, key=compute_power)
        if position == len(sizes):
            raise DataError(
                f"more than {_MOST_QUERIES:,} queries are needed to detect {detect:g}; pass a"
                " larger --detect"
            )
        return sizes[position]

    # The machine saves a share of the variance, unless people judge all queries.
    n_with_machine = None
    if n < n_by_machine:
        ratio = (both.error / people.error) ** 2
        n_with_machine = count_queries(
            min(max((1.0 - ratio) / (1.0 - n / n_by_machine), 0.0), 0.999)
        )
    return Plan(people.metric, detect, n_by_machine, count_queries(0.0), n_with_machine)


def power_of(difference: float, error: float, queries: int) -> float:
    """Return the power of the two-sided t-test of a difference at the level .05."""
    freedom, shift = queries - 1.0, difference / error
    limit = float(stdtrit(freedom, 1.0 - _TAIL))
    if shift > limit + _CERTAIN:
        return 1.0
    return float(1.0 - nctdtr(freedom, shift, limit) + nctdtr(freedom, shift, -limit))
