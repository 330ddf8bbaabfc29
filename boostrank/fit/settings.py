"""Split the dictionary `params`, as in `lgb.train`, between the objective, the engine, metrics and
early stopping.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from boostrank.core.conventions import parse_gain
from boostrank.core.errors import ParameterError, UnknownParameter, did_you_mean
from boostrank.core.machine import resolve_threads
from boostrank.core.params import Param, find_param
from boostrank.core.types import ParamValues
from boostrank.engines import ENGINES, engines_with, get_backend, of_engine
from boostrank.engines.base import Backend
from boostrank.engines.engine_params import as_whole
from boostrank.kernels.jit import CompiledFunction
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS
from boostrank.kernels.primitives import SEED
from boostrank.metrics import Metric
from boostrank.objective.description import Objective, TrainingObjective
from boostrank.objective.mixture import MIXTURE_PARAMS, accepted_params, parse_objective
from boostrank.objectives import OBJECTIVES
from boostrank.options import DEFAULT_EVAL_AT, DEFAULT_ROUNDS, TrainOptions, declared

DEFAULT_OBJECTIVE = "auto"


def _names(option: str) -> tuple[str, ...]:
    return declared(TrainOptions)[option].params


OBJECTIVE_NAMES, ROUNDS_NAMES, STOPPING_NAMES = map(
    _names, ("objective", "rounds", "early_stopping")
)
GAIN_NAMES, METRIC_NAMES, _EVAL_AT, _THREADS = map(
    _names, ("gain", "metrics", "eval_at", "threads")
)
SEED_NAMES = (SEED.name, *SEED.aliases)
MIN_DELTA = Param(
    "early_stopping_min_delta", 0.0, low=0.0, help="improvement that counts for early stopping"
)
_NO_METRIC = ([], *([name] for name in ("", "none", "null", "na", "custom")))
"""Names in LightGBM for no metric."""
LOSS = "loss"
"""The metric that is the objective's own mean loss."""
AUTO_START = "auto"
"""Value of `start` for a linear start if the objective is `auto`."""
_EXP_GAIN = {"true": "exponential", "1": "exponential", "false": "linear", "0": "linear"}
"""XGBoost's `ndcg_exp_gain` -> gain."""
_WITHOUT_EFFECT = ("enable_categorical", "use_label_encoder", "predictor", "silent")
"""Parameters of the engines' rankers that change no model: the types of columns decide, or they are
gone.
"""
_ELSEWHERE = {
    "gpu_id": "name the device: device='cuda:{0}' (XGBoost), or gpu_device_id={0} (LightGBM)",
    "max_position": "pass truncation_level={0}, as LightGBM has named it since version 3",
    "missing": (
        "a model file has no place for it, so other programs would compute other scores. "
        "Replace the value by NaN before fit and predict: X.replace({0!r}, np.nan) for frames, "
        "np.where(X == {0!r}, np.nan, X) for arrays, --missing-token={0} for files"
    ),
    "class_weight": (
        "a ranker has no classes. Weight queries or documents: "
        "fit(..., sample_weight=...), or RankingDataset.from_arrays(..., weight=...)"
    ),
}
"""The parameters of XGBRanker and LGBMRanker that belong elsewhere, with the remedy."""
_NORMS = ("norm_distance", "norm_query")
"""LightGBM's `lambdarank_norm`, as two parameters."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of a training, grouped by purpose.

    Args:
        objective: one of boostrank's objectives, or None if one of the following two is set.
        is_auto: whether the objective is `auto`, either explicitly or by default.
        native_objective: one of the engine's own ("lightgbm:lambdarank" -> "lambdarank").
        function: a user-defined function, as in `lgb.train`.
        params: parameters of the engine.
        patience: patience for early stopping, or 0 for no early stopping.
        min_delta: change that an improvement must exceed, for early stopping.
        metrics: canonical names with cut-offs, and functions as `Metric`, possibly empty.
        has_loss: whether the metric `LOSS` is computed, too.
        threads: number of threads; None for every available core.
        gain: gain for each label, used in metrics whose conventions do not set it.
    """

    objective: TrainingObjective | None
    is_auto: bool = False
    native_objective: str | None = None
    function: Any = None
    params: dict[str, Any]
    rounds: int
    patience: int = 0
    min_delta: float = 0.0
    metrics: tuple[str | Metric, ...]
    has_loss: bool = False
    threads: int | None = None
    gain: str | tuple[float, ...]

    @property
    def all_metrics(self) -> list[str]:
        """The names of all metrics, the loss last."""
        return [*map(str, self.metrics), *[LOSS] * self.has_loss]

    @property
    def headline(self) -> str | None:
        """The name of the metric for progress and early stopping; see `headline`."""
        return headline(self.all_metrics)

    @property
    def n_threads(self) -> int:
        """Number of threads."""
        return resolve_threads(self.threads)

    @property
    def main_metric(self) -> Metric | None:
        """The metric for progress and early stopping, without the loss; see `headline`."""
        name = headline(self.metrics)
        return next((Metric.of(metric) for metric in self.metrics if str(metric) == name), None)


def headline(metrics: Sequence[Any]) -> str | None:
    """Return the name of the metric for progress and early stopping: the first at its largest
    cut-off.

    With the usual `eval_at` of 1,3,5,10, the first cut-off is the noisiest.
    """
    names = list(map(str, metrics))
    family = [name for name in names if name.split("@")[0] == names[0].split("@")[0]]
    # A function may have any name.
    return max(
        family,
        key=lambda name: int("".join(re.findall(r"@(\d+)$", name)) or sys.maxsize),
        default=None,
    )


def default_objective(backend: str) -> str:
    """Return the default objective for an engine."""
    engine = ENGINES.get(backend)
    return (engine and engine.default_objective) or DEFAULT_OBJECTIVE


def check_options(options: TrainOptions) -> Settings:
    """Validate the options as far as possible without data, and return the settings."""
    engine = get_backend(options.backend)
    return split_params(options.flat(), options.rounds or DEFAULT_ROUNDS, engine)


def split_params(params: ParamValues, rounds: int, backend: Backend) -> Settings:
    """Split `params`. The accepted names and aliases are those of LightGBM and of the objective."""
    engine_params = dict(params)
    _translate_ranker_params(engine_params)
    # What all objectives have: rounds, early stopping, threads and metrics.
    requested = pop_param(engine_params, OBJECTIVE_NAMES, None)
    if requested is None:
        requested = default_objective(backend.name)
    rounds = as_whole(pop_param(engine_params, ROUNDS_NAMES, rounds), "num_boost_round", 1)
    patience = as_whole(
        pop_param(engine_params, STOPPING_NAMES, None) or 0, "early_stopping_round", -1
    )
    min_delta = float(MIN_DELTA.parse(engine_params.pop(MIN_DELTA.name, 0.0)))
    engine_params.pop("first_metric_only", None)  # always true: see callbacks.EarlyStopping
    threads = pop_param(engine_params, _THREADS, None)
    if threads is not None:
        threads = as_whole(threads, "num_threads", -(2**31))
        threads = None if threads in (-1, 0) else resolve_threads(threads)
        engine_params["num_threads"] = resolve_threads(threads)
    names = pop_param(engine_params, METRIC_NAMES, "ndcg")
    metrics = metric_names(names, pop_param(engine_params, _EVAL_AT, DEFAULT_EVAL_AT))
    has_loss = LOSS in metrics
    if has_loss:  # it comes last
        metrics = metrics[:-1]
    # The gain, and the objective with its parameters: boostrank's, the engine's own, or a function.
    # The rest is the engine's.
    objective, native, function = None, None, None
    gain: Any = "exponential"
    if isinstance(requested, CompiledFunction):
        raise ParameterError(
            "this is a kernel, not an objective: pass the result of boostrank.define_objective"
        )
    if callable(requested) and not isinstance(requested, TrainingObjective):
        if getattr(requested, "__module__", None) == Objective.__module__:
            name = getattr(requested, "__name__", "Objective")
            raise ParameterError(f"objective={name} makes an objective: call it, {name}()")
        function, gain = requested, pop_param(engine_params, ("gain",), gain)  # of metrics
    elif isinstance(requested, str) and (of_native := of_engine(requested)):
        engine, native = of_native
        if engine != backend.name:
            raise ParameterError(
                f"objective {requested!r} belongs to the {engine} backend, not to {backend.name}:"
                f" set backend={engine!r}"
            )
        gain = pop_param(engine_params, GAIN_NAMES, gain)
        engine_params |= backend.params.of_native(native, parse_gain(gain))
    else:
        objective, accepted = _make_objective(requested, engine_params, threads, backend)
        gain = objective.gain
        _check_names(engine_params, objective.name, accepted, backend)
    # Refuse parameters of the engine's own objectives that another objective would ignore.
    idle = [name for name in engine_params if name in backend.params.of_objectives]
    if native is None and idle:
        owner = "a custom objective" if objective is None else f"objective {objective.name!r}"
        raise ParameterError(
            f"{idle[0]!r} only affects {backend.name}'s own objectives: {owner} would ignore it"
        )
    if has_loss and objective is None:
        message = (
            "metric='loss' is for boostrank's objectives; pass feval= for the loss of another one"
        )
        raise ParameterError(message)
    backend.params.check(engine_params)
    return Settings(
        objective=objective,
        is_auto=str(requested).strip().lower() == "auto",
        native_objective=native,
        function=function,
        params=engine_params,
        rounds=rounds,
        patience=max(0, patience),  # 0 and -1: off
        min_delta=min_delta,
        metrics=metrics,
        has_loss=has_loss,
        threads=threads,
        gain=parse_gain(gain),
    )


def _translate_ranker_params(params: dict[str, Any]) -> None:
    """Replace or remove parameters of XGBRanker and LGBMRanker, or refuse them with a remedy."""
    exp_gain = params.pop("ndcg_exp_gain", None)
    if exp_gain is not None:
        rule = _EXP_GAIN.get(str(exp_gain).lower(), "")
        if not rule or any(params.get(name, rule) != rule for name in GAIN_NAMES):
            raise ParameterError(
                f"ndcg_exp_gain={exp_gain!r} must be true or false, and must not contradict gain="
            )
        params.setdefault("gain", rule)
    for name in _WITHOUT_EFFECT:
        params.pop(name, None)
    for name in _ELSEWHERE.keys() & params.keys():
        value = params.pop(name)
        is_default = value is None or value != value or str(value).lower() in ("nan", "none")
        if not is_default:
            raise ParameterError(
                f"{name}={value!r} is not supported: {_ELSEWHERE[name].format(value)}"
            )


def _make_objective(
    requested: Any, params: dict[str, Any], threads: int | None, backend: Backend
) -> tuple[TrainingObjective, tuple[Param, ...]]:
    """Create the objective, and remove its parameters from `params`. Also return what it
    accepts.
    """
    if isinstance(requested, TrainingObjective):
        of_parts = (param for part in requested.parts for param in part.spec.params)
        accepted = (*OPTIONS, *MIXTURE_PARAMS, *of_parts)
        for name in params:
            if find_param(name, accepted) not in (None, SEED) or name in GAIN_NAMES:
                raise ParameterError(
                    f"{name!r} is set both in params and on the Objective; set it once"
                )
        if requested.threads is None and threads is not None:
            requested = copy.copy(requested)
            requested.threads = threads
        return requested, accepted
    spec: ObjectiveSpec | None
    if isinstance(requested, ObjectiveSpec):
        spec, accepted = requested, (*requested.params, *OPTIONS)
    else:
        name = re.split("[(:]", str(requested), maxsplit=1)[0].strip()
        spec, accepted = find_param(name, OBJECTIVES), accepted_params(str(requested))
    if "lambdarank_norm" in params and all(find_param(name, accepted) for name in _NORMS):
        params |= dict.fromkeys(_NORMS, params.pop("lambdarank_norm"))
    of_objective = {name: value for name, value in params.items() if find_param(name, accepted)}
    for parameter in of_objective:
        if find_param(parameter, accepted) is not SEED:  # it also affects the trees
            del params[parameter]
    gain = pop_param(params, GAIN_NAMES, None)
    if gain is not None:
        of_objective["gain"] = gain
    # Some defaults of boostrank's objectives differ with this engine. A user's may have their name.
    defaults: ParamValues = {}
    if spec is not None and any(registered is spec for registered in OBJECTIVES):
        defaults = backend.params.of_ours.get(spec.name, {})
    set_params = {find_param(name, accepted) for name in of_objective}
    of_objective |= {
        parameter: value
        for parameter, value in defaults.items()
        if find_param(parameter, accepted) not in set_params
    }
    if isinstance(requested, ObjectiveSpec):
        return Objective(requested, threads=threads, **of_objective), accepted
    return parse_objective(str(requested), threads=threads, **of_objective), accepted


def _check_names(
    params: ParamValues, objective: str, accepted: tuple[Param, ...], backend: Backend
) -> None:
    """Refuse unknown names that another engine or an objective has, perhaps spelt otherwise."""
    names = [param.name for param in accepted]
    for name in params:
        try:
            backend.params.check({name: params[name]})
        except UnknownParameter:
            owners = [f"backend={engine!r}" for engine in engines_with(name)]
            owners += [spec.name for spec in OBJECTIVES if find_param(name, spec.params)]
            if not owners and not did_you_mean(name, names, list_all=False):
                raise
            of_owners = f" ({', '.join(owners)} has)" if owners else ""
            raise UnknownParameter(
                f"objective {objective!r} and {backend.name} have no parameter"
                f" {name!r}{of_owners}.{did_you_mean(name, names)}"
            ) from None
        except ParameterError:
            continue  # reported by the check of all parameters


def pop_param(params: dict[str, Any], names: tuple[str, ...], default: Any) -> Any:
    """Remove a parameter, given under any of its names, and return its value."""
    present = [name for name in names if name in params]
    if len(present) > 1:
        raise ParameterError(f"{present[0]!r} and {present[1]!r} are the same parameter")
    return params.pop(present[0]) if present else default


def metric_names(metric: Any, eval_at: Any) -> tuple[str | Metric, ...]:
    """Combine metrics and cut-offs: `ndcg` with eval_at 1,3 -> `ndcg@1`, `ndcg@3`. Cut-offs in a
    name are kept, functions become `Metric` objects, and the loss comes last.
    """
    if callable(metric) or isinstance(metric, Metric):
        metric = [metric]
    # Several names in a set have no order, which early stopping depends on.
    has_order = not isinstance(metric, AbstractSet) or len(metric) < 2
    is_list = isinstance(metric, str | Iterable | None) and not isinstance(metric, Mapping)
    if not is_list or not has_order:
        raise ParameterError(
            f"metric={metric!r}: expected a name such as ndcg or ndcg@10, or a list of names"
        )
    names = metric.split(",") if isinstance(metric, str) else list(metric or [])
    if [str(name).strip().lower() for name in names] in _NO_METRIC:
        return ()
    cuts = eval_at.split(",") if isinstance(eval_at, str) else eval_at
    cuts = [as_whole(cut, "eval_at", 1) for cut in (cuts if hasattr(cuts, "__iter__") else [cuts])]
    joined: list[str | Metric] = []
    for name in names:
        if callable(name):
            name = Metric(name)
        if isinstance(name, Metric) and name.function:
            joined.append(name)
            continue
        metric_text, previous = str(name).strip(), str(joined[-1]) if joined else ""
        if metric_text.isdigit() and "@" in previous:  # "ndcg@1,3" split at its comma
            joined.append(str(Metric.parse(f"{previous.split('@')[0]}@{metric_text}")))
        elif metric_text.lower() == LOSS:
            joined.append(LOSS)
        elif not cuts or Metric.parse(metric_text).cutoffs:
            joined += Metric.parse(metric_text).names
        else:
            joined += [str(Metric.parse(f"{metric_text}@{cut}")) for cut in cuts]
    return tuple(dict.fromkeys(sorted(joined, key=lambda name: name == LOSS)))
