"""`boostrank count-clicks`."""

from __future__ import annotations

import time
from collections import Counter

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Command, InputFile, OutputFile, Parsed, option
from boostrank.cli.progress import duration


def _cell(given: str) -> tuple[str, str]:
    """`COLUMN=TEXT`."""
    name, equals, text = given.partition("=")
    if not (name and equals):
        raise ValueError(f"{given!r} is not COLUMN=TEXT")
    return name, text


@click.command("count-clicks", cls=Command)
@click.argument("sessions", metavar="SESSIONS...", nargs=-1, required=True, type=InputFile())
@option("-o", "--output", required=True, metavar="FILE", type=OutputFile(),
        help="The click log to write: DATA.clicks, beside the documents.")  # fmt: skip
@option("--position", metavar="COLUMN", default="position", help="Where in the list the document stood, from 1.")
@option(
    "--clicked",
    metavar="COLUMN",
    default="clicked",
    help="1 or true where it was clicked, else 0 or false; with --impressions, how often.",
)
@option("--impressions", metavar="COLUMN", help="How many impressions a row stands for.", show_default="one each")
@option("--row", metavar="COLUMN", default="row", help="Row of the document in the data, from 1.")
@option("--key", "keys", metavar="COLUMN,...", help="In place of --row: columns that name it, here and in --documents.")
@option("--documents", metavar="FILE", type=InputFile(), help="The table of the documents, for --key.")
@option("--where", metavar="COLUMN=TEXT", multiple=True, type=Parsed("COLUMN=TEXT", _cell),
        help="Only impressions whose column holds this, for the log of a segment; may be repeated.")  # fmt: skip
@option("--by", metavar="COLUMN", help="A log by segment: this column names them; propensities are then of each.")
def command(
    sessions: tuple[str, ...], output: str, position: str, clicked: str, impressions: str | None, row: str,
    keys: str | None, documents: str | None, where: tuple[tuple[str, str], ...], by: str | None,
) -> None:  # fmt: skip
    """Add up session logs, a row an impression, to a log of clicks by document and position.

    SESSIONS are CSV, TSV, Parquet or Arrow, of any size: they are read in one pass.
    """
    from boostrank.clicks.files import write_clicks
    from boostrank.clicks.sessions import SessionColumns, count_clicks
    from boostrank.core.files import check_writable

    check_writable(output)
    if keys is not None and documents is None:
        raise click.UsageError("--key needs --documents, the table that has these columns")
    if documents is not None and keys is None:
        raise click.UsageError("--documents is for --key, the columns that name its rows")
    twice = [name for name, times in Counter(name for name, _ in where).items() if times > 1]
    if twice:
        raise click.UsageError(f"--where has {twice[0]} twice: an impression has one text there")
    names = tuple(name.strip() for name in keys.split(",")) if keys else ()
    started = time.monotonic()
    columns = SessionColumns(position, clicked, row, names, dict(where), impressions, by)
    log = count_clicks(sessions, columns, documents)
    write_clicks(output, log)
    say(f"{output}: {log!r}, counted in {duration(time.monotonic() - started)}")
    click.echo(output)
