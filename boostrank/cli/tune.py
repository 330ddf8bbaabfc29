"""The command `boostrank tune`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import Command
from boostrank.cli.errors import INTERRUPTED, Running, say
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, time_left
from boostrank.core.errors import InputError
from boostrank.engines import of_engine
from boostrank.options import (
    DEFAULT_ROUNDS,
    KEYWORDS,
    PLAIN,
    FileOptions,
    FitOptions,
    TrainingsOptions,
    WithinQueryOptions,
    declared,
    option,
    parse_assignment,
)
from boostrank.records import jsonable
from boostrank.reporting.table import interval

if TYPE_CHECKING:
    from boostrank.tuning.search import Trial, TuningResult


class Tune(WithinQueryOptions, TrainingsOptions, group="Search"):
    """Options of `boostrank tune`."""

    valid: str | None = option("Validation file.", file="data", shown="folds of TRAIN", common=True)
    output: str = option(
        "Configuration file to write, for `boostrank train --config`.",
        "tuned.toml",
        file="write",
        common=True,
    )
    resume: bool = option("Continue the search in OUTPUT.study, if it exists.")
    trials: int = option(
        "Number of trials, including those of a continued search.", 50, ge=1, common=True
    )
    folds: int = option(
        "Number of folds of whole queries without --valid.", 5, metavar="K", ge=2, common=True
    )
    space: tuple[tuple[str, Any], ...] = option(
        "Parameter to search, with its range or values: sigma=0.1:10:log, num_leaves=7:63,"
        " objective=shf-sdcg,xe-ndcg.",
        parse=("NAME=VALUE", parse_assignment),
        common=True,
    )


@Command
def tune(command: Tune, options: FitOptions, reading: FileOptions) -> None:
    """Search for the best parameters, and write them to a configuration file for `boostrank train
    --config`.

    Search the learning rate, the number of leaves, regularisation and the objective's parameters.
    Options that you give stay fixed. Measure first how much trainings vary by chance, then each
    trial on --valid or on folds of whole queries, query by query.
    """
    from boostrank.core.files import check_not_read, check_writable, write_atomically

    study = f"{command.output}.study"
    check_not_read(study, [path for path in (*command.train, command.valid) if path])
    check_writable(study)
    if os.path.exists(study) and not command.resume:
        raise InputError(
            f"{study}: the file contains a search; continue it with --resume, or remove it"
        )
    from boostrank.from_files import load_options
    from boostrank.tuning.search import tune
    from boostrank.tuning.space import parse_dimension

    space = {name: parse_dimension(str(text)) for name, text in command.space}
    within = {
        name: value
        for name, value in command.changed.items()
        if name in declared(WithinQueryOptions)
    }
    typed, options = options, load_options(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    reader = Reader(reading, typed)
    train_set, valid_set = reader.read(command.train), None
    if command.valid:
        valid_set = reader.read([command.valid], like=train_set)

    def search(trials: int, progress: _Progress | None) -> TuningResult:
        with contextlib.redirect_stdout(sys.stderr):  # the engines print
            return tune(
                params,
                train_set,
                valid_set,
                rounds,
                trials=trials,
                folds=command.folds,
                space=space,
                study=study,
                progress=progress,
                **{name: value for name, value in options.changed.items() if name in KEYWORDS},
                **within,
            )

    progress = _Progress()
    try:
        result = search(command.trials, progress)
    except KeyboardInterrupt:
        say(f"stopped: to continue from {study}, repeat the command with --resume")
        Running.status = INTERRUPTED
        if not progress.trials:
            return
        result = search(0, None)
    write_atomically(command.output, _as_toml(result, typed, within).encode())
    if command.as_json:
        value = result.best.value if result.best else result.start
        suggestion = {"params": result.params, "rounds": result.best_rounds, "value": value}
        print_json(jsonable(asdict(result) | suggestion, other=_name_of))
    else:
        click.echo("\n".join(_summary(result, command.output)))


class _Progress:
    def __init__(self) -> None:
        self._left, self.trials = time_left(), 0

    def __call__(self, trial: Trial, total: int, best: Trial | None) -> None:
        self.trials += 1
        value = f"{trial.value:.4f}" if math.isfinite(trial.value) else trial.state
        top = f"  best {best.value:.4f}" if best else ""
        left = self._left(self.trials, self.trials + total - trial.number - 1)
        say(f"{trial.number + 1}/{total}  {value}{top}{left}")


def _summary(result: TuningResult, config_path: str) -> list[str]:
    validation = f"{result.folds} folds" if result.folds else "the validation set"
    lines = [
        f"{result.metric} with the given parameters: {result.start:.4f} on {result.queries:,}"
        f" queries of {validation}; another seed and row order change it by {result.luck:.4f}"
        " (standard deviation), and a difference of two trainings exceeds"
        f" {result.matters:.4f} once in twenty times"
    ]
    gain = result.gain
    if result.best is None or gain is None:
        lines.append(f"none of {len(result.trials)} trials is better")
    else:
        ends = interval(gain.low, gain.high, "+.4f", "[{}, {}]")
        lines.append(
            f"best of {len(result.trials)} trials: {result.best.value:.4f}, {gain.mean:+.4f} {ends}"
            " query by query. The best of many trials is optimistic, so measure it on queries that"
            " the search did not use"
        )
        if gain.mean < result.matters:
            lines.append(
                "another seed or row order could gain as much, so the parameters are not proved to"
                " be better"
            )
    # Repeat the training by the file.
    valid = "" if result.folds else " --valid VALID"
    command = f"boostrank train TRAIN{valid} --config {shlex.quote(config_path)} -m MODEL"
    lines.append(f"{config_path}: {command}")
    return lines


def _as_toml(result: TuningResult, options: FitOptions, others: Mapping[str, Any]) -> str:
    """Return the text of a file for `--config`, with the given options and `others`."""
    from boostrank.core.params import find_param
    from boostrank.objective.mixture import accepted_params
    from boostrank.tuning.space import TREES

    fit_options = declared(FitOptions)
    best = dict(result.best.params) if result.best else {}
    objective = result.params["objective"]
    built_in = isinstance(objective, str)
    of_objective = accepted_params(objective) if built_in and not of_engine(objective) else ()
    values = {"objective": best.pop("objective", options.objective or objective)}
    values |= {
        name: value
        for name, value in options.changed.items()
        if name not in (*values, *_NOT_WRITTEN)
    }
    tables = {"set": dict(options.settings), "param": dict(options.params)}
    for name, value in best.items():
        if name in fit_options:
            values[name] = value
        else:
            # The parameters of an objective are settings; all others belong to the engine.
            is_setting = find_param(name, of_objective) or (not built_in and name not in TREES)
            tables["set" if is_setting else "param"][name] = value
    keys = {fit_options[name].spelled[2:]: value for name, value in values.items()}
    keys |= {name.replace("_", "-"): value for name, value in others.items()}
    keys["quality"] = PLAIN  # as in the trials
    keys["rounds"] = result.best_rounds if result.folds else result.rounds
    if not result.folds:
        keys["early-stopping"] = result.patience
    value = result.best.value if result.best else result.start
    lines = [
        f"# boostrank tune: {result.metric} {value:.6f} on {result.queries:,} queries,"
        f" {result.start:.6f} with the parameters as given"
    ]
    for heading, content in {"": keys, **tables}.items():
        if heading and content:
            lines += ["", f"[{heading}]"]
        # TOML writes strings, numbers, booleans and lists like JSON.
        for name, value in content.items():
            text = json.dumps(value, ensure_ascii=False, default=_name_of)
            lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"


_NOT_WRITTEN = ("settings", "params", "threads", "rounds", "early_stopping")


def _name_of(value: Any) -> str:
    """Return the name of an object, such as a metric, that JSON does not have."""
    return str(getattr(value, "name", value))
