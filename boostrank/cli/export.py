"""The commands `boostrank export` and `boostrank verify`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import GATE_SHUT, Running, say
from boostrank.cli.reading import Reader, name_of
from boostrank.cli.show import print_json
from boostrank.core.errors import InputError, did_you_mean
from boostrank.core.text import list_names
from boostrank.options import (
    FileOptions,
    JsonOptions,
    ModelOptions,
    Options,
    ThreadOptions,
    argument,
    option,
)
from boostrank.reporting.table import printable

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.export.proof import Proof
    from boostrank.export.target import TargetSpec
    from boostrank.model.ranking_model import RankingModel


class Export(Options, group="Export"):
    """Arguments and options of `boostrank export`."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("[DATA...]", file="data")
    to: str = option("Program that will read the file, from the list below.", metavar="TARGET")
    output: str = option("File to write.", file="write")
    name: str | None = option("Name of the model in that program.", shown="the file's")
    names: str | None = option(
        "File with the names of the features in that program, in the model's order: one per line,"
        " or the JSON of a feature store.",
        flag="--feature-names",
        file="read",
    )
    allow: tuple[str, ...] = option(
        "Accept different scores for a kind of rows (thresholds, random, zeros, missing, infinite,"
        " categories), or changed ranks of documents of DATA (moved).",
        metavar="KIND",
    )


class _WithTargets(Command):
    """A command whose `--help` lists the targets below the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from boostrank.export import target_lines

        with formatter.section("Targets"):
            formatter.write_dl(target_lines())


@_WithTargets
def export(options: Export, reading: FileOptions) -> None:
    """Write MODEL for a search engine or a library, and check that it returns the same scores
    there.

    The check scores rows on both sides of every split, with zeros, missing values, infinities and
    unseen categories. It runs the program where possible, and otherwise reads the file back and
    applies the program's rules. Different scores are refused. If DATA is given, no document may
    change its rank in its query.
    """
    from boostrank.export import TARGETS
    from boostrank.export.proof import moved_line
    from boostrank.export.target import shortest
    from boostrank.export.writing import export_model, how_to, read_feature_names
    from boostrank.files.names import name_of as feature_name
    from boostrank.model.ranking_model import RankingModel

    target, rows = TARGETS.get(options.to), None
    names = read_feature_names(options.names) if options.names else None
    model = RankingModel.load(options.model)
    target = target.serving(model.backend)
    if options.data:
        reader = Reader(reading, options, labelled=False)
        rows = reader.read_for({options.model: model}, options.data)[options.model]
    proof = export_model(
        model,
        options.output,
        options.to,
        feature_names=names,
        name=options.name,
        data=rows,
        allow=options.allow,
    )
    # Describe the check, and how to use the file.
    echo(f"{options.output}: for {target.title}, {proof.size:,} bytes")
    echo(f"checked by {proof.proved_by}: {proof.rows:,} rows, {_describe_check(proof)}")
    for remark in _remarks_on(proof, target, model, options.model):
        say(remark)
    if proof.moves is not None:
        moves, largest = moved_line(proof.moves), proof.moves.largest
        echo(f"{name_of(options.data)}: {moves}; the largest difference is {largest:.2g}")
    theirs = list(map(feature_name, names or ()))
    if set(theirs) - {*model.feature_names}:
        pairs = [" is ".join(pair) for pair in zip(model.feature_names, theirs, strict=False)]
        say(f"names in {options.names} are taken in the model's order: {list_names(pairs, 5)}")
    if proof.fill:
        values = ", ".join(f"{name}={shortest(value)}" for name, value in proof.fill.items())
        echo(f"defaults: {target.default.format(value='VALUE')} of each feature: {values}")
    for line in how_to(target, options.output, options.name):
        echo(line)


def _describe_check(proof: Proof) -> str:
    """Describe what the rows of the check cover, and how equal the scores are."""
    splits, parts = f"both sides of all {proof.nodes:,} splits", "leaves"
    if not proof.of_nodes:
        splits, parts = "of all columns", "weights"
    elif proof.nodes < proof.of_nodes:
        splits = f"both sides of {proof.nodes:,} of {proof.of_nodes:,} splits"
    same = "the same bits"
    if not proof.same_bits:
        same = f"the same {parts}, and rounding moves scores by at most {proof.largest:.2g}"
    if proof.other_leaves:
        same = f"except for {' and '.join(proof.other_leaves)} rows, {same}"
    return f"{splits}: {same}"


def _remarks_on(proof: Proof, target: TargetSpec, model: RankingModel, path: str) -> Iterator[str]:
    """Yield lines about what was not tested, and what the target needs to know."""
    if target.finite:
        yield (
            "rows with infinite values were not tested, as the input format of the target cannot"
            " hold them"
        )
    if proof.untried:
        yield (
            f"values within {proof.untried:.2g} of a threshold were not tested, as the target may"
            " move it that far"
        )
    used_features = {model.column_names[i] for i in model.trees().used}
    categories = model.categories.items()
    categorical = [name for name, c in categories if c.values is not None and name in used_features]
    if categorical:
        names = ", ".join(categorical)
        yield f"{names}: the target expects category codes, as listed in {path}.meta.json"
    for kind, count in proof.other_leaves.items():
        yield (
            f"{kind}: {count:,} rows have different scores in the target, accepted by --allow"
            f" {kind}"
        )


_EQUAL = {
    "equal": "equal",
    "float32": "equal up to rounding to float32",
    "ranking": "different scores with the same ranking of every query",
    "different": "different",
}


class Verify(ModelOptions, JsonOptions, ThreadOptions):
    """Options of `boostrank verify`."""

    against: str = option(
        "Logged scores in the order of DATA: a file with one per line, JSON lines with a `score`,"
        " or columns, of which `score` or the last is used. Rows that name their documents may have"
        " any order. Or a column of DATA, if it is a table.",
        metavar="FILE|COLUMN",
    )
    tolerance: str = option("Required agreement.", "float32", choices="equal float32 ranking")


@Command
def verify(options: Verify, reading: FileOptions) -> None:
    """Compare the scores that a search engine logged for the documents in DATA with MODEL's scores.

    Scores are equal, equal up to rounding to float32, different with the same ranking of each
    query, or different. The first document that differs and the number of differences are shown.
    Log all digits (nine for float32): rounded scores differ.

    Exit status: 0 if they agree as --tolerance requires, 1 otherwise.
    """
    from boostrank.core.text import count_of
    from boostrank.export.proof import verify
    from boostrank.files.tables import header_of, is_table
    from boostrank.model.scores import read_logged

    # Read the logged scores from a file, or from a column of the data.
    column = not os.path.exists(options.against) and all(map(is_table, options.data))
    if column and options.against not in (columns := header_of(options.data[0])):
        hint = did_you_mean(options.against, columns)
        raise InputError(
            f"--against {options.against!r} is neither a file nor a column of"
            f" {options.data[0]}.{hint}"
        )
    ignored = frozenset([options.against] if column else [])
    reader = Reader(reading, options, labelled=False, names=True, ignored=ignored)
    model, rows = reader.read_for_model(options.model, options.data)
    if column:
        scores = read_logged(options.data[0], rows, options.against, options.data[1:])
    else:
        scores = read_logged(options.against, rows)
    proof = verify(model, rows, scores)
    equal = proof.equal(options.tolerance)
    row = None if proof.first is None else _describe_row(rows, proof.first[0])
    if not equal:
        Running.status = GATE_SHUT
    if options.as_json:
        print_json({**asdict(proof), "equal": equal, "first_place": row})
        return
    # Print the level of agreement and the first difference.
    queries = count_of(proof.queries, "query", "queries")
    documents = count_of(proof.documents, "document")
    echo(f"{options.against}: {_EQUAL[proof.level]}: {documents} of {queries}")
    if proof.first is not None:
        _, query, score, logged = proof.first
        share = proof.different / proof.documents
        echo(
            f"different scores: {proof.different:,} ({share:.1%}), by up to {proof.largest:.3g}; "
            f"different ranks: {proof.moved:,}"
        )
        document = printable(f"{row}, query {query}")
        echo(f"first: {document}: {logged:.9g} logged, {score:.9g} by the model")


def _describe_row(data: RankingDataset, row: int) -> str:
    """Return the name, file and line of an input row, which is counted from 0."""
    position = row
    if data.input_rows is not None:
        position = int((data.input_rows == row).argmax())
    assert data.queries.places is not None  # it was read from files
    file, line = data.queries.places(position)
    source = f"{file}:{line}" if line else file
    name = "" if data.document_names is None else data.document_names[position]
    return f"{name} ({source})" if name else source
