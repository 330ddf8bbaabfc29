"""The contract of an objective: its kernel, which does the arithmetic of one query, and its
declaration.

A kernel is written with names:

    kernel(query, params, grad, hess, scratch) -> loss

| argument | meaning |
|---|---|
| query.scores | float64[n], current scores, finite |
| query.gains | float64[n], gain of each document, >= 0 |
| query.order | int64[n], documents by descending score, ties in input order |
| query.doc_const | float64[n, d], constants of each document, from `prepare` |
| query.query_const | float64[c], constants of the query, from `prepare` |
| params.NAME | its value in this round: a number, an integer (a choice is its index) or a bool |
| params.with_loss | with `loss_on_demand`: whether the loss is needed |
| grad, hess | float64[n], zeros: derivative of the loss, and a curvature >= 0 |
| scratch.NAME | declared row of that name, float64[n] or int64[n], contents undefined |

`query.order` is undefined if `ordered` is False. `params.seed` is the round's. A kernel whose loss
is not needed may return any finite number.

With `by_score` scores, gains, `grad` and `hess` are in the order of descending score; `query.order`
then maps to the rows of `query.doc_const`.

The driver calls every kernel through one signature of ten arrays, with parameters by position and
scratch in one piece. `objective_kernel` generates that entry point; a function of ten arguments
(`ARRAYS`) is used as it is.

Names in the kernels of boostrank, where documents are in the order of descending score:

| name | holds |
|---|---|
| n, m | documents of the query; relevant documents, or those that take part |
| s, g | scores, gains |
| pos, i, j, a | positions from 0; i is above j |
| alpha, sigma | sharpness and width of a smooth rank, alpha = 1 / sigma |
| u | distance of two scores in widths, alpha (s_i - s_j) |
| e, z, root | exp(-u), the row of it for one j, exp(-u / 16) |
| step, steps | factor of z from one j to the next |
| ranks, slope | smooth ranks, and dJ / drank, c in the papers |
| pull, curvature | what a pair, or an anchor, adds to gradient and Hessian |
| sums | how sums over pairs are computed, an index in `expsum.SUMS` |
| blend | of the log and the linear discount, `train_discount` |
| grade | index of a gain among those of the query |
| work, spare, state | overwritten; `work` carries values from the ranks to the gradient |

Rules of a kernel:

1. It minimises, so an objective to be maximised is negated once, in the kernel.
2. It never writes its inputs, keeps no reference to them, and allocates nothing in its loops.
3. It is defined for 0 and 1 documents, equal gains, zero gains, tied scores and |score| up to 1e4,
   without NaN or infinity; boostrank's objectives for any finite scores. For a query without
   information, both outputs are zero.
4. The gradient sums to zero unless the spec says `shift_invariant=False`; permuting documents
   permutes the outputs. Random numbers come from `kernels.primitives` under the round's seed, with
   the query's number as stream.
5. Query weights, scale and floor of the Hessian, and the cast to float32 belong to the driver.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.core.params import Param, check_keywords
from boostrank.core.types import Constants, Float64Array, HessianKind, Int64Array, ParamValues
from boostrank.kernels.jit import F1, F2, FLOAT, I1, CompiledFunction, inline_whole
from boostrank.kernels.primitives import SEED, gather, round_seed, scatter
from boostrank.kernels.shared import Query as Query
from boostrank.kernels.shared import default_constants

KERNEL_SIGNATURE = FLOAT(F1, F1, I1, F2, F1, F1, F1, F1, F1, I1)

ARGUMENTS = ("query", "params", "grad", "hess", "scratch")
"""The arguments of a kernel as it is written."""
ARRAYS = (
    "scores",
    "gains",
    "order",
    "doc_const",
    "query_const",
    "params",
    "grad",
    "hess",
    "scratch",
    "iscratch",
)
"""The arguments with which the driver calls a kernel."""


Params = Any
"""The values of the declared parameters in one round, which a kernel reads by name."""
Scratch = Any
"""The declared scratch rows of one query, float64[n] or int64[n], which a kernel reads by name."""


class Kernel(CompiledFunction[..., float]):
    """A kernel with the driver's signature.

    Args:
        body: function as it is written, with the arguments `ARGUMENTS` or `ARRAYS`.
        params: declared parameters, in the objective's order.
        scratch, int_scratch: names of rows, where "ranks work:4" is a row and a block of four,
            float64[4 n].
        by_score: whether documents are sorted by descending score.
        loss_on_demand: whether the kernel computes its loss only if `params.with_loss` is true.

    Attributes:
        py_func: the function of ten arguments that is compiled, in Python.
        scratch_per_document: numbers per document in each scratch array; None for a function of
            `ARRAYS`.
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
        entry = self._entry(inline_whole(body)) if self.is_named else body
        super().__init__(entry, KERNEL_SIGNATURE)

    def __reduce__(self) -> str | tuple[Any, ...]:
        reduced = super().__reduce__()
        if isinstance(reduced, str):
            return reduced
        return Kernel, (self.body, self.params, *self._layout)

    @property
    def in_python(self) -> Callable[..., float]:
        """The function of ten arguments, which is not compiled."""
        return self._entry(self.body) if self.is_named else self.py_func

    def _entry(self, body: Callable[..., float]) -> Callable[..., float]:
        """Return the function of ten arguments, which passes its arrays to the body by name."""
        scratch, int_scratch, by_score, _ = self._layout
        if by_score:
            scratch = f"_s _g {scratch} _gs _hs"
        rows, row_count = _slice_rows("scratch", scratch)
        int_rows, int_row_count = _slice_rows("iscratch", int_scratch)
        self.scratch_per_document = max(row_count, int_row_count)
        scratch_rows = {
            name: row for name, row in (rows | int_rows).items() if not name.startswith("_")
        }
        values = {
            _to_identifier(p.name): _read_param(i, p, len(self.params))
            for i, p in enumerate(self.params)
        }
        if self.loss_on_demand:
            values["with_loss"] = "params[params.shape[0] - 1] != 0.0"
        names: dict[str, Any] = {"body": body, "Query": Query, "gather": gather, "scatter": scatter}
        tuples = {}
        for tuple_name, fields in (("Params", values), ("Scratch", scratch_rows)):
            try:
                names[tuple_name] = namedtuple(tuple_name, fields)  # type: ignore[misc]
            except ValueError as error:
                raise ParameterError(
                    f"{body.__name__}: a parameter or row of scratch has no name of Python: {error}"
                ) from None
            tuples[tuple_name] = f"{tuple_name}({', '.join(fields.values())})" if fields else "()"
        source = (_BY_SCORE if by_score else _AS_GIVEN).format(
            arrays=", ".join(ARRAYS), **tuples, **rows
        )
        exec(source, names)
        # Numba names its cache files after the file, name and line of the function: use those of
        # the body.
        code = self.body.__code__
        entry_code = names["entry"].__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
        )
        entry = FunctionType(entry_code, names, self.body.__name__)
        entry.__qualname__, entry.__module__ = self.body.__qualname__, self.body.__module__
        entry.__doc__ = self.body.__doc__
        vars(entry).update(vars(self.body))
        return entry


_AS_GIVEN = """
def entry({arrays}):
    n = scores.shape[0]
    grad[:] = 0.0
    hess[:] = 0.0
    query = Query(scores, gains, order, doc_const, query_const)
    return body(query, {Params}, grad, hess, {Scratch})
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


def _slice_rows(array: str, declared: str) -> tuple[dict[str, str], int]:
    """Return name -> slice of the array, and the number of rows."""
    rows, start = {}, 0
    for word in declared.split():
        name, _, count = word.partition(":")
        stop = start + int(count or 1)
        rows[name] = f"{array}[{start} * n : {stop} * n]"
        start = stop
    return rows, start


def _to_identifier(name: str) -> str:
    plain = name.replace("-", "_")
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def _read_param(position: int, param: Param, count: int) -> str:
    """Return the expression that reads the parameter's value from the array of numbers."""
    if param.name == SEED.name:
        return f"params[{count}]"
    number = f"params[{position}]"
    return {"number": number, "switch": f"{number} != 0.0"}.get(param.kind, f"int({number})")


def objective_kernel(body: Callable[..., float] | None = None, /, **declared: Any) -> Any:
    """Decorate an objective's kernel; see `Kernel` for its declarations.

    Example:
        >>> import boostrank
        >>> @boostrank.objective_kernel(scratch="rest", by_score=True)
        ... def kernel(query, params, grad, hess, scratch):
        ...     return 0.0
        >>> kernel.is_named
        True
    """
    return Kernel(body) if body is not None else lambda function: Kernel(function, **declared)


def check_arguments(kernel: Kernel) -> None:
    """Check a kernel's arguments against the contract, which allows other names.

    Raises:
        FileFormatError: the number of arguments is wrong, or a known name has the wrong position.
    """
    name, parameters = kernel.body.__name__, tuple(inspect.signature(kernel.body).parameters)
    expected = ARRAYS if len(parameters) == len(ARRAYS) else ARGUMENTS
    moved = [
        argument
        for i, argument in enumerate(parameters)
        if argument in expected and expected.index(argument) != i
    ]
    if len(parameters) != len(expected) or moved:
        raise FileFormatError(
            f"{name} takes ({', '.join(parameters)}): write def {name}({', '.join(expected)})",
            file=kernel.file,
            line=kernel.line,
        )


Prepare = Callable[[Float64Array, Float64Array, Int64Array, ParamValues], Constants]
"""A function of labels, gains, ptr and parameters that is called once per data set.

It returns document constants, float64[N, d], and query constants, float64[Q, c].
"""

GAIN_WEIGHTS, LOSS_WEIGHTS = "gain", "loss"
"""The effects that a document weight can have; see `ObjectiveSpec.document_weights`."""

Settled = Callable[[Mapping[str, Any], int], int]


def _settled_at_once(values: Mapping[str, Any], total: int) -> int:
    return 0


@dataclass(frozen=True)
class ObjectiveSpec:
    """The declaration of an objective, which tests, documentation, command line and tuner read.

    Args:
        name: canonical name, with dashes ("shf-sdcg").
        kernel: see the contract above.
        params: parameters in the order in which the kernel reads them; the default is those that
            the kernel declares.
        hessian: kind of the second output.
        summary: one sentence for a list; without it, the docstring of the kernel's module gives
            summary, equation and deviation: the title after its colon, the first indented block,
            and the text after "Deviation:".
        equation: the objective in ASCII symbols.
        reference: paper and equation numbers.
        deviation: deviations from the paper and the reasons for them.
        prepare: function that returns the constants, by default the ideal DCG at `k` with log and
            linear discounts.
        aliases: alternative names.
        shift_invariant: whether adding a constant to a query's scores changes nothing.
        random: whether the kernel draws random numbers; it then has the parameter
            `kernels.primitives.SEED`.
        exact_gradient: whether the gradient is the derivative of the kernel's loss, except at
            kinks, so that an optimiser may compare losses.
        quadratic: whether a query of n documents costs n^2 operations (the driver then bounds n).
        settled: (values, total rounds) -> first round in which early stopping may use the metric.
        ordered: whether the kernel reads `order`.
        scratch_per_document: numbers per document in each scratch array, if the kernel declares no
            rows.
        default_schedules: parameter -> schedule text that is used if the user gives no value;
            `{name}` is replaced by the value of another parameter.
        default_options: option (`kernels.options`) -> value, if it differs from the option's
            default.
        document_weights: effect of a document's weight. "gain": it multiplies the document's gain,
            and its label if that is a target, before anything is derived from them, including the
            ideal DCG. "loss": it multiplies the document's own loss; `prepare` reads it from
            `values[DOCUMENT_WEIGHTS]`, float64[N], if the data has weights. None: such data raise
            an error.

    Example:
        >>> import boostrank
        >>> spec = boostrank.Objective("listnet").spec
        >>> spec.hessian.value, [param.name for param in spec.params]
        ('exact diagonal', ['target'])
    """

    name: str
    kernel: Kernel
    params: tuple[Param, ...] = ()
    hessian: HessianKind = HessianKind.PROXY
    summary: str = ""
    equation: str = ""
    reference: str = ""
    deviation: str = ""
    prepare: Prepare = default_constants
    aliases: tuple[str, ...] = ()
    shift_invariant: bool = True
    random: bool = False
    exact_gradient: bool = True
    quadratic: bool = False
    settled: Settled = _settled_at_once
    ordered: bool = True
    scratch_per_document: int = 8
    default_schedules: Mapping[str, str] = field(default_factory=dict)
    default_options: Mapping[str, Any] = field(default_factory=dict)
    document_weights: str | None = None

    def __post_init__(self) -> None:
        if not self.summary:
            for name, text in _read_docstring(sys.modules.get(self.kernel.__module__)).items():
                object.__setattr__(self, name, getattr(self, name) or text)
        if self.document_weights not in (None, GAIN_WEIGHTS, LOSS_WEIGHTS):
            raise ParameterError(
                f"{self.name}: document_weights={self.document_weights!r} is not one of"
                f" {GAIN_WEIGHTS!r}, {LOSS_WEIGHTS!r}, None"
            )
        if self.kernel.is_named:
            object.__setattr__(self, "scratch_per_document", self.kernel.scratch_per_document)
            object.__setattr__(self, "params", self.params or self.kernel.params)
            if self.kernel.params != self.params:
                raise ParameterError(f"{self.name}: its kernel declares different parameters")

    def encode(self, values: Mapping[str, Any], round: int, loss: bool = True) -> Float64Array:
        """Return the numbers that the kernel reads in a round: parameters, the seed, and `loss` if
        declared.
        """
        numbers = [p.encode(values[p.name]) for p in self.params]
        if any(p.name == SEED.name for p in self.params):
            numbers.append(round_seed(int(values[SEED.name]), round))
        if self.kernel.loss_on_demand:
            numbers.append(float(loss))
        return np.array(numbers, dtype=np.float64)


def _read_docstring(documented: Any) -> dict[str, str]:
    """Return the summary, equation and deviation in the docstring of a module or function."""
    title, _, body = inspect.cleandoc(getattr(documented, "__doc__", None) or "").partition("\n\n")
    block = next((part for part in body.split("\n\n") if part.startswith("    ")), "")
    deviation = re.search(r"Deviations?: (.*?)(\n\n|$)", body, re.DOTALL)
    summary = title.partition(":")[2] or title
    sections = {"summary": summary, "deviation": deviation[1] if deviation else ""}
    return {"equation": dedent(block)} | {
        name: " ".join(text.split()).rstrip(".") for name, text in sections.items()
    }


def no_constants(
    labels: Float64Array, gains: Float64Array, ptr: Int64Array, values: ParamValues
) -> Constants:
    """Return no constants, for kernels that need only scores and gains."""
    return np.zeros((labels.size, 0)), np.zeros((ptr.size - 1, 0))


_LONGEST_NAME = 100
_KINDS = {kind.name.lower().replace("_", "-"): kind for kind in HessianKind}


def define_objective(
    name: str,
    kernel: Kernel | Callable[..., float],
    *,
    params: Sequence[Param] = (),
    scratch: str = "",
    int_scratch: str = "",
    by_score: bool = False,
    hessian: str | HessianKind = HessianKind.PROXY,
    **declarations: Any,
) -> ObjectiveSpec:
    """Declare an objective; only `name` and `kernel` are required. Test it with `boostrank
    objectives --check`.

    Args:
        name: name of the objective in logs and models.
        kernel: loss, gradient and curvature of one query; see `boostrank.kernels.objective` for its
            arguments.
        params: parameters that the kernel reads by name.
        scratch, int_scratch, by_score: for a plain function, see
            `boostrank.kernels.objective.Kernel`.
        hessian: kind of `hess`: "proxy" (anything useful and not negative), "exact" (the second
            derivative by each score) or "majoriser" (its parabola lies above the loss).
        declarations: other fields of `ObjectiveSpec`: `summary`, `equation`, `reference`,
            `prepare`, `shift_invariant`, `exact_gradient`, and `quadratic`, which is true by
            default. The docstring of the kernel, or else of its module, describes it as in
            `ObjectiveSpec`.

    Raises:
        ParameterError: the name is not printable, a declaration or the kind of Hessian is unknown,
            the kernel is not a function, or a parameter or row of scratch is no identifier.
        FileFormatError: the kernel has the wrong arguments.

    Example:
        >>> import boostrank
        >>> def kernel(query, params, grad, hess, scratch):
        ...     loss = 0.0
        ...     for i in range(query.scores.size):
        ...         grad[i] = params.rate * (query.scores[i] - query.gains[i])
        ...         hess[i] = params.rate
        ...         loss += 0.5 * params.rate * (query.scores[i] - query.gains[i]) ** 2
        ...     return loss
        >>> rate = boostrank.Param("rate", 1.0, "factor of the error", low=0.0)
        >>> spec = boostrank.define_objective("my-error", kernel, params=[rate], hessian="exact")
        >>> boostrank.Objective(spec, rate=0.5).params["rate"]
        0.5
    """
    if (
        not isinstance(name, str)
        or not name.strip()
        or len(name) > _LONGEST_NAME
        or not name.isprintable()
    ):
        raise ParameterError(
            f"name={str(name)[:40]!r}: 1 to {_LONGEST_NAME} printable characters are required"
        )
    check_keywords(ObjectiveSpec, declarations)
    kind = hessian if isinstance(hessian, HessianKind) else _KINDS.get(hessian)
    if kind is None:
        raise ParameterError(f"hessian={hessian!r} is not one of {' | '.join(_KINDS)}")
    function = getattr(kernel, "py_func", kernel)  # the user may have decorated it with @njit
    if not inspect.isfunction(function):
        raise ParameterError(f"kernel={kernel!r} is not a function")
    compiled = (
        kernel
        if isinstance(kernel, Kernel)
        else Kernel(function, params, scratch, int_scratch, by_score)
    )
    check_arguments(compiled)
    defaults = {
        "summary": f"an objective of {compiled.__module__}",
        "equation": "",
        "quadratic": True,
    }
    module = sys.modules.get(compiled.__module__)
    for described in (None if compiled.__module__ == "__main__" else module, function):
        defaults |= {field: text for field, text in _read_docstring(described).items() if text}
    return ObjectiveSpec(
        name=name,
        kernel=compiled,
        params=tuple(params),
        hessian=kind,
        **{**defaults, **declarations},
    )


def source_of(spec: ObjectiveSpec) -> dict[str, str | None] | None:
    """Return the file of a user's objective and its sha256 when it was loaded; None for boostrank's
    own objectives.
    """
    kernel = spec.kernel
    return (
        None
        if kernel.is_ours
        else {"file": kernel.file.replace("\\", "/").rpartition("/")[2], "sha256": kernel.sha256}
    )
