"""Docstrings: the examples of public names and objectives run, and arguments are those of the
signature.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import boostrank
from boostrank.objectives import OBJECTIVES
from tests.docs.examples import ROOT

_NAMES = sorted(name for name in boostrank._MODULES if name != "__version__")
_NEEDED = {"tune": "optuna"}
_MODULES = [f"boostrank.objectives.{spec.name.replace('-', '_')}" for spec in OBJECTIVES]
_PASSED_ON = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SECTION = re.compile(r"^Args:\n((?:[ ].*\n|\n)*)", re.MULTILINE)
_ARGUMENTS = re.compile(r"^    (\w[\w, ]*):(?= |$)", re.MULTILINE)


def _run(name: str, documented: Any) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    examples = [test for test in finder.find(documented, name, globs={}) if test.examples]
    assert examples, f"{name} has no example"
    for test in examples:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")  # the data are tiny
@pytest.mark.parametrize("name", _NAMES)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    if name in _NEEDED:
        pytest.importorskip(_NEEDED[name])
    module = importlib.import_module(boostrank._MODULES[name])
    _run(name, module.__dict__[name])


@pytest.mark.parametrize("module", _MODULES)
def test_the_example_of_an_objective_runs(module: str) -> None:
    _run(module, importlib.import_module(module))


def documented_arguments(text: str) -> set[str]:
    """Return the names that the section `Args` of a docstring describes."""
    section = _SECTION.search(inspect.cleandoc(text) + "\n")
    groups = _ARGUMENTS.findall(section[1]) if section else []
    return {name.strip() for group in groups for name in group.split(",")}


def differences(path: Path) -> Iterator[str]:
    """Yield the public functions of a file whose section `Args` names what their signature lacks."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        names = documented_arguments(ast.get_docstring(node) or "")
        arguments = node.args
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        listed += [arguments.vararg] if arguments.vararg else []
        unknown = names - {argument.arg.rstrip("_") for argument in listed}
        if (
            unknown and arguments.kwarg is None
        ):  # else they are keywords that the function passes on
            yield (
                f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {', '.join(sorted(unknown))}"
            )


def test_arguments_in_docstrings_are_those_of_the_signature() -> None:
    files = sorted((ROOT / "boostrank").rglob("*.py"))
    assert [line for path in files for line in differences(path)] == []


def test_public_names_describe_each_argument_or_none() -> None:
    missing = {}
    for name in _NAMES:
        documented = getattr(boostrank, name)
        names = documented_arguments(documented.__doc__ or "")
        if not names or not callable(documented):
            continue
        parameters = inspect.signature(documented).parameters.values()
        required = {parameter.name for parameter in parameters if parameter.kind not in _PASSED_ON}
        if names & {"options", "params"}:  # they describe all keywords
            required -= {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        left_out = required - names
        if left_out:
            missing[name] = sorted(left_out)
    assert missing == {}


def test_an_argument_that_the_signature_lacks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(differences.__globals__, "ROOT", tmp_path)
    file = tmp_path / "my.py"
    file.write_text('def f(a, b):\n    """Add.\n\n    Args:\n        a, c: numbers.\n    """\n')
    assert list(differences(file)) == ["my.py:1 f: c"]
