"""The public interface in lines: names and signatures, errors and exit statuses, options, objectives, keys of JSON."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from enum import EnumType
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from boostrank.cli import commands
from boostrank.cli import errors as statuses
from boostrank.core import errors
from boostrank.metrics import METRICS
from boostrank.objectives import OBJECTIVES
from tests.api.outputs import output_lines

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("public.txt")
_REQUEST = re.compile(r"set_\w+_request")
"""What scikit-learn puts into estimators, as its version has it."""


def lines() -> list[str]:
    """The whole list, in an order that does not depend on that of the sources."""
    names = [*sorted(_names()), *sorted(_errors()), *_statuses(), *_commands(), *_objectives(), *sorted(_metrics())]
    return [*names, *output_lines()]


def public_names() -> dict[str, tuple[str, ...]]:
    """Module -> its public names: what the pages of the API reference have."""
    sys.path.insert(0, str(ROOT / "docs" / "_generate"))
    try:
        pages: dict[str, Any] = importlib.import_module("api")._PAGES
    finally:
        sys.path.pop(0)
    found = {module: listed for _, _, parts in pages.values() for module, listed in parts}
    return {module: tuple(listed or importlib.import_module(module).__all__) for module, listed in found.items()}


def _names() -> Iterator[str]:
    for module, names in public_names().items():
        for name in names:
            if name != "__version__":
                yield from _of_object(f"{module}.{name}", getattr(importlib.import_module(module), name))


def _of_object(name: str, value: Any) -> Iterator[str]:
    """A function, or a class with what is its own."""
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if callable(value) else name
        return
    if issubclass(value, errors.BoostrankError):
        yield name
        return
    yield f"{name}{_signature(value)}"
    for base in value.__mro__:
        if not base.__module__.startswith("boostrank."):
            continue
        for attribute, member in vars(base).items():
            overridden = base is not value and attribute in vars(value)
            if overridden or attribute.startswith("_") or _REQUEST.fullmatch(attribute):
                continue
            if isinstance(member, property | cached_property):
                yield f"{name}.{attribute}"
            elif callable(getattr(value, attribute)):
                yield f"{name}.{attribute}{_signature(getattr(value, attribute))}"
            else:
                yield f"{name}.{attribute}"


def _signature(function: Any) -> str:
    """Names and defaults, without types."""
    if isinstance(function, EnumType):  # its members follow
        return ""
    found = inspect.signature(function)
    parameters = [
        one.replace(annotation=one.empty, default=one.default if _is_plain(one.default) else ...)
        for one in found.parameters.values()
    ]
    return str(inspect.Signature(parameters)).replace("Ellipsis", "...")


def _is_plain(value: Any) -> bool:
    return value is None or value is inspect.Parameter.empty or isinstance(value, str | int | float | bool | tuple)


def _errors() -> Iterator[str]:
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, Exception) and kind.__module__ == errors.__name__:
            status = f", exit status {kind.exit_code}" if issubclass(kind, errors.BoostrankError) else ""
            yield f"{errors.__name__}.{name}: {', '.join(base.__name__ for base in kind.__bases__)}{status}"


def _statuses() -> Iterator[str]:
    for name in ("DONE", "GATE_SHUT", "BAD_INPUT", "FAILED", "INTERRUPTED", "TERMINATED"):
        yield f"exit status {getattr(statuses, name)}: {name}"


def _commands() -> Iterator[str]:
    for name, command in commands().items():
        for one in sorted(command.params, key=lambda one: max(one.opts, key=len)):
            many = "..." if one.multiple or one.nargs == -1 else ""
            if isinstance(one, click.Argument):
                yield f"boostrank {name} {one.human_readable_name.removesuffix('...')}{many}"
            else:
                value = "" if one.is_flag else " VALUE"
                yield f"boostrank {name} {'/'.join([*one.opts, *one.secondary_opts])}{value}{many}"


def _objectives() -> Iterator[str]:
    for spec in OBJECTIVES:
        yield f"objective {', '.join([spec.name, *spec.aliases])}: {' '.join(param.name for param in spec.params)}"


def _metrics() -> Iterator[str]:
    for spec in METRICS:
        yield f"metric {spec.name}"
