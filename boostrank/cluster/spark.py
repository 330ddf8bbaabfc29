"""Launcher for tasks in a Spark barrier stage, `spark:2`. The data may be Spark DataFrames."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.cluster.worker import serve
from boostrank.cluster.workers import Launcher, package

_SET = "boostrank_set"  # column with the number of the data set


class SparkWorkers(Launcher):
    """Launcher for tasks in a barrier stage.

    Args:
        size: number of tasks, which must all run at once. Each task has `spark.task.cpus` threads.
        listen: host and port at which tasks reach the driver; None uses `spark.driver.host`.
    """

    frames = "pyspark"

    def __init__(self, size: int, listen: Address | None = None) -> None:
        self._session = package("pyspark.sql", "pyspark").SparkSession.builder.getOrCreate()
        self._tag = f"boostrank-{secrets.token_hex(4)}"
        # Tasks start after the data are partitioned, which takes time.
        super().__init__(
            size,
            listen or (self._session.conf.get("spark.driver.host", "127.0.0.1"), 0),
            patience=600.0,
        )
        self._rows = self._session.range(0, size, 1, size)

    def hold(self, frames: Sequence[Any], qid: str) -> None:
        """Repartition the frames by query id, and sort the rows by data set and query."""
        from pyspark.sql.functions import lit

        numbered = [frame.withColumn(_SET, lit(i)) for i, frame in enumerate(frames)]
        rows = reduce(lambda frame, next_frame: frame.unionByName(next_frame), numbered)
        self._rows = rows.repartition(self.size, qid).sortWithinPartitions(_SET, qid)

    def run(self, call: Call) -> None:
        """Serve in the tasks of one barrier stage, one per rank, which Spark does not retry."""
        threads = int(self._session.conf.get("spark.task.cpus", "1"))

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import BarrierTaskContext

            context = BarrierTaskContext.get()
            if not context.attemptNumber():  # a retried task cannot join the training
                rank = context.partitionId()
                serve(call, rank, threads, _tables(batches, rank))
            yield from ()

        self._session.sparkContext.addJobTag(self._tag)
        self._rows.mapInArrow(task, "done long", barrier=True).collect()

    def stop(self, ranks: Sequence[int]) -> None:
        """Cancel the whole job, because tasks of a barrier stage end together."""
        # The session's `interruptTag` needs the job's thread.
        self._session.sparkContext.cancelJobsWithTag(self._tag)


def _tables(batches: Iterator[Any], rank: int) -> dict[str, Any]:
    """Return the data sets in a partition by name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nonempty_batches = [batch for batch in batches if batch.num_rows]
    if not nonempty_batches or _SET not in nonempty_batches[0].schema.names:
        return {}
    rows = pa.Table.from_batches(nonempty_batches)
    numbers = sorted(pc.unique(rows[_SET]).to_pylist())
    names = {i: f"{f'validation {i - 1}' if i else 'training'} partition {rank}" for i in numbers}
    return {names[i]: rows.filter(pc.equal(rows[_SET], i)).drop_columns([_SET]) for i in numbers}
