"""`boostrank importance`."""

from __future__ import annotations

import csv
import fnmatch
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli import study
from boostrank.cli.options import COUNT, Command, FloatRange, InputFile, chosen_conventions, with_options
from boostrank.cli.progress import StepProgress
from boostrank.cli.reading import reading_options
from boostrank.cli.tables import print_table
from boostrank.core.errors import FileFormatError
from boostrank.core.text import count_of

if TYPE_CHECKING:
    from boostrank.report.sections.importance import Effect, Importance

# Options that the function takes as they are.
_PASSED = ("metric", "repeats", "documents", "shap_documents", "seed", "negligible", "redundant", "threads")


@click.command("importance", cls=Command)
@click.argument("model", type=InputFile())
@with_options(
    study.data_argument,
    study.measures("--metric", metavar="NAME", default="ndcg@10", help="What is lost, with one cut-off."),
    study.measured_by_option, study.gain_option, study.groups_option,
    study.measures("--repeats", type=COUNT, show_default="1 to 5, as the work allows", help="Shuffles of each query."),
    study.measures("--documents", type=click.IntRange(0), show_default="as many as take half a minute",
                   help="Shuffle a sample of whole queries with about N documents; 0: all."),
    study.measures("--shap-documents", type=click.IntRange(0), show_default="as many as take ten seconds",
                   help="Explain a sample of whole queries with about N documents; 0: none."),
    study.measures("--negligible", type=FloatRange(0), default=0.001, help="A loss that does not matter."),
    study.measures("--redundant", type=FloatRange(0, 1), default=0.9,
                   help="Rank correlation within queries from which on features are taken for alike."),
    study.seed_option,
    study.results("--top", type=COUNT, default=30, help="Features in the table; --json and --csv have all."),
    study.json_option,
    study.results("--csv", "as_csv", is_flag=True, help="Print one line a feature, separated by commas."),
    study.workers_option,
)  # fmt: skip
@reading_options
@click.pass_context
def command(
    context: click.Context, /, model: str, data: tuple[str, ...], top: int, as_json: bool, as_csv: bool, **given: Any
) -> None:
    """What the ranking of DATA loses when a feature is shuffled among the documents of each query.

    MODEL is a file of boostrank, LightGBM (text) or XGBoost (JSON). Beside the loss: gain and splits of the trees, and
    SHAP centred within queries. Features that are constant within a query order nothing by themselves: they are
    exchanged between queries instead.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two outputs: take one", context)
    from boostrank.report.sections.importance import importance

    ranker, dataset = study.read_for_model(model, data, given)
    groups = read_groups(given["groups"], ranker.column_names) if given["groups"] else None
    rules = chosen_conventions(given["conventions"], given["gain"])
    with StepProgress() as progress:
        found = importance(
            ranker, dataset, conventions=rules, groups=groups, progress=progress,
            **{name: given[name] for name in _PASSED},
        )  # fmt: skip
    if as_json:
        correlation = {"features": found.correlated, "values": found.correlation.round(4)}
        study.print_json(found.to_dict() | {"correlation": correlation})
    elif as_csv:
        rows = found.rows()
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if value != value else value for name, value in row.items()} for row in rows)
    else:
        _print(found, model, top)


def read_groups(path: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The groups in a file: `name: feature, pattern*, ...` a line; `#` begins a comment.

    Raises:
        InputError: no such line; a pattern that no feature matches; a name that comes twice.
    """
    from boostrank.core.files import read_text

    groups: dict[str, list[str]] = {}
    for number, text in enumerate(read_text(path).split("\n"), 1):
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
    if found.start is not None:
        start = found.start
        ends = f"{start.low:+.4f} to {start.high:+.4f}"
        worth = [_number(start.shap, ".3f"), _number(start.shap_error, ".3f")]
        table.append(["linear start", f"{start.loss:+.4f}", ends, "-", "-", "-", *worth, "left out"])
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
                label = study.listed(effect.features) if effect.name.startswith("cluster ") else effect.name
                rows_of_effects.append([label, f"{effect.loss:+.4f}", f"{effect.low:+.4f} to {effect.high:+.4f}"])
            print_table(rows_of_effects)
            echo()
    for verdict in dict.fromkeys(row["verdict"] for row in shown):
        echo(f"{verdict}: {VERDICTS[verdict]}")
    if used < len(rows):
        unused = found.named("unused")
        echo(f"unused, {len(unused):,} of {len(rows):,} features: {study.listed(unused)}")
    if found.removed is not None:
        _print_removed(found, found.removed)


def _how(found: Importance) -> str:
    of = f"{found.documents:,} documents"
    if found.documents < found.all_documents:
        of = f"a sample of whole queries, {found.documents:,} of {found.all_documents:,} documents"
    shap = f"SHAP of {found.shap_documents:,} documents" if found.shap_documents else "no SHAP"
    walked = "" if found.by == "walk" else f"; scored by the engine ({found.by})"
    shuffles = count_of(found.repeats, "shuffle")
    return f"{of}; {shuffles} of each query; intervals: over queries and shuffles; {shap}{walked}"


def _print_removed(found: Importance, removed: Effect) -> None:
    left = found.value - removed.loss
    click.echo(
        f"removable, {len(removed.features)} features: {study.listed(removed.features)}; all neutralised together: "
        f"{found.metric} {left:.4f}, loss {removed.loss:+.4f}, {removed.low:+.4f} to {removed.high:+.4f}"
    )
    if removed.high > found.negligible:
        click.echo("together they may matter: take them out step by step, and train again")


def _number(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else "-"
