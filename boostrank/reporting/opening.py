"""The first line of a report: which ranker is better, by how much, how sure, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boostrank.reporting.comparison import Difference

_VERDICTS = {
    "better": "ranks better than",
    "worse": "ranks worse than",
    "": "cannot be told apart from",
}
# A test at the level .05 has a power of .8 if the interval is 1.4 times as wide as the difference:
# 2 * 1.96 standard errors of it, over 1.96 + 0.84.
_DETECTED = 1.4
_MOST_QUERIES = 10_000_000


@dataclass(frozen=True)
class Opening:
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
        trees: numbers of trees of the new and perhaps of the old ranker, None where unknown.
        judges: whose grades the difference has, where those of the values are others.
    """
    d = difference
    verdict = d.look if d.low > 0.0 or d.high < 0.0 else ""
    # Say by how much, and how sure.
    values = f" by {judges} differs by" if judges else f" is {d.new:.4f} instead of {d.old:.4f},"
    numbers = f"{d.metric}{values} {d.mean:+.4f}"
    numbers += f" ({d.mean / abs(d.old):+.1%})" if d.old else ""
    numbers += "" if d.low != d.low else f", with 95% confidence {d.low:+.4f} to {d.high:+.4f}"
    numbers += f", on {d.queries:,} queries ({d.better:,} better, {d.worse:,} worse)."
    # Say what a verdict needs.
    needed = d.queries * ((d.high - d.low) / (_DETECTED * d.mean)) ** 2 if d.mean else 0.0
    if d.by_luck:
        numbers += f" Two trainings differ by up to {d.matters:.4f} by chance."
    elif not verdict and d.luck != d.luck and d.queries < needed < _MOST_QUERIES:
        numbers += (
            f" If that is the true difference, about {float(f'{needed:.1e}'):,.0f} queries show it"
            " in 8 of 10 comparisons."
        )
    if None not in trees:
        counts = [f"{count:,}" for count in dict.fromkeys(trees)]
        numbers += f" It has {' trees instead of '.join(counts)}"
        numbers += "." if len(counts) == 2 else " trees."
    return Opening(new, _VERDICTS[verdict], old, numbers)
