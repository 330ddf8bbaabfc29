"""Put each fault of `mutations` into a copy of the sources and see that the fast core of the suite
fails.

Run by `test_mutation` in a process of its own, with numba's compiler off: every kernel is then
plain Python, loads in milliseconds, and tiny queries are enough.
"""

from __future__ import annotations

import importlib
import inspect
import py_compile
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import boostrank
from qa.mutation.baselines import BASELINES
from qa.mutation.mutations import MUTATIONS as FAMILY

MUTATIONS = [*FAMILY, *BASELINES]

_wanted: dict[str, Any] = {}
_seconds: dict[tuple[str, int], float] = {}
"""What each call of a test took without a fault; below 0 once it has noticed one. The least goes
first.
"""


def load_afresh(package: Path) -> None:
    """Forget every loaded module of the package, and find it in `package` from now on."""
    for name in list(sys.modules):
        if name.split(".")[0] == "boostrank" or name.startswith(
            ("tests.kernels", "tests.schedules")
        ):
            del sys.modules[name]
    sys.path[:] = [str(package.parent), *(p for p in sys.path if p != str(package.parent))]
    importlib.invalidate_caches()


def run(who: str) -> None:
    """Raise if the tests of `who` fail."""
    if who.startswith("tests."):
        module = importlib.import_module(who)
        tests = {
            n: t
            for n, t in vars(module).items()
            if n.startswith("test_") and not hasattr(t, "hypothesis")
        }
        calls = [
            ((f"{who}.{n}", i), t, args)
            for n, t in tests.items()
            for i, args in enumerate(_parametrised(t))
        ]
        calls = [
            call for call in calls if inspect.signature(call[1]).parameters.keys() == call[2].keys()
        ]  # no fixtures
        for call, test, arguments in sorted(calls, key=lambda call: _seconds.get(call[0], 0.0)):
            started = time.process_time()
            try:
                test(**arguments)
            except (AssertionError, pytest.fail.Exception):
                _seconds[call] = -1.0
                raise
            _seconds.setdefault(call, time.process_time() - started)
        return
    from tests.objectives.conformance import compare, expected, twin_of

    spec = importlib.import_module(f"boostrank.objectives.{who.replace('-', '_')}").SPEC
    twin = twin_of(who)
    if who not in _wanted:
        _wanted[who] = expected(spec, twin, combinations=6)
    compare(spec, twin, _wanted[who])


def _parametrised(test: Any) -> list[dict[str, Any]]:
    """The arguments that pytest would call a test with, one dictionary a call."""
    calls: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names, values = mark.args
        names = [names] if isinstance(names, str) else list(names)
        cells = [v if len(names) > 1 else [v] for v in values]
        rows = [dict(zip(names, row, strict=True)) for row in cells]
        calls = [call | row for call in calls for row in rows]
    return calls


def find_stale(package: Path) -> list[str]:
    """Return a line for each mutation whose code is not in its file any more."""
    return [
        f"STALE {file}: {old!r} is not there any more"
        for file, old, *_ in MUTATIONS
        if old not in (package / file).read_text(encoding="utf-8")
    ]


def keep_bytecode(package: Path) -> None:
    """Compile the loaded modules of a package, to be taken as long as their sources have the same
    hash: every fault loads all of them again.
    """
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None)
        if source and Path(source).is_relative_to(package):
            mode = py_compile.PycInvalidationMode.CHECKED_HASH
            py_compile.compile(source, quiet=2, invalidation_mode=mode)


def main(workplace: Path) -> int:
    """Returns the number of faults that no assertion noticed."""
    warnings.simplefilter("ignore")  # plain Python warns where compiled code does not
    sys.dont_write_bytecode = (
        True  # a mutated file of the same length and second would be taken from the cache
    )
    package = workplace / "boostrank"
    shutil.copytree(
        Path(boostrank.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    stale = find_stale(package)
    if stale:
        sys.stdout.write("\n".join([*stale, ""]))
        return len(stale)
    load_afresh(package)
    for who in sorted({who for *_, who in MUTATIONS}):
        run(who)
    keep_bytecode(package)
    unnoticed = 0
    for file, old, new, who in MUTATIONS:
        path = package / file
        source = path.read_text()
        path.write_text(source.replace(old, new))
        load_afresh(package)
        try:
            run(who)
        except (AssertionError, pytest.fail.Exception):
            pass
        except Exception as error:  # code that cannot run at all says nothing about the tests
            sys.stdout.write(
                f"BROKEN {file}: {old!r} -> {new!r} by {who}: {type(error).__name__}: {error}\n"
            )
            unnoticed += 1
        else:
            sys.stdout.write(f"UNNOTICED {file}: {old!r} -> {new!r} by {who}\n")
            unnoticed += 1
        path.write_text(source)
    sys.stdout.write(f"{len(MUTATIONS) - unnoticed} of {len(MUTATIONS)} faults noticed\n")
    return unnoticed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) != 0)
