"""The command `boostrank tune`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, INTERRUPTED, say
from boostrank.cli.reading import Reader
from boostrank.cli.show import print_json, time_left
from boostrank.cli.train import prepared
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

if TYPE_CHECKING:
    from boostrank.tuning.search import Trial, TuningResult


class Tune(WithinQueryOptions, TrainingsOptions, group="Search"):
    """Options of `boostrank tune`."""

    valid: str | None = option("Validation file.", file="data", shown="folds of TRAIN", common=True)
    output: str = option(
        "Configuration file to write, for `boostrank train --config`.",
        "tuned.toml",
        short="-o",
        file="write",
        common=True,
    )
    resume: bool = option("Continue the search in OUTPUT.study, if it exists.")
    trials: int = option("Number of trials, including those of a continued search.", 50, ge=1, common=True)
    folds: int = option("Number of folds of whole queries without --valid.", 5, metavar="K", ge=2, common=True)
    space: tuple[tuple[str, Any], ...] = option(
        "Dimension to add or replace: sigma=0.1:10:log, num_leaves=7:63, objective=shf-sdcg,xe-ndcg.",
        parse=("NAME=VALUE", parse_assignment),
        common=True,
    )


@command("tune")
def tune(own: Tune, options: FitOptions, reading: FileOptions) -> int:
    """Search for the best parameters, and write them to a configuration file for `boostrank train --config`.

    The search covers the learning rate, the number of leaves, regularisation and the objective's parameters. Options
    that are given stay fixed. Trials are measured on --valid or on folds of whole queries, and compared query by query.
    The variation due to chance is measured first.
    """
    from boostrank.core.files import check_not_read, check_writable, write_atomically

    study = f"{own.output}.study"
    check_not_read(study, [*own.train, *([own.valid] if own.valid else [])])
    check_writable(study)
    if os.path.exists(study) and not own.resume:
        raise InputError(f"{study}: the file contains a search; continue it with --resume, or remove it")
    from boostrank.tuning.search import tune
    from boostrank.tuning.space import parse_dimension

    space = {name: parse_dimension(str(text)) for name, text in own.space}
    within = {name: own.changed[name] for name in declared(WithinQueryOptions) if name in own.changed}
    typed, options = options, prepared(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    train_set, valid_set = Reader(reading, options.threads, gain=typed.gain).read_both(own.train, own.valid)

    def search(trials: int, progress: _Progress | None) -> TuningResult:
        with contextlib.redirect_stdout(sys.stderr):  # the engines print
            return tune(
                params,
                train_set,
                valid_set,
                rounds,
                trials=trials,
                folds=own.folds,
                space=space,
                study=study,
                progress=progress,
                **{name: value for name, value in options.changed.items() if name in KEYWORDS},
                **within,
            )

    progress = _Progress()
    stopped = False
    try:
        found = search(own.trials, progress)
    except KeyboardInterrupt:
        say(f"stopped: to continue from {study}, repeat the command with --resume")
        if not progress.trials:
            return INTERRUPTED
        found, stopped = search(0, None), True
    write_atomically(own.output, _as_toml(found, typed, within).encode(), streams=True)
    if own.as_json:
        print_json(_as_json(found))
    else:
        click.echo("\n".join(_summary(found, own.output)))
    return INTERRUPTED if stopped else DONE


class _Progress:
    def __init__(self) -> None:
        self._left, self.trials = time_left(), 0

    def __call__(self, trial: Trial, total: int, best: Trial | None) -> None:
        self.trials += 1
        value = f"{trial.value:.4f}" if math.isfinite(trial.value) else trial.state
        top = f"  best {best.value:.4f}" if best else ""
        left = self._left(self.trials, self.trials + total - trial.number - 1)
        say(f"{trial.number + 1}/{total}  {value}{top}{left}")


def _summary(found: TuningResult, output: str) -> list[str]:
    where = f"{found.folds} folds" if found.folds else "the validation set"
    lines = [
        f"{found.metric} with the given parameters: {found.start:.4f} on {found.queries:,} queries of {where}; another "
        f"seed and row order change it by {found.luck:.4f} (standard deviation), and a difference of two trainings "
        f"exceeds {found.matters:.4f} once in twenty times"
    ]
    if found.best is None or found.gain is None:
        lines.append(f"none of {len(found.trials)} trials is better")
    else:
        gain = found.gain
        lines.append(
            f"best of {len(found.trials)} trials: {found.best.value:.4f}, {gain.mean:+.4f} "
            f"[{gain.low:+.4f}, {gain.high:+.4f}] query by query. The best of many trials is optimistic, so measure "
            "it on queries that the search did not use"
        )
        if gain.mean < found.matters:
            lines.append("another seed or row order could gain as much, so the parameters are not proved to be better")
    lines.append(f"{output}: boostrank train TRAIN{'' if found.folds else ' --valid VALID'} --config {output} -m MODEL")
    return lines


def _as_json(found: TuningResult) -> dict[str, Any]:
    gain = found.gain
    return {
        "metric": found.metric,
        "queries": found.queries,
        "folds": found.folds,
        "start": found.start,
        "luck": found.luck,
        "matters": found.matters,
        "params": {name: _plain(value) for name, value in found.params.items()},
        "rounds": found.best_rounds,
        "value": found.best.value if found.best else found.start,
        "gain": None if gain is None else {name: getattr(gain, name) for name in ("mean", "low", "high", "p")},
        "trials": [{name: getattr(t, name) for name in ("params", "value", "rounds", "state")} for t in found.trials],
    }


def _as_toml(found: TuningResult, given: FitOptions, others: Mapping[str, Any]) -> str:
    """Return the text of a file for `--config`, with the given options and `others`."""
    from boostrank.core.params import find_param
    from boostrank.objective.mixture import accepted_params
    from boostrank.tuning.space import TREES

    known, best = declared(FitOptions), dict(found.best.params) if found.best else {}
    chosen = found.params["objective"]
    own = accepted_params(chosen) if isinstance(chosen, str) and not of_engine(chosen) else ()
    values = {"objective": best.pop("objective", given.objective or chosen)}
    values |= {name: value for name, value in given.changed.items() if name not in (*values, *_NOT_WRITTEN)}
    tables = {"set": dict(given.settings), "param": dict(given.params)}
    for name, value in best.items():
        of_file = not isinstance(chosen, str) and name not in TREES
        if name in known:
            values[name] = value
        else:
            tables["set" if of_file or find_param(name, own) else "param"][name] = value
    options = {known[name].spelled[2:]: value for name, value in values.items()}
    options |= {name.replace("_", "-"): value for name, value in others.items()}
    options["quality"] = PLAIN  # as in the trials
    options["rounds"] = found.best_rounds if found.folds else found.rounds
    if not found.folds:
        options["early-stopping"] = found.patience
    lines = [
        f"# boostrank tune: {found.metric} {found.best.value if found.best else found.start:.6f} on "
        f"{found.queries:,} queries, {found.start:.6f} with the parameters as given"
    ]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    for table, content in tables.items():
        if content:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in content.items())]
    return "\n".join(lines) + "\n"


_NOT_WRITTEN = ("settings", "params", "threads", "rounds", "early_stopping")


def _plain(value: Any) -> Any:
    """Return numbers, text and lists unchanged, and the name of any other object."""
    return value if isinstance(value, int | float | bool | str | list | tuple) else str(getattr(value, "name", value))


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(_plain(value), ensure_ascii=False)  # TOML writes strings, numbers and booleans like JSON
