"""The options of every objective: noise, normalisation per query, and scale control.

With s the scores of a query, and (L, g, h) the outputs of the objective's kernel:

    noise        (L, g, h) is the average of `noise_draws` calls at s + temperature * e,
                 e fresh every round
    control      g -= scale_control * <g, z> z / (|z| + nu)^2,   z = s - mean(s)
    normalise    g and h are multiplied by 1 / S (l1) or log2(1 + S) / S (log),   S = sum |g|

in this order, with gains relative to `gain_base`. The noise is a hash of seed, round, query, draw
and document, so it does not depend on threads. Each worker of a cluster numbers its own queries.

The scale of the scores does not change a ranking, so a gradient along the scores only sharpens the
smoothing. Control removes that part, so with 1 and nu = 0 the gradient is orthogonal to the centred
scores. The curvature is not changed, since it belongs to single scores.

Normalisation gives similar weights to queries with many strong gradients and to queries with few.
With l1, an almost solved query has as much weight as an unsolved one; log leaves weak gradients
unchanged (times 1 / ln 2).

If the worst document of a query has a gain above 0, as with grades from 1 to 3, smooth ranks push
it down, cross entropies spread their mass over it, and it dominates the ideal DCG, although every
order collects that gain. `gain_base=least` first subtracts the least gain of each query. It changes
nothing if grades reach 0 in every query.

Sources: noise, Bruch et al., "A stochastic treatment of learning to rank scoring functions", WSDM
2020; control, Ustimenko, Prokhorenkova, "StochasticRank: global optimization of scale-free discrete
functions", ICML 2020 (scale-free acceleration); log, LightGBM's rank_objective.hpp, where S sums
over pairs before opposite gradients cancel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from numba import types

from boostrank.core.params import Param
from boostrank.core.types import Float64Array
from boostrank.kernels.jit import FLOAT, INT, inline
from boostrank.kernels.primitives import SEED, gumbel, logistic, normal, round_seed

NO_NOISE, GUMBEL, LOGISTIC, GAUSSIAN = range(4)
NO_NORM, L1, LOG = range(3)

SCORE_NOISE = Param(
    "score_noise",
    "none",
    "noise added to the scores that the objective sees, new every round",
    choices=("none", "gumbel", "logistic", "gaussian"),
)
NOISE_TEMPERATURE = Param(
    "noise_temperature",
    1.0,
    "factor of the noise (a standard Gumbel, logistic or normal number); 0 means no noise",
    low=0.0,
    schedulable=True,
    unit="score",
)
NOISE_DRAWS = Param(
    "noise_draws",
    1,
    "draws per round, whose gradients and curvatures are averaged; each costs a pass",
    low=1,
    high=8,
)
NORMALIZE_QUERY = Param(
    "normalize_query",
    "none",
    "divide each query's gradients by S, the sum of their sizes: l1; or multiply them by log2(1 +"
    " S) / S: log",
    choices=("none", "l1", "log"),
    aliases=("normalise_query",),
)
SCALE_CONTROL = Param(
    "scale_control",
    0.0,
    "share of the gradient along the query's centred scores to remove, which only changes their"
    " scale",
    low=0.0,
    high=1.0,
    schedulable=True,
)
SCALE_CONTROL_NU = Param(
    "scale_control_nu",
    0.01,
    "length of the centred scores below which scale control fades",
    low=0.0,
    unit="score",
)
GAIN_BASE = Param(
    "gain_base",
    "zero",
    "origin of gains in training: zero, or the least gain of the query, which every order collects",
    choices=("zero", "least"),
)
HESSIAN_SCALE = Param(
    "hessian_scale",
    "unit",
    "unit: divide gradient and Hessian by the mean curvature, so that min_sum_hessian_in_leaf means"
    " the same for every objective; raw: leave both unchanged",
    choices=("unit", "raw"),
)

OPTIONS = (
    SCORE_NOISE,
    NOISE_TEMPERATURE,
    NOISE_DRAWS,
    SEED,
    NORMALIZE_QUERY,
    SCALE_CONTROL,
    SCALE_CONTROL_NU,
    GAIN_BASE,
    HESSIAN_SCALE,
)
"""The options of every objective, in addition to its own parameters and the gain."""

# Dividing by a smaller total gradient would leave the range of float32.
_LEAST_GRADIENT = 1e-30
# Kernels that draw random numbers use the round's seed itself; noise on the scores must not repeat
# their numbers.
_NOISE_SEED = 1 << 40


class Composition(NamedTuple):
    """The options of one round, in the form that compiled code takes.

    `noise` and `normalize` are indices in the choices of `SCORE_NOISE` and `NORMALIZE_QUERY`.
    """

    noise: int = NO_NOISE
    temperature: float = 0.0
    draws: int = 1
    seed: float = 0.0
    normalize: int = NO_NORM
    control: float = 0.0
    nu: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether no option changes the kernel's outputs."""
        noisy = self.noise != NO_NOISE and self.temperature > 0.0
        return not noisy and self.control <= 0.0 and self.normalize == NO_NORM

    @classmethod
    def at_round(cls, values: Mapping[str, Any], round: int) -> Composition:
        """Create from the values of `OPTIONS` at a 0-based round."""
        return cls(
            noise=int(SCORE_NOISE.encode(values["score_noise"])),
            temperature=float(values["noise_temperature"]),
            draws=int(values["noise_draws"]),
            seed=round_seed(_NOISE_SEED + int(values["seed"]), round),
            normalize=int(NORMALIZE_QUERY.encode(values["normalize_query"])),
            control=float(values["scale_control"]),
            nu=float(values["scale_control_nu"]),
        )


COMPOSITION = types.NamedTuple((INT, FLOAT, INT, FLOAT, INT, FLOAT, FLOAT), Composition)


@inline
def add_noise(
    composition: Composition, query: int, draw: int, scores: Float64Array, out: Float64Array
) -> None:
    """Write scores[i] + temperature * noise of (seed, query, draw, i) to out[i]."""
    n, kind, seed = scores.shape[0], composition.noise, composition.seed
    for i in range(n):
        index = draw * n + i
        if kind == GUMBEL:
            noise = gumbel(seed, query, index)
        elif kind == LOGISTIC:
            noise = logistic(seed, query, index)
        else:
            noise = normal(seed, query, index)
        out[i] = scores[i] + composition.temperature * noise


@inline
def change_gradient(
    composition: Composition, scores: Float64Array, grad: Float64Array, hess: Float64Array
) -> None:
    """Apply scale control and normalisation to a query's gradients in place."""
    if composition.control > 0.0:
        _control_scale(scores, composition.control, composition.nu, grad)
    if composition.normalize != NO_NORM:
        _normalize(composition.normalize, grad, hess)


@inline
def _control_scale(scores: Float64Array, control: float, nu: float, grad: Float64Array) -> None:
    """Remove the component along the centred scores from the gradient."""
    n = scores.shape[0]
    mean = 0.0
    for i in range(n):
        mean += scores[i] / n
    along, square = 0.0, 0.0
    for i in range(n):
        z = scores[i] - mean
        along += grad[i] * z
        square += z * z
    if square == 0.0:
        return
    length = math.sqrt(square) + nu
    factor = control * along / (length * length)
    for i in range(n):
        grad[i] -= factor * (scores[i] - mean)


@inline
def _normalize(kind: int, grad: Float64Array, hess: Float64Array) -> None:
    magnitude = 0.0
    for i in range(grad.shape[0]):
        magnitude += abs(grad[i])
    if not magnitude > _LEAST_GRADIENT:
        return
    factor = math.log1p(magnitude) / (math.log(2.0) * magnitude) if kind == LOG else 1.0 / magnitude
    for i in range(grad.shape[0]):
        grad[i] *= factor
        hess[i] *= factor
