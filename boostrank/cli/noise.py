"""`boostrank noise`."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.config import read_config
from boostrank.cli.errors import say
from boostrank.cli.options import Command, DataFile, InputFile, option, with_options
from boostrank.cli.progress import duration
from boostrank.cli.reading import SECTION as READING
from boostrank.cli.reading import Reader, reading_options
from boostrank.cli.tables import print_table
from boostrank.cli.train import command as train_command
from boostrank.cli.train import train_params
from boostrank.cli.train_options import OUTPUT

if TYPE_CHECKING:
    from boostrank.report.noise.analysis import NoiseReport, Spread

# The options of `boostrank train` that say what is trained and how it is measured.
_SHARED = (
    "objective", "settings", "gain", "backend", "rounds", "learning_rate", "num_leaves", "params", "seed", "threads",
    "metrics", "eval_at", "conventions", "early_stopping",
)  # fmt: skip

_options = with_options(
    option("--valid", required=True, type=DataFile(), section=OUTPUT, help="Measure on this file."),
    option("--runs", type=click.IntRange(3), default=10, section=OUTPUT, help="Trainings for each source of luck."),
    option(
        "--config", type=InputFile(), is_eager=True, callback=read_config, section=OUTPUT,
        help="TOML file: long option names as keys, tables [set] and [param]. The command line wins.",
    ),
    study.json_option,
)  # fmt: skip


@click.command("noise", cls=Command, short_help="What luck alone does to the metric.")
@click.argument("train", metavar="TRAIN...", nargs=-1, required=True, type=DataFile())
@_options
@reading_options
@click.pass_context
def command(
    context: click.Context, /, train: tuple[str, ...], valid: str, runs: int, as_json: bool, **given: Any
) -> None:
    """What luck alone does to the metric: below which difference two trainings are alike.

    Trains on TRAIN --runs times with other seeds, as often with the rows in other orders, and as often with other draws
    (with replacement) of the training queries. All else is as given, with the options of `boostrank train`. Says
    beforehand how long it will take at most.
    """
    if [*train, valid].count("-") > 1:
        raise click.UsageError("standard input can be read only once", context)
    from boostrank.report.noise.analysis import SOURCES, expected_seconds, measure_noise

    params = train_params(context, given)
    if given["early_stopping"]:
        params["early_stopping_round"] = given["early_stopping"]
    reader = Reader(given)
    train_set = reader.read(train)
    valid_set = reader.read(valid, like=train_set)
    how: dict[str, Any] = {"runs": runs, "backend": given["backend"], "conventions": given["conventions"]}
    started = time.monotonic()

    def progress(done: int, total: int, source: str, metrics: dict[str, float]) -> None:
        """A line each run: what it gave, and how long the rest will take."""
        left = (time.monotonic() - started) / done * (total - done)
        name, value = list(metrics.items())[-1]
        say(f"{done}/{total}  {source}  {name} {value:.4f}" + (f"  {duration(left)} left" if done < total else ""))

    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        seconds = expected_seconds(params, train_set, valid_set, given["rounds"], **how)
        say(f"{runs * len(SOURCES)} trainings of {given['rounds']} rounds: about {duration(seconds)} at most")
        started = time.monotonic()
        found = measure_noise(params, train_set, valid_set, given["rounds"], **how, progress=progress)
    if as_json:
        study.print_json(_as_json(found))
    else:
        _print(found, context)


# Before those of reading, as in `boostrank train`.
_place = [getattr(param, "section", "") for param in command.params].index(READING)
command.params[_place:_place] = [param for param in train_command.params if param.name in _SHARED]


def _as_json(found: NoiseReport) -> dict[str, Any]:
    def plain(spread: Spread) -> dict[str, float]:
        return {name: number for name, number in vars(spread).items() if not math.isnan(number)}

    metrics = {
        name: {
            "value": result.mean,
            "matters": found.matters(name),
            "sources": {
                source: plain(found.spread(source, name)) | {"values": values[name].tolist()}
                for source, values in found.values.items()
            },
            "validation queries": plain(found.over_queries(name)),
        }
        for name, result in found.first.items()
    }
    return {"runs": found.runs, "seconds": found.seconds, "metrics": metrics}


def _print(found: NoiseReport, context: click.Context) -> None:
    for name, result in found.first.items():
        rows = [["", "runs", "standard deviation", "95% interval", "matters from"]]
        for source, values in found.values.items():
            spread = found.spread(source, name)
            rows.append([source, str(values[name].size), *_cells(spread), f"{spread.matters:.4f}"])
        rows.append(["validation queries", "", *_cells(found.over_queries(name)), ""])
        click.echo(f"{name}, {result.mean:.4f} with nothing changed")
        print_table(rows)
        click.echo()
    idle = [
        f"{source}: no difference at all with these settings; not followed further."
        for source, values in found.values.items()
        if not any(found.spread(source, one).sd for one in values)
    ]
    bounds = ", ".join(f"{found.matters(name):.4f} in {name}" for name in found.first)
    texts = (
        f"Two single trainings on these data that differ by less than {bounds} may differ by luck.",
        "matters from: luck of this kind alone gives a larger difference of two trainings once in twenty times.",
        "validation queries: what other validation queries would do to the number. Rankers that are compared on the "
        "same queries share it: boostrank evaluate pairs them.",
        *idle,
    )
    study.print_wrapped(context, texts)


def _cells(spread: Spread) -> list[str]:
    return [f"{spread.sd:.4f}", f"{spread.low:.4f} to {spread.high:.4f}"]
