"""Client of a training on a Dask cluster: shards to workers, work to all of them, rounds to callbacks."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from boostrank.cluster import worker
from boostrank.cluster.fitting import FitResult, TrainingTask
from boostrank.cluster.job import CLIENT_SILENCE_SECONDS
from boostrank.cluster.shards import (
    Shard,
    host_of,
    place,
    refuse_differences,
    refuse_mixed_weights,
    refuse_shared_queries,
    refuse_unreachable,
    shared_with_training,
)
from boostrank.cluster.start import PlacedShard, StartMaker
from boostrank.cluster.workers import Workers
from boostrank.core.errors import (
    DataError,
    DataWarning,
    InputError,
    ParameterError,
    TrainingError,
    TrainingWarning,
    WorkerLost,
    warn_user,
)
from boostrank.core.machine import resolve_threads
from boostrank.core.text import count_of
from boostrank.data.arrays import default_feature_names
from boostrank.data.options import FeatureSpace
from boostrank.engines import get_backend
from boostrank.engines.rounds import Callback, CallbackEnv, EvalResult, StopTraining
from boostrank.engines.xgboost.booster import XGBoostBooster, apart, together
from boostrank.fit.params import AUTO_START, LINEAR_START, is_auto
from boostrank.fit.plan import Draft
from boostrank.fit.prepare import with_objective_of
from boostrank.fit.provenance import describe_training
from boostrank.fit.start import cross_fit
from boostrank.fit.start.begin import say_without_start
from boostrank.metric import Conventions
from boostrank.model import constraints
from boostrank.model.ranking_model import RankingModel, TrainingSummary
from boostrank.records import ModelInfo


class ClusterTraining:
    """One training from the first word to the workers to the model.

    Args:
        client: `distributed.Client`.
        params, rounds, init_model, conventions, start, worker_timeout: as for `boostrank.cluster.train`.

    Raises:
        ParameterError: something that cannot be done on several workers.
    """

    def __init__(
        self, client: Any, params: Mapping[str, Any] | None, rounds: int,
        init_model: RankingModel | str | os.PathLike[str] | None, conventions: Conventions | str | None,
        start: str | None, worker_timeout: float,
    ) -> None:  # fmt: skip
        if not worker_timeout > 0:
            raise ParameterError(f"worker_timeout={worker_timeout!r} must be above 0 seconds")
        self._workers, self._params = Workers(client, worker_timeout), dict(params or {})
        self._started = time.perf_counter()
        self._engine = get_backend("xgboost")
        if isinstance(init_model, str | os.PathLike):
            init_model = RankingModel.load(init_model)
        self._init_model = init_model
        draft = Draft(
            engine=self._engine,
            params=with_objective_of(init_model, self._params),
            rounds=rounds,
            conventions=conventions,
        )
        self._given, self._rules = draft.settings, draft.rules
        if self._given.function is not None:
            raise ParameterError("a callable of your own cannot travel to the workers: name an objective")
        objective = self._given.objective
        if objective is not None and any("source" in part.to_dict() for part in objective.parts):
            raise ParameterError(
                f"objective {objective.name!r} stands in a file of your own, which the workers do not have: train with "
                "it on one machine"
            )
        if self._given.stopping_rounds and "dart" in map(str, self._given.engine.values()):
            raise ParameterError("early stopping does not go with dart: later rounds rescale earlier trees")
        if init_model is not None and init_model.backend != self._engine.name:
            raise ParameterError(f"a model of {init_model.backend} cannot be continued by xgboost, which trains here")
        if init_model is not None and init_model.within_query is not None:
            raise ParameterError(
                f"the model that is continued has {init_model.within_query.words()}, and workers of a cluster do not "
                "compute columns within queries: continue it on one machine"
            )
        self._start: Any = None
        """The booster of the start alone."""
        self._description: dict[str, Any] = {}
        if init_model is not None:
            self._start = apart(XGBoostBooster(init_model.booster))[1]
        self._maker: StartMaker | None = None
        self._start_asked = self._checked(start)
        self._before = 0 if init_model is None else init_model.best_iteration
        if objective is not None and objective.total_rounds is None:
            objective = objective.over(self._before + self._given.rounds)
        self._objective = objective
        self._shards: list[tuple[str, Shard]] = []
        self._space = FeatureSpace(1, 0)
        self._news: list[Any] = []
        self._saved = 0

    def prepare(self, paths: list[str], sets: list[list[str]], reading: dict[str, Any], port: int) -> None:
        """Find workers, read every shard, and refuse what would not go well."""
        everything = [*paths, *(path for group in sets for path in group)]
        workers = self._workers
        workers.claim(everything)
        sizes = {address: info.sizes for address, info in workers.info.items()}
        training = place(paths, sizes)
        validation = [place(group, sizes, training) for group in sets]
        used = [a for a in sizes if training[a] or any(group[a] for group in validation)]
        workers.keep(used)
        refuse_unreachable({address: workers.info[address].host for address in used})
        agreed = {
            "parameters": self._given.engine,
            "the objective": self._objective.to_dict() if self._objective else self._given.native_objective,
            "the number of rounds": self._given.rounds,
        }
        reports = workers.work(worker.read, [(training[address], reading, agreed) for address in used])
        refuse_differences({address: report[0] for address, report in zip(used, reports, strict=True)})
        self._shards = [(a, shard) for a, report in zip(used, reports, strict=True) for shard in report[1]]
        refuse_shared_queries(self._shards)
        refuse_mixed_weights([shard for _, shard in self._shards])
        if any(shard.weighs_documents for _, shard in self._shards):
            self._given.check_document_weights()
            if self._objective is not None and self._start_asked == LINEAR_START:
                self._objective.check_gain_weights("the linear start", "start='none' leaves it out")
        self._space = _space_of([shard for _, shard in self._shards], reading)
        model, space = self._init_model, self._space
        if model is not None and (model.n_features, model.index_base or space.index_base) != (
            space.n_features, space.index_base,
        ):  # fmt: skip
            raise DataError(
                f"the model that is continued has {model.n_features} features numbered from {model.index_base}, the "
                f"shards {space.n_features} from {space.index_base}"
            )
        broken = model and constraints.broken(self._engine, model._booster, self._given.engine, space.feature_names)
        if broken:
            raise ParameterError(f"the model that is continued does not go with these parameters: {broken}")
        if self._start_asked is not None and self._can_start(self._start_asked):
            placed = [
                PlacedShard(a, i, shard)
                for a, report in zip(used, reports, strict=True)
                for i, shard in enumerate(report[1])
            ]
            placed.sort(key=lambda one: paths.index(one.shard.path))
            self._maker = StartMaker(placed, space.feature_names)
        validation_work = [(self._space, [group[address] for group in validation], reading) for address in used]
        validation_reports = workers.work(worker.read_validation, validation_work)
        for i in range(len(sets)):
            of_set = [(a, shard) for a, report in zip(used, validation_reports, strict=True) for shard in report[i]]
            refuse_shared_queries(of_set)
            both = shared_with_training([s for _, s in self._shards], [s for _, s in of_set])
            if both:
                text = f"{', '.join(sets[i])}: {len(both):,} query ids are also in the training data (one: {both[0]})"
                if reading.get("strict"):
                    raise DataError(text)
                warn_user(text, DataWarning)
        self._tracker = workers.ask_first(worker.open_tracker, len(used), host_of(used[0]), port)

    @property
    def inventory(self) -> str:
        """Workers and data in one line."""
        workers = [self._workers.info[address] for address in self._workers.addresses]
        shards = [shard for _, shard in self._shards]
        start = ""
        if self._start is not None:
            start = "; the model goes on from a linear start"
        elif self._maker is not None:
            start = f"; the model begins with a linear start, learnt here from {self._maker.learnt_from:,} of the rows"
        return (
            f"{count_of(len(workers), 'worker')} with {count_of(sum(info.threads for info in workers), 'thread')} on "
            f"{count_of(len({info.host for info in workers}), 'machine')}: {count_of(len(shards), 'shard')}, "
            f"{sum(shard.rows for shard in shards):,} rows, {sum(len(shard.qids) for shard in shards):,} queries, "
            f"{self._space.n_features:,} features{start}"
        )

    def run(
        self, names: list[str], callbacks: list[Callback], checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> RankingModel:  # fmt: skip
        """Train; callbacks and the checkpoint follow meanwhile."""
        given, objective = self._given, self._objective
        if given.stopping_rounds and not names:
            raise ParameterError("early stopping needs validation shards")
        if self._maker is not None:
            limits = self._engine.params.limits(given.engine, self._space.feature_names)
            made = self._maker.make(self._workers, given.gain, resolve_threads(given.threads), limits)
            self._start, self._description = self._engine.begin_with(made[0]), made[1]
        init = b""
        if self._init_model is not None:
            init = self._init_model._booster.to_bytes(self._before)
        elif self._start is not None:
            init = self._start.to_bytes()
        if self._start is not None:
            begin = (self._start.to_bytes(), self._space.n_features)
            self._workers.work(worker.begin_rows, [begin for _ in self._workers.addresses])
        task = TrainingTask(
            replace(given, objective=objective), self._rules, self._space.feature_names, tuple(names), init,
            checkpoint_every,
        )  # fmt: skip
        ordered = sorted(callbacks, key=lambda callback: getattr(callback, "order", 0))

        def listen(news: list[Any], model: tuple[int, bytes] | None) -> None:
            self._news += news
            for iteration, begin, end, results in news:
                found = [EvalResult(*result) for result in results]
                env = CallbackEnv(None, self._given.engine, iteration, begin, end, found)
                for callback in ordered:
                    try:
                        callback(env)
                    except StopTraining:  # after the round that is under way
                        self._workers.stop = True
            if model is not None and checkpoint is not None:
                self._save_so_far(*model, checkpoint)

        work = [(rank, self._tracker, task) for rank in range(len(self._workers.addresses))]
        try:
            results: list[FitResult] = self._workers.work(worker.fit, work, listen, when=self._when)
        except WorkerLost as error:
            left = self._before + given.rounds - self._saved
            where = f"; {checkpoint} holds the first {self._saved} rounds, continue it for {left} more"
            raise WorkerLost(f"{error}{where if self._saved else ''}") from error
        if len({result.checksum for result in results}) > 1:
            raise TrainingError("the workers ended with different models: none of them is to be trusted")
        if results[0].stopped and not self._workers.stop:
            warn_user(
                f"the workers had not heard of this process for {CLIENT_SILENCE_SECONDS:.0f} seconds and ended "
                f"the training{self._when()} of {self._before + given.rounds}: was it suspended?",
                TrainingWarning,
            )
        return self._model(results)

    def _checked(self, start: str | None) -> str | None:
        """Which start is to be made, None for none.

        Raises:
            ParameterError: one that cannot be made here.
        """
        if start not in (None, "none", AUTO_START, LINEAR_START):
            raise ParameterError(f"start={start!r}: on a cluster it is {LINEAR_START!r}, {AUTO_START!r} or 'none'")
        if self._init_model is not None and start == LINEAR_START:
            raise ParameterError("a model that is continued has its own start: give init_model or start, not both")
        if self._init_model is not None and start == AUTO_START:
            named = with_objective_of(self._init_model, self._params)
            say_without_start(self._engine, self._init_model._booster, named)
        wanted = start == LINEAR_START or (start == AUTO_START and is_auto(self._params, self._engine.name))
        return start if wanted and self._init_model is None else None

    def _can_start(self, start: str) -> bool:
        """Whether it can be made; `auto` says why not."""
        reason = self._engine.params.unstartable(self._given.engine)
        if self._space.n_features > cross_fit.MOST_FEATURES:
            reason = f"{self._space.n_features:,} features are more than the {cross_fit.MOST_FEATURES:,} it takes"
        if reason and start == LINEAR_START:
            raise ParameterError(f"no linear start on this cluster: {reason}; start='none' leaves it out")
        if reason:
            warn_user(f"auto begins without its linear start here: {reason}", DataWarning)
        return reason is None

    def release(self) -> None:
        """Whatever happened, the workers are free for others."""
        self._workers.release()

    def _when(self) -> str:
        return f" after round {len(self._news) + self._before}"

    def _save_so_far(self, rounds: int, body: bytes, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint; where that fails, the old one stays and the training goes on."""
        history: dict[str, dict[str, list[float]]] = {}
        for iteration, _, _, results in self._news:
            if iteration < rounds:
                for name, metric, value, *_ in results:
                    history.setdefault(name, {}).setdefault(metric, []).append(value)
        booster = together(self._start, self._engine.load(body))
        model = RankingModel(booster, info=self._info(), evals_result=history)
        try:
            model.save(path, num_iteration=0)
        except TrainingError as error:
            warn_user(f"{error}. The training goes on; the next checkpoint may fit again", TrainingWarning)
            return
        self._saved = rounds

    def _info(self) -> ModelInfo:
        shards = [shard for _, shard in self._shards]
        info = describe_training(
            self._engine, self._given, self._objective, self._rules, {}, self._before,
            self._params,
        )  # fmt: skip
        digest = hashlib.blake2b("".join(sorted(shard.fingerprint for shard in shards)).encode(), digest_size=16)
        data = {
            "absent": "zero", "files": [shard.path for shard in sorted(shards, key=lambda shard: shard.path)],
            "rows": sum(shard.rows for shard in shards), "queries": sum(len(shard.qids) for shard in shards),
            "index_base": self._space.index_base, "features": self._space.n_features,
            "feature_names": list(self._space.feature_names), "fingerprint": digest.hexdigest(),
        }  # fmt: skip
        info = info | {"start": self._description} if self._description else info
        return info | {"data": data, "training": {**info["training"], "workers": len(self._workers.addresses)}}

    def _model(self, results: Sequence[FitResult]) -> RankingModel:
        first = results[0]
        booster = self._engine.load(first.model).finished({})
        info = self._info()
        rounds, data = booster.rounds, info["data"]
        summary = TrainingSummary(
            rows=data["rows"], queries=data["queries"], dead_queries=first.dead_queries, rounds=rounds,
            best_round=first.best_rounds or rounds, seconds=time.perf_counter() - self._started,
            kernel_seconds=max(result.kernel_seconds for result in results),
            metric_seconds=max(result.metric_seconds for result in results),
        )  # fmt: skip
        return RankingModel(
            booster, best_rounds=first.best_rounds, info=info, evals_result=first.history, summary=summary
        )


def _space_of(shards: Sequence[Shard], reading: Mapping[str, Any]) -> FeatureSpace:
    """The features of all shards together, as if they were one file: numbered from 0 if 0 occurs in any of them."""
    if not shards:
        raise InputError("there is no training shard")
    bases = {shard.index_base for shard in shards if shard.index_base is not None}
    base = min(bases, default=1)
    # A shard read as if its first feature had number 1 has one column less.
    width = max(shard.features + ((shard.index_base or base) - base) for shard in shards)
    narrow = min(shards, key=lambda shard: shard.features)
    if narrow.features < width:
        warn_user(
            f"{narrow.path} names {narrow.features:,} features, others up to {width:,}: those that a shard does not "
            "name are zero in it",
            DataWarning,
        )
    return FeatureSpace(base, width, default_feature_names(width, base))
