"""`boostrank verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from boostrank.cli.errors import settle
from boostrank.cli.options import Command, InputFile, data_argument, option, threads_option
from boostrank.cli.reading import name_of, reading_options

_EQUAL = {
    "equal": "equal",
    "float32": "equal, but for rounding to float32",
    "ranking": "other scores, the same ranking of every query",
    "different": "different",
}


@click.command("verify", cls=Command)
@click.argument("model", type=InputFile())
@data_argument()
@option(
    "--against", required=True, metavar="FILE", type=InputFile(),
    help="What another program logged, in the order of DATA: a score a line, lines of JSON with a `score`, or columns "
    "of which `score`, or else the last, counts.",
)  # fmt: skip
@option(
    "--tolerance", type=click.Choice(["equal", "float32", "ranking"]), default="float32",
    help="What counts as equal.",
)  # fmt: skip
@option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@threads_option()
@reading_options
@click.pass_context
def command(
    context: click.Context, /, model: str, data: tuple[str, ...], against: str, tolerance: str, as_json: bool,
    threads: int | None, **given: Any,
) -> None:  # fmt: skip
    """Compare scores that a search engine logged for the documents of DATA with the model's own.

    The result is: equal (to the logged digits), equal but for rounding to float32, the same ranking of each query, or
    different. The first document that differs is shown, and the number of those that do.

    Exit status: 0 equal, 1 different.
    """
    from boostrank.cli.scores import read_logged
    from boostrank.cli.study import print_json, read_for_model
    from boostrank.cli.tables import shown
    from boostrank.core.text import count_of
    from boostrank.export.verification import verify

    ranker, rows = read_for_model(model, data, {**given, "threads": threads})
    scores, precision = read_logged(against, rows.n_documents)
    found = verify(ranker, rows, scores, precision=precision)
    equal = found.equal(tolerance)
    place = None if found.first is None else _place(data, found.first[0], given)
    settle(context, 0 if equal else 1)
    if as_json:
        print_json({**asdict(found), "equal": equal, "first_place": place})
        context.exit(0 if equal else 1)
    queries = f"{found.queries:,} {'query' if found.queries == 1 else 'queries'}"
    click.echo(f"{against}: {_EQUAL[found.level]}: {count_of(found.documents, 'document')} of {queries}")
    if found.first is not None:
        _, query, own, logged = found.first
        share = 100.0 * found.different / found.documents
        click.echo(
            f"other scores: {found.different:,} ({share:.1f}%), by up to {found.largest:.3g}; "
            f"other ranks in their query: {found.moved:,}"
        )
        click.echo(f"the first: {place}, query {shown(query)}: {logged:.9g} logged, {own:.9g} by the model")
    context.exit(0 if equal else 1)


def _place(data: tuple[str, ...], row: int, given: dict[str, Any]) -> str:
    """Where a row stands."""
    from boostrank.data.formats.libsvm import place_of_row
    from boostrank.data.source import format_of

    if format_of(data, given["data_format"]).name == "libsvm" and given["on_bad_line"] == "stop":
        found = place_of_row(list(data), row)
        if found is not None:
            return f"{found[0]}:{found[1]}"
    return f"{name_of(data)}, row {row + 1:,}"
