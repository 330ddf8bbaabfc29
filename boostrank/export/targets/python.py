"""python: Python module without dependencies: a table of the nodes of all trees, and a loop over them.

Nested conditions would fail: Python's parser limits nesting to 100 to 200 levels. A table also compiles faster.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING

_TEXT = '''"""Scores of the ranker {title}: higher is better within a query. Written by boostrank.

score([value of each of FEATURES]) or score_named({{feature: value}}); None and NaN are missing values.
"""

from array import array

FEATURES = {features}
_NUMBER = "{number}"  # type of values and of the sum of leaves: d: float64, f: float32
_NAN = float("nan")
_INF = float("inf")


def score(features):
    """Return the score of one document from {count} values in the order of FEATURES."""
    if len(features) != {count}:
        raise ValueError("expected {count} features, not %d" % len(features))
    row = array(_NUMBER, [_NAN if value is None else value for value in features])
    total = array(_NUMBER, [{base!r}])
    for node in _ROOTS:
        while node >= 0:
            feature, threshold, kind, left, right = _NODES[node]
            value = row[feature]
            if kind:
                node = left if _goes_left(value, threshold, kind) else right
            else:
                node = left if value <= threshold else right
        total[0] += _LEAVES[~node]
    return total[0]


def score_named(features):
    """Return the score of one document from values by name; absent names are missing values."""
    unknown = [name for name in features if name not in _NAMES]
    if unknown:
        raise KeyError("the model has no feature %r" % unknown[0])
    return score([features.get(name) for name in FEATURES])


def _goes_left(value, threshold, kind):
    if value != value:
        return kind & {nan_left} != 0
    if kind & {categorical}:
        whole = -1.0 < value < 16777216.0 and not (value < 0.0 and kind & {listed_right})
        return (whole and int(value) in _SETS[threshold]) != (kind & {listed_right} != 0)
    if kind & {zero} and abs(value) <= {tiny!r}:
        return kind & {nan_left} != 0
    return value <= threshold


_NAMES = frozenset(FEATURES)
# Sets of categories.
_SETS = [{sets}]
# Feature, threshold or set, kind ({nan_left}: missing values go left), children: a node, or ~leaf.
_NODES = [
{nodes}
]
_LEAVES = {leaves}
_ROOTS = {roots}
'''


def _write(model: ServedModel) -> bytes:
    trees, forest = model.trees, model.trees.forest
    categorical = forest.categorical
    sets = (f"frozenset({forest.categories(i).tolist()})" for i in range(forest.set_ptr.size - 1))
    thresholds = [
        str(int(number)) if is_set else _literal(number)
        for number, is_set in zip(forest.threshold.tolist(), categorical.tolist(), strict=True)
    ]
    columns = (forest.feature, thresholds, forest.kind, forest.left, forest.right)
    nodes = zip(*(c if isinstance(c, list) else c.tolist() for c in columns), strict=True)
    text = _TEXT.format(
        title=json.dumps(model.name)[1:-1].replace("\\", "/"),
        features=ascii(list(model.feature_names)),
        number="f" if trees.single else "d",
        count=len(model.feature_names),
        base=trees.base,
        nan_left=NAN_LEFT,
        categorical=CATEGORICAL,
        listed_right=LISTED_RIGHT,
        zero=ZERO_IS_MISSING,
        tiny=ZERO,
        sets=", ".join(sets),
        nodes="\n".join(f"({f}, {t}, {k}, {a}, {b})," for f, t, k, a, b in nodes),
        leaves=json.dumps(forest.value.tolist()),
        roots=json.dumps(forest.roots.tolist()),
    )
    return text.encode()


def _literal(number: float) -> str:
    return {"inf": "_INF", "-inf": "-_INF", "nan": "_NAN"}.get(repr(number), repr(number))


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    module: dict[str, Any] = {}
    exec(compile(body, "exported model", "exec"), module)
    if module["FEATURES"] != list(feature_names):
        raise ExportError("the module has different feature names")

    def score(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.array([module["score"](row) for row in rows.tolist()], np.float64)

    return score


SPEC = TargetSpec(
    name="python",
    title="a Python module without dependencies",
    write=_write,
    read=_read,
    proved_by="Python itself",
    how=(
        "Copy {file} next to the program as NAME.py (letters, digits and _) and import it; it needs only Python 3.",
        "score([value of each of FEATURES]) returns the score of a document; None and NaN are missing values.",
        "score_named({{name: value}}) takes values by name; absent names are missing values.",
    ),
    leaves="float64",
    adds="float64",
    gives="float64",
    exact=("lightgbm", "xgboost"),
    most_rows=2_000,
)
