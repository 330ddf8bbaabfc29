"""Training on a Dask cluster: `train`, called as `boostrank.train` is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boostrank.cluster.client import ClusterTraining
from boostrank.cluster.connect import import_distributed
from boostrank.cluster.workers import WORKER_TIMEOUT
from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.files import check_writable, reserved
from boostrank.data.source import matching
from boostrank.engines.rounds import Callback
from boostrank.fit.params import AUTO_START
from boostrank.metric import Conventions
from boostrank.model.ranking_model import RankingModel


def train(
    client: Any,
    params: Mapping[str, Any] | None,
    shards: Sequence[str | os.PathLike[str]] | str,
    num_boost_round: int = 100,
    valid_shards: Any = None,
    valid_names: Sequence[str] | None = None,
    *,
    init_model: RankingModel | str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    conventions: Conventions | str | None = None,
    reading: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 0,
    port: int = 0,
    start: str | None = AUTO_START,
    tell: Callable[[str], None] | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
) -> RankingModel:
    """Train one ranker on all workers of a Dask cluster, by XGBoost.

    Each worker reads some of the shards from its own file system. Bins, trees, the scale of the Hessian, metrics and
    early stopping come from sums over all workers. The model is that of a single machine but for the bins, whose edges
    are an estimate there and here, and for the noise of objectives that draw random numbers.

    Args:
        client: `distributed.Client`.
        params: as for `boostrank.train`, with `early_stopping_round` for early stopping on the first validation set.
        shards: libsvm files of whole queries, or patterns ("shards/*.libsvm"), by the path that workers know them by.
        num_boost_round: rounds to train.
        valid_shards: files to evaluate on each round; a list of lists for several sets.
        valid_names: names of the sets; `valid_0`, ... by default.
        init_model: model to continue, or its path.
        callbacks: called here after each round with a `CallbackEnv` that has no model; one that raises `StopTraining`
            ends the training some rounds later.
        conventions: as for `boostrank.train`.
        reading: options of `read_files`.
        checkpoint: where the model so far is written, atomically; `init_model` goes on from it, on any number of
            workers.
        checkpoint_every: rounds between two of them; 0 for none.
        port: where workers meet, on the first worker's machine; 0 lets the system choose.
        start: "linear", "auto" or "none", as for `boostrank.train`. The start is the one that a single machine makes
            of these files; the rows that it is learnt from, tens of thousands, come here.
        tell: called with a line about workers and data before the training starts.
        worker_timeout: seconds without an answer after which a worker is lost. After a quarter of it a warning says
            who is silent; in the end its nanny is asked to start it anew, so that the others need not wait for it.

    Returns:
        The model, as from `boostrank.train`.

    Raises:
        WorkerLost: a worker died or does not answer; the last checkpoint is good.
        InputError, TrainingError: as `boostrank.train`, with the shard or the worker; a query in two shards, a shard
            that no worker can read, workers with different installations.
    """
    import_distributed()
    training = ClusterTraining(client, params, num_boost_round, init_model, conventions, start, worker_timeout)
    paths = _expanded([shards] if isinstance(shards, str | os.PathLike) else shards)
    valid = () if valid_shards is None else valid_shards
    groups: list[Any] = [valid] if isinstance(valid, str | os.PathLike) else list(valid)
    if groups and all(isinstance(one, str | os.PathLike) for one in groups):
        groups = [groups]
    sets = [_expanded([group] if isinstance(group, str | os.PathLike) else list(group)) for group in groups]
    names = [*(valid_names or []), *(f"valid_{i}" for i in range(len(valid_names or []), len(sets)))]
    if len(names) != len(sets) or len(set(names)) < len(names):
        raise ParameterError(f"valid_names must be distinct, one for each of the {len(sets)} sets")
    if checkpoint_every and checkpoint is None:
        raise ParameterError("checkpoint_every needs checkpoint=, where the models go")
    if checkpoint is not None:
        check_writable(checkpoint)
    with contextlib.nullcontext() if checkpoint is None else reserved(checkpoint):
        try:
            training.prepare(paths, sets, dict(reading or {}), port)
            if tell is not None:
                tell(training.inventory)
            return training.run(names, list(callbacks), checkpoint, checkpoint_every)
        finally:
            training.release()


def _expanded(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Absolute paths; patterns as they match here, or as they stand for the workers to say that they cannot read."""
    found: list[str] = []
    for path in map(os.path.abspath, paths):
        try:
            found += matching(path)
        except FileFormatError:
            found.append(path)
    if not found:
        raise ParameterError("no shard is given")
    twice = [path for path in dict.fromkeys(found) if found.count(path) > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is given twice")
    return found
