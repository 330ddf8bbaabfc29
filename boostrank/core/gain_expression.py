"""Gains as expressions over columns: `0.7*label + 0.3*log1p(margin)`, read by a parser of their own.

Nothing is evaluated as code: a text becomes a list of steps on a stack, each a number, a column, or an operation of the
tables below, and anything else is refused with its place.

    comparison:  sum [(< | <= | > | >= | == | !=) sum]          1 or 0
    sum:         product ((+ | -) product)*
    product:     signed ((* | /) signed)*
    signed:      (+ | -) signed | power
    power:       atom [** signed]
    atom:        number | column | `column` | function(comparison, ...) | (comparison)

A missing value makes missing what is computed of it, a comparison too; `isnan` alone tells it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.types import Float64Array

LABEL = "label"
"""What the label is called in an expression, whatever its column is called."""
MOST_CHARACTERS = 2000
MOST_NESTED = 40

Operation = Callable[..., npt.NDArray[Any]]


def _comparison(compare: Operation) -> Operation:
    def compared(a: Any, b: Any) -> npt.NDArray[Any]:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, compare(a, b))

    return compared


def _power(base: Any, exponent: Any) -> npt.NDArray[Any]:
    # To NumPy NaN ** 0 and 1 ** NaN are 1.
    return np.where(np.isnan(base) | np.isnan(exponent), np.nan, np.power(base, exponent))


def _where(condition: Any, yes: Any, no: Any) -> npt.NDArray[Any]:
    return np.where(np.isnan(condition), np.nan, np.where(condition != 0.0, yes, no))


def _of_all(operation: Operation) -> Operation:
    def folded(first: Any, *others: Any) -> Any:
        for other in others:
            first = operation(first, other)
        return first

    return folded


COMPARISONS: dict[str, Operation] = {
    "<": _comparison(np.less), "<=": _comparison(np.less_equal), ">": _comparison(np.greater),
    ">=": _comparison(np.greater_equal), "==": _comparison(np.equal), "!=": _comparison(np.not_equal),
}  # fmt: skip
SUMS: dict[str, Operation] = {"+": np.add, "-": np.subtract}
PRODUCTS: dict[str, Operation] = {"*": np.multiply, "/": np.divide}


class Function(NamedTuple):
    """A function, and how many arguments it takes."""

    operation: Operation
    fewest: int = 1
    most: int = 1


FUNCTIONS = {
    "abs": Function(np.abs), "clip": Function(lambda x, low, high: np.minimum(np.maximum(x, low), high), 3, 3),
    "exp": Function(np.exp), "exp2": Function(np.exp2), "isnan": Function(np.isnan), "log": Function(np.log),
    "log1p": Function(np.log1p), "max": Function(_of_all(np.maximum), 2, 20),
    "min": Function(_of_all(np.minimum), 2, 20), "sqrt": Function(np.sqrt), "where": Function(_where, 3, 3),
}  # fmt: skip
"""All that can be called."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))|(?P<name>[^\W\d][\w.]*)|`(?P<quoted>[^`]+)`"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/()<>,]))"
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Step(NamedTuple):
    """A number or a column to put on the stack; or an operation on so many values of it."""

    number: float | None = None
    column: str | None = None
    operation: Operation | None = None
    takes: int = 0


@dataclass(frozen=True, eq=False)
class GainExpression:
    """A gain as an expression over columns.

    Args:
        text: as it was given, without the blanks around it.
        columns: the names in it, in their order; `label` is the label.
    """

    text: str
    columns: tuple[str, ...]
    _steps: tuple[_Step, ...]

    @classmethod
    def parse(cls, text: str) -> GainExpression:
        """Read an expression.

        Raises:
            ParameterError: what cannot be read, and where; no column in it; a text that is too long or too deep.
        """
        text = text.strip()
        if len(text) > MOST_CHARACTERS:
            raise ParameterError(f"gain: an expression of {len(text):,} characters; at most {MOST_CHARACTERS:,}")
        steps = _Parser(text).steps()
        columns = tuple(dict.fromkeys(step.column for step in steps if step.column is not None))
        if not columns:
            raise ParameterError(f"gain {text!r} names no column: it would be the same for every document")
        return cls(text, columns, tuple(steps))

    def evaluate(self, columns: Mapping[str, npt.ArrayLike]) -> Float64Array:
        """The values, float64[n], not finite where the arithmetic says so.

        Args:
            columns: name -> float[n], of those that the expression names; NaN is missing.
        """
        given = {name: np.asarray(columns[name], np.float64) for name in self.columns}
        stack: list[Any] = []
        with np.errstate(all="ignore"):
            for step in self._steps:
                if step.operation is not None:
                    values = stack[-step.takes :]
                    del stack[-step.takes :]
                    stack.append(np.asarray(step.operation(*values), np.float64))
                else:
                    stack.append(np.float64(step.number) if step.column is None else given[step.column])
        size = np.broadcast_shapes(*(values.shape for values in given.values()))
        return np.array(np.broadcast_to(stack[0], size)) + 0.0  # -0 becomes 0


class _Parser:
    """Recursive descent over the tokens; values before operations, as a stack takes them."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._next, self._depth = text, list[_Token](), 0, 0
        self._steps: list[_Step] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                rest = text[at:].lstrip()
                word = re.match(r"[\w.]+|.", rest)
                self._refuse(f"cannot read {word[0] if word else rest!r}", len(text) - len(rest))
            kind = str(found.lastgroup)
            self._tokens.append(_Token(kind, found[kind], found.start(kind)))
            at = found.end()
        self._tokens.append(_Token("end", "", len(text)))

    def steps(self) -> list[_Step]:
        """Of the whole text."""
        self._comparison()
        if self._now.kind != "end":
            self._refuse(f"{self._now.text!r} is not expected", self._now.at)
        return self._steps

    @property
    def _now(self) -> _Token:
        return self._tokens[self._next]

    def _refuse(self, words: str, at: int) -> NoReturn:
        raise ParameterError(
            f"gain {_shortened(self._text)}: {words}, at character {at + 1}; an expression has numbers, columns "
            f"(`in backquotes` where a name is no word), + - * / **, comparisons and {', '.join(FUNCTIONS)}"
        )

    def _takes(self, *signs: str) -> str | None:
        """The sign that comes next, if it is one of these."""
        token = self._now
        if token.kind != "sign" or token.text not in signs:
            return None
        self._next += 1
        return token.text

    def _deeper(self, step: int) -> None:
        self._depth += step
        if self._depth > MOST_NESTED:
            self._refuse(f"nested more than {MOST_NESTED} deep", self._now.at)

    def _do(self, operation: Operation, takes: int = 2) -> None:
        self._steps.append(_Step(operation=operation, takes=takes))

    def _comparison(self) -> None:
        self._sum()
        sign = self._takes(*COMPARISONS)
        if sign:
            self._sum()
            self._do(COMPARISONS[sign])

    def _sum(self) -> None:
        self._product()
        while sign := self._takes(*SUMS):
            self._product()
            self._do(SUMS[sign])

    def _product(self) -> None:
        self._signed()
        while sign := self._takes(*PRODUCTS):
            self._signed()
            self._do(PRODUCTS[sign])

    def _signed(self) -> None:
        sign = self._takes("+", "-")
        if not sign:
            self._power()
            return
        self._deeper(1)
        self._signed()
        self._deeper(-1)
        if sign == "-":
            self._do(np.negative, 1)

    def _power(self) -> None:
        self._atom()
        if self._takes("**"):
            self._deeper(1)
            self._signed()
            self._deeper(-1)
            self._do(_power)

    def _atom(self) -> None:
        token = self._now
        self._next += token.kind != "end"
        if token.kind == "number":
            self._steps.append(_Step(number=float(token.text)))
        elif token.kind == "name" and self._takes("("):
            self._call(token)
        elif token.kind in ("name", "quoted"):
            self._steps.append(_Step(column=token.text))
        elif token.text == "(":
            self._deeper(1)
            self._comparison()
            self._deeper(-1)
            self._close()
        else:
            found = "the end is too early" if token.kind == "end" else f"{token.text!r} is not expected"
            self._refuse(found, token.at)

    def _call(self, name: _Token) -> None:
        """The arguments of a function, whose bracket is open."""
        if name.text not in FUNCTIONS:
            hint = did_you_mean(name.text, FUNCTIONS, list_all=False)
            self._refuse(f"there is no function {name.text!r}.{hint}".rstrip("."), name.at)
        function, count = FUNCTIONS[name.text], 1
        self._deeper(1)
        self._comparison()
        while self._takes(","):
            self._comparison()
            count += 1
        self._deeper(-1)
        self._close()
        if not function.fewest <= count <= function.most:
            upto = "" if function.most == function.fewest else f" to {function.most}"
            wanted = f"{function.fewest}{upto}"
            self._refuse(f"{name.text} takes {wanted} arguments, not {count}", name.at)
        self._do(function.operation, count)

    def _close(self) -> None:
        if not self._takes(")"):
            self._refuse("a bracket is not closed", self._now.at)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
