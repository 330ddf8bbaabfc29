"""An objective of a user's own from one function: what `boostrank.define_objective` and the reader of files check."""

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
    """Declare an objective. Only the name and the kernel are needed; `boostrank objectives --check` tests the rest.

    Args:
        name: what it is called in logs and models.
        kernel: one query's loss, gradient and curvature; see `boostrank.kernels.objective.kernel` for its arguments.
        params: what the kernel reads by name.
        scratch, int_scratch, by_score: of a plain function, see `boostrank.kernels.objective.kernel.Kernel`.
        hessian: what the kernel writes to `hess`: "proxy" (anything useful, not negative), "exact" (the second
            derivative by each score), "majoriser" (the parabola it makes lies above the loss) or "gauss-newton".
        summary, equation, reference: for people.
        prepare: constants; the default gives the ideal DCG at `k` under the log and the linear discount.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        exact_gradient: whether the gradient is the derivative of the loss that the kernel returns.
        quadratic: whether a query of n documents costs n^2 operations.
        declarations: the other fields of `ObjectiveSpec`.

    Raises:
        ParameterError: a name that cannot be shown, an unknown kind of hessian, or something that is no kernel.
        FileFormatError: a kernel that does not take the arguments it should.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ParameterError(f"name={str(name)[:40]!r}: 1 to {_LONGEST_NAME} characters that can be printed")
    kind = hessian if isinstance(hessian, HessianKind) else _KINDS.get(hessian)
    if kind is None:
        raise ParameterError(f"hessian={hessian!r} is not one of {' | '.join(_KINDS)}")
    function = getattr(kernel, "py_func", kernel)  # a user may have said @njit
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
    """The file that a user's own objective stands in, and its sha256 when it was loaded; None for one of ours."""
    kernel = spec.kernel
    return (
        None if kernel.is_ours else {"file": kernel.file.replace("\\", "/").rpartition("/")[2], "sha256": kernel.sha256}
    )
