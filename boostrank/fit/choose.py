"""Choice of columns within queries by cross-validation: all of them or none.

They help where what a document has beside others tells more than what it has, and cost elsewhere: twice or three times
the columns, in which trees of few queries find more that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.resampling import paired_difference
from boostrank.fit.folds import Deal, Variant, each
from boostrank.fit.observe import SILENT, Observer
from boostrank.fit.plan import Plan
from boostrank.metric import BoundMetrics
from boostrank.model.within_query import WithinQuery

FOLDS = 4


def choose_within_query(plan: Plan, observer: Observer = SILENT) -> WithinQuery:
    """Train with and without the columns on the queries outside of each fold, and compare on those inside.

    The columns are used where the 95% interval of the mean difference lies above 0.

    Args:
        plan: one training, whose `within` asks for all features; early stopping watches the fold.
        observer: told before and after.

    Returns:
        What was asked for, or no columns; `choice` holds the difference, its interval and the number of queries.

    Raises:
        InputError: as `run` and `fold_numbers`; no metric.
    """
    asked, metric, seed = plan.within, plan.metric, plan.seed
    assert asked is not None
    if metric is None:
        raise ParameterError("within_query: 'auto' compares by a metric: metric='ndcg'")
    observer.choosing(2 * FOLDS)
    alone = replace(plan, valid=(), functions=(), callbacks=(), checkpoint=None, keep_training_booster=False)
    deal = Deal(alone, FOLDS, shares="bins")

    def variants(of_fold: Plan, fold: int) -> Iterator[Variant]:
        of_fold = replace(of_fold.seeded(seed + fold), measured=True)
        yield Variant(False, replace(of_fold, within=None))
        yield Variant(True, replace(of_fold, within=replace(asked, of=None)))

    values: dict[bool, list[Any]] = {False: [], True: []}
    weights = []
    watched = bool(plan.settings.stopping_rounds)
    for one in each(alone, deal, variants, watched=watched):
        held = one.held_out
        measured = BoundMetrics([metric], held.labels, held.queries, plan.rules, plan.settings.threads)
        values[one.variant.name].append(measured.per_query(one.scores)[metric])
        if one.variant.name:
            weights.append(held.queries.each_weight)
    difference = paired_difference(
        np.concatenate(values[True]), np.concatenate(values[False]), weights=np.concatenate(weights), seed=seed
    )
    choice = {
        "kinds": list(asked.kinds),
        "used": bool(difference.low > 0.0),
        "metric": metric,
        "folds": FOLDS,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "queries": difference.queries,
    }
    observer.chosen(choice)
    return WithinQuery(asked.kinds if choice["used"] else (), None, choice)


def choice_words(choice: Mapping[str, Any]) -> str:
    """Describe the outcome in one line."""
    kinds = ", ".join(choice["kinds"])
    verdict = "used" if choice["used"] else "left out: no gain beyond chance"
    return (
        f"within queries, {kinds}: {choice['metric']} {choice['difference']:+.4f} [{choice['low']:+.4f}, "
        f"{choice['high']:+.4f}] with them on {choice['queries']:,} queries of {choice['folds']} folds: {verdict}"
    )
