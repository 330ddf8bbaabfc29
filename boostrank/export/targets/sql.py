"""sql: SQL query: a sum of CASE expressions, one per tree, or of weights, in standard SQL.

Numbers are double precision, because databases round to float32 differently. XGBoost's thresholds
are moved to the points where rounding to float32 changes, so every document reaches the same leaf.
SQLite parses one decimal in 20,000 with an error of a float64 unit, so only float32 precision is
guaranteed. It scores 500 rows per second with 500 trees of 63 leaves and a start, so use it for
small models or few rows.

A node's larger child continues the same CASE, and only the smaller child is nested, as SQLite
parses 20 levels.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from boostrank.core.types import Array, Float32Array, Float64Array, Int64Array
from boostrank.engines.served.rules import Rules
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec, nested
from boostrank.kernels.curves import LOWEST, ZERO
from boostrank.kernels.forest import LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING, Forest

# SQLite and DuckDB limit expressions to 1,000 levels; each tree takes one.
_MOST_TREES = 900
_MOST_NESTED = 15
_MOST_COLUMNS = 2_000
_MOST_BYTES = 32_000_000


class _Case(NamedTuple):
    """The body of a CASE (WHEN ... THEN ... ELSE ...), or of a leaf (ELSE ...), the number of its
    leaves, and its depth of nested CASEs.
    """

    body: str
    leaves: int = 1
    depth: int = 0

    @property
    def text(self) -> str:
        """The whole expression."""
        if self.leaves == 1:
            return self.body.removeprefix("ELSE ")
        return f"CASE {self.body} END"


def _write(model: ServedModel) -> bytes:
    trees, forest = model.trees, model.trees.forest
    names = [f"d.{_quoted(name)}" for name in model.feature_names]
    # The largest value that goes left at each node.
    limits = _turns(forest.threshold.astype(np.float32)) if trees.single else forest.threshold

    def write_node(node: int, left: _Case, right: _Case) -> _Case:
        name, limit = names[forest.feature[node]], limits[node]
        test, right_test = _test_node(forest, node, name, limit)
        smaller, larger = left, right
        if left.leaves > right.leaves:
            smaller, larger, test = right, left, right_test
        return _Case(
            f"WHEN {test} THEN {smaller.text} {larger.body}",
            leaves=left.leaves + right.leaves,
            depth=max(smaller.depth + 1, larger.depth),
        )

    cases = nested(
        forest, lambda value: _Case(f"ELSE {_number(value)}"), write_node, depth_limit=4096
    )
    text = _query(model, trees.base, [case.text for case in cases])
    # Limits of SQLite and DuckDB.
    depth = max((case.depth for case in cases), default=0)
    n_columns = forest.used.size
    for number, limit, quantity in (
        (depth, _MOST_NESTED, "nested CASEs, the limit of SQLite's parser"),
        (len(text), _MOST_BYTES, "bytes"),
        (n_columns, _MOST_COLUMNS, "features, the limit of SQLite's tables"),
    ):
        if number > limit:
            raise ExportError(
                f"{number:,} is more than {limit:,} {quantity}; train fewer or smaller trees, or"
                " choose another target (c; onnx without categories)"
            )
    return text.encode()


def _query(model: ServedModel, base: float, terms: Sequence[str]) -> str:
    return "\n".join(
        [
            (
                f"-- Scores of the ranker {json.dumps(model.name)}: higher is better within a"
                " query. Written by boostrank."
            ),
            "-- Missing values are NULL, not NaN; set the table name in the last line.",
            f"SELECT d.*,\nCAST({_number(base)} AS DOUBLE PRECISION)",
            *(f"+ {term}" for term in terms),
            "AS score\nFROM documents AS d\n",
        ]
    )


def _write_linear(model: ServedModel) -> bytes:
    """Write the sum of weighted columns, in which COALESCE replaces missing values."""
    linear = model.linear.folded()
    if linear.used.size > _MOST_TREES:
        raise ExportError(
            f"the model weighs {linear.used.size:,} features, more than {_MOST_TREES:,}, the limit"
            " of SQL's expressions: train with fewer, or choose another target (onnx, c)"
        )
    terms = [
        f"{_number(linear.weights[column])} * COALESCE(d.{_quoted(model.feature_names[column])},"
        f" {_number(linear.missing[column])})"
        for column in linear.used
    ]
    return _query(model, linear.bias, terms).encode()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _name_fault(names: Sequence[str]) -> str | None:
    first_names = {"score": "the score"}
    pairs = ((first_names.setdefault(name.lower(), name), name) for name in names)
    clash = next((pair for pair in pairs if pair[0] != pair[1] or "\0" in pair[1]), None)
    if clash is None:
        return None
    return "{!r} and {!r} are the same column in SQL, which ignores case".format(*clash)


def _test_node(forest: Forest, node: int, name: str, limit: float) -> tuple[str, str]:
    """Return the conditions for going left and right at a node on the column `name`, each of which
    is false or NULL otherwise.

    Args:
        limit: the largest value that goes left.
    """
    kind = forest.kind[node]
    nan_left = kind & NAN_LEFT != 0
    if forest.categorical[node]:
        listed_right = kind & LISTED_RIGHT != 0
        codes = forest.categories(int(forest.threshold[node]))
        is_listed = _list_codes(name, codes, in_float32=listed_right)
        left, right = is_listed, f"NOT {is_listed}"
        if listed_right:
            left, right = right, left
    elif limit == np.inf:
        left, right = f"{name} IS NOT NULL", "1 = 0"
    elif np.isnan(limit):
        left, right = "1 = 0", f"{name} IS NOT NULL"
    elif limit == -np.inf:
        left, right = f"{name} < {_number(LOWEST)}", f"{name} >= {_number(LOWEST)}"
    else:
        left, right = f"{name} <= {_number(limit)}", f"{name} > {_number(limit)}"
    # Missing values satisfy the condition of one side.
    with_missing, without = (left, right) if nan_left else (right, left)
    if kind & ZERO_IS_MISSING:
        is_zero = f"{name} BETWEEN {_number(-ZERO)} AND {_number(ZERO)}"
        with_missing, without = f"({with_missing} OR {is_zero})", f"({without} AND NOT {is_zero})"
    with_missing = f"({with_missing} OR {name} IS NULL)"
    return (with_missing, without) if nan_left else (without, with_missing)


def _list_codes(name: str, codes: Int64Array, *, in_float32: bool) -> str:
    """Return the condition that a truncated value is one of the codes."""
    runs = np.split(codes, 1 + np.flatnonzero(np.diff(codes) > 1)) if codes.size else []
    tests = []
    for run in runs:
        first_code, last_code = run[[0, -1]].astype(np.float64)
        if in_float32:  # values that round to a negative number are no category
            ends = np.nextafter(np.array([first_code, last_code + 1.0], np.float32), -np.inf)
            low, high = map(_number, _turns(ends).tolist())
            tests.append(f"{name} > {low} AND {name} <= {high}")
        else:
            low = f"{name} >= {_number(first_code)}" if first_code else f"{name} > -1e0"
            tests.append(f"{low} AND {name} < {_number(last_code + 1.0)}")
    while len(tests) > 1:
        tests = [f"({' OR '.join(tests[i : i + 2])})" for i in range(0, len(tests), 2)]
    return f"({tests[0]})" if tests else f"({name} IS NULL AND {name} IS NOT NULL)"


def _turns(numbers: Float32Array) -> Float64Array:
    """Return the largest float64 numbers that round to the given float32 numbers or to lower
    ones.
    """
    neighbours = np.array([numbers, np.nextafter(numbers, np.inf)], np.float64)
    # Beyond the largest float32 number, rounding uses the next power of two.
    midpoints = np.clip(neighbours, -(2.0**128), 2.0**128).mean(axis=0)
    with np.errstate(over="ignore"):
        rounds_down = midpoints.astype(np.float32) <= numbers
    turns = np.where(rounds_down, midpoints, np.nextafter(midpoints, -np.inf))
    return np.where(numbers == np.inf, np.inf, turns)


def _number(number: float) -> str:
    """Format a number with an exponent, because SQL uses decimal arithmetic without one, and sums
    would differ.
    """
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    text = body.decode()
    used_names = {name.replace('""', '"') for name in re.findall(r'd\."((?:[^"]|"")*)"', text)}
    used_columns = [i for i, name in enumerate(feature_names) if name in used_names] or [0]
    columns = ", ".join(f"{_quoted(feature_names[i])} REAL" for i in used_columns)
    query = f"SELECT score FROM (\n{text})"

    def score(rows: Array) -> Array:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(f"CREATE TABLE documents ({columns})")
            placeholders = ", ".join("?" * len(used_columns))
            connection.executemany(
                f"INSERT INTO documents VALUES ({placeholders})",
                rows[:, used_columns].astype(np.float64).tolist(),
            )
            return np.array(connection.execute(query).fetchall(), np.float64).reshape(-1)

    return score


SPEC = TargetSpec(
    name="sql",
    title="a SQL query",
    write=_write,
    read=_read,
    proved_by=f"SQLite {sqlite3.sqlite_version}",
    how="""\
Set the table name in the last line of {file}; it needs one DOUBLE PRECISION column per feature.
Run it, or create a view from it: each row gets a score. NULL is a missing value, NaN is not.
It runs in SQLite and DuckDB; DuckDB takes minutes to plan hundreds of large trees.
""",
    rules=Rules(gives=np.float32),
    most_rows=2_000,
    most_trees=_MOST_TREES,
    zeros=True,
    name_fault=_name_fault,
    linear={"write": _write_linear, "rules": Rules(), "most_rows": 20_000},
)
