"""`boostrank merge`."""

from __future__ import annotations

import click

from boostrank.cli.file_tools import files_argument, output_option, run_and_report
from boostrank.cli.options import Command, option


@click.command("merge", cls=Command, short_help="Join ranking data sets into one file.")
@files_argument
@option(
    "--rename", is_flag=True, help="Put 1-, 2-, ... before the query ids of each set, for ids that restart in each."
)
@output_option
def command(files: tuple[str, ...], rename: bool, output: str) -> None:
    """Join data sets, one behind the other. A quoted pattern, 'day1/*.gz', is one set.

    A query id that is in two sets is refused, unless --rename tells the sets apart.
    """
    from boostrank.data.tools import file_tools as tools

    run_and_report(files, lambda progress: [tools.merge(files, output, rename=rename, progress=progress)])
