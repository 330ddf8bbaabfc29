"""`boostrank simulate-clicks`."""

from __future__ import annotations

from typing import Any

import click

from boostrank.cli.clicks import check_rows_count
from boostrank.cli.errors import say
from boostrank.cli.options import (
    COUNT,
    Command,
    FloatRange,
    InputFile,
    OutputFile,
    data_argument,
    option,
    threads_option,
)
from boostrank.cli.reading import Reader, reading_options

SECTION = "Users"


@click.command("simulate-clicks", cls=Command)
@data_argument()
@option("--logger", required=True, metavar="FILE", type=InputFile(), help="The ranker that is logged: model or scores.")
@option("-o", "--output", required=True, metavar="FILE", type=OutputFile(), help="The click log to write.")
@option("--impressions", type=COUNT, default=10, section=SECTION, help="Lists that are shown, a query.")
@option("--shown", type=COUNT, default=10, section=SECTION, help="Documents of a list.")
@option("--spread", type=FloatRange(0), default=0.5, section=SECTION,
        help="Noise on the scores of each list, in standard deviations of the query's; 0: nothing moves.")  # fmt: skip
@option("--users", type=click.Choice(["position", "cascade", "trust"]), default="position", section=SECTION,
        help="How they click: by position; from the top until they leave; or besides by trust in the top.")  # fmt: skip
@option("--eta", type=FloatRange(0, 10), show_default="1", section=SECTION,
        help="Position p is looked at with probability p^-eta; not of cascade users.")  # fmt: skip
@option("--noise", type=FloatRange(0, 1, max_open=True), default=0.1, section=SECTION,
        help="Probability of a click on an irrelevant document that is looked at.")  # fmt: skip
@option("--seed", type=click.IntRange(0), default=0, section=SECTION, help="The same seed, the same bytes.")
@threads_option()
@reading_options
def command(
    data: tuple[str, ...], logger: str, output: str, impressions: int, shown: int, spread: float, users: Any,
    eta: float | None, noise: float, seed: int, **given: Any,
) -> None:  # fmt: skip
    """Clicks of simulated users on graded DATA, whose truth is known: what would it take to learn from clicks?

    Writes a line `row,position,impressions,clicks` for each document and position at which it was shown; rows count
    the documents from 1 in the order of DATA.
    """
    if users == "cascade" and eta is not None:
        raise click.UsageError("cascade users read from the top: no --eta")
    check_rows_count(given)
    from boostrank.cli.scores import load_ranker, scores_of
    from boostrank.clicks.files import write_clicks
    from boostrank.clicks.simulate import Users, simulate_clicks
    from boostrank.core.files import check_writable
    from boostrank.core.queries import QueryIndex

    check_writable(output)
    how = Users(users, 1.0 if eta is None else eta, noise)
    ranker, reader = load_ranker(logger), Reader(given)
    documents = reader.read(data, like=reader.feature_space(ranker, logger, data) if ranker else None)
    scores = scores_of(logger, ranker, documents, given["threads"])
    index: QueryIndex = documents.queries
    log = simulate_clicks(
        documents.labels, index, scores, how, impressions=impressions, shown=shown, spread=spread,
        seed=seed,
    ).renumbered(documents.input_rows)  # fmt: skip
    write_clicks(output, log)
    say(f"{output}: {log!r}")
    click.echo(output)
