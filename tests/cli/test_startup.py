"""`--help` answers at once, because nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import boostrank
from boostrank.backends import ENGINES
from boostrank.cli import _COMMANDS, file_tools, options, train_options
from boostrank.core.conventions import PRESETS
from boostrank.data.tools.file_tools import DEFAULT_MEMORY
from boostrank.training.params import DEFAULT_OBJECTIVE
from tests.cli.conftest import invoke

HEAVY = {"numpy", "numba", "scipy", "lightgbm", "xgboost", "rich", "concurrent.futures", "asyncio"}
LIST_MODULES = """
import sys
from boostrank.cli import main
try:
    main(sys.argv[1:])
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], *([command, "--help"] for command in _COMMANDS)],
    ids=" ".join,
)  # fmt: skip
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIST_MODULES, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert HEAVY.isdisjoint(done.stderr.split())


def test_version_is_the_package_s() -> None:
    assert invoke("--version").stdout == f"boostrank {boostrank.__version__}\n"


def test_what_help_says_without_importing_is_true() -> None:
    assert tuple(PRESETS) == options.CONVENTIONS
    assert tuple(ENGINES) == train_options.BACKENDS
    assert file_tools.DEFAULT_MEMORY_MB << 20 == DEFAULT_MEMORY
    assert train_options.DEFAULT_OBJECTIVE == DEFAULT_OBJECTIVE
