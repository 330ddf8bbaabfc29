"""Launcher for Dask clusters, `dask:tcp://HOST:PORT`. The data may be Dask data frames."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from boostrank.cluster.channel import Address, Call
from boostrank.cluster.worker import serve
from boostrank.cluster.workers import Launcher, by_worker, package
from boostrank.core.errors import DataError, InputError, ParameterError

_CONNECT_SECONDS = 20
_LOOK_EVERY = 0.5
_RESTART_SECONDS = 10.0
_INSTALL = "'boostrank[dask]'"
_LOCK = "boostrank: one training at a time"


class DaskWorkers(Launcher):
    """Launcher that runs one task on each Dask worker. Simultaneous trainings run one after
    another.

    Args:
        client: a `distributed.Client`.
        listen: host and port at which workers reach this process; None uses its address in the
            scheduler's network.
    """

    frames = "dask"

    def __init__(self, client: Any, listen: Address | None = None) -> None:
        self._distributed, self._client, self._owned = (
            package("distributed", _INSTALL),
            client,
            False,
        )
        self._workers, self._tasks = dict(sorted(self._present().items())), dict[str, Any]()
        if not self._workers:
            raise InputError(
                "the Dask cluster has no worker: start some with `dask worker ADDRESS`"
            )
        host = urlsplit(client.scheduler.address).hostname or "127.0.0.1"
        super().__init__(len(self._workers), listen or (self._distributed.utils.get_ip(host), 0))

    @classmethod
    def from_text(cls, kind: str, where: str) -> Self:
        """Create a launcher from `dask:ADDRESS`."""
        if ":" not in where:
            raise ParameterError(f"dask:{where} is no address, such as dask:tcp://10.0.0.1:8786")
        try:
            client = package("distributed", _INSTALL).Client(where, timeout=_CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {where}"
                f" ({next(iter(str(error).splitlines()), 'timed out')}): start one with `dask"
                " scheduler`, and workers with `dask worker ADDRESS`"
            ) from error
        launcher = cls(client)
        launcher._owned = True
        return launcher

    def close(self) -> None:
        """Close the Dask client if this launcher created it."""
        if self._owned:
            self._client.close()

    def hold(self, frames: Sequence[Any], qid: str) -> None:
        """Shuffle the frames by query id, and leave each part with the worker that has it."""
        if any(qid not in frame.columns for frame in frames):
            raise DataError(f"the table has no column {qid!r} with query ids (qid)")
        partitions = [frame.shuffle(on=qid, npartitions=self.size).to_delayed() for frame in frames]
        tables = [self._client.compute(part) for part in partitions]
        self._distributed.wait(tables)  # `serve` occupies the threads that shuffle
        self.tables = by_worker(tables)

    def run(self, call: Call) -> None:
        """Serve on every Dask worker, and return once all tasks ended or their workers left.

        One training at a time: a lock of the scheduler makes others wait.
        """
        with self._client.as_current():
            lock = self._distributed.Lock(_LOCK)
        with lock:
            self._tasks = {
                address: self._client.submit(
                    serve,
                    call,
                    rank,
                    threads,
                    self.tables[rank],
                    exclusive=False,
                    workers=[address],
                    pure=False,
                )
                for rank, (address, threads) in enumerate(self._workers.items())
            }
            try:
                # The task of a dead worker remains pending, so check that the worker is present.
                while any(
                    address in self._present() and not task.done()
                    for address, task in self._tasks.items()
                ):
                    time.sleep(_LOOK_EVERY)
                for task in self._tasks.values():
                    if task.status == "error":
                        task.result()
            finally:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    self._client.cancel([*self._tasks.values()], force=True)

    def stop(self, ranks: Sequence[int]) -> None:
        """Restart the Dask workers of these ranks that are still busy."""
        late = [
            address
            for rank, (address, task) in enumerate(self._tasks.items())
            if rank in ranks and not task.done()
        ]
        with contextlib.suppress(Exception):  # workers without a nanny cannot be restarted
            self._client.restart_workers(late, timeout=_RESTART_SECONDS, raise_for_error=False)

    def _present(self) -> dict[str, int]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: worker["nthreads"]
            for address, worker in workers.items()
            if worker.get("nthreads")
        }
