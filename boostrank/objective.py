"""An objective with its parameters, and what it becomes once it is bound to labels and queries.

An `Objective` is a description: a name and parameters, picklable and serialisable. `bind` gives it data and buffers.
Called with what an engine hands to a custom objective, it does both by itself:

    lgb.train({"objective": Objective("shf-sdcg", sigma=0.5)}, dataset)
    lgb.LGBMRanker(objective=Objective("shf-sdcg", sigma=0.5)).fit(X, y, group=sizes)
    xgb.train({"base_score": 0}, dmatrix, obj=Objective("shf-sdcg", sigma=0.5))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, ParameterError, TrainingError
from boostrank.core.gains import gains_from_labels, parse_gain
from boostrank.core.params import Param, plain_name, resolve_params
from boostrank.core.types import Float32Array, Float64Array, QueryIndex, Schedule
from boostrank.data.dataset import query_weights
from boostrank.kernels.driver import Buffers, PassStats, run_kernel
from boostrank.kernels.jit import resolve_threads
from boostrank.kernels.spec import ObjectiveSpec
from boostrank.objectives import OBJECTIVES
from boostrank.schedules import is_schedule_text, parse_schedule

# Where a pair loop stops being a wait and becomes a mistake: 50,000 documents are 2.5e9 ordered pairs, seconds a
# round. Longer lists are refused with the numbers.
MAX_QUADRATIC_DOCUMENTS = 50_000

HESSIAN_SCALES = ("unit", "raw")

GAIN_OPTION = "gain"
GAIN_HELP = (
    "gain of a label: exponential (2^label - 1), linear (the label itself, real numbers welcome), or a table "
    "such as 0,1,3,7,15"
)


class Objective:
    """A named objective with parameters; each may be a number, a word or, where it says so, a schedule.

    Args:
        name: canonical name or alias, see `boostrank objectives`.
        gain: "exponential", "linear", or a table of gains by label.
        total_rounds: length of the whole training, for schedules that span it; `boostrank.train` fills it in.
        hessian_scale: "unit" scales gradient and hessian so that the average document has curvature one (then
            `min_sum_hessian_in_leaf` and its relatives mean the same for every objective); "raw" leaves both alone.
        threads: threads for the kernels; None means every available core.
        params: the objective's own parameters, by name or alias.

    Raises:
        ParameterError: unknown name or parameter, value out of range.
    """

    def __init__(
        self,
        name: str | ObjectiveSpec,
        *,
        gain: Any = "exponential",
        total_rounds: int | None = None,
        hessian_scale: str = "unit",
        threads: int | None = None,
        **params: Any,
    ) -> None:
        self.spec = OBJECTIVES.get(name) if isinstance(name, str) else name
        self.gain = parse_gain(gain)
        self.total_rounds = None if total_rounds is None else int(total_rounds)
        if hessian_scale not in HESSIAN_SCALES:
            raise ParameterError(f"hessian_scale={hessian_scale!r} is not one of {' | '.join(HESSIAN_SCALES)}")
        self.hessian_scale = hessian_scale
        self.threads = threads
        given = resolve_params(self.spec.params, params, owner=f"objective {self.spec.name!r}")
        self.params: dict[str, Any] = {
            p.name: _parse(p, given.get(p.name, p.default), self.spec) for p in self.spec.params
        }
        for parameter, text in self.spec.default_schedules.items():
            if parameter not in given:
                self.params[parameter] = parse_schedule(text.format_map(self.params))
        self._bound: BoundObjective | None = None
        self._bound_to: Any = None
        self._calls = 0

    @property
    def name(self) -> str:
        """Canonical name."""
        return self.spec.name

    def __repr__(self) -> str:
        words = [repr(self.name)]
        words += [f"{k}={v if not isinstance(v, str) else repr(v)}" for k, v in self.params.items()]
        return f"Objective({', '.join(words)}, gain={self.gain!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Buffers and compiled code stay behind: a copy (LightGBM deep-copies its parameters) starts afresh.
        return self.__dict__ | {
            "_bound": None,
            "_bound_to": None,
            "_calls": 0,
            "spec": self._spec_reference(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = state["spec"]
        self.__dict__.update(state)
        self.spec = OBJECTIVES.get(spec) if isinstance(spec, str) else spec

    def _spec_reference(self) -> str | ObjectiveSpec:
        # By name where the registry knows it, so that a pickle holds no code.
        return self.name if any(spec is self.spec for spec in OBJECTIVES) else self.spec

    def over(self, total_rounds: int) -> Objective:
        """The same objective, told how long the whole training is."""
        copy = Objective.__new__(Objective)
        copy.__setstate__(self.__getstate__() | {"total_rounds": int(total_rounds)})
        return copy

    @property
    def needs_total(self) -> bool:
        """Whether a schedule spans the training, so that `total_rounds` must be known."""
        return any(isinstance(v, Schedule) and v.needs_total for v in self.params.values())

    def values(self, round: int) -> dict[str, Any]:
        """Every parameter as it is at a 0-based round.

        Raises:
            ParameterError: a schedule needs `total_rounds`, or leaves the parameter's range.
        """
        return {name: self._value(name, value, round) for name, value in self.params.items()}

    def _value(self, name: str, value: Any, round: int) -> Any:
        if not isinstance(value, Schedule):
            return value
        if value.needs_total:
            if self.total_rounds is None:
                raise ParameterError(
                    f"objective {self.name!r}: {name}={value} spans the whole training, whose length is not known "
                    f"here. Say total_rounds=N, or use boostrank.train, which knows it."
                )
            value = value.over(self.total_rounds)
        return self.spec.param(name).parse(value(round))

    def settled_round(self, total: int) -> int:
        """First round at which early stopping may look at the metric."""
        return self.spec.settled(self.params, total)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `from_dict` turns back into this objective."""
        params = {k: str(v) if isinstance(v, Schedule) else v for k, v in self.params.items()}
        return {
            "name": self.name,
            "params": params,
            "gain": self.gain if isinstance(self.gain, str) else list(self.gain),
            "hessian_scale": self.hessian_scale,
            "total_rounds": self.total_rounds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Objective:
        """Back from `to_dict`."""
        return cls(
            data["name"],
            gain=data["gain"],
            hessian_scale=data["hessian_scale"],
            total_rounds=data["total_rounds"],
            **data["params"],
        )

    def bind(self, labels: npt.ArrayLike, queries: QueryIndex) -> BoundObjective:
        """Give it data: constants are computed and buffers allocated, once.

        Args:
            labels: float[N], finite, >= 0.
            queries: boundaries, names and weights of the queries.

        Raises:
            DataError: labels the gain cannot take, lengths that differ, a list too long for a pair loop.
        """
        return BoundObjective(self, np.ascontiguousarray(labels, dtype=np.float64), queries)

    def __call__(
        self, first: Any, second: Any, weight: Any = None, group: Any = None
    ) -> tuple[Float32Array, Float32Array]:
        """What the engines call: (scores, data set), or LGBMRanker's (labels, scores, weights, group sizes).

        Returns:
            Gradient and hessian, float32[N], valid until the next call.
        """
        if hasattr(second, "get_label"):
            key, scores = second, np.asarray(first)
        else:
            key, scores = first, np.asarray(second)
        if self._bound is None or self._bound_to is not key:
            if hasattr(second, "get_label"):
                labels, queries = queries_of_native(second)
            else:
                labels, queries = np.asarray(first), _queries(group, weight, len(scores))
            self._bound, self._bound_to, self._calls = self.bind(labels, queries), key, 0
        round = _round_of_caller()
        if round is None:
            round = self._calls
        self._calls += 1
        result = self._bound.gradient(scores, round)
        if scores.dtype == np.float32 and scores.ndim == 2:
            return result.grad.reshape(-1, 1), result.hess.reshape(-1, 1)
        return result.grad, result.hess


@dataclass(frozen=True, eq=False)
class Gradient:
    """One round's result; the arrays belong to the bound objective and are overwritten by the next round."""

    grad: Float32Array
    hess: Float32Array
    stats: PassStats


class BoundObjective:
    """An objective over one data set. Not for use by two threads at once.

    Args:
        objective: what to compute.
        labels: float64[N].
        queries: N documents.
    """

    def __init__(self, objective: Objective, labels: Float64Array, queries: QueryIndex) -> None:
        spec = objective.spec
        if labels.shape != (queries.n_documents,):
            raise DataError(
                f"{labels.size} labels but queries that cover {queries.n_documents} documents: group sizes must sum "
                "to the number of rows"
            )
        if spec.quadratic and queries.longest > MAX_QUADRATIC_DOCUMENTS:
            q = int(np.argmax(queries.sizes))
            raise DataError(
                f"query {queries.qid[q]} has {queries.longest:,} documents, {queries.longest**2:.1e} pairs a round: "
                f"objective {spec.name!r} stops at {MAX_QUADRATIC_DOCUMENTS:,} documents a query. Objectives without "
                f"a pair loop: {', '.join(s.name for s in OBJECTIVES if not s.quadratic)}"
            )
        self.objective, self.queries = objective, queries
        self.gains = gains_from_labels(labels, objective.gain)
        constants = {k: v for k, v in objective.params.items() if not isinstance(v, Schedule)}
        self._ptr = np.require(queries.ptr, np.int64, ["C", "W"])  # compiled code takes no read-only arrays
        self._doc_const, self._query_const = spec.prepare(labels, self.gains, self._ptr, constants)
        weights = np.ones(len(queries)) if queries.weights is None else queries.weights
        self._weights = weights / weights.mean() if weights.size else weights
        self._buffers = Buffers.allocate(labels.size, len(queries))
        self._threads = resolve_threads(objective.threads)
        self.seconds = 0.0
        """Time spent in kernels so far."""

    def gradient(self, scores: npt.ArrayLike, round: int) -> Gradient:
        """Gradient and hessian of the loss at these scores.

        Args:
            scores: float[N]; read, never kept.
            round: 0-based, earlier rounds of a continued model included.

        Raises:
            TrainingError: something that is not finite; names objective, round, query and the range of scores.
        """
        spec = self.objective.spec
        s = np.array(scores, dtype=np.float64, copy=True).reshape(-1)
        if s.shape != self.gains.shape:
            raise TrainingError(f"{s.size} scores for {self.gains.size} documents")
        params = spec.encode(self.objective.values(round), round)
        stats = run_kernel(
            spec.kernel, s, self.gains, self._ptr, self._weights, self._doc_const, self._query_const, params,
            self._buffers,
            unit_hessian=self.objective.hessian_scale == "unit",
            scratch_per_document=spec.scratch_per_document,
            threads=self._threads,
        )  # fmt: skip
        self.seconds += stats.seconds
        if stats.broken_query >= 0:
            raise TrainingError(self._broken(stats.broken_query, s, round))
        if round == 0 and stats.dead_queries == len(self.queries):
            raise TrainingError(self._nothing_to_learn(s))
        return Gradient(self._buffers.grad, self._buffers.hess, stats)

    def _broken(self, q: int, scores: Float64Array, round: int) -> str:
        mine = scores[self.queries.ptr[q] : self.queries.ptr[q + 1]]
        finite = mine[np.isfinite(mine)]
        span = f"{finite.min():g} to {finite.max():g}" if finite.size else "none finite"
        if finite.size < mine.size:
            cause = f"{mine.size - finite.size} of its {mine.size} scores are not finite; lower the learning rate"
        else:
            cause = "the gradient or hessian is not finite, or the hessian is negative"
        return (
            f"objective {self.objective.name!r}, round {round}, query {self.queries.qid[q]} ({mine.size} documents, "
            f"scores {span}): {cause}"
        )

    def _nothing_to_learn(self, scores: Float64Array) -> str:
        ptr = self.queries.ptr
        mixed = any(np.ptp(self.gains[a:b]) > 0 for a, b in pairwise(ptr) if b > a)
        if not mixed:
            return "nothing to learn: in every query all documents have the same gain"
        return (
            f"nothing to learn: objective {self.objective.name!r} has a zero gradient in every query at these scores "
            f"(range {np.ptp(scores):g}); it needs a warm start"
        )


def objective_constructor(name: str) -> Callable[..., Objective] | None:
    """`ShfSdcg(sigma=0.5)` for `Objective("shf-sdcg", sigma=0.5)`; None when there is no such objective.

    Args:
        name: the objective's name in CapWords; case and dashes do not matter.
    """
    spec = next((s for s in OBJECTIVES if plain_name(s.name) == plain_name(name)), None)
    if spec is None:
        return None
    found = spec

    def construct(**options: Any) -> Objective:
        return Objective(found, **options)

    construct.__name__ = construct.__qualname__ = name
    lines = [f"    {p.name} ({p.range}; default {p.default}): {p.help}" for p in spec.params]
    construct.__doc__ = "\n".join([f"{spec.summary}. See `Objective` for the shared options.", "", *lines])
    return construct


def _parse(param: Param, value: Any, spec: ObjectiveSpec) -> Any:
    if is_schedule_text(value):
        value = parse_schedule(value)
    if isinstance(value, Schedule):
        if not param.schedulable:
            raise ParameterError(f"objective {spec.name!r}: {param.name} cannot follow a schedule")
        return value
    return param.parse(value)


def queries_of_native(dataset: Any) -> tuple[npt.NDArray[Any], QueryIndex]:
    """Labels and queries of a LightGBM Dataset or an XGBoost DMatrix, told by what they can be asked.

    Raises:
        DataError: no queries, or group sizes that do not sum to the rows.
    """
    if hasattr(dataset, "construct"):
        dataset.construct()
    labels = np.asarray(dataset.get_label())
    if hasattr(dataset, "get_uint_info"):
        ptr = np.asarray(dataset.get_uint_info("group_ptr"), dtype=np.int64)
        sizes = np.diff(ptr) if ptr.size else None
    else:
        sizes = dataset.get_group()
    return labels, _queries(sizes, dataset.get_weight(), labels.size)


def _queries(sizes: Any, weight: Any, rows: int) -> QueryIndex:
    if sizes is None or not len(sizes):
        raise DataError(
            "the data set has no queries: give group sizes (LightGBM: group=, XGBoost: qid= or group=); without them "
            "all rows would be one query"
        )
    queries = QueryIndex.from_sizes(sizes)
    if queries.n_documents != rows:
        raise DataError(f"group sizes sum to {queries.n_documents} but there are {rows} rows")
    if weight is None or not len(weight):
        return queries
    weights = query_weights(np.asarray(weight, dtype=np.float64), queries)
    return QueryIndex(queries.ptr, queries.qid, weights)


def _round_of_caller() -> int | None:
    """The round that the engine is in, earlier rounds of a continued model included.

    No engine hands it over: LightGBM passes scores and data alone, and `xgb.train` counts from 0 again on
    continuation. The booster that is calling knows it, and is the `self` of an `update` some frames up.
    """
    frame = sys._getframe(2)
    for _ in range(6):
        if frame is None:
            return None
        if frame.f_code.co_name == "update":
            booster = frame.f_locals.get("self")
            for attribute in ("num_boosted_rounds", "current_iteration"):
                count: Callable[[], int] | None = getattr(booster, attribute, None)
                if count is not None:
                    return int(count())
        frame = frame.f_back  # type: ignore[assignment]
    return None
