"""`boostrank sort`."""

from __future__ import annotations

import click

from boostrank.cli.file_tools import files_argument, output_option, run_and_report
from boostrank.cli.options import Command, option

DEFAULT_MEMORY_MB = 256


@click.command("sort", cls=Command, short_help="Bring the rows of each query together.")
@files_argument
@option(
    "--memory", metavar="MB", type=click.IntRange(1), default=DEFAULT_MEMORY_MB, show_default=True,
    help="Megabytes of text to sort at a time; more than that goes through a temporary file beside OUT.",
)  # fmt: skip
@output_option
def command(files: tuple[str, ...], memory: int, output: str) -> None:
    """Bring the scattered rows of each query in FILE... together.

    Queries come in the order of their first rows, the rows of a query in the order of the input.
    """
    from boostrank.data.tools import file_tools as tools

    run_and_report(files, lambda progress: [tools.sort(files, output, memory=memory << 20, progress=progress)])
