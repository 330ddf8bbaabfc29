"""`make size`: how large the package is, and how many places an option, an engine or a parameter
touches.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from boostrank.engines.base import Backend
from boostrank.options import TrainOptions

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "boostrank"
NORMALISERS = ("split_params", "prepare", "Conventions.of")
"""Functions that normalise parameters."""
MANY_PARAMETERS = 10
GIVEN = 'given["'


def _trees(*without: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in without:
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _words(path: Path) -> set[str]:
    return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def _naming(option: str) -> list[str]:
    """Files that name an option as a word of code or text."""
    return [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if option in _words(path)
    ]


def _calls(name: str) -> list[str]:
    """Places which call a function, by its dotted name."""
    call_places = []
    for path, tree in _trees():
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        places = (
            node.lineno for node in calls if ast.unparse(node.func).split("self.")[-1] == name
        )
        call_places += [f"{path.relative_to(PACKAGE)}:{line}" for line in places]
    return call_places


def _long_signatures() -> list[str]:
    """Functions with many parameters, outside of kernels and objectives."""
    functions = []
    for path, tree in _trees("kernels", "objectives"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
                count -= bool(node.args.args) and node.args.args[0].arg in ("self", "cls")
                if count >= MANY_PARAMETERS:
                    functions.append(f"{path.relative_to(PACKAGE)}: {node.name} ({count})")
    return functions


def _of_backend() -> tuple[list[str], list[str]]:
    """Methods and other attributes that an engine may have."""
    public = {name: value for name, value in vars(Backend).items() if not name.startswith("_")}
    methods = [name for name, value in public.items() if callable(value)]
    attributes = {*public, *Backend.__annotations__}
    return methods, sorted(attributes - set(methods))


def lines() -> Iterator[str]:
    """The numbers."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    yield f"{sum(text.count(chr(10)) for text in texts.values()):,} lines in {len(texts)} files"
    yield f"{sum(text.count('fmt: skip') for text in texts.values())} times `fmt: skip`"
    uses = sum(
        text.count(GIVEN) for path, text in texts.items() if path.is_relative_to(PACKAGE / "cli")
    )
    yield f"{uses} times `{GIVEN}` in the command line"
    for name in NORMALISERS:
        places = _calls(name)
        yield f"{name}: called at {len(places)} places: {', '.join(places)}"
    methods, flags = _of_backend()
    yield f"Backend: {len(methods)} methods, {len(flags)} attributes ({', '.join(flags)})"
    long = _long_signatures()
    yield f"{len(long)} functions with {MANY_PARAMETERS} parameters or more: {'; '.join(long)}"
    yield "files that name an option of training:"
    for field in fields(TrainOptions):
        places = _naming(field.name)
        if field.name in ("max_trees", "within_query", "init_model", "quality"):
            yield f"  {field.name}: {len(places)}: {', '.join(places)}"
    public = (ROOT / "tests" / "api" / "public.txt").read_text(encoding="utf-8")
    yield f"{public.count(chr(10)):,} lines of tests/api/public.txt"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
