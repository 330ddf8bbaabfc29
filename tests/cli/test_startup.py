"""`--help` answers at once, because nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from click.shell_completion import ShellComplete

import boostrank
from boostrank.cli import commands, main
from boostrank.cli.command import Command
from tests.cli.conftest import invoke

HEAVY = {"numpy", "numba", "scipy", "lightgbm", "xgboost", "rich", "concurrent.futures", "asyncio"}
LIST_HEAVY = """
import json, sys
from boostrank.cli import main

heavy, commands = json.loads(sys.argv[1])
for words in commands:
    try:
        main(words.split())
    except SystemExit as leaving:
        assert not leaving.code, words
    print(words, *(name for name in heavy if name in sys.modules), sep=",", file=sys.stderr)
"""
LIST_MODULES = """
import sys
from boostrank.cli import main
try:
    main(sys.argv[1:])
except SystemExit as leaving:
    assert not leaving.code, leaving.code
print(*sys.modules, file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    """Of one command after the other, in one process: the first that imports something is named."""
    words = ["--help", "--version", *(f"{name} --help" for name in commands())]
    request = json.dumps([sorted(HEAVY), words])
    done = subprocess.run(
        [sys.executable, "-c", LIST_HEAVY, request], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == words
    assert done.stdout.count("Usage: ") == len(words) - 1


def test_completion_imports_nothing_heavy() -> None:
    line = "boostrank train --quality pl"
    env = os.environ | {
        "_BOOSTRANK_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "plain,plain\n"
    assert HEAVY.isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("tra",), ["plain,train"]),
        (("train", "--objective", "my"), ["file,my"]),
        (("train", "--quality", "g"), ["plain,good"]),
        (("train", "--start", "lin"), ["plain,linear"]),
        (("report", "--only", "lear"), ["plain,learning"]),
        (("predict", "mod"), ["file,mod"]),
        (("train", "--feature-names", "na"), ["file,na"]),
    ],
    ids=" ".join,
)
def test_completion_offers_the_values_of_an_option(
    words: tuple[str, ...], offered: list[str]
) -> None:
    shell = ShellComplete(main, {}, "boostrank", "_BOOSTRANK_COMPLETE")
    completions = shell.get_completions([*words[:-1]], words[-1])
    assert [f"{completion.type},{completion.value}" for completion in completions] == offered


def test_bash_completes_with_the_script() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    completed = subprocess.run(
        [sys.executable, "-m", "boostrank"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"_BOOSTRANK_COMPLETE": "bash_source"},
    )
    script = (
        f'boostrank() {{ {sys.executable} -m boostrank "$@";'
        f" }}\n{completed.stdout}\nCOMP_WORDS=(boostrank train --quality pl)"
        " COMP_CWORD=3\n_boostrank_completion boostrank\necho $COMPREPLY"
    ).replace("env COMP_WORDS", "COMP_WORDS")  # a function of the shell is none of `env`'s programs
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "plain\n"


@pytest.mark.parametrize("name", ["train", "tune", "study noise"])
def test_the_help_of_long_commands_shows_the_most_used_options_and_all_of_them_when_asked(
    name: str,
) -> None:
    command = commands()[name]
    assert isinstance(command, Command)
    short = listed(invoke(*name.split(), "--help").stdout)
    full = listed(invoke(*name.split(), "--help-all").stdout)
    assert list(short) == ["Most used", "Options"]
    assert short["Options"] == ["--help-all", "--help"]
    assert 4 <= len(short["Most used"]) <= 10
    assert short["Most used"] == full["Most used"]
    words = [word for names in full.values() for word in names]
    assert len(words) == len(set(words)) == len(command.params) - 1  # TRAIN and --help-all; --help
    assert (
        f"{len(words) - len(short['Most used']) - 1} options"
        in invoke(*name.split(), "--help").stdout
    )


def listed(text: str) -> dict[str, list[str]]:
    """Heading -> flags under it."""
    sections = re.findall(r"^([A-Z][\w ]+):\n((?:(?:  .*)?\n)+)", text, re.MULTILINE)
    return {
        title: re.findall(r"^  (?:-\w, )?(--[\w-]+)", part, re.MULTILINE)
        for title, part in sections
    }


def test_there_are_at_most_18_commands_at_the_top_and_106_options() -> None:
    listed_at_top = invoke("--help").stdout.split("Train:")[1].split("Set up:")[0]
    assert len(re.findall(r"^  [a-z]", listed_at_top, re.MULTILINE)) <= 18
    flags = {
        max(p.opts, key=len)
        for command in commands().values()
        for p in command.params
        if isinstance(p, click.Option)
    }
    assert len(flags) <= 106


def test_version_is_the_package_s() -> None:
    assert invoke("--version").stdout == f"boostrank {boostrank.__version__}\n"
