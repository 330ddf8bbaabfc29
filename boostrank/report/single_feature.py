"""Single feature: the best ranking by one alone, chosen without looking at the queries that it ranks."""

from __future__ import annotations

from collections.abc import Callable
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

# Numbers that one half of the queries may look at to choose a feature: 50 MB in float32, some seconds.
_VALUES_TO_CHOOSE_BY = 12_500_000
_ROWS_AT_A_TIME = 1 << 16
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class SingleFeature:
    """A ranking by one feature, chosen on other queries than it ranks.

    Args:
        names: the features that the two halves chose for each other.
        signs: of each, 1.0: higher is better, or -1.0.
        scores: float64[N].
        documents: that one half looked at to choose.
    """

    names: tuple[str, str]
    signs: tuple[float, float]
    scores: Float64Array
    documents: int

    @property
    def about(self) -> str:
        """What ranks, in words."""
        return (
            f"{self.short}; chosen by one half of the queries for the other, and the other way round. Its interval "
            "takes the choice as given"
        )

    @property
    def short(self) -> str:
        """Which features, in words."""
        better = ("higher" if sign > 0 else "lower" for sign in self.signs)
        first, second = (f"{name}, {word} is better" for name, word in zip(self.names, better, strict=True))
        return first if first == second else f"{first}, or {second}: the two halves choose different features"


def single_feature(c: Context) -> SingleFeature | None:
    """Rank each half of the queries by the feature and direction that are best on the other half.

    Missing values come last in either direction. Large data are sampled by whole queries to choose; every query is
    ranked.

    Returns:
        None if a half has no query that counts, or if there is no feature.
    """
    data = c.data
    count = len(data.queries)
    if count < 2 or not data.n_features:
        return None
    order = np.random.default_rng(c.seed).permutation(count)
    halves = order[: count // 2], order[count // 2 :]
    most = max(1, _VALUES_TO_CHOOSE_BY // data.n_features)
    choices: list[tuple[int, float]] = []
    looked, d = 0, data.n_features
    for i, half in enumerate(halves):

        def seen(column: int, before: int = i * d) -> None:
            c.say("single features", data.n_documents * (before + column) // (2 * d), data.n_documents)

        # A fixed number of queries: to stop at so many documents would favour short lists.
        held = int(data.queries.sizes[half].sum())
        some = np.sort(half[: max(1, half.size * most // held)] if held > most else half)
        chosen = _choose(data.take(some), c.metric, c.rules, c.threads, seen)
        if chosen is None:
            return None
        choices.append(chosen)
        looked = max(looked, int(data.queries.sizes[some].sum()))
    scores = np.empty(data.n_documents)
    in_second = np.zeros(count, dtype=bool)
    in_second[halves[1]] = True
    of_row = np.repeat(in_second, data.queries.sizes)
    rows = DenseRows(data, np.array([column for column, _ in choices], dtype=np.int64))
    for start in range(0, data.n_documents, _ROWS_AT_A_TIME):
        stop = min(data.n_documents, start + _ROWS_AT_A_TIME)
        values = rows[start:stop]
        first, second = (_as_scores(values[:, i], sign) for i, (_, sign) in enumerate(choices))
        # Each half is ranked by what the other one chose.
        scores[start:stop] = np.where(of_row[start:stop], first, second)
    (a, a_sign), (b, b_sign) = choices
    return SingleFeature((data.feature_names[a], data.feature_names[b]), (a_sign, b_sign), scores, looked)


def _choose(
    data: RankingDataset, metric: str, conventions: Conventions, threads: int | None, seen: Callable[[int], None]
) -> tuple[int, float] | None:
    """Column and sign with the best value; the first one where several are."""
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
        seen(column + 1)
    return chosen


def _as_scores(values: npt.NDArray[np.float32], sign: float) -> Float64Array:
    """Finite, and what is missing below everything."""
    return np.nan_to_num(sign * values.astype(np.float64), nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
