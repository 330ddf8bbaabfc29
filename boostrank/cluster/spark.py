"""Spark: workers are tasks of a barrier stage, data are DataFrames, whose partitions arrive as Arrow batches."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from boostrank.cluster.channel import Address, Call
from boostrank.cluster.train import ClusterTraining, Options, file_of, model_of, train_by
from boostrank.core.errors import MissingDependency, ParameterError
from boostrank.model.ranking_model import RankingModel

_SET = "boostrank_set"  # column: which data set a row belongs to


class SparkWorkers:
    """Tasks of one barrier stage, each with a partition of whole queries; see `workers.Launcher`.

    Args:
        frame: DataFrame of the columns below, and of `_SET`.
        size: number of tasks, which must all fit on the cluster at once.
        columns: label, qid, weight (or None), features.
        listen: host and port of the driver for the tasks to call; None: its host by Spark's configuration.
    """

    def __init__(self, frame: Any, size: int, columns: tuple[Any, ...], listen: Address | None = None) -> None:
        self._session, self._frame, self._columns = frame.sparkSession, frame, columns
        self._tag = f"boostrank-{secrets.token_hex(4)}"
        self.key: bytes | None = None
        self.size, self.patience = size, 600.0  # the tasks begin when the data are partitioned
        self.listen = listen or (self._session.conf.get("spark.driver.host", "127.0.0.1"), 0)

    def run(self, call: Call) -> None:
        """Run the stage."""
        qid = self._columns[1]
        threads, columns = int(self._session.conf.get("spark.task.cpus", "1")), self._columns

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import BarrierTaskContext

            from boostrank.cluster.worker import serve

            context = BarrierTaskContext.get()
            if not context.attemptNumber():  # the training goes on with no other
                rank = context.partitionId()
                serve(call, rank, threads, held_of(batches, rank, columns))
            yield from ()

        parts = self._frame.repartition(self.size, qid).sortWithinPartitions(_SET, qid)
        with _tagged(self._session, self._tag):
            parts.mapInArrow(task, "done long", barrier=True).collect()

    def stop(self, ranks: Sequence[int]) -> None:
        """Cancel the stage."""
        if hasattr(self._session, "interruptTag"):
            self._session.interruptTag(self._tag)
        else:
            self._session.sparkContext.cancelJobGroup(self._tag)


def train(
    params: Mapping[str, Any] | None,
    frame: Any,
    num_boost_round: int = 100,
    valid: Any = None,
    *,
    label: str,
    qid: str,
    workers: int,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    listen: Address | None = None,
    **options: Any,
) -> RankingModel:
    """Train on a Spark DataFrame; its rows are partitioned by query.

    Args:
        params, num_boost_round, options: as for `boostrank.cluster.train`.
        frame: rows of documents.
        valid: DataFrame with the same columns to evaluate on each round, called "valid_0".
        label, qid, weight: names of columns.
        workers: number of tasks, which must all fit on the cluster at once; each has `spark.task.cpus` threads.
        features: columns of numbers; None: all that are left.
        listen: host and port of the driver for the tasks to call.

    Returns:
        The model.

    Raises:
        WorkerLost: a task or its executor died or does not answer; the last checkpoint is good.
        InputError, TrainingError: as `boostrank.train`, with the partition.
    """
    try:
        from pyspark.sql.functions import lit
    except ModuleNotFoundError as error:
        raise MissingDependency("boostrank.spark needs Spark: pip install pyspark") from error
    training = ClusterTraining(params, num_boost_round, Options(**options))
    others = [label, qid, *([weight] if weight else [])]
    chosen = list(features or (name for name in frame.columns if name not in others))
    for name in (*others, *chosen):
        if any(name not in one.columns for one in (frame, valid) if one is not None):
            raise ParameterError(f"column {name!r} is not in the frame")
    rows = frame.select(*others, *chosen, lit(0).alias(_SET))
    if valid is not None:
        rows = rows.unionByName(valid.select(*others, *chosen, lit(1).alias(_SET)))
    launcher = SparkWorkers(rows, workers, (label, qid, weight, chosen), listen)
    return train_by(launcher, training, [], [] if valid is None else [[]])


def predict(model: RankingModel, frame: Any, column: str = "score") -> Any:
    """Score the rows of a DataFrame, partition by partition.

    Args:
        model: whose features are columns of the frame.
        frame: rows of documents; a model with columns within queries is refused.
        column: name of the scores.

    Returns:
        The frame with one more column.
    """
    if model.within_query is not None:
        raise ParameterError("a model with columns within queries needs whole queries, which a batch of rows has not")
    files, names = file_of(model), list(model.feature_names)

    def scored(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        found = model_of(files)
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if batch.num_rows:
                scores = pa.array(found.predict(rows.select(names)), pa.float64())
                yield from rows.append_column(column, scores).to_batches()

    return frame.mapInArrow(scored, f"{frame._jdf.schema().toDDL()}, `{column}` double")


def held_of(batches: Iterator[Any], rank: int, columns: tuple[Any, ...]) -> dict[str, Any]:
    """The data sets in a partition, by name.

    Args:
        batches: Arrow batches, rows of a query one behind the other.
        rank: of the partition.
        columns: label, qid, weight (or None), features.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from boostrank.data.dataset import RankingDataset

    label, qid, weight, features = columns
    found, kept = {}, list(batches)
    rows = pa.Table.from_batches(kept) if kept else None
    for number, name in enumerate(("training", "validation")):
        some = None if rows is None else rows.filter(pc.equal(rows[_SET], number))
        if some is not None and some.num_rows:
            found[f"{name} partition {rank}"] = RankingDataset.from_arrays(
                some.select(features),
                some[label].to_numpy(),
                qid=some[qid].to_numpy(),
                weight=some[weight].to_numpy() if weight else None,
            )
    return found


@contextlib.contextmanager
def _tagged(session: Any, tag: str) -> Iterator[None]:
    """Inside, jobs of this thread can be cancelled by a tag."""
    if hasattr(session, "addTag"):
        session.addTag(tag)
    else:
        session.sparkContext.setJobGroup(tag, "boostrank", interruptOnCancel=True)
    yield
