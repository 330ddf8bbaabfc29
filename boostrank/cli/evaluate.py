"""The command `boostrank evaluate`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command, readable
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, metrics_of
from boostrank.cli.show import print_json, print_table, print_wrapped
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, MeasureOptions, argument, option

if TYPE_CHECKING:
    from boostrank.core.conventions import Conventions
    from boostrank.metrics import MetricResult, PairedDifference

    Results = dict[str, MetricResult]


class Evaluate(MeasureOptions, group="Measures"):
    """Arguments and options of `boostrank evaluate`."""

    files: tuple[str, ...] = argument("MODEL|SCORES... DATA...", file="data")
    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@10, map, or a function in a file, my.py:name.",
        ("ndcg@1,3,5,10",),
        flag="--metric",
        metavar="NAME",
        shown="ndcg@1,3,5,10",
    )
    qrels: str | None = option(
        "Judgements, such as TREC qrels. All other files are then runs, evaluated like trec_eval.", file="read"
    )


@command("evaluate")
def evaluate(own: Evaluate, reading: FileOptions) -> None:
    """Measure rankers on DATA, with 95% intervals over the queries.

    Each ranker is a model, or a file with one score per line in the order of DATA, or a table from `predict`.
    The first file that is neither of these begins DATA (`-` reads standard input, '*.gz' several files). Other rankers
    are compared with the first one query by query. With several of them, p-values are adjusted by Holm's method for
    each metric.

    With --qrels the files are runs, evaluated with the conventions of trec_eval. Runs and qrels have the form of TREC
    or MS MARCO, or are tables (BEIR, ranx, PyTerrier) or JSON. ir-measures, if installed, computes metrics that
    boostrank lacks: judged@10, bpref, rbp(p=0.8,rel=1).
    """
    from boostrank.metrics import Conventions, paired_difference
    from boostrank.reporting.segments import holm

    rules = Conventions.of(own.conventions or ("trec" if own.qrels else None), own.gain)
    results, weights = _of_runs(own, own.qrels, rules) if own.qrels else _of_rankers(own, reading, rules)
    first, *others = results
    differences: dict[str, dict[str, PairedDifference]] = {path: {} for path in others}
    for path in others:
        for name, result in results[path].items():
            ours, theirs = result.per_query, results[first][name].per_query
            if own.qrels:  # use the queries of both runs
                ours, theirs = ours + 0.0 * theirs, theirs + 0.0 * ours
            differences[path][name] = paired_difference(ours, theirs, weights=weights)
    for name in next(iter(results.values())) if len(others) > 1 else ():
        adjusted = holm([differences[path][name].p for path in others]).tolist()
        for path, p in zip(others, adjusted, strict=True):
            differences[path][name] = dataclasses.replace(differences[path][name], p=p)
    if own.as_json:
        print_json(_as_json(results, differences))
        return
    for path in results:
        _print_block(path, results[path], first, differences.get(path))
    several = f"; p is adjusted for {len(others)} rankers by Holm's method" * (len(others) > 1)
    print_wrapped([rules.describe() + several], indent="")


def _of_rankers(own: Evaluate, reading: FileOptions, rules: Conventions) -> tuple[dict[str, Results], Any]:
    """Return each ranker's results, and the query weights."""
    from boostrank.metrics import BoundMetrics, Metric
    from boostrank.model.scores import columns_of, load_ranker, scores_of

    rankers, data = _rankers_and_data(own.files)
    wanted = Metric.all_of(metrics_of(own.metrics))
    models = {path: load_ranker(path) for path in rankers}
    named = any(one is None and "id" in columns_of(path, alone=False) for path, one in models.items())
    reader = Reader(reading, own.threads, gain=own.gain, asks=True, names=named or rules.ties == "docno")
    bound, results = None, {}
    for path, dataset in reader.read_for(models, data):
        if bound is None:
            measured = wanted, dataset.labels, dataset.queries, rules
            bound = BoundMetrics(*measured, docnos=dataset.document_names, threads=own.threads)
        results[path] = bound.results(scores_of(path, models[path], dataset, own.threads))
    return results, dataset.queries.weights


def _of_runs(own: Evaluate, qrels: str, rules: Conventions) -> tuple[dict[str, Results], None]:
    """Return each run file's results."""
    from boostrank.files.judgements import values_by_query
    from boostrank.model.trec import evaluate_run

    judged, results, metrics = values_by_query(qrels), {}, metrics_of(own.metrics)
    for path in own.files:
        run = values_by_query(readable(path), run=True)
        results[path] = evaluate_run(metrics, run, judged, rules, own.threads)
        missing, more = len(judged.keys() - run.keys()), len(run.keys() - judged.keys())
        if missing or more:
            say(
                f"{path}: left out {missing:,} queries of {qrels} without documents (trec_eval -c counts them as 0) "
                f"and {more:,} queries without judgements, as trec_eval does"
            )
    return results, None


def _rankers_and_data(files: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Separate the rankers from the data files."""
    from boostrank.model.scores import holds_ranker

    many = next((i for i, path in enumerate(files) if i and not holds_ranker(path)), len(files) - 1)
    if not many:
        raise click.UsageError("DATA is missing; name its files after the rankers", click.get_current_context())
    rankers = [readable(path) for path in files[:many]]
    if len(set(rankers)) < len(rankers):
        raise InputError("the same file is given twice")
    return rankers, list(files[many:])


def _as_json(
    results: dict[str, dict[str, MetricResult]], differences: dict[str, dict[str, PairedDifference]]
) -> dict[str, Any]:
    """Return metric -> numbers, or for several rankers, ranker -> metric -> numbers and `difference` from the first."""
    keys = ("mean", "low", "high", "queries")
    numbers: dict[str, dict[str, dict[str, Any]]] = {
        path: {name: {key: getattr(r, key) for key in keys} for name, r in metrics.items()}
        for path, metrics in results.items()
    }
    for path, metrics in differences.items():
        for name, difference in metrics.items():
            numbers[path][name]["difference"] = dataclasses.asdict(difference)
    return numbers if len(numbers) > 1 else next(iter(numbers.values()))


def _print_block(
    path: str, results: dict[str, MetricResult], first: str, differences: dict[str, PairedDifference] | None
) -> None:
    columns = ["metric", "mean", "95% interval", "queries", "left out"]
    rows = [
        [r.name, f"{r.mean:.4f}", f"{r.low:.4f} to {r.high:.4f}", f"{r.queries:,}", f"{r.per_query.size - r.queries:,}"]
        for r in results.values()
    ]
    if differences is None:
        click.echo(path)
    else:
        click.echo(f"{path}, and its query-by-query difference to {first}")
        columns[3:] = ["difference", "95% interval", "p"]
        for row, d in zip(rows, differences.values(), strict=True):
            row[3:] = [f"{d.mean:+.4f}", f"{d.low:+.4f} to {d.high:+.4f}", f"{d.p:.4f}"]
    print_table([columns, *rows])
    click.echo()
