"""An objective of a user's own from one function: what `boostrank.define_objective` and the reader of files check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.params import Param
from boostrank.core.types import HessianKind
from boostrank.kernels.objective.contract import Kernel, ObjectiveSpec, Prepare, objective_kernel
from boostrank.kernels.objective.shared_params import default_constants
from boostrank.kernels.runtime.jit import CompiledFunction

KERNEL_ARGUMENTS = (
    "scores", "gains", "order", "doc_const", "query_const", "params", "grad", "hess", "scratch", "iscratch",
)  # fmt: skip

_KINDS = {kind.name.lower().replace("_", "-"): kind for kind in HessianKind}


def define_objective(
    name: str,
    kernel: Kernel | Callable[..., float],
    *,
    params: Sequence[Param] = (),
    hessian: str | HessianKind = HessianKind.PROXY,
    summary: str = "",
    equation: str = "",
    reference: str = "",
    prepare: Prepare = default_constants,
    shift_invariant: bool = True,
    exact_gradient: bool = True,
    quadratic: bool = True,
    **declarations: Any,
) -> ObjectiveSpec:
    """Declare an objective. Only the name and the kernel are needed; `boostrank check-objective` tests the rest.

    Args:
        name: what it is called in logs and models.
        kernel: one query's loss, gradient and curvature; see `boostrank.kernels.objective.contract` for the contract.
        params: in the order in which the kernel reads them.
        hessian: what the kernel writes to `hess`: "proxy" (anything useful, not negative), "exact" (the second
            derivative by each score), "majoriser" (the parabola it makes lies above the loss) or "gauss-newton".
        summary, equation, reference: for people.
        prepare: constants; the default gives the ideal DCG at `k` under the log and the linear discount.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        exact_gradient: whether the gradient is the derivative of the loss that the kernel returns.
        quadratic: whether a query of n documents costs n^2 operations.
        declarations: the other fields of `ObjectiveSpec`.

    Raises:
        ParameterError: an unknown kind of hessian, or something that is no kernel.
        FileFormatError: a kernel that does not take the ten arguments.
    """
    kind = hessian if isinstance(hessian, HessianKind) else _KINDS.get(hessian)
    if kind is None:
        raise ParameterError(f"hessian={hessian!r} is not one of {' | '.join(_KINDS)}")
    function = getattr(kernel, "py_func", kernel)  # a user may have said @njit
    if not inspect.isfunction(function):
        raise ParameterError(f"kernel={kernel!r} is not a function")
    compiled = kernel if isinstance(kernel, CompiledFunction) else objective_kernel(function)
    check_arguments(compiled)
    return ObjectiveSpec(
        name=name,
        kernel=compiled,
        params=tuple(params),
        hessian=kind,
        summary=summary or f"an objective of {compiled.py_func.__module__}",
        equation=equation,
        reference=reference,
        prepare=prepare,
        shift_invariant=shift_invariant,
        exact_gradient=exact_gradient,
        quadratic=quadratic,
        **declarations,
    )


def check_arguments(kernel: Kernel) -> None:
    """Refuse a kernel whose arguments are not the contract's; names of the user's own are welcome.

    Raises:
        FileFormatError: another number of them, or a known name in another place.
    """
    given = tuple(inspect.signature(kernel.py_func).parameters)
    swapped = [
        (place, name)
        for place, name in enumerate(given)
        if name in KERNEL_ARGUMENTS and KERNEL_ARGUMENTS.index(name) != place
    ]
    if len(given) == len(KERNEL_ARGUMENTS) and not swapped:
        return
    wrong = f"takes {len(given)} arguments, not {len(KERNEL_ARGUMENTS)}"
    if len(given) == len(KERNEL_ARGUMENTS):
        place, name = swapped[0]
        wrong = f"calls its argument {place + 1} {name}, which is argument {KERNEL_ARGUMENTS.index(name) + 1}"
    raise FileFormatError(
        f"{kernel.py_func.__name__} {wrong}: write def {kernel.py_func.__name__}({', '.join(KERNEL_ARGUMENTS)})",
        file=kernel.file,
        line=kernel.line,
    )


def source_of(spec: ObjectiveSpec) -> dict[str, str | None] | None:
    """The file that a user's own objective stands in, and its sha256 when it was loaded; None for one of ours."""
    kernel = spec.kernel
    return (
        None if kernel.is_ours else {"file": kernel.file.replace("\\", "/").rpartition("/")[2], "sha256": kernel.sha256}
    )
