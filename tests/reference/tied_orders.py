"""Every order that tied scores allow, one by one: the slow twin of the closed forms for ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Value = Callable[[list[float]], float]


def orders(scores: list[float], labels: list[float]) -> Iterator[list[float]]:
    """Labels in ranked order, for every distinguishable order of the tied documents; all are
    equally likely.
    """
    runs = [
        [y for s, y in zip(scores, labels, strict=True) if s == score]
        for score in sorted(set(scores), reverse=True)
    ]

    def from_run(i: int) -> Iterator[list[float]]:
        if i == len(runs):
            yield []
            return
        for head in arrangements(runs[i]):
            for tail in from_run(i + 1):
                yield head + tail

    yield from from_run(0)


def arrangements(labels: list[float]) -> Iterator[list[float]]:
    """Distinct permutations of a multiset."""
    if not labels:
        yield []
        return
    for first in sorted(set(labels)):
        others = list(labels)
        others.remove(first)
        for tail in arrangements(others):
            yield [first, *tail]


def in_input_order(scores: list[float], labels: list[float]) -> list[float]:
    """Labels in ranked order, ties as they stand in the file."""
    return [labels[i] for i in sorted(range(len(scores)), key=lambda i: -scores[i])]


def over_ties(ties: str, value: Value, scores: list[float], labels: list[float]) -> float:
    """The value under a rule for ties: the mean, the least, the largest over all orders, or that of
    the file.
    """
    if ties == "input":
        return value(in_input_order(scores, labels))
    values = [value(ranked) for ranked in orders(scores, labels)]
    if ties == "expected":
        return sum(values) / len(values)
    return min(values) if ties == "pessimistic" else max(values)
