"""Contract of an objective: what it declares about itself, and what its kernel keeps (`kernels.objective.kernel`).

1. It minimises: gain-type objectives are negated in the kernel, once.
2. It never writes its inputs, keeps no reference, allocates nothing in its loops.
3. It is defined for 0 and 1 documents, equal gains, no gain at all, tied scores and |score| up to 1e4: never NaN or
   infinity; ours, at any finite scores. A query that cannot teach anything gets zeros in both outputs.
4. The gradient sums to zero unless the spec says `shift_invariant=False`; permuting documents permutes the outputs.
   Random numbers come from `kernels.noise` under the round's seed, the query's number from `prepare` as the stream.
5. Query weights, the scale and floor of the hessian and the cast to float32 belong to the driver.
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
    """Computes what stays constant over training; called once per data set."""

    def __call__(self, labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
        """Constants a document (float64[N, d]) and a query (float64[Q, c])."""
        ...


GAIN_WEIGHTS, LOSS_WEIGHTS = "gain", "loss"
"""What an objective may multiply by the weight of a document."""

DOCUMENT_WEIGHTS = "document weights"
"""Where `prepare` finds them among its values, of an objective that multiplies losses."""

Settled = Callable[[Mapping[str, Any], int], int]


def _settled_at_once(values: Mapping[str, Any], total: int) -> int:
    return 0


@dataclass(frozen=True)
class ObjectiveSpec:
    """One objective: everything that tests, documentation, command line and tuner need to know of it.

    Args:
        name: canonical, with dashes ("shf-sdcg").
        summary: one sentence for a list.
        equation: the objective in words and ASCII symbols.
        kernel: see the contract above.
        params: in the order in which the kernel reads them; those that it declares, where none are given.
        hessian: what the second output is.
        reference: paper and equation numbers.
        deviation: where this differs from the paper, and why.
        prepare: constants; the default gives the ideal DCG at `k` under the log and the linear discount.
        aliases: other names people type.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        random: whether the kernel draws random numbers; it then has the parameter `kernels.noise.SEED`.
        exact_gradient: whether the gradient is the derivative of the loss that the kernel returns, everywhere but at
            kinks, so that an optimiser may compare losses. LambdaRank's is that of no loss; LambdaLoss's is that of a
            loss that jumps with the order.
        inexact_with: parameter -> the choice with which it is not, where `exact_gradient` is true otherwise.
        quadratic: whether a query of n documents costs n^2 operations (the driver then bounds n).
        settled: (values, total rounds) -> first round at which early stopping may look at the metric.
        ordered: whether the kernel reads `order`.
        scratch_per_document: how many numbers of each scratch array a document needs, where the kernel declares no
            rows.
        default_schedules: parameter -> schedule text, used when the user gives no value. `{name}` in it stands for
            the value of another parameter.
        default_options: option (`kernels.objective.options`) -> value, where it is not the option's own default.
        document_weights: how the objective takes a weight of each document. "gain": it multiplies the document's gain,
            and its label where that is a target, before anything else is made of them, the ideal DCG too. "loss": it
            multiplies the document's own loss; `prepare` finds them in `values[DOCUMENT_WEIGHTS]`, float64[N], where
            the data have any. None: data with such weights are refused.
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
                raise ParameterError(f"{self.name}: its kernel declares other parameters than it does")

    def is_exact(self, values: Mapping[str, Any]) -> bool:
        """`exact_gradient` with these parameters."""
        return self.exact_gradient and all(values[name] != choice for name, choice in self.inexact_with.items())

    def param(self, name: str) -> Param:
        """The declared parameter of exactly this name."""
        return next(p for p in self.params if p.name == name)

    def encode(self, values: Mapping[str, Any], round: int, loss: bool = True) -> Float64Array:
        """`params` as the kernel reads them at a 0-based round, and whether its loss is asked for."""
        numbers = [p.encode(values[p.name]) for p in self.params]
        if any(p.name == SEED.name for p in self.params):
            numbers.append(round_seed(int(values[SEED.name]), round))
        if self.kernel.loss_on_demand:
            numbers.append(float(loss))
        return np.array(numbers, dtype=np.float64)

    def position(self, name: str) -> int:
        """Where a parameter stands in the kernel's `params`."""
        return [p.name for p in self.params].index(name)


def no_constants(labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues) -> Constants:
    """A `prepare` for kernels that need nothing but scores and gains."""
    return np.zeros((labels.size, 0)), np.zeros((ptr.size - 1, 0))
