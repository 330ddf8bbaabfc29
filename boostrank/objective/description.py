"""Objectives with their parameters, which can be bound to labels and queries.

An `Objective` has a name and parameters, and can be pickled. Its method `bind` adds data and
buffers. It can be passed to an engine as a custom objective, which binds itself at the first call:

    lgb.train({"objective": Objective("shf-sdcg", sigma=0.5)}, dataset)
    lgb.LGBMRanker(objective=Objective("shf-sdcg", sigma=0.5)).fit(X, y, group=sizes)
    xgb.train({"base_score": 0}, dmatrix, obj=Objective("shf-sdcg", sigma=0.5))
"""

from __future__ import annotations

import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from traceback import walk_stack
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.conventions import parse_gain
from boostrank.core.errors import DataError, ParameterError
from boostrank.core.params import Param, plain_name, resolve_params
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float32Array, Json, ParamValues, Schedule
from boostrank.data.arrays import queries_given
from boostrank.kernels.driver import AllReduce, alone
from boostrank.kernels.objective import LOSS_WEIGHTS, ObjectiveSpec, source_of
from boostrank.kernels.options import OPTIONS
from boostrank.objective.bound import BoundObjective
from boostrank.objectives import OBJECTIVES
from boostrank.schedules import is_schedule_text, parse_schedule


@dataclass
class _Binding:
    """An objective's state between the calls of an engine, without a reference to the engine's data
    set.
    """

    key: weakref.ref[Any]
    bound: BoundObjective
    calls: int = 0  # the round, if the caller does not provide it


class TrainingObjective(ABC):
    """An objective for an engine, which is a single objective or a mixture.

    Args:
        gain: gain of a label, which metrics use by default.
        hessian_scale: "unit" or "raw".
        total_rounds: length of the whole training, for schedules that span it.
        threads: None for every available core.
    """

    gain: str | tuple[float, ...]
    hessian_scale: str
    total_rounds: int | None
    threads: int | None
    _binding: _Binding | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the objective in messages."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Objective, ...]:
        """The single objectives that this objective consists of."""

    def factors(self, round: int, magnitudes: Sequence[float]) -> tuple[float, ...]:
        """Return the factor of each part in a round, counted from 0, given each part's mean
        absolute gradient: (1.0,) for an objective alone, which is not balanced.
        """
        return (1.0,)

    @abstractmethod
    def settled_round(self, total: int) -> int:
        """Return the first round whose metric early stopping may use."""

    @abstractmethod
    def to_dict(self) -> Json:
        """Return the objective as plain data, from which `from_dict` recreates it."""

    def check_gain_weights(self, component: str, remedy: str) -> None:
        """Reject a component that applies document weights to gains if this objective applies them
        to losses.
        """
        losses = [part.name for part in self.parts if part.spec.document_weights == LOSS_WEIGHTS]
        if losses:
            raise ParameterError(
                f"{component} applies document weights to gains, but objective {losses[0]!r}"
                f" applies them to losses: {remedy}"
            )

    def scale_to(self, total_rounds: int) -> Self:
        """Return a copy for a training of `total_rounds` rounds, which all parts take over."""
        scaled = copy(self)
        scaled._set_total(int(total_rounds))
        return scaled

    def _set_total(self, total_rounds: int) -> None:
        self.total_rounds = total_rounds

    def __getstate__(self) -> dict[str, Any]:
        # Copies start without buffers and compiled code: LightGBM deep-copies its parameters.
        return self.__dict__ | {"_binding": None}

    def bind(
        self, labels: ArrayLike, queries: QueryIndex, all_reduce: AllReduce = alone
    ) -> BoundObjective:
        """Bind to data: compute constants and allocate buffers; arguments and errors are those of
        `BoundObjective`.
        """
        return BoundObjective(
            self, np.ascontiguousarray(labels, dtype=np.float64), queries, all_reduce
        )

    def __call__(
        self, first: Any, second: Any, weight: Any = None, group: Any = None
    ) -> tuple[Float32Array, Float32Array]:
        """Return the gradient for (scores, data) or, from LGBMRanker, for (labels, scores, weights,
        group sizes).

        Returns:
            Gradient and hessian, float32[N], valid until the next call.
        """
        is_native = hasattr(second, "get_label")
        key, scores = (second, np.asarray(first)) if is_native else (first, np.asarray(second))
        binding, round = self._binding, round_of_caller()
        # A new training may have new labels in the same data set, so bind again in round 0.
        if binding is None or binding.key() is not key or round == 0:
            if is_native:
                if in_cross_validation():
                    _check_whole(second)
                labels, queries = queries_of_native(second)
            else:
                labels, queries = np.asarray(first), queries_given(group, weight, len(scores))
            binding = self._binding = _Binding(weakref.ref(key), self.bind(labels, queries))
        if round is None:
            round = binding.calls
        gradient = binding.bound.gradient(scores, round, loss=False)
        binding.calls += 1
        if scores.dtype == np.float32 and scores.ndim == 2:
            return gradient.grad[:, None], gradient.hess[:, None]
        return gradient.grad, gradient.hess


class Objective(TrainingObjective):
    """An objective with its parameters, which are numbers, words or, where supported, schedules.

    Args:
        name: name or alias, see `boostrank objectives`; or your own objective from
            `boostrank.define_objective`.
        gain: "exponential", "linear", or a table of gains by label.
        total_rounds: length of the whole training, for schedules that span it; `boostrank.train`
            sets it.
        threads: threads for the kernels; None for every available core.
        params: the objective's parameters and the options shared by all objectives (score noise,
            normalisation, scale control, `hessian_scale`: see `kernels.options`), by name or alias.

    Raises:
        ParameterError: the name or a parameter is unknown, or a value is out of range.

    Example:
        >>> import boostrank
        >>> objective = boostrank.Objective("shf", sigma=0.5, k=10)
        >>> objective.name, objective.params["sigma"], objective.params["k"]
        ('shf-sdcg', 0.5, 10)
    """

    def __init__(
        self,
        name: str | ObjectiveSpec,
        *,
        gain: Any = "exponential",
        total_rounds: int | None = None,
        threads: int | None = None,
        **params: Any,
    ) -> None:
        if not isinstance(name, str | ObjectiveSpec):
            raise ParameterError(
                f"{name!r} is neither a name nor the result of boostrank.define_objective"
            )
        if isinstance(name, str) and name.strip().lower() == "auto":
            raise ParameterError(
                "'auto' is a mixture after a linear start, available in boostrank.train and"
                " BoostRanker; the mixture alone, for LGBMRanker(objective=...), is"
                " boostrank.Mixture('lambdarank', 'xe-ndcg')"
            )
        self.spec = OBJECTIVES.get(name) if isinstance(name, str) else name
        self.gain = parse_gain(gain)
        self.total_rounds = None if total_rounds is None else int(total_rounds)
        self.threads = threads
        # Parameters belong to the objective, and options to all objectives.
        owner = f"objective {self.spec.name!r}"
        shared = tuple(option for option in OPTIONS if option not in self.spec.params)
        resolved = resolve_params((*self.spec.params, *shared), params, owner=owner)
        self.params = {
            p.name: parse_value(p, resolved.get(p.name, p.default), owner) for p in self.spec.params
        }
        for parameter, text in self.spec.default_schedules.items():
            if parameter not in resolved:
                self.params[parameter] = parse_schedule(text.format_map(self.params))
        values = {**self.spec.default_options, **resolved}
        self.options = {
            o.name: parse_value(o, values.get(o.name, o.default), owner) for o in shared
        }
        self.hessian_scale = self.options["hessian_scale"]

    @property
    def name(self) -> str:
        """The canonical name of the objective."""
        return self.spec.name

    @property
    def parts(self) -> tuple[Objective, ...]:
        """The objectives of this one: itself alone, in contrast to a mixture."""
        return (self,)

    def __repr__(self) -> str:
        defaults = {option.name: option.default for option in OPTIONS}
        defaults |= self.spec.default_options
        changed = {name: value for name, value in self.options.items() if value != defaults[name]}
        values = plain_values({**self.params, **changed, "gain": self.gain})
        arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return f"Objective({self.name!r}, {arguments})"

    def __getstate__(self) -> dict[str, Any]:
        # Registered objectives are pickled by name, without code.
        is_registered = any(spec is self.spec for spec in OBJECTIVES)
        return super().__getstate__() | {"spec": self.name if is_registered else self.spec}

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = state["spec"]
        if isinstance(spec, str):
            spec = OBJECTIVES.get(spec)
        self.__dict__.update(state | {"spec": spec})

    def values(self, round: int) -> dict[str, Any]:
        """Return the values of all parameters and options in a round (from 0), or raise an error as
        `value_at` does.
        """
        values = self.params | self.options
        declared = (*self.spec.params, *OPTIONS)
        return {param.name: value_at(param, values[param.name], round, self) for param in declared}

    def settled_round(self, total: int) -> int:
        """Return the first of `total` rounds in which early stopping may use the metric."""
        return self.spec.settled(self.params, total)

    def to_dict(self) -> Json:
        """Return name, parameters and options as JSON data, which `from_dict` reads.

        Schedules are texts, and an objective of a user's file has the `source` of its kernel.
        """
        content: Json = {"name": self.name}
        source = source_of(self.spec)
        if source is not None:
            content["source"] = source
        gain = self.gain if isinstance(self.gain, str) else list(self.gain)
        return content | {
            "params": plain_values(self.params),
            "options": plain_values(self.options),
            "gain": gain,
            "total_rounds": self.total_rounds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Objective:
        """Create an objective from the result of `to_dict`.

        Raises:
            ParameterError: the objective is from a user's file, whose code is never loaded from a
                model.
        """
        if "source" in data:
            raise ParameterError(
                f"objective {data['name']!r} is defined in {data['source']['file']}: import it and"
                " create Objective(SPEC, ...) with these parameters"
            )
        values = {**data["params"], **data["options"]}
        if data["name"] == "yetirank" and values.get("noise") == "logistic":
            del values["noise"]  # its only noise, which older models record
        return cls(data["name"], gain=data["gain"], total_rounds=data["total_rounds"], **values)


def objective_constructor(name: str) -> Callable[..., Objective] | None:
    """Return a constructor, such as `ShfSdcg` for `Objective("shf-sdcg")`, or None if the name is
    unknown.
    """
    spec: Any = next((s for s in OBJECTIVES if plain_name(s.name) == plain_name(name)), None)
    if spec is None:
        return None

    def construct(**options: Any) -> Objective:
        return Objective(spec, **options)

    construct.__name__ = construct.__qualname__ = name
    lines = [f"    {p.name} ({p.range}; default {p.default}): {p.help}" for p in spec.params]
    construct.__doc__ = "\n".join(
        [f"{spec.summary}. See `Objective` for the shared options.", "", *lines]
    )
    return construct


def parse_value(param: Param, value: Any, owner: str) -> Any:
    """Convert a parameter's value to its type, or parse its schedule."""
    is_call = param.schedulable and isinstance(value, str) and value.rstrip().endswith(")")
    if (
        is_schedule_text(value) or is_call
    ) and value not in param.choices:  # "logistic" is also a choice of noise
        value = parse_schedule(value)
    if isinstance(value, Schedule):
        if not param.schedulable:
            raise ParameterError(f"{owner}: {param.name} cannot follow a schedule; pass one value")
        return value
    return param.parse(value)


def value_at(param: Param, value: Any, round: int, owner: TrainingObjective) -> Any:
    """Return the value of a parameter in a round, counted from 0.

    Raises:
        ParameterError: a schedule needs `total_rounds`, or its value leaves the parameter's range.
    """
    # Check plain types first: isinstance with a protocol is slow, and this runs some twenty times
    # per round.
    if isinstance(value, str | int | float) or not isinstance(value, Schedule):
        return value
    if value.needs_total:
        if owner.total_rounds is None:
            raise ParameterError(
                f"objective {owner.name!r}: {param.name}={value} spans the whole training, whose"
                " length is not known here. Pass total_rounds=N, or use boostrank.train, which"
                " sets it."
            )
        value = value.scale_to(owner.total_rounds)
    return param.parse(value(round))


def plain_values(values: ParamValues) -> Json:
    """Return values as JSON data, with each schedule as its text."""
    return {k: str(v) if isinstance(v, Schedule) else v for k, v in values.items()}


def queries_of_native(dataset: Any) -> tuple[Array, QueryIndex]:
    """Return the labels and queries of a LightGBM Dataset or an XGBoost DMatrix, distinguished by
    their methods.

    Raises:
        DataError: there are no queries, or the group sizes do not sum to the number of rows.
    """
    if hasattr(dataset, "construct"):
        dataset.construct()
    labels = np.asarray(dataset.get_label())
    if hasattr(dataset, "get_uint_info"):
        ptr = np.asarray(dataset.get_uint_info("group_ptr"), dtype=np.int64)
        sizes = np.diff(ptr) if ptr.size else None
    else:
        sizes = dataset.get_group()
    return labels, queries_given(sizes, dataset.get_weight(), labels.size)


def _check_whole(dataset: Any) -> None:
    """Reject a subset of a LightGBM Dataset that cuts queries, because `lgb.cv` splits by row for
    custom objectives.
    """
    rows, whole = getattr(dataset, "used_indices", None), getattr(dataset, "reference", None)
    sizes = None if rows is None or whole is None else whole.get_group()
    if sizes is None or not len(sizes):
        return
    query_of_row = np.repeat(np.arange(len(sizes)), sizes)
    rows_inside = np.bincount(query_of_row[np.asarray(rows)], minlength=len(sizes))
    n_cut = int(np.count_nonzero((rows_inside > 0) & (rows_inside < sizes)))
    if n_cut:
        raise DataError(
            f"lgb.cv splits by row, which cuts {n_cut} of {len(sizes)} queries: pass `folds` of"
            " whole queries (sklearn.model_selection.GroupKFold), or use boostrank.train with"
            " folds=5, `boostrank train --folds 5`, or BoostRanker with QueryKFold"
        )


# The current round is read from the stack frame of the engine that calls an objective. Tested with
# LightGBM 4.6, 4.7 and XGBoost 3.1 to 3.4 in `tests/engines/test_private.py`.
def round_of_caller() -> int | None:
    """Return the engine's current round, including rounds of a continued model.

    No engine passes the round: LightGBM passes only scores and data, and `xgb.train` restarts at 0
    when it continues a model. The calling booster has the round, and is the `self` of an `update` a
    few frames up the stack.
    """
    for frame, _ in islice(walk_stack(sys._getframe(2)), 6):
        if frame.f_code.co_name == "update":
            booster = frame.f_locals.get("self")
            for attribute in ("num_boosted_rounds", "current_iteration"):
                count: Callable[[], int] | None = getattr(booster, attribute, None)
                if count is not None:
                    return int(count())
    return None


def in_cross_validation() -> bool:
    """Return True if this function is called from `lgb.cv`."""
    return any(
        frame.f_code.co_name == "cv" and frame.f_globals.get("__name__") == "lightgbm.engine"
        for frame, _ in walk_stack(sys._getframe(1))
    )
