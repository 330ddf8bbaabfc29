"""`boostrank tune`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import DONE, INTERRUPTED, say
from boostrank.cli.options import ASSIGNMENT, COUNT, Command, DataFile, OutputFile, check_stdin, option, with_options
from boostrank.cli.progress import duration
from boostrank.cli.reading import reading_options
from boostrank.cli.train import read_for_trainings, within_query
from boostrank.cli.train_options import OUTPUT, config_option, training_options, within_query_options
from boostrank.engines import DEFAULT_BACKEND

if TYPE_CHECKING:
    from boostrank.model.within_query import WithinQuery
    from boostrank.tuning.result import Trial, TuningResult

SEARCH = "Search"

_output, _search = (partial(option, section=section) for section in (OUTPUT, SEARCH))


_MOST_USED = (
    "valid", "output", "trials", "folds", "space", "objective", "metrics", "rounds", "early_stopping", "threads",
)  # fmt: skip


@click.command("tune", cls=Command, most_used=_MOST_USED)
@click.argument("train", metavar="TRAIN...", nargs=-1, required=True, type=DataFile())
@with_options(
    _output("--valid", type=DataFile(), show_default="folds of TRAIN", help="Measure trials on this file."),
    _output("-o", "--output", type=OutputFile(), default="tuned.toml",
            help="Where the configuration is written; `boostrank train --config` takes it."),
    _output("--study", metavar="FILE", type=OutputFile(), show_default="OUTPUT.study",
            help="Remembers the trials: Optuna's journal."),
    _output("--resume", is_flag=True, help="Go on with the study, if there is one."),
    config_option,
    within_query_options,
    _output("--json", "as_json", is_flag=True, help="Print one JSON object."),
    _search("--trials", type=COUNT, default=50, help="Trials in all, those of a study that goes on included."),
    _search("--folds", metavar="K", type=click.IntRange(2), default=5,
            help="Without --valid: hold out each of K folds of whole queries once."),
    _search("--space", multiple=True, type=ASSIGNMENT,
            help="Search this too, or otherwise: sigma=0.1:10:log, num_leaves=7:63, objective=shf-sdcg,xe-ndcg; may "
                 "be repeated."),
    _search("--no-trees", is_flag=True, help="Leave the trees' parameters as they are."),
)  # fmt: skip
@training_options
@reading_options
@click.pass_context
def command(context: click.Context, /, train: tuple[str, ...], valid: str | None, output: str, **given: Any) -> int:
    """Search for the parameters that rank best, and write them down for `boostrank train --config`.

    Searched are learning rate, leaves, regularisation and what the objective's parameters declare; what is given by
    an option stays as it is. Trials are measured on --valid, or on folds of whole queries, and compared query by
    query. How far two trainings differ by luck alone is measured first.
    """
    from boostrank.core.errors import InputError
    from boostrank.core.files import check_not_read, check_writable, write_output

    inputs = [*train, *([valid] if valid else [])]
    check_stdin(context, inputs)
    study = given["study"] or f"{output}.study"
    for path in (output, study):
        check_not_read(path, inputs)
        check_writable(path)
    if os.path.exists(study) and not given["resume"]:
        raise InputError(f"{study}: a search lies there: --resume goes on with it; or remove the file")
    from boostrank.tuning.search import tune
    from boostrank.tuning.space import parse_dimension

    space = {name: parse_dimension(str(text)) for name, text in given["space"]}
    within = within_query(context, given)
    params, train_set, valid_set = read_for_trainings(context, given, train, valid)

    def search(trials: int, progress: _Progress | None) -> TuningResult:
        with contextlib.redirect_stdout(sys.stderr):  # the engines print
            return tune(
                params, train_set, valid_set, given["rounds"], trials=trials, folds=given["folds"], space=space,
                trees=not given["no_trees"], backend=given["backend"], conventions=given["conventions"], study=study,
                progress=progress, within_query=within,
            )  # fmt: skip

    progress = _Progress()
    stopped = False
    try:
        found = search(given["trials"], progress)
    except KeyboardInterrupt:
        say(f"stopped: the same command with --resume goes on from {study}")
        if not progress.trials:
            return INTERRUPTED
        found, stopped = search(0, None), True
    write_output(output, _as_toml(found, given, within).encode())
    click.echo(json.dumps(_as_json(found)) if given["as_json"] else "\n".join(_summary(found, output)))
    return INTERRUPTED if stopped else DONE


class _Progress:
    """A line each trial: what it gave, the best so far, and how long the rest will take."""

    def __init__(self) -> None:
        self._started, self.trials = time.monotonic(), 0

    def __call__(self, trial: Trial, total: int, best: Trial | None) -> None:
        self.trials += 1
        remain = total - trial.number - 1
        left = (time.monotonic() - self._started) / self.trials * remain
        value = f"{trial.value:.4f}" if math.isfinite(trial.value) else trial.state
        top = f"  best {best.value:.4f}" if best else ""
        say(f"{trial.number + 1}/{total}  {value}{top}" + (f"  {duration(left)} left" if remain else ""))


def _summary(found: TuningResult, output: str) -> list[str]:
    where = f"{found.folds} folds" if found.folds else "the validation set"
    lines = [
        f"{found.metric} with the parameters as given: {found.start:.4f} on {found.queries:,} queries of {where}; "
        f"another seed and order of rows change it by {found.luck:.4f} (standard deviation), and a difference of two "
        f"trainings by {found.matters:.4f} once in twenty times"
    ]
    if found.best is None or found.gain is None:
        lines.append(f"nothing better in {len(found.trials)} trials")
    else:
        gain = found.gain
        lines.append(
            f"best of {len(found.trials)} trials: {found.best.value:.4f}, {gain.mean:+.4f} "
            f"[{gain.low:+.4f}, {gain.high:+.4f}] query by query; the best of many flatters itself: measure it on "
            "queries that were not searched on"
        )
        if gain.mean < found.matters:
            lines.append(
                "another seed or order of rows could have given as much: no evidence that the parameters are better"
            )
    lines.append(f"{output}: boostrank train TRAIN{'' if found.folds else ' --valid VALID'} --config {output} -m MODEL")
    return lines


def _as_json(found: TuningResult) -> dict[str, Any]:
    gain = found.gain
    return {
        "metric": found.metric, "queries": found.queries, "folds": found.folds, "start": found.start,
        "luck": found.luck, "matters": found.matters,
        "params": {name: _plain(value) for name, value in found.params.items()}, "rounds": found.best_rounds,
        "value": found.best.value if found.best else found.start,
        "gain": None if gain is None else {"mean": gain.mean, "low": gain.low, "high": gain.high, "p": gain.p},
        "trials": [
            {"params": t.params, "value": None if math.isnan(t.value) else t.value, "rounds": t.rounds,
             "state": t.state} for t in found.trials
        ],
    }  # fmt: skip


def _as_toml(found: TuningResult, given: dict[str, Any], within: WithinQuery | None) -> str:
    """A file for `--config`: options, then what the objective takes, then what is the engine's."""
    from boostrank.core.params import find_param
    from boostrank.objective.mixture import accepted_params
    from boostrank.tuning.space import TREES as TREE_PARAMS

    params = dict(found.params)
    chosen = params.pop("objective")
    objective = given["objective"] if given["objective"] and not isinstance(chosen, str) else chosen
    known = () if not isinstance(chosen, str) or ":" in chosen else accepted_params(chosen)
    options: dict[str, Any] = {"objective": objective}
    if given["backend"] != DEFAULT_BACKEND:
        options["backend"] = given["backend"]
    tables: dict[str, dict[str, Any]] = {"set": {}, "param": {}}
    for name, value in params.items():
        if name in ("learning_rate", "num_leaves", "gain", "metric", "eval_at"):
            options[name.replace("_", "-")] = value
        elif name in ("num_threads", "verbosity"):
            continue
        elif not isinstance(chosen, str) and name not in TREE_PARAMS:
            tables["set"][name] = value
        else:
            tables["set" if find_param(name, known) else "param"][name] = value
    options["quality"] = "plain"  # as it was tried
    options["rounds"] = found.best_rounds if found.folds else found.rounds
    if not found.folds:
        options["early-stopping"] = found.patience
    if within is not None and within.kinds:
        options |= {"within-query": list(within.kinds)} | ({} if within.of is None else {"of": list(within.of)})
    if given["seed"] is not None:
        options["seed"] = given["seed"]
    head = [f"# boostrank tune: {found.metric} {found.best.value if found.best else found.start:.6f} on "
            f"{found.queries:,} queries, {found.start:.6f} with the parameters as given"]  # fmt: skip
    lines = head + [f"{name} = {_toml(value)}" for name, value in options.items()]
    for table, content in tables.items():
        if content:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in content.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(_plain(value), ensure_ascii=False)  # strings, numbers and switches are written alike


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | str | list | tuple) else str(getattr(value, "name", value))
