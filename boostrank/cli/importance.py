"""`boostrank importance`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from boostrank.cli.command import command
from boostrank.cli.reading import Reader
from boostrank.cli.show import StepProgress, listed, print_json, print_table
from boostrank.core.text import count_of
from boostrank.options import FileOptions, MeasureOptions, argument, option

if TYPE_CHECKING:
    from boostrank.report.sections.importance import Effect, Importance


@dataclass(frozen=True, kw_only=True)
class ImportanceOptions(MeasureOptions, group="Measures"):
    """Options of the command."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", default=(), file="data")
    metric: str = option("ndcg@10", "Metric whose loss is measured, with one cut-off.", metavar="NAME")
    groups: str | None = option(
        None, "Features shuffled together, one group per line: `text: bm25_*, tf_title`.", file="read"
    )
    repeats: int | None = option(
        None, "Number of shuffles of each query.", ge=1, le=1000, shown="1 to 5, as the work allows"
    )
    documents: int | None = option(
        None,
        "Shuffle, and explain by SHAP, a sample of whole queries with about N documents; 0: all.",
        ge=0,
        shown="as many as take half a minute, ten seconds for SHAP",
    )
    seed: int = option(0, "Seed of shuffles, samples and resampling.", ge=0)
    top: int = option(30, "Number of features in the table; --json has all.", ge=1, group="Results")


@command("importance", ImportanceOptions, FileOptions)
def importance(own: ImportanceOptions, reading: FileOptions) -> None:
    """Measure the loss of the metric when a feature is shuffled within each query of DATA.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Also prints gain and splits of the
    trees, and SHAP centred within queries. Features that are constant within a query are exchanged
    between queries instead.
    """
    from boostrank.metric import Conventions
    from boostrank.report.section import read_groups
    from boostrank.report.sections.importance import importance

    model, dataset = Reader(reading, own.threads, gain=own.gain, asks=True).read_for_model(own.model, own.data)
    groups = read_groups(own.groups, model.column_names) if own.groups else None
    with StepProgress() as progress:
        found = importance(
            model,
            dataset,
            metric=own.metric,
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
        _print(found, own.model, own.top)


def _print(found: Importance, model: str, top: int) -> None:
    from boostrank.report.sections.importance import VERDICTS

    echo = click.echo
    interval = f"{found.low:.4f} to {found.high:.4f}"
    echo(f"{model}: {found.metric} {found.value:.4f}, {interval}, {found.queries:,} queries count")
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
        of = f"a sample of whole queries, {found.documents:,} of {found.all_documents:,} documents"
    shap = f"SHAP of {found.shap_documents:,} documents" if found.shap_documents else "no SHAP"
    shuffles = count_of(found.repeats, "shuffle")
    return f"{of}; {shuffles} of each query; intervals: over queries and shuffles; {shap}"


def _print_removed(found: Importance, removed: Effect) -> None:
    left = found.value - removed.loss
    click.echo(
        f"removable, {len(removed.features)} features: {listed(removed.features)}; all neutralised together: "
        f"{found.metric} {left:.4f}, loss {removed.loss:+.4f}, {removed.low:+.4f} to {removed.high:+.4f}"
    )
    if removed.high > found.negligible:
        click.echo("together they may matter: take them out step by step, and train again")
