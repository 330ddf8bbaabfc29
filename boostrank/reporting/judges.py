"""People and a machine that judged the same documents: how they agree, and which gain to expect.

The gain of a document that only the machine judged is the mean gain of the documents that people
judged and to which it gave that grade, made increasing by isotonic regression. This is the expected
gain, not the gain of the expected grade, because DCG is linear in gains. Compare H. A. Rahmani et
al., "LARA", SIGIR 2025 (arXiv 2411.06877).

Objectives divide by the gains of a query, so that they would learn as much from the small
differences of a poor judge as from people's. The weight of what only the machine judged is
therefore the share of the variance of people's gains that its grades explain on queries left out of
the fit. On simulated judges, this is never below people alone, and above a weight of 1
(`experiments/judgements`).

With segments, each has a map and a weight of its own, in which documents of all segments count as
10 more of it, unless one map explains more on queries left out.

The agreement is Cohen's kappa with quadratic weights (1968), 1 - E (h - m)^2 / E (h - m')^2, where
m' is the grade of another document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataError
from boostrank.core.files import path_of
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import RESAMPLES, expanded_interval, resampled_sums
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.files.join import ADDED, CHANCE, MACHINE
from boostrank.reporting.segments import by_table, read_segments
from boostrank.reporting.table import Column, Table, table_of_rows

FOLDS = 5
_PRIOR = 10.0  # documents of all segments that count in each
_LEAST_WEIGHT = 1e-3  # weights of queries must be positive
_MOST_GRADES = 12  # rows and columns of the table of grades


@dataclass(eq=False)
class Judges:
    """The judgements of people and a machine in a table that `files.join` makes.

    Args:
        gain: gain of people's grades; see `Conventions`.
        weight: weight in training of what only the machine judged; None for the share of the
            variance of people's gains that it explains.
        segments: segment by query id, or a file with them.

    Attributes:
        tables: agreement, grades and expected gains, to print.
        words: numbers of documents, what the machine's grades explain, and the options of `train`.
    """

    gain: Any = "exponential"
    weight: float | None = None
    segments: Any = None
    tables: Sequence[Table] = field(default=(), init=False)
    words: Sequence[str] = field(default=(), init=False)

    def __post_init__(self) -> None:
        if path_of(self.segments) is not None:
            self.segments = read_segments(self.segments)

    def add(self, table: Any) -> Any:
        """Return an Arrow table with the columns `gain` and, unless the weight is 1, `weight`.

        Raises:
            DataError: both judged documents of fewer than two queries, a grade has no gain, or no
                query has a segment.
        """
        people, machine = _numbers(table["label"]), _numbers(table[MACHINE])
        queries = QueryIndex.from_ids(np.array(table["qid"].to_pylist()))
        is_people, is_machine = ~np.isnan(people), ~np.isnan(machine)
        both = is_people & is_machine
        counts_text = (
            f"{is_people.sum():,} documents were judged by people, {is_machine.sum():,} by the"
            f" machine, {both.sum():,} by both"
        )
        query = queries.of_rows()
        if np.unique(query[both]).size < 2:
            raise DataError(
                f"{counts_text}, in fewer than two queries: let the machine grade what people"
                " judged"
            )
        with queries.naming_rows():
            gains = gains_from_labels(np.where(is_people, people, 0.0), self.gain)
        # Compare the judges, where each document stands for as many as its chance says.
        weights = np.ones(people.size)
        if CHANCE in table.column_names:
            weights = 1.0 / _numbers(table[CHANCE])
        segments = np.full(query.size, "", object)
        if self.segments:
            segments = by_table(self.segments, queries).name_of_query[query]
        of_both = {"query": query[both], "weights": weights[both], "segments": segments[both]}
        gain_map = learn_gains(machine[both], gains[both], **of_both)
        judged = people[both], machine[both]
        grade_tables = []
        if max(np.unique(grades).size for grades in judged) <= _MOST_GRADES:
            grade_tables = [confusion(*judged)]
        self.tables = [agreement(*judged, **of_both), *grade_tables, gain_map.table()]
        # Add the columns after those of the judges.
        expected = np.where(is_people, gains, gain_map.expected(machine, segments))
        dropped = [name for name in (MACHINE, CHANCE) if name in table.column_names]
        table = table.add_column(3 + len(dropped), ADDED[0], [expected])
        reading = f"--gain gain --drop {','.join(['gain', *dropped])}"
        weight = gain_map.share(segments)
        if self.weight is not None:
            weight[:] = self.weight
        if weight.min() < 1.0:
            document_weights = np.where(is_people, 1.0, np.maximum(weight, _LEAST_WEIGHT))
            sums = np.add.reduceat(document_weights, queries.ptr[:-1])
            query_weights = np.repeat(np.round(sums / queries.sizes, 9), queries.sizes)
            table = table.add_column(4 + len(dropped), ADDED[1], [query_weights])
            reading += " --weight weight"
        shares = [f"{name} {part.explained:.0%}" for name, part in gain_map.of_segment.items()]
        if self.segments and not shares:
            shares = ["by one map, as well as by one for each segment"]
        explained = f"{gain_map.explained:.0%} of the variance of people's gains"
        if not gain_map.explained:
            explained = "nothing of people's gains: what only it judged has their mean gain"
        elif shares:
            explained += f" ({', '.join(shares)})"
        self.words = [
            counts_text,
            f"on queries left out, the machine's grades explain {explained}",
            f"to train on both: boostrank train TABLE {reading}",
        ]
        return table


def _numbers(column: Any) -> Float64Array:
    """Return an Arrow column as float64[N], with NaN where it is missing."""
    return np.array(column.cast("float64").to_numpy(), np.float64)


@dataclass(frozen=True, eq=False)
class GainMap:
    """The expected gain of each machine grade, float64[k], by ascending grade, which never falls.

    Args:
        documents: int64[k], numbers of documents from which it was learnt.
        explained: share of the variance of people's gains that the map of other queries explains.
            If it explains nothing, all gains are the mean.
        of_segment: maps of segments, if they explain more.
    """

    grades: Float64Array
    gains: Float64Array
    documents: Int64Array
    explained: float = 0.0
    of_segment: Mapping[str, GainMap] = field(default_factory=dict)

    def expected(self, machine: Float64Array, segments: Any = None) -> Float64Array:
        """Return the expected gain of each machine grade, linear between the known grades.

        Args:
            segments: [n], segment of each grade.
        """
        gains = np.interp(machine, self.grades, self.gains)
        for name, part in self.of_segment.items():
            gains = np.where(segments == name, part.expected(machine), gains)
        return gains

    def share(self, segments: Array) -> Float64Array:
        """Return the explained share in the segment of each document."""
        shares = {name: part.explained for name, part in self.of_segment.items()}
        return np.array([shares.get(name, self.explained) for name in segments.tolist()])

    def table(self) -> Table:
        """Return the table of gains, with the first of the grades that have the same gain."""
        rows = []
        for name, part in {"all": self, **self.of_segment}.items():
            gains, first = np.unique(part.gains, return_index=True)
            counts = np.add.reduceat(part.documents, first)
            for grade, count, gain in zip(part.grades[first], counts, gains, strict=True):
                row = {"segment": name, "from machine": grade, "documents": count}
                rows.append(row | {"expected gain": gain})
        return table_of_rows("gains", rows)


def learn_gains(
    machine: Float64Array,
    gains: Float64Array,
    query: Int64Array,
    weights: Float64Array,
    segments: Array | None = None,
) -> GainMap:
    """Learn the expected gain of machine grades, cross-fitted by query to say what it explains.

    Args:
        machine, gains, query, weights, segments: [n], the machine's grade, people's gain, the
            number of the query, the weight and the segment of each document that both judged.
    """
    if segments is None:
        segments = np.full(gains.size, "", object)
    queries, query_position = np.unique(query, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(queries.size) % FOLDS)[query_position]
    # Predict each fold by the mean, by one map, and by those of segments.
    predicted = np.empty((3, gains.size))
    for in_fold in (fold == number for number in np.unique(fold)):
        others = machine[~in_fold], gains[~in_fold], weights[~in_fold]
        fitted = fit_gains(*others, segments[~in_fold])
        predicted[0, in_fold] = np.average(others[1], weights=others[2])
        predicted[1, in_fold] = replace(fitted, of_segment={}).expected(machine[in_fold])
        predicted[2, in_fold] = fitted.expected(machine[in_fold], segments[in_fold])
    errors = weights * (gains - predicted) ** 2
    by_mean, by_one, by_segment = errors.sum(axis=1).tolist()
    # Keep what explains more, and say how much, in each segment.
    gain_map, shares = fit_gains(machine, gains, weights, segments), {}
    if min(by_one, by_segment) >= by_mean:
        mean = 0.0 * gain_map.gains + np.average(gains, weights=weights)
        return replace(gain_map, gains=mean, of_segment={})
    for name, segment_map in gain_map.of_segment.items() if by_segment < by_one else ():
        sums = errors[:, segments == name].sum(axis=1) + _PRIOR * errors.mean(axis=1)
        explained = max(0.0, float(1.0 - sums[2] / sums[0]))
        shares[name] = replace(segment_map, explained=explained)
    return replace(gain_map, explained=1.0 - min(by_one, by_segment) / by_mean, of_segment=shares)


def fit_gains(
    machine: Float64Array,
    gains: Float64Array,
    weights: Float64Array,
    segments: Any = (),
) -> GainMap:
    """Return the map of documents that both judged, and those of segments; see `learn_gains`."""
    from scipy.optimize import isotonic_regression

    grades, grade_position = np.unique(machine, return_inverse=True)

    def fit(inside: Any, prior: float, toward: Any) -> GainMap:
        position = grade_position[inside]
        grade_weights = np.bincount(position, weights[inside], grades.size) + prior
        sums = np.bincount(position, (weights * gains)[inside], grades.size) + prior * toward
        rising = isotonic_regression(sums / grade_weights, weights=grade_weights).x
        return GainMap(grades, rising, np.bincount(position, minlength=grades.size))

    gain_map, prior = fit(slice(None), 0.0, 0.0), _PRIOR * float(weights.mean())
    names = sorted({*segments} - {""})
    return replace(
        gain_map,
        of_segment={name: fit(segments == name, prior, gain_map.gains) for name in names},
    )


def agreement(
    people: Float64Array,
    machine: Float64Array,
    query: Int64Array,
    weights: Float64Array,
    segments: Array,
) -> Table:
    """Return the agreement over all documents that both judged, and in each segment.

    The table has the numbers of documents and queries, kappa with its 95% interval over queries,
    and the mean of machine minus people.

    Args:
        people, machine, query, weights, segments: [n], grades, number of the query, weight and
            segment of each document. The segment is "" if there are none.
    """
    products = [people**0, people, machine, people**2, machine**2, people * machine]
    in_segment = {name: segments == name for name in sorted({*segments} - {""})}
    table_rows = []
    for name, rows in {"all": segments == segments, **in_segment}.items():
        # Sum within queries, which are resampled.
        query_numbers, owner = np.unique(query[rows], return_inverse=True)
        columns = [np.bincount(owner, (weights * product)[rows]) for product in products]
        sums = np.stack(columns, axis=1, dtype=np.float64)
        total = sums.sum(axis=0) / sums[:, 0].sum()
        resampled_kappas = _kappa(resampled_sums(sums, resamples=RESAMPLES, seed=0))
        low, high = expanded_interval(resampled_kappas, query_numbers.size)
        table_rows.append(
            {
                "segment": name,
                "documents": owner.size,
                "queries": query_numbers.size,
                "low": low,
                "high": high,
                "kappa": float(_kappa(total)),
                "machine - people": total[2] - total[1],
            }
        )
    declared = (
        "segment",
        "documents ,",
        "queries ,",
        "kappa .3f [low high]",
        Column("machine - people", format="+.3f"),
    )
    return table_of_rows("agreement", table_rows, declared)


def _kappa(sums: Float64Array) -> Float64Array:
    """Compute the weighted kappa from the sums over documents along the last axis."""
    with np.errstate(all="ignore"):
        h, m, hh, mm, hm = np.moveaxis(sums[..., 1:] / sums[..., :1], -1, 0)
        return np.asarray(1.0 - (hh - 2.0 * hm + mm) / (hh + mm - 2.0 * h * m))


def confusion(people: Float64Array, machine: Float64Array) -> Table:
    """Return the numbers of documents by people's grade (rows) and machine's grade (columns)."""
    people_grades, row = np.unique(people, return_inverse=True)
    machine_grades, column = np.unique(machine, return_inverse=True)
    counts = np.zeros((people_grades.size, machine_grades.size), np.int64)
    np.add.at(counts, (row, column), 1)
    by_grade = {
        f"machine {grade:g}": counts[:, column]
        for column, grade in enumerate(machine_grades.tolist())
    }
    return Table("grades", {"people": people_grades, **by_grade})
