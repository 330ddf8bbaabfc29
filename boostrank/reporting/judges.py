"""People and a machine that judged the same documents: how they agree, and which gain to expect.

The gain of a document that only the machine judged is the mean gain of the documents that people
judged and to which it gave that grade, made increasing by isotonic regression. This is the expected
gain, not the gain of the expected grade, because DCG is linear in gains. A judge that says little
gives nearly equal gains, which hardly affect training. Compare H. A. Rahmani et al., "LARA",
SIGIR 2025 (arXiv 2411.06877).

The agreement is Cohen's kappa with quadratic weights (1968), 1 - E (h - m)^2 / E (h - m')^2, where
m' is the grade of another document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import RESAMPLES, expanded_interval, resampled_sums
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.files.join import CHANCE, MACHINE
from boostrank.fit.from_data import train
from boostrank.metrics import Conventions
from boostrank.metrics.measure import BoundMetrics
from boostrank.reporting.segments import NO_SEGMENT
from boostrank.reporting.table import Column, Table

GAIN, WEIGHT = "gain", "weight"
"""Columns of joined judgements."""

FOLDS = 5
WEIGHTS = (0.0, 0.1, 0.3, 1.0)
"""Weights of queries that only the machine judged, of which held-out queries choose."""
_LEAST_WEIGHT = 1e-3  # weights of queries must be positive
_MOST_GRADES = 12  # columns of the table of grades
_ROUNDS = 60


class Judges:
    """The judgements of people and a machine in a table that `files.join` makes.

    Args:
        gain: gain of people's grades; see `Conventions`.
        weight: weight in training of what only the machine judged, or "auto" to choose it with
            `choose_weight`.
        segments: segment by query id, for the agreement.

    Attributes:
        tables: what to print: agreement, grades, gains, and weights if one was chosen.
        counts: numbers of documents that people, the machine, and both judged.
    """

    def __init__(
        self,
        gain: Any = "exponential",
        weight: float | str = 1.0,
        segments: Mapping[str, str] | None = None,
    ) -> None:
        self._gain, self._segments, self.weight = gain, segments, weight
        self.tables: list[Table] = []
        self.counts: tuple[int, int, int] = (0, 0, 0)

    def add(self, table: Any) -> Any:
        """Return an Arrow table with the columns `gain` and, unless the weight is 1, `weight`.

        Raises:
            DataError: nothing was judged by both, or the weight cannot be chosen.
        """
        for name in (GAIN, WEIGHT):
            if name in table.column_names:
                raise DataError(f"the feature {name!r} has the name of a result column; rename it")
        people, machine = (_numbers(table[name]) for name in ("label", MACHINE))
        queries = QueryIndex.from_ids(np.array(table["qid"].to_pylist()))
        is_people, is_machine = ~np.isnan(people), ~np.isnan(machine)
        both = is_people & is_machine
        self.counts = int(is_people.sum()), int(is_machine.sum()), int(both.sum())
        if not both.any():
            raise DataError(
                f"people judged {self.counts[0]} documents and the machine {self.counts[1]}, but no"
                " document was judged by both: let the machine grade what people judged"
            )
        with queries.naming_rows():
            gains = gains_from_labels(np.where(is_people, people, 0.0), self._gain)
        # Compare the judges, where each document stands for as many as its chance says.
        owner, weights = queries.of_rows()[both], np.ones(int(both.sum()))
        if CHANCE in table.column_names:
            weights = 1.0 / _numbers(table[CHANCE])[both]
        segments = None
        if self._segments is not None:
            names = [self._segments.get(str(qid), NO_SEGMENT) for qid in queries.qid.tolist()]
            segments = np.array(names, object)[owner]
        pairs = people[both], machine[both]
        learnt = learn_gains(machine[both], gains[both], owner, weights)
        self.tables = [agreement(*pairs, owner, segments, weights), confusion(*pairs)]
        self.tables.append(learnt.table())
        self.explained = learnt.explained
        # Add the columns after those of the judges.
        expected = np.where(is_people, gains, learnt.expected(machine))
        columns = [name for name in ("label", MACHINE, CHANCE) if name in table.column_names]
        at = 2 + len(columns)
        table = table.add_column(at, GAIN, [expected])
        if self.weight == "auto":
            data = RankingDataset.from_frame(
                table, label=GAIN, qid="qid", id="doc_id", drop=columns
            )
            self.weight, weighed = choose_weight(data, is_people)
            self.tables.append(weighed)
        if self.weight != 1.0:
            each = query_weights(is_people, queries, float(self.weight))
            table = table.add_column(at + 1, WEIGHT, [np.repeat(each, queries.sizes)])
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
    """

    grades: Float64Array
    gains: Float64Array
    documents: Int64Array
    explained: float = np.nan

    def expected(self, machine: Float64Array) -> Float64Array:
        """Return the expected gain of each machine grade, linear between the known grades."""
        return np.interp(machine, self.grades, self.gains)

    def table(self) -> Table:
        """Return the table of grades and gains."""
        data = {"machine": self.grades, "documents": self.documents, "expected gain": self.gains}
        formats = dict(zip(data, ("g", ",", ".3f"), strict=True))
        return Table("gains", data, [Column(name, format=formats[name]) for name in data])


def learn_gains(
    machine: Float64Array, gains: Float64Array, query: Int64Array, weights: Float64Array
) -> GainMap:
    """Learn the expected gain of machine grades, cross-fitted by query to say what it explains.

    Args:
        machine, gains, query, weights: [n], the machine's grade, people's gain, the number of the
            query and the weight of each document that both judged.
    """
    names, owner = np.unique(query, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(names.size) % min(FOLDS, names.size))[owner]
    held_out, constant = np.full((2, gains.size), np.nan)
    for inside in (fold == number for number in range(min(FOLDS, names.size))):
        if not inside.all():
            others = machine[~inside], gains[~inside], weights[~inside]
            held_out[inside] = _fit(*others).expected(machine[inside])
            constant[inside] = np.average(gains[~inside], weights=weights[~inside])
    with np.errstate(all="ignore"):
        errors = [weights @ (gains - predicted) ** 2 for predicted in (held_out, constant)]
        explained = float(1.0 - np.divide(*errors))
    return replace(_fit(machine, gains, weights), explained=explained)


def _fit(machine: Float64Array, gains: Float64Array, weights: Float64Array) -> GainMap:
    from scipy.optimize import isotonic_regression

    grades, at = np.unique(machine, return_inverse=True)
    weight = np.bincount(at, weights)
    means = np.bincount(at, weights * gains) / weight
    return GainMap(grades, isotonic_regression(means, weights=weight).x, np.bincount(at))


def agreement(
    people: Float64Array,
    machine: Float64Array,
    query: Int64Array,
    segments: Sequence[str] | npt.NDArray[Any] | None = None,
    weights: Float64Array | None = None,
    seed: int = 0,
) -> Table:
    """Return the agreement over all documents that both judged, and in each segment.

    The table has the numbers of documents and queries, kappa with its 95% interval over queries,
    and the mean of machine minus people.

    Args:
        people, machine, query, weights: [n], grades, number of the query and weight of each
            document.
        segments: [n], segment of each document.
    """
    w = np.ones(people.size) if weights is None else weights
    products = np.column_stack(
        [w, w * people, w * machine, w * people**2, w * machine**2, w * people * machine]
    )
    parts = {"all": np.ones(people.size, bool)}
    if segments is not None:
        names = np.asarray(segments, object)
        parts |= {name: names == name for name in sorted(set(names.tolist()))}
    rows = []
    for name, inside in parts.items():
        numbers, owner = np.unique(query[inside], return_inverse=True)
        sums = np.column_stack(
            [np.bincount(owner, column, numbers.size) for column in products[inside].T]
        )
        total = sums.sum(axis=0)
        low, high = expanded_interval(
            _kappa(resampled_sums(sums, resamples=RESAMPLES, seed=seed)), numbers.size
        )
        bias = float((total[2] - total[1]) / total[0])
        rows.append((name, owner.size, numbers.size, float(_kappa(total)), low, high, bias))
    heads = ("segment", "documents", "queries", "kappa", "low", "high", "bias")
    return Table(
        "agreement",
        dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True)),
        [
            Column("segment"),
            Column("documents", format=","),
            Column("queries", format=","),
            Column("kappa", format=".3f", ends=("low", "high")),
            Column("bias", "machine - people", format="+.3f"),
        ],
    )


def _kappa(sums: Float64Array) -> Float64Array:
    """Compute the weighted kappa from the sums over documents along the last axis."""
    with np.errstate(all="ignore"):
        _, h, m, hh, mm, hm = np.moveaxis(sums / sums[..., :1], -1, 0)
        return np.asarray(1.0 - (hh - 2.0 * hm + mm) / (hh + mm - 2.0 * h * m))


def confusion(people: Float64Array, machine: Float64Array) -> Table:
    """Return the numbers of documents by people's grade (rows) and machine's grade (columns), which
    are rounded if there are many.
    """
    both = [
        np.round(grades) if np.unique(grades).size > _MOST_GRADES else grades
        for grades in (people, machine)
    ]
    rows, i = np.unique(both[0], return_inverse=True)
    columns, j = np.unique(both[1], return_inverse=True)
    counts = np.zeros((rows.size, columns.size), np.int64)
    np.add.at(counts, (i, j), 1)
    data: dict[str, Any] = {"people": [f"{grade:g}" for grade in rows.tolist()]}
    data |= {f"machine {grade:g}": counts[:, k] for k, grade in enumerate(columns.tolist())}
    return Table(
        "grades", data, [Column(name, format=None if name == "people" else ",") for name in data]
    )


def query_weights(
    is_people: npt.NDArray[np.bool_], queries: QueryIndex, weight: float
) -> Float64Array:
    """Return the weight of each query, float64[Q]: the mean of its documents', 1 where people
    judged and `weight` where only the machine did.
    """
    each = np.where(is_people, 1.0, max(weight, _LEAST_WEIGHT))
    return np.round(np.add.reduceat(each, queries.ptr[:-1]) / queries.sizes, 12)


def choose_weight(
    data: RankingDataset, is_people: npt.NDArray[np.bool_], threads: int | None = None
) -> tuple[float, Table]:
    """Choose the weight of what only the machine judged by NDCG@10 of queries that people judged,
    in 5-fold cross-validation.

    Args:
        data: gains as labels, with a weight of 1 for each query.
        is_people: bool[N], whether people judged the document.

    Returns:
        The weight, and the table of weights and NDCG.

    Raises:
        DataError: people judged too few queries with different gains.
    """
    queries, owner = data.queries, data.queries.of_rows()
    judged = np.unique(owner[is_people])
    fold = np.full(len(queries), -1)
    fold[judged] = np.random.default_rng(0).permutation(judged.size) % FOLDS
    if judged.size < 2 * FOLDS:
        raise DataError(
            f"people judged {judged.size} queries, too few to choose a weight: pass"
            " --machine-weight 1"
        )
    options: dict[str, Any] = {"num_threads": threads, "verbosity": -1, "metric": "none"}
    sums: dict[float, list[Float64Array]] = {weight: [] for weight in WEIGHTS}
    for number in range(FOLDS):
        inside = (fold == number)[owner] & is_people
        sizes = np.bincount(owner[inside])
        held_out = QueryIndex.from_sizes(sizes[sizes > 0])
        metric = BoundMetrics(
            ["ndcg@10"], data.labels[inside], held_out, Conventions(gain="linear")
        )
        for weight in WEIGHTS:
            others = fold != number if weight else (fold >= 0) & (fold != number)
            train_set, rows = data.take(np.flatnonzero(others)), others[owner]
            each = query_weights(is_people[rows], train_set.queries, weight)
            weighted = replace(train_set, queries=replace(train_set.queries, weights=each))
            model = train({"gain": "linear", **options}, weighted, _ROUNDS)
            scores = data.in_row_order(model.predict(data, threads=threads))
            sums[weight].append(metric.per_query(scores[inside])["ndcg@10"])
    means = {weight: float(np.nanmean(np.concatenate(sums[weight]))) for weight in WEIGHTS}
    table = Table("weights", {"weight": list(means), "ndcg@10": list(means.values())})
    return max(means, key=means.__getitem__), table
