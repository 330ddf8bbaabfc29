"""Instrumented runs of a kernel on example queries, and the findings made from them.

Inputs are compared before and after. Outputs, scratch memory and margins around every array are filled with arbitrary
numbers, and a second run uses other numbers: a kernel that depends on any of them gives another result. Margins and
integer scratch hold valid positions, so a bad index does no harm.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param
from boostrank.core.types import Float64Array
from boostrank.kernels.objective.contract import ObjectiveSpec


class Status(enum.Enum):
    """Outcome of a check. A note passes and adds a remark."""

    PASS = "pass"
    NOTE = "note"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """Result of one check of an objective.

    Args:
        example: the smallest failing example: scores, labels, gains, and the document.
    """

    check: str
    status: Status
    message: str
    example: str = ""
    why: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Verdict:
    """Results of all checks of an objective, in order."""

    objective: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if no check failed."""
        return all(f.status is not Status.FAIL for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        findings = [asdict(f) | {"status": f.status.value} for f in self.findings]
        return {"objective": self.objective, "passed": self.passed, "checks": findings}


def passed(check: str, message: str) -> Finding:
    return Finding(check, Status.PASS, message)


def skipped(check: str, message: str) -> Finding:
    return Finding(check, Status.SKIP, message)


Values = Mapping[str, Any]

_MARGIN = 8
_MEANINGLESS = (7.25e11, -3.5e11)


@dataclass(frozen=True, eq=False)
class Example:
    """A query for a check.

    Args:
        scores, labels: float64[n].
    """

    what: str
    scores: Float64Array
    labels: Float64Array

    @property
    def gains(self) -> Float64Array:
        """Exponential gains, float64[n]."""
        return np.asarray(np.exp2(self.labels) - 1.0)

    def __len__(self) -> int:
        return int(self.scores.size)

    def at(self, scores: Float64Array) -> Example:
        """Return the same documents with other scores."""
        return Example(self.what, scores, self.labels)

    def __str__(self) -> str:
        lists = {"scores": self.scores, "labels": self.labels, "gains": self.gains}
        numbers = ", ".join(f"{name} [{', '.join(f'{v:.4g}' for v in values)}]" for name, values in lists.items())
        return f"{self.what}: {numbers}" if len(self) else self.what


class Output(NamedTuple):
    """Result of a kernel for one query."""

    loss: float
    grad: Float64Array
    hess: Float64Array


class Trace(NamedTuple):
    """Result of a run and its memory violations.

    Args:
        margins_written: names of arrays with writes beyond their ends.
    """

    output: Output
    inputs_written: tuple[str, ...]
    margins_written: tuple[str, ...]


class Probe:
    """Run an objective's kernel on examples.

    Args:
        function: function to call; None for the compiled kernel. The Python body is equivalent, but slow.
    """

    def __init__(self, spec: ObjectiveSpec, function: Callable[..., float] | None = None) -> None:
        self.spec = spec
        self._function = spec.kernel if function is None else function

    def run(self, example: Example, values: Values) -> Output:
        """Return loss, gradient and hessian."""
        return self.trace(example, values).output

    def trace(self, example: Example, values: Values, *, outputs: int = 0, scratch: int = 0, margins: int = 0) -> Trace:
        """Run with arbitrary content of kind 0 or 1 in outputs, scratch memory and margins."""
        n = len(example)
        gains = example.gains
        doc_const, query_const = self._constants(example.labels, gains, values)
        order = np.argsort(-example.scores, kind="stable")
        params = self.spec.encode({p.name: p.parse(values[p.name]) for p in self.spec.params}, 0)
        given = {
            "scores": example.scores,
            "gains": gains,
            "order": order,
            "doc_const": doc_const,
            "query_const": query_const[0],
            "params": params,
        }
        room = self.spec.scratch_per_document * n
        arrays = {name: _Framed(array, margins) for name, array in given.items()}
        out = {
            "grad": _Framed(_meaningless(n, outputs), margins),
            "hess": _Framed(_meaningless(n, outputs), margins),
            "scratch": _Framed(_meaningless(room, scratch), margins),
            "iscratch": _Framed(np.full(room, (n - 1) * scratch, np.int64), margins),
        }
        with np.errstate(all="ignore"):  # compiled code does not warn, either
            loss = self._function(*(a.inside for a in arrays.values()), *(a.inside for a in out.values()))
        return Trace(
            Output(float(loss), out["grad"].inside, out["hess"].inside),
            tuple(name for name, array in arrays.items() if not np.array_equal(array.inside, given[name])),
            tuple(name for name, array in (arrays | out).items() if array.margins_changed),
        )

    def _constants(self, labels: Float64Array, gains: Float64Array, values: Values) -> tuple[Any, Any]:
        constants = self.spec.prepare(labels.copy(), gains.copy(), np.array([0, labels.size], np.int64), values)
        for what, array, rows in zip(("document", "query"), constants, (labels.size, 1), strict=True):
            if getattr(array, "dtype", None) != np.float64 or array.ndim != 2 or len(array) != rows:
                shape = f"{getattr(array, 'dtype', type(array).__name__)}{list(np.shape(array))}"
                raise ParameterError(
                    f"prepare of {self.spec.name!r}: constants of a {what} must be float64[{rows}, any], not {shape}"
                )
        return constants


class _Framed:
    """A copy of an array with margins of arbitrary values."""

    def __init__(self, array: npt.NDArray[Any], kind: int) -> None:
        # Integers are used as indices and must stay valid.
        filler = kind * max(0, len(array) - 1) if array.dtype.kind == "i" else _MEANINGLESS[kind]
        self._whole = np.full((len(array) + 2 * _MARGIN, *array.shape[1:]), filler, array.dtype)
        self._filler = filler
        self.inside = self._whole[_MARGIN : _MARGIN + len(array)]
        self.inside[:] = array

    @property
    def margins_changed(self) -> bool:
        around = (self._whole[:_MARGIN], self._whole[len(self._whole) - _MARGIN :])
        return any(bool(np.any(margin != self._filler)) for margin in around)


def _meaningless(size: int, kind: int) -> Float64Array:
    return np.full(size, _MEANINGLESS[kind])


def parameter_cases(spec: ObjectiveSpec) -> Iterator[dict[str, Any]]:
    """Yield the default parameters, then each parameter changed alone."""
    default = {p.name: p.default for p in spec.params}
    yield default
    for param in spec.params:
        for value in options(param):
            if value != param.default:
                yield default | {param.name: value}


def options(param: Param) -> list[Any]:
    """Choose values of a parameter to test, from its declaration."""
    if param.kind == "choice":
        return list(param.choices)
    if param.kind == "switch":
        return [True, False]
    if param.kind == "integer":
        found: list[Any] = [param.default, int(param.low or 0), 1, 3]
    elif param.high is not None:
        found = [param.low, 0.35, param.high]
    else:
        found = [param.default, 0.4 * float(param.default), 2.5 * float(param.default)]
    allowed = []
    for value in found:
        with contextlib.suppress(ParameterError):
            param.parse(value)
            allowed.append(value)
    return allowed


def ordinary_examples() -> list[Example]:
    """Return examples with distinct scores on the scale of labels, shortest first."""
    rng = np.random.default_rng(7)
    return [
        _example("2 documents in the right order", [0.4, -0.3], [1, 0]),
        _example("2 documents in the wrong order", [0.4, -0.3], [0, 1]),
        _example("3 documents", [0.3, -0.9, 0.1], [0, 2, 1]),
        _example("5 documents", [-1.2, 1.4, 0.5, -0.6, 0.01], [4, 0, 1, 3, 0]),
        _example("11 documents", 1.5 * rng.normal(size=11), rng.integers(0, 5, 11)),
    ]


def special_examples() -> list[Example]:
    """Return edge cases: short lists, ties, equal labels, distant scores."""
    far = 1e4
    return [
        _example("no document", [], []),
        _example("one document", [0.7], [3]),
        _example("one irrelevant document", [0.7], [0]),
        _example("tied scores", [0.0, 0.0], [1, 0]),
        _example("nearly tied scores", [1e-300, 0.0], [0, 1]),
        _example("equal labels", [0.4, -0.3], [2, 2]),
        _example("no relevant document", [0.4, -0.3], [0, 0]),
        _example("scores 20,000 apart, right order", [far, -far], [1, 0]),
        _example("scores 20,000 apart, wrong order", [-far, far], [1, 0]),
        _example("the largest labels", [0.4, -0.3], [31, 0]),
        _example("tied scores at the ends of the range", [far, far, -far, -far, 0.0], [0, 2, 2, 0, 1]),
        _example("every score tied", np.zeros(6), [0, 2, 1, 0, 4, 1]),
    ]


def nothing_to_learn(example: Example) -> bool:
    """Return True if all orders of the documents are equally good."""
    return len(example) < 2 or bool(np.ptp(example.labels) == 0)


def _example(what: str, scores: Any, labels: Any) -> Example:
    return Example(what, np.array(scores, dtype=np.float64), np.array(labels, dtype=np.float64))
