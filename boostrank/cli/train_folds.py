"""`boostrank train --folds K`: a model for each fold of whole queries, averaged into one file."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import DONE, say
from boostrank.cli.interrupt import graceful_stop
from boostrank.cli.price import price_of, say_price
from boostrank.cli.progress import RoundProgress
from boostrank.cli.saving import save_or_rescue
from boostrank.training.callbacks import EarlyStopping, StopWhenAsked

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.training.model import RankingModel
    from boostrank.training.params import TrainingParameters
    from boostrank.training.within_query import WithinQuery

# Options that ask for another kind of training.
_ALONE = ("valid", "init_model", "checkpoint_every", "checkpoint", "resume", "dask", "cache", "log")


def check_alone(context: click.Context, given: dict[str, Any], valid: Sequence[str]) -> None:
    """Refuse what does not go with `--folds`.

    Raises:
        UsageError: which option.
    """
    for name in _ALONE:
        if (given | {"valid": valid})[name]:
            raise click.UsageError(f"--folds and --{name.replace('_', '-')} do not go together", context)
    if given["route"] not in ("auto", "memory"):
        raise click.UsageError(f"--folds takes rows from memory: --route {given['route']} leaves them on disk", context)


def train_on_folds(
    params: dict[str, Any], given: dict[str, Any], checked: TrainingParameters, train_set: RankingDataset,
    metric: str | None, path: str, within: WithinQuery | None,
) -> int:  # fmt: skip
    """Train, save, and print the result; the exit status."""
    from boostrank.training.folds import train_folds

    patience = given["early_stopping"] or checked.stopping_rounds
    folds = int(given["folds"])
    with graceful_stop() as stop, contextlib.ExitStack() as shown:

        def callbacks(fold: int) -> list[Any]:
            stopper = EarlyStopping(patience, metric=metric, min_delta=checked.min_delta) if patience else None
            progress = shown.enter_context(RoundProgress(metric))
            return [progress, *([stopper] if stopper else []), StopWhenAsked(stop, stopper)]

        def after(fold: int, model: RankingModel) -> bool:
            shown.close()
            at_best = next(iter(model.best_score.values()), {})
            held_out = f", {metric} {at_best[metric]:.4f}" if metric in at_best else ""
            say(f"fold {fold + 1} of {folds}: {model.best_iteration} rounds{held_out}")
            return not stop.made

        with contextlib.redirect_stdout(sys.stderr):  # the engines print
            one = train_folds(
                params, train_set, given["rounds"], folds=folds, callbacks=callbacks, after=after,
                backend=given["backend"], conventions=given["conventions"], start=given["start"], within_query=within,
                max_trees=given["max_trees"], max_microseconds=given["max_microseconds"],
            )  # fmt: skip
        stop.saving = True
        save_or_rescue(one, path)
    record = one.info["folds"]
    stopped = len(record["rounds"]) < folds or stop.heeded
    if given["as_json"]:
        click.echo(
            json.dumps({"model": path, "backend": one.backend, "stopped": stopped} | record | price_of(one, train_set))
        )
        return stop.exit_status if stopped else DONE
    if stopped:
        say(f"stopped in fold {len(record['rounds'])} of {folds}; the model holds what is there")
    if metric in record["held_out"]:
        value = record["held_out"][metric]
        click.echo(
            f"{metric} {value['value']:.4f} [{value['low']:.4f}, {value['high']:.4f}] of single models on the "
            f"{value['queries']:,} queries that each had not seen"
        )
    say_price(one, train_set, metric)
    made = "one of" if one.info.price and one.info.price["single"] else "the average of"
    click.echo(f"{path}: {made} {len(record['rounds'])} models, {one.best_iteration} rounds in all")
    return stop.exit_status if stopped else DONE
