"""Start of a model: the linear ranker that its trees begin with, as a ranking by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from boostrank.core.machine import resolve_threads
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.dense import DenseRows
from boostrank.kernels.trees.walker import Forest, Walker
from boostrank.model.ranking_model import RankingModel
from boostrank.report.scoring import over_blocks

START = "the linear start"


def start_alone(forest: Forest) -> Forest:
    """What the trees begin with, and none of them."""
    return replace(forest, roots=forest.roots[:0], tree=np.zeros_like(forest.tree))


def start_scores(model: RankingModel, data: RankingDataset, threads: int | None = None) -> Float64Array | None:
    """float64[N], what the start says of each document, in the order of the data set's rows.

    Args:
        model: any.
        data: with the model's features.
        threads: None means every available core.

    Returns:
        None where no tree begins with one, or where its file cannot be walked.
    """
    workers = resolve_threads(threads)
    model, data = model.over_columns(data)
    trees = model.trees()
    if trees.forest is None or trees.forest.start is None or not trees.count:
        return None
    rows = DenseRows(data, trees.used, model.absent_is_missing)
    try:
        walker = Walker(start_alone(trees.forest), trees.used, rows.reach(workers))
    except ValueError:  # infinite values, of which a line makes infinite scores
        return None
    return np.concatenate(over_blocks(lambda _, documents: walker.scores(rows[documents]), rows, workers))
