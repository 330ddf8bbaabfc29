"""What `boostrank compare`, `report` and `study queries` read: rankers, and labels, clicks, runs or
grades that judge them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from boostrank.cli.errors import say
from boostrank.cli.reading import Reader, list_unfit_for_runs, metrics_of
from boostrank.clicks.sidecar import Clicks, check_click_files
from boostrank.core.conventions import Conventions, expression_of
from boostrank.core.errors import InputError, did_you_mean
from boostrank.data.dataset import RankingDataset
from boostrank.files.columns import column_of
from boostrank.files.join import ADDED, CHANCE, MACHINE, grades_by_name
from boostrank.files.judgements import is_list, recognised, values_by_query
from boostrank.files.source import Reading, expand, matching
from boostrank.files.tables import header_of, is_table, numbers_of
from boostrank.metrics import Metric
from boostrank.model.ranking_model import RankingModel
from boostrank.model.scores import columns_of, load_ranker, scores_of
from boostrank.options import CompareOptions, FileOptions, StudyOptions
from boostrank.reporting.comparison import Comparison, Condition, compare, compare_runs
from boostrank.reporting.rank_changes import Ranker, count_trees
from boostrank.reporting.section import read_matters
from boostrank.reporting.segments import read_segments

_METRIC = "ndcg@10"


def compare_files(options: CompareOptions, reading: FileOptions) -> tuple[Comparison, str]:
    """Compare two rankers on files, and describe the clicks they are judged by, if any."""
    old_files, new_files = _files(options.old), _files(options.new)
    for path in sorted({*old_files} & {*new_files}):
        raise InputError(f"{path} is given twice, as OLD and as NEW")
    if _are_runs(options, reading, old_files[0]):
        return _compare_runs(options, reading, old_files, new_files), ""
    # Parse metrics and conditions before the models and the data are read.
    machine = options.machine
    judged = JudgedData(options, reading, (_METRIC,), ("dcg@10",), machine)
    functions = [metric.name for metric in judged.metrics if metric.function]
    conditions = [Condition.parse(text, functions) for text in options.conditions]
    judged.read({path: load_ranker(path) for path in (*old_files, *new_files)})
    old, new = map(judged.rankers, (old_files, new_files))
    data, how = judged.datasets[new_files[-1]], judged.options
    if machine is not None:
        how = how | {"machine": _grades_of_judges(options.data, machine, reading, data)}
    comparison = compare(old, new, data, judged.metrics, fail_if=conditions, top=options.top, **how)
    if judged.clicks is None:
        return comparison, ""
    return comparison, judged.clicks.describe_reliability(data, new[0].scores, options.top)


def _are_runs(options: CompareOptions, reading: FileOptions, old: str) -> bool:
    """Return whether the ranker `old` is a run, or DATA has nothing but judgements."""
    if is_list(old, "score") or is_list(options.data[0], "grade"):
        return True
    if not columns_of(old) or not os.path.isfile(options.data[0]):
        return False
    header, roles = _header_of(options.data), _roles_of(reading)
    judged = {roles.get(role) or recognised(role, header) for role in ("qid", "id", "label")}
    return header != () and {*header} <= judged | {options.machine, CHANCE}


def _compare_runs(
    options: CompareOptions, reading: FileOptions, old_files: list[str], new_files: list[str]
) -> Comparison:
    """Compare two rankers by their runs and by judgements."""
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
        Metric.all_of(metrics_of(options.metrics or (_METRIC,))),
        machine=by_machine,
        fail_if=options.conditions,
        top=options.top,
        **_arguments_of(options, "trec"),
    )


def _roles_of(reading: FileOptions) -> dict[str, Any]:
    """Return the names of the columns of judgements that options give."""
    roles = ("label", "qid", "id")
    return {role: name for role, name in reading.changed.items() if role in roles}


def _arguments_of(options: StudyOptions, usual: str | None = None) -> dict[str, Any]:
    """Return the arguments of the analysis.

    Args:
        usual: conventions unless options name others.
    """
    return {
        "conventions": Conventions.of(options.conventions or usual, options.gain),
        "segments": options.segments and read_segments(options.segments),
        "matters": options.noise and read_matters(options.noise),
        "seed": options.seed,
        "threads": options.threads,
    }


def _grades_of_judges(
    source: Sequence[str], machine: str, reading: FileOptions, data: RankingDataset
) -> dict[str, Any]:
    """Return the columns of people's and a machine's grades, and of the chances if there are any,
    float64[N] in input order.

    Args:
        machine: column, or else a file with judgements of documents of the data.
    """
    paths, header = list(map(str, expand(source))), _header_of(source)
    grades: dict[str, Any] = {"label": data.in_input_order(data.labels)}
    tokens = reading.missing_tokens
    if header:
        label = column_of("label", header, Reading(label=reading.label)) or "label"
        columns = {"label": label, MACHINE: machine, CHANCE: CHANCE}
        for role, column in columns.items():
            if column in header or role == "label":
                grades[role] = numbers_of(paths, column, tokens)
    if MACHINE not in grades:
        how = Reading(missing_tokens=tokens, **_roles_of(reading))
        grades[MACHINE] = grades_by_name(machine, data, how)
    return grades


def _header_of(source: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the first file, or none if it is no table."""
    first = str(expand(source)[0])
    return header_of(first) if is_table(first) else ()


def _files(pattern: str) -> list[str]:
    """Return the files of a ranker, which is one file or a pattern."""
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
        default = by_label  # clicks have a linear gain
        if options.clicks:
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
        self._reader = Reader(reading, options, labelled=machine is None, names=True)
        self._command = options
        self.clicks: Clicks | None = None

    def read(self, models: Mapping[str, RankingModel | None]) -> None:
        """Read the data for each ranker. Its model is None if its file has scores."""
        options, self._models = self._command, models
        self.datasets = self._reader.read_for(models, options.data)
        if options.clicks:
            rows = next(iter(self.datasets.values()))
            clicks = Clicks.read(options.data[0], rows, options.propensities, say)
            self.datasets = {path: clicks.judged(rows) for path, rows in self.datasets.items()}
            self.clicks = clicks

    def rankers(self, paths: Sequence[str]) -> list[Ranker]:
        """Return rankers, with their scores in the row order of their data sets."""
        rankers = []
        for path in paths:
            model = self._models[path]
            scores = scores_of(path, model, self.datasets[path], self._command.threads)
            rankers.append(Ranker(path, scores, count_trees(model)))
        return rankers


def _without_grades(options: Any, reading: FileOptions, machine: str) -> FileOptions:
    """Return options that do not read judgements as features."""
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
