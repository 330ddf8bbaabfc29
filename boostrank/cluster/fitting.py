"""Training of one worker: the same loop as on a single machine, with sums over all workers where there are sums."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.cluster.collective import Collective
from boostrank.cluster.job import Job
from boostrank.core.errors import DataError
from boostrank.core.queries import QueryIndex, as_text
from boostrank.core.types import Float64Array
from boostrank.data.dataset import RankingDataset
from boostrank.engines import get_backend
from boostrank.engines.base import TrainRequest
from boostrank.engines.rounds import Callback
from boostrank.fit.callbacks import History, StopWhenAsked
from boostrank.fit.gradient import GuardedGradient
from boostrank.fit.params import TrainingParameters
from boostrank.fit.round_metrics import RoundMetrics
from boostrank.fit.run import stopping
from boostrank.metric import Conventions
from boostrank.objective.description import TrainingObjective

# Added to the seed for each worker: the noise on its queries is its own. Above every seed that people choose, and
# away from those that `kernels.objective.options` derives from them.
_SEEDS_APART = 1 << 42


@dataclass(frozen=True)
class TrainingTask:
    """A training, as every worker is given it.

    Args:
        parameters: the objective knows the length of the whole training; no threads unless the user chose them.
        conventions: of the metrics.
        feature_names: of the training set.
        valid_names: of the validation sets.
        init_model: model file to continue, or a start alone, whose scores the workers know; empty for none.
        checkpoint_every: rounds between models for the client; 0 for none.
    """

    parameters: TrainingParameters
    conventions: Conventions
    feature_names: tuple[str, ...]
    valid_names: tuple[str, ...]
    init_model: bytes
    checkpoint_every: int


@dataclass(frozen=True)
class FitResult:
    """Result of a worker's training.

    Args:
        model: the model file, from the first worker; else empty.
        checksum: of every worker's model: they must be the same.
        best_rounds: rounds to use, 0 for all.
        history: data set -> metric -> value each round.
        stopped: the training ended early because the client asked.
        dead_queries: of all workers, in the last round; None with an engine's own objective.
        kernel_seconds, metric_seconds: of this worker.
        rounds_seen: rounds that for which this worker's objective was called, in order.
    """

    model: bytes
    checksum: int
    best_rounds: int
    history: dict[str, dict[str, list[float]]]
    stopped: bool
    dead_queries: int | None
    kernel_seconds: float
    metric_seconds: float
    rounds_seen: tuple[int, ...]


def fit(job: Job, rank: int, tracker: Mapping[str, Any], task: TrainingTask) -> FitResult:
    """Train in step with the others.

    Args:
        job: the shards of this worker.
        rank: its number.
        tracker: arguments of the tracker through which they find each other.
        task: the same for all.

    Raises:
        WorkerFailed: another worker failed.
        TrainingError, DataError: as `boostrank.train`.
    """
    from boostrank.engines.xgboost.workers import LostContact, all_reduce, bins_of, contact, member

    engine = get_backend("xgboost")
    given = task.parameters
    params = {"num_threads": job.threads} | engine.params.of_columns(given.engine, task.feature_names)
    with member(tracker, rank):
        collective = Collective(all_reduce, LostContact)
        weighted = given.native_objective is not None
        sets: dict[int, tuple[Float64Array, QueryIndex]] = {}

        def binned(parts: list[RankingDataset], reference: Any) -> Any:
            known = labels_of(parts)
            features = [part.features for part in parts]
            weights = weighted and reference is None
            matrix = bins_of(features, *known, task.feature_names, params, reference=reference, weights=weights)
            sets[id(matrix)] = known
            return matrix

        train = binned(job.training, None)
        valid = [(name, binned(parts, train)) for name, parts in zip(task.valid_names, job.validation, strict=True)]
        job.training, job.validation = [], []  # they are in bins now
        if not valid:
            valid = [("training", train)]
        gradient = None
        if given.objective is not None:
            gradient = _Gradient(given.objective, rank, sets[id(train)], params["num_threads"], collective)
        metrics = _Metrics(
            collective, given.metrics, lambda matrix: sets[id(matrix)], task.conventions, params["num_threads"]
        )
        history = History()
        # Every worker stops early by itself: they see the same values, and so decide alike.
        stopper: Any = stopping(given, given.objective, 0, valid, train, ())[0]
        request = _StopRequest(job, collective)
        stop = StopWhenAsked(request)
        stop.watch(stopper)
        booster = None if not task.init_model else engine.load(task.init_model)
        callbacks: list[Callback] = [history, stop, *([] if stopper is None else [stopper])]
        if rank == 0:
            callbacks.append(_Publish(job, task.checkpoint_every))
        wanted = TrainRequest(
            params=params, train=train, valid=valid, rounds=given.rounds, gradient=gradient,
            native_objective=given.native_objective, metrics=[metrics] if metrics else [], init_model=booster,
            callbacks=callbacks, start_scores=job.scores,
        )  # fmt: skip
        with contact():
            booster, best = engine.train(wanted)
    body = booster.to_bytes()
    stats = None if gradient is None else gradient.guarded.stats
    return FitResult(
        model=body if rank == 0 else b"", checksum=zlib.crc32(body), best_rounds=best, history=history.values,
        stopped=request.heeded, dead_queries=None if stats is None else stats.dead_queries,
        kernel_seconds=0.0 if gradient is None else gradient.guarded.seconds, metric_seconds=metrics.seconds,
        rounds_seen=() if gradient is None else tuple(gradient.rounds),
    )  # fmt: skip


def labels_of(parts: Sequence[RankingDataset]) -> tuple[Float64Array, QueryIndex]:
    """Labels and queries of several shards, one behind the other."""
    labels = np.concatenate([np.zeros(0), *(part.labels for part in parts)])
    sizes = np.concatenate([np.zeros(0, np.int64), *(part.queries.sizes for part in parts)])
    qids = [part.queries.qid for part in parts]
    if any(ids.dtype.kind == "O" for ids in qids):
        qids = [as_text(ids) for ids in qids]
    weights = None
    if any(part.queries.weights is not None for part in parts):
        weights = np.concatenate([p.queries.each_weight for p in parts])
    each = None
    if any(part.document_weights is not None for part in parts):
        each = np.concatenate([p.queries.each_document_weight for p in parts])
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.concatenate(qids) if qids else np.zeros(0, np.int64)
    return labels, QueryIndex(ptr, ids, weights, document_weights=each)


class _Gradient:
    """The objective over this worker's queries; it fails on all workers or on none."""

    def __init__(
        self, objective: TrainingObjective, rank: int, data: tuple[Float64Array, QueryIndex], threads: int,
        collective: Collective,
    ) -> None:  # fmt: skip
        objective = copy.deepcopy(objective)
        objective.threads = threads
        for part in objective.parts:
            for values in (part.params, part.options):
                if "seed" in values:
                    values["seed"] = int(values["seed"]) + rank * _SEEDS_APART
        self.guarded = GuardedGradient(objective, lambda _: data, all_reduce=collective.all_reduce)
        self._collective = collective
        self.rounds: list[int] = []
        with collective.together():
            self.guarded.bind(None)

    def __call__(self, scores: npt.NDArray[Any], matrix: Any, round: int) -> tuple[Any, Any]:
        self.rounds.append(round)
        with self._collective.together():
            return self.guarded(scores, matrix, round)


class _Metrics(RoundMetrics):
    """Every metric over the queries of all workers: from sums of values and of weights, not from means."""

    def __init__(self, collective: Collective, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._collective = collective

    def values(self, scores: Float64Array, dataset: Any) -> dict[str, float]:
        """Our metrics; every worker must call it."""
        with self._collective.together():
            sums = self.bound(dataset, partial=True).sums(scores)
        total = self._collective.all_reduce(np.array(list(sums.values())).reshape(-1)).reshape(-1, 2)
        for name, weight in zip(sums, total[:, 1], strict=True):
            if not weight:
                raise DataError(f"{name}: no query of any worker counts; {self._conventions.describe()}")
        return {name: float(value / weight) for name, (value, weight) in zip(sums, total, strict=True)}


class _Publish:
    """Keeps what the client will ask for: the metrics of each round, and now and then the model so far."""

    before_iteration = False
    order = 25

    def __init__(self, job: Job, checkpoint_every: int) -> None:
        self._job, self._every = job, checkpoint_every

    def __call__(self, env: Any) -> None:
        done = env.iteration + 1
        if self._every and done % self._every == 0 and done < env.end_iteration:
            self._job.checkpoint = done, get_backend("xgboost").booster(env.model.booster).to_bytes()
        results = [tuple(result) for result in env.evaluation_result_list or []]
        self._job.news.append((env.iteration, env.begin_iteration, env.end_iteration, results))


class _StopRequest:
    """A request to end the training on all workers after the same round: the client asked one of them, or is gone."""

    heeded = False

    def __init__(self, job: Job, collective: Collective) -> None:
        self._job, self._collective = job, collective

    @property
    def made(self) -> bool:
        """Whether any worker has heard of one; all of them must ask."""
        return bool(self._collective.all_reduce(np.array([float(self._job.stop or self._job.abandoned)]))[0])
