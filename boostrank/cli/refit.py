"""The command `boostrank refit`."""

from __future__ import annotations

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.options import FileOptions, ModelOptions, ThreadOptions, option


class Refit(ModelOptions, ThreadOptions, group="Data and output"):
    """Options of `boostrank refit`."""

    output: str | None = option(
        "Model file to write.",
        short="-o",
        file="output",
        shown="MODEL",
    )
    keep: float = option("Share of its old value that each leaf keeps.", 0.0, ge=0, le=1)


@command("refit")
def refit(options: Refit, reading: FileOptions) -> None:
    """Compute the leaves of MODEL again from DATA, while trees keep their splits.

    Use it for new judgements or documents between two trainings: it takes one pass over the rows
    per tree, and needs no validation set. The objective is the model's. Leaves that no row reaches
    keep their value.

    \b
    boostrank refit model.txt week.csv -o new.txt
    boostrank refit model.txt week.csv --keep 0.5 -o new.txt
    """
    from boostrank.core.files import check_writable, reserved
    from boostrank.fit.renewal import refit as compute

    output = options.output or options.model
    check_writable(output)
    with reserved(output):
        model, data = Reader(reading, options.threads).read_for_model(options.model, options.data)
        model = compute(model, data, keep=options.keep, threads=options.threads)
        model.save(output)
    count = f"{data.n_documents:,} documents in {len(data.queries):,} queries"
    click.echo(f"{output}: {model.num_trees():,} trees refitted on {count}")
