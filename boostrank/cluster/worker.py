"""A worker of one training: it reads its shards, describes them, and trains in step with the others.

`serve` is its whole life, whatever has started it. The client asks for methods of `Worker` by name.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
import traceback
import warnings
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.cluster.channel import Address, Call, Link, Mesh, connect
from boostrank.core import errors
from boostrank.core.machine import openmp_environment
from boostrank.core.queries import QueryIndex, as_text
from boostrank.data.dataset import Provenance, RankingDataset
from boostrank.data.options import FeatureSpace
from boostrank.data.rows import Stacked
from boostrank.engines.base import LostContact

if TYPE_CHECKING:
    from boostrank.model.ranking_model import RankingModel
    from boostrank.options import TrainOptions
    from boostrank.records import ModelInfo

CLIENT_SILENCE_SECONDS = 60.0
"""A client that has not been heard of for so long is gone: the training ends."""
_LEAVING_SECONDS = 10.0  # for work that is under way when the client leaves
_WORK = frozenset({"hold", "sizes", "read", "settle", "fit"})
Last = tuple["RankingModel | None", str]
"""The client's last message: the model, for ranks that return it, or why there is none."""
_WARNINGS = (errors.DataWarning, errors.TrainingWarning)


class Hello(NamedTuple):
    """A worker's first message."""

    rank: int
    name: str  # address of its link
    host: str  # name of its machine
    threads: int
    versions: Mapping[str, str]
    mesh: Address  # for the other workers


class Shard(NamedTuple):
    """Description of one of several data sets; `path` is its file, or its name."""

    path: str
    space: FeatureSpace
    rows: int
    qids: npt.NDArray[Any]
    fingerprint: str
    weighs_queries: bool = False
    weighs_documents: bool = False

    @classmethod
    def of(cls, path: str, data: RankingDataset) -> Shard:
        """Describe a data set."""
        ids, weights, each = data.queries.qid, data.queries.weights, data.document_weights
        known, rows = data.fingerprint, data.n_documents
        return cls(path, data.feature_space, rows, ids, known, weights is not None, each is not None)


class News(NamedTuple):
    """Answer to the client's beat."""

    rounds: list[Any]  # (round, first, last, metrics), since the last answer
    model: tuple[int, bytes, ModelInfo] | None  # rounds, file and record of a new checkpoint


class Result(NamedTuple):
    """What came of a piece of work; an error is secondary if another worker failed first."""

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
    """Work for a client until it leaves; return its last message.

    Args:
        call, patience: address and key of the client, and seconds in which it must answer.
        rank, threads: of this worker.
        tables: name -> table of whole queries, as shards of this worker.
        exclusive: whether the process ends with the training, even where an engine hangs.
    """
    for name, value in openmp_environment().items():  # read once, when an engine is loaded
        os.environ.setdefault(name, value)
    link = connect(call, patience)
    worker = Worker(link, call.key, threads, tables or {})
    last: Last | None = None
    try:
        link.send(Hello(rank, link.name, platform.node(), threads, versions(), worker.mesh.address))
        while last is None:
            name, arguments = link.receive()
            worker.last_contact = time.monotonic()
            if name == "leave":
                (last,) = arguments
            elif name == "beat":
                worker.beat(*arguments)
            elif name in _WORK:
                # In a thread: this one answers meanwhile, and a profiler of the cluster does not slow the compiler.
                threading.Thread(target=worker.do, args=(name, arguments), daemon=True).start()
    except (EOFError, OSError):
        pass
    finally:
        worker.leave()
        link.close()
        if not worker.idle.wait(_LEAVING_SECONDS) and exclusive:
            os._exit(1)
    if last is None:
        raise errors.WorkerLost(f"the client at {call.address[0]}:{call.address[1]} is gone")
    return last


def versions() -> dict[str, str]:
    """Return versions that must be the same wherever a training runs."""
    import boostrank

    found = {"boostrank": boostrank.__version__}
    for package in ("xgboost", "xgboost-cpu", "lightgbm", "numpy", "numba"):
        with contextlib.suppress(PackageNotFoundError):
            found[package.removesuffix("-cpu")] = version(package)
    return found


class Worker:
    """A worker's part in one training: `idle` without work, with `rounds` and `checkpoints` as news for the client."""

    def __init__(self, link: Link, key: bytes, threads: int, tables: Mapping[str, Any]) -> None:
        self._link, self._threads, self._tables = link, threads, dict(tables)
        self.idle, self.last_contact, self.mesh = threading.Event(), time.monotonic(), Mesh(link.host, key)
        self.idle.set()
        self.rounds, self.checkpoints, self._telling = deque[Any](), deque[Any](maxlen=1), threading.Lock()
        self._stop, self._names, self._space = False, tuple[str, ...](), FeatureSpace(1, 0)
        self._training: list[RankingDataset] = []
        self._validation: list[list[RankingDataset]] = []

    @property
    def must_stop(self) -> bool:
        """Whether the client has asked for the end, or is gone."""
        return self._stop or time.monotonic() - self.last_contact > CLIENT_SILENCE_SECONDS

    def beat(self, stop: bool) -> None:
        """Answer the client's question for news."""
        self._stop = self._stop or stop
        with self._telling:
            rounds = [self.rounds.popleft() for _ in range(len(self.rounds))]
            self._link.send(News(rounds, self.checkpoints.pop() if self.checkpoints else None))

    def leave(self) -> None:
        """End the training, or give it up."""
        self._stop = True
        self.mesh.close()

    def do(self, name: str, arguments: Sequence[Any]) -> None:
        """Do some work and send the result; an error is a result, so that the client finds the first cause."""
        self.idle.clear()
        try:
            result = self._done(name, arguments)
            with contextlib.suppress(OSError):  # the client is gone, which `serve` finds
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
            kind = errors.DataError if isinstance(error, errors.DataError) else type(error)  # takes a message alone
            # Errors of reading name the file, and those of parameters are the same on all workers.
            known = isinstance(error, errors.ParameterError if name == "fit" or self._tables else errors.InputError)
            return Result(error=kind(f"{'' if known else self._where}{error}"))
        except LostContact as error:
            return Result(error=errors.TrainingError(str(error).partition("\n")[0] or "lost contact"), secondary=True)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            failure = errors.TrainingError(f"{self._where}{type(error).__name__}{f': {lines[0]}' if lines else ''}")
            failure.add_note(f"On the worker: {traceback.format_exc()}")
            return Result(error=failure)
        return Result(value, tuple((w.category, str(w.message)) for w in caught))

    def hold(self, tables: Mapping[str, Any]) -> list[str]:
        """Keep tables of the client's; return the names of all that have rows."""
        self._tables |= tables
        return [name for name, table in self._tables.items() if len(table)]

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Return bytes of each shard that this worker can read; of tables, rows."""
        found = {path: os.path.getsize(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)}
        return found | {path: len(self._tables[path]) for path in paths if path in self._tables}

    def read(self, paths: Sequence[str], reading: Mapping[str, Any]) -> list[Shard]:
        """Read this worker's training shards."""
        self._names = tuple(paths)
        self._training = [self._read(path, reading) for path in paths]
        return [Shard.of(path, part) for path, part in zip(paths, self._training, strict=True)]

    def settle(self, space: FeatureSpace, valid: Sequence[Sequence[str]], reading: Mapping[str, Any]) -> Any:
        """Give the training shards the features of all workers, and read the validation shards with these."""
        self._space, pairs = space, zip(self._names, self._training, strict=True)
        self._training = [self._like(path, part, space, reading) for path, part in pairs]
        self._validation = [[self._read(path, reading, space) for path in paths] for paths in valid]
        return [list(map(Shard.of, paths, parts)) for paths, parts in zip(valid, self._validation, strict=True)]

    def fit(
        self, rank: int, options: TrainOptions, meshes: Sequence[Address], names: Sequence[str], order: Any, every: int
    ) -> Any:
        """Train in step with the others, by the loop of a single machine.

        `order` has (rank, number there) of every training shard; checkpoints come after `every` rounds, 0 for none.

        Returns:
            Model of the first worker, checksum of each one's, whether the client has stopped it, bytes sent to others.
        """
        from boostrank.engines import workers_of
        from boostrank.fit.callbacks import StopWhenAsked
        from boostrank.fit.plan import Peers
        from boostrank.fit.run import run
        from boostrank.fit.start.together import StartTogether
        from boostrank.fit.train import draft, resolve

        if draft(options).settings.threads is None:
            options = replace(options, threads=self._threads)
        train_set = stacked(self._training, self._space)
        sets = [stacked(parts, self._space) for parts in self._validation]
        valid = list(zip(names, sets, strict=True)) or [("training", train_set)]
        with self.mesh.joined(rank, meshes) as mesh, workers_of(options.backend).member(mesh) as member:
            rounds = _Rounds(self, mesh, member, every)
            plan = resolve(options, train_set, valid, peers=Peers(rank, mesh.all_reduce))
            start = StartTogether(mesh, self._training, order)
            plan = replace(plan, engine=member, fitted=start)
            model = run(plan.with_options(callbacks=(rounds, StopWhenAsked(rounds))))
        return model if rank == 0 else None, zlib.crc32(model.to_bytes()), rounds.heeded, mesh.sent

    @property
    def _where(self) -> str:
        """This worker and its shards, as the beginning of a message."""
        more = len(self._names) - 3
        shards = ", ".join(self._names[:3]) + (f" and {more} more" if more > 0 else "")
        return f"worker {self._link.name}{f' ({shards})' if shards else ''}: "

    def _like(self, path: str, part: RankingDataset, space: FeatureSpace, reading: Mapping[str, Any]) -> RankingDataset:
        """A part with the features and categories of the training set."""
        if path in self._tables:
            return part.with_features(space.feature_names, whose="the training data", categories=space.categories)
        here = part.feature_space
        return part if here == space and here.categories == space.categories else self._read(path, reading, space)

    def _read(self, path: str, reading: Mapping[str, Any], like: FeatureSpace | None = None) -> RankingDataset:
        from boostrank.data.assemble import read_files
        from boostrank.data.store import stream_files

        if path in self._tables:
            part = RankingDataset.from_frame(self._tables[path], sort=True, **reading)
            return part if like is None else self._like(path, part, like, reading)
        if reading.get("regroup"):  # rows on disk cannot be moved
            return read_files(path, **reading, like=like, threads=self._threads)
        return stream_files(path, **reading, cache=False, like=like, threads=self._threads)


class _Rounds:
    """Callback that keeps news for the client, and request to end the training on all workers after the same round."""

    before_iteration = heeded = False
    order = 25

    def __init__(self, worker: Worker, mesh: Mesh, engine: Any, every: int) -> None:
        self._worker, self._mesh, self._engine, self._every = worker, mesh, engine, every

    def begins(self, info: ModelInfo) -> None:
        """Called by the training, with the record of the model."""
        self._info = info

    def __call__(self, env: Any) -> None:
        done = env.iteration + 1
        if self._mesh.rank == 0 and self._every and done % self._every == 0 and done < env.end_iteration:
            self._worker.checkpoints.append((done, self._engine.so_far(env.model), self._info))
        results = [tuple(result) for result in env.evaluation_result_list or []]
        self._worker.rounds.append((env.iteration, env.begin_iteration, env.end_iteration, results))

    @property
    def made(self) -> bool:
        """Whether any worker has heard of a request, or has lost the client; all of them must ask."""
        return bool(self._mesh.all_reduce(np.array([float(self._worker.must_stop)]))[0])


def stacked(sets: Sequence[RankingDataset], space: FeatureSpace) -> RankingDataset:
    """Return several data sets of the same features, possibly none, as one."""
    queries = [one.queries for one in sets]
    ids = [one.qid for one in queries]
    if any(one.dtype.kind == "O" for one in ids):
        ids = [as_text(one) for one in ids]
    sizes = np.concatenate([np.zeros(0, np.int64), *(one.sizes for one in queries)])
    weights = document_weights = None
    if any(one.weights is not None for one in queries):
        weights = np.concatenate([one.each_weight for one in queries])
    if any(one.document_weights is not None for one in queries):
        every = (np.ones(one.n_documents) if one.document_weights is None else one.document_weights for one in queries)
        document_weights = np.concatenate([*every])
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    names = np.concatenate(ids) if ids else np.zeros(0, np.int64)
    return RankingDataset(
        Stacked(sets, space.n_features),
        np.concatenate([np.zeros(0), *(one.labels for one in sets)]),
        QueryIndex(ptr, names, weights, document_weights=document_weights),
        tuple(space.feature_names),
        Provenance((), space.index_base, sets[0].provenance.options if sets else {}),
        categories=space.categories,
    )
