"""The public interface in lines: names and signatures, errors and exit statuses, options,
objectives.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from boostrank.cli import commands
from boostrank.cli import errors as statuses
from boostrank.core import errors
from boostrank.metrics.measure import METRICS
from boostrank.objectives import OBJECTIVES

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("public.txt")


def lines() -> list[str]:
    """The whole list, in an order that does not depend on that of the sources."""
    return [
        *sorted(_names()),
        *sorted(_errors()),
        *_statuses(),
        *_commands(),
        *_objectives(),
        *sorted(_metrics()),
    ]


def public_names() -> dict[str, tuple[str, ...]]:
    """Module -> its public names: what the pages of the API reference have."""
    sys.path.insert(0, str(ROOT / "docs" / "_generate"))
    try:
        pages: dict[str, Any] = importlib.import_module("api")._PAGES
    finally:
        sys.path.pop(0)
    listings = {module: listed for _, _, parts in pages.values() for module, listed in parts}
    return {
        module: tuple(listed or importlib.import_module(module).__all__)
        for module, listed in listings.items()
    }


def _names() -> Iterator[str]:
    """Names of public modules; functions with their arguments. Members of classes stand in the API
    reference.
    """
    for module, names in public_names().items():
        for name in names:
            value = getattr(importlib.import_module(module), name)
            arguments = _signature(value) if callable(value) and not inspect.isclass(value) else ""
            yield f"{module}.{name}{arguments}"


def _signature(function: Any) -> str:
    """Names and defaults, without types."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        default = parameter.default if _is_plain(parameter.default) else ...
        parameters.append(parameter.replace(annotation=parameter.empty, default=default))
    return str(inspect.Signature(parameters)).replace("Ellipsis", "...")


def _is_plain(value: Any) -> bool:
    return (
        value is None
        or value is inspect.Parameter.empty
        or isinstance(value, str | int | float | bool | tuple)
    )


def _errors() -> Iterator[str]:
    for name, kind in vars(errors).items():
        if (
            inspect.isclass(kind)
            and issubclass(kind, Exception)
            and kind.__module__ == errors.__name__
        ):
            status = (
                f", exit status {kind.exit_code}" if issubclass(kind, errors.BoostrankError) else ""
            )
            yield (
                f"{errors.__name__}.{name}:"
                f" {', '.join(base.__name__ for base in kind.__bases__)}{status}"
            )


def _statuses() -> Iterator[str]:
    for name in ("DONE", "GATE_SHUT", "BAD_INPUT", "FAILED", "INTERRUPTED", "TERMINATED"):
        yield f"exit status {getattr(statuses, name)}: {name}"


def _commands() -> Iterator[str]:
    """Options by name, with the commands that take them."""
    takers: dict[str, list[str]] = {}
    for name, command in commands().items():
        for parameter in command.params:
            many = "..." if parameter.multiple or parameter.nargs == -1 else ""
            if isinstance(parameter, click.Argument):
                words = parameter.human_readable_name.removesuffix("...")
            else:
                words = "/".join([*parameter.opts, *parameter.secondary_opts]) + (
                    "" if parameter.is_flag else " VALUE"
                )
            takers.setdefault(words + many, []).append(name)
    for words, names in sorted(takers.items()):
        yield f"{words}: {', '.join(names)}"


def _objectives() -> Iterator[str]:
    for spec in OBJECTIVES:
        yield (
            f"objective {', '.join([spec.name, *spec.aliases])}:"
            f" {' '.join(param.name for param in spec.params)}"
        )


def _metrics() -> Iterator[str]:
    for spec in METRICS:
        yield f"metric {spec.name}"
