"""`boostrank shard`."""

from __future__ import annotations

import click

from boostrank.cli.file_tools import files_argument, outputs_option, run_and_report
from boostrank.cli.options import Command, option


@click.command("shard", cls=Command, short_help="Spread ranking data over files of about equal size.")
@files_argument
@option("--shards", metavar="N", required=True, type=click.IntRange(1), help="How many files.")
@outputs_option
def command(files: tuple[str, ...], shards: int, output: str) -> None:
    """Spread the queries of FILE... over N files of about as many rows: out-000.txt, out-001.txt, ... for -o out.txt.

    Each query goes to the file with the fewest rows so far, so that no two differ by more than the longest query.
    """
    from boostrank.data.tools import file_tools as tools

    run_and_report(files, lambda progress: tools.shard(files, output, shards, progress=progress))
