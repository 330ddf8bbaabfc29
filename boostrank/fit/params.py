"""Split the dictionary `params`, as in `lgb.train`, between the objective, the engine, metrics and early stopping."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boostrank.core.conventions import parse_gain
from boostrank.core.errors import ParameterError, UnknownParameter, did_you_mean
from boostrank.core.machine import resolve_threads
from boostrank.core.params import Param, find_param
from boostrank.engines import ENGINES, engines_with, of_engine
from boostrank.engines.base import Backend
from boostrank.kernels.jit import CompiledFunction
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS
from boostrank.kernels.primitives import SEED
from boostrank.metrics import Metric
from boostrank.objective.description import Objective, TrainingObjective
from boostrank.objective.mixture import MIXTURE_PARAMS, accepted_params, parse_objective
from boostrank.objectives import OBJECTIVES
from boostrank.options import DEFAULT_EVAL_AT, TrainOptions, declared

DEFAULT_OBJECTIVE = "auto"


def _names(option: str) -> tuple[str, ...]:
    return declared(TrainOptions)[option].params


OBJECTIVE_NAMES, ROUNDS_NAMES, STOPPING_NAMES = map(_names, ("objective", "rounds", "early_stopping"))
GAIN_NAMES, METRIC_NAMES, _EVAL_AT, _THREADS = map(_names, ("gain", "metrics", "eval_at", "threads"))
SEED_NAMES = (SEED.name, *SEED.aliases)
_MIN_DELTA = Param("early_stopping_min_delta", 0.0, low=0.0, help="improvement that counts for early stopping")
LOSS = "loss"
"""The metric that is the objective's own mean loss."""
AUTO_START, LINEAR_START = "auto", "linear"
"""Values of `start` for a linear start if the objective is `auto`, and for a linear start in any case."""
_EXP_GAIN = {"true": "exponential", "1": "exponential", "false": "linear", "0": "linear"}
"""XGBoost's `ndcg_exp_gain` -> gain."""
_ELSEWHERE = {
    "missing": "a model file has no place for it, so other programs would compute other scores. "
    "Replace the value by NaN before fit and predict: X.replace({0!r}, np.nan) for frames, "
    "np.where(X == {0!r}, np.nan, X) for arrays, --missing-token={0} for files",
    "class_weight": "a ranker has no classes. Weight queries or documents: "
    "fit(..., sample_weight=...), or RankingDataset.from_arrays(..., weight=...)",
}
"""The parameters of XGBRanker and LGBMRanker that belong to the data, with the remedy."""
_NORMS = ("norm_distance", "norm_query")
"""LightGBM's `lambdarank_norm`, as two parameters."""


@dataclass(frozen=True)
class TrainingParameters:
    """Training parameters, grouped by purpose.

    Args:
        objective: one of boostrank's objectives, or None if `native_objective` or `function` is given.
        native_objective: one of the engine's own objectives ("lightgbm:lambdarank" -> "lambdarank").
        function: a user-defined function, as in `lgb.train`.
        stopping_rounds: patience for early stopping, or 0 for no early stopping.
        min_delta: change that an improvement must exceed, for early stopping.
        metrics: canonical metric names with cut-offs, and functions as `Metric`, possibly empty.
        losses: the metric `LOSS`, or empty.
        threads: number of threads; None for every available core.
        gain: gain for each label, used in metrics whose conventions do not set it.
    """

    objective: TrainingObjective | None
    native_objective: str | None
    function: Any
    engine: dict[str, Any]
    rounds: int
    stopping_rounds: int
    min_delta: float
    metrics: tuple[str | Metric, ...]
    losses: tuple[str, ...]
    threads: int | None
    gain: str | tuple[float, ...]

    @property
    def measures(self) -> list[str]:
        """The names of all metrics, the loss last."""
        return [*map(str, self.metrics), *self.losses]


def headline(metrics: Sequence[Any]) -> str | None:
    """Return the metric for progress and early stopping, which is the first one at its largest cut-off.

    With the usual `eval_at` of 1,3,5,10, the first cut-off is the noisiest.
    """
    names = list(map(str, metrics))
    family = [name for name in names if name.split("@")[0] == names[0].split("@")[0]]
    return max(family, key=lambda name: int(name.partition("@")[2] or sys.maxsize)) if family else None


def default_objective(backend: str) -> str:
    """Return the default objective for an engine."""
    engine = ENGINES.get(backend)
    return (engine and engine.default_objective) or DEFAULT_OBJECTIVE


def is_auto(params: Mapping[str, Any] | None, backend: str) -> bool:
    """Return True if the objective is `auto`, either explicitly or by default."""
    chosen = next((value for name, value in (params or {}).items() if name in OBJECTIVE_NAMES), None)
    return str(default_objective(backend) if chosen is None else chosen).strip().lower() == "auto"


def drops_trees(engine: Backend, given: Mapping[str, Any]) -> bool:
    """Return True for dart, which does not support early stopping because later rounds rescale earlier trees."""
    named = engine.params.named(given)
    return "dart" in (named.get("boosting"), named.get("booster"))


def split_params(params: Mapping[str, Any] | None, num_boost_round: int, backend: Backend) -> TrainingParameters:
    """Split `params`. The accepted names and aliases are those of LightGBM and of the objective."""
    rest = dict(params or {})
    if (exp_gain := rest.pop("ndcg_exp_gain", None)) is not None:
        named = _EXP_GAIN.get(str(exp_gain).lower(), "")
        if not named or any(rest.get(name, named) != named for name in GAIN_NAMES):
            raise ParameterError(f"ndcg_exp_gain={exp_gain!r} must be true or false, and must not contradict gain=")
        rest.setdefault("gain", named)
    rest.pop("enable_categorical", None)  # the types of columns decide
    for name in _ELSEWHERE.keys() & rest.keys():
        value = rest.pop(name)
        if not (value is None or value != value or str(value).lower() in ("nan", "none")):  # the default of XGBRanker
            raise ParameterError(f"{name}={value!r} is not supported: {_ELSEWHERE[name].format(value)}")
    chosen = pop_param(rest, OBJECTIVE_NAMES, default_objective(backend.name))
    rounds = _whole(pop_param(rest, ROUNDS_NAMES, num_boost_round), "num_boost_round", 1)
    stopping = max(0, _whole(pop_param(rest, STOPPING_NAMES, None) or 0, "early_stopping_round", -1))  # 0 and -1: off
    min_delta = float(_MIN_DELTA.parse(rest.pop(_MIN_DELTA.name, 0.0)))
    rest.pop("first_metric_only", None)  # always true: see callbacks.EarlyStopping
    threads = pop_param(rest, _THREADS, None)
    threads = None if threads is None else max(0, _whole(threads, "num_threads", -1)) or None
    if threads is not None:
        rest["num_threads"] = resolve_threads(threads)
    metrics = metric_names(pop_param(rest, METRIC_NAMES, "ndcg"), pop_param(rest, _EVAL_AT, DEFAULT_EVAL_AT))

    losses = tuple(name for name in metrics if name == LOSS)
    metrics = tuple(name for name in metrics if name != LOSS)

    native, function = None, None
    objective: TrainingObjective | None = None
    gain: Any = "exponential"
    if isinstance(chosen, CompiledFunction):
        raise ParameterError("this is a kernel, not an objective: pass the result of boostrank.define_objective")
    if callable(chosen) and not isinstance(chosen, TrainingObjective):
        function, gain = chosen, pop_param(rest, ("gain",), "exponential")  # of metrics
    elif isinstance(chosen, str) and (of_native := of_engine(chosen)):
        engine, native = of_native
        if engine != backend.name:
            words = f"objective {chosen!r} belongs to the {engine} backend, not to {backend.name}"
            raise ParameterError(f"{words}: set backend={engine!r}")
        gain = pop_param(rest, GAIN_NAMES, "exponential")
        rest |= backend.params.of_native(native, parse_gain(gain))
    else:
        objective, takes = _objective(chosen, rest, threads, backend)
        gain = objective.gain
        _check_near_misses(rest, objective.name, takes, backend)
    if losses and objective is None:
        words = "metric='loss' is for boostrank's objectives; pass feval= for the loss of another one"
        raise ParameterError(words)
    idle = [name for name in rest if name in backend.params.of_objectives]
    if native is None and idle:
        used = "a custom objective" if objective is None else f"objective {objective.name!r}"
        raise ParameterError(f"{idle[0]!r} only affects {backend.name}'s own objectives: {used} would ignore it")
    backend.params.check(rest)
    return TrainingParameters(
        objective, native, function, rest, rounds, stopping, min_delta, metrics, losses, threads, parse_gain(gain)
    )


def _objective(
    chosen: Any, rest: dict[str, Any], threads: int | None, backend: Backend
) -> tuple[TrainingObjective, tuple[Param, ...]]:
    """Create the objective and remove its parameters from `rest`. Return it with the parameters that it accepts."""
    if isinstance(chosen, TrainingObjective):
        known = [*OPTIONS, *MIXTURE_PARAMS, *(p for part in chosen.parts for p in part.spec.params)]
        own = [name for name in rest if _of_objective_alone(name, known) or name in GAIN_NAMES]
        if own:
            raise ParameterError(f"{own[0]!r} is set both in params and on the Objective; set it once")
        if chosen.threads is None and threads is not None:
            chosen = copy.copy(chosen)
            chosen.threads = threads
        return chosen, tuple(known)
    takes = (*chosen.params, *OPTIONS) if isinstance(chosen, ObjectiveSpec) else accepted_params(str(chosen))
    if "lambdarank_norm" in rest and all(find_param(name, takes) for name in _NORMS):
        rest |= dict.fromkeys(_NORMS, rest.pop("lambdarank_norm"))
    own_params = {name: value for name, value in rest.items() if find_param(name, takes)}
    for name in own_params:
        if _of_objective_alone(name, takes):
            del rest[name]
    gain = pop_param(rest, GAIN_NAMES, None)
    if gain is not None:
        own_params["gain"] = gain
    name = chosen.name if isinstance(chosen, ObjectiveSpec) else re.split(r"[(:]", str(chosen), maxsplit=1)[0].strip()
    differing = backend.params.of_ours.get(OBJECTIVES.get(name).name, {}) if _is_ours(name) else {}
    given = {find_param(key, takes) for key in own_params}
    own_params |= {key: value for key, value in differing.items() if find_param(key, takes) not in given}
    if isinstance(chosen, ObjectiveSpec):
        return Objective(chosen, threads=threads, **own_params), takes
    return parse_objective(str(chosen), threads=threads, **own_params), takes


def _of_objective_alone(name: str, params: Iterable[Param]) -> bool:
    """Return True for parameters that only the objective uses. The seed also affects the trees."""
    param = find_param(name, params)
    return param is not None and param is not SEED


def _check_near_misses(rest: Mapping[str, Any], objective: str, takes: tuple[Param, ...], backend: Backend) -> None:
    """Refuse engine parameters that are misspelt names of objective parameters."""
    for name in rest:
        try:
            backend.params.check({name: rest[name]})
        except UnknownParameter:
            theirs = [engine for engine in engines_with(name) if engine != backend.name]
            if theirs:
                words = f"{name!r} is a parameter of {theirs[0]} (backend={theirs[0]!r}), not of {backend.name}"
                raise UnknownParameter(words) from None
            own = [p.name for p in takes]
            elsewhere = [s.name for s in OBJECTIVES if find_param(name, s.params)]
            if not elsewhere and not did_you_mean(name, own, list_all=False):
                raise
            owners = f" ({', '.join(elsewhere)} does)" if elsewhere else ""
            hint = did_you_mean(name, own)
            raise ParameterError(f"objective {objective!r} has no parameter {name!r}{owners}.{hint}") from None
        except ParameterError:
            continue  # reported by the check of all parameters


def _is_ours(name: str) -> bool:
    return any(name == spec.name or name in spec.aliases for spec in OBJECTIVES)


def as_list(values: Any) -> list[Any]:
    """Return the elements of a list or tuple, no elements for None, or a single value as a list."""
    if values is None:
        return []
    return list(values) if isinstance(values, list | tuple) else [values]


def pop_param(params: dict[str, Any], names: tuple[str, ...], default: Any) -> Any:
    """Remove a parameter, given under any of its names, and return its value."""
    given = [name for name in names if name in params]
    if len(given) > 1:
        raise ParameterError(f"{given[0]!r} and {given[1]!r} are the same parameter")
    return params.pop(given[0]) if given else default


def _whole(value: Any, name: str, low: int) -> int:
    try:
        number = int(value)
        if isinstance(value, bool) or number != float(value) or not low <= number < 2**31:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name}={value!r} must be a whole number, at least {low} and below 2^31") from None
    return number


def metric_names(metric: Any, eval_at: Any) -> tuple[str | Metric, ...]:
    """Combine metrics and cut-offs: `ndcg` with eval_at 1,3 -> `ndcg@1`, `ndcg@3`. Cut-offs in a name are kept.

    Functions become `Metric` objects, whose order is kept.
    """
    if callable(metric) or isinstance(metric, Metric):
        metric = [metric]
    if not isinstance(metric, str | Iterable | None):
        raise ParameterError(f"metric={metric!r}: expected a name such as ndcg or ndcg@10, or a list of names")
    names = metric.split(",") if isinstance(metric, str) else list(metric or [])
    names = [Metric(n) if callable(n) else n for n in names]
    functions = [n for n in names if isinstance(n, Metric) and n.function]
    if functions:
        others = metric_names([n for n in names if n not in functions], eval_at)
        return (*functions, *others) if names[0] in functions else (*others, *functions)
    names = [str(n).strip() for n in names]
    if [n.lower() for n in names] in (["none"], ["null"], ["na"], [""], []):
        return ()
    cuts = eval_at.split(",") if isinstance(eval_at, str) else eval_at
    cuts = [_whole(c, "eval_at", 1) for c in (cuts if hasattr(cuts, "__iter__") else [cuts])]
    joined: list[str] = []
    for name in names:
        if name.isdigit() and joined and "@" in joined[-1]:  # "ndcg@1,3" split at its comma
            joined.append(f"{joined[-1].split('@')[0]}@{name}")
        elif name.lower() == LOSS:
            joined.append(LOSS)
        elif not cuts or Metric.parse(name).cutoffs:
            joined.append(str(Metric.parse(name)))
        else:
            joined += [f"{name}@{c}" for c in cuts]
    names = [str(Metric.parse(name)) for name in joined if name != LOSS]
    return tuple(dict.fromkeys([*names, *(name for name in joined if name == LOSS)]))
