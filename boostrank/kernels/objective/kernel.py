"""Kernels of objectives: the arithmetic of one query, as written and as the driver calls it.

A kernel is written with names:

    kernel(query, params, grad, hess, scratch) -> loss

| argument | meaning |
|---|---|
| query.scores | float64[n], current scores, finite |
| query.gains | float64[n], gain of each document, >= 0 |
| query.order | int64[n], documents by descending score, ties in input order (undefined if `ordered` is False) |
| query.doc_const | float64[n, d], constants of each document, from `prepare` |
| query.query_const | float64[c], constants of the query, from `prepare` |
| params.NAME | value of that parameter in this round: a number, an integer (a choice is its index) or a bool; the
noise's `seed` is the round's |
| params.with_loss | with `loss_on_demand`: whether the loss is needed; if not, any finite number may be returned |
| grad, hess | float64[n], zeros: derivative of the loss, and a curvature >= 0 |
| scratch.NAME | declared row of that name, float64[n] or int64[n], contents undefined |

With `by_score` scores, gains, `grad` and `hess` are in the order of descending score; `query.order` then maps to the
rows of `query.doc_const`.

The driver calls every kernel through one signature of ten arrays, with parameters by position and scratch in one piece.
`objective_kernel` generates that entry point; a function of ten arguments (`ARRAYS`) is used as it is.
"""

from __future__ import annotations

import inspect
import keyword
import sys
from collections import namedtuple
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, overload

from boostrank.core.errors import FileFormatError
from boostrank.core.params import Param
from boostrank.core.types import Float64Array, Int64Array
from boostrank.kernels.noise import SEED
from boostrank.kernels.primitives import gather, scatter
from boostrank.kernels.runtime.jit import F1, F2, FLOAT, I1, CompiledFunction, inline_whole

KERNEL_SIGNATURE = FLOAT(F1, F1, I1, F2, F1, F1, F1, F1, F1, I1)

ARGUMENTS = ("query", "params", "grad", "hess", "scratch")
"""Arguments of a kernel as written."""
ARRAYS = (
    "scores", "gains", "order", "doc_const", "query_const", "params", "grad", "hess", "scratch", "iscratch",
)  # fmt: skip
"""Arguments of a kernel as the driver calls it."""


class Query(NamedTuple):
    """One query as a kernel sees it."""

    scores: Float64Array
    gains: Float64Array
    order: Int64Array
    doc_const: Float64Array
    query_const: Float64Array


class Kernel(CompiledFunction[..., float]):
    """Kernel with the driver's signature.

    Args:
        body: function as written, with the arguments `ARGUMENTS` or `ARRAYS`.
        params: declared parameters, in the objective's order.
        scratch, int_scratch: names of rows; "ranks work:4" is a row and a block of four, float64[4 n].
        by_score: whether documents come by descending score.
        loss_on_demand: whether the kernel computes its loss only if `params.with_loss` is true.

    Attributes:
        py_func: the compiled function of ten arguments, in Python.
        scratch_per_document: numbers per document of each scratch array; None for a function of `ARRAYS`.
    """

    def __init__(
        self,
        body: Callable[..., float],
        params: Sequence[Param] = (),
        scratch: str = "",
        int_scratch: str = "",
        by_score: bool = False,
        loss_on_demand: bool = False,
    ) -> None:
        self.body, self.params = body, tuple(params)
        self._layout = (scratch, int_scratch, by_score, loss_on_demand)
        self.loss_on_demand = loss_on_demand
        self.is_named = len(inspect.signature(body).parameters) == len(ARGUMENTS)
        self.scratch_per_document: int | None = None
        super().__init__(self._entry(inline_whole(body)) if self.is_named else body, KERNEL_SIGNATURE)

    def __reduce__(self) -> str | tuple[Any, ...]:
        named = getattr(sys.modules.get(self.__module__), self.body.__qualname__, None)
        return self.body.__qualname__ if named is self else (Kernel, (self.body, self.params, *self._layout))

    @property
    def in_python(self) -> Callable[..., float]:
        """The function of ten arguments, not compiled."""
        return self._entry(self.body) if self.is_named else self.py_func

    def _entry(self, body: Callable[..., float]) -> Callable[..., float]:
        """Return the function of ten arguments, which passes its arrays to the body by name."""
        scratch, int_scratch, by_score, _ = self._layout
        if by_score:
            scratch = f"_s _g {scratch} _gs _hs"
        rows, floats = _rows("scratch", scratch)
        int_rows, integers = _rows("iscratch", int_scratch)
        self.scratch_per_document = max(floats, integers)
        named = {name: row for name, row in (rows | int_rows).items() if not name.startswith("_")}
        values = {_identifier(p.name): _decoded(i, p, len(self.params)) for i, p in enumerate(self.params)}
        if self.loss_on_demand:
            values["with_loss"] = "params[params.shape[0] - 1] != 0.0"
        names: dict[str, Any] = {"body": body, "Query": Query, "gather": gather, "scatter": scatter}
        calls = {}
        for kind, fields in (("Params", values), ("Scratch", named)):
            names[kind] = namedtuple(kind, fields)  # type: ignore[misc]
            calls[kind] = f"{kind}({', '.join(fields.values())})" if fields else "()"
        source = (_BY_SCORE if by_score else _AS_GIVEN).format(arrays=", ".join(ARRAYS), **calls, **rows)
        exec(source, names)
        # Numba names its cache files after the file, name and line of the function: use those of the body.
        code = self.body.__code__
        made = names["entry"].__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno)
        entry = FunctionType(made, names, self.body.__name__)
        entry.__qualname__, entry.__module__ = self.body.__qualname__, self.body.__module__
        entry.__doc__ = self.body.__doc__
        return entry


_AS_GIVEN = """
def entry({arrays}):
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    return body(Query(scores, gains, order, doc_const, query_const), {Params}, grad, hess, {Scratch})
"""
_BY_SCORE = """
def entry({arrays}):
    n = scores.shape[0]
    s, g, gs, hs = {_s}, {_g}, {_gs}, {_hs}
    gather(scores, order, s)
    gather(gains, order, g)
    gs[:] = 0.0
    hs[:] = 0.0
    loss = body(Query(s, g, order, doc_const, query_const), {Params}, gs, hs, {Scratch})
    scatter(gs, order, grad)
    scatter(hs, order, hess)
    return loss
"""


def _rows(array: str, declared: str) -> tuple[dict[str, str], int]:
    """Return name -> slice of the array, and the number of rows."""
    rows, start = {}, 0
    for word in declared.split():
        name, _, count = word.partition(":")
        stop = start + int(count or 1)
        rows[name] = f"{array}[{start} * n : {stop} * n]"
        start = stop
    return rows, start


def _identifier(name: str) -> str:
    plain = name.replace("-", "_")
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def _decoded(position: int, param: Param, count: int) -> str:
    """Return the expression of the parameter's value in the array of numbers."""
    if param.name == SEED.name:
        return f"params[{count}]"
    number = f"params[{position}]"
    return {"number": number, "switch": f"{number} != 0.0"}.get(param.kind, f"int({number})")


@overload
def objective_kernel(body: Callable[..., float], /) -> Kernel: ...


@overload
def objective_kernel(
    *,
    params: Sequence[Param] = (),
    scratch: str = "",
    int_scratch: str = "",
    by_score: bool = False,
    loss_on_demand: bool = False,
) -> Callable[[Callable[..., float]], Kernel]: ...


def objective_kernel(body: Callable[..., float] | None = None, /, **declared: Any) -> Any:
    """Decorator of an objective's kernel; see `Kernel` for its declarations."""
    return Kernel(body) if body is not None else lambda function: Kernel(function, **declared)


def check_arguments(kernel: Kernel) -> None:
    """Check the arguments of a kernel against the contract; names of your own are allowed.

    Raises:
        FileFormatError: the number of arguments is wrong, or a known name has the wrong position.
    """
    name, given = kernel.body.__name__, tuple(inspect.signature(kernel.body).parameters)
    wanted = ARRAYS if len(given) == len(ARRAYS) else ARGUMENTS
    swapped = [(i + 1, name) for i, name in enumerate(given) if name in wanted and wanted.index(name) != i]
    if len(given) == len(wanted) and not swapped:
        return
    wrong = f"takes {len(given)} arguments, not {len(wanted)}"
    if len(given) == len(wanted):
        place, argument = swapped[0]
        wrong = f"calls its argument {place} {argument}, which is argument {wanted.index(argument) + 1}"
    raise FileFormatError(f"{name} {wrong}: write def {name}({', '.join(wanted)})", file=kernel.file, line=kernel.line)
