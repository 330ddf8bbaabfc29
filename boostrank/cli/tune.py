"""`boostrank tune`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, INTERRUPTED, say
from boostrank.cli.progress import duration
from boostrank.cli.reading import Reader
from boostrank.cli.train import prepared
from boostrank.core.errors import InputError
from boostrank.options import (
    DEFAULT_ROUNDS,
    KEYWORDS,
    ConfigOptions,
    FileOptions,
    FitOptions,
    JsonOptions,
    WithinQueryOptions,
    argument,
    declared,
    option,
    parse_assignment,
)

if TYPE_CHECKING:
    from boostrank.tuning.result import Trial, TuningResult


@dataclass(frozen=True, kw_only=True)
class Tune(WithinQueryOptions, ConfigOptions, JsonOptions, group="Search"):
    """Options of `tune` only."""

    train: tuple[str, ...] = argument("TRAIN...", default=(), file="data")
    valid: str | None = option(None, "Measure trials on this file.", file="data", shown="folds of TRAIN", common=True)
    output: str = option(
        "tuned.toml", "Configuration to write, for `boostrank train --config`.", short="-o", file="write", common=True
    )
    resume: bool = option(False, "Continue the search in OUTPUT.study, if it exists.")
    trials: int = option(50, "Number of trials, including those of a continued study.", ge=1, common=True)
    folds: int = option(
        5, "Without --valid: hold out each of K folds of whole queries once.", metavar="K", ge=2, common=True
    )
    space: tuple[tuple[str, Any], ...] = option(
        (),
        "Add or replace a dimension of the search: sigma=0.1:10:log, num_leaves=7:63, objective=shf-sdcg,xe-ndcg.",
        metavar="NAME=VALUE",
        parse=parse_assignment,
        common=True,
    )


@command("tune", Tune, FitOptions, FileOptions)
def tune(own: Tune, options: FitOptions, reading: FileOptions) -> int:
    """Search for the best parameters and write them for `boostrank train --config`.

    The search covers learning rate, leaves, regularisation and the parameters of the objective; options that you give
    are fixed. Trials are measured on --valid, or on folds of whole queries, and compared query by query. The effect of
    luck is measured first.
    """
    from boostrank.core.files import check_not_read, check_writable, write_output

    inputs = [*own.train, *([own.valid] if own.valid else [])]
    study = f"{own.output}.study"
    for path in (own.output, study):
        check_not_read(path, inputs)
        check_writable(path)
    if os.path.exists(study) and not own.resume:
        raise InputError(f"{study}: a search lies there: --resume goes on with it; or remove the file")
    from boostrank.tuning.result import as_toml
    from boostrank.tuning.search import tune
    from boostrank.tuning.space import parse_dimension

    space = {name: parse_dimension(str(text)) for name, text in own.space}
    within = {name: own.changed[name] for name in declared(WithinQueryOptions) if name in own.changed}
    typed, options = options, prepared(options)
    params = options.flat()
    rounds = options.rounds or DEFAULT_ROUNDS
    reader = Reader(reading, options.threads, gain=typed.gain)
    train_set = reader.read(own.train)
    valid_set = reader.read(own.valid, like=train_set) if own.valid else None

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
        say(f"stopped: the same command with --resume goes on from {study}")
        if not progress.trials:
            return INTERRUPTED
        found, stopped = search(0, None), True
    write_output(own.output, as_toml(found, typed, within).encode())
    click.echo(json.dumps(_as_json(found)) if own.as_json else "\n".join(_summary(found, own.output)))
    return INTERRUPTED if stopped else DONE


class _Progress:
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
    from boostrank.tuning.result import plain

    gain = found.gain
    return {
        "metric": found.metric,
        "queries": found.queries,
        "folds": found.folds,
        "start": found.start,
        "luck": found.luck,
        "matters": found.matters,
        "params": {name: plain(value) for name, value in found.params.items()},
        "rounds": found.best_rounds,
        "value": found.best.value if found.best else found.start,
        "gain": None if gain is None else {"mean": gain.mean, "low": gain.low, "high": gain.high, "p": gain.p},
        "trials": [
            {
                "params": t.params,
                "value": None if math.isnan(t.value) else t.value,
                "rounds": t.rounds,
                "state": t.state,
            }
            for t in found.trials
        ],
    }
