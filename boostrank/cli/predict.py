"""`boostrank predict`."""

from __future__ import annotations

import sys
from itertools import chain, islice
from typing import Any

import click

from boostrank.cli.options import Command, InputFile, OutputFile, data_argument, option, threads_option
from boostrank.cli.reading import Reader, reading_options


@click.command("predict", cls=Command)
@click.argument("model", type=InputFile())
@data_argument()
@option("-o", "--output", type=OutputFile(stream=True), default="-", show_default="-, standard output",
        help="Write the scores here.")  # fmt: skip
@option("--num-iteration", metavar="N", type=click.IntRange(1), show_default="the best", help="Use the first N rounds.")
@threads_option()
@reading_options
def command(
    model: str, data: tuple[str, ...], output: str, num_iteration: int | None, threads: int | None, **given: Any
) -> None:
    """Score the documents of DATA by MODEL: one score a line, in input order.

    DATA is one file or several, plain or compressed, a quoted pattern, or `-` for standard input.

    Scores are written as rows are read, in the same memory for any number of them; of a model that looks at whole
    queries, once all are read. With -o the file is written whole or not at all; what is on standard output when a later
    row is refused, stays.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Higher is better, within one query only.
    """
    if given["on_bad_line"] == "skip":
        raise click.UsageError(
            "--on-bad-line skip would write fewer scores than there are rows, so that those behind the first would be "
            "of other documents: mend the rows, or leave them out of the file"
        )
    from boostrank.core.process import uncollected, without

    with uncollected():
        from boostrank.core.files import check_output, write_all, writing
        from boostrank.data.text.writer import score_text
        from boostrank.model.ranking_model import RankingModel

        if output != "-":
            check_output(output)
        with without("sklearn", "pandas"):  # an engine imports them for a second, and scores without them
            ranker = RankingModel.load(model)
        pieces = Reader({**given, "threads": threads}).scores(data, ranker, model, num_iteration)
        first = list(islice(pieces, 1))
    if output == "-":
        for scores in chain(first, pieces):
            sys.stdout.write(score_text(scores).decode())
        return
    with writing(output) as descriptor:
        for scores in chain(first, pieces):
            write_all(descriptor, score_text(scores))
