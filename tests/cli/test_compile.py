"""`boostrank compile`: later commands find all machine code in the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from boostrank.cli import setup
from boostrank.files.blocks import drop_zeros, fill_dense
from boostrank.kernels import jit
from boostrank.kernels.jit import CompiledFunction
from tests.cli.conftest import invoke, refuse

_RECORD = """
import json, sys
from boostrank.cli import main, setup
from boostrank.kernels import jit

names = {function: name for name, function in setup._functions(("all",)).items()}
used = set()
load, aside = jit.CompiledFunction.__dict__["compiled"], jit.compile_aside

def compiled(function):
    used.add(names.get(function, function.__qualname__))
    return load.__get__(function)

def compile_aside(functions):
    used.update(names.get(function, function.__qualname__) for function in functions)

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
    assert {"objective lambdarank", "kernels.metric._rank", "files.text.parser.parse_lines"} < used
    assert used - set(setup._functions(())) == {"objective ranknet"}
    assert used <= set(setup._functions(("ranknet",)))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled here")
def test_what_is_missing_is_named_then_compiled_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two small functions and an empty cache."""
    cache = tmp_path / "cache" / "kernels"

    def functions(_: object) -> dict[str, CompiledFunction]:
        """As a process that begins has them."""
        loaded = {"dense": fill_dense, "sparse": drop_zeros}
        return {name: CompiledFunction(f.py_func, f.signature) for name, f in loaded.items()}

    def modified() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in cache.rglob("*.nb*")}

    monkeypatch.setattr(setup, "_functions", functions)
    monkeypatch.setattr(jit, "cache_directory", lambda: str(cache))
    # Nothing is compiled beside: another process would have a cache of its own.
    monkeypatch.setattr(jit, "compile_aside", lambda _: None)
    monkeypatch.setattr(jit, "shipped_code", lambda: jit.ShippedCode("", (), "not shipped"))
    checked = invoke("compile", "--check")
    assert (checked.exit_code, checked.stdout.split()[-2:]) == (1, ["dense", "sparse"])
    assert not modified()
    assert invoke("compile").stdout == f"{cache}\n"
    before = modified()
    assert len(before) == 4
    assert invoke("compile", "--check").exit_code == 0
    assert invoke("compile").exit_code == 0
    for function in functions(None).values():
        assert callable(function.compiled)
    assert modified() == before


def test_an_unknown_objective_is_refused_at_once() -> None:
    result = refuse("compile", "--objective", "shf-sdgc")
    assert "shf-sdcg" in result.stderr
