"""Evaluation of one ranker on a data set."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from boostrank.data.dataset import RankingDataset, takes_dataset
from boostrank.metrics import MetricResult
from boostrank.metrics.measure import Metrics
from boostrank.model.ranking_model import RankingModel
from boostrank.reporting.rank_changes import Ranker
from boostrank.reporting.section import Context


@takes_dataset
def evaluate(
    ranker: RankingModel | Ranker | npt.ArrayLike,
    data: RankingDataset,
    metrics: Metrics = "ndcg@1,3,5,10",
    **options: Any,
) -> dict[str, MetricResult]:
    """Evaluate a ranker, with 95% intervals over the queries, as `boostrank evaluate` does.

    Args:
        ranker: a model, booster or fitted ranker of LightGBM or XGBoost, its file, or scores,
            float[N] in input order.
        data: N labelled documents, with the model's features.
        metrics: one or more metrics, or functions (see `Metric`).
        options: conventions, seed, threads.

    Returns:
        Dictionary from name ("ndcg@10") to result, in the requested order.

    Raises:
        ParameterError: an unknown metric or convention.
        DataError: scores that do not fit the data, labels that the gain does not support, or only
        excluded queries.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> results = boostrank.evaluate([0.1, 0.4, 0.3, 0.0, 0.2], data, ["ndcg@1,3", "mrr"])
        >>> {name: round(result.mean, 3) for name, result in results.items()}
        {'ndcg@1': 0.5, 'ndcg@3': 0.793, 'mrr': 0.75}
    """
    context = Context(None, data, metrics, **options)
    scores = Ranker.of(ranker, "ranker", data, context.threads).scores
    return context.bound(context.metrics).results(scores, seed=context.seed)
