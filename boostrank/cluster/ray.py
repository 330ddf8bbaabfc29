"""Launcher for tasks on a Ray cluster, `ray:2`. The data may be Ray Datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.cluster.worker import serve
from boostrank.cluster.workers import Launcher, by_worker, package


class RayWorkers(Launcher):
    """Launcher for tasks on the Ray cluster that `ray.init` finds, or on this machine.

    Args:
        size: number of tasks.
        cpus: number of cores, and of threads, per task.
        listen: host and port at which tasks reach this process; None uses this node's address in
            Ray.
    """

    frames = "ray"

    def __init__(self, size: int, cpus: int = 1, listen: Address | None = None) -> None:
        self._ray, self._cpus, self._tasks = package("ray", "ray"), cpus, list[Any]()
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False)
        super().__init__(size, listen or (package("ray.util", "ray").get_node_ip_address(), 0))

    def hold(self, frames: Sequence[Any], qid: str) -> None:
        """Repartition the data sets by query id, one block of queries a worker."""
        self.tables = by_worker(
            [frame.repartition(self.size, keys=[qid]).split(self.size) for frame in frames]
        )

    def run(self, call: Call) -> None:
        """Start a Ray task a rank, spread over the nodes, and wait for all."""
        cpus = self._cpus

        def work(rank: int, datasets: dict[str, Any]) -> None:
            import pyarrow as pa

            tables = {}
            for name, data in datasets.items():
                batches = [*filter(len, data.iter_batches(batch_size=None, batch_format="pyarrow"))]
                tables[name] = pa.concat_tables(batches) if batches else ()
            serve(call, rank, cpus, tables)

        task = self._ray.remote(num_cpus=cpus, max_retries=0, scheduling_strategy="SPREAD")(work)
        self._tasks = [task.remote(rank, tables) for rank, tables in enumerate(self.tables)]
        self._ray.get(self._tasks)

    def stop(self, ranks: Sequence[int]) -> None:
        """Cancel the tasks of these ranks by force."""
        for rank, task in enumerate(self._tasks):
            if rank in ranks:
                self._ray.cancel(task, force=True)
