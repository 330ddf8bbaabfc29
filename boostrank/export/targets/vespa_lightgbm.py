"""Vespa: LightGBM's JSON, which holds categories."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from boostrank.export.consumers.vespa import read
from boostrank.export.target import (
    ExportError,
    ServedModel,
    TargetSpec,
    above,
    cuts,
    missing_goes_left,
    nested,
    shortest,
)
from boostrank.export.targets import vespa
from boostrank.kernels.trees.walker import LISTED_RIGHT

_MOST_CATEGORIES = 2**20


def write(model: ServedModel) -> bytes:
    """As LightGBM dumps it, but thresholds are right above those: Vespa compares with `<`.

    Numbers are float32 numbers, for Vespa rounds to float32 in large models.
    """
    vespa.check_names(model)
    forest = model.trees.forest
    conditions, left = above(cuts(forest)), missing_goes_left(forest).tolist()
    listed_right = (forest.kind & LISTED_RIGHT) != 0
    categorical = np.unique(forest.feature[forest.categorical])

    def exactly(number: Any) -> float:
        return float(np.float32(shortest(number)))

    def leaf(index: int) -> dict[str, Any]:
        return {"leaf_value": exactly(forest.value[index])}

    def node(index: int, yes: Any, no: Any) -> dict[str, Any]:
        feature = {"split_feature": int(forest.feature[index])}
        if not forest.categorical[index]:
            condition = {"threshold": exactly(conditions[index]), "decision_type": "<=", "default_left": left[index]}
            return feature | condition | {"left_child": yes, "right_child": no}
        codes = "||".join(map(str, forest.categories(int(forest.threshold[index])).tolist()))
        swapped = bool(listed_right[index])
        condition = {"threshold": codes, "decision_type": "==", "default_left": left[index] != swapped}
        first, second = (no, yes) if swapped else (yes, no)
        return feature | condition | {"left_child": first, "right_child": second}

    base = [{"leaf_value": exactly(model.trees.base)}] if model.trees.base else []
    trees = base + nested(forest, leaf, node)
    count = 32 * int(np.diff(forest.set_ptr).max(initial=0))
    if count > _MOST_CATEGORIES:
        raise ExportError(
            f"a split by one of {count:,} categories: the file would list them all, and more than {_MOST_CATEGORIES:,} "
            "are not written; train with fewer, or write another form"
        )
    codes = list(range(count))
    document = {
        "name": "tree", "version": "v4", "objective": "lambdarank", "feature_names": list(model.feature_names),
        "feature_infos": {model.feature_names[column]: {"values": codes} for column in categorical.tolist()},
        "pandas_categorical": [codes] * categorical.size,
        "tree_info": [{"tree_index": i, "tree_structure": tree} for i, tree in enumerate(trees)],
    }  # fmt: skip
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


SPEC = TargetSpec(
    name="vespa-lightgbm",
    title="Vespa 8, as LightGBM's JSON",
    write=write,
    read=read,
    proved_by="an emulator of Vespa's LightGBMParser",
    how=(
        vespa.SPEC.how[0],
        'profile:  first-phase {{ expression: lightgbm("{file}") }}, or in second-phase or a function',
        vespa.SPEC.how[2],
    ),
    adds="float64",
    gives="float64",
    finite=True,
)
