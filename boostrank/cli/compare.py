"""The command `boostrank compare`."""

from __future__ import annotations

import glob
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, GATE_SHUT, say, settle
from boostrank.cli.reading import Reader, metrics_of, name_of
from boostrank.cli.show import aligned, print_json, print_table, print_wrapped, shown, write_page
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, PropensityOptions, StudyOptions, argument, option

Study = TypeVar("Study", bound=Any)

if TYPE_CHECKING:
    from boostrank.clicks.tables import ClickColumns
    from boostrank.reporting.comparison import Comparison, Difference, Regression


class Compare(PropensityOptions, StudyOptions, group="Measures"):
    old: str = argument("OLD", file="rankers")
    new: str = argument("NEW", file="rankers")
    data: tuple[str, ...] = argument("DATA...", file="data")
    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@10, map, or a function in a file, my.py:name. The first one determines regressions.",
        flag="--metric",
        metavar="NAME",
        shown="ndcg@10; dcg@10 for clicks",
    )
    top: int = option("Number of top ranks in which changes are counted and shown.", 10, metavar="K", ge=1)
    conditions: tuple[str, ...] = option(
        "Exit with status 1 if this condition holds: 'ndcg@10 < -0.002 at p<0.05'.",
        flag="--fail-if",
        metavar="CONDITION",
        group="Results",
    )
    output: str | None = option("HTML page to write.", short="-o", file="page", group="Results")


@command("compare")
def compare(own: Compare, reading: FileOptions) -> None:
    """Compare NEW with OLD query by query, as a release gate.

    OLD and NEW are models of boostrank, LightGBM or XGBoost, or files with one score per line in
    the order of DATA. A quoted pattern, 'new-*.txt', names several trainings of a ranker, such as
    with other seeds: intervals and p-values then include the luck of training.

    A condition is METRIC OP NUMBER [at p<ALPHA] [in any]: the mean of new minus old is <, <=, > or >= NUMBER. With
    `at`, the p-value of the two-sided paired randomisation test must also be below ALPHA. `in any` tests each segment,
    with p-values adjusted by Holm's method. low(METRIC) OP NUMBER [in any] tests an end of the 95%
    interval instead: 'low(ndcg@10) < -0.01' holds unless NEW is shown to be at most 0.01 worse. The
    exit status is 1 if a condition holds.
    """
    files = {own.old: _files(own.old), own.new: _files(own.new)}
    if len(files) < 2 or set(files[own.old]) & set(files[own.new]):
        raise InputError("the same file is given twice")
    from boostrank.metric import Conventions, Metric
    from boostrank.model.scores import load_ranker, scores_of
    from boostrank.reporting.comparison import Condition, compare
    from boostrank.reporting.rank_changes import Ranker
    from boostrank.reporting.section import read_matters
    from boostrank.reporting.segments import read_segments

    # Check the options before reading.
    own, reading, columns = by_clicks(own, reading)
    default = ("dcg@10",) if own.clicks else ("ndcg@10",)
    wanted = Metric.all_of(metrics_of(own.metrics or default))
    gate = [Condition.parse(text, [metric.name for metric in wanted if metric.function]) for text in own.conditions]
    rules = Conventions.of(own.conventions, own.gain)
    segments = None if own.segments is None else read_segments(own.segments)
    matters = None if own.noise is None else read_matters(own.noise)
    models = {path: load_ranker(path) for paths in files.values() for path in paths}
    reader = Reader(reading, own.threads, gain=own.gain, asks=True, labelled=columns is None, names=True)
    rankers: dict[str, Ranker] = {}
    judge = None
    for path, dataset in reader.read_for(models, own.data):
        if own.clicks:
            from boostrank.clicks.sidecar import Clicks

            judge = judge or Clicks.read(own.data[0], dataset, columns, own.propensities, say)
            rows, dataset = dataset, judge.judged(dataset)
        if judge is not None and judge.kept is not None and models[path] is None:  # score files have one line per row
            scores = scores_of(path, None, rows, own.threads)[judge.kept]
        else:
            scores = scores_of(path, models[path], dataset, own.threads)
        rankers[path] = Ranker(path, scores, models[path], dataset)
    name = name_of(own.data)
    sides = [[rankers[path] for path in paths] for paths in files.values()]
    found = compare(
        sides[0],
        sides[1],
        dataset,
        wanted,
        conventions=rules,
        segments=segments,
        fail_if=gate,
        top=own.top,
        matters=matters,
        threads=own.threads,
        seed=own.seed,
    )
    settle(GATE_SHUT if found.failed else DONE)
    if own.output is not None:
        write_page(own.output, found.to_html(name))
    if own.as_json:
        print_json(found.to_dict())
    else:
        _print(found, name)
    if judge is not None:
        say(judge.words(dataset, rankers[files[own.new][0]].scores, own.top))


def _files(pattern: str) -> list[str]:
    """Return the files of a ranker, which is one file or a pattern."""
    if os.path.exists(pattern):
        return [pattern]
    return sorted(glob.glob(pattern, recursive=True))


def by_clicks(own: Study, reading: FileOptions) -> tuple[Study, FileOptions, ClickColumns | None]:
    """Return the options for --clicks, with a linear gain and with click columns that are not features."""
    if not own.clicks:
        return own, reading, None
    from boostrank.clicks.sidecar import click_reading

    if own.gain is not None:
        raise InputError("--clicks and --gain cannot be used together")
    if len(own.data) != 1:
        raise InputError("--clicks needs exactly one DATA file, whose rows the clicks refer to")
    columns, reading = click_reading(own.click_columns, own.data, reading)
    return replace(own, gain="linear"), reading, columns


def _print(found: Comparison, data: str) -> None:
    first = next(iter(found.metrics))
    click.echo(f"{found.new} against {found.old} on {data}, query by query")
    print_table([["metric", *_COLUMNS, "p"], *([n, *_cells(d), f"{d.p:.4f}"] for n, d in found.metrics.items())])
    top = found.churn
    new = f"{top.changed:.1%} new documents in the {top.queries:,} queries with" if top.queries else "no query has"
    first_place = "" if math.isnan(top.first) else f"; the first document changed in {top.first:.1%}"
    click.echo(f"top {top.k}: {new} more documents{first_place}")
    for kind in dict.fromkeys(s.kind for s in found.segments):
        rows = [
            [shown(s.segment), *_cells(s), f"{s.p_holm:.4f}"]
            for s in found.segments
            if s.kind == kind and s.metric == first
        ]
        click.echo(f"\n{first} by {kind}; p is adjusted for all segments by Holm's method")
        print_table([[kind, *_COLUMNS, "p"], *rows])
    if found.regressions:
        click.echo(f"\nworst of {found.metrics[first].worse:,} regressions of {first}")
        table = [["qid", "old", "new", "difference"]]
        table += [[shown(r.qid), f"{r.old:.4f}", f"{r.new:.4f}", f"{r.new - r.old:+.4f}"] for r in found.regressions]
        for line, reason in zip(aligned(table), ["", *map(_reason, found.regressions)], strict=True):
            click.echo(f"  {line}  {reason}".rstrip())
    for note in found.notes:
        say(note)
    click.echo()
    for outcome in found.outcomes:
        where = f" ({shown(', '.join(outcome.where))})" if outcome.where else ""
        click.echo(
            f"FAILS: {outcome.condition}{where}" if outcome.holds else f"passes: not ({outcome.condition}{where})"
        )
    print_wrapped([*dict.fromkeys(map(found.luck_words, found.metrics)), found.conventions.describe()], indent="")


_COLUMNS = ("queries", "old", "new", "difference", "95% interval", "better", "same", "worse")


def _cells(d: Difference) -> list[str]:
    interval = "-" if math.isnan(d.low) else f"{d.low:+.4f} to {d.high:+.4f}"
    counts = [f"{n:,}" for n in (d.better, d.same, d.worse)]
    return [f"{d.queries:,}", f"{d.old:.4f}", f"{d.new:.4f}", f"{d.mean:+.4f}", interval, *counts]


def _reason(regression: Regression) -> str:
    swap = regression.swap
    if swap is None:
        return ""
    one, other = (f"{shown(m.document)} (label {m.label:g}) {m.old} -> {m.new}" for m in (swap.fell, swap.rose))
    because = [shown(f["feature"]) for f in swap.features if (f["new"] or 0.0) < (f["old"] or 0.0)][:2]
    return f"{one}, below {other}{': ' if because else ''}{', '.join(because)}"
