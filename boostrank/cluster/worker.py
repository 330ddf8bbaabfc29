"""Functions that run on a worker: read shards, describe them, train in step with the other workers.

`claim`, `heartbeat`, `open_tracker` and `release` answer the client at any time; `read`, `read_validation` and `fit`
are the work, one after the other. Between them a worker keeps its data here, and only for one training at a time.
"""

from __future__ import annotations

import functools
import math
import os
import platform
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from boostrank.cluster.collective import WorkerFailed
from boostrank.cluster.job import Job
from boostrank.cluster.shards import Shard, WorkerInfo
from boostrank.core.errors import BoostrankError, DataError, DataWarning, TrainingError, TrainingWarning
from boostrank.core.machine import openmp_environment

if TYPE_CHECKING:
    from boostrank.cluster.fitting import TrainingTask
    from boostrank.cluster.rows import Span
    from boostrank.core.gains import Gain
    from boostrank.core.types import Int64Array
    from boostrank.data.dataset import RankingDataset
    from boostrank.data.options import FeatureSpace
    from boostrank.fit.start.cross_fit import Regressions


@dataclass(frozen=True)
class Done:
    """A piece of work that succeeded.

    Args:
        value: its result.
        warnings: on the way.
    """

    value: Any
    warnings: tuple[tuple[type[Warning], str], ...]


@dataclass(frozen=True)
class Failed:
    """A piece of work that failed.

    Args:
        error: to raise on the client.
        secondary: it failed because another worker did.
    """

    error: BoostrankError
    secondary: bool = False


_job: Job | None = None
_guard = threading.Lock()


def claim(token: str, paths: Sequence[str], dask_worker: Any = None) -> WorkerInfo:
    """This worker, which from now on works for this training unless it is busy with another."""
    global _job
    for name, value in openmp_environment().items():  # read once, when XGBoost is loaded
        os.environ.setdefault(name, value)
    threads = int(dask_worker.state.nthreads)
    with _guard:
        busy = ""
        if _job is not None and _job.token != token and (_job.running or not _job.abandoned):
            busy = "trains" if _job.running else "reads"
        else:
            _job = Job(token, str(dask_worker.address), threads=threads)
    sizes = {path: os.path.getsize(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)}
    return WorkerInfo(platform.node(), threads, versions(), busy, sizes)


def versions() -> dict[str, str]:
    """Versions that must be the same wherever a training runs."""
    import boostrank
    from boostrank.engines import get_backend

    found = {"boostrank": boostrank.__version__, "xgboost": get_backend("xgboost").version}
    return found | {package: version(package) for package in ("numpy", "numba")}


def open_tracker(token: str, workers: int, host: str, port: int) -> dict[str, Any]:
    """Start the tracker through which the workers find each other; the arguments that each needs."""
    from boostrank.engines.xgboost.workers import Tracker

    job = _job_of(token)
    job.tracker = Tracker(workers, host, port)
    return dict(job.tracker.arguments)


def heartbeat(token: str, seen: int, checkpoint: int, stop: bool) -> tuple[list[Any], tuple[int, bytes] | None] | None:
    """Note that the client is alive, and give it what is new; None from a worker that does not have the training.

    Args:
        token: of the training.
        seen: rounds that the client knows of.
        checkpoint: round of the last model that it has.
        stop: whether the training shall end after this round.
    """
    job = _job
    if job is None or job.token != token:
        return None
    job.last_contact = time.monotonic()
    job.stop = job.stop or stop
    model = job.checkpoint if job.checkpoint and job.checkpoint[0] > checkpoint else None
    return job.news[seen:], model


def release(token: str) -> None:
    """The training is over, or given up: what was read for it goes."""
    global _job
    with _guard:
        if _job is not None and _job.token == token:
            if _job.tracker is not None:
                _job.tracker.close()
            if _job.running:
                _job.stop, _job.last_contact = True, -math.inf
            else:
                _job = None


def _job_of(token: str) -> Job:
    if _job is None or _job.token != token:
        raise TrainingError("this worker was started anew and has lost what it had read")
    return _job


def _where(token: str) -> str:
    """This worker and its shards, as the beginning of a message."""
    job = _job
    if job is None or job.token != token:
        return ""
    return f"worker {job.name}{f' ({job.files})' if job.paths else ''}: "


def _reporting(work: Callable[..., Any]) -> Callable[..., Done | Failed]:
    """Errors and warnings as values: Dask would show the first error that arrives, not the one that is the cause."""

    @functools.wraps(work)
    def reported(*arguments: Any) -> Done | Failed:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", DataWarning)
            warnings.simplefilter("always", TrainingWarning)
            try:
                # In a thread of its own: Dask looks at the stack of its threads a hundred times a second, holding the
                # lock that Python code needs, and numba's compiler has very deep stacks.
                with ThreadPoolExecutor(1) as pool:
                    value = pool.submit(work, *arguments).result()
            except BoostrankError as error:
                kind = DataError if isinstance(error, DataError) else type(error)  # which takes a message alone
                # Errors of reading name the file.
                where = "" if work.__name__.startswith("read") else _where(arguments[0])
                return Failed(kind(f"{where}{error}"))
            except WorkerFailed:
                return Failed(TrainingError("another worker failed"), secondary=True)
            except Exception as error:
                name = type(error).__name__
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                if name == "LostContact":
                    return Failed(TrainingError(lines[0] if lines else name), secondary=True)
                failure = TrainingError(f"{_where(arguments[0])}{name}{f': {lines[0]}' if lines else ''}")
                failure.add_note(f"On the worker: {traceback.format_exc()}")
                return Failed(failure)
        return Done(value, tuple((w.category, str(w.message)) for w in caught))

    return reported


@_reporting
def read(token: str, paths: Sequence[str], options: Mapping[str, Any], agreed: Mapping[str, Any]) -> Any:
    """Read this worker's training shards.

    Args:
        token: of the training.
        paths: its shards.
        options: of the reader.
        agreed: parameters of the training; they come back as this worker understood them.
    """
    job = _job_of(token)
    job.paths = tuple(paths)
    job.training = [_read(path, options, job) for path in paths]
    return {name: str(value) for name, value in agreed.items()}, [_found(part) for part in job.training]


@_reporting
def read_validation(token: str, space: FeatureSpace, valid: Sequence[Sequence[str]], options: Mapping[str, Any]) -> Any:
    """Read the validation shards, and once more each training shard that does not name every feature by itself."""
    job = _job_of(token)
    job.training = [
        part
        if (part.provenance.index_base, part.n_features) == (space.index_base, space.n_features)
        else _read(part.provenance.files[0], options, job, like=space)
        for part in job.training
    ]
    job.validation = [[_read(path, options, job, like=space) for path in paths] for paths in valid]
    return [[_found(part) for part in parts] for parts in job.validation]


@_reporting
def send_rows(token: str, wanted: Sequence[Span], gain: Gain) -> Any:
    """(features, gains) of some rows of this worker's training shards."""
    from boostrank.cluster.rows import rows_of
    from boostrank.core.gains import weighted_gains

    job = _job_of(token)
    return rows_of(job.training, [weighted_gains(part.labels, gain, part.queries) for part in job.training], wanted)


@_reporting
def begin_training_rows(token: str, start: Regressions, fold: Int64Array, columns: int) -> Any:
    """Find where this worker's training rows begin; how many of them are in each step of the start.

    Args:
        token: of the training.
        start: as it was learnt.
        fold: int64[q], of this worker's queries.
        columns: features of the data.
    """
    from boostrank.cluster.rows import ShardRows, Stacked, queries_of

    job = _job_of(token)
    features = Stacked([part.features for part in job.training], columns)
    rows = ShardRows(queries_of([_found(part) for part in job.training]), (), features)
    scores, counts = start.scores(rows, fold, job.threads)
    job.scores = [scores]
    return counts


@_reporting
def begin_rows(token: str, start: bytes, columns: int) -> Any:
    """Find where the rows of all other sets begin, or of all sets where nobody has yet.

    Args:
        token: of the training.
        start: model file of the start alone.
        columns: features of the data.
    """
    from boostrank.cluster.rows import Stacked
    from boostrank.engines import get_backend
    from boostrank.engines.base import Wanted

    job, engine = _job_of(token), get_backend("xgboost")
    booster = engine.load(start)
    for parts in [job.training, *job.validation][len(job.scores) :]:
        features = Stacked([part.features for part in parts], columns)
        job.scores.append(booster.predict(features, Wanted(threads=job.threads)))


@_reporting
def fit(token: str, rank: int, tracker: Mapping[str, Any], task: TrainingTask) -> Any:
    """Train; see `fitting.fit`."""
    from boostrank.cluster import fitting

    global _job
    job = _job_of(token)
    job.running = True
    try:
        return fitting.fit(job, rank, tracker, task)
    finally:
        job.running = False
        with _guard:
            if _job is job and job.abandoned:
                _job = None


def _read(path: str, options: Mapping[str, Any], job: Job, like: FeatureSpace | None = None) -> RankingDataset:
    from boostrank.data.assemble import read_files
    from boostrank.data.spill import stream_files

    options = {**options, "like": like, "threads": job.threads}
    try:
        if options.get("regroup"):  # rows on disk cannot be moved
            return read_files(path, format="libsvm", **options)
        return stream_files(path, format="libsvm", cache=False, **options)
    except BoostrankError:
        raise
    except Exception as error:
        raise TrainingError(f"{path} on worker {job.name}: {type(error).__name__}: {error}") from error


def _found(part: RankingDataset) -> Shard:
    return Shard(
        part.provenance.files[0], part.provenance.index_base, part.n_features, part.n_documents, part.queries.qid,
        part.fingerprint, part.queries.sizes, part.queries.weights,
        part.document_weights is not None,
    )  # fmt: skip
