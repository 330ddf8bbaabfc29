"""Comparison of two rankers by clicks, and the reliability of this comparison.

The metric is DCG with clicks over exposure as gains, and 0 for documents that were never shown. It
estimates the clicks on a ranking if the probability that a position is examined equals its
discount. The estimate is good if documents were shown at several positions, and no better than
chance otherwise.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from boostrank.clicks.estimation import NONSENSE, estimate_propensities
from boostrank.clicks.log import ClickLog, Propensities
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex
from boostrank.core.resampling import PairedDifference, paired_difference
from boostrank.core.types import BoolArray, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.metrics import Conventions, Metric

FOLDS = 5
_MANY = 200
"""Number of held-out queries from which one fold is used instead of all folds."""


@dataclass(frozen=True)
class ClickGate:
    """The result of a comparison by clicks.

    Args:
        k: cut-off.
        old, new: mean exposure-DCG.
        difference: new minus old, by query. The interval includes the noise in the log, but not
            that in training.
        known: share of documents in the new ranker's top k that were ever shown. Other documents
            have a gain of 0.
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
            f"exposure-DCG@{self.k} of {d.queries:,} queries: {self.new:.4f} against"
            f" {self.old:.4f}, difference {d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}];"
            f" {self.known:.0%} of the new top {self.k} was ever shown, {self.moved:.0%} of the"
            " clicked documents moved"
        )


def with_click_gains(
    data: RankingDataset, log: ClickLog, propensities: Propensities
) -> RankingDataset:
    """Label all documents with clicks over exposure, or 0 if they were never shown, to evaluate
    rankers.
    """
    log = log.up_to(propensities)
    labelled = log.label(data, propensities, 0.0)
    if not moved_share(log) > 0.0:
        raise DataError(
            "no clicked document was shown at two positions: a comparison by clicks on lists that"
            " never vary is no better than chance. Log lists that vary a little, or compare on"
            " judgements"
        )
    return labelled


def judging_propensities(
    log: ClickLog, queries: QueryIndex | None, learnt: Propensities
) -> tuple[Propensities, bool]:
    """Return the propensities for comparing rankers on held-out clicks, and whether these come from
    the held-out log.

    They are preferred, because propensities used in training favour the ranker trained with them.
    """
    with suppress(DataError):
        estimated = estimate_propensities(log, queries)
        if np.all(np.asarray(estimated.errors) <= NONSENSE):  # False for NaN
            return estimated, True
    return learnt, False


@dataclass(frozen=True, eq=False)
class Judged:
    """Held-out documents with the scores of two rankers.

    Args:
        log: clicks on the documents. Neither ranker was trained on these clicks.
        old, new: float64[N], scores in input order, as returned by `predict`.
    """

    data: RankingDataset
    log: ClickLog
    propensities: Propensities
    old: ArrayLike
    new: ArrayLike


def gate(*parts: Judged, k: int = 10, seed: int = 0) -> ClickGate:
    """Compare two rankings of held-out documents by their clicks.

    Args:
        parts: documents scored by one or more pairs of rankers, such as the folds of two training
            methods.
        k: cut-off.

    Raises:
        DataError: no clicked document was shown at two positions.
    """
    metric = Metric.parse(f"dcg@{k}")
    rules = Conventions(gain="linear")
    columns = []
    for part in parts:
        data = part.data
        log = part.log.up_to(part.propensities)
        gains = with_click_gains(data, log, part.propensities).labels
        rankings = [
            data.in_row_order(np.asarray(scores, np.float64)) for scores in (part.old, part.new)
        ]
        values = (
            metric.evaluate(gains, scores, data.queries, rules).per_query for scores in rankings
        )
        ever_shown = shown_at_the_top(data, log, rankings[1], k)
        columns.append((*values, data.queries.each_weight, ever_shown, _clicked_moved(log)))
    old, new, weights, ever_shown, moved = map(np.concatenate, zip(*columns, strict=True))
    difference = paired_difference(new, old, weights=weights, seed=seed)
    has_value = ~np.isnan(old)
    means = np.average([old[has_value], new[has_value]], axis=1, weights=weights[has_value])
    old_mean, new_mean = means.tolist()
    return ClickGate(
        k, old_mean, new_mean, difference, float(ever_shown.mean()), float(moved.mean())
    )


def held_out(count: int) -> list[tuple[Int64Array, Int64Array]]:
    """Return pairs of training and held-out queries. There is one pair, or `FOLDS` pairs if there
    are few queries.
    """
    fold = np.arange(count) % FOLDS
    folds = range(FOLDS) if count < FOLDS * _MANY else (FOLDS - 1,)
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in folds]


def moved_share(log: ClickLog) -> float:
    """Return the share of clicked documents that were shown at two or more positions."""
    return float(np.mean(_clicked_moved(log))) if log.clicks.any() else 0.0


def shown_at_the_top(data: RankingDataset, log: ClickLog, scores: ArrayLike, k: int) -> BoolArray:
    """Mark which documents in the top k of each query were ever shown, bool[m]."""
    return data.in_row_order(log.shown)[data.queries.ranks(scores) <= k]


def _clicked_moved(log: ClickLog) -> BoolArray:
    several = np.bincount(log.rows, minlength=log.n_documents) > 1
    return several[log.total_clicks() > 0]
