"""A kernel with one slip in it must disagree with its twin: the comparison sees what it claims to
see.
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boostrank.core.conventions import Conventions
from boostrank.kernels.metric import WHOLE_LIST, cumulated, weighted_sums
from boostrank.metrics.measure import METRICS
from tests.metrics.helpers import twin
from tests.reference.tied_orders import over_ties

CONVENTIONS = Conventions(max_grade=3.0)
LABELS = [0.0, 2.0, 1.0, 0.0, 3.0, 1.0, 2.0]
SCORES = [1.0, 1.0, 1.0, 0.5, 0.2, 0.2, 0.1]
CUTS = (1, 2, 3, 4, 5, None)

SLIPS = [
    ("dcg", "worth[i] * weights[i]", "worth[i] * weights[next_cutoff]"),
    ("dcg", "worth[i] = mean", "worth[i] = -mean"),
    ("dcg", "mean /= end - pos", "mean /= end - pos + 1"),
    ("dcg", "i + 1 == cutoffs[next_cutoff]", "i == cutoffs[next_cutoff]"),
    ("dcg", "range(pos + 1, end)", "range(pos, end)"),
    ("dcg", "pos = end\n", "pos += 1\n"),
    ("map", "hits + relevant_before + 1.0", "hits + relevant_before"),
    ("map", "hits + relevant_before + 1.0", "hits + 1.0"),
    ("map", "hits += r", "hits = r"),
    ("map", "(r - 1.0) / (n - 1)", "r / n"),
    ("map", "(i - pos) *", "(i - pos + 1) *"),
    ("map", "r / n * (", "("),
    ("map", "i + 1 == cutoffs[next_cutoff]", "i == cutoffs[next_cutoff]"),
    ("mrr", "left = end - i", "left = end - pos"),
    ("mrr", "waiting -= worth[i]", "pass"),
    ("mrr", "waiting -= worth[i]", "waiting += worth[i]"),
    ("mrr", "r / left", "r / (left + 1)"),
    ("mrr", "waiting * min(1.0, r / left)", "waiting"),
    ("err", "everyone *= q", "everyone *= 1.0 - q"),
    ("err", "share = j / (i + 1.0)", "share = j / (i + 2.0)"),
    ("err", "passed[j - 1] - passed[j]", "passed[j - 1]"),
    ("err", "reading = everyone", "reading = 1.0"),
    ("err", " * weights[i]", ""),
    ("err", "share * q * passed[j - 1]", "share * passed[j - 1]"),
    ("err", "for j in range(min(i + 1, depth), 0, -1)", "for j in range(1, min(i + 1, depth) + 1)"),
]


def python_kernel(name: str, old: str = "", new: str = "") -> Callable[..., None]:
    """The body of a metric's kernel and the sum over its worths as plain Python, with a piece
    replaced.
    """
    function = METRICS.get(name).kernel.py_func
    bodies = [
        textwrap.dedent(inspect.getsource(f))
        for f in (function, getattr(weighted_sums, "py_func", weighted_sums))
    ]
    source = "\n".join(body[body.index("def ") :] for body in bodies)
    assert source.count(old) >= 1 if old else True, f"{old!r} is not in the kernel of {name}"
    scope: dict[str, Any] = dict(inspect.getmodule(function).__dict__, math=math)
    mutated = source.replace(old, new) if old else source
    exec(mutated, scope)

    def kernel(grades: Any, ends: Any, weights: Any, cutoffs: Any, out: Any, scratch: Any) -> None:
        worth = np.full(grades.size, np.nan)
        scope[function.__name__](grades, ends, worth, scratch)
        scope["weighted_sums"](worth, weights, cutoffs, out)

    return kernel


def largest_error(name: str, kernel: Callable[..., None]) -> float:
    """Against the twin, over all cut-offs."""
    spec, module = METRICS.get(name), twin(name)
    order = np.argsort(-np.array(SCORES), kind="stable")
    ranked = np.array(SCORES)[order]
    ends = np.array([np.flatnonzero(ranked == s)[-1] + 1 for s in ranked])
    depths = [WHOLE_LIST if k is None else k for k in CUTS]
    cutoffs = np.array(depths)
    grades = spec.grades(np.array(LABELS), CONVENTIONS)
    out = np.full(len(CUTS), np.nan)
    scratch = np.full(len(LABELS) + 1, np.nan)
    kernel(grades[order], ends, spec.weights(len(LABELS), CONVENTIONS), cutoffs, out, scratch)
    divisors = spec.divisors(grades, np.array([0, len(LABELS)]), cutoffs, CONVENTIONS)[0]
    want = [
        over_ties("expected", lambda r, k=k: module.value(r, k, CONVENTIONS), SCORES, LABELS)
        for k in CUTS
    ]
    return float(np.max(np.nan_to_num(np.abs(out / divisors - want), nan=np.inf)))


@pytest.mark.parametrize("name", METRICS.names())
def test_a_kernel_agrees_with_its_twin_as_plain_python_too(name: str) -> None:
    assert largest_error(name, python_kernel(name)) < 1e-14


@pytest.mark.parametrize(("name", "old", "new"), SLIPS)
def test_a_slip_in_a_kernel_is_seen(name: str, old: str, new: str) -> None:
    assert largest_error(name, python_kernel(name, old, new)) > 1e-6


def test_every_kernel_is_tried_with_slips() -> None:
    tried = {METRICS.get(name).kernel for name, _, _ in SLIPS}
    assert {spec.kernel for spec in METRICS} == tried
    assert METRICS.get("dcg").kernel is cumulated
