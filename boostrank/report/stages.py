"""Staged metrics: the metric of a model's first trees, in one pass over the trees.

The scores of the first r trees are those of the first r - 1 plus one more tree. Blocks of documents walk tree after
tree, and are measured at each point of the curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from boostrank.core.resampling import PAIRED_RESAMPLES
from boostrank.core.types import Float64Array, Int64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows
from boostrank.engines.trees import Trees
from boostrank.kernels.forest import Forest, Walker
from boostrank.metric import BoundMetrics
from boostrank.report.means import means_over_queries
from boostrank.report.result import Result
from boostrank.report.scoring import metrics_of_block, over_blocks, start_alone
from boostrank.report.section import Context

POINTS = 40
"""Number of points of the curve, not counting 0 trees."""

# Limit on trees times documents: about half a minute on two cores.
_WALKS = 450_000_000


@dataclass(frozen=True, eq=False, repr=False)
class StagedMetric(Result):
    """A metric over the first rounds of a model.

    Args:
        rounds: int64[R], ascending, from 0 to the rounds of prediction.
        value, low, high: float64[R], mean over queries and its 95% interval.
        lost, lost_low, lost_high: float64[R], mean of whole model minus prefix, query by query, and its pointwise
            interval. Errors of neighbouring points are correlated.
    """

    metric: str
    rounds: Int64Array
    value: Float64Array
    low: Float64Array
    high: Float64Array
    lost: Float64Array
    lost_low: Float64Array
    lost_high: Float64Array
    queries: int
    documents: int
    all_documents: int

    @property
    def total(self) -> int:
        """Rounds of the whole model."""
        return int(self.rounds[-1])

    def enough(self, negligible: float, *, sure: bool = True) -> int:
        """Return the first point from which no later point loses more than `negligible`, on average or for sure."""
        matters = np.flatnonzero(~((self.lost_high if sure else self.lost)[:-1] <= negligible))
        return int(matters[-1]) + 1 if matters.size else 0

    TABLES: ClassVar = {
        "prefixes": lambda self: {
            name: getattr(self, name) for name in ("rounds", "value", "low", "high", "lost", "lost_low", "lost_high")
        }
    }


def points(rounds: int, count: int = POINTS) -> Int64Array:
    """Return the rounds of the curve: 0, all, and points between, denser at the beginning."""
    return np.unique(np.rint(rounds * np.linspace(0.0, 1.0, count + 1) ** 1.5)).astype(np.int64)


def affordable(trees: Trees) -> int:
    """Return the number of documents that take about half a minute."""
    return max(1, _WALKS // max(1, trees.count))


def staged(
    c: Context, trees: Trees, data: RankingDataset, keep: Int64Array
) -> tuple[StagedMetric, Float64Array, Float64Array]:
    """Measure the prefixes of a model in one pass.

    Ties are averaged over orders, since ordering them by name at every point is slow.

    Args:
        keep: queries whose scores to keep, ascending.

    Returns:
        The curve; the scores of the kept rows at each point, float64[R, n]; and the final scores, float64[N], for
        XGBoost without base_score and rounding to float32.
    """
    model, metric, conventions, threads = c.model, c.metric, c.rules.without_names, c.workers
    BoundMetrics([metric], data.labels, data.queries, conventions, threads)  # raises if the metric is undefined
    assert trees.forest is not None
    rounds = points(model.best_iteration)
    # Keep the trees of a round together (XGBoost's num_parallel_tree).
    cuts = (rounds * trees.count) // max(1, model.best_iteration)
    rows, queries = DenseRows(data, trees.used, model.absent_is_missing), data.queries
    start, sections = start_alone(trees.forest), [some_trees(trees.forest, a, b) for a, b in pairwise(cuts.tolist())]
    # Each walker adds the trees between two points to the scores.
    walkers = [Walker(part, trees.used) for part in (start, *sections)]
    # Outputs, and the positions of the kept rows in them.
    per_query = np.empty((len(queries), rounds.size))
    kept_queries = np.zeros(len(queries), dtype=bool)
    kept_queries[keep] = True
    starts = np.concatenate([[0], np.cumsum(np.where(kept_queries, queries.sizes, 0))])
    kept, whole = np.zeros((rounds.size, int(starts[-1]))), np.empty(queries.n_documents)

    def block(some: slice, documents: slice) -> None:
        bound = metrics_of_block(data, some, documents, metric, conventions)
        chosen = np.repeat(kept_queries[some], queries.sizes[some])
        place = slice(int(starts[some.start]), int(starts[some.stop]))
        here, scores = rows[documents], np.zeros(chosen.size)
        for i, walker in enumerate(walkers):
            scores += walker.scores(here)
            per_query[some, i] = bound.per_query(scores)[metric]
            kept[i, place] = scores[chosen]
        whole[documents] = scores

    over_blocks(block, rows, threads, partial(c.say, "first trees"))
    lost, weights = per_query[:, -1:] - per_query, queries.each_weight
    found = means_over_queries(per_query, weights, seed=c.seed)
    differences = means_over_queries(lost, weights, seed=c.seed, resamples=PAIRED_RESAMPLES)
    of_points = (found.mean, found.low, found.high, differences.mean, differences.low, differences.high)
    counts = int(found.queries[0]), data.n_documents, c.data.n_documents
    return StagedMetric(metric, rounds, *of_points, *counts), kept, whole


def some_trees(forest: Forest, first: int, last: int) -> Forest:
    """Return trees `first` to `last` (exclusive) without the linear start; node and leaf numbers stay."""
    if last <= first:
        return replace(start_alone(forest), start=None)
    tree = np.clip(forest.tree - first, 0, last - first - 1)
    return replace(forest, roots=forest.roots[first:last], tree=tree, start=None)
