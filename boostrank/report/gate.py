"""Conditions of a release gate: `ndcg@10 < -0.002 at p<0.05 in any`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import ge, gt, le, lt

from boostrank.core.errors import ParameterError
from boostrank.metric import Metric

GRAMMAR = "METRIC < NUMBER [at p<ALPHA] [in any]"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TOKEN = re.compile(r"<=|>=|<|>|[^\s<>=]+|=")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Condition:
    """What must not be: a difference beyond a bound, optionally only where it is no accident.

    Args:
        metric: such as "ndcg@10"; its mean of new minus old is meant.
        operator: <, <=, > or >=.
        bound: what the difference is compared with.
        alpha: the condition holds only with a p-value below; None: whatever the p-value.
        anywhere: it is about every segment, with p-values by Holm's method, instead of all queries.
    """

    metric: str
    operator: str
    bound: float
    alpha: float | None = None
    anywhere: bool = False

    @classmethod
    def parse(cls, text: str) -> Condition:
        """From METRIC OP NUMBER [at p<ALPHA] [in any].

        Raises:
            ParameterError: it does not read like that; the message names the column.
        """
        words = _Words(text)
        if words.next in ("", *_OPERATORS):
            raise words.expected("a metric such as ndcg@10")
        try:
            metric = Metric.parse(words.next)
        except ParameterError as error:
            raise words.error(str(error), words.column) from None
        if len(metric.names) > 1:
            raise words.error("one cut-off at a time", words.column)
        words.take()
        sign = words.one_of(*_OPERATORS)
        bound = words.number("a number such as -0.002")
        alpha = None
        if words.next_is("at"):
            words.one_of("p")
            words.one_of("<")
            at = words.column
            alpha = words.number("a number such as 0.05")
            if not 0.0 < alpha < 1.0:
                raise words.error(f"a p-value lies between 0 and 1, {alpha:g} does not", at)
        anywhere = words.next_is("in")
        if anywhere:
            words.one_of("any")
        if words.next:
            possible = "" if anywhere else "'at p<0.05' or " if alpha is None else "'in any' or "
            raise words.expected(f"{possible}the end")
        return cls(metric.names[0], sign, bound, alpha, anywhere)

    def __str__(self) -> str:
        at = "" if self.alpha is None else f" at p<{self.alpha:g}"
        return f"{self.metric} {self.operator} {self.bound:g}{at}{' in any' if self.anywhere else ''}"

    def holds(self, difference: float, p: float) -> bool:
        """Whether it is so, of a mean difference and its p-value."""
        return _OPERATORS[self.operator](difference, self.bound) and (self.alpha is None or p < self.alpha)


class _Words:
    """The words of a condition one after the other, and where they stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_TOKEN.finditer(text))
        self._at = 0

    @property
    def column(self) -> int:
        """Of the next word, counted from 1; past the end where there is none."""
        return self._found[self._at].start() + 1 if self._at < len(self._found) else len(self._text.rstrip()) + 1

    def error(self, what: str, column: int) -> ParameterError:
        return ParameterError(f"condition {self._text!r}, column {column}: {what} ({GRAMMAR})")

    @property
    def next(self) -> str:
        """The next word; "" past the end."""
        return self._found[self._at].group() if self._at < len(self._found) else ""

    def take(self) -> str:
        self._at += 1
        return self._found[self._at - 1].group()

    def expected(self, what: str) -> ParameterError:
        return self.error(f"{what} expected, not {repr(self.next) if self.next else 'the end'}", self.column)

    def next_is(self, word: str) -> bool:
        return self.next.lower() == word and bool(self.take())

    def one_of(self, *words: str) -> str:
        for word in words:
            if self.next_is(word):
                return word
        raise self.expected(" or ".join(words))

    def number(self, what: str) -> float:
        if not _NUMBER.fullmatch(self.next):
            raise self.expected(what)
        return float(self.take())
