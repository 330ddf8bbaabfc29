"""Search space of tree parameters and the parameters that an objective declares with bounds or on a
log scale.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param, find_param
from boostrank.core.text import typed_value
from boostrank.schedules import split_outside_brackets

# Factor below and above the default in which an unbounded parameter on a log scale is searched.
_TIMES = 8.0
# A colon between letters is that of an engine's objective, such as lightgbm:lambdarank.
_SPAN = re.compile(r"(?!.*[a-z]:[a-z])(?P<low>[^:]+):(?P<high>[^:]+)(?P<log>:log)?")


@dataclass(frozen=True)
class Span:
    """A range of numbers between two inclusive bounds.

    Args:
        low, high: the bounds, where low < high.
        log: whether to search on a log scale, which requires low > 0.
        integer: whether to search only whole numbers.
    """

    low: float
    high: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ParameterError(f"{self}: the lower bound must be below the upper one")
        if self.log and self.low <= 0:
            raise ParameterError(f"{self}: a logarithmic scale needs a lower bound above 0")

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}" + ":log" * self.log

    def suggest(self, trial: Any, name: str) -> float | int:
        """Sample a value with an Optuna trial."""
        if self.integer:
            return int(trial.suggest_int(name, int(self.low), int(self.high), log=self.log))
        return float(trial.suggest_float(name, self.low, self.high, log=self.log))


@dataclass(frozen=True)
class Choice:
    """A choice of one of several values.

    Args:
        values: at least two distinct strings, numbers or booleans.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(set(self.values)) < 2:
            raise ParameterError(f"{self}: a choice needs two different values")

    def __str__(self) -> str:
        return ",".join(map(str, self.values))

    def suggest(self, trial: Any, name: str) -> Any:
        """Sample a value with an Optuna trial."""
        return trial.suggest_categorical(name, list(self.values))


Dimension = Span | Choice

# An average document has a hessian of 1 for every objective on both engines, so min_sum_hessian
# counts documents.
TREES: dict[str, Dimension] = {
    "learning_rate": Span(0.02, 0.3, log=True),
    "num_leaves": Span(4, 127, log=True, integer=True),
    "min_sum_hessian_in_leaf": Span(1.0, 300.0, log=True),
    "lambda_l2": Span(0.01, 100.0, log=True),
    "feature_fraction": Span(0.2, 1.0),
}
"""Default search space for the tree parameters. The names are LightGBM's, and both engines accept
them.
"""


def parse_dimension(text: str) -> Dimension:
    """Parse a dimension such as `0.1:10`, `0.1:10:log`, `7:63` (whole numbers) or `a,b,c`."""
    span = _SPAN.fullmatch(text.strip())
    if span is None:
        values = tuple(
            typed_value(value_text.strip())
            for value_text in split_outside_brackets(text, ",")
            if value_text.strip()
        )
        if len(values) < 2:
            raise ParameterError(
                f"{text!r} is not a range: write LOW:HIGH, LOW:HIGH:log, or values A,B,C"
            )
        return Choice(values)
    low, high = typed_value(span["low"].strip()), typed_value(span["high"].strip())
    if isinstance(low, str | bool) or isinstance(high, str | bool):
        raise ParameterError(
            f"{text!r} is not a range: {span['low']!r} and {span['high']!r} must be numbers"
        )
    return Span(low, high, span["log"] is not None, isinstance(low, int) and isinstance(high, int))


def declared_dimension(param: Param) -> Dimension | None:
    """Return the default range for a declared parameter, or None if its declaration does not bound
    it.
    """
    if param.kind not in ("number", "integer"):
        return None
    is_integer = param.kind == "integer"
    if param.low is not None and param.high is not None:
        return Span(param.low, param.high, param.log, is_integer)
    if param.log and isinstance(param.default, int | float) and param.default > 0:
        low, high = param.default / _TIMES, param.default * _TIMES
        return Span(max(low, param.low or low), min(high, param.high or high), True, is_integer)
    return None


def full_space(
    params: Sequence[Param],
    fixed: Collection[str],
    dimensions: Mapping[str, Dimension],
    trees: bool = True,
) -> dict[str, Dimension]:
    """Combine the spaces for the objective and the trees with the given space, which takes
    precedence.
    """
    space: dict[str, Dimension] = {}
    for param in params:
        dimension = declared_dimension(param)
        if dimension is not None and not any(find_param(name, [param]) for name in fixed):
            space[param.name] = dimension
    if trees:
        space |= {name: dimension for name, dimension in TREES.items() if name not in fixed}
    for name, dimension in dimensions.items():
        declared = find_param(name, params)
        space[declared.name if declared else name] = dimension
    return space
