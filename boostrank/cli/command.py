"""Creation of commands from option structs, with their flags, `--help`, `--config` keys and
conflicts.
"""

from __future__ import annotations

import glob
import math
import os
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, get_type_hints

import click
from click.core import ParameterSource

from boostrank.core.errors import FileFormatError, InputError, did_you_mean
from boostrank.options import Option, contradictions, declared

_TABLES = {"set": "settings", "param": "params"}
_OF_TRAIN = ("quality",)
"""The keys that `boostrank tune` writes for `train`. Other commands ignore them."""
_SHORT = 20
"""The number of options above which a command lists all of them with --help-all only."""
_ALL = "boostrank.help-all"
_LETTERS = {"output": "-o", "model": "-m"}
"""The short flags by option."""


class FloatRange(click.FloatRange):
    """A finite number in a range. In contrast, `click.FloatRange` accepts nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert as click does, and refuse nan and the infinities."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class File(click.Path):  # type: ignore[type-arg]
    """A file parameter, where `kind` is a value of `Option.file`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def convert(self, path: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, after the checks of its kind: readable, a data set, or an output. A data
        set may also be a folder with part files, or a pattern that matches files.

        Raises:
            InputError: there is no such file, or it cannot be read.
        """
        if self.kind == "data":
            # Cluster workers check their own files. The value of an option that is not given is a
            # click sentinel.
            on_cluster = ctx is not None and isinstance(ctx.params.get("cluster"), str)
            if path == "-" or on_cluster or os.path.isdir(path):
                return path
        if self.kind in ("data", "rankers") and glob.has_magic(path) and not os.path.exists(path):
            if not glob.glob(path, recursive=True):
                raise InputError(f"{path}: no file matches")
            return path
        if self.kind in ("read", "data", "rankers"):
            return readable(path)
        if self.kind in ("write", "output") and path == "-":
            self.fail(
                "'-' means standard output, which is not supported here; name a file, such as ./-",
                param,
                ctx,
            )
        return path


def readable(path: str) -> str:
    """Return the path of a file that can be read, or raise InputError."""
    if os.path.isdir(path):
        raise InputError(f"{path}: the path is a folder, not a file")
    if path == "-" and not os.path.exists(path):
        raise InputError(f"{path}: standard input is not supported here; write it to a file")
    if not os.access(path, os.R_OK):
        reason = "cannot be read" if os.path.exists(path) else "no such file"
        raise InputError(f"{path}: {reason}")
    return path


def _parameter_of(option: Option) -> click.Parameter:
    """Return the argument or the flag of an option."""
    keywords: dict[str, Any] = {"type": _type_of(option), "required": option.required}
    if option.positional:
        count = -1 if option.several else 1
        return click.Argument([option.name], metavar=option.metavar, nargs=count, **keywords)
    default = None if option.several or option.undecided else option.default
    # An explicit default of None would be treated as a given value.
    if not option.required:
        keywords["default"] = default
    metavar = {"int": "N", "float": "X"}.get(option.kind, "NAME")
    if option.choices:
        metavar = ""  # click lists them
    elif option.parse:
        metavar = option.parse[0]
    elif option.file not in ("", "objective"):
        metavar = "FILE"
    callback = read_config if option.name == "config" else None
    return click.Option(
        [*filter(None, [_LETTERS.get(option.name)]), option.spelled, option.name],
        help=option.help + " May be repeated." * option.several,
        show_default=option.shown or (default is not None and default is not False),
        is_flag=option.kind == "bool",
        multiple=option.several,
        metavar=option.metavar or metavar or None,
        is_eager=option.name in ("config", "cluster"),
        callback=callback,
        **keywords,
    )


def _type_of(option: Option) -> Any:
    if option.parse is not None:
        parse = option.parse[1]
        return lambda value: parse(str(value))
    if option.file:
        return click.Path(file_okay=False) if option.file == "folder" else File(option.file)
    if option.choices:
        return click.Choice(option.choices, case_sensitive=False)
    if option.kind == "int":
        return click.IntRange(option.ge, option.le)  # type: ignore[arg-type]
    if option.kind == "float":
        low = option.ge if option.gt is None else option.gt
        return FloatRange(low, option.le, min_open=option.gt is not None)
    return None if option.kind == "bool" else str


class Command(click.Command):
    """A command, made from a function of its name that takes option structs. If two options have
    the same flag, the first struct's is used.

    Args:
        run: function that runs the command, and whose docstring is the help text.
        replaceable: names of options whose files the command may overwrite.
    """

    def __init__(self, run: Callable[..., Any], replaceable: Sequence[str] = ()) -> None:
        self._run, self._replaceable = run, replaceable
        self._structs = [
            kind for parameter, kind in get_type_hints(run).items() if parameter != "return"
        ]
        flags: dict[str, Option] = {}
        for struct in self._structs:
            for option in declared(struct).values():
                if option.positional or option.flag is not None:
                    flags.setdefault(option.spelled, option)
        self.options = {option.name: option for option in flags.values()}
        params: list[click.Parameter] = [_parameter_of(option) for option in flags.values()]
        self.is_long = len(params) > _SHORT and any(option.common for option in flags.values())
        if self.is_long:
            help_all = click.Option(
                ["--help-all"],
                callback=_print_all_help,
                is_flag=True,
                is_eager=True,
                expose_value=False,
                hidden=True,
            )
            params.append(help_all)
        name = run.__name__.replace("_", "-")
        super().__init__(name, callback=self._call, params=params, help=run.__doc__)

    def _call(self, **values: Any) -> Any:
        context = click.get_current_context()
        return self._run(*(_fill_struct(struct, values, context) for struct in self._structs))

    def invoke(self, ctx: click.Context) -> Any:
        """Check the options without opening files, and then run the command.

        Raises:
            UsageError: options cannot be used together, or standard input is given twice.
            InputError: an output file is also read, or is written twice. A model's record and lock
                are treated as output files, whatever their names are.
        """
        unset = (None, ParameterSource.DEFAULT)
        names = [
            name
            for name in self.options
            if ctx.get_parameter_source(name) not in unset and ctx.params.get(name)
        ]
        for message in contradictions(self.options, names, lambda option: option.spelled):
            raise click.UsageError(message, ctx)
        files: dict[str, list[str]] = defaultdict(list)
        for name, option in self.options.items():
            kind = "replaceable" if name in self._replaceable else option.file
            value = ctx.params.get(name)
            values = value if isinstance(value, tuple) else [value]
            files[kind] += [path for path in values if isinstance(path, str)]
        if (files["data"] + files["replaceable"]).count("-") > 1:
            raise click.UsageError("standard input can be read only once", ctx)
        # Check that output files can be written, are distinct, and are not also read.
        from boostrank.core.files import check_not_read, check_writable, lock_path, record_path

        def paths_of(*kinds: str) -> list[str]:
            return [path for kind in kinds for path in files[kind] if path != "-"]

        read = paths_of("read", "data", "rankers", "either")
        modules = [path for path in paths_of("objective") if ".py" in path]
        read += [path.rpartition(".py")[0] + ".py" for path in modules]
        written = paths_of("write", "output", "stream")
        for number, path in enumerate(written):
            check_not_read(path, read)
            others = [other for other in written if other != path]
            taken = [*written[:number], *map(record_path, others), *map(lock_path, others)]
            if os.path.realpath(path) in map(os.path.realpath, taken):
                raise InputError(f"{path}: the file would be written twice; name another file")
        for path in files["write"]:
            check_writable(path)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups, the most used first. Commands with many options need
        --help-all for the rest.
        """
        sections: dict[str, list[Any]] = defaultdict(list, {"Most used": []})
        for param in self.get_params(ctx):
            heading, record = "Options", param.get_help_record(ctx)
            option = self.options.get(str(param.name))
            if option is not None:
                is_common = self.is_long and (option.common or option.required)
                heading = "Most used" if is_common else option.group
            if record is not None and isinstance(param, click.Option):
                sections[heading].append(record)
        # The option --help comes last.
        ending = sections.pop("Options")
        if self.is_long and not ctx.meta.get(_ALL):
            most_used, *others = sections.values()
            count = sum(map(len, others)) + len(ending) - 1
            sections = {"Most used": most_used}
            ending = [("--help-all", f"Show the other {count} options as well."), ending[-1]]
        for heading, records in {**sections, "Options": ending}.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _print_all_help(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help())
        context.exit()


def _fill_struct(struct: type[Any], values: Mapping[str, Any], context: click.Context) -> Any:
    """Create an option struct from the command-line values, and merge configuration tables by
    name.
    """
    fields = {}
    for name, option in declared(struct).items():
        if name not in values or (option.flag is None and not option.positional):
            continue
        value = values[name]
        if option.kind.startswith("Mapping"):
            value = {**context.meta.get(name, {}), **dict(value or ())}
        elif option.several:
            value = tuple(value or ())
            if option.parse is not None and option.default is None:  # lists, maybe several
                value = tuple(chain.from_iterable(value))
            value = value or option.default
        fields[name] = value
    return struct(**fields)


def read_config(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Use the values in the `--config` file as the command's defaults.

    Raises:
        FileFormatError: the file is not TOML, a key is not an option of the command, or an option
            is given twice.
    """
    if path is None:
        return None
    if not os.path.isfile(path):  # reading a pipe could block
        raise InputError(f"{path}: the path is not an ordinary file")
    from boostrank.core.files import read_text

    text = read_text(path)
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # also raised for a number with thousands of digits
        raise FileFormatError(f"not TOML: {str(error).partition(';')[0]}", file=path) from None
    except RecursionError:
        raise FileFormatError("its lists or tables are nested too deeply", file=path) from None
    params = {_key(p): p for p in context.command.params if p is not parameter}
    defaults: dict[str, Any] = {}
    keys: dict[str | None, str] = {}
    try:
        for key, value in content.items():
            if key in _OF_TRAIN and key not in params:
                continue
            param = params.get(key.replace("_", "-"))
            if param is None:
                raise ValueError(f"unknown key {key!r}.{did_you_mean(key, params)}")
            if (key in _TABLES) != isinstance(value, dict):
                kind = f"a table, [{key}]" if key in _TABLES else "a value, not a table"
                raise ValueError(f"{key!r} must be {kind}")
            _check_values(key, value)
            if param.name in keys:
                raise ValueError(f"{keys[param.name]!r} and {key!r} are the same option")
            keys[param.name] = key
            if key in _TABLES:
                context.meta[_TABLES[key]] = value
            else:
                defaults[str(param.name)] = _as_typed(key, param, value)
    except ValueError as error:
        raise FileFormatError(str(error), file=path) from None
    context.default_map = defaults
    return path


def _check_values(key: str, value: Any) -> None:
    """Refuse what no option takes: times, NUL, and integers beyond 64 bits, which Python may refuse
    to print.
    """
    if isinstance(value, dict):
        for name, item in value.items():
            _check_values(name, item)
    elif isinstance(value, list):
        for item in value:
            _check_values(key, item)
    else:
        is_large = isinstance(value, int) and value.bit_length() > 64
        if not isinstance(value, str | int | float) or is_large or "\0" in str(value):
            raise ValueError(
                f"{key}: no option takes a date, a time, the character NUL or an integer of more"
                " than 64 bits"
            )


def _as_typed(key: str, option: click.Parameter, value: Any) -> Any:
    """Return a value as it would be typed on the command line, so that the option checks it."""
    is_flag = isinstance(option, click.Option) and option.is_flag
    values = value if isinstance(value, list) else [value]
    if is_flag and isinstance(value, bool):
        return value
    if is_flag or any(isinstance(item, bool | list | dict) for item in values):
        raise ValueError(f"{key} = {value!r:.40}: no value for --{_key(option)}")
    texts = list(map(str, values))
    return texts if option.nargs == -1 or option.multiple else ",".join(texts)


def _key(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")
