"""The commands `compare`, `noise`, `queries` and `average` in `boostrank study`."""

from __future__ import annotations

import contextlib
import statistics
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, print_table, print_wrapped, time_left
from boostrank.core.errors import InputError
from boostrank.options import (
    DEFAULT_ROUNDS,
    CompareOptions,
    FileOptions,
    FitOptions,
    Options,
    TrainingsOptions,
    TwoRankersOptions,
    argument,
    option,
)
from boostrank.reporting.table import Column, table_of_rows

if TYPE_CHECKING:
    from boostrank.reporting.studies import ObjectiveComparison, Progress


class Average(Options):
    """Arguments and options of `boostrank study average`."""

    models: tuple[str, ...] = argument("MODEL...", file="read")
    model: str = option("Model file to write.", file="write")


@Command
def average(options: Average) -> None:
    """Average MODELs of one engine with the same features into one model.

    The result is an ordinary model file with all their trees. An average of models with different
    seeds (--seed) or folds ranks better than a single model.
    """
    from boostrank.core.files import reserved
    from boostrank.model.averaging import average
    from boostrank.model.ranking_model import RankingModel

    with reserved(options.model):
        model = average([RankingModel.load(path) for path in options.models])
        model.save(options.model)
    echo(f"{options.model}: {len(options.models)} models, {model.best_iteration} rounds")


def progress_line() -> Progress:
    """Return a function that prints a line after each training."""
    describe_time_left = time_left()

    def progress(done: int, total: int, training: str, metrics: dict[str, float]) -> None:
        name, value = list(metrics.items())[-1]
        say(f"{done}/{total}  {training}  {name} {value:.4f}{describe_time_left(done, total)}")

    return progress


class ObjectiveStudy(TrainingsOptions):
    """The options for `study compare`."""

    valid: str = option("Validation file, on which rates and rounds are chosen.", file="data")
    test: str = option("Test file, on which the objectives are compared.", file="data")
    against: tuple[str, ...] = option(
        "Objective to compare --objective with.", file="objective", required=True
    )
    rates: tuple[float, ...] = option(
        "Learning rate to choose from.",
        parse=("X", float),
        shown="0.02, 0.05, 0.1, 0.2, 0.5",
        common=True,
    )
    repeats: int = option(
        "Number of trainings of each objective at its rate.", 5, ge=2, common=True
    )


@Command
def compare(study: ObjectiveStudy, options: FitOptions, reading: FileOptions) -> None:
    """Compare --objective with each --against on your own data, with the same budget for each.

    Each is trained on TRAIN at every --rate. The best on --valid is chosen, and trained again with
    other seeds and row orders. Trainings are stopped on --valid and compared query by query on
    --test. Intervals and p include how much trainings differ by chance, and p is adjusted for
    several --against by Holm's method. The options of `boostrank train` apply to all objectives,
    --set to --objective only.
    """
    from boostrank.fit.settings import default_objective
    from boostrank.from_files import load_options, resolve_objective
    from boostrank.reporting.studies import compare_objectives

    # Separate the parameters of --objective from those of all objectives.
    texts = [options.objective or default_objective(options.backend), *study.against]
    if len(set(texts)) < len(texts):
        raise InputError(f"the objectives must differ: {', '.join(texts)}")
    reader, options = Reader(reading, options), load_options(replace(options, objective=None))
    objectives: dict[str, Any] = {text: resolve_objective(text) for text in texts}
    first = objectives[texts[0]] = {"objective": objectives[texts[0]], **options.settings}
    params = {name: value for name, value in options.flat().items() if name not in first}
    # Read the data, and train.
    train_set = reader.read(study.train)
    valid_set = reader.read([study.valid], like=train_set)
    test_set = reader.read([study.test], like=train_set)
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        comparison = compare_objectives(
            params,
            train_set,
            valid_set,
            test_set,
            objectives,
            options.rounds,
            rates=study.rates,
            repeats=study.repeats,
            backend=options.backend,
            conventions=options.conventions,
            progress=progress_line(),
        )
    if study.as_json:
        print_json(asdict(comparison))
    else:
        _print_objectives(comparison)


_OBJECTIVES = (
    Column("objective", " "),
    *("rate g", "rounds ,.0f", "valid .4f", "test .4f"),
    Column("mean", "difference", "+.4f", ends=("low", "high")),
    *("better #", "same #", "worse #", "p .4f", "p_holm .4f p (Holm)"),
)
_OF_DIFFERENCE = ("mean", "low", "high", "better", "same", "worse", "p", "p_holm")


def _print_objectives(comparison: ObjectiveComparison) -> None:
    objectives = comparison.objectives
    rows = []
    for name, tuned in objectives.items():
        row = {"objective": name, "rate": tuned.rate, "rounds": statistics.median(tuned.rounds)}
        row |= {"valid": tuned.valid[tuned.rate], "test": statistics.mean(tuned.test)}
        difference = comparison.differences.get(name)
        rows.append(row | {field: getattr(difference, field, None) for field in _OF_DIFFERENCE})
    first = next(iter(objectives))
    echo(f"{comparison.metric} by objective; difference: {first} minus the other on --test")
    print_table(table_of_rows("objectives", rows, _OBJECTIVES))
    edges = [
        f"{name}: the best rate is at an end of the grid; add another --rate."
        for name, tuned in objectives.items()
        if len(tuned.valid) > 1 and tuned.rate in (min(tuned.valid), max(tuned.valid))
    ]
    luck = "over queries and the luck of training, not that of choosing the rate"
    print_wrapped([f"Intervals and p are {luck}.", *edges])


class Noise(TrainingsOptions):
    """Options of `boostrank study noise`."""

    valid: str = option("Validation file.", file="data")
    repeats: int = option("Number of trainings for each source of noise.", 10, ge=3, common=True)


@Command
def noise(command: Noise, options: FitOptions, reading: FileOptions) -> None:
    """Measure how much the metric varies by chance. Smaller differences between two trainings are
    meaningless.

    Train on TRAIN --repeats times with different seeds, with different row orders, and with
    bootstrap samples of the training queries. The options of `boostrank train` apply.
    """
    from boostrank.from_files import load_options
    from boostrank.reporting.studies import SOURCES, measure_noise

    reader, options = Reader(reading, options), load_options(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    train_set = reader.read(command.train)
    valid_set = reader.read([command.valid], like=train_set)
    say(f"training up to {command.repeats * len(SOURCES)} models for {rounds} rounds")
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        report = measure_noise(
            params,
            train_set,
            valid_set,
            rounds,
            runs=command.repeats,
            backend=options.backend,
            conventions=options.conventions,
            progress=progress_line(),
        )
    metrics = {
        name: {
            "value": result.mean,
            "matters": report.matters(name),
            "sources": {
                source: vars(report.spread(source, name)) | {"values": values[name].tolist()}
                for source, values in report.values.items()
            },
        }
        for name, result in report.first.items()
    }
    if command.as_json:
        print_json({"runs": report.runs, "seconds": report.seconds, "metrics": metrics})
    else:
        _print_noise(metrics)


_SPREAD = (
    Column("source", " "),
    "runs #",
    Column("sd", "standard deviation", ".4f", ends=("low", "high")),
    "matters .4f matters from",
)


def _print_noise(metrics: dict[str, Any]) -> None:
    from boostrank.reporting.studies import SOURCES

    # Print a table for each metric, with a row for each source of chance.
    idle = list(SOURCES)
    for name, result in metrics.items():
        rows = [
            {"source": source, "runs": len(spread["values"]), **spread}
            for source, spread in result["sources"].items()
        ]
        idle = [row["source"] for row in rows if row["source"] in idle and not row["sd"]]
        echo(f"{name}, {result['value']:.4f} without changes")
        print_table(table_of_rows(name, rows, _SPREAD))
        echo()
    # Explain the columns, and name sources that these settings never use.
    bounds = ", ".join(f"{result['matters']:.4f} in {name}" for name, result in metrics.items())
    texts = [
        f"Two single trainings on these data may differ by up to {bounds} by chance.",
        "matters from: two trainings differ by more through this kind of chance alone once in"
        " twenty times.",
    ]
    never = "these settings cause no differences, so fewer models were trained."
    print_wrapped([*texts, *(f"{source}: {never}" for source in idle)], "  ")


class QueryCount(TwoRankersOptions):
    """Arguments and options of `boostrank study queries`."""

    detect: float = option("Difference to detect, in the first metric.", metavar="X", gt=0)


@Command
def queries(options: QueryCount, reading: FileOptions) -> None:
    """Compute how many queries people must judge to detect a difference between OLD and NEW.

    A two-sided test at the level .05 then finds a difference of --detect with a probability of .8,
    if differences vary between queries as in DATA. With --machine, print the number for `compare
    --machine` too, where the machine judges the queries of DATA.
    """
    from boostrank.cli.judging import compare_files
    from boostrank.reporting.machine import plan_of

    settings = {name: value for name, value in vars(options).items() if name != "detect"}
    plan = plan_of(compare_files(CompareOptions(**settings), reading)[0], options.detect)
    if options.as_json:
        print_json(asdict(plan))
        return
    echo(f"to detect a difference of {plan.detect:g} in {plan.metric}, people must judge")
    with_machine = "" if plan.both is None else f", or {plan.both:,} with the machine's grades"
    echo(f"  {plan.people:,} queries{with_machine}")
    if plan.both is not None and plan.both >= plan.judged:
        say(f"the machine judged only {plan.judged:,} queries; let it grade more")
