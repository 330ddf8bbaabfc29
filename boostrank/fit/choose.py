"""Choice of columns within queries by cross-validation: whether they are worth having, all or none.

They help where what a document has beside others tells more than what it has, and cost elsewhere: twice or three times
the columns, in which trees of few queries find more that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.resampling import paired_difference
from boostrank.data.dataset import RankingDataset
from boostrank.data.part import Whole
from boostrank.engines import get_backend
from boostrank.fit.params import headline, pop_seed, split_params
from boostrank.fit.query_folds import fold_numbers
from boostrank.metric import BoundMetrics, Conventions
from boostrank.model.ranking_model import RankingModel
from boostrank.model.within_query import WithinQuery

FOLDS = 4


def choose_within_query(
    train: Callable[..., RankingModel], asked: WithinQuery, params: Mapping[str, Any] | None,
    train_set: RankingDataset, num_boost_round: int = 100, *, backend: str = "lightgbm",
    conventions: Conventions | str | None = None, start: Any = "auto",
) -> WithinQuery:  # fmt: skip
    """Train with and without on the queries outside of each fold, and compare on those inside, query by query.

    The columns are taken where the mean of the differences is above 0 by more than chance: where its 95% interval is.

    Args:
        train: `boostrank.train`.
        asked: of all features.
        params, num_boost_round, backend, conventions, start: as for `boostrank.train`; early stopping watches the fold.
        train_set: features in memory.

    Returns:
        What was asked for, or no columns; `choice` holds the difference, its interval and the number of queries.

    Raises:
        InputError: as `boostrank.train` and `query_folds`; no metric.
    """
    rest = dict(params or {})
    seed = pop_seed(rest)
    engine = get_backend(backend)
    checked = split_params(rest, num_boost_round, engine)
    metric = headline(checked.metrics)
    if metric is None:
        raise ParameterError("within_query: 'auto' compares by a metric: metric='ndcg'")
    rules = Conventions.of(conventions, checked.gain)
    columns = replace(asked, of=None)
    values: dict[bool, list[Any]] = {False: [], True: []}
    weights = []
    fold = fold_numbers(train_set, FOLDS, seed) % FOLDS
    part = Whole(train_set).part if engine.shares_bins else train_set.take
    for k in range(FOLDS):
        outside, held = part(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)
        inside, watched = train_set.take(held), [part(held)] if checked.stopping_rounds else None
        measured = BoundMetrics([metric], inside.labels, inside.queries, rules, checked.threads)
        for used, found in values.items():
            model = train(
                rest | {"seed": seed + k}, outside, num_boost_round, valid_sets=watched, backend=backend,
                conventions=conventions, start=start, within_query=columns if used else None,
            )  # fmt: skip
            found.append(measured.per_query(model.predict(inside, threads=checked.threads))[metric])
        weights.append(inside.queries.each_weight)
    difference = paired_difference(
        np.concatenate(values[True]), np.concatenate(values[False]), weights=np.concatenate(weights), seed=seed
    )
    choice = {
        "kinds": list(asked.kinds), "used": bool(difference.low > 0.0), "metric": metric, "folds": FOLDS,
        "difference": difference.mean, "low": difference.low, "high": difference.high, "queries": difference.queries,
    }  # fmt: skip
    return WithinQuery(asked.kinds if choice["used"] else (), None, choice)


def choice_words(choice: Mapping[str, Any]) -> str:
    """What was found, in a line."""
    kinds = ", ".join(choice["kinds"])
    verdict = "used" if choice["used"] else "left out: no gain beyond chance"
    return (
        f"within queries, {kinds}: {choice['metric']} {choice['difference']:+.4f} [{choice['low']:+.4f}, "
        f"{choice['high']:+.4f}] with them on {choice['queries']:,} queries of {choice['folds']} folds: {verdict}"
    )
