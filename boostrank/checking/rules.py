"""Rules of the kernel contract as functions of a probe, tried on queries of 0 to 11 documents, the
shortest first.

Compiled code does not check indices, and a wrong index corrupts memory or ends the process. So the
Python body of a kernel is called first, because NumPy checks its indices. It may call compiled
functions, so every array has margins. Outputs, scratch memory and margins are filled with arbitrary
numbers, and with other numbers in a second run, which reveals a kernel that depends on them.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import Float64Array, HessianKind, first_true
from boostrank.kernels.driver import HESSIAN_FLOOR
from boostrank.kernels.objective import ObjectiveSpec

# Tolerances relative to the largest gradient. Real faults (a sign, a factor, a missing term) exceed
# them by far.
_DERIVATIVE_TOLERANCE = 1e-4
_SYMMETRY_TOLERANCE = 1e-5
# On the ordinary examples, the steps of boostrank's objectives are at most 72, and improve 80%.
_LONG_STEP = 1e3
_SHARE_IMPROVED = 0.5
_MEANINGLESS = (7.25e11, -3.5e11)
_MARGIN = 8

Values = Mapping[str, Any]


class Status(enum.Enum):
    """The outcome of a check, where a note is a passed check with a remark."""

    PASS = "pass"
    NOTE = "note"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """The result of one check of an objective.

    Args:
        example: smallest failing example, with its scores, labels and gains, and the document.
    """

    check: str
    status: Status
    message: str
    example: str = ""
    why: str = ""
    mend: str = ""


@dataclass(frozen=True, eq=False)
class Example:
    """A query for a check, with its scores and labels, float64[n]."""

    what: str
    scores: Float64Array
    labels: Float64Array

    @property
    def gains(self) -> Float64Array:
        """The exponential gains of the documents, float64[n]."""
        return np.asarray(np.exp2(self.labels) - 1.0)

    def __len__(self) -> int:
        return int(self.scores.size)

    def at(self, scores: Float64Array) -> Example:
        """Return a query of the same documents with other scores."""
        return replace(self, scores=scores)

    def moved(self, document: int, step: float) -> Example:
        """Return the query with one score changed."""
        return self.at(self.scores + step * (np.arange(len(self)) == document))

    def __str__(self) -> str:
        lists = {"scores": self.scores, "labels": self.labels, "gains": self.gains}
        numbers = ", ".join(
            f"{name} [{', '.join(f'{v:.4g}' for v in values)}]" for name, values in lists.items()
        )
        return f"{self.what}: {numbers}" if len(self) else self.what


class Output(NamedTuple):
    """A kernel's result for one query, and the names of the inputs and margins that the kernel
    wrote to.
    """

    loss: float
    grad: Float64Array
    hess: Float64Array
    written: tuple[str, ...]
    margins_written: tuple[str, ...]


@dataclass(frozen=True)
class Probe:
    """An objective's kernel, or another `function` in its place, which can be run on examples."""

    spec: ObjectiveSpec
    function: Callable[..., float] | None = None

    def run(
        self,
        example: Example,
        values: Values,
        *,
        outputs: int = 0,
        scratch: int = 0,
        margins: int = 0,
    ) -> Output:
        """Run the kernel with arbitrary content of kind 0 or 1 in its outputs, scratch memory and
        margins.
        """
        n, gains = len(example), example.gains
        doc_const, query_const = self._constants(example.labels, gains, values)
        inputs = {
            "scores": example.scores,
            "gains": gains,
            "order": np.argsort(-example.scores, kind="stable"),
            "doc_const": np.ascontiguousarray(doc_const),
            "query_const": query_const[0],
            "params": self.spec.encode(
                {p.name: p.parse(values[p.name]) for p in self.spec.params}, 0
            ),
        }
        room = self.spec.scratch_per_document * n
        originals = inputs | {
            "grad": np.full(n, _MEANINGLESS[outputs]),
            "hess": np.full(n, _MEANINGLESS[outputs]),
            "scratch": np.full(room, _MEANINGLESS[scratch]),
            "iscratch": np.full(
                room, (n - 1) * scratch, np.int64
            ),  # integers are used as indices: valid positions
        }
        fillers = {"f": _MEANINGLESS[margins], "i": max(0, n - 1) * margins}
        widths = (_MARGIN, _MARGIN), (0, 0)
        framed = {
            name: np.pad(array, widths[: array.ndim], constant_values=fillers[array.dtype.kind])
            for name, array in originals.items()
        }
        arrays = {name: framed_array[_MARGIN:-_MARGIN] for name, framed_array in framed.items()}
        with np.errstate(all="ignore"):  # compiled code does not warn, either
            loss = (self.function or self.spec.kernel)(*arrays.values())
        written = tuple(
            name
            for name, array in inputs.items()
            if not np.array_equal(arrays[name], array, equal_nan=True)
        )
        margins_written = tuple(
            name
            for name, framed_array in framed.items()
            if np.any(
                np.r_[framed_array[:_MARGIN], framed_array[-_MARGIN:]]
                != fillers[framed_array.dtype.kind]
            )
        )
        return Output(float(loss), arrays["grad"], arrays["hess"], written, margins_written)

    def _constants(
        self, labels: Float64Array, gains: Float64Array, values: Values
    ) -> tuple[Any, Any]:
        constants = self.spec.prepare(
            labels.copy(), gains.copy(), np.array([0, labels.size], np.int64), values
        )
        for level, array, rows in zip(
            ("document", "query"), constants, (labels.size, 1), strict=True
        ):
            if getattr(array, "dtype", None) != np.float64 or array.ndim != 2 or len(array) != rows:
                shape = f"{getattr(array, 'dtype', type(array).__name__)}{list(np.shape(array))}"
                raise ParameterError(
                    f"prepare of {self.spec.name!r}: constants of a {level} must be float64[{rows},"
                    f" any], not {shape}"
                )
        return constants


def parameter_cases(spec: ObjectiveSpec) -> Iterator[dict[str, Any]]:
    """Yield the default parameters, and then variants in which one parameter is changed, without
    those that the objective refuses.
    """
    default = {p.name: p.default for p in spec.params}
    yield default
    pair, ptr = np.array([1.0, 0.0]), np.array([0, 2], np.int64)
    for param in spec.params:
        for value in options(param):
            values = default | {param.name: value}
            with contextlib.suppress(ParameterError):
                spec.prepare(pair.copy(), pair.copy(), ptr, values)
                if value != param.default:
                    yield values


def options(param: Param) -> list[Any]:
    """Return the values of a parameter that are tested."""
    if param.kind == "choice":
        return list(param.choices)
    if param.kind == "switch":
        return [True, False]
    if param.kind == "integer":
        values: list[Any] = [param.default, int(param.low or 0), 1, 3]
    elif param.high is not None:
        values = [param.low, 0.35, param.high]
    else:
        values = [param.default, 0.4 * float(param.default), 2.5 * float(param.default)]
    allowed = []
    for value in values:
        with contextlib.suppress(ParameterError):
            param.parse(value)
            allowed.append(value)
    return allowed


def _example(what: str, scores: Any, labels: Any) -> Example:
    return Example(what, np.array(scores, dtype=np.float64), np.array(labels, dtype=np.float64))


_FAR = 1e4
_RANDOM = np.random.default_rng(7)
_ORDINARY = [
    _example("2 documents in the right order", [0.4, -0.3], [1, 0]),
    _example("2 documents in the wrong order", [0.4, -0.3], [0, 1]),
    _example("3 documents", [0.3, -0.9, 0.1], [0, 2, 1]),
    _example("5 documents", [-1.2, 1.4, 0.5, -0.6, 0.01], [4, 0, 1, 3, 0]),
    _example("11 documents", 1.5 * _RANDOM.normal(size=11), _RANDOM.integers(0, 5, 11)),
]
"""Examples whose scores are distinct and on the scale of labels, with the shortest first."""
_SPECIAL = [
    _example("no document", [], []),
    _example("one document", [0.7], [3]),
    _example("one irrelevant document", [0.7], [0]),
    _example("tied scores", [0.0, 0.0], [1, 0]),
    _example("nearly tied scores", [1e-300, 0.0], [0, 1]),
    _example("equal labels", [0.4, -0.3], [2, 2]),
    _example("no relevant document", [0.4, -0.3], [0, 0]),
    _example("scores 20,000 apart, right order", [_FAR, -_FAR], [1, 0]),
    _example("scores 20,000 apart, wrong order", [-_FAR, _FAR], [1, 0]),
    _example("the largest labels", [0.4, -0.3], [31, 0]),
    _example(
        "tied scores at the ends of the range", [_FAR, _FAR, -_FAR, -_FAR, 0.0], [0, 2, 2, 0, 1]
    ),
    _example("every score tied", np.zeros(6), [0, 2, 1, 0, 4, 1]),
]
_EXAMPLES = tuple(sorted([*_SPECIAL, *_ORDINARY], key=len))


@dataclass(eq=False)
class Fault(Exception):
    """A violation of a rule by a kernel on one example."""

    message: str
    why: str
    mend: str
    document: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule of the kernel contract.

    Args:
        fits: message if every example passes.
        look: function that checks one example with one choice of parameters, and raises `Fault`.
        skip: function that returns the reason why the rule does not apply, or "" if it applies.
    """

    check: str
    fits: str
    look: Callable[[Probe, Example, Values], None]
    examples: Sequence[Example] = _EXAMPLES
    skip: Callable[[ObjectiveSpec], str] = lambda spec: ""

    def __call__(self, probe: Probe) -> Finding:
        """Report the first failing example."""
        if reason := self.skip(probe.spec):
            return Finding(self.check, Status.SKIP, reason)
        for example, values in itertools.product(self.examples, parameter_cases(probe.spec)):
            try:
                self.look(probe, example, values)
            except Fault as fault:
                document = "" if fault.document is None else f"document {fault.document}"
                settings = ", ".join(f"{name}={value}" for name, value in values.items())
                parameters = f"parameters {settings}" if settings else ""
                details = (str(example), document, fault.detail, parameters)
                evidence = "; ".join(filter(None, details))
                return Finding(
                    self.check, Status.FAIL, fault.message, evidence, fault.why, fault.mend
                )
        return Finding(self.check, Status.PASS, self.fits)


def _memory(probe: Probe, example: Example, values: Values) -> None:
    """Check that the kernel stays within its arrays, and that it writes scratch memory before
    reading it.
    """
    kernel = probe.spec.kernel
    why = (
        "compiled code does not check indices: a wrong index overwrites other data or ends the"
        " process"
    )
    mend = (
        "keep every index from 0 to below the length of its array: n = query.scores.size, also for"
        f" a row of scratch; a kernel with ten arrays has {probe.spec.scratch_per_document} * n"
        " numbers of scratch (scratch_per_document=)"
    )
    try:
        first = Probe(probe.spec, kernel.in_python).run(example, values)
    except IndexError as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [
            frame.lineno for frame in frames if frame.filename == kernel.body.__code__.co_filename
        ]
        line = f"line {lines[-1]}: " if lines else ""
        raise Fault(f"{line}{error}", why, mend) from None
    except Exception:  # such as 1 / 0, which does not stop compiled code
        return
    if first.margins_written:
        raise Fault(
            f"a function called by the kernel writes beyond an end of {first.margins_written[0]}",
            why,
            mend,
        )
    base = probe.run(example, values)
    if _differ(base, probe.run(example, values, margins=1)):
        raise Fault("the result depends on memory beyond an end of an array", why, mend)
    if _differ(base, probe.run(example, values, scratch=1)):
        raise Fault(
            "the result depends on previous content of scratch",
            "scratch contains numbers of another query",
            "set a row of scratch before reading it: row = scratch.row; row[:] = 0.0",
        )


def _outputs(probe: Probe, example: Example, values: Values) -> None:
    """Check that every element of the outputs is set, whatever the arrays contained before."""
    first, second = probe.run(example, values, outputs=0), probe.run(example, values, outputs=1)
    for name in ("grad", "hess"):
        before, after = getattr(first, name), getattr(second, name)
        stale = first_true((before != after) & ~(np.isnan(before) & np.isnan(after)))
        if stale is not None:
            raise Fault(
                f"{name} is not written, or is added to previous content",
                "the memory contains gradients of another query",
                "write kernel(query, params, grad, hess, scratch), where both start as zeros; or"
                " start with grad[:] = 0.0 and hess[:] = 0.0, before any return",
                stale,
            )


def _inputs(probe: Probe, example: Example, values: Values) -> None:
    """Check that the kernel writes to none of its inputs."""
    for name in probe.run(example, values).written:
        raise Fault(
            f"the kernel writes to {name}",
            "the arrays belong to the training: the next round would see other data",
            f"copy {name} into scratch and change the copy",
        )


def _finite(probe: Probe, example: Example, values: Values) -> None:
    """Check that all results are finite, and that the outputs are finite in float32 too."""
    output = probe.run(example, values)
    for name in ("loss", "grad", "hess"):
        numbers = np.atleast_1d(getattr(output, name))
        bad = first_true(~np.isfinite(numbers))
        if bad is not None:
            document = None if name == "loss" else bad
            raise Fault(
                f"{name} is {numbers[bad]} at {example.what}",
                "real data has such queries, and a single number that is not finite stops the"
                " training",
                "guard divisions by zero, take exponentials of negative numbers only"
                " (exp(-abs(u))), and return zeros where there is nothing to learn",
                document,
            )
        wide = first_true(np.abs(numbers) > np.finfo(np.float32).max)
        if name != "loss" and wide is not None:
            raise Fault(
                f"{name} does not fit into float32 at {example.what}",
                "the engines take float32, whose largest number is 3.4e38",
                "divide by the sum of the query's gains (query.query_const[0] is the ideal DCG)",
                wide,
            )


def _hessian(probe: Probe, example: Example, values: Values) -> None:
    """Check that the curvature is not negative."""
    hess = probe.run(example, values).hess
    negative = first_true(hess < 0)
    if negative is None:
        return
    raise Fault(
        f"hess is negative: {hess[negative]:.4g}",
        "a leaf is -sum(grad) / sum(hess), so a negative sum flips its sign and a sum near zero"
        " makes it huge",
        "use a bound on the curvature, such as abs(...) of each term, and declare hessian='proxy'",
        negative,
    )


def _gradient(probe: Probe, example: Example, values: Values) -> None:
    """Compare the gradient with central differences of the returned loss."""
    output = probe.run(example, values)
    slack = 1e-9 * max(1.0, abs(output.loss))
    derivative, p = _derivative(
        probe, example, values, output.grad, lambda output, p: output.loss, slack
    )
    if p is None:
        return
    detail = f"gradient {output.grad[p]:.6g}, finite difference of the loss {derivative[p]:.6g}"
    why = "trees follow the gradient: they would minimise something other than the reported loss"
    mend = (
        "look for a wrong sign (a loss is minimised), a missing factor or a missing term, and"
        " return the loss itself; or declare exact_gradient=False if the gradient differs on"
        " purpose"
    )
    message = "the gradient is not the derivative of the returned loss"
    raise Fault(message, why, mend, p, detail)


def _untestable(spec: ObjectiveSpec) -> str:
    majorises = spec.hessian is HessianKind.MAJORISER and spec.exact_gradient
    if spec.hessian is HessianKind.EXACT or majorises:
        return ""
    return f"hessian is a {spec.hessian.value}, which has no testable property"


def _curvature(probe: Probe, example: Example, values: Values) -> None:
    """Check that the hessian is what its kind promises, the second derivative or a parabola above
    the loss.
    """
    loss, grad, hess, *_ = probe.run(example, values)
    if probe.spec.hessian is HessianKind.EXACT:
        # Compare an exact hessian with finite differences of the gradient.
        slack = 1e-9 * (np.abs(grad).max() + 1.0)
        derivative, document = _derivative(
            probe, example, values, hess, lambda output, p: float(output.grad[p]), slack
        )
        if document is None:
            return
        why = "a wrong factor in the second derivative scales every step by its inverse"
        mend = "correct the formula, or declare hessian='proxy' if the difference is intended"
        numbers = hess[document], derivative[document]
        detail = "hess {:.6g}, finite difference of the gradient {:.6g}".format(*numbers)
        message = "hess is declared 'exact', but is not the second derivative"
        raise Fault(message, why, mend, document, detail)
    # Try moves of one score, small and large, for a loss above the majoriser's parabola.
    for p, step in itertools.product(range(len(example)), (-6.0, -0.5, 0.05, 1.0, 8.0)):
        there = probe.run(example.moved(p, step), values).loss
        bound = loss + grad[p] * step + 0.5 * hess[p] * step * step
        if there > bound + 1e-7 * (1.0 + abs(loss)):
            why = "a majoriser promises that a full step never makes the loss worse"
            mend = "enlarge hess to a bound on the second derivative, or declare hessian='proxy'"
            detail = f"after a move by {step:g} the loss is {there:.6g}, the parabola {bound:.6g}"
            raise Fault("the parabola of a 'majoriser' lies below the loss", why, mend, p, detail)


def _step(probe: Probe) -> Finding:
    """Measure the Newton steps, -grad / hess with the driver's floor, and how often they help."""
    longest, example, steps, improved = 0.0, "", 0, 0
    for query, values in itertools.product(_ORDINARY, parameter_cases(probe.spec)):
        loss, grad, hess, *_ = probe.run(query, values)
        floor = HESSIAN_FLOOR * hess.mean() or 1.0  # as the driver, without any curvature
        step = -grad / np.maximum(hess, floor)
        length = np.abs(step).max()
        if length > longest:
            p = np.argmax(np.abs(step))
            longest = length
            example = f"{query}; document {p}: gradient {grad[p]:.4g}, hess {hess[p]:.4g}"
        if length:
            steps += 1
            improved += probe.run(query.at(query.scores + step), values).loss < loss
    message, status = f"the longest Newton step changes a score by {longest:.3g}", Status.PASS
    if probe.spec.exact_gradient and steps:
        message += f"; such steps lower the loss of {improved / steps:.0%} of {steps} queries"
        if improved < _SHARE_IMPROVED * steps:
            status = Status.NOTE
    if longest > _LONG_STEP:
        status = Status.FAIL if longest > 10 * _LONG_STEP else Status.NOTE
    if status is Status.PASS:
        return Finding("step", status, message)
    why = "a leaf is -sum(grad) / sum(hess), so trees overshoot"
    mend = "enlarge hess, such as to a bound on the second derivative by each score"
    return Finding("step", status, message, example, why, mend)


def _shift(probe: Probe, example: Example, values: Values) -> None:
    """Check that gradients sum to zero over a query, and that adding a constant to all scores
    changes no gradient.
    """
    why = "only score differences affect a ranking, so trees that shift a whole query are wasted"
    mend = (
        "use score differences only, and add to document j what you subtract from document i; or"
        " declare shift_invariant=False if the level matters, as in a regression"
    )
    output = probe.run(example, values)
    shifted = probe.run(example.at(example.scores + 2.0), values)
    total, size = output.grad.sum(), np.abs(output.grad).sum()
    if abs(total) > _SYMMETRY_TOLERANCE * size:
        detail = f"the gradient sums to {total:.4g}, its sizes to {size:.4g}"
        raise Fault("the gradient does not sum to zero over a query", why, mend, None, detail)
    for name in ("grad", "hess"):
        before, after = getattr(output, name), getattr(shifted, name)
        p = _first_far(after, before)
        if p is not None:
            detail = f"{name} {before[p]:.6g}, with 2 added to every score {after[p]:.6g}"
            raise Fault(f"adding 2 to every score changes {name}", why, mend, p, detail)


def _order(probe: Probe, example: Example, values: Values) -> None:
    """Check that the order of the documents does not affect their gradients."""
    n, in_order = len(example), probe.run(example, values)
    for rows in (np.arange(n)[::-1], np.random.default_rng(3).permutation(n)):
        other = replace(example, scores=example.scores[rows], labels=example.labels[rows])
        reordered = probe.run(other, values)
        for name in ("grad", "hess"):
            p = _first_far(getattr(reordered, name), getattr(in_order, name)[rows])
            if p is not None:
                raise Fault(
                    "the gradient depends on the order of the rows",
                    "the order of rows carries no information: relevant rows may come first in a"
                    " sorted file",
                    "compare scores, not indices; query.order[0] is the document with the highest"
                    " score",
                    int(rows[p]),
                )


def _derivative(
    probe: Probe,
    example: Example,
    values: Values,
    claimed: Float64Array,
    of: Callable[[Output, int], float],
    slack: float,
) -> tuple[Float64Array, int | None]:
    """Compute the fourth-order central differences of a number with respect to the score of each
    document, and find the document where `claimed` differs most, or None if none does.

    Of three steps, the one that agrees best with `claimed` is used. Sharp functions need a short
    step, and flat functions need a long one because of rounding errors. A wrong gradient disagrees
    with all three.
    """
    best = np.full(len(example), np.inf)
    for step in (1e-3, 1e-4, 1e-5):
        difference = np.zeros(len(example))
        points = ((-2, 1), (-1, -8), (1, 8), (2, -1))
        for p, (offset, weight) in itertools.product(range(len(example)), points):
            output = probe.run(example.moved(p, offset * step), values)
            difference[p] += weight * of(output, p) / (12.0 * step)
        best = np.where(np.abs(difference - claimed) < np.abs(best - claimed), difference, best)
    error = np.abs(claimed - best)
    agrees = error.max() <= _DERIVATIVE_TOLERANCE * np.abs(best).max() + slack
    return best, None if agrees else int(np.argmax(error))


def _first_far(actual: Float64Array, expected: Float64Array) -> int | None:
    slack = _SYMMETRY_TOLERANCE * np.abs(expected).max(initial=0.0) + 1e-14
    return first_true(~(np.abs(actual - expected) <= slack))


def _differ(output: Output, other: Output) -> bool:
    return not all(
        np.array_equal(getattr(output, name), getattr(other, name), equal_nan=True)
        for name in ("loss", "grad", "hess")
    )


SAFE = (
    Rule(
        "memory", "the kernel stays within its arrays, and sets scratch before reading it", _memory
    ),
    Rule("outputs", "every element of grad and hess is written", _outputs),
)
"""The rules that a kernel must keep before its compiled code may be called."""

RULES: tuple[Callable[[Probe], Finding], ...] = (
    *SAFE,
    Rule("inputs", "the kernel writes to none of its inputs", _inputs),
    Rule(
        "finite",
        "finite at 0 and 1 documents, ties, equal labels, scores of +-1e4, labels up to 31",
        _finite,
    ),
    Rule("hessian", "the hessian is never negative", _hessian),
    Rule(
        "gradient",
        "the gradient equals the central differences of the returned loss",
        _gradient,
        _ORDINARY,
        lambda spec: "exact_gradient=False: another loss" * (not spec.exact_gradient),
    ),
    Rule(
        "curvature", "the hessian keeps what its kind promises", _curvature, _ORDINARY, _untestable
    ),
    _step,
    Rule(
        "shift",
        "the gradient sums to zero, and a constant added to all scores changes nothing",
        _shift,
        _ORDINARY,
        lambda spec: "shift_invariant=False: the level matters" * (not spec.shift_invariant),
    ),
    Rule(
        "order",
        "rows in another order get the same gradients",
        _order,
        _ORDINARY,
        lambda spec: "random numbers by position" * spec.random,
    ),
)
"""All rules, in the order in which they are checked."""


def unsafe(spec: ObjectiveSpec) -> Finding | None:
    """Return the first bad index, unset memory or unset output found in the kernel's Python body,
    or None.
    """
    findings = (rule(Probe(spec, spec.kernel.in_python)) for rule in SAFE)
    try:
        return next((finding for finding in findings if finding.status is Status.FAIL), None)
    except Exception:  # left to the other checks and the compiler
        return None
