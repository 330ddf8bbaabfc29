"""`boostrank train`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, say
from boostrank.cli.interrupt import StopRequest, graceful_stop
from boostrank.cli.progress import RoundProgress, duration
from boostrank.cli.reading import Reader
from boostrank.cli.show import aligned
from boostrank.engines import get_backend
from boostrank.fit.observe import Observer
from boostrank.options import (
    DEFAULT_ROUNDS,
    STARTS,
    ConfigOptions,
    FileOptions,
    FitOptions,
    JsonOptions,
    MemoryOptions,
    PropensityOptions,
    TrainOptions,
    argument,
    option,
    parse_scheduler,
    parse_seconds,
)

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.fit.plan import Member, Plan, Recipe
    from boostrank.model.ranking_model import RankingModel

Fit = TypeVar("Fit", bound=FitOptions)
PLAIN, GOOD, CHECKPOINTS, NO_CACHE = "plain", "good", "Checkpoints", "none"


@dataclass(frozen=True, kw_only=True)
class Train(PropensityOptions, MemoryOptions, ConfigOptions, JsonOptions, group="Data and output"):
    """Options of the command beside those of the training."""

    train: tuple[str, ...] = argument("TRAIN...", default=(), file="data")
    model: str = option(None, "Model file to write.", short="-m", file="write", required=True)
    valid: tuple[str, ...] = option(
        (),
        "Validation file, or files ('valid/*.gz') as one set. Folds deal its queries too: one model is measured on a "
        "query, the others learn from it.",
        file="data",
        common=True,
    )
    log: str | None = option(
        None, "Append the metrics of each round to this file, one line of JSON each.", file="write"
    )
    click_prior: float | None = option(
        None, "Smoothing: click-free exposure added to every document.", ge=0, shown="1", group="Clicks", needs="clicks"
    )
    checkpoint_every: int | None = option(
        None,
        "Write a checkpoint every N rounds, and when Ctrl-C or SIGTERM stops the training.",
        ge=1,
        group=CHECKPOINTS,
    )
    resume: bool = option(
        False,
        "Resume from the checkpoint if it exists. The result is byte-identical to an uninterrupted run.",
        group=CHECKPOINTS,
    )
    route: str = option(
        "auto",
        "How features are held: as floats in memory, streamed into bins, or with bins on disk (external, XGBoost). "
        "auto: the first that fits; floats may take half of the free memory.",
        choices="auto memory bins external",
        group=MemoryOptions.GROUP,
    )
    cache: str | None = option(
        None,
        "Where streamed data are kept, so that the next run does not read them again; none: nowhere. A "
        "directory implies streaming.",
        metavar="DIR|none",
        file="folder",
        shown=".boostrank-cache beside the data",
        group=MemoryOptions.GROUP,
    )
    dask: str | None = option(
        None,
        "Train on the workers of a Dask cluster: tcp://HOST:PORT, a scheduler's file, or local:2 for two workers here. "
        "Each worker reads some of the files; the engine is XGBoost.",
        metavar="SCHEDULER",
        parse=parse_scheduler,
        group=MemoryOptions.GROUP,
        conflicts="route cache memory_limit log folds checkpoint resume within_query clicks feature_names max_trees "
        "max_microseconds",
    )
    worker_timeout: float = option(
        60.0,
        "A worker that has not answered for this long ends the training with status 4.",
        metavar="DURATION",
        parse=parse_seconds,
        shown="60s",
        group=MemoryOptions.GROUP,
        needs="dask",
    )

    @property
    def inputs(self) -> list[str]:
        """Files that are read."""
        return [*self.train, *self.valid, *filter(None, [self.config])]


@command("train", Train, TrainOptions, FileOptions, replaceable=("init_model",))
def train(own: Train, options: TrainOptions, reading: FileOptions) -> int:
    """Train a ranker from TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one file or several, plain or compressed (.gz, .bz2, .xz, .zst), a quoted pattern, 'shards/*.gz', or `-`
    for standard input. Several files are one data set; a query must lie in one of them.

    Prints where the model lies. Ctrl-C and SIGTERM finish the round and write the model, and the checkpoint if there
    is to be one; Ctrl-C twice stops at once.
    """
    from boostrank.clicks.beside import prepare
    from boostrank.core.errors import InputError, ParameterError
    from boostrank.core.files import check_appendable, check_writable, reserved
    from boostrank.fit.checks import settled_quality
    from boostrank.model.files import check_ending
    from boostrank.model.within_query import WithinQuery

    columns = None
    if own.clicks:
        objective = str(options.objective or "")
        if options.gain is not None:
            raise ParameterError("--clicks and --gain do not go together")
        if ":" in objective and ".py" not in objective:
            raise ParameterError(f"--clicks learns real gains, and {objective} takes grades: one of ours")
        if len(own.train) > 1:
            raise InputError("--clicks counts the rows of one file: give one TRAIN")
        columns, reading = prepare(own.click_columns, (*own.train, *own.valid), reading)
        options = replace(options, gain="linear", metrics=options.metrics or ("dcg",))
    if own.dask and options.backend == "lightgbm":
        given = click.get_current_context().get_parameter_source("backend") is not click.core.ParameterSource.DEFAULT
        if given:
            raise InputError(
                "--dask trains with XGBoost: LightGBM gives nobody a sum over its workers, so neither the metric nor "
                "the moment to stop would be the same on all of them. Leave --backend out"
            )
        options = replace(options, backend="xgboost")
    options = settled_quality(options, own.dask is not None, say)
    if options.folds and (own.cache not in (None, NO_CACHE) or own.route not in ("auto", "memory")):
        raise ParameterError("--folds takes rows from memory: leave out --route and --cache")
    if options.within_query:
        options = replace(options, within_query=WithinQuery(options.within_query, options.of), of=None)
    check_ending(own.model)
    check_writable(own.model)
    checkpoint = _checkpoint(own, options)
    if own.log:
        start = [] if options.start in STARTS else [options.start]
        check_appendable(own.log, [own.model, *own.inputs, *start, *([checkpoint.path] if checkpoint else [])])
    with reserved(own.model), checkpoint.reserved() if checkpoint else contextlib.nullcontext():
        if checkpoint and checkpoint.exists and not checkpoint.resume:
            raise InputError(
                f"{checkpoint.path}: an unfinished training lies there: --resume goes on with it; or remove the file"
            )
        return _run(own, replace(options, checkpoint=checkpoint), reading, columns)


def _run(own: Train, options: TrainOptions, reading: FileOptions, columns: Any) -> int:
    """The exit status of the training, once its outputs can be written and nobody else writes them."""
    from boostrank.clicks.beside import ClickTraining
    from boostrank.core.errors import InputError
    from boostrank.core.files import remove_leftovers
    from boostrank.core.gains import expression_of
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.click_gate import copied_rows, tell_gate
    from boostrank.fit.params import headline
    from boostrank.fit.saving import keeping_rounds, resume_words, save_or_rescue
    from boostrank.fit.train import draft, fit, resolve
    from boostrank.metric import Metric
    from boostrank.model.files import sidecar_path
    from boostrank.planning.route import choose_route, wanted_route

    remove_leftovers(sidecar_path(own.model))  # those of the model went when it was checked
    gain = options.gain
    options = prepared(options)
    checked = draft(options).settings
    rounds = checked.rounds if options.rounds or checked.rounds != DEFAULT_ROUNDS else None  # an option or a parameter
    metric = headline([name for metric in checked.metrics for name in Metric.parse(metric).names])
    names = _set_names(own.valid)
    on_folds = bool(options.folds) or options.quality == GOOD
    if checked.stopping_rounds and not names and not on_folds:
        raise click.UsageError("early stopping needs --valid, or --folds")
    if own.dask:
        if expression_of(gain) is not None:
            raise InputError("--gain of columns is for one machine: write such gains as labels, and --gain linear")
        return _on_cluster(own, options, checked.rounds, reading, names, metric)
    known = reading.keywords | {"format": reading.data_format, "labelled": columns is None}
    route = "memory" if options.folds else wanted_route(options.backend, own.route, own.cache)
    copies = copied_rows(own.valid) if own.clicks else 0.0
    route, line = choose_route(
        own.train,
        own.valid,
        options,
        known,
        checked,
        route=route,
        limit=own.memory_limit,
        folds=on_folds,
        copies=copies,
    )
    if line:
        say(line)
    cache = False if own.cache == NO_CACHE else own.cache or True
    stream = None if route == "memory" else {"cache": cache, "external_memory": route == "external"}
    reader = Reader(reading, options.threads, gain=gain, labelled=columns is None, stream=stream)
    train_set = reader.read(own.train)
    clicked = None
    if own.clicks:
        clicked = ClickTraining.read(
            own.train[0], train_set, columns, propensities=own.propensities, prior=own.click_prior, tell=say
        )
        train_set = clicked.train_set
    constant = train_set.constant_features()
    if constant:
        more = f", and {len(constant) - 8} more" if len(constant) > 8 else ""
        say(f"{len(constant)} of {train_set.n_features} features never change: {', '.join(constant[:8])}{more}")
    valid_sets = [reader.read(path, like=train_set) for path in own.valid]
    if clicked is not None:
        pairs = zip(own.valid, valid_sets, strict=True)
        valid_sets = [clicked.measured(path, data, on_folds) for path, data in pairs]
        tell_gate(clicked, options, checked.rounds, estimated=own.propensities is None)
    # Without a validation set, the training set shows that something is learnt; folds watch themselves.
    watched = list(zip(names, valid_sets, strict=True)) or ([] if on_folds else [("training", train_set)])
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        plan = resolve(replace(options, rounds=rounds), train_set, watched, _Sayer())
    recipe, checkpoint = plan.recipe, plan.checkpoint
    if on_folds and not recipe.folds and not valid_sets:
        plan = replace(plan, valid=(("training", plan.train_set),))
    many = len(recipe.members) if recipe.folds else 0
    log = []
    if own.log:
        from boostrank.tracking.callbacks import JsonLines

        log = [JsonLines(own.log)]
    with graceful_stop() as stop:
        progress = RoundProgress(metric, folds=many, stops=bool(recipe.patience or checked.stopping_rounds))
        with progress, contextlib.redirect_stdout(sys.stderr), keeping_rounds(own.model):
            for data in (train_set, *valid_sets):
                if data.on_disk:
                    data.features.watch = progress.binning
            plan = replace(plan, callbacks=(progress, *log, StopWhenAsked(stop)))
            trained = fit(plan, _FoldTable(recipe, metric, stop, progress))
        stop.saving = True
        save_or_rescue(trained, own.model, checkpoint)
        stopped = stop.heeded or (trained.info.folds is not None and len(trained.info.folds["rounds"]) < many)
        if checkpoint and not stopped:
            checkpoint.remove()
    if checkpoint and checkpoint.resumed_at:
        say(f"resumed after round {checkpoint.resumed_at}")
    _report(trained, own, progress, options.quality, stopped=stopped, data=train_set, valid=names)
    if checkpoint and checkpoint.failures:
        say(f"{checkpoint.failures} checkpoints could not be written")
    if checkpoint and stopped:
        say("there is no checkpoint to go on from" if checkpoint.holds is None else resume_words(checkpoint))
    return stop.exit_status if stopped else DONE


def prepared(options: Fit) -> Fit:
    """Options with the objective of a Python file, a parsed gain, and a silent engine.

    Raises:
        ParameterError: a parameter under the wrong option.
    """
    from boostrank.checking.user_file import is_objective_file, load_objective
    from boostrank.core.gains import rule_of
    from boostrank.fit.checks import check_sides

    objective = options.objective
    if objective is not None and ".py" in objective and is_objective_file(objective):
        options = replace(options, objective=load_objective(objective))
    check_sides(options)
    params = options.params if "verbose" in options.params else {"verbosity": -1} | dict(options.params)
    return replace(options, gain=None if options.gain is None else rule_of(options.gain), params=params)


class _Sayer(Observer):
    """Prints what was chosen before the training."""

    def choosing(self, trainings: int) -> None:
        say(f"--of auto: {trainings} trainings on folds of the queries, with and without the columns of --within-query")

    def chosen(self, choice: Mapping[str, Any]) -> None:
        from boostrank.fit.folds import choice_words

        say(choice_words(choice))

    def planned(self, plan: Plan) -> None:
        if plan.recipe.preset != PLAIN:
            say(plan.recipe.words)


def _on_cluster(
    own: Train, options: TrainOptions, rounds: int, reading: FileOptions, names: list[str], metric: str | None
) -> int:
    """Train on the workers of a cluster, and save the model."""
    from boostrank.cluster import connected, train
    from boostrank.core.errors import InputError
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.saving import save_or_rescue

    if options.start not in STARTS:
        raise InputError("--start FILE is for one machine: on a cluster a start is auto, linear or none")
    if reading.data_format not in ("auto", "libsvm"):
        raise InputError(f"--format {reading.data_format} is for one machine: workers read libsvm text")
    so_far = f"{own.model}.so-far"
    with connected(own.dask or "") as client, graceful_stop() as stop:
        with RoundProgress(metric) as progress, contextlib.redirect_stdout(sys.stderr):
            trained = train(
                client,
                options.flat(),
                own.train,
                rounds,
                [[path] for path in own.valid],
                names,
                init_model=options.init_model,
                start=options.start,
                callbacks=[progress, StopWhenAsked(stop)],
                conventions=options.conventions,
                reading=reading.keywords,
                checkpoint=so_far if own.checkpoint_every else None,
                checkpoint_every=own.checkpoint_every or 0,
                tell=say,
                worker_timeout=own.worker_timeout,
            )
        stop.saving = True
        save_or_rescue(trained, own.model)
        if own.checkpoint_every:
            for written in (so_far, f"{so_far}.meta.json"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(written)
    stop.heeded = stop.heeded and progress.rounds < progress.total
    _report(trained, own, progress, options.quality, stopped=stop.heeded)
    return stop.exit_status if stop.heeded else DONE


class _FoldTable(Observer):
    """Prints a row for each fold when it is trained."""

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


def _checkpoint(own: Train, options: TrainOptions) -> Checkpoint | None:
    if own.dask or not (own.checkpoint_every or options.checkpoint or own.resume):
        return None
    from boostrank.core.errors import InputError
    from boostrank.core.files import check_not_read
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.model.files import sidecar_path

    path = options.checkpoint or f"{own.model}.checkpoint"
    check_not_read(path, filter(None, [options.init_model]))
    if os.path.realpath(path) in (os.path.realpath(own.model), os.path.realpath(sidecar_path(own.model))):
        raise InputError(f"{path}: the checkpoint needs a file of its own")
    return Checkpoint(path, every=own.checkpoint_every, resume=own.resume)


def _set_names(paths: Sequence[str]) -> list[str]:
    """Names of validation files in the log: without folder and endings, if these are distinct."""
    stems = [Path(path).name.split(".")[0].strip("*?-_") or Path(path).parent.name or path for path in paths]
    distinct = len(set(stems)) == len(stems) and "training" not in stems
    return stems if distinct else [f"valid_{i}" for i in range(len(paths))]


def _report(
    model: RankingModel, own: Train, progress: RoundProgress, quality: str | None, *, stopped: bool,
    data: RankingDataset | None = None, valid: Sequence[str] = (),
) -> None:  # fmt: skip
    """Print what was trained, what it is worth and what it costs."""
    from boostrank.model.price import price_of

    record, summary = model.info.folds, model.summary
    fields: dict[str, Any] = {"model": own.model, "backend": model.backend, "quality": quality, "stopped": stopped}
    if record is not None:
        fields |= dict(record)
        if stopped:
            say(f"stopped in fold {len(record['rounds'])}; the model holds what is there")
        for name, value in zip(valid, record["valid"], strict=False):  # without a metric there are no values
            say(f"{name}: {_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    elif summary is not None:
        fields |= dataclasses.asdict(summary) | {"tree_seconds": summary.tree_seconds}
        fields |= {"objective": model.info["objective"]["name"], "metrics": model.best_score, "rounds": progress.rounds}
        _report_one(model, progress, stopped)
    if own.as_json:
        click.echo(json.dumps(fields | price_of(model, data)))
        return
    _say_cost(model, data, progress.seconds)
    if record is not None and record["metric"] is not None:
        value = record["held_out"][record["metric"]]
        click.echo(f"{_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    click.echo(f"model written to {own.model}")


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


def _say_cost(model: RankingModel, data: RankingDataset | None, seconds: float) -> None:
    """Print trees and training time, and what a limit came to."""
    from boostrank.model.booster_methods import tree_counts
    from boostrank.model.price import count_trees, microseconds

    if not get_backend(model.backend).grows_trees:
        return
    start, price = tree_counts(model)[0], model.info.price or {}
    of_start = f", {start:,} of them the linear start's" if start else ""
    words = f"{count_trees(model):,} trees{of_start}; trained in {duration(seconds)}"
    if "max_microseconds" not in price or data is None or data.on_disk:
        say(words)
        return
    taken, limit = microseconds(model, data), price["max_microseconds"]
    say(f"{words}; {taken:.3g} microseconds a document on one thread here; --max-trees {price['max_trees']} repeats it")
    if taken > limit:
        say(
            f"that is {taken / limit - 1.0:.0%} above --max-microseconds {limit:g}: other work on the machine, or "
            "deeper trees than were timed; --max-trees depends on neither"
        )


def _value(metric: str, one: dict[str, Any]) -> str:
    if not one["queries"]:
        return f"{metric}: no query counts"
    return f"{metric} {one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}] on {one['queries']:,} queries"
