"""Probe of a kernel: findings, example queries, and one run in memory that shows what the kernel must not do.

Inputs are compared with what they were. Outputs, scratch memory and the margins around every array hold meaningless
numbers, and a second run finds other numbers there: a kernel that reads or leaves any of them gives another result.
Margins and whole-number scratch hold valid positions, so that a bad index does no harm here.
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
    """How a check ended. A note passes, and says something worth knowing."""

    PASS = "pass"
    NOTE = "note"
    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One check of one objective.

    Args:
        check: its name, one word or two.
        status: how it ended.
        message: what was seen, one line.
        example: the smallest example that fails: scores, labels, gains, and the document.
        why: why it matters.
        mend: what to change.
    """

    check: str
    status: Status
    message: str
    example: str = ""
    why: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Verdict:
    """Every check of one objective.

    Args:
        objective: its name.
        findings: in the order in which they were made.
    """

    objective: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(f.status is not Status.FAIL for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        findings = [asdict(f) | {"status": f.status.value} for f in self.findings]
        return {"objective": self.objective, "passed": self.passed, "checks": findings}


def passed(check: str, message: str) -> Finding:
    """A check that found nothing wrong."""
    return Finding(check, Status.PASS, message)


def skipped(check: str, message: str) -> Finding:
    """A check that does not apply, with the reason."""
    return Finding(check, Status.SKIP, message)


Values = Mapping[str, Any]

_MARGIN = 8
_MEANINGLESS = (7.25e11, -3.5e11)


@dataclass(frozen=True, eq=False)
class Example:
    """One query.

    Args:
        what: in words, for messages.
        scores, labels: float64[n].
    """

    what: str
    scores: Float64Array
    labels: Float64Array

    @property
    def gains(self) -> Float64Array:
        """float64[n], exponential."""
        return np.asarray(np.exp2(self.labels) - 1.0)

    def __len__(self) -> int:
        return int(self.scores.size)

    def at(self, scores: Float64Array) -> Example:
        """The same documents with other scores."""
        return Example(self.what, scores, self.labels)

    def __str__(self) -> str:
        lists = {"scores": self.scores, "labels": self.labels, "gains": self.gains}
        numbers = ", ".join(f"{name} [{', '.join(f'{v:.4g}' for v in values)}]" for name, values in lists.items())
        return f"{self.what}: {numbers}" if len(self) else self.what


class Output(NamedTuple):
    """What a kernel made of a query."""

    loss: float
    grad: Float64Array
    hess: Float64Array


class Trace(NamedTuple):
    """A run with what it did to memory.

    Args:
        output: its result.
        inputs_written: names of the inputs that it changed.
        margins_written: names of the arrays beyond whose ends it wrote.
    """

    output: Output
    inputs_written: tuple[str, ...]
    margins_written: tuple[str, ...]


class Probe:
    """An objective's kernel, ready to be called on examples.

    Args:
        spec: the objective.
        function: what is called; None for the compiled kernel. Its Python body does the same, slowly.
    """

    def __init__(self, spec: ObjectiveSpec, function: Callable[..., float] | None = None) -> None:
        self.spec = spec
        self._function = spec.kernel if function is None else function

    def run(self, example: Example, values: Values) -> Output:
        """Loss, gradient and hessian.

        Raises:
            ParameterError: `prepare` does not give what it must.
        """
        return self.trace(example, values).output

    def trace(self, example: Example, values: Values, *, outputs: int = 0, scratch: int = 0, margins: int = 0) -> Trace:
        """A run, with one of two meaningless contents (0 or 1) in the outputs, the scratch memory and the margins."""
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
        with np.errstate(all="ignore"):  # a Python body warns where compiled code goes on in silence
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
    """A copy of an array inside a larger one whose margins hold meaningless values."""

    def __init__(self, array: npt.NDArray[Any], kind: int) -> None:
        # A position is valid wherever it is used; other numbers may be anything.
        filler = kind * max(0, len(array) - 1) if array.dtype.kind == "i" else _MEANINGLESS[kind]
        self._whole = np.full((len(array) + 2 * _MARGIN, *array.shape[1:]), filler, array.dtype)
        self._filler = filler
        self.inside = self._whole[_MARGIN : _MARGIN + len(array)]
        self.inside[:] = array

    @property
    def margins_changed(self) -> bool:
        """Whether anything was written there."""
        around = (self._whole[:_MARGIN], self._whole[len(self._whole) - _MARGIN :])
        return any(bool(np.any(margin != self._filler)) for margin in around)


def _meaningless(size: int, kind: int) -> Float64Array:
    return np.full(size, _MEANINGLESS[kind])


def parameter_cases(spec: ObjectiveSpec) -> Iterator[dict[str, Any]]:
    """Parameter values: the defaults, then each parameter changed alone."""
    default = {p.name: p.default for p in spec.params}
    yield default
    for param in spec.params:
        for value in options(param):
            if value != param.default:
                yield default | {param.name: value}


def options(param: Param) -> list[Any]:
    """Values of a parameter that are worth trying, from its declaration alone."""
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
    """Distinct scores on the scale of labels, shortest first."""
    rng = np.random.default_rng(7)
    return [
        _example("2 documents in the right order", [0.4, -0.3], [1, 0]),
        _example("2 documents in the wrong order", [0.4, -0.3], [0, 1]),
        _example("3 documents", [0.3, -0.9, 0.1], [0, 2, 1]),
        _example("5 documents", [-1.2, 1.4, 0.5, -0.6, 0.01], [4, 0, 1, 3, 0]),
        _example("11 documents", 1.5 * rng.normal(size=11), rng.integers(0, 5, 11)),
    ]


def special_examples() -> list[Example]:
    """Where objectives divide by nothing: short, tied, equal, far apart."""
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
    """Whether no order of the documents is better than another."""
    return len(example) < 2 or bool(np.ptp(example.labels) == 0)


def _example(what: str, scores: Any, labels: Any) -> Example:
    return Example(what, np.array(scores, dtype=np.float64), np.array(labels, dtype=np.float64))
