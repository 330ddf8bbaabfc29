"""Schedules of parameters: pure functions of a round (counted from 0) that can be written as text.

    geometric(64, 0.015625)        from 64 to 1/64 over the whole training, by a constant factor per
    round geometric(64, 1, rounds=50)    over the first 50 rounds, then constant linear(1, 0)
    a straight line logistic                       the mixing schedule of REG-SHF-SDCG, eq (19):
    0.999999 down to about 1e-6 steps(1, 0.5, 0.1)             equal stages constant(0.5)
    the same as the number joined(constant(1); geometric(1, 0.1); at=20)   one schedule until round
    20, then another

A schedule without `rounds` spans the whole training, whose length is set by `over(total)`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import Schedule


class _Written:
    """Base class of the schedules that are written as their name and fields."""

    def __str__(self) -> str:
        fields = dict(vars(self))
        rounds = fields.pop("rounds", None)
        # Use the short form if it is exact.
        parts = [
            f"{v:g}" if float(f"{v:g}") == v else repr(float(v))
            for v in fields.pop("values", fields.values())
        ]
        parts += [f"rounds={rounds}"] if rounds is not None else []
        name = type(self).__name__.lower()
        return f"{name}({', '.join(parts)})" if parts else name


@dataclass(frozen=True)
class Constant(_Written):
    """A schedule with the same value in every round."""

    value: float
    needs_total: ClassVar[bool] = False

    def __call__(self, round: int) -> float:
        return self.value

    def scale_to(self, total: int) -> Constant:
        """Return the schedule itself, which does not depend on the number of rounds."""
        return self


class _Spanning(_Written):
    """Base class of the schedules that span a number of rounds and keep their last value
    afterwards.
    """

    rounds: int | None

    @property
    def needs_total(self) -> bool:
        return self.rounds is None

    def scale_to(self, total: int) -> Self:
        if not self.needs_total:
            return self
        return dataclasses.replace(self, rounds=max(1, int(total)))  # type: ignore[type-var]

    def _progress(self, round: int) -> float:
        """Return the progress, which rises from 0 in the first round to 1 in the last, and then
        remains 1.
        """
        if self.rounds is None:
            raise ParameterError(
                f"the length of {self} is not set; pass `rounds`, or call over(total)"
            )
        return 1.0 if self.rounds <= 1 else min(1.0, round / (self.rounds - 1))


@dataclass(frozen=True)
class Linear(_Spanning):
    """A straight line from `start` in the first round to `stop` in the last: start + (stop - start)
    * progress.
    """

    start: float
    stop: float
    rounds: int | None = None

    def __call__(self, round: int) -> float:
        p = self._progress(round)
        return (1.0 - p) * self.start + p * self.stop


@dataclass(frozen=True)
class Geometric(Linear):
    """A geometric schedule, start * (stop / start) ** progress."""

    def __post_init__(self) -> None:
        if not (self.start > 0 and self.stop > 0):
            raise ParameterError(f"both ends of {self} must be above 0")

    def __call__(self, round: int) -> float:
        p = self._progress(round)
        return float(self.start ** (1.0 - p) * self.stop**p)


@dataclass(frozen=True)
class Logistic(_Spanning):
    """The mixing schedule of REG-SHF-SDCG (Wu et al. 2009, eq 19).

    lambda_m = 1 / (1 + exp((m - M/2) / theta)), theta = (M/2 - 1) / ln(999999), with m = round + 1:
    0.999999 at m = 1, 1/2 at m = M/2, about 9e-7 at m = M. For M < 4, theta is that of M = 4, so
    that the schedule is defined.
    """

    rounds: int | None = None

    def __call__(self, round: int) -> float:
        self._progress(round)  # raises when the length is missing
        total = max(4, self.rounds or 0)
        theta = (total / 2 - 1) / math.log(999_999)
        t = (round + 1 - (self.rounds or 0) / 2) / theta
        return 1.0 / (1.0 + math.exp(t)) if t < 700 else 0.0


@dataclass(frozen=True)
class Steps(_Spanning):
    """Stages of equal length with one value each, where a round is in stage floor(round * stages /
    rounds).
    """

    values: tuple[float, ...]
    rounds: int | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ParameterError("steps() needs at least one value")

    def __call__(self, round: int) -> float:
        self._progress(round)  # raises when the length is missing
        stage = round * len(self.values) // (self.rounds or 1)
        return self.values[min(stage, len(self.values) - 1)]


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


_BY_NAME: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Constant, Geometric, Linear, Logistic, Steps, Joined)
}
_CALL = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def parse_schedule(text: str) -> Schedule:
    """Parse the text form of a schedule, as described in the module and returned by `str()`.

    Raises:
        ParameterError: the name is unknown or the arguments are wrong.
    """
    call = _CALL.fullmatch(text)
    if call is None or call.group(1) not in _BY_NAME:
        hint = did_you_mean(text.split("(")[0].strip(), _BY_NAME)
        raise ParameterError(f"{text!r} is not a schedule.{hint}")
    name, body = call.group(1), call.group(2) or ""
    try:
        if name == "joined":
            first, second, at = split_outside_brackets(body, ";")
            return Joined(parse_schedule(first), parse_schedule(second), _count(at, "at", low=0))
        # All other schedules take numbers, and rounds=N.
        numbers: list[float] = []
        rounds = None
        for part in filter(None, (p.strip() for p in body.split(","))):
            if "=" in part:
                rounds = _count(part, "rounds", low=1)
            else:
                numbers.append(float(part))
        if not all(map(math.isfinite, numbers)):
            raise ValueError("its values must be finite")
        if name == "constant":
            (value,) = numbers
            return Constant(value)
        if name == "steps":
            return Steps(tuple(numbers), rounds)
        schedule: Schedule = _BY_NAME[name](*numbers, rounds=rounds)
        return schedule
    except ParameterError:
        raise
    except TypeError:
        names = ", ".join(field.name for field in fields(_BY_NAME[name]))
        raise ParameterError(f"schedule {text!r} cannot be read: {name} takes {names}") from None
    except ValueError as error:
        raise ParameterError(f"schedule {text!r} cannot be read: {error}") from None


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
    word = re.match(r"\s*([a-z]+)\s*(\(|$)", value) if isinstance(value, str) else None
    return word is not None and word[1] in _BY_NAME and (word[2] == "(" or word[1] == "logistic")
