"""`--max-trees`, `--max-microseconds`: what a model costs to serve, and what it would be worth for less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import say
from boostrank.cli.tables import aligned

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.training.model import RankingModel


def check_limits(context: click.Context, given: dict[str, Any], data: RankingDataset | None = None) -> None:
    """Refuse limits that cannot be kept, once without the data and once with them.

    Raises:
        UsageError, ParameterError: which, and why.
    """
    if not (given["max_trees"] or given["max_microseconds"]):
        return
    if given["dask"]:
        raise click.UsageError("--max-trees, --max-microseconds: not on a cluster, where --rounds says it", context)
    from boostrank.training.price import Limit

    Limit(given["max_trees"], given["max_microseconds"] if data is not None else None).check(given["backend"], data)


def say_price(model: RankingModel, data: RankingDataset, metric: str | None = None) -> None:
    """What the model costs, and the table of a metric against trees where its record has one."""
    from boostrank.training.price import count_trees, microseconds

    price = model.info.price
    if price is None:
        return
    trees = count_trees(model)
    if data.on_disk:
        say(f"{trees:,} trees: --max-trees {price['max_trees']}")
        return
    taken = microseconds(model, data)
    curve = price.get("curve", ())
    rows = [["made of", "trees", "microseconds", metric or ""]]
    for point in curve:
        what = "one model of " if point["single"] else ""
        rounds = f", up to {point['rounds']} rounds each" if point is not curve[-1] else ""
        rows.append(
            [f"{what}{'; '.join(point['of'])}{rounds}", f"{point['trees']:,}", f"{taken / trees * point['trees']:.3g}",
             f"{point['value']:.4f}"]
        )  # fmt: skip
    for line in aligned(rows) if len(rows) > 1 else ():
        say(line)
    asked = ""
    if "max_microseconds" in price:
        asked = f": --max-microseconds {price['max_microseconds']:g}, which --max-trees {price['max_trees']} repeats"
    elif "max_trees" in price:
        asked = f": --max-trees {price['max_trees']}"
    say(f"{trees:,} trees, {taken:.3g} microseconds a document, as measured here on one thread{asked}")
    if taken > price.get("max_microseconds", taken):
        say(
            f"that is {taken / price['max_microseconds'] - 1.0:.0%} above the limit: other work on the machine, or "
            "deeper trees than were timed; --max-trees is a limit that depends on neither"
        )


def price_of(model: RankingModel, data: RankingDataset) -> dict[str, Any]:
    """What `--json` says of it."""
    from boostrank.training.price import microseconds

    return (
        {} if model.info.price is None else {"price": {**model.info.price, "microseconds": microseconds(model, data)}}
    )
