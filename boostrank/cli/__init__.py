"""The command line, which parses options, calls the library and prints results.

The modules that a command needs are imported only when it runs, so that `--help` responds
immediately.
"""

from __future__ import annotations

import difflib
import importlib
import os
from typing import Any

import click

from boostrank import __version__
from boostrank.cli.errors import run_reporting_errors, show_tracebacks
from boostrank.cli.process import exit_at_interrupted_imports, exit_at_second_press, prepare_streams
from boostrank.core import machine
from boostrank.core.errors import InputError
from boostrank.core.machine import openmp_environment

# Heading -> command -> summary.
_HEADINGS = {
    "Train": {
        "train": "Train a ranker from libsvm text or a table.",
        "refit": "Compute the leaves of a model again from other data.",
        "tune": "Search for the best parameters and write a config file for train.",
        "plan": "Estimate the memory of a training before it starts.",
        "objectives": "List objectives with parameters and papers, or check your own.",
        "study": "Compare objectives, measure noise, average models.",
    },
    "Evaluate": {
        "evaluate": "Measure models or score files with 95% intervals.",
        "compare": "Compare two rankers query by query, to stop a release that ranks worse.",
        "report": "Write a page about a ranker: metrics, features, worst queries.",
        "importance": "Measure the loss of the metric when a feature is shuffled.",
        "why": "Explain why one document ranks above another.",
    },
    "Deploy": {
        "predict": "Score documents.",
        "serve": "Score documents over HTTP.",
        "calibrate": "Map scores to expected grades.",
        "export": "Write a model for a search engine or library, and check its scores.",
        "verify": "Compare scores logged by a search engine with the model's.",
    },
    "Data": {
        "doctor": "Find faults in ranking data.",
        "data": "Join, split, sample, sort and generate data; count clicks.",
    },
    "Set up": {
        "compile": "Compile functions before they are needed, for container images.",
    },
}
_SUBCOMMANDS = {
    "data": {
        "split": "Split ranking data into training, validation and test queries.",
        "sample": "Draw whole queries from ranking data.",
        "shard": "Split ranking data into files of about equal size.",
        "sort": "Group the rows of each query.",
        "join": "Join judgements with logged features into a table.",
        "make": "Generate ranking data with a known truth.",
        "choose": "Choose documents for people to judge, with recorded chances.",
        "count-clicks": "Count clicks and impressions in session logs.",
        "propensities": "Estimate examination propensities from clicks.",
        "simulate-clicks": "Simulate clicks on graded documents with a known truth.",
    },
    "study": {
        "compare": "Compare objectives on your own data, each at its best learning rate.",
        "queries": "Compute how many queries people must judge to detect a difference.",
        "noise": "Measure the effect of seed, row order and queries on the metric.",
        "average": "Average several models into one model file.",
    },
}
_MODULES = {
    "plan": "doctor",
    "importance": "explain",
    "why": "explain",
    "calibrate": "predict",
    "verify": "export",
    "compile": "setup",
}
"""The modules of commands that are not named like their module or in the module of their group."""


class _Commands(click.Group):
    """A group of commands whose modules are imported on first use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        subcommands = _SUBCOMMANDS.get(self.name or "")
        self._headings = {"Commands": subcommands} if subcommands else _HEADINGS
        self._summaries = {
            name: text for commands in self._headings.values() for name, text in commands.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        summary = self._summaries[cmd_name]
        if cmd_name in _SUBCOMMANDS:
            return _Commands(
                cmd_name, help=summary, short_help=summary, context_settings=self.context_settings
            )
        module = self.name if self.name in _SUBCOMMANDS else _MODULES.get(cmd_name, cmd_name)
        commands = importlib.import_module(f"boostrank.cli.{module}")
        command: click.Command = getattr(commands, cmd_name.replace("-", "_"))
        command.short_help = summary
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        grouped = {
            word: f"{group} {word}" for group, words in _SUBCOMMANDS.items() for word in words
        }
        # `boostrank join` is `boostrank data join`, but `boostrank compare` is a command itself.
        if self.name not in _SUBCOMMANDS and args[0] in grouped.keys() - self._summaries.keys():
            args = [*grouped[args[0]].split(), *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:  # suggest commands of groups too
            names = {**grouped, **{name: name for name in self._summaries}}
            near = [
                f" Did you mean {names[word]!r}?"
                for word in difflib.get_close_matches(args[0], names, 1)
            ]
            raise click.UsageError(error.message + "".join(near), ctx) from None

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
    show_tracebacks(debug)
    # OpenMP reads its environment when the first engine is imported. Only the command line changes
    # it, not the library.
    os.environ.update(openmp_environment())
    threads = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if threads.lstrip("-0") == "" != threads or threads.startswith("-"):
        raise InputError(f"NUMBA_NUM_THREADS={threads[:20]}: must be 1 or more, or unset")


main = cli


def commands() -> dict[str, click.Command]:
    """Return all commands by name: `train`, `data split`, ..."""
    names: dict[str, click.Command] = {}
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, _Commands):
            subcommands = {
                word: command.get_command(click.Context(command), word)
                for word in command._summaries
            }
            names |= {
                f"{name} {word}": subcommand
                for word, subcommand in subcommands.items()
                if subcommand
            }
        elif command is not None:
            names[name] = command
    return names


def run() -> None:
    """Run the command line as a process."""
    exit_at_interrupted_imports()
    prepare_streams()
    exit_at_second_press()
    machine.own_process = True
    cli()
