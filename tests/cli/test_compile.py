"""`boostrank compile`: later commands find all machine code in the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numba
import pytest

from boostrank.cli import setup
from boostrank.files.blocks import drop_zeros, fill_dense
from boostrank.kernels import jit
from boostrank.kernels.jit import CompiledFunction
from boostrank.objectives import OBJECTIVES
from tests.cli.conftest import invoke, refuse

_RECORD = """
import json, sys
from boostrank.cli import main, setup
from boostrank.kernels import jit

def name_of(function):
    return f"{function.py_func.__module__}.{function.py_func.__qualname__}"

used = set()
load, aside = jit.CompiledFunction.__dict__["compiled"], jit.compile_aside

def compiled(function):
    used.add(name_of(function))
    return load.__get__(function)

def compile_aside(functions):
    used.update(map(name_of, functions))

jit.CompiledFunction.compiled, jit.compile_aside = property(compiled), compile_aside
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words
with open(sys.argv[2], "w") as file:
    json.dump(sorted(used), file)
"""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled here")
def test_later_commands_need_nothing_that_it_does_not_compile(tmp_path: Path, data: Path) -> None:
    """In a process of its own: this one has loaded functions already."""
    train = ["train", data / "train.txt", "--rounds", 3, "--model"]
    plain = ["--quality", "plain", "--threads", 1]
    commands: list[list[object]] = [
        [*train, "m.txt"],
        [*train, "p.txt", "--valid", data / "valid.txt", *plain],
        [*train, "r.txt", "--objective", "ranknet", *plain],
        ["predict", "m.txt", data / "test.txt", "--output", "scores.txt"],
        ["evaluate", "m.txt", data / "test.txt"],
        ["doctor", data / "train.txt"],
    ]
    words = json.dumps([[*map(str, command)] for command in commands])
    script = [sys.executable, "-c", _RECORD, words, "used.json"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr
    used = set(json.loads((tmp_path / "used.json").read_text()))
    assert "boostrank.files.text.parser.parse_lines" in used
    compiled = names_of(setup._functions(()))
    assert used - compiled == names_of([OBJECTIVES.get("ranknet").kernel])
    assert used <= names_of(setup._functions(("ranknet",)))


def names_of(functions: Iterable[CompiledFunction]) -> set[str]:
    """Names of functions in any process."""
    return {f"{each.py_func.__module__}.{each.py_func.__qualname__}" for each in functions}


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled here")
def test_what_is_missing_is_compiled_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two small functions and an empty cache."""
    cache = tmp_path / "cache" / "kernels"

    def functions(_: object) -> list[CompiledFunction]:
        """As a process that begins has them."""
        return [CompiledFunction(f.py_func, f.signature) for f in (fill_dense, drop_zeros)]

    def modified() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}

    monkeypatch.setattr(setup, "_functions", functions)
    monkeypatch.setattr(jit, "cache_directory", lambda: str(cache))
    # Nothing is compiled beside: another process would have a cache of its own.
    monkeypatch.setattr(jit, "compile_aside", lambda _: None)
    monkeypatch.setattr(jit, "shipped_code", lambda: jit.ShippedCode("", (), "not shipped"))
    result = invoke("compile")
    assert result.stdout == f"{cache}\n"
    assert result.stderr.startswith("2 functions compiled")
    before = modified()
    assert len(before) == 4
    assert invoke("compile").stderr.startswith("0 functions compiled")
    for function in functions(None):
        assert callable(function.compiled)
    assert modified() == before


def test_an_unknown_objective_is_refused_at_once() -> None:
    result = refuse("compile", "--objective", "shf-sdgc")
    assert "shf-sdcg" in result.stderr
