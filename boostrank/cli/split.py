"""`boostrank split`."""

from __future__ import annotations

import click

from boostrank.cli.file_tools import files_argument, outputs_option, run_and_report, seed_option
from boostrank.cli.options import Command, option


class Parts(click.ParamType):  # type: ignore[type-arg]
    """`train=0.8,valid=0.1,test=0.1`."""

    name = "parts"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "NAME=SHARE,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        try:
            pairs = [(name.strip(), float(share)) for name, share in (p.split("=") for p in str(value).split(","))]
        except ValueError:
            self.fail(f"{value!r} is not of the form train=0.8,valid=0.1,test=0.1", param, ctx)
        if len(dict(pairs)) < len(pairs):
            self.fail(f"{value!r} names a part twice", param, ctx)
        return dict(pairs)


@click.command("split", cls=Command, short_help="Split ranking data into training, validation and test queries.")
@files_argument
@option("--parts", required=True, type=Parts(), help="The parts and their shares of the queries, which add up to 1.")
@seed_option
@outputs_option
def command(files: tuple[str, ...], parts: dict[str, float], seed: int, output: str) -> None:
    """Split FILE... into parts of whole queries, as out-train.txt, out-valid.txt, ... for -o out.txt.

    A hash of its id decides where a query goes: the same part in any order of the rows and in every later version of
    the data. The shares are therefore about what is asked for, the more queries the closer.
    """
    from boostrank.data.tools import file_tools as tools

    run_and_report(files, lambda progress: tools.split(files, output, parts, seed=seed, progress=progress))
