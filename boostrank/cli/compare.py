"""The command `boostrank compare`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from click import echo

from boostrank.cli.command import Command
from boostrank.cli.errors import GATE_SHUT, Running, say
from boostrank.cli.reading import Reader, list_unfit_for_runs, metrics_of, name_of
from boostrank.cli.show import print_json, print_table, print_wrapped, write_page
from boostrank.core.errors import InputError, did_you_mean
from boostrank.options import (
    FileOptions,
    MeasureOptions,
    PropensityOptions,
    StudyOptions,
    argument,
    option,
)
from boostrank.reporting.table import printable

if TYPE_CHECKING:
    from boostrank.clicks.sidecar import Clicks
    from boostrank.data.dataset import RankingDataset
    from boostrank.model.ranking_model import RankingModel
    from boostrank.reporting.comparison import Comparison, Regression
    from boostrank.reporting.rank_changes import Ranker


class TwoRankers(MeasureOptions, group="Measures"):
    """Arguments and options of commands that compare two rankers."""

    old: str = argument("OLD", file="rankers")
    new: str = argument("NEW", file="rankers")
    data: tuple[str, ...] = argument("DATA...", file="data")
    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@10, map, or a function in a file, my.py:name. The first one"
        " determines regressions.",
        flag="--metric",
        metavar="NAME",
        shown="ndcg@10; dcg@10 for clicks",
    )
    machine: str | None = option(
        "A machine's grades: a column of DATA, or a file of judgements. The label is missing where"
        " people did not judge. Compare by people, by the machine and by both.",
        metavar="COLUMN|FILE",
        file="either",
        conflicts="clicks",
    )


class Compare(PropensityOptions, StudyOptions, TwoRankers, group="Measures"):
    """Arguments and options of `boostrank compare`."""

    top: int = option(
        "Number of top ranks in which changes are counted and shown.", 10, metavar="K", ge=1
    )
    conditions: tuple[str, ...] = option(
        "Exit with status 1 if this condition holds: 'ndcg@10 < -0.002 at p<0.05'.",
        flag="--fail-if",
        metavar="CONDITION",
        group="Results",
    )
    output: str | None = option("HTML page to write.", short="-o", file="page", group="Results")


@Command
def compare(options: Compare, reading: FileOptions) -> None:
    """Compare NEW with OLD query by query, to stop a release that ranks worse.

    OLD and NEW are models of boostrank, LightGBM, XGBoost or a search engine, or files with one
    score per line in the order of DATA. They may be runs: DATA is then judgements, such as qrels,
    and numbers are those of trec_eval. A quoted pattern, 'new-*.txt', names several trainings of a
    ranker, such as with other seeds: intervals and p-values then include how much they differ.

    A condition is METRIC OP NUMBER [at p<ALPHA] [in any]: the mean of new minus old is <, <=, > or
    >= NUMBER. With `at`, the p-value of the two-sided paired randomisation test must also be below
    ALPHA. `in any` tests each segment, with p-values adjusted by Holm's method. low(METRIC) OP
    NUMBER [in any] tests an end of the 95% interval instead: 'low(ndcg@10) < -0.01' holds unless
    NEW is shown to be at most 0.01 worse. The exit status is 1 if a condition holds.

    --machine takes a column of DATA, such as `data join --machine` writes, or a FILE of judgements
    in any form that `data join` reads. The machine's grades narrow the interval of the difference
    by people's grades, and conditions read the narrower one. A column `chance`, from `data choose`,
    is used. Write ./NAME for a file with the name of a column.
    """
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


def compare_files(options: Compare, reading: FileOptions) -> tuple[Comparison, str]:
    """Compare two rankers on files, and describe the clicks they are judged by, if any."""
    # Refuse a ranker on both sides before the slow imports.
    old_files, new_files = _files(options.old), _files(options.new)
    for path in sorted({*old_files} & {*new_files}):
        raise InputError(f"{path} is given twice, as OLD and as NEW")
    if _are_runs(options, reading, old_files[0]):
        return _compare_runs(options, reading, old_files, new_files), ""
    from boostrank.model.scores import load_ranker
    from boostrank.reporting.comparison import Condition, compare

    # Parse metrics and conditions before the models and the data are read.
    machine = options.machine
    judged = JudgedData(options, reading, ("ndcg@10",), ("dcg@10",), machine)
    functions = [metric.name for metric in judged.metrics if metric.function]
    conditions = [Condition.parse(text, functions) for text in options.conditions]
    models = {path: load_ranker(path) for path in (*old_files, *new_files)}
    judged.read(models)
    old, new = map(judged.rankers, (old_files, new_files))
    data, how = judged.datasets[new_files[-1]], judged.options
    if machine is not None:
        how = how | {"machine": grades_of_judges(options.data, machine, reading, data)}
    comparison = compare(old, new, data, judged.metrics, fail_if=conditions, top=options.top, **how)
    if judged.clicks is None:
        return comparison, ""
    return comparison, judged.clicks.words(data, new[0].scores, options.top)


def _are_runs(options: Compare, reading: FileOptions, old: str) -> bool:
    """Return whether the ranker `old` is a run, or DATA has nothing but judgements."""
    from boostrank.files.join import CHANCE
    from boostrank.files.judgements import is_list, recognised
    from boostrank.model.scores import columns_of

    if is_list(old, "score") or is_list(options.data[0], "grade"):
        return True
    if not columns_of(old) or not os.path.isfile(options.data[0]):
        return False
    header, roles = _header_of(options.data), _roles_of(reading)
    judged = {roles.get(role) or recognised(role, header) for role in ("qid", "id", "label")}
    return header != () and {*header} <= judged | {options.machine, CHANCE}


def _compare_runs(
    options: Compare, reading: FileOptions, old_files: list[str], new_files: list[str]
) -> Comparison:
    """Compare two rankers by their runs and by judgements."""
    from boostrank.files.judgements import values_by_query
    from boostrank.metrics import Metric
    from boostrank.reporting.comparison import compare_runs

    # Refuse what runs do not have.
    qrels, machine, roles = options.data[0], options.machine, _roles_of(reading)
    flags = list_unfit_for_runs(reading, options.gain, ("label", "qid", "id"))
    flags += ["--clicks"] * options.clicks
    if len(options.data) > 1 or flags:
        raise InputError(
            "runs are compared by one file of judgements, as DATA: leave out"
            f" {', '.join(flags) or 'the others'}"
        )
    # Read the judgements, of which a table may have two columns.
    by_machine: Any = None
    if machine is not None:
        _without_grades(options, reading, machine)
        is_column = machine in _header_of(options.data)
        of_machine = (qrels, roles | {"label": machine}) if is_column else (machine, roles)
        by_machine = values_by_query(*of_machine)
    return compare_runs(
        old_files,
        new_files,
        values_by_query(qrels, roles),
        Metric.all_of(metrics_of(options.metrics or ("ndcg@10",))),
        machine=by_machine,
        fail_if=options.conditions,
        top=options.top,
        **_arguments_of(options, "trec"),
    )


def _roles_of(reading: FileOptions) -> dict[str, str]:
    """Return the names of the columns of judgements that options give."""
    roles = {role: getattr(reading, role) for role in ("label", "qid", "id")}
    return {role: name for role, name in roles.items() if name is not None}


def _arguments_of(options: Any, usual: str | None = None) -> dict[str, Any]:
    """Return the arguments of the analysis.

    Args:
        usual: conventions unless options name others.
    """
    from boostrank.metrics import Conventions
    from boostrank.reporting.section import read_matters
    from boostrank.reporting.segments import read_segments

    return {
        "conventions": Conventions.of(options.conventions or usual, options.gain),
        "segments": options.segments and read_segments(options.segments),
        "matters": options.noise and read_matters(options.noise),
        "seed": options.seed,
        "threads": options.threads,
    }


def grades_of_judges(
    source: Sequence[str], machine: str, reading: FileOptions, data: RankingDataset
) -> dict[str, Any]:
    """Return the columns of people's and a machine's grades, and of the chances if there are any,
    float64[N] in input order.

    Args:
        machine: column, or else a file with judgements of documents of the data.
    """
    from boostrank.files.columns import column_of
    from boostrank.files.join import CHANCE, MACHINE, grades_by_name
    from boostrank.files.source import Reading, expand
    from boostrank.files.tables import numbers_of

    paths, header = list(map(str, expand(source))), _header_of(source)
    grades: dict[str, Any] = {"label": data.in_input_order(data.labels)}
    if header:
        label = column_of("label", header, Reading(label=reading.label)) or "label"
        columns = {"label": label, MACHINE: machine, CHANCE: CHANCE}
        for role, column in columns.items():
            if column in header or role == "label":
                grades[role] = numbers_of(paths, column, reading.missing_tokens)
    if MACHINE not in grades:
        tokens = reading.missing_tokens
        how = Reading(label=reading.label, qid=reading.qid, id=reading.id, missing_tokens=tokens)
        grades[MACHINE] = grades_by_name(machine, data, how)
    return grades


def _header_of(source: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the first file, or none if it is no table."""
    from boostrank.files.source import expand
    from boostrank.files.tables import header_of, is_table

    first = str(expand(source)[0])
    return header_of(first) if is_table(first) else ()


def _files(pattern: str) -> list[str]:
    """Return the files of a ranker, which is one file or a pattern."""
    from boostrank.files.source import matching

    return [path for path in matching(pattern) if not path.endswith(".meta.json")]


class JudgedData:
    """The data and the options of `compare` and `report`, which judge rankers by labels or by
    clicks.

    Args:
        by_label, by_clicks: default metrics.
        machine: column or file with a machine's grades. The column, and those that `data join`
            adds, are then no features. Labels may be missing.

    Attributes:
        metrics: the metrics to measure.
        options: arguments of the analysis: conventions, segments, matters, seed, threads.
        clicks: the clicks, or None with labels.
        datasets: data set of each ranker, by path. By clicks, documents without an impression are
            left out.
    """

    def __init__(
        self,
        options: Any,
        reading: FileOptions,
        by_label: Sequence[str],
        by_clicks: Sequence[str],
        machine: str | None = None,
    ) -> None:
        """Check the options before reading."""
        from boostrank.metrics import Metric

        default = by_label  # clicks have a linear gain
        if options.clicks:
            from boostrank.clicks.sidecar import check_click_files

            if options.gain is not None:
                raise InputError("--clicks and --gain cannot be used together")
            if len(options.data) != 1:
                raise InputError(
                    "--clicks needs exactly one DATA file, whose rows the clicks refer to"
                )
            check_click_files(options.data, reading)
            options, default = replace(options, gain="linear"), by_clicks
        if machine is not None:
            reading = _without_grades(options, reading, machine)
        self.metrics = Metric.all_of(metrics_of(options.metrics or default))
        self.options = _arguments_of(options)
        self._reader = Reader(
            reading,
            options.threads,
            gain=options.gain,
            asks=machine is None,
            labelled=machine is None,
            names=True,
        )
        self._command = options
        self.clicks: Clicks | None = None

    def read(self, models: Mapping[str, RankingModel | None]) -> None:
        """Read the data for each ranker. Its model is None if its file has scores."""
        from boostrank.clicks.sidecar import Clicks

        options, self._models = self._command, models
        self.datasets = self._reader.read_for(models, options.data)
        if options.clicks:
            rows = next(iter(self.datasets.values()))
            clicks = Clicks.read(options.data[0], rows, options.propensities, say)
            self.datasets = {path: clicks.judged(rows) for path, rows in self.datasets.items()}
            self.clicks = clicks

    def rankers(self, paths: Sequence[str]) -> list[Ranker]:
        """Return rankers, with their scores in the row order of their data sets."""
        from boostrank.model.scores import scores_of
        from boostrank.reporting.rank_changes import Ranker, count_trees

        rankers = []
        for path in paths:
            model = self._models[path]
            scores = scores_of(path, model, self.datasets[path], self._command.threads)
            rankers.append(Ranker(path, scores, count_trees(model)))
        return rankers


def _without_grades(options: Any, reading: FileOptions, machine: str) -> FileOptions:
    """Return options that do not read judgements as features."""
    from boostrank.core.conventions import expression_of
    from boostrank.files.join import ADDED, CHANCE

    if expression_of(options.gain) is not None:
        raise InputError(
            "--machine compares by grades, so --gain must be exponential or linear with it"
        )
    if reading.on_bad_line == "skip" or reading.label_map:
        raise InputError("--machine reads all grades as they are: no --on-bad-line, no --label-map")
    header, is_file = _header_of(options.data), os.path.exists(machine)
    if machine not in header and not is_file:
        hint = did_you_mean(machine, header, list_all=0 < len(header) < 13)
        raise InputError(
            f"--machine: {options.data[0]}: no column and no file is called {machine!r}.{hint}"
        )
    if machine in header and is_file:
        say(
            f"--machine reads the column {machine!r} of {options.data[0]}; write ./{machine} to"
            " read the file"
        )
    added = [name for name in (CHANCE, *ADDED) if name in header and name != reading.weight]
    added += [machine] * (machine in header)
    return replace(reading, drop=tuple(dict.fromkeys((*(reading.drop or ()), *added))) or None)


def _print(comparison: Comparison, data: str) -> None:
    differences, first = comparison.table(), comparison.first
    echo(printable(str(comparison.opening)))
    echo(f"{comparison.new} against {comparison.old} on {data}, query by query")
    print_table(differences.select(kind="all", segment="all"))
    if comparison.judges:
        echo("\nby people, by the machine, and by both, which conditions read")
        print_table(comparison.table("judges"))
        print_wrapped([*comparison.judges_words, ""])
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
        where = f" ({printable(', '.join(outcome.where))})" if outcome.where else ""
        text = f"{outcome.condition}{where}"
        verdict = f"FAILS: {text}" if outcome.holds else f"passes: not ({text})"
        echo(verdict)
    luck = dict.fromkeys(map(comparison.luck_words, comparison.metrics))
    remarks = [*comparison.meanings, comparison.conventions.describe()]
    print_wrapped([*luck, *remarks])


def _reason(regression: Regression) -> str:
    """Describe the costliest inversion of a query."""
    swap = regression.swap
    return "" if swap is None else printable(f"{swap.fell}, below {swap.rose}")
