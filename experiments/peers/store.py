"""Store of trainings: a small JSON file a training, named by a hash of all that it depends on.

Each is written whole or not at all, so a process may be killed at any moment; several may work on
one folder.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from boostrank.core.files import write_atomically

Run = dict[str, Any]


def key_of(what: Mapping[str, Any]) -> str:
    """24 hexadecimal digits; the same for the same plain data in whatever order."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]


class Store:
    """Trainings by key.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._runs, self._locks = folder / "runs", folder / "locks"
        for path in (self._runs, self._locks):
            path.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, Run] = {}

    def get(self, key: str) -> Run | None:
        """What is there, None if it is still to be trained."""
        if key not in self._known:
            for path in self._places(key):
                if path.exists():
                    self._known[key] = json.loads(path.read_bytes())
                    break
        return self._known.get(key)

    def put(self, key: str, run: Run) -> None:
        """Keep it, here and on disk; what failed has an `error`."""
        good, failed = self._places(key)
        write_atomically(failed if "error" in run else good, (json.dumps(run) + "\n").encode())
        self._known[key] = run

    def forget_failures(self) -> None:
        """Let what failed be tried again."""
        for path in self._runs.glob("*.failed.json"):
            path.unlink(missing_ok=True)

    def _places(self, key: str) -> tuple[Path, Path]:
        return self._runs / f"{key}.json", self._runs / f"{key}.failed.json"

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Whether this process alone works on `name` now; the claim of a process that was killed
        ends with it.
        """
        with (self._locks / key_of({"name": name})).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def code_digest(
    modules: Sequence[str], within: Sequence[str] = ("boostrank.kernels.", "boostrank.objectives.")
) -> str:
    """Hash of the code of some modules and of what they import, as far as it lies `within`; words
    do not matter.

    Args:
        modules: names of modules.
        within: beginnings of names.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        spec = importlib.util.find_spec(name)
        if name in found or spec is None or not spec.origin:
            continue
        found[name], imported = _code(Path(spec.origin).read_text())
        waiting += [module for module in imported if module.startswith(tuple(within))]
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]


@cache
def _code(text: str) -> tuple[str, tuple[str, ...]]:
    """The code of a module without its docstrings, and the modules that it imports from."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    imported = [
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    ]
    return ast.dump(tree), tuple(imported)
