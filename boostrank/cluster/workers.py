"""Workers of one training, as the client addresses them: claimed, given work, asked at any time, released."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from boostrank.cluster import worker
from boostrank.cluster.connect import import_distributed
from boostrank.cluster.job import CLIENT_SILENCE_SECONDS
from boostrank.cluster.shards import WorkerInfo, refuse_differences
from boostrank.core.errors import InputError, TrainingError, WorkerLost, warn_user

_LOOK_EVERY = 0.1  # seconds between looks at the work
_LISTEN_EVERY = 1.0  # between words with the workers
_BUSY_SECONDS = 20.0  # a training that failed elsewhere may take a moment to end on every worker
_PARTING_SECONDS = 10.0  # in which the others may say what they know, once the work has failed on one

Listener = Callable[[list[Any], tuple[int, bytes] | None], None]
"""Hears what is new on the first worker: rounds, and the latest model."""


class Workers:
    """Workers that belong to one training from `claim` to `release`.

    Args:
        client: `distributed.Client`.

    Attributes:
        addresses: of those that take part; their order is that of `work`.
        info: about every worker that was claimed.
        seen: rounds that the client knows of.
        received: round of the last model that it has.
        stop: whether the training shall end after the round that is under way.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._token = client, secrets.token_hex(8)
        self.addresses: list[str] = []
        self.info: dict[str, WorkerInfo] = {}
        self.seen = self.received = 0
        self.stop = False

    def claim(self, paths: list[str]) -> None:
        """Take every worker that is there.

        Raises:
            InputError: there is none, one cannot train, is busy for too long, or has another installation.
        """
        present = sorted(self._present())
        if not present:
            raise InputError("the Dask cluster has no worker: start some with `dask worker ADDRESS`")
        given_up = time.monotonic() + _BUSY_SECONDS
        while True:
            self.info = {}
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
        with contextlib.suppress(Exception):  # of dead ones, and of a scheduler that is gone
            self._ask(sorted(self._present()), worker.release)

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
            WorkerLost: one of them is gone.
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
                    self._hear(listen, when())
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
        """Each worker's answer at once, whatever it is working on; errors as they are."""
        answers: dict[str, Any] = self._client.run(
            question, self._token, *arguments, workers=list(workers), on_error="return"
        )
        return answers

    def _hear(self, listen: Listener | None, when: str) -> None:
        """Send every worker a heartbeat; the first one answers what is new.

        Raises:
            WorkerLost: one of them is gone, or the scheduler.
        """
        try:
            present = self._present()
            gone = [address for address in self.addresses if address not in present]
            answers: dict[str, Any] = {}
            if not gone:
                answers = self._ask(self.addresses, worker.heartbeat, self.seen, self.received, self.stop)
                gone = [a for a in self.addresses if answers.get(a) is None or isinstance(answers[a], Exception)]
        except OSError as error:  # also a connection that is closed, or that timed out
            raise WorkerLost(
                f"the Dask scheduler cannot be reached any more{when} ({type(error).__name__}: {error}); the workers "
                f"end the training by themselves within {CLIENT_SILENCE_SECONDS:.0f} seconds"
            ) from error
        if gone:
            raise self._lost(gone[0], when)
        if listen is not None:
            news, model = answers[self.addresses[0]]
            self.seen += len(news)
            if model is not None:
                self.received = model[0]
            listen(news, model)

    def _lost(self, address: str, when: str) -> WorkerLost:
        return WorkerLost(
            f"worker {address} on {self.info[address].host} is gone{when}: it was killed (out of memory?), or its "
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
