"""Statistics of methods that were measured on the same queries.

Two ways to pool queries of several sets: every query counts the same (a large set then decides), or
every set does (its queries share its weight). Differences of means are tested by randomisation of
signs (`boostrank.core.resampling`), corrected by Holm's method for all methods that are compared
with the reference.

Tests over queries take the models as given: with another seed, or other validation queries, the
same method gives another model, better or worse on all queries at once. `luck` is what that adds,
from the final models of each fold; a second p takes it in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import rankdata

from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.reporting.segments import holm

Values = npt.NDArray[np.float64]
Measured = Mapping[str, Mapping[str, Values]]
"""Method -> set -> the metric of each query of the set, in one order; NaN where a query does not
count.
"""
Models = Mapping[str, Sequence[tuple[str, Values]]]
"""Method -> for each outer fold, in one order, its set and float64[models, queries]."""


@dataclass(frozen=True)
class Compared:
    """A method against the reference.

    Args:
        by_query: every query the same weight. by_set: every set.
        holm_by_query, holm_by_set: their p-values, corrected for all methods that are compared with
            the reference.
        luck_by_query, luck_by_set: the same with the luck of the models; NaN where each fold has
            one model.
        each: set -> difference there, not corrected.
    """

    by_query: PairedDifference
    by_set: PairedDifference
    holm_by_query: float
    holm_by_set: float
    luck_by_query: float
    luck_by_set: float
    each: Mapping[str, PairedDifference]


def against(measured: Measured, models: Models, reference: str) -> dict[str, Compared]:
    """Every other method against the reference."""
    others = [name for name in measured if name != reference]
    if not others:
        return {}
    sets = list(measured[reference])
    theirs = pooled(measured, reference)
    weights = set_weights(measured, reference)
    by_query = [paired_difference(pooled(measured, name), theirs) for name in others]
    by_set = [paired_difference(pooled(measured, name), theirs, weights=weights) for name in others]
    holm_q, holm_s = holm([d.p for d in by_query]), holm([d.p for d in by_set])
    differences = [pooled(measured, name) - theirs for name in others]
    luck_q = holm([p_with_luck(d, np.ones(d.size), luck(models, None)) for d in differences])
    luck_s = holm([p_with_luck(d, weights, luck(models, sets)) for d in differences])
    return {
        name: Compared(
            by_query[i],
            by_set[i],
            float(holm_q[i]),
            float(holm_s[i]),
            float(luck_q[i]),
            float(luck_s[i]),
            {s: paired_difference(measured[name][s], measured[reference][s]) for s in sets},
        )
        for i, name in enumerate(others)
    }


def luck(models: Models, sets: Sequence[str] | None, count: int | None = None) -> float:
    """Standard deviation of a method's pooled mean over other models of the same setting; NaN with
    one model a fold.

    The variance among the models of a fold is estimated from all methods together: one has too few
    models.

    Args:
        models: what each final model measured.
        sets: pool these, each with the same weight; None pools all queries alike.
        count: models a fold whose values are averaged; None for those that there are.
    """
    methods = list(models.values())
    folds = [(place, int(np.sum(~np.isnan(values[0])))) for place, values in methods[0]]
    size = {place: sum(n for p, n in folds if p == place) for place, _ in folds}
    total = 0.0
    for f, (place, queries) in enumerate(folds):
        if sets is not None and place not in sets:
            continue
        share = queries / sum(size.values()) if sets is None else queries / size[place] / len(sets)
        means = [np.nanmean(method[f][1], axis=1) for method in methods]
        if means[0].size < 2:
            return float("nan")
        total += (
            share**2 * float(np.mean([np.var(m, ddof=1) for m in means])) / (count or means[0].size)
        )
    return float(np.sqrt(total))


def p_with_luck(difference: Values, weights: Values, luck: float) -> float:
    """Two-sided p of a mean difference whose variance is that over queries and that of both
    methods' models, normal.
    """
    counted = ~np.isnan(difference)
    share, d = weights[counted] / weights[counted].sum(), difference[counted]
    mean = float(share @ d)
    variance = (
        float(np.square(share) @ np.square(d - mean)) * d.size / max(1, d.size - 1) + 2.0 * luck**2
    )
    return 1.0 if mean == 0.0 else float(2.0 * ndtr(-abs(mean) / np.sqrt(variance)))


def pooled(measured: Measured, name: str) -> Values:
    """The queries of all sets, one after the other."""
    return np.concatenate(list(measured[name].values()))


def set_weights(measured: Measured, name: str) -> Values:
    """float64[Q]: of each query when every set counts the same."""
    parts = measured[name].values()
    return np.concatenate(
        [np.full(v.size, 1.0 / max(1, np.count_nonzero(~np.isnan(v)))) for v in parts]
    )


def mean_ranks(values: Sequence[Values], weights: Values | None = None) -> Values:
    """Of each method, its rank in a query averaged over queries; 1 is best, equal values share
    their ranks.

    Args:
        values: one array a method, the same queries; NaN in all alike where a query does not count.
        weights: float64[Q], of the queries.
    """
    table = np.column_stack(values)
    counted = ~np.isnan(table).any(axis=1)
    ranks = rankdata(-table[counted], axis=1)
    return np.average(ranks, axis=0, weights=None if weights is None else weights[counted])
