"""The commands in `boostrank data`, which are tools for data files and click logs."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import TERMINATED, say
from boostrank.cli.reading import Reader, name_of
from boostrank.cli.show import ReadProgress, duration, print_json, print_table
from boostrank.core.errors import InputError
from boostrank.core.text import count_of
from boostrank.options import (
    FileOptions,
    JsonOptions,
    Options,
    ThreadOptions,
    argument,
    option,
)


class QueryIdOptions(Options):
    """The option of tools that read the query ids of a table."""

    qid: str | None = option(
        "Query id column of a table.", metavar="COLUMN", shown="qid, query_id or query"
    )


class Tool(QueryIdOptions):
    """Options for tools that read files and write a file in the same format."""

    files: tuple[str, ...] = argument("FILE...", file="data")
    output: str = option(
        "File to write, compressed if it ends in .gz, or - for standard output."
        " With several files, {} in the name stands for the part: out/web-{}.txt.gz.",
        metavar="OUT",
        file="stream",
    )
    data_format: str = option("Data format, as for train.", "auto", flag="--format")


class SeedOptions(Options):
    """The option of tools that draw random numbers."""

    seed: int = option("Random seed.", 0, ge=0)


def _parse_parts(text: str) -> dict[str, float]:
    pairs = [part.split("=") for part in text.split(",")]
    try:
        parts = {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        parts = {}
    if len(parts) < len(pairs):
        raise ValueError(
            f"{text!r} is not of the form train=0.8,valid=0.1,test=0.1, with a name for each part"
        )
    return parts


class Split(Tool, SeedOptions):
    """Options of `boostrank data split`."""

    parts: dict[str, float] = option(
        "Fraction of the queries in each part. The sum is 1.",
        parse=("NAME=SHARE,...", _parse_parts),
    )


@partial(Command, replaceable=("files",))  # OUT is a pattern
def split(options: Split) -> None:
    """Split FILE... into parts of whole queries: out-train.txt, out-valid.txt, ... for -o out.txt.

    A hash of the query id chooses the part. A query stays in its part when rows are reordered or
    the data grow. The part sizes are therefore approximate.
    """
    _run("split", options, options.parts, seed=options.seed)


def _number_or_share(text: str) -> int | float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else int(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a number of queries, such as 1000, nor a share, such as 10%"
        ) from None


class Sample(Tool, SeedOptions):
    """Options of `boostrank data sample`."""

    queries: int | float = option(
        "Number of queries to keep, or their approximate share: 10%.",
        parse=("N|SHARE%", _number_or_share),
    )


@Command
def sample(options: Sample) -> None:
    """Keep a sample of the queries in FILE..., with all of their rows and in the same order.

    A hash of the query id chooses queries, so the order of the rows has no effect. A larger sample
    contains the smaller ones.
    """
    _run("sample", options, options.queries, seed=options.seed)


class Shard(Tool):
    """Options of `boostrank data shard`."""

    parts: int = option("Number of files.", ge=1)


@partial(Command, replaceable=("files",))
def shard(options: Shard) -> None:
    """Split FILE... by whole queries into N files: out-000.txt, out-001.txt, ... for -o out.txt.

    The queries are dealt in turn, so that the numbers of queries differ by at most 1.
    """
    _run("shard", options, options.parts)


@partial(Command, replaceable=("files",))
def sort(options: Tool) -> None:
    """Bring the scattered rows of each query of FILE... together.

    Queries are ordered by their first rows. Rows within a query keep their order. The data must fit
    in memory.
    """
    _run("sort", options)


class Join(QueryIdOptions):
    """Arguments and options of `boostrank data join`."""

    judgements: str = argument("JUDGEMENTS", file="read")
    features: tuple[str, ...] = argument("FEATURES...", file="data")
    output: str = option("Table to write: .csv or .parquet.", metavar="OUT", file="output")
    unjudged: str = option(
        "Drop documents without a judgement, give them grade 0 in judged queries, or stop.",
        "drop",
        choices="drop zero stop",
    )
    label: str | None = option(
        "Grade column of a table.", metavar="COLUMN", shown="label, grade or rating"
    )
    id: str | None = option(
        "Document name column of a table.",
        metavar="COLUMN",
        shown="doc_id, docno, document, sku, ...",
    )
    missing_tokens: tuple[str, ...] = option(
        "Word for a missing value in tables, such as NULL or NA.",
        (),
        metavar="WORD",
    )
    machine: str | None = option(
        "Judgements by a machine, such as a language model, in any form of JUDGEMENTS, which are"
        " then those of people.",
        file="read",
        group="A machine's judgements",
    )
    gain: Any = option(
        "Gain of people's grades: exponential, linear, or a table such as 0,1,3,7.",
        "exponential",
        metavar="RULE",
        needs="machine",
    )
    weight: float | None = option(
        "Weight in training of what only the machine judged, in the column `weight` unless it is"
        " 1.",
        ge=0,
        le=1,
        shown="the share of the variance of people's gains that it explains on queries left out",
        needs="machine",
    )
    segments: str | None = option(
        "File with lines `qid,segment`. The agreement is also printed for each segment, which has"
        " gains and a weight of its own if they explain more.",
        file="read",
        needs="machine",
    )
    chances: str | None = option(
        "Output of `data choose`, if JUDGEMENTS lost its column `chance`.", file="read"
    )


@Command
def join(options: Join) -> None:
    """Join JUDGEMENTS with logged FEATURES by query and document, to a table for `train`.

    \b
    JUDGEMENTS  a table (Quepid's query,docid,rating), TREC qrels, lines
                `4 qid:1 # 7555` and `# qid:1: red shoe` (RankLib, Quepid), or
                JSON (OpenSearch, Rated Ranking Evaluator, ranx)
    FEATURES    tables, or JSON lines: rows, or responses or hits with a
                `query`, as the plugins of Solr, Elasticsearch or OpenSearch
                log them ([features], _ltrlog)

    OUT has the columns qid, doc_id, label and the features, sorted by query and document. The qid
    is the query text, if JUDGEMENTS has it. Features that a document lacks are missing values. If
    judges disagree, the mean grade is used.

    With --machine, `label` is people's grade and `machine` the machine's. The column `gain` is the
    gain of people's grade, or else the gain to expect from the machine's. The agreement is printed.
    """
    from boostrank.files.join import join
    from boostrank.reporting.judges import Judges

    settings = dict(vars(options))
    judges = Judges(*[settings.pop(name) for name in ("gain", "weight", "segments")])
    result = join(**settings, adding=judges.add)
    # Report the size of the table, and each kind of problem with its first document.
    say(f"{options.output}: {result.documents:,} documents, {result.queries:,} queries")
    unjudged = "left out"
    if options.unjudged == "zero":
        unjudged = "graded 0 in judged queries, otherwise left out"
    descriptions = {
        "unlogged": "with a judgement but no features: left out",
        "unjudged": f"with features but no judgement: {unjudged}",
        "disagreeing": "with different grades: the mean is used",
        "repeated": "with repeated features: the first are used",
        "unrated": "without a grade in the judgements: left out",
        "negative": "with a negative grade in the qrels: 0 is used",
    }
    for problem, description in descriptions.items():
        count, first = result.problems[problem]
        if count:
            say(f"{count_of(count, 'document')} {description}; first: {first}")
    for table in judges.tables:
        echo(table.name)
        print_table(table)
    for description in judges.words:
        say(description)
    echo(options.output)


class Choose(ThreadOptions, SeedOptions):
    """Arguments and options of `boostrank data choose`."""

    data: str = argument("DATA", file="data")
    rankers: tuple[str, ...] = argument("MODEL|SCORES...", file="read")
    output: str = option(
        "List to write: .csv or .json with the chance, or .quepid.csv, query,docid,rating.",
        file="write",
    )
    queries: int | None = option(
        "Number of whole queries to draw, to compare rankers such as OLD NEW.",
        ge=1,
        conflicts="documents",
    )
    documents: int | None = option("Number of documents to draw, for training.", ge=1)
    machine: str | None = option(
        "Column with a machine's grades.", metavar="COLUMN", shown="machine, if present"
    )


@Command
def choose(options: Choose, reading: FileOptions) -> None:
    """Choose documents of DATA for people to judge, with the chance of each.

    DATA is a table such as `data join --machine` writes: labels are missing where people have not
    judged. Queries whose grades could change the comparison are drawn more often: rankers disagree
    near the top, and the machine's grades say little. Fill in the grades, add the list to the
    judgements, and join again.

    \b
    boostrank data choose shop.csv old.txt new.txt --queries 50 -o next.csv
    boostrank data choose shop.csv a.txt b.txt c.txt --documents 200 -o next.csv
    """
    count = options.queries or options.documents
    if count is None or len({*options.rankers}) < 2:
        raise InputError("pass two or more different rankers, and --queries N or --documents N")
    if reading.on_bad_line == "skip":
        raise InputError("--on-bad-line skip cannot be used, because columns are read by row")
    import numpy as np

    from boostrank.files.columns import column_of
    from boostrank.files.source import Reading, expand
    from boostrank.files.tables import header_of, numbers_of
    from boostrank.model.scores import load_ranker, scores_of
    from boostrank.reporting import choice

    # Score the documents, and read the grades of both judges.
    paths = list(map(str, expand(options.data)))
    header = header_of(paths[0])
    models = {path: load_ranker(path) for path in options.rankers}
    reader = Reader(reading, options, names=True, labelled=False)
    datasets = reader.read_for(models, [options.data])
    scores = [scores_of(path, models[path], datasets[path], options.threads) for path in models]
    data = datasets[options.rankers[0]]
    grades, label = [], column_of("label", header, Reading(label=reading.label))
    for column in (label, options.machine or "machine"):
        values = np.full(data.n_documents, np.nan)
        if column is not None and column in (*header, options.machine):
            values = data.in_row_order(numbers_of(paths, column, reading.missing_tokens))
        grades.append(values)
    # Draw, and write the list.
    rows, chances = choice.choose(
        scores,
        data.queries,
        grades,
        count,
        whole=options.documents is None,
        seed=options.seed,
    )
    choice.write_choice(options.output, rows, chances, data, grades[0])
    unjudged = int(np.isnan(grades[0][rows]).sum())
    say(f"{options.output}: {count_of(unjudged, 'document')} to judge")
    echo(options.output)


def _run(tool: str, options: Tool, *arguments: Any, **keywords: Any) -> None:
    """Call a tool, and print paths to standard output and counts to standard error.

    SIGTERM raises an exception like Ctrl-C, so that temporary files are removed.
    """
    from boostrank.files import tools as file_tools

    previous_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        with ReadProgress(name_of(options.files)) as progress:
            keywords |= {"format": options.data_format, "qid": options.qid, "progress": progress}
            written = getattr(file_tools, tool)(
                options.files, options.output, *arguments, **keywords
            )
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    files = written if isinstance(written, list) else [written]
    shares = list(options.parts.values()) if isinstance(options, Split) else []
    total = sum(file.queries for file in files)
    for number, file in enumerate(files):
        share = f" ({file.queries / total:.1%}, requested {shares[number]:.1%})" if shares else ""
        say(f"{file.rows:,} rows, {file.queries:,} queries: {file.path}{share}")
        if os.path.isfile(file.path):  # a pipe has no name to follow
            echo(file.path)


class Make(SeedOptions):
    """Arguments and options of `boostrank data make`."""

    directory: str = argument("DIR", file="folder")
    queries: int = option(
        "Number of queries of the three files together.", 3000, ge=3, le=10_000_000
    )
    mean_length: float = option("Mean number of documents per query.", 40.0, ge=1, le=100_000)


@Command
def make(options: Make) -> None:
    """Write train.txt, valid.txt and test.txt (libsvm with `qid:`) to DIR, with the true relevance.

    60% of the queries are for training, and 20% each for validation and testing. test-relevance.txt
    has the true relevance of each document of test.txt, one number per line. Evaluate it as a score
    file to get the best possible metric.
    """
    from boostrank.core.files import check_writable, write_atomically
    from boostrank.data.synthetic import make_ranking_data
    from boostrank.files.writer import write_libsvm

    # Refuse an unusable folder before the data are generated.
    folder = Path(options.directory)
    folder.mkdir(parents=True, exist_ok=True)
    truth = folder / "test-relevance.txt"
    check_writable(truth)
    data = make_ranking_data(options.queries, seed=options.seed, mean_length=options.mean_length)
    parts = data.split()
    # Write the three data sets, and the relevance that labels are drawn from.
    for name, part in parts._asdict().items():
        path = folder / f"{name}.txt"
        write_libsvm(path, part.dataset)
        say(f"{part.dataset.n_documents:,} rows, {len(part.dataset.queries):,} queries: {path}")
        echo(path)
    write_atomically(
        truth, "".join(f"{value:.9g}\n" for value in parts.test.relevance.tolist()).encode()
    )
    echo(truth)


class CountClicks(Options):
    """Arguments and options of `boostrank data count-clicks`."""

    sessions: tuple[str, ...] = argument("SESSIONS...", file="data")
    output: str = option(
        "Click log to write; --clicks finds DATA.clicks next to DATA.", file="write"
    )
    documents: str | None = option(
        "Table of documents, or a pattern in quotes, to find rows by query and document instead of"
        " the column `row`.",
        file="data",
    )


@Command
def count_clicks(options: CountClicks) -> None:
    """Count session logs, one row per impression, into a click log by document and position.

    SESSIONS are CSV, TSV, Parquet or Arrow files of any size, which are read once. They have the
    columns position, from 1, clicked, 1 or true, else 0 or false, and row, the document's row in
    the data, from 1.
    """
    from boostrank.clicks.tables import count_clicks

    started = time.monotonic()
    log = count_clicks(options.sessions, options.documents)
    log.write(options.output)
    say(f"{options.output}: {log!r}, counted in {duration(time.monotonic() - started)}")
    echo(options.output)


class PropensityCommand(JsonOptions, group="Options"):
    """Arguments and options of `boostrank data propensities`."""

    clicks: str = argument("CLICKS", file="read")
    output: str | None = option("JSON file to write the propensities to.", file="write")


@Command
def propensities(options: PropensityCommand) -> None:
    """Estimate the examination probability of each position from documents shown at several
    positions.

    CLICKS is a table with the columns row, position, impressions and clicks. A document is equally
    relevant wherever it is shown, so its clicks compare the positions. If no clicked document was
    shown at several positions, this fails.

    \b
    boostrank data propensities train.txt.clicks -o propensities.json
    """
    from boostrank.clicks.estimation import estimate_propensities
    from boostrank.clicks.tables import read_clicks
    from boostrank.reporting.sections.clicks import propensities_by_position, propensity_table

    log = read_clicks(options.clicks)
    say(f"{options.clicks}: {log!r}")
    estimated = estimate_propensities(log)
    if options.output is not None:
        estimated.write(options.output)
        say(f"{options.output}: written")
    if options.as_json:
        print_json(estimated.to_dict())
        return
    data = propensities_by_position(estimated)
    positions = list(range(1, len(data["propensity"]) + 1))
    print_table(propensity_table("propensities", {"position": positions, **data}))
    say(f"from {estimated.moved:,} clicked documents that were shown at several positions")


class SimulateClicks(ThreadOptions, SeedOptions):
    """Arguments and options of `boostrank data simulate-clicks`."""

    ranker: str = argument("MODEL|SCORES", file="read")
    data: tuple[str, ...] = argument("DATA...", file="data")
    output: str = option("Click log to write.", file="write")
    impressions: int = option("Number of lists shown per query.", 10, ge=1)


@Command
def simulate_clicks(options: SimulateClicks, reading: FileOptions) -> None:
    """Simulate clicks on graded DATA, to test learning from clicks with a known truth.

    MODEL|SCORES ranks each list with some noise, and the first ten documents are shown. Users
    examine position p with probability 1/p. Write a line `row,position,impressions,clicks` for each
    document and position where it was shown. Rows are numbered from 1 in the order of DATA.
    """
    if reading.on_bad_line == "skip":
        raise InputError(
            "--on-bad-line skip cannot be used, because click logs count all rows of the file"
        )
    from boostrank.clicks.simulate import simulate_clicks
    from boostrank.model.scores import load_ranker, scores_of

    model, reader = load_ranker(options.ranker), Reader(reading, options, names=True)
    documents = reader.read_for({options.ranker: model}, options.data)[options.ranker]
    scores = scores_of(options.ranker, model, documents, options.threads)
    log = simulate_clicks(
        documents.labels,
        documents.queries,
        scores,
        impressions=options.impressions,
        seed=options.seed,
    ).renumbered(documents.input_rows)
    log.write(options.output)
    say(f"{options.output}: {log!r}")
    echo(options.output)
