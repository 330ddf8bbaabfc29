"""Result of `compare` for one metric, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A metric of both rankers over the same queries, and new minus old.

    Args:
        metric: such as "ndcg@10".
        queries: how many count.
        old, new: means, weighted by the queries' weights.
        mean: of new - old, likewise.
        low, high: 95% interval of that mean, by bootstrap over queries; NaN in a segment of less than 20.
        p: two-sided p-value of the paired randomisation test (Fisher's; every sign flip where they are few).
        better, same, worse: queries that gained, stayed (by 1e-12 at most) or lost; not weighted.
        matters: two trainings may differ by luck by less than this; 0 where nobody measured it.
    """

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
    matters: float = 0.0

    @property
    def by_luck(self) -> bool:
        """Whether luck in training explains it."""
        return abs(self.mean) < self.matters


@dataclass(frozen=True)
class SegmentDifference:
    """A difference in one segment.

    Args:
        kind: what the segments are about ("list length").
        segment: which one.
        difference: over its queries.
        p_holm: its p-value, adjusted by Holm's method for all segments of all kinds of this metric in which a query
            changed; 1 in the others.
    """

    kind: str
    segment: str
    difference: Difference
    p_holm: float
