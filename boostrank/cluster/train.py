"""Client of a training on several workers: shards to workers, work to all of them, rounds to callbacks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from boostrank.cluster.shards import (
    Shard,
    place,
    refuse_differences,
    refuse_mixed_weights,
    refuse_shared_queries,
    refuse_unreachable,
    shared_with_training,
)
from boostrank.cluster.start import PlacedShard, StartMaker
from boostrank.cluster.worker import CLIENT_SILENCE_SECONDS, FitResult, Leave, TrainingTask
from boostrank.cluster.workers import WORKER_TIMEOUT, Launcher, Workers
from boostrank.core.errors import (
    BoostrankError,
    DataError,
    DataWarning,
    FileFormatError,
    InputError,
    ParameterError,
    TrainingError,
    TrainingWarning,
    WorkerLost,
    warn_user,
)
from boostrank.core.files import check_writable, reserved
from boostrank.core.machine import resolve_threads
from boostrank.core.text import count_of
from boostrank.data.arrays import default_feature_names
from boostrank.data.options import FeatureSpace
from boostrank.data.source import matching
from boostrank.engines import get_backend
from boostrank.engines.rounds import Callback, CallbackEnv, EvalResult, StopTraining
from boostrank.fit.params import AUTO_START, LINEAR_START, is_auto
from boostrank.fit.plan import Draft
from boostrank.fit.prepare import with_objective_of
from boostrank.fit.provenance import describe_training
from boostrank.fit.start import cross_fit
from boostrank.fit.start.begin import say_without_start
from boostrank.metric import Conventions
from boostrank.model import constraints
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.records import ModelInfo

_ENGINES = ("xgboost", "lightgbm")
_LAUNCHERS = ("local", "env", "dask", "ray")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a training on several workers.

    Args:
        backend: "xgboost" or "lightgbm".
        init_model: model to continue, or its path.
        callbacks: called here after each round with a `CallbackEnv` that has no model; one that raises `StopTraining`
            ends the training some rounds later.
        conventions: as for `boostrank.train`.
        reading: options of `RankingDataset.read`, `format` among them.
        checkpoint: where the model so far is written, atomically; `init_model` goes on from it, on any number of
            workers.
        checkpoint_every: rounds between two of them; 0 for none.
        start: "linear", "auto" or "none", as for `boostrank.train`. The start is the one that a single machine makes
            of these files; the rows that it is learnt from, tens of thousands, come here.
        tell: called with a line about workers and data before the training starts.
        worker_timeout: seconds without an answer after which a worker is lost. After a quarter of it a warning says
            who is silent.
    """

    backend: str = "xgboost"
    init_model: RankingModel | str | os.PathLike[str] | None = None
    callbacks: Sequence[Callback] = ()
    conventions: Conventions | str | None = None
    reading: Mapping[str, Any] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 0
    start: str | None = AUTO_START
    tell: Callable[[str], None] | None = None
    worker_timeout: float = WORKER_TIMEOUT


@contextlib.contextmanager
def launcher_of(workers: Any) -> Iterator[Launcher]:
    """The launcher that a text names.

    Args:
        workers: `local`, `local:2`, `env`, `dask:tcp://HOST:PORT`, `dask:FILE`, `ray:2`; a `distributed.Client`; or a
            launcher.

    Raises:
        ParameterError: it names none.
        MissingDependency: what it needs is not installed.
        InputError: no cluster answers.
    """
    if not isinstance(workers, str):
        if type(workers).__module__.startswith("distributed."):
            workers = import_module("boostrank.cluster.dask").DaskWorkers(workers)
        yield workers
        return
    kind, _, where = workers.partition(":")
    if kind not in _LAUNCHERS:
        raise ParameterError(f"cluster {workers!r}: it begins with none of {', '.join(_LAUNCHERS)}")
    with import_module(f"boostrank.cluster.{kind}").opened(where) as launcher:
        yield launcher


def train(
    workers: Any,
    params: Mapping[str, Any] | None,
    shards: Sequence[str | os.PathLike[str]] | str,
    num_boost_round: int = 100,
    valid_shards: Any = None,
    valid_names: Sequence[str] | None = None,
    **options: Any,
) -> RankingModel:
    """Train one ranker on several workers.

    Each worker reads some of the shards from its own file system. Bins, trees, the scale of the Hessian, metrics and
    early stopping come from all of them together. The model is that of a single machine but for the bins of XGBoost,
    whose edges are an estimate there and here, for the order of sums, and for the noise of objectives that draw random
    numbers.

    Args:
        workers: "local:2", processes on this machine; "env", the ranks that torchrun, MPI, Slurm or Kubernetes have
            started (every rank makes this call, and gets the model); "dask:tcp://10.0.0.1:8786"; a
            `distributed.Client`; or a `Launcher`.
        params: as for `boostrank.train`, with `early_stopping_round` for early stopping on the first validation set.
        shards: files of whole queries, in a format that `RankingDataset.read` knows, or patterns ("shards/*.txt"), by
            the path that workers know them by.
        num_boost_round: rounds to train.
        valid_shards: files to evaluate on each round; a list of lists for several sets.
        valid_names: names of the sets; `valid_0`, ... by default.
        options: fields of `Options`: `backend`, `init_model`, `callbacks`, `conventions`, `reading`, `checkpoint`,
            `checkpoint_every`, `start`, `tell`, `worker_timeout`.

    Returns:
        The model, as from `boostrank.train`.

    Raises:
        WorkerLost: a worker died or does not answer; the last checkpoint is good.
        InputError, TrainingError: as `boostrank.train`, with the shard or the worker; a query in two shards, a shard
            that no worker can read, workers with different installations.
    """
    training = ClusterTraining(params, num_boost_round, Options(**options))
    paths = _expanded([shards] if isinstance(shards, str | os.PathLike) else shards)
    valid = () if valid_shards is None else valid_shards
    groups: list[Any] = [valid] if isinstance(valid, str | os.PathLike) else list(valid)
    if groups and all(isinstance(one, str | os.PathLike) for one in groups):
        groups = [groups]
    sets = [_expanded([group] if isinstance(group, str | os.PathLike) else list(group)) for group in groups]
    with launcher_of(workers) as launcher:
        return train_by(launcher, training, paths, sets, valid_names)


def train_by(
    launcher: Launcher,
    training: ClusterTraining,
    paths: list[str],
    sets: list[list[str]],
    valid_names: Sequence[str] | None = None,
) -> RankingModel:
    """Train on the workers of a launcher.

    Args:
        launcher: starts the workers.
        training: what to train.
        paths: shards, as workers know them.
        sets: of each validation set.
        valid_names: as for `train`.
    """
    names = [*(valid_names or []), *(f"valid_{i}" for i in range(len(valid_names or []), len(sets)))]
    if len(names) != len(sets) or len(set(names)) < len(names):
        raise ParameterError(f"valid_names must be distinct, one for each of the {len(sets)} sets")
    if getattr(launcher, "rank", 0):
        return _served(launcher)
    checkpoint, tell = training.options.checkpoint, training.options.tell
    if checkpoint is not None:
        check_writable(checkpoint)
    workers, last = Workers(launcher, training.options.worker_timeout), Leave(error="the training was given up")
    with contextlib.nullcontext() if checkpoint is None else reserved(checkpoint):
        try:
            training.prepare(workers, paths, sets)
            if tell is not None:
                tell(training.inventory)
            model = training.run(names)
            if hasattr(launcher, "rank"):
                last = Leave(model=file_of(model))
            return model
        except BoostrankError as error:
            last = Leave(error=f"{type(error).__name__}: {error}")
            raise
        finally:
            workers.release(last)


def _served(launcher: Any) -> RankingModel:
    """The model, on a rank that has only served."""
    last = launcher.serve()
    if not last.model:
        raise WorkerLost(f"the first rank has ended the training: {last.error or 'this one had no shard'}")
    return model_of(last.model)


def model_of(files: Sequence[bytes]) -> RankingModel:
    """The model in a file and the one beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        for ending, body in zip(("", ".meta.json"), files, strict=True):
            with open(f"{path}{ending}", "wb") as file:
                file.write(body)
        return RankingModel.load(path)


def file_of(model: RankingModel) -> tuple[bytes, bytes]:
    """The model's file, and the one beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save(path)
        found = []
        for ending in ("", ".meta.json"):
            with open(f"{path}{ending}", "rb") as file:
                found.append(file.read())
    return found[0], found[1]


class ClusterTraining:
    """One training from the first word to the workers to the model.

    Args:
        params, rounds, options: as for `train`.

    Raises:
        ParameterError: something that cannot be done on several workers.
    """

    def __init__(self, params: Mapping[str, Any] | None, rounds: int, options: Options) -> None:
        if not options.worker_timeout > 0:
            raise ParameterError(f"worker_timeout={options.worker_timeout!r} must be above 0 seconds")
        if options.checkpoint_every and options.checkpoint is None:
            raise ParameterError("checkpoint_every needs checkpoint=, where the models go")
        init_model, conventions, start = options.init_model, options.conventions, options.start
        self.options, self._params = options, dict(params or {})
        self._started = time.perf_counter()
        self._engine = get_backend(options.backend)
        if self._engine.name not in _ENGINES:
            raise ParameterError(f"backend={options.backend!r}: workers of a cluster train {' or '.join(_ENGINES)}")
        self._together = import_module(f"boostrank.engines.{self._engine.name}.workers")
        if isinstance(init_model, str | os.PathLike):
            init_model = RankingModel.load(init_model)
        self._init_model = init_model
        draft = Draft(
            engine=self._engine,
            params=with_objective_of(init_model, self._params),
            rounds=rounds,
            conventions=conventions,
        )
        self._given, self._rules = draft.settings, draft.rules
        if self._given.function is not None:
            raise ParameterError("a callable of your own cannot travel to the workers: name an objective")
        objective = self._given.objective
        if objective is not None and any("source" in part.to_dict() for part in objective.parts):
            raise ParameterError(
                f"objective {objective.name!r} stands in a file of your own, which the workers do not have: train with "
                "it on one machine"
            )
        if self._given.stopping_rounds and "dart" in map(str, self._given.engine.values()):
            raise ParameterError("early stopping does not go with dart: later rounds rescale earlier trees")
        self._together.check_params(self._given.engine)
        if init_model is not None and init_model.backend != self._engine.name:
            raise ParameterError(
                f"a model of {init_model.backend} cannot be continued by {self._engine.name}, which trains here"
            )
        if init_model is not None and init_model.within_query is not None:
            raise ParameterError(
                f"the model that is continued has {init_model.within_query.words()}, and workers of a cluster do not "
                "compute columns within queries: continue it on one machine"
            )
        self._start: Any = None
        """The booster of the start alone."""
        self._description: dict[str, Any] = {}
        if init_model is not None:
            self._start = self._together.start_of(init_model.booster)
        self._maker: StartMaker | None = None
        self._start_asked = self._checked(start)
        self._before = 0 if init_model is None else init_model.best_iteration
        if objective is not None and objective.total_rounds is None:
            objective = objective.over(self._before + self._given.rounds)
        self._objective = objective
        self._shards: list[tuple[str, Shard]] = []
        self._space = FeatureSpace(1, 0)
        self._news: list[Any] = []
        self._saved = 0

    def prepare(self, workers: Workers, paths: list[str], sets: list[list[str]]) -> None:
        """Find workers, read every shard, and refuse what would not go well."""
        reading, self._workers = dict(self.options.reading or {}), workers
        workers.start()
        paths = paths or workers.held("training")
        sets = [group or workers.held("validation") for group in sets]
        everything = [*paths, *(path for group in sets for path in group)]
        sizes = {
            workers.info[r].name: found
            for r, found in zip(workers.ranks, workers.ask("sizes", everything), strict=True)
        }
        training = place(paths, sizes)
        takers = sizes
        if self._together.NEEDS_ROWS:
            takers = {a: found for a, found in sizes.items() if training[a]}
        validation = [place(group, takers, training) for group in sets]
        ranks = [r for r in workers.ranks if training[a := workers.info[r].name] or any(g.get(a) for g in validation)]
        workers.keep(ranks)
        used = [workers.info[r].name for r in ranks]
        refuse_unreachable({workers.info[r].name: workers.info[r].host for r in ranks})
        agreed = {
            "parameters": self._given.engine,
            "the objective": self._objective.to_dict() if self._objective else self._given.native_objective,
            "the number of rounds": self._given.rounds,
        }
        reports = workers.work("read", [(training[a], reading, agreed) for a in used])
        refuse_differences({address: report[0] for address, report in zip(used, reports, strict=True)})
        self._shards = [(a, shard) for a, report in zip(used, reports, strict=True) for shard in report[1]]
        refuse_shared_queries(self._shards)
        refuse_mixed_weights([shard for _, shard in self._shards])
        if any(shard.weighs_documents for _, shard in self._shards):
            self._given.check_document_weights()
            if self._objective is not None and self._start_asked == LINEAR_START:
                self._objective.check_gain_weights("the linear start", "start='none' leaves it out")
        self._space = _space_of([shard for _, shard in self._shards])
        model, space = self._init_model, self._space
        if model is not None and (model.n_features, model.index_base or space.index_base) != (
            space.n_features,
            space.index_base,
        ):
            raise DataError(
                f"the model that is continued has {model.n_features} features numbered from {model.index_base}, the "
                f"shards {space.n_features} from {space.index_base}"
            )
        broken = model and constraints.broken(self._engine, model._booster, self._given.engine, space.feature_names)
        if broken:
            raise ParameterError(f"the model that is continued does not go with these parameters: {broken}")
        if self._start_asked is not None and self._can_start(self._start_asked):
            placed = [
                PlacedShard(a, i, shard)
                for a, report in zip(used, reports, strict=True)
                for i, shard in enumerate(report[1])
            ]
            placed.sort(key=lambda one: paths.index(one.shard.path))
            self._maker = StartMaker(placed, space.feature_names)
        validation_work = [(self._space, [group[address] for group in validation], reading) for address in used]
        validation_reports = workers.work("read_validation", validation_work)
        for i in range(len(sets)):
            of_set = [(a, shard) for a, report in zip(used, validation_reports, strict=True) for shard in report[i]]
            refuse_shared_queries(of_set)
            both = shared_with_training([s for _, s in self._shards], [s for _, s in of_set])
            if both:
                text = f"{', '.join(sets[i])}: {len(both):,} query ids are also in the training data (one: {both[0]})"
                if reading.get("strict"):
                    raise DataError(text)
                warn_user(text, DataWarning)
        meeting = [(self._engine.name, rank, len(ranks)) for rank in range(len(ranks))]
        self._meeting = workers.work("meet", meeting)

    @property
    def inventory(self) -> str:
        """Workers and data in one line."""
        workers = [self._workers.info[rank] for rank in self._workers.ranks]
        shards = [shard for _, shard in self._shards]
        start = ""
        if self._start is not None:
            start = "; the model goes on from a linear start"
        elif self._maker is not None:
            start = f"; the model begins with a linear start, learnt here from {self._maker.learnt_from:,} of the rows"
        return (
            f"{count_of(len(workers), 'worker')} with {count_of(sum(info.threads for info in workers), 'thread')} on "
            f"{count_of(len({info.host for info in workers}), 'machine')}: {count_of(len(shards), 'shard')}, "
            f"{sum(shard.rows for shard in shards):,} rows, {sum(len(shard.qids) for shard in shards):,} queries, "
            f"{self._space.n_features:,} features{start}"
        )

    def run(self, names: list[str]) -> RankingModel:
        """Train; callbacks and the checkpoint follow meanwhile."""
        checkpoint = self.options.checkpoint
        given, objective = self._given, self._objective
        if given.stopping_rounds and not names:
            raise ParameterError("early stopping needs validation shards")
        if self._maker is not None:
            limits = self._engine.params.limits(given.engine, self._space.feature_names)
            made = self._maker.make(self._workers, given.gain, resolve_threads(given.threads), limits)
            self._start, self._description = self._engine.begin_with(made[0]), made[1]
        init = b""
        if self._init_model is not None:
            init = self._init_model._booster.to_bytes(self._before)
        elif self._start is not None:
            init = self._start.to_bytes()
        if self._start is not None:
            begin = (self._engine.name, self._start.to_bytes(), self._space.n_features)
            self._workers.work("begin_rows", [begin for _ in self._workers.ranks])
        task = TrainingTask(
            self._engine.name,
            replace(given, objective=objective),
            self._rules,
            self._space.feature_names,
            tuple(names),
            init,
            self.options.checkpoint_every,
        )
        ordered = sorted(self.options.callbacks, key=lambda callback: getattr(callback, "order", 0))

        def listen(news: list[Any], model: tuple[int, bytes] | None) -> None:
            self._news += news
            for iteration, begin, end, results in news:
                found = [EvalResult(*result) for result in results]
                env = CallbackEnv(None, self._given.engine, iteration, begin, end, found)
                for callback in ordered:
                    try:
                        callback(env)
                    except StopTraining:  # after the round that is under way
                        self._workers.stop = True
            if model is not None and checkpoint is not None:
                self._save_so_far(*model, checkpoint)

        work = [(rank, self._meeting, task) for rank in range(len(self._workers.ranks))]
        try:
            results: list[FitResult] = self._workers.work("fit", work, listen, self._when)
        except WorkerLost as error:
            left = self._before + given.rounds - self._saved
            where = f"; {checkpoint} holds the first {self._saved} rounds, continue it for {left} more"
            raise WorkerLost(f"{error}{where if self._saved else ''}") from error
        if len({result.checksum for result in results}) > 1:
            raise TrainingError("the workers ended with different models: none of them is to be trusted")
        if results[0].stopped and not self._workers.stop:
            warn_user(
                f"the workers had not heard of this process for {CLIENT_SILENCE_SECONDS:.0f} seconds and ended "
                f"the training{self._when()} of {self._before + given.rounds}: was it suspended?",
                TrainingWarning,
            )
        return self._model(results)

    def _checked(self, start: str | None) -> str | None:
        """Which start is to be made, None for none.

        Raises:
            ParameterError: one that cannot be made here.
        """
        if start not in (None, "none", AUTO_START, LINEAR_START):
            raise ParameterError(f"start={start!r}: on a cluster it is {LINEAR_START!r}, {AUTO_START!r} or 'none'")
        if self._init_model is not None and start == LINEAR_START:
            raise ParameterError("a model that is continued has its own start: give init_model or start, not both")
        if self._init_model is not None and start == AUTO_START:
            named = with_objective_of(self._init_model, self._params)
            say_without_start(self._engine, self._init_model._booster, named)
        wanted = start == LINEAR_START or (start == AUTO_START and is_auto(self._params, self._engine.name))
        return start if wanted and self._init_model is None else None

    def _can_start(self, start: str) -> bool:
        """Whether it can be made; `auto` says why not."""
        reason = self._engine.params.unstartable(self._given.engine)
        if self._space.n_features > cross_fit.MOST_FEATURES:
            reason = f"{self._space.n_features:,} features are more than the {cross_fit.MOST_FEATURES:,} it takes"
        if reason and start == LINEAR_START:
            raise ParameterError(f"no linear start on this cluster: {reason}; start='none' leaves it out")
        if reason:
            warn_user(f"auto begins without its linear start here: {reason}", DataWarning)
        return reason is None

    def _when(self) -> str:
        return f" after round {len(self._news) + self._before}"

    def _save_so_far(self, rounds: int, body: bytes, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint; where that fails, the old one stays and the training goes on."""
        history: dict[str, dict[str, list[float]]] = {}
        for iteration, _, _, results in self._news:
            if iteration < rounds:
                for name, metric, value, *_ in results:
                    history.setdefault(name, {}).setdefault(metric, []).append(value)
        booster = self._together.with_start(self._start, self._engine.load(body))
        model = RankingModel(booster, info=self._info(), evals_result=history)
        try:
            model.save(path, num_iteration=0)
        except TrainingError as error:
            warn_user(f"{error}. The training goes on; the next checkpoint may fit again", TrainingWarning)
            return
        self._saved = rounds

    def _info(self) -> ModelInfo:
        shards = [shard for _, shard in self._shards]
        info = describe_training(
            self._engine,
            self._given,
            self._objective,
            self._rules,
            {},
            self._before,
            self._params,
        )
        digest = hashlib.blake2b("".join(sorted(shard.fingerprint for shard in shards)).encode(), digest_size=16)
        data = {
            "absent": "zero",
            "files": [shard.path for shard in sorted(shards, key=lambda shard: shard.path)],
            "rows": sum(shard.rows for shard in shards),
            "queries": sum(len(shard.qids) for shard in shards),
            "index_base": self._space.index_base,
            "features": self._space.n_features,
            "feature_names": list(self._space.feature_names),
            "fingerprint": digest.hexdigest(),
        }
        info = info | {"start": self._description} if self._description else info
        return info | {"data": data, "training": {**info["training"], "workers": len(self._workers.ranks)}}

    def _model(self, results: Sequence[FitResult]) -> RankingModel:
        first = results[0]
        booster = self._engine.load(first.model).finished({})
        info = self._info()
        rounds, data = booster.rounds, info["data"]
        summary = TrainingSummary(
            rows=data["rows"],
            queries=data["queries"],
            dead_queries=first.dead_queries,
            rounds=rounds,
            best_round=first.best_rounds or rounds,
            seconds=time.perf_counter() - self._started,
            kernel_seconds=max(result.kernel_seconds for result in results),
            metric_seconds=max(result.metric_seconds for result in results),
        )
        return RankingModel(
            booster, best_rounds=first.best_rounds, info=info, evals_result=first.history, summary=summary
        )


def _space_of(shards: Sequence[Shard]) -> FeatureSpace:
    """The features of all shards together, as if they were one file: numbered from 0 if 0 occurs in any of them.

    Raises:
        DataError: features with names that are not those of the first shard, or categories.
    """
    if not shards:
        raise InputError("there is no training shard")
    first = shards[0]
    coded = next((shard for shard in shards if shard.categories), None)
    if coded is not None:
        raise DataError(
            f"{coded.path}: column {coded.categories[0]!r} has categories, which have no common codes on several "
            "workers: train on one machine, or give the codes as numbers"
        )
    bases = {shard.index_base for shard in shards if shard.index_base is not None}
    table = next((shard for shard in shards if shard.index_base is None), None)
    if bases and table is not None and table.rows and table.names != default_feature_names(len(table.names), 1):
        raise DataError(f"{table.path} names its features and other shards number them: give all of them one format")
    if not bases and any(shard.names for shard in shards):
        for shard in shards:
            if shard.names != first.names:
                name = next(iter(set(shard.names) ^ set(first.names)), "their order")
                raise DataError(f"the features of {first.path} and of {shard.path} differ: {name}")
        return FeatureSpace(None, len(first.names), first.names)
    base = min(bases, default=1)
    # A shard read as if its first feature had number 1 has one column less.
    width = max(len(shard.names) + ((shard.index_base or base) - base) for shard in shards)
    narrow = min(shards, key=lambda shard: len(shard.names))
    if len(narrow.names) < width:
        warn_user(
            f"{narrow.path} names {len(narrow.names):,} features, others up to {width:,}: those that a shard does not "
            "name are zero in it",
            DataWarning,
        )
    return FeatureSpace(base, width, default_feature_names(width, base))


def _expanded(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Absolute paths; patterns as they match here, or as they stand for the workers to say that they cannot read."""
    found: list[str] = []
    for path in map(os.path.abspath, paths):
        try:
            found += matching(path)
        except FileFormatError:
            found.append(path)
    if not found:
        raise ParameterError("no shard is given")
    twice = [path for path in dict.fromkeys(found) if found.count(path) > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is given twice")
    return found
