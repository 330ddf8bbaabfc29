"""`boostrank metrics`."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.engines import prepare_engines
from boostrank.cli.options import (
    CONVENTIONS,
    Command,
    Cutoffs,
    DataFile,
    InputFile,
    conventions_option,
    option,
    threads_option,
    with_options,
)
from boostrank.cli.reading import Reader, document_names, reading_options
from boostrank.cli.scores import load_ranker, scores_of
from boostrank.cli.tables import aligned
from boostrank.core.errors import InputError

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.report.conventions.analysis import Explanation, Reading
    from boostrank.report.conventions.target import Match

LIBRARIES = "lightgbm,xgboost,catboost,sklearn,trec,letor"
MEASURES = "Measures"
# So many rows of --target: those that meet it; or the nearest ones, when none does.
MOST_HITS, NEAREST = 20, 5


class _Names(click.ParamType):  # type: ignore[type-arg]
    """`lightgbm,sklearn`."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        from boostrank.core.conventions import Conventions

        names = tuple(dict.fromkeys(word.strip().lower() for word in str(value).split(",") if word.strip()))
        for name in names:
            Conventions.named(name)
        return names


_options = with_options(
    option(
        "--at", type=Cutoffs(), default="10", show_default=True, section=MEASURES,
        help="Ranks at which the metric is cut.",
    ),
    option(
        "--as", "names", metavar="NAME,...", type=_Names(), default=LIBRARIES, show_default=True, section=MEASURES,
        help=f"Whose conventions: {', '.join(CONVENTIONS)}.",
    ),
    conventions_option(MEASURES),
    option(
        "--metric", metavar="NAME", default="ndcg", show_default=True, section=MEASURES,
        help="ndcg, map, err, ... without its cut-off.",
    ),
    option(
        "--target", metavar="X", section=MEASURES,
        help="Look for the conventions that give somebody else's number, to the digits that it has.",
    ),
    option("--json", "as_json", is_flag=True, section=MEASURES, help="Print one JSON object."),
    threads_option(MEASURES),
)  # fmt: skip


@click.command("metrics", cls=Command, short_help="One metric as each library computes it, and why they differ.")
@click.argument("ranker", metavar="MODEL|SCORES", type=InputFile())
@click.argument("data", type=DataFile())
@_options
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    ranker: str,
    data: str,
    at: tuple[int, ...],
    names: tuple[str, ...],
    conventions: str | None,
    metric: str,
    target: str | None,
    as_json: bool,
    threads: int | None,
    **given: Any,
) -> None:
    """The same scores as each library measures them, the differences taken apart.

    MODEL|SCORES is a model, or a file with one score a line in the order of DATA. The way from one number to another
    changes one convention at a time, in the order of the columns, so that each row adds up. --conventions says which
    number the others are compared with; --target looks for the conventions that give a number. trec_eval orders tied
    documents by their names: comments of DATA, as in `# docid = NAME`.
    """
    prepare_engines()
    from boostrank.metric import Metric
    from boostrank.report.conventions.analysis import explain_conventions
    from boostrank.report.conventions.target import find_conventions

    wanted = Metric(metric.strip(), at)
    model = load_ranker(ranker)
    reader = Reader({**given, "threads": threads}, keep_comments="trec" in (*names, conventions))
    ((_, dataset),) = reader.read_for({ranker: model}, data)
    scores = scores_of(ranker, model, dataset, threads)
    if target is not None:
        matches = find_conventions(
            target, dataset.labels, scores, dataset.queries, wanted, base=conventions or "default", threads=threads
        )
        _print_matches(matches, target, as_json=as_json)
        return
    told = explain_conventions(
        dataset.labels, scores, dataset.queries, wanted, names,
        base=conventions or "default", docnos=_document_names(dataset, data), threads=threads,
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps({one.metric: _as_json(one) for one in told}))
        return
    width = context.terminal_width or shutil.get_terminal_size().columns
    for one in told:
        _print(one, width)


def _document_names(dataset: RankingDataset, path: str) -> list[str] | None:
    """Names of the documents, None where a row has none."""
    try:
        return document_names(dataset, path) if dataset.comments is not None else None
    except InputError:
        return None


def _as_json(told: Explanation) -> dict[str, Any]:
    plain = dataclasses.asdict(told)
    del plain["metric"]
    plain["ties"] |= {"mass": told.ties.mass, "worth": told.ties.worth}
    return plain


def _print(told: Explanation, width: int) -> None:
    from boostrank.report.conventions.analysis import STEPS

    printed = {r.name: _printed_changes(r, told.value) for r in told.readings if r.value is not None}
    titles = [step.name for step in STEPS if any(step.name in changes for changes in printed.values())]
    rows = [["", told.metric, *titles], [told.base, f"{told.value:.4f}", *("" for _ in titles)]]
    for reading in told.readings:
        if reading.value is not None:
            cells = (printed[reading.name].get(title, "") for title in titles)
            rows.append([reading.name, f"{reading.value:.4f}", *cells])
    click.echo(f"{told.metric} as each computes it; from {told.base} in steps, which add up from left to right:")
    click.echo()
    for line in aligned(rows):
        click.echo(f"  {line}")
    click.echo()
    for reading in told.readings:
        click.echo(click.wrap_text(_sentence(reading, printed.get(reading.name, {}), told.base), width, "", "  "))
    click.echo()
    for text in _about_the_data(told):
        click.echo(click.wrap_text(text, width, "", "  "))
    click.echo()


def _printed_changes(reading: Reading, start: float) -> dict[str, str]:
    """Each change that four digits show. The values are rounded, not the changes, so that what is printed adds up."""
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
    why = why or f"what it does differently from {base} does not show here"
    return f"{reading.name} says {reading.value:.4f}: {why}" + (f" ({reading.note})" if reading.note else "")


def _about_the_data(told: Explanation) -> list[str]:
    ties = told.ties
    return [
        f"Queries: {told.queries:,}; {told.empty:,} have no relevant document, {told.single:,} have one document"
        + (f", {told.short:,} are shorter than the cut-off" if "@" in told.metric else "")
        + ".",
        f"Ties: {ties.mass:.2%} of the documents ({ties.tied:,} of {ties.documents:,}) have the score of a document "
        "with another label in their query.",
        f"Their order can be worth {ties.worth:.4f}: {ties.worst:.4f} with the worst order, {ties.file_order:.4f} with "
        f"that of the file, {ties.expected:.4f} on average, {ties.best:.4f} with the best.",
    ]


def _print_matches(matches: list[Match], target: str, *, as_json: bool) -> None:
    hits = [match for match in matches if match.hit]
    if as_json:
        shown = [dataclasses.asdict(match) for match in hits or matches[:NEAREST]]
        click.echo(json.dumps({"target": target, "tried": len(matches), "hits": len(hits), "nearest": shown}))
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
        [f"{m.value:.6f}", f"{m.difference:+.6f}", m.metric, *(str(m.choices.get(f, "")) for f in fields),
         ", ".join(m.libraries)]
        for m in rows
    ]  # fmt: skip
    click.echo()
    for line in aligned([titles, *cells]):
        click.echo(f"  {line}")
    if len(hits) > len(rows):
        click.echo(f"  ... and {len(hits) - len(rows):,} more")
