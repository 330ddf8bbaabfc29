"""`boostrank train --quality`: which preset, and the log and the table of `good` and `best`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from boostrank.backends import get_backend
from boostrank.cli.errors import DONE, say
from boostrank.cli.interrupt import StopRequest, graceful_stop
from boostrank.cli.price import price_of, say_price
from boostrank.cli.progress import RoundProgress, duration
from boostrank.cli.saving import save_or_rescue
from boostrank.cli.tables import aligned
from boostrank.training.callbacks import EarlyStopping, StopWhenAsked

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.training.model import RankingModel
    from boostrank.training.params import TrainingParameters
    from boostrank.training.quality.candidates import Candidate
    from boostrank.training.quality.plan import Plan
    from boostrank.training.within_query import WithinQuery

PLAIN, QUICK, GOOD, BEST = "plain", "quick", "good", "best"
# Options that ask for one training, and what they name.
_ONE_TRAINING = ("init_model", "checkpoint_every", "checkpoint", "resume", "cache", "log")
_LIMITS = ("seconds", "max_candidates")
_SHOWN_FROM = 10.0  # seconds of a training, where there is no terminal


@dataclass
class Preset:
    """What `--quality` comes to.

    Args:
        name: the preset.
        asked: whether an option says so.
        rounds_given: whether an option says how many rounds.
    """

    name: str
    asked: bool
    rounds_given: bool

    def instead(self, name: str, reason: str) -> None:
        """Another preset, for a reason that a line tells.

        Raises:
            UsageError: an option asked for this one.
        """
        if self.asked and self.name in (GOOD, BEST):
            raise click.UsageError(f"--quality {self.name} cannot be had: {reason}")
        self.name = name
        say(f"quality {name}: {reason}")


def preset_of(context: click.Context, given: dict[str, Any]) -> Preset:
    """The preset before the data are read.

    Raises:
        UsageError: options that contradict each other.
    """
    source = click.core.ParameterSource.DEFAULT
    rounds_given = context.get_parameter_source("rounds") is not source
    preset = Preset(given["quality"] or GOOD, given["quality"] is not None, rounds_given)
    one_training = next((name for name in _ONE_TRAINING if given[name]), None)
    if given["dask"]:
        if preset.name != PLAIN:
            preset.instead(PLAIN, "workers of a cluster train one model, with the engine's defaults")
    elif not get_backend(given["backend"]).grows_trees:
        if preset.name != PLAIN:
            preset.instead(PLAIN, f"{given['backend']} grows no trees")
    elif given["folds"]:
        if preset.asked and preset.name in (GOOD, BEST):
            raise click.UsageError(f"--quality {preset.name} deals folds of its own: leave out --folds", context)
        preset.name = given["quality"] or QUICK
    elif preset.name in (GOOD, BEST):
        if one_training is not None:
            preset.instead(QUICK, f"--{one_training.replace('_', '-')} is of one training")
        elif given["route"] not in ("auto", "memory"):
            preset.instead(QUICK, f"--route {given['route']} leaves the rows on disk, where folds cannot be taken")
    for name in _LIMITS:
        if given[name] and preset.name != BEST:
            option = {"seconds": "--time", "max_candidates": "--candidates"}[name]
            raise click.UsageError(f"{option} is a limit of --quality best", context)
    return preset


def time_of(preset: Preset, given: dict[str, Any], valid: Sequence[str]) -> Callable[[float], tuple[float, str]]:
    """Rows x features -> (rounds over all rows that the training's time is of, "about" or "at most")."""
    from boostrank.training.quality.plan import work_of
    from boostrank.training.quality.trees import FIXED_ROUNDS, ROUNDS

    stopped = preset.name in (GOOD, BEST) or bool(preset.name == QUICK and (valid or given["folds"]))
    rounds = given["rounds"]
    if not preset.rounds_given and preset.name != PLAIN:
        rounds = ROUNDS if stopped else FIXED_ROUNDS
    word = "at most" if stopped and not preset.rounds_given else "about"

    def found(cells: float) -> tuple[float, str]:
        if preset.name in (GOOD, BEST):
            return rounds * work_of(preset.name, cells), word
        return rounds * max(1, (given["folds"] or 1) - 1), word

    return found


def cannot_choose(backend: str, checked: TrainingParameters, data: RankingDataset) -> str | None:
    """Why `good` and `best` have nothing to choose by, or cannot average; None if they can."""
    from boostrank.training.quality.plan import unfit
    from boostrank.training.quality.trees import drops_trees

    reason = unfit(data)
    if reason is not None:
        return f"the data set {reason}"
    if drops_trees(get_backend(backend), checked.engine):
        return "dart cannot be stopped early, nor averaged on XGBoost"
    return None if checked.metrics else "there is no metric to choose by"


def suit(
    preset: Preset, params: dict[str, Any], given: dict[str, Any], checked: TrainingParameters, data: RankingDataset,
    valid: Sequence[RankingDataset],
) -> int:  # fmt: skip
    """Rounds of `quick`; trees that suit the data, and early stopping, where no option gives them.

    Args:
        preset: with another name nothing is changed.
        params, given: of the training; those that are open are set.
        checked: what `params` came to.
        data, valid: to train on, and to stop by.
    """
    if preset.name != QUICK:
        return int(given["rounds"])
    from boostrank.training.quality.trees import Sizes, quick

    held_out = len(data.queries) // given["folds"] if given["folds"] else sum(len(one.queries) for one in valid[:1])
    sizes = Sizes(data.n_documents, len(data.queries), data.n_features)
    held_out = held_out if checked.metrics else 0
    stopping = bool(given["early_stopping"] or checked.stopping_rounds)
    asked = int(given["rounds"]) if preset.rounds_given else None
    found = quick(get_backend(given["backend"]), sizes, checked.engine, asked, held_out, stopping)
    params |= found.trees
    given["early_stopping"] = given["early_stopping"] or found.patience or None
    stops = f", stops after {given['early_stopping']} without gain" if given["early_stopping"] else ""
    say(f"quality quick: {_words(found.trees)}; {found.rounds:,} rounds{' at most' if stops else ''}{stops}")
    return found.rounds


def train_presets(
    preset: Preset, params: dict[str, Any], given: dict[str, Any], data: RankingDataset,
    valid: dict[str, RankingDataset], path: str, within: WithinQuery | None,
) -> int:  # fmt: skip
    """Train by `good` or `best`, save, and print the table; the exit status."""
    from boostrank.training.quality.train import train_quality

    if given["early_stopping"]:
        params = params | {"early_stopping_round": given["early_stopping"]}
    with graceful_stop() as stop:
        watch = _Log(stop)
        with contextlib.redirect_stdout(sys.stderr):  # the engines print
            one = train_quality(
                params, data, given["rounds"] if preset.rounds_given else None, quality=preset.name,
                valid_sets=tuple(valid.values()), time_limit=given["seconds"], max_candidates=given["max_candidates"],
                backend=given["backend"], conventions=given["conventions"], start=given["start"], within_query=within,
                watch=watch, max_trees=given["max_trees"], max_microseconds=given["max_microseconds"],
            )  # fmt: skip
        stop.saving = True
        save_or_rescue(one, path, None)
    assert one.info.quality is not None
    record = dict(one.info.quality)
    if given["as_json"]:
        seconds = {name: round(taken, 3) for name, taken in watch.seconds.items()}
        more = {"model": path, "backend": one.backend, "stopped": watch.stopped, "seconds": seconds}
        click.echo(json.dumps(more | {"rounds": one.best_iteration} | record | price_of(one, data)))
        return stop.exit_status if watch.stopped else DONE
    _print_table(record, watch, one)
    say_price(one, data, record["metric"])
    for name, value in zip(valid, record["valid"], strict=True):
        say(f"{name}: {_value(record['metric'], value)}, each query by models that had not seen it")
    value = record["held_out"][record["metric"]]
    click.echo(f"{_value(record['metric'], value)} that the models had not seen")
    click.echo(f"model written to {path}")
    return stop.exit_status if watch.stopped else DONE


def _print_table(record: dict[str, Any], watch: _Log, model: RankingModel) -> None:
    """What was tried, and what it got."""
    seconds = watch.seconds
    rows = [["candidate", record["metric"], "minus the best", "rounds", "weight", "time"]]
    for one in sorted(record["candidates"], key=lambda one: -one["value"]):
        apart, low, high = (one["difference"].get(key) for key in ("mean", "low", "high"))
        difference = "" if apart is None else f"{apart:+.4f} [{low:+.4f}, {high:+.4f}]"
        rounds = f"{min(one['rounds'])}-{max(one['rounds'])}" if len(one["rounds"]) > 1 else str(one["rounds"][0])
        rows.append(
            [one["name"], f"{one['value']:.4f}", difference, rounds, f"{one['weight']:.2f}" if one["weight"] else "-",
             duration(seconds[one["name"]])]
        )  # fmt: skip
    for line in aligned(rows):
        say(line)
    for name, reason in record["failed"].items():
        say(f"{name} could not be trained: {reason}")
    if record["left"] and watch.stopped:
        say(f"not tried: {'; '.join(record['left'])}")
    elif record["left"]:
        tried = len(record["candidates"]) + len(record["failed"])
        say(f"not tried for want of time: {'; '.join(record['left'])} (--candidates {tried} repeats this model)")
    many = len(model.info.averaged or ())
    say(f"{f'the average of {many} models' if many > 1 else 'one model'}, {model.best_iteration:,} rounds in all, "
        f"{duration(time.monotonic() - watch.begun)}")  # fmt: skip
    if watch.stopped:
        say("stopped before the end: the model holds what is there")


def _value(metric: str, one: dict[str, Any]) -> str:
    if not one["queries"]:
        return f"{metric}: no query counts"
    return f"{metric} {one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}] on {one['queries']:,} queries"


def _words(trees: Mapping[str, Any]) -> str:
    """Parameters of trees as text."""
    return ", ".join(f"{name}={value:g}" for name, value in trees.items()) or "trees as given"


@dataclass
class _Log:
    """A line for each candidate; a live one for the training at work, on a terminal."""

    stop: StopRequest
    seconds: dict[str, float] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    _shown: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _plan: Any = None
    _trainings: int = 0
    _training_begun: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it before the end."""
        return self.stop.heeded or bool(self.stop.made and self._trainings < self._plan.trainings)

    def planned(self, plan: Plan) -> None:
        self._plan = plan
        many = len(plan.candidates)
        within = "" if plan.seconds is None else f" within {duration(plan.seconds)}"
        fewer = plan.trainings < many * plan.folds
        most = f", at most {plan.trainings} trainings for the size of the data" if fewer else ""
        say(
            f"quality {plan.preset}: {many} candidate{'s' * (many > 1)} on {plan.folds} folds of {plan.queries:,} "
            f"queries{most}, then the average of the good ones{within}; {_words(plan.trees)}, up to "
            f"{plan.rounds:,} rounds"
        )

    def callbacks(self, candidate: Candidate, fold: int, stopper: EarlyStopping) -> Sequence[Any]:
        self._training_begun = time.monotonic()
        self._shown.close()  # of one that could not be trained
        stopping = StopWhenAsked(self.stop, stopper)
        if not sys.stderr.isatty():
            return [stopping]
        return [self._shown.enter_context(RoundProgress(None)), stopping]

    def trained(self, candidate: Candidate, fold: int, model: RankingModel) -> bool:
        self._shown.close()
        self._trainings += 1
        spent = time.monotonic() - self._training_begun
        self.seconds[candidate.name] = self.seconds.get(candidate.name, 0.0) + spent
        total = self._plan.trainings
        if self._trainings == 2 or (self._trainings == 1 and spent > _SHOWN_FROM):  # the first one also compiles
            say(f"at most {duration(spent * (total - self._trainings))} to go, {total} trainings")
        elif spent > _SHOWN_FROM:
            say(f"{candidate.name}, fold {fold + 1}: {model.best_iteration} rounds, {duration(spent)}")
        return not self.stop.made
