"""Option types, and options that several commands share."""

from __future__ import annotations

import dataclasses
import glob
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from boostrank.cli.choices import complete
from boostrank.core.errors import InputError
from boostrank.core.text import typed_value

if TYPE_CHECKING:
    from boostrank.metric import Conventions

F = TypeVar("F", bound=Callable[..., Any])


class FloatRange(click.FloatRange):
    """A finite number in a range; click's own takes nan for one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return found


COUNT = click.IntRange(1)
_BY_NAME = "boostrank.data"


class Option(click.Option):
    """An option that knows under which heading the help lists it; a default is shown, a whole number is called N.

    Args:
        section: the heading.
    """

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        numbers = {click.IntRange: "N", FloatRange: "X"}
        kwargs = {"metavar": numbers.get(type(kwargs.get("type"))), "show_default": "default" in kwargs} | kwargs
        kwargs.setdefault("shell_complete", complete)
        super().__init__(*args, **kwargs)
        self.section = section


MOST_USED = "Most used"


class Command(click.Command):
    """A command whose help lists options under headings, in the order of declaration.

    Args:
        most_used: names of those that stand first, under a heading of their own.
        replaceable: names of those whose file may be written over: a model that is gone on with.
    """

    def __init__(
        self, *args: Any, most_used: Sequence[str] = (), replaceable: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.most_used, self._replaceable = tuple(most_used), tuple(replaceable)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, if no file that it is to write is one that it reads, or is to be written twice.

        The record and the lock of a model count as written, under any output's name.

        Raises:
            InputError: one is.
        """
        from boostrank.core.files import check_not_read, lock_path, record_path

        read, written = [], []
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            files = [one for one in (value if isinstance(value, tuple) else [value]) if isinstance(one, str)]
            if isinstance(parameter.type, OutputFile):
                written += files
            elif isinstance(parameter.type, ObjectiveName):
                read += [one.rpartition(".py")[0] + ".py" for one in files if ".py" in one]
            elif isinstance(parameter.type, InputFile) and parameter.name not in self._replaceable:
                read += [one for one in files if one != "-"]
        for number, path in enumerate(written):
            check_not_read(path, read)
            others = [name for one in written if one != path for name in (record_path(one), lock_path(one))]
            if os.path.realpath(path) in map(os.path.realpath, [*written[:number], *others]):
                raise InputError(f"{path}: is to be written twice: name another file")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {MOST_USED: []}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        first = [one for name in self.most_used for one in options if one.name == name]
        for one in (*first, *(one for one in options if one not in first)):
            record = one.get_help_record(ctx)
            if record is not None:
                heading = MOST_USED if one in first else getattr(one, "section", "Options")
                sections.setdefault(heading, []).append(record)
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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class ObjectiveName(click.ParamType):  # type: ignore[type-arg]
    """Name of an objective, or the file of one, `my.py` or `my.py:NAME`."""

    name = "name"


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


class OutputFile(click.ParamType):  # type: ignore[type-arg]
    """A file to be written; `-`, which is standard output elsewhere, is refused and not taken for a name.

    Args:
        stream: whether `-` is standard output here.
    """

    name = "file"

    def __init__(self, stream: bool = False) -> None:
        self._stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = os.fspath(value)
        if path == "-" and not self._stream:
            self.fail(
                "'-' is standard output, where this is not written: give a name (./- is a file of that name)",
                param,
                ctx,
            )
        return str(path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def data_argument(section: str = "Options", *, required: bool = True) -> Callable[[F], F]:
    """`DATA...`: files of ranking data by position; or each by `--data`. The command gets them as `data`.

    Args:
        section: where the help lists `--data`.
        required: whether there must be one.
    """

    def either(context: click.Context, parameter: click.Parameter, by_position: tuple[str, ...]) -> tuple[str, ...]:
        by_name = data_by_name(context)
        if by_position and by_name:
            raise click.UsageError("data are given by position and by --data: take one of the two", context)
        if required and not (by_position or by_name) and not context.resilient_parsing:
            raise click.UsageError("DATA is missing: name its files by position, or by --data", context)
        check_stdin(context, by_position or by_name)
        return by_position or by_name

    metavar = "DATA..." if required else "[DATA...]"
    return with_options(
        click.argument("data", metavar=metavar, nargs=-1, required=False, type=DataFile(), callback=either),
        data_option(section),
    )


def data_option(section: str) -> Callable[[F], F]:
    """`--data`, whose files `data_by_name` has."""
    return option(
        "--data", "data_by_name", metavar="DATA", multiple=True, type=DataFile(), is_eager=True, expose_value=False,
        callback=lambda context, _, files: context.meta.update({_BY_NAME: files}), section=section,
        help="DATA by name in place of by position; may be repeated.",
    )  # fmt: skip


def data_by_name(context: click.Context) -> tuple[str, ...]:
    """The files that `--data` names."""
    found: tuple[str, ...] = context.meta.get(_BY_NAME, ())
    return found


def check_stdin(context: click.Context, files: Sequence[str]) -> None:
    """Refuse `-` that stands twice."""
    if files.count("-") > 1:
        raise click.UsageError("standard input can be read only once", context)


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


GAIN_HELP = (
    "Gain of a label: exponential, linear, or a table 0,1,3,7; or of a row, an expression over columns, features or "
    "not: '0.7*label + 0.3*log1p(margin)'."
)


def conventions_option(section: str) -> Callable[[F], F]:
    """`--conventions PRESET`."""
    words = f"{', '.join(CONVENTIONS[:-1])} or {CONVENTIONS[-1]}"
    return option(
        "--conventions", metavar="PRESET", type=click.Choice(CONVENTIONS, case_sensitive=False), section=section,
        help=f"Gains, ties and queries without a relevant document as in {words}.",
    )  # fmt: skip


def chosen_conventions(preset: str | None, gain: str | None) -> Conventions:
    """What `--conventions` and `--gain` say."""
    from boostrank.core.gains import rule_of
    from boostrank.metric import Conventions

    rules = Conventions.named(preset or "default")
    return rules if gain is None else dataclasses.replace(rules, gain=rule_of(gain))


def threads_option(section: str = "Options") -> Callable[[F], F]:
    """`--threads N`."""
    return option("--threads", type=COUNT, show_default="every core allowed", section=section, help="Threads to use.")
