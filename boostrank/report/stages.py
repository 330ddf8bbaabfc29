"""Staged metrics: the first trees of a ranker by themselves, in one walk over the trees, measured on the way.

Trees only ever add to a score, so the scores of the first r trees are those of the first r - 1 and one tree more. A
block of documents walks tree after tree, and wherever the curve has a point its queries are measured.
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
from boostrank.kernels.trees.walker import Forest, Walker
from boostrank.metric import BoundMetrics
from boostrank.model.ranking_model import RankingModel
from boostrank.report.means import means_over_queries
from boostrank.report.result import Result
from boostrank.report.scoring import metrics_of_block, over_blocks, start_alone
from boostrank.report.section import Context

POINTS = 40
"""Numbers of trees that are looked at, beside none."""

# Where the engine must predict every prefix from its first tree on: fewer of them.
_PREDICTED_POINTS = 10
# Trees and documents in all: about half a minute on two cores, and as much where the engine predicts.
_WALKS = 450_000_000
_PREDICTIONS = 200_000_000


@dataclass(frozen=True, eq=False, repr=False)
class StagedMetric(Result):
    """A metric over the first rounds of a model, on data.

    Args:
        metric: such as "ndcg@10".
        rounds: int64[R], ascending, from 0 to all that prediction uses.
        value, low, high: float64[R], mean over queries and its 95% interval.
        lost, lost_low, lost_high: float64[R], the mean of whole model minus prefix, query by query, and its interval.
            Of each point by itself: neighbours err together.
        queries: that count.
        documents: walked, of
        all_documents: in the data.
        by: "walk" when the trees were walked here, or why the engine predicted instead.
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
    by: str

    @property
    def total(self) -> int:
        """Rounds of the whole model."""
        return int(self.rounds[-1])

    def enough(self, negligible: float, *, sure: bool = True) -> int:
        """Place of the fewest rounds from which on no point loses more than `negligible`.

        Args:
            negligible: a loss that does not matter.
            sure: by the end of its interval, not by its mean.
        """
        matters = np.flatnonzero(~((self.lost_high if sure else self.lost)[:-1] <= negligible))
        return int(matters[-1]) + 1 if matters.size else 0

    TABLES: ClassVar = {
        "prefixes": lambda self: {
            name: getattr(self, name) for name in ("rounds", "value", "low", "high", "lost", "lost_low", "lost_high")
        }
    }


@dataclass(frozen=True, eq=False)
class StagedScores:
    """Scores and values at each point of the curve.

    Args:
        rounds: int64[R].
        per_query: float64[Q, R], NaN where a query does not count.
        kept: float64[R, n], scores of the rows that were to be kept.
        scores: float64[N], of all rounds; XGBoost's lack its base_score and its rounding to float32.
        by: see `StagedMetric`.
    """

    rounds: Int64Array
    per_query: Float64Array
    kept: Float64Array
    scores: Float64Array
    by: str


def points(rounds: int, count: int = POINTS) -> Int64Array:
    """Numbers of rounds to look at: 0, all, and what lies between, closer where curves bend."""
    return np.unique(np.rint(rounds * np.linspace(0.0, 1.0, count + 1) ** 1.5)).astype(np.int64)


def affordable(model: RankingModel, trees: Trees, walked: bool) -> int:
    """How many documents take about half a minute."""
    if walked:
        return max(1, _WALKS // max(1, trees.count))
    several = points(model.best_iteration, _PREDICTED_POINTS)
    share = trees.count / max(1, model.best_iteration)
    return max(1, int(_PREDICTIONS / max(1.0, share * float(several.sum()))))


def staged_scores(c: Context, trees: Trees, data: RankingDataset, by: str, keep: Int64Array) -> StagedScores:
    """Measure the first rounds of a model, many numbers of them in one pass.

    Args:
        c: model and metric. Ordering ties by name at every point is too slow: their orders are averaged.
        trees: of the model.
        data: documents, in the model's order of features.
        by: "walk", or why these trees are not walked here.
        keep: queries whose scores are kept, ascending.

    Raises:
        DataError: no query counts.
    """
    model, metric, conventions, threads = c.model, c.metric, c.rules.without_names, c.workers
    BoundMetrics([metric], data.labels, data.queries, conventions, threads)  # refuses what cannot be measured
    if by != "walk":
        return _predicted(c, data, by, keep)
    assert trees.forest is not None
    rounds = points(model.best_iteration)
    # Several trees a round (XGBoost's num_parallel_tree) belong together.
    cuts = (rounds * trees.count) // max(1, model.best_iteration)
    rows, queries = DenseRows(data, trees.used, model.absent_is_missing), data.queries
    start, sections = start_alone(trees.forest), [some_trees(trees.forest, a, b) for a, b in pairwise(cuts.tolist())]
    reach = None if trees.forest.start is None else rows.reach(threads)
    # A section adds to what the ones before it gave.
    walkers = [Walker(part, trees.used, reach) for part in (start, *sections)]
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
    return StagedScores(rounds, per_query, kept, whole, by)


def _predicted(c: Context, data: RankingDataset, by: str, keep: Int64Array) -> StagedScores:
    rounds = points(c.model.best_iteration, _PREDICTED_POINTS)
    bound = BoundMetrics([c.metric], data.labels, data.queries, c.rules.without_names, c.workers)
    _, chosen = data.queries.take(keep)
    per_query, kept = np.empty((len(data.queries), rounds.size)), np.zeros((rounds.size, chosen.size))
    scores = np.zeros(data.n_documents)
    done, total = 0, int(rounds.sum())
    for i, r in enumerate(rounds.tolist()):
        if r:
            scores = data.in_row_order(c.model.predict(data, num_iteration=r, threads=c.workers))
        per_query[:, i], kept[i] = bound.per_query(scores)[c.metric], scores[chosen]
        done += r
        c.say("first trees", data.n_documents * done // max(1, total), data.n_documents)
    return StagedScores(rounds, per_query, kept, scores, by)


def some_trees(forest: Forest, first: int, last: int) -> Forest:
    """The trees from `first` up to `last`, without what they begin with; nodes and leaves keep their numbers."""
    if last <= first:
        return replace(start_alone(forest), start=None)
    tree = np.clip(forest.tree - first, 0, last - first - 1)
    return replace(forest, roots=forest.roots[first:last], tree=tree, start=None)


def staged_metric(
    walk: StagedScores, metric: str, data: RankingDataset, all_documents: int, *, seed: int
) -> StagedMetric:
    """The curve with its intervals.

    Args:
        walk: of `staged_scores`.
        metric: as there.
        data: as there.
        all_documents: of which these are a sample.
        seed: of the bootstrap.
    """
    lost = walk.per_query[:, -1:] - walk.per_query
    weights = data.queries.each_weight
    found = means_over_queries(walk.per_query, weights, seed=seed)
    differences = means_over_queries(lost, weights, seed=seed, resamples=PAIRED_RESAMPLES)
    return StagedMetric(
        metric=metric,
        rounds=walk.rounds,
        value=found.mean,
        low=found.low,
        high=found.high,
        lost=differences.mean,
        lost_low=differences.low,
        lost_high=differences.high,
        queries=int(found.queries[0]),
        documents=data.n_documents,
        all_documents=all_documents,
        by=walk.by,
    )
