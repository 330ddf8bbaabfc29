"""Parameters that change with the round: pure functions of a 0-based round, with a text form.

    geometric(64, 0.015625)        from 64 to 1/64 over the whole training, each round the same factor
    geometric(64, 1, rounds=50)    over the first 50 rounds, then constant
    linear(1, 0)                   straight line
    logistic                       the mixing schedule of REG-SHF-SDCG, eq (19): 0.999999 down to about 1e-6
    steps(1, 0.5, 0.1)             equal stages
    constant(0.5)                  or just the number
    joined(constant(1); geometric(1, 0.1); at=20)   one schedule until round 20, then another

A schedule without `rounds` spans the training: `over(total)` fills it in.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import Schedule


@dataclass(frozen=True)
class Constant:
    """The same value in every round."""

    value: float
    needs_total: ClassVar[bool] = False

    def __call__(self, round: int) -> float:
        return self.value

    def over(self, total: int) -> Constant:
        return self

    def __str__(self) -> str:
        return _text("constant", self.value, rounds=None)


@dataclass(frozen=True)
class _Spanning:
    """Base of schedules that run over a number of rounds and stay at their end value afterwards."""

    @property
    def needs_total(self) -> bool:
        return self.rounds is None  # type: ignore[attr-defined, no-any-return]

    def over(self, total: int) -> Any:
        if not self.needs_total:
            return self
        return dataclasses.replace(self, rounds=max(1, int(total)))  # type: ignore[call-arg]

    def _progress(self, round: int) -> float:
        """0 at the first round, 1 at the last one and after."""
        rounds = self.rounds  # type: ignore[attr-defined]
        if rounds is None:
            raise ParameterError(f"{self}: the length is not known yet; give rounds=, or call over(total)")
        return 1.0 if rounds <= 1 else min(1.0, round / (rounds - 1))


@dataclass(frozen=True)
class Geometric(_Spanning):
    """start * (stop / start) ** progress: `start` at round 0, `stop` at the last round and after."""

    start: float
    stop: float
    rounds: int | None = None

    def __post_init__(self) -> None:
        if not (self.start > 0 and self.stop > 0):
            raise ParameterError(f"{self}: both ends must be above 0")

    def __call__(self, round: int) -> float:
        p = self._progress(round)
        return float(self.start ** (1.0 - p) * self.stop**p)

    def __str__(self) -> str:
        return _text("geometric", self.start, self.stop, rounds=self.rounds)


@dataclass(frozen=True)
class Linear(_Spanning):
    """start + (stop - start) * progress."""

    start: float
    stop: float
    rounds: int | None = None

    def __call__(self, round: int) -> float:
        p = self._progress(round)
        return (1.0 - p) * self.start + p * self.stop

    def __str__(self) -> str:
        return _text("linear", self.start, self.stop, rounds=self.rounds)


@dataclass(frozen=True)
class Logistic(_Spanning):
    """The mixing weight of REG-SHF-SDCG (Wu et al. 2009, eq 19).

    lambda_m = 1 / (1 + exp((m - M/2) / theta)), theta = (M/2 - 1) / ln(999999), with m = round + 1 counted from 1:
    0.999999 at m = 1, 1/2 at m = M/2, about 9e-7 at m = M. For M <= 4 theta is held at its value for M = 4, so
    that the schedule stays defined.
    """

    rounds: int | None = None

    def __call__(self, round: int) -> float:
        self._progress(round)  # raises when the length is missing
        total = max(4, self.rounds or 0)
        theta = (total / 2 - 1) / math.log(999_999)
        t = (round + 1 - (self.rounds or 0) / 2) / theta
        return 1.0 / (1.0 + math.exp(t)) if t < 700 else 0.0

    def __str__(self) -> str:
        return _text("logistic", rounds=self.rounds)


@dataclass(frozen=True)
class Steps(_Spanning):
    """Equal stages, one value each: stage floor(round * stages / rounds)."""

    values: tuple[float, ...]
    rounds: int | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ParameterError("steps() needs at least one value")

    def __call__(self, round: int) -> float:
        self._progress(round)  # raises when the length is missing
        stage = round * len(self.values) // (self.rounds or 1)
        return self.values[min(stage, len(self.values) - 1)]

    def __str__(self) -> str:
        return _text("steps", *self.values, rounds=self.rounds)


@dataclass(frozen=True)
class Joined:
    """`first` before round `at`, then `second`, which starts counting there."""

    first: Schedule
    second: Schedule
    at: int

    def __call__(self, round: int) -> float:
        return self.first(round) if round < self.at else self.second(round - self.at)

    @property
    def needs_total(self) -> bool:
        return self.first.needs_total or self.second.needs_total

    def over(self, total: int) -> Joined:
        return Joined(self.first.over(self.at), self.second.over(max(1, total - self.at)), self.at)

    def __str__(self) -> str:
        return f"joined({self.first}; {self.second}; at={self.at})"


def _text(name: str, *values: float, rounds: int | None) -> str:
    # The short form where it says the same number.
    parts = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in values]
    parts += [f"rounds={rounds}"] if rounds is not None else []
    return f"{name}({', '.join(parts)})" if parts else name


_BY_NAME = {
    "constant": Constant,
    "geometric": Geometric,
    "linear": Linear,
    "logistic": Logistic,
    "steps": Steps,
}
_CALL = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.DOTALL)


def parse_schedule(text: str) -> Schedule:
    """A schedule from its text form (see the module); `str()` of a schedule parses back to it.

    Raises:
        ParameterError: unknown name, wrong arguments.
    """
    call = _CALL.fullmatch(text)
    if call is None or call.group(1) not in {*_BY_NAME, "joined"}:
        known = did_you_mean(text.split("(")[0].strip(), [*_BY_NAME, "joined"])
        raise ParameterError(f"{text!r} is not a schedule.{known}")
    name, body = call.group(1), call.group(2) or ""
    try:
        if name == "joined":
            first, second, at = split_outside_brackets(body, ";")
            return Joined(parse_schedule(first), parse_schedule(second), _count(at, "at", low=0))
        numbers: list[float] = []
        rounds = None
        for part in filter(None, (p.strip() for p in body.split(","))):
            if "=" in part:
                rounds = _count(part, "rounds", low=1)
            else:
                numbers.append(float(part))
        if not all(map(math.isfinite, numbers)):
            raise ValueError("the values must be finite")
        if name == "constant":
            (value,) = numbers
            return Constant(value)
        if name == "steps":
            return Steps(tuple(numbers), rounds)
        schedule: Schedule = _BY_NAME[name](*numbers, rounds=rounds)  # type: ignore[call-arg, arg-type]
        return schedule
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:
        raise ParameterError(f"schedule {text!r} cannot be read: {error}") from None


def split_outside_brackets(body: str, separator: str) -> list[str]:
    """Pieces of a text between separators that stand in no brackets: schedules and objectives nest."""
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
    """Whether a value is meant as a schedule: text that begins like one."""
    if not isinstance(value, str):
        return False
    word = re.match(r"\s*([a-z]+)\s*(\(|$)", value)
    return bool(word) and word.group(1) in {*_BY_NAME, "joined"} and ("(" in value or word.group(1) == "logistic")  # type: ignore[union-attr]
