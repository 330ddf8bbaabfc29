"""Imports: no circle between files, those within functions and for type checkers included."""

from __future__ import annotations

import ast
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import boostrank

PACKAGE = Path(boostrank.__file__).parent


def import_graph(package: Path) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, at the top, in a function or for type
    checkers.
    """
    modules = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        imported = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in imported if name in modules and name != module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Modules that reach each other: one list a circle."""
    reached = {module: _reachable(graph, module) for module in graph}
    groups = {
        tuple(
            sorted(
                other for other in graph if other in reached[module] and module in reached[other]
            )
        )
        for module in graph
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph[waiting.pop()] - seen:
            seen.add(module)
            waiting.append(module)
    return seen


def test_a_circle_is_found(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from p.b import x\n")
    (package / "b.py").write_text("def f():\n    from p import c\n")
    (package / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a\n"
    )
    (package / "d.py").write_text("from p.a import y\n")
    assert circles(import_graph(package)) == [["p.a", "p.b", "p.c"]]


def test_no_circle_of_imports_between_files():
    assert circles(import_graph(PACKAGE)) == []


@pytest.mark.parametrize(
    "package",
    [
        "boostrank",
        "boostrank.files.tools",
        "boostrank.reporting",
        "boostrank.sklearn",
        "boostrank.tuning",
    ],
)
def test_every_public_name_is_there_without_a_warning(package):
    if package == "boostrank.sklearn":
        pytest.importorskip(
            "sklearn", reason="scikit-learn is not installed: pip install 'boostrank[sklearn]'"
        )
    module = import_module(package)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(module, name) is not None for name in module.__all__)
