"""Documents to judge next, drawn with chances that are recorded.

The size of a document is the variance of its weight in DCG@10 over the rankers, times the variance
of its gain given the machine's grade:

    s_i^2 = var(1 / log2(1 + rank_i)) var(gain_i | machine's grade)

For the comparison of rankers, whole queries are drawn, with s_q^2 = sum_i s_i^2 / ideal DCG^2: the
variance of the difference that people's grades will show. A query that all order alike has none.
The chance grows with s, but a fifth of the sample is drawn evenly, so that no weight 1 / chance is
extreme (defensive sampling, Hesterberg, Technometrics 37, 1995). The draw is systematic in a random
order (Madow 1949).
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

import numpy as np

from boostrank.core.conventions import gains_from_labels
from boostrank.core.errors import DataError
from boostrank.core.files import write_atomically
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.reporting.judges import fit_gains

EVEN = 0.2
"""Share of the sample that is drawn evenly."""
_TOP = 10


def choose(
    scores: Sequence[Float64Array],
    queries: QueryIndex,
    grades: Sequence[Float64Array],
    count: int,
    *,
    whole: bool,
    seed: int = 0,
) -> tuple[Int64Array, Float64Array]:
    """Draw `count` documents, or queries if `whole`, among those that people did not judge.

    Args:
        scores: of each ranker, float64[N].
        grades: by people and by a machine, float64[N], with NaN for documents without one.

    Returns:
        The rows to judge, ascending, with all those of a query if whole queries are drawn, and
        their chances.

    Raises:
        DataError: people judged everything, or a grade has no exponential gain.
    """
    people, machine = grades
    ranks = np.stack([queries.ranks(ranker_scores) for ranker_scores in scores])
    unit_of_row = np.arange(people.size)
    with queries.naming_rows():
        gains = gains_from_labels(np.nan_to_num(people))
    expected, variance = _estimate_moments(np.where(np.isnan(people), np.nan, gains), machine)
    variances = np.var(_discounts(ranks), axis=0) * variance
    if whole:
        unit_of_row = queries.of_rows()
        discounted_gains = _discounts(queries.ranks(expected)) * expected
        ideal_dcg = np.bincount(unit_of_row, discounted_gains, len(queries))
        floored_dcg = np.maximum(ideal_dcg, 1.0)
        variances = np.bincount(unit_of_row, variances, len(queries)) / floored_dcg**2
    # Draw from the remaining ones, in a random order.
    candidates = np.unique(unit_of_row[np.isnan(people)])
    if not candidates.size:
        raise DataError("people judged everything: there is nothing to choose")
    rng, chances = np.random.default_rng(seed), np.zeros(variances.size)
    chances[candidates] = chances_of(np.sqrt(variances[candidates]), min(count, candidates.size))
    order = rng.permutation(candidates)
    sampled_counts = np.floor(np.round(np.cumsum(chances[order]), 9) + rng.random())
    drawn_units = order[np.diff(sampled_counts, prepend=0.0) > 0.0]
    rows = np.flatnonzero(np.isin(unit_of_row, drawn_units))
    return rows, chances[unit_of_row[rows]]


def _discounts(ranks: Int64Array) -> Float64Array:
    return np.where(ranks <= _TOP, 1.0 / np.log2(1.0 + ranks), 0.0)


def _estimate_moments(
    people: Float64Array, machine: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the mean and the variance of people's gain of each document, given the machine's
    grade.
    """
    both_judged = ~np.isnan(people) & ~np.isnan(machine)
    if not both_judged.any():
        return np.nan_to_num(machine), np.ones(machine.size)
    moments = []
    for gain_powers in (people[both_judged], people[both_judged] ** 2):
        gain_map = fit_gains(machine[both_judged], gain_powers, np.ones(gain_powers.size))
        moments.append(np.nan_to_num(gain_map.expected(machine), nan=float(gain_powers.mean())))
    mean, mean_square = moments
    return mean, np.maximum(mean_square - mean**2, 0.0)


def chances_of(sizes: Float64Array, count: int) -> Float64Array:
    """Return chances of at most 1 that sum to `count`, of which the share `1 - EVEN` is
    proportional to the sizes.
    """
    share = np.full(sizes.size, EVEN / sizes.size)
    share += (1.0 - EVEN) * sizes / sizes.sum() if sizes.any() else 1.0
    certain = np.zeros(sizes.size, bool)
    # Those above 1 are certain, and the others share the remainder.
    while True:
        left = share[~certain].sum()
        chances = np.where(certain, 1.0, (count - certain.sum()) * share / (left or 1.0))
        exceeds_one = chances > 1.0
        if not exceeds_one.any():
            return chances
        certain |= exceeds_one


def write_choice(
    path: str,
    rows: Int64Array,
    chances: Float64Array,
    data: RankingDataset,
    people: Float64Array,
) -> None:
    """Write the documents to judge, with an empty grade unless people judged them.

    Args:
        path: .json or a CSV file, with the keys or columns qid, doc_id, chance and grade, or
            .quepid.csv.

    Raises:
        DataError: the documents have no names.
    """
    if data.document_names is None:
        raise DataError("the documents have no names; name their column with --id COLUMN")
    grades = people[rows].tolist()
    columns = {
        "qid": data.queries.row_ids()[rows].tolist(),
        "doc_id": data.document_names[rows].tolist(),
        "chance": np.round(chances, 6).tolist(),
        "grade": [None if math.isnan(grade) else grade for grade in grades],
    }
    if path.endswith(".quepid.csv"):
        names = {"query": "qid", "docid": "doc_id", "rating": "grade"}
        columns = {name: columns[column] for name, column in names.items()}
    entries, text = list(zip(*columns.values(), strict=True)), io.StringIO()
    if path.endswith(".json"):
        json.dump([dict(zip(columns, entry, strict=True)) for entry in entries], text, indent=1)
    else:
        csv.writer(text, lineterminator="\n").writerows([tuple(columns), *entries])
    write_atomically(path, text.getvalue().encode())
