"""Workers of one training, as the client addresses them: started, given work, asked at any time, released."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from boostrank.cluster import worker
from boostrank.cluster.channel import Address, Call, Door, Link
from boostrank.cluster.shards import refuse_differences
from boostrank.core.errors import BoostrankError, InputError, TrainingError, TrainingWarning, WorkerLost, warn_user

_LOOK_EVERY = 0.1  # seconds between looks at the work
_LISTEN_EVERY = 1.0  # between words with the workers
_PARTING_SECONDS = 10.0  # in which the others may say what they know, once the work has failed on one
_LEAVING_SECONDS = 15.0  # in which workers end by themselves
# Every worker answers beside its work, within milliseconds.
WORKER_TIMEOUT = 60.0
"""Seconds without an answer after which a worker is lost."""
_WARNING_SHARE = 0.25  # of that; twice that, and so on
_IMPORT_SECONDS = 60.0  # a worker that has just started may import first

Listener = Callable[[list[Any], tuple[int, bytes] | None], None]
"""Hears what is new on the first worker: rounds, and the latest model."""


class Launcher(Protocol):
    """How workers are started, and made to end.

    Attributes:
        size: how many workers there will be.
        listen: host and port on which the client waits for them.
        key: that they know; None: one is made for each training.
        patience: seconds in which they must have called.
    """

    size: int
    listen: Address
    key: bytes | None
    patience: float

    def run(self, call: Call) -> None:
        """Have `worker.serve(call, RANK, THREADS)` run for each rank below `size`; return when all of them have ended.

        It runs in a thread of its own. What it raises ends the training.
        """

    def stop(self, ranks: Sequence[int]) -> None:
        """End these workers, whatever they are doing."""


class Gone(ConnectionError):
    """A worker's connection is closed."""


@dataclass(eq=False)
class _Question:
    """What a worker was asked.

    Attributes:
        answer: of the worker.
        asked: when, by the monotonic clock.
        warned_at: seconds of silence at the last warning.
    """

    answer: Future[Any] = field(default_factory=Future)
    asked: float = field(default_factory=time.monotonic)
    warned_at: float = 0.0


class Workers:
    """Workers that belong to one training from `start` to `release`.

    Args:
        launcher: starts them.
        timeout: seconds without an answer after which a worker is lost.

    Attributes:
        ranks: of those that take part; their order is that of `work`.
        info: rank -> about every worker.
        seen: rounds that the client knows of.
        received: round of the last model that it has.
        stop: whether the training shall end after the round that is under way.
    """

    def __init__(self, launcher: Launcher, timeout: float = WORKER_TIMEOUT) -> None:
        self._launcher, self._timeout = launcher, timeout
        self._links: dict[int, Link] = {}
        self._called = threading.Condition()
        self._door: Door | None = None
        self._launching: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._number = 0
        self._asked: dict[tuple[int, int], _Question] = {}
        self._heartbeats: dict[int, _Question] = {}
        self.ranks: list[int] = []
        self.info: dict[int, worker.Hello] = {}
        self.seen = self.received = 0
        self.stop = False

    def start(self) -> None:
        """Start them, and wait until all have called.

        Raises:
            InputError: there are none, or workers with another installation.
            TrainingError: they cannot be started.
            WorkerLost: one has not called in time.
        """
        launcher = self._launcher
        if launcher.size < 1:
            raise InputError("the cluster has no worker")
        key = launcher.key or secrets.token_bytes(32)
        try:
            self._door = Door(launcher.listen, key, self._welcome)
        except OSError as error:
            host, port = launcher.listen
            raise InputError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self._launching = threading.Thread(target=self._launch, args=(Call(self._door.address, key),), daemon=True)
        self._launching.start()
        given_up = time.monotonic() + launcher.patience
        with self._called:
            while len(self.info) < launcher.size:
                if not self._launching.is_alive() and not self._called.wait(timeout=1.0):
                    raise self._not_started()
                if time.monotonic() > given_up:
                    missing = sorted(set(range(launcher.size)) - set(self.info))
                    raise WorkerLost(
                        f"{len(missing)} of {launcher.size} workers have not called within {launcher.patience:.0f} "
                        f"seconds (rank {missing[0]} is the first): do they reach "
                        f"{self._door.address[0]}:{self._door.address[1]}, and are there so many at once?"
                    )
                self._called.wait(timeout=_LOOK_EVERY)
        self.ranks = sorted(self.info)
        refuse_differences(
            {"the client": worker.versions()} | {self.info[r].name: self.info[r].versions for r in self.ranks}
        )

    def keep(self, ranks: list[int]) -> None:
        """Go on with some of them; the others leave."""
        for rank in set(self.ranks) - set(ranks):
            self._put(rank, "leave", worker.Leave())
        self.ranks = ranks

    def release(self, last: worker.Leave) -> None:
        """Whatever happened, the workers end.

        Args:
            last: what the client has to say.
        """
        lost = any(rank not in self._links for rank in self.ranks)  # what has started one may start it anew
        if self._door is not None:
            self._door.close()
        for rank in list(self._links):
            self._put(rank, "leave", last)
        if self._launching is not None:
            self._launching.join(_LEAVING_SECONDS / 5 if lost else _LEAVING_SECONDS)
            if self._launching.is_alive():
                with contextlib.suppress(Exception):
                    self._launcher.stop(range(self._launcher.size))
                self._launching.join(_LEAVING_SECONDS)
        for link in list(self._links.values()):
            link.close()

    def ask(self, question: str, *arguments: Any) -> list[Any]:
        """Each worker's answer at once, whatever it is working on.

        Raises:
            WorkerLost: one is gone, or does not answer.
        """
        asked = {rank: self._put(rank, question, *arguments) for rank in self.ranks}
        patience = max(self._timeout, _IMPORT_SECONDS)
        while wait([one.answer for one in asked.values()], timeout=_LISTEN_EVERY).not_done:
            self._check_silence(asked, patience, "")
        for rank, one in asked.items():
            if isinstance(one.answer.result(), Gone):
                raise self._lost(rank, "")
        return [one.answer.result() for one in asked.values()]

    def work(
        self,
        task: str,
        arguments: Sequence[tuple[Any, ...]],
        listen: Listener | None = None,
        when: Callable[[], str] = str,
    ) -> list[Any]:
        """Have every worker do some work; its results.

        Args:
            task: method of `worker.Worker`.
            arguments: of each worker.
            listen: hears what is new meanwhile.
            when: " after round 7", for messages.

        Raises:
            WorkerLost: one of them is gone, or does not answer.
            BoostrankError: the one that was the first cause.
        """
        asked = {rank: self._put(rank, task, *one) for rank, one in zip(self.ranks, arguments, strict=True)}
        last_contact, parting = 0.0, float("inf")
        while any(not one.answer.done() for one in asked.values()) and time.monotonic() < parting:
            wait([one.answer for one in asked.values()], timeout=_LOOK_EVERY)
            results = [one.answer.result() for one in asked.values() if one.answer.done()]
            if any(isinstance(result, worker.Failed) for result in results):
                parting = min(parting, time.monotonic() + _PARTING_SECONDS)
            if time.monotonic() - last_contact > _LISTEN_EVERY:
                self._hear(listen, when())
                last_contact = time.monotonic()
        found = {rank: one.answer.result() for rank, one in asked.items() if one.answer.done()}
        if listen is not None and not any(isinstance(one, worker.Failed | Gone) for one in found.values()):
            while self.ranks[0] in self._heartbeats:  # asked before the last round
                self._hear(listen, when())
            self._hear(listen, when())
        return self._judged(found, when())

    def _launch(self, call: Call) -> None:
        try:
            self._launcher.run(call)
        except BaseException as error:
            self._failure = error
        finally:
            with self._called:
                self._called.notify_all()

    def _not_started(self) -> BoostrankError:
        error = self._failure
        if isinstance(error, BoostrankError):
            return error
        reason = "they have ended at once" if error is None else f"{type(error).__name__}: {error}"
        failure = TrainingError(f"the workers could not be started: {reason}")
        failure.__cause__ = error
        return failure

    def _welcome(self, link: Link) -> None:
        """Take a worker's hello, and then its answers, until it is gone."""
        try:
            hello = link.receive()
        except (OSError, EOFError):
            return
        with self._called:
            if not isinstance(hello, worker.Hello) or hello.rank in self.info or hello.rank >= self._launcher.size:
                link.close()  # a task that was started twice
                return
            self._links[hello.rank], self.info[hello.rank] = link, hello
            self._called.notify_all()
        try:
            while True:
                number, value = link.receive()
                question = self._asked.pop((hello.rank, number), None)
                if question is not None:
                    question.answer.set_result(value)
        except (OSError, EOFError):
            link.close()
            self._links.pop(hello.rank, None)
            for key in [key for key in list(self._asked) if key[0] == hello.rank]:
                self._asked.pop(key).answer.set_result(Gone())

    def _put(self, rank: int, question: str, *arguments: Any) -> _Question:
        self._number += 1
        number, asked = self._number, _Question()
        self._asked[rank, number] = asked
        # In a thread: to a worker that is stopped, a long message does not end.
        threading.Thread(target=self._send, args=(rank, number, question, arguments), daemon=True).start()
        return asked

    def _send(self, rank: int, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        try:
            self._links[rank].send((number, question, arguments))
        except (OSError, KeyError):
            asked = self._asked.pop((rank, number), None)
            if asked is not None:
                asked.answer.set_result(Gone())

    def _check_silence(self, asked: Mapping[int, _Question], patience: float, when: str) -> None:
        """Say which workers have not answered for how long; `patience` is how long they may.

        Raises:
            WorkerLost: one of them has not in time.
        """
        now = time.monotonic()
        for rank, one in asked.items():
            silence = now - one.asked
            if one.answer.done() or silence < min(max(_WARNING_SHARE * patience, 2 * one.warned_at), patience):
                continue
            message = f"{self.named(rank)} has not answered for {silence:.0f} seconds{when}"
            if silence >= patience:
                self._launcher.stop([other for other, their in asked.items() if not their.answer.done()])
                raise WorkerLost(
                    f"{message}: it is stopped, or its machine is, or cannot be reached. The training is over "
                    "(--worker-timeout, worker_timeout=, waits longer)"
                )
            warn_user(f"{message}; after {patience:g} the training ends", TrainingWarning)
            one.warned_at = silence

    def _hear(self, listen: Listener | None, when: str) -> None:
        """Send every worker a heartbeat, unless it still owes an answer; the first one answers what is new.

        Raises:
            WorkerLost: one of them is gone, or silent.
        """
        for rank in self.ranks:
            if rank not in self._heartbeats:
                self._heartbeats[rank] = self._put(rank, "heartbeat", self.seen, self.received, self.stop)
        wait([one.answer for one in self._heartbeats.values()], timeout=_LISTEN_EVERY)
        answers: dict[int, Any] = {}
        for rank in [rank for rank, one in self._heartbeats.items() if one.answer.done()]:
            answers[rank] = self._heartbeats.pop(rank).answer.result()
        if listen is not None and not isinstance(answers.get(self.ranks[0], Gone()), Gone):
            news, model = answers[self.ranks[0]]
            self.seen += len(news)
            if model is not None:
                self.received = model[0]
            listen(news, model)
        gone = [rank for rank, answer in answers.items() if isinstance(answer, Gone)]
        if gone:
            raise self._lost(gone[0], when)
        self._check_silence(self._heartbeats, self._timeout, when)

    @property
    def names(self) -> list[str]:
        """Names of those that take part, in the order of `work`."""
        return [self.info[rank].name for rank in self.ranks]

    def held(self, kind: str) -> list[str]:
        """Names of data sets in the memory of workers that begin so."""
        return [name for rank in self.ranks for name in self.info[rank].held if name.startswith(kind)]

    def named(self, rank: int) -> str:
        """A worker, for messages."""
        known = self.info.get(rank)
        return f"worker {known.name} on {known.host}" if known else f"worker {rank}"

    def _lost(self, rank: int, when: str) -> WorkerLost:
        error = self._failure
        reason = "" if error is None else f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:300]})"
        return WorkerLost(
            f"{self.named(rank)} is gone{when}: it was killed (out of memory?), or its machine cannot be "
            f"reached{reason}. The training is over on all workers"
        )

    def _judged(self, results: Mapping[int, Any], when: str) -> list[Any]:
        for rank, result in results.items():
            if isinstance(result, Gone):
                raise self._lost(rank, when)
        failed = [result for result in results.values() if isinstance(result, worker.Failed)]
        if failed:
            cause = min(failed, key=lambda failure: failure.secondary)
            if cause.secondary:
                self._hear(None, when)  # is one gone?
                raise WorkerLost(f"the workers lost contact with each other{when}: {cause.error}")
            raise cause.error
        for category, message in dict.fromkeys(warning for result in results.values() for warning in result.warnings):
            warn_user(message, category)
        return [result.value for result in results.values()]
