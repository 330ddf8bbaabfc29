"""Workers of one training as the client sees them: started, given work, watched, released; base of launchers."""

from __future__ import annotations

import contextlib
import pickle
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from boostrank.cluster import worker
from boostrank.cluster.channel import Address, Call, Door, Link
from boostrank.core.errors import (
    BoostrankError,
    InputError,
    MissingDependency,
    ParameterError,
    TrainingError,
    TrainingWarning,
    WorkerLost,
    warn_user,
)
from boostrank.model.ranking_model import RankingModel

_LOOK_EVERY, _BEAT_EVERY = 0.1, 1.0  # seconds
_PARTING_SECONDS = 10.0  # for the others to report, once the work has failed on one worker
_NAMING_SECONDS, _LEAVING_SECONDS = 60.0, 15.0  # for Kubernetes to name this host; for workers to end by themselves
WORKER_TIMEOUT = 60.0  # seconds without an answer after which a worker is lost
_WARNING_SHARE = 0.25  # of that; twice that, and so on

Listener = Callable[[worker.News], None]


class Launcher:
    """Starts workers, and ends them.

    Attributes:
        size: number of workers.
        listen: host and port on which the client waits for them.
        key: that they know; None: one is made for each training.
        patience: seconds in which they must have called.
        rank: of this process among ranks that all run the client's program; 0 is the client.
        tables: tables of each worker, by name.
    """

    key: bytes | None = None
    rank = 0

    def __init__(self, size: int, listen: Address, patience: float = 300.0) -> None:
        self.size, self.listen, self.patience = size, listen, patience
        self.tables: list[dict[str, Any]] = [{}] * size

    @classmethod
    def named(cls, kind: str, where: str) -> Self:
        """Return the launcher of `KIND:WHERE`, by default of a number of workers."""
        if not (where.isdecimal() and int(where)):
            raise ParameterError(f"{kind}:{where}: give the number of workers, {kind}:2")
        return cls(int(where))  # type: ignore[call-arg]

    def hold(self, frames: Sequence[Any], qid: str) -> bool:
        """Partition data frames of this engine by query, for the workers to hold; return False for other tables."""
        return False

    def run(self, call: Call) -> None:
        """Run `worker.serve(call, RANK, THREADS, TABLES)` for each rank below `size`; return when all have ended.

        It runs in a thread of its own. What it raises ends the training.
        """
        raise NotImplementedError

    def stop(self, ranks: Sequence[int]) -> None:
        """End these workers, whatever they are doing."""

    def close(self) -> None:
        """Let go of the cluster."""


def package(name: str, install: str) -> Any:
    """Import a module of an engine of clusters; MissingDependency: it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependency(f"these workers need {name.partition('.')[0]}: pip install {install}") from error


def by_worker(sets: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the tables of each worker by name, from those of each set by worker; the first set is for training."""
    kinds = ["training", *(f"validation {i}" for i in range(len(sets) - 1))]
    return [
        {f"{kind} partition {i}": table for kind, table in zip(kinds, tables, strict=True)}
        for i, tables in enumerate(zip(*sets, strict=True))
    ]


def scored(model: RankingModel, table: Any, column: str) -> Any:
    """Return an Arrow table with one more column, the scores of its rows."""
    import pyarrow as pa

    rows = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    scores = model.predict(rows.select(list(model.feature_names))) if rows.num_rows else np.zeros(0)
    return rows.append_column(column, pa.array(scores, pa.float64()))


class Workers:
    """Workers that belong to one training from `start` to `release`.

    Attributes:
        ranks: of those that take part, in the order of `work`; all at first.
        info: rank -> the worker's first message.
        stop: whether the training shall end after the round that is under way.
    """

    def __init__(self, launcher: Launcher, timeout: float = WORKER_TIMEOUT) -> None:
        self._launcher, self._timeout, self._next_beat = launcher, timeout, 0.0
        self._door: Door | None = None
        self._launching = threading.Thread(target=self._launch, daemon=True)
        self._failure: BaseException | None = None
        self._inbox = queue.SimpleQueue[tuple[int, Any]]()
        self._links, self._results, self._gone = dict[int, Link](), dict[int, worker.Result](), set[int]()
        self._asked = dict[int, list[float]]()  # rank -> time of the unanswered beat, silence at the last warning
        self.ranks, self.info, self.stop = list[int](), dict[int, worker.Hello](), False

    def start(self) -> None:
        """Start them, and wait until all have called."""
        launcher, (host, port) = self._launcher, self._launcher.listen
        if launcher.size < 1:
            raise InputError("the cluster has no worker")
        self._key = launcher.key or secrets.token_bytes(32)
        named_by = time.monotonic() + _NAMING_SECONDS
        while self._door is None:
            try:
                self._door = Door(launcher.listen, self._key, self._listen)
            except OSError as error:
                if not isinstance(error, socket.gaierror) or time.monotonic() > named_by:
                    raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
                time.sleep(_BEAT_EVERY)
        self._launching.start()
        given_up = time.monotonic() + launcher.patience
        while len(self.info) < launcher.size:
            ended = not self._launching.is_alive()
            if not self._hear(1.0 if ended else _LOOK_EVERY) and ended:
                if isinstance(self._failure, BoostrankError):
                    raise self._failure
                raise TrainingError(f"the workers did not start: they ended at once{self._reason}") from self._failure
            if time.monotonic() > given_up:
                missing = sorted(set(range(launcher.size)) - set(self.info))
                raise WorkerLost(
                    f"{len(missing)} of {launcher.size} workers (first: rank {missing[0]}) have not called "
                    f"{host}:{self._door.address[1]} within {launcher.patience:.0f} seconds. Check that they reach "
                    "this address, and that the cluster has room for all of them at once"
                )
        self.ranks = sorted(self.info)
        for one in self.info.values():
            for package, here in worker.versions().items():
                if one.versions.get(package) != here:
                    there = one.versions.get(package, "absent")
                    raise InputError(
                        f"the workers differ: {package} is {here} on the client and {there} on {one.name}. All of them "
                        "need the same installation"
                    )

    def release(self, last: worker.Last) -> None:
        """End them, whatever happened, with the client's last message."""
        if self._door is not None:
            self._door.close()
        for rank in list(self._links):
            self._send(rank, "leave", (last,))
        if self._launching.ident is not None:
            # A launcher may start a lost worker anew: do not wait for that one.
            self._launching.join(_LEAVING_SECONDS / 5 if self._gone & set(self.ranks) else _LEAVING_SECONDS)
            if self._launching.is_alive():
                with contextlib.suppress(Exception):
                    self._launcher.stop(range(self._launcher.size))
                self._launching.join(_LEAVING_SECONDS)
        for link in list(self._links.values()):
            link.close()

    def work(
        self, task: str, arguments: Sequence[tuple[Any, ...]], listen: Listener = lambda _: None, when: Any = str
    ) -> list[Any]:
        """Have every worker do some work; return the results.

        Args:
            task: method of `worker.Worker`.
            arguments: of each worker.
            listen: called with news of the first worker.
            when: returns " after round 7", for messages.

        Raises:
            WorkerLost: a worker is gone, or does not answer.
            BoostrankError: the first cause.
        """
        self._results, parting, failed = {}, float("inf"), list[Any]()
        for rank, given in zip(self.ranks, arguments, strict=True):
            self._send(rank, task, given)
        while len(self._results) < len(self.ranks) and time.monotonic() < parting:
            self._beat()
            self._hear(_LOOK_EVERY, listen)
            for rank in self.ranks:
                if rank in self._gone:
                    raise WorkerLost(
                        f"{self._named(rank)} is gone{when()}: it was killed (out of memory?), or its machine cannot "
                        f"be reached{self._reason}. The training has ended on all workers"
                    )
            self._check_silence(when())
            failed = [one for one in self._results.values() if one.error is not None]
            parting = min(parting, time.monotonic() + _PARTING_SECONDS) if failed else parting
        if failed:
            cause = min(failed, key=lambda failure: failure.secondary)
            if cause.secondary:
                raise WorkerLost(f"the workers lost contact with each other{when()}: {cause.error}")
            raise cause.error
        results = [self._results[rank] for rank in self.ranks]
        for category, message in dict.fromkeys(warning for result in results for warning in result.warnings):
            warn_user(message, category)
        return [result.value for result in results]

    @property
    def names(self) -> list[str]:
        """Names of those that take part, in the order of `work`."""
        return [self.info[rank].name for rank in self.ranks]

    def _launch(self) -> None:
        assert self._door is not None
        try:
            self._launcher.run(Call(self._door.address, self._key))
        except BaseException as error:
            self._failure = error

    def _listen(self, link: Link) -> None:
        """Put a worker's messages into the inbox; None: it is gone."""
        rank = -1
        try:
            hello = link.receive()
            # A task that was started twice is turned away.
            if isinstance(hello, worker.Hello) and self._links.setdefault(hello.rank, link) is link:
                rank = hello.rank
                self._inbox.put((rank, hello))
                while True:
                    self._inbox.put((rank, link.receive()))
        except (OSError, EOFError):
            self._inbox.put((rank, None))
        finally:
            link.close()

    def _hear(self, seconds: float, listen: Listener = lambda _: None) -> bool:
        """Wait for one message; return False if none came."""
        try:
            rank, message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return False
        if message is None:
            self._gone.add(rank)
        elif isinstance(message, worker.Hello):
            self.info[rank] = message
        elif isinstance(message, worker.News):
            self._asked.pop(rank, None)
            if rank == self.ranks[0]:
                listen(message)
        else:
            self._results[rank] = message
        return True

    def _send(self, rank: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Send in a thread: to a stopped worker, a long message does not end."""
        body, link = pickle.dumps((name, arguments), protocol=5), self._links[rank]

        def send() -> None:
            with contextlib.suppress(OSError):  # `_listen` finds that it is gone
                link.send_bytes(body)

        threading.Thread(target=send, daemon=True).start()

    def _beat(self) -> None:
        """Ask each worker for news, once a second, unless it still owes an answer."""
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + _BEAT_EVERY
        for rank in set(self.ranks) - set(self._asked) - self._gone:
            self._asked[rank] = [now, 0.0]
            self._send(rank, "beat", (self.stop,))

    def _check_silence(self, when: str) -> None:
        """Warn of workers that have not answered for a while; raise WorkerLost for one that has not in time."""
        for rank, (asked, warned) in self._asked.items():
            silence = time.monotonic() - asked if rank in self.ranks else 0.0
            if silence < min(max(_WARNING_SHARE * self._timeout, 2 * warned), self._timeout):
                continue
            message = f"{self._named(rank)} has not answered for {silence:.0f} seconds{when}"
            if silence >= self._timeout:
                self._launcher.stop(list(self._asked))
                raise WorkerLost(
                    f"{message}: it or its machine is stopped, or cannot be reached. The training has ended "
                    "(--worker-timeout, worker_timeout=, waits longer)"
                )
            warn_user(f"{message}; after {self._timeout:g} the training ends", TrainingWarning)
            self._asked[rank][1] = silence

    def _named(self, rank: int) -> str:
        return f"worker {self.info[rank].name} on {self.info[rank].host}"

    @property
    def _reason(self) -> str:
        """The launcher's failure, in brackets."""
        error = self._failure
        return "" if error is None else f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]})"
