"""The commands `boostrank importance` and `boostrank why`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, metrics_of
from boostrank.cli.show import StepProgress, listed, print_json, print_table, shown, write_page
from boostrank.core.text import count_of
from boostrank.options import FileOptions, JsonOptions, MeasureOptions, ModelOptions, ThreadOptions, argument, option

if TYPE_CHECKING:
    from boostrank.reporting.explanation import Why
    from boostrank.reporting.sections.importance import Effect, Importance


class ImportanceOptions(ModelOptions, MeasureOptions, group="Measures"):
    """Options of `boostrank importance`."""

    metric: str = option("Metric whose loss is measured, with one cut-off.", "ndcg@10", metavar="NAME")
    groups: str | None = option(
        "File with features to shuffle together, one group per line: `text: bm25_*, tf_title`.", file="read"
    )
    repeats: int | None = option("Number of shuffles per query.", ge=1, le=1000, shown="1 to 5, depending on the cost")
    documents: int | None = option(
        "Use a sample of whole queries with about N documents for shuffles and SHAP; 0 uses all.",
        ge=0,
        shown="as many as take half a minute, or ten seconds for SHAP",
    )
    seed: int = option("Random seed of shuffles, samples and resampling.", 0, ge=0)
    top: int = option("Number of features in the table; --json has all.", 30, ge=1, group="Results")


@command("importance")
def importance(own: ImportanceOptions, reading: FileOptions) -> None:
    """Measure the loss of the metric when a feature is shuffled within each query of DATA.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). The table also shows the gain, the number of
    splits, and SHAP values centred within queries. Features that are constant within a query are shuffled between
    queries instead.
    """
    from boostrank.metrics import Conventions
    from boostrank.reporting.section import read_groups
    from boostrank.reporting.sections.importance import importance

    model, dataset = Reader(reading, own.threads, gain=own.gain, asks=True).read_for_model(own.model, own.data)
    groups = read_groups(own.groups, model.column_names) if own.groups else None
    with StepProgress() as progress:
        found = importance(
            model,
            dataset,
            metric=metrics_of([own.metric])[0],
            conventions=Conventions.of(own.conventions, own.gain),
            groups=groups,
            repeats=own.repeats,
            documents=own.documents,
            shap_documents=own.documents or (None if own.documents is None else dataset.n_documents),
            seed=own.seed,
            threads=own.threads,
            progress=progress,
        )
    if own.as_json:
        print_json(found.to_dict())
    else:
        _print_importance(found, own.model, own.top)


def _print_importance(found: Importance, model: str, top: int) -> None:
    from boostrank.reporting.sections.importance import VERDICTS

    echo = click.echo
    interval = f"{found.low:.4f} to {found.high:.4f}"
    echo(f"{model}: {found.metric} {found.value:.4f}, {interval}, {found.queries:,} queries")
    echo(_how(found))
    echo()
    rows = found.rows()
    shown = [row for row in rows if row["verdict"] != "unused"][:top]
    gain = sum(row["gain"] for row in rows) or 1.0
    table = [["feature", "loss", "95% interval", "gain", "splits", "SHAP", "verdict"]]
    table += [
        [
            row["feature"],
            f"{row['loss']:+.4f}",
            f"{row['loss_low']:+.4f} to {row['loss_high']:+.4f}",
            f"{row['gain'] / gain:.1%}",
            f"{row['splits']:,}",
            f"{row['shap']:.3f}" if math.isfinite(row["shap"]) else "-",
            row["verdict"],
        ]
        for row in shown
    ]
    print_table(table)
    used = sum(row["verdict"] != "unused" for row in rows)
    if used > len(shown):
        echo(f"  ... and {used - len(shown)} more (--top {used})")
    echo()
    for effects, title in ((found.groups, "groups, shuffled together"), (found.clusters, "redundant features")):
        if effects:
            echo(title)
            rows_of_effects = [["", "loss", "95% interval"]]
            for effect in effects:
                label = listed(effect.features) if effect.name.startswith("cluster ") else effect.name
                rows_of_effects.append([label, f"{effect.loss:+.4f}", f"{effect.low:+.4f} to {effect.high:+.4f}"])
            print_table(rows_of_effects)
            echo()
    for verdict in dict.fromkeys(row["verdict"] for row in shown):
        echo(f"{verdict}: {VERDICTS[verdict]}")
    if used < len(rows):
        unused = found.named("unused")
        echo(f"unused, {len(unused):,} of {len(rows):,} features: {listed(unused)}")
    if found.removed is not None:
        _print_removed(found, found.removed)


def _how(found: Importance) -> str:
    of = f"{found.documents:,} documents"
    if found.documents < found.all_documents:
        of = f"whole queries with {found.documents:,} of {found.all_documents:,} documents"
    shap = f"SHAP of {found.shap_documents:,} documents" if found.shap_documents else "no SHAP"
    shuffles = count_of(found.repeats, "shuffle")
    return f"{of}; {shuffles} per query; intervals over queries and shuffles; {shap}"


def _print_removed(found: Importance, removed: Effect) -> None:
    left = found.value - removed.loss
    click.echo(
        f"removable, {len(removed.features)} features: {listed(removed.features)}; shuffled together, {found.metric} "
        f"is {left:.4f}, a loss of {removed.loss:+.4f}, {removed.low:+.4f} to {removed.high:+.4f}"
    )
    if removed.high > found.negligible:
        click.echo("together they may matter, so remove them step by step and train again")


class WhyOptions(ModelOptions, JsonOptions, ThreadOptions, group="Results"):
    """Arguments and options of `boostrank why`."""

    query: str = argument("Q")
    a: str = argument("A")
    b: str = argument("B")
    top: int = option("Number of features in each table; --json and -o have all.", 12, ge=1)
    output: str | None = option("HTML page to write.", short="-o", file="page")


@command("why")
def why(own: WhyOptions, reading: FileOptions) -> None:
    """Explain why document A of query Q ranks above or below document B, and find the smallest change that swaps them.

    \b
    A and B are documents of the query:
      @3         the document that the model ranks third; also 3, unless a document has this name
      row:17     row 17 of DATA, counted from 1
      D7         a document name: the column --id of a table, or the comment of a row
      name:D7    the same, for any name

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Feature contributions are TreeSHAP values computed
    by the engine. A change replaces one feature of one document by the nearest value in DATA that swaps the two. Its
    size is the fraction of documents in DATA with a value in between.
    """
    from boostrank.reporting.explanation import why

    model, dataset = Reader(reading, own.threads, names=True).read_for_model(own.model, own.data)
    with StepProgress() as progress:
        found = why(model, dataset, own.query, own.a, own.b, threads=own.threads, progress=progress)
    if own.output is not None:
        write_page(own.output, found.to_html(own.model))
    if own.as_json:
        print_json(found.to_dict())
    else:
        _print_why(found, own.top)


def _print_why(found: Why, top: int) -> None:
    table = [["", "rank", "score", "label"]]
    table += [
        [f"{letter}  {shown(one.name)}", f"{one.rank:,}", f"{one.score:.6g}", f"{one.label:g}"]
        for letter, one in (("A", found.a), ("B", found.b))
    ]
    side = "above" if found.a.rank < found.b.rank else "below"
    because = f"{abs(found.difference):.6g}" if found.difference else "row order only, because the scores are equal"
    click.echo(f"query {shown(found.qid)}, {found.documents:,} documents: A is {side} B by {because}")
    print_table(table)
    if not any(map(math.isnan, found.parts)):
        _print_parts(found, top)
    _print_changes(found, top)
    for note in found.notes:
        say(note)


def _print_parts(found: Why, top: int) -> None:
    click.echo("\ncontributions to A's score minus contributions to B's score (TreeSHAP)")
    rows = [row for row in found.rows() if row["part"] != 0.0]
    table = [["feature", "A", "B", "A - B"]]
    table += [
        [shown(r["feature"]), *(shown(found.shown(r["feature"], r[at], _value)) for at in "ab"), f"{r['part']:+.4g}"]
        for r in rows[:top]
    ]
    print_table(table)
    if len(rows) > top:
        rest = sum(row["part"] for row in rows[top:])
        click.echo(f"  ... and {len(rows) - top} more, together {rest:+.4g} (--top {len(rows)})")


def _print_changes(found: Why, top: int) -> None:
    click.echo()
    if found.smallest is None:
        click.echo(f"no change to one feature swaps A and B ({found.tried:,} values tried)")
    else:
        of = f"{found.sampled:,} documents"
        click.echo(f"smallest changes to one feature that swap A and B, where size is the share of {of} in between")
        table = [["feature", "of", "now", "then", "size"]]
        table += [
            [
                shown(c.feature),
                c.document.upper(),
                shown(found.shown(c.feature, c.now, _value)),
                shown(found.shown(c.feature, c.value, _value)) + "*" * (not c.seen),
                f"{c.step:.1%}",
            ]
            for c in found.changes[:top]
        ]
        print_table(table)
        if len(found.changes) > top:
            click.echo(f"  ... and {len(found.changes) - top} more (--top {len(found.changes)})")
        if any(not change.seen for change in found.changes[:top]):
            click.echo("  * no document has such a value")
    if found.query_level:
        click.echo(f"not changed, because they are constant within queries: {shown(listed(found.query_level))}")


def _value(value: float) -> str:
    return "missing" if math.isnan(value) else f"{value:.6g}"
