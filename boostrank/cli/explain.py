"""The commands `boostrank importance` and `boostrank why`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, metrics_of
from boostrank.cli.show import StepProgress, print_json, print_table
from boostrank.core.text import count_of, list_names
from boostrank.options import (
    FileOptions,
    JsonOptions,
    MeasureOptions,
    ModelOptions,
    ThreadOptions,
    argument,
    option,
)
from boostrank.reporting.table import interval, printable

if TYPE_CHECKING:
    from boostrank.reporting.explanation import Why
    from boostrank.reporting.sections.importance import Importance


class ImportanceOptions(ModelOptions, MeasureOptions, group="Measures"):
    """Options of `boostrank importance`."""

    metric: str = option("Metric whose loss is measured, with one cut-off.", "ndcg@10")
    repeats: int | None = option(
        "Number of shuffles per query.", ge=1, le=1000, shown="1 to 5, depending on the cost"
    )
    documents: int | None = option(
        "Use a sample of whole queries with about N documents for shuffles and SHAP; 0 uses all.",
        ge=0,
        shown="as many as take half a minute, or ten seconds for SHAP",
    )
    seed: int = option("Random seed of shuffles, samples and resampling.", 0, ge=0)
    top: int = option("Number of features in the table; --json has all.", 30, ge=1, group="Results")


@Command
def importance(options: ImportanceOptions, reading: FileOptions) -> None:
    """Measure the loss of the metric when a feature is shuffled within each query of DATA.

    MODEL is a file of boostrank, LightGBM, XGBoost or a search engine. The table also shows the
    gain, the number of splits, and SHAP values centred within queries. Features that are constant
    within a query are shuffled between queries instead.
    """
    from boostrank.metrics import Conventions
    from boostrank.reporting.sections.importance import importance

    model, dataset = Reader(reading, options).read_for_model(options.model, options.data)
    # By default, SHAP has its own limit on documents.
    shap_documents = options.documents
    if options.documents == 0:
        shap_documents = dataset.n_documents
    with StepProgress() as progress:
        result = importance(
            model,
            dataset,
            metric=metrics_of([options.metric])[0],
            conventions=Conventions.of(options.conventions, options.gain),
            repeats=options.repeats,
            documents=options.documents,
            shap_documents=shap_documents,
            seed=options.seed,
            threads=options.threads,
            progress=progress,
        )
    if options.as_json:
        print_json(result.to_dict())
    else:
        _print_importance(result, options.model, options.top)


def _print_importance(importance: Importance, model: str, top: int) -> None:
    from boostrank.reporting.sections.importance import VERDICTS

    metric, ends = importance.metric, interval(importance.low, importance.high)
    echo(f"{model}: {metric} {importance.value:.4f}, {ends}, {importance.queries:,} queries")
    # Say how the losses were measured.
    sample = f"{importance.documents:,} documents"
    if importance.documents < importance.all_documents:
        sample = f"whole queries with {sample} of {importance.all_documents:,}"
    shuffles = count_of(importance.repeats, "shuffle")
    echo(
        f"{sample}; {shuffles} per query; intervals over queries and shuffles; SHAP of"
        f" {importance.shap_documents:,} documents\n"
    )
    # Unused features are the last ones.
    table, unused = importance.table(), importance.features_with("unused")
    used_features = table.take(range(len(table) - len(unused)))
    print_table(used_features, top)
    clusters = importance.table("clusters")
    if len(clusters):
        echo("\nredundant features")
        print_table(clusters)
    echo()
    for verdict in dict.fromkeys(used_features.data["verdict"][:top]):
        echo(f"{verdict}: {VERDICTS[verdict]}")
    if unused:
        echo(f"unused, {len(unused):,} of {len(table):,} features: {list_names(unused)}")
    removed = importance.removed
    if removed is not None:
        echo(
            f"removable, {len(removed.features)} features: {list_names(removed.features)}; shuffled"
            f" together, {metric} is {importance.value - removed.loss:.4f}, a loss of"
            f" {removed.loss:+.4f}, {interval(removed.low, removed.high, '+.4f')}"
        )
        if removed.high > importance.negligible:
            echo("together they may matter, so remove them step by step and train again")


class WhyOptions(ModelOptions, JsonOptions, ThreadOptions, group="Results"):
    """Arguments and options of `boostrank why`."""

    query: str = argument("Q")
    a: str = argument("A")
    b: str = argument("B")
    top: int = option("Number of features in the table; --json has all.", 12, ge=1)


@Command
def why(options: WhyOptions, reading: FileOptions) -> None:
    """Explain why document A of query Q ranks above or below document B.

    \b
    A and B are documents of the query:
      @3         the document that the model ranks third
      row:17     row 17 of DATA, counted from 1
      D7         a document name: the column --id of a table, or the comment of a row

    MODEL is a file of boostrank, LightGBM, XGBoost or a search engine. Feature contributions are
    TreeSHAP values computed by the engine.
    """
    from boostrank.reporting.explanation import why

    model, dataset = Reader(reading, options, names=True).read_for_model(
        options.model, options.data
    )
    explanation = why(model, dataset, options.query, options.a, options.b, threads=options.threads)
    if options.as_json:
        print_json(explanation.to_dict())
    else:
        print_why(explanation, options.top)


def print_why(explanation: Why, top: int) -> None:
    """Print the pair of documents, and the first features."""
    because = "row order only, because the scores are equal"
    if explanation.difference:
        because = f"{abs(explanation.difference):.6g}"
    documents = f"query {printable(explanation.qid)}, {explanation.documents:,} documents"
    echo(f"{documents}: A is {explanation.side} B by {because}")
    print_table(explanation.table("pair"))
    if not any(map(math.isnan, explanation.parts)):
        echo("\ncontributions to A's score minus contributions to B's score (TreeSHAP)")
        print_table(explanation.table(), top)
        remaining_parts = explanation.table().data["part"][top:]
        if len(remaining_parts):
            echo(f"  the others together: {sum(remaining_parts):+.4g}")
    for note in explanation.notes:
        say(note)
