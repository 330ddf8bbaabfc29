"""A training on the workers of a Dask cluster, seen from the client: what is asked of whom, and what is told."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boostrank.backends import get_backend
from boostrank.backends.base import Callback, CallbackEnv, EvalResult, StopTraining
from boostrank.cluster import worker
from boostrank.cluster.connect import import_distributed
from boostrank.cluster.fitting import Outcome, Plan
from boostrank.cluster.placing import (
    Facts,
    Shard,
    host_of,
    place,
    refuse_differences,
    refuse_shared_queries,
    refuse_unreachable,
    shared_with_training,
)
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
from boostrank.core.types import QueryIndex
from boostrank.data.dataset import default_feature_names
from boostrank.data.libsvm import FeatureSpace
from boostrank.metric import Conventions
from boostrank.training.described import describe_training
from boostrank.training.model import RankingModel, TrainingSummary
from boostrank.training.params import headline, split_params

_LOOK_EVERY = 0.1  # seconds between looks at the work
_LISTEN_EVERY = 1.0  # between words with the workers
_BUSY_SECONDS = 20.0  # a training that failed elsewhere may take a moment to end on every worker


class ClusterTraining:
    """One training from the first word to the workers to the model.

    Args:
        client: `distributed.Client`.
        params, rounds, init_model, conventions: as for `boostrank.cluster.train`.

    Raises:
        ParameterError: something that cannot be done on several workers.
    """

    def __init__(
        self,
        client: Any,
        params: Mapping[str, Any] | None,
        rounds: int,
        init_model: RankingModel | str | os.PathLike[str] | None,
        conventions: Conventions | str | None,
    ) -> None:
        self._client, self._params = client, dict(params or {})
        self._token = secrets.token_hex(8)
        self._started = time.perf_counter()
        self._engine = get_backend("xgboost")
        if isinstance(init_model, str | os.PathLike):
            init_model = RankingModel.load(init_model)
        self._init_model = init_model
        self._given = split_params(self._params, rounds, self._engine)
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
        self._before = 0 if init_model is None else init_model.best_iteration
        if objective is not None and objective.total_rounds is None:
            objective = objective.over(self._before + self._given.rounds)
        self._objective = objective
        if conventions is None:
            conventions = Conventions(gain=self._given.gain)
        self._rules = Conventions.named(conventions) if isinstance(conventions, str) else conventions
        self._workers: list[str] = []
        self._facts: dict[str, Facts] = {}
        self._shards: list[tuple[str, Shard]] = []
        self._space = FeatureSpace(1, 0)
        self._news: list[Any] = []
        self._checkpoint = 0
        self._stop = False

    def gather(self, paths: list[str], sets: list[list[str]], reading: dict[str, Any], port: int) -> None:
        """Find workers, read every shard, and refuse what would not go well."""
        everything = [*paths, *(path for group in sets for path in group)]
        self._facts = self._claim(everything)
        sizes = {address: facts.sizes for address, facts in self._facts.items()}
        training = place(paths, sizes)
        validation = [place(group, sizes, training) for group in sets]
        used = [a for a in sizes if training[a] or any(group[a] for group in validation)]
        idle = [address for address in sizes if address not in used]
        if idle:
            self._ask(idle, worker.release)
        self._workers = used
        refuse_unreachable({address: self._facts[address].host for address in used})
        agreed = {
            "parameters": self._given.engine,
            "the objective": self._objective.to_dict() if self._objective else self._given.native_objective,
            "the number of rounds": self._given.rounds,
        }
        reports = self._work(worker.read, [(training[address], reading, agreed) for address in used])
        refuse_differences({address: report[0] for address, report in zip(used, reports, strict=True)})
        self._shards = [(a, shard) for a, report in zip(used, reports, strict=True) for shard in report[1]]
        refuse_shared_queries(self._shards)
        self._space = _space_of([shard for _, shard in self._shards], reading)
        if self._init_model is not None:
            _refuse_other_features(self._init_model, self._space)
        mine = [(self._space, [group[address] for group in validation], reading) for address in used]
        found = self._work(worker.settle, mine)
        for i in range(len(sets)):
            of_set = [(a, shard) for a, report in zip(used, found, strict=True) for shard in report[i]]
            refuse_shared_queries(of_set)
            both = shared_with_training([s for _, s in self._shards], [s for _, s in of_set])
            if both:
                words = f"{', '.join(sets[i])}: {len(both):,} query ids are also in the training data (one: {both[0]})"
                if reading.get("strict"):
                    raise DataError(words)
                warn_user(words, DataWarning)
        arguments = self._ask(used[:1], worker.gather, len(used), host_of(used[0]), port)[used[0]]
        if isinstance(arguments, Exception):
            raise TrainingError(str(arguments)) from arguments
        self._meeting = arguments

    @property
    def inventory(self) -> str:
        """Workers and data in one line."""
        mine = [self._facts[address] for address in self._workers]
        shards = [shard for _, shard in self._shards]
        return (
            f"{_count(len(mine), 'worker')} with {_count(sum(facts.threads for facts in mine), 'thread')} on "
            f"{_count(len({facts.host for facts in mine}), 'machine')}: {_count(len(shards), 'shard')}, "
            f"{sum(shard.rows for shard in shards):,} rows, {sum(len(shard.qids) for shard in shards):,} queries, "
            f"{self._space.n_features:,} features"
        )

    def run(
        self,
        names: list[str],
        callbacks: list[Callback],
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> RankingModel:
        """Train, and tell what happens meanwhile."""
        given, objective = self._given, self._objective
        if given.stopping_rounds and not names:
            raise ParameterError("early stopping needs validation shards")
        settled = 0 if objective is None else objective.settled_round(objective.total_rounds or 0)
        init = b""
        if self._init_model is not None:
            init = self._engine.to_bytes(self._init_model.booster, rounds=self._before)
        plan = Plan(
            objective=objective,
            native_objective=given.native_objective,
            engine=given.engine,
            rounds=given.rounds,
            metrics=given.metrics,
            conventions=self._rules,
            feature_names=self._space.feature_names,
            valid_names=tuple(names),
            stopping_rounds=given.stopping_rounds,
            min_delta=given.min_delta,
            watched=headline(given.metrics),
            settled_round=settled,
            init_model=init,
            checkpoint_every=checkpoint_every,
        )
        listen = _Listener(self, callbacks, checkpoint)
        work = [(rank, self._meeting, plan) for rank in range(len(self._workers))]
        try:
            outcomes: list[Outcome] = self._work(worker.fit, work, listen)
        except WorkerLost as error:
            left = self._before + given.rounds - self._checkpoint
            where = f"; {checkpoint} holds the first {self._checkpoint} rounds, continue it for {left} more"
            raise WorkerLost(f"{error}{where if self._checkpoint else ''}") from error
        if len({outcome.checksum for outcome in outcomes}) > 1:
            raise TrainingError("the workers ended with different models: none of them is to be trusted")
        return self._model(outcomes)

    def release(self) -> None:
        """Whatever happened, the workers are free for others."""
        with contextlib.suppress(Exception):  # of dead ones, and of a scheduler that is gone
            self._ask(list(self._present() & set(self._facts)), worker.release)

    def _present(self) -> set[str]:
        """Workers that can be given work."""
        info = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address for address, about in info.items() if about.get("nthreads", 1) > 0}

    def _ask(self, workers: Sequence[str], question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Each worker's answer at once, whatever it is working on; errors as they are."""
        answers: dict[str, Any] = self._client.run(
            question, self._token, *arguments, workers=list(workers), on_error="return"
        )
        return answers

    def _claim(self, paths: list[str]) -> dict[str, Facts]:
        present = sorted(self._present())
        if not present:
            raise InputError("the Dask cluster has no worker: start some with `dask worker ADDRESS`")
        given_up = time.monotonic() + _BUSY_SECONDS
        while True:
            facts = self._facts = self._facts_of(present, paths)
            busy = next((address for address, found in facts.items() if found.busy), None)
            if busy is None:
                break
            if time.monotonic() > given_up:
                raise InputError(f"worker {busy} {facts[busy].busy} for another training: wait until that is over")
            time.sleep(_LISTEN_EVERY)
        refuse_differences(
            {"the client": worker.versions()} | {address: found.versions for address, found in facts.items()}
        )
        return {address: facts[address] for address in present}

    def _facts_of(self, workers: Sequence[str], paths: list[str]) -> dict[str, Facts]:
        facts: dict[str, Facts] = {}
        for address, answer in self._ask(workers, worker.claim, paths).items():
            if isinstance(answer, Exception):
                raise InputError(
                    f"worker {address} cannot train: {type(answer).__name__}: {answer}. Every worker needs boostrank "
                    "and XGBoost: pip install 'boostrank[dask,xgboost]'"
                ) from answer
            facts[address] = answer
        return facts

    def _work(
        self,
        task: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        listen: Callable[[dict[str, Any]], None] | None = None,
    ) -> list[Any]:
        """A piece of work on every worker, and its results.

        Raises:
            WorkerLost: one of them is gone.
            BoostrankError: the one that was the first cause.
        """
        futures = [
            self._client.submit(
                task, self._token, *mine, workers=[address], allow_other_workers=False, pure=False, retries=0
            )
            for address, mine in zip(self._workers, arguments, strict=True)
        ]
        heard = 0.0
        try:
            while not all(future.done() for future in futures):
                time.sleep(_LOOK_EVERY)
                if time.monotonic() - heard > _LISTEN_EVERY:
                    answers = self._hear(listen is not None)
                    heard = time.monotonic()
                    if listen is not None:
                        listen(answers)
            self._hear_the_rest(listen)
            results = [future.result() for future in futures]
        except import_distributed().client.FutureCancelledError as error:
            raise WorkerLost(f"the work was cancelled: {error}") from error
        finally:
            self._client.cancel(futures, force=True)
        return self._judged(results)

    def _hear(self, training: bool) -> dict[str, Any]:
        """Every worker's answer to the pulse.

        Raises:
            WorkerLost: one of them is gone.
        """
        present = self._present()
        gone = [address for address in self._workers if address not in present]
        answers: dict[str, Any] = {}
        if not gone:
            answers = self._ask(self._workers, worker.pulse, len(self._news), self._checkpoint, self._stop)
            gone = [a for a in self._workers if answers.get(a) is None or isinstance(answers[a], Exception)]
        if gone:
            so_far = f" after round {len(self._news) + self._before}" if training else ""
            raise WorkerLost(
                f"worker {gone[0]} on {self._facts[gone[0]].host} is gone{so_far}: it was killed (out of memory?), or "
                "its machine cannot be reached. The training is over on all workers"
            )
        return answers

    def _hear_the_rest(self, listen: Callable[[dict[str, Any]], None] | None) -> None:
        if listen is not None:
            with contextlib.suppress(WorkerLost):
                listen(self._hear(training=True))

    def _judged(self, results: list[worker.Done | worker.Failed]) -> list[Any]:
        failed = [result for result in results if isinstance(result, worker.Failed)]
        if failed:
            cause = min(failed, key=lambda failure: failure.secondary)
            if cause.secondary:
                self._hear(training=True)  # is one gone?
                raise WorkerLost(f"the workers lost contact with each other: {cause.message}")
            raise cause.error()
        kinds = {"DataWarning": DataWarning, "TrainingWarning": TrainingWarning}
        told = {warning: None for result in results if isinstance(result, worker.Done) for warning in result.warnings}
        for kind, words in told:
            warn_user(words, kinds.get(kind, TrainingWarning))
        return [result.value for result in results if isinstance(result, worker.Done)]

    def heard(self, news: Sequence[Any]) -> list[CallbackEnv]:
        """What a callback sees of rounds that are new here."""
        self._news += news
        return [
            CallbackEnv(None, self._given.engine, iteration, begin, end, [EvalResult(*result) for result in results])
            for iteration, begin, end, results in news
        ]

    def ask_to_stop(self) -> None:
        """End the training after the round that is under way."""
        self._stop = True

    def model_so_far(self, rounds: int, body: bytes) -> RankingModel:
        """A checkpoint's model."""
        self._checkpoint = rounds
        history: dict[str, dict[str, list[float]]] = {}
        for iteration, _, _, results in self._news:
            if iteration < rounds:
                for result in results:
                    history.setdefault(result[0], {}).setdefault(result[1], []).append(result[2])
        return RankingModel(
            self._engine, self._engine.from_bytes(body), info=self._info(), evals_result=history
        )  # fmt: skip

    def _info(self) -> dict[str, Any]:
        shards = [shard for _, shard in self._shards]
        info = describe_training(
            self._engine, self._given, self._objective, self._rules, None, QueryIndex.from_sizes([]), self._before,
            self._params,
        )  # fmt: skip
        digest = hashlib.blake2b("".join(sorted(shard.fingerprint for shard in shards)).encode(), digest_size=16)
        info["data"] = {
            "absent": "zero",
            "files": [shard.path for shard in sorted(shards, key=lambda shard: shard.path)],
            "rows": sum(shard.rows for shard in shards),
            "queries": sum(len(shard.qids) for shard in shards),
            "index_base": self._space.index_base,
            "features": self._space.n_features,
            "feature_names": list(self._space.feature_names),
            "fingerprint": digest.hexdigest(),
        }
        info["training"]["workers"] = len(self._workers)
        return info

    def _model(self, outcomes: Sequence[Outcome]) -> RankingModel:
        first = outcomes[0]
        booster = self._engine.from_bytes(first.model)
        info = self._info()
        summary = TrainingSummary(
            rows=info["data"]["rows"],
            queries=info["data"]["queries"],
            dead_queries=first.dead_queries,
            rounds=self._engine.rounds_of(booster),
            best_round=first.best_rounds or self._engine.rounds_of(booster),
            seconds=time.perf_counter() - self._started,
            kernel_seconds=max(outcome.kernel_seconds for outcome in outcomes),
            metric_seconds=max(outcome.metric_seconds for outcome in outcomes),
        )
        return RankingModel(
            self._engine, booster, best_rounds=first.best_rounds, info=info, evals_result=first.history, summary=summary
        )


class _Listener:
    """Hands on what the first worker tells: rounds to the callbacks, models to where they are saved."""

    def __init__(
        self, training: ClusterTraining, callbacks: list[Callback], checkpoint: str | os.PathLike[str] | None
    ) -> None:
        self._training, self._checkpoint = training, checkpoint
        self._callbacks = sorted(callbacks, key=lambda callback: getattr(callback, "order", 0))

    def __call__(self, answers: Mapping[str, Any]) -> None:
        if not answers:
            return
        news, model = next(iter(answers.values()))
        for env in self._training.heard(news):
            for callback in self._callbacks:
                try:
                    callback(env)
                except StopTraining:
                    self._training.ask_to_stop()
        if model is not None and self._checkpoint is not None:
            self._training.model_so_far(*model).save(self._checkpoint, num_iteration=0)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


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


def _refuse_other_features(model: RankingModel, space: FeatureSpace) -> None:
    if model.n_features != space.n_features or (model.index_base or space.index_base) != space.index_base:
        raise DataError(
            f"the model that is continued has {model.n_features} features numbered from {model.index_base}, the shards "
            f"{space.n_features} from {space.index_base}"
        )
