"""Documents to judge next, drawn with chances that are recorded.

For the comparison of two rankers, whole queries are drawn. The chance of a query grows with the
spread of its difference in DCG@10, over its ideal, given the machine's grades:

    s_q^2 = sum_i (w_i,new - w_i,old)^2 var(gain_i | machine's grade) / ideal_q^2
    w = 1 / log2(1 + rank)

A query that both rankers order alike has s_q = 0. For a model, single documents are drawn. Their
chance grows with the spread of w_i over several rankers, times the spread of the gain.

A fifth of the sample is drawn evenly, so that no chance is 0 and no weight 1 / chance is extreme
(defensive sampling, T. Hesterberg, "Weighted average importance sampling and defensive mixture
distributions", Technometrics 37, 1995). The draw is systematic in a random order, with exactly the
number that is asked for (Madow 1949).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError
from boostrank.core.files import write_atomically
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset

EVEN = 0.2
"""Share of the sample that is drawn evenly."""
_TOP = 10
_PRIOR = 5.0  # documents with the variance of all, in the variance of each machine grade


class Choice(NamedTuple):
    """The rows to judge, ascending, and the chance with which each was drawn."""

    rows: Int64Array
    chances: Float64Array


def choose_queries(
    scores: Sequence[Float64Array],
    queries: QueryIndex,
    count: int,
    *,
    people: Float64Array,
    machine: Float64Array | None = None,
    depth: int | None = None,
    seed: int = 0,
) -> Choice:
    """Draw `count` of the queries that people did not judge, for the comparison of two rankers.

    Args:
        scores: of each ranker, float64[N].
        people, machine: gains by people and grades by a machine, float64[N], with NaN for documents
            that were not judged.
        depth: list only the first documents of either ranker; None lists whole queries.

    Raises:
        DataError: people judged all queries.
    """
    tops, owner = _rank_weights(scores, queries), queries.of_rows()
    expected, variance = _gains(people, machine)
    ideal = np.add.reduceat(_discounts(queries.ranks(expected)) * expected, queries.ptr[:-1])
    spread = np.add.reduceat((tops[-1] - tops[0]) ** 2 * variance, queries.ptr[:-1])
    sizes = np.divide(np.sqrt(spread), ideal, out=np.zeros(len(queries)), where=ideal > 0.0)
    # Draw among the queries with documents to judge.
    listed = np.ones(owner.size, bool)
    if depth is not None:
        listed = np.min([queries.ranks(each) for each in scores], axis=0) <= depth
    drawn, chances = _drawn(np.unique(owner[listed & np.isnan(people)]), sizes, count, seed)
    rows = np.flatnonzero(listed & np.isin(owner, drawn))
    return Choice(rows, chances[owner[rows]])


def choose_documents(
    scores: Sequence[Float64Array],
    queries: QueryIndex,
    count: int,
    *,
    people: Float64Array,
    machine: Float64Array | None = None,
    seed: int = 0,
) -> Choice:
    """Draw `count` of the documents that people did not judge, on whose ranks several rankers
    differ. See `choose_queries`.
    """
    sizes = np.std(_rank_weights(scores, queries), axis=0) * np.sqrt(_gains(people, machine)[1])
    rows, chances = _drawn(np.flatnonzero(np.isnan(people)), sizes, count, seed)
    return Choice(rows, chances[rows])


def _rank_weights(scores: Sequence[Float64Array], queries: QueryIndex) -> Float64Array:
    """Return the weight of each document's rank in DCG@10 by each ranker, float64[m, N]."""
    return np.stack([_discounts(queries.ranks(each)) for each in scores])


def _discounts(ranks: Int64Array) -> Float64Array:
    return np.where(ranks <= _TOP, 1.0 / np.log2(1.0 + ranks), 0.0)


def _gains(people: Float64Array, machine: Float64Array | None) -> tuple[Float64Array, Float64Array]:
    """Return the mean and the variance of the gain of each document given the machine's grade."""
    expected, variance = np.ones((2, people.size))
    if machine is None:
        return expected, variance
    both = ~np.isnan(people) & ~np.isnan(machine)
    expected = np.nan_to_num(machine)
    if not both.any():
        return expected, variance
    # Learn both from the documents that people and the machine judged.
    grades, at = np.unique(machine[both], return_inverse=True)
    count, gains = np.bincount(at), people[both]
    overall = max(float(np.var(gains)), 1e-12)
    means = np.bincount(at, gains) / count
    within = np.bincount(at, (gains - means[at]) ** 2)
    expected = np.nan_to_num(np.interp(machine, grades, means), nan=float(gains.mean()))
    spread = np.interp(machine, grades, (within + _PRIOR * overall) / (count + _PRIOR))
    return expected, np.nan_to_num(spread, nan=overall)


def chances_of(sizes: Float64Array, count: int) -> Float64Array:
    """Return chances that sum to `count`, of which `1 - EVEN` is proportional to the sizes, at most
    1 each.
    """
    even = np.full(sizes.size, 1.0 / sizes.size)
    total = float(sizes.sum())
    share = EVEN * even + (1.0 - EVEN) * sizes / total if total > 0.0 else even
    chances = np.zeros(sizes.size)
    certain = np.zeros(sizes.size, bool)
    # Those above 1 are certain, and the others share what is left.
    while count > certain.sum():
        left = share[~certain]
        chances = np.where(certain, 1.0, (count - certain.sum()) * share / left.sum())
        if not (chances[~certain] >= 1.0).any():
            break
        certain |= chances >= 1.0
    return np.minimum(chances, 1.0)


def _drawn(
    units: Int64Array, sizes: Float64Array, count: int, seed: int
) -> tuple[Int64Array, Float64Array]:
    """Draw some of the units, and return them with the chances of all, float64[sizes.size]."""
    if not units.size:
        raise DataError("people judged everything: there is nothing to choose")
    chances = np.zeros(sizes.size)
    chances[units] = chances_of(sizes[units], min(count, units.size))
    rng = np.random.default_rng(seed)
    order = rng.permutation(units)
    steps = np.floor(np.round(np.cumsum(chances[order]), 9) + rng.random())
    drawn: npt.NDArray[np.bool_] = np.diff(steps, prepend=0.0) > 0.0
    return order[drawn], chances


def write_choice(
    path: str,
    choice: Choice,
    data: RankingDataset,
    people: Float64Array,
    form: str | None = None,
) -> None:
    """Write the documents to judge, with an empty grade unless people judged them.

    Args:
        form: "csv" or "json", with the columns or keys qid, doc_id, chance and grade, or "quepid";
            None chooses by the extension of the path.

    Raises:
        DataError: the documents have no names.
    """
    if data.document_names is None:
        raise DataError("the documents have no names; name their column with --id COLUMN")
    form = form or ("json" if path.lower().endswith(".json") else "csv")
    qids, grades = data.queries.row_ids(), people[choice.rows].tolist()
    entries = [
        {"qid": qid, "doc_id": name, "chance": round(chance, 6), "grade": grade}
        for qid, name, chance, grade in zip(
            qids[choice.rows].tolist(),
            data.document_names[choice.rows].tolist(),
            choice.chances.tolist(),
            [None if grade != grade else grade for grade in grades],
            strict=True,
        )
    ]
    if form == "json":
        text = json.dumps(entries, indent=1) + "\n"
    else:
        keys = dict(zip(entries[0], entries[0], strict=True))
        if form == "quepid":
            keys = {"query": "qid", "docid": "doc_id", "rating": "grade"}
        rows = io.StringIO()
        lines = csv.writer(rows, lineterminator="\n")
        lines.writerow(keys)
        lines.writerows([entry[key] for key in keys.values()] for entry in entries)
        text = rows.getvalue()
    write_atomically(path, text.encode())
