"""Output of `boostrank train`: choices, a row for each fold, and the result."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.errors import StopRequest, say
from boostrank.cli.progress import RoundProgress, duration
from boostrank.cli.show import aligned
from boostrank.engines import get_backend
from boostrank.fit.observe import Observer

if TYPE_CHECKING:
    from boostrank.fit.plan import Member, Plan, Recipe
    from boostrank.model.ranking_model import RankingModel

PLAIN = "plain"  # a copy from boostrank.fit.plan, which is slow to import


class Sayer(Observer):
    """Print the choices made before the training."""

    def choosing(self, trainings: int) -> None:
        say(f"--of auto: {trainings} trainings on folds of the queries, with and without the columns of --within-query")

    def chosen(self, choice: Mapping[str, Any]) -> None:
        from boostrank.fit.folds import choice_words

        say(choice_words(choice))

    def planned(self, plan: Plan) -> None:
        if plan.recipe.preset != PLAIN:
            say(plan.recipe.words)


class FoldTable(Observer):
    """Print a row for each trained fold."""

    def __init__(self, recipe: Recipe, metric: str | None, stop: StopRequest, progress: RoundProgress) -> None:
        self._metric, self._stop, self._progress, self._first = metric, stop, progress, True
        self._width = max((len(member.name) for member in recipe.members), default=0)

    def fold_ended(self, fold: int, member: Member, model: RankingModel) -> bool:
        assert model.summary is not None  # it was just trained
        held_out = next(iter(model.best_score.values()), {}).get(self._metric or "")
        value = "" if held_out is None else f"{held_out:.4f}"
        width = max(8, len(self._metric or ""))
        if self._first:
            self._progress.say(f"fold  {'trained':{self._width}}  rounds  {self._metric or '':>{width}}  time")
        self._first = False
        taken = duration(model.summary.seconds)
        self._progress.say(
            f"{fold + 1:<4}  {member.name:{self._width}}  {model.best_iteration:>6}  {value:>{width}}  {taken}"
        )
        self._progress.next_fold()
        return not self._stop.made


def print_outcome(
    model: RankingModel,
    path: str,
    progress: RoundProgress,
    quality: str | None,
    *,
    as_json: bool,
    stopped: bool,
    valid: Sequence[str] = (),
) -> None:
    """Print the trained model: its parts, metric and size."""
    from boostrank.model.averaging import count_trees

    record, summary = model.info.folds, model.summary
    fields: dict[str, Any] = {"model": path, "backend": model.backend, "quality": quality, "stopped": stopped}
    if record is not None:
        fields |= dict(record)
        if stopped:
            say(f"stopped in fold {len(record['rounds'])}; the model holds the folds so far")
        for name, value in zip(valid, record["valid"], strict=False):  # without a metric there are no values
            say(f"{name}: {_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    elif summary is not None:
        fields |= dataclasses.asdict(summary) | {"tree_seconds": summary.tree_seconds}
        fields |= {"objective": model.info["objective"]["name"], "metrics": model.best_score, "rounds": progress.rounds}
        _report_one(model, progress, stopped)
    if as_json:
        counted = {"trees": count_trees(model)} if get_backend(model.backend).grows_trees else {}
        price = {} if model.info.price is None else {"price": model.info.price}
        click.echo(json.dumps(fields | counted | price))
        return
    _say_cost(model, progress.seconds)
    if record is not None and record["metric"] is not None:
        value = record["held_out"][record["metric"]]
        click.echo(f"{_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    click.echo(f"model written to {path}")


def _report_one(model: RankingModel, progress: RoundProgress, stopped: bool) -> None:
    """Print data, time and metrics of one training."""
    summary = model.summary
    assert summary is not None  # it was just trained
    if stopped:
        say(f"stopped after round {progress.rounds} of {progress.total}")
    dead = "" if summary.dead_queries is None else f", {summary.dead_queries:,} of them dead (no gradient)"
    floored = f"; {summary.floored:,} hessians lifted to the floor in the last round" if summary.floored else ""
    say(f"{summary.rows:,} rows, {summary.queries:,} queries{dead}{floored}")
    say(
        f"{duration(summary.seconds)}: kernels {duration(summary.kernel_seconds)}, "
        f"{'trees' if get_backend(model.backend).grows_trees else 'steps'} {duration(summary.tree_seconds)}, "
        f"metrics {duration(summary.metric_seconds)}"
    )
    best = "best round" if summary.best_round < progress.rounds else "last round"
    sets = model.best_score
    names = list(next(iter(sets.values()), {}))
    rows = [[name, *(f"{metrics[metric]:.4f}" for metric in names)] for name, metrics in sets.items()]
    for line in aligned([[f"{best} {summary.best_round}", *names], *rows]) if rows else []:
        say(line)


def _say_cost(model: RankingModel, seconds: float) -> None:
    """Print trees and training time."""
    from boostrank.model.averaging import count_trees
    from boostrank.model.ranking_model import tree_counts

    if get_backend(model.backend).grows_trees:
        start = tree_counts(model)[0]
        of_start = f", {start:,} of them the linear start's" if start else ""
        say(f"{count_trees(model):,} trees{of_start}; trained in {duration(seconds)}")


def _value(metric: str, one: dict[str, Any]) -> str:
    if not one["queries"]:
        return f"{metric}: no query counts"
    return f"{metric} {one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}] on {one['queries']:,} queries"
