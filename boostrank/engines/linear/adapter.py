"""Linear rankers, the papers' own model class, as an engine: scores X w, SciPy's optimisers.

A round is one step of an optimiser in `solvers`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from boostrank.core.errors import DataError, ModelError, ParameterError, UnknownParameter, did_you_mean
from boostrank.core.gains import weighted_gains
from boostrank.core.params import Param, find_param, resolve_params
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.engines.base import CONTRIBUTIONS, LEAVES, Backend, Booster, TrainRequest, Wanted
from boostrank.engines.linear.format import LINEAR, SCALINGS, STANDARD, LinearModel
from boostrank.engines.linear.solvers import (
    CG,
    LBFGS,
    LEARNING_RATE,
    NEWTON,
    Risk,
    ScaledRows,
    Stopped,
    Walk,
    measure_scaling,
    minimised,
    newton,
    ridge_regression,
)
from boostrank.engines.params import Params
from boostrank.objective.description import TrainingObjective

PARAMS = (
    Param(
        "optimizer",
        "auto",
        "cg: conjugate gradients; lbfgs; newton: steps from gradient and curvature, without comparing losses",
        choices=("auto", CG, LBFGS, NEWTON),
        aliases=("optimiser",),
    ),
    Param(
        "lambda_l2",
        1e-2,
        "penalty lambda |w - c|^2, added to the mean loss per query",
        low=0.0,
        log=True,
        aliases=("lambda", "reg_lambda", "l2_regularization"),
    ),
    Param("toward", "start", "c: the initial weights, or 0", choices=("start", "zero")),
    Param(
        "initial",
        "regression",
        "initial weights: ridge regression on gains; zero; normal random numbers of variance 1 / d",
        choices=("regression", "zero", "random"),
    ),
    Param("ridge", 0.3, "penalty of that regression: |error|^2 / N + ridge |w|^2", low=0.0, open_low=True, log=True),
    Param(
        "scaling",
        STANDARD,
        "scaling of features: standard, by standard deviation; none",
        choices=SCALINGS,
    ),
    LEARNING_RATE,
    Param("tolerance", 1e-6, "largest derivative at which a stage ends", low=0.0, log=True),
    Param("seed", 0, "seed of the random weights", low=0, aliases=("random_state", "random_seed")),
)
_ACCEPTED = ("num_threads", "verbosity", "verbose")
# Maximum number of weights: those of all rounds are kept, to return to the best round.
_MOST_KEPT = 2 * 10**8
# With this many stages, a training takes single steps and optimises no stage to its end.
_STEPS_A_STAGE = 5


@dataclass(eq=False)
class LinearData:
    """Data set in the form that this engine trains and evaluates on."""

    rows: ScaledRows
    labels: Float64Array
    queries: QueryIndex
    feature_names: tuple[str, ...]


class LinearParams(Params):
    """`Params` of linear models."""

    # Initial scores come from a regression and vary by a few tenths, so smoother defaults could not separate ranks.
    # smooth-ndcg is annealed as published, from the regression.
    of_ours: Mapping[str, Mapping[str, Any]] = {
        "approx-ndcg": {"alpha": 10.0},
        "approx-ap": {"alpha": 10.0},
        "sdcg": {"sigma": 0.1},
        "smooth-ap": {"sigma": 0.1},
        "soft-ndcg": {"sigma": 0.1},
        "smooth-ndcg": {
            "sigma": "steps(" + ", ".join(f"{2.0**i:g}" for i in range(6, -7, -1)) + ")",
            "mix": 0.0,
            "warm_rounds": 0,
        },
    }

    def check(self, params: dict[str, Any]) -> None:
        _settings(params)

    def unresumable(self, params: dict[str, Any], native_objective: str | None) -> str | None:
        return "a linear model's optimiser hides its estimate of the curvature, and trains in seconds"


class LinearBooster(Booster):
    """Model with a `LinearModel` as `native`."""

    native: LinearModel
    engine = "linear"
    scores_rows_alone = False

    @classmethod
    def load(cls, data: bytes) -> LinearBooster:
        return cls(LINEAR.parse(data))

    def predict(self, features: Features, wanted: Wanted) -> npt.NDArray[Any]:
        if wanted.what == LEAVES:
            raise ModelError("a linear model has no leaves")
        rows, weights = ScaledRows(features, self.native.scaling), self.native.weights(wanted.rounds)
        if wanted.what == CONTRIBUTIONS:
            return rows.parts(weights)
        with np.errstate(over="ignore", invalid="ignore"):  # scores are checked later
            return rows.scores(weights)


class Linear(Backend):
    """`Backend` of linear rankers."""

    name = "linear"
    version = str(scipy.__version__)
    format = LINEAR
    params = LinearParams()
    booster = LinearBooster
    grows_trees = False

    def dataset(self, data: RankingDataset, params: dict[str, Any], *, reference: Any, weights: bool) -> LinearData:
        if data.on_disk:
            raise DataError("a linear model needs rows in memory: --route memory, or RankingDataset.from_libsvm")
        if data.categorical:
            raise DataError(
                f"feature {data.feature_names[data.categorical[0]]!r} holds categories, which a linear model cannot "
                "use as numbers: leave it out, or pass a column of 0 and 1 for each category"
            )
        kind, known = _settings(params)["scaling"], None if reference is None else reference.rows.scaling
        scaling = known or measure_scaling(kind, data.features)
        return LinearData(ScaledRows(data.features, scaling), data.labels, data.queries, data.feature_names)

    def train(self, request: TrainRequest) -> tuple[LinearBooster, int]:
        if request.objective is None or request.evaluate is None:
            raise ParameterError(
                "a linear model needs an objective of boostrank: see `boostrank objectives`, or define one with "
                "boostrank.define_objective"
            )
        settings = _settings(request.params)
        data: LinearData = request.train
        earlier: LinearModel | None = None if request.init_model is None else request.init_model.native
        if earlier is not None:
            asked, there = data.rows.scaling.kind, earlier.scaling.kind
            if asked != there:
                raise ParameterError(f"the continued model has scaling={there}, not {asked}: pass scaling={there}")
            for one in (data, *(valid for _, valid in request.valid)):
                one.rows = ScaledRows(one.rows.features, earlier.scaling)
        before = 0 if earlier is None else earlier.rounds
        columns = data.rows.features.shape[1]
        if (columns + 1) * request.rounds > _MOST_KEPT:
            raise ParameterError(
                f"{request.rounds:,} rounds of {columns:,} weights are too many to keep: use fewer rounds or features"
            )
        objective, evaluate = request.objective, request.evaluate
        weights = _initial(data, objective, settings) if earlier is None else earlier.weights().copy()
        centre = weights.copy() if settings["toward"] == "start" else np.zeros(weights.size)
        queries = max(1, len(data.queries))
        risk = Risk(data.rows, lambda s, round: evaluate(s, data, round), queries, settings["lambda_l2"], centre)
        # A stage is a run of rounds with the same objective, optimised to its end or its length.
        rounds = range(before, before + request.rounds)
        stages = [list(stage) for _, stage in groupby(rounds, key=lambda round: _loss_key(objective, round))]
        optimizer = _chosen(settings["optimizer"], objective, len(stages), request.rounds)
        walk = Walk(request, settings["learning_rate"], before)
        with contextlib.suppress(Stopped):
            walk.begin()
            for stage in stages:
                if optimizer == NEWTON:
                    for round in stage:
                        weights = newton(replace(risk, round=round), weights, walk.learning_rate)
                        walk(weights)
                else:
                    now = replace(risk, round=stage[0])
                    weights, taken = minimised(optimizer, now, weights, len(stage), walk, settings["tolerance"])
                    for _ in range(len(stage) - taken):  # nothing left to gain in this stage
                        walk(weights)
        kept = [*(() if earlier is None else earlier.path), *walk.path]
        model = LinearModel(data.feature_names, data.rows.scaling, before + len(walk.path), np.array(kept))
        return LinearBooster(model), walk.rounds.best_rounds


BACKEND = Linear()


def _initial(data: LinearData, objective: TrainingObjective, settings: Mapping[str, Any]) -> Float64Array:
    """Return the initial weights of a new model, float64[d + 1]."""
    columns = data.rows.features.shape[1]
    if settings["initial"] == "random":
        rng = np.random.default_rng([settings["seed"], 0])
        return np.append(rng.normal(size=columns) / np.sqrt(columns), 0.0)
    if settings["initial"] == "zero":
        return np.zeros(columns + 1)
    if data.queries.document_weights is not None:
        objective.check_gain_weights("initial=regression", "initial=zero needs none")
    gains = weighted_gains(data.labels, objective.gain, data.queries)
    return ridge_regression(data.rows, gains, settings["ridge"])


def _settings(params: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in params.items() if name not in _ACCEPTED}
    for name in own:
        if find_param(name, PARAMS) is None:
            hint = did_you_mean(name, [p.name for p in PARAMS])
            raise UnknownParameter(f"a linear model has no parameter {name!r}.{hint}")
    given = resolve_params(PARAMS, own, owner="a linear model")
    return {p.name: p.parse(given.get(p.name, p.default)) for p in PARAMS}


def _loss_key(objective: TrainingObjective, round: int) -> tuple[Any, ...]:
    """Return a key of the loss in this round: equal keys mean equal losses."""
    drawn = round if _draws(objective) else -1
    parts = [(*part.values(round).items(), *part.option_values(round).items()) for part in objective.parts]
    shares = objective.factors(round, [1.0] * len(parts))
    return drawn, tuple(parts), shares


def _draws(objective: TrainingObjective) -> bool:
    return any(part.spec.random or part.options.get("score_noise", "none") != "none" for part in objective.parts)


def _chosen(optimizer: str, objective: TrainingObjective, stages: int, rounds: int) -> str:
    part = objective.parts[0]
    exact = part.spec.is_exact(part.params)
    changed = part.options.get("normalize_query", "none") != "none" or part.options.get("scale_control", 0.0) != 0.0
    # A line search needs a gradient that is the derivative of the loss.
    compares = len(objective.parts) == 1 and not _draws(objective) and exact and not changed
    if optimizer == "auto":
        margin = objective.name == "margin-ndcg"
        kinks = margin and part.params["bound"] == "convex"  # at which a line search stalls
        if not compares or kinks or stages > max(1, rounds // _STEPS_A_STAGE):
            return NEWTON
        return LBFGS if margin else CG
    if optimizer in (CG, LBFGS) and not compares:
        raise ParameterError(
            f"optimizer={optimizer} compares losses between steps, but objective {objective.name!r} with these "
            "options is noisy, or its gradient is not the derivative of its loss: use optimizer=newton"
        )
    return optimizer
