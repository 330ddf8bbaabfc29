"""The difference between two rankers, and the first line of a report: which ranker is better, by
how much, how sure, and at what cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from boostrank.core.text import count_of

_ALPHA = 0.05
_VERDICTS = {
    "better": "ranks better than",
    "worse": "ranks worse than",
    "": "is not significantly different from",
}


@dataclass(frozen=True)
class Difference:
    """The difference in a metric between two rankers, new minus old, over all queries or in one
    segment.

    Args:
        kind: segmentation criterion, such as "list length", or "all" for all queries.
        old, new: mean metric of each ranker, weighted by the query weights.
        mean: weighted mean of new minus old.
        low, high: 95% bootstrap interval of `mean` over queries, or NaN in a segment with fewer
            than 20 queries. With several models of a ranker, also over the luck of training, see
            `core.resampling.crossed_difference`.
        p: two-sided p-value from Fisher's paired randomisation test, which is exact for few
            queries. With several models of a ranker, Student's.
        better, same, worse: unweighted numbers of queries. Differences up to 1e-12 are treated as
            ties.
        matters: difference that two trainings can show by chance, or NaN if it was not measured.
        luck: standard error of `mean` by the luck of training, or NaN with one model of each
            ranker.
        higher_is_better: whether larger values of the metric are better.
        p_holm: p-value adjusted by Holm's method over all segments in which this metric changed for
            some query; 1 in other segments, and NaN over all queries.
    """

    kind: str
    segment: str
    metric: str
    queries: int
    old: float
    new: float
    mean: float
    low: float
    high: float
    p: float
    better: int
    same: int
    worse: int
    matters: float = field(default=math.nan, compare=False)  # NaN is not equal to itself
    luck: float = field(default=math.nan, compare=False)
    higher_is_better: bool = True
    p_holm: float = field(default=math.nan, compare=False)

    @property
    def by_luck(self) -> bool:
        """Whether training noise explains the difference."""
        return abs(self.mean) < self.matters

    @property
    def p_adjusted(self) -> float:
        """`p_holm`, or `p` over all queries."""
        return float(np.fmax(self.p, self.p_holm))

    @property
    def look(self) -> str:
        """The word "better" or "worse" if the difference exceeds chance and training noise,
        otherwise "".
        """
        if self.p_adjusted >= _ALPHA or not self.mean or self.by_luck:
            return ""
        return "better" if (self.mean > 0.0) == self.higher_is_better else "worse"


class Opening(NamedTuple):
    """The first line of a report.

    Args:
        new, old: names of the rankers.
        verdict: words between the names.
        numbers: one to three sentences.
    """

    new: str
    verdict: str
    old: str
    numbers: str

    def __str__(self) -> str:
        return f"{self.new} {self.verdict} {self.old}: {self.numbers}"


def open_report(
    new: str, old: str, difference: Difference, trees: Sequence[int | None], judges: str = ""
) -> Opening:
    """Return the first line. There is no verdict where the interval contains 0.

    Args:
        trees: numbers of trees of the new and the old ranker, None where unknown.
        judges: whose grades the difference has, where those of the values are others.
    """
    mean, low, high = difference.mean, difference.low, difference.high
    excludes_zero = low > 0.0 or high < 0.0
    verdict = difference.look if excludes_zero else ""
    # Say by how much, and how sure.
    values = f" is {difference.new:.4f} instead of {difference.old:.4f},"
    if judges:
        values = f" by {judges} differs by"
    sentences = f"{difference.metric}{values} {mean:+.4f}"
    sentences += f" ({mean / abs(difference.old):+.1%})" if difference.old else ""
    if low < high:
        sentences += f", with 95% confidence {low:+.4f} to {high:+.4f}"
    sentences += f", on {count_of(difference.queries, 'query', 'queries')}"
    sentences += f" ({difference.better:,} better, {difference.worse:,} worse)."
    # Say what weakens a verdict.
    if not verdict and not low <= 0.0 <= high and difference.p >= _ALPHA:
        sentences += f" Chance gives as large a difference in {difference.p:.0%} of comparisons."
    elif difference.by_luck:
        sentences += f" Two trainings differ by up to {difference.matters:.4f} by chance."
    if trees[0] is not None:
        sentences += f" It has {count_of(trees[0], 'tree')}"
        if trees[1] not in (None, trees[0]):
            sentences += f" instead of {trees[1]:,}"
        sentences += "."
    return Opening(new, _VERDICTS[verdict], old, numbers=sentences)
