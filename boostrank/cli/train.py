"""`boostrank train`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from boostrank.cli.clicks import Clicked, check_clicks
from boostrank.cli.config import merged_with_config
from boostrank.cli.errors import DONE, say
from boostrank.cli.interrupt import graceful_stop
from boostrank.cli.options import Command, DataFile, check_stdin
from boostrank.cli.plan import announced
from boostrank.cli.price import check_limits, price_of, say_cost
from boostrank.cli.progress import RoundProgress, duration
from boostrank.cli.reading import Reader, reading_options
from boostrank.cli.saving import keeping_rounds, report_checkpoint, save_or_rescue
from boostrank.cli.tables import aligned
from boostrank.cli.train_options import MOST_USED, START_WORDS, train_options
from boostrank.engines import ENGINES, get_backend
from boostrank.fit.callbacks import StopWhenAsked
from boostrank.fit.observe import Observer

if TYPE_CHECKING:
    from boostrank.data.dataset import RankingDataset
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.fit.params import TrainingParameters
    from boostrank.fit.plan import Member, Plan, Recipe
    from boostrank.kernels.objective.contract import ObjectiveSpec
    from boostrank.model.ranking_model import RankingModel
    from boostrank.model.within_query import WithinQuery

PLAIN, GOOD = "plain", "good"  # as in boostrank.fit.presets, which is heavy to import


@click.command("train", cls=Command, most_used=MOST_USED, replaceable=("init_model",))
@click.argument("train", metavar="TRAIN...", nargs=-1, required=True, type=DataFile())
@train_options
@reading_options
@click.pass_context
def command(context: click.Context, /, train: tuple[str, ...], model: str, valid: tuple[str, ...], **given: Any) -> int:
    """Train a ranker from TRAIN: libsvm text with `qid:`, CSV, TSV, Parquet or Arrow.

    TRAIN is one file or several, text plain or compressed (.gz, .bz2, .xz, .zst), a quoted pattern, 'shards/*.gz', or
    `-` for standard input. Several files are one data set, and a query lies in one of them.

    Prints where the model lies. Ctrl-C and SIGTERM finish the round and write the model, and the checkpoint if there
    is to be one; Ctrl-C twice stops at once.
    """
    check_stdin(context, [*train, *valid])
    check_clicks(context, given, train, valid)
    _choose_preset(context, given)
    from boostrank.core.errors import InputError
    from boostrank.core.files import check_appendable, check_not_read, check_writable, reserved
    from boostrank.model.files import check_ending

    start_file = None if given["start"] in START_WORDS else given["start"]
    inputs = [*train, *valid, *filter(None, [given.get("config"), start_file])]
    check_ending(model)
    check_writable(model)
    if given["worker_timeout"] and not given["dask"]:
        raise click.UsageError("--worker-timeout is for the workers of --dask", context)
    if given["log"] and given["dask"]:
        raise click.UsageError("--log is for one machine", context)
    if given["checkpoint"]:
        check_not_read(given["checkpoint"], filter(None, [given["init_model"]]))
    checkpoint = _checkpoint(context, given, model)
    if given["log"]:
        check_appendable(given["log"], [model, *inputs, *([checkpoint.path] if checkpoint else [])])
    with reserved(model), checkpoint.reserved() if checkpoint else contextlib.nullcontext():
        if checkpoint and checkpoint.exists and not checkpoint.resume:
            raise InputError(
                f"{checkpoint.path}: an unfinished training lies there: --resume goes on with it; or remove the file"
            )
        return _run(context, train, valid, model, given, checkpoint)


def _choose_preset(context: click.Context, given: dict[str, Any]) -> None:
    """Set `quality` where no option does, and refuse options that do not go with it or with folds.

    Raises:
        UsageError: which, and what to give instead.
    """
    asked, backend = given["quality"], given["backend"]
    reason = ""
    if given["dask"]:
        reason = "workers of a cluster train one model, with the engine's defaults"
    elif not get_backend(backend).grows_trees:
        reason = f"{backend} grows no trees"
    if reason and asked in (None, PLAIN):
        given["quality"] = PLAIN
        if asked is None:
            say(f"quality plain: {reason}")
    elif reason:
        raise click.UsageError(f"--quality {asked} is not available: {reason}. Give --quality plain", context)
    given["quality"] = given["quality"] or GOOD
    if given["init_model"] and (given["folds"] or given["quality"] == GOOD):
        what, instead = ("--folds", "leave it out") if given["folds"] else ("the default", "add --quality quick")
        raise click.UsageError(f"--init-model continues one training, {what} makes several: {instead}", context)
    if given["folds"]:
        if given["dask"]:
            raise click.UsageError("--folds is for one machine: --dask trains one model", context)
        if given["cache"] or given["route"] not in ("auto", "memory"):
            raise click.UsageError("--folds takes rows from memory: leave out --route and --cache", context)
        given["route"] = "memory"


def _run(
    context: click.Context, files: tuple[str, ...], valid: tuple[str, ...], model: str, given: dict[str, Any],
    checkpoint: Checkpoint | None,
) -> int:  # fmt: skip
    """The exit status of the whole training, whose outputs can be written and belong to nobody else."""
    from boostrank.core.files import remove_leftovers
    from boostrank.fit.params import headline
    from boostrank.fit.train import draft, fit, resolve
    from boostrank.metric import Metric
    from boostrank.model.files import sidecar_path
    from boostrank.options import TrainOptions

    remove_leftovers(sidecar_path(model))  # those of the model went when it was tried whether it can be written

    if given["dask"]:
        from boostrank.cli.cluster import backend_for, check_libsvm, train_on_cluster

        if given["start"] not in START_WORDS:
            raise click.UsageError(
                "--start FILE is for one machine: on a cluster a start is auto, linear or none", context
            )
        check_libsvm(context, given)
        given["backend"] = backend_for(context, given["backend"])
    params = train_params(context, given)
    _add_patience(context, params, given)
    # Everything that can be refused is, before a byte is read.
    check_limits(context, given)
    options = TrainOptions(
        params=params, rounds=given["rounds"], backend=given["backend"], conventions=given["conventions"]
    )
    checked = draft(options).settings
    rounds_given = context.get_parameter_source("rounds") is not click.core.ParameterSource.DEFAULT
    given["rounds"], asked_rounds = checked.rounds, given["rounds"]
    rounds = checked.rounds if rounds_given or checked.rounds != asked_rounds else None  # by an option or a parameter
    within = within_query(context, given)
    metric = headline([name for metric in checked.metrics for name in Metric.parse(metric).names])
    names = _set_names(valid)
    on_folds = bool(given["folds"]) or given["quality"] == GOOD
    if checked.stopping_rounds and not names and not on_folds:
        raise click.UsageError("early stopping needs --valid, or --folds", context)
    if given["dask"]:
        trained, progress, stop = train_on_cluster(params, given, files, valid, names, metric, model)
        _report(trained, model, progress, given, stopped=stop.heeded)
        return stop.exit_status if stop.heeded else DONE
    stream = _streaming(context, given, files, valid, checked, on_folds)
    reader = Reader(given, stream=stream)
    train_set = reader.read(files)
    check_limits(context, given, train_set)
    clicked = Clicked.read(given, files[0], train_set) if given["clicks"] else None
    if clicked is not None:
        train_set = clicked.train_set
    constant = train_set.constant_features()
    if constant:
        more = f", and {len(constant) - 8} more" if len(constant) > 8 else ""
        say(f"{len(constant)} of {train_set.n_features} features never change: {', '.join(constant[:8])}{more}")
    valid_sets = [reader.read(path, like=train_set) for path in valid]
    if clicked is not None:
        valid_sets = [clicked.measured(path, data, on_folds) for path, data in zip(valid, valid_sets, strict=True)]
        clicked.say_gate(params, given, within)
    # Without a file to watch, the training set shows that something is learnt; folds watch themselves.
    watched = list(zip(names, valid_sets, strict=True)) or ([] if on_folds else [("training", train_set)])
    options = dataclasses.replace(
        options,
        rounds=rounds,
        init_model=given["init_model"],
        checkpoint=checkpoint,
        start=given["start"],
        within_query=within,
        quality=given["quality"],
        folds=given["folds"],
        max_trees=given["max_trees"],
        max_microseconds=given["max_microseconds"],
    )
    with contextlib.redirect_stdout(sys.stderr):  # the engines print
        plan = resolve(options, train_set, watched, _Sayer())
    recipe = plan.recipe
    if on_folds and not recipe.folds and not valid_sets:
        plan = dataclasses.replace(plan, valid=(("training", plan.train_set),))
    many = len(recipe.members) if recipe.folds else 0
    with graceful_stop() as stop:
        progress = RoundProgress(metric, folds=many, stops=bool(recipe.patience or checked.stopping_rounds))
        with progress, contextlib.redirect_stdout(sys.stderr):  # the engines print
            for data in (train_set, *valid_sets):
                if data.on_disk:
                    data.features.watch = progress.binning
            with keeping_rounds(model):
                callbacks = (progress, *_log(given), StopWhenAsked(stop))
                plan = dataclasses.replace(plan, callbacks=callbacks)
                trained = fit(plan, _FoldTable(recipe, metric, stop, progress))
        stop.saving = True
        save_or_rescue(trained, model, checkpoint)
        stopped = stop.heeded or (trained.info.folds is not None and len(trained.info.folds["rounds"]) < many)
        if checkpoint and not stopped:
            checkpoint.remove()
    if checkpoint and checkpoint.resumed_at:
        say(f"resumed after round {checkpoint.resumed_at}")
    _report(trained, model, progress, given, stopped=stopped, data=train_set, valid=names)
    if checkpoint:
        report_checkpoint(checkpoint, stopped=stopped)
    return stop.exit_status if stopped else DONE


class _Sayer(Observer):
    """Says what was chosen, before the training."""

    def choosing(self, trainings: int) -> None:
        say(f"--of auto: {trainings} trainings on folds of the queries, with and without the columns of --within-query")

    def chosen(self, choice: Mapping[str, Any]) -> None:
        from boostrank.fit.folds import choice_words

        say(choice_words(choice))

    def planned(self, plan: Plan) -> None:
        if plan.recipe.preset != PLAIN:
            say(plan.recipe.words)


class _FoldTable(Observer):
    """A row of the table for each fold, when it is trained."""

    def __init__(self, recipe: Recipe, metric: str | None, stop: Any, progress: RoundProgress) -> None:
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
        self._progress.say(f"{fold + 1:<4}  {member.name:{self._width}}  {model.best_iteration:>6}  {value:>{width}}  "
                           f"{duration(model.summary.seconds)}")  # fmt: skip
        self._progress.next_fold()
        return not self._stop.made


def within_query(context: click.Context, given: dict[str, Any]) -> WithinQuery | None:
    """What `--within-query` and `--of` say.

    Raises:
        UsageError: the second alone; or on a cluster.
    """
    if not given["within_query"]:
        if given["of"]:
            raise click.UsageError("--of names features for --within-query", context)
        return None
    if given.get("dask"):
        raise click.UsageError("--within-query is for one machine: workers of a cluster do not compute it", context)
    from boostrank.model.within_query import WithinQuery

    return WithinQuery(given["within_query"], given["of"])


def _checkpoint(context: click.Context, given: dict[str, Any], model: str) -> Checkpoint | None:
    """The checkpoint that the options ask for.

    Raises:
        InputError: it has the model's name.
    """
    if given["dask"] and (given["checkpoint"] or given["resume"]):
        raise click.UsageError("on a cluster there is --checkpoint-every alone", context)
    if given["dask"] or not (given["checkpoint_every"] or given["checkpoint"] or given["resume"]):
        return None
    from boostrank.core.errors import InputError
    from boostrank.fit.checkpoint import Checkpoint
    from boostrank.model.files import sidecar_path

    path = given["checkpoint"] or f"{model}.checkpoint"
    if os.path.realpath(path) in (os.path.realpath(model), os.path.realpath(sidecar_path(model))):
        raise InputError(f"{path}: the checkpoint needs a file of its own")
    return Checkpoint(path, every=given["checkpoint_every"], resume=given["resume"])


def _log(given: dict[str, Any]) -> list[Any]:
    """The log of rounds that `--log` asks for, if any."""
    if not given["log"]:
        return []
    from boostrank.tracking.callbacks import JsonLines

    return [JsonLines(given["log"])]


def _streaming(
    context: click.Context, given: dict[str, Any], train: tuple[str, ...], valid: tuple[str, ...],
    checked: TrainingParameters, on_folds: bool,
) -> dict[str, Any] | None:  # fmt: skip
    """Streaming options; None where features come to memory. Prints what the route will cost.

    Raises:
        UsageError: options that contradict each other.
        InputError: no route stays under the limit of memory.
    """
    route, cache = given["route"], given["cache"]
    routes = ENGINES[given["backend"]].routes
    if routes == ("memory",):
        if cache or route not in ("auto", "memory"):
            raise click.UsageError(f"{given['backend']} trains on rows in memory: no --route or --cache", context)
        route = "memory"
    if cache and given["no_cache"]:
        raise click.UsageError("--cache and --no-cache contradict each other", context)
    if route == "external" and route not in routes:
        raise click.UsageError("--route external is XGBoost's: --backend xgboost", context)
    if cache and route == "memory":
        raise click.UsageError("--route memory uses no cache", context)
    if route == "auto" and cache:
        route = "bins"
    route, line = announced(train, valid, given, checked, route, on_folds)
    if line:
        say(line)
    if route == "memory":
        return None
    return {"cache": cache or not given["no_cache"], "external_memory": route == "external"}


def read_for_trainings(
    context: click.Context, given: dict[str, Any], train: tuple[str, ...], valid: str | None
) -> tuple[dict[str, Any], RankingDataset, Any]:
    """Parameters, early stopping among them; data; and the validation set, if any: for a command that trains often."""
    params = train_params(context, given)
    if given["early_stopping"]:
        params["early_stopping_round"] = given["early_stopping"]
    reader = Reader(given)
    train_set = reader.read(train)
    return params, train_set, reader.read(valid, like=train_set) if valid else None


def train_params(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """One flat dictionary, as `boostrank.train` takes it."""
    params: dict[str, Any] = {"verbosity": -1}
    own = merged_with_config(context, "param", given["params"])
    if "verbose" in own:
        del params["verbosity"]
    params |= own
    settings = merged_with_config(context, "set", given["settings"])
    objective = given["objective"]
    if objective is not None and ".py" in objective:
        from boostrank.checking.user_file import is_objective_file, load_objective

        if is_objective_file(objective):
            objective = load_objective(objective)
    _check_sides(objective, settings, own, given["backend"])
    options = {"objective": objective} | {name: given[name] for name in ("gain", "learning_rate", "num_leaves", "seed")}
    options |= {"num_threads": given["threads"], "metric": list(given["metrics"]) or None, "eval_at": given["eval_at"]}
    if options["gain"] is not None:  # the reader computes an expression
        from boostrank.core.gains import rule_of

        options["gain"] = rule_of(options["gain"])
    for name, value in (settings | {key: value for key, value in options.items() if value is not None}).items():
        if name in params and name != "verbosity":
            raise click.UsageError(f"{name} is given twice: by --param, and by its own option", context)
        params[name] = value
    return params


def _check_sides(
    objective: str | ObjectiveSpec | None, settings: dict[str, Any], own: dict[str, Any], backend: str
) -> None:
    """Refuse what is under the wrong option: `--set` is for the objective, `--param` (`own`) for the engine."""
    from boostrank.core.errors import ParameterError
    from boostrank.core.params import find_param, resolve_params
    from boostrank.fit.params import default_objective
    from boostrank.kernels.noise import SEED
    from boostrank.kernels.objective.options import OPTIONS
    from boostrank.objective.mixture import accepted_params

    if "objective" in own:
        raise ParameterError("the objective is chosen by --objective, not by --param")
    if objective is None or isinstance(objective, str):
        name = objective or default_objective(backend)
        if ":" in name:
            for setting in settings:
                raise ParameterError(f"{name} takes its parameters from the engine: use --param for {setting!r}")
            return
        try:
            takes = accepted_params(name)
        except ParameterError:
            return  # `boostrank.train` says what is wrong with the name
    else:
        name, takes = objective.name, (*objective.params, *OPTIONS)
    for key, value in own.items():
        param = find_param(key, takes)
        if param is not None and param is not SEED:
            raise ParameterError(f"{key!r} is a parameter of objective {name!r}: use --set {key}={value}")
    if "gain" in own:
        raise ParameterError(f"the gain is not the engine's: use --gain {own['gain']}")
    for key in settings:
        if find_param(key, [SEED]):
            raise ParameterError("the objective and the trees have one seed: use --seed")
    resolve_params(takes, settings, owner=f"objective {name!r}")


def _add_patience(context: click.Context, params: dict[str, Any], given: dict[str, Any]) -> None:
    """Put `--early-stopping` among the parameters.

    Raises:
        UsageError: it is there already.
    """
    from boostrank.fit.params import STOPPING_NAMES

    if given["early_stopping"]:
        for name in STOPPING_NAMES:
            if params.get(name) is not None:
                raise click.UsageError(f"{name} is given twice: by --param, and by its own option", context)
        params["early_stopping_round"] = given["early_stopping"]


def _set_names(paths: tuple[str, ...]) -> list[str]:
    """What each validation file is called in the log: its name without folder and endings, if distinct."""
    stems = [Path(path).name.split(".")[0].strip("*?-_") or Path(path).parent.name or path for path in paths]
    distinct = len(set(stems)) == len(stems) and "training" not in stems
    return stems if distinct else [f"valid_{i}" for i in range(len(paths))]


def _report(
    model: RankingModel, path: str, progress: RoundProgress, given: dict[str, Any], *, stopped: bool,
    data: RankingDataset | None = None, valid: list[str] | None = None,
) -> None:  # fmt: skip
    """Print what was trained, what it is worth and what it costs."""
    record, summary = model.info.folds, model.summary
    fields: dict[str, Any] = {"model": path, "backend": model.backend, "quality": given["quality"], "stopped": stopped}
    if record is not None:
        fields |= dict(record)
        if stopped:
            say(f"stopped in fold {len(record['rounds'])}; the model holds what is there")
        for name, value in zip(valid or [], record["valid"], strict=False):  # without a metric there are no values
            say(f"{name}: {_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    elif summary is not None:
        fields |= dataclasses.asdict(summary) | {"tree_seconds": summary.tree_seconds}
        fields |= {"objective": model.info["objective"]["name"], "metrics": model.best_score, "rounds": progress.rounds}
        _report_one(model, progress, stopped)
    if given["as_json"]:
        click.echo(json.dumps(fields | price_of(model, data)))
        return
    say_cost(model, data, progress.seconds)
    if record is not None and record["metric"] is not None:
        value = record["held_out"][record["metric"]]
        click.echo(f"{_value(str(record['metric']), value)}, each scored by the model that had not seen it")
    click.echo(f"model written to {path}")


def _report_one(model: RankingModel, progress: RoundProgress, stopped: bool) -> None:
    """Data, time and metrics of one training."""
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


def _value(metric: str, one: dict[str, Any]) -> str:
    if not one["queries"]:
        return f"{metric}: no query counts"
    return f"{metric} {one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}] on {one['queries']:,} queries"
