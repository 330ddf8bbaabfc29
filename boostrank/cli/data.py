"""`boostrank data`: tools for data files and click logs."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import TERMINATED, say, settle
from boostrank.cli.reading import Reader, name_of
from boostrank.cli.show import ReadProgress, duration, print_json, print_table
from boostrank.core.errors import InputError
from boostrank.core.text import count_of, parse_size
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
    parse_parts,
)

if TYPE_CHECKING:
    from boostrank.clicks.log import Propensities


@dataclass(frozen=True, kw_only=True)
class Tool(Options):
    """Files in, a file of the same format out."""

    files: tuple[str, ...] = argument("FILE...", default=(), file="data")
    output: str = option(
        None,
        "File to write, compressed if it ends in .gz, .bz2, .xz or .zst; - for standard output. With several files, {} "
        "is replaced by the part: out/web-{}.txt.gz.",
        short="-o",
        metavar="OUT",
        file="stream",
        required=True,
    )
    data_format: str = option("auto", "Format of the data, as for train.", flag="--format", metavar="NAME")
    qid: str | None = option(
        None, "Query id column of a table, as for train.", metavar="COLUMN", shown="qid, query_id or query"
    )


@dataclass(frozen=True, kw_only=True)
class SeedOptions(Options):
    """Seed of a draw."""

    seed: int = option(0, "Another seed draws other queries.", ge=0)


@dataclass(frozen=True, kw_only=True)
class Split(Tool, SeedOptions):
    """Options of `split`."""

    parts: dict[str, float] = option(
        None,
        "Parts and their shares of the queries, which add up to 1.",
        metavar="NAME=SHARE,...",
        parse=parse_parts,
        required=True,
    )


@command("split", Split, replaceable=("files",))  # OUT is a pattern
def split(own: Split) -> None:
    """Split FILE... into parts of whole queries, as out-train.txt, out-valid.txt, ... for -o out.txt.

    A hash of its id decides where a query goes: the same part in any order of the rows and in every later version of
    the data. The shares are therefore approximate, the more queries the closer.
    """
    _run("split", own, own.parts, seed=own.seed)


def _number_or_share(text: str) -> int | float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else int(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number of queries, 1000, nor a share of them, 10%") from None


@dataclass(frozen=True, kw_only=True)
class Sample(Tool, SeedOptions):
    """Options of `sample`."""

    queries: int | float = option(
        None,
        "Queries to keep: their number, or about a share of them, 10%.",
        metavar="N|SHARE%",
        parse=_number_or_share,
        required=True,
    )


@command("sample", Sample)
def sample(own: Sample) -> None:
    """Keep some of the queries of FILE..., whole and in their order.

    A hash of the ids draws them: the same ones in any order of the rows. A larger sample holds the smaller ones.
    """
    _run("sample", own, own.queries, seed=own.seed)


@dataclass(frozen=True, kw_only=True)
class Shard(Tool):
    """Options of `shard`."""

    parts: int = option(None, "Number of files.", ge=1, required=True)


@command("shard", Shard, replaceable=("files",))
def shard(own: Shard) -> None:
    """Split FILE... into N files of about as many rows, by whole queries: out-000.txt, out-001.txt, ... for -o out.txt.

    Each query goes to the file with the fewest rows so far, so that no two differ by more than the longest query.
    """
    _run("shard", own, own.parts)


@dataclass(frozen=True, kw_only=True)
class Sort(Tool):
    """Options of `sort`."""

    memory_limit: int = option(
        256 << 20,
        "Rows to sort in memory at a time, as 256MiB or 2GB; temporary files next to OUT hold them.",
        metavar="SIZE",
        parse=parse_size,
        shown="256MiB",
    )


@command("sort", Sort, replaceable=("files",))
def sort(own: Sort) -> None:
    """Group the scattered rows of each query in FILE....

    Queries come in the order of their first rows, the rows of a query in the order of the input.
    """
    _run("sort", own, memory=own.memory_limit)


@dataclass(frozen=True, kw_only=True)
class Merge(Tool):
    """Options of `merge`."""

    rename: bool = option(False, "Put 1-, 2-, ... before the query ids of each set, for ids that restart in each.")


@command("merge", Merge)
def merge(own: Merge) -> None:
    """Concatenate data sets. A quoted pattern, 'day1/*.gz', is one set.

    A query id in two sets is refused, unless --rename makes ids unique.
    """
    _run("merge", own, rename=own.rename)


@dataclass(frozen=True, kw_only=True)
class Join(Options):
    """Options of `join`."""

    judgements: str = argument("JUDGEMENTS", file="read")
    features: tuple[str, ...] = argument("FEATURES...", default=(), file="data")
    output: str = option(
        None, "Table to write: .csv or .parquet.", short="-o", metavar="OUT", file="write", required=True
    )
    unjudged: str = option(
        "drop",
        "Logged documents without a judgement: drop them, give those of judged queries the grade 0, or stop.",
        choices="drop zero stop",
    )
    label: str | None = option(
        None, "Column of grades, as for train.", metavar="COLUMN", shown="label, grade or rating"
    )
    qid: str | None = option(
        None, "Query id column of tables, as for train.", metavar="COLUMN", shown="qid, query_id or query"
    )
    id: str | None = option(
        None, "Document column of tables, as for train.", metavar="COLUMN", shown="doc_id, docno, document, sku, ..."
    )


@command("join", Join)
def join(own: Join) -> None:
    """Join JUDGEMENTS with logged FEATURES by query and document, to a table that `train` takes.

    \b
    JUDGEMENTS  a table (Quepid's query,docid,rating), lines `4 qid:1 # 7555` and `# qid:1: red shoe`
                (RankLib, Quepid), or TREC qrels
    FEATURES    tables, or JSON lines: responses or hits that Solr's, Elasticsearch's and OpenSearch's
                plugins logged ([features], _ltrlog) with a `query`, or rows

    OUT has qid, doc_id, label and the features, sorted by query and document. Queries are called by their words, if
    JUDGEMENTS has them. Features that a document lacks are missing. The mean counts where judges disagree.
    """
    from boostrank.data.join import join

    given = own.judgements, own.features, own.output
    found = join(*given, unjudged=own.unjudged, label=own.label, qid=own.qid, id=own.id)
    say(f"{own.output}: {found.documents:,} documents, {found.queries:,} queries")
    what_became = {"drop": "left out", "zero": "0 in judged queries, others left out"}.get(own.unjudged, "")
    words = {
        "unlogged": "judged, but not logged: left out",
        "unjudged": f"logged, but not judged: {what_became}",
        "disagreeing": "graded differently: the mean counts",
        "repeated": "logged again: the first counts",
        "unrated": "in the judgements without a grade: left out",
        "negative": "with a negative grade in the qrels: it counts as 0",
    }
    for problem, (count, first) in found.problems.items():
        if count:
            say(f"{count_of(count, 'document')} {words[problem]}; the first is {first}")
    click.echo(own.output)


def _run(tool: str, own: Tool, *arguments: Any, **options: Any) -> None:
    """Call a tool; print paths to standard output, counts to standard error.

    SIGTERM ends it as Ctrl-C does, so that no temporary file is left.
    """
    from boostrank.data import tools as file_tools

    def terminate(number: int, frame: FrameType | None) -> None:
        settle(TERMINATED)
        say("boostrank: stopped")
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with ReadProgress(name_of(own.files)) as progress:
            options |= {"format": own.data_format, "qid": own.qid, "progress": progress}
            written = getattr(file_tools, tool)(own.files, own.output, *arguments, **options)
    finally:
        signal.signal(signal.SIGTERM, before)
    for file in written if isinstance(written, list) else [written]:
        say(f"{file.rows:,} rows, {file.queries:,} queries: {file.path}")
        if os.path.isfile(file.path):  # a pipe has no name to follow
            click.echo(file.path)


@dataclass(frozen=True, kw_only=True)
class Make(SeedOptions):
    """Options of `make`."""

    directory: str = argument("DIR", file="folder")
    queries: int = option(3000, "Number of queries in all three files.", ge=3, le=10_000_000)
    mean_length: float = option(40.0, "Mean number of documents per query.", ge=1, le=100_000)


@command("make", Make)
def make(own: Make) -> None:
    """Write train.txt, valid.txt and test.txt (libsvm with `qid:`) to DIR, with their known truth.

    60% of the queries are for training, 20% each for validation and test. roles.json describes the features.
    test-relevance.txt has the relevance of each document of test.txt before the judges' noise, one number per line:
    evaluate it as a score file for the best possible result.
    """
    from boostrank.core.files import check_writable, write_atomically
    from boostrank.data.synthetic import make_ranking_data
    from boostrank.data.text.writer import write_libsvm

    folder = Path(own.directory)
    folder.mkdir(parents=True, exist_ok=True)
    notes, truth = folder / "roles.json", folder / "test-relevance.txt"
    check_writable(notes)
    data = make_ranking_data(own.queries, seed=own.seed, mean_length=own.mean_length)
    parts = data.split()
    for name, part in parts._asdict().items():
        path = folder / f"{name}.txt"
        write_libsvm(path, part.dataset)
        say(f"{part.dataset.n_documents:,} rows, {len(part.dataset.queries):,} queries: {path}")
        click.echo(path)
    write_atomically(truth, "".join(f"{value:.9g}\n" for value in parts.test.relevance.tolist()).encode())
    click.echo(truth)
    features = [
        {"number": number, "name": name, "role": role}
        for number, (name, role) in enumerate(zip(data.dataset.feature_names, data.roles, strict=True), start=1)
    ]
    write_atomically(notes, (json.dumps(features, indent=1) + "\n").encode())
    click.echo(notes)


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
    _print_propensities(found, given)
    say(f"from {found.moved:,} clicked documents that were shown at several positions")
    if check is not None:
        holds = "clicks do not contradict it" if check.p >= 0.05 else "clicks contradict it"
        click.echo(f"{own.check}: {holds} ({check.nats:.1f} nats less likely than the curve above, p {check.p:.2g})")


def _print_propensities(found: Propensities, given: Propensities | None) -> None:
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
        documents.labels, documents.queries, scores, how, impressions=own.impressions, seed=own.seed
    ).renumbered(documents.input_rows)
    log.write(own.output)
    say(f"{own.output}: {log!r}")
    click.echo(own.output)
