"""Table of XGBoost's nodes, with the columns of LightGBM's `trees_to_dataframe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tree_table(booster: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """Nodes and leaves of all trees; see `engines.base.Backend.tree_table`.

    What fulfils the decision goes left, as in LightGBM's table: of a split by categories, those that are listed.
    """
    nodes = booster.trees_to_dataframe()
    inside = booster.feature_names or [f"f{i}" for i in range(booster.num_features())]
    real = dict(zip(inside, names, strict=True))
    kinds = [feature == "Leaf" for feature in nodes["Feature"]]
    own = [
        f"{tree}-{'L' if leaf else 'S'}{node}"
        for tree, node, leaf in zip(nodes["Tree"], nodes["Node"], kinds, strict=True)
    ]
    place = {node: i for i, node in enumerate(nodes["ID"])}
    parent: list[int | None] = [None] * len(own)
    children: dict[str, list[int | None]] = {}
    for side in ("Yes", "No"):
        children[side] = [None if leaf else place[node] for node, leaf in zip(nodes[side], kinds, strict=True)]
        for i, child in enumerate(children[side]):
            if child is not None:
                parent[child] = i
    depth = [0] * len(own)
    for i, above in enumerate(parent):  # a tree's nodes are numbered from the root down
        depth[i] = 1 if above is None else depth[above] + 1
    columns: dict[str, list[Any]] = {
        "tree_index": nodes["Tree"].tolist(), "node_depth": depth, "node_index": own,
        "left_child": [None if i is None else own[i] for i in children["Yes"]],
        "right_child": [None if i is None else own[i] for i in children["No"]],
        "parent_index": [None if i is None else own[i] for i in parent],
    }  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    for row, leaf in zip(nodes.itertuples(index=False), kinds, strict=True):
        if leaf:
            rows.append((None, None, None, None, None, None, row.Gain, row.Cover, None))
            continue
        listed = row.Category
        by_category = isinstance(listed, list)
        threshold = "||".join(map(str, listed)) if isinstance(listed, list) else row.Split
        side = "left" if row.Missing == row.Yes else "right"
        rows.append(
            (real[row.Feature], row.Gain, threshold, "==" if by_category else "<", side, "NaN", None, row.Cover, None)
        )
    last = (
        "split_feature", "split_gain", "threshold", "decision_type", "missing_direction", "missing_type", "value",
        "weight", "count",
    )  # fmt: skip
    return columns | {name: list(values) for name, values in zip(last, zip(*rows, strict=True), strict=True)}
