"""The command reference: what `boostrank COMMAND --help-all` prints, for every command."""

from __future__ import annotations

from click.testing import CliRunner

from boostrank.cli import commands, main
from boostrank.cli.command import Command

_WIDTH = 100


def pages() -> dict[str, str | bytes]:
    """`commands/index.md`, and a page for each command in the order in which `boostrank --help`
    lists them.
    """
    found = {name.replace(" ", "-"): (name, command) for name, command in commands().items()}
    rows = [
        f"| [`{name}`]({page}.md) | {command.short_help} |"
        for page, (name, command) in found.items()
    ]
    index = (
        "# Commands\n\nWhat `boostrank --help` and `boostrank COMMAND --help-all` print.\n\n"
        "| command | what it does |\n"
        "|---|---|\n" + "\n".join(rows) + "\n\n" + _help([], "--help")
    )
    made: dict[str, str | bytes] = {"commands/index.md": index}
    for page, (name, command) in found.items():
        flag = "--help-all" if isinstance(command, Command) and command.is_long else "--help"
        made[f"commands/{page}.md"] = f"# `boostrank {name}`\n\n{_help(name.split(), flag)}"
    return made


def _help(command: list[str], flag: str) -> str:
    result = CliRunner().invoke(
        main, [*command, flag], terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    if result.exit_code:
        raise RuntimeError(f"boostrank {' '.join(command)} {flag}: {result.output}")
    return f"```text\n{result.output.rstrip()}\n```\n"
