"""Gains of relevance labels, shared by objectives and metrics.

A gain is a word, a table, or an expression over columns: `0.7*label + 0.3*log1p(margin)`. Python's parser reads the
expression, but nothing is evaluated as code: the tree becomes nested NumPy operations. Only numbers, columns,
+ - * / **, comparisons and the functions in `FUNCTIONS` are allowed. Missing values propagate through every operation,
including comparisons; only `isnan` detects them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ParameterError, RowError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import Float64Array

LABEL = "label"
"""Name of the label in an expression, regardless of its column name."""
MOST_CHARACTERS = 2000
_MOST_NESTED = 100

Operation = Callable[..., Any]
Value = Callable[[Mapping[str, Float64Array]], Any]
"""Value of an expression or a part of it, given the columns."""


def _kept_missing(operation: Operation) -> Operation:
    """Propagate NaN, which NumPy does not do for comparisons, NaN ** 0 and 1 ** NaN."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, operation(a, b))


_OPERATORS: dict[type[ast.AST], Operation] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: _kept_missing(np.power),
    ast.UAdd: np.positive,
    ast.USub: np.negative,
    ast.Lt: _kept_missing(np.less),
    ast.LtE: _kept_missing(np.less_equal),
    ast.Gt: _kept_missing(np.greater),
    ast.GtE: _kept_missing(np.greater_equal),
    ast.Eq: _kept_missing(np.equal),
    ast.NotEq: _kept_missing(np.not_equal),
}
FUNCTIONS: dict[str, tuple[Operation, int, int]] = {
    "abs": (np.abs, 1, 1),
    "clip": (lambda x, low, high: np.minimum(np.maximum(x, low), high), 3, 3),
    "exp": (np.exp, 1, 1),
    "exp2": (np.exp2, 1, 1),
    "isnan": (np.isnan, 1, 1),
    "log": (np.log, 1, 1),
    "log1p": (np.log1p, 1, 1),
    "max": (lambda *values: reduce(np.maximum, values), 2, 20),
    "min": (lambda *values: reduce(np.minimum, values), 2, 20),
    "sqrt": (np.sqrt, 1, 1),
    "where": (lambda test, yes, no: np.where(np.isnan(test), np.nan, np.where(test != 0.0, yes, no)), 3, 3),
}
"""Allowed functions, with their fewest and most arguments."""

# Names are replaced by underscores before Python parses the text, to allow columns such as `if`, f.1 or `a b`.
_WORD = re.compile(rb"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|`[^`]+`|(?:[^\W\d]|[\x80-\xff])(?:[\w.]|[\x80-\xff])*")
_STRANGE = re.compile(rb"[^\d.eE+\-*/()<>=!, _]")


@dataclass(frozen=True, eq=False)
class GainExpression:
    """A gain as an expression over columns.

    Args:
        columns: column names in order of appearance; `label` is the label.
    """

    text: str
    columns: tuple[str, ...]
    _value: Value

    @classmethod
    def parse(cls, text: str) -> GainExpression:
        """Parse an expression.

        Raises:
            ParameterError: a part that is not allowed (with its position), no column, or a text that is too long.
        """
        text = text.strip()
        if len(text) > MOST_CHARACTERS:
            raise ParameterError(f"gain: an expression of {len(text):,} characters; at most {MOST_CHARACTERS:,}")
        reader = _Reader(text)
        value = reader.value(reader.tree())
        if not reader.columns:
            raise ParameterError(f"gain {text!r} names no column: it would be the same for every document")
        return cls(text, tuple(reader.columns), value)

    def evaluate(self, columns: Mapping[str, npt.ArrayLike]) -> Float64Array:
        """Compute the gains, float64[n]; overflow and division by zero give infinity or NaN.

        Args:
            columns: name -> float[n], for each name in the expression; NaN is missing.
        """
        given = {name: np.asarray(columns[name], np.float64) for name in self.columns}
        with np.errstate(all="ignore"):
            found = self._value(given)
        size = np.broadcast_shapes(*(values.shape for values in given.values()))
        return np.array(np.broadcast_to(found, size)) + 0.0  # -0 becomes 0


class _Reader:
    """Translate an expression into nested functions."""

    def __init__(self, text: str) -> None:
        self._text, self._bytes = text, text.encode(errors="replace")
        self.columns: dict[str, None] = {}

    def tree(self) -> ast.expr:
        plain = _WORD.sub(lambda word: word[0] if word[1] else b"_" * len(word[0]), re.sub(rb"\s", b" ", self._bytes))
        strange = _STRANGE.search(plain)
        if strange:
            found = self._bytes[strange.start() :].decode(errors="replace")[0]
            self._refuse(f"cannot read {found!r}", strange.start())
        try:
            return ast.parse(plain.decode(), mode="eval").body
        except SyntaxError as error:
            self._refuse(str(error.msg), (error.offset or 1) - 1)
        except (MemoryError, RecursionError, ValueError):
            self._refuse("nested too deep", 0)

    def value(self, node: ast.expr, depth: int = 0) -> Value:
        """Return the value of a node."""
        source = self._bytes[node.col_offset : node.end_col_offset].decode()
        if depth > _MOST_NESTED:
            self._refuse("nested too deep", node.col_offset)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            number = np.float64(source)
            return lambda columns: number
        if isinstance(node, ast.Name):
            name = source.strip("`")
            self.columns[name] = None
            return lambda columns: columns[name]
        operation, below = None, list[ast.expr]()
        if isinstance(node, ast.BinOp):
            operation, below = _OPERATORS.get(type(node.op)), [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            operation, below = _OPERATORS.get(type(node.op)), [node.operand]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            operation, below = _OPERATORS.get(type(node.ops[0])), [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            operation, below = self._function(node.func, len(node.args)), node.args
        if operation is None:
            self._refuse(f"{source!r} is not allowed", node.col_offset)
        values = [self.value(one, depth + 1) for one in below]
        return lambda columns: np.asarray(operation(*[value(columns) for value in values]), np.float64)

    def _function(self, node: ast.Name, count: int) -> Operation:
        name = self._bytes[node.col_offset : node.end_col_offset].decode()
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS, list_all=False)
            self._refuse(f"there is no function {name!r}.{hint}".rstrip("."), node.col_offset)
        operation, fewest, most = FUNCTIONS[name]
        if not fewest <= count <= most:
            upto = "" if most == fewest else f" to {most}"
            self._refuse(f"{name} takes {fewest}{upto} arguments, not {count}", node.col_offset)
        return operation

    def _refuse(self, words: str, at: int) -> NoReturn:
        character = len(self._bytes[:at].decode(errors="replace")) + 1
        shown = repr(self._text if len(self._text) <= 80 else self._text[:77] + "...")
        raise ParameterError(
            f"gain {shown}: {words}, at character {character}; an expression has numbers, columns (`in backquotes` "
            f"unless a plain name), + - * / **, comparisons and {', '.join(FUNCTIONS)}"
        )


# The engines' limit, too. Far above 2^31, one document outweighs all others in a float32 gradient.
MAX_EXPONENTIAL_LABEL = 31.0
_MOST_MAPPED = 32

Gain = str | Sequence[float]

_WORDS = dict.fromkeys(("exponential", "exp", "exp2"), "exponential") | dict.fromkeys(
    ("linear", "identity", "real"), "linear"
)


def expression_of(gain: Any) -> GainExpression | None:
    """Return the parsed expression if a gain is one, such as "0.7*label + 0.3*log1p(margin)"; otherwise None.

    Raises:
        ParameterError: text that is neither a word, a table nor an expression.
    """
    if not isinstance(gain, str) or not gain.strip() or gain.strip().lower() in _WORDS or _is_table(gain):
        return None
    return GainExpression.parse(gain)


def rule_of(gain: Any) -> str | tuple[float, ...]:
    """Return `parse_gain`, or "linear" for an expression, whose values replace the labels of a data set."""
    return parse_gain(gain) if expression_of(gain) is None else "linear"


def parse_gain(gain: Any) -> str | tuple[float, ...]:
    """Parse `"exponential"` (2^label - 1), `"linear"` (the label itself, real numbers allowed), or a table.

    A table lists the gains of the labels 0, 1, 2, ...: a sequence of numbers, or text such as "0,1,3,7".

    Raises:
        ParameterError: anything else, or a table with negative, infinite or decreasing entries.
    """
    if isinstance(gain, str):
        word = gain.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        if not _is_table(word):
            hint = did_you_mean(word, _WORDS, list_all=False) if word.isalpha() else ""
            raise ParameterError(
                f"gain={gain!r}: use 'exponential', 'linear', or a table such as '0,1,3,7,15'.{hint} An expression "
                "over columns is computed where columns are: by train, or RankingDataset.with_gain"
            )
        gain = word.split(",")
    try:
        table = tuple(float(entry) for entry in gain)
    except (TypeError, ValueError):
        raise ParameterError(f"gain={gain!r}: use 'exponential', 'linear', or a table such as '0,1,3,7,15'") from None
    if not table or not all(np.isfinite(table)) or min(table) < 0 or any(np.diff(table) < 0):
        raise ParameterError(f"gain table {table}: entries must be finite, >= 0 and never decrease")
    return table


def gains_from_labels(labels: npt.ArrayLike, gain: Any = "exponential") -> Float64Array:
    """Compute the gain of each document.

    Args:
        labels: float[N], finite and >= 0.
        gain: see `parse_gain`.

    Returns:
        float64[N], finite and >= 0.

    Raises:
        RowError: labels that are not finite, negative, too large for 2^label, or outside the table.
    """
    rule, y = parse_gain(gain), np.asarray(labels, dtype=np.float64)

    def refuse(bad: npt.NDArray[np.bool_], reason: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise RowError(row, f"label {y[row]:g} {reason}")

    refuse(~np.isfinite(y), "is not a finite number")
    if y.min(initial=0.0) < 0.0:
        pairs = label_map_from_zero(y)
        mend = f"; label_map={pairs!r} where files are read" if pairs else ""
        refuse(y < 0.0, f"is negative: relevance labels start at 0{mend}")
    if rule == "exponential":
        reason = (
            f"is above {MAX_EXPONENTIAL_LABEL:g}: a gain of 2^label - 1 would drown every other document; use "
            "gain='linear' or a gain table"
        )
        refuse(y > MAX_EXPONENTIAL_LABEL, reason)
        return np.exp2(y) - 1.0
    if rule == "linear":
        return y.copy()
    table, index = np.asarray(rule, dtype=np.float64), y.astype(np.int64)
    unknown = (index != y) | (index >= table.size)
    refuse(unknown, f"has no entry in the gain table of {table.size} labels (0 to {table.size - 1})")
    return np.asarray(table[index], dtype=np.float64)


def label_map_from_zero(labels: npt.ArrayLike) -> str:
    """Return a label map, as text, that shifts the lowest label to 0 (-1 alone: not judged); "" for many labels."""
    grades = np.unique(labels)
    if grades[0] == -1 and np.all(grades[1:] >= 0):
        return "-1=0"
    return ",".join(f"{old:g}={old - grades[0]:g}" for old in grades) if grades.size <= _MOST_MAPPED else ""


def _is_table(text: str) -> bool:
    try:
        return bool([float(entry) for entry in text.split(",")])
    except ValueError:
        return False


def weighted_gains(labels: npt.ArrayLike, gain: Gain, queries: QueryIndex) -> Float64Array:
    """Return `gains_from_labels` times the document weights, if any: float64[N].

    Raises:
        DataError: as `gains_from_labels`; products that overflow.
    """
    with queries.naming_rows():
        gains = gains_from_labels(labels, gain)
    if queries.document_weights is None:
        return gains
    with np.errstate(over="ignore"):
        weighted = gains * queries.document_weights
    beyond = np.flatnonzero(np.isinf(weighted))
    if beyond.size:
        raise queries.row_error(int(beyond[0]), "gain times weight overflows: rescale the weights")
    return weighted


def above_least(gains: Float64Array, queries: QueryIndex) -> Float64Array:
    """Return the gain of each document minus the smallest gain of its query, float64[N]."""
    # Append a sentinel, so that `reduceat` accepts the start of an empty last query.
    least = np.minimum.reduceat(np.append(gains, np.inf), queries.ptr[:-1])
    return np.asarray(gains - np.repeat(least, queries.sizes), dtype=np.float64)
