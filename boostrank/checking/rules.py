"""Rules of the kernel contract as functions of a probe. Examples are tried from the shortest.

`unsafe` runs before a kernel is compiled: compiled code does not check indices, and a bad index corrupts memory or ends
the process. It calls the Python body of the kernel, where NumPy checks them.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from boostrank.checking.probe import (
    Example,
    Finding,
    Output,
    Probe,
    Status,
    Values,
    nothing_to_learn,
    ordinary_examples,
    parameter_cases,
    passed,
    skipped,
    special_examples,
)
from boostrank.core.types import Float64Array, HessianKind
from boostrank.kernels.objective.contract import ObjectiveSpec

# Tolerances relative to the largest gradient. Real faults (a sign, a factor, a missing term) exceed them by far.
_DERIVATIVE_TOLERANCE = 1e-4
_SYMMETRY_TOLERANCE = 1e-5
_INDICES = "compiled code does not check indices: "


@dataclass(frozen=True)
class Fault:
    """Violations of a rule by a kernel on one example."""

    message: str
    why: str
    mend: str
    document: int | None = None
    detail: str = ""
    noted: bool = False


Rule = Callable[[Probe], Finding]
RULES: list[Rule] = []
"""Rules in the order in which they are checked."""


def _rule(
    check: str,
    fits: str,
    examples: Callable[[], list[Example]],
    skip: Callable[[ObjectiveSpec], str] = lambda spec: "",
) -> Callable[[Callable[[Probe, Example, Values], Fault | None]], Rule]:
    """Declare a rule: its first failing example is reported, else the first that is noted.

    Args:
        fits: message if every example passes.
        skip: why the rule does not apply; "" if it does.
    """

    def declared(look: Callable[[Probe, Example, Values], Fault | None]) -> Rule:
        def run(probe: Probe) -> Finding:
            if reason := skip(probe.spec):
                return skipped(check, reason)
            noted = None
            for example, values in itertools.product(sorted(examples(), key=len), parameter_cases(probe.spec)):
                fault = look(probe, example, values)
                if fault is None or (fault.noted and noted):
                    continue
                where = [] if fault.document is None else [f"document {fault.document}"]
                settings = ", ".join(f"{name}={value}" for name, value in values.items())
                place = ": ".join(filter(None, [*where, fault.detail]))
                words = "; ".join(filter(None, (str(example), place, settings and f"parameters {settings}")))
                status = Status.NOTE if fault.noted else Status.FAIL
                found = Finding(check, status, fault.message, words, fault.why, fault.mend)
                if not fault.noted:
                    return found
                noted = found
            return noted or passed(check, fits)

        RULES.append(run)
        return run

    return declared


def _every() -> list[Example]:
    return [*special_examples(), *ordinary_examples()]


@_rule("memory", "stays within its arrays, and sets scratch before reading it", _every)
def memory_is_its_own(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that accesses stay within the arrays, and that scratch memory is written before it is read."""
    base = probe.trace(example, values)
    if base.margins_written:
        return Fault(
            f"the kernel writes beyond an end of {base.margins_written[0]}",
            f"{_INDICES}it overwrites other data, or the process dies",
            "keep every index from 0 to below n = query.scores.size, also in a row of scratch; a kernel with "
            f"ten arrays has {probe.spec.scratch_per_document} * n numbers of scratch (scratch_per_document=)",
        )
    if not _same(base.output, probe.trace(example, values, margins=1).output):
        return Fault(
            "the result depends on memory beyond an end of an array",
            f"{_INDICES}that memory changes from run to run",
            "keep every index from 0 to below n = query.scores.size: check loops to n + 1, i - 1, i + 1, and n = 0",
        )
    if not _same(base.output, probe.trace(example, values, scratch=1).output):
        mend = "set a row of scratch before reading it: row = scratch.row; row[:] = 0.0"
        return Fault(
            "the result depends on previous content of scratch", "scratch holds numbers of another query", mend
        )
    return None


@_rule("outputs", "every element of grad and hess is written", _every)
def outputs_are_written(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that every element of the outputs is set, regardless of previous content."""
    one, other = (probe.trace(example, values, outputs=kind).output for kind in (0, 1))
    for name in ("grad", "hess"):
        stale = _differing(getattr(one, name), getattr(other, name))
        if stale.size:
            return Fault(
                f"{name} is not written, or is added to previous content",
                "the memory holds gradients of another query",
                "write kernel(query, params, grad, hess, scratch), where both start as zeros; or start with "
                f"grad[:] = 0.0 and hess[:] = 0.0, before any return, and then add to {name}",
                int(stale[0]),
            )
    return None


@_rule("inputs", "no input is written", _every)
def inputs_are_read_only(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that no input is written."""
    for name in probe.trace(example, values).inputs_written:
        why = "the arrays belong to the training: the next round and the metrics would see other data"
        return Fault(f"the kernel writes to {name}", why, f"copy {name} into scratch and change the copy")
    return None


@_rule("finite", "finite at 0 and 1 documents, ties, equal labels, scores of +-1e4, labels up to 31", _every)
def results_are_finite(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that results are finite, also in float32, for short, tied, equal and distant documents."""
    output = probe.run(example, values)
    for name, numbers in zip(("loss", "grad", "hess"), _arrays(output), strict=True):
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            return Fault(
                f"{name} is {numbers[bad[0]]} at {example.what}",
                "real data has such queries, and a single non-finite number stops the training",
                "guard divisions by zero, take exponentials of negative numbers only (exp(-abs(u))), and return zeros "
                "where there is nothing to learn",
                None if name == "loss" else int(bad[0]),
            )
        with np.errstate(over="ignore"):
            wide = np.flatnonzero(~np.isfinite(numbers.astype(np.float32)))
        if name != "loss" and wide.size:
            return Fault(
                f"{name} does not fit into float32 at {example.what}",
                "the engines take float32, whose largest number is 3.4e38",
                "divide by the sum of the query's gains (query.query_const[0] is the ideal DCG)",
                int(wide[0]),
            )
    return None


@_rule("hessian", "never negative", _every)
def hessian_is_not_negative(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that curvature is not negative, and positive where there is a gradient."""
    _, grad, hess = probe.run(example, values)
    for p in np.flatnonzero(hess < 0).tolist():
        why = "a leaf is -sum(grad) / sum(hess): a negative sum flips its sign, one near zero makes it huge"
        mend = "use a bound of the curvature, such as abs(...) of each term, and declare hessian='proxy'"
        return Fault(f"hess is negative: {hess[p]:.4g}", why, mend, p)
    idle = np.flatnonzero((hess == 0) & (np.abs(grad) > 1e-6 * np.abs(grad).max(initial=0.0)))
    if idle.size and example.what in {one.what for one in ordinary_examples()}:
        return Fault(
            "not negative, but zero for documents with a gradient",
            "such documents take the longest steps that the driver's floor allows",
            "add each pair's curvature to both of its documents",
            int(idle[0]),
            noted=True,
        )
    return None


@_rule(
    "gradient",
    "equals the central differences of the returned loss",
    ordinary_examples,
    lambda spec: (
        "" if spec.exact_gradient else "exact_gradient=False: the gradient is not the derivative of the reported loss"
    ),
)
def gradient_is_the_derivative(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Compare the gradient with central differences of the returned loss."""
    if not probe.spec.is_exact(values):
        return None
    output = probe.run(example, values)
    wanted = _derivative(probe, example, values, attrgetter("loss"), output.grad)
    error = np.abs(output.grad - wanted)
    if error.max() <= _DERIVATIVE_TOLERANCE * float(np.abs(wanted).max()) + 1e-9 * max(1.0, abs(output.loss)):
        return None
    # A query of two documents fits any factor, so diagnose the error over all examples.
    others = [(e, probe.run(e, values).grad) for e in ordinary_examples()]
    whole = [_derivative(probe, e, values, attrgetter("loss"), grad) for e, grad in others]
    message, mend = _disagreement(np.concatenate([grad for _, grad in others]), np.concatenate(whole))
    p = int(np.argmax(error))
    detail = f"gradient {output.grad[p]:.6g}, finite difference of the loss {wanted[p]:.6g}"
    why = "trees follow the gradient: they would minimise something other than the reported loss"
    return Fault(message, why, mend, p, detail)


def _untestable(spec: ObjectiveSpec) -> str:
    majorises = spec.hessian is HessianKind.MAJORISER and spec.exact_gradient
    if spec.hessian is HessianKind.EXACT or majorises:
        return ""
    return f"hessian is a {spec.hessian.value}, which has no testable property"


@_rule("curvature", "the hessian keeps what its kind promises", ordinary_examples, _untestable)
def curvature_keeps_its_claim(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check the defining property of the hessian's kind: the second derivative, or a parabola above the loss."""
    loss, grad, hess = probe.run(example, values)
    if probe.spec.hessian is HessianKind.EXACT:
        of_each = (
            _derivative(probe, example, values, partial(_gradient, p), hess, only=p)[p] for p in range(len(example))
        )
        wanted = np.array([*of_each])
        error = np.abs(hess - wanted)
        slack = _DERIVATIVE_TOLERANCE * float(np.abs(wanted).max()) + 1e-9 * float(np.abs(grad).max() + 1.0)
        p = int(np.argmax(error))
        return (
            None
            if error[p] <= slack
            else Fault(
                "hess is declared 'exact', but is not the second derivative",
                "a wrong factor in the second derivative scales every step by its inverse",
                "correct the formula, or declare hessian='proxy' if the difference is intended",
                p,
                f"hess {hess[p]:.6g}, finite difference of the gradient {wanted[p]:.6g}",
            )
        )
    for p, step in itertools.product(range(len(example)), (-6.0, -0.5, 0.05, 1.0, 8.0)):
        moved = example.scores.copy()
        moved[p] += step
        there = probe.run(example.at(moved), values).loss
        bound = loss + grad[p] * step + 0.5 * hess[p] * step * step
        if there > bound + 1e-7 * (1.0 + abs(loss)):
            return Fault(
                "the parabola of a 'majoriser' lies below the loss",
                "a majoriser promises that a full step never makes the loss worse",
                "enlarge hess to a bound of the second derivative, or declare hessian='proxy'",
                p,
                f"moved by {step:g} the loss is {there:.6g}, the parabola {bound:.6g}",
            )
    return None


@_rule(
    "shift",
    "the gradient sums to zero, and a constant added to all scores changes nothing",
    ordinary_examples,
    lambda spec: "" if spec.shift_invariant else "shift_invariant=False: the objective depends on the level of scores",
)
def shifts_change_nothing(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that gradients sum to zero over a query, and that adding a constant to all scores changes no gradient."""
    why = "only score differences affect the ranking; a gradient on the level of a query wastes trees"
    mend = "use score differences only, and add to document j what you subtract from document i; or declare "
    mend += "shift_invariant=False if the level matters, as in a regression"
    here = probe.run(example, values)
    total, size = float(here.grad.sum()), float(np.abs(here.grad).sum())
    if abs(total) > _SYMMETRY_TOLERANCE * size:
        detail = f"the gradient sums to {total:.4g}, its sizes to {size:.4g}"
        return Fault("the gradient does not sum to zero over a query", why, mend, None, detail)
    there = probe.run(example.at(example.scores + 2.0), values)
    for name in ("grad", "hess"):
        p = _first_far(getattr(there, name), getattr(here, name))
        if p is not None:
            before, after = getattr(here, name)[p], getattr(there, name)[p]
            detail = f"{name} {before:.6g}, with 2 added to every score {after:.6g}"
            return Fault(f"adding 2 to every score changes {name}", why, mend, p, detail)
    return None


@_rule(
    "order",
    "rows in another order get the same gradients, also among ties",
    lambda: [*ordinary_examples(), *(e for e in special_examples() if "tied" in e.what)],
    lambda spec: "the objective draws random numbers by position" if spec.random else "",
)
def file_order_changes_nothing(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that the order of documents does not affect gradients; only note it if that fails for tied scores alone."""
    p = _moved(probe, example, values)
    if p is None:
        return None
    if "tied" in example.what:
        return Fault(
            "independent of the order of the rows, except among tied scores",
            "in the first round all scores are tied, so the file order has an effect (as in LambdaRank)",
            "treat documents with equal scores alike",
            p,
            noted=True,
        )
    why = "the order of rows carries no information: relevant rows may come first because the file was sorted"
    mend = "compare scores, not indices; query.order[0] is the document with the highest score"
    return Fault("the gradient depends on the order of the rows", why, mend, p)


@_rule(
    "idle",
    "no gradient where all labels are equal",
    lambda: [
        *special_examples(),
        *(
            Example(f"{len(e)} documents with equal labels", e.scores, 0.0 * e.labels + 2.0)
            for e in ordinary_examples()
        ),
    ],
    lambda spec: "" if spec.shift_invariant else "shift_invariant=False: a query of equal labels may affect the level",
)
def nothing_to_learn_is_left_alone(probe: Probe, example: Example, values: Values) -> Fault | None:
    """Check that queries of equal labels have no gradient; only note it, since a loss may prefer equal scores."""
    pushed = np.flatnonzero(probe.run(example, values).grad) if nothing_to_learn(example) else np.zeros(0)
    return (
        None
        if not pushed.size
        else Fault(
            f"a gradient where all orders are equally good ({example.what})",
            "no ranking metric can gain from it, and it takes capacity from the trees",
            "return 0.0 with zeros in both outputs when all gains are equal, unless the gradient is intended",
            int(pushed[0]),
            noted=True,
        )
    )


def _moved(probe: Probe, example: Example, values: Values) -> int | None:
    here = probe.run(example, values)
    n = len(example)
    for rows in (np.arange(n)[::-1], np.random.default_rng(3).permutation(n)):
        there = probe.run(Example(example.what, example.scores[rows], example.labels[rows]), values)
        for name in ("grad", "hess"):
            p = _first_far(getattr(there, name), getattr(here, name)[rows])
            if p is not None:
                return int(rows[p])
    return None


def _gradient(document: int, output: Output) -> float:
    return float(output.grad[document])


def _derivative(
    probe: Probe,
    example: Example,
    values: Values,
    quantity: Callable[[Output], float],
    claimed: Float64Array,
    only: int | None = None,
) -> Float64Array:
    """Compute fourth-order central differences by each score, with the step (of three) that agrees best with `claimed`.

    Sharp functions need a short step, flat ones a long step against rounding; a wrong gradient disagrees with all.
    """
    best, smallest = np.zeros(len(example)), np.inf
    for step in (1e-3, 1e-4, 1e-5):
        found = np.zeros(len(example))
        for p in range(len(example)) if only is None else [only]:
            for offset, weight in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
                moved = example.scores.copy()
                moved[p] += offset * step
                found[p] += weight * quantity(probe.run(example.at(moved), values)) / (12.0 * step)
        rows = slice(None) if only is None else slice(only, only + 1)
        error = float(np.abs(found - claimed)[rows].max(initial=0.0))
        if error < smallest:
            best, smallest = found, error
    return best


def _disagreement(grad: Float64Array, wanted: Float64Array) -> tuple[str, str]:
    """Diagnose a wrong gradient; return the message and the remedy."""
    if np.abs(wanted).max() <= 1e-6 * np.abs(grad).max():
        return "the returned loss does not change with the scores, but there is a gradient", (
            "return the loss; or declare exact_gradient=False if the gradient is not the derivative of a loss"
        )
    factor = float(grad @ wanted / (wanted @ wanted))
    if np.abs(grad - factor * wanted).max() <= 1e-3 * np.abs(wanted).max() * max(1.0, abs(factor)) and factor != 0.0:
        if abs(factor + 1.0) < 1e-3:
            return "the gradient has the wrong sign", (
                "a loss is minimised: negate a quantity to maximise, and differentiate the returned loss"
            )
        return f"the gradient is {factor:.4g} times the derivative of the loss", (
            "look for a missing factor: an inner derivative (1 / sigma), a 2, the other end of each pair"
        )
    return "the gradient is not the derivative of the returned loss", (
        "differentiate every term of the returned loss by one score; or declare exact_gradient=False if the gradient "
        "differs on purpose, as LambdaRank's does"
    )


def _first_far(actual: Float64Array, wanted: Float64Array) -> int | None:
    error = np.abs(actual - wanted)
    far = np.flatnonzero(~(error <= _SYMMETRY_TOLERANCE * np.abs(wanted).max(initial=0.0) + 1e-14))
    return int(far[0]) if far.size else None


def _arrays(output: Output) -> tuple[Float64Array, Float64Array, Float64Array]:
    return np.array([output.loss]), output.grad, output.hess


def _differing(one: Float64Array, other: Float64Array) -> Any:
    return np.flatnonzero(~((one == other) | (np.isnan(one) & np.isnan(other))))


def _same(one: Output, other: Output) -> bool:
    return not any(_differing(a, b).size for a, b in zip(_arrays(one), _arrays(other), strict=True))


def unsafe(spec: ObjectiveSpec) -> Finding | None:
    """Return the first memory violation on queries of 0 to 11 documents, or None: a bad index, unset memory or outputs.

    Other faults are left to the other checks and the compiler.
    """
    probe = Probe(spec, spec.kernel.in_python)
    for values, example in itertools.product(parameter_cases(spec), _every()):
        try:
            probe.run(example, values)
        except IndexError as error:
            return _beyond(spec, error, example)
        except Exception:  # such as 1 / 0, which does not stop compiled code
            continue
    try:
        found = [rule(probe) for rule in (memory_is_its_own, outputs_are_written)]
    except Exception:
        return None
    return next((one for one in found if one.status is Status.FAIL), None)


def _beyond(spec: ObjectiveSpec, error: IndexError, example: Example) -> Finding:
    """Return the finding for an index error, with its line."""
    file = spec.kernel.body.__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return Finding(
        "memory",
        Status.FAIL,
        f"{f'line {lines[-1]}: ' if lines else ''}{error}",
        str(example),
        why="compiled code does not check indices: it overwrites other data, or the process dies",
        mend="keep every index from 0 to below the length of its array: n = query.scores.size, also for a row of "
        "scratch",
    )
