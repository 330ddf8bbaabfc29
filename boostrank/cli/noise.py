"""`boostrank noise`."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.errors import say
from boostrank.cli.options import Command, DataFile, check_stdin, option
from boostrank.cli.progress import duration
from boostrank.cli.reading import reading_options
from boostrank.cli.tables import print_table
from boostrank.cli.train import read_for_trainings
from boostrank.cli.train_options import OUTPUT, config_option, training_options

if TYPE_CHECKING:
    from boostrank.report.noise import NoiseReport, Spread


_MOST_USED = ("valid", "runs", "objective", "metrics", "rounds", "early_stopping", "config", "as_json", "threads")


@click.command("noise", cls=Command, most_used=_MOST_USED)
@click.argument("train", metavar="TRAIN...", nargs=-1, required=True, type=DataFile())
@option("--valid", required=True, type=DataFile(), section=OUTPUT, help="Measure on this file.")
@option("--runs", type=click.IntRange(3), default=10, section=OUTPUT, help="Trainings for each source of luck.")
@config_option
@study.json_option
@training_options
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
    check_stdin(context, [*train, valid])
    from boostrank.report.noise import SOURCES, expected_seconds, measure_noise

    params, train_set, valid_set = read_for_trainings(context, given, train, valid)
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


def _as_json(found: NoiseReport) -> dict[str, Any]:
    def plain(spread: Spread) -> dict[str, float]:
        return {name: number for name, number in vars(spread).items() if not math.isnan(number)}

    metrics = {
        name: {
            "value": result.mean, "matters": found.matters(name),
            "sources": {source: plain(found.spread(source, name)) | {"values": values[name].tolist()}
                        for source, values in found.values.items()},
            "validation queries": plain(found.over_queries(name)),
        }
        for name, result in found.first.items()
    }  # fmt: skip
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
