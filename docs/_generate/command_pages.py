"""The command reference: what `boostrank COMMAND --help` prints, of every command."""

from __future__ import annotations

import click
from click.testing import CliRunner

from boostrank.cli import main

_WIDTH = 100


def pages() -> dict[str, str | bytes]:
    """`commands/index.md`, and a page a command in the order in which `boostrank --help` lists them."""
    context = click.Context(main)
    names = main.list_commands(context)
    commands = {name: main.get_command(context, name) for name in names}
    rows = [f"| [`{name}`]({name}.md) | {command.short_help} |" for name, command in commands.items() if command]
    index = (
        "# Commands\n\nWhat `boostrank --help` and `boostrank COMMAND --help` print.\n\n| command | what it does |\n"
        "|---|---|\n" + "\n".join(rows) + "\n\n" + _help()
    )
    return {"commands/index.md": index} | {f"commands/{n}.md": f"# `boostrank {n}`\n\n{_help(n)}" for n in names}


def _help(*command: str) -> str:
    result = CliRunner().invoke(main, [*command, "--help"], terminal_width=_WIDTH, max_content_width=_WIDTH)
    if result.exit_code:
        raise RuntimeError(f"boostrank {' '.join(command)} --help: {result.output}")
    return f"```text\n{result.output.rstrip()}\n```\n"
