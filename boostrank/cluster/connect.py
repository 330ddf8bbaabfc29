"""Connection to a Dask scheduler: from the text of `--dask` to a client."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from boostrank.core.errors import InputError, MissingDependency, ParameterError
from boostrank.core.machine import resolve_threads

_LOCAL = re.compile(r"local(?::(\d+))?")
_CONNECT_SECONDS = 20


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler; workers that were started for it end with it.

    Args:
        scheduler: an address `tcp://host:port` (or `host:port`), the scheduler's file (`dask scheduler
            --scheduler-file`), or `local` for workers on this machine, as many as Dask finds fit; `local:2` for two.

    Raises:
        MissingDependency: Dask is not installed.
        InputError: no scheduler answers.
    """
    distributed = import_distributed()
    local = _LOCAL.fullmatch(scheduler)
    if local:
        workers = int(local.group(1)) if local.group(1) else None
        if workers == 0:
            raise ParameterError("--dask local:0: there must be a worker")
        threads = None if workers is None else max(1, resolve_threads(None) // workers)
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None, memory_limit=0,
            silence_logs=50,
        )  # fmt: skip
        with cluster, distributed.Client(cluster) as client:
            yield client
        return
    is_file = os.path.isfile(scheduler)
    if not is_file and ":" not in scheduler:
        raise ParameterError(
            f"--dask {scheduler}: neither an address (tcp://10.0.0.1:8786) nor a scheduler's file nor local or local:2"
        )
    where: dict[str, Any] = {"scheduler_file": scheduler} if is_file else {"address": scheduler}
    try:
        client = distributed.Client(**where, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {scheduler} ({str(error).splitlines()[0] if str(error) else 'timed out'}): "
            "start one with `dask scheduler`, and workers with `dask worker ADDRESS`"
        ) from error
    with client:
        yield client


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
