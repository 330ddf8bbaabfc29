"""Edits of an XGBoost model in JSON, and a tree of any depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.model.real_models import xgboost_models

Edit = Callable[[dict[str, Any]], None]


def get_forest(model: dict[str, Any]) -> dict[str, Any]:
    return model["learner"]["gradient_booster"]["model"]


def set_in_forest(*path: str | int) -> Edit:
    """Set a value inside the forest: the path, then the value."""

    def edit(model: dict[str, Any]) -> None:
        owner: Any = get_forest(model)
        for key in path[:-2]:
            owner = owner[key]
        owner[path[-2]] = path[-1]

    return edit


def set_in_tree(*path: str | int) -> Edit:
    return set_in_forest("trees", 0, *path)


def set_in_learner(*path: Any) -> Edit:
    def edit(model: dict[str, Any]) -> None:
        owner = model["learner"]
        for key in path[:-2]:
            owner = owner[key]
        owner[path[-2]] = path[-1]

    return edit


def make_chain(depth: int) -> bytes:
    """A tree whose every right child is the next node."""
    model = json.loads(xgboost_models()["one leaf"])
    tree = get_forest(model)["trees"][0]
    n = 2 * depth + 1
    inner = [i % 2 == 0 and i < n - 1 for i in range(n)]
    tree["left_children"] = [i + 1 if inner[i] else -1 for i in range(n)]
    tree["right_children"] = [i + 2 if inner[i] else -1 for i in range(n)]
    tree["parents"] = [2**31 - 1, *((i - 1) // 2 * 2 for i in range(1, n))]
    for key in ("split_indices", "default_left", "split_type"):
        tree[key] = [0] * n
    for key in ("split_conditions", "base_weights", "loss_changes", "sum_hessian"):
        tree[key] = [0.5] * n
    tree["tree_param"]["num_nodes"] = str(n)
    return json.dumps(model).encode()
