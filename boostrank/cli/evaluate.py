"""The command `boostrank evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import Command, readable
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, list_unfit_for_runs, metrics_of
from boostrank.cli.show import print_json, print_table, print_wrapped
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, MeasureOptions, argument, option
from boostrank.reporting.table import Column, table_of_rows

if TYPE_CHECKING:
    from boostrank.core.conventions import Conventions
    from boostrank.metrics import MetricResult

    Results = dict[str, MetricResult]


class Evaluate(MeasureOptions):
    """Arguments and options of `boostrank evaluate`."""

    files: tuple[str, ...] = argument("MODEL|SCORES... DATA...", file="data")
    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@10, map, or a function in a file, my.py:name.",
        ("ndcg@1,3,5,10",),
        shown="ndcg@1,3,5,10",
    )
    qrels: str | None = option(
        "Judgements, such as TREC qrels. All other files are then runs, evaluated like trec_eval.",
        file="read",
    )


@Command
def evaluate(options: Evaluate, reading: FileOptions) -> None:
    """Measure rankers on DATA, with 95% intervals over the queries.

    Each ranker is a model, or a file with one score per line in the order of DATA, or a table from
    `predict`. The first file that is neither of these begins DATA (`-` reads standard input, '*.gz'
    several files). Other rankers are compared with the first one query by query. With several of
    them, p-values are adjusted by Holm's method for each metric.

    With --qrels the files are runs, evaluated with the conventions of trec_eval. Runs and qrels
    have the form of TREC or MS MARCO, or are tables (BEIR, ranx, PyTerrier) or JSON.
    """
    from boostrank.metrics import Conventions

    runs = options.qrels is not None
    usual = "trec" if runs else None
    rules = Conventions.of(options.conventions or usual, options.gain)
    if runs and (flags := list_unfit_for_runs(reading, options.gain)):
        raise InputError(f"--qrels measures runs, which have no rows: leave out {', '.join(flags)}")
    results, weights = _of_runs(options, rules) if runs else _of_rankers(options, reading, rules)
    numbers = _numbers(results, weights, shared_only=runs)
    first, *other_rankers = numbers
    if options.as_json:
        content = numbers if other_rankers else numbers[first]
        print_json(content)
        return
    for path, metrics in numbers.items():
        title = path if path == first else f"{path}, and its query-by-query difference to {first}"
        click.echo(title)
        rows = [{"metric": name, **row} for name, row in metrics.items()]
        print_table(table_of_rows("metrics", rows, _COLUMNS))
        click.echo()
    explanation = rules.describe()
    if len(other_rankers) > 1:
        explanation += f"; p is adjusted for {len(other_rankers)} rankers by Holm's method"
    print_wrapped([explanation])


def _numbers(results: dict[str, Results], weights: Any, *, shared_only: bool) -> dict[str, Any]:
    """Return ranker -> metric -> numbers, which include the difference from the first ranker.

    With `shared_only`, differences leave out the queries that either ranker lacks.
    """
    from boostrank.metrics import paired_difference
    from boostrank.reporting.segments import holm

    first, *other_rankers = results
    numbers: dict[str, Any] = {path: {} for path in results}
    for name, reference in results[first].items():
        for path in results:
            result = results[path][name]
            numbers[path][name] = {
                **{field: getattr(result, field) for field in ("mean", "low", "high", "queries")},
                "left_out": result.per_query.size - result.queries,
            }
        # Compare all but the first ranker with the first, query by query.
        for path in other_rankers:
            values, base = results[path][name].per_query, reference.per_query
            # Spread NaN, so that a query without a value for one ranker counts for neither.
            if shared_only:
                values, base = values + 0.0 * base, base + 0.0 * values
            d = paired_difference(values, base, weights=weights)
            ends = {"difference_low": d.low, "difference_high": d.high}
            numbers[path][name] |= {"difference": d.mean, **ends, "p": d.p}
        # Adjust p-values for the number of rankers compared.
        adjusted = holm([numbers[path][name]["p"] for path in other_rankers]).tolist()
        for path, p in zip(other_rankers, adjusted, strict=True):
            numbers[path][name]["p"] = p
    return numbers


def _of_rankers(
    options: Evaluate, reading: FileOptions, rules: Conventions
) -> tuple[dict[str, Results], Any]:
    """Return each ranker's results, and the query weights."""
    from boostrank.metrics import BoundMetrics, Metric
    from boostrank.model.scores import columns_of, holds_ranker, load_ranker, scores_of

    # Separate the rankers from the data files.
    files = options.files
    ranker_count = next(
        (i for i, path in enumerate(files) if i and not holds_ranker(path)), len(files) - 1
    )
    if not ranker_count:
        raise click.UsageError(
            "DATA is missing; name its files after the rankers", click.get_current_context()
        )
    rankers = [readable(path) for path in files[:ranker_count]]
    if len(set(rankers)) < len(rankers):
        raise InputError("the same file is given twice")
    metrics = Metric.all_of(metrics_of(options.metrics))
    models = {path: load_ranker(path) for path in rankers}
    has_names = rules.ties == "docno" or any(
        "id" in columns_of(path, alone=False) for path in models if models[path] is None
    )
    reader = Reader(reading, options, names=has_names)
    datasets, threads = reader.read_for(models, files[ranker_count:]), options.threads
    # Labels, queries and names are the same for each ranker.
    rows = datasets[rankers[0]]
    bound = BoundMetrics(
        metrics, rows.labels, rows.queries, rules, threads, docnos=rows.document_names
    )
    results = {
        path: bound.results(scores_of(path, models[path], datasets[path], threads))
        for path in rankers
    }
    return results, rows.queries.weights


def _of_runs(options: Evaluate, rules: Conventions) -> tuple[dict[str, Results], None]:
    """Return each run file's results."""
    from boostrank.files.judgements import values_by_query
    from boostrank.model.trec import describe_left_out, evaluate_run

    judged, metrics = values_by_query(options.qrels), metrics_of(options.metrics)
    results = {}
    for path in options.files:
        run = values_by_query(readable(path), run=True)
        results[path] = evaluate_run(metrics, run, judged, rules, options.threads)
        if left_out := describe_left_out(run, path, judged):
            say(left_out)
    return results, None


_COLUMNS = (
    "metric",
    Column("mean", format=".4f", ends=("low", "high")),
    *("queries #", "left_out # left out"),
    Column("difference", format="+.4f", ends=("difference_low", "difference_high")),
    "p .4f",
)
