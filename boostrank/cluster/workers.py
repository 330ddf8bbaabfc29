"""Workers of one training, as the client addresses them: claimed, given work, asked at any time, released."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any

from boostrank.cluster import worker
from boostrank.cluster.connect import import_distributed
from boostrank.cluster.job import CLIENT_SILENCE_SECONDS
from boostrank.cluster.shards import WorkerInfo, refuse_differences
from boostrank.core.errors import InputError, TrainingError, TrainingWarning, WorkerLost, warn_user

_LOOK_EVERY = 0.1  # seconds between looks at the work
_LISTEN_EVERY = 1.0  # between words with the workers
_BUSY_SECONDS = 20.0  # a training that failed elsewhere may take a moment to end on every worker
_RELEASES = 3  # times that workers are told to be free: on a busy machine a connection may not come about in time
_PARTING_SECONDS = 10.0  # in which the others may say what they know, once the work has failed on one
# Every worker answers beside its work, within milliseconds.
WORKER_TIMEOUT = 60.0
"""Seconds without an answer after which a worker is lost."""
_WARNING_SHARE = 0.25  # of that; twice that, and so on
_IMPORT_SECONDS = 60.0  # a worker that is claimed imports everything first
_FREE_SECONDS = 20.0  # in which work ends where a silent worker is started anew

Listener = Callable[[list[Any], tuple[int, bytes] | None], None]
"""Hears what is new on the first worker: rounds, and the latest model."""


@dataclass(eq=False)
class _Question:
    """What a worker was asked, and how long ago.

    Attributes:
        answer: of the worker.
        asked: when, by the monotonic clock.
        warned_at: seconds of silence at the last warning.
    """

    answer: Future[Any]
    asked: float = field(default_factory=time.monotonic)
    warned_at: float = 0.0


class Workers:
    """Workers that belong to one training from `claim` to `release`.

    Args:
        client: `distributed.Client`.
        timeout: seconds without an answer after which a worker is lost.

    Attributes:
        addresses: of those that take part; their order is that of `work`.
        info: about every worker that was claimed.
        seen: rounds that the client knows of.
        received: round of the last model that it has.
        stop: whether the training shall end after the round that is under way.
        silent: those that did not answer in time.
    """

    def __init__(self, client: Any, timeout: float = WORKER_TIMEOUT) -> None:
        self._client, self._timeout, self._token = client, timeout, secrets.token_hex(8)
        self._heartbeats: dict[str, _Question] = {}
        self._claimed: set[str] = set()
        self.silent: set[str] = set()
        self.addresses: list[str] = []
        self.info: dict[str, WorkerInfo] = {}
        self.seen = self.received = 0
        self.stop = False

    def claim(self, paths: list[str]) -> None:
        """Take every worker that is there.

        Raises:
            InputError: there is none, one cannot train, is busy for too long, or has another installation.
            WorkerLost: one does not answer.
        """
        present = sorted(self._present())
        if not present:
            raise InputError("the Dask cluster has no worker: start some with `dask worker ADDRESS`")
        given_up = time.monotonic() + _BUSY_SECONDS
        while True:
            self.info, self._claimed = {}, set(present)
            for address, answer in self._ask(present, worker.claim, paths).items():
                if isinstance(answer, Exception):
                    raise InputError(
                        f"worker {address} cannot train: {type(answer).__name__}: {answer}. Every worker needs "
                        "boostrank and XGBoost: pip install 'boostrank[dask,xgboost]'"
                    ) from answer
                self.info[address] = answer
            busy = next((address for address, found in self.info.items() if found.busy), None)
            if busy is None:
                break
            if time.monotonic() > given_up:
                raise InputError(f"worker {busy} {self.info[busy].busy} for another training: wait until that is over")
            # Two clients that start together may each have some: whoever sleeps less takes all.
            self.release()
            time.sleep(_LISTEN_EVERY * random.uniform(0.5, 1.5))
        refuse_differences(
            {"the client": worker.versions()} | {address: found.versions for address, found in self.info.items()}
        )
        self.info = {address: self.info[address] for address in present}
        self.addresses = present

    def keep(self, workers: list[str]) -> None:
        """Go on with some of them; the others are free."""
        idle = [address for address in self.addresses if address not in workers]
        if idle:
            self._ask(idle, worker.release)
        self.addresses = workers

    def release(self) -> None:
        """Whatever happened, the workers are free for others."""
        left = self._claimed - self.silent
        for _ in range(_RELEASES):
            try:
                left &= self._present()
                answers = self._ask(sorted(left), worker.release)
            except WorkerLost:  # which was waited for
                return
            except Exception:  # of a scheduler that is gone, or has no time
                time.sleep(_LISTEN_EVERY)
                continue
            left = {address for address, answer in answers.items() if isinstance(answer, Exception)}
            if not left:
                return

    def ask_first(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The first worker's answer.

        Raises:
            WorkerLost: there is none.
            TrainingError: what was raised there.
        """
        answer = self._ask(self.addresses[:1], question, *arguments).get(self.addresses[0])
        if answer is None:
            raise self._lost(self.addresses[0], "")
        if isinstance(answer, Exception):
            raise TrainingError(f"worker {self.addresses[0]}: {answer}") from answer
        return answer

    def work(
        self, task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], listen: Listener | None = None, *,
        when: Callable[[], str] = str,
    ) -> list[Any]:  # fmt: skip
        """Run a task on every worker; its results.

        Args:
            task: of `worker`, wrapped there so that it returns `Done` or `Failed`.
            arguments: of each worker.
            listen: hears what is new meanwhile.
            when: " after round 7", for messages.

        Raises:
            WorkerLost: one of them is gone, or does not answer.
            BoostrankError: the one that was the first cause.
        """
        futures = [
            self._client.submit(
                task, self._token, *work, workers=[address], allow_other_workers=False, pure=False, retries=0
            )
            for address, work in zip(self.addresses, arguments, strict=True)
        ]
        results: dict[int, worker.Done | worker.Failed] = {}
        last_contact, parting = 0.0, float("inf")
        try:
            while len(results) < len(futures) and time.monotonic() < parting:
                time.sleep(_LOOK_EVERY)
                for i, future in enumerate(futures):
                    if i not in results and future.done():
                        results[i] = future.result()
                        if isinstance(results[i], worker.Failed):
                            parting = min(parting, time.monotonic() + _PARTING_SECONDS)
                if time.monotonic() - last_contact > _LISTEN_EVERY:
                    self._hear(listen, when())
                    last_contact = time.monotonic()
            if listen is not None:
                with contextlib.suppress(WorkerLost):
                    while self.addresses[0] in self._heartbeats:  # asked before the last round
                        self._hear(listen, when())
                    self._hear(listen, when())
        except WorkerLost:
            if self.silent:
                self._free(dict(zip(self.addresses, futures, strict=True)))
            raise
        except import_distributed().client.FutureCancelledError as error:
            raise WorkerLost(f"the work was cancelled: {error}") from error
        finally:
            with contextlib.suppress(Exception):  # where the scheduler is gone there is nothing to cancel
                self._client.cancel(futures, force=True)
        return self._judged([results[i] for i in sorted(results)], when())

    def _present(self) -> set[str]:
        """Workers that can be given work."""
        info = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address for address, about in info.items() if about.get("nthreads", 1) > 0}

    def _ask(self, workers: Sequence[str], question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Each worker's answer at once, whatever it is working on; errors as they are.

        Raises:
            WorkerLost: one does not answer.
        """
        asked = {address: self._put(address, question, *arguments) for address in workers}
        patience = max(self._timeout, _IMPORT_SECONDS)
        while wait([one.answer for one in asked.values()], timeout=_LISTEN_EVERY).not_done:
            self._check_silence(asked, patience, "")
        return {address: one.answer.result() for address, one in asked.items()}

    def _put(self, address: str, question: Callable[..., Any], *arguments: Any) -> _Question:
        async def answered() -> Any:
            found = await self._client.run(
                question, self._token, *arguments, workers=[address], on_error="return", asynchronous=True
            )
            return found.get(address)

        return _Question(asyncio.run_coroutine_threadsafe(answered(), self._client.loop.asyncio_loop))

    def _check_silence(self, asked: dict[str, _Question], patience: float, when: str) -> None:
        """Say which workers have not answered for how long; `patience` is how long they may.

        Raises:
            WorkerLost: one of them has not in time.
        """
        now = time.monotonic()
        for address, one in asked.items():
            silence = now - one.asked
            if one.answer.done() or silence < min(max(_WARNING_SHARE * patience, 2 * one.warned_at), patience):
                continue
            if silence >= patience:
                self.silent = {other for other, their in asked.items() if not their.answer.done()}
                raise WorkerLost(
                    f"{self._named(address)} has not answered for {silence:.0f} seconds{when}: it is stopped, or its "
                    "machine is, or cannot be reached. The training is over (--worker-timeout, worker_timeout=, waits "
                    "longer)"
                )
            warn_user(
                f"{self._named(address)} has not answered for {silence:.0f} seconds{when}; after {patience:g} the "
                "training ends",
                TrainingWarning,
            )
            one.warned_at = silence

    def _hear(self, listen: Listener | None, when: str) -> None:
        """Send every worker a heartbeat, unless it still owes an answer; the first one answers what is new.

        Raises:
            WorkerLost: one of them is gone, or silent, or the scheduler is gone.
        """
        answers: dict[str, Any] = {}
        try:
            present = self._present()
            gone = [address for address in self.addresses if address not in present]
            if not gone:
                for address in self.addresses:
                    if address not in self._heartbeats:
                        self._heartbeats[address] = self._heartbeat(address)
                wait([one.answer for one in self._heartbeats.values()], timeout=_LISTEN_EVERY)
                for address in [a for a, one in self._heartbeats.items() if one.answer.done()]:
                    asked = self._heartbeats.pop(address)
                    answers[address] = asked.answer.result()
                    if isinstance(answers[address], OSError):  # not reached in time: were it dead, it were not present
                        del answers[address]
                        self._heartbeats[address] = replace(asked, answer=self._heartbeat(address).answer)
                gone = [a for a, answer in answers.items() if answer is None or isinstance(answer, Exception)]
        except OSError as error:  # also a connection that is closed, or that timed out
            raise WorkerLost(
                f"the Dask scheduler cannot be reached any more{when} ({type(error).__name__}: {error}); the workers "
                f"end the training by themselves within {CLIENT_SILENCE_SECONDS:.0f} seconds"
            ) from error
        if gone:
            raise self._lost(gone[0], when)
        self._check_silence(self._heartbeats, self._timeout, when)
        if listen is not None and self.addresses[0] in answers:
            news, model = answers[self.addresses[0]]
            self.seen += len(news)
            if model is not None:
                self.received = model[0]
            listen(news, model)

    def _heartbeat(self, address: str) -> _Question:
        return self._put(address, worker.heartbeat, self.seen, self.received, self.stop)

    def _free(self, work: dict[str, Any]) -> None:
        """End the sums that workers wait in for one that is silent: its nanny starts that one anew, and then those that
        wait all the same.

        Args:
            work: worker -> its future.
        """
        self._start_anew(self.silent)
        others = {address: future for address, future in work.items() if address not in self.silent}
        given_up = time.monotonic() + _FREE_SECONDS
        while time.monotonic() < given_up and not all(future.done() for future in others.values()):
            time.sleep(_LOOK_EVERY)
        for thread in self._start_anew(address for address, future in others.items() if not future.done()):
            thread.join(_PARTING_SECONDS)

    def _start_anew(self, workers: Iterable[str]) -> list[threading.Thread]:
        """Ask the workers' nannies; the threads that wait for them, which for a nanny that is silent too is long."""

        def restart(address: str) -> None:
            with contextlib.suppress(Exception):  # without a nanny it stays as it is
                self._client.restart_workers([address], timeout=_PARTING_SECONDS, raise_for_error=False)

        threads = [threading.Thread(target=restart, args=(address,), daemon=True) for address in workers]
        for thread in threads:
            thread.start()
        return threads

    def _named(self, address: str) -> str:
        known = self.info.get(address)
        return f"worker {address}{f' on {known.host}' if known else ''}"

    def _lost(self, address: str, when: str) -> WorkerLost:
        return WorkerLost(
            f"{self._named(address)} is gone{when}: it was killed (out of memory?), or its "
            "machine cannot be reached. The training is over on all workers"
        )

    def _judged(self, results: list[worker.Done | worker.Failed], when: str) -> list[Any]:
        failed = [result for result in results if isinstance(result, worker.Failed)]
        if failed:
            cause = min(failed, key=lambda failure: failure.secondary)
            if cause.secondary:
                self._hear(None, when)  # is one gone?
                raise WorkerLost(f"the workers lost contact with each other{when}: {cause.error}")
            raise cause.error
        done = [result for result in results if isinstance(result, worker.Done)]
        for category, message in dict.fromkeys(warning for result in done for warning in result.warnings):
            warn_user(message, category)
        return [result.value for result in done]
