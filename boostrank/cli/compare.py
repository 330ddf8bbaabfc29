"""`boostrank compare`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.clicks import Judge, check_compared_by_clicks, click_columns_option
from boostrank.cli.errors import DONE, GATE_SHUT, say, settle
from boostrank.cli.options import COUNT, Command, InputFile, chosen_conventions, with_options
from boostrank.cli.reading import Reader, document_names, name_of, reading_options
from boostrank.cli.scores import load_ranker, scores_of
from boostrank.cli.tables import aligned, print_table, shown

if TYPE_CHECKING:
    from boostrank.report.comparison import Comparison, Difference, Regression


@click.command("compare", cls=Command)
@click.argument("old", metavar="OLD", type=InputFile())
@click.argument("new", metavar="NEW", type=InputFile())
@with_options(
    study.data_argument,
    study.measures("--metric", "metrics", multiple=True, metavar="NAME", show_default="ndcg@10; dcg@10 of clicks",
                   help="ndcg@10, map, ...; may be repeated; the first one tells regressions."),
    study.measures("--clicks", is_flag=True,
                   help="By FILE.clicks beside DATA in place of labels: clicks over exposure, of which neither may "
                        "have learnt. Refused where no clicked document moved."),
    click_columns_option(section=study.MEASURES),
    study.measures("--propensities", metavar="FILE", type=InputFile(), show_default="estimated",
                   help="Of the positions, for --clicks."),
    study.measured_by_option, study.gain_option, study.segments_option,
    study.measures("--top", metavar="K", type=COUNT, default=10,
                   help="How far down the lists documents that moved are counted and told."),
    study.noise_option, study.seed_option,
    study.results("--fail-if", "conditions", multiple=True, metavar="CONDITION",
                  help="Exit with 1 when this holds: `ndcg@10 < -0.002 at p<0.05`; may be repeated."),
    study.json_option, study.html_option, study.workers_option,
)  # fmt: skip
@reading_options
@click.pass_context
def command(
    context: click.Context, /, old: str, new: str, data: tuple[str, ...], metrics: tuple[str, ...], clicks: bool,
    propensities: str | None,
    segments: str | None, top: int, noise: str | None, seed: int, conditions: tuple[str, ...], as_json: bool,
    html: str | None, threads: int | None, **given: Any,
) -> int:  # fmt: skip
    """Compare NEW with OLD query by query: the release gate.

    Each is a model, of boostrank, LightGBM or XGBoost, or a file with one score a line in the order of DATA.

    A condition is METRIC OP NUMBER [at p<ALPHA] [in any]: the mean of new minus old is <, <=, > or >= NUMBER; with `at`
    only if the two-sided paired randomisation test has a p-value below ALPHA; with `in any` in a segment, p by Holm's
    method. Exit status 1 when a condition holds.
    """
    if old == new:
        raise click.UsageError("the same file is given twice", context)
    from boostrank.metric import Metric
    from boostrank.report.comparison import compare
    from boostrank.report.gate import Condition
    from boostrank.report.rank_changes import Ranker
    from boostrank.report.segments import read_segments

    # What is wrong with the command is said before anything is read.
    check_compared_by_clicks(context, clicks, propensities, data, given)
    wanted = [Metric.parse(name) for name in metrics or (("dcg@10",) if clicks else ("ndcg@10",))]
    gate = [Condition.parse(text) for text in conditions]
    rules = chosen_conventions(given["conventions"], given["gain"])
    table = None if segments is None else read_segments(segments)
    matters = None if noise is None else study.read_matters(noise)
    study.check_page(html)
    models = {path: load_ranker(path) for path in (old, new)}
    reader = Reader({**given, "threads": threads}, keep_comments=True)
    rankers: list[Ranker] = []
    judge = None
    for path, dataset in reader.read_for(models, data):
        if clicks:
            judge = judge or Judge.of(data[0], dataset, propensities, given["click_columns"])
            rows, dataset = dataset, judge.judged(dataset)
        if judge is not None and judge.kept is not None and models[path] is None:  # a score a row of the file
            scores = scores_of(path, None, rows, threads)[judge.kept]
        else:
            scores = scores_of(path, models[path], dataset, threads)
        rankers.append(Ranker(path, scores, models[path], dataset))
    docnos = document_names(dataset, name_of(data), needed=rules.ties == "docno")
    found = compare(
        rankers[0], rankers[1], dataset, wanted, conventions=rules, segments=table, fail_if=gate, top=top,
        matters=matters, docnos=docnos, threads=threads, seed=seed,
    )  # fmt: skip
    settle(context, GATE_SHUT if found.failed else DONE)
    if html is not None:
        study.write_page(html, found.to_html(name_of(data)))
    if as_json:
        study.print_json(found.to_dict())
    else:
        _print(found, name_of(data), context)
    if judge is not None:
        say(judge.words(dataset, rankers[1].scores, top))
    return GATE_SHUT if found.failed else DONE


def _print(found: Comparison, data: str, context: click.Context) -> None:
    first = next(iter(found.metrics))
    click.echo(f"{found.new} against {found.old} on {data}, query by query")
    print_table([["metric", *_COLUMNS, "p"], *([n, *_cells(d), f"{d.p:.4f}"] for n, d in found.metrics.items())])
    for name, d in found.metrics.items():
        if d.by_luck:
            click.echo(f"{name}: two trainings may differ by {d.matters:.4f} by luck, which explains this difference")
    top = found.churn
    new = f"{top.changed:.1%} of it is new in the {top.queries:,} queries with" if top.queries else "no query has"
    first_place = "" if math.isnan(top.first) else f"; another document is first in {top.first:.1%}"
    click.echo(f"top {top.k}: {new} more documents{first_place}")
    for kind in dict.fromkeys(s.kind for s in found.segments):
        rows = [
            [shown(s.segment), *_cells(s.difference), f"{s.p_holm:.4f}"]
            for s in found.segments
            if s.kind == kind and s.difference.metric == first
        ]
        click.echo(f"\nby {kind}, {first}; p is Holm's for all segments")
        print_table([[kind, *_COLUMNS, "p"], *rows])
    if found.regressions:
        click.echo(f"\nworst of {found.metrics[first].worse:,} regressions, {first}")
        table = [["qid", "old", "new", "difference"]]
        table += [[shown(r.qid), f"{r.old:.4f}", f"{r.new:.4f}", f"{r.new - r.old:+.4f}"] for r in found.regressions]
        reasons = ["", *map(_reason, found.regressions)]
        for line, reason in zip(aligned(table), reasons, strict=True):
            click.echo(f"  {line}  {reason}".rstrip())
    for note in found.notes:
        say(note)
    click.echo()
    for outcome in found.outcomes:
        where = f" ({shown(', '.join(outcome.where))})" if outcome.where else ""
        click.echo(f"{'FAILS' if outcome.holds else 'passes'}: {outcome.condition}{where}")
    study.print_wrapped(context, [found.conventions.describe()], indent="")


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
    because = [shown(f.feature) for f in swap.features if (f.new or 0.0) < (f.old or 0.0)][:2]
    return f"{one}, below {other}{': ' if because else ''}{', '.join(because)}"
