"""Workers of a Dask cluster: `dask:tcp://HOST:PORT`."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.cluster.shards import host_of
from boostrank.core.errors import InputError, MissingDependency, ParameterError

_CONNECT_SECONDS = 20
_LOOK_EVERY = 0.5
_RESTART_SECONDS = 10.0
_LOCK = "boostrank: one training at a time"


class DaskWorkers:
    """The workers of a Dask cluster, one task each; see `workers.Launcher`.

    Trainings that start together take turns.

    Args:
        client: `distributed.Client`.
        listen: host and port for the workers to call; None finds the address by which the scheduler is reached.
    """

    key = None
    patience = 300.0  # another training may have its turn

    def __init__(self, client: Any, listen: Address | None = None) -> None:
        import_distributed()
        self._client = client
        present = client.scheduler_info(n_workers=-1)["workers"]
        self._workers = {a: about["nthreads"] for a, about in sorted(present.items()) if about.get("nthreads", 1) > 0}
        if not self._workers:
            raise InputError("the Dask cluster has no worker: start some with `dask worker ADDRESS`")
        self.size, self.listen = len(self._workers), listen or (_own_host(client.scheduler.address), 0)
        self._futures: list[Any] = []

    def run(self, call: Call) -> None:
        """Give each of them a task, and wait for their end."""
        distributed = import_distributed()
        with self._client.as_current():
            lock = distributed.Lock(_LOCK)
        with lock:
            self._futures = [
                self._client.submit(
                    _serve, call, rank, threads, workers=[address], allow_other_workers=False, pure=False, retries=0
                )
                for rank, (address, threads) in enumerate(self._workers.items())
            ]
            try:
                # A task whose worker has died stays pending: Dask would start it anew.
                while any(
                    address in self._present() and not future.done()
                    for address, future in zip(self._workers, self._futures, strict=True)
                ):
                    time.sleep(_LOOK_EVERY)
                for future in self._futures:
                    if future.status == "error":
                        future.result()
            finally:
                with contextlib.suppress(Exception):  # where the scheduler is gone there is nothing to cancel
                    self._client.cancel(self._futures, force=True)

    def _present(self) -> set[str]:
        info: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address for address, about in info.items() if about.get("nthreads", 1) > 0}

    def stop(self, ranks: Sequence[int]) -> None:
        """Ask the nannies of those that have not ended to start them anew; without a nanny one stays as it is."""
        addresses = list(self._workers)

        def restart(address: str) -> None:
            with contextlib.suppress(Exception):
                self._client.restart_workers([address], timeout=_RESTART_SECONDS, raise_for_error=False)

        threads = [
            threading.Thread(target=restart, args=(addresses[rank],), daemon=True)
            for rank in ranks
            if rank < len(self._futures) and not self._futures[rank].done()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:  # of a nanny that is silent too it takes long
            thread.join(_RESTART_SECONDS)


def _serve(call: Call, rank: int, threads: int) -> None:
    """On a worker: the whole training."""
    from boostrank.cluster.worker import serve

    serve(call, rank, threads, exclusive=False)


def _own_host(scheduler: str) -> str:
    """The address of this machine by which it reaches the scheduler."""
    host, port = host_of(scheduler), scheduler.rpartition(":")[2]
    if "://" not in scheduler or not port.isdecimal():  # inproc://, and whatever else is on this machine
        return "127.0.0.1"
    try:
        with socket.create_connection((host, int(port)), _CONNECT_SECONDS) as connection:
            return str(connection.getsockname()[0])
    except OSError:
        return "127.0.0.1"


@contextlib.contextmanager
def opened(where: str) -> Iterator[DaskWorkers]:
    """The launcher of `dask:WHERE`: an address, the scheduler's file, or `local:2`, which ends with the training.

    Raises:
        MissingDependency: Dask is not installed.
        InputError: no scheduler answers.
    """
    distributed = import_distributed()
    is_file = os.path.isfile(where)
    if not is_file and ":" not in where:
        raise ParameterError(f"dask:{where}: neither an address (tcp://10.0.0.1:8786) nor a scheduler's file")
    given: dict[str, Any] = {"scheduler_file": where} if is_file else {"address": where}
    try:
        client = distributed.Client(**given, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {where} ({str(error).splitlines()[0] if str(error) else 'timed out'}): "
            "start one with `dask scheduler`, and workers with `dask worker ADDRESS`"
        ) from error
    with client:
        yield DaskWorkers(client)


def import_distributed() -> Any:
    """`dask.distributed`.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise MissingDependency("training on several workers needs Dask: pip install 'boostrank[dask]'") from error
    return distributed
