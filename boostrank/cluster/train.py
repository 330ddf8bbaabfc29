"""Client of a training on several workers: shards to workers, work to all of them, rounds to callbacks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.cluster.worker import CLIENT_SILENCE_SECONDS, Last, News, Shard
from boostrank.cluster.workers import WORKER_TIMEOUT, Launcher, Workers, by_worker
from boostrank.core import errors
from boostrank.core.errors import BoostrankError, DataError, DataWarning, ParameterError, TrainingError, WorkerLost
from boostrank.core.text import count_of
from boostrank.data.arrays import default_feature_names
from boostrank.data.categories import Categories
from boostrank.data.frames import cut
from boostrank.data.options import FeatureSpace
from boostrank.data.rows import fingerprint_of
from boostrank.data.source import matching
from boostrank.engines import get_backend, workers_of
from boostrank.engines.base import CallbackEnv, EvalResult, StopTraining
from boostrank.fit.checkpoint import Checkpoint
from boostrank.fit.train import draft, named_sets, with_objective_of, with_params
from boostrank.model.ranking_model import RankingModel, as_model
from boostrank.options import TrainOptions, declared
from boostrank.records import ModelInfo

_LAUNCHERS = ("local", "env", "dask", "spark", "ray")


def launcher_of(workers: Any) -> Launcher:
    """Return the launcher that a text names, as for `train`."""
    if not isinstance(workers, str):
        of_dask = type(workers).__module__.startswith("distributed.")
        found: Launcher = import_module("boostrank.cluster.dask").DaskWorkers(workers) if of_dask else workers
        return found
    kind, _, where = workers.partition(":")
    if kind not in _LAUNCHERS:
        raise ParameterError(f"cluster {workers!r}: it begins with none of {', '.join(_LAUNCHERS)}")
    launcher: Launcher = import_module(f"boostrank.cluster.{kind}").LAUNCHER.named(kind, where)
    return launcher


def train(
    workers: Any,
    params: Mapping[str, Any] | None,
    data: Any,
    num_boost_round: int = 100,
    valid: Any = None,
    valid_names: Sequence[str] | None = None,
    **options: Any,
) -> RankingModel:
    """Train one ranker on several workers: the model of a single machine, but for the order of sums, the bins of
    XGBoost (estimates, there and here), and the noise of objectives that draw random numbers.

    Args:
        workers: "local:2", processes on this machine; "env", the ranks that torchrun, MPI, Slurm or Kubernetes have
            started (each makes this call, and gets the model); "dask:tcp://10.0.0.1:8786" or "dask:FILE"; "spark:8",
            "ray:8", tasks of these; a `distributed.Client`; or a `Launcher`.
        params, num_boost_round: as for `boostrank.train`.
        data: files of whole queries, or patterns ("shards/*.txt"), by the path that workers know them by. Or a table:
            a Spark, Dask or Ray data frame on workers of that engine, which partitions it by query; pandas, polars or
            Arrow here, which is dealt to any workers.
        valid: files or table to evaluate on each round; a list of lists, or of tables, for several sets.
        valid_names: names of the sets; `valid_0`, ... by default.
        options: those of `boostrank.train`, of `RankingDataset.read` (of a table: `from_frame`), and

            * `checkpoint`: the model so far is written to its path; `init_model` goes on from it;
            * `callbacks`: called here, without a model; one that raises `StopTraining` ends the training rounds later;
            * `tell`: called with a line about workers and data before the training starts;
            * `worker_timeout`: seconds without an answer after which a worker is lost.

    Raises:
        WorkerLost: a worker died or does not answer; the last checkpoint is good.
        InputError, TrainingError: as `boostrank.train`, with the shard or the worker; a query in two shards, a shard
            that no worker can read, workers with different installations.
    """
    training = ClusterTraining(params, num_boost_round, **options)
    paths = _is_path(data) or (isinstance(data, list | tuple) and all(map(_is_path, data)))
    sets = [] if valid is None else list(valid) if isinstance(valid, list | tuple) else [valid]
    if sets and all(map(_is_path, sets)):
        sets = [sets]
    if paths:
        data, sets = _expanded(data), [_expanded(group) for group in sets]
    named = named_sets(sets, valid_names, data)
    if training.settings.stopping_rounds and not sets:
        raise ParameterError("early stopping needs a validation set")
    launcher: Any = launcher_of(workers)
    with contextlib.closing(launcher):
        if launcher.rank:
            found: RankingModel = launcher.serve()
            return found
        return training.on(launcher, data, dict(named), frames=not paths)


class ClusterTraining:
    """One training, by the arguments of `train`."""

    def __init__(
        self,
        params: Mapping[str, Any] | None,
        rounds: int,
        tell: Callable[[str], None] | None = None,
        worker_timeout: float = WORKER_TIMEOUT,
        **given: Any,
    ) -> None:
        if not worker_timeout > 0:
            raise ParameterError(f"worker_timeout={worker_timeout!r} must be above 0 seconds")
        own = {name: given.pop(name) for name in declared(TrainOptions) if name in given}
        options = with_params(TrainOptions(**own, rounds=rounds), params or {})
        workers_of(options.backend)
        for name in options.changed:
            if declared(TrainOptions)[name].alone:
                raise ParameterError(f"{name} is for a training on one machine")
        self._checkpoint, self._callbacks = options.checkpoint, options.callbacks or ()
        if not isinstance(self._checkpoint, Checkpoint | None) or (self._checkpoint and self._checkpoint.resume):
            raise ParameterError("checkpoint: Checkpoint(path, every=N); workers go on by init_model=, without resume")
        self._model = None if options.init_model is None else as_model(options.init_model)
        self._options = replace(options, init_model=self._model, checkpoint=None, callbacks=None)
        self._tell, self._timeout, self._reading = tell, worker_timeout, given
        self._engine, drafted = get_backend(options.backend), draft(self._options)
        self.settings = replace(drafted, params=with_objective_of(self._model, drafted.params)).settings
        objective = self.settings.objective
        if (objective is None and self.settings.native_objective is None) or (
            objective is not None and any("source" in part.to_dict() for part in objective.parts)
        ):
            raise ParameterError("an objective of your own cannot travel to the workers: train on one machine")
        self._engine.params.check_workers(self.settings.engine)
        self._before = 0 if self._model is None else self._model.best_iteration
        self._rounds: list[Any] = []  # so far, as of `News`
        self._saved = 0

    def on(self, launcher: Launcher, data: Any, sets: Mapping[str, Any], *, frames: bool) -> RankingModel:
        """Train on the workers of a launcher; `data` and each of the validation sets are paths, or a table each."""
        started, groups = time.perf_counter(), [data, *sets.values()]
        qid, given = self._reading.get("qid", "qid"), [dict[str, Any]()] * launcher.size
        if frames and not launcher.hold(groups, qid):
            given = by_worker([cut(table, qid, launcher.size) for table in groups])
        self._workers = Workers(launcher, self._timeout)
        last: Last = None, "the training was given up"
        with contextlib.nullcontext() if self._checkpoint is None else self._checkpoint.reserved():
            try:
                self._workers.start()
                if frames:
                    held = sum(self._workers.work("hold", [(tables,) for tables in given]), start=list[str]())
                    kinds = ["training", *(f"validation {i}" for i in range(len(sets)))]
                    groups = [[name for name in held if name.startswith(f"{kind} partition")] for kind in kinds]
                task = self._prepared(groups, tuple(sets))
                if self._tell is not None:
                    self._tell(self._inventory)
                model = self._trained(task, started)
                last = model, ""
                return model
            except BoostrankError as error:
                last = None, f"{type(error).__name__}: {error}"
                raise
            finally:
                self._workers.release(last)

    def _prepared(self, groups: Sequence[list[str]], valid_names: tuple[str, ...]) -> tuple[Any, ...]:
        """Have every shard read, and refuse what would not go well; return the work to be done."""
        workers, reading = self._workers, self._reading
        if not groups[0]:
            raise DataError("there is no training shard")
        everything = [path for group in groups for path in group]
        sizes = dict(zip(workers.names, workers.work("sizes", [(everything,)] * len(workers.ranks)), strict=True))
        training = place(groups[0], sizes)
        # A worker without training rows has nothing to do.
        workers.ranks = [rank for rank in workers.ranks if training[workers.info[rank].name]]
        names = workers.names
        validation = [place(group, {name: sizes[name] for name in names}, training) for group in groups[1:]]
        reports = workers.work("read", [(training[name], reading) for name in names])
        read = {shard.path: (i, number, shard) for i, one in enumerate(reports) for number, shard in enumerate(one)}
        order = [read[path] for path in groups[0]]
        self._shards = [shard for _, _, shard in order]
        refuse_shared_queries([(names[i], shard) for i, _, shard in order])
        refuse_mixed_weights(self._shards)
        spaces, known = {shard.path: shard.space for shard in self._shards}, self._model and self._model.categories
        self._space = common_space(spaces, known or {})
        work = [(self._space, [group[name] for group in validation], reading) for name in names]
        reports = workers.work("settle", work)
        for i, set_name in enumerate(valid_names):
            of_set = [(name, shard) for name, one in zip(names, reports, strict=True) for shard in one[i]]
            refuse_shared_queries(of_set)
            both = shared_with_training(self._shards, [shard for _, shard in of_set])
            if both:
                text = f"{set_name}: {len(both):,} query ids are also in the training data (one: {both[0]})"
                if reading.get("strict"):
                    raise DataError(text)
                errors.warn_user(text, DataWarning)
        meshes = tuple(workers.info[rank].mesh for rank in workers.ranks)
        every = (self._checkpoint and self._checkpoint.every) or 0
        return self._options, meshes, valid_names, [(i, number) for i, number, _ in order], every

    @property
    def _inventory(self) -> str:
        workers, shards = [self._workers.info[rank] for rank in self._workers.ranks], self._shards
        return (
            f"{count_of(len(workers), 'worker')} with {count_of(sum(info.threads for info in workers), 'thread')} on "
            f"{count_of(len({info.host for info in workers}), 'machine')}: {count_of(len(shards), 'shard')}, "
            f"{sum(shard.rows for shard in shards):,} rows, {sum(len(shard.qids) for shard in shards):,} queries, "
            f"{self._space.n_features:,} features"
        )

    def _trained(self, task: tuple[Any, ...], started: float) -> RankingModel:
        """Train; callbacks and the checkpoint follow meanwhile."""
        work = [(rank, *task) for rank in range(len(self._workers.ranks))]
        total = self._before + self.settings.rounds
        try:
            results = self._workers.work("fit", work, self._listen, self._when)
        except WorkerLost as error:
            if not self._saved:
                raise
            holds = f"{self._checkpoint.path} holds the first {self._saved} rounds"
            raise WorkerLost(f"{error}; {holds}, continue it for {total - self._saved} more") from error
        model, _, stopped, _ = results[0]
        if len({checksum for _, checksum, _, _ in results}) > 1:
            raise TrainingError("the workers ended with different models: none of them is to be trusted")
        if stopped and not self._workers.stop:
            errors.warn_user(
                f"the workers had not heard of this process for {CLIENT_SILENCE_SECONDS:.0f} seconds and ended "
                f"the training{self._when()} of {total}: was it suspended?",
                errors.TrainingWarning,
            )
        assert isinstance(model, RankingModel) and model.summary is not None  # noqa: PT018
        model.info = self._of_all(model.info)
        sizes = {name: model.info["data"][name] for name in ("rows", "queries")}
        model.summary = replace(model.summary, **sizes, seconds=time.perf_counter() - started)
        return model

    def _listen(self, news: News) -> None:
        self._rounds += news.rounds
        for iteration, begin, end, results in news.rounds:
            env = CallbackEnv(None, self.settings.engine, iteration, begin, end, [EvalResult(*r) for r in results])
            for callback in sorted(self._callbacks, key=lambda callback: getattr(callback, "order", 0)):
                try:
                    callback(env)
                except StopTraining:  # after the round that is under way
                    self._workers.stop = True
        if news.model is not None:
            self._save_so_far(*news.model)

    def _when(self) -> str:
        return f" after round {len(self._rounds) + self._before}"

    def _save_so_far(self, rounds: int, body: bytes, info: ModelInfo) -> None:
        """Write a checkpoint; where that fails, the old one stays and the training goes on."""
        history: dict[str, dict[str, list[float]]] = {}
        for iteration, _, _, results in self._rounds:
            for name, metric, value, *_ in results if iteration < rounds else ():
                history.setdefault(name, {}).setdefault(metric, []).append(value)
        model = RankingModel(self._engine.load(body), info=self._of_all(info), evals_result=history)
        try:
            model.save(self._checkpoint.path, num_iteration=0)
            self._saved = rounds
        except TrainingError as error:
            errors.warn_user(f"{error}. The training goes on; the next checkpoint may fit", errors.TrainingWarning)

    def _of_all(self, info: ModelInfo) -> ModelInfo:
        """The first worker's record with the data of all workers."""
        data = {
            "files": sorted(shard.path for shard in self._shards),
            "rows": sum(shard.rows for shard in self._shards),
            "queries": sum(len(shard.qids) for shard in self._shards),
            "fingerprint": fingerprint_of([shard.fingerprint for shard in self._shards]),
        }
        training, parameters = {**info["training"], "workers": len(self._workers.ranks)}, {**info["parameters"]}
        if self.settings.threads is None:
            parameters.pop("num_threads", None)  # the worker's own
        return info | {"data": {**info["data"], **data}, "training": training, "parameters": parameters}


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _expanded(given: Any) -> list[str]:
    """Absolute paths; a pattern without a match stands for itself, which workers say that they cannot read."""
    found: list[str] = []
    for path in map(os.path.abspath, [given] if _is_path(given) else given):
        try:
            found += matching(path)
        except errors.FileFormatError:
            found.append(path)
    if not found:
        raise ParameterError("no shard is given")
    twice = [path for path in dict.fromkeys(found) if found.count(path) > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is given twice")
    return found


def place(
    shards: Sequence[str], sizes: Mapping[str, Mapping[str, int]], already: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Deal shards so that workers have about as many bytes each: the largest first, to the one with least so far.

    Args:
        shards: paths.
        sizes: worker -> path -> bytes, of the shards that it can read.
        already: worker -> shards of another data set that it has to read.

    Returns:
        Worker -> its shards, in the order given.
    """
    load = {worker: sum(sizes[worker][path] for path in (already or {}).get(worker, ())) for worker in sizes}
    seen = {path: {worker: known[path] for worker, known in sizes.items() if path in known} for path in shards}
    owner: dict[str, str] = {}
    for path, found in seen.items():
        if not found:
            raise errors.InputError(
                f"{path}: no worker can read it. Workers read their shards themselves, so each must lie where a worker "
                "sees it under this very path"
            )
        (one, size), *others = found.items()
        for other, other_size in others:
            if other_size != size:
                raise errors.InputError(
                    f"{path}: {size:,} bytes on {one}, {other_size:,} on {other}. It must be one file, or have a name "
                    "of its own on each machine"
                )
    for path in sorted(shards, key=lambda path: -max(seen[path].values())):
        owner[path] = min(seen[path], key=lambda worker: load[worker])
        load[owner[path]] += seen[path][owner[path]]
    return {worker: [path for path in shards if owner[path] == worker] for worker in sizes}


def common_space(spaces: Mapping[str, FeatureSpace], known: Mapping[str, Categories]) -> FeatureSpace:
    """Return the features of several files as if they were one: numbered from 0 if 0 occurs in any of them.

    Categories get their codes in the order of the files, after the known ones of a model.
    """
    start, first = next(iter(spaces.items()))
    bases = {space.index_base for space in spaces.values() if space.index_base is not None}
    if not bases:
        for file, space in spaces.items():
            if space.feature_names != first.feature_names:
                name = next(iter(set(space.feature_names) ^ set(first.feature_names)), "their order")
                raise DataError(f"the features of {start} and of {file} differ: {name}")
        return replace(first, categories=_common_categories(spaces.values()) | dict(known))
    base, widths = min(bases), {}
    for file, space in spaces.items():
        names = tuple(space.feature_names)
        if space.index_base is None and names != tuple(default_feature_names(len(names), 1)):
            raise DataError(f"{file} names its features and other files number them: give all one format")
        # A file read as if its first feature had number 1 has one column less.
        widths[file] = len(names) + (base if space.index_base is None else space.index_base) - base
    narrow, width = min(widths, key=lambda file: widths[file]), max(widths.values())
    if widths[narrow] < width:
        errors.warn_user(
            f"{narrow} names {spaces[narrow].n_features:,} features, others up to {width:,}: those that a file does "
            "not name are zero in it",
            DataWarning,
        )
    return replace(first, index_base=base, n_features=width, feature_names=default_feature_names(width, base))


def _common_categories(spaces: Iterable[FeatureSpace]) -> dict[str, Categories]:
    """Feature -> its categories in any file, with the codes that one file of all rows has."""
    found: dict[str, Categories] = {}
    for space in spaces:
        for name, one in space.categories.items():
            before = found.setdefault(name, one)
            if before.values is not None and one.values is not None:
                found[name] = replace(before, values=tuple(dict.fromkeys([*before.values, *one.values])))
    return found


def refuse_shared_queries(shards: Sequence[tuple[str, Shard]]) -> None:
    """Refuse a query in two shards, given with their workers: it would be ranked as two shorter ones."""
    qids, owners = _all_ids([shard for _, shard in shards])
    order = np.argsort(qids, kind="stable")
    again = np.flatnonzero(qids[order][1:] == qids[order][:-1])
    if again.size:
        first, second = sorted(owners[order[again[0] : again[0] + 2]])
        (worker, one), (other, two) = shards[first], shards[second]
        more = f", and {again.size - 1:,} more are in two" if again.size > 1 else ""
        raise DataError(
            f"query {qids[order[again[0]]]} is in {one.path} (on {worker}) and in {two.path} (on {other}){more}: "
            "a shard holds whole queries; `boostrank data shard` cuts a file between them"
        )


def refuse_mixed_weights(shards: Sequence[Shard]) -> None:
    """Refuse weights of queries in one shard and of documents in another: in one data set, all weigh documents."""
    of_documents = next((one.path for one in shards if one.weighs_documents), None)
    of_queries = next((one.path for one in shards if one.weighs_queries), None)
    if of_documents is not None and of_queries is not None:
        raise DataError(
            f"the weights of {of_documents} differ within a query and weigh documents, those of {of_queries} weigh "
            "queries: give all shards the one or the other"
        )


def shared_with_training(training: Sequence[Shard], other: Sequence[Shard]) -> list[Any]:
    """Return query ids of `other` that the training set has as well."""
    ids, owners = _all_ids([*training, *other])
    return list(np.intersect1d(ids[owners < len(training)], ids[owners >= len(training)]))


def _all_ids(shards: Sequence[Shard]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Query ids of all shards, as text if any of them has text; and the number of the shard of each."""
    parts = [shard.qids for shard in shards]
    if any(part.dtype.kind == "O" for part in parts):
        parts = [part.astype(str) for part in parts]
    ids = np.concatenate([np.zeros(0, parts[0].dtype) if parts else np.zeros(0, np.int64), *parts])
    return ids, np.repeat(np.arange(len(shards)), [len(part) for part in parts])
