"""The command `boostrank compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import GATE_SHUT, Running, say
from boostrank.cli.reading import name_of
from boostrank.cli.show import check_page, print_json, print_table, print_wrapped, write_page
from boostrank.options import CompareOptions, FileOptions
from boostrank.reporting.table import printable

if TYPE_CHECKING:
    from boostrank.reporting.comparison import Comparison, Regression


@Command
def compare(options: CompareOptions, reading: FileOptions) -> None:
    """Compare NEW with OLD query by query, to stop a release that ranks worse.

    OLD and NEW are models of boostrank, LightGBM, XGBoost or a search engine, or files with one
    score per line in the order of DATA. They may be runs: DATA is then judgements, such as qrels,
    and numbers are those of trec_eval. A quoted pattern, 'new-*.txt', names several trainings of a
    ranker, such as with other seeds: intervals and p-values then include how much they differ.

    A condition is METRIC OP NUMBER [at p<ALPHA]: the mean of new minus old is <, <=, > or >=
    NUMBER. With `at`, the p-value of the two-sided paired randomisation test must also be below
    ALPHA. low(METRIC) OP NUMBER tests an end of the 95% interval instead: 'low(ndcg@10) < -0.01'
    holds unless NEW is shown to be at most 0.01 worse. The exit status is 1 if a condition holds.

    --machine takes a column of DATA, such as `data join --machine` writes, or a FILE of judgements
    in any form that `data join` reads. The machine's grades narrow the interval of the difference
    by people's grades, and conditions read the narrower one. A column `chance`, from `data choose`,
    is used. Write ./NAME for a file with the name of a column.
    """
    if options.output is not None:
        check_page(options.output)
    from boostrank.cli.judging import compare_files

    comparison, about_clicks = compare_files(options, reading)
    name = name_of(options.data)
    # Set the exit status before output, which a closed pipe may cut short.
    if comparison.failed:
        Running.status = GATE_SHUT
    if options.output is not None:
        write_page(options.output, comparison.to_html(name))
    if options.as_json:
        print_json(comparison.to_dict())
    else:
        _print(comparison, name)
    if about_clicks:
        say(about_clicks)


def _print(comparison: Comparison, data: str) -> None:
    differences, first = comparison.table(), comparison.first
    echo(printable(str(comparison.opening)))
    echo(f"{comparison.new} against {comparison.old} on {data}, query by query")
    print_table(differences.select(kind="all", segment="all"))
    if comparison.judges:
        echo("\nby people, by the machine, and by both, which conditions read")
        print_table(comparison.table("judges"))
        print_wrapped([*comparison.judges_notes, ""])
    churn = comparison.churn
    if churn.queries:
        echo(
            f"top {churn.k}: {churn.changed:.1%} new documents in {churn.queries:,} queries with"
            f" more documents; the first document changed in {churn.first:.1%}"
        )
    for kind in comparison.of_segment:
        echo(f"\n{first} by {kind}; p is adjusted for all segments by Holm's method")
        print_table(differences.select(kind=kind, metric=first))
    if comparison.regressions:
        echo(f"\nworst of {comparison.metrics[first].worse:,} regressions of {first}")
        print_table(
            comparison.regression_table(), remarks=["", *map(_reason, comparison.regressions)]
        )
    for note in comparison.notes:
        say(note)
    # The conditions and the conventions come last.
    echo()
    for outcome in comparison.outcomes:
        verdict = f"FAILS: {outcome.condition}"
        if not outcome.holds:
            verdict = f"passes: not ({outcome.condition})"
        echo(verdict)
    remarks = [*comparison.meanings, comparison.conventions.describe()]
    print_wrapped([*comparison.luck_notes, *remarks])


def _reason(regression: Regression) -> str:
    """Describe the best document that fell."""
    return "" if regression.fallen is None else printable(str(regression.fallen))
