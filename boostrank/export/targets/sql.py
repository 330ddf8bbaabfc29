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
from dataclasses import replace

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
_Part = tuple[str, int, int]
"""The body of a CASE (WHEN ... THEN ... ELSE ...), its number of leaves, and its depth of nested
CASEs.
"""


def _write(model: ServedModel) -> bytes:
    trees, forest = model.trees, model.trees.forest
    names = [_quoted(name) for name in model.feature_names]
    # The largest value that goes left at each node.
    limits = (
        _turns(forest.threshold.astype(np.float32)) if trees.single else forest.threshold
    ).tolist()

    def node(i: int, left: _Part, right: _Part) -> _Part:
        goes_left, goes_right = _tests(
            forest.kind[i], names[forest.feature[i]], limits[i], forest, i
        )
        small, large, test = (
            (left, right, goes_left) if left[1] <= right[1] else (right, left, goes_right)
        )
        continued = large[0] if large[0].startswith("WHEN") else f"ELSE {large[0]}"
        return (
            f"WHEN {test} THEN {_case(small)} {continued}",
            left[1] + right[1],
            max(small[2] + 1, large[2]),
        )

    cases = nested(forest, lambda value: (_number(value), 1, 0), node, most=4096)
    text = _query(model, trees.base, [_case(part) for part in cases])
    # Limits of SQLite and DuckDB.
    for number, most, what in (
        (
            max((part[2] for part in cases), default=0),
            _MOST_NESTED,
            "nested CASEs, the limit of SQLite's parser",
        ),
        (len(text), _MOST_BYTES, "bytes"),
        (forest.used.size, _MOST_COLUMNS, "features, the limit of SQLite's tables"),
    ):
        if number > most:
            raise ExportError(
                f"{number:,} is more than {most:,} {what}; train fewer or smaller trees, or choose"
                " another target (onnx, c)"
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
    assert model.linear is not None
    linear = model.linear.folded()
    if linear.used.size > _MOST_TREES:
        raise ExportError(
            f"the model weighs {linear.used.size:,} features, more than {_MOST_TREES:,}, the limit"
            " of SQL's expressions: train with fewer, or choose another target (onnx, c)"
        )
    terms = [
        f"{_number(linear.weights[j])} * COALESCE({_quoted(model.feature_names[j])},"
        f" {_number(linear.missing[j])})"
        for j in linear.used
    ]
    return _query(model, linear.bias, terms).encode()


def _quoted(name: str) -> str:
    return 'd."' + name.replace('"', '""') + '"'


def _case(part: _Part) -> str:
    return f"CASE {part[0]} END" if part[0].startswith("WHEN") else part[0]


def _name_fault(names: Sequence[str]) -> str | None:
    seen = {"score": "the score"}
    pairs = ((seen.setdefault(name.lower(), name), name) for name in names)
    pair_of_names = next((pair for pair in pairs if pair[0] != pair[1] or "\0" in pair[1]), None)
    if pair_of_names is None:
        return None
    return "{!r} and {!r} are the same column in SQL, which ignores case".format(*pair_of_names)


def _tests(kind: int, name: str, limit: float, forest: Forest, i: int) -> tuple[str, str]:
    """Return the conditions for left and right. Each condition is false or NULL otherwise."""
    nan_left = kind & NAN_LEFT != 0
    if forest.categorical[i]:
        listed_right = kind & LISTED_RIGHT != 0
        listed, other = _listed(name, forest.categories(int(forest.threshold[i])), listed_right)
        left, right = (other, listed) if listed_right else (listed, other)
    elif np.isnan(limit) or limit == np.inf:
        left, right = ("1 = 0", f"{name} IS NOT NULL")[:: -1 if limit == np.inf else 1]
    elif limit == -np.inf:
        left, right = f"{name} < {_number(LOWEST)}", f"{name} >= {_number(LOWEST)}"
    else:
        left, right = f"{name} <= {_number(limit)}", f"{name} > {_number(limit)}"
    if kind & ZERO_IS_MISSING:
        zero = f"{name} BETWEEN {_number(-ZERO)} AND {_number(ZERO)}"
        left = f"({left} OR {zero})" if nan_left else f"({left} AND NOT {zero})"
        right = f"({right} AND NOT {zero})" if nan_left else f"({right} OR {zero})"
    return (
        (f"({left} OR {name} IS NULL)", right)
        if nan_left
        else (left, f"({right} OR {name} IS NULL)")
    )


def _listed(name: str, categories: Int64Array, single: bool) -> tuple[str, str]:
    """Return the conditions that a truncated value is one of the categories, and that it is not."""
    runs = (
        np.split(categories, 1 + np.flatnonzero(np.diff(categories) > 1)) if categories.size else []
    )
    tests = []
    for first, last in ((float(run[0]), float(run[-1])) for run in runs):
        if single:  # values that round to a negative number are no category
            low, high = _turns(
                np.nextafter(np.array([first, last + 1.0], np.float32), -np.inf)
            ).tolist()
            tests.append(f"{name} > {_number(low)} AND {name} <= {_number(high)}")
        else:
            low = f"{name} >= {_number(first)}" if first else f"{name} > -1e0"
            tests.append(f"{low} AND {name} < {_number(last + 1.0)}")
    while len(tests) > 1:
        tests = [f"({' OR '.join(tests[i : i + 2])})" for i in range(0, len(tests), 2)]
    inside = f"({tests[0]})" if tests else f"({name} IS NULL AND {name} IS NOT NULL)"
    return inside, f"NOT {inside}"


def _turns(numbers: Float32Array) -> Float64Array:
    """Return the largest float64 numbers that round to the given float32 numbers or to lower
    ones.
    """
    after = np.nextafter(numbers, np.inf).astype(np.float64)
    # Beyond the largest float32 number, rounding uses the next power of two.
    low = np.clip(numbers.astype(np.float64), -(2.0**128), 2.0**128)
    after = np.clip(after, -(2.0**128), 2.0**128)
    middle = low + (after - low) / 2
    with np.errstate(over="ignore"):
        kept = middle.astype(np.float32) <= numbers
    turns = np.where(kept, middle, np.nextafter(middle, -np.inf))
    return np.where(numbers == np.inf, np.inf, turns)


def _number(number: float) -> str:
    """Format a number with an exponent, because SQL uses decimal arithmetic without one, and sums
    would differ.
    """
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    text = body.decode()
    used = {name.replace('""', '"') for name in re.findall(r'd\."((?:[^"]|"")*)"', text)}
    places = [i for i, name in enumerate(feature_names) if name in used] or [0]
    columns = ", ".join('"' + feature_names[i].replace('"', '""') + '" REAL' for i in places)
    query = f"SELECT score FROM (\n{text})"

    def score(rows: Array) -> Array:
        with closing(sqlite3.connect(":memory:")) as base:
            base.execute(f"CREATE TABLE documents ({columns})")
            marks = ", ".join("?" * len(places))
            base.executemany(
                f"INSERT INTO documents VALUES ({marks})",
                rows[:, places].astype(np.float64).tolist(),
            )
            return np.array(base.execute(query).fetchall(), np.float64).reshape(-1)

    return score


_TREES = TargetSpec(
    name="sql",
    title="a SQL query",
    write=_write,
    read=_read,
    proved_by=f"SQLite {sqlite3.sqlite_version}",
    how=(
        (
            "Set the table name in the last line of {file}; it needs one DOUBLE PRECISION column"
            " per feature."
        ),
        (
            "Run it, or create a view from it: each row gets a score. NULL is a missing value, NaN"
            " is not."
        ),
        "It runs in SQLite and DuckDB; DuckDB takes minutes to plan hundreds of large trees.",
    ),
    rules=Rules(gives=np.float32),
    most_rows=2_000,
    most_trees=_MOST_TREES,
    zeros=True,
    name_fault=_name_fault,
)
SPEC = replace(
    _TREES,
    linear=replace(
        _TREES, engine="linear", write=_write_linear, rules=Rules(), most_rows=20_000, finite=True
    ),
)
