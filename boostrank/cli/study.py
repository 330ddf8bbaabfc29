"""`boostrank study`: noise, pareto and average, which take several trainings; metrics of each library."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader
from boostrank.cli.show import check_page, print_json, print_table, print_wrapped, time_left, write_page
from boostrank.cli.train import prepared
from boostrank.core.errors import InputError
from boostrank.options import (
    CONVENTIONS,
    DEFAULT_ROUNDS,
    ConfigOptions,
    FileOptions,
    FitOptions,
    JsonOptions,
    Options,
    StartOptions,
    ThreadOptions,
    argument,
    declared,
    option,
    parse_shares,
)
from boostrank.options import ConventionOptions as _Conventions

if TYPE_CHECKING:
    from boostrank.report.conventions import Explanation, Match, Reading
    from boostrank.report.noise import NoiseReport, Spread
    from boostrank.report.pareto_front import Mix, ParetoFront


@dataclass(frozen=True, kw_only=True)
class Average(Options):
    """Options of `average`."""

    models: tuple[str, ...] = argument("MODEL...", default=(), file="read")
    model: str = option(None, "Model file to write.", short="-m", file="write", required=True)


@command("average", Average)
def average(own: Average) -> None:
    """Average MODELs of one engine and the same features into one model.

    The result is an ordinary model file with all their trees. Averages of models with other seeds (--seed) or folds
    rank better than one model.
    """
    from boostrank.core.files import check_writable, reserved

    check_writable(own.model)
    from boostrank.model.averaging import average
    from boostrank.model.ranking_model import RankingModel

    with reserved(own.model):
        one = average([RankingModel.load(path) for path in own.models])
        one.save(own.model)
    click.echo(f"{own.model}: {len(own.models)} models, {one.best_iteration} rounds")


@dataclass(frozen=True, kw_only=True)
class Noise(ConfigOptions, JsonOptions, group="Data and output"):
    """Options of `noise` only."""

    train: tuple[str, ...] = argument("TRAIN...", default=(), file="data")
    valid: str = option(None, "Measure on this file.", file="data", required=True)
    repeats: int = option(10, "Number of trainings for each source of luck.", ge=3, common=True)


@command("noise", Noise, FitOptions, FileOptions)
def noise(own: Noise, options: FitOptions, reading: FileOptions) -> None:
    """Measure how far luck alone moves the metric: smaller differences of two trainings mean nothing.

    Trains on TRAIN --repeats times each with other seeds, other orders of the rows, and other draws (with replacement)
    of the training queries. Takes the options of `boostrank train`.
    """
    from boostrank.report.noise import SOURCES, measure_noise

    gain, options = options.gain, prepared(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    reader = Reader(reading, options.threads, gain=gain)
    train_set = reader.read(own.train)
    valid_set = reader.read(own.valid, like=train_set)
    how: dict[str, Any] = {"runs": own.repeats, "backend": options.backend, "conventions": options.conventions}

    def progress(done: int, total: int, source: str, metrics: dict[str, float]) -> None:
        """Print the result of a run and the time left."""
        name, value = list(metrics.items())[-1]
        say(f"{done}/{total}  {source}  {name} {value:.4f}{left(done, total)}")

    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        say(f"at most {own.repeats * len(SOURCES)} trainings of {rounds} rounds")
        left = time_left()
        found = measure_noise(params, train_set, valid_set, rounds, **how, progress=progress)
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
    print_wrapped(texts)


def _cells(spread: Spread) -> list[str]:
    return [f"{spread.sd:.4f}", f"{spread.low:.4f} to {spread.high:.4f}"]


@dataclass(frozen=True, kw_only=True)
class Pareto(StartOptions, ConfigOptions, JsonOptions, group="Data and output"):
    """Options of `pareto` only."""

    train: tuple[str, ...] = argument("TRAIN...", default=(), file="data")
    goal: str = option(
        None,
        "The second goal: a column, a feature or not (--drop), or an expression over columns.",
        metavar="COLUMN",
        required=True,
    )
    valid: str | None = option(
        None, "Measure on this file.", file="data", shown="folds of the queries of TRAIN", common=True
    )
    folds: int = option(
        5, "Number of folds without --valid; each is measured by models of the others.", metavar="K", ge=2
    )
    mixes: tuple[float, ...] | None = option(
        None,
        "Shares of the goal; 0, the label alone, is always included.",
        kind="shares",
        metavar="W,W,...",
        parse=parse_shares,
        shown="0,0.1,...,1",
        common=True,
    )
    output: str | None = option(None, "Write an HTML page with the picture.", short="-o", file="write", common=True)


@command("pareto", Pareto, FitOptions, FileOptions)
def pareto(own: Pareto, options: FitOptions, reading: FileOptions) -> None:
    """Measure what a second goal, such as margin, costs in ranking by the label.

    Trains a ranker for each mix of the gain of the label (--gain) and the goal, with the same parameters and rounds,
    and measures each by both on held-out queries. Both are scaled to the same mean ideal DCG over the training
    queries, so that a mix of 0.5 is half of each. Prints a table, and the gain for `boostrank train --gain`.

    \b
    boostrank study pareto train.csv --drop margin --goal margin --valid valid.csv -o pareto.html
    """
    if options.early_stopping:
        raise InputError("mixes are compared after the same rounds: no --early-stopping here")
    if options.metrics or len(options.eval_at or ()) > 1:
        raise InputError("mixes are measured by NDCG and DCG at one rank: no --metric, and one number for --eval-at")
    files = [*own.train, *filter(None, [own.valid])]
    if "-" in files:
        raise InputError("the data are read twice, for the label and for the goal: put them into a file")
    from boostrank.core.conventions import expression_of
    from boostrank.report.pareto_front import MIXES, pareto

    expression = expression_of(own.goal)
    if expression is None:
        raise InputError(f"--goal {own.goal}: a column, or an expression over columns")
    check_page(own.output)
    typed, options = options, prepared(options)
    params = options.flat()
    goals, valid_goals = _goals(own, replace(typed, gain=expression.text), reading)
    reader = Reader(reading, options.threads, gain=typed.gain)
    with warnings.catch_warnings():
        if expression_of(typed.gain) is None:  # what deserves a look was said of the first reading
            warnings.simplefilter("ignore")
        train_set = reader.read(own.train)
        valid_set = reader.read(own.valid, like=train_set) if own.valid else None
    left = time_left()

    def progress(done: int, total: int, mix: Mix) -> None:
        """Print the result of a mix and the time left."""
        values = "  ".join(f"{name} {result.mean:.4f}" for name, result in list(mix.metrics.items())[:2])
        say(f"mix {mix.share:g}  {values}{left(done, total)}")

    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        found = pareto(
            params,
            train_set,
            {expression.text: goals},
            options.rounds or DEFAULT_ROUNDS,
            valid_set,
            valid_goal=valid_goals,
            mixes=own.mixes or MIXES,
            k=next(iter(typed.eval_at or ()), 10),
            folds=own.folds,
            backend=options.backend,
            conventions=options.conventions,
            start=own.start,
            progress=progress,
        )
    if own.output is not None:
        write_page(own.output, found.to_html(own.valid or ""))
    if own.as_json:
        print_json(found.to_dict())
        return
    _print_pareto(found)
    print_wrapped([found.verdict()], indent="")
    if found.free is not None:
        click.echo(f"\nboostrank train ... --gain '{found.free.gain}'")


def _goals(own: Pareto, options: FitOptions, reading: FileOptions) -> tuple[Any, Any]:
    """The goal of each row of the training and of the validation files, float64[N], in the order of the files."""
    reader = Reader(reading, options.threads, gain=options.gain)
    first = reader.read(own.train)
    second = reader.read(own.valid, like=first) if own.valid else None
    return first.in_input_order(first.labels), None if second is None else second.in_input_order(second.labels)


def _print_pareto(found: ParetoFront) -> None:
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


# Number of rows of --target: matches, or the nearest ones if none matches.
MOST_HITS, NEAREST = 20, 5


@dataclass(frozen=True, kw_only=True)
class MetricOptions(JsonOptions, ThreadOptions, group="Measures"):
    """Options of the command."""

    ranker: str = argument("MODEL|SCORES", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    conventions: str = option("default", declared(_Conventions)["conventions"].help, choices=CONVENTIONS)
    metric: str = option("ndcg@10", "ndcg@1,5,10, map@10, err@20, ...", metavar="NAME")
    target: str | None = option(
        None, "Search for the conventions that give this number, to the digits that it has.", metavar="X"
    )


@command("metrics", MetricOptions, FileOptions)
def metrics(own: MetricOptions, reading: FileOptions) -> None:
    """Measure scores by the conventions of each library, and split the differences.

    MODEL|SCORES is a model, or a file with one score per line in the order of DATA. The way from one number to another
    changes one convention at a time, in the order of the columns, so that each row adds up. --conventions says which
    number the others are compared with; --target searches for the conventions that give a number. trec_eval orders tied
    documents by their names: comments of DATA, as in `# docid = NAME`.
    """
    from boostrank.metric import Metric
    from boostrank.model.scores import load_ranker, scores_of
    from boostrank.report.conventions import explain_conventions, find_conventions

    wanted, base = Metric.parse(own.metric), own.conventions
    model = load_ranker(own.ranker)
    reader = Reader(reading, own.threads, names=True)
    ((_, dataset),) = reader.read_for({own.ranker: model}, own.data)
    scores = scores_of(own.ranker, model, dataset, own.threads)
    measured = (dataset.labels, scores, dataset.queries, wanted)
    if own.target is not None:
        found = find_conventions(own.target, *measured, base=base, threads=own.threads)
        _print_matches(found, own.target, as_json=own.as_json)
        return
    names = dataset.document_names
    docnos = None if names is None or "" in names else names
    explanations = explain_conventions(*measured, base=base, docnos=docnos, threads=own.threads)
    if own.as_json:
        plain = {one.metric: dataclasses.asdict(one) for one in explanations}
        for one in explanations:
            del plain[one.metric]["metric"]
            plain[one.metric]["ties"] |= {"mass": one.ties.mass, "worth": one.ties.worth}
        print_json(plain)
        return
    for one in explanations:
        _print_metrics(one)


def _print_metrics(found: Explanation) -> None:
    from boostrank.report.conventions import STEPS

    printed = {r.name: _printed_changes(r, found.value) for r in found.readings if r.value is not None}
    titles = [step for step in STEPS if any(step in changes for changes in printed.values())]
    rows = [["", found.metric, *titles], [found.base, f"{found.value:.4f}", *("" for _ in titles)]]
    for reading in found.readings:
        if reading.value is not None:
            cells = (printed[reading.name].get(title, "") for title in titles)
            rows.append([reading.name, f"{reading.value:.4f}", *cells])
    click.echo(f"{found.metric} as each computes it; from {found.base} in steps, which add up from left to right:")
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
        f"Ties: {ties.mass:.2%} of the documents ({ties.tied:,} of {ties.documents:,}) have the score of a document "
        "with another label in their query.",
        f"Their order can be worth {ties.worth:.4f}: {ties.worst:.4f} with the worst order, {ties.file_order:.4f} with "
        f"that of the file, {ties.expected:.4f} on average, {ties.best:.4f} with the best.",
    )
    print_wrapped(about_the_data)
    click.echo()


def _printed_changes(reading: Reading, start: float) -> dict[str, str]:
    """Return each change, as four digits show it. Values are rounded, not changes, so that numbers add up."""
    printed, before = {}, round(start, 4)
    for change in reading.changes:
        after = round(change.value, 4)
        if after != before:
            printed[change.convention] = f"{after - before:+.4f}"
        before = after
    return printed


def _sentence(reading: Reading, printed: dict[str, str], base: str) -> str:
    if reading.value is None:
        return f"{reading.name} has no such number: {reading.note}"
    changes = [change for change in reading.changes if change.convention in printed]
    changes.sort(key=lambda change: -abs(change.change))
    why = "; ".join(f"{printed[change.convention]} is {change.choice}" for change in changes)
    why = why or f"its differences from {base} have no effect on these data"
    return f"{reading.name} says {reading.value:.4f}: {why}" + (f" ({reading.note})" if reading.note else "")


def _print_matches(matches: list[Match], target: str, *, as_json: bool) -> None:
    hits = [match for match in matches if match.hit]
    if as_json:
        shown = [dataclasses.asdict(match) for match in hits or matches[:NEAREST]]
        print_json({"target": target, "tried": len(matches), "hits": len(hits), "nearest": shown})
        return
    tried = f"of {len(matches):,} combinations of conventions that matter for these data"
    if hits:
        click.echo(f"{len(hits):,} {tried} give{'s' * (len(hits) == 1)} {target}:")
    else:
        click.echo(f"none {tried} gives {target}; the nearest:")
    rows = (hits or matches)[: MOST_HITS if hits else NEAREST]
    fields = list(dict.fromkeys(field for match in rows for field in match.choices))
    titles = ["value", "off by", "metric", *fields, "as in"]
    cells = [
        [
            f"{m.value:.6f}",
            f"{m.difference:+.6f}",
            m.metric,
            *(str(m.choices.get(f, "")) for f in fields),
            ", ".join(m.libraries),
        ]
        for m in rows
    ]
    click.echo()
    print_table([titles, *cells])
    if len(hits) > len(rows):
        click.echo(f"  ... and {len(hits) - len(rows):,} more")
