"""`--max-trees`, `--max-microseconds`, and the line that says what a model costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import say
from boostrank.cli.progress import duration

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel


def check_limits(context: click.Context, given: dict[str, Any], data: RankingDataset | None = None) -> None:
    """Refuse limits that cannot be kept, once without the data and once with them.

    Raises:
        UsageError, ParameterError: which, and why.
    """
    if not (given["max_trees"] or given["max_microseconds"]):
        return
    if given["dask"]:
        raise click.UsageError("--max-trees, --max-microseconds: not on a cluster, where --rounds says it", context)
    from boostrank.engines import get_backend
    from boostrank.model.price import Limit

    Limit(given["max_trees"], given["max_microseconds"] if data is not None else None).check(
        get_backend(given["backend"]), data
    )


def say_cost(model: RankingModel, data: RankingDataset | None, seconds: float) -> None:
    """Trees and training time, and what a limit came to."""
    from boostrank.engines import get_backend
    from boostrank.model.booster_methods import tree_counts
    from boostrank.model.price import count_trees, microseconds

    if not get_backend(model.backend).grows_trees:
        return
    start, price = tree_counts(model)[0], model.info.price or {}
    of_start = f", {start:,} of them the linear start's" if start else ""
    words = f"{count_trees(model):,} trees{of_start}; trained in {duration(seconds)}"
    if "max_microseconds" not in price or data is None or data.on_disk:
        say(words)
        return
    taken, limit = microseconds(model, data), price["max_microseconds"]
    say(f"{words}; {taken:.3g} microseconds a document on one thread here; --max-trees {price['max_trees']} repeats it")
    if taken > limit:
        say(
            f"that is {taken / limit - 1.0:.0%} above --max-microseconds {limit:g}: other work on the machine, or "
            "deeper trees than were timed; --max-trees depends on neither"
        )


def price_of(model: RankingModel, data: RankingDataset | None) -> dict[str, Any]:
    """Entries of `--json`: `trees`, and `price` where a limit was given."""
    from boostrank.engines import get_backend
    from boostrank.model.price import count_trees, microseconds

    found: dict[str, Any] = {"trees": count_trees(model)} if get_backend(model.backend).grows_trees else {}
    if model.info.price is None or data is None:
        return found
    return found | {"price": {**model.info.price, "microseconds": microseconds(model, data)}}
