"""`boostrank convert`."""

from __future__ import annotations

from typing import Any

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Command, FloatRange, InputFile, OutputFile, data_argument, option, threads_option
from boostrank.cli.reading import name_of, reading_options


@click.command("convert", cls=Command)
@click.argument("old", type=InputFile())
@data_argument(required=False)
@option("-o", "--output", required=True, type=OutputFile(), help="Where the new model is written.")
@option("--steps", metavar="N", type=click.IntRange(2), default=255, help="About so many steps a feature.")
@option(
    "--allow", metavar="X", type=FloatRange(0.0),
    help="Write it although scores move by up to X; otherwise by 2% of their deviation over DATA, without DATA of the "
    "reach of the start.",
)  # fmt: skip
@threads_option()
@reading_options
def command(
    old: str, data: tuple[str, ...], output: str, steps: int, allow: float | None, threads: int | None, **given: Any
) -> None:
    """Put the linear leaves of a model of boostrank 0.1.0 into steps, which every program reads.

    Hardly any program but LightGBM reads a start with linear leaves, and most drop it without a word. The trees behind
    it stay as they are. How far scores move is said, and bounded. Given DATA, rows like those that it ranks, steps end
    between their values. A model without such leaves is refused, and nothing
    is written.
    """
    from boostrank.core.errors import InputError, ModelError
    from boostrank.core.files import check_writable
    from boostrank.core.formatting import count_of
    from boostrank.core.locks import reserved

    check_writable(output)
    from boostrank.cli.study import read_for_model
    from boostrank.training.conversion import ALLOWED, convert_start
    from boostrank.training.model import RankingModel

    rows = None
    if not data:
        model = RankingModel.load(old)
    else:
        model, rows = read_for_model(old, data, {**given, "threads": threads})
    try:
        converted, found = convert_start(model, rows, steps=steps)
    except ModelError as error:
        raise ModelError(f"{old}: {error}") from None
    share = f"{100.0 * found.difference / max(1e-300, found.allowed / ALLOWED):.2g}%"
    if found.difference > (found.allowed if allow is None else allow):
        limit = f"{found.allowed:.2g}" if allow is None else f"{allow:g}"
        raise InputError(
            f"scores move by up to {found.difference:.2g}, more than {limit}: more --steps, "
            f"{'' if data else 'DATA of your own, '}or --allow {found.difference * 1.01:.2g}; nothing is written"
        )
    with reserved(output):
        converted.save(output)
    click.echo(f"{output}: {count_of(found.steps, 'step')} for {count_of(found.functions, 'feature')}")
    if found.documents is None:
        click.echo(
            f"no score moves by more than {found.bound:.2g}, {share} of the reach of the start, where values are "
            "those of the training"
        )
        if found.outside:
            say(
                f"{count_of(found.outside, 'feature')} counted without an end: beyond the values of the training it is "
                "level now, and scores move by more there"
            )
        say("documents are spread over the steps by guess, which contributions depend on: DATA of your own count them")
        return
    click.echo(
        f"{name_of(data)}: no score moves by more than {found.difference:.2g}, {share} of their deviation; "
        f"{found.moved:,} of {found.documents:,} documents change their place"
    )
    if found.ndcg is not None:
        click.echo(f"ndcg@10 {found.ndcg[0]:.4f} before, {found.ndcg[1]:.4f} after")
