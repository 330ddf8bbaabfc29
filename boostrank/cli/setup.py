"""The command `boostrank compile`."""

from __future__ import annotations

import importlib
import time
from itertools import product
from typing import TYPE_CHECKING, Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import GATE_SHUT, Running, say
from boostrank.options import PLAIN, Options, option

if TYPE_CHECKING:
    from boostrank.kernels.jit import CompiledFunction

_MODULES = (
    "files.blocks files.text.parser kernels.curves kernels.driver kernels.forest kernels.metric"
    " kernels.primitives kernels.within_query"
)
_DEFAULTS = ("lambdarank", "xe-ndcg", "reg-shf-sdcg")
"""The objectives that train uses without options."""


class Compile(Options):
    """Options of `boostrank compile`."""

    objectives: tuple[str, ...] = option(
        "Compile this objective too; all: every objective.",
        file="objective",
    )
    check: bool = option("Say which functions have to be compiled, and compile nothing.")


@Command
def compile(options: Compile) -> None:
    """Compile the functions that train (without options), predict, evaluate and doctor need, and
    cache them.

    Run this when you build a container image. Later processes on the same type of processor load
    the machine code from the cache, in NUMBA_CACHE_DIR or ~/.cache/boostrank. Code that a wheel
    carries for this processor, Python and Numba needs no compiling. --check prints where the code
    is, and exits with status 1 if functions are missing.
    """
    from boostrank.core.errors import TrainingError
    from boostrank.kernels import jit
    from boostrank.kernels.jit import cache_directory, find_write_fault, shipped_code

    functions, directory = _functions(options.objectives), cache_directory()
    missing = {name: function for name, function in functions.items() if not function.at_hand}
    if options.check:
        if missing:
            Running.status = GATE_SHUT
        shipped = shipped_code()
        folders = [function.saved_in for function in functions.values()]
        note = f" ({shipped.fault})" if shipped.fault else f" for {shipped.target[1]}"
        echo(f"shipped with boostrank{note}: {folders.count(shipped.folder)}")
        echo(f"in {directory}: {folders.count(directory)}")
        echo(f"to compile: {len(missing)}" + "".join(f"\n    {name}" for name in missing))
        return

    if missing and (fault := find_write_fault(directory)):
        raise TrainingError(f"{directory}: cannot be written: {fault}")
    started = time.monotonic()
    # Another process compiles every second one.
    in_order = list(missing.values())
    jit.compile_aside(in_order[::2])
    for function in in_order[1::2] + in_order[::2]:
        function.compiled  # noqa: B018 (compiles at first use)
    say(f"{len(missing)} functions, {time.monotonic() - started:.0f} s")
    echo(directory)


def compile_aside(objective: str | None, quality: str | None) -> None:
    """Compile what a training needs after its data, in another process while they are read."""
    from boostrank.core.errors import ParameterError
    from boostrank.kernels import driver, jit, primitives
    from boostrank.objectives import OBJECTIVES

    names: tuple[str, ...] = (str(objective),)
    if objective in (None, "auto"):
        names = _DEFAULTS[:2] if quality == PLAIN else _DEFAULTS
    try:
        kernels = [OBJECTIVES.get(name).kernel for name in names]
    except ParameterError:  # a file, a mixture, or an objective of the engine
        return
    # In the order in which a training needs them.
    functions: list[CompiledFunction[..., Any]] = [primitives.compiled_sort, *kernels[:1]]
    functions += [driver.gradients_to(False, True), *kernels[1:2], driver.mix_documents]
    functions += [*kernels[2:], driver.gradients_to(True, True)]
    jit.compile_aside(functions)


def _functions(objectives: tuple[str, ...]) -> dict[str, CompiledFunction[..., Any]]:
    """Return the compiled functions of the package, of the default's objectives and of others."""
    from boostrank.kernels.driver import gradients_to
    from boostrank.kernels.jit import CompiledFunction
    from boostrank.metrics.measure import METRICS
    from boostrank.objectives import OBJECTIVES

    modules = [importlib.import_module(f"boostrank.{name}") for name in _MODULES.split()]
    functions = {
        f"{module.__name__.removeprefix('boostrank.')}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, CompiledFunction) and value.py_func.__module__ == module.__name__
    }
    for is_single, is_plain in product((True, False), repeat=2):
        name = f"gradients (float32={is_single}, plain={is_plain})"
        functions[name] = gradients_to(is_single, is_plain)
    functions |= {f"metric {spec.name}": spec.kernel for spec in METRICS}
    if "all" in objectives:
        objectives = tuple(OBJECTIVES.names())
    for name in (*_DEFAULTS, *objectives):
        functions[f"objective {name}"] = OBJECTIVES.get(name).kernel
    return functions
