"""A training worker, which reads and describes its shards, and trains together with the other
workers.

Every launcher runs `serve`. The client calls methods of `Worker` by name.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
import warnings
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from boostrank.checking.user_file import ObjectiveFile
from boostrank.cluster.channel import Address, Call, Link, Mesh, connect
from boostrank.core import errors
from boostrank.core.machine import openmp_environment
from boostrank.core.queries import as_text
from boostrank.core.text import list_names
from boostrank.core.types import Array
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.feature_space import FeatureSpace
from boostrank.data.rows import Stacked, join_queries
from boostrank.engines import workers_of
from boostrank.engines.base import LostContact
from boostrank.files.assemble import read_files
from boostrank.files.store import stream_files
from boostrank.fit.callbacks import StopWhenAsked
from boostrank.fit.execute import FoldSummary, execute
from boostrank.fit.plan import Collective, Training
from boostrank.fit.resolve import resolve
from boostrank.fit.run import package_versions
from boostrank.fit.settings import check_options
from boostrank.model.ranking_model import RankingModel
from boostrank.options import TrainOptions
from boostrank.records import ModelInfo

_LEAVING_SECONDS = 10.0  # for unfinished work when the client leaves
Last = tuple[RankingModel | None, str]
"""The client's last message, which is the model, or None and a reason."""
_WARNINGS = (errors.DataWarning, errors.TrainingWarning)


class Hello(NamedTuple):
    """The first message from a worker."""

    rank: int
    name: str  # address of its link
    versions: Mapping[str, str]
    mesh: Address  # address for the other workers


class Shard(NamedTuple):
    """The description of a shard, where `path` is the name of its file or table."""

    path: str
    space: FeatureSpace
    rows: int
    qids: Array
    fingerprint: str
    weighs: str = ""  # "documents", "queries", or empty


class News(NamedTuple):
    """The answer to a heartbeat from the client."""

    events: list[Any]  # new rounds, `CallbackEnv` without a model, and folds, `FoldSummary`
    model: tuple[int, bytes, ModelInfo] | None  # rounds, model file and record of a new checkpoint


class Result(NamedTuple):
    """The result of a task. A secondary error is a consequence of another worker's failure."""

    value: Any = None
    warnings: tuple[tuple[type[Warning], str], ...] = ()
    error: errors.BoostrankError | None = None
    secondary: bool = False


def serve(
    call: Call,
    rank: int,
    threads: int,
    tables: Mapping[str, Any] | None = None,
    *,
    exclusive: bool = True,
    patience: float = 60.0,
) -> Last:
    """Work for a client until it disconnects, and return its last message.

    Args:
        call: the client's address and key.
        tables: tables of whole queries by name, which are this worker's shards.
        exclusive: whether to exit the process if an engine hangs at the end.
        patience: number of seconds to wait for the client.
    """
    for name, value in openmp_environment().items():  # before an engine reads them
        os.environ.setdefault(name, value)
    link = connect(call, patience)
    worker = Worker(link, call.key, threads, tables or {})
    last_message: Last | None = None
    try:
        link.send(Hello(rank, link.name, versions(), worker.mesh.address))
        while last_message is None:
            name, arguments = link.receive()
            if name == "leave":
                (last_message,) = arguments
            elif name == "beat":
                worker.beat(*arguments)
            else:
                # This thread answers meanwhile. In its own thread, compilation is not slowed by the
                # cluster's profiler.
                threading.Thread(target=worker.do, args=(name, arguments), daemon=True).start()
    except (EOFError, OSError):
        raise errors.WorkerLost(
            f"lost contact with the client at {call.address[0]}:{call.address[1]}"
        ) from None
    finally:
        worker.stop = True
        worker.mesh.close()
        link.close()
        if not worker.idle.wait(_LEAVING_SECONDS) and exclusive:
            os._exit(1)
    return last_message


def versions() -> dict[str, str]:
    """Return the versions that must be the same on the client and the workers."""
    return package_versions("xgboost", "xgboost-cpu", "lightgbm", "numpy", "numba")


class Worker:
    """The tasks and the state of a worker. `events` and `checkpoints` are sent with the next
    heartbeat.
    """

    def __init__(self, link: Link, key: bytes, threads: int, tables: Mapping[str, Any]) -> None:
        self._link, self._threads, self._tables = link, threads, dict(tables)
        self.mesh, self.stop = Mesh(link.host, key), False
        self.idle, self._news_lock = threading.Event(), threading.Lock()
        self.idle.set()
        self.events, self.checkpoints = deque[Any](), deque[Any](maxlen=1)
        self._training: dict[str, Any] = {}  # by path
        self._on_folds = False

    def beat(self, stop: bool) -> None:
        """Answer a heartbeat."""
        self.stop |= stop
        with self._news_lock:
            events = [self.events.popleft() for _ in range(len(self.events))]
            checkpoint = self.checkpoints.pop() if self.checkpoints else None
            self._link.send(News(events, checkpoint))

    def do(self, name: str, arguments: Sequence[Any]) -> None:
        """Run a task, and send its result or error."""
        self.idle.clear()
        try:
            result = self._done(name, arguments)
            with contextlib.suppress(OSError):  # the client is gone, as `serve` notices
                self.beat(False)
                self._link.send(result)
        finally:
            self.idle.set()

    def _done(self, name: str, arguments: Sequence[Any]) -> Result:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("ignore")
                for category in _WARNINGS:
                    warnings.simplefilter("always", category)
                value = getattr(self, name)(*arguments)
        except errors.BoostrankError as error:
            # Subclasses take more.
            kind = errors.DataError if isinstance(error, errors.DataError) else type(error)
            # Reading errors name the file, and parameter errors are the same on all workers.
            complete = errors.ParameterError if name == "fit" or self._tables else errors.InputError
            prefix = "" if isinstance(error, complete) else self._where
            return Result(error=kind(f"{prefix}{error}"))
        except LostContact as error:
            reason = str(error).partition("\n")[0] or "lost contact"
            return Result(error=errors.TrainingError(reason), secondary=True)
        except Exception as error:
            line = str(error).strip().partition("\n")[0]
            reason = f": {line}" if line else ""
            failure = errors.TrainingError(f"{self._where}{type(error).__name__}{reason}")
            failure.add_note(f"On the worker: {traceback.format_exc()}")
            return Result(error=failure)
        return Result(value, tuple((w.category, str(w.message)) for w in caught))

    def sizes(self, paths: Sequence[str], tables: Mapping[str, Any]) -> dict[str, int]:
        """Receive tables from the client. Return the size of each readable file in bytes, and of
        each table in rows.
        """
        self._tables |= tables
        sizes = {name: len(table) for name, table in self._tables.items() if len(table)}
        for path in paths:
            if os.path.isfile(path) and os.access(path, os.R_OK):
                sizes[path] = os.path.getsize(path)
        return sizes

    def read(self, paths: Sequence[str], reading: Mapping[str, Any], on_folds: bool) -> list[Shard]:
        """Read and describe this worker's training shards, in memory for folds."""
        self._training, self._reading, self._on_folds = dict.fromkeys(paths), reading, on_folds
        for path in paths:
            self._training[path] = self._read(path)
        return describe_shards(self._training)

    def conform(self, space: FeatureSpace, valid: Sequence[Sequence[str]]) -> Any:
        """Apply the common feature space to the training shards, and use it to read the validation
        shards.
        """
        self._space = space
        for path, part in self._training.items():
            if part.feature_space != space or part.categories != space.categories:
                self._training[path] = self._read(path, space)
        self._validation = [{path: self._read(path, space) for path in paths} for paths in valid]
        return list(map(describe_shards, self._validation))

    def fit(
        self,
        rank: int,
        options: TrainOptions,
        meshes: Sequence[Address],
        names: Sequence[str],
        order: Any,
        every: int,
    ) -> Any:
        """Train with the workers at `meshes`, and queue a checkpoint after `every` rounds (0 for
        none).

        `order` has the (rank, index on that rank) of each training shard.

        Returns:
            The model (first worker only) and its checksum.
        """
        if isinstance(options.objective, ObjectiveFile):
            options = replace(options, objective=options.objective.load())
        if check_options(options).threads is None:
            options = replace(options, threads=self._threads)
        train_set, sets = self._join(self._training), list(map(self._join, self._validation))
        valid = list(zip(names, sets, strict=True)) or [("training", train_set)]
        with contextlib.closing(self.mesh) as mesh:
            mesh.connect_all(rank, meshes)
            with workers_of(options.backend).member(mesh) as engine:
                rounds = _Rounds(self, mesh, engine, every)
                options = replace(options, callbacks=(rounds, StopWhenAsked(rounds)))
                shards = [*self._training.values()]
                collective = Collective(rank, mesh.all_reduce, mesh.share, engine, shards, order)
                plan = resolve(options, train_set, valid, collective, options.init_model)
                model = execute(plan, rounds.fold_ended)
        return model if rank == 0 else None, zlib.crc32(model.to_bytes())

    def _join(self, shards: Mapping[str, RankingDataset]) -> RankingDataset:
        """Return shards, of which there may be none, as one data set, which is in memory for
        folds.
        """
        sets, space = [*shards.values()], self._space
        if self._on_folds and sets:
            return reduce(RankingDataset.join, sets)
        # Stack the rows, which may be on disk, and join the rest.
        indices = [data.queries for data in sets]
        ids = joined_ids([index.qid for index in indices])
        reading = next(iter(self._training.values())).provenance.options
        return RankingDataset(
            Stacked(sets, space.n_features),
            np.concatenate([np.zeros(0), *(data.labels for data in sets)]),
            join_queries(indices, ids),
            tuple(space.feature_names),
            Provenance((), space.index_base, reading),
            categories=space.categories,
        )

    @property
    def _where(self) -> str:
        """Prefix for messages, with this worker and its shards."""
        shards = list_names([*self._training], 3)
        return f"worker {self._link.name}{f' ({shards})' if shards else ''}: "

    def _read(self, path: str, like: FeatureSpace | None = None) -> RankingDataset:
        """Read a shard, with the training set's features and categories if there are any."""
        reading = self._reading
        if path in self._tables:
            part = self._training.get(path)
            if part is None:
                part = RankingDataset.from_frame(self._tables[path], sort=True, **reading)
            if like is None:
                return part
            names, categories = like.feature_names, like.categories
            return part.with_features(names, whose="the training data", categories=categories)
        options = {**reading, "like": like, "threads": self._threads}
        # Rows on disk can neither be reordered nor split.
        if reading.get("regroup") or self._on_folds:
            return read_files(path, **options)
        return stream_files(path, **options, cache=False)


@dataclass(eq=False)
class _Rounds:
    """A callback that queues rounds for the client, and a stop request shared by all workers."""

    before_iteration = False
    order = 25

    worker: Worker
    mesh: Mesh
    engine: Any
    every: int

    def begins(self, info: ModelInfo) -> None:
        self._info = info

    def __call__(self, env: Any) -> None:
        rounds = env.iteration + 1
        is_due = self.every and rounds % self.every == 0
        if is_due and rounds != env.end_iteration and self.mesh.rank == 0:
            self.worker.checkpoints.append((rounds, self.engine.so_far(env.model), self._info))
        self.worker.events.append(replace(env, model=None, params={}))

    def fold_ended(self, fold: int, training: Training, model: RankingModel) -> bool:
        """Queue the result of a fold, and return whether training goes on."""
        self.worker.events.append(FoldSummary.of_model(fold, training, model))
        return not self.pending

    @property
    def pending(self) -> bool:
        """Whether any worker must stop. All workers must read this property."""
        return bool(self.mesh.all_reduce(np.array([self.worker.stop]))[0])


def describe_shards(datasets: Mapping[str, RankingDataset]) -> list[Shard]:
    """Return the descriptions of a worker's shards of a data set, given by path."""
    shards = []
    for path, data in datasets.items():
        queries, weight_kind = data.queries, ""
        if data.document_weights is not None:
            weight_kind = "documents"
        elif queries.weights is not None:
            weight_kind = "queries"
        space, ids = data.feature_space, queries.qid
        shards.append(Shard(path, space, data.n_documents, ids, data.fingerprint, weight_kind))
    return shards


def joined_ids(id_arrays: Sequence[Array]) -> Array:
    """Concatenate query ids, and convert them to text if some of them are text."""
    if any(ids.dtype.kind == "O" for ids in id_arrays):
        id_arrays = [as_text(ids) for ids in id_arrays]
    return np.concatenate(id_arrays) if id_arrays else np.zeros(0, np.int64)
