"""Option types, and options that several commands share."""

from __future__ import annotations

import dataclasses
import glob
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boostrank.core.errors import InputError
from boostrank.core.formatting import typed_value

if TYPE_CHECKING:
    from boostrank.metric import Conventions

F = TypeVar("F", bound=Callable[..., Any])


COUNT = click.IntRange(1)


class Option(click.Option):
    """An option that knows under which heading the help lists it; a default is shown, a whole number is called N."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        numbers = {click.IntRange: "N", click.FloatRange: "X"}
        kwargs = {"metavar": numbers.get(type(kwargs.get("type"))), "show_default": "default" in kwargs} | kwargs
        super().__init__(*args, **kwargs)
        self.section = section


class Command(click.Command):
    """A command whose help lists options under headings, in the order of declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        sections["Options"] = sections.pop("Options", [])  # --help, last
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def option(*names: str, section: str = "Options", **kwargs: Any) -> Callable[[F], F]:
    """`click.option` under a heading."""
    return click.option(*names, cls=Option, section=section, **kwargs)


class Parsed(click.ParamType):  # type: ignore[type-arg]
    """What a function makes of a text, called `metavar` in the help; its ValueError says what is wrong."""

    def __init__(self, metavar: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = metavar, parse

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if isinstance(value, tuple | dict) else self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def assignment(given: str) -> tuple[str, int | float | bool | str]:
    """(name, value) of `name=value`; the value becomes a number, true, false, or stays text."""
    name, equals, text = given.partition("=")
    if not (equals and name.strip() and text.strip()):
        raise ValueError(f"{given!r} is not NAME=VALUE")
    return name.strip(), typed_value(text.strip())


class InputFile(click.ParamType):  # type: ignore[type-arg]
    """A file that can be read."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = str(value)
        if os.path.isdir(path):
            raise InputError(f"{path}: is a folder, not a file")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: {'cannot be read' if os.path.exists(path) else 'no such file'}")
        return path


class DataFile(InputFile):
    """A file of ranking data that can be read; `-`, standard input; or a pattern that files match."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = str(value)
        # Workers say what they cannot read. (Of an option that is not given, click holds a sentinel here.)
        if path == "-" or (ctx is not None and isinstance(ctx.params.get("dask"), str)):
            return path
        if glob.has_magic(path) and not os.path.exists(path):
            if not glob.glob(path, recursive=True):
                raise InputError(f"{path}: no file matches")
            return path
        return super().convert(value, param, ctx)


def ranks(given: str) -> tuple[int, ...]:
    """`1,3,5,10`."""
    try:
        found = tuple(int(word) for word in given.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise ValueError(f"{given!r} is not a list of ranks such as 1,3,5,10")
    return found


def seconds(given: str) -> float:
    """`90s`, `30m`, `2h`; a number alone is of seconds."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(given[-1:].lower(), 0.0)
    try:
        found = float(given[:-1]) * unit if unit else float(given)
    except ValueError:
        found = 0.0
    if not 0.0 < found < math.inf:
        raise ValueError(f"{given!r} is not a duration such as 90s, 30m or 2h")
    return found


ASSIGNMENT, CUTOFFS = Parsed("NAME=VALUE", assignment), Parsed("K,K,...", ranks)
DURATION = Parsed("DURATION", seconds)

CONVENTIONS = ("default", "lightgbm", "xgboost", "catboost", "sklearn", "trec", "letor", "mslr")
"""Names of `boostrank.core.conventions.PRESETS`, whose module is too heavy for `--help`."""


def with_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Decorator: all of these, listed in this order."""

    def decorate(command: F) -> F:
        for add in reversed(options):
            command = add(command)
        return command

    return decorate


def conventions_option(section: str) -> Callable[[F], F]:
    """`--conventions PRESET`."""
    words = f"{', '.join(CONVENTIONS[:-1])} or {CONVENTIONS[-1]}"
    return option(
        "--conventions", metavar="PRESET", type=click.Choice(CONVENTIONS, case_sensitive=False), section=section,
        help=f"Gains, ties and queries without a relevant document as in {words}.",
    )  # fmt: skip


def chosen_conventions(preset: str | None, gain: str | None) -> Conventions:
    """What `--conventions` and `--gain` say."""
    from boostrank.metric import Conventions

    rules = Conventions.named(preset or "default")
    return rules if gain is None else dataclasses.replace(rules, gain=gain)


def threads_option(section: str = "Options") -> Callable[[F], F]:
    """`--threads N`."""
    return option("--threads", type=COUNT, show_default="every core allowed", section=section, help="Threads to use.")
