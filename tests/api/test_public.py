"""The public interface is the one that is kept, and the page about it says what is so."""

from __future__ import annotations

import difflib
import re

from boostrank.core import errors
from tests.api.listing import LIST, ROOT, lines, public_names

PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def test_the_public_interface_is_the_kept_list() -> None:
    kept = LIST.read_text(encoding="utf-8").splitlines()
    changed = list(difflib.unified_diff(kept, lines(), "kept", "now", n=0, lineterm=""))
    assert not changed, "\n".join(
        ["the interface has changed; if on purpose: make api, and CHANGELOG.md", *changed]
    )


def test_the_page_has_the_exceptions_and_their_exit_statuses() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (\d) \|$", PAGE, re.MULTILINE)
    documented = {
        name: (re.findall(r"`(\w+)`", bases), int(status)) for name, bases, status in rows
    }
    kept = re.findall(
        rf"^{errors.__name__}\.(\w+): (.+), exit status (\d)$",
        LIST.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert documented == {name: (bases.split(", "), int(status)) for name, bases, status in kept}


def test_the_page_has_the_exit_statuses_of_the_command_line() -> None:
    section = PAGE.partition("| exit status | |")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in section.splitlines() if row)
    documented = {int(number) for cell in cells for number in re.findall(r"\d+", cell)}
    kept = {
        int(number) for number in re.findall(r"exit status (\d+)", LIST.read_text(encoding="utf-8"))
    }
    assert documented == kept


def test_the_page_has_the_public_modules() -> None:
    public = PAGE.partition("## Python\n")[2].partition("| exception")[0]
    documented = set(re.findall(r"`(boostrank[\w.]*)`", public))
    assert documented == set(public_names())


def test_messages_name_options_that_exist() -> None:
    others = {
        "--help",
        "--debug",
        "--upgrade",
        "--data-binary",
        "--data-urlencode",
    }  # of every command, and of pip and curl
    options = {option for line in lines() for option in re.findall(r"--[a-z-]+", line)} | others
    for path in sorted((ROOT / "boostrank").rglob("*.py")):
        assert (
            set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text(encoding="utf-8")))
            <= options
        ), path
