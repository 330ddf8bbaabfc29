"""Stump format: text, a line a tree.

boostrank toy stumps
features<TAB>price<TAB>clicks
0 1.5 -0.25 0.5          column, threshold, value left of it (<=) and right of it (>, missing)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from boostrank.core.errors import ModelError
from boostrank.formats.base import ModelFormat
from boostrank.formats.trees import TreeArrays, Trees

_FIRST = b"boostrank toy stumps\n"


@dataclass
class Stumps:
    """The booster, and what a file says."""

    feature_names: tuple[str, ...]
    trees_: list[tuple[int, float, float, float]]

    def scores(self, rows: np.ndarray, rounds: int = 0) -> np.ndarray:
        scores = np.zeros(len(rows))
        for column, threshold, left, right in self.trees_[: rounds or None]:
            scores += np.where(rows[:, column] <= threshold, left, right)
        return scores

    def first(self, rounds: int) -> Stumps:
        return Stumps(self.feature_names, self.trees_[: rounds or None])

    def to_bytes(self) -> bytes:
        lines = [" ".join(map(repr, tree)) for tree in self.trees_]
        return _FIRST + "\n".join(["\t".join(["features", *self.feature_names]), *lines, ""]).encode()

    def trees(self, n_features: int) -> Trees:
        count = len(self.trees_)
        columns = np.array(self.trees_, dtype=np.float64).reshape(-1, 4)
        ones = np.ones(count, np.int64)
        return TreeArrays(
            nodes=ones,
            leaves=2 * ones,
            feature=columns[:, 0].astype(np.int64),
            threshold=columns[:, 1],
            kind=np.zeros(count, np.uint8),
            left=-ones,
            right=-2 * ones,
            gain=np.abs(columns[:, 3] - columns[:, 2]),
            value=columns[:, 2:].ravel(),
            sets=np.zeros(0, np.uint32),
            set_sizes=np.zeros(0, np.int64),
            tree_sets=0 * ones,
        ).joined(n_features, double=True)


class ToyFormat(ModelFormat):
    name = "toy"
    title = "toy stumps"

    def recognises(self, body: bytes) -> bool:
        return body.startswith(_FIRST)

    def parse(self, body: bytes) -> Stumps:
        try:
            _, names, *lines, last = body.decode().split("\n")
            label, *features = names.split("\t")
            trees = [(int(a), float(b), float(c), float(d)) for a, b, c, d in (line.split(" ") for line in lines)]
        except ValueError:
            raise ModelError("these are no toy stumps: the file is damaged") from None
        if label != "features" or last or any(not 0 <= tree[0] < len(features) for tree in trees):
            raise ModelError("these are no toy stumps: the file is damaged")
        return Stumps(tuple(features), trees)

    def merge(self, models: Sequence[Stumps]) -> bytes:
        n = len(models)
        trees = [(column, t, left / n, right / n) for one in models for column, t, left, right in one.trees_]
        return Stumps(models[0].feature_names, trees).to_bytes()


TOY = ToyFormat()
