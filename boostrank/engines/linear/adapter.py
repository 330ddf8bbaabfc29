"""The engine for linear rankers, which uses SciPy's optimisers and makes each round one step of an
optimiser.

Features are scaled to (x - mean) / scale, and missing values become 0. Products with scaled
features scale the weights instead of the rows, so that sparse rows stay sparse and nothing is
copied.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import scipy
from scipy import sparse
from scipy.linalg import lstsq
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg, lsmr

from boostrank.core.conventions import weighted_gains
from boostrank.core.errors import DataError, ModelError, ParameterError
from boostrank.core.params import Param, find_param, resolve_params
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Array, Float64Array, ParamValues
from boostrank.data.arrays import Features
from boostrank.data.dataset import RankingDataset
from boostrank.data.rows import dense_batches
from boostrank.engines.base import (
    CONTRIBUTIONS,
    LEAVES,
    Backend,
    Booster,
    PredictRequest,
    Resettable,
    Rounds,
    TrainRequest,
)
from boostrank.engines.engine_params import Params, read_directions
from boostrank.engines.linear.format import (
    LINEAR,
    NONE,
    SCALINGS,
    SCORES,
    STANDARD,
    LinearModel,
    Scaling,
)
from boostrank.objective.bound import Gradient
from boostrank.objective.description import Objective, TrainingObjective

CG, LBFGS, NEWTON = "cg", "lbfgs", "newton"
# Nonlinear conjugate gradients: Polak-Ribiere directions, strong Wolfe steps. L-BFGS handles kinks
# better.
METHODS: dict[str, tuple[str, dict[str, float]]] = {
    CG: ("CG", {}),
    LBFGS: ("L-BFGS-B", {"ftol": 1e-12}),
}
LEARNING_RATE = Param(
    "learning_rate",
    0.3,
    "length of each newton step",
    low=0.0,
    open_low=True,
    aliases=("eta", "shrinkage_rate"),
)
PARAMS = (
    Param(
        "optimizer",
        "auto",
        "cg for conjugate gradients; lbfgs; newton for steps from gradient and curvature that"
        " compare no losses",
        choices=("auto", CG, LBFGS, NEWTON),
        aliases=("optimiser",),
    ),
    Param(
        "lambda_l2",
        1e-2,
        "factor of the penalty |w - c|^2, which is added to the mean loss per query",
        low=0.0,
        log=True,
        aliases=("lambda", "reg_lambda", "l2_regularization"),
    ),
    Param(
        "toward",
        "start",
        "c in the penalty of lambda_l2: the initial weights, or zero",
        choices=("start", "zero"),
    ),
    Param(
        "initial",
        "regression",
        "initial weights: a ridge regression on gains, a converged RankSVM, zero, or normal random "
        "numbers of variance 1 / d",
        choices=("regression", "ranksvm", "zero", "random"),
    ),
    Param(
        "ridge",
        0.3,
        "penalty of the initial weights: |error|^2 / N + ridge |w|^2; for RankSVM, the mean loss of"
        " a query + ridge |w|^2",
        low=0.0,
        open_low=True,
        log=True,
    ),
    Param(
        "scaling",
        STANDARD,
        "standard to divide features by their standard deviation; none; scores for hybrid search,"
        " where missing values are 0, and columns within queries, if there are any, alone weigh",
        choices=SCALINGS,
    ),
    LEARNING_RATE,
    Param("tolerance", 1e-6, "largest derivative at which a stage ends", low=0.0, log=True),
    Param("seed", 0, "seed of the random weights", low=0, aliases=("random_state", "random_seed")),
)
# Maximum number of weights of all rounds, which are kept to return to the best round.
_MOST_KEPT = 2 * 10**8
# Minimum number of rounds per stage to optimise each stage to its end.
_STEPS_A_STAGE = 5


@dataclass(eq=False)
class LinearData:
    """A training or validation set of this engine."""

    rows: ScaledRows
    labels: Float64Array
    queries: QueryIndex
    feature_names: tuple[str, ...]


class LinearParams(Params):
    """The parameters of the linear engine, and its defaults of objectives."""

    # Initial scores come from a regression and vary by a few tenths: smoother defaults could not
    # separate ranks. smooth-ndcg is annealed as published, from the regression.
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

    def check(self, params: ParamValues) -> None:
        """Raise ParameterError if a setting of the optimiser is unknown or out of range."""
        _settings(params)

    def unresumable(self, params: ParamValues, native_objective: str | None) -> str | None:
        """Return the reason why no linear training can be resumed."""
        return (
            "a linear model's optimiser hides its estimate of the curvature, and trains in seconds"
        )


class LinearBooster(Booster):
    """A model with a `LinearModel` as `native`."""

    native: LinearModel
    engine = "linear"
    scores_rows_alone = False

    @classmethod
    def load(cls, data: bytes) -> LinearBooster:
        """Load a checked model file, JSON with the weights of every round."""
        return cls(LINEAR.parse(data))

    def predict(self, features: Features, request: PredictRequest) -> Array:
        """Compute scores, or each feature's part of them.

        Raises:
            ModelError: leaves are asked for.
        """
        if request.what == LEAVES:
            raise ModelError("a linear model has no leaves")
        rows = ScaledRows(features, self.native.scaling)
        weights = self.native.weights(request.rounds)
        if request.what == CONTRIBUTIONS:
            return rows.parts(weights)
        with np.errstate(over="ignore", invalid="ignore"):  # scores are checked later
            return rows.scores(weights)


class Linear(Backend):
    """The engine of linear models, whose rounds are steps of an optimiser."""

    name = "linear"
    version = str(scipy.__version__)
    format = LINEAR
    params = LinearParams()
    booster = LinearBooster
    grows_trees = False

    def dataset(
        self, data: RankingDataset, params: ParamValues, *, reference: Any, weights: bool
    ) -> LinearData:
        """Return rows, labels and queries, with the scaling of `reference` if there is one.

        Raises:
            DataError: the rows are on disk, or a feature is categorical.
        """
        if data.on_disk:
            raise DataError(
                "a linear model needs rows in memory: use --route memory, or boostrank.read"
            )
        if data.categorical:
            raise DataError(
                f"feature {data.feature_names[data.categorical[0]]!r} is categorical, which a"
                " linear model does not support: leave it out, or pass a column of 0 and 1 for"
                " each category"
            )
        if reference is None:
            scaling = _scaling_of(data, _settings(params)["scaling"])
        else:
            scaling = reference.rows.scaling
        return LinearData(
            ScaledRows(data.features, scaling), data.labels, data.queries, data.feature_names
        )

    def train(self, request: TrainRequest) -> tuple[LinearBooster, int]:
        """Minimise the objective from the weights of `request.earlier`, one step a round.

        Raises:
            ParameterError: the objective is not boostrank's, or the continued model is scaled
                otherwise.
        """
        if request.objective is None:
            words = "`boostrank objectives` lists them, boostrank.define_objective defines others"
            raise ParameterError(f"a linear model needs an objective of boostrank: {words}")
        settings, directions = _settings(request.params), _directions(request.params)
        data: LinearData = request.train
        before, path, weights = 0, [], np.zeros(0)
        if request.earlier is not None:
            earlier: LinearModel = request.earlier.native
            _rescale(request, earlier.scaling)
            before, path, weights = earlier.rounds, [*earlier.path], earlier.weights().copy()
        columns = data.rows.features.shape[1]
        if (columns + 1) * request.rounds > _MOST_KEPT:
            raise ParameterError(
                f"{request.rounds:,} rounds of {columns:,} weights are too many to keep: use fewer"
                " rounds or features"
            )
        if not path:
            weights = _initial(data, request.objective, settings)
        weights = projected(weights, directions)
        centre = weights.copy() if settings["toward"] == "start" else np.zeros(weights.size)
        risk = Risk(
            data.rows,
            lambda scores, round: request.gradient.evaluate(scores, data, round),
            max(1, len(data.queries)),
            settings["lambda_l2"],
            centre,
        )
        # A stage is a sequence of rounds with the same loss, which is optimised until it converges
        # or the stage ends.
        rounds = range(before, before + request.rounds)
        stages = [
            list(stage) for _, stage in groupby(rounds, partial(_loss_key, request.objective))
        ]
        optimizer = _chosen(
            settings["optimizer"], request.objective, len(stages), request.rounds, any(directions)
        )
        walk = Walk(request, settings["learning_rate"], before)
        with contextlib.suppress(Stopped):
            walk.begin()
            for stage in stages:
                if optimizer == NEWTON:
                    for round in stage:
                        weights = newton(replace(risk, round=round), weights, walk.learning_rate)
                        weights = projected(weights, directions)
                        walk(weights)
                    continue
                now = replace(risk, round=stage[0])
                weights, taken = minimised(
                    optimizer, now, weights, len(stage), walk, settings["tolerance"], directions
                )
                for _ in range(len(stage) - taken):  # the stage has converged
                    walk(weights)
        rounds_of_model, path = before + len(walk.path), [*path, *walk.path]
        model = LinearModel(data.feature_names, data.rows.scaling, rounds_of_model, np.array(path))
        return LinearBooster(model), walk.rounds.best_rounds


def _rescale(request: TrainRequest, scaling: Scaling) -> None:
    """Scale all sets as the continued model does, or raise ParameterError for another kind."""
    if request.train.rows.scaling.kind != (kind := scaling.kind):
        raise ParameterError(f"the continued model has scaling={kind}: pass scaling={kind}")
    for data in (request.train, *(data for _, data in request.valid)):
        data.rows = ScaledRows(data.rows.features, scaling)


BACKEND = Linear()


def _initial(
    data: LinearData, objective: TrainingObjective, settings: Mapping[str, Any]
) -> Float64Array:
    columns = data.rows.features.shape[1]
    if settings["initial"] == "random":
        rng = np.random.default_rng([settings["seed"], 0])
        return np.append(rng.normal(size=columns) / np.sqrt(columns), 0.0)
    if settings["initial"] == "zero":
        return np.zeros(columns + 1)
    if settings["initial"] == "ranksvm":
        return _fit_ranksvm(data, objective, settings["ridge"])
    if data.queries.document_weights is not None:
        objective.check_gain_weights("initial=regression", "initial=zero needs none")
    gains, rows = weighted_gains(data.labels, objective.gain, data.queries), data.rows
    if rows.scaling.kind == SCORES:  # a regression needs columns of mean 0
        mean = measure_scaling(NONE, rows.features).mean
        rows = replace(rows, scaling=replace(rows.scaling, mean=mean))
    return ridge_regression(rows, gains, settings["ridge"])


def _fit_ranksvm(data: LinearData, objective: TrainingObjective, ridge: float) -> Float64Array:
    """Return the weights of a converged RankSVM, float64[d + 1]. The intercept is 0."""
    ranksvm = Objective("ranksvm", gain=objective.gain, threads=objective.threads)
    # RankSVM has no cut-off.
    pairs = ranksvm.bind(data.labels, replace(data.queries, k=None))
    zero = np.zeros(data.rows.features.shape[1] + 1)
    risk = Risk(data.rows, pairs.evaluate, max(1, len(data.queries)), ridge, zero)
    name, options = METHODS[LBFGS]
    return np.asarray(minimize(risk, zero, jac=True, method=name, options=options).x)


def _scaling_of(data: RankingDataset, kind: str) -> Scaling:
    """Measure the scaling of the training set, or keep score columns within queries."""
    if kind != SCORES:
        return measure_scaling(kind, data.features)
    within = np.array([name.endswith("|query)") for name in data.feature_names])
    scale = (within | ~within.any()).astype(np.float64)
    return Scaling(SCORES, np.zeros(scale.size), scale)


def _settings(params: ParamValues) -> dict[str, Any]:
    of_model = {
        name: value
        for name, value in params.items()
        if name not in ("num_threads", "verbosity", "verbose", "monotone_constraints")
    }
    values = resolve_params(PARAMS, of_model, owner="a linear model")
    return {p.name: p.parse(values.get(p.name, p.default)) for p in PARAMS}


def _directions(params: ParamValues) -> list[int]:
    """Return the sign of each weight, 1 or -1, or 0 for either; an empty list means no
    constraints.
    """
    return read_directions(params.get("monotone_constraints", ()), None)


def projected(weights: Float64Array, directions: Sequence[int]) -> Float64Array:
    """Return the closest weights, float64[d + 1], whose signs are allowed."""
    if not any(directions):
        return weights
    forbidden = weights[:-1] * directions < 0.0
    return np.append(np.where(forbidden, 0.0, weights[:-1]), weights[-1])


def _loss_key(objective: TrainingObjective, round: int) -> tuple[Any, ...]:
    """Return a key that is equal for all rounds with the same loss."""
    drawn = round if _draws(objective) else -1
    parts = [
        (*part.values(round).items(), *part.option_values(round).items())
        for part in objective.parts
    ]
    shares = objective.factors(round, [1.0] * len(parts))
    return drawn, tuple(parts), shares


def _draws(objective: TrainingObjective) -> bool:
    return any(
        part.spec.random or part.options.get("score_noise", "none") != "none"
        for part in objective.parts
    )


def _chosen(
    optimizer: str, objective: TrainingObjective, stages: int, rounds: int, has_constraints: bool
) -> str:
    part = objective.parts[0]
    exact = part.spec.exact_gradient
    changed = (
        part.options.get("normalize_query", "none") != "none"
        or part.options.get("scale_control", 0.0) != 0.0
    )
    # A line search needs a gradient that is the derivative of the loss.
    compares = len(objective.parts) == 1 and not _draws(objective) and exact and not changed
    if optimizer == "auto":
        margin = objective.name == "margin-ndcg"
        kinks = margin and part.params["bound"] != "tight"  # at which a line search stalls
        if not compares or kinks or stages > max(1, rounds // _STEPS_A_STAGE):
            return NEWTON
        return LBFGS if margin or has_constraints else CG
    if optimizer == CG and has_constraints:
        raise ParameterError(
            "optimizer=cg does not support monotone_constraints: use optimizer=lbfgs or newton"
        )
    if optimizer in (CG, LBFGS) and not compares:
        raise ParameterError(
            f"optimizer={optimizer} compares losses, but objective {objective.name!r} with these"
            " options is noisy, or its gradient is not the derivative of its loss: use"
            " optimizer=newton"
        )
    return optimizer


def measure_scaling(kind: str, features: Features) -> Scaling:
    """Return the shift and the factor of each column for the scaling `kind`.

    Raises:
        DataError: a feature has infinite values.
    """
    columns = features.shape[1]
    count, total = np.zeros(columns), np.zeros(columns)
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    with np.errstate(invalid="ignore"):  # infinite values raise an error below
        for _, part in _blocks(features):
            numbers, present_count, least, most = _sums(part, np.zeros(columns))
            count, total = count + present_count, total + numbers
            low, high = np.minimum(low, least), np.maximum(high, most)
    bad = np.flatnonzero((low == -np.inf) | (high == np.inf))
    if bad.size:
        raise DataError(
            f"feature {bad[0]} (from 0) has infinite values, which a linear model does not support"
        )
    mean = np.divide(total, count, out=np.zeros(columns), where=count > 0)
    changes = high > low
    if kind != STANDARD:
        return Scaling(kind, mean, changes.astype(np.float64))
    square = np.zeros(columns)
    for _, part in _blocks(features):
        square += _sums(part, mean, squares=True)[0]
    deviation = np.sqrt(np.divide(square, count, out=np.zeros(columns), where=count > 0))
    return Scaling(kind, mean, np.where(changes, deviation, 0.0))


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Products with the scaled features of rows, float32[N, d], dense or CSR."""

    features: Features
    scaling: Scaling

    def scores(self, weights: Float64Array) -> Float64Array:
        """Return the scores, float64[N], for weights float64[d + 1], the last of which is the
        intercept.
        """
        coefficients = self.scaling.coefficients(weights[:-1])
        constant = weights[-1] - float(self.scaling.mean @ coefficients)
        parts = [
            _filled(part, self.scaling.mean) @ coefficients for _, part in _blocks(self.features)
        ]
        return np.asarray(np.concatenate([np.zeros(0), *parts]) + constant)

    def pulls(self, gradient: Float64Array) -> Float64Array:
        """Return the derivative with respect to the weights, float64[d + 1], from that with respect
        to the scores.
        """
        total = float(gradient.sum())
        sums = np.zeros(self.features.shape[1])
        for start, part in _blocks(self.features):
            sums += _filled(part, self.scaling.mean).T @ gradient[start : start + part.shape[0]]
        return np.append(self.scaling.coefficients(sums - total * self.scaling.mean), total)

    def curvature(self, hess: Float64Array) -> Float64Array:
        """Return X^T diag(hess) X for the dense scaled features and the intercept, float64[d + 1, d
        + 1].
        """
        size = self.features.shape[1] + 1
        out = np.zeros((size, size))
        for start, part in _blocks(self.features):
            scaled = np.ones((part.shape[0], size))
            scaled[:, :-1] = self.scaling.coefficients(
                _filled(part, self.scaling.mean) - self.scaling.mean
            )
            out += scaled.T @ (hess[start : start + part.shape[0], None] * scaled)
        return out

    def parts(self, weights: Float64Array) -> Float64Array:
        """Return the contributions of the features and the intercept to each score, float64[N, d +
        1].
        """
        coefficients = self.scaling.coefficients(weights[:-1])
        out = np.empty((self.features.shape[0], weights.size))
        out[:, -1] = weights[-1]
        for start, part in _blocks(self.features):
            rows = part.toarray() if sparse.issparse(part) else part
            dense = _filled(rows, self.scaling.mean)
            out[start : start + part.shape[0], :-1] = (dense - self.scaling.mean) * coefficients
        return out


def _blocks(features: Features) -> Iterator[tuple[int, Any]]:
    """Yield pairs of a first row number and rows: blocks of dense rows, or all sparse rows
    together.
    """
    if sparse.issparse(features):
        yield 0, features
    else:
        for start, stop in dense_batches(features):
            yield start, features[start:stop]


def _filled(part: Any, mean: Float64Array) -> Any:
    """Return rows in float64, in which missing values are replaced by the mean."""
    if sparse.issparse(part):
        part = sparse.csr_matrix(part, dtype=np.float64)
        missing = np.isnan(part.data)
        if missing.any():
            part = part.copy()
            part.data[missing] = mean[part.indices[missing]]
        return part
    part = part.astype(np.float64)
    missing = np.isnan(part)
    return np.where(missing, mean, part) if missing.any() else part


def _sums(part: Any, centre: Float64Array, *, squares: bool = False) -> tuple[Float64Array, ...]:
    """Return each column's sum of x - centre or of its square, count, minimum and maximum."""
    columns = centre.size
    power = 2 if squares else 1
    if not sparse.issparse(part):
        rows = part.astype(np.float64)
        present = ~np.isnan(rows)
        present_count = np.count_nonzero(present, axis=0).astype(np.float64)
        total = np.sum((rows - centre) ** power, axis=0, where=present)
        least = np.min(rows, axis=0, where=present, initial=np.inf)
        most = np.max(rows, axis=0, where=present, initial=-np.inf)
        return total, present_count, least, most
    # Absent entries of sparse rows are zeros, so they add (-centre)^power each.
    data, at = part.data.astype(np.float64), part.indices
    missing = np.isnan(data)
    present_count = part.shape[0] - np.bincount(at[missing], minlength=columns).astype(np.float64)
    absent = part.shape[0] - np.bincount(at, minlength=columns).astype(np.float64)
    data, at = data[~missing], at[~missing]
    total = np.bincount(at, (data - centre[at]) ** power, columns) + absent * (-centre) ** power
    least, most = np.where(absent > 0, 0.0, np.inf), np.where(absent > 0, 0.0, -np.inf)
    np.minimum.at(least, at, data)
    np.maximum.at(most, at, data)
    return total, present_count, least, most


@dataclass(frozen=True, eq=False)
class Risk:
    """The regularised risk F, which is the mean loss per query in one round plus penalty |w -
    centre|^2.

    Args:
        evaluate: (scores, round) -> loss and gradient.
        centre: float64[d + 1], whose last entry is ignored.
    """

    rows: ScaledRows
    evaluate: Callable[[Float64Array, int], Gradient]
    queries: int
    penalty: float
    centre: Float64Array
    round: int = 0

    def __call__(self, weights: Float64Array) -> tuple[float, Float64Array]:
        """Return F and its derivative, for `scipy.optimize.minimize`."""
        value, gradient, _ = self.curved(weights)
        return value, gradient

    def curved(self, weights: Float64Array) -> tuple[float, Float64Array, Float64Array]:
        """Return F, its derivative, and its second derivatives with respect to the scores,
        float64[N].
        """
        risk = self.evaluate(self.rows.scores(weights), self.round)
        away = weights - self.centre
        away[-1] = 0.0  # no penalty for the intercept
        value = risk.stats.loss / self.queries + self.penalty * float(away @ away)
        gradient = self.rows.pulls(risk.grad) / self.queries + 2.0 * self.penalty * away
        return value, gradient, risk.hess / self.queries


def ridge_regression(rows: ScaledRows, target: Float64Array, ridge: float) -> Float64Array:
    """Return the weights that minimise (1/N) |X w + b - target|^2 + ridge |w|^2, float64[d + 1]."""
    documents, columns = rows.features.shape
    if documents == 0:
        return np.zeros(columns + 1)
    intercept = float(target.mean())
    # Columns have mean 0, so the intercept is the mean target. lsmr adds damp^2 |w|^2.
    matrix = LinearOperator(
        (documents, columns),
        matvec=lambda w: rows.scores(np.append(w, 0.0)),
        rmatvec=lambda g: rows.pulls(g)[:-1],
        dtype=np.float64,
    )
    weights = lsmr(
        matrix,
        target - intercept,
        damp=float(np.sqrt(ridge * documents)),
        atol=1e-12,
        btol=1e-12,
        maxiter=min(2000, 4 * columns + 10),
    )[0]
    return np.append(weights, intercept)


class Stopped(Exception):
    """The exception that ends a training if a callback stops it."""


class Walk(Resettable):
    """The rounds of a training and the weights after each round, in which callbacks may change the
    learning rate.
    """

    def __init__(self, request: TrainRequest, learning_rate: float, before: int) -> None:
        self.path: list[Float64Array] = []
        self.learning_rate = learning_rate
        self.rounds = Rounds(request, self, before, lambda data: data.rows.scores(self.path[-1]))
        self._steps = iter(self.rounds)

    def begin(self) -> None:
        """Call the callbacks before the first round; raise Stopped if one of them stops."""
        next(self._steps, None)
        if self.rounds.stopped:
            raise Stopped

    def __call__(self, weights: Float64Array) -> None:
        self.path.append(np.array(weights))
        self.begin()

    def reset_parameter(self, params: ParamValues) -> None:
        """Change the learning rate, the only parameter that may change between rounds.

        Raises:
            ParameterError: another parameter.
        """
        for name, value in params.items():
            if find_param(name, [LEARNING_RATE]) is None:
                raise ParameterError(
                    f"{name!r} cannot change while a linear model is trained; only"
                    " learning_rate can"
                )
            self.learning_rate = float(LEARNING_RATE.parse(value))


# Maximum number of weights for an explicit matrix, with d^2 operations per row; conjugate gradients
# take 2 d per step.
_SMALL = 400


def minimised(
    method: str,
    risk: Risk,
    weights: Float64Array,
    steps: int,
    walk: Walk,
    tolerance: float,
    directions: Sequence[int] = (),
) -> tuple[Float64Array, int]:
    """Minimise the risk by one of SciPy's `METHODS`, and return the weights and the number of
    steps. `directions` are allowed signs of weights, which only L-BFGS supports.
    """
    name, options = METHODS[method]
    bounds = None
    if any(directions):
        sides = {0: (None, None), 1: (0.0, None), -1: (None, 0.0)}
        bounds = [sides[direction] for direction in (*directions, 0)]
    taken = 0

    def step(now: Float64Array) -> None:
        nonlocal taken
        taken += 1
        walk(now.copy())

    while taken < steps:
        before = taken
        with warnings.catch_warnings():  # a failed line search warns; the next one starts anew
            warnings.simplefilter("ignore")
            limits = {"gtol": tolerance, "maxiter": steps - taken, **options}
            solution = minimize(
                risk, weights, jac=True, method=name, bounds=bounds, callback=step, options=limits
            )
        weights = solution.x
        if solution.success or taken == before:
            break
    return weights, taken


def newton(risk: Risk, weights: Float64Array, rate: float) -> Float64Array:
    """Take one Newton step of length `rate`.

    The step compares no losses, so the objective may be noisy, and its gradient need not be the
    derivative of a loss.
    """
    _, gradient, hess = risk.curved(weights)
    rows, size = risk.rows, weights.size
    if size <= _SMALL and not sparse.issparse(rows.features):
        penalties = np.full(size, 2.0 * risk.penalty)
        penalties[-1] = 0.0
        matrix = rows.curvature(hess) + np.diag(penalties)
        return np.asarray(weights - rate * lstsq(matrix, gradient, cond=1e-10)[0])

    def product(v: Float64Array) -> Float64Array:
        v = v.ravel()
        out = rows.pulls(hess * rows.scores(v))
        out[:-1] += 2.0 * risk.penalty * v[:-1]
        return out

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    # Low precision, as the step is shortened.
    direction, _ = cg(operator, -gradient, rtol=1e-5, maxiter=100)
    return np.asarray(weights + rate * direction)
