"""The command `boostrank compare`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, GATE_SHUT, say, settle
from boostrank.cli.reading import Reader, metrics_of, name_of
from boostrank.cli.show import print_json, print_table, print_wrapped, shown, write_page
from boostrank.core.errors import InputError
from boostrank.options import FileOptions, PropensityOptions, StudyOptions, argument, option

if TYPE_CHECKING:
    from boostrank.clicks.sidecar import Clicks
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel
    from boostrank.reporting.comparison import Comparison, Difference, Regression


class Compare(PropensityOptions, StudyOptions, group="Measures"):
    """Arguments and options of `boostrank compare`."""

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
    twice = sorted(set(files[own.old]) & set(files[own.new]))
    if twice:
        raise InputError(f"{twice[0]} is given twice, as OLD and as NEW")
    from boostrank.model.scores import load_ranker
    from boostrank.reporting.comparison import Condition, compare
    from boostrank.reporting.rank_changes import Ranker

    judged = JudgedData(own, reading, ("ndcg@10",), ("dcg@10",))
    functions = [metric.name for metric in judged.metrics if metric.function]
    gate = [Condition.parse(text, functions) for text in own.conditions]
    models = {path: load_ranker(path) for paths in files.values() for path in paths}
    judged.read(models)
    rankers = {path: Ranker(path, judged.scores(path), models[path], data) for path, data in judged.datasets.items()}
    name, dataset = name_of(own.data), judged.datasets[files[own.new][-1]]
    sides = [[rankers[path] for path in paths] for paths in files.values()]
    found = compare(sides[0], sides[1], dataset, judged.metrics, fail_if=gate, top=own.top, **judged.options)
    settle(GATE_SHUT if found.failed else DONE)
    if own.output is not None:
        write_page(own.output, found.to_html(name))
    if own.as_json:
        print_json(found.to_dict())
    else:
        _print(found, name)
    if judged.clicks is not None:
        say(judged.clicks.words(dataset, rankers[files[own.new][0]].scores, own.top))


def _files(pattern: str) -> list[str]:
    """Return the files of a ranker, which is one file or a pattern."""
    from boostrank.files.source import matching

    return [path for path in matching(pattern) if not path.endswith(".meta.json")]


class JudgedData:
    """The data and the options of `compare` and `report`, which judge rankers by labels or by clicks.

    Args:
        by_label, by_clicks: default metrics.

    Attributes:
        metrics: the metrics to measure.
        options: arguments of the analysis: conventions, segments, matters, seed, threads.
        clicks: the clicks, or None with labels.
        datasets: data set of each ranker, by path. By clicks, documents without an impression are left out.
    """

    def __init__(self, own: Any, reading: FileOptions, by_label: Sequence[str], by_clicks: Sequence[str]) -> None:
        """Check the options before reading."""
        from boostrank.metrics import Conventions, Metric
        from boostrank.reporting.section import read_matters
        from boostrank.reporting.segments import read_segments

        # Clicks have a linear gain, and their columns are not features.
        self._columns, default = None, by_label
        if own.clicks:
            from boostrank.clicks.sidecar import click_reading

            if own.gain is not None:
                raise InputError("--clicks and --gain cannot be used together")
            if len(own.data) != 1:
                raise InputError("--clicks needs exactly one DATA file, whose rows the clicks refer to")
            self._columns, reading = click_reading(own.click_columns, own.data, reading)
            own, default = replace(own, gain="linear"), by_clicks
        # The arguments of the analysis.
        self.metrics = Metric.all_of(metrics_of(own.metrics or default))
        self.options: dict[str, Any] = {
            "conventions": Conventions.of(own.conventions, own.gain),
            "segments": None if own.segments is None else read_segments(own.segments),
            "matters": None if own.noise is None else read_matters(own.noise),
            "seed": own.seed,
            "threads": own.threads,
        }
        labelled = self._columns is None
        self._reader = Reader(reading, own.threads, gain=own.gain, asks=True, labelled=labelled, names=True)
        self._own = own
        self.clicks: Clicks | None = None
        self._rows: dict[str, RankingDataset] = {}

    def read(self, models: Mapping[str, RankingModel | None]) -> None:
        """Read the data for each ranker. Its model is None if its file has scores."""
        from boostrank.clicks.sidecar import Clicks

        own, self._models, self.datasets = self._own, models, {}
        for path, rows in self._reader.read_for(models, own.data):
            if own.clicks:
                self.clicks = self.clicks or Clicks.read(own.data[0], rows, self._columns, own.propensities, say)
            self._rows[path], self.datasets[path] = rows, rows if self.clicks is None else self.clicks.judged(rows)

    def scores(self, path: str) -> Any:
        """Return the scores of a ranker, float64[N], in the row order of its data set."""
        from boostrank.model.scores import scores_of

        model, kept = self._models[path], None if self.clicks is None else self.clicks.kept
        if model is None and kept is not None:  # score files have one line per row
            return scores_of(path, None, self._rows[path], self._own.threads)[kept]
        return scores_of(path, model, self.datasets[path], self._own.threads)


def _print(found: Comparison, data: str) -> None:
    first = next(iter(found.metrics))
    click.echo(f"{found.new} against {found.old} on {data}, query by query")
    print_table([["metric", *COLUMNS, "p"], *([n, *cells_of(d), f"{d.p:.4f}"] for n, d in found.metrics.items())])
    top = found.churn
    new = f"{top.changed:.1%} new documents in the {top.queries:,} queries with" if top.queries else "no query has"
    first_place = "" if math.isnan(top.first) else f"; the first document changed in {top.first:.1%}"
    click.echo(f"top {top.k}: {new} more documents{first_place}")
    for kind in dict.fromkeys(s.kind for s in found.segments):
        rows = [
            [shown(s.segment), *cells_of(s), f"{s.p_holm:.4f}"]
            for s in found.segments
            if s.kind == kind and s.metric == first
        ]
        click.echo(f"\n{first} by {kind}; p is adjusted for all segments by Holm's method")
        print_table([[kind, *COLUMNS, "p"], *rows])
    if found.regressions:
        click.echo(f"\nworst of {found.metrics[first].worse:,} regressions of {first}")
        table = [["qid", "old", "new", "difference"]]
        table += [[shown(r.qid), f"{r.old:.4f}", f"{r.new:.4f}", f"{r.new - r.old:+.4f}"] for r in found.regressions]
        print_table(table, ["", *map(_reason, found.regressions)])
    for note in found.notes:
        say(note)
    click.echo()
    for outcome in found.outcomes:
        where = f" ({shown(', '.join(outcome.where))})" if outcome.where else ""
        click.echo(
            f"FAILS: {outcome.condition}{where}" if outcome.holds else f"passes: not ({outcome.condition}{where})"
        )
    print_wrapped([*dict.fromkeys(map(found.luck_words, found.metrics)), found.conventions.describe()], indent="")


COLUMNS = ("queries", "old", "new", "difference", "95% interval", "better", "same", "worse")


def cells_of(d: Difference) -> list[str]:
    """Return the cells of a row with `COLUMNS`."""
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
