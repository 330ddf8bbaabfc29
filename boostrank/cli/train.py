"""The command `boostrank train`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, StopRequest, graceful_stop, say
from boostrank.cli.reading import Reader, declared_features, metrics_of
from boostrank.cli.show import RoundProgress, duration, listed
from boostrank.core.errors import InputError, ParameterError
from boostrank.core.files import check_appendable, check_not_read, check_writable, remove_leftovers, reserved
from boostrank.core.text import aligned
from boostrank.engines import get_backend, of_engine
from boostrank.options import GOOD, KEYWORDS, NO_CACHE, PLAIN, FileOptions, FitOptions, TrainCommand, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.fit.plan import Member, Recipe
    from boostrank.model.ranking_model import RankingModel

Fit = TypeVar("Fit", bound=FitOptions)


@command("train", replaceable=("init_model",))
def train(own: TrainCommand, options: TrainOptions, reading: FileOptions) -> int:
    """Train a ranker on TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one or more files, plain or compressed (.gz, .bz2, .xz, .zst), a quoted pattern ('shards/*.gz'), or `-` for
    standard input. Several files are read as one data set. All rows of a query must be in the same file.

    The path of the model is printed. Ctrl-C and SIGTERM finish the round and write the model and the checkpoint, if
    any. A second Ctrl-C exits at once.
    """
    from boostrank.clicks.sidecar import click_reading
    from boostrank.export import TARGETS
    from boostrank.model.files import check_ending

    if own.cluster == "env":
        from boostrank.cluster.env import EnvWorkers

        ranks = EnvWorkers()
        if ranks.rank:
            ranks.serve()
            return DONE  # the first worker writes the model
    columns = None
    if own.clicks:
        objective = str(options.objective or "")
        if options.gain is not None:
            raise ParameterError("--clicks and --gain cannot be used together")
        if of_engine(objective):
            raise ParameterError(f"--clicks needs real gains, but {objective} takes grades; use a boostrank objective")
        if len(own.train) > 1:
            raise InputError("--clicks needs exactly one TRAIN file, whose rows the clicks refer to")
        columns, reading = click_reading(own.click_columns, (*own.train, *own.valid), reading)
        options = replace(options, gain="linear", metrics=options.metrics or ("dcg",))
    options = _with_quality(options, own.cluster is not None)
    if options.folds and (own.cache not in (None, NO_CACHE) or own.route not in ("auto", "memory")):
        raise ParameterError("--folds needs rows in memory; leave out --route and --cache")
    if own.target:
        _check_for(own.target, engine=options.backend, within=options.within_query or "")
        most = TARGETS.get(own.target).most_trees
        if most is not None and options.max_trees is None and not own.cluster:
            say(f"--max-trees {most}: the limit of {own.target}")
            options = replace(options, max_trees=most)
    check_ending(own.model)
    check_writable(own.model)
    checkpoint = _checkpoint(own, options)
    if own.log:
        check_appendable(own.log, [own.model, *([checkpoint.path] if checkpoint else [])])
    with reserved(own.model), checkpoint.reserved() if checkpoint else contextlib.nullcontext():
        if checkpoint and checkpoint.exists and not checkpoint.resume:
            raise InputError(
                f"{checkpoint.path}: the file contains an unfinished training; continue it with --resume, or use "
                "--resume-or-restart in jobs whose data change, or remove it"
            )
        return _run(own, replace(options, checkpoint=checkpoint), reading, columns)


def _run(own: TrainCommand, options: TrainOptions, reading: FileOptions, columns: Any) -> int:
    """Train, and return the exit status."""
    from boostrank.clicks.log import PRIOR
    from boostrank.clicks.sidecar import Clicks, ClickTraining
    from boostrank.core.conventions import expression_of
    from boostrank.data.rows import missing_in
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.checkpoint import keeping_rounds, resume_words, save_or_rescue
    from boostrank.fit.click_gate import copied_rows, tell_gate
    from boostrank.fit.params import headline
    from boostrank.fit.train import draft, fit, resolve
    from boostrank.metrics import Metric
    from boostrank.model.files import sidecar_path
    from boostrank.planning import choose_route, wanted_route
    from boostrank.tracking import JsonLines

    remove_leftovers(sidecar_path(own.model))
    gain = options.gain
    options = prepared(options)
    checked = draft(options).settings
    every_name = [name for metric in checked.metrics for name in Metric.of(metric).names]
    metric = headline([*every_name, *checked.losses])
    names = _set_names(own.valid)
    on_folds = bool(options.folds) or options.quality == GOOD
    if checked.stopping_rounds and not names and not on_folds:
        raise click.UsageError("early stopping needs --valid, or --folds")
    if own.cluster:
        if options.metrics and not all(isinstance(name, str) for name in options.metrics):
            raise InputError("workers of a cluster cannot load a metric from a file; leave out --metric FILE.py:NAME")
        if expression_of(gain) is not None:
            raise InputError(
                "--cluster does not support --gain with columns; write gains as labels, and use --gain linear"
            )
        return _on_cluster(own, options, checked.rounds, reading, names, metric)
    declared, reading = declared_features(own.target, reading, own.train)
    if own.target:
        _check_for(own.target, params=get_backend(options.backend).params.named(checked.engine))
    known = reading.keywords | {"labelled": columns is None}
    route = "memory" if options.folds else wanted_route(options.backend, own.route, own.cache)
    copies = copied_rows(own.valid) if own.clicks else 0.0
    about = {"params": checked.engine, "folds": on_folds, "copies": copies}
    files = (list(own.train), *own.valid)
    route, line = choose_route(files, options, known, route=route, limit=own.memory_limit, **about)
    if line:
        say(line)
    cache = False if own.cache == NO_CACHE else own.cache or True
    stream = None if route == "memory" else {"cache": cache, "external_memory": route == "external"}
    reader = Reader(reading, options.threads, gain=gain, labelled=columns is None, stream=stream, target=own.target)
    train_set = reader.read(own.train)
    clicked = None
    if own.clicks:
        clicks = Clicks.read(own.train[0], train_set, columns, own.propensities, say)
        clicked = ClickTraining(clicks, columns, PRIOR if own.click_prior is None else own.click_prior, say)
        train_set = clicked.train_set
    constant = train_set.constant_features()
    if constant:
        say(f"{len(constant)} of {train_set.n_features} features are constant: {listed(constant)}")
    valid_sets = [reader.read(path, like=train_set) for path in own.valid]
    if clicked is not None:
        pairs = zip(own.valid, valid_sets, strict=True)
        valid_sets = [clicked.measured(path, data, on_folds) for path, data in pairs]
        tell_gate(clicked, options, checked.rounds, estimated=own.propensities is None)
    # Without a validation set, show the metric of the training set; folds have held-out queries.
    watched = list(zip(names, valid_sets, strict=True)) or ([] if on_folds else [("training", train_set)])
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        plan = resolve(options, train_set, watched)
    recipe, checkpoint = plan.recipe, options.checkpoint
    if recipe.preset != PLAIN:
        say(recipe.words)
    if own.target:
        data, rounds = plan.train_set, plan.rounds * len(recipe.members)
        trees = min(rounds + data.n_features, options.max_trees or sys.maxsize)
        lacks = zip(data.feature_names, missing_in(data.features), strict=True)
        missing = [name for name, is_missing in lacks if is_missing]
        facts = {"categorical": tuple(data.categories), "trees": trees, "missing": missing, "declared": declared}
        _check_for(own.target, names=data.feature_names, **facts)
    if on_folds and not recipe.folds and not valid_sets:
        plan = replace(plan, valid=(("training", plan.train_set),))
    many = len(recipe.members) if recipe.folds else 0
    log = [JsonLines(own.log)] if own.log else []
    with graceful_stop() as stop:
        progress = RoundProgress(metric, folds=many, stops=bool(recipe.patience or checked.stopping_rounds))
        with progress, contextlib.redirect_stdout(sys.stderr), keeping_rounds(own.model):
            for data in (train_set, *valid_sets):
                if data.on_disk:
                    data.features.watch = progress.binning
            plan = plan.with_options(callbacks=(progress, *log, StopWhenAsked(stop)))
            trained = fit(plan, _FoldTable(recipe, metric, stop, progress))
        stop.saving = True
        save_or_rescue(trained, own.model, checkpoint)
        stopped = stop.heeded or (trained.info.folds is not None and len(trained.info.folds["rounds"]) < many)
        if checkpoint and not stopped:
            checkpoint.remove()
    if checkpoint and checkpoint.resumed_at:
        say(f"resumed after round {checkpoint.resumed_at}")
    _print_outcome(trained, own, progress, options, stopped=stopped, valid=names)
    if checkpoint and checkpoint.failures:
        say(f"{checkpoint.failures} checkpoints could not be written")
    if checkpoint and stopped:
        say("there is no checkpoint to resume from" if checkpoint.holds is None else resume_words(checkpoint))
    return stop.exit_status if stopped else DONE


def _check_for(target: str, **facts: Any) -> None:
    """Raise or warn if the serving program cannot represent the model. `facts` are the arguments of `objections`."""
    from boostrank.export import TARGETS

    for one in TARGETS.get(target).objections(**facts):
        words = f"--for {target}: {one.words}; {one.fix}"
        if one.final:
            raise InputError(words)
        say(words)


def _with_quality(options: TrainOptions, cluster: bool) -> TrainOptions:
    """Set the quality: "good" by default, or "plain" if folds are not available."""
    reason = ""
    if cluster:
        reason = "a cluster trains a single model with the engine's defaults"
    elif not get_backend(options.backend).grows_trees:
        reason = f"{options.backend} grows no trees"
    asked = options.quality
    if reason and asked is None:
        say(f"quality {PLAIN}: {reason}")
    elif reason and asked != PLAIN:
        raise click.UsageError(f"--quality {asked} is not available: {reason}. Use --quality plain")
    quality = asked or (PLAIN if reason else GOOD)
    if options.init_model and quality == GOOD:
        default = "the default" if asked is None else "--quality good"
        raise click.UsageError(
            f"--init-model continues a single training, but {default} trains several models; add --quality quick or "
            "--quality plain"
        )
    return replace(options, quality=quality)


def objective_of(text: str) -> Any:
    """Return an objective as `boostrank.train` takes it: that of a Python file is loaded."""
    from boostrank.checking.user_file import load_objective

    return load_objective(text) if text.endswith(".py") else text


def prepared(options: Fit) -> Fit:
    """Load the objective from a Python file, parse the gain, and silence the engine."""
    from boostrank.core.conventions import rule_of

    if options.objective is not None:
        options = replace(options, objective=objective_of(options.objective))
    options = replace(options, metrics=tuple(metrics_of(options.metrics)))
    for name in ("objective", "gain"):
        if name in options.params:
            raise ParameterError(f"{name!r} is not a parameter of the engine; use --{name}")
    params = options.params if "verbose" in options.params else {"verbosity": -1} | dict(options.params)
    return replace(options, gain=None if options.gain is None else rule_of(options.gain), params=params)


def _on_cluster(
    own: TrainCommand, options: TrainOptions, rounds: int, reading: FileOptions, names: list[str], metric: str | None
) -> int:
    from boostrank.cluster import train
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.checkpoint import Checkpoint, save_or_rescue

    so_far = f"{own.model}.so-far"
    with graceful_stop() as stop:
        with RoundProgress(metric) as progress, contextlib.redirect_stdout(sys.stderr):
            trained = train(
                own.cluster,
                options.flat(),
                own.train,
                rounds,
                [[path] for path in own.valid],
                names,
                **{name: value for name, value in options.changed.items() if name in KEYWORDS},
                callbacks=[progress, StopWhenAsked(stop)],
                **reading.keywords,
                checkpoint=Checkpoint(so_far, every=own.checkpoint_every),
                tell=say,
                worker_timeout=own.worker_timeout,
            )
        stop.saving = True
        save_or_rescue(trained, own.model)
        for written in (so_far, f"{so_far}.meta.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(written)
    stop.heeded = stop.heeded and progress.rounds < progress.total
    _print_outcome(trained, own, progress, options, stopped=stop.heeded)
    return stop.exit_status if stop.heeded else DONE


def _checkpoint(own: TrainCommand, options: TrainOptions) -> Checkpoint | None:
    if own.cluster or not (own.checkpoint_every or options.checkpoint or own.resume or own.resume_or_restart):
        return None
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.model.files import sidecar_path

    path = options.checkpoint or f"{own.model}.checkpoint"
    check_not_read(path, filter(None, [options.init_model]))
    if os.path.realpath(path) in (os.path.realpath(own.model), os.path.realpath(sidecar_path(own.model))):
        raise InputError(f"{path}: the checkpoint and the model need different files")
    return Checkpoint(path, every=own.checkpoint_every, resume=own.resume, resume_or_restart=own.resume_or_restart)


def _set_names(paths: Sequence[str]) -> list[str]:
    """Return the names of validation files without folders and extensions, or valid_0, valid_1, ... if names clash."""
    stems = [Path(path).name.split(".")[0].strip("*?-_") or Path(path).parent.name or path for path in paths]
    distinct = len(set(stems)) == len(stems) and "training" not in stems
    return stems if distinct else [f"valid_{i}" for i in range(len(paths))]


class _FoldTable:
    """A callback that prints a row after each trained fold."""

    def __init__(self, recipe: Recipe, metric: str | None, stop: StopRequest, progress: RoundProgress) -> None:
        self._metric, self._stop, self._progress = metric or "", stop, progress
        self._width = max((len(member.name) for member in recipe.members), default=0)

    def __call__(self, fold: int, member: Member, model: RankingModel) -> bool:
        assert model.summary is not None  # it was just trained
        held_out = next(iter(model.best_score.values()), {}).get(self._metric)
        value = "" if held_out is None else f"{held_out:.4f}"
        rows = [(f"{fold + 1}", member.name, f"{model.best_iteration}", value, duration(model.summary.seconds))]
        if not fold:
            rows.insert(0, ("fold", "trained", "rounds", self._metric, "time"))
        width = max(8, len(self._metric))
        for number, name, rounds, value, taken in rows:
            self._progress.say(f"{number:<4}  {name:{self._width}}  {rounds:>6}  {value:>{width}}  {taken}")
        self._progress.next_fold()
        return not self._stop.made


def _print_outcome(
    model: RankingModel,
    own: TrainCommand,
    progress: RoundProgress,
    options: TrainOptions,
    *,
    stopped: bool,
    valid: Sequence[str] = (),
) -> None:
    """Print the trained model's metric, size and path."""
    from boostrank.model.averaging import count_trees
    from boostrank.model.ranking_model import tree_counts

    record, summary = model.info.folds, model.summary
    fields: dict[str, Any] = {
        "model": own.model,
        "backend": model.backend,
        "quality": options.quality,
        "stopped": stopped,
    }
    if record is not None:
        fields |= dict(record)
        if stopped:
            say(f"stopped in fold {len(record['rounds'])}; the model contains the folds so far")
        for name, value in zip(valid, record["valid"], strict=False):  # without a metric there are no values
            say(f"{name}: {_value(str(record['metric']), value)}, each scored by the model that was not trained on it")
    elif summary is not None:
        fields |= dataclasses.asdict(summary) | {"tree_seconds": summary.tree_seconds}
        fields |= {"objective": model.info["objective"]["name"], "metrics": model.best_score, "rounds": progress.rounds}
        _report_one(model, progress, stopped)
    if model.info.renewed is not None:
        fields["renewed"] = model.info.renewed["queries"]
        say(f"leaves computed again from all {fields['renewed']:,} queries, after these metrics: test on other queries")
    if own.as_json:
        counted = {"trees": count_trees(model)} if get_backend(model.backend).grows_trees else {}
        price = {} if model.info.price is None else {"price": model.info.price}
        click.echo(json.dumps(fields | counted | price))
        return
    if get_backend(model.backend).grows_trees:
        start = tree_counts(model)[0]
        of_start = f", {start:,} of them the linear start's" if start else ""
        say(f"{count_trees(model):,} trees{of_start}; trained in {duration(progress.seconds)}")
    if record is not None and record["metric"] is not None:
        value = record["held_out"][record["metric"]]
        click.echo(f"{_value(str(record['metric']), value)}, each scored by the model that was not trained on it")
    click.echo(f"model written to {own.model}")


def _report_one(model: RankingModel, progress: RoundProgress, stopped: bool) -> None:
    summary = model.summary
    assert summary is not None  # it was just trained
    if stopped:
        say(f"stopped after round {progress.rounds} of {progress.total}")
    dead = "" if summary.dead_queries is None else f", {summary.dead_queries:,} of them dead (no gradient)"
    floored = f"; {summary.floored:,} hessians raised to the minimum in the last round" if summary.floored else ""
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


def _value(metric: str, one: dict[str, Any]) -> str:
    if not one["queries"]:
        return f"{metric}: every query is excluded"
    return f"{metric} {one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}] on {one['queries']:,} queries"
