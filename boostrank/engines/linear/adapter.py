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
from boostrank.core.types import Array, Float64Array, Int64Array, ParamValues
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
    Trained,
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
            "sigma": "steps(64, 32, 16, 8, 4, 2, 1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)",
            "mix": 0.0,
            "warm_rounds": 0,
        },
    }

    def check(self, params: ParamValues) -> None:
        """Raise ParameterError if a setting of the optimiser is unknown or out of range."""
        _settings(params)


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
        scaled_rows = ScaledRows(features, self.native.scaling)
        weights = self.native.weights(request.rounds)
        if request.what == CONTRIBUTIONS:
            return scaled_rows.parts(weights)
        with np.errstate(over="ignore", invalid="ignore"):  # scores are checked later
            return scaled_rows.scores(weights)


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
            ScaledRows(data.features, scaling),
            data.labels,
            queries=data.queries,
            feature_names=data.feature_names,
        )

    def train(self, request: TrainRequest) -> Trained:
        """Minimise the objective, one step a round.

        Raises:
            ParameterError: the objective is not boostrank's, or there is a model to continue.
        """
        if request.earlier is not None:
            raise ParameterError("a linear model cannot be continued: train it again, without it")
        if request.objective is None:
            raise ParameterError(
                "a linear model needs an objective of boostrank: `boostrank objectives` lists them,"
                " boostrank.define_objective defines others"
            )
        settings, data = _settings(request.params), request.train
        directions = read_directions(request.params.get("monotone_constraints", ()), None)
        columns, queries = data.rows.features.shape[1], max(1, len(data.queries))
        if (columns + 1) * request.rounds > _MOST_KEPT:
            raise ParameterError(
                f"{request.rounds:,} rounds of {columns:,} weights are too many to keep: use fewer"
                " rounds or features"
            )
        weights = project_signs(_initial(data, request.objective, settings), directions)
        centre = weights.copy() if settings["toward"] == "start" else np.zeros(weights.size)
        risk = Risk(
            data.rows,
            lambda scores, round: request.gradient.evaluate(scores, data, round),
            queries=queries,
            penalty=settings["lambda_l2"],
            centre=centre,
        )
        # A stage is a sequence of rounds with the same loss, which is optimised until it converges
        # or the stage ends.
        loss_of_round = partial(_loss_key, request.objective)
        stages = [list(stage) for _, stage in groupby(range(request.rounds), loss_of_round)]
        optimizer = _choose_optimizer(
            settings["optimizer"],
            request.objective,
            is_annealed=len(stages) > max(1, request.rounds // _STEPS_A_STAGE),
            has_constraints=any(directions),
        )
        path = WeightPath(request, settings["learning_rate"])
        with contextlib.suppress(Stopped):
            path.begin_round()
            for stage in stages:
                if optimizer != NEWTON:
                    stage_risk, end = replace(risk, round=stage[0]), len(path.weights) + len(stage)
                    tolerance = settings["tolerance"]
                    weights = minimize_risk(
                        stage_risk, weights, optimizer, tolerance, path, end, directions
                    )
                    continue
                for round in stage:
                    round_risk = replace(risk, round=round)
                    weights = take_newton_step(round_risk, weights, path.learning_rate)
                    weights = project_signs(weights, directions)
                    path.add(weights)
        n_rounds, weights_of_rounds = len(path.weights), np.array(path.weights)
        model = LinearModel(data.feature_names, data.rows.scaling, n_rounds, weights_of_rounds)
        return Trained(LinearBooster(model), path.rounds.best_rounds)


BACKEND = Linear()


def _initial(
    data: LinearData, objective: TrainingObjective, settings: Mapping[str, Any]
) -> Float64Array:
    columns = data.rows.features.shape[1]
    initial = settings["initial"]
    if initial == "random":
        rng = np.random.default_rng([settings["seed"], 0])
        return np.append(rng.normal(size=columns) / np.sqrt(columns), 0.0)
    if initial == "zero":
        return np.zeros(columns + 1)
    if initial == "ranksvm":
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
    pair_loss = ranksvm.bind(data.labels, replace(data.queries, k=None))
    start = np.zeros(data.rows.features.shape[1] + 1)
    queries = max(1, len(data.queries))
    risk = Risk(data.rows, pair_loss.evaluate, queries=queries, penalty=ridge, centre=start)
    method, options = METHODS[LBFGS]
    return np.asarray(minimize(risk, start, jac=True, method=method, options=options).x)


def _scaling_of(data: RankingDataset, kind: str) -> Scaling:
    """Measure the scaling of the training set, or keep score columns within queries."""
    if kind != SCORES:
        return measure_scaling(kind, data.features)
    is_within = np.array([name.endswith("|query)") for name in data.feature_names])
    scale = (is_within | ~is_within.any()).astype(np.float64)
    return Scaling(SCORES, np.zeros(scale.size), scale)


def _settings(params: ParamValues) -> dict[str, Any]:
    model_params = {
        name: value
        for name, value in params.items()
        if name not in ("num_threads", "verbosity", "verbose", "monotone_constraints")
    }
    resolved = resolve_params(PARAMS, model_params, owner="a linear model")
    return {param.name: param.parse(resolved.get(param.name, param.default)) for param in PARAMS}


def project_signs(weights: Float64Array, directions: Sequence[int]) -> Float64Array:
    """Return the closest weights, float64[d + 1], whose signs are those of `directions`: 1, -1, or
    0 for either; an empty list means no constraints.
    """
    if not any(directions):
        return weights
    forbidden = weights[:-1] * directions < 0.0
    return np.append(np.where(forbidden, 0.0, weights[:-1]), weights[-1])


def _loss_key(objective: TrainingObjective, round: int) -> tuple[Any, ...]:
    """Return a key that is equal for all rounds with the same loss."""
    drawn_round = round if _draws(objective) else -1
    part_values = [tuple(part.values(round).items()) for part in objective.parts]
    shares = objective.factors(round, [1.0] * len(part_values))
    return drawn_round, tuple(part_values), shares


def _draws(objective: TrainingObjective) -> bool:
    return any(
        part.spec.random or part.options.get("score_noise", "none") != "none"
        for part in objective.parts
    )


def _choose_optimizer(
    optimizer: str, objective: TrainingObjective, *, is_annealed: bool, has_constraints: bool
) -> str:
    first_part = objective.parts[0]
    is_exact = first_part.spec.exact_gradient
    is_changed = (
        first_part.options.get("normalize_query", "none") != "none"
        or first_part.options.get("scale_control", 0.0) != 0.0
    )
    # A line search needs a gradient that is the derivative of the loss.
    is_single = len(objective.parts) == 1
    can_compare = is_single and is_exact and not is_changed and not _draws(objective)
    if optimizer == "auto":
        is_margin = objective.name == "margin-ndcg"
        has_kinks = (
            is_margin and first_part.params["bound"] != "tight"
        )  # at which a line search stalls
        if not can_compare or has_kinks or is_annealed:
            return NEWTON
        return LBFGS if is_margin or has_constraints else CG
    if optimizer == CG and has_constraints:
        raise ParameterError(
            "optimizer=cg does not support monotone_constraints: use optimizer=lbfgs or newton"
        )
    if optimizer in (CG, LBFGS) and not can_compare:
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
    n_values, total = np.zeros(columns), np.zeros(columns)
    lowest, highest = np.full(columns, np.inf), np.full(columns, -np.inf)
    with np.errstate(invalid="ignore"):  # infinite values raise an error below
        for values, column, n_absent in _values_by_column(features):
            n_values += n_absent + np.bincount(column, minlength=columns)
            total += np.bincount(column, values, columns)
            np.minimum.at(lowest, column, values)
            np.maximum.at(highest, column, values)
            np.minimum(lowest, 0.0, out=lowest, where=n_absent > 0)
            np.maximum(highest, 0.0, out=highest, where=n_absent > 0)
    infinite = np.flatnonzero(~np.isfinite(total))
    if infinite.size:
        raise DataError(
            f"feature {infinite[0]} (from 0) has infinite values, which a linear model does not"
            " support"
        )
    divisor = np.maximum(n_values, 1.0)
    mean = total / divisor
    changes = highest > lowest
    if kind != STANDARD:
        return Scaling(kind, mean, changes.astype(np.float64))
    squares = np.zeros(columns)
    for values, column, n_absent in _values_by_column(features):
        squares += np.bincount(column, (values - mean[column]) ** 2, columns) + n_absent * mean**2
    return Scaling(kind, mean, np.where(changes, np.sqrt(squares / divisor), 0.0))


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Products with the scaled features of rows, float32[N, d], dense or CSR."""

    features: Features
    scaling: Scaling

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield row numbers and rows in float64, in which the mean replaces missing values."""
        mean = self.scaling.mean
        for rows, block in _row_blocks(self.features):
            filled = block.astype(np.float64)
            if sparse.issparse(block):
                np.copyto(filled.data, mean[filled.indices], where=np.isnan(filled.data))
            else:
                np.copyto(filled, mean, where=np.isnan(filled))
            yield rows, filled

    def scores(self, weights: Float64Array) -> Float64Array:
        """Return the scores, float64[N], for weights float64[d + 1], the last of which is the
        intercept.
        """
        coefficients = self.scaling.coefficients(weights[:-1])
        constant = weights[-1] - float(self.scaling.mean @ coefficients)
        block_scores = [block @ coefficients for _, block in self.blocks()]
        return np.asarray(np.concatenate([np.zeros(0), *block_scores]) + constant)

    def pulls(self, gradient: Float64Array) -> Float64Array:
        """Return the derivative with respect to the weights, float64[d + 1], from that with respect
        to the scores.
        """
        total = float(gradient.sum())
        sums = np.zeros(self.features.shape[1])
        for rows, block in self.blocks():
            sums += block.T @ gradient[rows]
        return np.append(self.scaling.coefficients(sums - total * self.scaling.mean), total)

    def curvature(self, hess: Float64Array) -> Float64Array:
        """Return X^T diag(hess) X for the dense scaled features and the intercept, float64[d + 1, d
        + 1].
        """
        size = self.features.shape[1] + 1
        products = np.zeros((size, size))
        for rows, block in self.blocks():
            scaled = np.ones((block.shape[0], size))
            scaled[:, :-1] = self.scaling.coefficients(block - self.scaling.mean)
            products += scaled.T @ (hess[rows, None] * scaled)
        return products

    def parts(self, weights: Float64Array) -> Float64Array:
        """Return the contributions of the features and the intercept to each score, float64[N, d +
        1].
        """
        coefficients = self.scaling.coefficients(weights[:-1])
        contributions = np.empty((self.features.shape[0], weights.size))
        contributions[:, -1] = weights[-1]
        for rows, block in self.blocks():
            dense = block.toarray() if sparse.issparse(block) else block
            contributions[rows, :-1] = (dense - self.scaling.mean) * coefficients
        return contributions


def _row_blocks(features: Features) -> Iterator[tuple[slice, Any]]:
    """Yield row numbers and rows: blocks of dense rows, or all sparse rows together."""
    if sparse.issparse(features):
        yield slice(None), features
    else:
        for span in dense_batches(features):
            rows = slice(*span)
            yield rows, features[rows]


def _values_by_column(features: Features) -> Iterator[tuple[Float64Array, Array, Int64Array]]:
    """Yield the values of a block of rows, float64[n], their columns, and the number of absent
    entries of each column, which are zeros.
    """
    n_columns = features.shape[1]
    for _, block in _row_blocks(features):
        n_rows = block.shape[0]
        if sparse.issparse(block):
            values, columns = block.data, block.indices
        else:
            values, columns = block.ravel(), np.tile(np.arange(n_columns), n_rows)
        n_absent = n_rows - np.bincount(columns, minlength=n_columns)
        is_present = ~np.isnan(values)
        yield values[is_present].astype(np.float64), columns[is_present], n_absent


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
        return self.measure(weights)[:2]

    def measure(self, weights: Float64Array) -> tuple[float, Float64Array, Float64Array]:
        """Return F, its derivative with respect to the weights, float64[d + 1], and its second
        derivatives with respect to the scores, float64[N].
        """
        loss = self.evaluate(self.rows.scores(weights), self.round)
        distance = weights - self.centre
        distance[-1] = 0.0  # no penalty for the intercept
        value = loss.stats.loss / self.queries + self.penalty * float(distance @ distance)
        gradient = self.rows.pulls(loss.grad) / self.queries + 2.0 * self.penalty * distance
        return value, gradient, loss.hess / self.queries


def ridge_regression(rows: ScaledRows, target: Float64Array, ridge: float) -> Float64Array:
    """Return the weights that minimise (1/N) |X w + b - target|^2 + ridge |w|^2, float64[d + 1]."""
    n_documents, n_columns = rows.features.shape
    if n_documents == 0:
        return np.zeros(n_columns + 1)
    intercept = float(target.mean())
    # Columns have mean 0, so the intercept is the mean target. lsmr adds damp^2 |w|^2.
    matrix = LinearOperator(
        (n_documents, n_columns),
        matvec=lambda slopes: rows.scores(np.append(slopes, 0.0)),
        rmatvec=lambda gradient: rows.pulls(gradient)[:-1],
        dtype=np.float64,
    )
    weights = lsmr(
        matrix,
        target - intercept,
        damp=float(np.sqrt(ridge * n_documents)),
        atol=1e-12,
        btol=1e-12,
        maxiter=min(2000, 4 * n_columns + 10),
    )[0]
    return np.append(weights, intercept)


class Stopped(Exception):
    """The exception that ends a training if a callback stops it."""


class WeightPath(Resettable):
    """The rounds of a training and the weights after each round, in which callbacks may change the
    learning rate.
    """

    def __init__(self, request: TrainRequest, learning_rate: float) -> None:
        self.weights: list[Float64Array] = []
        self.learning_rate = learning_rate
        self.rounds = Rounds(
            request,
            self,
            earlier_rounds=0,
            scores=lambda data: data.rows.scores(self.weights[-1]),
        )
        self._rounds_left = iter(self.rounds)

    def begin_round(self) -> None:
        """Call the callbacks before a round; raise Stopped if one of them stops."""
        next(self._rounds_left, None)
        if self.rounds.stopped:
            raise Stopped

    def add(self, weights: Float64Array) -> None:
        """End a round with these weights, and begin the next one."""
        self.weights.append(np.array(weights))
        self.begin_round()

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


def minimize_risk(
    risk: Risk,
    weights: Float64Array,
    optimizer: str,
    tolerance: float,
    path: WeightPath,
    end: int,
    directions: Sequence[int],
) -> Float64Array:
    """Minimise the risk by one of SciPy's `METHODS` until the path has `end` rounds, and return the
    weights. `directions` are allowed signs of weights, which only L-BFGS supports.
    """
    method, options = METHODS[optimizer]
    bounds = None
    if any(directions):
        bounds_of_sign = {0: (None, None), 1: (0.0, None), -1: (None, 0.0)}
        bounds = [bounds_of_sign[direction] for direction in (*directions, 0)]
    success = False
    while not success and len(path.weights) < end:
        first_round = len(path.weights)
        with warnings.catch_warnings(action="ignore"):  # a failed line search; the next starts anew
            solution = minimize(
                risk,
                weights,
                jac=True,
                method=method,
                bounds=bounds,
                callback=path.add,
                options={"gtol": tolerance, "maxiter": end - first_round, **options},
            )
        weights, success = solution.x, solution.success or len(path.weights) == first_round
    while len(path.weights) < end:  # the risk has converged
        path.add(weights)
    return weights


def take_newton_step(risk: Risk, weights: Float64Array, rate: float) -> Float64Array:
    """Take one Newton step of length `rate`.

    The step compares no losses, so the objective may be noisy, and its gradient need not be the
    derivative of a loss.
    """
    _, gradient, hess = risk.measure(weights)
    rows, n_weights = risk.rows, weights.size
    if n_weights <= _SMALL and not sparse.issparse(rows.features):
        penalties = np.full(n_weights, 2.0 * risk.penalty)
        penalties[-1] = 0.0
        hessian = rows.curvature(hess) + np.diag(penalties)
        return np.asarray(weights - rate * lstsq(hessian, gradient, cond=1e-10)[0])

    def multiply_hessian(vector: Float64Array) -> Float64Array:
        vector = vector.ravel()
        product = rows.pulls(hess * rows.scores(vector))
        product[:-1] += 2.0 * risk.penalty * vector[:-1]
        return product

    hessian = LinearOperator((n_weights, n_weights), matvec=multiply_hessian, dtype=np.float64)
    # Low precision, as the step is shortened.
    direction, _ = cg(hessian, -gradient, rtol=1e-5, maxiter=100)
    return np.asarray(weights + rate * direction)
