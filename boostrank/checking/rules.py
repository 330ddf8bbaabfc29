"""Rules of the kernel contract as functions of a probe. Examples are tried from the shortest.

`unsafe` runs before a kernel is compiled: compiled code does not check indices, and a bad index corrupts memory or ends
the process. It calls the Python body of the kernel, where NumPy checks them.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
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


def inputs_are_read_only(probe: Probe) -> Finding:
    """Check that no input is written."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        changed = probe.trace(example, values).inputs_written
        if changed:
            return _failed(
                "inputs",
                f"the kernel writes to {changed[0]}",
                example,
                values,
                why="the arrays belong to the training: the next round and the metrics would see other data",
                mend=f"copy {changed[0]} into scratch and change the copy",
            )
    return passed("inputs", "no input is written")


def outputs_are_written(probe: Probe) -> Finding:
    """Check that every element of the outputs is set, regardless of previous content."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        one, other = (probe.trace(example, values, outputs=kind).output for kind in (0, 1))
        for name in ("grad", "hess"):
            stale = _differing(getattr(one, name), getattr(other, name))
            if stale.size:
                return _failed(
                    "outputs",
                    f"{name} is not written, or is added to previous content",
                    example,
                    values,
                    document=int(stale[0]),
                    why="the memory holds gradients of another query",
                    mend="write kernel(query, params, grad, hess, scratch), where both start as zeros; or start with "
                    f"grad[:] = 0.0 and hess[:] = 0.0, before any return, and then add to {name}",
                )
    return passed("outputs", "every element of grad and hess is written")


def memory_is_its_own(probe: Probe) -> Finding:
    """Check that accesses stay within the arrays, and that scratch memory is written before it is read."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        base = probe.trace(example, values)
        if base.margins_written:
            return _failed(
                "memory",
                f"the kernel writes beyond an end of {base.margins_written[0]}",
                example,
                values,
                why="compiled code does not check indices: it overwrites other data, or the process dies",
                mend="keep every index from 0 to below n = query.scores.size, also in a row of scratch; a kernel with "
                f"ten arrays has {probe.spec.scratch_per_document} * n numbers of scratch (scratch_per_document=)",
            )
        if not _same(base.output, probe.trace(example, values, margins=1).output):
            return _failed(
                "memory",
                "the result depends on memory beyond an end of an array",
                example,
                values,
                why="compiled code does not check indices: that memory changes from run to run",
                mend="keep every index from 0 to below n = query.scores.size: check loops to n + 1, i - 1, i + 1, and "
                "n = 0",
            )
        if not _same(base.output, probe.trace(example, values, scratch=1).output):
            return _failed(
                "memory",
                "the result depends on previous content of scratch",
                example,
                values,
                why="scratch holds numbers of another query",
                mend="set a row of scratch before reading it: row = scratch.row; row[:] = 0.0",
            )
    return passed("memory", "stays within its arrays, and sets scratch before reading it")


def results_are_finite(probe: Probe) -> Finding:
    """Check that results are finite, also in float32, for short, tied, equal and distant documents."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        output = probe.run(example, values)
        for name, numbers in zip(("loss", "grad", "hess"), _arrays(output), strict=True):
            bad = np.flatnonzero(~np.isfinite(numbers))
            if bad.size:
                return _failed(
                    "finite",
                    f"{name} is {numbers[bad[0]]} at {example.what}",
                    example,
                    values,
                    document=None if name == "loss" else int(bad[0]),
                    why="real data has such queries, and a single non-finite number stops the training",
                    mend="guard divisions by zero, take exponentials of negative numbers only (exp(-abs(u))), and "
                    "return zeros where there is nothing to learn",
                )
            with np.errstate(over="ignore"):
                wide = np.flatnonzero(~np.isfinite(numbers.astype(np.float32)))
            if name != "loss" and wide.size:
                return _failed(
                    "finite",
                    f"{name} does not fit into float32 at {example.what}",
                    example,
                    values,
                    document=int(wide[0]),
                    why="the engines take float32, whose largest number is 3.4e38",
                    mend="divide by the sum of the query's gains (query.query_const[0] is the ideal DCG)",
                )
    return passed("finite", "finite at 0 and 1 documents, ties, equal labels, scores of +-1e4, labels up to 31")


def hessian_is_not_negative(probe: Probe) -> Finding:
    """Check that curvature is not negative, and positive where there is a gradient."""
    flat: Finding | None = None
    ordinary = ordinary_examples()
    for example, values in _cases(probe, [*special_examples(), *ordinary]):
        _, grad, hess = probe.run(example, values)
        negative = np.flatnonzero(hess < 0)
        if negative.size:
            p = int(negative[0])
            return _failed(
                "hessian",
                f"hess is negative: {hess[p]:.4g}",
                example,
                values,
                document=p,
                why="a leaf is -sum(grad) / sum(hess): a negative sum flips its sign, one near zero makes it huge",
                mend="use a bound of the curvature, such as abs(...) of each term, and declare hessian='proxy'",
            )
        idle = np.flatnonzero((hess == 0) & (np.abs(grad) > 1e-6 * np.abs(grad).max(initial=0.0)))
        if idle.size and flat is None and any(example is e for e in ordinary):
            flat = _noted(
                "hessian",
                "not negative, but zero for documents with a gradient",
                example,
                values,
                document=int(idle[0]),
                why="such documents take the longest steps that the driver's floor allows",
                mend="add each pair's curvature to both of its documents",
            )
    return flat or passed("hessian", "never negative")


def gradient_is_the_derivative(probe: Probe) -> Finding:
    """Compare the gradient with central differences of the returned loss."""
    if not probe.spec.exact_gradient:
        return skipped("gradient", "exact_gradient=False: the gradient is not the derivative of the reported loss")
    for example, values in _cases(probe, ordinary_examples()):
        if not probe.spec.is_exact(values):
            continue
        output = probe.run(example, values)
        wanted = _derivative(probe, example, values, attrgetter("loss"), output.grad)
        error = np.abs(output.grad - wanted)
        scale = float(np.abs(wanted).max())
        if error.max() > _DERIVATIVE_TOLERANCE * scale + 1e-9 * max(1.0, abs(output.loss)):
            # A query of two documents fits any factor, so diagnose the error over all examples.
            others = [(e, probe.run(e, values).grad) for e in ordinary_examples()]
            whole = [_derivative(probe, e, values, attrgetter("loss"), grad) for e, grad in others]
            message, mend = _disagreement(np.concatenate([grad for _, grad in others]), np.concatenate(whole))
            p = int(np.argmax(error))
            return _failed(
                "gradient",
                message,
                example,
                values,
                document=p,
                detail=f"gradient {output.grad[p]:.6g}, finite difference of the loss {wanted[p]:.6g}",
                why="trees follow the gradient: they would minimise something other than the reported loss",
                mend=mend,
            )
    return passed("gradient", "equals the central differences of the returned loss")


def curvature_keeps_its_claim(probe: Probe) -> Finding:
    """Check the defining property of the hessian's kind."""
    kind = probe.spec.hessian
    if kind is HessianKind.EXACT:
        return _exact_curvature(probe)
    if kind is HessianKind.MAJORISER and probe.spec.exact_gradient:
        return _majorising_curvature(probe)
    return skipped("curvature", f"hessian is a {kind.value}, which has no testable property")


def _exact_curvature(probe: Probe) -> Finding:
    for example, values in _cases(probe, ordinary_examples()):
        _, grad, hess = probe.run(example, values)
        wanted = np.array(
            [_derivative(probe, example, values, partial(_gradient, p), hess, only=p)[p] for p in range(len(example))]
        )
        error = np.abs(hess - wanted)
        if error.max() > _DERIVATIVE_TOLERANCE * float(np.abs(wanted).max()) + 1e-9 * float(np.abs(grad).max() + 1.0):
            p = int(np.argmax(error))
            return _failed(
                "curvature",
                "hess is declared 'exact', but is not the second derivative",
                example,
                values,
                document=p,
                detail=f"hess {hess[p]:.6g}, finite difference of the gradient {wanted[p]:.6g}",
                why="a wrong factor in the second derivative scales every step by its inverse",
                mend="correct the formula, or declare hessian='proxy' if the difference is intended",
            )
    return passed("curvature", "the exact diagonal, by central differences of the gradient")


def _majorising_curvature(probe: Probe) -> Finding:
    for example, values in _cases(probe, ordinary_examples()):
        loss, grad, hess = probe.run(example, values)
        for p, step in itertools.product(range(len(example)), (-6.0, -0.5, 0.05, 1.0, 8.0)):
            moved = example.scores.copy()
            moved[p] += step
            there = probe.run(example.at(moved), values).loss
            bound = loss + grad[p] * step + 0.5 * hess[p] * step * step
            if there > bound + 1e-7 * (1.0 + abs(loss)):
                return _failed(
                    "curvature",
                    "the parabola of a 'majoriser' lies below the loss",
                    example,
                    values,
                    document=p,
                    detail=f"moved by {step:g} the loss is {there:.6g}, the parabola {bound:.6g}",
                    why="a majoriser promises that a full step never makes the loss worse",
                    mend="enlarge hess to a bound of the second derivative, or declare hessian='proxy'",
                )
    return passed("curvature", "a majoriser: the parabola lies above the loss, one score moved")


def shifts_change_nothing(probe: Probe) -> Finding:
    """Check that gradients sum to zero over a query, and that adding a constant to all scores changes no gradient."""
    if not probe.spec.shift_invariant:
        return skipped("shift", "shift_invariant=False: the objective depends on the level of scores")
    why = "only score differences affect the ranking; a gradient on the level of a query wastes trees"
    mend = "use score differences only, and add to document j what you subtract from document i; or declare "
    mend += "shift_invariant=False if the level matters, as in a regression"
    for example, values in _cases(probe, ordinary_examples()):
        here = probe.run(example, values)
        total, size = float(here.grad.sum()), float(np.abs(here.grad).sum())
        if abs(total) > _SYMMETRY_TOLERANCE * size:
            detail = f"the gradient sums to {total:.4g}, its sizes to {size:.4g}"
            message = "the gradient does not sum to zero over a query"
            return _failed("shift", message, example, values, detail=detail, why=why, mend=mend)
        there = probe.run(example.at(example.scores + 2.0), values)
        for name in ("grad", "hess"):
            p = _first_far(getattr(there, name), getattr(here, name))
            if p is not None:
                before, after = getattr(here, name)[p], getattr(there, name)[p]
                detail = f"{name} {before:.6g}, with 2 added to every score {after:.6g}"
                message = f"adding 2 to every score changes {name}"
                return _failed("shift", message, example, values, document=p, detail=detail, why=why, mend=mend)
    return passed("shift", "the gradient sums to zero, and a constant added to all scores changes nothing")


def file_order_changes_nothing(probe: Probe) -> Finding:
    """Check that the order of documents does not affect gradients; only note it if that fails for tied scores alone."""
    if probe.spec.random:
        return skipped("order", "the objective draws random numbers by position")
    why = "the order of rows carries no information: relevant rows may come first because the file was sorted"
    mend = "compare scores, not indices; query.order[0] is the document with the highest score"
    for example, values in _cases(probe, ordinary_examples()):
        p = _moved(probe, example, values)
        if p is not None:
            message = "the gradient depends on the order of the rows"
            return _failed("order", message, example, values, document=p, why=why, mend=mend)
    for example, values in _cases(probe, [e for e in special_examples() if "tied" in e.what]):
        p = _moved(probe, example, values)
        if p is not None:
            return _noted(
                "order",
                "independent of the order of the rows, except among tied scores",
                example,
                values,
                document=p,
                why="in the first round all scores are tied, so the file order has an effect (as in LambdaRank)",
                mend="treat documents with equal scores alike",
            )
    return passed("order", "rows in another order get the same gradients, also among ties")


def nothing_to_learn_is_left_alone(probe: Probe) -> Finding:
    """Check that queries of equal labels have no gradient; only note it, since a loss may prefer equal scores."""
    if not probe.spec.shift_invariant:
        return skipped("idle", "shift_invariant=False: a query of equal labels may affect the level")
    flat = [
        Example(f"{len(e)} documents with equal labels", e.scores, np.full(len(e), 2.0)) for e in ordinary_examples()
    ]
    for example, values in _cases(probe, [*special_examples(), *flat]):
        output = probe.run(example, values)
        pushed = np.flatnonzero(output.grad)
        if nothing_to_learn(example) and pushed.size:
            return _noted(
                "idle",
                f"a gradient where all orders are equally good ({example.what})",
                example,
                values,
                document=int(pushed[0]),
                why="no ranking metric can gain from it, and it takes capacity from the trees",
                mend="return 0.0 with zeros in both outputs when all gains are equal, unless the gradient is intended",
            )
    return passed("idle", "no gradient where all labels are equal")


RULES: tuple[Callable[[Probe], Finding], ...] = (
    memory_is_its_own,
    outputs_are_written,
    inputs_are_read_only,
    results_are_finite,
    hessian_is_not_negative,
    gradient_is_the_derivative,
    curvature_keeps_its_claim,
    shifts_change_nothing,
    file_order_changes_nothing,
    nothing_to_learn_is_left_alone,
)


def _cases(probe: Probe, examples: list[Example]) -> Iterator[tuple[Example, Values]]:
    return itertools.product(sorted(examples, key=len), parameter_cases(probe.spec))


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


def _found(
    status: Status,
    check: str,
    message: str,
    example: Example,
    values: Values,
    *,
    document: int | None = None,
    detail: str = "",
    why: str,
    mend: str,
) -> Finding:
    where = "" if document is None else f"document {document}"
    settings = ", ".join(f"{name}={value}" for name, value in values.items())
    words = (str(example), ": ".join(filter(None, [where, detail])), settings and f"parameters {settings}")
    return Finding(check, status, message, "; ".join(filter(None, words)), why, mend)


_failed, _noted = partial(_found, Status.FAIL), partial(_found, Status.NOTE)


def unsafe(spec: ObjectiveSpec) -> Finding | None:
    """Return the first memory violation on queries of 0 to 11 documents, or None: a bad index, unset memory or outputs.

    Other faults are left to the other checks and the compiler.
    """
    probe = Probe(spec, spec.kernel.in_python)
    for values, example in product(parameter_cases(spec), [*special_examples(), *ordinary_examples()]):
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
