"""Client for training on several workers, which assigns shards and tasks to the workers, and calls
the callbacks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from boostrank.checking.user_file import ObjectiveFile, load_objective
from boostrank.cluster.worker import Last, News, Shard, joined_ids
from boostrank.cluster.workers import WORKER_TIMEOUT, Launcher, Workers, by_worker
from boostrank.core import errors
from boostrank.core.conventions import expression_of
from boostrank.core.errors import (
    BoostrankError,
    DataError,
    DataWarning,
    ParameterError,
    TrainingError,
    WorkerLost,
)
from boostrank.core.types import Array, Int64Array
from boostrank.data.arrays import common_space
from boostrank.data.frames import cut
from boostrank.data.rows import fingerprint_of
from boostrank.engines import get_backend, workers_of
from boostrank.files.source import matching
from boostrank.fit.callbacks import History
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.execute import FoldSummary
from boostrank.fit.from_data import name_sets, with_params
from boostrank.fit.resolve import with_objective_of
from boostrank.fit.settings import GAIN_NAMES, OBJECTIVE_NAMES, pop_param, split_params
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.options import (
    DEFAULT_ROUNDS,
    KEYWORDS,
    Option,
    ReadOptions,
    TrainOptions,
    as_list,
    declared,
    takes_options,
)
from boostrank.records import ModelInfo

_LAUNCHERS = ("local", "env", "dask", "spark", "ray")
"""Modules in `boostrank.cluster` with launchers."""
_OF_READERS = [Option(name=name, help="") for name in ("format", "categorical_feature")]


def launcher_of(workers: Any) -> Launcher:
    """Return the launcher for the argument `workers` of `train`."""
    if isinstance(workers, str):
        kind, _, where = workers.partition(":")
        if kind not in _LAUNCHERS:
            raise ParameterError(
                f"cluster {workers!r}: expected one of {', '.join(_LAUNCHERS)}, as in local:2"
            )
        module = import_module(f"boostrank.cluster.{kind}")
        workers = getattr(module, f"{kind.title()}Workers").from_text(kind, where)
    elif type(workers).__module__.startswith("distributed."):
        workers = import_module("boostrank.cluster.dask").DaskWorkers(workers)
    if not isinstance(workers, Launcher):
        raise ParameterError(
            f"workers={workers!r} must be text, such as 'local:2', a distributed.Client or a"
            " boostrank.cluster.Launcher"
        )
    return workers


@takes_options((*KEYWORDS.values(), *declared(ReadOptions).values(), *_OF_READERS))
def train(
    workers: Any,
    params: Mapping[str, Any] | None,
    data: Any,
    num_boost_round: int | None = None,
    valid: Any = None,
    valid_names: Sequence[str] | None = None,
    fold_ended: Callable[[FoldSummary], Any] | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
    **options: Any,
) -> RankingModel:
    """Train a ranker on several workers.

    The model differs from training on a single machine only through the order of sums, XGBoost's
    approximate bins, and the objectives' random numbers.

    Args:
        workers: "local:2" (processes on this machine); "env" (ranks started by torchrun, MPI, Slurm
            or Kubernetes, which all make this call and get the model); "dask:tcp://10.0.0.1:8786";
            "spark:8" or "ray:8" (tasks); a `distributed.Client`; or a `Launcher`.
        params, num_boost_round: as for `boostrank.train`. The objective may also be a Python file,
            and the gain an expression over columns of the data.
        data: files of whole queries, or patterns ("shards/*.txt"), with paths that are valid on the
            workers; or a table, which is partitioned by query. A table is a Spark, Dask or Ray data
            frame for workers of the same kind, or a pandas, polars or Arrow table.
        valid: files or a table to evaluate in each round, or a list of lists or of tables for
            several sets.
        valid_names: names of the validation sets. The default is `valid_0`, ....
        fold_ended: function that is called with a `boostrank.fit.execute.FoldSummary` after each
            fold.
        worker_timeout: number of seconds without an answer after which a worker is considered lost.
        options: options of `boostrank.train` and `boostrank.read` (`from_frame` for tables), and

            * `checkpoint`: the model is saved to its path periodically, and can be continued with
              `init_model`;
            * `callbacks`: called in this process after each round, without a model and without
              the arguments that `MLflow` logs; `StopTraining` takes effect a few rounds later;
            * `folds` and `quality`: folds are of the queries of all workers, which read their rows
              into memory.

    Raises:
        WorkerLost: if a worker died or does not answer. The checkpoint keeps the rounds up to its
            last.
        InputError, TrainingError: as in `boostrank.train`, naming the shard or worker, or if a
            query is in two shards, no worker can read a shard, or workers have different versions.
    """
    keywords = {name: options.pop(name) for name in KEYWORDS if name in options}
    train_options = with_params(TrainOptions(**keywords, rounds=num_boost_round), params or {})
    training = ClusterTraining(train_options, options, fold_ended, worker_timeout)
    return training.start(workers, data, valid, valid_names)


def _leave_to_workers(options: TrainOptions, reading: dict[str, Any]) -> TrainOptions:
    """Return the options with all parameters in `params`. Move an expression of the gain to the
    `reading` options, and read an objective's file, which the workers run.
    """
    params, file = options.flat(), None
    gain = pop_param(dict(params), GAIN_NAMES, None)
    objective = pop_param(dict(params), OBJECTIVE_NAMES, None)
    expression = expression_of(gain)
    if expression is not None:
        pop_param(params, GAIN_NAMES, None)
        reading["gain"] = expression.text
    if isinstance(objective, str) and objective.endswith(".py"):
        pop_param(params, OBJECTIVE_NAMES, None)
        file = ObjectiveFile.read(objective)
    keywords = {name: value for name, value in options.changed.items() if name in KEYWORDS}
    return TrainOptions(params=params, rounds=options.rounds, objective=file, **keywords)


@dataclass(eq=False)
class ClusterTraining:
    """A training run on several workers.

    Args:
        options: the options of the training.
        reading: options of `boostrank.read`, or of `from_frame` for tables.
        fold_ended, worker_timeout: as for `train`.
    """

    options: TrainOptions
    reading: dict[str, Any]
    fold_ended: Callable[[FoldSummary], Any] | None
    worker_timeout: float

    def __post_init__(self) -> None:
        if not self.worker_timeout > 0:
            raise ParameterError(f"worker_timeout={self.worker_timeout!r} must be above 0 seconds")
        workers_of(self.options.backend)
        # Refuse what workers cannot do before any of them starts.
        options = _leave_to_workers(self.options, self.reading)
        for name in options.changed:
            if declared(TrainOptions)[name].alone:
                raise ParameterError(
                    f"{name} is not supported on clusters; remove it, or train on one machine"
                )
        self._checkpoint, self._callbacks = options.checkpoint, options.callbacks
        for callback in self._callbacks:
            _check_callback(callback)
        if not isinstance(self._checkpoint, Checkpoint | None) or (
            self._checkpoint and self._checkpoint.resume
        ):
            raise ParameterError(
                "checkpoint must be Checkpoint(path, every=N); to continue, pass init_model, not"
                " resume"
            )
        self.on_folds = options.on_folds
        if self.on_folds and self._checkpoint:
            raise ParameterError("folds on a cluster write no checkpoints: leave out checkpoint")
        # Keep what this process does, and leave the rest to the workers.
        self._model, self._rounds_before = None, 0
        if options.init_model is not None:
            self._model = as_model(options.init_model, "init_model")
            self._rounds_before = self._model.best_iteration
        options = replace(options, init_model=self._model, checkpoint=None, callbacks=())
        self.options, self._engine = options, get_backend(options.backend)
        file = options.objective
        if file is not None:
            options = replace(options, objective=load_objective(file.path))
        flat = with_objective_of(self._model, options.flat())
        self.settings = split_params(flat, options.rounds or DEFAULT_ROUNDS, self._engine)
        parts = () if self.settings.objective is None else self.settings.objective.parts
        has_source = any("source" in part.to_dict() for part in parts)
        if self.settings.function is not None or (has_source and file is None):
            raise ParameterError(
                "custom objectives are not supported on clusters; pass a Python file, or train on"
                " one machine"
            )
        self._history, self._saved = History(), 0
        self._history.rounds = self._rounds_before

    def start(
        self, workers: Any, data: Any, valid: Any, valid_names: Sequence[str] | None
    ) -> RankingModel:
        """Train on workers, with the arguments of `train`."""
        is_files = all(map(_is_path, as_list(data)))
        sets = as_list(valid)
        if sets and all(map(_is_path, sets)):
            sets = [sets]
        if is_files:
            if not all(_is_path(path) for group in sets for path in as_list(group)):
                raise ParameterError("valid must be paths, because the training data are")
            data, sets = _expand(as_list(data)), [_expand(as_list(group)) for group in sets]
        pairs = name_sets(sets, valid_names, data)
        if self.settings.patience and not sets and not self.on_folds:
            raise ParameterError("early stopping needs a validation set: pass valid=, or folds=")
        launcher: Any = launcher_of(workers)
        with contextlib.closing(launcher):
            if launcher.rank:
                model: RankingModel = launcher.serve()
                return model
            return self._run(launcher, data, dict(pairs), frames=not is_files)

    def _run(
        self, launcher: Launcher, data: Any, sets: Mapping[str, Any], *, frames: bool
    ) -> RankingModel:
        """Train on a launcher's workers. `data` and each validation set are paths, or a table if
        `frames`.
        """
        started, groups = time.perf_counter(), [data, *sets.values()]
        tables = [dict[str, Any]()] * launcher.size
        # Leave frames of the launcher's own kind to its workers, and cut up other tables.
        if frames:
            qid = self.reading.get("qid")
            if not qid:
                raise ParameterError("tables on a cluster need qid, their column of query ids")
            if launcher.frames and type(data).__module__.startswith(launcher.frames):
                if len({*map(type, groups)}) > 1:
                    raise ParameterError("valid must be of the type of the training data")
                launcher.hold(groups, qid)
            else:
                # Each worker needs training rows.
                parts = [*filter(len, cut(data, qid, launcher.size))]
                cuts = (cut(table, qid, len(parts)) for table in groups[1:])
                tables[: len(parts)] = by_worker([parts, *cuts])
            groups = []
        # Reserve the checkpoint before the workers start.
        self._workers = Workers(launcher, self.worker_timeout, self._listen)
        last_message: Last = None, "the training was cancelled"
        with contextlib.nullcontext() if self._checkpoint is None else self._checkpoint.reserved():
            try:
                self._workers.start()
                tasks = self._assign_shards(groups, tables, tuple(sets))
                model = self._trained(tasks, started)
                last_message = model, ""
                return model
            except BoostrankError as error:
                last_message = None, f"{type(error).__name__}: {error}"
                raise
            finally:
                # Let the workers go in any case, and tell them how the training ended.
                self._workers.release(last_message)

    def _assign_shards(
        self, groups: Sequence[list[str]], tables: Sequence[Any], valid_names: tuple[str, ...]
    ) -> list[tuple[Any, ...]]:
        """Assign and validate the shards of all data sets, and return each worker's arguments for
        `Worker.fit`.

        If `groups` has no paths, the shards are `tables` and the tables that the workers already
        have.
        """
        workers = self._workers
        paths = [path for group in groups for path in group]
        reports = workers.work("sizes", [(paths, of_worker) for of_worker in tables])
        sizes = dict(zip(workers.names, reports, strict=True))
        if not groups:
            kinds = ["training", *(f"validation {i}" for i in range(len(valid_names)))]
            names = [name for report in reports for name in report]
            groups = [
                [name for name in names if name.startswith(f"{kind} partition")] for kind in kinds
            ]
        if not groups[0]:
            raise DataError("no worker has training rows: pass files, or a table with rows")
        training = assign_shards(groups[0], sizes, {})
        # Leave out workers without training rows.
        workers.ranks = [rank for rank in workers.ranks if training[workers.info[rank].name]]
        sizes = {name: sizes[name] for name in workers.names}
        validation = [assign_shards(group, sizes, training) for group in groups[1:]]
        work = [(training[name], self.reading, self.on_folds) for name in sizes]
        reports = workers.work("read", work)
        shards = {shard.path: shard for report in reports for shard in report}
        ranks = {
            shard.path: (rank, number)
            for rank, report in enumerate(reports)
            for number, shard in enumerate(report)
        }
        self._shards = [shards[path] for path in groups[0]]
        refuse_shared_queries(self._shards)
        refuse_mixed_weights(self._shards)
        spaces = {shard.path: shard.space for shard in self._shards}
        categories = {} if self._model is None else self._model.categories
        self._space = common_space(spaces, categories)
        spaces_and_shards = [(self._space, [group[name] for group in validation]) for name in sizes]
        reports = workers.work("conform", spaces_and_shards)
        validation_shards: list[Shard] = []
        for i, set_name in enumerate(valid_names):
            of_set = [shard for sets in reports for shard in sets[i]]
            validation_shards += of_set
            refuse_shared_queries(of_set)
            self._check_overlap(set_name, of_set)
        if self.on_folds:
            self._shards += validation_shards
        self._sizes = {
            "rows": sum(shard.rows for shard in self._shards),
            "queries": sum(len(shard.qids) for shard in self._shards),
        }
        meshes = tuple(workers.info[rank].mesh for rank in workers.ranks)
        every = (self._checkpoint and self._checkpoint.every) or 0
        task = self.options, meshes, valid_names, [ranks[path] for path in groups[0]], every
        return [(rank, *task) for rank in range(len(meshes))]

    def _check_overlap(self, set_name: str, validation_shards: Sequence[Shard]) -> None:
        """Warn about queries of a validation set that are in the training set, or refuse them."""
        ids, owners = _all_ids([*self._shards, *validation_shards])
        trained = owners < len(self._shards)
        shared_ids = np.intersect1d(ids[trained], ids[~trained])
        if shared_ids.size:
            message = (
                f"{shared_ids.size:,} query ids are also in the training data (such as"
                f" {shared_ids[0]})"
            )
            if self.reading.get("strict"):
                raise DataError(f"{set_name}: {message}")
            errors.warn_user(f"{set_name}: {message}", DataWarning)

    def _trained(self, tasks: list[tuple[Any, ...]], started: float) -> RankingModel:
        """Train, while this process calls the callbacks and writes checkpoints."""
        self._total = self._rounds_before + self.settings.rounds
        try:
            results = self._workers.work("fit", tasks, self._when)
        except TrainingError as error:
            self._say_how_to_continue(error)
            raise
        model, _ = results[0]
        if len({checksum for _, checksum in results}) > 1:
            raise TrainingError(
                "the workers have different models, so none of them is reliable: train again"
            )
        assert isinstance(model, RankingModel)
        model.info = self._of_all(model.info)
        if model.summary is not None:  # a single training
            seconds = time.perf_counter() - started
            model.summary = replace(model.summary, **self._sizes, seconds=seconds)
        return model

    def _listen(self, news: News) -> None:
        callbacks = sorted(self._callbacks, key=lambda callback: getattr(callback, "order", 0))
        for event in news.events:
            if isinstance(event, FoldSummary):
                if self.fold_ended is not None:
                    self.fold_ended(event)
                continue
            # Presets decide the number of rounds on the workers.
            self._total = event.end_iteration
            env = replace(event, params=self.settings.params)
            for callback in (self._history, *callbacks):
                try:
                    callback(env)
                except Exception as stop:  # recognised as by `engines.base.Rounds`
                    if not hasattr(stop, "best_iteration"):
                        raise
                    self._workers.stop = True
        if news.model is not None:
            self._save_so_far(*news.model)

    def _when(self) -> str:
        return f" after round {self._history.rounds}"

    def _say_how_to_continue(self, error: TrainingError) -> None:
        """Add to an error what the checkpoint contains."""
        remedy = "write checkpoints to keep the rounds of a training"
        if self._saved:
            remedy = f"{self._checkpoint.path} contains the first {self._saved} rounds: "
            remedy += f"continue it for {self._total - self._saved} more"
        elif not isinstance(error, WorkerLost):
            return
        elif self.on_folds:
            remedy = "an average over folds is lost; train a single model to keep its rounds"
        elif self._checkpoint:
            remedy = "no checkpoint was written yet (decrease --checkpoint-every, every=)"
        error.args = (f"{error}; {remedy}",)

    def _save_so_far(self, rounds: int, body: bytes, info: ModelInfo) -> None:
        """Write a checkpoint, or warn and keep the old checkpoint if that fails."""
        end = rounds - self._rounds_before
        history = {
            name: {metric: values[:end] for metric, values in metrics.items()}
            for name, metrics in self._history.values.items()
        }
        booster = self._engine.load(body)
        model = RankingModel(booster, info=self._of_all(info), evals_result=history)
        try:
            model.save(self._checkpoint.path, num_iteration=0)
            self._saved = rounds
        except TrainingError as error:
            message = f"{error}. Training continues, and the next checkpoint may succeed"
            errors.warn_user(message, errors.TrainingWarning)

    def _of_all(self, info: ModelInfo) -> ModelInfo:
        """Return the first worker's record with the data from all workers."""
        shards, parameters = self._shards, dict(info["parameters"])
        files = sorted(shard.path for shard in shards)
        fingerprint = fingerprint_of([shard.fingerprint for shard in shards])
        data = info["data"] | self._sizes | {"files": files, "fingerprint": fingerprint}
        if self.settings.threads is None:
            parameters.pop("num_threads", None)  # of the first worker
        training = info["training"] | {"workers": len(self._workers.ranks)}
        return info | {"data": data, "training": training, "parameters": parameters}


def _check_callback(callback: Any) -> None:
    """Refuse callbacks that need a model, or that the client calls too late."""
    name = getattr(callback, "__qualname__", type(callback).__name__)
    if hasattr(callback, "stopping_rounds"):
        raise ParameterError(
            f"{name} cannot keep the best round on a cluster; pass the parameter"
            " early_stopping_round="
        )
    if not callable(callback) or getattr(callback, "before_iteration", False):
        raise ParameterError(
            f"{name} is not supported on clusters, where callbacks run after each round, without a"
            " model; remove it, or train on one machine"
        )


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _expand(patterns: Sequence[Any]) -> list[str]:
    """Return absolute paths. Workers report patterns without a match as unreadable."""
    paths: list[str] = []
    for path in map(os.path.abspath, patterns):
        try:
            paths += matching(path)
        except errors.FileFormatError:
            paths.append(path)
    if not paths:
        raise ParameterError("no shards were given")
    twice = [path for path in dict.fromkeys(paths) if paths.count(path) > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is given twice")
    return paths


def assign_shards(
    shards: Sequence[str],
    sizes: Mapping[str, Mapping[str, int]],
    assigned: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Return each worker's shards in the given order, with about equal total sizes (the largest are
    assigned first).

    Args:
        sizes: size in bytes of each shard that a worker can read, by worker and path.
        assigned: shards of another data set that are already assigned, by worker.
    """
    load = {
        worker: sum(of_worker[path] for path in assigned.get(worker, ()))
        for worker, of_worker in sizes.items()
    }
    sizes_by_path = {
        path: {worker: sizes[worker][path] for worker in sizes if path in sizes[worker]}
        for path in shards
    }
    # Refuse shards that no worker can read, or that differ between workers.
    owner: dict[str, str] = {}
    for path, workers in sizes_by_path.items():
        if not workers:
            raise errors.InputError(
                f"{path}: no worker {'with training rows ' * bool(assigned)}can read it. The path"
                " of a file must exist on one of them; use fewer workers for a table"
            )
        if len(set(workers.values())) > 1:
            file_sizes = ", ".join(
                f"{size:,} bytes on {worker}" for worker, size in workers.items()
            )
            raise errors.InputError(f"{path}: {file_sizes}. Give different files different names")
    for path in sorted(shards, key=lambda path: -max(sizes_by_path[path].values())):
        owner[path] = min(sizes_by_path[path], key=load.__getitem__)
        load[owner[path]] += sizes_by_path[path][owner[path]]
    return {worker: [path for path in shards if owner[path] == worker] for worker in sizes}


def refuse_shared_queries(shards: Sequence[Shard]) -> None:
    """Refuse queries that are in two shards."""
    qids, owners = _all_ids(shards)
    order = np.argsort(qids, kind="stable")
    qids, owners = qids[order], owners[order]
    again = np.flatnonzero(qids[1:] == qids[:-1])
    if again.size:
        first, second = sorted(owners[again[0] : again[0] + 2])
        raise DataError(
            f"query {qids[again[0]]} is in {shards[first].path} and in {shards[second].path}"
            f" ({again.size:,} such queries): shards must hold whole queries; split files with"
            " `boostrank data shard`"
        )


def refuse_mixed_weights(shards: Sequence[Shard]) -> None:
    """Refuse query weights in one shard and document weights in another."""
    paths = {shard.weighs: shard.path for shard in shards}
    if {"documents", "queries"} <= paths.keys():
        raise DataError(
            f"{paths['documents']} has document weights, which differ within a query, but"
            f" {paths['queries']} has query weights: use the same kind in all shards"
        )


def _all_ids(shards: Sequence[Shard]) -> tuple[Array, Int64Array]:
    """Return the query ids in all shards, and the number of the shard that contains each id."""
    ids_by_shard = [shard.qids for shard in shards]
    owners = np.repeat(np.arange(len(shards)), list(map(len, ids_by_shard)))
    return joined_ids(ids_by_shard), owners
