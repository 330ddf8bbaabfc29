"""`boostrank data count-clicks`, `propensities` and `simulate-clicks`."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import say
from boostrank.cli.progress import duration
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, print_table
from boostrank.core.errors import InputError
from boostrank.options import (
    ClickOptions,
    FileOptions,
    JsonOptions,
    Options,
    ThreadOptions,
    argument,
    declared,
    listed_names,
    option,
)

if TYPE_CHECKING:
    from boostrank.clicks.log import Propensities


@dataclass(frozen=True, kw_only=True)
class CountClicks(Options):
    """Options of `count-clicks`."""

    sessions: tuple[str, ...] = argument("SESSIONS...", default=(), file="read")
    output: str = option(
        None, "Click log to write; name it DATA.clicks to use it with DATA.", short="-o", file="write", required=True
    )
    position: str = option("position", "Position of the document in the list, from 1.", metavar="COLUMN")
    clicked: str = option(
        "clicked", "1 or true if it was clicked, else 0 or false; with --impressions, how often.", metavar="COLUMN"
    )
    impressions: str | None = option(None, "Number of impressions of a row.", metavar="COLUMN", shown="one each")
    row: str = option("row", "Row of the document in the data, from 1.", metavar="COLUMN")
    key: str | None = option(
        None,
        "Columns that identify a document in both tables, instead of --row.",
        metavar="COLUMN,...",
        needs="documents",
    )
    documents: str | None = option(None, "Table of documents with the columns of --key.", file="read", needs="key")


@command("count-clicks", CountClicks)
def count_clicks(own: CountClicks) -> None:
    """Count session logs, one row per impression, into a click log by document and position.

    SESSIONS are CSV, TSV, Parquet or Arrow, of any size: they are read in one pass.
    """
    from boostrank.clicks.tables import count_clicks
    from boostrank.core.files import check_writable

    check_writable(own.output)
    started = time.monotonic()
    log = count_clicks(
        own.sessions,
        position=own.position,
        clicked=own.clicked,
        impressions=own.impressions,
        row=own.row,
        keys=tuple(name.strip() for name in own.key.split(",")) if own.key else (),
        documents=own.documents,
    )
    log.write(own.output)
    say(f"{own.output}: {log!r}, counted in {duration(time.monotonic() - started)}")
    click.echo(own.output)


@dataclass(frozen=True, kw_only=True)
class PropensityCommand(JsonOptions):
    """Options of `propensities`."""

    clicks: str = argument("CLICKS", file="read")
    click_columns: tuple[str, ...] | None = option(
        None, declared(ClickOptions)["click_columns"].help, kind="names", metavar="COLUMN,...", parse=listed_names
    )
    qid: str | None = option(
        None,
        "Query id column of the table; document names are unique within a query.",
        metavar="COLUMN",
        shown="qid, query_id or query, if present",
        needs="click_columns",
    )
    check: str | None = option(None, "Check whether clicks agree with these propensities.", file="read")
    output: str | None = option(None, "Propensities to write, as JSON.", short="-o", file="write")


@command("propensities", PropensityCommand)
def propensities(own: PropensityCommand) -> None:
    """Estimate how likely each position is examined, from documents shown at several positions.

    CLICKS is a table with the columns row, position, impressions and clicks, or one with --click-columns. Where a
    document's clicks fell, given how many there were, depends on the positions alone. Refused where no clicked document
    moved.

    \b
    boostrank data propensities train.txt.clicks -o propensities.json
    """
    from boostrank.clicks.estimation import check_propensities, estimate_propensities
    from boostrank.clicks.log import Propensities
    from boostrank.clicks.tables import ClickColumns, ClickRows, read_clicks
    from boostrank.core.files import check_writable

    if own.output is not None:
        check_writable(own.output)
    if own.click_columns is None:
        log = read_clicks(own.clicks)
    else:
        log = ClickRows.read(own.clicks, ClickColumns.of(own.click_columns), own.qid or "").log()[0]
    say(f"{own.clicks}: {log!r}")
    given = None if own.check is None else Propensities.read(own.check)
    found = estimate_propensities(log)
    check = None if given is None else check_propensities(log, given)
    if own.output is not None:
        found.write(own.output)
        say(f"{own.output}: written")
    if own.as_json:
        print_json(found.to_dict() | ({} if check is None else {"check": vars(check)}))
        return
    _print(found, given)
    say(f"from {found.moved:,} clicked documents that were shown at several positions")
    if check is not None:
        holds = "clicks do not contradict it" if check.p >= 0.05 else "clicks contradict it"
        click.echo(f"{own.check}: {holds} ({check.nats:.1f} nats less likely than the curve above, p {check.p:.2g})")


def _print(found: Propensities, given: Propensities | None) -> None:
    rows = [["position", "propensity", "95% interval", *(["given"] if given else [])]]
    assert found.errors is not None
    for i, (e, error) in enumerate(zip(found.examination, found.errors, strict=True)):
        own = [] if given is None else [f"{given.examination[i]:.3f}" if i < given.examination.size else ""]
        if not math.isfinite(e):
            rows.append([str(i + 1), "unknown", "", *own])
            continue
        width = math.exp(1.96 * error)
        rows.append([str(i + 1), f"{e:.3f}", f"{e / width:.3f} to {e * width:.3f}" if i else "", *own])
    print_table(rows)


@dataclass(frozen=True, kw_only=True)
class SimulateClicks(ThreadOptions, group="Users"):
    """Options of `simulate-clicks`."""

    ranker: str = argument("MODEL|SCORES", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    output: str = option(None, "Click log to write.", short="-o", file="write", required=True, group="Options")
    impressions: int = option(10, "Number of lists shown per query.", ge=1)
    users: str = option(
        "position",
        "How users click: by position (p is examined with probability 1/p); from the top until they leave; or by "
        "trust in the top as well.",
        choices="position cascade trust",
    )
    click_noise: float = option(
        0.1, "Probability of a click on an examined irrelevant document.", ge=0, le=1, flag="--noise"
    )
    seed: int = option(0, "The same seed gives the same bytes.", ge=0)


@command("simulate-clicks", SimulateClicks, FileOptions)
def simulate_clicks(own: SimulateClicks, reading: FileOptions) -> None:
    """Simulate users who click on graded DATA, to test learning from clicks against a known truth.

    MODEL|SCORES ranks each list, with some noise, and ten documents are shown. Writes a line
    `row,position,impressions,clicks` for each document and position at which it was shown; rows count
    the documents from 1 in the order of DATA.
    """
    if reading.on_bad_line == "skip":
        raise InputError("click logs count the rows of the file: no --on-bad-line skip")
    from boostrank.clicks.simulate import Users, simulate_clicks
    from boostrank.core.files import check_writable
    from boostrank.model.scores import load_ranker, scores_of

    check_writable(own.output)
    kind: Any = own.users
    how = Users(kind, noise=own.click_noise)
    model, reader = load_ranker(own.ranker), Reader(reading, own.threads)
    documents = reader.read(own.data, like=reader.feature_space(model, own.ranker, own.data) if model else None)
    scores = scores_of(own.ranker, model, documents, own.threads)
    log = simulate_clicks(
        documents.labels,
        documents.queries,
        scores,
        how,
        impressions=own.impressions,
        seed=own.seed,
    ).renumbered(documents.input_rows)
    log.write(own.output)
    say(f"{own.output}: {log!r}")
    click.echo(own.output)
