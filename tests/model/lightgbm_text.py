"""Edits of a LightGBM model text, and a tree of any depth."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.model.real_models import lightgbm_models


def resize_trees(text: str) -> str:
    """The text with the tree_sizes that its trees have now: only a hostile writer keeps this in
    order.
    """
    trees = text[text.index("Tree=") : text.index("end of trees")]
    sizes = " ".join(
        str(len(part.encode())) for part in re.findall(r"Tree=(?:(?!Tree=).)*", trees, re.DOTALL)
    )
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1, flags=re.MULTILINE)


def set_line(key: str, value: str, *, tree: int = 0) -> Callable[[str], str]:
    """Replace one line of one tree."""

    def edit(text: str) -> str:
        start = text.index(f"Tree={tree}\n")
        return resize_trees(
            text[:start] + re.sub(rf"(?m)^{key}=.*$", f"{key}={value}", text[start:], count=1)
        )

    return edit


def set_entry(key: str, position: int, value: str) -> Callable[[str], str]:
    """Replace one number of the first tree."""

    def edit(text: str) -> str:
        words = re.search(rf"(?m)^{key}=(.*)$", text[text.index("Tree=0") :])[1].split(" ")
        words[position] = value
        return set_line(key, " ".join(words))(text)

    return edit


def set_header(pattern: str, value: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, value, text, count=1, flags=re.MULTILINE)


def make_chain(depth: int) -> str:
    """A tree whose every right child is the next node."""
    template = lightgbm_models()["lambdarank"]
    nodes = depth
    fields = {
        "num_leaves": str(nodes + 1),
        "split_feature": " ".join(["0"] * nodes),
        "split_gain": " ".join(["1"] * nodes),
        "threshold": " ".join(["0"] * nodes),
        "decision_type": " ".join(["2"] * nodes),
        "left_child": " ".join(str(~i) for i in range(nodes)),
        "right_child": " ".join([*map(str, range(1, nodes)), str(~nodes)]),
        "leaf_value": " ".join(["0.5"] * (nodes + 1)),
        "leaf_weight": " ".join(["1"] * (nodes + 1)),
        "leaf_count": " ".join(["1"] * (nodes + 1)),
        "internal_value": " ".join(["1"] * nodes),
        "internal_weight": " ".join(["1"] * nodes),
        "internal_count": " ".join(["1"] * nodes),
    }
    for key, value in fields.items():
        template = set_line(key, value)(template)
    return template
