"""Schedules of parameters: pure functions of a round (counted from 0) that can be written as text.

    geometric(64, 0.015625)        from 64 to 1/64 over the whole training, by a constant factor per
                                   round
    geometric(64, 1, rounds=50)    over the first 50 rounds, then constant
    linear(1, 0)                   a straight line
    logistic                       the mixing schedule of REG-SHF-SDCG, eq (19): 0.999999 down to
                                   about 1e-6
    steps(1, 0.5, 0.1)             equal stages
    constant(0.5)                  the same as the number
    joined(constant(1); geometric(1, 0.1); at=20)   one schedule until round 20, then another

A schedule without `rounds` spans the whole training, whose length is set by `scale_to(total)`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import Schedule

_NUMBERS = {
    "constant": ("value",),
    "linear": ("start", "stop"),
    "geometric": ("start", "stop"),
    "logistic": (),
    "steps": None,
    "joined": None,
}
"""The numbers in the brackets of each schedule, where their count is fixed."""
_CALL = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """A schedule that spans a number of rounds, and keeps its last value afterwards.

    Args:
        name: constant, linear, geometric, logistic or steps.
        numbers: its numbers.
        rounds: None until the length of the training is known.
    """

    name: str
    numbers: tuple[float, ...]
    rounds: int | None = None

    def __call__(self, round: int) -> float:
        numbers = self.numbers
        if self.name == "constant":
            return numbers[0]
        if self.rounds is None:
            raise ParameterError(f"the length of {self} is not set: write rounds=N in its brackets")
        if self.name == "steps":
            stage = round * len(numbers) // self.rounds
            return numbers[min(stage, len(numbers) - 1)]
        if self.name == "logistic":
            return _mix_share(round, self.rounds)
        start, stop = numbers
        p = 1.0 if self.rounds <= 1 else min(1.0, round / (self.rounds - 1))
        if self.name == "geometric":
            return float(start ** (1.0 - p) * stop**p)
        return (1.0 - p) * start + p * stop

    @property
    def needs_total(self) -> bool:
        """Whether the length of the training must be set."""
        return self.rounds is None and self.name != "constant"

    def scale_to(self, total: int) -> Shape:
        """Return the schedule over `total` rounds, or over its own if it has them."""
        return replace(self, rounds=max(1, int(total))) if self.needs_total else self

    def __str__(self) -> str:
        # Use the short form if it is exact.
        numbers = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in self.numbers]
        if self.rounds is not None:
            numbers.append(f"rounds={self.rounds}")
        return f"{self.name}({', '.join(numbers)})" if numbers else self.name


def _mix_share(round: int, rounds: int) -> float:
    """Return the share of the regression in REG-SHF-SDCG (Wu et al. 2009, eq 19).

    lambda_m = 1 / (1 + exp((m - M/2) / theta)), theta = (M/2 - 1) / ln(999999), with m = round + 1:
    0.999999 at m = 1, 1/2 at m = M/2, about 9e-7 at m = M. For M < 4, theta is that of M = 4, so
    that the schedule is defined.
    """
    theta = (max(4, rounds) / 2 - 1) / math.log(999_999)
    t = (round + 1 - rounds / 2) / theta
    return 1.0 / (1.0 + math.exp(t)) if t < 700 else 0.0


@dataclass(frozen=True)
class Joined:
    """Two schedules in turn: `first` before round `at`, then `second`, whose rounds are counted
    from `at`.
    """

    first: Schedule
    second: Schedule
    at: int

    def __call__(self, round: int) -> float:
        return self.first(round) if round < self.at else self.second(round - self.at)

    @property
    def needs_total(self) -> bool:
        """Whether either schedule spans the whole training."""
        return self.first.needs_total or self.second.needs_total

    def scale_to(self, total: int) -> Joined:
        """Return the schedule with `first` over `at` rounds and `second` over the later ones."""
        return Joined(
            self.first.scale_to(self.at), self.second.scale_to(max(1, total - self.at)), self.at
        )

    def __str__(self) -> str:
        return f"joined({self.first}; {self.second}; at={self.at})"


def parse_schedule(text: str) -> Schedule:
    """Parse the text form of a schedule, as described in the module and returned by `str()`.

    Raises:
        ParameterError: the name is unknown or the arguments are wrong.
    """
    call = _CALL.fullmatch(text)
    if call is None or call[1] not in _NUMBERS:
        hint = did_you_mean(text.split("(")[0].strip(), _NUMBERS)
        raise ParameterError(f"{text!r} is not a schedule.{hint}")
    name, body = call[1], call[2] or ""
    try:
        if name == "joined":
            first, second, switch = split_outside_brackets(body, ";")
            return Joined(
                parse_schedule(first), parse_schedule(second), _count(switch, "at", low=0)
            )
        return _parse_shape(name, [part.strip() for part in body.split(",") if part.strip()])
    except ParameterError:
        raise
    except ValueError as error:
        raise ParameterError(f"schedule {text!r} cannot be read: {error}") from None


def _parse_shape(name: str, arguments: list[str]) -> Shape:
    numbers = [float(part) for part in arguments if "=" not in part]
    lengths = [_count(part, "rounds", low=1) for part in arguments if "=" in part]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("its values must be finite")
    expected = _NUMBERS[name]
    if expected is None and not numbers:
        raise ValueError(f"{name} takes one or more numbers")
    if expected is not None and len(numbers) != len(expected):
        raise ValueError(f"{name} takes {', '.join(expected) or 'no number'}")
    if name == "geometric" and min(numbers) <= 0:
        raise ValueError("both ends must be above 0")
    return Shape(name, tuple(numbers), lengths[-1] if lengths else None)


def split_outside_brackets(body: str, separator: str) -> list[str]:
    """Split a text at the separators outside brackets, because schedules and objectives can be
    nested.
    """
    parts, depth = [""], 0
    for character in body:
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _count(part: str, keyword: str, *, low: int) -> int:
    name, _, number = part.strip().partition("=")
    if name.strip() != keyword or not number:
        raise ValueError(f"expected {keyword}=N, not {part.strip()!r}")
    if int(number) < low:
        raise ValueError(f"{keyword} must be at least {low}")
    return int(number)


def is_schedule_text(value: object) -> bool:
    """Return True if a value is text that begins like a schedule."""
    begins = rf"\s*(({'|'.join(_NUMBERS)})\s*\(|logistic\s*$)"
    return isinstance(value, str) and re.match(begins, value) is not None
