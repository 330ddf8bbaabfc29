"""What the file tools share: arguments, progress, and one line about each file that was written."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import TERMINATED, say
from boostrank.cli.options import DataFile, option
from boostrank.cli.progress import ReadProgress
from boostrank.cli.reading import name_of

if TYPE_CHECKING:
    from types import FrameType

    from boostrank.data.tools.file_tools import Written

files_argument = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DataFile())
seed_option = option(
    "--seed", metavar="N", type=click.IntRange(0), default=0, show_default=True,
    help="Another seed draws other queries.",
)  # fmt: skip
output_option = option(
    "-o", "--output", required=True, type=click.Path(), metavar="OUT",
    help="The file to write, compressed if it ends in .gz, .bz2, .xz or .zst; - for standard output.",
)  # fmt: skip
outputs_option = option(
    "-o", "--output", required=True, type=click.Path(), metavar="OUT",
    help="The files to write, {} for the part: out/web-{}.txt.gz. Compressed as their endings say.",
)  # fmt: skip


def run_and_report(files: tuple[str, ...], work: Callable[[Any], Iterable[Written]]) -> None:
    """Call `work` with progress; paths go to standard output, what is in them to standard error.

    SIGTERM ends it as Ctrl-C does, so that no temporary file stays behind.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with ReadProgress(name_of(files)) as progress:
            written = list(work(progress))
    finally:
        signal.signal(signal.SIGTERM, before)
    for one in written:
        say(f"{one.rows:,} rows, {one.queries:,} queries: {one.path}")
        if os.path.isfile(one.path):  # what went to a pipe is not followed by a name
            click.echo(one.path)


def _terminate(number: int, frame: FrameType | None) -> None:
    say("boostrank: stopped")
    sys.exit(TERMINATED)
