"""Conditions of a release gate: `ndcg@10 < -0.002 at p<0.05 in any`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.metric import Metric

GRAMMAR = "METRIC < NUMBER [at p<ALPHA] [in any]"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TOKEN = re.compile(r"<=|>=|<|>|[^\s<>=]+|=")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Condition:
    """A failing condition: a metric difference beyond a bound, optionally only if significant.

    Args:
        metric: such as "ndcg@10"; the condition is on the mean of new minus old.
        operator: <, <=, > or >=.
        bound: threshold of the difference.
        alpha: upper bound of the p-value; None ignores the p-value.
        anywhere: test every segment, with Holm-adjusted p-values, instead of all queries together.
    """

    metric: str
    operator: str
    bound: float
    alpha: float | None = None
    anywhere: bool = False

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse METRIC OP NUMBER [at p<ALPHA] [in any].

        Raises:
            ParameterError: malformed condition; the message names the column.
        """
        words = [(match.group(), match.start() + 1) for match in _TOKEN.finditer(text)]
        words.append(("", len(text.rstrip()) + 1))

        def error(what: str, column: int) -> ParameterError:
            return ParameterError(f"condition {text!r}, column {column}: {what} ({GRAMMAR})")

        def take(what: str, fits: Callable[[str], Any]) -> str:
            word, column = words[0]
            if not fits(word):
                raise error(f"{what} expected, not {repr(word) if word else 'the end'}", column)
            return words.pop(0)[0]

        def one_of(*known: str) -> str:
            return take(" or ".join(known), lambda word: word.lower() in known)

        column = words[0][1]
        name = take("a metric such as ndcg@10", lambda word: word and word not in _OPERATORS)
        try:
            metric = Metric.parse(name)
        except ParameterError as wrong:
            raise error(str(wrong), column) from None
        if len(metric.names) > 1:
            raise error("one cut-off at a time", column)
        sign, alpha = one_of(*_OPERATORS), None
        bound = float(take("a number such as -0.002", _NUMBER.fullmatch))
        if words[0][0].lower() == "at":
            words.pop(0)
            one_of("p")
            one_of("<")
            column = words[0][1]
            alpha = float(take("a number such as 0.05", _NUMBER.fullmatch))
            if not 0.0 < alpha < 1.0:
                raise error(f"a p-value must be between 0 and 1, not {alpha:g}", column)
        anywhere = words[0][0].lower() == "in"
        if anywhere:
            words.pop(0)
            one_of("any")
        possible = "" if anywhere else "'at p<0.05' or " if alpha is None else "'in any' or "
        take(f"{possible}the end", lambda word: not word)
        return cls(metric.names[0], sign, bound, alpha, anywhere)

    def __str__(self) -> str:
        at = "" if self.alpha is None else f" at p<{self.alpha:g}"
        return f"{self.metric} {self.operator} {self.bound:g}{at}{' in any' if self.anywhere else ''}"

    def holds(self, difference: float, p: float) -> bool:
        """Return whether the condition holds for a mean difference and its p-value."""
        return _OPERATORS[self.operator](difference, self.bound) and (self.alpha is None or p < self.alpha)
