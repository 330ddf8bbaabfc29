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
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_CONDITION = re.compile(
    rf"\s*([^\s<>=]+)\s*([<>]=?)\s*({_NUMBER})(?:\s+at\s+p\s*<\s*({_NUMBER}))?(\s+in\s+any)?\s*", re.IGNORECASE
)


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
        """Parse METRIC OP NUMBER [at p<ALPHA] [in any]."""
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ParameterError(f"condition {text!r}: expected {GRAMMAR}, such as ndcg@10 < -0.002 at p<0.05")
        name, sign, bound, p, anywhere = found.groups()
        try:
            (metric,) = Metric.parse(name).names
        except ValueError as error:
            reason = error if isinstance(error, ParameterError) else "one cut-off at a time"
            raise ParameterError(f"condition {text!r}: {reason}") from None
        alpha = None if p is None else float(p)
        if alpha is not None and not 0.0 < alpha < 1.0:
            raise ParameterError(f"condition {text!r}: a p-value must be between 0 and 1, not {alpha:g}")
        return cls(metric, sign, float(bound), alpha, anywhere is not None)

    def __str__(self) -> str:
        at = "" if self.alpha is None else f" at p<{self.alpha:g}"
        return f"{self.metric} {self.operator} {self.bound:g}{at}{' in any' if self.anywhere else ''}"

    def holds(self, difference: float, p: float) -> bool:
        """Return whether the condition holds for a mean difference and its p-value."""
        return _OPERATORS[self.operator](difference, self.bound) and (self.alpha is None or p < self.alpha)
