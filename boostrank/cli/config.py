"""`--config run.toml`: long option names as keys, tables `[set]` and `[param]`; the command line wins."""

from __future__ import annotations

import os
import tomllib
from typing import Any

import click

from boostrank.core.errors import FileFormatError, InputError, did_you_mean

_OF_TRAIN = {"quality"}
"""What `boostrank tune` writes for `train` alone; other commands take the file as well."""
_TABLES = {"set": "settings", "param": "params"}


def read_config(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Callback of the eager option `--config`: its values become the defaults of the command.

    Raises:
        FileFormatError: not TOML, a key that is no option of the command, or an option that is given twice.
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
    except ValueError as error:  # also of a number with thousands of digits
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
            raise FileFormatError(
                f"{key!r} must be a table: write [{key}]" if key in _TABLES else f"{key!r} is an option, not a table",
                file=path,
            )
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
    """Refuse whole numbers that no option and no engine has: Python would not even write the longest of them as text.

    Raises:
        FileFormatError: one that 64 bits do not hold.
    """
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else ((key, one) for one in value):
            _check_numbers(name, one, path)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise FileFormatError(f"{key}: a whole number that 64 bits do not hold", file=path)


def _as_typed(key: str, option: click.Parameter, value: Any, path: str) -> Any:
    """A value as it would be typed behind the option, so that the option's own type looks at it.

    Raises:
        FileFormatError: nothing that could be typed there.
    """
    if isinstance(option, click.Option) and option.is_flag:
        if not isinstance(value, bool):
            raise FileFormatError(f"{key} = {_shown(value)}: true or false is wanted", file=path)
        return value
    values = value if isinstance(value, list) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, str | int | float) or "\0" in str(one):
            raise FileFormatError(f"{key} = {_shown(one)}: no value for --{_key(option)}", file=path)
    texts = [str(one) for one in values]
    # Which click splits by itself when it is typed.
    return texts if isinstance(option, click.Option) and option.multiple else ",".join(texts)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)[:40]


def merged_with_config(context: click.Context, table: str, given: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The table `[set]` or `[param]` with that of the command line, which wins name by name."""
    return {**context.meta.get(_TABLES[table], {}), **dict(given)}


def _key(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")
