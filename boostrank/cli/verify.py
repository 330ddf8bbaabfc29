"""`boostrank verify`."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, GATE_SHUT, settle
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, shown
from boostrank.core.errors import InputError, did_you_mean
from boostrank.options import FileOptions, JsonOptions, ThreadOptions, argument, option

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset

_EQUAL = {
    "equal": "equal",
    "float32": "equal, but for rounding to float32",
    "ranking": "other scores, the same ranking of every query",
    "different": "different",
}


@dataclass(frozen=True, kw_only=True)
class Verify(JsonOptions, ThreadOptions):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    against: str = option(
        None,
        "Scores that another program logged, in the order of DATA: a file with one per line, lines of JSON with a "
        "`score`, or columns, of which `score`, or else the last, counts; or a column of DATA, if that is a table.",
        metavar="FILE|COLUMN",
        required=True,
    )
    tolerance: str = option("float32", "What counts as equal.", choices="equal float32 ranking")


@command("verify", Verify, FileOptions)
def verify(own: Verify, reading: FileOptions) -> int:
    """Compare scores logged by a search engine for the documents of DATA with the model's.

    The result is: equal (to the logged digits), equal but for rounding to float32, the same ranking of each query, or
    different. The first document that differs is shown, and the number of those that do.

    Exit status: 0 equal, 1 different.
    """
    from boostrank.core.text import count_of
    from boostrank.data.tables import header_of, is_table
    from boostrank.export.proof import verify
    from boostrank.model.scores import check_names, read_logged, read_logged_column

    column = not os.path.exists(own.against) and all(map(is_table, own.data))
    if column and own.against not in (known := header_of(own.data[0])):
        hint = did_you_mean(own.against, known)
        raise InputError(f"--against {own.against!r}: neither a file nor a column of {own.data[0]}.{hint}")
    ignored = frozenset([own.against] if column else [])
    reader = Reader(reading, own.threads, labelled=False, names=True)
    model, rows = reader.read_for_model(own.model, own.data, ignored=ignored)
    read = partial(read_logged_column, own.data) if column else read_logged
    scores, precision = read(own.against, rows.n_documents)
    if not column:
        check_names(own.against, rows)
    found = verify(model, rows, scores, precision=precision)
    equal = found.equal(own.tolerance)
    place = None if found.first is None else _place(rows, found.first[0])
    settle(DONE if equal else GATE_SHUT)
    if own.as_json:
        print_json({**asdict(found), "equal": equal, "first_place": place})
        return DONE if equal else GATE_SHUT
    queries = count_of(found.queries, "query").replace("querys", "queries")
    click.echo(f"{own.against}: {_EQUAL[found.level]}: {count_of(found.documents, 'document')} of {queries}")
    if found.first is not None:
        _, query, own_score, logged = found.first
        share = 100.0 * found.different / found.documents
        click.echo(
            f"other scores: {found.different:,} ({share:.1f}%), by up to {found.largest:.3g}; "
            f"other ranks in their query: {found.moved:,}"
        )
        click.echo(
            f"the first: {shown(place or '')}, query {shown(query)}: {logged:.9g} logged, {own_score:.9g} by the model"
        )
    return DONE if equal else GATE_SHUT


def _place(data: RankingDataset, row: int) -> str:
    """Return the name and place of an input row, counted from 0."""
    at = row if data.input_rows is None else int((data.input_rows == row).argmax())
    assert data.queries.places is not None  # it was read from files
    file, line = data.queries.places(at)
    place = f"{file}:{line}" if line else file
    name = "" if data.document_names is None else data.document_names[at]
    return f"{name} ({place})" if name else place
