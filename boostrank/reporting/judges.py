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

The agreement is Cohen's kappa with quadratic weights (1968), 1 - E (h - m)^2 / E (h - m')^2, where
m' is the grade of another document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import RESAMPLES, expanded_interval, resampled_sums
from boostrank.core.types import Array, Float64Array, Int64Array
from boostrank.files.join import ADDED, CHANCE, MACHINE
from boostrank.reporting.segments import NO_SEGMENT, read_segments
from boostrank.reporting.table import Column, Table, table_of_rows

FOLDS = 5
_LEAST_WEIGHT = 1e-3  # weights of queries must be positive
_MOST_GRADES = 12  # rows and columns of the table of grades


class Judges:
    """The judgements of people and a machine in a table that `files.join` makes.

    Args:
        gain: gain of people's grades; see `Conventions`.
        weight: weight in training of what only the machine judged; None for the share of the
            variance of people's gains that it explains.
        segments: segment by query id, or a file with them, for the agreement.

    Attributes:
        tables: agreement, grades and expected gains, to print.
        words: numbers of documents, what the machine's grades explain, and the options of `train`.
    """

    def __init__(
        self,
        gain: Any = "exponential",
        weight: float | None = None,
        segments: Mapping[str, str] | str | None = None,
    ) -> None:
        self._gain, self._weight = gain, weight
        self._segments = read_segments(segments) if isinstance(segments, str) else segments
        self.tables: list[Table] = []
        self.words: list[str] = []

    def add(self, table: Any) -> Any:
        """Return an Arrow table with the columns `gain` and, unless the weight is 1, `weight`.

        Raises:
            DataError: both judged documents of fewer than two queries, or a grade has no gain.
        """
        people, machine = _numbers(table["label"]), _numbers(table[MACHINE])
        queries = QueryIndex.from_ids(np.array(table["qid"].to_pylist()))
        is_people, is_machine = ~np.isnan(people), ~np.isnan(machine)
        both = is_people & is_machine
        counts_text = (
            f"{is_people.sum():,} documents were judged by people, {is_machine.sum():,} by the"
            f" machine, {both.sum():,} by both"
        )
        query_of_both = queries.of_rows()[both]
        if np.unique(query_of_both).size < 2:
            raise DataError(
                f"{counts_text}, in fewer than two queries: let the machine grade what people"
                " judged"
            )
        with queries.naming_rows():
            gains = gains_from_labels(np.where(is_people, people, 0.0), self._gain)
        # Compare the judges, where each document stands for as many as its chance says.
        weights = np.ones(query_of_both.size)
        if CHANCE in table.column_names:
            weights = 1.0 / _numbers(table[CHANCE])[both]
        segments = self._segments or dict.fromkeys(map(str, queries.qid.tolist()), "")
        names = [segments.get(str(qid), NO_SEGMENT) for qid in queries.qid.tolist()]
        segment_of_both = np.array(names, object)[query_of_both]
        grades = people[both], machine[both]
        self.tables = [agreement(*grades, query_of_both, weights=weights, segments=segment_of_both)]
        if max(np.unique(grades_of_judge).size for grades_of_judge in grades) <= _MOST_GRADES:
            self.tables.append(confusion(*grades))
        gain_map = learn_gains(machine[both], gains[both], query_of_both, weights=weights)
        self.tables.append(gain_map.table())
        # Add the columns after those of the judges.
        dropped = [name for name in (MACHINE, CHANCE) if name in table.column_names]
        expected = np.where(is_people, gains, gain_map.expected(machine))
        table = table.add_column(3 + len(dropped), ADDED[0], [expected])
        reading = f"--gain gain --drop {','.join(['gain', *dropped])}"
        weight = gain_map.explained if self._weight is None else self._weight
        if weight < 1.0:
            document_weights = np.where(is_people, 1.0, max(weight, _LEAST_WEIGHT))
            sums = np.add.reduceat(document_weights, queries.ptr[:-1])
            query_weights = np.repeat(np.round(sums / queries.sizes, 9), queries.sizes)
            table = table.add_column(4 + len(dropped), ADDED[1], [query_weights])
            reading += " --weight weight"
        self.words = [
            counts_text,
            "on queries left out, the machine's grades explain"
            f" {gain_map.explained:.0%} of the variance of people's gains",
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
    """

    grades: Float64Array
    gains: Float64Array
    documents: Int64Array
    explained: float = 0.0

    def expected(self, machine: Float64Array) -> Float64Array:
        """Return the expected gain of each machine grade, linear between the known grades."""
        return np.interp(machine, self.grades, self.gains)

    def table(self) -> Table:
        """Return the table of gains, with the first of the grades that have the same gain."""
        gains, first_position = np.unique(self.gains, return_index=True)
        documents = np.add.reduceat(self.documents, first_position)
        data = {
            "from machine": self.grades[first_position],
            "documents": documents,
            "expected gain": gains,
        }
        return Table("gains", data)


def learn_gains(
    machine: Float64Array, gains: Float64Array, query: Int64Array, weights: Float64Array
) -> GainMap:
    """Learn the expected gain of machine grades, cross-fitted by query to say what it explains.

    Args:
        machine, gains, query, weights: [n], the machine's grade, people's gain, the number of the
            query and the weight of each document that both judged.
    """
    queries, query_position = np.unique(query, return_inverse=True)
    fold_of_document = (np.random.default_rng(0).permutation(queries.size) % FOLDS)[query_position]
    # Sum the squared errors of the map and of the mean, both of the other folds.
    errors = np.zeros(2)
    for fold in np.unique(fold_of_document):
        in_fold, in_other_folds = fold_of_document == fold, fold_of_document != fold
        fitted = fit_gains(machine[in_other_folds], gains[in_other_folds], weights[in_other_folds])
        mean = np.average(gains[in_other_folds], weights=weights[in_other_folds])
        for i, prediction in enumerate((fitted.expected(machine[in_fold]), mean)):
            errors[i] += weights[in_fold] @ (gains[in_fold] - prediction) ** 2
    gain_map = fit_gains(machine, gains, weights)
    if errors[0] >= errors[1]:
        return replace(gain_map, gains=0.0 * gain_map.gains + np.average(gains, weights=weights))
    return replace(gain_map, explained=float(1.0 - errors[0] / errors[1]))


def fit_gains(machine: Float64Array, gains: Float64Array, weights: Float64Array) -> GainMap:
    """Return the map of documents that both judged; see `learn_gains`."""
    from scipy.optimize import isotonic_regression

    grades, grade_position = np.unique(machine, return_inverse=True)
    grade_weights = np.bincount(grade_position, weights)
    means = np.bincount(grade_position, weights * gains) / grade_weights
    rising = isotonic_regression(means, weights=grade_weights).x
    return GainMap(grades, rising, documents=np.bincount(grade_position))


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
    in_segment = {"all": segments == segments}
    in_segment |= {name: segments == name for name in sorted(set(segments.tolist()) - {""})}
    table_rows = []
    for name, rows in in_segment.items():
        # Sum within queries, which are resampled.
        query_numbers, owner = np.unique(query[rows], return_inverse=True)
        columns = [np.bincount(owner, (weights * product)[rows]) for product in products]
        sums = np.stack(columns, axis=1, dtype=np.float64)
        total = sums.sum(axis=0) / sums[:, 0].sum()
        resampled_kappas = _kappa(resampled_sums(sums, resamples=RESAMPLES, seed=0))
        low, high = expanded_interval(resampled_kappas, query_numbers.size)
        counts = {"segment": name, "documents": owner.size, "queries": query_numbers.size}
        kappa = {"low": low, "high": high, "kappa": float(_kappa(total))}
        table_rows.append({**counts, **kappa, "machine - people": total[2] - total[1]})
    declared = (
        *("segment", "documents ,", "queries ,"),
        Column("kappa", format=".3f", ends=("low", "high")),
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
