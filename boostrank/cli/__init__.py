"""The command line, which parses options, calls the library and prints results.

The modules that a command needs are imported only when it runs, so that `--help` responds
immediately.
"""

from __future__ import annotations

import difflib
import importlib
import os
import tomllib
from pathlib import Path
from typing import Any

import click

from boostrank import __version__
from boostrank.cli.errors import Running, run_reporting_errors
from boostrank.cli.signals import exit_at_interrupted_imports, exit_at_second_press
from boostrank.cli.streams import prepare_streams
from boostrank.core import machine
from boostrank.core.machine import openmp_environment

_COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
_GROUPS: dict[str, dict[str, str]] = _COMMANDS["groups"]


class _Commands(click.Group):
    """A group of commands whose modules are imported on first use."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._headings = {"Commands": _GROUPS[name]} if name in _GROUPS else _COMMANDS["headings"]
        self._summaries = {
            name: text for commands in self._headings.values() for name, text in commands.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        summary = self._summaries.get(cmd_name)
        if summary is None:
            return None
        if cmd_name in _GROUPS:
            return _Commands(
                cmd_name, help=summary, short_help=summary, context_settings=self.context_settings
            )
        module = self.name if self.name in _GROUPS else _COMMANDS["modules"].get(cmd_name, cmd_name)
        commands = importlib.import_module(f"boostrank.cli.{module}")
        command: click.Command = getattr(commands, cmd_name.replace("-", "_"))
        command.short_help = summary
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:  # suggest commands of groups too
            names = {word: f"{group} {word}" for group, words in _GROUPS.items() for word in words}
            names |= {name: name for name in self._summaries}
            hints = [
                f" Did you mean {names[word]!r}?"
                for word in difflib.get_close_matches(args[0], names, 1)
            ]
            ctx.fail(error.message + "".join(hints))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in self._headings.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))

    def main(self, args=None, prog_name=None, **extra):  # type: ignore[no-untyped-def, override]
        # Click prints errors on several lines and exits with status 1.
        extra.pop("standalone_mode", None)
        raise SystemExit(
            run_reporting_errors(
                lambda: super(_Commands, self).main(
                    args, "boostrank", standalone_mode=False, **extra
                )
            )
        )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="boostrank %(version)s")
@click.option(
    "--debug", is_flag=True, envvar="BOOSTRANK_DEBUG", help="Show the traceback of an error."
)
def cli(debug: bool) -> None:
    """Train, compare and export rankers of LightGBM and XGBoost.

    \b
    boostrank train train.txt --valid vali.txt --model model.txt
    boostrank evaluate model.txt test.txt
    boostrank compare old.txt model.txt test.txt --fail-if 'ndcg@10 < -0.002 at p<0.05'
    boostrank predict model.txt new.txt -o scores.txt
    boostrank report model.txt test.txt

    Write results to standard output, everything else to standard error. Exit status: 0 success,
    1 failed check (`compare --fail-if`, `doctor --strict`, `compile --check`, `verify`), 2 usage or
    bad input, 3 failure, 4 lost worker, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    Running.debug = debug
    # OpenMP reads its environment when the first engine is imported. Only the command line changes
    # it, not the library.
    os.environ.update(openmp_environment())


main = cli


def commands() -> dict[str, click.Command]:
    """Return all commands by name: `train`, `data split`, ..."""
    names: dict[str, Any] = {}
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, _Commands):
            for word in command.list_commands(context):
                names[f"{name} {word}"] = command.get_command(context, word)
        else:
            names[name] = command
    return names


def run() -> None:
    """Run the command line as a process."""
    exit_at_interrupted_imports()
    prepare_streams()
    exit_at_second_press()
    machine.own_process = True
    cli()
