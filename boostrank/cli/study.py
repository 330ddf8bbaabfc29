"""The commands `compare`, `noise`, `average` and `metrics` in `boostrank study`."""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.compare import COLUMNS, cells_of
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, print_table, print_wrapped, time_left
from boostrank.cli.train import objective_of, prepared
from boostrank.core.errors import InputError
from boostrank.options import (
    CONVENTIONS,
    DEFAULT_ROUNDS,
    FileOptions,
    FitOptions,
    JsonOptions,
    Options,
    ThreadOptions,
    TrainingsOptions,
    argument,
    option,
)

if TYPE_CHECKING:
    from boostrank.reporting.conventions import Explanation, Reading
    from boostrank.reporting.noise import NoiseReport, Progress, Spread
    from boostrank.reporting.objectives import ObjectiveComparison


class Average(Options):
    """Arguments and options of `boostrank study average`."""

    models: tuple[str, ...] = argument("MODEL...", file="read")
    model: str = option("Model file to write.", short="-m", file="write")


@command("average")
def average(own: Average) -> None:
    """Average MODELs of one engine with the same features into one model.

    The result is an ordinary model file with all their trees. An average of models with different seeds (--seed) or
    folds ranks better than a single model.
    """
    from boostrank.core.files import reserved
    from boostrank.model.averaging import average
    from boostrank.model.ranking_model import RankingModel

    with reserved(own.model):
        one = average([RankingModel.load(path) for path in own.models])
        one.save(own.model)
    click.echo(f"{own.model}: {len(own.models)} models, {one.best_iteration} rounds")


def progress_line() -> Progress:
    """Return a function that prints a line after each training."""
    left = time_left()

    def progress(done: int, total: int, what: str, metrics: dict[str, float]) -> None:
        name, value = list(metrics.items())[-1]
        say(f"{done}/{total}  {what}  {name} {value:.4f}{left(done, total)}")

    return progress


class ObjectiveStudy(TrainingsOptions, group="Data and output"):
    """The options for `study compare`."""

    valid: str = option("Validation file, on which rates and rounds are chosen.", file="data")
    test: str = option("Test file, on which the objectives are compared.", file="data")
    against: tuple[str, ...] = option(
        "Objective to compare --objective with.", metavar="NAME", file="objective", required=True
    )
    rates: tuple[float, ...] = option(
        "Learning rate to choose from.",
        flag="--rate",
        parse=("X", float),
        shown="0.02, 0.05, 0.1, 0.2, 0.5",
        common=True,
    )
    repeats: int = option("Number of trainings of each objective at its rate.", 5, ge=2, common=True)


@command("compare")
def compare(study: ObjectiveStudy, options: FitOptions, reading: FileOptions) -> None:
    """Compare --objective with each --against on your own data, with the same budget for each.

    Each is trained on TRAIN at every --rate. The best on --valid is chosen, and trained again with
    other seeds and row orders. Trainings are stopped on --valid and compared query by query on
    --test: intervals and p include the luck of training, and p is adjusted for several --against by
    Holm's method. The options of `boostrank train` apply to all objectives, --set to --objective
    only.
    """
    from boostrank.fit.params import default_objective
    from boostrank.reporting.objectives import compare_objectives

    # Separate the parameters of --objective from those of all objectives.
    texts = [options.objective or default_objective(options.backend), *study.against]
    if len(set(texts)) < len(texts):
        raise InputError(f"the objectives must differ: {', '.join(texts)}")
    gain, options = options.gain, prepared(replace(options, objective=None))
    objectives: dict[str, Any] = {text: objective_of(text) for text in texts}
    first = objectives[texts[0]] = {"objective": objectives[texts[0]], **options.settings}
    params = {name: value for name, value in options.flat().items() if name not in first}
    # Read the data, and train.
    reader = Reader(reading, options.threads, gain=gain)
    train_set = reader.read(study.train)
    valid_set = reader.read(study.valid, like=train_set)
    test_set = reader.read(study.test, like=train_set)
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


def _print_objectives(comparison: ObjectiveComparison) -> None:
    rows = [["", "rate", "rounds", "valid", "test", *COLUMNS[3:], "p", "p by Holm"]]
    edges = []
    for name, tuned in comparison.objectives.items():
        numbers = [tuned.valid[tuned.rate], statistics.mean(tuned.test)]
        d = comparison.differences.get(name)
        cells = [*cells_of(d)[3:], f"{d.p:.4f}", f"{d.p_holm:.4f}"] if d else [""] * 7
        rounds = f"{statistics.median(tuned.rounds):,.0f}"
        rows.append([name, f"{tuned.rate:g}", rounds, *(f"{n:.4f}" for n in numbers), *cells])
        if tuned.rate in (min(tuned.valid), max(tuned.valid)):
            edges.append(f"{name}: the best rate is at an end of the grid; add another --rate.")
    first = next(iter(comparison.objectives))
    click.echo(f"{comparison.metric} by objective; difference: {first} minus the other on --test")
    print_table(rows)
    luck = "over queries and the luck of training, not that of choosing the rate"
    print_wrapped([f"Intervals and p are {luck}.", *edges], indent="")


class Noise(TrainingsOptions, group="Data and output"):
    """Options of `boostrank study noise`."""

    valid: str = option("Validation file.", file="data")
    repeats: int = option("Number of trainings for each source of noise.", 10, ge=3, common=True)


@command("noise")
def noise(own: Noise, options: FitOptions, reading: FileOptions) -> None:
    """Measure how much the metric varies by chance. Smaller differences between two trainings are meaningless.

    Train on TRAIN --repeats times with different seeds, with different row orders, and with bootstrap samples of the
    training queries. The options of `boostrank train` apply.
    """
    from boostrank.reporting.noise import SOURCES, measure_noise

    gain, options = options.gain, prepared(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    train_set, valid_set = Reader(reading, options.threads, gain=gain).read_both(own.train, own.valid)
    assert valid_set is not None  # --valid is required
    how: dict[str, Any] = {"runs": own.repeats, "backend": options.backend, "conventions": options.conventions}

    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        say(f"training up to {own.repeats * len(SOURCES)} models for {rounds} rounds")
        found = measure_noise(params, train_set, valid_set, rounds, **how, progress=progress_line())
    if own.as_json:
        print_json(_noise_as_json(found))
    else:
        _print_noise(found)


def _noise_as_json(found: NoiseReport) -> dict[str, Any]:
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


def _print_noise(found: NoiseReport) -> None:
    for name, result in found.first.items():
        rows = [["", "runs", "standard deviation", "95% interval", "matters from"]]
        for source, values in found.values.items():
            spread = found.spread(source, name)
            rows.append([source, str(values[name].size), *_cells(spread), f"{spread.matters:.4f}"])
        rows.append(["validation queries", "", *_cells(found.over_queries(name)), ""])
        click.echo(f"{name}, {result.mean:.4f} without changes")
        print_table(rows)
        click.echo()
    idle = [
        f"{source}: these settings cause no differences, so fewer models were trained."
        for source, values in found.values.items()
        if not any(found.spread(source, one).sd for one in values)
    ]
    bounds = ", ".join(f"{found.matters(name):.4f} in {name}" for name in found.first)
    texts = (
        f"Two single trainings on these data may differ by up to {bounds} by chance.",
        "matters from: two trainings differ by more through this kind of chance alone once in twenty times.",
        "validation queries: the variation with other validation queries. Rankers measured on the same queries share "
        "it; boostrank evaluate compares them query by query.",
        *idle,
    )
    print_wrapped(texts)


def _cells(spread: Spread) -> list[str]:
    return [f"{spread.sd:.4f}", f"{spread.low:.4f} to {spread.high:.4f}"]


class MetricOptions(JsonOptions, ThreadOptions, group="Measures"):
    """Arguments and options of `boostrank study metrics`."""

    ranker: str = argument("MODEL|SCORES", file="read")
    data: tuple[str, ...] = argument("DATA...", file="data")
    conventions: str = option("Conventions that the others are compared with.", "default", choices=CONVENTIONS)
    metric: str = option("Metric, such as ndcg@1,5,10, map@20 or err@20.", "ndcg@10", metavar="NAME")


@command("metrics")
def metrics(own: MetricOptions, reading: FileOptions) -> None:
    """Compute a metric with the conventions of each library, and explain the differences.

    MODEL|SCORES is a model, or a file with one score per line in the order of DATA. Differences from --conventions are
    attributed to one convention at a time, in column order, so that each row adds up. trec_eval orders tied documents
    by name, which comments in DATA give as `# docid = NAME`.
    """
    from boostrank.metrics import Metric
    from boostrank.model.scores import load_ranker, scores_of
    from boostrank.reporting.conventions import explain_conventions

    wanted, base = Metric.parse(own.metric), own.conventions
    model = load_ranker(own.ranker)
    reader = Reader(reading, own.threads, names=True)
    ((_, dataset),) = reader.read_for({own.ranker: model}, own.data)
    scores = scores_of(own.ranker, model, dataset, own.threads)
    measured = (dataset.labels, scores, dataset.queries, wanted)
    names = dataset.document_names
    docnos = None if names is None or "" in names else names
    explanations = explain_conventions(*measured, base=base, docnos=docnos, threads=own.threads)
    if own.as_json:
        plain = {one.metric: asdict(one) for one in explanations}
        for one in explanations:
            del plain[one.metric]["metric"]
            plain[one.metric]["ties"] |= {"mass": one.ties.mass, "worth": one.ties.worth}
        print_json(plain)
        return
    for one in explanations:
        _print_metrics(one)


def _print_metrics(found: Explanation) -> None:
    from boostrank.reporting.conventions import STEPS

    printed = {r.name: _printed_changes(r, found.value) for r in found.readings if r.value is not None}
    titles = [step for step in STEPS if any(step in changes for changes in printed.values())]
    rows = [["", found.metric, *titles], [found.base, f"{found.value:.4f}", *("" for _ in titles)]]
    for reading in found.readings:
        if reading.value is not None:
            cells = (printed[reading.name].get(title, "") for title in titles)
            rows.append([reading.name, f"{reading.value:.4f}", *cells])
    click.echo(f"{found.metric} in each library; differences to {found.base} add up from left to right:")
    click.echo()
    print_table(rows)
    click.echo()
    print_wrapped(_sentence(one, printed.get(one.name, {}), found.base) for one in found.readings)
    click.echo()
    ties = found.ties
    shorter = f", {found.short:,} are shorter than the cut-off" if "@" in found.metric else ""
    about_the_data = (
        f"Queries: {found.queries:,}; {found.empty:,} have no relevant document, {found.single:,} have one document"
        f"{shorter}.",
        f"Ties: {ties.mass:.2%} of the documents ({ties.tied:,} of {ties.documents:,}) have the same score as a "
        "document of their query with another label.",
        f"Their order can change the metric by {ties.worth:.4f}: {ties.worst:.4f} with the worst order, "
        f"{ties.file_order:.4f} with the file's order, {ties.expected:.4f} on average, {ties.best:.4f} with the best.",
    )
    print_wrapped(about_the_data)
    click.echo()


def _printed_changes(reading: Reading, start: float) -> dict[str, str]:
    """Return each change to four digits. The values are rounded instead of the changes, so that the numbers add up."""
    printed, before = {}, round(start, 4)
    for change in reading.changes:
        after = round(change.value, 4)
        if after != before:
            printed[change.convention] = f"{after - before:+.4f}"
        before = after
    return printed


def _sentence(reading: Reading, printed: dict[str, str], base: str) -> str:
    if reading.value is None:
        return f"{reading.name} does not compute it: {reading.note}"
    changes = [change for change in reading.changes if change.convention in printed]
    changes.sort(key=lambda change: -abs(change.change))
    why = "; ".join(f"{printed[change.convention]} is {change.choice}" for change in changes)
    why = why or f"its differences from {base} have no effect on these data"
    return f"{reading.name} says {reading.value:.4f}: {why}" + (f" ({reading.note})" if reading.note else "")
