"""vespa: Vespa 8, as XGBoost's JSON dump, or as a ranking expression for linear models.
vespa-lightgbm: Vespa 8, as LightGBM's JSON, which holds categories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from boostrank.core.text import count_of
from boostrank.core.types import Json
from boostrank.engines.served import lightgbm_dump
from boostrank.engines.served.linear import LinearScore
from boostrank.engines.served.rules import Rules
from boostrank.engines.served.search_plugins import read_roots
from boostrank.export.target import (
    ExportError,
    Score,
    ServedModel,
    TargetSpec,
    above,
    cuts,
    exactly,
    missing_goes_left,
    nested,
)
from boostrank.export.targets.search_plugins import dump
from boostrank.kernels.forest import LISTED_RIGHT

_MOST_CATEGORIES = 2**20
# Rank features in a ranking expression: `attribute(price)`, `fieldMatch(title).completeness`, `f1`.
_FEATURE = re.compile(
    r"[A-Za-z_@][A-Za-z0-9_@$]*(\([A-Za-z0-9_@$.]+(,[A-Za-z0-9_@$.]+)*\)(\.[A-Za-z0-9_@$.]+)?)?"
)
# Names that Vespa always parses as functions of ranking expressions.
_FUNCTIONS = """
argmax argmin atan2 avg bit ceil cell_cast concat cosine_similarity count diag elu erf
euclidean_distance exp expand fabs filter_subspaces floor fmod hamming if isNan join l1_normalize
l2_normalize ldexp log log10 map map_subspaces matmul max median merge min pow prod range reduce
relu rename sigmoid softmax sqrt sum switch tensor unpack_bits xw_plus_b
"""
_FUNCTION = re.compile(rf"({'|'.join(_FUNCTIONS.split())}|a?(cos|sin|tan)|(cos|sin|tan)h)\(.*")


def _name_fault(names: Sequence[str]) -> str | None:
    unfit_names = [
        name for name in names if not _FEATURE.fullmatch(name) or _FUNCTION.fullmatch(name)
    ]
    fault = "is not a rank feature of Vespa, such as attribute(price) or bm25(title)"
    return (
        f"{unfit_names[0]!r} {fault} ({count_of(len(unfit_names), 'such name')})"
        if unfit_names
        else None
    )


def _write(model: ServedModel) -> bytes:
    """Write XGBoost's dump in float32 numbers, because Vespa reads float64 numbers, or float32 in
    large models.
    """
    return (json.dumps(dump(model, exact_text=True), indent=0) + "\n").encode()


def _write_lightgbm(model: ServedModel) -> bytes:
    """Write LightGBM's dump in float32 numbers, with the next larger thresholds, because Vespa
    compares with `<`.
    """
    forest = model.trees.forest
    conditions, left = above(cuts(forest)), missing_goes_left(forest).tolist()
    listed_right = (forest.kind & LISTED_RIGHT) != 0
    categorical = np.unique(forest.feature[forest.categorical])

    def node(index: int, yes: Any, no: Any) -> Json:
        test: float | str = exactly(conditions[index])
        kind, goes_left = "<=", left[index]
        if forest.categorical[index]:
            codes = forest.categories(int(forest.threshold[index]))
            test, kind = "||".join(map(str, codes.tolist())), "=="
            if listed_right[index]:
                yes, no, goes_left = no, yes, not goes_left
        return {
            "split_feature": int(forest.feature[index]),
            "threshold": test,
            "decision_type": kind,
            "default_left": goes_left,
            "left_child": yes,
            "right_child": no,
        }

    trees = nested(forest, lambda value: {"leaf_value": exactly(value)}, node, model.trees.base)
    count = 32 * int(np.diff(forest.set_ptr).max(initial=0))
    if count > _MOST_CATEGORIES:
        raise ExportError(
            f"a categorical split has {count:,} categories, more than the maximum of"
            f" {_MOST_CATEGORIES:,}: train with fewer categories, or choose another target"
        )
    codes = list(range(count))
    # Codes are their own names, up to the highest one.
    document = {
        "name": "tree",
        "version": "v4",
        "objective": "lambdarank",
        "feature_names": list(model.feature_names),
        "feature_infos": {
            model.feature_names[column]: {"values": codes} for column in categorical.tolist()
        },
        "pandas_categorical": [codes] * categorical.size,
        "tree_info": [{"tree_index": i, "tree_structure": tree} for i, tree in enumerate(trees)],
    }
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _write_linear(model: ServedModel) -> bytes:
    """Write one term a line, with its value for missing attributes."""
    assert model.linear is not None
    linear = model.linear.folded()
    lines = [repr(linear.bias)]
    for column in linear.used:
        name, fill_value = model.feature_names[column], float(linear.missing[column])
        weight = float(linear.weights[column])
        lines.append(f"+ {weight!r} * if(isNan({name}), {fill_value!r}, {name})")
    return "\n".join([*lines, ""]).encode()


def _read_linear(body: bytes, names: Sequence[str]) -> Score:
    bias, *terms = body.decode().splitlines()
    weights, fill_values = np.zeros((2, len(names)))
    pattern = r"\+ (\S+) \* if\(isNan\(.*\), (\S+), (.*)\)"
    for term in terms:
        weight, fill_value, name = re.findall(pattern, term)[0]
        column = names.index(name)
        weights[column], fill_values[column] = float(weight), float(fill_value)
    linear = LinearScore.of_weights(weights, fill_values, float(bias))
    return lambda rows: linear.score(rows, Rules())


VESPA = TargetSpec(
    name="vespa",
    title="Vespa 8, as XGBoost's JSON",
    write=_write,
    parse=read_roots,
    rules=Rules(strict=True, leaves=np.float32, equal_categories=True),
    proved_by="reading the file by the rules of Vespa's XGBoostParser",
    how=(
        (
            "file:     {file}, whose name must end in .json, into models/ of the application"
            " package; then `vespa deploy`"
        ),
        (
            'profile:  first-phase {{ expression: xgboost("{file}") }}, or in second-phase or a'
            " function"
        ),
        (
            "features: named as in the rank profile; absent values are missing for attribute() and"
            " 0 for query()"
        ),
    ),
    finite=True,
    categories=False,
    name_fault=_name_fault,
)
_LINEAR = replace(
    VESPA,
    title="Vespa 8, as a ranking expression",
    write=_write_linear,
    read=_read_linear,
    parse=None,
    engine="linear",
    rules=Rules(),
    proved_by="reading the file by the rules of Vespa's ranking expressions",
    how=(
        "file:     {file}, whose name must end in .expression, into the folder of the schema; then"
        " `vespa deploy`",
        "profile:  first-phase {{ expression: file:{file} }}, or in second-phase or a function",
        VESPA.how[2],
    ),
)
SPECS = (
    replace(VESPA, linear=_LINEAR),
    replace(
        VESPA,
        name="vespa-lightgbm",
        title="Vespa 8, as LightGBM's JSON",
        write=_write_lightgbm,
        parse=lambda document, names: lightgbm_dump.read(document),
        proved_by="reading the file by the rules of Vespa's LightGBMParser",
        how=(
            VESPA.how[0],
            (
                'profile:  first-phase {{ expression: lightgbm("{file}") }}, or in second-phase or'
                " a function"
            ),
            VESPA.how[2],
        ),
        categories=True,
    ),
)
