"""An objective of your own from one function, for `boostrank.define_objective` and files of users."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import HessianKind
from boostrank.kernels.objective.contract import ObjectiveSpec, Prepare
from boostrank.kernels.objective.kernel import Kernel, check_arguments
from boostrank.kernels.objective.shared_params import default_constants

_LONGEST_NAME = 100
_KINDS = {kind.name.lower().replace("_", "-"): kind for kind in HessianKind}


def define_objective(
    name: str, kernel: Kernel | Callable[..., float], *, params: Sequence[Param] = (), scratch: str = "",
    int_scratch: str = "", by_score: bool = False, hessian: str | HessianKind = HessianKind.PROXY, summary: str = "",
    equation: str = "", reference: str = "", prepare: Prepare = default_constants, shift_invariant: bool = True,
    exact_gradient: bool = True, quadratic: bool = True, **declarations: Any,
) -> ObjectiveSpec:  # fmt: skip
    """Declare an objective. Only name and kernel are required; `boostrank objectives --check` tests the rest.

    Args:
        name: name of the objective in logs and models.
        kernel: loss, gradient and curvature of one query; see `boostrank.kernels.objective.kernel` for its arguments.
        params: parameters that the kernel reads by name.
        scratch, int_scratch, by_score: for a plain function, see `boostrank.kernels.objective.kernel.Kernel`.
        hessian: kind of `hess`: "proxy" (anything useful and not negative), "exact" (the second derivative by each
            score), "majoriser" (its parabola lies above the loss) or "gauss-newton".
        summary, equation, reference: for documentation.
        prepare: constants; the default gives the ideal DCG at `k` under the log and the linear discount.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        exact_gradient: whether the gradient is the derivative of the kernel's loss.
        quadratic: whether a query of n documents costs n^2 operations.

    Raises:
        ParameterError: the name is not printable, the kind of Hessian is unknown, or the kernel is not a function.
        FileFormatError: the kernel has the wrong arguments.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ParameterError(f"name={str(name)[:40]!r}: 1 to {_LONGEST_NAME} printable characters are required")
    kind = hessian if isinstance(hessian, HessianKind) else _KINDS.get(hessian)
    if kind is None:
        raise ParameterError(f"hessian={hessian!r} is not one of {' | '.join(_KINDS)}")
    function = getattr(kernel, "py_func", kernel)  # the user may have decorated it with @njit
    if not inspect.isfunction(function):
        raise ParameterError(f"kernel={kernel!r} is not a function")
    compiled = kernel if isinstance(kernel, Kernel) else Kernel(function, params, scratch, int_scratch, by_score)
    check_arguments(compiled)
    return ObjectiveSpec(
        name=name,
        kernel=compiled,
        params=tuple(params),
        hessian=kind,
        summary=summary or f"an objective of {compiled.__module__}",
        equation=equation,
        reference=reference,
        prepare=prepare,
        shift_invariant=shift_invariant,
        exact_gradient=exact_gradient,
        quadratic=quadratic,
        **declarations,
    )


def source_of(spec: ObjectiveSpec) -> dict[str, str | None] | None:
    """Return the file of a user's objective and its sha256 at loading time; None for boostrank's own."""
    kernel = spec.kernel
    return (
        None if kernel.is_ours else {"file": kernel.file.replace("\\", "/").rpartition("/")[2], "sha256": kernel.sha256}
    )
