"""Examples in Markdown and notebooks: the fenced blocks of a page, or cells, and how each is run.

python               run in the page's one namespace, in order; with title="my.py" it is written
there sh                   its `boostrank` lines are run; what other tools do is not ours to test
console              `$ boostrank ...` is run, and the shown lines without digits must come out
again text, toml, dockerfile, nothing  read, not run
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

from click.testing import CliRunner

from boostrank.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(p for p in (ROOT / "docs").glob("**/*.md") if "_generate" not in p.parts),
    *sorted((ROOT / "docs" / "guide").glob("*.ipynb")),
]

_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# The examples are written for real data; here they get small files, and end soon.
_SMALLER = [
    (r"--queries \d{4}", "--queries 200"),
    (r"shop --queries \d+", "shop --queries 150"),
    (r"queries=\d+, mean_length", "queries=150, mean_length"),
    (r"--rounds \d+", "--rounds 6"),
    (r"(?m)^boostrank train ", "boostrank train --rounds 6 "),
    (r"--time \w+", "--time 1s"),
    (r"num_boost_round=\d+", "num_boost_round=6"),
    (r"shards, \d+,", "shards, 6,"),
    (r"n_estimators=\d+", "n_estimators=6"),
    (r"--trials \d+", "--trials 2 --rounds 6"),
    (r"--repeats \d+", "--repeats 3 --rounds 6"),
]
_NOT_OURS = ("make", "pip", "git", "cd", "dask", "pre-commit", ".")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the backticks, and what it holds."""

    language: str
    title: str
    text: str


def text_of(page: Path) -> str:
    """Markdown; of a notebook what `make docs` makes of it, its cells as `python` blocks."""
    if page.suffix == ".ipynb":
        source = run_path(str(ROOT / "docs" / "_generate" / "notebooks.py"))
        return str(source["as_markdown"](page))
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    parts = []
    for language, attributes, text in _FENCE.findall(text_of(page)):
        title = re.search(r'title="([^"]+)"', attributes)
        file_name = title[1] if title else ""
        parts.append(Block(language, file_name, text))
    return parts


def run_page(page: Path, replaced: dict[str, str]) -> str:
    """Run every example of a page in the current folder; what it printed.

    Args:
        page: Markdown.
        replaced: what a page names -> what stands for it here.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    for block in blocks(page):
        text = block.text
        for old, new in replaced.items():
            text = text.replace(old, new)
        for pattern, new in _SMALLER:
            text = re.sub(pattern, new, text)
        # Write, execute or run what the block says.
        if block.title:
            Path(block.title).write_text(text, encoding="utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"{page.name}: {text[:40]!r}...", "exec"), namespace)
        elif block.language == "sh":
            for line in lines_of(text):
                printed.write(run_line(line))
        elif block.language == "console":
            command, expected_output = text.removeprefix("$ ").split("\n", 1)
            out = run_line(command)
            missing = [
                line
                for line in constant_lines(expected_output)
                if line not in [*map(squeezed, out.splitlines())]
            ]
            assert not missing, f"{command}\nshows {missing}, which is not in\n{out}"
    return printed.getvalue()


def lines_of(text: str) -> list[str]:
    """The commands of a block, continued lines joined; comments and empty lines left out."""
    joined = text.replace("\\\n", " ").splitlines()
    return [line for line in joined if shlex.split(line, comments=True)]


def run_line(line: str) -> str:
    """Run `boostrank ...` in this process; what it printed, also into `> FILE`."""
    program, *arguments = shlex.split(line, comments=True)
    if program != "boostrank":
        assert program in _NOT_OURS, f"{line}: neither boostrank nor one of {_NOT_OURS}"
        return ""
    target = None
    if ">" in arguments:
        at = arguments.index(">")
        arguments, target = arguments[:at], arguments[at + 1]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, (
        f"{line}\nends with {result.exit_code}\n{result.stdout}{result.stderr}"
    )
    if target is not None:
        Path(target).write_text(result.stdout, encoding="utf-8")
    return result.stdout


def constant_lines(printed: str) -> list[str]:
    """The lines of an output that do not follow from the data: those without a digit."""
    lines = [squeezed(line) for line in printed.splitlines()]
    return [line for line in lines if line and "..." not in line and not re.search(r"\d", line)]


def squeezed(line: str) -> str:
    """A line with single blanks: the width of columns follows from numbers."""
    return " ".join(line.split())
