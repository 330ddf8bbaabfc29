"""`boostrank study metrics`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, print_table, print_wrapped
from boostrank.options import (
    CONVENTIONS,
    FileOptions,
    JsonOptions,
    ThreadOptions,
    argument,
    declared,
    option,
)
from boostrank.options import ConventionOptions as _Conventions

if TYPE_CHECKING:
    from boostrank.report.conventions import Explanation, Match, Reading

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
        _print(one)


def _print(found: Explanation) -> None:
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
    why = why or f"what it does differently from {base} does not show here"
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
