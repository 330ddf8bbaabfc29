"""`boostrank make-data`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from boostrank.cli.errors import say
from boostrank.cli.options import Command, FloatRange, option


@click.command("make-data", cls=Command)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@option("--queries", type=click.IntRange(3, 10_000_000), default=3000, help="Queries in all three files.")
@option("--seed", type=click.IntRange(0), default=0, help="The same seed, the same bytes.")
@option("--mean-length", type=FloatRange(1, 100_000), default=40.0, help="Documents a query, on average.")
@option("--max-length", type=click.IntRange(1, 1_000_000), default=1000, help="Documents of the longest query.")
@option("--useless", type=click.IntRange(0, 100_000), default=8, help="Features that say nothing.")
@option("--label-noise", type=FloatRange(0), default=0.5,
        help="The judges' noise, in standard deviations of the relevance.")  # fmt: skip
def command(
    directory: str, queries: int, seed: int, mean_length: float, max_length: int, useless: int, label_noise: float
) -> None:
    """Write train.txt, valid.txt and test.txt (libsvm with `qid:`) to DIR, and what is true of them.

    60% of the queries are for training, 20% each for validation and test. roles.json says which feature is what;
    test-relevance.txt has the relevance of each document of test.txt before the judges' noise, a number a line:
    `boostrank evaluate` takes it for scores, and what it gets is the best that a ranker can.
    """
    from boostrank.core.files import check_writable, write_atomically
    from boostrank.data.synthetic import make_ranking_data
    from boostrank.data.text.writer import write_libsvm

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    notes, truth = folder / "roles.json", folder / "test-relevance.txt"
    check_writable(notes)
    data = make_ranking_data(
        queries, seed=seed, mean_length=mean_length, max_length=max_length, useless=useless, label_noise=label_noise
    )
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
