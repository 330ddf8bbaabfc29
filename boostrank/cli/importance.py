"""`boostrank importance`."""

from __future__ import annotations

import csv
import fnmatch
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.engines import prepare_engines
from boostrank.cli.options import (
    Command,
    DataFile,
    InputFile,
    chosen_conventions,
    conventions_option,
    option,
    threads_option,
    with_options,
)
from boostrank.cli.progress import StepProgress
from boostrank.cli.reading import Reader, reading_options
from boostrank.cli.tables import aligned
from boostrank.core.errors import FileFormatError, InputError
from boostrank.core.jsonable import jsonable

if TYPE_CHECKING:
    from boostrank.report.sections.importance.analysis import Effect, Importance

SHUFFLING = "Shuffling"
OUTPUT = "Output"

_options = with_options(
    option("--data", required=True, metavar="DATA", type=DataFile(), section=SHUFFLING, help="Labelled queries."),
    option(
        "--metric", metavar="NAME", default="ndcg@10", show_default=True, section=SHUFFLING,
        help="What is lost, with one cut-off.",
    ),
    conventions_option(SHUFFLING),
    option("--gain", section=SHUFFLING, help="Gain of a label: exponential, linear, or a table 0,1,3,7."),
    option(
        "--groups", metavar="FILE", type=InputFile(), section=SHUFFLING,
        help="Features shuffled together, a group a line: `text: bm25_*, tf_title`.",
    ),
    option(
        "--repeats", metavar="R", type=click.IntRange(1), show_default="1 to 5, as the work allows",
        section=SHUFFLING, help="Shuffles of each query.",
    ),
    option(
        "--documents", metavar="N", type=click.IntRange(0), show_default="as many as take half a minute",
        section=SHUFFLING, help="Shuffle a sample of whole queries with about N documents; 0: all.",
    ),
    option(
        "--shap-documents", metavar="N", type=click.IntRange(0), show_default="as many as take ten seconds",
        section=SHUFFLING, help="Explain a sample of whole queries with about N documents; 0: none.",
    ),
    option(
        "--negligible", metavar="X", type=click.FloatRange(0), default=0.001, show_default=True, section=SHUFFLING,
        help="A loss that does not matter.",
    ),
    option(
        "--redundant", metavar="R", type=click.FloatRange(0, 1), default=0.9, show_default=True, section=SHUFFLING,
        help="Rank correlation within queries from which on features are taken for alike.",
    ),
    option(
        "--seed", metavar="S", type=click.IntRange(0), default=0, show_default=True, section=SHUFFLING,
        help="Of shuffles and samples.",
    ),
    option(
        "--top", metavar="N", type=click.IntRange(1), default=30, show_default=True, section=OUTPUT,
        help="Features in the table; --json and --csv have all.",
    ),
    option("--json", "as_json", is_flag=True, section=OUTPUT, help="Print one JSON object."),
    option("--csv", "as_csv", is_flag=True, section=OUTPUT, help="Print one line a feature, separated by commas."),
    threads_option(OUTPUT),
)  # fmt: skip


@click.command("importance", cls=Command, short_help="What each feature is worth to the ranking.")
@click.argument("model", type=InputFile())
@_options
@reading_options
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    data: str,
    metric: str,
    conventions: str | None,
    gain: str | None,
    groups: str | None,
    top: int,
    as_json: bool,
    as_csv: bool,
    threads: int | None,
    repeats: int | None,
    documents: int | None,
    shap_documents: int | None,
    negligible: float,
    redundant: float,
    seed: int,
    **given: Any,
) -> None:
    """What the ranking of DATA loses when a feature is shuffled among the documents of each query.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Beside the loss: gain and splits of the trees, and
    SHAP centred within queries. Features that are constant within a query order nothing by themselves: they are
    exchanged between queries instead.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two outputs: take one", context)
    prepare_engines()
    from boostrank.report.sections.importance.analysis import importance
    from boostrank.training.model import RankingModel

    ranker = RankingModel.load(model)
    reader = Reader({**given, "threads": threads})
    dataset = reader.read(data, like=reader.feature_space(ranker, model))
    with StepProgress() as progress:
        told = importance(
            ranker, dataset, metric=metric, conventions=chosen_conventions(conventions, gain),
            groups=read_groups(groups, ranker.feature_names) if groups else None, repeats=repeats,
            documents=documents, shap_documents=shap_documents, seed=seed, negligible=negligible, redundant=redundant,
            threads=threads, progress=progress,
        )  # fmt: skip
    if as_json:
        correlation = {"features": told.correlated, "values": told.correlation.round(4)}
        click.echo(json.dumps(jsonable(told.to_dict() | {"correlation": correlation})))
    elif as_csv:
        rows = told.rows()
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if value != value else value for name, value in row.items()} for row in rows)
    else:
        _print(told, model, top)


def read_groups(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The groups in a file: `name: feature, pattern*, ...` a line; `#` begins a comment.

    Raises:
        InputError: no such line; a pattern that no feature matches; a name that comes twice.
    """
    groups: dict[str, list[str]] = {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None
    for number, text in enumerate(lines, 1):
        line = text.partition("#")[0].strip()
        if not line:
            continue
        name, colon, patterns = line.partition(":")
        words = patterns.replace(",", " ").split()
        if not (colon and name.strip() and words):
            raise FileFormatError("expected `name: feature, feature, ...`", file=path, line=number)
        if name.strip() in groups:
            raise FileFormatError(f"group {name.strip()!r} comes twice", file=path, line=number)
        members: list[str] = []
        for word in words:
            # A name may hold brackets, which are a pattern's: as a name it counts first.
            found = [word] if word in names else fnmatch.filter(names, word)
            if not found:
                raise FileFormatError(f"the model has no feature {word!r}", file=path, line=number)
            members += found
        groups[name.strip()] = list(dict.fromkeys(members))
    return groups


def _print(told: Importance, model: str, top: int) -> None:
    from boostrank.report.sections.importance.analysis import VERDICTS

    echo = click.echo
    echo(f"{model}: {told.metric} {told.value:.4f}, {told.low:.4f} to {told.high:.4f}, {told.queries:,} queries count")
    echo(_how(told))
    echo()
    rows = told.rows()
    shown = [row for row in rows if row["verdict"] != "unused"][:top]
    gain = sum(row["gain"] for row in rows) or 1.0
    table = [["feature", "loss", "95% interval", "+-shuffles", "gain", "splits", "SHAP", "+-", "verdict"]]
    for row in shown:
        at = "between" if row["verdict"] == "query-level" else "loss"
        table.append(
            [
                row["feature"], f"{row[at]:+.4f}", f"{row[at + '_low']:+.4f} to {row[at + '_high']:+.4f}",
                _number(row["permutation_error"] if at == "loss" else math.nan, ".4f"), f"{row['gain'] / gain:.1%}",
                f"{row['splits']:,}", _number(row["shap"], ".3f"), _number(row["shap_error"], ".3f"), row["verdict"],
            ]
        )  # fmt: skip
    for line in aligned(table):
        echo(f"  {line}")
    used = sum(row["verdict"] != "unused" for row in rows)
    if used > len(shown):
        echo(f"  ... and {used - len(shown)} more (--top {used})")
    echo()
    for effects, title in ((told.groups, "groups, shuffled together"), (told.clusters, "features that rank alike")):
        if effects:
            echo(title)
            for line in aligned([["", "loss", "95% interval"], *(_effect_row(e) for e in effects)]):
                echo(f"  {line}")
            echo()
    for verdict in dict.fromkeys(row["verdict"] for row in shown):
        echo(f"{verdict}: {VERDICTS[verdict]}")
    if used < len(rows):
        unused = told.named("unused")
        echo(f"unused, {len(unused):,} of {len(rows):,} features: {_some(unused)}")
    if told.removed is not None:
        _print_removed(told, told.removed)


def _how(told: Importance) -> str:
    of = f"{told.documents:,} documents"
    if told.documents < told.all_documents:
        of = f"a sample of whole queries, {told.documents:,} of {told.all_documents:,} documents"
    shuffles = f"{told.repeats} shuffle{'s' * (told.repeats > 1)} of each query"
    held = "intervals: over queries and shuffles"
    shap = f"SHAP of {told.shap_documents:,} documents" if told.shap_documents else "no SHAP"
    walked = "" if told.by == "walk" else f"; scored by the engine ({told.by})"
    return f"{of}; {shuffles}; {held}; {shap}{walked}"


def _print_removed(told: Importance, removed: Effect) -> None:
    left = told.value - removed.loss
    click.echo(
        f"removable, {len(removed.features)} features: {_some(removed.features)}; all neutralised together: "
        f"{told.metric} {left:.4f}, loss {removed.loss:+.4f}, {removed.low:+.4f} to {removed.high:+.4f}"
    )
    if removed.high > told.negligible:
        click.echo("together they may matter: take them out step by step, and train again")


def _effect_row(effect: Effect) -> list[str]:
    label = effect.name if not effect.name.startswith("cluster ") else _some(effect.features)
    return [label, f"{effect.loss:+.4f}", f"{effect.low:+.4f} to {effect.high:+.4f}"]


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _number(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else "-"
