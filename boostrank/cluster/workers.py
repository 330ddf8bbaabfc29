"""The client's view of its workers, and the base class for launchers."""

from __future__ import annotations

import contextlib
import pickle
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Self

from boostrank.cluster import worker
from boostrank.cluster.channel import Address, Call, Door, Link
from boostrank.core import errors
from boostrank.core.errors import BoostrankError, InputError, TrainingError, WorkerLost

_LOOK_EVERY, _BEAT_EVERY = 0.1, 1.0  # seconds
_PARTING_SECONDS = 10.0  # for the others to report, once the work has failed on one worker
_LEAVING_SECONDS = 15.0  # for workers to end by themselves
WORKER_TIMEOUT = 60.0  # seconds without an answer after which a worker is lost

Listener = Callable[[worker.News], None]


class Launcher:
    """Base class for launchers, which start and stop workers.

    Attributes:
        size: number of workers.
        listen: host and port at which workers reach the client.
        key: key for the workers; None creates a new key for each training.
        patience: number of seconds to wait for the workers.
        rank: rank of this process if all ranks run the same program, where 0 is the client.
        tables: each worker's tables by name.
        frames: name of the package whose data frames `hold` takes, if any.
    """

    key: bytes | None = None
    rank, frames = 0, ""

    def __init__(self, size: int, listen: Address, patience: float = 300.0) -> None:
        self.size, self.listen, self.patience = size, listen, patience
        self.tables: list[dict[str, Any]] = [{}] * size

    @classmethod
    def from_text(cls, kind: str, where: str) -> Self:
        """Create the launcher for `KIND:WHERE`, where WHERE is the number of workers by default."""
        if not (where.isdecimal() and int(where)):
            raise errors.ParameterError(
                f"cluster {kind}:{where} needs a number of workers, such as {kind}:2"
            )
        return cls(int(where))  # type: ignore[call-arg]

    def hold(self, frames: Sequence[Any], qid: str) -> None:
        """Partition this cluster's data frames by query, and store the parts in `tables`."""

    def run(self, call: Call) -> None:
        """Run `worker.serve(call, RANK, THREADS, TABLES)` for each rank below `size`, and wait for
        them.

        This method is called in a separate thread. If it raises an error, training ends.
        """
        raise NotImplementedError

    def stop(self, ranks: Sequence[int]) -> None:
        """Kill these workers."""

    def close(self) -> None:
        """Disconnect from the cluster."""


def package(name: str, install: str) -> Any:
    """Import an optional module, or raise MissingDependency if it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise errors.MissingDependency(
            f"these workers need {name.partition('.')[0]}: pip install {install}"
        ) from error


def by_worker(sets: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return each worker's tables by name, given the tables of each data set by worker, with the
    training set first.
    """
    kinds = ["training", *(f"validation {i}" for i in range(len(sets) - 1))]
    return [
        {f"{kind} partition {i}": table for kind, table in zip(kinds, tables, strict=True)}
        for i, tables in enumerate(zip(*sets, strict=True))
    ]


class Workers:
    """The workers that take part in a training.

    Attributes:
        ranks: ranks of the workers that take part, in the order of `work`. Initially, these are all
            workers. `listen` is called with the news from the first.
        info: first message from each worker, by rank.
        stop: whether to end training after the current round.
    """

    def __init__(self, launcher: Launcher, timeout: float, listen: Listener) -> None:
        self._launcher, self._timeout, self._next_beat = launcher, timeout, 0.0
        self._take_news = listen
        self._door: Door | None = None
        self._launching = threading.Thread(target=self._launch, daemon=True)
        self._failure: BaseException | None = None
        self._inbox = queue.SimpleQueue[tuple[int, Any]]()
        self._links, self._results, self._gone = (
            dict[int, Link](),
            dict[int, worker.Result](),
            set[int](),
        )
        self._asked = dict[int, float]()  # rank -> time of the unanswered heartbeat
        self.ranks, self.info, self.stop = list[int](), dict[int, worker.Hello](), False

    def start(self) -> None:
        """Start the workers, and wait until all have connected."""
        launcher, (host, port) = self._launcher, self._launcher.listen
        if launcher.size < 1:
            raise InputError("the cluster has no workers")
        self._key = launcher.key or secrets.token_bytes(32)
        try:
            self._door = Door(launcher.listen, self._key, self._listen)
        except OSError as error:
            message = f"cannot listen on {host}:{port}: {error.strerror or error}"
            raise InputError(message) from error
        # Wait for the workers.
        self._launching.start()
        given_up = time.monotonic() + launcher.patience
        while len(self.info) < launcher.size:
            ended = not self._launching.is_alive()
            patience = 1.0 if ended else _LOOK_EVERY
            if not self._hear(patience) and ended:
                if isinstance(self._failure, BoostrankError):
                    raise self._failure
                raise TrainingError(
                    f"the workers exited before they connected{self._reason}"
                ) from self._failure
            if time.monotonic() > given_up:
                missing = sorted(set(range(launcher.size)) - set(self.info))
                raise WorkerLost(
                    f"{len(missing)} of {launcher.size} workers (first: rank {missing[0]}) did not"
                    f" connect to {host}:{self._door.address[1]} within {launcher.patience:.0f}"
                    " seconds. Check that they can reach this address, and that the cluster can"
                    " run all of them at once"
                )
        self.ranks = sorted(self.info)
        # All of them need the same versions.
        for hello in self.info.values():
            for package, version in worker.versions().items():
                other_version = hello.versions.get(package, "absent")
                if other_version != version:
                    raise InputError(
                        f"{package} is {version} on the client and {other_version} on worker"
                        f" {hello.name}: all of them need the same installation"
                    )

    def release(self, last_message: worker.Last) -> None:
        """Send the workers the client's last message, and stop them if they do not end."""
        if self._door is None:
            return
        self._door.close()
        for rank in list(self._links):
            self._send(rank, "leave", (last_message,))
        # Do not wait for a lost worker, which the launcher may restart.
        patience = _LEAVING_SECONDS / 5 if self._gone & set(self.ranks) else _LEAVING_SECONDS
        self._launching.join(patience)
        if self._launching.is_alive():
            with contextlib.suppress(Exception):
                self._launcher.stop(range(self._launcher.size))
            self._launching.join(_LEAVING_SECONDS)
        for link in list(self._links.values()):
            link.close()

    def work(self, task: str, arguments: Sequence[tuple[Any, ...]], when: Any = str) -> list[Any]:
        """Run a method of `worker.Worker` on every worker with its own arguments, and return the
        results.

        Args:
            when: function that returns a phrase for messages, such as " after round 7".

        Raises:
            WorkerLost: if a worker is gone or does not answer.
            BoostrankError: the primary error from a worker.
        """
        self._results, parting, failed = {}, float("inf"), list[Any]()
        # Give every worker its task before waiting for any.
        for rank, task_arguments in zip(self.ranks, arguments, strict=True):
            self._send(rank, task, task_arguments)
        # Listen until all have answered; after an error, only a little longer.
        while len(self._results) < len(self.ranks) and time.monotonic() < parting:
            self._beat()
            self._hear(_LOOK_EVERY)
            for rank in self.ranks:
                if rank in self._gone:
                    raise WorkerLost(
                        f"worker {self.info[rank].name} is gone{when()}: it was killed (out of"
                        f" memory?), or its machine is not reachable{self._reason}. The training"
                        " ended on all workers"
                    )
            if self._inbox.empty():  # a callback may have taken long, while answers arrived
                self._check_silence(when())
            failed = [result for result in self._results.values() if result.error is not None]
            if failed:
                parting = min(parting, time.monotonic() + _PARTING_SECONDS)
        if failed:
            # Raise the cause of the failure: most errors are only the loss of contact with it.
            cause = min(failed, key=lambda failure: failure.secondary)
            if cause.secondary:
                raise WorkerLost(f"the workers lost contact with each other{when()}: {cause.error}")
            raise cause.error
        results = [self._results[rank] for rank in self.ranks]
        # Pass on each warning once, although all workers may give it.
        for category, message in dict.fromkeys(
            warning for result in results for warning in result.warnings
        ):
            errors.warn_user(message, category)
        return [result.value for result in results]

    @property
    def names(self) -> list[str]:
        """Names of the workers that take part, in the order of `work`."""
        return [self.info[rank].name for rank in self.ranks]

    def _launch(self) -> None:
        assert self._door is not None
        try:
            self._launcher.run(Call(self._door.address, self._key))
        except BaseException as error:
            self._failure = error

    def _listen(self, link: Link) -> None:
        """Put a worker's messages into the inbox, followed by None when the worker is gone."""
        rank = -1
        try:
            hello = link.receive()
            rank = hello.rank
            # Refuse a worker that was started twice.
            if self._links.setdefault(rank, link) is link:
                self._inbox.put((rank, hello))
                while True:
                    self._inbox.put((rank, link.receive()))
        except (OSError, EOFError):
            self._inbox.put((rank, None))
        finally:
            link.close()

    def _hear(self, seconds: float) -> bool:
        """Wait for a message, and return False if no message arrives."""
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
                self._take_news(message)
        elif rank in self.ranks:  # others report late what is no longer asked
            self._results[rank] = message
        return True

    def _send(self, rank: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Send a message in a thread, because sending to a suspended worker may block."""
        body, link = pickle.dumps((name, arguments), protocol=5), self._links[rank]

        def send() -> None:
            with contextlib.suppress(OSError):  # `_listen` notices
                link.send_bytes(body)

        threading.Thread(target=send, daemon=True).start()

    def _beat(self) -> None:
        """Send a heartbeat each second to workers that have answered the last one."""
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + _BEAT_EVERY
        for rank in set(self.ranks) - set(self._asked) - self._gone:
            self._asked[rank] = now
            self._send(rank, "beat", (self.stop,))

    def _check_silence(self, when: str) -> None:
        """Raise WorkerLost if a worker has not answered within the timeout."""
        for rank, asked in self._asked.items():
            silence = time.monotonic() - asked
            if rank in self.ranks and silence >= self._timeout:
                self._launcher.stop(list(self._asked))
                raise WorkerLost(
                    f"worker {self.info[rank].name} has not answered for {silence:.0f}"
                    f" seconds{when}: it or its machine is suspended or not reachable. The training"
                    " ended (increase --worker-timeout, worker_timeout=, to wait longer)"
                )

    @property
    def _reason(self) -> str:
        """The launcher's error in parentheses, or an empty string."""
        error = self._failure
        return (
            ""
            if error is None
            else f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]})"
        )
