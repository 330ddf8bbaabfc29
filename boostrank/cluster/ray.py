"""Workers as tasks of a Ray cluster: `ray:2`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.core.errors import MissingDependency, ParameterError


class RayWorkers:
    """Tasks of a Ray cluster; see `workers.Launcher`.

    Args:
        size: number of tasks.
        cpus: of each; also its threads.
        listen: host and port for the tasks to call; None: this node's address by Ray.
    """

    def __init__(self, size: int, cpus: int = 1, listen: Address | None = None) -> None:
        self._ray, self._cpus = import_ray(), cpus
        self._tasks: list[Any] = []
        self.key: bytes | None = None
        self.size, self.patience = size, 300.0
        self.listen = listen or (self._ray.util.get_node_ip_address(), 0)

    def run(self, call: Call) -> None:
        """Start the tasks, and wait for their end."""
        cpus = self._cpus

        def work(rank: int) -> None:
            from boostrank.cluster.worker import serve

            serve(call, rank, cpus)

        task = self._ray.remote(num_cpus=cpus, max_retries=0, scheduling_strategy="SPREAD")(work)
        self._tasks = [task.remote(rank) for rank in range(self.size)]
        self._ray.get(self._tasks)

    def stop(self, ranks: Sequence[int]) -> None:
        """End them."""
        for rank in ranks:
            if rank < len(self._tasks):
                self._ray.cancel(self._tasks[rank], force=True)


@contextlib.contextmanager
def opened(where: str) -> Iterator[RayWorkers]:
    """The launcher of `ray:WHERE`, a number of tasks, on the cluster that Ray finds, or else on this machine."""
    if not (where.isdecimal() and int(where)):
        raise ParameterError(f"ray:{where}: give the number of workers, ray:2")
    ray = import_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    yield RayWorkers(int(where))


def import_ray() -> Any:
    """`ray`.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import ray
        import ray.util
    except ModuleNotFoundError as error:
        raise MissingDependency("workers of Ray need it: pip install ray") from error
    return ray
