"""`boostrank train`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from boostrank.cli.command import command
from boostrank.cli.errors import DONE, graceful_stop, say
from boostrank.cli.outcome import FoldTable, Sayer, print_outcome
from boostrank.cli.progress import RoundProgress
from boostrank.cli.reading import Reader
from boostrank.engines import of_engine
from boostrank.options import DEFAULT_ROUNDS, FileOptions, FitOptions, TrainCommand, TrainOptions

if TYPE_CHECKING:
    from boostrank.fit.checkpoint import Checkpoint

Fit = TypeVar("Fit", bound=FitOptions)
PLAIN, GOOD, NO_CACHE = "plain", "good", "none"


@command("train", TrainCommand, TrainOptions, FileOptions, replaceable=("init_model",))
def train(own: TrainCommand, options: TrainOptions, reading: FileOptions) -> int:
    """Train a ranker from TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one file or several, plain or compressed (.gz, .bz2, .xz, .zst), a quoted pattern, 'shards/*.gz', or `-`
    for standard input. Several files are one data set; a query must lie in one of them.

    Prints the path of the model. Ctrl-C and SIGTERM finish the round and write the model and the checkpoint, if any;
    a second Ctrl-C exits at once.
    """
    from boostrank.clicks.sidecar import prepare
    from boostrank.core.errors import InputError, ParameterError
    from boostrank.core.files import check_appendable, check_writable, reserved
    from boostrank.fit.train import settled_quality
    from boostrank.model.files import check_ending
    from boostrank.model.within_query import WithinQuery

    if own.cluster == "env":
        from boostrank.cluster.env import EnvWorkers

        ranks = EnvWorkers()
        if ranks.rank:
            ranks.serve()
            return DONE  # the first rank writes the model
    columns = None
    if own.clicks:
        objective = str(options.objective or "")
        if options.gain is not None:
            raise ParameterError("--clicks and --gain do not go together")
        if of_engine(objective):
            raise ParameterError(f"--clicks learns real gains, and {objective} takes grades: one of ours")
        if len(own.train) > 1:
            raise InputError("--clicks counts the rows of one file: give one TRAIN")
        columns, reading = prepare(own.click_columns, (*own.train, *own.valid), reading)
        options = replace(options, gain="linear", metrics=options.metrics or ("dcg",))
    options = settled_quality(options, own.cluster is not None, say)
    if options.folds and (own.cache not in (None, NO_CACHE) or own.route not in ("auto", "memory")):
        raise ParameterError("--folds takes rows from memory: leave out --route and --cache")
    if options.within_query:
        options = replace(options, within_query=WithinQuery(options.within_query, options.of), of=None)
    if own.target:
        within = ", ".join(options.within_query.kinds) if options.within_query else ""
        _check_for(own.target, engine=options.backend, within_query=within)
    check_ending(own.model)
    check_writable(own.model)
    checkpoint = _checkpoint(own, options)
    if own.log:
        check_appendable(own.log, [own.model, *own.inputs, *([checkpoint.path] if checkpoint else [])])
    with reserved(own.model), checkpoint.reserved() if checkpoint else contextlib.nullcontext():
        if checkpoint and checkpoint.exists and not checkpoint.resume:
            raise InputError(
                f"{checkpoint.path}: an unfinished training lies there: --resume goes on with it; or remove the file"
            )
        return _run(own, replace(options, checkpoint=checkpoint), reading, columns)


def _run(own: TrainCommand, options: TrainOptions, reading: FileOptions, columns: Any) -> int:
    """Lock the outputs, train, and return the exit status."""
    from boostrank.clicks.sidecar import ClickTraining
    from boostrank.core.errors import InputError
    from boostrank.core.files import remove_leftovers
    from boostrank.core.gains import expression_of
    from boostrank.data.rows import missing_in
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.click_gate import copied_rows, tell_gate
    from boostrank.fit.params import headline
    from boostrank.fit.saving import keeping_rounds, resume_words, save_or_rescue
    from boostrank.fit.train import draft, fit, resolve
    from boostrank.metric import Metric
    from boostrank.model.files import sidecar_path
    from boostrank.planning import choose_route, wanted_route

    remove_leftovers(sidecar_path(own.model))  # those of the model are already removed
    gain = options.gain
    options = prepared(options)
    checked = draft(options).settings
    rounds = checked.rounds if options.rounds or checked.rounds != DEFAULT_ROUNDS else None  # an option or a parameter
    metric = headline([name for metric in checked.metrics for name in Metric.parse(metric).names])
    names = _set_names(own.valid)
    on_folds = bool(options.folds) or options.quality == GOOD
    if checked.stopping_rounds and not names and not on_folds:
        raise click.UsageError("early stopping needs --valid, or --folds")
    if own.cluster:
        if expression_of(gain) is not None:
            raise InputError("--gain of columns is for one machine: write such gains as labels, and --gain linear")
        return _on_cluster(own, options, checked.rounds, reading, names, metric)
    known = reading.keywords | {"format": reading.data_format, "labelled": columns is None}
    route = "memory" if options.folds else wanted_route(options.backend, own.route, own.cache)
    copies = copied_rows(own.valid) if own.clicks else 0.0
    about = {"params": checked.engine, "folds": on_folds, "copies": copies}
    files = (list(own.train), *own.valid)
    route, line = choose_route(files, options, known, route=route, limit=own.memory_limit, **about)
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
    # Without a validation set, show the metric of the training set; folds have held-out queries.
    watched = list(zip(names, valid_sets, strict=True)) or ([] if on_folds else [("training", train_set)])
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        plan = resolve(replace(options, rounds=rounds), train_set, watched, Sayer())
    recipe, checkpoint = plan.recipe, plan.checkpoint
    if own.target:
        data, rounds = plan.train_set, plan.rounds * len(recipe.members)
        trees = rounds + data.n_features * (plan.start is not None)
        trees = min(trees, plan.max_trees or trees)
        missing = bool(missing_in(data.features).any())
        facts = {"categorical": tuple(data.categories), "trees": trees, "missing": missing}
        _check_for(own.target, names=data.feature_names, **facts)
    if on_folds and not recipe.folds and not valid_sets:
        plan = replace(plan, valid=(("training", plan.train_set),))
    many = len(recipe.members) if recipe.folds else 0
    log = []
    if own.log:
        from boostrank.tracking import JsonLines

        log = [JsonLines(own.log)]
    with graceful_stop() as stop:
        progress = RoundProgress(metric, folds=many, stops=bool(recipe.patience or checked.stopping_rounds))
        with progress, contextlib.redirect_stdout(sys.stderr), keeping_rounds(own.model):
            for data in (train_set, *valid_sets):
                if data.on_disk:
                    data.features.watch = progress.binning
            plan = replace(plan, callbacks=(progress, *log, StopWhenAsked(stop)))
            trained = fit(plan, FoldTable(recipe, metric, stop, progress))
        stop.saving = True
        save_or_rescue(trained, own.model, checkpoint)
        stopped = stop.heeded or (trained.info.folds is not None and len(trained.info.folds["rounds"]) < many)
        if checkpoint and not stopped:
            checkpoint.remove()
    if checkpoint and checkpoint.resumed_at:
        say(f"resumed after round {checkpoint.resumed_at}")
    print_outcome(trained, own.model, progress, options.quality, as_json=own.as_json, stopped=stopped, valid=names)
    if checkpoint and checkpoint.failures:
        say(f"{checkpoint.failures} checkpoints could not be written")
    if checkpoint and stopped:
        say("there is no checkpoint to go on from" if checkpoint.holds is None else resume_words(checkpoint))
    return stop.exit_status if stopped else DONE


def _check_for(target: str, **facts: Any) -> None:
    """Refuse or warn of what the program that will serve the model cannot hold; `facts` as for `objections`.

    The library's trainings know no targets: `fit` lies below `export`.

    Raises:
        InputError: no option of the export can help.
    """
    from boostrank.core.errors import InputError
    from boostrank.export import TARGETS

    for one in TARGETS.get(target).objections(**facts):
        words = f"--for {target}: {one.words}; {one.fix}"
        if one.final:
            raise InputError(words)
        say(words)


def prepared(options: Fit) -> Fit:
    """Load the objective of a Python file, parse the gain, and silence the engine.

    Raises:
        ParameterError: a parameter under the wrong option.
    """
    from boostrank.checking.user_file import is_objective_file, load_objective
    from boostrank.core.errors import ParameterError
    from boostrank.core.gains import rule_of

    objective = options.objective
    if objective is not None and ".py" in objective and is_objective_file(objective):
        options = replace(options, objective=load_objective(objective))
    for name in ("objective", "gain"):
        if name in options.params:
            raise ParameterError(f"{name!r} is no parameter of the engine: use --{name}")
    params = options.params if "verbose" in options.params else {"verbosity": -1} | dict(options.params)
    return replace(options, gain=None if options.gain is None else rule_of(options.gain), params=params)


def _on_cluster(
    own: TrainCommand, options: TrainOptions, rounds: int, reading: FileOptions, names: list[str], metric: str | None
) -> int:
    """Train on the workers of a cluster, and save the model."""
    from boostrank.cluster import train
    from boostrank.fit.callbacks import StopWhenAsked
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.fit.saving import save_or_rescue

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
                backend=options.backend,
                init_model=options.init_model,
                start=options.start,
                within_query=options.within_query,
                callbacks=[progress, StopWhenAsked(stop)],
                conventions=options.conventions,
                **reading.keywords,
                format=reading.data_format,
                checkpoint=Checkpoint(so_far, every=own.checkpoint_every) if own.checkpoint_every else None,
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
    print_outcome(trained, own.model, progress, options.quality, as_json=own.as_json, stopped=stop.heeded)
    return stop.exit_status if stop.heeded else DONE


def _checkpoint(own: TrainCommand, options: TrainOptions) -> Checkpoint | None:
    if own.cluster or not (own.checkpoint_every or options.checkpoint or own.resume):
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
