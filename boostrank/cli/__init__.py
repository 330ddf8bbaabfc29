"""The command line: parse, call the library, print. Nothing is computed here.

Modules that a command needs are imported when that command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import importlib
import os
import traceback
from typing import Any

import click

from boostrank import __version__
from boostrank.cli.errors import OutputClosed, run_reporting_errors
from boostrank.core import process
from boostrank.core.errors import InputError
from boostrank.core.machine import openmp_environment
from boostrank.core.process import leave_at_second_press, stop_quietly, take_over_streams

# command -> (module, or module:name; its line in the list of commands)
_COMMANDS = {
    "train": ("train", "Train a ranker from libsvm text or a table."),
    "average": ("average", "Several models as one model file."),
    "tune": ("tune", "Search for the parameters that rank best, into a config file for train."),
    "plan": ("plan", "What training on some files will cost, before it starts."),
    "export": ("export", "A model as the programs that serve rankers read it, proved."),
    "verify": ("verify", "Compare scores that a search engine logged with the model's, and name the cause."),
    "predict": ("predict", "Score documents, one score a line in input order."),
    "evaluate": ("evaluate", "Measure models or score files, and compare them query by query."),
    "metrics": ("metrics", "One metric as each library computes it, and why they differ."),
    "compare": ("compare", "Compare two rankers, and refuse the new one if it is worse."),
    "why": ("why", "Why one document of a query stands above another."),
    "pareto": ("pareto", "What a second goal, such as margin, costs of the first, mix by mix."),
    "noise": ("noise", "What seeds, row order and the draw of queries alone do to the metric."),
    "report": ("report", "Everything about a ranker on one page."),
    "importance": ("importance", "What each feature is worth to the ranking."),
    "objectives": ("objectives", "What each objective is, its parameters and its paper."),
    "check-objective": ("check_objective", "Check an objective of your own, and say what to mend."),
    "doctor": ("doctor", "Look for what is wrong with ranking data, and how to mend it."),
    "split": ("file_tools:split", "Split ranking data into training, validation and test queries."),
    "sample": ("file_tools:sample", "Draw whole queries from ranking data."),
    "shard": ("file_tools:shard", "Spread ranking data over files of about equal size."),
    "sort": ("file_tools:sort", "Bring the rows of each query together."),
    "merge": ("file_tools:merge", "Join ranking data sets into one file."),
    "make-data": ("make_data", "Generate realistic ranking data with a known truth."),
    "count-clicks": ("count_clicks", "Session logs, a row an impression, added up by document and position."),
    "propensities": ("propensities", "How likely each position is looked at, from clicks on documents that moved."),
    "simulate-clicks": ("simulate_clicks", "Clicks on graded documents with a known truth."),
    "compile": ("compile", "Compile what train, predict, evaluate and doctor need, for a container image."),
    "completion": ("completion", "Commands, options and their values completed in bash, zsh and fish."),
}


class _Commands(click.Group):
    """Loads a command's module when that command is asked for; answers errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        place, summary = _COMMANDS[cmd_name]
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"boostrank.cli.{module}"), name or "command")
        command.short_help = summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:  # --help prints here
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError as error:
            raise OutputClosed(ctx) from error
        except Exception:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise

    def main(self, args=None, prog_name=None, **extra):  # type: ignore[no-untyped-def, override]
        # Click's own handling of errors prints several lines, and leaves with 1.
        extra.pop("standalone_mode", None)
        raise SystemExit(
            run_reporting_errors(lambda: super(_Commands, self).main(args, "boostrank", standalone_mode=False, **extra))
        )


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="boostrank %(version)s")
@click.option("--debug", is_flag=True, envvar="BOOSTRANK_DEBUG", help="Show the whole traceback of an error.")
def cli(debug: bool) -> None:
    """Gradient-boosted tree ranking that optimises the ranking metric itself.

    \b
    boostrank train train.txt --valid vali.txt --model model.txt
    boostrank evaluate model.txt test.txt
    boostrank compare old.txt model.txt test.txt --fail-if 'ndcg@10 < -0.002 at p<0.05'
    boostrank predict model.txt new.txt -o scores.txt
    boostrank report model.txt test.txt

    Results go to standard output, everything else to standard error. Exit status: 0 done, 1 what
    `compare --fail-if`, `doctor --strict` or `verify` looks for is there, 2 usage or bad input, 3 failure,
    130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    # OpenMP reads its environment once, when the first engine is imported. Only the command line sets it: that of a
    # process that imports boostrank is its own.
    os.environ.update(openmp_environment())
    threads = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if threads.lstrip("-0") == "" != threads or threads.startswith("-"):
        raise InputError(f"NUMBA_NUM_THREADS={threads[:20]}: numba needs a thread: set 1 or more, or do not set it")


main = cli


def run() -> None:
    """The command line in a process of its own."""
    stop_quietly()
    take_over_streams()
    leave_at_second_press()
    process.own_process = True
    cli()
