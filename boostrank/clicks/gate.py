"""Comparison of two rankers on clicks, and how far it can be trusted.

The DCG of a ranking whose documents have clicks over exposure for gains, those that were never shown none: an estimate
of the clicks that the ranking would get if every position were looked at by its discount. It is near the truth where
the documents of a query moved among the positions, and no better than chance where they did not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.clicks.estimation import NONSENSE, estimate
from boostrank.clicks.log import ClickLog, with_labels
from boostrank.clicks.propensities import AnyPropensities
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.data.dataset import RankingDataset
from boostrank.metric import Conventions, Metric

K = 10
FOLDS = 5
_MANY = 200
"""Queries by which to judge from which on a part of the data is enough."""


@dataclass(frozen=True)
class ClickGate:
    """What clicks say of two rankers, and how far.

    Args:
        k: cut-off.
        old, new: mean exposure-DCG of the queries.
        difference: new minus old, by query: the luck of the log is in its interval, that of trainings is not.
        known: share of the new ranker's top k that was ever shown; what was not has a gain of 0.
        moved: share of the clicked documents that were shown at several positions.
    """

    k: int
    old: float
    new: float
    difference: PairedDifference
    known: float
    moved: float

    def __str__(self) -> str:
        d = self.difference
        return (
            f"exposure-DCG@{self.k} of {d.queries:,} queries: {self.new:.4f} against {self.old:.4f}, difference "
            f"{d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}]; {self.known:.0%} of the new top {self.k} was ever shown, "
            f"{self.moved:.0%} of the clicked documents moved"
        )


def with_click_gains(data: RankingDataset, log: ClickLog, propensities: AnyPropensities) -> RankingDataset:
    """All documents with clicks over exposure in place of labels, 0 where they were never shown: to measure rankers.

    Raises:
        DataError: another number of documents; no clicked document moved, so that the comparison would be chance.
    """
    if data.n_documents != log.n_documents:
        raise DataError(f"the click log is of {log.n_documents:,} documents, the data have {data.n_documents:,}")
    log = log.up_to(propensities)
    if not moved_share(log) > 0.0:
        raise DataError(
            "no clicked document was shown at two positions: clicks on lists that never vary tell a ranker from "
            "another no better than chance. Log lists that vary a little, or compare on judgements"
        )
    gains = np.nan_to_num(log.gains(propensities, 0.0), nan=0.0)
    return with_labels(data, data.in_row_order(gains), {"propensities": propensities.to_dict(), "prior": 0.0})


def judging_propensities(
    log: ClickLog, queries: QueryIndex | None, learnt: AnyPropensities
) -> tuple[AnyPropensities, bool]:
    """Those by which held-out clicks compare rankers: their own where they tell them, for those that were learnt with
    favour whoever believed them.

    Args:
        log: of held-out clicks.
        queries: of its documents, as for `estimate_propensities`.
        learnt: the propensities that a ranker learnt with.

    Returns:
        The propensities, and whether they are the log's own.
    """
    try:
        own = estimate(log, queries)
    except DataError:
        return learnt, False
    assert own.errors is not None
    if not np.all(own.errors <= NONSENSE):  # NaN is not
        return learnt, False
    return own, True


@dataclass(frozen=True, eq=False)
class Judged:
    """Held-out documents, and two rankers' scores of them.

    Args:
        data: the documents.
        log: of clicks on them that neither ranker has learnt from.
        propensities: of the positions.
        old, new: float64[N], scores of the documents in the order in which they came in, as `predict` gives them.
    """

    data: RankingDataset
    log: ClickLog
    propensities: AnyPropensities
    old: npt.ArrayLike
    new: npt.ArrayLike


def gate(
    data: RankingDataset,
    log: ClickLog,
    propensities: AnyPropensities,
    old: npt.ArrayLike,
    new: npt.ArrayLike,
    k: int = K,
    seed: int = 0,
) -> ClickGate:
    """Compare two rankings of held-out documents by their clicks.

    Args:
        data, log, propensities, old, new: as of `Judged`.
        k: cut-off.
        seed: of the interval.

    Raises:
        DataError: as `with_click_gains`.
    """
    return gate_of_parts([Judged(data, log, propensities, old, new)], k, seed)


def gate_of_parts(parts: Iterable[Judged], k: int = K, seed: int = 0) -> ClickGate:
    """The same over the queries of several parts, each with rankers of its own: two ways to train, by folds.

    Raises:
        DataError: as `with_click_gains`.
    """
    metric, rules = Metric.parse(f"dcg@{k}"), Conventions(gain="linear")
    found: list[tuple[npt.NDArray[Any], ...]] = []
    for part in parts:
        data = part.data
        gains = with_click_gains(data, part.log, part.propensities).labels
        log = part.log.up_to(part.propensities)
        old, new = (data.in_row_order(np.asarray(scores, np.float64)) for scores in (part.old, part.new))
        values = (metric.evaluate(gains, scores, data.queries, rules).per_query for scores in (old, new))
        found.append((*values, data.queries.each_weight, _shown_at_the_top(data, log, new, k), _clicked_moved(log)))
    first, second, weights, known, moved = (np.concatenate(one) for one in zip(*found, strict=True))
    difference = paired_difference(second, first, weights=weights, seed=seed)
    counted = ~np.isnan(first)
    before, after = (float(np.average(one[counted], weights=weights[counted])) for one in (first, second))
    return ClickGate(k, before, after, difference, float(known.mean()), float(moved.mean()))


def held_out(count: int) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Numbers of queries to learn from and to judge by: every fifth, or each fifth in turn where that is few.

    Args:
        count: of queries.
    """
    turn = np.arange(count) % FOLDS
    turns = range(FOLDS) if count < FOLDS * _MANY else (FOLDS - 1,)
    return [(np.flatnonzero(turn != one), np.flatnonzero(turn == one)) for one in turns]


def known_share(data: RankingDataset, log: ClickLog, scores: npt.ArrayLike, k: int) -> float:
    """Share of the first k documents of each query by these scores, of rows, that was ever shown."""
    return float(np.mean(_shown_at_the_top(data, log, scores, k)))


def moved_share(log: ClickLog) -> float:
    """Share of the clicked documents that were shown at two positions or more."""
    moved = _clicked_moved(log)
    return float(np.mean(moved)) if moved.size else 0.0


def _shown_at_the_top(data: RankingDataset, log: ClickLog, scores: npt.ArrayLike, k: int) -> npt.NDArray[np.bool_]:
    """Whether each of the first k documents of each query was ever shown."""
    return np.asarray(data.in_row_order(log.shown)[data.queries.ranks(scores) <= k])


def _clicked_moved(log: ClickLog) -> npt.NDArray[np.bool_]:
    """Whether each clicked document was shown at two positions or more."""
    log = log.pooled()
    several = np.bincount(log.rows, minlength=log.n_documents) > 1
    return np.asarray(several[log.total_clicks() > 0])
