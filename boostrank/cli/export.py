"""`boostrank export`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Command, InputFile, OutputFile, data_argument, option
from boostrank.cli.reading import name_of, reading_options_but

to_export = partial(option, section="Export")


class _Targets(Command):
    """List the targets below the options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from boostrank.export import target_lines

        with formatter.section("Targets"):
            formatter.write_dl(target_lines())


@click.command("export", cls=_Targets)
@click.argument("model", type=InputFile())
@data_argument("Export", required=False)
@to_export("--to", required=True, metavar="TARGET", help="What reads the file: see the list below.")
@to_export("-o", "--output", type=OutputFile(), help="Write it here.")
@to_export("--how", is_flag=True, help="Print what to do with the file, in three lines; without -o nothing else.")
@to_export("--name", metavar="NAME", show_default="the file's", help="What the model is called there.")
@to_export(
    "--feature-names", metavar="FILE", type=InputFile(),
    help="Names of the features there, in the model's order: a name a line, or the JSON of a feature store.",
)  # fmt: skip
@to_export(
    "--allow", metavar="KIND", multiple=True,
    help="Write it although rows of this kind get other scores (thresholds, random, zeros, missing, infinite, "
    "categories), or documents of DATA change places (moved).",
)  # fmt: skip
@reading_options_but("feature_names")
def command(
    model: str, to: str, output: str | None, how: bool, name: str | None, feature_names: str | None,
    data: tuple[str, ...], allow: tuple[str, ...], **given: Any,
) -> None:  # fmt: skip
    """Write MODEL as a program that serves rankers reads it, with proof that it gives the same scores there.

    Rows at both sides of every split, with zeros, missing values, infinities and unseen categories are scored by the
    program itself where it can run here. Otherwise the file is read back and scored by the program's rules. Other
    scores are refused. DATA, your own rows by queries, are tried as well: no document may change its place.
    """
    from boostrank.core.errors import InputError
    from boostrank.core.files import check_writable
    from boostrank.export import TARGETS
    from boostrank.export.proof import moved_line
    from boostrank.export.writing import export_model, how_to, read_feature_names

    target = TARGETS.get(to)
    if output is None and not how:
        raise InputError("give -o FILE, where the model is written")
    if output is not None:
        check_writable(output)
        from boostrank.cli.study import read_for_model
        from boostrank.model.ranking_model import RankingModel

        names = None if feature_names is None else read_feature_names(feature_names)
        ranker, rows = RankingModel.load(model), None
        if data:
            ranker, rows = read_for_model(model, data, {**given, "threads": None})
        proof = export_model(ranker, output, to, feature_names=names, name=name, data=rows, allow=allow)
        splits = f"both sides of all {proof.nodes:,} splits"
        if proof.nodes < proof.of_nodes:
            splits = f"both sides of {proof.nodes:,} of {proof.of_nodes:,} splits"
        same = f"the same leaves, and rounding moves scores by at most {proof.largest:.2g}"
        same = "the same bits" if proof.same_bits else same
        if proof.other_leaves:
            same = f"but for rows of the kind {' and '.join(proof.other_leaves)}, {same}"
        click.echo(f"{output}: for {target.title}, {proof.size:,} bytes")
        click.echo(f"proved by {proof.proved_by}: {proof.rows:,} rows, {splits}: {same}")
        if target.finite:
            say("rows with infinite values were not tried: what is sent there cannot spell them")
        if proof.untried:
            say(f"values nearer than {proof.untried:.2g} to a threshold were not tried: it may be as far off there")
        coded = [feature for feature, one in ranker.categories.items() if one.values is not None]
        if coded:
            say(f"{', '.join(coded)}: codes of categories are expected there, as {model}.meta.json numbers them")
        for kind, count in proof.other_leaves.items():
            say(f"{kind}: {count:,} rows of this kind get other scores there, as --allow {kind} says")
        if proof.moves is not None:
            click.echo(
                f"{name_of(data)}: {moved_line(proof.moves)}; the largest difference is {proof.moves.largest:.2g}"
                + (
                    f", {proof.moves.rounded:,} changed places with an equal but for rounding"
                    * (proof.moves.rounded > 0)
                )
            )
    for line in how_to(target, output or "model", name) if how else ():
        click.echo(line)
