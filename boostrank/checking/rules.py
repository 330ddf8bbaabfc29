"""Rules of the kernel contract, each a function of a probe; examples are tried from the shortest on.

`unsafe` runs before a kernel is compiled: compiled code checks no index, and one beyond an end overwrites other data or
ends the process. The Python body of the same kernel is called by NumPy's rules, which raise.
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

# How far gradients may be from what they should be, as a share of the largest: training needs no more, and what is
# wrong (a sign, a factor, a missing term) is wrong by far more.
_DERIVATIVE_TOLERANCE = 1e-4
_SYMMETRY_TOLERANCE = 1e-5


def inputs_are_read_only(probe: Probe) -> Finding:
    """No input is written."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        changed = probe.trace(example, values).inputs_written
        if changed:
            return _failed(
                "inputs",
                f"the kernel writes to {changed[0]}",
                example,
                values,
                why="the arrays are those of the training: the next round, and the metrics, would see other data",
                mend=f"copy {changed[0]} into scratch and change the copy",
            )
    return passed("inputs", "no input is written")


def outputs_are_written(probe: Probe) -> Finding:
    """Every element of the outputs is set, whatever stood there before."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        one, other = (probe.trace(example, values, outputs=kind).output for kind in (0, 1))
        for name in ("grad", "hess"):
            stale = _differing(getattr(one, name), getattr(other, name))
            if stale.size:
                return _failed(
                    "outputs",
                    f"{name} is not written, or added to what stood there",
                    example,
                    values,
                    document=int(stale[0]),
                    why="the memory holds gradients of another query",
                    mend="write kernel(query, params, grad, hess, scratch), where both begin as zeros; or "
                    f"begin with grad[:] = 0.0 and hess[:] = 0.0, before any return, and then add to {name}",
                )
    return passed("outputs", "every element of grad and hess is written")


def memory_is_its_own(probe: Probe) -> Finding:
    """Nothing beyond the ends of arrays is touched, and scratch memory is written before it is read."""
    for example, values in _cases(probe, [*special_examples(), *ordinary_examples()]):
        base = probe.trace(example, values)
        if base.margins_written:
            return _failed(
                "memory",
                f"the kernel writes beyond an end of {base.margins_written[0]}",
                example,
                values,
                why="compiled code checks no index: it overwrites other data, or the process dies",
                mend="every index is at least 0 and below n = query.scores.size, in a row of scratch too; a kernel of "
                f"ten arrays has {probe.spec.scratch_per_document} * n numbers of scratch (scratch_per_document=)",
            )
        if not _same(base.output, probe.trace(example, values, margins=1).output):
            return _failed(
                "memory",
                "the result depends on what lies beyond an end of an array",
                example,
                values,
                why="compiled code checks no index: what is read there is never the same twice",
                mend="every index is at least 0 and below n = query.scores.size: look at loops to n + 1, at i - 1 and "
                "i + 1, and at n = 0",
            )
        if not _same(base.output, probe.trace(example, values, scratch=1).output):
            return _failed(
                "memory",
                "the result depends on what scratch held before",
                example,
                values,
                why="scratch holds numbers of another query",
                mend="set a row of scratch before it is read: row = scratch.row; row[:] = 0.0",
            )
    return passed("memory", "stays within its arrays, and sets scratch before it reads it")


def results_are_finite(probe: Probe) -> Finding:
    """Neither NaN nor infinity, in float32 either, however short, tied, equal or far apart the documents are."""
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
                    why="real data has such queries; one number that is not finite stops the training",
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
                    mend="divide by what the query's gains add up to (query.query_const[0] is the ideal DCG)",
                )
    return passed("finite", "finite at 0 and 1 documents, ties, equal labels, scores of +-1e4, labels up to 31")


def hessian_is_not_negative(probe: Probe) -> Finding:
    """Curvature is at least zero, and above zero where there is a gradient."""
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
                why="a tree's leaf is -sum(grad) / sum(hess): below zero it goes the wrong way, near zero it explodes",
                mend="write a bound of the curvature instead, abs(...) of each term for one, and say hessian='proxy'",
            )
        idle = np.flatnonzero((hess == 0) & (np.abs(grad) > 1e-6 * np.abs(grad).max(initial=0.0)))
        if idle.size and flat is None and any(example is e for e in ordinary):
            flat = _noted(
                "hessian",
                "not negative, but zero for documents that are pushed",
                example,
                values,
                document=int(idle[0]),
                why="such documents take the longest steps that the driver's floor allows",
                mend="give each pair's curvature to both of its documents",
            )
    return flat or passed("hessian", "never negative")


def gradient_is_the_derivative(probe: Probe) -> Finding:
    """Central differences of the returned loss."""
    if not probe.spec.exact_gradient:
        return skipped("gradient", "the objective says that its gradient is not the derivative of the loss it reports")
    for example, values in _cases(probe, ordinary_examples()):
        if not probe.spec.is_exact(values):
            continue
        output = probe.run(example, values)
        wanted = _derivative(probe, example, values, attrgetter("loss"), output.grad)
        error = np.abs(output.grad - wanted)
        scale = float(np.abs(wanted).max())
        if error.max() > _DERIVATIVE_TOLERANCE * scale + 1e-9 * max(1.0, abs(output.loss)):
            # One query of two documents agrees with any factor: all of them tell whether it is one.
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
                why="the trees follow the gradient: they would minimise something else than the loss that you see",
                mend=mend,
            )
    return passed("gradient", "equals the central differences of the returned loss")


def curvature_keeps_its_claim(probe: Probe) -> Finding:
    """The hessian is what its kind says."""
    kind = probe.spec.hessian
    if kind is HessianKind.EXACT:
        return _exact_curvature(probe)
    if kind is HessianKind.MAJORISER and probe.spec.exact_gradient:
        return _majorising_curvature(probe)
    return skipped("curvature", f"hessian is a {kind.value}, which promises nothing that could be tested here")


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
                "hess is not the second derivative that 'exact' promises",
                example,
                values,
                document=p,
                detail=f"hess {hess[p]:.6g}, finite difference of the gradient {wanted[p]:.6g}",
                why="a second derivative with a wrong factor makes every step too long or too short by it",
                mend="mend the formula, or say hessian='proxy' if the difference is meant",
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
                    mend="enlarge hess to a bound of the second derivative, or say hessian='proxy'",
                )
    return passed("curvature", "a majoriser: the parabola lies above the loss, one score moved")


def shifts_change_nothing(probe: Probe) -> Finding:
    """Gradients sum to zero over a query, and adding a constant to all scores changes none of them."""
    if not probe.spec.shift_invariant:
        return skipped("shift", "shift_invariant=False: the objective cares for the scores' level")
    why = "only score differences rank; a gradient on the level of a query is spent by trees on nothing"
    mend = "use scores as differences only, and give document j what you take from document i; or declare "
    mend += "shift_invariant=False if the level is meant, as in a regression"
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
    """Documents in another order get the same gradients; a note where that fails at tied scores alone."""
    if probe.spec.random:
        return skipped("order", "the objective draws random numbers by position")
    why = "the order of rows in a file means nothing: relevant rows may stand first because somebody sorted them"
    mend = "ask which score is higher, not which index is lower; query.order[0] is the document with the highest score"
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
                why="in the first round every score is tied: there the order of the file speaks (as in LambdaRank)",
                mend="treat documents with equal scores alike",
            )
    return passed("order", "rows in another order get the same gradients, among ties too")


def nothing_to_learn_is_left_alone(probe: Probe) -> Finding:
    """Where no order is better than another, nothing is pushed; a note, since a loss may want equal scores."""
    if not probe.spec.shift_invariant:
        return skipped("idle", "shift_invariant=False: a query of equal labels may teach the level")
    flat = [
        Example(f"{len(e)} documents with equal labels", e.scores, np.full(len(e), 2.0)) for e in ordinary_examples()
    ]
    for example, values in _cases(probe, [*special_examples(), *flat]):
        output = probe.run(example, values)
        pushed = np.flatnonzero(output.grad)
        if nothing_to_learn(example) and pushed.size:
            return _noted(
                "idle",
                f"a gradient where no order is better than another ({example.what})",
                example,
                values,
                document=int(pushed[0]),
                why="no ranking metric can gain from it, and it takes capacity from the trees",
                mend="return 0.0 with zeros in both outputs when all gains are equal, unless the gradient is meant",
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
    """A document whose gradient changes when the rows are reversed or shuffled."""
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
    """Central differences of fourth order by each score; of three steps, the one that agrees best with `claimed`.

    A sharp function wants a short step, a flat one a long step against rounding; what is wrong disagrees with all.
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
    """What is wrong with a gradient, and what to look for."""
    if np.abs(wanted).max() <= 1e-6 * np.abs(grad).max():
        return "the returned loss does not change with the scores, but there is a gradient", (
            "return the loss; or declare exact_gradient=False if the gradient is the derivative of no loss"
        )
    factor = float(grad @ wanted / (wanted @ wanted))
    if np.abs(grad - factor * wanted).max() <= 1e-3 * np.abs(wanted).max() * max(1.0, abs(factor)) and factor != 0.0:
        if abs(factor + 1.0) < 1e-3:
            return "the gradient has the wrong sign", (
                "a loss is minimised: return minus what you maximise, and write the derivative of what you return"
            )
        return f"the gradient is {factor:.4g} times the derivative of the loss", (
            "look for a missing factor: an inner derivative (1 / sigma), a 2, the other end of each pair"
        )
    return "the gradient is not the derivative of the returned loss", (
        "differentiate the returned loss by one score, every term of it; or declare exact_gradient=False if the "
        "gradient is meant to differ, as LambdaRank's is"
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
    """The first thing that must not be compiled, on queries of 0 to 11 documents: an index beyond an end, memory that
    is not the kernel's own, an output that is left as it was. None where there is none.

    Whatever else is wrong is left to the other checks, and to the compiler.
    """
    probe = Probe(spec, spec.kernel.in_python)
    for values, example in product(parameter_cases(spec), [*special_examples(), *ordinary_examples()]):
        try:
            probe.run(example, values)
        except IndexError as error:
            return _beyond(spec, error, example)
        except Exception:  # Python stops at 1 / 0, say, where compiled code goes on
            continue
    try:
        found = [rule(probe) for rule in (memory_is_its_own, outputs_are_written)]
    except Exception:
        return None
    return next((one for one in found if one.status is Status.FAIL), None)


def _beyond(spec: ObjectiveSpec, error: IndexError, example: Example) -> Finding:
    """An index beyond an end, with its line."""
    file = spec.kernel.body.__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return Finding(
        "memory",
        Status.FAIL,
        f"{f'line {lines[-1]}: ' if lines else ''}{error}",
        str(example),
        why="compiled code checks no index: it overwrites other data, or the process dies",
        mend="every index is at least 0 and below the length of its array: n = query.scores.size, also of a row of "
        "scratch",
    )
