"""`boostrank sample`."""

from __future__ import annotations

import click

from boostrank.cli.file_tools import files_argument, output_option, run_and_report, seed_option
from boostrank.cli.options import Command, option


@click.command("sample", cls=Command, short_help="Draw whole queries from ranking data.")
@files_argument
@option("--queries", metavar="N", type=click.IntRange(1), help="How many queries to keep, exactly.")
@option(
    "--fraction", metavar="X", type=click.FloatRange(0, 1, min_open=True), help="Which share of them to keep, about."
)
@seed_option
@output_option
@click.pass_context
def command(
    context: click.Context, /, files: tuple[str, ...], queries: int | None, fraction: float | None, seed: int,
    output: str,
) -> None:  # fmt: skip
    """Keep some of the queries of FILE..., whole and in their order.

    A hash of the ids draws them: the same ones in any order of the rows. A larger sample holds the smaller ones.
    """
    if (queries is None) == (fraction is None):
        raise click.UsageError("give one of the two: --queries or --fraction", context)
    from boostrank.data.tools import file_tools as tools

    run_and_report(
        files,
        lambda progress: [
            tools.sample(files, output, queries=queries, fraction=fraction, seed=seed, progress=progress)
        ],
    )
