"""`boostrank pareto`."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.errors import say
from boostrank.cli.options import COUNT, Command, DataFile, OutputFile, Parsed, check_stdin, option
from boostrank.cli.progress import duration
from boostrank.cli.reading import Reader, reading_options
from boostrank.cli.tables import print_table
from boostrank.cli.train import train_params
from boostrank.cli.train_options import OUTPUT, START_WORDS, config_option, training_options

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.report.pareto_front import Mix, ParetoFront


def _shares(given: str) -> tuple[float, ...]:
    """`0,0.25,0.5,1`."""
    try:
        found = tuple(float(word) for word in given.split(","))
    except ValueError:
        found = ()
    if not found or not all(0.0 <= share <= 1.0 for share in found) or not any(found):
        raise ValueError(f"{given!r} is not a list of shares such as 0,0.25,0.5,1")
    return found


_MOST_USED = ("goal", "valid", "output", "mixes", "at", "rounds", "drop", "objective", "backend", "threads")


@click.command("pareto", cls=Command, most_used=_MOST_USED)
@click.argument("train", metavar="TRAIN...", nargs=-1, required=True, type=DataFile())
@option("--goal", required=True, metavar="COLUMN", section=OUTPUT,
        help="The second goal: a column, feature or not (--drop), or an expression over columns.")  # fmt: skip
@option("--valid", type=DataFile(), section=OUTPUT, show_default="folds of the queries of TRAIN",
        help="Measure on this file.")  # fmt: skip
@option("--folds", metavar="K", type=click.IntRange(2), default=5, section=OUTPUT,
        help="Without --valid: each fold is measured by models of the others.")  # fmt: skip
@option("--mixes", type=Parsed("W,W,...", _shares), show_default="0,0.1,...,1", section=OUTPUT,
        help="Shares of the goal; 0, the label alone, is always among them.")  # fmt: skip
@option("--at", metavar="K", type=COUNT, default=10, section=OUTPUT, help="Cut-off of NDCG and DCG.")
@option("-o", "--output", metavar="FILE", type=OutputFile(), section=OUTPUT,
        help="Write one page with the picture, which needs no network.")  # fmt: skip
@option("--start", type=click.Choice(START_WORDS), default="auto", section=OUTPUT, show_default=False,
        help="As of train.")  # fmt: skip
@config_option
@study.json_option
@training_options
@reading_options
@click.pass_context
def command(
    context: click.Context, /, train: tuple[str, ...], goal: str, valid: str | None, folds: int,
    mixes: tuple[float, ...] | None, at: int, output: str | None, start: str, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """What ranking by a second goal, such as margin, costs of the first, the label.

    Trains a ranker for each mix of the gain of the label (--gain) and the goal, with the same parameters and rounds,
    and measures each by both on held-out queries. Both are scaled to the same mean ideal DCG over the training
    queries, so that a mix of 0.5 is half of each. Prints a table, and the gain for `boostrank train --gain`.

    \b
    boostrank pareto train.csv --drop margin --goal margin --valid valid.csv -o pareto.html
    """
    if given["early_stopping"]:
        raise click.UsageError("mixes are compared after the same rounds: no --early-stopping here", context)
    if given["metrics"] or given["eval_at"]:
        raise click.UsageError("mixes are measured by NDCG and DCG: --at says at which rank", context)
    check_stdin(context, [*train, *filter(None, [valid])])
    if "-" in (*train, valid):
        raise click.UsageError("the data are read twice, for the label and for the goal: put them into a file", context)
    from boostrank.core.files import check_not_read
    from boostrank.core.gains import expression_of
    from boostrank.report.pareto_front import MIXES, pareto

    expression = expression_of(goal)
    if expression is None:
        raise click.UsageError(f"--goal {goal}: a column, or an expression over columns", context)
    if output is not None:
        check_not_read(output, [*train, *filter(None, [valid])])
    study.check_page(output)
    params = train_params(context, given)
    goals, valid_goals = _goals(given, expression.text, train, valid)
    reader = Reader(given)
    with warnings.catch_warnings():
        if expression_of(given["gain"]) is None:  # what deserves a look was said of the first reading
            warnings.simplefilter("ignore")
        train_set = reader.read(train)
        valid_set = reader.read(valid, like=train_set) if valid else None
    started = time.monotonic()

    def progress(done: int, total: int, mix: Mix) -> None:
        """A line a mix: what it gave, and how long the rest will take."""
        left = (time.monotonic() - started) / done * (total - done)
        values = "  ".join(f"{name} {result.mean:.4f}" for name, result in list(mix.metrics.items())[:2])
        say(f"mix {mix.share:g}  {values}" + (f"  {duration(left)} left" if done < total else ""))

    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        found = pareto(
            params, train_set, goals, given["rounds"], valid_set, valid_goal=valid_goals, name=expression.text,
            mixes=mixes or MIXES, k=at, folds=folds, backend=given["backend"], conventions=given["conventions"],
            start=start, progress=progress,
        )  # fmt: skip
    if output is not None:
        study.write_page(output, found.to_html(valid or ""))
    if as_json:
        study.print_json(found.to_dict())
        return
    _print(found)
    study.print_wrapped(context, [found.verdict()], indent="")
    if found.free is not None:
        click.echo(f"\nboostrank train ... --gain '{found.free.gain}'")


def _goals(given: dict[str, Any], goal: str, train: tuple[str, ...], valid: str | None) -> tuple[Any, Any]:
    """The goal of each row of the training and of the validation files, float64[N], in the order of the files."""
    reader = Reader(given | {"gain": goal})
    first: RankingDataset = reader.read(train)
    second = reader.read(valid, like=first) if valid else None
    return first.in_input_order(first.labels), None if second is None else second.in_input_order(second.labels)


def _print(found: ParetoFront) -> None:
    *both, dcg = found.names
    rows = [["mix", *(cell for name in both for cell in (name, "to mix 0", "95% interval")), dcg]]
    for mix in found.mixes:
        row = [f"{mix.share:g}" + ("" if mix.on_front else " -")]
        for name in both:
            d = mix.differences[name]
            row += [f"{mix.metrics[name].mean:.4f}", f"{d.mean:+.4f}", f"{d.low:+.4f} to {d.high:+.4f}"]
        rows.append([*row, f"{mix.metrics[dcg].mean:.4f}"])
    print_table(rows)
    if not all(mix.on_front for mix in found.mixes):
        click.echo("-: another mix is as good or better by both NDCGs")
