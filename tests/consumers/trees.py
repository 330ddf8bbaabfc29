"""Trees of an exported file: numbers read as Java reads them, and the documents that come to each
leaf.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import ModelError
from boostrank.core.types import Float32Array, Float64Array

Scorer: TypeAlias = Callable[[Float64Array], npt.NDArray[Any]]
"""Scores, one a row, of float64[n, d]."""

DECIMAL = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
JAVA_FLOAT = re.compile(rf"[+-]?(?:NaN|Infinity)|{DECIMAL}[fFdD]?")


class Number(str):
    """A number of a JSON file as its text: to what it is rounded depends on who reads it."""

    __slots__ = ()


class Leaf(NamedTuple):
    """A leaf, and what it adds."""

    value: Any


class Split(NamedTuple):
    """A split of a column; `missing` is where a missing value goes, in the consumer's own terms."""

    feature: int
    threshold: Any
    left: Leaf | Split
    right: Leaf | Split
    missing: Any = None


Node: TypeAlias = Leaf | Split


def outputs(
    root: Node, columns: npt.NDArray[Any], left: Callable[[npt.NDArray[Any], Split], Any]
) -> npt.NDArray[Any]:
    """Value[n] of the leaf that each document comes to.

    Args:
        root: the tree.
        columns: of features, [d, n], in the number type of the consumer, which is that of the
            values too.
        left: whether values go left at a split, bool[k].
    """
    values = np.empty(columns.shape[1], dtype=columns.dtype)
    waiting: list[tuple[Node, npt.NDArray[np.intp]]] = [(root, np.arange(columns.shape[1]))]
    while waiting:
        node, rows = waiting.pop()
        if isinstance(node, Leaf):
            values[rows] = node.value
        elif rows.size:
            goes_left = left(columns[node.feature][rows], node)
            waiting += [(node.left, rows[goes_left]), (node.right, rows[~goes_left])]
    return values


def float32_columns(features: Float64Array, *, absent: float = np.nan) -> Float32Array:
    """Features as float32[d, n], rounded to the nearest; NaN gives way to `absent`."""
    with np.errstate(over="ignore"):
        columns = np.ascontiguousarray(np.asarray(features).T, dtype=np.float32)
    return columns if np.isnan(absent) else np.where(np.isnan(columns), np.float32(absent), columns)


def float32(text: str) -> np.float32:
    """The float32 nearest to a decimal text, as `Float.parseFloat` rounds it: at once, not by way
    of a float64.
    """
    if not JAVA_FLOAT.fullmatch(text.strip()):
        raise ModelError(f"{text!r} is no number")
    text = text.strip().rstrip("fFdD")
    double = float(text)
    with np.errstate(over="ignore"):
        near = np.float32(double)
        other = np.nextafter(near, np.float32(np.copysign(np.inf, double - float(near))))
    if np.isfinite(other) and double - float(near) == float(other) - double != 0.0:
        # The float64 is a tie between two float32; the text may be on one side of it.
        exact = Fraction(text)
        if exact != double:
            return max(near, other) if exact > double else min(near, other)
    return near


@contextmanager
def shallow(consumer: str) -> Iterator[None]:
    """Refuses a file whose trees are so deep that reading them, level by level, exhausts the stack."""
    try:
        yield
    except RecursionError as error:
        raise ModelError(f"{consumer}: the file is nested too deeply") from error


def json_of(text: bytes | str, consumer: str) -> Any:
    """A JSON document with each number as a `Number`; what no JSON parser of Java's takes is
    refused.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            raise ModelError(
                f"{consumer}: {max(names, key=names.count)!r} stands twice in one object"
            )
        return content

    def refused(constant: str) -> Any:
        raise ModelError(f"{consumer}: {constant} is no JSON number")

    try:
        return json.loads(
            text,
            object_pairs_hook=once,
            parse_float=Number,
            parse_int=Number,
            parse_constant=refused,
        )
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{consumer}: no JSON: {error}") from error


def field(node: Mapping[str, Any], name: str, kind: type, consumer: str) -> Any:
    """A field of a JSON object, None when absent; of another kind it is refused."""
    value = node.get(name)
    if name in node and type(value) is not kind:
        words = {Number: "number", str: "string", bool: "boolean", list: "array", dict: "object"}
        raise ModelError(f"{consumer}: {name!r} must be of the kind {words[kind]}")
    return value


def integer(text: str, name: str, consumer: str) -> int:
    """An integer of 32 bits, as Java's int."""
    if not re.fullmatch(r"[+-]?\d{1,10}", text) or not -(2**31) <= int(text) < 2**31:
        raise ModelError(f"{consumer}: {name!r} must be an integer, not {text}")
    return int(text)


def check_fields(node: Any, names: Collection[str], what: str, consumer: str) -> None:
    """Refuses what is no JSON object, and fields that the consumer does not know."""
    if type(node) is not dict:
        raise ModelError(f"{consumer}: {what} must be an object")
    unknown = node.keys() - set(names)
    if unknown:
        raise ModelError(f"{consumer}: unknown field {min(unknown)!r} in {what}")
