"""Objective parameters, and registries. For options of commands and of `boostrank.train`, see
`boostrank.options`.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, TypeVar

from boostrank.core.errors import ParameterError, UnknownParameter, did_you_mean

Value = float | int | bool | str

_LARGEST = 2**53 - 1
_SWITCH = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True)
class Param:
    """Declaration of a parameter, which is used for validation, help texts, documentation and
    tuning.

    Args:
        name: name on the command line and in Python.
        default: default value, whose type (float, int, bool, str) is the parameter's type.
        help: description in one sentence.
        low, high: inclusive bounds.
        open_low: whether to exclude the lower bound.
        log: whether to use a log scale in tuning.
        schedulable: whether a `Schedule` may change the value between rounds.
        unit: "score", "score^2", "rank" or "rounds"; empty for a pure number.
        choices: allowed values of a str parameter. Kernels receive the position of the value.
        levels: names for values of a float parameter (`train_discount`: "log", "linear").
        aliases: other names that are accepted.

    Example:
        >>> import boostrank
        >>> sigma = boostrank.Param("sigma", 1.0, "width of the sigmoid", low=0.0, open_low=True)
        >>> sigma.parse("0.5")
        0.5
    """

    name: str
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    log: bool = False
    schedulable: bool = False
    unit: str = ""
    choices: tuple[str, ...] = ()
    levels: tuple[tuple[str, float], ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Type of the parameter, which is "switch", "choice", "integer" or "number"."""
        if isinstance(self.default, bool):
            return "switch"
        if isinstance(self.default, str):
            return "choice"
        return "integer" if isinstance(self.default, int) else "number"

    @property
    def range(self) -> str:
        """Allowed values as text, such as "softplus | tangent", "> 0" or "0 to 1"."""
        if self.kind == "choice":
            return " | ".join(self.choices)
        if self.kind == "switch":
            return "true | false"
        if self.low is not None and self.high is not None:
            bounds = f"{self.low:g} to {self.high:g}"
        elif self.low is not None:
            bounds = f"{'>' if self.open_low else '>='} {self.low:g}"
        elif self.high is not None:
            bounds = f"<= {self.high:g}"
        else:
            bounds = "any"
        return " | ".join([*dict(self.levels), bounds])

    def parse(self, value: Any) -> Value:
        """Convert a value to the parameter's type.

        Raises:
            ParameterError: if the value has another type or is out of range. The message gives the
                allowed range.
        """
        words: dict[str, Value] = {choice.lower(): choice for choice in self.choices}
        words |= {level.lower(): number for level, number in self.levels}
        if self.kind == "switch":
            words |= _SWITCH
        word = str(value).strip().lower()
        if word in words:
            return words[word]
        if self.kind in ("switch", "choice"):
            raise ParameterError(f"{self.name}={value!r} is not one of {self.range}")
        try:
            if isinstance(value, bool):
                raise ValueError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(
                f"{self.name}={value!r} is not a number; allowed: {self.range}"
            ) from None
        is_integer = self.kind == "integer"
        if is_integer and number % 1:  # also of an infinite number
            raise ParameterError(
                f"{self.name}={value!r} is not a whole number; allowed: {self.range}"
            )
        low = -math.inf if self.low is None else self.low
        # A larger float is not the integer that was typed.
        largest = _LARGEST if is_integer else sys.float_info.max
        high = largest if self.high is None else min(self.high, largest)
        is_bound = number == low and self.open_low
        if not max(low, -largest) <= number <= high or is_bound:
            raise ParameterError(f"{self.name}={value!r} is out of range; allowed: {self.range}")
        return int(number) if is_integer else number

    def encode(self, value: Value) -> float:
        """Encode a value for a kernel, which means a choice as its position and a switch as 0 or
        1.
        """
        return float(self.choices.index(value)) if isinstance(value, str) else float(value)


def check_keywords(kind: type[Any], keywords: Iterable[str]) -> None:
    """Raise `ParameterError` for a keyword that is not a field of the dataclass."""
    names = [declared.name for declared in fields(kind)]
    for keyword in keywords:
        if keyword not in names:
            hint = did_you_mean(keyword, names)
            raise ParameterError(f"{kind.__name__} takes no {keyword}=.{hint}")


T = TypeVar("T", bound=Any)


def find_param(name: str, params: Iterable[T]) -> T | None:
    """Return the parameter (or another declaration) with this name or alias, ignoring dashes,
    underscores and case.
    """
    plain = plain_name(name)
    return next(
        (param for param in params if plain in map(plain_name, (param.name, *param.aliases))), None
    )


def resolve_params(
    params: tuple[Param, ...], values: Mapping[str, Any], *, owner: str
) -> dict[str, Any]:
    """Map canonical names to the given values, or raise `ParameterError` for unknown or repeated
    names.
    """
    resolved: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for name, value in values.items():
        param = find_param(name, params)
        if param is None:
            hint = did_you_mean(name, [p.name for p in params]) if params else " It has none."
            raise UnknownParameter(f"{owner} has no parameter {name!r}.{hint}")
        if param.name in resolved:
            raise ParameterError(
                f"{owner}: {typed[param.name]!r} and {name!r} are the same parameter"
            )
        resolved[param.name], typed[param.name] = value, name
    return resolved


def plain_name(name: str) -> str:
    """Normalise a name for comparisons to lower case without dashes, underscores or blanks."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


@dataclass(eq=False)
class Registry(Generic[T]):
    """Collection of the `SPEC` (or `SPECS`) of each module of a package, by `name` and `aliases`.

    Modules are imported in alphabetical order at the first look-up. Dashes, underscores and case
    are ignored when names are compared. Modules whose name starts with an underscore are skipped.

    Args:
        package: name of the package.
        what: noun for a member in messages, such as "objective".
        instead: mapping from names that are not members to the members to suggest.
        loader: function that returns a member from a Python file, suggested for names of files; ""
            if there is none.
    """

    package: str
    what: str
    instead: Mapping[str, Sequence[str]] = field(default_factory=dict)
    loader: str = ""
    _added: dict[str, T] = field(default_factory=dict, init=False)

    @cached_property
    def _specs_by_name(self) -> dict[str, T]:
        specs: dict[str, T] = {}
        for name in self.modules():
            names = vars(importlib.import_module(f"{self.package}.{name}"))
            members = names.get("SPECS") or filter(None, [names.get("SPEC")])
            specs |= {spec.name: spec for spec in members}
        return specs

    def modules(self) -> list[str]:
        """Return the names of the modules to search, without importing them."""
        package = importlib.import_module(self.package)
        modules = sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name)
        return [module.name for module in modules if not module.name.startswith("_")]

    def add(self, spec: T) -> None:
        """Add a member from outside the package."""
        self._added[spec.name] = spec

    def __iter__(self) -> Iterator[T]:
        yield from (self._specs_by_name | self._added).values()

    def names(self) -> list[str]:
        """Return the canonical names, in order."""
        return [spec.name for spec in self]

    def get(self, name: str) -> T:
        """Return the member with this name or alias, or raise `ParameterError` with the closest
        name and all names.
        """
        spec = find_param(name, self)
        if spec is not None:
            return spec
        for retired_names, members in self.instead.items():
            if plain_name(name) in map(plain_name, retired_names.split()):
                raise ParameterError(
                    f"unknown {self.what} {name!r}. Use one of {', '.join(members)}"
                )
        hint = did_you_mean(name, self.names())
        if self.loader and name.endswith(".py"):
            hint = (
                f" In Python, pass {self.loader}({name!r}); on the command line, use `boostrank"
                f" train --{self.what} {name}` or `boostrank {self.what}s --check {name}`"
            )
        raise ParameterError(f"unknown {self.what} {name!r}.{hint}")
