"""Baseline: the best ranking by a single feature, chosen on other queries than it ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from boostrank.core.conventions import Conventions
from boostrank.core.errors import DataError
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import DenseRows, dense_rows
from boostrank.metric import BoundMetrics
from boostrank.report.section import Context

# Values that one half of the queries may use to choose a feature: 50 MB in float32, a few seconds.
_VALUES_TO_CHOOSE_BY = 12_500_000
_ROWS_AT_A_TIME = 1 << 16
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class SingleFeature:
    """A ranking by one feature per half of the queries.

    Args:
        names: features that the two halves chose for each other.
        signs: 1.0 if higher is better, else -1.0.
        scores: float64[N].
        documents: number of documents in the larger choosing sample.
    """

    names: tuple[str, str]
    signs: tuple[float, float]
    scores: Float64Array
    documents: int

    @property
    def about(self) -> str:
        """Description of the ranking."""
        return (
            f"{self.short}; each half of the queries uses the feature that is best on the other half. The interval "
            "ignores the uncertainty of this choice"
        )

    @property
    def short(self) -> str:
        """Short description of the features."""
        better = ("higher" if sign > 0 else "lower" for sign in self.signs)
        first, second = (f"{name}, {word} is better" for name, word in zip(self.names, better, strict=True))
        return first if first == second else f"{first}, or {second}: the two halves choose different features"


def single_feature(c: Context) -> SingleFeature | None:
    """Rank each half of the queries by the feature and direction that are best on the other half.

    Missing values rank last in either direction. The choice uses a sample of large data; all queries are ranked.

    Returns:
        None if a half has no query that counts, or if there is no feature.
    """
    data = c.data
    count = len(data.queries)
    if count < 2 or not data.n_features:
        return None
    # Choose a feature on a sample of each half.
    order = np.random.default_rng(c.seed).permutation(count)
    halves = order[: count // 2], order[count // 2 :]
    most = max(1, _VALUES_TO_CHOOSE_BY // data.n_features)
    choices: list[tuple[int, float]] = []
    looked = 0
    for half in halves:
        # Sample a fixed number of queries: a fixed number of documents would favour short lists.
        held = int(data.queries.sizes[half].sum())
        some = np.sort(half[: max(1, half.size * most // held)] if held > most else half)
        chosen = _choose(data.take(some), c.metric, c.rules, c.threads)
        if chosen is None:
            return None
        choices.append(chosen)
        looked = max(looked, int(data.queries.sizes[some].sum()))
    # Score all documents by the two chosen columns.
    scores = np.empty(data.n_documents)
    in_second = np.zeros(count, dtype=bool)
    in_second[halves[1]] = True
    of_row = np.repeat(in_second, data.queries.sizes)
    rows = DenseRows(data, np.array([column for column, _ in choices], dtype=np.int64))
    for start in range(0, data.n_documents, _ROWS_AT_A_TIME):
        stop = min(data.n_documents, start + _ROWS_AT_A_TIME)
        values = rows[start:stop]
        first, second = (_as_scores(values[:, i], sign) for i, (_, sign) in enumerate(choices))
        # Rank each half by the other half's choice.
        scores[start:stop] = np.where(of_row[start:stop], first, second)
    (a, a_sign), (b, b_sign) = choices
    return SingleFeature((data.feature_names[a], data.feature_names[b]), (a_sign, b_sign), scores, looked)


def _choose(
    data: RankingDataset, metric: str, conventions: Conventions, threads: int | None
) -> tuple[int, float] | None:
    """Return the best column and sign, the first of equals; None if no query counts."""
    try:
        bound = BoundMetrics([metric], data.labels, data.queries, replace(conventions, ties="expected"), threads)
    except DataError:
        return None
    best, chosen = -np.inf, None
    features = data.features.tocsc() if hasattr(data.features, "tocsc") else data.features
    for column in range(data.n_features):
        values = dense_rows(features[:, [column]], 0, data.n_documents)[:, 0]
        for sign in (1.0, -1.0):
            value = bound.values(_as_scores(values, sign))[metric]
            if value > best:
                best, chosen = value, (column, sign)
    return chosen


def _as_scores(values: npt.NDArray[np.float32], sign: float) -> Float64Array:
    """Return finite scores; missing values come last."""
    return np.nan_to_num(sign * values.astype(np.float64), nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
