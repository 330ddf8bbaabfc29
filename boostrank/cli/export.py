"""`boostrank export`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from boostrank.cli.command import Command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, name_of
from boostrank.options import FileOptions, Options, argument, option


@dataclass(frozen=True, kw_only=True)
class Export(Options, group="Export"):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("[DATA...]", default=(), required=False, file="data")
    to: str = option(None, "Program that reads the file: see the list below.", metavar="TARGET", required=True)
    output: str = option(None, "File to write.", short="-o", file="write", required=True)
    name: str | None = option(None, "Name of the model there.", metavar="NAME", shown="the file's")
    names: str | None = option(
        None,
        "Names of the features there, in the model's order: one per line, or the JSON of a feature store.",
        flag="--feature-names",
        file="read",
    )
    allow: tuple[str, ...] = option(
        (),
        "Accept different scores for rows of this kind (thresholds, random, zeros, missing, infinite, categories), "
        "or changed ranks of documents of DATA (moved).",
        metavar="KIND",
    )


class _WithTargets(Command):
    """List the targets below the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from boostrank.export import target_lines

        with formatter.section("Targets"):
            formatter.write_dl(target_lines())


def _export(own: Export, reading: FileOptions) -> None:
    """Write MODEL for a search engine or library, and prove that it gives the same scores there.

    Rows at both sides of every split, with zeros, missing values, infinities and unseen categories are scored by the
    program itself where it can run here. Otherwise the file is read back and scored by the program's rules. Other
    scores are refused. DATA, your own rows by queries, are tried as well: no document may change its place.
    """
    from boostrank.core.files import check_writable
    from boostrank.export import TARGETS
    from boostrank.export.proof import moved_line
    from boostrank.export.writing import export_model, how_to, read_feature_names

    target = TARGETS.get(own.to)
    check_writable(own.output)
    from boostrank.model.ranking_model import RankingModel

    names = None if own.names is None else read_feature_names(own.names)
    model, rows = RankingModel.load(own.model), None
    if own.data:
        model, rows = Reader(reading, None).read_for_model(own.model, own.data)
    proof = export_model(model, own.output, own.to, feature_names=names, name=own.name, data=rows, allow=own.allow)
    splits = f"both sides of all {proof.nodes:,} splits"
    if proof.nodes < proof.of_nodes:
        splits = f"both sides of {proof.nodes:,} of {proof.of_nodes:,} splits"
    same = f"the same leaves, and rounding moves scores by at most {proof.largest:.2g}"
    same = "the same bits" if proof.same_bits else same
    if proof.other_leaves:
        same = f"but for rows of the kind {' and '.join(proof.other_leaves)}, {same}"
    click.echo(f"{own.output}: for {target.title}, {proof.size:,} bytes")
    click.echo(f"proved by {proof.proved_by}: {proof.rows:,} rows, {splits}: {same}")
    if target.finite:
        say("rows with infinite values were not tried: the target's input format cannot hold them")
    if proof.untried:
        say(f"values nearer than {proof.untried:.2g} to a threshold were not tried: it may be as far off there")
    coded = [feature for feature, one in model.categories.items() if one.values is not None]
    if coded:
        say(f"{', '.join(coded)}: codes of categories are expected there, as {own.model}.meta.json numbers them")
    for kind, count in proof.other_leaves.items():
        say(f"{kind}: {count:,} rows of this kind get other scores there, as --allow {kind} says")
    if proof.moves is not None:
        largest = proof.moves.largest
        click.echo(f"{name_of(own.data)}: {moved_line(proof.moves)}; the largest difference is {largest:.2g}")
    for line in how_to(target, own.output, own.name):
        click.echo(line)


export = _WithTargets("export", _export, (Export, FileOptions), ("feature_names",), ())
