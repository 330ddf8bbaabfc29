"""`boostrank average`."""

from __future__ import annotations

import click

from boostrank.cli.options import Command, InputFile, OutputFile, option


@click.command("average", cls=Command)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=InputFile())
@option("-m", "--model", "output", required=True, type=OutputFile(), section="Output", help="Where it is written.")
def command(models: tuple[str, ...], output: str) -> None:
    """Write one model whose scores are the mean of the scores of MODELs, of one engine and over the same features.

    It is an ordinary model file with all their trees. Models that were trained with other seeds (--seed), or on other
    folds, rank better together than one of them.
    """
    from boostrank.core.files import check_writable, reserved

    check_writable(output)
    from boostrank.model.averaging import average
    from boostrank.model.ranking_model import RankingModel

    with reserved(output):
        one = average([RankingModel.load(path) for path in models])
        one.save(output)
    click.echo(f"{output}: {len(models)} models, {one.best_iteration} rounds")
