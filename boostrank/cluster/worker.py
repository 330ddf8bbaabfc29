"""A worker of one training: it reads its shards, describes them, and trains in step with the others.

`serve` is its whole life, whatever has started it. The client asks for methods of `Worker` by name. Those in `_ANSWERS`
answer at any time; those in `_WORK` are the work, one after the other.
"""

from __future__ import annotations

import contextlib
import copy
import os
import platform
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from boostrank.cluster.channel import Call, Link, Mesh, connect
from boostrank.cluster.rows import ShardRows, Stacked, queries_of, rows_of
from boostrank.cluster.shards import Shard
from boostrank.core.errors import BoostrankError, DataError, DataWarning, TrainingError, TrainingWarning, WorkerLost
from boostrank.core.gains import weighted_gains
from boostrank.core.machine import openmp_environment
from boostrank.core.queries import QueryIndex, as_text
from boostrank.core.types import Float64Array, Int64Array
from boostrank.engines.base import LostContact

if TYPE_CHECKING:
    from boostrank.cluster.rows import Span
    from boostrank.core.gains import Gain
    from boostrank.data.dataset import RankingDataset
    from boostrank.data.options import FeatureSpace
    from boostrank.fit.params import TrainingParameters
    from boostrank.fit.start.cross_fit import Regressions
    from boostrank.metric import Conventions
    from boostrank.objective.description import TrainingObjective

# A client that has not been heard of for so long is gone: the training ends, and the worker is free.
CLIENT_SILENCE_SECONDS = 60.0
_LEAVING_SECONDS = 10.0  # for work that is under way when the client leaves
_ANSWERS = frozenset({"sizes", "heartbeat"})
_WORK = frozenset({"meet", "read", "read_validation", "send_rows", "begin_training_rows", "begin_rows", "fit"})
# Added to the seed for each worker: the noise on its queries is its own. Above every seed that people choose, and
# away from those that `kernels.objective.options` derives from them.
_SEEDS_APART = 1 << 42


class WorkerFailed(Exception):
    """Another worker has failed and says what was wrong; this one has nothing to add."""


@dataclass(frozen=True)
class Hello:
    """A worker's first words to the client.

    Args:
        rank: among the workers of the training.
        name: its address.
        host: name of its machine.
        threads: that it may use.
        versions: package -> version.
        held: names of the data sets in memory.
    """

    rank: int
    name: str
    host: str
    threads: int
    versions: Mapping[str, str]
    held: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """A piece of work that succeeded: its value, and warnings on the way."""

    value: Any
    warnings: tuple[tuple[type[Warning], str], ...]


@dataclass(frozen=True)
class Failed:
    """A piece of work that failed: the error to raise on the client; secondary if another worker failed first."""

    error: BoostrankError
    secondary: bool = False


@dataclass(frozen=True)
class Leave:
    """The client's last words.

    Args:
        model: file of the model, and the one beside it, where ranks want it; empty where there is none.
        error: why there is none.
    """

    model: tuple[bytes, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class TrainingTask:
    """A training, as every worker is given it.

    Args:
        engine: its name.
        parameters: the objective knows the length of the whole training; no threads unless the user chose them.
        conventions: of the metrics.
        feature_names: of the training set.
        valid_names: of the validation sets.
        init_model: model file to continue, or a start alone, whose scores the workers know; empty for none.
        checkpoint_every: rounds between models for the client; 0 for none.
    """

    engine: str
    parameters: TrainingParameters
    conventions: Conventions
    feature_names: tuple[str, ...]
    valid_names: tuple[str, ...]
    init_model: bytes
    checkpoint_every: int


@dataclass(frozen=True)
class FitResult:
    """Result of a worker's training.

    Args:
        model: the model file, from the first worker; else empty.
        checksum: of every worker's model: they must be the same.
        best_rounds: rounds to use, 0 for all.
        history: data set -> metric -> value each round.
        stopped: the training ended early because the client asked.
        dead_queries: of all workers, in the last round; None with an engine's own objective.
        kernel_seconds, metric_seconds: of this worker.
        rounds_seen: rounds for which this worker's objective was called, in order.
    """

    model: bytes
    checksum: int
    best_rounds: int
    history: dict[str, dict[str, list[float]]]
    stopped: bool
    dead_queries: int | None
    kernel_seconds: float
    metric_seconds: float
    rounds_seen: tuple[int, ...]


def serve(
    call: Call,
    rank: int,
    threads: int,
    held: Mapping[str, RankingDataset] | None = None,
    *,
    exclusive: bool = True,
    patience: float = 60.0,
) -> Leave:
    """Work for a client until it leaves.

    Args:
        call: where the client is.
        rank: of this worker, below the number of workers.
        threads: that it may use.
        held: name -> data set, of data in memory that are shards of this worker.
        exclusive: whether the process ends with the training: it then does even where a sum over all workers hangs.
        patience: seconds in which the client must answer.

    Returns:
        The client's last words.

    Raises:
        WorkerLost: the client is gone.
        OSError: nobody answers there.
    """
    for name, value in openmp_environment().items():  # read once, when an engine is loaded
        os.environ.setdefault(name, value)
    link = connect(call, patience)
    worker = Worker(link.name, link.host, call.key, threads, held or {})
    last: Leave | None = None
    try:
        link.send(Hello(rank, link.name, platform.node(), threads, versions(), tuple(held or ())))
        while last is None:
            number, name, arguments = link.receive()
            worker.last_contact = time.monotonic()
            if name == "leave":
                (last,) = arguments
            elif name in _ANSWERS | _WORK:
                # Work has a thread of its own: the worker answers beside it, and a cluster's profiler that looks at
                # the stacks of its threads does not slow down numba's compiler.
                threading.Thread(target=_answer, args=(worker, link, number, name, arguments), daemon=True).start()
    except (EOFError, OSError):
        pass
    finally:
        worker.leave()
        link.close()
        if not worker.idle.wait(_LEAVING_SECONDS) and exclusive:
            os._exit(1)
    if last is None:
        raise WorkerLost(f"the client at {call.address[0]}:{call.address[1]} is gone")
    return last


def versions() -> dict[str, str]:
    """Versions that must be the same wherever a training runs."""
    import boostrank

    found = {"boostrank": boostrank.__version__}
    for package in ("xgboost", "xgboost-cpu", "lightgbm", "numpy", "numba"):
        with contextlib.suppress(PackageNotFoundError):
            found[package.removesuffix("-cpu")] = version(package)
    return found


def _answer(worker: Worker, link: Link, number: int, name: str, arguments: Sequence[Any]) -> None:
    """Answer a question of the client; errors and warnings of the work as values."""
    method = getattr(worker, name)
    value = worker.reported(method, arguments) if name in _WORK else method(*arguments)
    try:
        link.send((number, value))
    except OSError:
        pass  # the client is gone, which `serve` sees
    except Exception as error:  # it cannot be pickled
        link.send((number, Failed(TrainingError(f"worker {worker.name}: {error}"))))


class Worker:
    """A worker's part in one training, as long as the training lasts.

    Args:
        name: of this worker, for messages.
        host: address by which the other workers reach it.
        key: of the training.
        threads: that it may use.
        held: name -> data set, of data in memory.

    Attributes:
        idle: set while it has no work.
        last_contact: when the client was heard of, by the monotonic clock.
        stop: whether the client has asked to end the training.
    """

    def __init__(self, name: str, host: str, key: bytes, threads: int, held: Mapping[str, RankingDataset]) -> None:
        self.name, self.threads = name, threads
        self.idle, self.last_contact, self.stop = threading.Event(), time.monotonic(), False
        self.idle.set()
        self._host, self._key, self._held, self._left = host, key, dict(held), False
        self._paths: tuple[str, ...] = ()
        self._training: list[RankingDataset] = []
        self._validation: list[list[RankingDataset]] = []
        self._scores: list[Float64Array] = []  # what the rows of each set begin with: of the training set, then others
        self._news: list[Any] = []  # of each round so far: (round, first, last, metrics), on the first worker
        self._checkpoint: tuple[int, bytes] | None = None
        self._tracker: Any = None
        self._mesh: Mesh | None = None

    @property
    def abandoned(self) -> bool:
        """Whether the client is gone."""
        return self._left or time.monotonic() - self.last_contact > CLIENT_SILENCE_SECONDS

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Bytes of each shard that this worker can read; of data in memory, rows."""
        found = {path: os.path.getsize(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)}
        return found | {path: self._held[path].n_documents for path in paths if path in self._held}

    def heartbeat(self, seen: int, checkpoint: int, stop: bool) -> tuple[list[Any], tuple[int, bytes] | None]:
        """What is new for the client: rounds, and the latest model.

        Args:
            seen: rounds that the client knows of.
            checkpoint: round of the last model that it has.
            stop: whether the training shall end after this round.
        """
        self.stop = self.stop or stop
        found = self._checkpoint
        return self._news[seen:], found if found and found[0] > checkpoint else None

    def leave(self) -> None:
        """The training is over, or given up."""
        self._left = self.stop = True
        for one in (self._tracker, self._mesh):
            if one is not None:
                one.close()

    def reported(self, work: Callable[..., Any], arguments: Sequence[Any]) -> Done | Failed:
        """Do some work; errors and warnings are values, so that the client finds the one that is the cause."""
        self.idle.clear()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("ignore")
                warnings.simplefilter("always", DataWarning)
                warnings.simplefilter("always", TrainingWarning)
                value = work(*arguments)
        except BoostrankError as error:
            kind = DataError if isinstance(error, DataError) else type(error)  # which takes a message alone
            # Errors of reading name the file.
            return Failed(kind(f"{'' if work.__name__.startswith('read') else self._where()}{error}"))
        except WorkerFailed:
            return Failed(TrainingError("another worker failed"), secondary=True)
        except LostContact as error:
            return Failed(TrainingError(str(error).partition("\n")[0] or "lost contact"), secondary=True)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"
            failure = TrainingError(f"{self._where()}{reason}")
            failure.add_note(f"On the worker: {traceback.format_exc()}")
            return Failed(failure)
        finally:
            self.idle.set()
        return Done(value, tuple((w.category, str(w.message)) for w in caught))

    def meet(self, engine: str, rank: int, workers: int) -> Any:
        """What all workers must know of this one to find it in a training by this engine."""
        found = _workers_of(engine)
        if not found.NEEDS_MESH:
            self._tracker = found.Tracker(workers, self._host) if rank == 0 else None
            return None if self._tracker is None else self._tracker.arguments
        self._mesh = Mesh(self._host, self._key)
        return self._mesh.address

    def read(self, paths: Sequence[str], options: Mapping[str, Any], agreed: Mapping[str, Any]) -> Any:
        """Read this worker's training shards.

        Args:
            paths: its shards.
            options: of the reader.
            agreed: parameters of the training; they come back as this worker understood them.
        """
        self._paths = tuple(paths)
        self._training = [self._read(path, options) for path in paths]
        return {name: str(value) for name, value in agreed.items()}, [_found(part) for part in self._training]

    def read_validation(self, space: FeatureSpace, valid: Sequence[Sequence[str]], options: Mapping[str, Any]) -> Any:
        """Read the validation shards, and once more each training shard that does not name every feature by itself."""
        self._training = [
            part
            if (part.provenance.index_base, part.n_features) == (space.index_base, space.n_features)
            else self._read(part.provenance.files[0], options, like=space)
            for part in self._training
        ]
        self._validation = [[self._read(path, options, like=space) for path in paths] for paths in valid]
        return [[_found(part) for part in parts] for parts in self._validation]

    def send_rows(self, wanted: Sequence[Span], gain: Gain) -> Any:
        """(features, gains) of some rows of this worker's training shards."""
        gains = [weighted_gains(part.labels, gain, part.queries) for part in self._training]
        return rows_of(self._training, gains, wanted)

    def begin_training_rows(self, start: Regressions, fold: Int64Array, columns: int) -> Any:
        """Find where this worker's training rows begin; how many of them are in each step of the start.

        Args:
            start: as it was learnt.
            fold: int64[q], of this worker's queries.
            columns: features of the data.
        """
        features = self._stacked(self._training, columns)
        rows = ShardRows(queries_of([_found(part) for part in self._training]), (), features)
        scores, counts = start.scores(rows, fold, self.threads)
        self._scores = [scores]
        return counts

    def begin_rows(self, engine: str, start: bytes, columns: int) -> None:
        """Find where the rows of all other sets begin, or of all sets where nobody has yet.

        Args:
            engine: its name.
            start: model file of the start alone.
            columns: features of the data.
        """
        from boostrank.engines import get_backend
        from boostrank.engines.base import Wanted

        found = get_backend(engine)
        booster = found.load(start)
        for parts in [self._training, *self._validation][len(self._scores) :]:
            scores = booster.predict(self._stacked(parts, columns), Wanted(threads=self.threads))
            # An engine that takes no empty set has a row in it.
            self._scores.append(scores if parts or not _workers_of(engine).NEEDS_ROWS else np.zeros(1))

    def fit(self, rank: int, meeting: Sequence[Any], task: TrainingTask) -> FitResult:
        """Train in step with the others: the same loop as on a single machine, with sums over all workers.

        Args:
            rank: of this worker.
            meeting: what each worker has said when it was asked to `meet`, by rank.
            task: the same for all.

        Raises:
            WorkerFailed: another worker failed.
            TrainingError, DataError: as `boostrank.train`.
        """
        from boostrank.engines import get_backend
        from boostrank.engines.base import TrainRequest
        from boostrank.engines.rounds import Callback
        from boostrank.fit.callbacks import History, StopWhenAsked
        from boostrank.fit.run import stopping

        engine, given = get_backend(task.engine), task.parameters
        params = {"num_threads": self.threads} | engine.params.of_columns(given.engine, task.feature_names)
        with _workers_of(task.engine).member(meeting, rank, self._mesh) as member:
            collective = Collective(member.all_reduce)
            weighted = given.native_objective is not None
            sets: dict[int, tuple[Float64Array, QueryIndex]] = {}

            def binned(parts: list[RankingDataset], reference: Any) -> Any:
                known, features = labels_of(parts), self._stacked(parts, len(task.feature_names))
                weights = weighted and reference is None
                matrix = member.bins_of(
                    features, *known, task.feature_names, params, reference=reference, weights=weights
                )
                sets[id(matrix)] = known
                return matrix

            train = binned(self._training, None)
            valid = [
                (name, binned(parts, train)) for name, parts in zip(task.valid_names, self._validation, strict=True)
            ]
            self._training, self._validation = [], []  # they are in bins now
            if not valid:
                valid = [("training", train)]
            threads = params["num_threads"]
            gradient = None
            if given.objective is not None:
                gradient = _Gradient(_seeded(given.objective, rank, threads), sets[id(train)], collective)
            metrics = _metrics(collective, given.metrics, lambda matrix: sets[id(matrix)], task.conventions, threads)
            history = History()
            # Every worker stops early by itself: they see the same values, and so decide alike.
            stopper: Any = stopping(given, given.objective, 0, valid, train, ())[0]
            request = _StopRequest(self, collective)
            stop = StopWhenAsked(request)
            stop.watch(stopper)
            callbacks: list[Callback] = [history, stop, *([] if stopper is None else [stopper])]
            if rank == 0:
                callbacks.append(_Publish(self, engine, task.checkpoint_every))
            wanted = TrainRequest(
                params=params | member.params,
                train=train,
                valid=valid,
                rounds=given.rounds,
                gradient=gradient,
                native_objective=given.native_objective,
                metrics=[metrics] if metrics else [],
                init_model=engine.load(task.init_model) if task.init_model else None,
                callbacks=callbacks,
                start_scores=self._scores,
            )
            with member.contact():
                booster, best = engine.train(wanted)
        body = booster.to_bytes()
        stats = None if gradient is None else gradient.guarded.stats
        return FitResult(
            model=body if rank == 0 else b"",
            checksum=zlib.crc32(body),
            best_rounds=best,
            history=history.values,
            stopped=request.heeded,
            dead_queries=None if stats is None else stats.dead_queries,
            kernel_seconds=0.0 if gradient is None else gradient.guarded.seconds,
            metric_seconds=metrics.seconds,
            rounds_seen=() if gradient is None else tuple(gradient.rounds),
        )

    def publish(self, round: int, first: int, last: int, results: list[Any], model: bytes | None) -> None:
        """Keep for the client: the metrics of a round, and the model so far."""
        if model is not None:
            self._checkpoint = round + 1, model
        self._news.append((round, first, last, results))

    @staticmethod
    def _stacked(parts: Sequence[RankingDataset], columns: int) -> Stacked:
        return Stacked([part.features for part in parts], columns)

    def _where(self) -> str:
        """This worker and its shards, as the beginning of a message."""
        more = len(self._paths) - 3
        shards = ", ".join(self._paths[:3]) + (f" and {more} more" if more > 0 else "")
        return f"worker {self.name}{f' ({shards})' if shards else ''}: "

    def _read(self, path: str, options: Mapping[str, Any], like: FeatureSpace | None = None) -> RankingDataset:
        from boostrank.data.assemble import read_files
        from boostrank.data.spill import stream_files

        if path in self._held:
            part = self._held[path]
            return replace(part, provenance=replace(part.provenance, files=(path,)))
        options = {**options, "like": like, "threads": self.threads}
        try:
            if options.get("regroup"):  # rows on disk cannot be moved
                return read_files(path, **options)
            return stream_files(path, cache=False, **options)
        except BoostrankError:
            raise
        except Exception as error:
            raise TrainingError(f"{path} on worker {self.name}: {type(error).__name__}: {error}") from error


@dataclass
class Collective:
    """The workers of one training.

    A worker that fails by itself would leave the others waiting for it. So before they exchange anything they tell each
    other whether all is well, and stop together if it is not.

    Args:
        sums: sums of float64 arrays over all workers; every one of them must call it, in the same order. Raises
            `LostContact` where one does not answer.
    """

    sums: Callable[[Float64Array], Float64Array] = field(repr=False)

    def all_reduce(self, sums: Float64Array) -> Float64Array:
        """The sums over all workers.

        Raises:
            WorkerFailed: one of them has failed.
        """
        self._synchronise(failed=False)
        return self.sums(np.asarray(sums, dtype=np.float64))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is done in here succeeds on all workers or on none.

        Raises:
            WorkerFailed: it failed on another one.
        """
        try:
            yield
        except (WorkerFailed, LostContact):
            raise  # everybody knows already
        except Exception:
            with contextlib.suppress(WorkerFailed):
                self._synchronise(failed=True)
            raise
        self._synchronise(failed=False)

    def _synchronise(self, *, failed: bool) -> None:
        if self.sums(np.array([float(failed)]))[0]:
            raise WorkerFailed


def labels_of(parts: Sequence[RankingDataset]) -> tuple[Float64Array, QueryIndex]:
    """Labels and queries of several shards, one behind the other."""
    labels = np.concatenate([np.zeros(0), *(part.labels for part in parts)])
    sizes = np.concatenate([np.zeros(0, np.int64), *(part.queries.sizes for part in parts)])
    qids = [part.queries.qid for part in parts]
    if any(ids.dtype.kind == "O" for ids in qids):
        qids = [as_text(ids) for ids in qids]
    weights = None
    if any(part.queries.weights is not None for part in parts):
        weights = np.concatenate([p.queries.each_weight for p in parts])
    each = None
    if any(part.document_weights is not None for part in parts):
        each = np.concatenate([p.queries.each_document_weight for p in parts])
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.concatenate(qids) if qids else np.zeros(0, np.int64)
    return labels, QueryIndex(ptr, ids, weights, document_weights=each)


def _workers_of(engine: str) -> Any:
    """How workers of this engine find each other and share their bins."""
    return import_module(f"boostrank.engines.{engine}.workers")


def _found(part: RankingDataset) -> Shard:
    return Shard(
        part.provenance.files[0],
        part.provenance.index_base,
        tuple(part.feature_names),
        part.n_documents,
        part.queries.qid,
        part.fingerprint,
        part.queries.sizes,
        part.queries.weights,
        part.document_weights is not None,
        tuple(part.categories),
    )


def _seeded(objective: TrainingObjective, rank: int, threads: int) -> TrainingObjective:
    """A copy of the objective for this worker."""
    objective = copy.deepcopy(objective)
    objective.threads = threads
    for part in objective.parts:
        for values in (part.params, part.options):
            if "seed" in values:
                values["seed"] = int(values["seed"]) + rank * _SEEDS_APART
    return objective


class _Gradient:
    """The objective over this worker's queries; it fails on all workers or on none."""

    def __init__(
        self, objective: TrainingObjective, data: tuple[Float64Array, QueryIndex], collective: Collective
    ) -> None:
        from boostrank.fit.gradient import GuardedGradient

        self.guarded = GuardedGradient(objective, lambda _: data, all_reduce=collective.all_reduce)
        self._collective = collective
        self.rounds: list[int] = []
        with collective.together():
            self.guarded.bind(None)

    def __call__(self, scores: npt.NDArray[Any], matrix: Any, round: int) -> tuple[Any, Any]:
        self.rounds.append(round)
        with self._collective.together():
            return self.guarded(scores, matrix, round)


def _metrics(collective: Collective, *arguments: Any) -> Any:
    """Every metric over the queries of all workers: from sums of values and of weights, not from means."""
    from boostrank.fit.round_metrics import RoundMetrics

    class Metrics(RoundMetrics):
        def values(self, scores: Float64Array, dataset: Any) -> dict[str, float]:
            """Our metrics; every worker must call it."""
            with collective.together():
                rows = self._labels_of(dataset)[0].size  # a set without rows may have one in the engine
                sums = self.bound(dataset, partial=True).sums(scores[:rows])
            total = collective.all_reduce(np.array(list(sums.values())).reshape(-1)).reshape(-1, 2)
            for name, weight in zip(sums, total[:, 1], strict=True):
                if not weight:
                    raise DataError(f"{name}: no query of any worker counts; {self._conventions.describe()}")
            return {name: float(value / weight) for name, (value, weight) in zip(sums, total, strict=True)}

    return Metrics(*arguments)


class _Publish:
    """Keeps what the client will ask for: the metrics of each round, and now and then the model so far."""

    before_iteration = False
    order = 25

    def __init__(self, worker: Worker, engine: Any, checkpoint_every: int) -> None:
        self._worker, self._engine, self._every = worker, engine, checkpoint_every

    def __call__(self, env: Any) -> None:
        done, model = env.iteration + 1, None
        if self._every and done % self._every == 0 and done < env.end_iteration:
            model = self._engine.booster(getattr(env.model, "booster", env.model)).to_bytes()
        results = [tuple(result) for result in env.evaluation_result_list or []]
        self._worker.publish(env.iteration, env.begin_iteration, env.end_iteration, results, model)


class _StopRequest:
    """A request to end the training on all workers after the same round: the client asked one of them, or is gone."""

    heeded = False

    def __init__(self, worker: Worker, collective: Collective) -> None:
        self._worker, self._collective = worker, collective

    @property
    def made(self) -> bool:
        """Whether any worker has heard of one; all of them must ask."""
        asked = self._worker.stop or self._worker.abandoned
        return bool(self._collective.all_reduce(np.array([float(asked)]))[0])
