"""Make commands from structs of options: flags, `--help`, keys of `--config`, conflicts."""

from __future__ import annotations

import glob
import math
import os
import pkgutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from boostrank.core.errors import FileFormatError, InputError, did_you_mean
from boostrank.engines import ENGINES
from boostrank.export import target_lines
from boostrank.options import SAME, Option, declared

_TABLES = {"set": "settings", "param": "params"}
_OF_TRAIN = ("quality",)
"""Keys that `boostrank tune` writes for `train` alone; other commands accept the file as well."""
_SHORT = 20
"""Commands with more options show the most used ones, and all of them with --help-all."""


class FloatRange(click.FloatRange):
    """A finite number in a range; click's own accepts nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


class Parsed(click.ParamType):  # type: ignore[type-arg]
    """Result of a function of the text; its ValueError becomes the error message."""

    def __init__(self, metavar: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = metavar, parse

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value)) if isinstance(value, str | int | float) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _File(click.ParamType):  # type: ignore[type-arg]
    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class InputFile(_File):
    """A file that can be read."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = str(value)
        if os.path.isdir(path):
            raise InputError(f"{path}: is a folder, not a file")
        if path == "-" and not os.path.exists(path):
            raise InputError(f"{path}: is read from a file, not from standard input: write it to one")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: {'cannot be read' if os.path.exists(path) else 'no such file'}")
        return path


class DataFile(InputFile):
    """A file of ranking data that can be read; `-`, standard input; a folder of parts; or a pattern that matches."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = str(value)
        # Workers of a cluster check their files themselves. (click has a sentinel for an option that is not given.)
        if path == "-" or (ctx is not None and isinstance(ctx.params.get("cluster"), str)):
            return path
        if os.path.isdir(path):  # of parts
            return path
        if glob.has_magic(path) and not os.path.exists(path):
            if not glob.glob(path, recursive=True):
                raise InputError(f"{path}: no file matches")
            return path
        return super().convert(value, param, ctx)


class ObjectiveName(click.ParamType):  # type: ignore[type-arg]
    """Name of an objective, or a Python file, `my.py`."""

    name = "name"


class OutputFile(_File):
    """A file to write; `-` is refused, unless it is standard output here (`stream`)."""

    def __init__(self, stream: bool = False) -> None:
        self._stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = os.fspath(value)
        if path == "-" and not self._stream:
            why = "'-' is standard output, where this is not written: give a name (./- is a file of that name)"
            self.fail(why, param, ctx)
        return str(path)


_FILES: dict[str, click.ParamType] = {  # type: ignore[type-arg]
    "read": InputFile(),
    "data": DataFile(),
    "objective": ObjectiveName(),
    "write": OutputFile(),
    "stream": OutputFile(stream=True),
    "folder": click.Path(file_okay=False),
}


def registered(package: str) -> list[str]:
    """Names in a registry, from its file names, without importing them."""
    spec = find_spec(f"boostrank.{package}")
    places = spec.submodule_search_locations if spec is not None else None
    return sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules(places) if not one.name.startswith("_"))


def objective_names() -> list[str]:
    """Values of `--objective`."""
    native = [f"{name}:{own}" for name, engine in ENGINES.items() for own in engine.native_objectives]
    return ["auto", *registered("objectives"), *native]


_VALUES: dict[str, Callable[[], Sequence[str]]] = {
    "objective": objective_names,
    "name": objective_names,
    "metrics": lambda: [f"{name}{cut}" for name in registered("metrics") for cut in ("", "@10")],
    "backend": lambda: tuple(ENGINES),
    "gain": lambda: ("exponential", "linear"),
    "to": lambda: [name for name, _ in target_lines()],
    "target": lambda: [name for name, _ in target_lines()],
    "data_format": lambda: ["auto", *registered("data.formats")],
}


def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Values that a shell offers for an option: known words, values of its type, or files."""
    values = _VALUES.get(str(parameter.name))
    if values is None:
        return parameter.type.shell_complete(context, parameter, incomplete)
    found = [CompletionItem(value) for value in values() if value.startswith(incomplete)]
    # Shells complete either files or words, not both.
    files = not found and parameter.name == "objective"
    return [CompletionItem(incomplete, type="file")] if files else found


class Flag(click.Option):
    """An option of the command line, with its declaration."""

    def __init__(self, one: Option, flag: str) -> None:
        self.declared = one
        value = one.default if one.unset is SAME else one.unset
        shown = one.shown or value not in (None, False, ()) or None
        # An explicit default of None would count as a given value.
        default: dict[str, Any] = {} if one.required else {"default": None if one.several else value}
        super().__init__(
            [*([one.short] if one.short else []), flag, one.name],
            help=one.help + (" May be repeated." if one.several else ""),
            **default,
            show_default=False if one.several and not one.shown else shown,
            type=_type_of(one),
            is_flag=one.kind == "bool",
            multiple=one.several,
            required=one.required,
            metavar=one.metavar or ("FILE" if one.file else {"int": "N", "float": "X"}.get(one.kind)),
            is_eager=one.name in ("config", "cluster"),
            callback=read_config if one.name == "config" else None,
            shell_complete=complete,
        )


def _type_of(one: Option) -> Any:
    if one.parse is not None:
        return Parsed(one.metavar, one.parse)
    if one.file:
        return _FILES[one.file]
    if one.choices:
        return click.Choice(one.choices, case_sensitive=False)
    if one.kind == "int":
        return click.IntRange(one.ge, one.le)  # type: ignore[arg-type]
    if one.kind == "float":
        low = one.ge if one.gt is None else one.gt
        return FloatRange(low, one.le, min_open=one.gt is not None)
    return None if one.kind == "bool" else str


class Command(click.Command):
    """A command made from structs of options.

    Args:
        structs: types of the structs that its function takes, in that order.
        without: options of the structs that this command does not take.
        replaceable: options whose files the command may overwrite.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        structs: Sequence[type[Any]],
        without: Sequence[str],
        replaceable: Sequence[str],
    ) -> None:
        self._run, self._structs, self._without, self._replaceable = run, structs, without, replaceable
        self.options = {one.name: one for struct in structs for one in declared(struct).values() if self._flag(one)}
        params: list[click.Parameter] = []
        for one in self.options.values():
            if one.positional:
                many = -1 if one.several else 1
                params.append(
                    click.Argument(
                        [one.name],
                        metavar=one.metavar,
                        nargs=many,
                        required=one.required,
                        type=_type_of(one),
                        shell_complete=complete,
                    )
                )
            else:
                params.append(Flag(one, self._flag(one)))
        self.is_long = len(params) > _SHORT and any(one.common for one in self.options.values())
        if self.is_long:
            params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    hidden=True,
                    callback=_print_all_help,
                )
            )
        super().__init__(name, callback=self._call, params=params, help=run.__doc__)

    def _flag(self, one: Option) -> str:
        of_python_only = one.flag is None and not one.positional
        return "" if of_python_only or one.name in self._without else one.spelled

    def _call(self, **values: Any) -> Any:
        context = click.get_current_context()
        return self._run(*(_filled(struct, values, context) for struct in self._structs))

    def invoke(self, ctx: click.Context) -> Any:
        """Check options without opening files, then run the command.

        Raises:
            UsageError: options that do not go together, or standard input given twice.
            InputError: a file to be written is also read, or is to be written twice. The record and the lock of a
                model count as written, whatever the output is called.
        """
        given = {name for name in self.options if self._is_given(ctx, name)}
        for name in self.options:
            for message in self._contradictions(name, given):
                raise click.UsageError(message, ctx)
        data = [
            one for p in self.params if isinstance(p.type, DataFile) for one in _texts(ctx.params.get(p.name or ""))
        ]
        if data.count("-") > 1:
            raise click.UsageError("standard input can be read only once", ctx)
        self._check_outputs(ctx)
        return super().invoke(ctx)

    def _is_given(self, ctx: click.Context, name: str) -> bool:
        return ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT) and bool(ctx.params.get(name))

    def _contradictions(self, name: str, given: set[str]) -> list[str]:
        one = self.options[name]
        if name not in given:
            return []
        found = [
            f"{self._flag(one)} and {self._flag(self.options[other])} do not go together"
            for other in one.conflicts
            if other in given
        ]
        if one.needs in self.options and one.needs not in given:
            found.append(f"{self._flag(one)} is for {self._flag(self.options[one.needs])}, which is not given")
        return found

    def _check_outputs(self, ctx: click.Context) -> None:
        from boostrank.core.files import check_not_read, lock_path, record_path

        read, written = [], []
        for parameter in self.params:
            files = _texts(ctx.params.get(parameter.name or ""))
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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options in groups, the most used first; long commands show the rest with --help-all."""
        short = self.is_long and not ctx.meta.get(_ALL)
        sections: dict[str, list[tuple[str, str]]] = {"Most used": []}
        others = 0
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is None:
                continue
            common = isinstance(one, Flag) and (one.declared.common or one.required) and self.is_long
            if short and not common and one is not self.get_help_option(ctx):
                others += 1
                continue
            group = "Most used" if common else one.declared.group if isinstance(one, Flag) else "Options"
            sections.setdefault(group, []).append(record)
        rest = sections.pop("Options", [])
        if short:
            rest.insert(0, ("--help-all", f"Show the other {others} options too."))
        sections["Options"] = rest  # --help, last
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def command(name: str, *structs: type[Any], replaceable: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Command]:
    """Decorate a function that takes one struct of options per type; see `Command`."""
    return lambda run: Command(name, run, structs, (), replaceable)


_ALL = "boostrank.help-all"


def _print_all_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, tuple) else [value]) if isinstance(one, str)]


def _filled(struct: type[Any], values: Mapping[str, Any], context: click.Context) -> Any:
    """Make a struct from command line values; merge tables of the configuration by name."""
    found = {}
    for name, one in declared(struct).items():
        if name not in values or (one.flag is None and not one.positional):
            continue
        value = values[name]
        if one.kind.startswith("Mapping"):
            value = {**context.meta.get(name, {}), **dict(value or ())}
        elif one.several:
            value = tuple(value or ())
            if one.parse is not None and value and isinstance(value[0], tuple) and one.default is None:
                value = tuple(word for words in value for word in words)  # COLUMN,... given several times
            value = value or one.default
        found[name] = value
    return struct(**found)


def read_config(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Use the values of `--config` as defaults of the command.

    Raises:
        FileFormatError: not TOML, a key that is not an option of the command, or an option that is given twice.
    """
    if path is None:
        return None
    if not os.path.isfile(path):  # a pipe would be waited for
        raise InputError(f"{path}: not an ordinary file")
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # also for a number with thousands of digits
        raise FileFormatError(f"not TOML: {str(error).partition(';')[0]}", file=path) from None
    except RecursionError:
        raise FileFormatError("not a configuration: lists or tables are nested too deep", file=path) from None
    known = {_key(p): p for p in context.command.params if p is not parameter and _key(p) != "help"}
    defaults: dict[str, Any] = {}
    given: dict[str | None, str] = {}
    for key, value in content.items():
        if key in _OF_TRAIN and key not in known:
            continue
        option = known.get(key.replace("_", "-"))
        if option is None:
            raise FileFormatError(f"unknown key {key!r}.{did_you_mean(key, known)}", file=path)
        if (key in _TABLES) != isinstance(value, dict):
            what = f"{key!r} must be a table: write [{key}]"
            raise FileFormatError(what if key in _TABLES else f"{key!r} is an option, not a table", file=path)
        _check_numbers(key, value, path)
        if option.name in given:
            raise FileFormatError(f"{given[option.name]!r} and {key!r} are one option: it is given twice", file=path)
        given[option.name] = key
        if key in _TABLES:
            context.meta[_TABLES[key]] = value
        else:
            defaults[str(option.name)] = _as_typed(key, option, value, path)
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


def _check_numbers(key: str, value: Any, path: str) -> None:
    """Refuse whole numbers beyond 64 bits: no option takes them, and Python may refuse to print them."""
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else ((key, one) for one in value):
            _check_numbers(name, one, path)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise FileFormatError(f"{key}: a whole number that 64 bits do not hold", file=path)


def _as_typed(key: str, option: click.Parameter, value: Any, path: str) -> Any:
    """Return a value as typed on the command line, so that the option checks it."""
    shown = str(value).lower() if isinstance(value, bool) else repr(value)[:40]
    if isinstance(option, click.Option) and option.is_flag:
        if not isinstance(value, bool):
            raise FileFormatError(f"{key} = {shown}: true or false is wanted", file=path)
        return value
    values = value if isinstance(value, list) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, str | int | float) or "\0" in str(one):
            raise FileFormatError(f"{key} = {shown}: no value for --{_key(option)}", file=path)
    texts = [str(one) for one in values]
    several = option.nargs == -1 or (isinstance(option, click.Option) and option.multiple)
    return texts if several else ",".join(texts)


def _key(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")
