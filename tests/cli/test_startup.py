"""`--help` answers at once, because nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

import boostrank
from boostrank.cli import _COMMANDS, choices, completion, file_tools, main, options, train_options
from boostrank.cli.options import Command
from boostrank.core.conventions import PRESETS
from boostrank.data.source import FORMATS
from boostrank.data.tools import DEFAULT_MEMORY
from boostrank.engines import ENGINES
from boostrank.export import TARGETS, target_lines
from boostrank.fit.params import DEFAULT_OBJECTIVE
from boostrank.metrics import METRICS
from boostrank.objectives import OBJECTIVES
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
    [["--help"], ["--version"], ["completion", "fish"], *([command, "--help"] for command in _COMMANDS)],
    ids=" ".join,
)  # fmt: skip
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIST_MODULES, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert HEAVY.isdisjoint(done.stderr.split())


def test_completion_imports_nothing_heavy() -> None:
    line = "boostrank evaluate m --metric nd"
    env = os.environ | {"_BOOSTRANK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "4"}
    done = subprocess.run([sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "plain,ndcg\nplain,ndcg@10\n"
    assert HEAVY.isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("tra",), ["plain,train"]),
        (("train", "--objective", "shf"), ["plain,shf-sdcg"]),
        (("train", "--objective", "my"), ["file,my"]),
        (("train", "--quality", "g"), ["plain,good"]),
        (("train", "--start", "lin"), ["plain,linear"]),
        (("evaluate", "m", "--metric", "nd"), ["plain,ndcg", "plain,ndcg@10"]),
        (("report", "--only", "lear"), ["plain,learning"]),
        (("export", "m", "--to", "vespa"), ["plain,vespa", "plain,vespa-lightgbm"]),
        (("objectives", "yet"), ["plain,yetirank"]),
        (("predict", "mod"), ["file,mod"]),
        (("train", "--feature-names", "na"), ["file,na"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_completion_offers_the_values_of_an_option(words: tuple[str, ...], offered: list[str]) -> None:
    shell = ShellComplete(main, {}, "boostrank", "_BOOSTRANK_COMPLETE")
    found = shell.get_completions([*words[:-1]], words[-1])
    assert [f"{one.type},{one.value}" for one in found] == offered


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script_of_a_shell_asks_boostrank(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0, result.stderr
    assert f"_BOOSTRANK_COMPLETE={shell}_complete" in result.stdout


def test_bash_completes_with_the_script() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = (
        f'boostrank() {{ {sys.executable} -m boostrank "$@"; }}\n{invoke("completion", "bash").stdout}\n'
        "COMP_WORDS=(boostrank train --quality pl) COMP_CWORD=3\n_boostrank_completion boostrank\necho $COMPREPLY"
    ).replace("env COMP_WORDS", "COMP_WORDS")  # a function of the shell is none of `env`'s programs
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "plain\n"


def test_names_that_completion_takes_from_files_are_those_of_the_registries() -> None:
    assert choices.objectives()[1 : 1 + len(OBJECTIVES.names())] == sorted(OBJECTIVES.names())
    assert choices.registered("metrics") == sorted(METRICS.names())
    assert [name for name, _ in target_lines()] == TARGETS.names()
    assert choices.registered("data.formats") == sorted(FORMATS.names())


@pytest.mark.parametrize("command", ["train", "tune", "noise"])
def test_the_help_of_long_commands_begins_with_the_options_most_used(command: str) -> None:
    sections = re.findall(r"^([A-Z][\w ]+):\n((?:(?:  .*)?\n)+)", invoke(command, "--help").stdout, re.MULTILINE)
    options = {title: re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE) for title, text in sections}
    assert next(iter(options)) == "Most used"
    found = main.get_command(click.Context(main), command)
    assert isinstance(found, Command)
    assert len(options["Most used"]) == len(found.most_used) <= 10
    listed = [name for names in options.values() for name in names]
    assert len(listed) == len(set(listed)) == len(found.params)  # --help for TRAIN


def test_version_is_the_package_s() -> None:
    assert invoke("--version").stdout == f"boostrank {boostrank.__version__}\n"


def test_what_help_says_without_importing_is_true() -> None:
    assert tuple(PRESETS) == options.CONVENTIONS
    assert tuple(ENGINES) == train_options.BACKENDS
    assert file_tools.DEFAULT_MEMORY_MB << 20 == DEFAULT_MEMORY
    assert train_options.DEFAULT_OBJECTIVE == DEFAULT_OBJECTIVE
