"""Values that a shell offers for an option: names of files that the registries find, none of which is imported."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib.util import find_spec

import click
from click.shell_completion import CompletionItem

from boostrank.engines import ENGINES
from boostrank.export import target_lines


def registered(package: str) -> list[str]:
    """Names of what a registry holds: those of its files, with dashes."""
    spec = find_spec(f"boostrank.{package}")
    places = spec.submodule_search_locations if spec is not None else None
    return sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules(places) if not one.name.startswith("_"))


def objectives() -> list[str]:
    """Of `--objective`, by name."""
    native = [f"{name}:{own}" for name, engine in ENGINES.items() for own in engine.native_objectives]
    return ["auto", *registered("objectives"), *native]


def metrics() -> list[str]:
    """Of `--metric`, and each cut at 10."""
    return [f"{name}{cut}" for name in registered("metrics") for cut in ("", "@10")]


_VALUES: dict[str, Callable[[], list[str]]] = {
    "--objective": objectives,
    "--metric": metrics,
    "--start": lambda: ["auto", "linear", "none"],
    "--gain": lambda: ["exponential", "linear"],
    "--to": lambda: [name for name, _ in target_lines()],
    "--format": lambda: ["auto", *registered("data.formats")],
}
_OR_FILES = ("--objective", "--start")


def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What an option may be completed to: the values known by its name, or those of its type, or files."""
    values = next((_VALUES[name] for name in parameter.opts if name in _VALUES), None)
    found = [] if values is None else [CompletionItem(value) for value in values() if value.startswith(incomplete)]
    if values is None:
        found = parameter.type.shell_complete(context, parameter, incomplete)
    # A shell that is offered files takes nothing else beside them.
    if not found and ((parameter.metavar or "").startswith("FILE") or set(parameter.opts) & set(_OR_FILES)):
        found = [CompletionItem(incomplete, type="file")]
    return found
