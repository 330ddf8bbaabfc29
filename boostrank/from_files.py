"""Training from files: clicks, route, reading, preset, checkpoint and model, on one machine or on a
cluster.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from boostrank.checking.user_file import load_metric, load_objective
from boostrank.clicks.log import PRIOR
from boostrank.clicks.sidecar import Clicks, ClickTraining, check_click_files
from boostrank.core.conventions import expression_of, rule_of
from boostrank.core.errors import InputError, ParameterError
from boostrank.core.files import (
    check_appendable,
    check_not_read,
    check_writable,
    remove_leftovers,
    reserved,
)
from boostrank.core.text import list_names
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import missing_in
from boostrank.engines import get_backend, of_engine
from boostrank.export import TARGETS
from boostrank.export.writing import split_declared_features
from boostrank.files.assemble import read_files
from boostrank.files.store import stream_files
from boostrank.fit.callbacks import StopRequest, StopWhenAsked
from boostrank.fit.checkpoint import (
    Checkpoint,
    is_checkpoint,
    resume_words,
    save_or_rescue,
)
from boostrank.fit.click_gate import count_copies, report_gate
from boostrank.fit.execute import FoldSummary, execute
from boostrank.fit.from_data import by_name
from boostrank.fit.plan import Plan, Training
from boostrank.fit.resolve import resolve
from boostrank.fit.settings import Settings, check_options
from boostrank.metrics import Metric
from boostrank.model.files import check_ending, sidecar_path
from boostrank.model.query_columns import WithinQuery
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.options import (
    GOOD,
    NO_CACHE,
    PLAIN,
    FileOptions,
    FitOptions,
    TrainFilesOptions,
    TrainOptions,
    as_list,
    contradictions,
    declared,
    takes_options,
)
from boostrank.routes import choose_route, most_leaves, wanted_route
from boostrank.tracking import JsonLines

__all__ = ["FoldSummary", "Observer", "StopRequest", "train_files"]

Fit = TypeVar("Fit", bound=FitOptions)
_STRUCTS: tuple[Any, ...] = (TrainFilesOptions, TrainOptions, FileOptions)
_LISTED = {
    name: option for struct in reversed(_STRUCTS) for name, option in declared(struct).items()
}
_LISTED["quality"] = replace(_LISTED["quality"], default=None)  # see `_choose_quality`
_CHECKPOINT_EVERY = 20
"""The number of rounds between checkpoints on a cluster, by default."""


class Observer:
    """An object that follows `train_files`. By default, `say` prints and other methods do nothing.

    Attributes:
        request: set its attribute `pending` to stop the training after the current round. At the
            end, its attribute `stopped` says whether the training ended early because of it.
        callbacks: called each round, as in `boostrank.train`.
        binning: function that is called with the rows binned so far and their number, or None.
    """

    callbacks: Sequence[Any] = ()
    binning: Callable[[int, int], None] | None = None

    def __init__(self, request: StopRequest | None = None) -> None:
        self.request = request or StopRequest()

    def say(self, line: str) -> None:
        """Take a line about a choice or a finding, by default to standard error."""
        sys.stderr.write(f"{line}\n")

    def has_chosen(self, options: TrainOptions) -> None:
        """Take the options with their defaults, before any file is read."""

    @contextlib.contextmanager
    def reading(self, paths: Sequence[str]) -> Iterator[Callable[[int, int | None], None] | None]:
        """Surround the reading of files, and return a function that takes the bytes read and their
        total.
        """
        yield None

    def has_read(self, paths: Sequence[str], data: RankingDataset, seconds: float) -> None:
        """Take a data set that was read."""

    @contextlib.contextmanager
    def training(self, metric: str | None, names: Sequence[str], stops: bool) -> Iterator[None]:
        """Surround the training and the writing of the model.

        Args:
            metric: name of the main metric, or None.
            names: names of the trainings on folds; empty for a single training, or if workers
                choose them.
            stops: whether early stopping may end a training.
        """
        yield

    def fold_ended(self, fold: FoldSummary) -> None:
        """Take the result of a fold."""

    def saving(self) -> None:
        """Take the end of the training, after which the model is written."""


@takes_options(_LISTED.values())
def train_files(train: Any, *, observer: Observer | None = None, **options: Any) -> RankingModel:
    """Train a ranker from files, as the command `boostrank train` does, with the same options and
    defaults.

    The files are read once, in memory or streamed, whichever fits. With `cluster`, each worker
    reads some of them.

    Args:
        train: one or more files, patterns ("shards/*.gz") or "-", which are read as one data set.
        observer: an `Observer`, which is told about choices, progress and folds, and can stop the
            training.
        options: the options in `boostrank train --help`, as fields of
            `boostrank.options.TrainOptions`, `TrainFilesOptions` and `FileOptions`. `model` is the
            path to write, or None to write no file. `valid` is one validation file or a list of
            them. `quality` is "good" by default, but "plain" on a cluster and for linear
            models. `objective` may be a Python file.

    Returns:
        The model. With `cluster="env"`, every rank gets it, and the first one writes it.

    Raises:
        InputError: options or files are invalid, which is found before training where possible.
        TrainingError: there is nothing to learn, a gradient is not finite, or the model could not
            be written.

    Example:
        >>> import os, tempfile, boostrank
        >>> from boostrank.data.synthetic import make_ranking_data
        >>> from boostrank.files.writer import write_libsvm
        >>> path = os.path.join(tempfile.mkdtemp(), "train.txt")
        >>> write_libsvm(path, make_ranking_data(queries=40, seed=1).dataset)
        >>> model = boostrank.train_files(path, quality="quick", objective="xe-ndcg", rounds=5)
        >>> model.best_iteration
        5
    """
    changed_names = [name for name in options if not _LISTED[name].is_default(options[name])]
    for message in contradictions(_LISTED, changed_names, lambda option: option.name):
        raise ParameterError(message)
    for name, paths in (("train", train), ("valid", options.get("valid"))):
        try:
            options[name] = tuple(map(os.fspath, as_list(paths)))
        except TypeError:
            raise ParameterError(f"{name}={paths!r} must be a path, or a list of paths") from None
    if "params" in options:
        options["params"] = by_name(options["params"])
    options.setdefault("quality", None)
    # A name that two structs have, as `gain`, belongs to the first.
    structs: list[Any] = []
    for struct in _STRUCTS:
        names = [name for name in declared(struct) if name in options]
        structs.append(struct(**{name: options.pop(name) for name in names}))
    files, train_options, reading = structs
    return from_files(files, train_options, reading, observer or Observer())


def from_files(
    files: TrainFilesOptions, options: TrainOptions, reading: FileOptions, observer: Observer
) -> RankingModel:
    """Train from files, and write the model if it has a path; see `train_files`."""
    if files.cluster == "env":
        from boostrank.cluster.env import EnvWorkers

        launcher = EnvWorkers()
        if launcher.rank:
            return launcher.serve()  # the first worker writes the model
    # Check all options before any file is read.
    if files.clicks:
        options = _use_clicks(files, options, reading)
    options = _choose_quality(files, options, observer.say)
    if not files.cluster:
        files = replace(files, route=wanted_route(options, files.route, files.cache))
    if files.target:
        columns = WithinQuery.of_options(options)
        within = "" if columns is None else ", ".join(columns.kinds)
        _check_target(files, observer.say, engine=options.backend, within=within)
        most_trees = TARGETS.get(files.target).most_trees
        limited_options = options.within_limit(most_trees)
        if limited_options is not options:
            observer.say(f"--max-trees {most_trees}: the limit of {files.target}")
        options = limited_options
    for alias in declared(TrainOptions)["rounds"].params if options.rounds else ():
        if alias in options.params:
            raise ParameterError(f"{alias} is given twice, by --param and by --rounds")
    checkpoint = _make_checkpoint(files, options)
    options = replace(options, checkpoint=checkpoint)
    observer.has_chosen(options)
    loaded, expression = load_options(options), expression_of(options.gain)
    settings, model = check_options(loaded), None
    if options.init_model is not None:
        model = as_model(options.init_model, "init_model")
    with contextlib.ExitStack() as reservations:
        if files.model is not None:
            check_ending(files.model)
            check_writable(files.model)
            reservations.enter_context(reserved(files.model))
            remove_leftovers(sidecar_path(files.model))
        if files.log:
            taken = [files.model, checkpoint and checkpoint.path]
            check_appendable(files.log, [path for path in taken if path])
        if checkpoint is not None:
            reservations.enter_context(checkpoint.reserved())
            if checkpoint.exists and not checkpoint.resume:
                message = (
                    "the file contains an unfinished training; continue it with --resume, or use"
                    " --resume-or-restart in jobs whose data change, or remove it"
                )
                if os.path.exists(checkpoint.path) and not is_checkpoint(checkpoint.path):
                    message = "the file is not a checkpoint; name another one with --checkpoint"
                raise InputError(f"{checkpoint.path}: {message}")
        if files.cluster:
            # The workers load the objective's file, and compute gains.
            options = replace(options, params=loaded.params, init_model=model)
            return _train_on_cluster(files, options, settings, reading, observer)
        reading = replace(reading, gain=expression and expression.text)
        return _train_here(files, loaded, settings, model, reading, observer)


def resolve_objective(objective: Any) -> Any:
    """Return an objective as `boostrank.train` takes it: that of a Python file is loaded."""
    is_file = isinstance(objective, str) and objective.endswith(".py")
    return load_objective(objective) if is_file else objective


def load_options(options: Fit) -> Fit:
    """Load the objective and the metrics from Python files, parse the gain, and silence the
    engine.
    """
    metrics: list[Any] = list(options.metrics)
    for number, metric in enumerate(metrics):
        if isinstance(metric, str) and ".py" in metric:
            metrics[number] = load_metric(metric)
    params = options.params
    for name in ("objective", "gain"):
        if name in params:
            raise ParameterError(f"{name!r} is not a parameter of the engine; use --{name}")
    if "verbose" not in params:
        params = {"verbosity": -1, **params}
    objective = resolve_objective(options.objective)
    gain = None if options.gain is None else rule_of(options.gain)
    return replace(options, objective=objective, metrics=tuple(metrics), gain=gain, params=params)


def _use_clicks(
    files: TrainFilesOptions, options: TrainOptions, reading: FileOptions
) -> TrainOptions:
    """Check that the files have clicks, and return options for gains of clicks."""
    objective = str(options.objective or "")
    if options.gain is not None:
        raise ParameterError("--clicks and --gain cannot be used together")
    if of_engine(objective):
        raise ParameterError(
            f"--clicks needs real gains, but {objective} takes grades; use a boostrank objective"
        )
    if len(files.train) > 1:
        raise InputError("--clicks needs exactly one TRAIN file, whose rows the clicks refer to")
    check_click_files((*files.train, *files.valid), reading)
    return replace(options, gain="linear", metrics=options.metrics or ("dcg",))


def _choose_quality(
    files: TrainFilesOptions, options: TrainOptions, say: Callable[[str], None]
) -> TrainOptions:
    """Set the quality: "good" by default, or "plain" where folds need more than there is."""
    quality, backend, reason = options.quality, options.backend, ""
    if not get_backend(backend).grows_trees:
        reason = f"{backend} grows no trees"
        if quality not in (None, PLAIN):
            raise ParameterError(f"--quality {quality}: {reason}. Use --quality {PLAIN}")
        if options.max_trees is not None:
            raise ParameterError(f"--max-trees does not apply: {reason}")
    elif files.cluster and not options.folds:
        reason = f"workers stream their rows; --quality {GOOD} trains folds of rows in memory"
    if quality is None and reason:
        quality = PLAIN
        say(f"quality {PLAIN}: {reason}")
    if options.init_model and quality in (None, GOOD):
        raise ParameterError(
            "--init-model continues a single training, but --quality good, the default, trains"
            " several models; add --quality quick or --quality plain"
        )
    return replace(options, quality=quality or GOOD, backend=get_backend(backend).name)


def _check_target(files: TrainFilesOptions, say: Callable[[str], None], **facts: Any) -> None:
    """Raise or warn if the serving program cannot represent the model. `facts` are the arguments of
    `objections`.
    """
    target = TARGETS.get(str(files.target)).serving(facts.get("engine", ""))
    for objection in target.objections(**facts):
        line = f"--for {files.target}: {objection.words}; {objection.fix}"
        if objection.final:
            raise InputError(line)
        say(line)


def _make_checkpoint(files: TrainFilesOptions, options: TrainOptions) -> Checkpoint | None:
    resumes = files.resume or files.resume_or_restart
    if files.cluster or not (files.checkpoint_every or options.checkpoint or resumes):
        return None
    if isinstance(options.checkpoint, Checkpoint):
        return options.checkpoint
    if options.checkpoint is None and files.model is None:
        raise ParameterError("name the checkpoint's file: checkpoint='model.checkpoint'")
    path = options.checkpoint or f"{files.model}.checkpoint"
    resumption = {"resume": files.resume, "resume_or_restart": files.resume_or_restart}
    checkpoint = Checkpoint(path, every=files.checkpoint_every, **resumption)
    if isinstance(options.init_model, str | os.PathLike):
        check_not_read(path, [options.init_model])
    if files.model is not None:
        outputs = (files.model, sidecar_path(files.model))
        if os.path.realpath(path) in [os.path.realpath(output) for output in outputs]:
            raise InputError(f"{path}: the checkpoint and the model need different files")
    return checkpoint


def _train_here(
    files: TrainFilesOptions,
    options: TrainOptions,
    settings: Settings,
    init_model: RankingModel | None,
    reading: FileOptions,
    observer: Observer,
) -> RankingModel:
    """Read the files, train on this machine, and save the model. With clicks, labels become gains,
    and a line says whether debiasing helps.
    """
    say = observer.say
    log = [JsonLines(files.log)] if files.log else []
    callbacks = (*options.callbacks, *observer.callbacks, *log, StopWhenAsked(observer.request))
    options = replace(options, callbacks=callbacks)
    if settings.patience and not files.valid and not options.on_folds:
        raise ParameterError("early stopping needs --valid, or --folds")
    declared_features, reading = split_declared_features(files.target, reading, files.train)
    params = get_backend(options.backend).params.resolve_names(settings.params)
    if files.target:
        _check_target(files, say, params=params)
    # Choose the best route, and the function that reads files by it.
    copies = 0.0
    if files.clicks:
        copies = count_copies(files.valid)
    if files.valid and options.on_folds:  # the sets are joined
        copies += 1.0
    keywords = replace(reading, keep_names=False).keywords
    route, line = choose_route(
        (list(files.train), *files.valid),
        options,
        keywords,
        route=files.route,
        limit=files.memory_limit,
        copies=copies,
        leaves=most_leaves(params, options.backend),
        init_model=init_model,
    )
    if line:
        say(line)
    keywords["threads"] = options.threads
    if files.target:
        keywords["takes_categories"] = TARGETS.get(files.target).categories
    load: Callable[..., RankingDataset] = read_files
    if route != "memory":
        load = stream_files
        keywords["cache"] = False if files.cache == NO_CACHE else files.cache or True
        keywords["external_memory"] = route == "external"

    def read(paths: Sequence[str], like: RankingDataset | None = None) -> RankingDataset:
        """Read files as one data set, with the features of `like`."""
        started = time.monotonic()
        with observer.reading(paths) as progress:
            data = load(paths, **keywords, like=like, progress=progress)
        observer.has_read(paths, data, time.monotonic() - started)
        return data

    # Read the training set and the validation sets.
    train_set, clicked = read(files.train), None
    if files.clicks:
        clicks = Clicks.read(files.train[0], train_set, files.propensities, say)
        prior = PRIOR if files.click_prior is None else files.click_prior
        clicked = ClickTraining(clicks, prior, say)
        train_set = clicks.log.training_set(train_set, clicks.propensities, prior)
    names = train_set.constant_features()
    if names:
        say(f"{len(names)} of {train_set.n_features} features are constant: {list_names(names)}")
    valid_sets = [read([path], like=train_set) for path in files.valid]
    if clicked is not None:
        pairs = zip(files.valid, valid_sets, strict=True)
        valid_sets = [clicked.label(path, data, options.on_folds) for path, data in pairs]
        report_gate(clicked, options, settings.rounds, estimated=files.propensities is None)
    for data in (train_set, *valid_sets):
        if data.on_disk and observer.binning is not None:
            data.features.watch = observer.binning
    # Without a validation set, show the metric of the training set; folds have held-out queries.
    watched = list(zip(files.valid_names, valid_sets, strict=True))
    if not watched and not options.on_folds:
        watched = [("training", train_set)]
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        plan = resolve(options, train_set, watched, init_model=init_model)
    if options.on_folds and not plan.preset.folds and not valid_sets:
        plan = replace(plan, valid=(("training", plan.train_set),))
    if plan.preset.quality != PLAIN:
        say(plan.preset.summary)
    # Check that the target can represent the models of the plan.
    if files.target:
        data, rounds = plan.train_set, plan.preset.rounds * len(plan.preset.members)
        lacks = zip(data.feature_names, missing_in(data.features), strict=True)
        _check_target(
            files,
            say,
            names=data.feature_names,
            categorical=tuple(data.categories),
            trees=min(rounds + data.n_features, plan.options.max_trees or sys.maxsize),
            missing=[name for name, is_missing in lacks if is_missing],
            declared=declared_features,
        )
    return _execute(plan, settings.headline, files, observer)


def _execute(
    plan: Plan, metric: str | None, files: TrainFilesOptions, observer: Observer
) -> RankingModel:
    """Train, save the model, and remove the checkpoint of a complete training."""
    request, checkpoint = observer.request, plan.options.checkpoint
    names = [training.name for training in plan.trainings] if plan.preset.folds else []

    def fold_ended(fold: int, training: Training, model: RankingModel) -> bool:
        observer.fold_ended(FoldSummary.of_model(fold, training, model))
        return not request.pending

    with observer.training(metric, names, plan.settings.patience > 0):
        with contextlib.redirect_stdout(sys.stderr):
            model = execute(plan, fold_ended)
        observer.saving()
        if files.model is not None:
            save_or_rescue(model, files.model, checkpoint)
        if model.info.folds is not None and len(model.info.folds["rounds"]) < len(names):
            request.stopped = True
        if checkpoint and not request.stopped:
            checkpoint.remove()
    # Tell what became of the checkpoint.
    if checkpoint and checkpoint.resumed_at:
        observer.say(f"resumed after round {checkpoint.resumed_at}")
    if checkpoint and request.stopped:
        message = "there is no checkpoint to resume from"
        if checkpoint.holds is not None:
            message = resume_words(checkpoint)
        observer.say(message)
    return model


def _train_on_cluster(
    files: TrainFilesOptions,
    options: TrainOptions,
    settings: Settings,
    reading: FileOptions,
    observer: Observer,
) -> RankingModel:
    """Train on workers, which read the files, and save the model."""
    from boostrank.cluster.client import ClusterTraining

    if any(metric.function is not None for metric in Metric.all_of(settings.metrics)):
        raise InputError(
            "workers of a cluster cannot load a metric from a file; leave out --metric FILE.py:NAME"
        )
    so_far = None
    if files.model is not None and not options.on_folds:
        every = files.checkpoint_every or _CHECKPOINT_EVERY
        so_far = Checkpoint(f"{files.model}.so-far", every=every)
    elif files.checkpoint_every:
        raise ParameterError(
            "on a cluster, --checkpoint-every needs --model, and a single training: leave it out"
        )
    request = observer.request
    callbacks = (*options.callbacks, *observer.callbacks, StopWhenAsked(request))
    training = ClusterTraining(
        replace(options, callbacks=callbacks, checkpoint=so_far),
        reading.keywords,
        fold_ended=observer.fold_ended,
        worker_timeout=files.worker_timeout,
    )
    may_stop = options.on_folds or settings.patience > 0
    with observer.training(settings.headline, [], may_stop):
        with contextlib.redirect_stdout(sys.stderr):
            valid = [[path] for path in files.valid]
            model = training.start(files.cluster, files.train, valid, files.valid_names)
        observer.saving()
        if files.model is not None:
            save_or_rescue(model, files.model)
        if so_far is not None:
            for path in (so_far.path, sidecar_path(so_far.path)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        if model.summary is not None:  # the workers may have finished meanwhile
            request.stopped &= model.summary.rounds < (model.info.trained_rounds or 0)
    return model
