"""`boostrank evaluate`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.options import (
    Command,
    DataFile,
    InputFile,
    check_stdin,
    chosen_conventions,
    data_by_name,
    data_option,
    threads_option,
    with_options,
)
from boostrank.cli.reading import Reader, document_names, name_of, reading_options
from boostrank.cli.scores import holds_ranker, load_ranker, scores_of
from boostrank.cli.study import MEASURES
from boostrank.cli.tables import print_table

if TYPE_CHECKING:
    from boostrank.metric import MetricResult, PairedDifference

DEFAULT_METRICS = ("ndcg@1,3,5,10",)


@click.command("evaluate", cls=Command)
@click.argument("files", metavar="MODEL|SCORES... DATA...", nargs=-1, required=True, type=DataFile())
@with_options(
    data_option(MEASURES),
    study.measures("--metric", "metrics", multiple=True, metavar="NAME", default=DEFAULT_METRICS,
                   help="ndcg@10, map, ...; may be repeated."),
    study.measured_by_option, study.gain_option, study.json_option, threads_option(MEASURES),
)  # fmt: skip
@reading_options
@click.pass_context
def command(
    context: click.Context, /, files: tuple[str, ...], metrics: tuple[str, ...], as_json: bool, threads: int | None,
    **given: Any,
) -> None:  # fmt: skip
    """Measure rankers on DATA (`-` reads standard input, '*.gz' several files), with 95% intervals over its queries.

    Each ranker is a model, or a file with one score a line in the order of DATA; DATA begins with the first file that
    is neither, which is seen from its content. All rankers after the first are compared with the first, query by query.
    """
    rankers, data = _rankers_and_data(context, files)
    if len(set(rankers)) < len(rankers):
        raise click.UsageError("the same file is given twice", context)
    from boostrank.metric import BoundMetrics, Metric, paired_difference

    wanted = [Metric.parse(name) for name in metrics]
    rules = chosen_conventions(given["conventions"], given["gain"])
    models = {path: load_ranker(path) for path in rankers}
    by_name = rules.ties == "docno"
    reader = Reader({**given, "threads": threads}, keep_comments=by_name)
    bound, results = None, {}
    for path, dataset in reader.read_for(models, data):
        if bound is None:
            names = document_names(dataset, name_of(data)) if by_name else None
            bound = BoundMetrics(wanted, dataset.labels, dataset.queries, rules, docnos=names, threads=threads)
        results[path] = bound.results(scores_of(path, models[path], dataset, threads))
    first, *others = results
    differences = {
        path: {
            name: paired_difference(result.per_query, results[first][name].per_query, weights=dataset.queries.weights)
            for name, result in results[path].items()
        }
        for path in others
    }
    if as_json:
        study.print_json(_as_json(results, differences))
        return
    for path in results:
        _print_block(path, results[path], first, differences.get(path))
    study.print_wrapped(context, [rules.describe()], indent="")


def _rankers_and_data(context: click.Context, files: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Which files are rankers, at least one; and which are data, at least one: those by `--data`, where there are."""
    by_name = data_by_name(context)
    many = next((i for i, path in enumerate(files) if i and not holds_ranker(path)), len(files))
    if by_name and many < len(files):
        raise click.UsageError(
            f"data are given by position ({files[many]}) and by --data: take one of the two", context
        )
    if not by_name:
        many = min(many, len(files) - 1)
        if not many:
            raise click.UsageError("DATA is missing: name its files behind the rankers, or by --data", context)
    rankers = [InputFile().convert(path, None, context) for path in files[:many]]
    data = [*by_name, *files[many:]]
    check_stdin(context, data)
    return rankers, data


def _as_json(
    results: dict[str, dict[str, MetricResult]], differences: dict[str, dict[str, PairedDifference]]
) -> dict[str, Any]:
    """Metric -> numbers; with several rankers, ranker -> metric -> numbers and `difference` to the first."""
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
        click.echo(f"{path}, and its difference to {first} query by query")
        columns[3:] = ["difference", "95% interval", "p"]
        for row, d in zip(rows, differences.values(), strict=True):
            row[3:] = [f"{d.mean:+.4f}", f"{d.low:+.4f} to {d.high:+.4f}", f"{d.p:.4f}"]
    print_table([columns, *rows])
    click.echo()
