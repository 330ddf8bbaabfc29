"""A file of a user's own with one fault: the check that fails is the right one, and says what to
mend.

The faults are put into the template, and into the same with a kernel of ten arrays. Kernels run as
plain Python here: the rules are the same, and nothing is compiled.
"""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.checking import Finding, Status, check_contract
from boostrank.checking.rules import parameter_cases
from boostrank.checking.user_file import template_text
from boostrank.core.errors import ParameterError
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.objectives import OBJECTIVES

START = "    grad[:] = 0.0\n    hess[:] = 0.0\n"
PAIR = "if gains[i] > gains[j]:"
U = "u = alpha * (scores[i] - scores[j])\n"
FORCES = "grad[i] -= alpha * wrong\n                grad[j] += alpha * wrong"
CURVATURES = "hess[i] += curvature\n                hess[j] += curvature"


ARRAYS = Path(__file__).with_name("template_arrays.py")


@pytest.fixture(params=["named", "arrays"])
def template(request: pytest.FixtureRequest) -> str:
    return template_text() if request.param == "named" else ARRAYS.read_text()


def with_faults(folder: Path, text: str, *faults: tuple[str, str]) -> ObjectiveSpec:
    for old, new in faults:
        assert old in text
        text = text.replace(old, new)
    path = folder / "my.py"
    path.write_text(text)
    spec: ObjectiveSpec = runpy.run_path(str(path))["SPEC"]
    return spec


def findings(spec: ObjectiveSpec) -> dict[str, Finding]:
    return {f.check: f for f in check_contract(spec, spec.kernel.in_python)}


def failures(spec: ObjectiveSpec) -> dict[str, Finding]:
    return {check: f for check, f in findings(spec).items() if f.status is Status.FAIL}


def test_constants_may_be_missing(tmp_path: Path, template: str) -> None:
    """NaN differs from itself, but is not a change."""
    spec = with_faults(tmp_path, template)

    def prepare(labels: Any, gains: Any, ptr: Any, values: Any) -> Any:
        return np.full((gains.size, 1), np.nan), np.full((ptr.size - 1, 1), np.nan)

    assert not failures(replace(spec, prepare=prepare))


def test_the_template_breaks_nothing(tmp_path: Path, template: str) -> None:
    results = findings(with_faults(tmp_path, template))
    assert len(results) == 10
    assert {f.status for f in results.values()} == {Status.PASS}


EXPLAINED = ("fault", "check", "message", "example", "mend")
SHARED = [
    (
        (FORCES, FORCES.replace("-=", "?").replace("+=", "-=").replace("?", "+=")),
        "gradient",
        "not the derivative",
        "2 documents in the right order",
        "wrong sign",
    ),
    (
        (FORCES, FORCES.replace("alpha * ", "")),
        "gradient",
        "not the derivative",
        "sigma=0.4; ",
        "missing factor",
    ),
    (
        (FORCES, FORCES.replace("wrong", "wrong * wrong")),
        "gradient",
        "not the derivative",
        "2 documents",
        "missing term",
    ),
    (
        ("    return loss\n", "    return 0.0\n"),
        "gradient",
        "not the derivative",
        "2 documents",
        "return the loss",
    ),
    (
        (U, U + "                u = u * u / u\n"),
        "finite",
        "nan at tied scores",
        "scores [0, 0]",
        "guard divisions",
    ),
    (
        (U, U + "                loss += 1e300 * u * 1e10 if abs(u) > 1e4 else 0.0\n"),
        "finite",
        "inf at scores 20,000 apart",
        "labels [1, 0]",
        "exp(-abs(u))",
    ),
    (
        (FORCES, FORCES.replace("alpha", "1e30 * gains[i]")),
        "finite",
        "does not fit into float32",
        "[31, 0]",
        "ideal DCG",
    ),
    ((CURVATURES, CURVATURES.replace("+=", "-=")), "hessian", "negative", "document 0", "proxy"),
    (
        (CURVATURES, CURVATURES.replace("curvature", "2.0 * curvature")),
        "curvature",
        "second derivative",
        "finite difference of the gradient",
        "correct the formula",
    ),
    (
        ("HessianKind.EXACT", "HessianKind.MAJORISER"),
        "curvature",
        "parabola",
        "move",
        "enlarge hess",
    ),
    (
        (PAIR, PAIR.replace(":", " and i < j:")),
        "order",
        "order of the rows",
        "2 documents",
        "compare scores, not indices",
    ),
    (
        (U, "u = alpha * scores[i] * scores[i] - alpha * scores[j]\n"),
        "shift",
        "adding 2 to every score changes grad",
        "2 documents",
        "use score differences only",
    ),
    (
        (FORCES, FORCES.splitlines()[0]),
        "shift",
        "does not sum to zero",
        "the gradient sums to",
        "add to document j what you subtract from document i",
    ),
    (("range(n)", "range(n + 1)"), "memory", "out of bounds", "no document", "keep every index"),
    (
        ("loss = 0.0\n", "loss = 1.0 / (n - n)\n"),
        "runs",
        "raises ZeroDivisionError",
        "",
        "kernel contract",
    ),
]
OF_ARRAYS = [
    (
        (START, START + "    if n > 0:\n        gains[0] += 1.0\n"),
        "inputs",
        "writes to gains",
        "one document",
        "copy gains into scratch",
    ),
    (
        ("    grad[:] = 0.0\n", ""),
        "outputs",
        "grad is not written",
        "document 0",
        "before any return",
    ),
    (
        (START, "    if n < 2:\n        return 0.0\n" + START),
        "outputs",
        "grad is not written",
        "one document",
        "before any return",
    ),
    (
        ("loss = 0.0\n", "loss = scratch[0] if n > 0 else 0.0\n"),
        "memory",
        "previous content of scratch",
        "one document",
        "row[:] = 0.0",
    ),
]
OF_NAMES = [
    (
        ("loss = 0.0\n", "loss = 0.0\n    if n > 0:\n        gains[0] += 1.0\n"),
        "inputs",
        "writes to gains",
        "one document",
        "copy gains into scratch",
    ),
    (
        ("params=PARAMS)\ndef kernel", "params=PARAMS, scratch='row')\ndef kernel"),
        "memory",
        "previous content of scratch",
        "one document",
        "row[:] = 0.0",
    ),
]


@pytest.mark.parametrize(EXPLAINED, [*SHARED, *OF_NAMES])
def test_a_fault_is_found_with_its_smallest_example_and_what_to_mend(
    tmp_path: Path, fault: tuple[str, str], check: str, message: str, example: str, mend: str
) -> None:
    row = (
        [("loss = 0.0\n", "loss = scratch.row[0] if n > 0 else 0.0\n")] if check == "memory" else []
    )
    _is_found(with_faults(tmp_path, template_text(), fault, *row), check, message, example, mend)


@pytest.mark.parametrize(EXPLAINED, [*SHARED, *OF_ARRAYS])
def test_a_fault_is_found_in_a_kernel_of_ten_arrays(
    tmp_path: Path, fault: tuple[str, str], check: str, message: str, example: str, mend: str
) -> None:
    _is_found(with_faults(tmp_path, ARRAYS.read_text(), fault), check, message, example, mend)


def _is_found(spec: ObjectiveSpec, check: str, message: str, example: str, mend: str) -> None:
    failed = failures(spec)
    assert check in failed, list(failed)
    failure = failed[check]
    assert message in failure.message
    assert example in failure.example + "; "
    assert mend in failure.mend
    assert failure.why


def test_what_an_objective_does_not_claim_is_not_asked_of_it(tmp_path: Path, template: str) -> None:
    spec = with_faults(
        tmp_path,
        template,
        (FORCES, FORCES.splitlines()[0].replace("wrong", "wrong * wrong")),
        ("HessianKind.EXACT", "HessianKind.PROXY"),
        (
            "prepare=no_constants",
            "prepare=no_constants, exact_gradient=False, shift_invariant=False",
        ),
    )
    skipped = {check for check, f in findings(spec).items() if f.status is Status.SKIP}
    assert skipped == {"gradient", "curvature", "shift"}
    assert not failures(spec)


@pytest.mark.parametrize(
    ("factor", "status"), [("1e-9", Status.FAIL), ("1e-2", Status.NOTE), ("1.5", Status.PASS)]
)
def test_a_proxy_that_is_far_too_small_has_steps_that_are_too_long(
    tmp_path: Path, factor: str, status: Status
) -> None:
    smaller = CURVATURES.replace("curvature", f"{factor} * curvature")
    spec = with_faults(
        tmp_path, template_text(), (CURVATURES, smaller), ("HessianKind.EXACT", "HessianKind.PROXY")
    )
    step = findings(spec)["step"]
    assert step.status is status
    assert set(failures(spec)) == ({"step"} if status is Status.FAIL else set())
    assert ("hess" in step.example) == bool(step.mend) == (status is not Status.PASS)


def test_constants_of_the_wrong_shape_are_refused(tmp_path: Path, template: str) -> None:
    spec = with_faults(
        tmp_path, template, ("prepare=no_constants", "prepare=lambda y, g, ptr, values: (y, y)")
    )
    with pytest.raises(ParameterError, match=r"float64\[0, any\].* float64\[0\]"):
        findings(spec)


def test_parameters_that_the_objective_refuses_are_not_tried() -> None:
    spec = OBJECTIVES.get("smooth-ndcg")
    metrics = {values["metric"] for values in parameter_cases(spec)}
    assert {"ndcg", "precision"} - metrics == {"precision"}  # which needs a cut-off
