"""Contract of an objective: its declaration, and the rules of its kernel (`kernels.objective.kernel`).

1. It minimises: objectives to be maximised are negated in the kernel, once.
2. It never writes its inputs, keeps no reference, and allocates nothing in its loops.
3. It is defined for 0 and 1 documents, equal gains, zero gains, tied scores and |score| up to 1e4, without NaN or
   infinity; boostrank's objectives for any finite scores. A query without information gets zeros in both outputs.
4. The gradient sums to zero unless the spec says `shift_invariant=False`; permuting documents permutes the outputs.
   Random numbers come from `kernels.noise` under the round's seed, with the query's number from `prepare` as stream.
5. Query weights, scale and floor of the Hessian, and the cast to float32 belong to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import Constants, Float64Array, HessianKind, Int64Array, ParamValues
from boostrank.kernels.noise import SEED, round_seed
from boostrank.kernels.objective.kernel import KERNEL_SIGNATURE, Kernel, Query, objective_kernel
from boostrank.kernels.objective.shared_params import default_constants

__all__ = [
    "DOCUMENT_WEIGHTS", "GAIN_WEIGHTS", "KERNEL_SIGNATURE", "LOSS_WEIGHTS", "Kernel", "ObjectiveSpec", "Prepare",
    "Query", "no_constants", "objective_kernel",
]  # fmt: skip


class Prepare(Protocol):
    """Function of what stays constant over training; called once per data set."""

    def __call__(self, labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
        """Return constants per document (float64[N, d]) and per query (float64[Q, c])."""
        ...


GAIN_WEIGHTS, LOSS_WEIGHTS = "gain", "loss"
"""What the weight of a document multiplies."""

DOCUMENT_WEIGHTS = "document weights"
"""Key of the document weights in the values of `prepare`, for objectives that weight losses."""

Settled = Callable[[Mapping[str, Any], int], int]


def _settled_at_once(values: Mapping[str, Any], total: int) -> int:
    return 0


@dataclass(frozen=True)
class ObjectiveSpec:
    """Declaration of an objective, for tests, documentation, command line and tuner.

    Args:
        name: canonical name, with dashes ("shf-sdcg").
        summary: one sentence for a list.
        equation: the objective in words and ASCII symbols.
        kernel: see the contract above.
        params: parameters in the order in which the kernel reads them; default: those that the kernel declares.
        hessian: kind of the second output.
        reference: paper and equation numbers.
        deviation: deviations from the paper, and their reasons.
        prepare: constants; the default gives the ideal DCG at `k` under the log and the linear discount.
        aliases: alternative names.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        random: whether the kernel draws random numbers; it then has the parameter `kernels.noise.SEED`.
        exact_gradient: whether the gradient is the derivative of the kernel's loss, except at kinks, so that an
            optimiser may compare losses. LambdaRank's is the derivative of no loss, LambdaLoss's of a loss that jumps
            with the order.
        inexact_with: parameter -> the choice that makes the gradient inexact although `exact_gradient` is true.
        quadratic: whether a query of n documents costs n^2 operations (the driver then bounds n).
        settled: (values, total rounds) -> first round at which early stopping may use the metric.
        ordered: whether the kernel reads `order`.
        scratch_per_document: numbers per document of each scratch array, if the kernel declares no rows.
        default_schedules: parameter -> schedule text, used if the user gives no value. `{name}` in it stands for the
            value of another parameter.
        default_options: option (`kernels.objective.options`) -> value, if it differs from the option's default.
        document_weights: effect of a document's weight. "gain": it multiplies the document's gain, and its label if
            that is a target, before anything is derived from them, including the ideal DCG. "loss": it multiplies the
            document's own loss; `prepare` reads it from `values[DOCUMENT_WEIGHTS]`, float64[N], if the data has
            weights. None: data with such weights raises an error.
    """

    name: str
    summary: str
    equation: str
    kernel: Kernel
    params: tuple[Param, ...] = ()
    hessian: HessianKind = HessianKind.PROXY
    reference: str = ""
    deviation: str = ""
    prepare: Prepare = default_constants
    aliases: tuple[str, ...] = ()
    shift_invariant: bool = True
    random: bool = False
    exact_gradient: bool = True
    quadratic: bool = True
    settled: Settled = _settled_at_once
    ordered: bool = True
    scratch_per_document: int = 8
    default_schedules: Mapping[str, str] = field(default_factory=dict)
    default_options: Mapping[str, Any] = field(default_factory=dict)
    document_weights: str | None = None
    inexact_with: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.document_weights not in (None, GAIN_WEIGHTS, LOSS_WEIGHTS):
            raise ParameterError(
                f"{self.name}: document_weights={self.document_weights!r} is not one of {GAIN_WEIGHTS!r}, "
                f"{LOSS_WEIGHTS!r}, None"
            )
        if self.kernel.is_named:
            object.__setattr__(self, "scratch_per_document", self.kernel.scratch_per_document)
            object.__setattr__(self, "params", self.params or self.kernel.params)
            if self.kernel.params != self.params:
                raise ParameterError(f"{self.name}: its kernel declares different parameters")

    def is_exact(self, values: Mapping[str, Any]) -> bool:
        """Return `exact_gradient` for these parameters."""
        return self.exact_gradient and all(values[name] != choice for name, choice in self.inexact_with.items())

    def param(self, name: str) -> Param:
        """Return the declared parameter with exactly this name."""
        return next(p for p in self.params if p.name == name)

    def encode(self, values: Mapping[str, Any], round: int, loss: bool = True) -> Float64Array:
        """Return `params` as the kernel reads them at a 0-based round, and whether it computes the loss."""
        numbers = [p.encode(values[p.name]) for p in self.params]
        if any(p.name == SEED.name for p in self.params):
            numbers.append(round_seed(int(values[SEED.name]), round))
        if self.kernel.loss_on_demand:
            numbers.append(float(loss))
        return np.array(numbers, dtype=np.float64)

    def position(self, name: str) -> int:
        """Return the index of a parameter in the kernel's `params`."""
        return [p.name for p in self.params].index(name)


def no_constants(labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
    """Return no constants, for kernels that need only scores and gains."""
    return np.zeros((labels.size, 0)), np.zeros((ptr.size - 1, 0))
