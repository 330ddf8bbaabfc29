"""File tools of the command line: `boostrank split`, `sample`, `shard`, `sort` and `merge`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import TERMINATED, say
from boostrank.cli.options import COUNT, Command, DataFile, F, FloatRange, OutputFile, Parsed, option
from boostrank.cli.progress import ReadProgress
from boostrank.cli.reading import name_of

if TYPE_CHECKING:
    from boostrank.data.tools import Written

DEFAULT_MEMORY_MB = 256

_seed = option("--seed", type=click.IntRange(0), default=0, help="Another seed draws other queries.")
_out = partial(option, "-o", "--output", required=True, type=OutputFile(stream=True), metavar="OUT")
_output = _out(help="The file to write, compressed if it ends in .gz, .bz2, .xz or .zst; - for standard output.")
_outputs = _out(help="The files to write, {} for the part: out/web-{}.txt.gz. Compressed as their endings say.")


def _shares(given: str) -> dict[str, float]:
    """`train=0.8,valid=0.1,test=0.1`."""
    try:
        pairs = [(name.strip(), float(share)) for name, share in (part.split("=") for part in given.split(","))]
    except ValueError:
        raise ValueError(f"{given!r} is not of the form train=0.8,valid=0.1,test=0.1") from None
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{given!r} names a part twice")
    return dict(pairs)


def _tool(name: str, **given: Any) -> Callable[[F], click.Command]:
    """Decorator: a command over FILE..., with arguments of `Command`."""

    def decorate(function: F) -> click.Command:
        files = click.argument("files", metavar="FILE...", nargs=-1, required=True, type=DataFile())
        return click.command(name, cls=Command, **given)(files(function))

    return decorate


@_tool("split", replaceable=("files",))  # OUT is what the files are named after
@option("--parts", required=True, type=Parsed("NAME=SHARE,...", _shares),
        help="The parts and their shares of the queries, which add up to 1.")  # fmt: skip
@_seed
@_outputs
def split(files: tuple[str, ...], parts: dict[str, float], seed: int, output: str) -> None:
    """Split FILE... into parts of whole queries, as out-train.txt, out-valid.txt, ... for -o out.txt.

    A hash of its id decides where a query goes: the same part in any order of the rows and in every later version of
    the data. The shares are therefore about what is asked for, the more queries the closer.
    """
    _run("split", files, output, parts, seed=seed)


@_tool("sample")
@option("--queries", type=COUNT, help="How many queries to keep, exactly.")
@option("--fraction", type=FloatRange(0, 1, min_open=True), help="Which share of them to keep, about.")
@_seed
@_output
@click.pass_context
def sample(
    context: click.Context, /, files: tuple[str, ...], queries: int | None, fraction: float | None, seed: int,
    output: str,
) -> None:  # fmt: skip
    """Keep some of the queries of FILE..., whole and in their order.

    A hash of the ids draws them: the same ones in any order of the rows. A larger sample holds the smaller ones.
    """
    if (queries is None) == (fraction is None):
        raise click.UsageError("give one of the two: --queries or --fraction", context)
    _run("sample", files, output, queries=queries, fraction=fraction, seed=seed)


@_tool("shard", replaceable=("files",))
@option("--shards", required=True, type=COUNT, help="How many files.")
@_outputs
def shard(files: tuple[str, ...], shards: int, output: str) -> None:
    """Spread the queries of FILE... over N files of about as many rows: out-000.txt, out-001.txt, ... for -o out.txt.

    Each query goes to the file with the fewest rows so far, so that no two differ by more than the longest query.
    """
    _run("shard", files, output, shards)


@_tool("sort", replaceable=("files",))
@option(
    "--memory", metavar="MB", type=COUNT, default=DEFAULT_MEMORY_MB,
    help="Megabytes of text to sort at a time; more than that goes through a temporary file beside OUT.",
)  # fmt: skip
@_output
def sort(files: tuple[str, ...], memory: int, output: str) -> None:
    """Bring the scattered rows of each query in FILE... together.

    Queries come in the order of their first rows, the rows of a query in the order of the input.
    """
    _run("sort", files, output, memory=memory << 20)


@_tool("merge")
@option(
    "--rename", is_flag=True, help="Put 1-, 2-, ... before the query ids of each set, for ids that restart in each."
)
@_output
def merge(files: tuple[str, ...], rename: bool, output: str) -> None:
    """Join data sets, one behind the other. A quoted pattern, 'day1/*.gz', is one set.

    A query id that is in two sets is refused, unless --rename tells the sets apart.
    """
    _run("merge", files, output, rename=rename)


def _run(tool: str, files: tuple[str, ...], *arguments: Any, **options: Any) -> None:
    """Call a tool of `boostrank.data.tools`; paths go to standard output, what is in them to standard error.

    SIGTERM ends it as Ctrl-C does, so that no temporary file stays behind.
    """
    from boostrank.data import tools as file_tools

    def terminate(number: int, frame: FrameType | None) -> None:
        say("boostrank: stopped")
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with ReadProgress(name_of(files)) as progress:
            written: Written | list[Written] = getattr(file_tools, tool)(
                files, *arguments, **options, progress=progress
            )
            outputs = written if isinstance(written, list) else [written]
    finally:
        signal.signal(signal.SIGTERM, before)
    for file in outputs:
        say(f"{file.rows:,} rows, {file.queries:,} queries: {file.path}")
        if os.path.isfile(file.path):  # a pipe has no name to follow
            click.echo(file.path)
